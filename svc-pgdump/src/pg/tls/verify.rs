//! Who the server has to be. Besides what webpki reads, libpq accepts certificates of X.509 version 1, as `openssl x509 -req` makes them
//! without extensions (PostgreSQL's own manual does), one that is its own authority (`openssl req -x509`), and the host's name in the
//! subject if a certificate has no other names. As OpenSSL does, this checks each signature, each time, each revocation list, and who
//! may sign.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, ServerName, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use svc_step::{Failure, file};
use x509_cert::certificate::Version;
use x509_cert::crl::CertificateList;
use x509_cert::der::asn1::{AnyRef, ObjectIdentifier};
use x509_cert::der::{Decode, Encode};
use x509_cert::ext::pkix::{BasicConstraints, ExtendedKeyUsage, KeyUsage, SubjectAltName};
use x509_cert::spki::{AlgorithmIdentifierOwned, SubjectPublicKeyInfoOwned};
use x509_cert::{Certificate, TbsCertificate};

/// More of a file of authorities than this is not read; that of a whole distribution has a quarter of a megabyte.
const LONGEST: u64 = 16 * 1024 * 1024;

/// Says who may be at the other end. libpq's `prefer` and `require` protect against listeners, not against another server: no
/// certificate is checked then.
#[derive(Debug)]
pub(super) struct CertificateVerifier {
    /// Wants the certificate to be signed by an authority.
    signed: Option<Signed>,
    by_name: bool,
    provider: Arc<CryptoProvider>,
}

#[derive(Debug)]
struct Signed {
    webpki: Arc<WebPkiServerVerifier>,
    plain: Authorities,
}

impl CertificateVerifier {
    pub(super) const fn none(provider: Arc<CryptoProvider>) -> Self {
        Self { signed: None, by_name: false, provider }
    }

    /// Lets servers pass whose certificate one of the authorities has signed, and nobody revoked.
    pub(super) fn signed_by(
        roots: &Path,
        revoked: Option<&Path>,
        by_name: bool,
        provider: Arc<CryptoProvider>,
    ) -> Result<Self, Failure> {
        let all = authorities(roots)?;
        let mut store = RootCertStore::empty();
        for one in &all {
            store.add(one.clone()).map_err(|error| no_authority(roots, error.to_string()))?;
        }
        let lists = revoked.map(revocations).transpose()?.unwrap_or_default();
        let plain = Authorities::new(&all, &lists, provider.signature_verification_algorithms);
        let builder = WebPkiServerVerifier::builder_with_provider(Arc::new(store), Arc::clone(&provider)).with_crls(lists);
        let webpki = builder.build().map_err(|error| match revoked {
            Some(path) => no_revocations(path, error.to_string()),
            None => no_authority(roots, error.to_string()),
        })?;
        Ok(Self { signed: Some(Signed { webpki, plain }), by_name, provider })
    }
}

impl ServerCertVerifier for CertificateVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(signed) = &self.signed else { return Ok(ServerCertVerified::assertion()) };
        if let Some(own) = signed.plain.own(end_entity) {
            signed.plain.stand_for(&own, intermediates, now)?;
        } else {
            // The name is checked last, so if it is wrong, all else is right.
            match signed.webpki.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
                Err(Error::InvalidCertificate(
                    CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
                )) => {}
                verdict => return verdict,
            }
        }
        if self.by_name {
            is_named(end_entity, server_name)?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        if let Some(own) = of_version_1(certificate) {
            has_key(&own, message, signed, algorithms, false)?;
            return Ok(HandshakeSignatureValid::assertion());
        }
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        if let Some(own) = of_version_1(certificate) {
            has_key(&own, message, signed, algorithms, true)?;
            return Ok(HandshakeSignatureValid::assertion());
        }
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

fn authorities(path: &Path) -> Result<Vec<CertificateDer<'static>>, Failure> {
    let text = read("read the certificate authority", path)?;
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    match all {
        Ok(all) if !all.is_empty() => Ok(all),
        Ok(_) => Err(no_authority(path, "no PEM certificate in it".to_owned())),
        Err(error) => Err(no_authority(path, error.to_string())),
    }
}

fn no_authority(path: &Path, error: String) -> Failure {
    Failure::invalid("sslrootcert_invalid", format!("The file {} of PGSSLROOTCERT holds no certificate.", path.display()))
        .hint("Name a file of PEM certificates.")
        .cause(error)
}

