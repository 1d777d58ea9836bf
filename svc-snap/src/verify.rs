//! `verify`: can every node write to the repository, and is what the server knows of it there? It does not prove the snapshots
//! in it; `stage` does that.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_step::{Call, Failure, StepResult, Stopped};

use crate::connection::Connection;
use crate::repository::unusable;
use crate::repository::{self, RepositoryArg};
use crate::server::Server;
use crate::server::json::{members, text};
use crate::server::path::path;
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
    /// The nodes that proved that they can, by name; empty where one of them cannot.
    pub nodes: Vec<String>,
    /// The nodes that cannot, by name, as far as the server tells; any failure of this is exit 7.
    #[serde(default)]
    pub unusable_nodes: Vec<String>,
    /// How many snapshots it holds; 0 where a node cannot use it.
    #[serde(default)]
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

/// What a verification says.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    /// The nodes that can use the repository.
    pub nodes: Vec<String>,
    /// The nodes that cannot, as far as the server tells.
    pub unusable_nodes: Vec<String>,
    /// Why not all can (7).
    pub unusable: Option<Failure>,
}

/// Asks the server to verify the repository.
///
/// # Errors
/// It is not registered (4); the server refuses, or does not answer.
pub(crate) fn verify(server: &Server, repository: &str) -> Result<Verdict, Failure> {
    let answer = match server.ask("POST", &path(&["_snapshot", repository, "_verify"]), None) {
        Ok(answer) => answer,
        Err(failure) if failure.code == unusable::CODE => {
            let (unusable_nodes, failure) = unusable::explained(server, repository, failure);
            return Ok(Verdict { unusable_nodes, unusable: Some(failure), ..Verdict::default() });
        }
        Err(failure) => return Err(repository::named(failure, repository)),
    };
    let nodes = answer.get("nodes").into_iter().flat_map(members);
    let mut nodes: Vec<String> = nodes.map(|(id, node)| text(node, "/name").unwrap_or(id).to_owned()).collect();
    nodes.sort();
    Ok(Verdict { nodes, ..Verdict::default() })
}
