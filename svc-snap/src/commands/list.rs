//! `list`: the snapshots of a repository (procedure, 4). What `_cat/snapshots` shows as text is here as numbers and times.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_step::document::Time;
use svc_step::{Call, StepResult};

use crate::client::{Connection, Server};
use crate::repository::RepositoryArg;
use crate::snapshot;
use crate::snapshot::{Compatibility, Shards, Snapshot, verdict};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  svc-snap list
  svc-snap list | jq -r '.result.snapshots[] | select(.valid) | .name'")]
pub struct ListArgs {
    #[command(flatten)]
    repository: RepositoryArg,
    #[command(flatten)]
    connection: Connection,
}

/// The snapshots of a repository.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Listed {
    pub cluster_uuid: String,
    pub repository: String,
    /// Its snapshots, oldest first.
    pub snapshots: Vec<Item>,
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
    /// Whether this server can restore it, by the version that took it: not one of a newer server, of one more than a major
    /// version older, or of the other product.
    pub restorable: bool,
    /// The version of the server that took it; `null` where this one does not know that version.
    pub version: Option<String>,
    pub taken_by: Option<String>,
    pub taken_because: Option<String>,
    /// What it is for; `null` where it is not one of ours.
    pub kind: Option<String>,
    /// The run that took it; `null` where it is not one of ours.
    pub run_id: Option<String>,
}

pub(crate) fn run(args: &ListArgs, call: &Call) -> StepResult<Listed> {
    let server = Server::connect(&args.connection, call)?;
    let repository = args.repository.repository.clone();
    let found = snapshot::all(&server, &repository)?;
    for failure in found.iter().filter_map(|one| verdict::check_restorable(&server, &repository, one).err()) {
        call.warn(&failure.code, failure.message);
    }
    let snapshots = found.into_iter().map(|one| item(&repository, one)).collect();
    Ok(Listed { cluster_uuid: server.cluster_uuid, repository, snapshots })
}

pub(crate) fn item(repository: &str, snapshot: Snapshot) -> Item {
    Item {
        valid: (!snapshot.is_under_way()).then(|| verdict::check(repository, &snapshot, &[]).is_ok()),
        restorable: snapshot.compatibility == Compatibility::Good,
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
