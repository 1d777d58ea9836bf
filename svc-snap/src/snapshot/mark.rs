//! What is written into a snapshot's metadata (procedure, 2.2): who took it and why, and the mark by which a run knows its
//! own snapshot again after a lost connection.

use clap::{Args, ValueEnum};
use serde_json::{Map, Value, json};
use svc_step::user::OsUser;
use svc_step::{Call, Failure};

use crate::snapshot::Snapshot;

/// The key of what is ours.
const OURS: &str = "svc_tools";
/// The servers take so many bytes of JSON and no more (seen on all six, to the byte).
const LIMIT: usize = 1024;

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

/// What is said of a snapshot in its metadata.
#[derive(Debug, Clone, Args)]
pub struct MarkArgs {
    /// Who takes it; default: the calling user
    #[arg(long, value_name = "WHO")]
    taken_by: Option<String>,
    /// Why it is taken; default: its kind
    #[arg(long, value_name = "WHY")]
    taken_because: Option<String>,
    /// What it is for; svc-snap prune goes by it
    #[arg(long, value_enum, default_value = "manual")]
    kind: Kind,
    /// A further entry of its metadata (repeatable)
    #[arg(long, value_name = "KEY=VALUE", value_parser = entry)]
    metadata: Vec<(String, String)>,
}

/// The metadata of a snapshot that is to be taken.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Mark {
    /// `svc_tools` of the metadata: the run and the kind.
    ours: Value,
    metadata: Map<String, Value>,
}

impl MarkArgs {
    /// The metadata, with this run's mark.
    ///
    /// # Errors
    /// It is larger than servers take (2).
    pub(crate) fn mark(&self, call: &Call) -> Result<Mark, Failure> {
        let kind = self.kind.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
        let mut metadata = Map::new();
        metadata.insert("taken_by".to_owned(), json!(self.taken_by.clone().unwrap_or_else(caller)));
        metadata.insert("taken_because".to_owned(), json!(self.taken_because.as_ref().unwrap_or(&kind)));
        for (key, value) in &self.metadata {
            if metadata.insert(key.clone(), json!(value)).is_some() {
                return Err(Failure::usage("metadata_twice", format!("--metadata names {key} twice."))
                    .hint("Give each key of --metadata once."));
            }
        }
        let ours = json!({"run_id": call.run_id().as_str(), "kind": kind});
        metadata.insert(OURS.to_owned(), ours.clone());
        let size = size(&json!(metadata).to_string());
        if size > LIMIT {
            return Err(Failure::usage(
                "metadata_too_large",
                format!(
                    "The snapshot's metadata would be {size} bytes, {} more than the {LIMIT} that servers take.",
                    size.saturating_sub(LIMIT)
                ),
            )
            .hint("Shorten --taken-because, or give fewer --metadata."));
        }
        Ok(Mark { ours, metadata })
    }
}

impl Mark {
    /// The metadata as the server gets it.
    pub(crate) const fn metadata(&self) -> &Map<String, Value> {
        &self.metadata
    }

    /// What tells this run's snapshots from all others.
    pub(crate) const fn ours(&self) -> &Value {
        &self.ours
    }

    /// Whether this run took that snapshot.
    pub(crate) fn is_on(&self, snapshot: &Snapshot) -> bool {
        is_same(&self.ours, snapshot)
    }
}

/// How many bytes the servers count: those of the JSON, in which all but OpenSearch 3 write a character beyond the Basic
/// Multilingual Plane as two escapes of six bytes each.
fn size(json: &str) -> usize {
    json.chars().map(|one| if one.len_utf8() == 4 { 12 } else { one.len_utf8() }).sum()
}

/// Whether `ours` ([`Mark::ours`]) is the mark on that snapshot.
pub(crate) fn is_same(ours: &Value, snapshot: &Snapshot) -> bool {
    snapshot.metadata.get(OURS).is_some_and(|theirs| theirs.get("run_id") == ours.get("run_id"))
}

/// Whether svc-snap took that snapshot, in whatever run.
pub(crate) fn is_ours(snapshot: &Snapshot) -> bool {
    snapshot.run_id.is_some() && snapshot.kind.is_some()
}

/// Who called: behind sudo, the person and not root.
fn caller() -> String {
    let sudo = std::env::var("SUDO_USER").ok().filter(|name| !name.is_empty());
    sudo.or_else(|| OsUser::current().map(|user| user.name)).unwrap_or_else(|| "unknown".to_owned())
}

fn entry(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, _)) if key == OURS || key == "taken_by" || key == "taken_because" => {
            Err(format!("`{key}` is set by svc-snap itself; see --taken-by and --taken-because"))
        }
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err(format!("`{text}` is not of the form KEY=VALUE")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_counted_as_the_servers_count_them() {
        assert_eq!(size("{\"a\":\"x\\n\u{fc}\u{20ac}\"}"), 16);
        assert_eq!(size("\u{1f600}"), 12);
    }

    #[test]
    fn entries_are_pairs_and_cannot_forge_our_own() {
        assert_eq!(entry("ticket=A=1"), Ok(("ticket".to_owned(), "A=1".to_owned())));
        for bad in ["ticket", "=x", "svc_tools=x", "taken_by=me"] {
            assert!(entry(bad).is_err(), "{bad}");
        }
    }
}
