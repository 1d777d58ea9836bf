//! What the server says when it refuses, as failures. The error's `type` decides, wherever it stands: at the top, among the
//! root causes or behind `caused_by` (Elasticsearch 7.17 hides a missing repository in a 500). The server's own words go into
//! the causes.

#[cfg(test)]
mod page;
mod table;

use serde_json::Value;
use svc_step::Failure;
use svc_step::line_secrets::sentence_without_secrets;

use self::table::{RULES, Rule};
use crate::server::client::{Answer, Effect, RequestError};
use crate::server::json::{list, text};

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
        let said = |pointer: &str| text(error, pointer).map(str::to_owned);
        self.types.extend(said("/type"));
        if let Some(reason) = said("/reason").filter(|reason| !self.reasons.contains(reason)) {
            self.reasons.push(reason);
        }
        for root in list(error, "/root_cause") {
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

    fn fits(&self, status: u16, rule: &Rule) -> bool {
        let type_fits = rule.types.is_empty() || self.types.iter().any(|one| rule.types.contains(&one.as_str()));
        let is_behind = rule.with.is_empty() || self.types.iter().any(|one| rule.with.contains(&one.as_str()));
        let says = |words: &&str| self.reasons.iter().any(|reason| reason.contains(words));
        type_fits
            && is_behind
            && (rule.says.is_empty() || rule.says.iter().any(says))
            && (rule.http.is_empty() || rule.http.contains(&status))
    }
}

/// The server's refusal of a request.
pub(crate) fn refusal(status: u16, body: &Value) -> RequestError {
    let said = Said::read(body);
    let rule = RULES.iter().find(|rule| said.fits(status, rule));
    let mut failure = rule.map_or_else(|| other(status), Rule::failure);
    failure.causes.push(format!("HTTP {status}{}", said.types.first().map(|kind| format!(" {kind}")).unwrap_or_default()));
    let effect = match rule {
        _ if said.types.is_empty() && is_a_gateways(status) => Effect::Unknown,
        Some(rule) => rule.effect,
        None => Effect::None,
    };
    failure.causes.extend(said.reasons.iter().map(|reason| sentence_without_secrets(reason)));
    RequestError { failure, effect }
}

/// Without an error of the server's own, it may have been said by a gateway between us and the server, which does not know
/// what the server did.
fn is_a_gateways(status: u16) -> bool {
    status == 408 || status >= 500
}

fn other(status: u16) -> Failure {
    Failure::failed("search_refused", format!("The server refused a request with HTTP {status}."))
        .hint("See the causes: they are the server's own words.")
}

/// A redirect is not followed: credentials would go along.
pub(crate) fn redirected(base: &str) -> RequestError {
    let failure = not_a_search_database(base).cause("It redirects to another address, which is not followed.");
    RequestError { failure, effect: Effect::None }
}

/// An HTML page or anything else that is not JSON: somebody between us and the server, who may have carried the request.
pub(crate) fn not_json(base: &str, status: u16) -> RequestError {
    match status {
        401 | 403 | 408 | 413 | 429 | 500..600 => refusal(status, &Value::Null),
        _ => RequestError {
            failure: not_a_search_database(base).cause(format!("HTTP {status}, and no JSON")),
            effect: Effect::Unknown,
        },
    }
}

/// Something else answers at that address, or a server at a path that is not its own.
pub(crate) fn not_a_search_database(base: &str) -> Failure {
    let message = format!("What answers at {base} is neither Elasticsearch nor OpenSearch.");
    Failure::refused("not_a_search_database", message).hint(
        "Check --url (SVC_SEARCH_URL): it is the server's own address and port; a path belongs to it only where a reverse proxy has one.",
    )
}

/// A refusal of the first question, who is there. To that no server says that there is no such thing.
pub(crate) fn stranger(base: &str, answer: &Answer) -> Failure {
    let refused = refusal(answer.status, &answer.body).failure;
    match answer.status {
        400 | 404 | 405 => refused.causes.into_iter().fold(not_a_search_database(base), Failure::cause),
        _ => refused,
    }
}

