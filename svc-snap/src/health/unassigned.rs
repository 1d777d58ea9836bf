//! Why an index is red or yellow: a sentence for each.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use svc_step::Failure;

use crate::server::Server;
use crate::server::json::{list, text};

/// So many indices are explained; each is a request.
const MOST_EXPLAINED: usize = 20;

/// An index whose shards are not all where they should be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NotWhole {
    /// The index.
    pub index: String,
    /// Whether it is the service's.
    pub in_scope: bool,
    /// `red` (a primary shard is missing) or `yellow` (whole; a replica is missing).
    pub status: String,
    /// How many of its shards, replicas included, have no place.
    pub shards_count: u64,
    /// Whether it is only that there are too few nodes for its replicas: a copy is never put beside its primary. That is
    /// as it should be on a single node.
    pub too_few_nodes: bool,
    /// Why, as a sentence.
    pub why: String,
}

/// One index by its shards without a place.
#[derive(Debug, Default)]
struct Missing {
    count: u64,
    shard: u64,
    primary: bool,
    reason: String,
}

/// The indices that are red or yellow, those of the scope first.
///
/// # Errors
/// The server does not answer, or refuses.
pub(super) fn not_whole(server: &Server, in_scope: impl Fn(&str) -> bool, data_nodes: usize) -> Result<Vec<NotWhole>, Failure> {
    let shards = server.get("/_cat/shards?format=json&h=index,shard,prirep,state,unassigned.reason")?;
    let mut found: Vec<(String, Missing)> = missing(&shards).into_iter().collect();
    found.sort_by_key(|(name, missing)| (!in_scope(name), !missing.primary, name.clone()));
    let explained = |(number, (index, missing)): (usize, (String, Missing))| {
        let answer = if number < MOST_EXPLAINED { explain(server, &index, &missing) } else { Ok(Value::Null) };
        // Who may not ask, and a shard that has found its place meanwhile: then the reason has to do.
        let answer = match answer {
            Err(failure) if failure.signal.is_some() => return Err(failure),
            answer => answer.unwrap_or_default(),
        };
        let too_few_nodes = !missing.primary && only_for_want_of_nodes(&answer);
        Ok(NotWhole {
            in_scope: in_scope(&index),
            status: if missing.primary { "red" } else { "yellow" }.to_owned(),
            shards_count: missing.count,
            too_few_nodes,
            why: sentence(&index, &missing, &answer, too_few_nodes, data_nodes),
            index,
        })
    };
    found.into_iter().enumerate().map(explained).collect()
}

fn missing(shards: &Value) -> BTreeMap<String, Missing> {
    let mut all: BTreeMap<String, Missing> = BTreeMap::new();
    for row in list(shards, "") {
        let says = |pointer: &str| text(row, pointer).unwrap_or_default();
        let primary = says("/prirep") == "p";
        // A replica that is on its way has a place.
        if says("/state") != "UNASSIGNED" && !(primary && says("/state") == "INITIALIZING") {
            continue;
        }
        let entry = all.entry(says("/index").to_owned()).or_default();
        // Of several, the one that is worst is explained.
        if entry.count == 0 || (primary && !entry.primary) {
            entry.shard = says("/shard").parse().unwrap_or(0);
            entry.primary = primary;
            says("/unassigned.reason").clone_into(&mut entry.reason);
        }
        entry.count += 1;
    }
    all
}

fn explain(server: &Server, index: &str, missing: &Missing) -> Result<Value, Failure> {
    let body = json!({"index": index, "shard": missing.shard, "primary": missing.primary});
    server.ask("POST", "/_cluster/allocation/explain", Some(&body))
}

/// What speaks against a place on some node: the decider and its explanation.
fn objections(answer: &Value) -> impl Iterator<Item = (&str, &str)> {
    let deciders = list(answer, "/node_allocation_decisions").flat_map(|node| list(node, "/deciders"));
    let against = deciders.filter(|one| one.get("decision").is_some_and(|decision| decision != "YES"));
    against.map(|one| (text(one, "/decider").unwrap_or_default(), text(one, "/explanation").unwrap_or_default()))
}

fn only_for_want_of_nodes(answer: &Value) -> bool {
    let mut any = false;
    objections(answer).inspect(|_| any = true).all(|(decider, _)| decider == "same_shard") && any
}

fn sentence(index: &str, missing: &Missing, answer: &Value, too_few_nodes: bool, data_nodes: usize) -> String {
    if too_few_nodes {
        let nodes = if data_nodes == 1 {
            "there is only one data node".to_owned()
        } else {
            format!("there are only {data_nodes} data nodes")
        };
        return format!("{index} is whole; its replicas have no place, as {nodes} and a copy is never put beside its primary.");
    }
    let what = if missing.primary { "primary" } else { "replica" };
    let told: Vec<&str> = objections(answer).filter(|(decider, _)| *decider != "same_shard").map(|(_, why)| why).collect();
    let last = text(answer, "/unassigned_info/details");
    let whole = text(answer, "/allocate_explanation").map(|text| text.trim_end_matches('.'));
    let why = told.first().copied().or(last).or(whole).unwrap_or("the search database does not say why");
    let why: String = why.chars().take(300).collect();
    let since = if missing.reason.is_empty() { String::new() } else { format!(" ({})", missing.reason) };
    format!("The {what} of shard {} of {index} has no place{since}: {why}.", missing.shard)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(deciders: &[(&str, &str)]) -> Value {
        let deciders: Vec<Value> =
            deciders.iter().map(|(name, why)| json!({"decider": name, "decision": "NO", "explanation": why})).collect();
        json!({"node_allocation_decisions": [{"deciders": deciders}]})
    }

    #[test]
    fn the_worst_of_an_indexs_shards_is_explained() {
        let row = |index: &str, shard: &str, prirep: &str, state: &str| json!({"index": index, "shard": shard, "prirep": prirep, "state": state, "unassigned.reason": "NODE_LEFT"});
        let rows = json!([
            row("a", "0", "r", "UNASSIGNED"),
            row("a", "1", "p", "UNASSIGNED"),
            row("b", "0", "p", "STARTED"),
            row("b", "0", "r", "INITIALIZING"),
            row("c", "0", "r", "UNASSIGNED"),
        ]);
        let found = missing(&rows);
        assert_eq!(found.keys().collect::<Vec<_>>(), ["a", "c"]);
        assert!(found["a"].primary && found["a"].shard == 1 && found["a"].count == 2 && !found["c"].primary);
    }

    #[test]
    fn a_replica_that_only_lacks_a_node_is_told_from_one_that_lacks_something_else() {
        let one = Missing { count: 1, shard: 0, primary: false, reason: "INDEX_CREATED".to_owned() };
        let beside = answer(&[("same_shard", "a copy of this shard is already allocated to this node")]);
        assert!(only_for_want_of_nodes(&beside));
        assert!(sentence("a", &one, &beside, true, 1).contains("only one data node"));
        let full = answer(&[("same_shard", "a copy"), ("disk_threshold", "the node is above the low watermark")]);
        assert!(!only_for_want_of_nodes(&full) && !only_for_want_of_nodes(&Value::Null));
        assert_eq!(
            sentence("a", &one, &full, false, 1),
            "The replica of shard 0 of a has no place (INDEX_CREATED): the node is above the low watermark."
        );
    }
}
