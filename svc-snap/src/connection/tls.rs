//! TLS: whom to trust, and the certificate to show.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use svc_step::secret::Secret;
use svc_step::{Failure, file};
use ureq::tls::{Certificate, ClientCert, PemItem, PrivateKey, RootCerts, TlsConfig, parse_pem};

use super::Connection;

/// A file of certificates is not larger.
const LARGEST: u64 = 16 * 1024 * 1024;

/// A certificate or its key cannot be used.
fn invalid(message: impl Into<String>) -> Failure {
    Failure::usage("certificate_invalid", message)
}

impl Connection {
    /// Whether the server's certificate is taken as it comes.
    ///
    /// # Errors
    /// An authority to trust is given too (2).
    pub(super) fn unverified(&self) -> Result<bool, Failure> {
        if self.args.insecure && self.args.ca_cert.is_some() {
            let message = "--insecure (SVC_SEARCH_INSECURE) trusts any certificate, and --ca-cert (SVC_SEARCH_CA) only some.";
            return Err(
                Failure::usage("search_trust_ambiguous", message).hint("Leave one of them out; --ca-cert is the safe one.")
            );
        }
        Ok(self.args.insecure)
    }

    /// The settings of a connection over TLS.
    ///
    /// # Errors
    /// A file of certificates or of the key is not right (2) or cannot be used.
    pub(super) fn tls(&self, unverified: bool) -> Result<TlsConfig, Failure> {
        let mut config = TlsConfig::builder().client_cert(self.client_cert()?);
        if unverified {
            config = config.disable_verification(true);
        } else if let Some(path) = &self.args.ca_cert {
            config = config.root_certs(RootCerts::new_with_certs(&certificates("--ca-cert (SVC_SEARCH_CA)", path)?));
        }
        Ok(config.build())
    }

    /// The settings of a connection without TLS, over which no certificate can be shown.
    ///
    /// # Errors
    /// One is to be shown (2).
    pub(super) fn no_tls(&self) -> Result<TlsConfig, Failure> {
        if self.args.client_cert.is_none() {
            return Ok(TlsConfig::default());
        }
        Err(invalid("A client certificate is shown over TLS only, and the address says http://.")
            .hint("Write --url (SVC_SEARCH_URL) as https://HOST:PORT, or leave out --client-cert (SVC_SEARCH_CLIENT_CERT)."))
    }

    fn client_cert(&self) -> Result<Option<ClientCert>, Failure> {
        let Some(path) = &self.args.client_cert else {
            let alone = self.args.client_key.as_ref().map(|_| {
                invalid("A client's private key is given without its certificate.")
                    .hint("Name the certificate with --client-cert (SVC_SEARCH_CLIENT_CERT).")
            });
            return alone.map_or(Ok(None), Err);
        };
        let chain = certificates("--client-cert (SVC_SEARCH_CLIENT_CERT)", path)?;
        let key_file = self.args.client_key.as_ref().unwrap_or(path);
        let key = private_key(key_file)?;
        fits(&chain, &key).map_err(|error| {
            invalid(format!("The certificate {} and the key {} do not belong together.", path.display(), key_file.display()))
                .hint("Compare their public keys: openssl x509 -in CERT -noout -pubkey, openssl pkey -in KEY -pubout.")
                .cause(error)
        })?;
        Ok(Some(ClientCert::new_with_certs(&chain, key)))
    }
}

/// The certificates of a PEM file.
fn certificates(setting: &str, path: &Path) -> Result<Vec<Certificate<'static>>, Failure> {
    let pem = file::read_text("read the certificates", path, LARGEST)?;
    let certificates: Vec<Certificate<'static>> = parse_pem(pem.as_bytes())
        .filter_map(|item| match item {
            Ok(PemItem::Certificate(certificate)) => Some(certificate),
            _ => None,
        })
        .collect();
    if certificates.is_empty() {
        return Err(invalid(format!("The file {} holds no certificate.", path.display()))
            .hint(format!("Name a PEM file (-----BEGIN CERTIFICATE-----) with {setting}.")));
    }
    Ok(certificates)
}

fn private_key(path: &Path) -> Result<PrivateKey<'static>, Failure> {
    let pem = Secret::whole_file("private key", path)?;
    let found = parse_pem(pem.expose().as_bytes()).find_map(|item| match item {
        Ok(PemItem::PrivateKey(key)) => Some(key),
        _ => None,
    });
    found.ok_or_else(|| {
        let encrypted = if pem.expose().contains("ENCRYPTED") { ": it is encrypted" } else { "" };
        invalid(format!("The file {} holds no private key that can be used{encrypted}.", path.display())).hint(
            "Name a PEM file of mode 600 with --client-key (SVC_SEARCH_CLIENT_KEY); openssl pkey -in KEY -out FILE takes a passphrase off.",
        )
    })
}

/// Whether the key is that of the certificate: ureq takes it for granted.
fn fits(chain: &[Certificate<'static>], key: &PrivateKey<'static>) -> Result<(), String> {
    let chain = chain.iter().map(|one| CertificateDer::from(one.der().to_vec())).collect();
    let key = PrivateKeyDer::try_from(key.der().to_vec()).map_err(str::to_owned)?;
    ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_root_certificates(RootCertStore::empty()).with_client_auth_cert(chain, key))
        .map(drop)
        .map_err(|error| error.to_string())
}
