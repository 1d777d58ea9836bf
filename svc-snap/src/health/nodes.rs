//! The nodes, and which folders each may have repositories in (`path.repo`; procedure, 4.1 steps 2 and 3).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use svc_step::Failure;

use crate::disk::holds_data;
use crate::server::Server;
use crate::server::json::{members, text};

/// One node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Its version, as it writes it.
    pub version: String,
    /// Whether it holds data.
    pub holds_data: bool,
    /// The folders that it may have repositories in; empty where 4.1 has still to be done on it.
    pub path_repo: Vec<String>,
}

/// All nodes, by name.
pub(super) fn nodes(server: &Server) -> Result<Vec<Node>, Failure> {
    let wanted = "nodes.*.settings.path.repo,nodes.*.name,nodes.*.version,nodes.*.roles";
    Ok(read(&server.get(&format!("/_nodes?filter_path={wanted}"))?))
}

fn read(answer: &Value) -> Vec<Node> {
    let node = |node: &Value| Node {
        name: text(node, "/name").unwrap_or_default().to_owned(),
        version: text(node, "/version").unwrap_or_default().to_owned(),
        holds_data: holds_data(node),
        path_repo: folders(node.pointer("/settings/path/repo")),
    };
    let mut nodes: Vec<Node> = answer.get("nodes").into_iter().flat_map(members).map(|(_, value)| node(value)).collect();
    nodes.sort_by(|one, other| one.name.cmp(&other.name));
    nodes
}

fn folders(setting: Option<&Value>) -> Vec<String> {
    match setting {
        Some(Value::Array(all)) => all.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        Some(Value::String(one)) => one.split(',').map(|one| one.trim().to_owned()).filter(|one| !one.is_empty()).collect(),
        _ => Vec::new(),
    }
}

/// The folders that every node has.
pub(super) fn common(nodes: &[Node]) -> Vec<String> {
    let first = nodes.first().map(|node| node.path_repo.clone()).unwrap_or_default();
    first.into_iter().filter(|folder| nodes.iter().all(|node| node.path_repo.contains(folder))).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn path_repo_is_read_in_either_form_and_common_is_what_every_node_has() {
        let node = |name: &str, repo: Value| json!({"name": name, "version": "1", "roles": ["master"], "settings": {"path": {"repo": repo}}});
        let nodes = read(&json!({"nodes": {"x": node("b", json!("/y, /z")), "y": node("a", json!(["/x", "/y"]))}}));
        assert_eq!((nodes[0].holds_data, nodes[1].path_repo.len()), (false, 2));
        assert_eq!(common(&nodes), ["/y"]);
        assert!(common(&read(&json!({"nodes": {"a": node("a", json!(["/x"])), "b": {"name": "n"}}}))).is_empty());
        assert!(common(&[]).is_empty());
    }
}
