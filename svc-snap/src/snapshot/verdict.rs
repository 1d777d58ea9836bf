//! Is a snapshot good? (Procedure, 3 and 7: its state must be `SUCCESS`; and more than that.)

use svc_step::{Failure, Status};

use crate::snapshot::Snapshot;

/// Judges a finished snapshot: the state is `SUCCESS`, nothing failed, it is not empty, and it holds every name of `wanted`.
///
/// The server answers 200 for a PARTIAL one, and calls a snapshot of nothing a success.
///
/// # Errors
/// It is invalid, or still being taken (7).
pub(crate) fn judge(repository: &str, snapshot: &Snapshot, wanted: &[String]) -> Result<(), Failure> {
    let name = format!("The snapshot {} in {repository}", snapshot.name);
    if snapshot.is_under_way() {
        return Err(Failure { status: Status::Invalid, ..under_way(repository, &snapshot.name) });
    }
    if snapshot.state != "SUCCESS" || !snapshot.failures.is_empty() || snapshot.shards.failed_count > 0 {
        let code = if snapshot.state == "PARTIAL" { "snapshot_partial" } else { "snapshot_failed" };
        let mut failure = Failure::invalid(
            code,
            format!(
                "{name} is no valid backup: its state is {}, and {} of {} shards failed.",
                snapshot.state, snapshot.shards.failed_count, snapshot.shards.total_count
            ),
        )
        .hint("result.snapshot.failures says which; fix those indices, then take another snapshot.");
        failure.causes.extend(snapshot.reason.clone());
        failure
            .causes
            .extend(snapshot.failures.iter().take(10).map(|one| format!("{}[{}]: {}", one.index, one.shard, one.reason)));
        return Err(failure);
    }
    if snapshot.indices.is_empty() && snapshot.data_streams.is_empty() {
        return Err(Failure::invalid("snapshot_empty", format!("{name} holds no index at all."))
            .hint("GET /_cat/indices shows what there is; see --indices and SVC_INDICES."));
    }
    let missing: Vec<&str> = wanted
        .iter()
        .filter(|name| !snapshot.indices.contains(name) && !snapshot.data_streams.contains(name))
        .map(String::as_str)
        .collect();
    if !missing.is_empty() {
        return Err(Failure::invalid(
            "snapshot_incomplete",
            format!("{name} does not hold {}, which was asked for.", missing.join(", ")),
        )
        .hint("It was probably deleted meanwhile; take another snapshot."));
    }
    Ok(())
}

/// It is still being taken, so nothing is done to it (3).
pub(crate) fn under_way(repository: &str, name: &str) -> Failure {
    Failure::refused("snapshot_under_way", format!("The snapshot {name} in {repository} is still being taken."))
        .hint(format!("svc-snap wait {name} --repository {repository} waits for it and judges it."))
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
        judge("r", &Snapshot::read(&value).unwrap(), &wanted).map_err(|failure| (failure.status.code(), failure.code))
    }

    #[test]
    fn only_a_whole_snapshot_is_good() {
        assert_eq!(verdict(&json!({}), &["a", "b"]), Ok(()));
        let failed = json!([{"index": "a", "shard_id": 0, "reason": "gone"}]);
        for (change, code) in [
            (json!({"state": "PARTIAL"}), "snapshot_partial"),
            (json!({"failures": failed}), "snapshot_failed"),
            (json!({"shards": {"total": 2, "failed": 1, "successful": 1}}), "snapshot_failed"),
            (json!({"state": "FAILED"}), "snapshot_failed"),
            (json!({"state": "INCOMPATIBLE"}), "snapshot_failed"),
            (json!({"state": "IN_PROGRESS"}), "snapshot_under_way"),
            (json!({"indices": []}), "snapshot_empty"),
            (json!({"indices": ["a"]}), "snapshot_incomplete"),
        ] {
            assert_eq!(verdict(&change, &["a", "b"]), Err((7, code.to_owned())), "{change}");
        }
    }
}
