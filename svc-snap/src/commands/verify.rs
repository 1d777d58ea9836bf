//! `verify`: can every node write to the repository, and are its files there? It does not verify the snapshots in it; `stage` does.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_step::{Call, StepResult, Stopped};

use crate::client::Server;
use crate::client::auth::Connection;
use crate::repository::RepositoryArg;
use crate::repository::verdict::{Verdict, verify};
use crate::snapshot;

/// Arguments of `svc-snap verify`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  svc-snap verify --repository my_backup")]
pub struct VerifyArgs {
    #[command(flatten)]
    repository: RepositoryArg,
    #[command(flatten)]
    connection: Connection,
}

/// A repository, and which nodes can use it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Verified {
    /// The cluster's `cluster_uuid`.
    pub cluster_uuid: String,
    /// The repository.
    pub repository: String,
    /// The nodes that can, by name; empty if one of them cannot.
    pub nodes: Vec<String>,
    /// The nodes that cannot, by name, as far as the server tells; any failure of this is exit 7.
    pub unusable_nodes: Vec<String>,
    /// How many snapshots it holds; 0 if a node cannot use it.
    pub snapshots_count: u64,
}

pub(crate) fn run(args: &VerifyArgs, call: &Call) -> StepResult<Verified> {
    let server = Server::connect(&args.connection, call)?;
    let repository = args.repository.repository.clone();
    let Verdict { nodes, unusable_nodes, unusable } = verify(&server, &repository)?;
    let snapshots_count = if unusable.is_none() { snapshot::probe(&server, &repository)? } else { 0 };
    let verified = Verified { cluster_uuid: server.cluster_uuid, repository, nodes, unusable_nodes, snapshots_count };
    match unusable {
        None => Ok(verified),
        Some(failure) => Err(Stopped::with(failure, verified)),
    }
}
