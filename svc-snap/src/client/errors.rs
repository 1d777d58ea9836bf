//! What the server, the network or TLS says instead of the answer, as failures. The server's own words go into the causes.

use std::io::ErrorKind;

use rustls::{AlertDescription as Alert, Error as Tls};
use serde_json::Value;
use svc_step::redact::sentence_without_secrets;
use svc_step::{Failure, Status};
use ureq::Timeout;

use crate::client::{Answer, Effect, RequestError, list, text};

/// One error of the servers. Of several that fit, the first counts.
#[derive(Debug, Clone, Copy)]
struct Rule {
    /// The error's `type`: one of these, or any if none is given.
    types: &'static [&'static str],
    /// One of these stands in a `reason` or is a further `type`, or anything if none is given: one type may stand for many faults.
    says: &'static [&'static str],
    /// The HTTP status: one of these, or any if none is given.
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

    fn fits(&self, status: u16, said: &ServerError) -> bool {
        let is_one_of = |kind: &String| self.types.contains(&kind.as_str());
        let is_in_answer = |words: &&str| said.reasons.iter().chain(&said.types).any(|text| text.contains(words));
        (self.types.is_empty() || said.types.iter().any(is_one_of))
            && (self.says.is_empty() || self.says.iter().any(is_in_answer))
            && (self.http.is_empty() || self.http.contains(&status))
    }
}

/// Something else is under way; the request had no effect.
const BUSY: Rule = Rule::new(
    Status::Unavailable,
    "server_busy",
    "The cluster is running something else that excludes this, such as another snapshot.",
    "Try again in a while; svc-snap list shows snapshots in progress.",
);
/// It restarts, or has no master; whether the request had an effect is for the table to say.
const UNAVAILABLE: Rule = Rule::new(
    Status::Unavailable,
    "server_busy",
    "The server is not able to answer at the moment.",
    "Try again in a while; svc-snap health --wait waits for it.",
);

pub(crate) const TOO_OLD: &str = "Restore it into the major version between the two, copy its indices there to new ones (POST /_reindex), and take a snapshot of those.";