fn revocations(path: &Path) -> Result<Vec<CertificateRevocationListDer<'static>>, Failure> {
    let lists: Result<Vec<_>, _> =
        CertificateRevocationListDer::pem_slice_iter(&read("read the revocation list", path)?).collect();
    match lists {
        Ok(lists) if !lists.is_empty() => Ok(lists),
        Ok(_) => Err(no_revocations(path, "no PEM revocation list in it".to_owned())),
        Err(error) => Err(no_revocations(path, error.to_string())),
    }
}

fn no_revocations(path: &Path, error: String) -> Failure {
    Failure::invalid("sslcrl_invalid", format!("The file {} of PGSSLCRL holds no revocation list.", path.display()))
        .hint("Name a file of PEM revocation lists, or unset PGSSLCRL.")
        .cause(error)
}

fn read(action: &str, path: &Path) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let file = file::open_regular(action, path)?;
    file.take(LONGEST).read_to_end(&mut bytes).map_err(|error| Failure::io(action, path, &error))?;
    Ok(bytes)
}

/// So many certificates may stand between the server's and the authority's.
const LONGEST_CHAIN: u8 = 4;
/// `commonName`, and the use of a certificate for a server.
const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");
const FOR_SERVERS: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.1");
/// Extensions that are checked here, or restrict nothing: key identifiers, key usage, names, constraints, use.
const KNOWN: [&str; 6] = ["2.5.29.14", "2.5.29.15", "2.5.29.17", "2.5.29.19", "2.5.29.35", "2.5.29.37"];

/// Who may sign a server's certificate, and what they have revoked.
#[derive(Debug)]
struct Authorities {
    roots: Vec<Certificate>,
    lists: Vec<CertificateList>,
    algorithms: WebPkiSupportedAlgorithms,
}

/// A certificate that webpki does not read: of version 1.
fn of_version_1(certificate: &CertificateDer<'_>) -> Option<Certificate> {
    Certificate::from_der(certificate).ok().filter(|read| read.tbs_certificate.version == Version::V1)
}

