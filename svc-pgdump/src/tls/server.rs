//! Who the server has to be.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, ServerName, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, RootCertStore, SignatureScheme};
use svc_step::{Failure, file};

use super::plain::{self, Authorities};

/// More of a file of authorities than this is not read; that of a whole distribution has a quarter of a megabyte.
const LONGEST: u64 = 16 * 1024 * 1024;

/// Says who may be at the other end. libpq's `prefer` and `require` protect against listeners, not against another server: no
/// certificate is looked at then.
#[derive(Debug)]
pub(super) struct Judge {
    /// Wants the certificate to be signed by an authority.
    signed: Option<Signed>,
    /// Wants the host's name in it too.
    by_name: bool,
    provider: Arc<CryptoProvider>,
}

/// The two who know whether it is.
#[derive(Debug)]
struct Signed {
    webpki: Arc<WebPkiServerVerifier>,
    /// For what webpki does not read.
    plain: Authorities,
}

impl Judge {
    /// Lets any server pass.
    pub(super) const fn of_any(provider: Arc<CryptoProvider>) -> Self {
        Self { signed: None, by_name: false, provider }
    }

    /// Lets servers pass whose certificate one of the authorities has signed, and nobody revoked.
    ///
    /// # Errors
    /// A file cannot be read (3, 4) or does not hold what it is to hold (7).
    pub(super) fn of_signed(
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

impl ServerCertVerifier for Judge {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let Some(signed) = &self.signed else { return Ok(ServerCertVerified::assertion()) };
        if let Some(own) = signed.plain.own(end_entity) {
            signed.plain.stand_for(&own, intermediates, now)?;
        } else {
            // The name is looked at last, so one that is wrong says that all else is right.
            match signed.webpki.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
                Err(rustls::Error::InvalidCertificate(
                    CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
                )) => {}
                verdict => return verdict,
            }
        }
        if self.by_name {
            plain::is_named(end_entity, server_name)?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        if let Some(own) = plain::of_version_1(certificate) {
            plain::has_key(&own, message, signed, algorithms, false)?;
            return Ok(HandshakeSignatureValid::assertion());
        }
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        if let Some(own) = plain::of_version_1(certificate) {
            plain::has_key(&own, message, signed, algorithms, true)?;
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
