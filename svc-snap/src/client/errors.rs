//! What the server, the network or TLS says instead of the answer, as failures: one table for the servers' errors, and five for what
//! is between. The error's `type` decides, wherever it stands: at the top, among the root causes or behind `caused_by`
//! (Elasticsearch 7.17 hides a missing repository in a 500). The server's own words go into the causes.

use std::io::ErrorKind;

use rustls::{AlertDescription as Alert, Error as Tls};
use serde_json::Value;
use svc_step::line_secrets::sentence_without_secrets;
use svc_step::{Failure, Status};
use ureq::Timeout;

use crate::client::json::{list, text};
use crate::client::{Answer, Effect, RequestError};

/// One error of the servers. Of several that fit, the first counts.
#[derive(Debug, Clone, Copy)]
struct Rule {
    /// The error's `type`: one of these, or any where none is given.
    types: &'static [&'static str],
    /// One of these stands in a `reason` or is a further `type`, or anything where none is given: one type may stand for many faults.
    says: &'static [&'static str],
    /// The HTTP status: one of these, or any where none is given.
    http: &'static [u16],
    status: Status,
    code: &'static str,
    message: &'static str,
    hint: &'static str,
    effect: Effect,
}

impl Rule {
    const fn new(status: Status, code: &'static str, message: &'static str, hint: &'static str) -> Self {
        Self { types: &[], says: &[], http: &[], status, code, message, hint, effect: Effect::None }
    }

    const fn on(self, types: &'static [&'static str], says: &'static [&'static str]) -> Self {
        Self { types, says, ..self }
    }

    const fn http(self, http: &'static [u16]) -> Self {
        Self { http, ..self }
    }

    const fn unknown(self) -> Self {
        Self { effect: Effect::Unknown, ..self }
    }

    fn fits(&self, status: u16, said: &Said) -> bool {
        let is_one_of = |kind: &String| self.types.contains(&kind.as_str());
        let is_said = |words: &&str| said.reasons.iter().chain(&said.types).any(|text| text.contains(words));
        (self.types.is_empty() || said.types.iter().any(is_one_of))
            && (self.says.is_empty() || self.says.iter().any(is_said))
            && (self.http.is_empty() || self.http.contains(&status))
    }
}

const BUSY: Rule = Rule::new(
    Status::Unavailable,
    "search_busy",
    "The server is busy with something that this cannot run beside.",
    "Try again in a while; svc-snap list shows snapshots under way.",
);
const UNAVAILABLE: Rule = Rule::new(
    Status::Unavailable,
    "search_unavailable",
    "The server is not able to answer at the moment.",
    "Try again in a while; svc-snap health --wait waits for it.",
);

