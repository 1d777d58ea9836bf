//! Is a snapshot a valid backup (procedure, 3 and 7), and can this server restore it?

use svc_step::{Failure, Status};

use crate::client::{Product, Server, product_name};
use crate::snapshot::{Shards, Snapshot};

/// Checks a finished snapshot: the state is `SUCCESS`, nothing failed, it is not empty, and it holds every name of `wanted`.
///
/// The server answers 200 for a PARTIAL one, and calls a snapshot of nothing a success.
///
/// # Errors
/// It is invalid, or still being taken (7).
pub(crate) fn check(repository: &str, snapshot: &Snapshot, wanted: &[String]) -> Result<(), Failure> {
    let name = format!("The snapshot {} in {repository}", snapshot.name);
    if snapshot.is_under_way() {
        return Err(Failure { status: Status::Invalid, ..under_way(repository, &snapshot.name) });
    }
    if snapshot.state != "SUCCESS" || !snapshot.failures.is_empty() || snapshot.shards.failed_count > 0 {
        let Shards { failed_count, total_count, .. } = snapshot.shards;
        let state = &snapshot.state;
        let message =
            format!("{name} is no valid backup: its state is {state}, and {failed_count} of {total_count} shards failed.");
        let mut failure = Failure::invalid(if state == "PARTIAL" { "snapshot_partial" } else { "snapshot_failed" }, message)
            .hint("result.snapshot.failures says which; fix those indices, then take another snapshot.");
        failure.causes.extend(snapshot.reason.clone());
        let failed = snapshot.failures.iter().take(10);
        failure.causes.extend(failed.map(|one| format!("{}[{}]: {}", one.index, one.shard, one.reason)));
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
        .hint(format!("svc-snap wait {name} --repository {repository} waits for it and verifies it."))
}

/// The bit by which a number is OpenSearch's.
const OPENSEARCH: u64 = 0x0800_0000;
/// What Elasticsearch 7.17 takes that bit for: majors that there are not.
const NO_MAJOR: u64 = 30;
/// The last major of Elasticsearch before OpenSearch parted from it.
const LAST_COMMON: u64 = 7;
/// The first one whose snapshots OpenSearch knows.
const OLDEST_COMMON: u64 = 5;

/// Whether the server that shows a snapshot can restore it, by the version that took it.
///
/// A server knows the numbers of its own product up to itself. What it makes of others was seen on all six:
/// - Elasticsearch writes a newer one as `8.53.60-alpha0` (7.17) or `8.19.1-[9039001]` (8, 9), and OpenSearch, whose number has
///   one bit more, as `36.40.81-beta2` or `8.19.1-[136408127]`;
/// - OpenSearch writes newer ones of its own rightly, and Elasticsearch 8 as `8.53.60-alpha0`;
/// - Elasticsearch 9 writes an older one as a range, `8.19.0-8.19.5`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Compatibility {
    /// Nothing is known against a restore.
    #[default]
    Good,
    /// A newer version took it.
    Newer,
    /// A version took it whose indices are too old.
    TooOld,
    /// The other product took it.
    Other,
}

/// Sets the compatibility, and removes a version that is nonsense.
pub(crate) fn settle(server: &Server, snapshot: &mut Snapshot) {
    (snapshot.compatibility, snapshot.version) = compatibility(server.product, &server.version, snapshot.version.take());
}

fn compatibility(product: Product, own: &str, said: Option<String>) -> (Compatibility, Option<String>) {
    use Compatibility::{Good, Newer, Other, TooOld};
    let Some((said, own)) = said.zip(number(own)) else { return (Good, None) };
    let Some(taken) = number(&said) else { return (Good, Some(said)) };
    let [major, ..] = taken;
    let [own_major, ..] = own;
    if let Some(id) = said.split_once("-[").and_then(|(_, id)| id.trim_end_matches(']').parse::<u64>().ok()) {
        return (if id & OPENSEARCH == 0 { Newer } else { Other }, None);
    }
    let is_odd = said.contains("-alpha") || said.contains("-beta") || said.contains("-rc");
    match product {
        Product::Elasticsearch if is_odd && major >= NO_MAJOR => (Other, None),
        Product::Elasticsearch if is_odd && taken > own => (Newer, None),
        Product::OpenSearch if is_odd && major > LAST_COMMON && major > own_major => (Other, None),
        // What Elasticsearch took before they parted is older than any OpenSearch, whatever its number: its 7 is as OpenSearch's 1.
        Product::OpenSearch if (OLDEST_COMMON..=LAST_COMMON).contains(&major) && own_major < OLDEST_COMMON => {
            (if major + 1 < own_major + LAST_COMMON - 1 { TooOld } else { Good }, Some(said))
        }
        _ if taken > own => (Newer, Some(said)),
        _ if major + 1 < own_major => (TooOld, Some(said)),
        _ => (Good, Some(said)),
    }
}

