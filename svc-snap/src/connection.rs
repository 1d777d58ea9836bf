//! How the search database is reached: address, credentials, TLS. Nothing here ever shows a secret.

use std::path::PathBuf;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use svc_step::secret::Secret;
use svc_step::{Failure, file};
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};

use crate::server::url::{self, Address};

/// A file of certificates is not larger.
const LARGEST: u64 = 16 * 1024 * 1024;

/// How the search database is reached.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Search database")]
pub struct Connection {
    /// Its address; one with a password in it is better set by SVC_SEARCH_URL, as others can read a process's arguments
    #[arg(long, value_name = "URL", env = "SVC_SEARCH_URL", default_value = "http://127.0.0.1:9200",
          value_parser = secret, hide_env_values = true)]
    url: Secret,
    /// The user of basic authentication
    #[arg(long, value_name = "NAME", env = "SVC_SEARCH_USER")]
    user: Option<String>,
    /// A file whose first line is the user's password
    #[arg(long, value_name = "FILE", env = "SVC_SEARCH_PASSWORD_FILE")]
    password_file: Option<PathBuf>,
    /// The certificates (PEM) of the authorities that are trusted instead of the public ones
    #[arg(long, value_name = "FILE", env = "SVC_SEARCH_CA")]
    ca_cert: Option<PathBuf>,
    /// Give up connecting after this long
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = svc_step::deadline::parse)]
    connect_timeout: Duration,
}

/// A connection that is checked, its files read.
#[derive(Debug, Clone)]
pub(crate) struct Reach {
    pub base: String,
    /// The value of the header `Authorization`.
    pub authorization: Option<Secret>,
    pub tls: TlsConfig,
    pub connect_timeout: Duration,
}

impl Connection {
    /// Checks it and reads its files.
    ///
    /// # Errors
    /// The address or the credentials are not right (2), or a file cannot be read (see [`Failure::io`]).
    pub(crate) fn reach(&self) -> Result<Reach, Failure> {
        let address = url::parse(&self.url)?;
        let authorization = self.authorization(&address)?;
        Ok(Reach { base: address.base, authorization, tls: self.tls()?, connect_timeout: self.connect_timeout })
    }

    /// Basic authentication. API keys, bearer tokens and client certificates would have their place here.
    fn authorization(&self, address: &Address) -> Result<Option<Secret>, Failure> {
        let user = self.user.as_ref().or(address.user.as_ref());
        let password = match &self.password_file {
            Some(file) => Some(Secret::from_file(file)?),
            None => address.password.clone(),
        };
        match (user, password) {
            (None, None) => Ok(None),
            (Some(user), Some(password)) => {
                let pair = STANDARD.encode(format!("{user}:{}", password.expose()));
                Ok(Some(Secret::new(format!("Basic {pair}"))))
            }
            (Some(user), None) => Err(Failure::usage(
                "search_password_missing",
                format!("Nothing says the password of the search database's user {user}."),
            )
            .hint("Write it into a file and name it with --password-file (SVC_SEARCH_PASSWORD_FILE).")),
            (None, Some(_)) => {
                Err(Failure::usage("search_user_missing", "There is a password for the search database but no user.")
                    .hint("Name the user with --user (SVC_SEARCH_USER)."))
            }
        }
    }

    fn tls(&self) -> Result<TlsConfig, Failure> {
        let Some(path) = &self.ca_cert else { return Ok(TlsConfig::default()) };
        let pem = file::read_text("read the certificates", path, LARGEST)?;
        let certificates: Vec<Certificate<'static>> = parse_pem(pem.as_bytes())
            .filter_map(|item| match item {
                Ok(PemItem::Certificate(certificate)) => Some(certificate),
                _ => None,
            })
            .collect();
        if certificates.is_empty() {
            return Err(Failure::usage("ca_cert_empty", format!("The file {} holds no certificate.", path.display()))
                .hint("Name a PEM file (-----BEGIN CERTIFICATE-----) with --ca-cert (SVC_SEARCH_CA)."));
        }
        Ok(TlsConfig::builder().root_certs(RootCerts::new_with_certs(&certificates)).build())
    }
}

/// An address may hold a password, so neither `--help` nor a refusal may show it.
#[allow(clippy::unnecessary_wraps)]
fn secret(text: &str) -> Result<Secret, String> {
    Ok(Secret::new(text.to_owned()))
}