const RULES: &[Rule] = &[
    Rule::new(Status::NotFound, "repository_not_found", "The server has no snapshot repository of that name.",
        "svc-snap register --location DIR registers it; --repository (SVC_REPOSITORY) names another.")
        .on(&["repository_missing_exception"], &[]),
    Rule::new(Status::Refused, "repository_of_other_product",
        "Elasticsearch has written to the repository's folder, and OpenSearch does not read what it writes.",
        "Register another folder for this server, and restore what is in this one into Elasticsearch.")
        .on(&["repository_exception"], &["unknown field [uuid]", "illegal version format"]),
    // A name that is simply not known is missing without a file that is.
    Rule::new(Status::Invalid, "repository_damaged",
        "The repository is damaged: files that belong to it are missing or incomplete.",
        "The cause names the file. Put the folder back as it was; or register a new one (svc-snap register --repository NAME --location DIR), and take a snapshot there at once.")
        .on(&["snapshot_missing_exception", "snapshot_exception", "repository_exception"],
            &["no_such_file_exception", "corrupt_state_exception", "corrupt_index_exception", "read repository data", "loading repository data"]),
    Rule::new(Status::NotFound, "snapshot_not_found", "The repository has no snapshot of that name.",
        "svc-snap list shows which there are.")
        .on(&["snapshot_missing_exception", "snapshot_restore_exception"], &["is missing", "snapshot does not exist"]),
    Rule::new(Status::NotFound, "index_not_found", "An index that was named does not exist.",
        "GET /_cat/indices shows which there are.")
        .on(&["index_not_found_exception"], &[]),
    Rule::new(Status::Refused, "snapshot_name_in_use", "The repository has a snapshot of that name already.",
        "Name another one, or pass --unique to have a free name picked.")
        .on(&["snapshot_name_already_in_use_exception", "invalid_snapshot_name_exception"], &["already exists", "already in-progress"]),
    Rule::new(Status::Refused, "index_in_the_way", "An open index of the same name exists.",
        "svc-snap restore without --in-place stages beside it; in place, see --on-conflict.")
        .on(&["snapshot_restore_exception"], &["open index with same name"]),
    Rule::new(Status::Refused, "snapshot_older_than_server", "The snapshot holds an index that is too old for this server.",
        "Restore it into the major version between the two, copy its indices there to new ones (POST /_reindex), and take a snapshot of those.")
        .on(&["snapshot_restore_exception"], &["minimum index compatibility version", "cannot be upgraded"]),
    Rule::new(Status::Invalid, "repository_unusable", "Not every node of the server can write to the repository.",
        "Its folder must be the same one for every node, owned by the server's user: svc-snap configure --location DIR.")
        .on(&["repository_verification_exception"], &[]),
    Rule::new(Status::Refused, "location_outside_path_repo",
        "The repository's folder is in none of those that the server may write to (path.repo).",
        "svc-snap configure --location DIR adds it; then restart the server.")
        .on(&["repository_exception"], &["path.repo"]),
    Rule::new(Status::Refused, "repository_readonly", "The repository is registered read-only.",
        "svc-snap register --location DIR --replace registers it for writing; two clusters must never write to one folder.")
        .on(&["repository_exception"], &["readonly", "read-only"]),
    Rule::new(Status::Refused, "repository_newer_than_server", "A newer server than this one has written to the repository.",
        "Register another folder for this server, or the old one with --readonly.")
        .on(&["repository_exception"], &["requires Elasticsearch version", "requires OpenSearch version"]),
    Rule::new(Status::Refused, "repository_type_unknown", "The server knows no repositories of that type.",
        "Install the server's plugin for that type on every node, or name another one with --type.")
        .on(&["repository_exception"], &["repository type"]),
    Rule::new(Status::Invalid, "repository_changed_elsewhere",
        "Something else than this server has written to the repository's folder.",
        "Two clusters must never write to one folder: register it in the other one with --readonly, then register it here again.")
        .on(&["repository_exception", "snapshot_exception"],
            &["concurrent modification", "do not match its expected state", "not to match its expected state"]),
    Rule::new(Status::Invalid, "shards_unassigned",
        "An index that was asked for has unassigned primary shards, so no complete snapshot can be taken.",
        "GET /_cluster/allocation/explain says why; fix the index, or leave it out with --indices.")
        .on(&["snapshot_exception"], &["primary shards"]),
    Rule::new(Status::Refused, "index_exists", "An index of that name exists already.",
        "GET /_cat/indices?expand_wildcards=all shows it.")
        .on(&["resource_already_exists_exception"], &[]),
    Rule::new(Status::Refused, "alias_in_the_way", "An index and an alias would have the same name.",
        "GET /_cat/aliases and GET /_cat/indices?expand_wildcards=all show them; remove one, or leave the index out with --indices.")
        .on(&["invalid_index_name_exception", "invalid_alias_name_exception"], &["already exists as alias", "exists with the same name"]),
    Rule::new(Status::Refused, "shard_limit_reached",
        "The cluster would have more shards than it may (cluster.max_shards_per_node).",
        "Remove indices that are not needed, or raise cluster.max_shards_per_node.")
        .on(&["validation_exception", "illegal_argument_exception"], &["shards open"]),
    Rule::new(Status::Refused, "index_blocked", "The index or the cluster does not take changes at present.",
        "The cause names the block; a full disk sets one by itself and removes it when there is disk space again.")
        .on(&["cluster_block_exception"], &["FORBIDDEN", "TOO_MANY_REQUESTS"]),
    // A server that has lost its cluster, or another node, does not know what the other side went on to do.
    UNAVAILABLE.unknown()
        .on(&["master_not_discovered_exception", "cluster_manager_not_discovered_exception", "not_master_exception",
              "not_cluster_manager_exception", "failed_to_commit_cluster_state_exception", "node_closed_exception",
              "node_disconnected_exception", "node_not_connected_exception", "receive_timeout_transport_exception"], &[]),
    UNAVAILABLE.unknown()
        .on(&["snapshot_exception"], &["no longer master", "no longer cluster-manager", "no longer cluster manager"]),
    BUSY.on(&["concurrent_snapshot_execution_exception", "snapshot_in_progress_exception", "process_cluster_event_timeout_exception",
              "es_rejected_execution_exception", "rejected_execution_exception", "circuit_breaking_exception"], &[]),
    // The second is of a repository that was registered, or its rate changed, a moment ago.
    BUSY.on(&["illegal_state_exception", "repository_exception", "repository_conflict_exception"],
            &["modify or unregister repository", "unexpected initialized repo metadata",
              "already in-progress", "currently being deleted", "is running", "currently running"]),
    Rule::new(Status::Refused, "search_not_authenticated", "The server does not accept these credentials, or requires some.",
        "Check --user with --password-file, --api-key-file, --bearer-file or --client-cert, and their variables (SVC_SEARCH_…).")
        .http(&[401]),
    Rule::new(Status::Refused, "search_forbidden", "The user has no right to do this; the cause names the right.",
        "Give that user a role that may manage snapshots and the service's indices (svc-snap/roles has one), or name another user.")
        .http(&[403]),
    Rule::new(Status::NotFound, "search_not_found", "The server does not have what was asked for.",
        "See the causes: they are the server's own words.")
        .http(&[404]),
    UNAVAILABLE.http(&[408, 429, 502, 503, 504]),
];

