//! Is a snapshot a valid backup (procedure, 3 and 7), and can this server restore it?

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_step::document::Time;
use svc_step::{Failure, Status};

use crate::client::{Product, Server, errors};
use crate::snapshot::{Compatibility, Shards, Snapshot};

/// Whether a finished snapshot holds every name of `wanted`, and nothing failed (else 7): the server calls one of nothing a success.
pub(crate) fn check(repository: &str, snapshot: &Snapshot, wanted: &[String]) -> Result<(), Failure> {
    let name = format!("The snapshot {} in {repository}", snapshot.name);
    if snapshot.is_under_way() {
        return Err(Failure { status: Status::Invalid, ..under_way(repository, &snapshot.name) });
    }
    if snapshot.state != "SUCCESS" || !snapshot.failures.is_empty() || snapshot.shards.failed_count > 0 {
        let Shards { failed_count, total_count, .. } = snapshot.shards;
        let state = &snapshot.state;
        let message =
            format!("{name} is not a valid backup: its state is {state}, and {failed_count} of {total_count} shards failed.");
        let mut failure = Failure::invalid("snapshot_invalid", message)
            .hint("result.snapshot.failures says which; fix those indices, then take another snapshot.");
        failure.causes.extend(snapshot.reason.clone());
        let failed = snapshot.failures.iter().take(10);
        failure.causes.extend(failed.map(|one| format!("{}[{}]: {}", one.index, one.shard, one.reason)));
        return Err(failure);
    }
    if snapshot.indices.is_empty() && snapshot.data_streams.is_empty() {
        return Err(Failure::invalid("snapshot_invalid", format!("{name} holds no index at all."))
            .hint("GET /_cat/indices shows what there is; see --indices and SVC_INDICES."));
    }
    let is_missing = |name: &&String| !snapshot.indices.contains(name) && !snapshot.data_streams.contains(name);
    let missing: Vec<&str> = wanted.iter().filter(is_missing).map(String::as_str).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let message = format!("{name} does not hold {}, which was asked for.", missing.join(", "));
    Err(Failure::invalid("snapshot_invalid", message).hint("It was probably deleted meanwhile; take another snapshot."))
}

/// It is still being taken, so nothing is done to it (3).
pub(crate) fn under_way(repository: &str, name: &str) -> Failure {
    Failure::refused("not_ready", format!("The snapshot {name} in {repository} is still being taken."))
        .hint(format!("svc-snap wait {name} --repository {repository} waits for it and verifies it."))
}

/// Refuses a snapshot of a newer version, of one that is too old, or of the other product (3).
pub(crate) fn check_restorable(server: &Server, repository: &str, snapshot: &Snapshot) -> Result<(), Failure> {
    let version = snapshot.version.as_ref().map(|version| format!(" ({version})")).unwrap_or_default();
    let (name, product, own) = (&snapshot.name, server.product, &server.version);
    let (taken_by, hint) = match snapshot.compatibility {
        Compatibility::Compatible => return Ok(()),
        Compatibility::Newer => (
            format!("a newer server{version}"),
            "Restore it into the version that took it, or a newer one; svc-snap list shows which others this one can restore.",
        ),
        Compatibility::TooOld => (format!("a server{version} of more than one major version before"), errors::TOO_OLD),
        Compatibility::Other => {
            let other = if server.product == Product::OpenSearch { Product::Elasticsearch } else { Product::OpenSearch };
            let hint =
                "Restore it into the product that took it; documents go from one product to the other by reindex from a remote.";
            (format!("{other:?}"), hint)
        }
    };
    let message = format!(
        "The snapshot {name} in {repository} was taken by {taken_by}; this is {product:?} {own}, which cannot restore it."
    );
    Err(Failure::refused("version_unsupported", message).hint(hint))
}

/// One snapshot of the list; `svc-snap show NAME` says more.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Item {
    pub name: String,
    pub uuid: String,
    /// Its state in the server's own words.
    pub state: String,
    /// Whether it is a valid backup; `null` while it is being taken.
    pub valid: Option<bool>,
    pub started_at: Option<Time>,
    pub duration_ms: Option<u64>,
    pub indices_count: u64,
    pub shards: Shards,
    /// Whether this server can restore it: not one of a newer server, one more than a major version older, or the other product.
    pub restorable: bool,
    /// The version of the server that took it; `null` if this one does not know that version.
    pub version: Option<String>,
    pub taken_by: Option<String>,
    pub taken_because: Option<String>,
    /// What it is for; `null` if it is not one of ours.
    pub kind: Option<String>,
    /// The run that took it; `null` if it is not one of ours.
    pub run_id: Option<String>,
}

impl Item {
    pub(crate) fn of(repository: &str, snapshot: Snapshot) -> Self {
        Self {
            valid: (!snapshot.is_under_way()).then(|| check(repository, &snapshot, &[]).is_ok()),
            restorable: snapshot.compatibility == Compatibility::Compatible,
            name: snapshot.name,
            uuid: snapshot.uuid,
            state: snapshot.state,
            started_at: snapshot.started_at,
            duration_ms: snapshot.duration_ms,
            indices_count: snapshot.indices.len() as u64,
            shards: snapshot.shards,
            version: snapshot.version,
            taken_by: snapshot.taken_by,
            taken_because: snapshot.taken_because,
            kind: snapshot.kind,
            run_id: snapshot.run_id,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn verdict(change: &Value, wanted: &[&str]) -> Result<(), (u8, String)> {
        let mut value = json!({"snapshot": "s", "uuid": "u", "indices": ["a", "b"], "state": "SUCCESS", "failures": [],
            "end_time_in_millis": 1, "shards": {"total": 2, "failed": 0, "successful": 2}});
        value.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        let wanted: Vec<String> = wanted.iter().map(|&name| name.to_owned()).collect();
        check("r", &Snapshot::read(&value).unwrap(), &wanted).map_err(|failure| {
            assert!(value.get("reason").is_none_or(|why| failure.causes == [why.as_str().unwrap()]), "{failure:?}");
            (failure.status.code(), failure.code)
        })
    }

    #[test]
    fn only_a_complete_snapshot_is_valid() {
        assert_eq!(verdict(&json!({}), &["a", "b"]), Ok(()));
        let failed = json!([{"index": "a", "shard_id": 0, "reason": "gone"}]);
        for (change, code) in [
            (json!({"state": "PARTIAL"}), "snapshot_invalid"),
            (json!({"failures": failed}), "snapshot_invalid"),
            (json!({"shards": {"total": 2, "failed": 1, "successful": 1}}), "snapshot_invalid"),
            (json!({"state": "FAILED", "reason": "aborted"}), "snapshot_invalid"),
            (json!({"state": "INCOMPATIBLE"}), "snapshot_invalid"),
            (json!({"state": "IN_PROGRESS"}), "not_ready"),
            (json!({"indices": []}), "snapshot_invalid"),
            (json!({"indices": ["a"]}), "snapshot_invalid"),
        ] {
            assert_eq!(verdict(&change, &["a", "b"]), Err((7, code.to_owned())), "{change}");
        }
    }
}
