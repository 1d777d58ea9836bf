//! What the server says when it refuses, as failures. The error's `type` decides, wherever it stands: at the top, among the
//! root causes or behind `caused_by` (Elasticsearch 7.17 hides a missing repository in a 500). The server's own words go into
//! the causes.

use serde_json::Value;
use svc_step::Failure;

use crate::server::transport::{Fate, Trouble};

/// An error of the server, flattened.
#[derive(Debug, Default)]
struct Said {
    /// Every `type`, outermost first.
    types: Vec<String>,
    /// Every different `reason`, outermost first.
    reasons: Vec<String>,
}

impl Said {
    fn read(body: &Value) -> Self {
        let mut said = Self::default();
        match body.get("error") {
            Some(Value::String(text)) => said.reasons.push(text.clone()),
            Some(error) => said.take(error),
            None => {}
        }
        said
    }

    fn take(&mut self, error: &Value) {
        let text = |key: &str| error.get(key).and_then(Value::as_str).map(str::to_owned);
        self.types.extend(text("type"));
        if let Some(reason) = text("reason").filter(|reason| !self.reasons.contains(reason)) {
            self.reasons.push(reason);
        }
        for root in error.get("root_cause").and_then(Value::as_array).into_iter().flatten() {
            self.take(root);
        }
        for key in ["caused_by", "suppressed"] {
            match error.get(key) {
                Some(Value::Array(all)) => all.iter().for_each(|one| self.take(one)),
                Some(one @ Value::Object(_)) => self.take(one),
                _ => {}
            }
        }
    }

    fn is(&self, kind: &str) -> bool {
        self.types.iter().any(|one| one == kind)
    }

    /// Where one type stands for many faults, only the text tells them apart.
    fn tells(&self, text: &str) -> bool {
        self.reasons.iter().any(|reason| reason.contains(text))
    }
}

/// The server's refusal of a request.
pub(crate) fn refusal(status: u16, body: &Value) -> Trouble {
    let said = Said::read(body);
    let mut failure = by_type(&said).unwrap_or_else(|| by_status(status));
    failure.causes.push(format!("HTTP {status}{}", said.types.first().map(|kind| format!(" {kind}")).unwrap_or_default()));
    failure.causes.extend(said.reasons);
    // A gateway between us and the server does not know what the server did.
    let fate = if matches!(status, 502 | 504) { Fate::Unknown } else { Fate::NoEffect };
    Trouble { failure, fate }
}

fn by_type(said: &Said) -> Option<Failure> {
    let found = if said.is("repository_missing_exception") {
        Failure::not_found("repository_not_found", "The search database has no snapshot repository of that name.")
            .hint("svc-snap register --location DIR registers it; --repository (SVC_REPOSITORY) names another.")
    } else if said.is("snapshot_missing_exception")
        || (said.is("snapshot_restore_exception") && said.tells("snapshot does not exist"))
    {
        Failure::not_found("snapshot_not_found", "The repository has no snapshot of that name.")
            .hint("svc-snap list shows which there are.")
    } else if said.is("index_not_found_exception") {
        Failure::not_found("index_not_found", "An index that was named is not there.")
            .hint("GET /_cat/indices shows which there are.")
    } else if said.is("snapshot_name_already_in_use_exception")
        || (said.is("invalid_snapshot_name_exception") && (said.tells("already exists") || said.tells("already in-progress")))
    {
        Failure::refused("snapshot_name_in_use", "The repository has a snapshot of that name already.")
            .hint("Name another one, or say --unique to have a free name picked.")
    } else if said.is("invalid_snapshot_name_exception") {
        Failure::usage("snapshot_name_invalid", "The search database does not take that name for a snapshot.")
            .hint("Use lower-case letters, digits, - and _, and none of \\ / * ? \" < > | , # or a space.")
    } else if said.is("security_exception") {
        return None;
    } else if said.is("snapshot_restore_exception") {
        restore(said)
    } else if said.is("repository_verification_exception") {
        Failure::invalid("repository_unusable", "Not every node of the search database can write to the repository.")
            .hint("Its folder must be the same one for every node, owned by the search database's user: svc-snap configure --location DIR.")
    } else if said.is("repository_exception") {
        repository(said)?
    } else if said.is("snapshot_exception") && (said.tells("primary shards")) {
        Failure::invalid(
            "shards_unassigned",
            "An index that was asked for has shards that are not there, so no whole snapshot can be taken.",
        )
        .hint("GET /_cluster/allocation/explain says why; mend the index, or leave it out with --indices.")
    } else if said.is("resource_already_exists_exception") {
        Failure::refused("index_exists", "There is an index of that name already.")
            .hint("GET /_cat/indices?expand_wildcards=all shows it.")
    } else if said.tells("maximum shards open") || said.tells("maximum normal shards open") {
        Failure::refused("shard_limit_reached", "The cluster would have more shards than it may (cluster.max_shards_per_node).")
            .hint("Remove indices that nobody needs, or raise cluster.max_shards_per_node.")
    } else if said.is("cluster_block_exception") {
        Failure::refused("index_blocked", "The index or the cluster does not take changes at present.")
            .hint("The cause names the block; a full disk sets one by itself and takes it off when there is room again.")
    } else if busy(said) {
        Failure::unavailable("search_busy", "The search database is busy with something that this cannot run beside.")
            .hint("Try again in a while; svc-snap list shows snapshots under way.")
    } else {
        return None;
    };
    Some(found)
}

