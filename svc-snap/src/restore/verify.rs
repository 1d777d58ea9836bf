//! Waits until the server has restored what it was asked for, and verifies it: every shard, and the number of documents.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::Value;
use svc_step::poll::{AT_ONCE, poll};
use svc_step::progress::Parts;
use svc_step::{Call, Failure, Status, Unit};

use crate::client::{RETRY_BUSY_FOR, Server, list, members, number, path, retry_while_busy, text};
use crate::index::{Found, get_indices, incomplete, list_of, no_place, portions, refuse_any, unassigned};

/// For how long no shard of the cluster may be on its way while some of the restore have no place.
const NO_PLACE: Duration = Duration::from_secs(60);

/// Waits until the server restores nothing more of `names`; a shard that could not be restored is 7, with the server's own reason.
pub(crate) fn until_complete<T: AsRef<str>>(call: &Call, server: &Server, names: &[T]) -> Result<Found, Failure> {
    until_idle(call, server, names)?;
    let found = get_indices(server, names)?;
    let names = || names.iter().map(AsRef::as_ref);
    let is_taken = |name: &&str| found.get(*name).is_none_or(|index| index.metadata.closed);
    let message = "Another client has removed or closed these while they were restored";
    refuse_any("name_in_use", message, &names().filter(is_taken).collect::<Vec<_>>(), "Run the same command again.")?;
    let broken: Vec<&str> = names().filter(|name| found.get(*name).is_some_and(|index| !index.complete)).collect();
    if broken.is_empty() { Ok(found) } else { Err(not_complete(server, &broken)) }
}

/// The same, whatever came of it; a signal, the time limit or shards that no node takes (6) end it.
pub(crate) fn until_idle<T: AsRef<str>>(call: &Call, server: &Server, names: &[T]) -> Result<(), Failure> {
    if names.is_empty() {
        return Ok(());
    }
    let progress = call.progress("restore", Unit::Bytes);
    let wanted: BTreeSet<&str> = names.iter().map(AsRef::as_ref).collect();
    // The server may not answer, and a signal or the time limit must take effect all the same.
    let server = server.interruptible();
    let mut moved = Instant::now();
    let mut poll_once = || {
        if !is_restoring(&server.get("/_cluster/state/customs?filter_path=restore.snapshots.indices")?, &wanted) {
            return Ok(Some(()));
        }
        if progress.is_shown() {
            let (done, total, shards) = restored_bytes(&server, names)?;
            progress.set(done, total, Some(&shards));
        }
        if number(&server.get("/_cluster/health?filter_path=initializing_shards")?, "/initializing_shards") != Some(0) {
            moved = Instant::now();
        }
        if moved.elapsed() <= NO_PLACE {
            return Ok(None);
        }
        let names = incomplete(&server, &wanted.iter().copied().collect::<Vec<_>>()).unwrap_or_default();
        Err(no_place(&server, Status::Timeout, "timeout", &names))
    };
    // One poll that fails, of thousands, is no reason to begin again.
    let poll_once = || retry_while_busy(call, RETRY_BUSY_FOR, &mut poll_once);
    poll(AT_ONCE, Duration::MAX, |time| call.pause(time), poll_once).map(drop)
}

/// Whether the cluster's state speaks of a restore of one of `names`.
fn is_restoring(state: &Value, names: &BTreeSet<&str>) -> bool {
    let mut indices = list(state, "/restore/snapshots").flat_map(|restore| list(restore, "/indices"));
    indices.any(|index| index.as_str().is_some_and(|index| names.contains(index)))
}

/// How many bytes are restored, of how many, as far as the server knows yet; and how many shards are complete.
fn restored_bytes<T: AsRef<str>>(server: &Server, names: &[T]) -> Result<(u64, u64, Parts), Failure> {
    let (mut done, mut total) = (0, 0);
    let mut parts = Parts { name: "shards", done: 0, total: 0 };
    for names in portions(names) {
        // The index may not be there for a moment yet.
        let Some(answer) = server.find(&path(&[&list_of(&names), "_recovery"]))? else { continue };
        let shards = members(&answer).flat_map(|(_, index)| list(index, "/shards"));
        for shard in shards.filter(|shard| shard.get("primary") == Some(&Value::Bool(true))) {
            done += number(shard, "/index/size/recovered_in_bytes").unwrap_or(0);
            total += number(shard, "/index/size/total_in_bytes").unwrap_or(0);
            parts.total += 1;
            parts.done += u64::from(text(shard, "/stage") == Some("DONE"));
        }
    }
    Ok((done, total, parts))
}

fn not_complete(server: &Server, names: &[&str]) -> Failure {
    let why = unassigned(server, names);
    // The server gives up at once a shard that its settings keep from every node, and has not read it.
    if !why.is_empty() && why.iter().all(|why| why.contains("_INDEX_RESTORED")) {
        return no_place(server, Status::Invalid, "indices_red", names);
    }
    let failure =
        Failure::invalid("snapshot_invalid", format!("The snapshot could not be restored completely: {}.", names.join(", ")))
            .hint("The repository may be damaged: restore another snapshot (svc-snap list), and check its disk.");
    why.into_iter().fold(failure, Failure::cause)
}

/// Refuses a count that is not what was captured (7).
pub(crate) fn same_as_captured(name: &str, found: u64, expected: Option<u64>) -> Result<(), Failure> {
    let Some(expected) = expected.filter(|expected| *expected != found) else { return Ok(()) };
    let message = format!("{name} holds {found} documents, but {expected} were captured with the snapshot.");
    let hint = "Something wrote while the snapshot was taken, or the snapshot is damaged: restore another one (svc-snap list).";
    Err(Failure::invalid("content_differs", message).hint(hint))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn restore_runs_while_cluster_state_lists_its_indices() {
        let state = json!({"restore": {"snapshots": [{"snapshot": "s", "indices": ["other", "mine"]}]}});
        assert!(is_restoring(&state, &BTreeSet::from(["mine"])));
        assert!(!is_restoring(&state, &BTreeSet::from(["yours"])));
        assert!(!is_restoring(&json!({"restore": {"snapshots": []}}), &BTreeSet::from(["mine"])));
        assert!(!is_restoring(&json!({}), &BTreeSet::from(["mine"])));
    }
}
