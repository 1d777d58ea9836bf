//! What the indices of the scope take.

use serde_json::Value;
use svc_step::Failure;

use crate::server::Server;
use crate::server::json::{list, text};

/// The bytes of all their primary shards, or `None` where the user may not ask. A closed index does not say.
///
/// # Errors
/// The server does not answer, or refuses.
pub(super) fn of_primaries(server: &Server, in_scope: impl Fn(&str) -> bool) -> Result<Option<u64>, Failure> {
    match server.get("/_cat/indices?format=json&bytes=b&expand_wildcards=all&h=index,pri.store.size") {
        Ok(indices) => Ok(Some(sum(&indices, in_scope))),
        Err(failure) if failure.code == "search_forbidden" => Ok(None),
        Err(failure) => Err(failure),
    }
}

fn sum(indices: &Value, in_scope: impl Fn(&str) -> bool) -> u64 {
    let of_scope = list(indices, "").filter(|index| text(index, "/index").is_some_and(&in_scope));
    of_scope.filter_map(|index| text(index, "/pri.store.size")?.parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_is_of_the_scope_counts_and_a_closed_index_says_nothing() {
        let indices = json!([
            {"index": "a-1", "pri.store.size": "30"},
            {"index": "a-2", "pri.store.size": null},
            {"index": "a-3", "pri.store.size": "12"},
            {"index": "b", "pri.store.size": "500"},
        ]);
        assert_eq!(sum(&indices, |name| name.starts_with("a-")), 42);
    }
}
