//! Why indices are red, in the server's words.

use serde_json::{Value, json};
use svc_step::Failure;

use crate::server::Server;
use crate::server::json::{list, text};
use crate::server::path::path;

/// Each is two requests.
const MOST_EXPLAINED: usize = 5;

/// A sentence for each of the first red indices. A user who may not ask, and a shard that was placed meanwhile, have none.
///
/// # Errors
/// A signal.
pub(super) fn why(server: &Server, red: &[String]) -> Result<Vec<String>, Failure> {
    let mut all = Vec::new();
    for index in red.iter().take(MOST_EXPLAINED) {
        match explain(server, index) {
            Err(failure) if failure.signal.is_some() => return Err(failure),
            explained => all.extend(explained.ok().flatten().map(|why| format!("{index}: {why}"))),
        }
    }
    Ok(all)
}

fn explain(server: &Server, index: &str) -> Result<Option<String>, Failure> {
    let shards = server.get(&format!("{}?format=json&h=shard,prirep,state", path(&["_cat", "shards", index])))?;
    let is_missing = |row: &&Value| text(row, "/prirep") == Some("p") && text(row, "/state") == Some("UNASSIGNED");
    let shard = list(&shards, "").find(is_missing).and_then(|row| text(row, "/shard")?.parse::<u64>().ok());
    let Some(shard) = shard else { return Ok(None) };
    let body = json!({"index": index, "shard": shard, "primary": true});
    let answer = server.post("/_cluster/allocation/explain", Some(&body))?;
    let deciders = list(&answer, "/node_allocation_decisions").flat_map(|node| list(node, "/deciders"));
    let mut against = deciders.filter(|one| text(one, "/decision") != Some("YES"));
    let why = against.find_map(|one| text(one, "/explanation"));
    let why = why.or_else(|| text(&answer, "/unassigned_info/details")).or_else(|| text(&answer, "/allocate_explanation"));
    Ok(why.map(|why| why.chars().take(300).collect()))
}