fn restore(said: &Said) -> Failure {
    if said.tells("open index with same name") {
        Failure::refused("index_in_the_way", "An open index of the same name is in the way of the restore.")
            .hint("svc-snap restore without --in-place stages beside it; in place, see --on-conflict.")
    } else if said.tells("which is higher than the version") {
        Failure::refused("snapshot_newer_than_server", "The snapshot was taken by a newer search database than this one.")
            .hint("Restore it into a server of the version that took it, or a newer one.")
    } else {
        Failure::failed("restore_refused", "The search database refused to restore the snapshot.")
            .hint("See the causes: they are the server's own words.")
    }
}

fn repository(said: &Said) -> Option<Failure> {
    if said.tells("path.repo") {
        Some(
            Failure::refused(
                "location_outside_path_repo",
                "The repository's folder is in none of those that the search database may write to (path.repo).",
            )
            .hint("svc-snap configure --location DIR adds it; then restart the search database."),
        )
    } else if said.tells("readonly") || said.tells("read-only") {
        Some(
            Failure::refused("repository_readonly", "The repository is registered read-only.")
                .hint("svc-snap register --location DIR registers it for writing; two clusters must never write to one folder."),
        )
    } else if said.tells("requires Elasticsearch version") || said.tells("requires OpenSearch version") {
        Some(
            Failure::refused(
                "repository_newer_than_server",
                "The repository was written to by a newer search database than this one.",
            )
            .hint("Register another folder for this server, or the old one with --readonly."),
        )
    } else {
        Some(
            Failure::failed("repository_error", "The search database cannot use the repository.")
                .hint("See the causes: they are the server's own words."),
        )
    }
}

fn busy(said: &Said) -> bool {
    const BUSY: [&str; 6] = [
        "concurrent_snapshot_execution_exception",
        "process_cluster_event_timeout_exception",
        "es_rejected_execution_exception",
        "rejected_execution_exception",
        "circuit_breaking_exception",
        "snapshot_in_progress_exception",
    ];
    BUSY.iter().any(|kind| said.is(kind))
        || (said.is("illegal_state_exception")
            && ["already in-progress", "currently being deleted", "is running", "currently running"]
                .iter()
                .any(|words| said.tells(words)))
}

fn by_status(status: u16) -> Failure {
    match status {
        401 => {
            Failure::refused("search_not_authenticated", "The search database does not accept these credentials, or wants some.")
                .hint("Check --user (SVC_SEARCH_USER) and --password-file (SVC_SEARCH_PASSWORD_FILE).")
        }
        403 => Failure::refused("search_forbidden", "The search database's user has no right to do this.")
            .hint("Give that user a role that may manage snapshots and the service's indices, or name another user with --user."),
        404 => Failure::not_found("search_not_found", "The search database does not have what was asked for.")
            .hint("See the causes: they are the server's own words."),
        429 | 502..=504 => Failure::unavailable("search_unavailable", "The search database is not able to answer just now.")
            .hint("Try again in a while; svc-snap health --wait waits for it."),
        _ => Failure::failed("search_refused", format!("The search database refused a request with HTTP {status}."))
            .hint("See the causes: they are the server's own words."),
    }
}

/// A redirect is not followed: credentials would go along.
pub(crate) fn redirected(base: &str) -> Trouble {
    let failure = Failure::refused("search_redirects", format!("{base} redirects to another address, which is not followed."))
        .hint("Name the search database's own address with --url (SVC_SEARCH_URL), https:// where it speaks TLS.");
    Trouble { failure, fate: Fate::NoEffect }
}