const RULES: &[Rule] = &[
    Rule::new(Status::NotFound, "repository_not_found", "The server has no snapshot repository of that name.",
        "svc-snap register --location DIR registers it; --repository (SVC_REPOSITORY) names another.")
        .on(&["repository_missing_exception"], &[]),
    Rule::new(Status::Refused, "version_unsupported",
        "The other product, or a newer version, has written to the repository's directory, and this server does not read what it writes.",
        "Register another directory for this server, or this one with --readonly, and restore what is in it into the server that wrote it.")
        .on(&["repository_exception"],
            &["unknown field [uuid]", "illegal version format", "requires Elasticsearch version", "requires OpenSearch version"]),
    // Its words "Could not read repository data" are those of a damaged one, too.
    Rule::new(Status::Invalid, "repository_shared",
        "Something other than this repository has written to its directory, and the server does not use it any more.",
        "Let only one repository of one cluster write to it: register it elsewhere with --readonly (another one of this cluster: DELETE /_snapshot/NAME leaves its snapshots), then here with svc-snap register --repository NAME --location DIR --replace.")
        .on(&["repository_exception", "snapshot_exception"],
            &["concurrent modification", "do not match its expected state", "not to match its expected state"]),
    // A name that is simply not known is missing without a file that is.
    Rule::new(Status::Invalid, "repository_damaged",
        "The repository is damaged: files that belong to it are missing or incomplete.",
        "The cause names the file. Put the directory back as it was; or register a new one (svc-snap register --repository NAME --location DIR), and take a snapshot there at once.")
        .on(&["snapshot_missing_exception", "snapshot_exception", "repository_exception"],
            &["no_such_file_exception", "corrupt_state_exception", "corrupt_index_exception", "read repository data", "loading repository data"]),
    Rule::new(Status::NotFound, "snapshot_not_found", "The repository has no snapshot of that name.",
        "svc-snap list shows which there are.")
        .on(&["snapshot_missing_exception", "snapshot_restore_exception"], &["is missing", "snapshot does not exist"]),
    Rule::new(Status::NotFound, "data_not_found", "An index that was named does not exist.",
        "GET /_cat/indices shows which there are.")
        .on(&["index_not_found_exception"], &[]),
    Rule::new(Status::Refused, "name_in_use", "The repository has a snapshot of that name already.",
        "Name another one, or pass --unique to have a free name picked.")
        .on(&["snapshot_name_already_in_use_exception", "invalid_snapshot_name_exception"], &["already exists", "already in-progress"]),
    Rule::new(Status::Refused, "version_unsupported", "The snapshot holds an index that is too old for this server.", TOO_OLD)
        .on(&["snapshot_restore_exception"], &["minimum index compatibility version", "cannot be upgraded"]),
    Rule::new(Status::Invalid, "repository_unusable", "Not every node of the server can write to the repository.",
        "The cause names the nodes. A directory must be the same one for every node, owned by the server's user (svc-snap configure --location DIR); an object store needs its keys in the keystore of each node.")
        .on(&["repository_verification_exception"], &[]),
    Rule::new(Status::Refused, "repository_shared", "The repository is registered read-only.",
        "svc-snap register --repository NAME --location DIR --replace registers it for writing; two clusters must never write to one directory.")
        .on(&["repository_exception"], &["readonly", "read-only"]),
    Rule::new(Status::Refused, "repository_unusable", "The server has no repositories of that type, or none in that directory (path.repo).",
        "svc-snap configure --location DIR adds a directory to path.repo, then restart the server; other types than fs may need a plugin on every node.")
        .on(&["repository_exception"], &["path.repo", "repository type"]),
    Rule::new(Status::Invalid, "indices_red",
        "An index that was asked for has unassigned primary shards, so no complete snapshot can be taken.",
        "GET /_cluster/allocation/explain says why; fix the index, or leave it out with --indices.")
        .on(&["snapshot_exception"], &["primary shards"]),
    Rule::new(Status::Refused, "name_in_use", "An index of that name exists already.",
        "GET /_cat/indices?expand_wildcards=all shows it.")
        .on(&["resource_already_exists_exception"], &[]),
    Rule::new(Status::Refused, "name_in_use", "An index or an alias of the same name exists.",
        "GET /_cat/aliases and GET /_cat/indices?expand_wildcards=all show them: remove one, or leave the index out with --indices; in place, see --on-conflict.")
        .on(&["snapshot_restore_exception", "invalid_index_name_exception", "invalid_alias_name_exception"],
            &["open index with same name", "already exists as alias", "exists with the same name"]),
    Rule::new(Status::Refused, "out_of_space",
        "The cluster would have more shards than it may (cluster.max_shards_per_node).",
        "Remove indices that are not needed, or raise cluster.max_shards_per_node.")
        .on(&["validation_exception", "illegal_argument_exception"], &["shards open"]),
    // OpenSearch takes such a request only if it has no other setting.
    Rule::new(Status::Refused, "index_blocked", "The cluster is read-only.",
        "PUT /_cluster/settings {\"persistent\": {\"cluster.blocks.read_only\": null}} removes the block; \"transient\" if GET /_cluster/settings shows it there.")
        .on(&["cluster_block_exception"], &["cluster read-only (api)"]),
    Rule::new(Status::Refused, "index_blocked", "The cluster is read-only, but for deletions.",
        "PUT /_cluster/settings {\"persistent\": {\"cluster.blocks.read_only_allow_delete\": null}} removes the block; \"transient\" if GET /_cluster/settings shows it there.")
        .on(&["cluster_block_exception"], &["cluster read-only / allow delete (api)"]),
    Rule::new(Status::Refused, "index_blocked", "The index or the cluster does not take changes at present.",
        "The cause names the block. One of an index is removed by PUT /INDEX/_settings {\"index.blocks.BLOCK\": null}; one that a full disk has set goes when there is disk space again.")
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
    Rule::new(Status::Refused, "access_denied", "The server does not accept these credentials, or requires some.",
        "Check --user with --password-file, --api-key-file, --bearer-file or --client-cert, and their variables (SVC_SEARCH_…).")
        .http(&[401]),
    Rule::new(Status::Refused, "permission_denied", "The user has no right to do this; the cause names the right.",
        "Give that user a role that may manage snapshots and the service's indices (the page of svc-snap has one), or name another user.")
        .http(&[403]),
    Rule::new(Status::NotFound, "server_refused", "The server does not have what was asked for.",
        "See the causes: they are the server's own words.")
        .http(&[404]),
    UNAVAILABLE.http(&[408, 429, 502, 503, 504]),
];

/// An error of the server, flattened: every `type` and every different `reason`, outermost first.
#[derive(Debug, Default)]
struct ServerError {
    types: Vec<String>,
    reasons: Vec<String>,
}

