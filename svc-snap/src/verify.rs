//! `verify`: can every node write to the repository? It says nothing about the snapshots in it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use svc_step::{Call, Failure, StepResult};

use crate::connection::Connection;
use crate::index::members;
use crate::repository::{self, RepositoryArg};
use crate::server::Server;
use crate::server::path::path;

/// Arguments of `svc-snap verify`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  svc-snap verify --repository my_backup")]
pub struct VerifyArgs {
    #[command(flatten)]
    repository: RepositoryArg,
    #[command(flatten)]
    connection: Connection,
}

/// A repository that every node can use.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Verified {
    /// The cluster's `cluster_uuid`.
    pub cluster_uuid: String,
    /// The repository.
    pub repository: String,
    /// The nodes that proved that they can, by name.
    pub nodes: Vec<String>,
}

pub(crate) fn run(args: &VerifyArgs, call: &Call) -> StepResult<Verified> {
    let server = Server::connect(&args.connection, call)?;
    let repository = args.repository.repository.clone();
    let nodes = verify(&server, &repository)?;
    Ok(Verified { cluster_uuid: server.cluster_uuid, repository, nodes })
}

/// Asks the server to verify the repository: the nodes that can use it.
///
/// # Errors
/// It is not registered (4), or a node cannot use it (7).
pub(crate) fn verify(server: &Server, repository: &str) -> Result<Vec<String>, Failure> {
    let answer = server.ask("POST", &path(&["_snapshot", repository, "_verify"]), None);
    let answer = answer.map_err(|failure| repository::named(failure, repository))?;
    let nodes = answer.get("nodes").into_iter().flat_map(members);
    let mut names: Vec<String> =
        nodes.map(|(id, node)| node.get("name").and_then(Value::as_str).unwrap_or(id).to_owned()).collect();
    names.sort();
    Ok(names)
}
