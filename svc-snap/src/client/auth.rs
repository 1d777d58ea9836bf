//! How the server is reached: address, who calls, TLS. Nothing here ever shows a secret.

use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::builder::BoolishValueParser;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, FromArgMatches};
use percent_encoding::percent_decode_str;
use svc_step::redact::user_of_url;
use svc_step::{Failure, Secret};
use ureq::http::Uri;
use ureq::tls::TlsConfig;

use crate::client::tls::{self, invalid};

/// How the server is reached, as it was given.
#[derive(Debug, Clone)]
pub struct Connection {
    args: ConnectionArgs,
    /// What stands on the command line: it wins over the environment, which may come from a file that holds for every call.
    given: Vec<String>,
    /// The same of [`REPEATED`], as another command line has it.
    options: Vec<String>,
}

/// Options that lead another call to the same server, beside its address.
const REPEATED: [&str; 7] = ["user", "password_file", "api_key_file", "bearer_file", "ca_cert", "client_cert", "client_key"];

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Cluster")]
struct ConnectionArgs {
    /// The address of Elasticsearch or OpenSearch, without a password, which others could read there
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
    #[arg(long, env = "SVC_SEARCH_INSECURE", value_parser = BoolishValueParser::new())]
    insecure: bool,
}

/// The same checked, its files read.
#[derive(Debug, Clone)]
pub(super) struct Settings {
    pub base: String,
    /// The value of the header `Authorization`.
    pub authorization: Option<Secret>,
    pub tls: TlsConfig,
    pub insecure: bool,
    /// The options of the command line that lead another call to the same server.
    pub options: Vec<String>,
}

impl Connection {
    pub(crate) fn is_given(&self, id: &str) -> bool {
        self.given.iter().any(|given| given == id)
    }

    pub(super) fn settings(&self) -> Result<Settings, Failure> {
        let (args, address) = (&self.args, Address::parse(&self.args.url)?);
        if address.has_password {
            return Err(invalid(
                "There is a password in --url (SVC_SEARCH_URL), where all users of this host can read it.",
                "Use --user with --password-file (SVC_SEARCH_PASSWORD_FILE), and change the password, which may be known by now.",
            ));
        }
        let authorization = self.authorization(&address)?;
        let over_tls = address.base.starts_with("https://");
        let insecure = args.insecure && over_tls && (self.is_given("insecure") || !self.is_given("ca_cert"));
        let ca_cert = args.ca_cert.as_deref().filter(|_| self.is_given("ca_cert") || !self.is_given("insecure"));
        if insecure && ca_cert.is_some() {
            return Err(invalid(
                "--insecure (SVC_SEARCH_INSECURE) trusts any certificate, and --ca-cert (SVC_SEARCH_CA) only some.",
                "Leave one of them out; --ca-cert is the safe one.",
            ));
        }
        if !over_tls && args.client_cert.is_some() {
            return Err(invalid(
                "A client certificate needs TLS, and the address is an http:// one.",
                "Write --url (SVC_SEARCH_URL) as https://HOST:PORT, or leave out --client-cert (SVC_SEARCH_CLIENT_CERT).",
            ));
        }
        let client = tls::client(args.client_cert.as_deref(), args.client_key.as_deref())?;
        let ca_cert = ca_cert.filter(|_| over_tls);
        let tls = tls::config(ca_cert, client, insecure)?;
        let url = self.is_given("url").then(|| ["--url".to_owned(), address.base.clone()]);
        let user = address.user.filter(|_| url.is_some() && !self.is_given("user")).map(|user| ["--user".to_owned(), user]);
        let flag = self.is_given("insecure").then(|| "--insecure".to_owned());
        let options = url.into_iter().chain(user).flatten().chain(flag).chain(self.options.iter().cloned()).collect();
        Ok(Settings { base: address.base, authorization, tls, insecure, options })
    }