/// A node that has not found its cluster yet.
pub(crate) fn no_cluster(base: &str) -> Failure {
    Failure::unavailable("search_no_cluster", format!("The server at {base} has no cluster yet."))
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
            (500, "repository_exception", "[/x] doesn't match any of path.repo", 3, "location_outside_path_repo"),
            (500, "snapshot_exception", "Indices don't have primary shards [lost]", 7, "shards_unassigned"),
            (500, "snapshot_exception", "the following indices have unassigned primary shards [lost]", 7, "shards_unassigned"),
            (500, "snapshot_restore_exception", "an open index with same name exists", 3, "index_in_the_way"),
            (503, "concurrent_snapshot_execution_exception", "running", 5, "search_busy"),
            (500, "repository_exception", "loading repository data: unknown field [uuid]", 3, "repository_of_other_product"),
            (401, "security_exception", "missing authentication credentials", 3, "search_not_authenticated"),
            (403, "security_exception", "is unauthorized", 3, "search_forbidden"),
            (503, "master_not_discovered_exception", "", 5, "search_unavailable"),
            (500, "repository_exception", "[r] repository type [s3] does not exist", 3, "repository_type_unknown"),
            (500, "repository_exception", "[r] Unexpected exception when loading repository data", 7, "repository_damaged"),
            (400, "illegal_argument_exception", "no", 1, "search_refused"),
            (400, "validation_exception", "currently has [9]/[9] maximum LOCAL_ONLY shards open;", 3, "shard_limit_reached"),
            (503, "cluster_block_exception", "blocked by: [SERVICE_UNAVAILABLE/1/state];", 5, "search_unavailable"),
            (403, "cluster_block_exception", "index [a] blocked by: [FORBIDDEN/8/index write (api)];", 3, "index_blocked"),
        ] {
            assert_eq!(code(status, &error(kind, reason)), (exit, expected.to_owned()), "{kind}: {reason}");
        }
        assert_eq!(code(405, &json!({"error": "Incorrect HTTP method", "status": 405})), (1, "search_refused".to_owned()));
    }

    #[test]
    fn a_snapshot_whose_file_is_gone_is_a_damaged_repository_and_not_an_unknown_name() {
        let with = |kind: &str, cause: &str| json!({"error": {"type": kind, "reason": "[r:s/u] is missing", "caused_by": {"type": cause, "reason": "/x/snap-u.dat"}}});
        for (kind, cause) in [
            ("snapshot_missing_exception", "no_such_file_exception"),
            ("snapshot_exception", "corrupt_state_exception"),
            ("snapshot_exception", "corrupt_index_exception"),
        ] {
            assert_eq!(code(404, &with(kind, cause)), (7, "repository_damaged".to_owned()), "{kind} {cause}");
        }
    }

    #[test]
    fn the_servers_own_words_are_kept_once_each() {
        let failure = refusal(404, &error("repository_missing_exception", "[r] missing")).failure;
        assert_eq!(failure.causes, ["HTTP 404 repository_missing_exception", "[r] missing"]);
    }

    #[test]
    fn a_repository_that_was_changed_a_moment_ago_is_busy_and_its_secrets_are_not_in_the_causes() {
        let reason =
            r#"[r] Found unexpected initialized repo metadata [RepositoryMetadata{r}{fs}{{"a":"http://me:pw@far/"}}{2}]"#;
        let failure = refusal(500, &error("repository_exception", reason)).failure;
        assert_eq!((failure.status.code(), failure.code.as_str()), (5, "search_busy"));
        assert!(!format!("{failure:?}").contains("pw"), "{failure:?}");
    }

    #[test]
    fn only_who_does_not_know_leaves_the_effect_unknown() {
        let own = |status, kind| refusal(status, &error(kind, "r")).effect;
        assert_eq!(own(500, "repository_exception"), Effect::None);
        assert_eq!(own(503, "concurrent_snapshot_execution_exception"), Effect::None);
        assert_eq!(own(503, "master_not_discovered_exception"), Effect::Unknown);
        // An answer without an error of the server's own is that of a gateway.
        for status in [408, 500, 502, 503, 504, 520] {
            assert_eq!(
                (refusal(status, &Value::Null).effect, not_json("x", status).effect),
                (Effect::Unknown, Effect::Unknown),
                "{status}"
            );
        }
        for status in [400, 401, 403, 404, 405, 413, 429] {
            assert_eq!(refusal(status, &Value::Null).effect, Effect::None, "{status}");
        }
    }
}
