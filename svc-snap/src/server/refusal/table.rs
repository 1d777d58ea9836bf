//! Every error of the servers that is told apart, as data: what the server says, and what becomes of it. The page's table is
//! made of it.

use svc_step::{Failure, Status};

use crate::server::client::Effect;

/// One error of the servers. Of several that fit, the first counts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rule {
    /// The error's `type`, wherever it stands: one of these, or any where none is given.
    pub types: &'static [&'static str],
    /// And one of these types stands with it, behind it for example, or none where none is given.
    pub with: &'static [&'static str],
    /// One of these stands in a `reason`, or anything where none is given: one type may stand for many faults.
    pub says: &'static [&'static str],
    /// The HTTP status: one of these, or any where none is given.
    pub http: &'static [u16],
    /// The exit status.
    pub status: Status,
    /// Our `error.code`.
    pub code: &'static str,
    /// Our sentence.
    pub message: &'static str,
    /// What helps.
    pub hint: &'static str,
    /// Whether the request may have taken effect all the same.
    pub effect: Effect,
}

impl Rule {
    const fn new(status: Status, code: &'static str, message: &'static str) -> Self {
        Self { types: &[], with: &[], says: &[], http: &[], status, code, message, hint: "", effect: Effect::None }
    }

    const fn types(self, types: &'static [&'static str]) -> Self {
        Self { types, ..self }
    }

    const fn with(self, with: &'static [&'static str]) -> Self {
        Self { with, ..self }
    }

    const fn says(self, says: &'static [&'static str]) -> Self {
        Self { says, ..self }
    }

    const fn http(self, http: &'static [u16]) -> Self {
        Self { http, ..self }
    }

    const fn hint(self, hint: &'static str) -> Self {
        Self { hint, ..self }
    }

    /// The one who says it does not know what became of the request.
    const fn unknown(self) -> Self {
        Self { effect: Effect::Unknown, ..self }
    }

    /// As a failure, without the server's words.
    pub(crate) fn failure(&self) -> Failure {
        Failure::new(self.status, self.code, self.message).hint(self.hint)
    }
}

const fn refused(code: &'static str, message: &'static str) -> Rule {
    Rule::new(Status::Refused, code, message)
}

const fn not_found(code: &'static str, message: &'static str) -> Rule {
    Rule::new(Status::NotFound, code, message)
}

const fn unavailable(code: &'static str, message: &'static str) -> Rule {
    Rule::new(Status::Unavailable, code, message)
}

const fn invalid(code: &'static str, message: &'static str) -> Rule {
    Rule::new(Status::Invalid, code, message)
}

// Told in several ways.
const REPOSITORY_DAMAGED: Rule =
    invalid("repository_damaged", "The repository is damaged: files that belong to it are missing or incomplete.")
        .hint("The cause names the file. Put the folder back as it was; or register a new one (svc-snap register --repository NAME --location DIR), and take a snapshot there at once.");
const SNAPSHOT_NOT_FOUND: Rule =
    not_found("snapshot_not_found", "The repository has no snapshot of that name.").hint("svc-snap list shows which there are.");
const SNAPSHOT_NAME_IN_USE: Rule = refused("snapshot_name_in_use", "The repository has a snapshot of that name already.")
    .hint("Name another one, or pass --unique to have a free name picked.");
const SEARCH_BUSY: Rule = unavailable("search_busy", "The server is busy with something that this cannot run beside.")
    .hint("Try again in a while; svc-snap list shows snapshots under way.");
const SEARCH_UNAVAILABLE: Rule = unavailable("search_unavailable", "The server is not able to answer at the moment.")
    .hint("Try again in a while; svc-snap health --wait waits for it.");

