//! Who calls: a user with a password, an API key, or a bearer token. One of them, as a request has one header for them.

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use svc_step::Failure;
use svc_step::secret::Secret;

use super::Connection;
use super::sourced::{Setting, Source};
use super::url::Address;

const URL: Setting = Setting { id: "url", flag: "the user in --url", variable: "the user in SVC_SEARCH_URL" };
const USER: Setting = Setting { id: "user", flag: "--user", variable: "SVC_SEARCH_USER" };
const PASSWORD: Setting = Setting { id: "password_file", flag: "--password-file", variable: "SVC_SEARCH_PASSWORD_FILE" };
const API_KEY: Setting = Setting { id: "api_key_file", flag: "--api-key-file", variable: "SVC_SEARCH_API_KEY_FILE" };
const BEARER: Setting = Setting { id: "bearer_file", flag: "--bearer-file", variable: "SVC_SEARCH_BEARER_FILE" };

/// A kind of credentials.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Basic,
    ApiKey,
    Bearer,
}

impl Connection {
    /// Everybody on the host can read the arguments of a process.
    ///
    /// # Errors
    /// `--url` has a password in it (2).
    pub(super) fn no_password_in_arguments(&self, address: &Address) -> Result<(), Failure> {
        if address.password.is_none() || self.sources.source(URL.id) != Some(Source::Flag) {
            return Ok(());
        }
        Err(Failure::usage(
            "secret_on_command_line",
            "There is a password in --url, where everybody on this host can read it.",
        )
        .hint("Say --user NAME --password-file FILE, or set the address by SVC_SEARCH_URL; whoever is on this host may know the password by now."))
    }

    /// The value of the header `Authorization`.
    ///
    /// # Errors
    /// More than one kind, or half of one (2); a file that cannot be used.
    pub(super) fn authorization(&self, address: &Address) -> Result<Option<Secret>, Failure> {
        match self.kind(address)? {
            None => Ok(None),
            Some(Kind::Basic) => self.basic(address).map(Some),
            Some(Kind::ApiKey) => self.args.api_key_file.as_deref().map(api_key).transpose(),
            Some(Kind::Bearer) => self.args.bearer_file.as_deref().map(bearer).transpose(),
        }
    }

    /// The one kind that is meant: those of the command line win over those of the environment.
    fn kind(&self, address: &Address) -> Result<Option<Kind>, Failure> {
        let in_url = (address.user.is_some() || address.password.is_some()).then_some(URL);
        let kinds = [
            (Kind::Basic, [Some(USER), Some(PASSWORD), in_url].into_iter().flatten().collect::<Vec<_>>()),
            (Kind::ApiKey, vec![API_KEY]),
            (Kind::Bearer, vec![BEARER]),
        ];
        let made = kinds.iter().filter_map(|(kind, settings)| {
            let made = settings.iter().filter_map(|setting| Some((self.sources.source(setting.id)?, *setting)));
            // The first of those that stand at the place that counts names the kind.
            made.reduce(|best, one| if one.0 > best.0 { one } else { best }).map(|(source, setting)| (*kind, source, setting))
        });
        let made: Vec<(Kind, Source, Setting)> = made.collect();
        let Some(place) = made.iter().map(|(_, source, _)| *source).max() else { return Ok(None) };
        let mut there = made.into_iter().filter(|(_, source, _)| *source == place);
        match (there.next(), there.next()) {
            (Some((_, _, one)), Some((_, _, other))) => Err(Failure::usage(
                "search_credentials_ambiguous",
                format!("Both {} and {} say who calls, and a request bears only one of them.", one.at(place), other.at(place)),
            )
            .hint(
                "Leave out all but one of --user with --password-file, --api-key-file and --bearer-file, and of their variables.",
            )),
            (first, _) => Ok(first.map(|(kind, _, _)| kind)),
        }
    }

    fn basic(&self, address: &Address) -> Result<Secret, Failure> {
        // A user in an address of the command line is meant for this call.
        let of_call = |id| self.sources.source(id) == Some(Source::Flag);
        let user = match (&self.args.user, &address.user) {
            (Some(_), Some(user)) if of_call(URL.id) && !of_call(USER.id) => Some(user),
            (user, in_url) => user.as_ref().or(in_url.as_ref()),
        };
        let password = match (&self.args.password_file, &address.password) {
            (Some(file), _) => Some(Secret::from_file("password", file)?),
            (None, in_url) => in_url.clone(),
        };
        match (user, password) {
            (Some(user), Some(_)) if user.contains(':') => Err(Failure::usage(
                "search_user_invalid",
                "The name of the search database's user has a colon in it, which basic authentication cannot say.",
            )
            .hint("Name the user without one with --user (SVC_SEARCH_USER), or say who calls by --api-key-file.")),
            (Some(user), Some(password)) => {
                Ok(Secret::new(format!("Basic {}", STANDARD.encode(format!("{user}:{}", password.expose())))))
            }
            (Some(user), None) => Err(Failure::usage(
                "search_password_missing",
                format!("Nothing says the password of the search database's user {user}."),
            )
            .hint("Write it into a file and name it with --password-file (SVC_SEARCH_PASSWORD_FILE).")),
            (None, _) => Err(Failure::usage("search_user_missing", "There is a password for the search database but no user.")
                .hint("Name the user with --user (SVC_SEARCH_USER).")),
        }
    }
}

