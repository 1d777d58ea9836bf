//! The definition of a repository: as it is asked for, and as the server has it.

use std::path::Path;

use serde_json::{Map, Value, json};
use svc_step::line_secrets::json_without_secrets;
use svc_step::secret::{Secret, is_secret_name};
use svc_step::{Call, Failure};

use super::RegisterArgs;
use crate::repository;
use crate::server::json::text;
use crate::throttle::without_note;

/// A setting of the command line: `KEY=VALUE`, or `KEY=@FILE` for a secret.
#[derive(Debug, Clone)]
pub(super) struct Setting {
    key: String,
    /// It may be a secret, until it is checked.
    text: Secret,
}

/// It may hold a secret, so a refusal does not repeat it.
pub(super) fn setting(text: &str) -> Result<Setting, String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok(Setting { key: key.to_owned(), text: Secret::new(value.to_owned()) }),
        _ => Err("write a setting as KEY=VALUE or KEY=@FILE".to_owned()),
    }
}

impl Setting {
    /// # Errors
    /// It is a secret on the command line (2); as [`Secret::from_file`].
    fn value(&self) -> Result<String, Failure> {
        let (key, text) = (&self.key, self.text.expose());
        if let Some(file) = text.strip_prefix('@') {
            return Secret::from_file(key, Path::new(file)).map(|secret| secret.expose().to_owned());
        }
        let given = Map::from_iter([(key.clone(), json!(text))]);
        if json_without_secrets(&given) == given {
            return Ok(text.to_owned());
        }
        let message = format!("The setting {key} holds a secret, and all users of this host can read it on the command line.");
        Err(Failure::usage("secret_on_command_line", message).hint(format!(
            "Write it into a file of mode 600 and pass --setting {key}=@FILE, or into the server's keystore; then change the secret, which may be known by now."
        )))
    }
}

/// A definition (2.1). The server keeps every setting as a string.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Definition {
    pub kind: String,
    pub settings: Map<String, Value>,
}

impl Definition {
    /// What is asked for.
    ///
    /// # Errors
    /// A folder is missing or not absolute (2); as [`Setting::value`].
    pub(super) fn wanted(args: &RegisterArgs) -> Result<Self, Failure> {
        let mut settings = Map::new();
        if args.kind == "fs" {
            let location = args.location.as_ref().ok_or_else(|| {
                Failure::usage("location_missing", "The repository's folder is not given.")
                    .hint("Pass --location DIR (SVC_BACKUP_REPO); other types than fs have settings (--type, --setting).")
            })?;
            let text = location.to_str().filter(|_| location.is_absolute()).ok_or_else(|| {
                Failure::usage("location_not_absolute", "The repository's folder is not an absolute path.")
                    .hint("Write --location (SVC_BACKUP_REPO) as /DIR/backup_repo.")
            })?;
            settings.insert("location".to_owned(), json!(text.trim_end_matches('/')));
            settings.insert("compress".to_owned(), json!("true"));
        }
        if args.readonly {
            settings.insert("readonly".to_owned(), json!("true"));
        }
        for setting in &args.settings {
            settings.insert(setting.key.clone(), json!(setting.value()?));
        }
        Ok(Self { kind: args.kind.clone(), settings })
    }

    /// As it was registered, without a run's change of its rate; and whether an ended run of this state folder made one.
    pub(super) fn read(call: &Call, value: &Value) -> (Self, bool) {
        let (settings, is_left) = without_note(call, value);
        (Self { kind: text(value, "/type").unwrap_or_default().to_owned(), settings }, is_left)
    }

    pub(super) fn body(&self) -> Value {
        json!({"type": self.kind, "settings": self.settings})
    }

    /// The body without secrets.
    pub(super) fn shown(&self) -> Value {
        json!({"type": self.kind, "settings": json_without_secrets(&self.settings)})
    }

    /// Whether the server has it as it was asked for. Some settings of plugins are secrets that no server shows.
    pub(super) fn is_as(&self, wanted: &Self) -> bool {
        let mut asked = wanted.settings.clone();
        asked.retain(|name, _| self.settings.contains_key(name) || !is_secret_name(name));
        self.kind == wanted.kind && self.settings == asked
    }

