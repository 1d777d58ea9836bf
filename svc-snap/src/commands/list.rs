//! `list`: the snapshots of a repository (procedure, 4). What `_cat/snapshots` shows as text is here as numbers and times.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_step::{Call, StepResult};

use crate::repository::RepositoryArg;
use crate::snapshot::{self, Item, verdict};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  svc-snap list
  svc-snap list | jq -r '.result.snapshots[] | select(.valid) | .name'")]
pub struct ListArgs {
    #[command(flatten)]
    repository: RepositoryArg,
}

/// The snapshots of a repository.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Listed {
    pub cluster_uuid: String,
    pub repository: String,
    /// Its snapshots, oldest first.
    pub snapshots: Vec<Item>,
}

pub(crate) fn run(args: &ListArgs, call: &Call) -> StepResult<Listed> {
    let server = args.repository.connect(call)?;
    let repository = args.repository.repository.clone();
    let found = snapshot::all(&server, &repository)?;
    for failure in found.iter().filter_map(|one| verdict::check_restorable(&server, &repository, one).err()) {
        call.warn(&failure.code, failure.message);
    }
    let snapshots = found.into_iter().map(|one| Item::of(&repository, one)).collect();
    Ok(Listed { cluster_uuid: server.cluster_uuid, repository, snapshots })
}
