//! How the server is reached: address, credentials, TLS. Nothing here ever shows a secret.

mod credentials;
mod tls;
mod url;

use std::time::Duration;

use clap::parser::ValueSource;
use clap::{ArgMatches, Args, FromArgMatches};
use std::path::PathBuf;
use svc_step::Failure;
use svc_step::secret::Secret;
use ureq::tls::TlsConfig;

/// How the server is reached.
#[derive(Debug, Clone)]
pub struct Connection {
    args: ConnectionArgs,
    /// Whether the address stands on the command line.
    is_url_given: bool,
    /// Whether the address may say who calls: not where the command line does by a key or a token.
    is_user_of_url_meant: bool,
}

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Search database")]
struct ConnectionArgs {
    /// Its address; one with a password in it is refused here, as others can read a process's arguments (SVC_SEARCH_URL may have one)
    #[arg(long, value_name = "URL", env = "SVC_SEARCH_URL", default_value = "http://127.0.0.1:9200",
          value_parser = secret, hide_env_values = true)]
    url: Secret,
    #[arg(long, value_name = "NAME", env = "SVC_SEARCH_USER")]
    user: Option<String>,
    #[arg(long, value_name = "FILE", env = "SVC_SEARCH_PASSWORD_FILE")]
    password_file: Option<PathBuf>,
    #[arg(long, value_name = "FILE", env = "SVC_SEARCH_API_KEY_FILE")]
    api_key_file: Option<PathBuf>,
    #[arg(long, value_name = "FILE", env = "SVC_SEARCH_BEARER_FILE")]
    bearer_file: Option<PathBuf>,
    #[arg(long, value_name = "FILE", env = "SVC_SEARCH_CA")]
    ca_cert: Option<PathBuf>,
    #[arg(long, value_name = "FILE", env = "SVC_SEARCH_CLIENT_CERT")]
    client_cert: Option<PathBuf>,
    #[arg(long, value_name = "FILE", env = "SVC_SEARCH_CLIENT_KEY")]
    client_key: Option<PathBuf>,
    #[arg(long, env = "SVC_SEARCH_INSECURE", value_parser = yes_or_no)]
    insecure: bool,
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
    /// Whether the server's certificate is taken as it comes.
    pub unverified: bool,
    pub connect_timeout: Duration,
}

impl Connection {
    /// Where the command line says who calls or whom to trust, it wins over the environment, which may come from a file that holds
    /// for every call.
    fn of(mut args: ConnectionArgs, is_given: impl Fn(&str) -> bool) -> Self {
        let (key, bearer) = (is_given("api_key_file"), is_given("bearer_file"));
        let has_user = url::parse(&args.url).is_ok_and(|address| address.user.is_some());
        let basic = is_given("user") || is_given("password_file") || is_given("url") && has_user;
        if key || bearer || basic {
            args.api_key_file = args.api_key_file.filter(|_| key);
            args.bearer_file = args.bearer_file.filter(|_| bearer);
            args.user = args.user.filter(|_| basic && (is_given("user") || !(is_given("url") && has_user)));
            args.password_file = args.password_file.filter(|_| basic);
        }
        match (is_given("insecure"), is_given("ca_cert")) {
            (true, false) => args.ca_cert = None,
            (false, true) => args.insecure = false,
            _ => {}
        }
        Self { args, is_url_given: is_given("url"), is_user_of_url_meant: basic || !(key || bearer) }
    }

    /// Checks it and reads its files.
    ///
    /// # Errors
    /// The address, the credentials or the certificates are not right (2), a file cannot be read (see [`Failure::io`]), or one
    /// that holds a secret is open to others (3).
    pub(crate) fn reach(&self) -> Result<Reach, Failure> {
        let mut address = url::parse(&self.args.url)?;
        if self.is_url_given && address.password.is_some() {
            return Err(credentials::password_in_arguments());
        }
        if !self.is_user_of_url_meant {
            (address.user, address.password) = (None, None);
        }
        let over_tls = address.base.starts_with("https://");
        let authorization = self.authorization(&address)?;
        let unverified = over_tls && self.unverified()?;
        let tls = if over_tls { self.tls(unverified)? } else { self.no_tls()? };
        Ok(Reach { base: address.base, authorization, tls, unverified, connect_timeout: self.args.connect_timeout })
    }
}

impl FromArgMatches for Connection {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Self::from_arg_matches_mut(&mut matches.clone())
    }

    fn from_arg_matches_mut(matches: &mut ArgMatches) -> Result<Self, clap::Error> {
        let given: Vec<String> = matches
            .ids()
            .filter(|id| matches.value_source(id.as_str()) == Some(ValueSource::CommandLine))
            .map(ToString::to_string)
            .collect();
        Ok(Self::of(ConnectionArgs::from_arg_matches_mut(matches)?, |id| given.iter().any(|one| one == id)))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.update_from_arg_matches_mut(&mut matches.clone())
    }

    fn update_from_arg_matches_mut(&mut self, matches: &mut ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches_mut(matches)?;
        Ok(())
    }
}

impl Args for Connection {
    // What a step has beside these is not about the connection, wherever it stands.
    fn augment_args(command: clap::Command) -> clap::Command {
        ConnectionArgs::augment_args(command).next_help_heading(None::<&'static str>)
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        ConnectionArgs::augment_args_for_update(command)
    }
}

/// An address may hold a password, so neither `--help` nor a refusal may show it.
#[allow(clippy::unnecessary_wraps)]
fn secret(text: &str) -> Result<Secret, String> {
    Ok(Secret::new(text.to_owned()))
}

/// A variable that is empty is as good as none.
fn yes_or_no(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "yes" | "true" | "on" | "1" => Ok(true),
        "" | "no" | "false" | "off" | "0" => Ok(false),
        _ => Err("write SVC_SEARCH_INSECURE as yes (true, on, 1) or no (false, off, 0)".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        connection: Connection,
    }

    pub(super) fn connection(args: &[&str]) -> Connection {
        Line::parse_from(std::iter::once(&"svc-snap").chain(args)).connection
    }

    /// The same with only some of the settings on the command line.
    pub(super) fn given(args: &[&str], given: &[&str]) -> Connection {
        Connection::of(connection(args).args, |id| given.contains(&id))
    }

    #[test]
    fn a_plain_connection_has_neither_credentials_nor_tls() {
        let reach = connection(&["--url", "http://es1:9200/search/"]).reach().unwrap();
        assert_eq!((reach.base.as_str(), reach.authorization, reach.unverified), ("http://es1:9200/search", None, false));
        assert!(connection(&["--url", "https://es1:9200", "--insecure"]).reach().unwrap().unverified);
        // Where there is no TLS there is nothing that is not verified.
        assert!(!connection(&["--url", "http://es1:9200", "--insecure"]).reach().unwrap().unverified);
    }
}