/// An error of the server, flattened.
#[derive(Debug, Default)]
struct Said {
    /// Every `type`, outermost first.
    types: Vec<String>,
    /// Every different `reason`, outermost first.
    reasons: Vec<String>,
}

impl Said {
    fn read(&mut self, error: &Value) {
        self.types.extend(text(error, "/type").map(str::to_owned));
        let reason = error.as_str().or_else(|| text(error, "/reason")).map(str::to_owned);
        self.reasons.extend(reason.filter(|reason| !self.reasons.contains(reason)));
        for key in ["/root_cause", "/caused_by", "/suppressed"] {
            list(error, key).for_each(|one| self.read(one));
            error.pointer(key).filter(|one| one.is_object()).into_iter().for_each(|one| self.read(one));
        }
    }
}

/// The server's refusal of a request. Without an error of the server's own, a gateway between us and the server may have said it, which
/// does not know what the server did.
pub(crate) fn refusal(status: u16, body: &Value) -> RequestError {
    let mut said = Said::default();
    body.get("error").into_iter().for_each(|error| said.read(error));
    let other = format!("The server refused a request with HTTP {status}.");
    let (mut failure, mut effect) = match RULES.iter().find(|rule| rule.fits(status, &said)) {
        Some(rule) => (Failure::new(rule.status, rule.code, rule.message).hint(rule.hint), rule.effect),
        None => (Failure::failed("search_refused", other).hint("See the causes: they are the server's own words."), Effect::None),
    };
    if said.types.is_empty() && (status == 408 || status >= 500) {
        effect = Effect::Unknown;
    }
    failure.causes.push(format!("HTTP {status}{}", said.types.first().map(|kind| format!(" {kind}")).unwrap_or_default()));
    failure.causes.extend(said.reasons.iter().map(|reason| sentence_without_secrets(reason)));
    RequestError { failure, effect }
}

pub(super) fn redirected(base: &str) -> RequestError {
    let failure = not_a_search_database(base).cause("It redirects to another address: credentials would go along.");
    RequestError { failure, effect: Effect::None }
}

/// An HTML page or anything else that is not JSON: somebody between us and the server, who may have carried the request.
pub(super) fn not_json(base: &str, status: u16) -> RequestError {
    if matches!(status, 401 | 403 | 408 | 413 | 429 | 500..600) {
        return refusal(status, &Value::Null);
    }
    let failure = not_a_search_database(base).cause(format!("HTTP {status}, and no JSON"));
    RequestError { failure, effect: Effect::Unknown }
}

pub(super) fn not_a_search_database(base: &str) -> Failure {
    let message = format!("What answers at {base} is neither Elasticsearch nor OpenSearch.");
    Failure::refused("not_a_search_database", message).hint(
        "Check --url (SVC_SEARCH_URL): it is the server's own address and port; a path belongs to it only where a reverse proxy has one.",
    )
}

