//! Who calls: a user with a password, an API key, or a bearer token. A request carries one of them.

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use svc_step::Failure;
use svc_step::secret::Secret;

use super::Connection;
use super::url::Address;

/// All users of the host can read the arguments of a process.
pub(super) fn password_in_arguments() -> Failure {
    Failure::usage("secret_on_command_line", "There is a password in --url, where all users of this host can read it.").hint(
        "Pass --user NAME --password-file FILE, or set the address by SVC_SEARCH_URL; then change the password, which may be known by now.",
    )
}

/// Credentials that cannot be used.
fn invalid(message: impl Into<String>, hint: &str) -> Failure {
    Failure::usage("search_credentials_invalid", message).hint(hint)
}

impl Connection {
    /// The value of the header `Authorization`.
    ///
    /// # Errors
    /// More than one kind, or half of one (2); a file that cannot be used.
    pub(super) fn authorization(&self, address: &Address) -> Result<Option<Secret>, Failure> {
        let args = &self.args;
        let user = args.user.as_ref().or(address.user.as_ref());
        let is_basic = user.is_some() || args.password_file.is_some() || address.password.is_some();
        match (is_basic, &args.api_key_file, &args.bearer_file) {
            (false, None, None) => Ok(None),
            (true, None, None) => self.basic(user, address).map(Some),
            (false, Some(file), None) => api_key(file).map(Some),
            (false, None, Some(file)) => bearer(file).map(Some),
            _ => Err(Failure::usage(
                "search_credentials_ambiguous",
                "A request carries one of user with password, API key and bearer token, and more than one is given.",
            )
            .hint("Leave out all but one of --user with --password-file (SVC_SEARCH_USER), --api-key-file (SVC_SEARCH_API_KEY_FILE) and --bearer-file (SVC_SEARCH_BEARER_FILE).")),
        }
    }

    fn basic(&self, user: Option<&String>, address: &Address) -> Result<Secret, Failure> {
        let password = match (&self.args.password_file, &address.password) {
            (Some(file), _) => Some(Secret::from_file("password", file)?),
            (None, in_url) => in_url.clone(),
        };
        match (user, password) {
            (Some(user), Some(_)) if user.contains(':') => Err(invalid(
                "The name of the user has a colon in it, which basic authentication cannot carry.",
                "Name the user without one with --user (SVC_SEARCH_USER), or use --api-key-file.",
            )),
            (Some(user), Some(password)) => {
                Ok(Secret::new(format!("Basic {}", STANDARD.encode(format!("{user}:{}", password.expose())))))
            }
            (Some(user), None) => Err(invalid(
                format!("The password of the user {user} is not given."),
                "Write it into a file and name it with --password-file (SVC_SEARCH_PASSWORD_FILE).",
            )),
            (None, _) => Err(invalid("A password is given without its user.", "Name the user with --user (SVC_SEARCH_USER).")),
        }
    }
}

/// `id:key` is encoded; what the server calls `encoded` is sent as it is.
fn api_key(path: &Path) -> Result<Secret, Failure> {
    let key = Secret::from_file("API key", path)?;
    let text = key.expose().trim();
    if !is_token(text) {
        let message = format!("The first line of {} is no API key.", path.display());
        return Err(invalid(
            message,
            "Write the key into it as `id:key`, or what the server gave as `encoded`, and nothing else.",
        ));
    }
    let encoded = if text.contains(':') { STANDARD.encode(text) } else { text.to_owned() };
    Ok(Secret::new(format!("ApiKey {encoded}")))
}

fn bearer(path: &Path) -> Result<Secret, Failure> {
    let token = Secret::from_file("bearer token", path)?;
    let text = token.expose().trim();
    if !is_token(text) {
        let message = format!("The first line of {} is no bearer token.", path.display());
        return Err(invalid(message, "Write the token alone into it, without `Bearer` before it."));
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

    use super::super::tests::{connection, given};

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
        let in_address = given(&["--url", "http://svc:pw@es1"], &[]).reach().unwrap();
        assert_eq!(in_address.authorization.unwrap().expose(), "Basic c3ZjOnB3");
        assert_eq!(header(&["--api-key-file", &files.file("pair", "id:key\n")]), Ok(Some("ApiKey aWQ6a2V5".to_owned())));
        assert_eq!(header(&["--api-key-file", &files.file("key", "aWQ6a2V5\n")]), Ok(Some("ApiKey aWQ6a2V5".to_owned())));
        assert_eq!(header(&["--bearer-file", &files.file("token", "AAE.x-y_z\n")]), Ok(Some("Bearer AAE.x-y_z".to_owned())));
        for (flag, text, code) in [
            ("--api-key-file", "{\"encoded\":\"aWQ6a2V5\"}", "search_credentials_invalid"),
            ("--api-key-file", "ApiKey aWQ6a2V5", "search_credentials_invalid"),
            ("--bearer-file", "Bearer AAE", "search_credentials_invalid"),
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
        }
    }

    #[test]
    fn what_the_command_line_gives_wins_over_the_environment() {
        let files = Files(tempfile::tempdir().unwrap());
        let (password, key) = (files.file("password", "pw\n"), files.file("key", "id:key\n"));
        let all = ["--url", "http://env:pw@es1", "--user", "svc", "--password-file", &password, "--api-key-file", &key];
        let header = |is_given: &[&str]| {
            let reach = given(&all, is_given).reach().map_err(|failure| failure.code)?;
            Ok::<_, String>(reach.authorization.map(|secret| secret.expose().to_owned()).unwrap_or_default())
        };
        assert_eq!(header(&[]), Err("search_credentials_ambiguous".to_owned()));
        assert_eq!(header(&["api_key_file"]), Ok("ApiKey aWQ6a2V5".to_owned()));
        assert_eq!(header(&["user"]), Ok("Basic c3ZjOnB3".to_owned()));
        let address = ["--url", "http://svc@es1", "--user", "env", "--password-file", &password];
        assert_eq!(given(&address, &["url"]).reach().unwrap().authorization.unwrap().expose(), "Basic c3ZjOnB3");
        let trust = ["--url", "https://es1", "--insecure", "--ca-cert", "/nowhere"];
        assert!(given(&trust, &["insecure"]).reach().unwrap().unverified);
        assert_eq!(given(&trust, &[]).reach().unwrap_err().code, "search_trust_ambiguous");
    }
}