/// An HTML page or anything else that is not JSON.
pub(crate) fn not_json(base: &str, status: u16) -> Trouble {
    match status {
        401 | 403 | 429 | 500..600 => refusal(status, &Value::Null),
        200..300 => {
            Trouble { failure: not_a_search_database(base).cause(format!("HTTP {status}, and no JSON")), fate: Fate::Unknown }
        }
        _ => Trouble { failure: not_a_search_database(base).cause(format!("HTTP {status}, and no JSON")), fate: Fate::NoEffect },
    }
}

/// Somebody else answers at that address.
pub(crate) fn not_a_search_database(base: &str) -> Failure {
    Failure::refused("not_a_search_database", format!("What answers at {base} is neither Elasticsearch nor OpenSearch."))
        .hint("Check --url (SVC_SEARCH_URL): it is the search database's own address and port.")
}

/// A node that has not found its cluster yet.
pub(crate) fn no_cluster(base: &str) -> Failure {
    Failure::unavailable("search_no_cluster", format!("The search database at {base} has no cluster yet."))
        .hint("svc-snap health --wait waits until it has one.")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn code(status: u16, body: &Value) -> (u8, String) {
        let failure = refusal(status, body).failure;
        (failure.status.code(), failure.code)
    }

    fn error(kind: &str, reason: &str) -> Value {
        json!({"error": {"root_cause": [{"type": kind, "reason": reason}], "type": kind, "reason": reason}, "status": 0})
    }

    #[test]
    fn the_type_decides_wherever_it_stands() {
        let hidden = json!({"error": {"type": "exception", "reason": "failed", "root_cause": [{"type": "exception", "reason": "failed"}],
            "caused_by": {"type": "repository_missing_exception", "reason": "[r] missing"}}, "status": 500});
        assert_eq!(code(500, &hidden), (4, "repository_not_found".to_owned()));
        for (status, kind, reason, exit, expected) in [
            (404, "snapshot_missing_exception", "[r:s] is missing", 4, "snapshot_not_found"),
            (500, "snapshot_restore_exception", "[r:s] snapshot does not exist", 4, "snapshot_not_found"),
            (400, "invalid_snapshot_name_exception", "snapshot with the same name already exists", 3, "snapshot_name_in_use"),
            (400, "snapshot_name_already_in_use_exception", "in use", 3, "snapshot_name_in_use"),
            (400, "invalid_snapshot_name_exception", "must be lowercase", 2, "snapshot_name_invalid"),
            (
                500,
                "repository_exception",
                "location [/x] doesn't match any of the locations specified by path.repo",
                3,
                "location_outside_path_repo",
            ),
            (500, "snapshot_exception", "Indices don't have primary shards [lost]", 7, "shards_unassigned"),
            (500, "snapshot_exception", "the following indices have unassigned primary shards [lost]", 7, "shards_unassigned"),
            (
                500,
                "snapshot_restore_exception",
                "cannot restore index [a] because an open index with same name already exists",
                3,
                "index_in_the_way",
            ),
            (503, "concurrent_snapshot_execution_exception", "running", 5, "search_busy"),
            (401, "security_exception", "missing authentication credentials", 3, "search_not_authenticated"),
            (403, "security_exception", "is unauthorized", 3, "search_forbidden"),
            (503, "master_not_discovered_exception", "", 5, "search_unavailable"),
            (400, "illegal_argument_exception", "no", 1, "search_refused"),
        ] {
            assert_eq!(code(status, &error(kind, reason)), (exit, expected.to_owned()), "{kind}: {reason}");
        }
        assert_eq!(code(405, &json!({"error": "Incorrect HTTP method", "status": 405})), (1, "search_refused".to_owned()));
    }

    #[test]
    fn the_servers_own_words_are_kept_once_each() {
        let failure = refusal(404, &error("repository_missing_exception", "[r] missing")).failure;
        assert_eq!(failure.causes, ["HTTP 404 repository_missing_exception", "[r] missing"]);
    }

    #[test]
    fn only_a_gateway_leaves_the_effect_unknown() {
        assert_eq!(refusal(500, &Value::Null).fate, Fate::NoEffect);
        assert_eq!(refusal(504, &Value::Null).fate, Fate::Unknown);
    }
}
