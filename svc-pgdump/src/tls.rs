//! TLS to the server by `PGSSLMODE`, through rustls.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use postgres::config::SslMode;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use svc_step::{Failure, file};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::environment::Environment;

/// More of a file of authorities than this is not read; that of a whole distribution has a quarter of a megabyte.
const LONGEST: u64 = 16 * 1024 * 1024;

/// How a connection over the network is protected; a socket never is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tls {
    mode: Mode,
    /// The file of `PGSSLROOTCERT`, for `verify-full`.
    roots: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Disable,
    Prefer,
    Require,
    VerifyFull,
}

impl Tls {
    pub(crate) const fn disabled() -> Self {
        Self { mode: Mode::Disable, roots: None }
    }

    /// `PGSSLMODE` (libpq's default: prefer) and `PGSSLROOTCERT`.
    ///
    /// # Errors
    /// A mode or another demand that is not supported, or an authority that is not named (2).
    pub(crate) fn from_environment(env: &Environment) -> Result<Self, Failure> {
        env.refuse(&["PGSSLCERT", "PGSSLKEY", "PGSSLCRL", "PGSSLCRLDIR"], &[])?;
        env.refuse(&["PGCHANNELBINDING", "PGGSSENCMODE"], &["disable", "allow", "prefer"])?;
        let roots = env.path("PGSSLROOTCERT");
        let mode = match env.text("PGSSLMODE").as_deref() {
            Some("disable") => Mode::Disable,
            None | Some("allow" | "prefer") => Mode::Prefer,
            Some("require") => Mode::Require,
            Some("verify-full") if roots.is_some() => Mode::VerifyFull,
            Some("verify-full") => {
                return Err(Failure::usage(
                    "sslrootcert_missing",
                    "PGSSLMODE is verify-full, and no certificate authority is named.",
                )
                .hint("Name the file of the authority's certificate in PGSSLROOTCERT."));
            }
            Some(other) => {
                return Err(Failure::usage("sslmode_unsupported", format!("PGSSLMODE `{other}` is not supported."))
                    .hint("Set PGSSLMODE to disable, prefer, require or verify-full."));
            }
        };
        Ok(Self { mode, roots })
    }

    /// What `PGSSLMODE` of a child is.
    pub(crate) const fn name(&self) -> &'static str {
        match self.mode {
            Mode::Disable => "disable",
            Mode::Prefer => "prefer",
            Mode::Require => "require",
            Mode::VerifyFull => "verify-full",
        }
    }

    pub(crate) const fn roots(&self) -> Option<&PathBuf> {
        self.roots.as_ref()
    }

    pub(crate) const fn ssl_mode(&self) -> SslMode {
        match self.mode {
            Mode::Disable => SslMode::Disable,
            Mode::Prefer => SslMode::Prefer,
            Mode::Require | Mode::VerifyFull => SslMode::Require,
        }
    }

    /// The connector; `None` where there is to be no TLS.
    ///
    /// # Errors
    /// The file of certificate authorities cannot be read (4, 7).
    pub(crate) fn connector(&self) -> Result<Option<MakeRustlsConnect>, Failure> {
        if self.mode == Mode::Disable {
            return Ok(None);
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| Failure::failed("tls_unusable", "TLS cannot be set up.").cause(error.to_string()))?;
        let config = match (&self.mode, &self.roots) {
            (Mode::VerifyFull, Some(path)) => builder.with_root_certificates(authorities(path)?).with_no_client_auth(),
            _ => builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyServer(provider))).with_no_client_auth(),
        };
        Ok(Some(MakeRustlsConnect::new(config)))
    }
}

fn authorities(path: &Path) -> Result<RootCertStore, Failure> {
    let bad = |error: String| {
        Failure::invalid("sslrootcert_invalid", format!("The file {} of PGSSLROOTCERT holds no certificate.", path.display()))
            .hint("Name a file of PEM certificates.")
            .cause(error)
    };
    let action = "read the certificate authority";
    let mut bytes = Vec::new();
    let file = file::open_regular(action, path)?;
    file.take(LONGEST).read_to_end(&mut bytes).map_err(|error| Failure::io(action, path, &error))?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&bytes) {
        let certificate = certificate.map_err(|error| bad(error.to_string()))?;
        roots.add(certificate).map_err(|error| bad(error.to_string()))?;
    }
    if roots.is_empty() { Err(bad("no PEM certificate in it".to_owned())) } else { Ok(roots) }
}

/// libpq's `prefer` and `require` protect against listeners, not against another server: no certificate is looked at.
#[derive(Debug)]
struct AnyServer(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyServer {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_modes_of_libpq_are_known_or_refused() {
        let mode = |pairs: &[(&str, &str)]| Tls::from_environment(&Environment::of(pairs)).map(|tls| tls.name());
        assert_eq!(mode(&[]).unwrap(), "prefer");
        assert_eq!(mode(&[("PGSSLMODE", "require")]).unwrap(), "require");
        assert_eq!(mode(&[("PGSSLMODE", "verify-ca")]).unwrap_err().code, "sslmode_unsupported");
        assert_eq!(mode(&[("PGSSLMODE", "verify-full")]).unwrap_err().code, "sslrootcert_missing");
        assert_eq!(mode(&[("PGSSLMODE", "verify-full"), ("PGSSLROOTCERT", "/ca")]).unwrap(), "verify-full");
        for name in ["PGSSLCERT", "PGSSLKEY", "PGSSLCRL", "PGCHANNELBINDING", "PGGSSENCMODE"] {
            assert_eq!(mode(&[(name, "require")]).unwrap_err().code, "environment_unsupported", "{name}");
        }
        assert_eq!(mode(&[("PGCHANNELBINDING", "prefer"), ("PGGSSENCMODE", "disable"), ("PGSSLCERT", "")]).unwrap(), "prefer");
    }
}
