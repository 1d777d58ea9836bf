//! Which nodes a failed verification of a repository speaks of. The servers name them by their ids, or by their names inside the
//! text of an exception; the elected manager, which writes first, they do not name at all.

use serde_json::Value;
use svc_step::Failure;

use super::definition;
use crate::server::Server;
use crate::server::json::{members, text};

/// The code of the failure that this explains.
pub(crate) const CODE: &str = "repository_unusable";

/// The names of the nodes that cannot use the repository, and the failure with them in its sentence, without them
/// where the server does not say enough.
pub(crate) fn explained(server: &Server, repository: &str, mut failure: Failure) -> (Vec<String>, Failure) {
    let kind = definition(server, repository).ok().flatten();
    if kind.as_ref().and_then(|found| text(found, "/type")).is_some_and(|kind| kind != "fs") {
        failure.hint =
            Some("Its settings, and the keys in the keystore of each node, must be those of the object store.".to_owned());
    }
    let nodes = server.get("/_nodes?filter_path=nodes.*.name").unwrap_or_default();
    let nodes: Vec<(&str, &str)> = nodes.get("nodes").into_iter().flat_map(members).filter_map(named).collect();
    let manager = server.get("/_cluster/state/master_node?filter_path=master_node").unwrap_or_default();
    let manager = text(&manager, "/master_node");
    let names = spoken_of(&failure.causes, &nodes, manager);
    let message = match names.as_slice() {
        [] => return (names, failure),
        [one] => format!("The node {one} cannot use the repository {repository}."),
        more => format!("The nodes {} cannot use the repository {repository}.", more.join(", ")),
    };
    (names, Failure { message, ..failure })
}

fn named<'a>((id, node): (&'a String, &'a Value)) -> Option<(&'a str, &'a str)> {
    Some((id, node.get("name")?.as_str()?))
}

/// The names of the nodes, given as id and name, that the server's words name.
fn spoken_of(words: &[String], nodes: &[(&str, &str)], manager: Option<&str>) -> Vec<String> {
    let is_named = |id: &str, name: &str| {
        let signs = [format!("[{id},"), format!("{{{id}}}"), format!("[{name}]["), format!("[{{{name}}}{{")];
        words.iter().any(|word| signs.iter().any(|sign| word.contains(sign.as_str())))
    };
    let by_manager = |word: &String| word.contains("not accessible on master node") || word.contains("on cluster-manager node");
    let is_managers = words.iter().any(by_manager);
    let found = nodes.iter().filter(|(id, name)| is_named(id, name) || (is_managers && manager == Some(id)));
    let mut names: Vec<String> = found.map(|(_, name)| (*name).to_owned()).collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_known_by_its_id_or_its_name_and_the_manager_by_its_part() {
        let nodes = [("m-NiKw", "svc-3"), ("aaaa", "svc-1"), ("bbbb", "svc")];
        let told = |word: &str| spoken_of(&[word.to_owned()], &nodes, Some("aaaa"));
        assert_eq!(
            told("[r] [[m-NiKw, 'RemoteTransportException[[svc-3][127.0.0.1:26464][internal:admin/repository/verify]]']]"),
            ["svc-3"]
        );
        assert_eq!(told("[r] store location [/x] is not accessible on the node [{svc-3}{m-NiKw}{zzz}]"), ["svc-3"]);
        assert_eq!(told("[r] path  is not accessible on master node"), ["svc-1"]);
        assert_eq!(told("[r] path  is not accessible on cluster-manager node"), ["svc-1"]);
        assert!(told("[r] something else in /var/svc-3/svc").is_empty());
    }
}