/// A refusal of the first question, who is there. To that no server says that there is no such thing.
pub(super) fn stranger(base: &str, answer: &Answer) -> Failure {
    let refused = refusal(answer.status, &answer.body).failure;
    match answer.status {
        400 | 404 | 405 => refused.causes.into_iter().fold(not_a_search_database(base), Failure::cause),
        _ => refused,
    }
}

/// A node that has not found its cluster yet.
pub(super) fn no_cluster(base: &str) -> Failure {
    Failure::unavailable("search_unavailable", format!("The server at {base} has no cluster yet.")).hint(UNAVAILABLE.hint)
}

/// No answer has begun to come from `base`, an address without credentials.
pub(super) fn no_answer(base: &str, error: &ureq::Error) -> RequestError {
    let (failure, effect) = match error {
        ureq::Error::Rustls(error) => tls(base, error),
        ureq::Error::Io(fault) => match fault.get_ref().and_then(|error| error.downcast_ref()) {
            Some(error) => tls(base, error),
            None => (unreachable(base, "does not answer"), io_effect(fault.kind())),
        },
        ureq::Error::HostNotFound | ureq::Error::ConnectionFailed | ureq::Error::Timeout(Timeout::Connect | Timeout::Resolve) => {
            (unreachable(base, "does not answer"), Effect::None)
        }
        ureq::Error::Tls(_) => (not_trusted(base), Effect::None),
        ureq::Error::Protocol(_) | ureq::Error::LargeResponseHeader(..) => (not_a_search_database(base), Effect::Unknown),
        _ => (unreachable(base, "has not answered in time"), Effect::Unknown),
    };
    RequestError { failure: failure.cause(error.to_string()), effect }
}

fn io_effect(kind: ErrorKind) -> Effect {
    match kind {
        ErrorKind::ConnectionRefused
        | ErrorKind::NetworkUnreachable
        | ErrorKind::HostUnreachable
        | ErrorKind::AddrNotAvailable
        | ErrorKind::InvalidInput => Effect::None,
        _ => Effect::Unknown,
    }
}

/// Before the handshake is over no request is sent.
fn tls(base: &str, error: &Tls) -> (Failure, Effect) {
    match error {
        Tls::InvalidMessage(_) => {
            let plain = base.replacen("https://", "http://", 1);
            let hint = format!("It speaks no TLS: write --url (SVC_SEARCH_URL) as {plain} to connect without it.");
            (not_a_search_database(base).hint(hint), Effect::Unknown)
        }
        Tls::InvalidCertificate(_)
        | Tls::PeerIncompatible(_)
        | Tls::AlertReceived(
            Alert::HandshakeFailure | Alert::ProtocolVersion | Alert::InsufficientSecurity | Alert::UnrecognisedName,
        ) => (not_trusted(base), Effect::None),
        Tls::AlertReceived(
            Alert::CertificateRequired
            | Alert::BadCertificate
            | Alert::UnsupportedCertificate
            | Alert::CertificateRevoked
            | Alert::CertificateExpired
            | Alert::CertificateUnknown
            | Alert::UnknownCA
            | Alert::AccessDenied,
        ) => {
            let message = format!("The server at {base} requires a client certificate, or does not accept this one.");
            let hint = "Name one that its authority has signed and that is valid with --client-cert (SVC_SEARCH_CLIENT_CERT) and --client-key.";
            (Failure::refused("search_client_certificate_refused", message).hint(hint), Effect::None)
        }
        _ => (unreachable(base, "broke the TLS connection"), Effect::Unknown),
    }
}

fn not_trusted(base: &str) -> Failure {
    Failure::refused("search_not_trusted", format!("The server at {base} has no TLS certificate or version that is trusted.")).hint(
        "Name the authority of its certificate with --ca-cert (SVC_SEARCH_CA), write --url with a name that is in the certificate, and check its dates and this host's clock; the cause says which it is.",
    )
}

/// Nobody answers at `base`; `what` completes the sentence.
pub(super) fn unreachable(base: &str, what: &str) -> Failure {
    Failure::unavailable("search_unreachable", format!("The server at {base} {what}.")).hint(
        "Check that it runs (svc-unit status UNIT) and that --url (SVC_SEARCH_URL) is right: its scheme is https:// if the server speaks TLS.",
    )
}

