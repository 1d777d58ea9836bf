//! TLS: whom to trust, and the certificate to show.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use svc_step::secret::Secret;
use svc_step::{Failure, file};
use ureq::tls::{Certificate, ClientCert, PemItem, PrivateKey, RootCerts, TlsConfig, parse_pem};

use super::Connection;
use super::sourced::Setting;

/// A file of certificates is not larger.
const LARGEST: u64 = 16 * 1024 * 1024;

const INSECURE: Setting = Setting { id: "insecure", flag: "--insecure", variable: "SVC_SEARCH_INSECURE" };
const CA: Setting = Setting { id: "ca_cert", flag: "--ca-cert", variable: "SVC_SEARCH_CA" };

impl Connection {
    /// Whether the server's certificate is taken as it comes. Between this and a list of authorities the command line decides.
    ///
    /// # Errors
    /// Both stand at the same place (2).
    pub(super) fn unverified(&self) -> Result<bool, Failure> {
        if !self.args.insecure {
            return Ok(false);
        }
        let (insecure, ca) = (self.sources.source(INSECURE.id), self.sources.source(CA.id));
        match (insecure, ca) {
            (Some(place), Some(other)) if place == other => Err(Failure::usage(
                "search_trust_ambiguous",
                format!("{} trusts any certificate, and {} only some.", INSECURE.at(place), CA.at(place)),
            )
            .hint("Leave one of them out; --ca-cert (SVC_SEARCH_CA) is the safe one.")),
            (insecure, ca) => Ok(insecure > ca),
        }
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
            config = config.root_certs(RootCerts::new_with_certs(&authorities(path)?));
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
        Err(Failure::usage(
            "client_cert_without_tls",
            "A client certificate can be shown over TLS only, and the search database's address says http://.",
        )
        .hint("Write --url (SVC_SEARCH_URL) as https://HOST:PORT, or leave out --client-cert (SVC_SEARCH_CLIENT_CERT)."))
    }

    fn client_cert(&self) -> Result<Option<ClientCert>, Failure> {
        let Some(path) = &self.args.client_cert else {
            return match &self.args.client_key {
                None => Ok(None),
                Some(_) => {
                    Err(Failure::usage("client_cert_missing", "There is a client's private key, but no certificate to it.")
                        .hint("Name the certificate with --client-cert (SVC_SEARCH_CLIENT_CERT)."))
                }
            };
        };
        let chain = certificates("client_cert_empty", "--client-cert (SVC_SEARCH_CLIENT_CERT)", path)?;
        let key_file = self.args.client_key.as_ref().unwrap_or(path);
        let key = private_key(key_file)?;
        fits(&chain, &key).map_err(|error| {
            Failure::usage(
                "client_cert_invalid",
                format!("The certificate in {} and the key in {} cannot be used together.", path.display(), key_file.display()),
            )
            .hint("Compare their public keys: openssl x509 -in CERT -noout -pubkey, openssl pkey -in KEY -pubout.")
            .cause(error)
        })?;
        Ok(Some(ClientCert::new_with_certs(&chain, key)))
    }
}

fn authorities(path: &Path) -> Result<Vec<Certificate<'static>>, Failure> {
    certificates("ca_cert_empty", "--ca-cert (SVC_SEARCH_CA)", path)
}

/// The certificates of a PEM file, of which there must be one.
fn certificates(code: &str, setting: &str, path: &Path) -> Result<Vec<Certificate<'static>>, Failure> {
    let pem = file::read_text("read the certificates", path, LARGEST)?;
    let certificates: Vec<Certificate<'static>> = parse_pem(pem.as_bytes())
        .filter_map(|item| match item {
            Ok(PemItem::Certificate(certificate)) => Some(certificate),
            _ => None,
        })
        .collect();
    if certificates.is_empty() {
        return Err(Failure::usage(code, format!("The file {} holds no certificate.", path.display()))
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
        let encrypted = pem.expose().contains("ENCRYPTED");
        let what = if encrypted { "The private key in" } else { "There is no private key in" };
        let end = if encrypted { " is encrypted, and nobody could be asked for its passphrase." } else { "." };
        Failure::usage("client_key_missing", format!("{what} {}{end}", path.display())).hint(
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
