//! TLS to the server, by libpq's variables and files, through rustls.

mod verify;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use postgres::Config;
use postgres::config::{ChannelBinding, SslMode};
use rustls::client::WantsClientCert;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, ConfigBuilder};
use svc_step::secret::Secret;
use svc_step::{Failure, file};
use tokio_postgres_rustls::MakeRustlsConnect;

use self::verify::CertificateVerifier;
use super::environment::Environment;

/// A path that cannot be: it keeps libpq from looking at its own places too.
pub(super) const NO_FILE: &str = "/dev/null/none";

/// How a connection over the network is protected; a socket never is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tls {
    mode: Mode,
    roots: Option<PathBuf>,
    revoked: Option<PathBuf>,
    identity: Option<Identity>,
    /// SCRAM bound to the channel, so that nobody sits between (`PGCHANNELBINDING`).
    binding: ChannelBinding,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Disable,
    Prefer,
    Require,
    VerifyCa,
    VerifyFull,
}

impl Mode {
    const fn verifies(self) -> bool {
        matches!(self, Self::VerifyCa | Self::VerifyFull)
    }
}

impl Tls {
    pub(super) const fn disabled() -> Self {
        Self { mode: Mode::Disable, roots: None, revoked: None, identity: None, binding: ChannelBinding::Prefer }
    }

    /// `PGSSLMODE` (libpq's default: prefer) and what belongs to it. As in libpq, `require` with a certificate of an authority
    /// at hand (`PGSSLROOTCERT`, `~/.postgresql/root.crt`) is `verify-ca`.
    pub(super) fn from_environment(env: &Environment) -> Result<Self, Failure> {
        env.refuse(&["PGSSLCRLDIR", "PGREQUIRESSL"], &["0"])?;
        env.refuse(&["PGGSSENCMODE"], &["disable", "allow", "prefer"])?;
        env.refuse(&["PGSSLCERTMODE", "PGSSLNEGOTIATION"], &["allow", "postgres"])?;
        env.refuse(&["PGSSLMINPROTOCOLVERSION"], &["TLSv1", "TLSv1.1", "TLSv1.2"])?;
        env.refuse(&["PGSSLMAXPROTOCOLVERSION"], &["TLSv1.3"])?;
        let roots = env.path("PGSSLROOTCERT").or_else(|| env.of_home("root.crt"));
        let mode = mode(env.text("PGSSLMODE").as_deref(), roots.is_some())?;
        if mode.verifies() && env.text("PGSSLROOTCERT").as_deref() == Some("system") {
            return Err(Failure::usage(
                "sslrootcert_missing",
                "PGSSLROOTCERT is `system`, and the host's own authorities are not looked up.",
            )
            .hint("Name their file: PGSSLROOTCERT=/etc/ssl/certs/ca-certificates.crt on Debian."));
        }
        let binding = match env.text("PGCHANNELBINDING").as_deref() {
            None | Some("prefer") => ChannelBinding::Prefer,
            Some("disable") => ChannelBinding::Disable,
            Some("require") => ChannelBinding::Require,
            Some(other) => {
                return Err(Failure::usage("environment_invalid", format!("PGCHANNELBINDING is `{other}`, which it cannot be."))
                    .hint("Set PGCHANNELBINDING to disable, prefer or require."));
            }
        };
        if mode == Mode::Disable {
            return Ok(Self { binding, ..Self::disabled() });
        }
        let revoked = env.path("PGSSLCRL").or_else(|| env.of_home("root.crl"));
        Ok(Self {
            mode,
            roots: roots.filter(|_| mode.verifies()),
            revoked: revoked.filter(|_| mode.verifies()),
            identity: Identity::from_environment(env)?,
            binding,
        })
    }

    pub(super) const fn shows_certificate(&self) -> bool {
        self.identity.is_some()
    }