    /// Whether the server may know settings of it that it does not show.
    pub(super) fn hides_settings(&self) -> bool {
        !repository::SHOWN_WHOLE.contains(&self.kind.as_str())
    }

    /// Refuses to register `wanted` instead of it where its snapshots would be out of sight, or settings lost or changed.
    ///
    /// # Errors
    /// It is in another place, or has such settings, all named (3).
    pub(super) fn refuse_loss(&self, name: &str, wanted: &Self) -> Result<(), Failure> {
        const PLACES: [&str; 8] = ["location", "url", "uri", "path", "bucket", "container", "base_path", "client"];
        if self.kind != wanted.kind || PLACES.iter().any(|place| self.settings.get(*place) != wanted.settings.get(*place)) {
            let place =
                self.settings.get("location").and_then(Value::as_str).map(|place| format!(" at {place}")).unwrap_or_default();
            let message = format!("A repository {name} is registered already, of type {}{place}.", self.kind);
            return Err(Failure::refused("repository_elsewhere", message).hint(
                "Register the new one under another name (--repository), or pass --replace; its snapshots stay in their folder.",
            ));
        }
        let (shown, instead) = (json_without_secrets(&self.settings), json_without_secrets(&wanted.settings));
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let lost = self.settings.iter().filter(|(key, value)| wanted.settings.get(*key) != Some(value));
        let named = lost.map(|(key, _)| match (shown.get(key).map(text).unwrap_or_default(), instead.get(key).map(text)) {
            (is, Some(instead)) => format!("{key} ({is}, and not {instead})"),
            (is, None) => format!("{key} ({is})"),
        });
        let named: Vec<String> = named.collect();
        if named.is_empty() {
            return Ok(());
        }
        let settings = named.join(", ");
        let message =
            format!("The repository {name} is registered already, with settings that would be lost or changed: {settings}.");
        Err(Failure::refused("repository_differs", message)
            .hint("Give these settings too (--readonly, --setting KEY=VALUE), or pass --replace."))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_secret_comes_from_a_file_and_anything_else_as_it_is() {
        let value = |text: &str| setting(text).unwrap().value();
        assert_eq!(value("bucket=a=b").unwrap(), "a=b");
        assert_eq!(value("url=https://host:1/a").unwrap(), "https://host:1/a");
        for text in
            ["secret_key=hunter2", "client.access_key=hunter2", "url=https://me:hunter2@host/", "url=https://me:hunter2/x@host/"]
        {
            let failure = value(text).unwrap_err();
            assert_eq!((failure.status.code(), failure.code.as_str()), (2, "secret_on_command_line"), "{text}");
            assert!(!format!("{failure:?}").contains("hunter2"), "{text}");
        }
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("key");
        fs::write(&file, "hunter2\n").unwrap();
        let text = format!("secret_key=@{}", file.display());
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(value(&text).unwrap(), "hunter2");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(value(&text).unwrap_err().code, "secret_file_open");
    }

    #[test]
    fn what_would_be_lost_is_named_without_secrets_and_what_is_added_is_no_loss() {
        let of =
            |settings: Value| Definition { kind: "fs".to_owned(), settings: settings.as_object().cloned().unwrap_or_default() };
        let wanted = of(json!({"location": "/a", "compress": "true"}));
        assert!(of(json!({"location": "/a"})).refuse_loss("r", &wanted).is_ok());
        assert_eq!(of(json!({"location": "/b"})).refuse_loss("r", &wanted).unwrap_err().code, "repository_elsewhere");
        let more = of(json!({"location": "/a", "compress": "false", "readonly": "true", "sas_token": "hunter2"}));
        let failure = more.refuse_loss("r", &wanted).unwrap_err();
        assert_eq!((failure.status.code(), failure.code.as_str()), (3, "repository_differs"));
        for named in ["compress (false, and not true)", "readonly (true)", "sas_token (<redacted>)"] {
            assert!(failure.message.contains(named), "{failure}");
        }
        assert!(!of(json!({})).hides_settings() && Definition { kind: "s3".to_owned(), ..wanted }.hides_settings());
    }
}
