//! Whether every node can use a repository, by the server's own verification.

use svc_step::Failure;

use crate::client::Server;
use crate::client::json::{members, text};
use crate::client::path::path;
use crate::repository::{definition, named};

/// The code of a verification that failed.
pub(crate) const UNUSABLE: &str = "repository_unusable";

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
        Err(failure) if failure.code == UNUSABLE => {
            let (unusable_nodes, failure) = explained(server, repository, failure);
            return Ok(Verdict { unusable_nodes, unusable: Some(failure), ..Verdict::default() });
        }
        Err(failure) => return Err(named(failure, repository)),
    };
    let nodes = answer.get("nodes").into_iter().flat_map(members);
    let mut nodes: Vec<String> = nodes.map(|(id, node)| text(node, "/name").unwrap_or(id).to_owned()).collect();
    nodes.sort();
    Ok(Verdict { nodes, ..Verdict::default() })
}

/// The names of the nodes that cannot use the repository, and the failure with them in its sentence, without them where the server
/// does not say enough.
pub(crate) fn explained(server: &Server, repository: &str, mut failure: Failure) -> (Vec<String>, Failure) {
    let kind = definition(server, repository).ok().flatten();
    if kind.as_ref().and_then(|found| text(found, "/type")).is_some_and(|kind| kind != "fs") {
        failure.hint =
            Some("Its settings, and the keys in the keystore of each node, must be those of the object store.".to_owned());
    }
    let nodes = server.get("/_nodes?filter_path=nodes.*.name").unwrap_or_default();
    let nodes = nodes.get("nodes").into_iter().flat_map(members);
    let nodes: Vec<(&str, &str)> = nodes.filter_map(|(id, node)| Some((id.as_str(), text(node, "/name")?))).collect();
    let names = names_in(&failure.causes, &nodes);
    if !names.is_empty() {
        failure.message = format!("These nodes cannot use the repository {repository}: {}.", names.join(", "));
    }
    (names, failure)
}

/// The names of the nodes, given as id and name, that the server's words name: by id, or by name inside the text of an exception. The
/// elected manager, which writes first, they do not name.
fn names_in(words: &[String], nodes: &[(&str, &str)]) -> Vec<String> {
    let is_named = |(id, name): &&(&str, &str)| {
        let signs = [format!("[{id},"), format!("{{{id}}}"), format!("[{name}]["), format!("[{{{name}}}{{")];
        words.iter().any(|word| signs.iter().any(|sign| word.contains(sign.as_str())))
    };
    let mut names: Vec<String> = nodes.iter().filter(is_named).map(|(_, name)| (*name).to_owned()).collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_known_by_its_id_or_its_name() {
        let nodes = [("m-NiKw", "svc-3"), ("aaaa", "svc-1"), ("bbbb", "svc")];
        let told = |word: &str| names_in(&[word.to_owned()], &nodes);
        assert_eq!(
            told("[r] [[m-NiKw, 'RemoteTransportException[[svc-3][127.0.0.1:26464][internal:admin/repository/verify]]']]"),
            ["svc-3"]
        );
        assert_eq!(told("[r] store location [/x] is not accessible on the node [{svc-3}{m-NiKw}{zzz}]"), ["svc-3"]);
        assert!(told("[r] something else in /var/svc-3/svc").is_empty());
    }
}
