//! TLS to the server, by libpq's variables and files, through libpq's own library: whoever `pg_dump` trusts is trusted here.

use std::path::{Path, PathBuf};
use std::process::Command;

use clap::ValueEnum;
use openssl::error::ErrorStack;
use openssl::pkey::PKey;
use openssl::ssl::{SslConnector, SslConnectorBuilder, SslMethod, SslVerifyMode, SslVersion};
use openssl::x509::X509;
use openssl::x509::store::{X509Store, X509StoreBuilder};
use postgres::Config;
use postgres::config::SslMode;
use postgres_openssl::MakeTlsConnector;
use svc_step::secret::Secret;
use svc_step::{Failure, file};

use super::environment::Environment;

/// A path that cannot be: it keeps libpq from looking at its own places too.
pub(super) const NO_FILE: &str = "/dev/null/none";

/// How a connection over the network is protected; a socket never is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tls {
    mode: Mode,
    roots: Option<PathBuf>,
    identity: Option<Identity>,
}

/// `PGSSLMODE`, by libpq's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Mode {
    Disable,
    #[value(alias = "allow")]
    Prefer,
    Require,
    VerifyCa,
    VerifyFull,
}

impl Mode {
    const fn verifies(self) -> bool {
        matches!(self, Self::VerifyCa | Self::VerifyFull)
    }

    fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }
}

impl Tls {
    pub(super) const fn disabled() -> Self {
        Self { mode: Mode::Disable, roots: None, identity: None }
    }

    /// `PGSSLMODE` (libpq's default: prefer) and what belongs to it. As in libpq, `require` with a certificate of an authority
    /// at hand (`PGSSLROOTCERT`, `~/.postgresql/root.crt`) is `verify-ca`.
    pub(super) fn from_environment(env: &Environment) -> Result<Self, Failure> {
        env.refuse(&["PGSSLCRL", "PGSSLCRLDIR", "PGREQUIRESSL"], &["0"])?;
        env.refuse(&["PGCHANNELBINDING"], &["disable", "prefer"])?;
        env.refuse(&["PGGSSENCMODE"], &["disable", "allow", "prefer"])?;
        env.refuse(&["PGSSLCERTMODE", "PGSSLNEGOTIATION"], &["allow", "postgres"])?;
        env.refuse(&["PGSSLMINPROTOCOLVERSION"], &["TLSv1", "TLSv1.1", "TLSv1.2"])?;
        env.refuse(&["PGSSLMAXPROTOCOLVERSION"], &["TLSv1.3"])?;
        let roots = env.path("PGSSLROOTCERT").or_else(|| env.of_home("root.crt"));
        let mode = mode(env.text("PGSSLMODE").as_deref(), roots.is_some())?;
        // libpq verifies with it, and refuses a weaker mode.
        if env.text("PGSSLROOTCERT").as_deref() == Some("system") {
            let message = "PGSSLROOTCERT is `system`, and the host's own authorities are not used.";
            return Err(Failure::usage("settings_invalid", message)
                .hint("Name their file: PGSSLMODE=verify-full PGSSLROOTCERT=/etc/ssl/certs/ca-certificates.crt on Debian."));
        }
        if mode.verifies()
            && let Some(list) = env.of_home("root.crl")
        {
            let message = format!("{} is there, and revocation lists are not supported.", list.display());
            return Err(Failure::usage("settings_invalid", message).hint("Move it away, if the connection may do without it."));
        }
        if mode == Mode::Disable {
            return Ok(Self::disabled());
        }
        Ok(Self { mode, roots: roots.filter(|_| mode.verifies()), identity: Identity::from_environment(env)? })
    }

    /// Whether a connection without it will do too.
    pub(super) fn may_be_off(&self) -> bool {
        self.mode == Mode::Prefer
    }

    pub(super) const fn shows_certificate(&self) -> bool {
        self.identity.is_some()
    }

    /// Gives a program that uses libpq the same, and keeps it from its own places.
    pub(super) fn child_env(&self, command: &mut Command) {
        let path = |path: Option<&PathBuf>| path.map_or_else(|| NO_FILE.into(), |path| path.clone().into_os_string());
        let identity = self.identity.as_ref();
        command.env("PGSSLMODE", self.mode.name()).env("PGSSLROOTCERT", path(self.roots.as_ref()));
        command.env("PGSSLCRL", NO_FILE);
        command.env("PGSSLCERT", path(identity.map(|identity| &identity.certificate)));
        command.env("PGSSLKEY", path(identity.map(|identity| &identity.key)));
        // Our own connection knows no GSSAPI, so theirs is not to try it first.
        command.env("PGGSSENCMODE", "disable");
    }

    /// What a connection of our own is to ask for.
    pub(super) fn configure(&self, config: &mut Config) {
        config.ssl_mode(match self.mode {
            Mode::Disable => SslMode::Disable,
            Mode::Prefer => SslMode::Prefer,
            Mode::Require | Mode::VerifyCa | Mode::VerifyFull => SslMode::Require,
        });
    }