/// An answer has begun to come and is incomplete: the request was sent, also where TLS broke.
pub(super) fn incomplete(base: &str, error: &dyn std::fmt::Display) -> RequestError {
    let failure = unreachable(base, "broke off in the middle of an answer").cause(error.to_string());
    RequestError { failure, effect: Effect::Unknown }
}

pub(super) fn too_large(base: &str, limit: u64) -> RequestError {
    let message = format!("An answer of the server at {base} is larger than {} MiB.", limit >> 20);
    let failure =
        Failure::failed("answer_too_large", message).hint("Check that --url (SVC_SEARCH_URL) is the server's own address.");
    RequestError { failure, effect: Effect::Unknown }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::{env, fs, io};

    use serde_json::json;

    use super::*;

    const BEGIN: &str =
        "<!-- The errors of the servers, from src/client/errors.rs: SVC_UPDATE_PAGES=1 cargo test -p svc-snap -->\n";
    const END: &str = "<!-- to here -->\n";

    /// `SVC_UPDATE_PAGES=1` writes it again.
    #[test]
    fn the_page_lists_every_error_of_the_servers_with_its_exit_status() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/errors.md");
        let page = fs::read_to_string(&file).unwrap();
        let quoted = |words: &[&str]| words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ");
        let row = |rule: &Rule| {
            assert!(rule.message.ends_with('.') && rule.hint.ends_with('.'), "{}", rule.code);
            let http: Vec<String> = rule.http.iter().map(u16::to_string).collect();
            let types = if rule.types.is_empty() { "any other".to_owned() } else { quoted(rule.types) };
            let effect = if rule.effect == Effect::Unknown { " *" } else { "" };
            let (says, http, exit, code) = (quoted(rule.says), http.join(", "), rule.status.code(), rule.code);
            format!("| {types} | {says} | {http} | {exit}{effect} | `{code}` |\n")
        };
        let rows: String = RULES.iter().map(row).collect();
        let table = format!(
            "| the server's `type` | and its `reason` or cause says | HTTP | exit | `error.code` |\n|---|---|---|---|---|\n{rows}\
             | any other | | any other | 1 | `search_refused` |\n"
        );
        let (before, rest) = page.split_once(BEGIN).unwrap();
        let (found, after) = rest.split_once(END).unwrap();
        if env::var_os("SVC_UPDATE_PAGES").is_some() {
            fs::write(&file, format!("{before}{BEGIN}{table}{END}{after}")).unwrap();
        } else {
            assert!(found == table, "docs/errors.md is not what errors.rs says; SVC_UPDATE_PAGES=1 writes it");
        }
    }

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
            (400, "snapshot_name_already_in_use_exception", "the same name already exists", 3, "snapshot_name_in_use"),
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
        let failure = refusal(404, &error("repository_missing_exception", "[r] missing")).failure;
        assert_eq!(failure.causes, ["HTTP 404 repository_missing_exception", "[r] missing"], "once each");
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
        for (status, effect) in [408, 500, 502, 503, 504, 520].map(|status| (status, Effect::Unknown)) {
            assert_eq!((refusal(status, &Value::Null).effect, not_json("x", status).effect), (effect, effect), "{status}");
        }
        for status in [400, 401, 403, 404, 405, 413, 429] {
            assert_eq!(refusal(status, &Value::Null).effect, Effect::None, "{status}");
        }
    }

    #[test]
    fn a_tls_connection_that_breaks_is_5_and_what_the_request_did_is_unknown() {
        let base = "https://h:9200";
        let broken = no_answer(base, &ureq::Error::Rustls(Tls::DecryptError));
        for error in [broken, incomplete(base, &io::Error::other(Tls::DecryptError))] {
            assert_eq!((error.failure.status.code(), error.effect), (5, Effect::Unknown), "{}", error.failure);
        }
        let untrusted = Tls::InvalidCertificate(rustls::CertificateError::Revoked);
        let untrusted = no_answer(base, &ureq::Error::Rustls(untrusted));
        assert_eq!((untrusted.failure.code.as_str(), untrusted.effect), ("search_not_trusted", Effect::None));
    }
}
