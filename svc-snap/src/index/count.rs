//! How many documents indices hold.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use svc_step::{Failure, Status};

use crate::client::Server;
use crate::client::json::{list, number};
use crate::client::path::path;

/// So many indices are counted by one request.
const TOGETHER: usize = 200;

/// How many documents an index holds, all of what was written counted, every shard asked.
/// Errors: The server does not answer, or a shard does not (7).
pub(crate) fn count(server: &Server, index: &str) -> Result<u64, Failure> {
    let answer = server.get(&path(&[index, "_count"]))?;
    match counted(&answer, "/count") {
        Some(count) => Ok(count),
        None => Err(Failure::invalid(
            "shards_failed",
            format!("Not every shard of {index} answered when its documents were counted."),
        )
        .hint(format!("GET /_cat/shards/{index} shows its shards."))
        .cause(answer.to_string())),
    }
}

/// The count, where every shard has its part in it: one that is nowhere is not counted, and not among the failed either.
fn counted(answer: &Value, count: &str) -> Option<u64> {
    let shards = |pointer: &str| number(answer, pointer);
    let whole = shards("/_shards/failed") == Some(0) && shards("/_shards/successful") == shards("/_shards/total");
    number(answer, count).filter(|_| whole)
}

/// The same of several indices, in a few requests.
pub(crate) fn counts<'a>(server: &Server, names: &[&'a str]) -> Result<BTreeMap<&'a str, u64>, Failure> {
    let mut counts = BTreeMap::new();
    for names in names.chunks(TOGETHER) {
        let told = together(server, names)?;
        for (at, &name) in names.iter().enumerate() {
            // What was not counted together is counted by itself: then it shows why.
            let known = told.get(at).copied().flatten();
            counts.insert(name, known.map_or_else(|| count(server, name), Ok)?);
        }
    }
    Ok(counts)
}

/// Counts by the search for several at once; `None` where not every shard answered.
fn together(server: &Server, names: &[&str]) -> Result<Vec<Option<u64>>, Failure> {
    if names.len() < 2 {
        return Ok(Vec::new());
    }
    match server.post(&format!("/_msearch?{ANSWER}"), Some(&Value::String(lines(names)))) {
        Ok(answer) => Ok(read(&answer)),
        // Servers may forbid requests that name their indices in the body.
        Err(failure) if matches!(failure.status, Status::Failed | Status::Refused) => Ok(Vec::new()),
        Err(failure) => Err(failure),
    }
}

/// Numbers in one form, from all products and versions.
const ANSWER: &str = "rest_total_hits_as_int=true&filter_path=responses.hits.total,responses._shards";

fn lines(names: &[&str]) -> String {
    let all = json!({"size": 0, "track_total_hits": true});
    names.iter().map(|name| format!("{}\n{all}\n", json!({ "index": name }))).collect()
}

fn read(answer: &Value) -> Vec<Option<u64>> {
    list(answer, "/responses").map(|one| counted(one, "/hits/total")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_without_a_shard_is_none() {
        let shards = |successful: u64, failed: u64| json!({"total": 3, "successful": successful, "skipped": 0, "failed": failed});
        let told = |successful, failed| counted(&json!({"count": 7, "_shards": shards(successful, failed)}), "/count");
        assert_eq!((told(3, 0), told(2, 0), told(2, 1)), (Some(7), None, None));
        assert_eq!(counted(&Value::Null, "/count"), None);
        let one = |successful, failed| json!({"hits": {"total": 7}, "_shards": shards(successful, failed)});
        let answer = json!({"responses": [one(3, 0), {}, one(2, 0), one(2, 1), one(3, 0)]});
        assert_eq!(read(&answer), [Some(7), None, None, None, Some(7)]);
        assert!(read(&json!({})).is_empty());
    }

    #[test]
    fn each_index_has_two_lines() {
        assert_eq!(lines(&["a\"b"]), "{\"index\":\"a\\\"b\"}\n{\"size\":0,\"track_total_hits\":true}\n");
    }
}