    /// What `PGSSLMODE` of a child is.
    const fn name(&self) -> &'static str {
        match self.mode {
            Mode::Disable => "disable",
            Mode::Prefer => "prefer",
            Mode::Require => "require",
            Mode::VerifyCa => "verify-ca",
            Mode::VerifyFull => "verify-full",
        }
    }

    /// Gives a program that uses libpq the same, and keeps it from its own places.
    pub(super) fn child_env(&self, command: &mut Command) {
        let path = |path: Option<&PathBuf>| path.map_or_else(|| NO_FILE.into(), |path| path.clone().into_os_string());
        let identity = self.identity.as_ref();
        command.env("PGSSLMODE", self.name()).env("PGSSLROOTCERT", path(self.roots.as_ref()));
        command.env("PGSSLCRL", path(self.revoked.as_ref()));
        command.env("PGSSLCERT", path(identity.map(|identity| &identity.certificate)));
        command.env("PGSSLKEY", path(identity.map(|identity| &identity.key)));
        let binding = match self.binding {
            ChannelBinding::Disable => "disable",
            ChannelBinding::Require => "require",
            _ => "prefer",
        };
        // Our own connection knows no GSSAPI, so theirs is not to try it first.
        command.env("PGCHANNELBINDING", binding).env("PGGSSENCMODE", "disable");
    }

    /// What a connection of our own is to ask for.
    pub(super) fn configure(&self, config: &mut Config) {
        config.ssl_mode(match self.mode {
            Mode::Disable => SslMode::Disable,
            Mode::Prefer => SslMode::Prefer,
            Mode::Require | Mode::VerifyCa | Mode::VerifyFull => SslMode::Require,
        });
        config.channel_binding(self.binding);
    }

    /// The connector; `None` where there is to be no TLS.
    pub(super) fn connector(&self) -> Result<Option<MakeRustlsConnect>, Failure> {
        if self.mode == Mode::Disable {
            return Ok(None);
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| Failure::failed("tls_unusable", "TLS cannot be set up.").cause(error.to_string()))?;
        let verifier = match &self.roots {
            Some(roots) => {
                CertificateVerifier::signed_by(roots, self.revoked.as_deref(), self.mode == Mode::VerifyFull, provider)?
            }
            None => CertificateVerifier::none(provider),
        };
        let builder = builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier));
        let config = match &self.identity {
            Some(identity) => identity.shown_by(builder)?,
            None => builder.with_no_client_auth(),
        };
        Ok(Some(MakeRustlsConnect::new(config)))
    }
}

fn mode(asked: Option<&str>, has_roots: bool) -> Result<Mode, Failure> {
    let missing = |name: &str| {
        Failure::usage("sslrootcert_missing", format!("PGSSLMODE is {name}, and no certificate authority is named."))
            .hint("Name the file of the authority's certificate in PGSSLROOTCERT, or lay it at ~/.postgresql/root.crt.")
    };
    match (asked, has_roots) {
        (Some("disable"), _) => Ok(Mode::Disable),
        (None | Some("allow" | "prefer"), _) => Ok(Mode::Prefer),
        (Some("require"), false) => Ok(Mode::Require),
        (Some("require" | "verify-ca"), true) => Ok(Mode::VerifyCa),
        (Some("verify-full"), true) => Ok(Mode::VerifyFull),
        (Some(name @ ("verify-ca" | "verify-full")), false) => Err(missing(name)),
        (Some(other), _) => Err(Failure::usage("sslmode_unsupported", format!("PGSSLMODE `{other}` is not supported."))
            .hint("Set PGSSLMODE to disable, allow, prefer, require, verify-ca or verify-full.")),
    }
}

/// More of a file of certificates than this is not read.
const LONGEST: u64 = 1024 * 1024;

#[derive(Debug, Clone, PartialEq, Eq)]
struct Identity {
    /// The certificate, and those of authorities between it and one that the server knows.
    certificate: PathBuf,
    /// Its private key, not encrypted.
    key: PathBuf,
}

impl Identity {
    fn from_environment(env: &Environment) -> Result<Option<Self>, Failure> {
        let certificate = env.path("PGSSLCERT").or_else(|| env.of_home("postgresql.crt"));
        let key = env.path("PGSSLKEY").or_else(|| certificate.as_ref().and_then(|_| env.of_home("postgresql.key")));
        match (certificate, key) {
            (None, None) => Ok(None),
            (Some(certificate), Some(key)) => Ok(Some(Self { certificate, key })),
            (Some(certificate), None) => {
                Err(Failure::usage("sslkey_missing", format!("The client certificate {} has no key.", certificate.display()))
                    .hint("Name the key's file in PGSSLKEY, or lay it at ~/.postgresql/postgresql.key (mode 0600)."))
            }
            (None, Some(_)) => {
                Err(Failure::usage("sslcert_missing", "PGSSLKEY names a key, and no client certificate is named.").hint(
                    "Name the certificate's file in PGSSLCERT, or lay it at ~/.postgresql/postgresql.crt; or unset PGSSLKEY.",
                ))
            }
        }
    }

