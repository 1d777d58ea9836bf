//! The definition of a repository: as it is asked for, and as the server has it.

use serde_json::{Map, Value, json};
use svc_step::Failure;
use svc_step::line_secrets::json_without_secrets;
use svc_step::secret::is_secret_name;

use super::RegisterArgs;
use crate::rate::{Note, without_note};
use crate::repository;
use crate::server::json::text;

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
    /// A folder is missing or not absolute, or a secret stands on the command line (2); as [`svc_step::secret::Secret::from_file`].
    pub(super) fn wanted(args: &RegisterArgs) -> Result<Self, Failure> {
        let mut settings = Map::new();
        if args.kind == "fs" {
            let location = args.location.as_ref().ok_or_else(|| {
                Failure::usage("location_missing", "Nothing says which folder the repository has.")
                    .hint("Say --location DIR (SVC_BACKUP_REPO); other types than fs have settings (--type, --setting).")
            })?;
            let text = location.to_str().filter(|_| location.is_absolute()).ok_or_else(|| {
                Failure::usage("location_not_absolute", "The repository's folder is not named by an absolute path.")
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

    /// As it was registered: without what a run that takes a snapshot has changed for that time.
    pub(super) fn read(value: &Value) -> Self {
        let (settings, _) = without_note(&settings(value));
        Self { kind: text(value, "/type").unwrap_or_default().to_owned(), settings }
    }

    /// Whether the server has it as it was asked for. Some settings of plugins are secrets that no server gives out.
    pub(super) fn is_as(&self, wanted: &Self) -> bool {
        let shown = |(name, _): &(&String, &Value)| self.settings.contains_key(*name) || !is_secret_name(name);
        let asked: Map<String, Value> =
            wanted.settings.iter().filter(shown).map(|(name, value)| (name.clone(), value.clone())).collect();
        self.kind == wanted.kind && self.settings == asked
    }

    /// Whether the server may know settings of it that it does not show.
    pub(super) fn hides_settings(&self) -> bool {
        !repository::SHOWN_WHOLE.contains(&self.kind.as_str())
    }

    /// The note of a run that has changed its rate.
    pub(super) fn note(value: &Value) -> Option<Note> {
        without_note(&settings(value)).1
    }

    /// Its folder, where it has one.
    pub(super) fn location(&self) -> Option<&str> {
        self.settings.get("location").and_then(Value::as_str)
    }

    /// Its settings that would be lost or changed if it were registered as `wanted`, with their values.
    pub(super) fn lost_with(&self, wanted: &Self) -> Vec<String> {
        let (shown, instead) = (json_without_secrets(&self.settings), json_without_secrets(&wanted.settings));
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let lost = self.settings.iter().filter(|(key, value)| wanted.settings.get(*key) != Some(value));
        let value = |of: &Map<String, Value>, key: &str| of.get(key).map(text);
        let named = lost.map(|(key, _)| match (value(&shown, key).unwrap_or_default(), value(&instead, key)) {
            (is, Some(instead)) => format!("{key} ({is}, and not {instead})"),
            (is, None) => format!("{key} ({is})"),
        });
        named.collect()
    }

    /// Whether it is another place than `other`, so that its snapshots would be out of sight.
    pub(super) fn is_elsewhere(&self, other: &Self) -> bool {
        const PLACES: [&str; 8] = ["location", "url", "uri", "path", "bucket", "container", "base_path", "client"];
        self.kind != other.kind || PLACES.iter().any(|place| self.settings.get(*place) != other.settings.get(*place))
    }
}

fn settings(value: &Value) -> Map<String, Value> {
    value.get("settings").and_then(Value::as_object).cloned().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_types_without_hidden_settings_are_written_back() {
        let of = |kind: &str| Definition { kind: kind.to_owned(), settings: Map::new() };
        assert!(!of("fs").hides_settings() && !of("azure").hides_settings());
        assert!(["s3", "tape"].iter().all(|kind| of(kind).hides_settings()));
    }
}