    /// The value of the header `Authorization`. One kind of credentials on the command line replaces the others of the environment.
    fn authorization(&self, address: &Address) -> Result<Option<Secret>, Failure> {
        let (args, given) = (&self.args, |id| self.is_given(id));
        let (in_url, key, bearer) = (given("url") && address.user.is_some(), given("api_key_file"), given("bearer_file"));
        let basic = in_url || given("user") || given("password_file");
        let counts = |is_given: bool| is_given || !(basic || key || bearer);
        let user = if in_url && !given("user") { &address.user } else { &args.user }.as_ref().or(address.user.as_ref());
        let is_basic = counts(basic) && (user.is_some() || args.password_file.is_some());
        let api_key_file = args.api_key_file.as_ref().filter(|_| counts(key));
        let bearer_file = args.bearer_file.as_ref().filter(|_| counts(bearer));
        let value = match (is_basic, api_key_file, bearer_file) {
            (false, None, None) => return Ok(None),
            (true, None, None) => {
                let password = args.password_file.as_ref().map(|file| Secret::from_file("password", file)).transpose()?;
                let (user, password) = user.zip(password).ok_or_else(|| {
                    let hint = "Give --user (SVC_SEARCH_USER) and --password-file (SVC_SEARCH_PASSWORD_FILE), or neither.";
                    invalid("Only one of user and password is given.", hint)
                })?;
                format!("Basic {}", STANDARD.encode(format!("{user}:{}", password.expose())))
            }
            // A key is `id:key`, or what the server calls `encoded`.
            (false, Some(file), None) => match token("API key", file)? {
                pair if pair.contains(':') => format!("ApiKey {}", STANDARD.encode(pair)),
                encoded => format!("ApiKey {encoded}"),
            },
            (false, None, Some(file)) => format!("Bearer {}", token("bearer token", file)?),
            _ => {
                return Err(invalid(
                    "A request carries one of user with password, API key and bearer token, and more than one is given.",
                    "Leave out all but one of --user with --password-file (SVC_SEARCH_USER), --api-key-file (SVC_SEARCH_API_KEY_FILE) and --bearer-file (SVC_SEARCH_BEARER_FILE).",
                ));
            }
        };
        Ok(Some(Secret::new(value)))
    }
}

/// The one word that stands in a file's first line.
fn token(what: &str, path: &Path) -> Result<String, Failure> {
    let secret = Secret::from_file(what, path)?;
    let text = secret.expose().trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic()) && !text.starts_with(['{', '"']) {
        return Ok(text.to_owned());
    }
    let hint = "Write nothing else into it: an API key as `id:key` or as the server's `encoded`, a token without `Bearer`.";
    Err(invalid(format!("The first line of {} is not a valid {what}.", path.display()), hint))
}

impl FromArgMatches for Connection {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let is_given = |id: &&clap::Id| matches.value_source(id.as_str()) == Some(ValueSource::CommandLine);
        let given: Vec<String> = matches.ids().filter(is_given).map(ToString::to_string).collect();
        let option = |id: &String| {
            let value = matches.get_raw(id)?.next()?.to_string_lossy().into_owned();
            Some([format!("--{}", id.replace('_', "-")), value])
        };
        let options = given.iter().filter(|id| REPEATED.contains(&id.as_str())).filter_map(option).flatten().collect();
        Ok(Self { args: ConnectionArgs::from_arg_matches(matches)?, given, options })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
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

#[derive(Debug, PartialEq, Eq)]
struct Address {
    /// Scheme, host, port and path, without user-info and without a slash at its end.
    base: String,
    user: Option<String>,
    has_password: bool,
}

impl Address {
    /// The error says what is wrong with an address without repeating it, since it may hold a password.
    fn parse(url: &Secret) -> Result<Self, Failure> {
        Self::read(url.expose().trim()).ok_or_else(|| {
            invalid(
                "The address of the server is not understood.",
                "Write --url (SVC_SEARCH_URL) as http://HOST:PORT or https://HOST:PORT, without ? and #.",
            )
        })
    }

    fn read(url: &str) -> Option<Self> {
        let uri = url.parse::<Uri>().ok().filter(|uri| uri.query().is_none() && !url.contains('#'))?;
        let scheme = uri.scheme_str().filter(|scheme| ["http", "https"].contains(scheme))?;
        let (info, host) = user_of_url(uri.authority()?.as_str());
        if host.is_empty() || host.starts_with(':') || uri.path().contains('@') {
            return None;
        }
        let (user, password) = info.map(|info| info.split_once(':').unwrap_or((info, ""))).unzip();
        let user = user.map(|user| percent_decode_str(user).decode_utf8().map(|user| user.into_owned())).transpose().ok()?;
        let base = format!("{scheme}://{host}{}", uri.path().trim_end_matches('/'));
        Some(Self { base, user, has_password: password.is_some_and(|password| !password.is_empty()) })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        connection: Connection,
    }

    /// What is connected with; of these arguments only those of `given` stand on the command line.
    fn settings(args: &[&str], given: &[&str]) -> Result<Settings, Failure> {
        let connection = Line::parse_from(std::iter::once(&"svc-snap").chain(args)).connection;
        let given: Vec<String> = given.iter().map(|id| (*id).to_owned()).collect();
        Connection { given: if given.is_empty() { connection.given } else { given }, ..connection }.settings()
    }