/// `id:key` is encoded; what the server calls `encoded` is sent as it is.
fn api_key(path: &Path) -> Result<Secret, Failure> {
    let key = Secret::from_file("API key", path)?;
    let text = key.expose().trim();
    let encoded = if text.contains(':') { STANDARD.encode(text) } else { text.to_owned() };
    if !is_token(text) {
        return Err(Failure::usage("api_key_invalid", format!("The first line of {} is no API key.", path.display()))
            .hint("Write the key into it as `id:key`, or what the server gave as `encoded`, and nothing else."));
    }
    Ok(Secret::new(format!("ApiKey {encoded}")))
}

fn bearer(path: &Path) -> Result<Secret, Failure> {
    let token = Secret::from_file("bearer token", path)?;
    let text = token.expose().trim();
    if !is_token(text) {
        return Err(Failure::usage("bearer_token_invalid", format!("The first line of {} is no bearer token.", path.display()))
            .hint("Write the token alone into it, without `Bearer` before it."));
    }
    Ok(Secret::new(format!("Bearer {text}")))
}

/// Whether it may stand in a header as one word.
fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic()) && !text.starts_with(['{', '"'])
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::super::tests::{connection, of_environment};

    struct Files(tempfile::TempDir);

    impl Files {
        fn file(&self, name: &str, text: &str) -> String {
            let path = self.0.path().join(name);
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
            path.display().to_string()
        }
    }

    fn header(args: &[&str]) -> Result<Option<String>, String> {
        let reach = connection(args).reach().map_err(|failure| failure.code)?;
        Ok(reach.authorization.map(|secret| secret.expose().to_owned()))
    }

    #[test]
    fn each_kind_of_credentials_has_its_header() {
        let files = Files(tempfile::tempdir().unwrap());
        let password = files.file("password", "p\u{e4}ss\n");
        assert_eq!(header(&["--user", "svc", "--password-file", &password]), Ok(Some("Basic c3ZjOnDDpHNz".to_owned())));
        let in_address = of_environment(connection(&["--url", "http://svc:pw@es1"]), "url").reach().unwrap();
        assert_eq!(in_address.authorization.unwrap().expose(), "Basic c3ZjOnB3");
        assert_eq!(header(&["--api-key-file", &files.file("pair", "id:key\n")]), Ok(Some("ApiKey aWQ6a2V5".to_owned())));
        assert_eq!(header(&["--api-key-file", &files.file("key", "aWQ6a2V5\n")]), Ok(Some("ApiKey aWQ6a2V5".to_owned())));
        assert_eq!(header(&["--bearer-file", &files.file("token", "AAE.x-y_z\n")]), Ok(Some("Bearer AAE.x-y_z".to_owned())));
        for (flag, text, code) in [
            ("--api-key-file", "{\"encoded\":\"aWQ6a2V5\"}", "api_key_invalid"),
            ("--api-key-file", "ApiKey aWQ6a2V5", "api_key_invalid"),
            ("--bearer-file", "Bearer AAE", "bearer_token_invalid"),
            ("--bearer-file", "\nAAE", "secret_file_empty"),
        ] {
            assert_eq!(header(&[flag, &files.file("bad", text)]), Err(code.to_owned()), "{text}");
        }
    }

    #[test]
    fn a_password_in_an_argument_is_refused_and_not_repeated() {
        let failure = connection(&["--url", "http://svc:hunter2@es1"]).reach().unwrap_err();
        assert_eq!((failure.status.code(), failure.code.as_str()), (2, "secret_on_command_line"));
        assert!(failure.hint.as_ref().unwrap().contains("--password-file") && !format!("{failure:?}").contains("hunter2"));
    }

    #[test]
    fn two_kinds_of_credentials_are_one_too_many() {
        let files = Files(tempfile::tempdir().unwrap());
        let file = files.file("secret", "x\n");
        for args in [
            &["--user", "svc", "--api-key-file", &file][..],
            &["--api-key-file", &file, "--bearer-file", &file],
            &["--url", "http://svc@es1", "--bearer-file", &file],
        ] {
            let failure = connection(args).reach().unwrap_err();
            assert_eq!((failure.status.code(), failure.code.as_str()), (2, "search_credentials_ambiguous"));
            assert!(failure.message.contains("-file and") || failure.message.contains(" and --"), "{}", failure.message);
        }
    }
}