impl Authorities {
    /// Of certificates and lists that webpki may not read; what cannot be read at all is left out.
    fn new(
        roots: &[CertificateDer<'_>],
        lists: &[CertificateRevocationListDer<'_>],
        algorithms: WebPkiSupportedAlgorithms,
    ) -> Self {
        Self {
            roots: roots.iter().filter_map(|root| Certificate::from_der(root).ok()).collect(),
            lists: lists.iter().filter_map(|list| CertificateList::from_der(list).ok()).collect(),
            algorithms,
        }
    }

    /// The server's certificate, where it is one that webpki would not take whoever signed it.
    fn own(&self, certificate: &CertificateDer<'_>) -> Option<Certificate> {
        let read = Certificate::from_der(certificate).ok()?;
        (read.tbs_certificate.version == Version::V1 || self.is_its_own_authority(&read)).then_some(read)
    }

    fn is_its_own_authority(&self, certificate: &Certificate) -> bool {
        let own = &certificate.tbs_certificate;
        own.issuer == own.subject && self.roots.contains(certificate)
    }

    fn stand_for(&self, leaf: &Certificate, between: &[CertificateDer<'_>], now: UnixTime) -> Result<(), Error> {
        in_time(leaf, now)?;
        let own = &leaf.tbs_certificate;
        let usage = extension::<ExtendedKeyUsage>(own)?;
        if !knows_all_critical(own) || usage.is_some_and(|usage| !usage.0.contains(&FOR_SERVERS)) {
            return Err(CertificateError::InvalidPurpose.into());
        }
        if self.is_its_own_authority(leaf) {
            return self.signed(leaf, leaf).and_then(|()| self.not_revoked(leaf, leaf, now));
        }
        let between: Vec<Certificate> = between.iter().filter_map(|one| Certificate::from_der(one).ok()).collect();
        self.chain(leaf, &between, 0, now)
    }

    /// The certificate is signed by an authority, or by one of `between` that is; `below` many of these are below it.
    fn chain(&self, child: &Certificate, between: &[Certificate], below: u8, now: UnixTime) -> Result<(), Error> {
        let mut refused = CertificateError::UnknownIssuer.into();
        let signs = |issuer: &&Certificate| issuer.tbs_certificate.subject == child.tbs_certificate.issuer;
        // OpenSSL trusts no authority that another one has signed, unless that one is trusted too.
        let is_root = |one: &&Certificate| one.tbs_certificate.issuer == one.tbs_certificate.subject;
        for root in self.roots.iter().filter(signs).filter(is_root) {
            match self.step(child, root, true, below, now) {
                Ok(()) => return Ok(()),
                Err(error) => refused = error,
            }
        }
        if below < LONGEST_CHAIN {
            for issuer in between.iter().chain(&self.roots).filter(signs).filter(|one| !is_root(one)) {
                match self.step(child, issuer, false, below, now).and_then(|()| self.chain(issuer, between, below + 1, now)) {
                    Ok(()) => return Ok(()),
                    Err(error) => refused = error,
                }
            }
        }
        Err(refused)
    }

    fn step(&self, child: &Certificate, issuer: &Certificate, is_root: bool, below: u8, now: UnixTime) -> Result<(), Error> {
        in_time(issuer, now)?;
        may_sign(&issuer.tbs_certificate, is_root, below)?;
        self.signed(child, issuer)?;
        self.not_revoked(child, issuer, now)
    }

    fn signed(&self, child: &Certificate, issuer: &Certificate) -> Result<(), Error> {
        let signature = child.signature.raw_bytes();
        self.verifies(&der(&child.tbs_certificate)?, &child.signature_algorithm, signature, issuer)
    }

    fn verifies(&self, text: &[u8], how: &AlgorithmIdentifierOwned, signature: &[u8], issuer: &Certificate) -> Result<(), Error> {
        let (key, key_kind) = key_of(&issuer.tbs_certificate.subject_public_key_info)?;
        let how = inner(how)?;
        let fits = |one: &&&dyn rustls::pki_types::SignatureVerificationAlgorithm| {
            one.signature_alg_id().as_ref() == how.as_slice() && one.public_key_alg_id().as_ref() == key_kind.as_slice()
        };
        let good = self.algorithms.all.iter().filter(fits).any(|one| one.verify_signature(key, text, signature).is_ok());
        if good { Ok(()) } else { Err(CertificateError::BadSignature.into()) }
    }

    /// Where there are lists, the issuer must have one, as for webpki.
    fn not_revoked(&self, child: &Certificate, issuer: &Certificate, now: UnixTime) -> Result<(), Error> {
        if self.lists.is_empty() {
            return Ok(());
        }
        let of_issuer = |list: &&CertificateList| {
            let own = &list.tbs_cert_list;
            own.issuer == issuer.tbs_certificate.subject
                && own.next_update.is_none_or(|next| since(now) <= next.to_unix_duration())
                && der(own)
                    .is_ok_and(|text| self.verifies(&text, &list.signature_algorithm, list.signature.raw_bytes(), issuer).is_ok())
        };
        let list = self.lists.iter().find(of_issuer).ok_or(CertificateError::UnknownRevocationStatus)?;
        let serial = &child.tbs_certificate.serial_number;
        let revoked = list.tbs_cert_list.revoked_certificates.iter().flatten().any(|one| one.serial_number == *serial);
        if revoked { Err(CertificateError::Revoked.into()) } else { Ok(()) }
    }
}

/// The host's name is in the certificate: as another name, or in the subject where it has no other names, as for libpq.
fn is_named(certificate: &CertificateDer<'_>, name: &ServerName<'_>) -> Result<(), Error> {
    let other = Error::from(CertificateError::NotValidForName);
    let read = Certificate::from_der(certificate).map_err(|_| CertificateError::BadEncoding)?;
    if extension::<SubjectAltName>(&read.tbs_certificate)?.is_some() {
        let parsed = rustls::server::ParsedCertificate::try_from(certificate)?;
        return rustls::client::verify_server_name(&parsed, name);
    }
    let parts = read.tbs_certificate.subject.0.iter().flat_map(|part| part.0.iter());
    let mut names = parts.filter(|part| part.oid == COMMON_NAME).filter_map(|part| std::str::from_utf8(part.value.value()).ok());
    if names.any(|own| is_called(own, &name.to_str())) { Ok(()) } else { Err(other) }
}

/// A star stands for the first part of a name.
fn is_called(own: &str, host: &str) -> bool {
    let rest = own.strip_prefix("*.").zip(host.split_once('.')).filter(|(rest, _)| rest.contains('.'));
    own.eq_ignore_ascii_case(host) || rest.is_some_and(|(rest, (_, of_host))| rest.eq_ignore_ascii_case(of_host))
}

/// The server has the key of its certificate of version 1.
fn has_key(
    certificate: &Certificate,
    message: &[u8],
    signed: &DigitallySignedStruct,
    algorithms: &WebPkiSupportedAlgorithms,
    is_tls_1_3: bool,
) -> Result<(), Error> {
    let (key, key_kind) = key_of(&certificate.tbs_certificate.subject_public_key_info)?;
    let old = [
        SignatureScheme::RSA_PKCS1_SHA1,
        SignatureScheme::RSA_PKCS1_SHA256,
        SignatureScheme::RSA_PKCS1_SHA384,
        SignatureScheme::RSA_PKCS1_SHA512,
    ];
    let offered =
        algorithms.mapping.iter().filter(|(scheme, _)| *scheme == signed.scheme && !(is_tls_1_3 && old.contains(scheme)));
    // TLS 1.3 binds a scheme to one kind of key, which is the first.
    let mut all = offered.flat_map(|(_, all)| all.iter().take(if is_tls_1_3 { 1 } else { all.len() }));
    let good = all.any(|one| {
        one.public_key_alg_id().as_ref() == key_kind.as_slice() && one.verify_signature(key, message, signed.signature()).is_ok()
    });
    if good { Ok(()) } else { Err(CertificateError::BadSignature.into()) }
}

fn in_time(certificate: &Certificate, now: UnixTime) -> Result<(), Error> {
    let valid = &certificate.tbs_certificate.validity;
    if since(now) < valid.not_before.to_unix_duration() {
        return Err(CertificateError::NotValidYet.into());
    }
    if since(now) > valid.not_after.to_unix_duration() {
        return Err(CertificateError::Expired.into());
    }
    Ok(())
}

fn since(now: UnixTime) -> Duration {
    Duration::from_secs(now.as_secs())
}

/// One of version 1 says nothing of it, and may where it is an authority that is trusted as such.
fn may_sign(issuer: &TbsCertificate, is_root: bool, below: u8) -> Result<(), Error> {
    let may = if issuer.version == Version::V1 {
        is_root && issuer.issuer == issuer.subject
    } else {
        let constraints = extension::<BasicConstraints>(issuer)?;
        let usage = extension::<KeyUsage>(issuer)?;
        constraints.is_some_and(|own| own.ca && own.path_len_constraint.is_none_or(|longest| below <= longest))
            && usage.is_none_or(|usage| usage.key_cert_sign())
            && knows_all_critical(issuer)
    };
    if may { Ok(()) } else { Err(CertificateError::UnknownIssuer.into()) }
}

fn knows_all_critical(certificate: &TbsCertificate) -> bool {
    let all = certificate.extensions.iter().flatten();
    all.filter(|one| one.critical).all(|one| KNOWN.contains(&one.extn_id.to_string().as_str()))
}

fn extension<'a, T: Decode<'a> + x509_cert::der::oid::AssociatedOid>(
    certificate: &'a TbsCertificate,
) -> Result<Option<T>, Error> {
    let found = certificate.get::<T>().map_err(|_| CertificateError::BadEncoding)?;
    Ok(found.map(|(_, own)| own))
}

fn key_of(key: &SubjectPublicKeyInfoOwned) -> Result<(&[u8], Vec<u8>), Error> {
    Ok((key.subject_public_key.raw_bytes(), inner(&key.algorithm)?))
}

/// What is within the outer sequence, as webpki names algorithms.
fn inner(algorithm: &AlgorithmIdentifierOwned) -> Result<Vec<u8>, Error> {
    let der = der(algorithm)?;
    let any = AnyRef::from_der(&der).map_err(|_| CertificateError::BadEncoding)?;
    Ok(any.value().to_vec())
}

fn der(value: &impl Encode) -> Result<Vec<u8>, Error> {
    value.to_der().map_err(|_| CertificateError::BadEncoding.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_the_first_part_of_a_name_only() {
        for (own, host, fits) in [
            ("db.test", "DB.test", true),
            ("db.test", "db2.test", false),
            ("*.example.org", "db.example.org", true),
            ("*.example.org", "a.db.example.org", false),
            ("*.example.org", "example.org", false),
            ("*.org", "example.org", false),
            ("127.0.0.1", "127.0.0.1", true),
        ] {
            assert_eq!(is_called(own, host), fits, "{own}, {host}");
        }
    }
}
