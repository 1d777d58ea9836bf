//! TLS: whom to trust, and the client certificate.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use svc_step::{Failure, Secret, file};
use ureq::tls::{Certificate, ClientCert, PemItem, PrivateKey, TlsConfig, parse_pem};

/// The connection cannot be made as it was given.
pub(super) fn invalid(message: impl Into<String>, hint: impl Into<String>) -> Failure {
    Failure::usage("settings_invalid", message).hint(hint)
}

/// Errors: The file of certificates is not right (2) or cannot be read.
pub(super) fn config(ca_cert: Option<&Path>, client: Option<ClientCert>, insecure: bool) -> Result<TlsConfig, Failure> {
    let config = TlsConfig::builder().client_cert(client).disable_verification(insecure);
    Ok(match ca_cert {
        Some(path) => config.root_certs(of_ureq(&file::certificates(path, "--ca-cert (SVC_SEARCH_CA)")?).into()),
        None => config,
    }
    .build())
}

/// The client certificate with its key, which may stand in the same file.
pub(super) fn client(certificate: Option<&Path>, key: Option<&Path>) -> Result<Option<ClientCert>, Failure> {
    let Some(path) = certificate else {
        let hint = "Name the certificate with --client-cert (SVC_SEARCH_CLIENT_CERT).";
        return key.map_or(Ok(None), |_| Err(invalid("A client's private key is given without its certificate.", hint)));
    };
    let chain = file::certificates(path, "--client-cert (SVC_SEARCH_CLIENT_CERT)")?;
    let key_path = key.unwrap_or(path);
    let key = private_key(key_path)?;
    let own = of_ureq(&chain).collect::<Vec<_>>();
    match_key(chain, &key).map_err(|error| {
        invalid(
            format!("The certificate {} and the key {} do not belong together.", path.display(), key_path.display()),
            "Compare their public keys: openssl x509 -in CERT -noout -pubkey, openssl pkey -in KEY -pubout.",
        )
        .cause(error)
    })?;
    Ok(Some(ClientCert::new_with_certs(&own, key)))
}

fn of_ureq(certificates: &[CertificateDer<'_>]) -> impl Iterator<Item = Certificate<'static>> {
    certificates.iter().map(|one| Certificate::from_der(one).to_owned())
}

fn private_key(path: &Path) -> Result<PrivateKey<'static>, Failure> {
    let pem = Secret::whole_file("private key", path)?;
    let key = |item| if let Ok(PemItem::PrivateKey(key)) = item { Some(key) } else { None };
    parse_pem(pem.expose().as_bytes()).find_map(key).ok_or_else(|| {
        let encrypted = if pem.expose().contains("ENCRYPTED") { ": it is encrypted" } else { "" };
        invalid(
            format!("The file {} holds no private key that can be used{encrypted}.", path.display()),
            "Name a PEM file of mode 600 with --client-key (SVC_SEARCH_CLIENT_KEY); openssl pkey -in KEY -out FILE removes a passphrase.",
        )
    })
}

/// ureq takes it for granted that the key is that of the certificate.
fn match_key(chain: Vec<CertificateDer<'static>>, key: &PrivateKey<'static>) -> Result<(), String> {
    let key = PrivateKeyDer::try_from(key.der().to_vec()).map_err(str::to_owned)?;
    ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_root_certificates(RootCertStore::empty()).with_client_auth_cert(chain, key))
        .map(drop)
        .map_err(|error| error.to_string())
}
