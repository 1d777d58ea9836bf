//! What `create` gives a snapshot: its name, and its metadata (procedure, 2.2) with the mark by which a run knows its own snapshot again.

use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use svc_step::{Call, OsUser};

use crate::repository::checked_name;

/// What a snapshot is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// Taken by hand.
    Manual,
    /// Taken every night.
    Nightly,
    /// Taken before an upgrade, after the service's stop.
    Upgrade,
    /// Taken before an upgrade while the service still runs.
    Warm,
}

impl Kind {
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }
}

#[derive(Debug, Clone, Args)]
pub struct MarkArgs {
    /// Who takes it; default: the calling user
    #[arg(long, value_name = "WHO")]
    taken_by: Option<String>,
    /// Why it is taken; default: its kind
    #[arg(long, value_name = "WHY")]
    taken_because: Option<String>,
    /// What it is for; svc-snap prune selects by it
    #[arg(long, value_enum, default_value = "manual")]
    kind: Kind,
    /// Further metadata of the snapshot; repeatable
    #[arg(long, value_name = "KEY=VALUE", value_parser = member)]
    metadata: Vec<(String, String)>,
}

impl MarkArgs {
    /// The metadata, with this run's mark.
    pub(crate) fn metadata(&self, call: &Call) -> Value {
        let kind = self.kind.name();
        let own = [
            ("taken_by", json!(self.taken_by.clone().unwrap_or_else(caller))),
            ("taken_because", json!(self.taken_because.as_ref().unwrap_or(&kind))),
            ("svc_tools", json!({"run_id": call.run_id().as_str(), "kind": kind})),
        ];
        let given = self.metadata.iter().map(|(key, value)| (key.clone(), json!(value)));
        given.chain(own.map(|(key, value)| (key.to_owned(), value))).collect()
    }
}

/// Who called: behind sudo, the person and not root.
fn caller() -> String {
    let sudo = std::env::var("SUDO_USER").ok().filter(|name| !name.is_empty());
    sudo.or_else(|| OsUser::current().map(|user| user.name)).unwrap_or_else(|| "unknown".to_owned())
}

/// A key of the metadata that is not one of ours, and its value.
fn member(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some(("taken_by" | "taken_because" | "svc_tools", _)) => {
            Err("this key has an option of its own, or is svc-snap's".to_owned())
        }
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("write KEY=VALUE".to_owned()),
    }
}

/// Checks a snapshot's name; date mathematics (`<snap-{now/d}>`) is not taken, since its name is not known before.
pub(crate) fn name(text: &str) -> Result<String, String> {
    checked_name("snapshot", text, true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked_by_the_servers_rules() {
        assert_eq!(name("snapshot_svc_20261120t0200z-2.0.1").as_deref(), Ok("snapshot_svc_20261120t0200z-2.0.1"));
        for bad in ["", "_a", "-a", "A", "a b", "a/b", "a\\b", "a*", "a?", "a\"", "<a>", "a|", "a,b", "a#", ".", "..", "a\n"] {
            assert!(name(bad).is_err(), "{bad:?}");
            assert_eq!(crate::repository::repository_name(bad).is_ok(), bad == "A", "{bad:?}");
        }
    }
}
