//! `verify`: can every node write to the repository, and are its files there? It does not verify the snapshots in it; `stage` does.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_step::{Call, StepResult};

use crate::repository::RepositoryArg;
use crate::{repository, snapshot};

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  svc-snap verify --repository my_backup")]
pub struct VerifyArgs {
    #[command(flatten)]
    repository: RepositoryArg,
}

/// A repository that every node can use.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Verified {
    pub cluster_uuid: String,
    pub repository: String,
    /// The nodes, by name; one that cannot use it is exit 7.
    pub nodes: Vec<String>,
    /// How many snapshots it holds.
    pub snapshots_count: u64,
}

pub(crate) fn run(args: &VerifyArgs, call: &Call) -> StepResult<Verified> {
    let server = args.repository.connect(call)?;
    let repository = args.repository.repository.clone();
    let nodes = repository::verify_nodes(&server, &repository)?;
    let snapshots_count = snapshot::probe(&server, &repository)?;
    Ok(Verified { cluster_uuid: server.cluster_uuid, repository, nodes, snapshots_count })
}