    #[test]
    fn credential_options_give_one_authorization_header() {
        let folder = tempfile::tempdir().unwrap();
        let file = |text: &str| {
            let path = tempfile::Builder::new().tempfile_in(&folder).unwrap().into_temp_path().keep().unwrap();
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
            path.display().to_string()
        };
        let [pass, pw, pair, key] = ["p\u{e4}ss\n", "pw\n", "id:key\n", "aWQ6a2V5\n"].map(file);
        let [token, json, named, bearer, empty] =
            ["AAE.x-y_z\n", "{\"encoded\":\"aWQ6a2V5\"}", "ApiKey a", "Bearer A", "\nA"].map(file);
        let all = ["--url", "http://env@es1", "--user", "svc", "--password-file", &pw, "--api-key-file", &pair];
        let trust = ["--url", "https://es1", "--insecure", "--ca-cert", "/"];
        let env = &["none"][..];
        for (args, given, expected) in [
            (&["--url", "http://es1"][..], &[][..], Ok(None)),
            (&["--user", "svc", "--password-file", &pass], &[], Ok(Some("Basic c3ZjOnDDpHNz"))),
            // All users of the host can read it there.
            (&["--url", "http://svc:pw@es1"], env, Err("settings_invalid")),
            (&["--api-key-file", &pair], &[], Ok(Some("ApiKey aWQ6a2V5"))),
            (&["--api-key-file", &key], &[], Ok(Some("ApiKey aWQ6a2V5"))),
            (&["--bearer-file", &token], &[], Ok(Some("Bearer AAE.x-y_z"))),
            (&["--api-key-file", &json], &[], Err("settings_invalid")),
            (&["--api-key-file", &named], &[], Err("settings_invalid")),
            (&["--bearer-file", &bearer], &[], Err("settings_invalid")),
            (&["--bearer-file", &empty], &[], Err("settings_invalid")),
            (&["--password-file", &pw], &[], Err("settings_invalid")),
            (&["--user", "svc", "--api-key-file", &pair], &[], Err("settings_invalid")),
            (&["--api-key-file", &pair, "--bearer-file", &pair], &[], Err("settings_invalid")),
            (&["--url", "http://svc@es1", "--bearer-file", &pair], &[], Err("settings_invalid")),
            (&all, env, Err("settings_invalid")),
            (&all, &["api_key_file"], Ok(Some("ApiKey aWQ6a2V5"))),
            (&all, &["user"], Ok(Some("Basic c3ZjOnB3"))),
            (&["--url", "http://svc@es1", "--user", "env", "--password-file", &pw], &["url"], Ok(Some("Basic c3ZjOnB3"))),
            (&trust, &["insecure"], Ok(None)),
            (&trust, &["ca_cert"], Err("file_invalid")),
            (&trust, &["insecure", "ca_cert"], Err("settings_invalid")),
        ] {
            let found = settings(args, given).map(|settings| settings.authorization.map(|one| one.expose().to_owned()));
            let found = found.as_ref().map(Option::as_deref).map_err(|failure| failure.code.as_str());
            assert_eq!(found, expected, "{args:?} {given:?}");
        }
        // If there is no TLS, nothing is to be verified.
        let insecure = |url: &str| settings(&["--url", url, "--insecure"], &[]).unwrap().insecure;
        assert_eq!((insecure("https://es1:9200"), insecure("http://es1:9200")), (true, false));
    }

    #[test]
    fn url_credentials_are_split_off_and_never_shown() {
        let read = |url: &str| Address::parse(&Secret::new(url.to_owned()));
        let address = read("https://s%40c@es1:9200/prefix/").unwrap();
        assert_eq!((address.base.as_str(), address.user.as_deref()), ("https://es1:9200/prefix", Some("s@c")));
        let plain = read("HTTP://[::1]:9200").unwrap();
        assert_eq!((plain.base.as_str(), plain.user), ("http://[::1]:9200", None));
        let wrong = ["svc:secret@es1:9200", "ftp://svc:secret@es1", "http://svc:secret@", "http://svc:secret@es1/?a"];
        for bad in
            [&wrong[..], &["http://svc:1#secret@es1", "http://:9200", "http:///secret", "http://svc:1/secret@es1"]].concat()
        {
            let failure = read(bad).unwrap_err();
            assert!(failure.status.code() == 2 && !format!("{failure:?}").contains("secret"), "{bad}");
        }
        let failure = settings(&["--url", "http://svc:secret@es1"], &[]).unwrap_err();
        assert!(failure.hint.as_ref().unwrap().contains("--password-file") && !format!("{failure:?}").contains("secret"));
    }
}
