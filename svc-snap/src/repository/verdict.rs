//! Whether every node can use a repository, by the server's own verification.

use svc_step::Failure;

use crate::repository::{named, unusable};
use crate::server::Server;
use crate::server::json::{members, text};
use crate::server::path::path;

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
pub(crate) fn verify(server: &Server, repository: &str) -> Result<Verdict, Failure> {
    let answer = match server.post(&path(&["_snapshot", repository, "_verify"]), None) {
        Ok(answer) => answer,
        Err(failure) if failure.code == unusable::CODE => {
            let (unusable_nodes, failure) = unusable::explained(server, repository, failure);
            return Ok(Verdict { unusable_nodes, unusable: Some(failure), ..Verdict::default() });
        }
        Err(failure) => return Err(named(failure, repository)),
    };
    let nodes = answer.get("nodes").into_iter().flat_map(members);
    let mut nodes: Vec<String> = nodes.map(|(id, node)| text(node, "/name").unwrap_or(id).to_owned()).collect();
    nodes.sort();
    Ok(Verdict { nodes, ..Verdict::default() })
}