/// `x.y.z` at the start of a version.
fn number(version: &str) -> Option<[u64; 3]> {
    let mut parts = version.split('-').next()?.split('.').map(|part| part.parse().ok());
    Some([parts.next()??, parts.next()??, parts.next()??])
}

/// Refuses a snapshot that the server cannot restore.
///
/// # Errors
/// A newer version took it, one that is too old, or the other product (3).
pub(crate) fn check_restorable(server: &Server, repository: &str, snapshot: &Snapshot) -> Result<(), Failure> {
    let version = snapshot.version.as_ref().map(|version| format!(" ({version})")).unwrap_or_default();
    let message = |taken_by: &str| {
        let (name, product) = (&snapshot.name, product_name(server.product));
        format!(
            "The snapshot {name} in {repository} was taken by {taken_by}; this is {product} {}, which cannot restore it.",
            server.version
        )
    };
    match snapshot.compatibility {
        Compatibility::Good => Ok(()),
        Compatibility::Newer => Err(Failure::refused("snapshot_newer_than_server", message(&format!("a newer server{version}"))).hint(format!(
            "Restore it into the version that took it, or a newer one; svc-snap list --repository {repository} shows which others this one can restore."
        ))),
        Compatibility::TooOld => Err(Failure::refused(
            "snapshot_older_than_server",
            message(&format!("a server{version} of more than one major version before")),
        )
        .hint("Restore it into the major version between the two, copy its indices there to new ones (POST /_reindex), and take a snapshot of those.")),
        Compatibility::Other => {
            let other = if server.product == Product::OpenSearch { Product::Elasticsearch } else { Product::OpenSearch };
            Err(Failure::refused("snapshot_of_other_product", message(product_name(other))).hint(
                "Restore it into the product that took it; documents go from one product to the other by reindex from a remote.",
            ))
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
        check("r", &Snapshot::read(&value).unwrap(), &wanted).map_err(|failure| (failure.status.code(), failure.code))
    }

    #[test]
    fn only_a_complete_snapshot_is_valid() {
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

    #[test]
    fn a_snapshot_is_compatible_as_the_six_servers_answer() {
        use Compatibility::{Good, Newer, Other, TooOld};
        use Product::{Elasticsearch, OpenSearch};
        for (product, own, said, fit, shown) in [
            (OpenSearch, "2.19.3", "2.19.3", Good, Some("2.19.3")),
            (OpenSearch, "2.19.3", "1.3.20", Good, Some("1.3.20")),
            (OpenSearch, "3.8.0", "1.3.20", TooOld, Some("1.3.20")),
            (OpenSearch, "1.3.20", "2.19.3", Newer, Some("2.19.3")),
            (OpenSearch, "2.19.3", "2.19.4", Newer, Some("2.19.4")),
            (OpenSearch, "1.3.20", "7.10.2", Good, Some("7.10.2")),
            (OpenSearch, "1.3.20", "6.8.23", Good, Some("6.8.23")),
            (OpenSearch, "2.19.3", "7.10.2", Good, Some("7.10.2")),
            (OpenSearch, "2.19.3", "6.8.23", TooOld, Some("6.8.23")),
            (OpenSearch, "3.8.0", "7.10.2", TooOld, Some("7.10.2")),
            (OpenSearch, "2.19.3", "8.53.60-alpha0", Other, None),
            (Elasticsearch, "7.17.29", "7.17.29", Good, Some("7.17.29")),
            (Elasticsearch, "7.17.29", "8.53.60-alpha0", Newer, None),
            (Elasticsearch, "7.17.29", "9.3.90-alpha1", Newer, None),
            (Elasticsearch, "7.17.29", "36.40.81-beta2", Other, None),
            (Elasticsearch, "8.19.0", "7.17.29", Good, Some("7.17.29")),
            (Elasticsearch, "8.19.0", "8.0.0-rc1", Good, Some("8.0.0-rc1")),
            (Elasticsearch, "8.19.0", "8.19.1-[9039001]", Newer, None),
            (Elasticsearch, "8.19.0", "8.19.1-[136408127]", Other, None),
            (Elasticsearch, "9.2.0", "8.19.0-8.19.5", Good, Some("8.19.0-8.19.5")),
            (Elasticsearch, "9.2.0", "7.17.25-8.0.0", TooOld, Some("7.17.25-8.0.0")),
            (Elasticsearch, "9.2.0-SNAPSHOT", "of its own", Good, Some("of its own")),
        ] {
            let found = compatibility(product, own, Some(said.to_owned()));
            assert_eq!(found, (fit, shown.map(str::to_owned)), "{product:?} {own}: {said}");
        }
        assert_eq!(compatibility(OpenSearch, "2.19.3", None), (Good, None));
    }
}