    /// The connector; `None` if there is to be no TLS. libpq's `prefer` and `require` protect against listeners, not against another
    /// server: no certificate is checked then.
    pub(super) fn connector(&self) -> Result<Option<MakeTlsConnector>, Failure> {
        if self.mode == Mode::Disable {
            return Ok(None);
        }
        let mut builder = SslConnector::builder(SslMethod::tls_client()).map_err(unusable)?;
        builder.set_min_proto_version(Some(SslVersion::TLS1_2)).map_err(unusable)?;
        match &self.roots {
            // In the place of the host's own authorities.
            Some(roots) => builder.set_cert_store(authorities(roots)?),
            None => builder.set_verify(SslVerifyMode::NONE),
        }
        if let Some(identity) = &self.identity {
            identity.show(&mut builder)?;
        }
        let mut connector = MakeTlsConnector::new(builder.build());
        let by_name = self.mode == Mode::VerifyFull;
        connector.set_callback(move |connection, _| {
            connection.set_verify_hostname(by_name);
            Ok(())
        });
        Ok(Some(connector))
    }
}

fn unusable(error: ErrorStack) -> Failure {
    Failure::fault("TLS cannot be set up.").cause(error.to_string())
}

/// Who may sign a server's certificate.
fn authorities(roots: &Path) -> Result<X509Store, Failure> {
    let mut store = X509StoreBuilder::new().map_err(unusable)?;
    for root in certificates(roots)? {
        store.add_cert(root).map_err(unusable)?;
    }
    Ok(store.build())
}

/// The certificates in a file, which are at least one.
fn certificates(path: &Path) -> Result<Vec<X509>, Failure> {
    let action = "read the certificates";
    let bytes = file::bytes_of(&file::open_regular(action, path).map_err(Failure::of_setting)?, action, path, LONGEST)?;
    let all = X509::stack_from_pem(&bytes).map_err(|error| invalid("certificate", path, &error.to_string()))?;
    if all.is_empty() { Err(invalid("certificate", path, "no PEM certificate in it")) } else { Ok(all) }
}

fn invalid(what: &str, path: &Path, error: &str) -> Failure {
    Failure::invalid("file_invalid", format!("{} holds no {what} that can be used.", path.display()))
        .hint("Name PEM files: authorities in PGSSLROOTCERT, the client's certificate in PGSSLCERT, and its key, not encrypted, in PGSSLKEY.")
        .cause(error)
}

fn mode(asked: Option<&str>, has_roots: bool) -> Result<Mode, Failure> {
    let asked = asked.unwrap_or("prefer");
    let mode = Mode::from_str(asked, false).map_err(|_| {
        Failure::usage("settings_invalid", format!("PGSSLMODE `{asked}` is not supported."))
            .hint("Set PGSSLMODE to disable, allow, prefer, require, verify-ca or verify-full.")
    })?;
    match mode {
        Mode::Require if has_roots => Ok(Mode::VerifyCa),
        mode if mode.verifies() && !has_roots => {
            Err(Failure::usage("settings_invalid", format!("PGSSLMODE is {asked}, and no certificate authority is named."))
                .hint("Name the file of the authority's certificate in PGSSLROOTCERT, or put it at ~/.postgresql/root.crt."))
        }
        mode => Ok(mode),
    }
}

/// A file of certificates larger than this is another file; that of a whole distribution has a quarter of a megabyte.
const LONGEST: u64 = 16 * 1024 * 1024;

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
            _ => Err(Failure::usage("settings_invalid", "Only one of client certificate and key is named.").hint(
                "Name both in PGSSLCERT and PGSSLKEY, or put them at ~/.postgresql/postgresql.crt and postgresql.key; or unset both.",
            )),
        }
    }

    fn show(&self, builder: &mut SslConnectorBuilder) -> Result<(), Failure> {
        for (number, one) in certificates(&self.certificate)?.into_iter().enumerate() {
            let set = if number == 0 { builder.set_certificate(&one) } else { builder.add_extra_chain_cert(one) };
            set.map_err(unusable)?;
        }
        let key = Secret::whole_file("private key", &self.key)?;
        // Without a password at hand, OpenSSL would ask for that of an encrypted key on the terminal.
        let key = PKey::private_key_from_pem_callback(key.expose().as_bytes(), |_| Ok(0))
            .map_err(|error| invalid("key", &self.key, &error.to_string()))?;
        builder.set_private_key(&key).map_err(|error| invalid("key of the certificate", &self.key, &error.to_string()))
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
    fn demands_that_are_not_met_are_refused() {
        let names = "CRL CRLDIR CERTMODE NEGOTIATION MINPROTOCOLVERSION".split(' ').map(|name| format!("PGSSL{name}"));
        for name in names.chain(["PGCHANNELBINDING", "PGGSSENCMODE"].map(str::to_owned)) {
            assert_eq!(tls(&[(&name, "require")]).unwrap_err().code, "settings_invalid", "{name}");
        }
        tls(&[("PGCHANNELBINDING", "prefer"), ("PGGSSENCMODE", "disable"), ("PGSSLCERT", "")]).unwrap();
    }

    #[test]
    fn child_environment_disables_default_tls_files() {
        let mut command = Command::new("true");
        tls(&[("PGSSLROOTCERT", "/ca")]).unwrap().child_env(&mut command);
        let env: Vec<_> =
            command.get_envs().map(|(name, value)| (name.to_str().unwrap(), value.unwrap().to_str().unwrap())).collect();
        for name in ["PGSSLROOTCERT", "PGSSLCRL", "PGSSLCERT", "PGSSLKEY"] {
            assert!(env.contains(&(name, NO_FILE)), "{env:?}");
        }
        assert!(env.contains(&("PGSSLMODE", "prefer")), "{env:?}");
    }
}