    fn shown_by(&self, builder: ConfigBuilder<ClientConfig, WantsClientCert>) -> Result<ClientConfig, Failure> {
        let bad = |what: &str, path: &Path, error: String| {
            Failure::invalid("client_certificate_invalid", format!("{} holds no {what} that can be used.", path.display()))
                .hint("Name PEM files: the certificate in PGSSLCERT, and its key, not encrypted, in PGSSLKEY.")
                .cause(error)
        };
        let text = file::read_text("read the client certificate", &self.certificate, LONGEST)?;
        let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text.as_bytes()).collect();
        let certificates = certificates.map_err(|error| bad("certificate", &self.certificate, error.to_string()))?;
        if certificates.is_empty() {
            return Err(bad("certificate", &self.certificate, "no PEM certificate in it".to_owned()));
        }
        let key = Secret::whole_file("private key", &self.key)?;
        let key =
            PrivateKeyDer::from_pem_slice(key.expose().as_bytes()).map_err(|error| bad("key", &self.key, error.to_string()))?;
        builder
            .with_client_auth_cert(certificates, key)
            .map_err(|error| bad("key of the certificate", &self.key, error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tls(pairs: &[(&str, &str)]) -> Result<Tls, Failure> {
        let home = [("HOME", "/nowhere")];
        let pairs: Vec<_> = home.iter().chain(pairs).copied().collect();
        Tls::from_environment(&Environment::of(&pairs))
    }

    #[test]
    fn the_modes_of_libpq_are_known_or_refused() {
        let mode = |pairs: &[(&str, &str)]| tls(pairs).map(|tls| tls.name());
        assert_eq!(mode(&[]).unwrap(), "prefer");
        assert_eq!(mode(&[("PGSSLMODE", "require")]).unwrap(), "require");
        let roots = ("PGSSLROOTCERT", "/ca");
        assert_eq!(mode(&[("PGSSLMODE", "require"), roots]).unwrap(), "verify-ca");
        assert_eq!(mode(&[("PGSSLMODE", "verify-ca"), roots]).unwrap(), "verify-ca");
        assert_eq!(mode(&[("PGSSLMODE", "verify-full"), roots]).unwrap(), "verify-full");
        for name in ["verify-ca", "verify-full"] {
            assert_eq!(mode(&[("PGSSLMODE", name)]).unwrap_err().code, "sslrootcert_missing");
        }
        assert_eq!(mode(&[("PGSSLMODE", "verify-full"), ("PGSSLROOTCERT", "system")]).unwrap_err().code, "sslrootcert_missing");
        assert_eq!(mode(&[("PGSSLMODE", "sometimes")]).unwrap_err().code, "sslmode_unsupported");
    }

    #[test]
    fn demands_that_are_not_met_are_refused() {
        for name in ["PGSSLCRLDIR", "PGGSSENCMODE", "PGSSLCERTMODE", "PGSSLNEGOTIATION", "PGSSLMINPROTOCOLVERSION"] {
            assert_eq!(tls(&[(name, "require")]).unwrap_err().code, "environment_unsupported", "{name}");
        }
        assert_eq!(tls(&[("PGCHANNELBINDING", "maybe")]).unwrap_err().code, "environment_invalid");
        assert_eq!(
            tls(&[("PGCHANNELBINDING", "require"), ("PGGSSENCMODE", "disable"), ("PGSSLCERT", "")]).unwrap().binding,
            ChannelBinding::Require
        );
    }

    #[test]
    fn a_child_is_kept_from_its_own_places() {
        let mut command = Command::new("true");
        tls(&[("PGSSLROOTCERT", "/ca")]).unwrap().child_env(&mut command);
        let env: Vec<_> =
            command.get_envs().map(|(name, value)| (name.to_str().unwrap(), value.unwrap().to_str().unwrap())).collect();
        for name in ["PGSSLROOTCERT", "PGSSLCRL", "PGSSLCERT", "PGSSLKEY"] {
            assert!(env.contains(&(name, NO_FILE)), "{env:?}");
        }
        assert!(env.contains(&("PGSSLMODE", "prefer")), "{env:?}");
    }

    #[test]
    fn a_certificate_without_its_key_is_refused_and_so_is_a_key_alone() {
        let of = |pairs: &[(&str, &str)]| {
            let pairs: Vec<_> = [("HOME", "/nowhere")].iter().chain(pairs).copied().collect();
            Identity::from_environment(&Environment::of(&pairs))
        };
        assert_eq!(of(&[]).unwrap(), None);
        assert_eq!(of(&[("PGSSLCERT", "/c")]).unwrap_err().code, "sslkey_missing");
        assert_eq!(of(&[("PGSSLKEY", "/k")]).unwrap_err().code, "sslcert_missing");
        assert!(of(&[("PGSSLCERT", "/c"), ("PGSSLKEY", "/k")]).unwrap().is_some());
    }

    #[test]
    fn the_files_of_libpqs_own_folder_are_found() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join(".postgresql");
        std::fs::create_dir(&folder).unwrap();
        for name in ["postgresql.crt", "postgresql.key"] {
            std::fs::write(folder.join(name), "").unwrap();
        }
        let identity = Identity::from_environment(&Environment::of(&[("HOME", home.path().to_str().unwrap())])).unwrap().unwrap();
        assert_eq!(identity.key, folder.join("postgresql.key"));
    }
}