/// All of them.
pub(crate) const RULES: &[Rule] = &[
    not_found("repository_not_found", "The server has no snapshot repository of that name.")
        .types(&["repository_missing_exception"])
        .hint("svc-snap register --location DIR registers it; --repository (SVC_REPOSITORY) names another."),
    // A name that is simply not known is missing without a file that is.
    REPOSITORY_DAMAGED
        .types(&["snapshot_missing_exception", "snapshot_exception"])
        .with(&["no_such_file_exception", "corrupt_state_exception", "corrupt_index_exception"]),
    // Nothing is damaged that Elasticsearch could not read.
    refused(
        "repository_of_other_product",
        "Elasticsearch has written to the repository's folder, and OpenSearch does not read what it writes.",
    )
    .types(&["repository_exception"])
    .says(&["unknown field [uuid]", "illegal version format"])
    .hint("Register another folder for this server, and restore what is in this one into Elasticsearch."),
    REPOSITORY_DAMAGED
        .types(&["repository_exception"])
        .says(&["read repository data", "loading repository data"]),
    SNAPSHOT_NOT_FOUND
        .types(&["snapshot_missing_exception"]),
    SNAPSHOT_NOT_FOUND
        .types(&["snapshot_restore_exception"])
        .says(&["snapshot does not exist"]),
    not_found("index_not_found", "An index that was named is not there.")
        .types(&["index_not_found_exception"])
        .hint("GET /_cat/indices shows which there are."),
    SNAPSHOT_NAME_IN_USE
        .types(&["snapshot_name_already_in_use_exception"]),
    SNAPSHOT_NAME_IN_USE
        .types(&["invalid_snapshot_name_exception"])
        .says(&["already exists", "already in-progress"]),
    refused("index_in_the_way", "An open index of the same name is in the way of the restore.")
        .types(&["snapshot_restore_exception"])
        .says(&["open index with same name"])
        .hint("svc-snap restore without --in-place stages beside it; in place, see --on-conflict."),
    invalid("repository_unusable", "Not every node of the server can write to the repository.")
        .types(&["repository_verification_exception"])
        .hint("Its folder must be the same one for every node, owned by the server's user: svc-snap configure --location DIR."),
    unavailable("repository_in_use", "The repository cannot be changed while the server works with it.")
        .types(&["illegal_state_exception", "repository_conflict_exception"])
        .says(&["modify or unregister repository"])
        .hint("Try again when the snapshot or restore under way has ended; svc-snap list shows it."),
    refused(
        "location_outside_path_repo",
        "The repository's folder is in none of those that the server may write to (path.repo).",
    )
    .types(&["repository_exception"])
    .says(&["path.repo"])
    .hint("svc-snap configure --location DIR adds it; then restart the server."),
    refused("repository_readonly", "The repository is registered read-only.")
        .types(&["repository_exception"])
        .says(&["readonly", "read-only"])
        .hint("svc-snap register --location DIR registers it for writing; two clusters must never write to one folder."),
    refused("repository_newer_than_server", "The repository was written to by a newer server than this one.")
        .types(&["repository_exception"])
        .says(&["requires Elasticsearch version", "requires OpenSearch version"])
        .hint("Register another folder for this server, or the old one with --readonly."),
    refused("repository_type_unknown", "The server knows no repositories of that type.")
        .types(&["repository_exception"])
        .says(&["repository type"])
        .hint("Install the server's plugin for that type on every node, or name another one with --type."),
    invalid("repository_changed_elsewhere", "The repository's folder was written to by something else than this server.")
        .types(&["repository_exception", "snapshot_exception"])
        .says(&["concurrent modification", "do not match its expected state", "not to match its expected state"])
        .hint("Two clusters must never write to one folder: register it in the other one with --readonly, then register it here again."),
    // A repository that was registered, or its rate changed, a moment ago.
    SEARCH_BUSY
        .types(&["repository_exception"])
        .says(&["unexpected initialized repo metadata"]),
    invalid("shards_unassigned", "An index that was asked for has shards that are not there, so no whole snapshot can be taken.")
        .types(&["snapshot_exception"])
        .says(&["primary shards"])
        .hint("GET /_cluster/allocation/explain says why; fix the index, or leave it out with --indices."),
    refused("index_exists", "There is an index of that name already.")
        .types(&["resource_already_exists_exception"])
        .hint("GET /_cat/indices?expand_wildcards=all shows it."),
    refused("index_not_blocked", "An index that was to be cloned takes writes again.")
        .types(&["illegal_state_exception"])
        .says(&["index.blocks.write=true"])
        .hint("Another call, perhaps on another host, works with the same index: wait for its end, and run this command again."),
    refused("index_closed", "An index that was asked about is closed.")
        .types(&["index_closed_exception"])
        .hint("POST /INDEX/_open opens it; or leave it out with --indices."),
    refused("alias_in_the_way", "A name is wanted for an index and for an alias.")
        .types(&["invalid_index_name_exception"])
        .says(&["already exists as alias"])
        .hint("GET /_cat/aliases shows it; remove the alias, or leave the index out with --indices."),
    refused("alias_in_the_way", "A name is wanted for an index and for an alias.")
        .types(&["invalid_alias_name_exception"])
        .says(&["exists with the same name"])
        .hint("GET /_cat/indices?expand_wildcards=all shows it; remove the index, or leave out with --indices what has the alias."),
    refused("shard_limit_reached", "The cluster would have more shards than it may (cluster.max_shards_per_node).")
        .types(&["validation_exception", "illegal_argument_exception"])
        .says(&["shards open"])
        .hint("Remove indices that nobody needs, or raise cluster.max_shards_per_node."),
    SEARCH_UNAVAILABLE
        .types(&["cluster_block_exception"])
        .says(&["SERVICE_UNAVAILABLE"]),
    refused("index_blocked", "The index or the cluster does not take changes at present.")
        .types(&["cluster_block_exception"])
        .hint("The cause names the block; a full disk sets one by itself and takes it off when there is room again."),
    // A server that has lost its cluster, or another node, does not know what the other side went on to do.
    SEARCH_UNAVAILABLE
        .types(&[
            "master_not_discovered_exception",
            "cluster_manager_not_discovered_exception",
            "not_master_exception",
            "not_cluster_manager_exception",
            "failed_to_commit_cluster_state_exception",
            "node_closed_exception",
            "node_disconnected_exception",
            "node_not_connected_exception",
            "receive_timeout_transport_exception",
        ])
        .unknown(),
    SEARCH_UNAVAILABLE
        .types(&["snapshot_exception"])
        .says(&["no longer master", "no longer cluster-manager", "no longer cluster manager"])
        .unknown(),
    SEARCH_BUSY
        .types(&[
            "concurrent_snapshot_execution_exception",
            "snapshot_in_progress_exception",
            "process_cluster_event_timeout_exception",
            "es_rejected_execution_exception",
            "rejected_execution_exception",
            "circuit_breaking_exception",
        ]),
    SEARCH_BUSY
        .types(&["illegal_state_exception"])
        .says(&["already in-progress", "currently being deleted", "is running", "currently running"]),
    refused("search_not_authenticated", "The server does not accept these credentials, or wants some.")
        .http(&[401])
        .hint("Check --user with --password-file, --api-key-file, --bearer-file or --client-cert, and their variables (SVC_SEARCH_…)."),
    refused("search_forbidden", "The user has no right to do this; the cause names the right.")
        .http(&[403])
        .hint("Give that user a role that may manage snapshots and the service's indices (svc-snap/roles has one), or name another user."),
    not_found("search_not_found", "The server does not have what was asked for.")
        .http(&[404])
        .hint("See the causes: they are the server's own words."),
    SEARCH_UNAVAILABLE
        .http(&[408, 429, 502, 503, 504]),
];
