//! A setting of a repository as the command line has it. A secret is none of it: everybody on the host can read the arguments of a
//! process, so its file is named instead.

use std::path::Path;

use serde_json::{Map, json};
use svc_step::Failure;
use svc_step::line_secrets::json_without_secrets;
use svc_step::secret::Secret;

/// A setting: `KEY=VALUE`, or `KEY=@FILE`.
#[derive(Debug, Clone)]
pub(super) struct Setting {
    pub key: String,
    /// It may be a secret, until it is looked at.
    text: Secret,
}

/// Reads an argument.
pub(super) fn parse(text: &str) -> Result<Setting, String> {
    // It may hold a secret, so it is not repeated.
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok(Setting { key: key.to_owned(), text: Secret::new(value.to_owned()) }),
        _ => Err("write a setting as KEY=VALUE or KEY=@FILE".to_owned()),
    }
}

impl Setting {
    /// What it is set to.
    ///
    /// # Errors
    /// It is a secret and stands on the command line (2); as [`Secret::from_file`].
    pub(super) fn value(&self) -> Result<String, Failure> {
        let (key, text) = (&self.key, self.text.expose());
        if let Some(file) = text.strip_prefix('@') {
            return Secret::from_file(key, Path::new(file)).map(|secret| secret.expose().to_owned());
        }
        let given = Map::from_iter([(key.clone(), json!(text))]);
        if json_without_secrets(&given) == given {
            return Ok(text.to_owned());
        }
        Err(Failure::usage(
            "secret_on_command_line",
            format!("The setting {key} holds a secret, and everybody on this host can read it on the command line."),
        )
        .hint(format!(
            "Put it into a file of mode 600 and say --setting {key}=@FILE, or into the search database's keystore; whoever is on this host may know it by now."
        )))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_secret_comes_from_a_file_and_anything_else_as_it_is() {
        let value = |text: &str| parse(text).unwrap().value();
        assert_eq!(value("bucket=a=b").unwrap(), "a=b");
        assert_eq!(value("url=https://host:1/a").unwrap(), "https://host:1/a");
        for text in [
            "secret_key=hunter2",
            "client.access_key=hunter2",
            "url=https://me:hunter2@host/",
            "url=https://me:hunter2/x@host/",
            "url=https://me:1/hunter2@host/",
        ] {
            let failure = value(text).unwrap_err();
            assert_eq!((failure.status.code(), failure.code.as_str()), (2, "secret_on_command_line"), "{text}");
            assert!(failure.hint.as_ref().unwrap().contains("=@FILE") && !format!("{failure:?}").contains("hunter2"), "{text}");
        }
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("key");
        fs::write(&file, "hunter2\n").unwrap();
        let text = format!("secret_key=@{}", file.display());
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(value(&text).unwrap(), "hunter2");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(value(&text).unwrap_err().code, "secret_file_open");
        assert!(!format!("{:?}", parse("secret_key=hunter2").unwrap()).contains("hunter2"));
    }
}