impl ServerError {
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

/// The server's refusal of a request. Without an error of its own, a gateway may have said it, which does not know what the server did.
pub(crate) fn refusal(status: u16, body: &Value) -> RequestError {
    let mut said = ServerError::default();
    body.get("error").into_iter().for_each(|error| said.read(error));
    let other = format!("The server refused a request with HTTP {status}.");
    let (mut failure, mut effect) = match RULES.iter().find(|rule| rule.fits(status, &said)) {
        Some(rule) => (Failure::new(rule.status, rule.code, rule.message).hint(rule.hint), rule.effect),
        None => (Failure::failed("server_refused", other).hint("See the causes: they are the server's own words."), Effect::None),
    };
    if said.types.is_empty() && (status == 408 || status >= 500) {
        effect = Effect::Unknown;
    }
    failure.causes.push(format!("HTTP {status}{}", said.types.first().map(|kind| format!(" {kind}")).unwrap_or_default()));
    failure.causes.extend(said.reasons.iter().map(|reason| sentence_without_secrets(reason)));
    RequestError { failure, effect }
}

/// An HTML page or anything else that is not JSON: of something between us and the server, which may have carried the request.
pub(super) fn not_json(base: &str, status: u16) -> RequestError {
    if matches!(status, 401 | 403 | 408 | 413 | 429 | 500..600) {
        return refusal(status, &Value::Null);
    }
    RequestError::unknown(not_a_cluster(base).cause(format!("HTTP {status}, and no JSON")))
}

pub(super) fn not_a_cluster(base: &str) -> Failure {
    let message = format!("What answers at {base} is neither Elasticsearch nor OpenSearch.");
    Failure::refused("search_unreachable", message).hint(
        "Check --url (SVC_SEARCH_URL): it is the server's own address and port; a path belongs to it only if a reverse proxy has one.",
    )
}

/// A refusal of `GET /`. Neither product answers it with 400, 404 or 405.
pub(super) fn not_identified(answer: &Answer) -> Failure {
    let refused = answer.json().map_or_else(|error| error, |body| refusal(answer.status, &body)).failure;
    match answer.status {
        400 | 404 | 405 => refused.causes.into_iter().fold(not_a_cluster(&answer.base), Failure::cause),
        _ => refused,
    }
}

pub(super) fn no_cluster(base: &str) -> Failure {
    Failure::unavailable("server_busy", format!("The server at {base} has no cluster yet.")).hint(UNAVAILABLE.hint)
}

/// No answer has begun to come from `base`, an address without credentials.
pub(super) fn no_answer(base: &str, error: &ureq::Error) -> RequestError {
    use ErrorKind::{AddrNotAvailable, ConnectionRefused, HostUnreachable, InvalidInput, NetworkUnreachable};
    let (failure, effect) = match error {
        ureq::Error::Rustls(error) => tls(base, error),
        ureq::Error::Io(fault) => match (fault.get_ref().and_then(|error| error.downcast_ref()), fault.kind()) {
            (Some(error), _) => tls(base, error),
            (None, ConnectionRefused | NetworkUnreachable | HostUnreachable | AddrNotAvailable | InvalidInput) => {
                (unreachable(base, "does not answer"), Effect::None)
            }
            _ => (unreachable(base, "does not answer"), Effect::Unknown),
        },
        ureq::Error::HostNotFound | ureq::Error::ConnectionFailed | ureq::Error::Timeout(Timeout::Connect | Timeout::Resolve) => {
            (unreachable(base, "does not answer"), Effect::None)
        }
        ureq::Error::Tls(_) => (not_trusted(base), Effect::None),
        ureq::Error::Protocol(_) | ureq::Error::LargeResponseHeader(..) => (not_a_cluster(base), Effect::Unknown),
        _ => (unreachable(base, "has not answered in time"), Effect::Unknown),
    };
    RequestError { failure: failure.cause(error.to_string()), effect }
}

/// Before the handshake is over no request is sent.
fn tls(base: &str, error: &Tls) -> (Failure, Effect) {
    match error {
        Tls::InvalidMessage(_) => {
            let plain = base.replacen("https://", "http://", 1);
            let hint = format!("It speaks no TLS: write --url (SVC_SEARCH_URL) as {plain} to connect without it.");
            (not_a_cluster(base).hint(hint), Effect::Unknown)
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
            (Failure::refused("access_denied", message).hint(hint), Effect::None)
        }
        _ => (unreachable(base, "broke the TLS connection"), Effect::Unknown),
    }
}

fn not_trusted(base: &str) -> Failure {
    Failure::refused("not_trusted", format!("The server at {base} has a TLS certificate, or a version of TLS, that is not trusted.")).hint(
        "Name the authority of its certificate with --ca-cert (SVC_SEARCH_CA), write --url with a name that is in the certificate, and check its dates and this host's clock; the cause says which it is.",
    )
}

/// No server answers at `base`; `what` completes the sentence.
pub(super) fn unreachable(base: &str, what: &str) -> Failure {
    Failure::unavailable("search_unreachable", format!("The server at {base} {what}.")).hint(
        "Check that it runs (svc-unit status UNIT) and that --url (SVC_SEARCH_URL) is right: its scheme is https:// if the server speaks TLS.",
    )
}

/// An answer has begun to come and is incomplete: the request was sent, even if TLS broke.
pub(super) fn incomplete(base: &str, error: &dyn std::fmt::Display) -> RequestError {
    RequestError::unknown(unreachable(base, "closed the connection within an answer").cause(error.to_string()))
}

pub(super) fn too_large(base: &str, limit: u64) -> RequestError {
    let failure = Failure::fault(format!("An answer of the server at {base} is larger than {} MiB.", limit >> 20));
    RequestError::unknown(failure.hint("Check that --url (SVC_SEARCH_URL) is the server's own address."))
}

#[cfg(test)]
mod tests;
