//! What the server shows of indices by their explicit names.

pub(crate) mod act;
pub(crate) mod clone;
pub(crate) mod copies;
pub(crate) mod count;
pub(crate) mod policy;
pub(crate) mod select;
pub(crate) mod shape;
pub(crate) mod stream;

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use svc_step::Failure;

use crate::client::Server;
use crate::client::json::{members, number};
use crate::client::path::path;
use crate::index::shape::Shape;

/// What the server shows of one index.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Index {
    pub uuid: String,
    pub closed: bool,
    /// Whether every primary shard is started.
    pub whole: bool,
    /// How many primary shards it has.
    pub shards: u64,
    /// When it was created, in milliseconds since 1970; a restored index keeps that date.
    pub created_ms: Option<i64>,
    /// What it has beside its documents.
    pub shape: Shape,
}

impl Index {
    /// A copy of ours that is not made yet.
    pub(crate) fn of_copy() -> Self {
        Self { uuid: String::new(), closed: false, whole: true, shards: 0, created_ms: None, shape: Shape::of_copy() }
    }
}

pub(crate) type Found = BTreeMap<String, Index>;

/// Looks at the indices of these names; one that is not there is not in the answer, nor is what an alias of such a name
/// leads to.
pub(crate) fn look(server: &Server, names: &[&str]) -> Result<Found, Failure> {
    let mut found = Found::new();
    for names in portions(names) {
        let listed = names.join(",");
        let shown = server.get(&format!("{}?{SHOWN}", path(&[&listed])))?;
        let shown: Vec<(&String, &Value, &Map<String, Value>)> = members(&shown)
            .filter(|(name, _)| names.contains(&name.as_str()))
            .filter_map(|(name, index)| Some((name, index, index.get("settings")?.as_object()?)))
            .collect();
        if shown.is_empty() {
            continue;
        }
        let listed = shown.iter().map(|(name, ..)| name.as_str()).collect::<Vec<_>>().join(",");
        let health = server.get(&format!("{}?{HEALTH}", path(&["_cluster", "health", &listed])))?;
        for (name, shown, settings) in shown {
            let aliases = shown.get("aliases").and_then(Value::as_object);
            let health = health.get("indices").and_then(|indices| indices.get(name));
            let is_in_stream = shown.get("data_stream").is_some();
            found.insert(name.clone(), index(settings, aliases, is_in_stream, health));
        }
    }
    Ok(found)
}

/// Those of these names that are there and lack a primary shard.
pub(crate) fn unready<'a>(server: &Server, names: &[&'a str]) -> Result<Vec<&'a str>, Failure> {
    let found = look(server, names)?;
    Ok(names.iter().copied().filter(|name| found.get(*name).is_some_and(|index| !index.whole)).collect())
}

/// An index without its mapping, which may be large.
const SHOWN: &str =
    "flat_settings=true&ignore_unavailable=true&expand_wildcards=all&filter_path=*.settings,*.aliases,*.data_stream";
/// What says whether an index is whole.
const HEALTH: &str = "level=indices&timeout=1s&filter_path=indices.*.number_of_shards,indices.*.active_primary_shards";

/// As many bytes of names as one request takes: the servers allow 4 KiB for its first line.
const LINE: usize = 3000;

/// Names in portions that each have room in one request's path.
pub(crate) fn portions<'a>(names: &'a [&'a str]) -> Vec<&'a [&'a str]> {
    let (mut portions, mut start, mut bytes) = (Vec::new(), 0, 0);
    for (at, name) in names.iter().enumerate() {
        // A comma between two names is written as three bytes.
        let more = path(&[name]).len() + 3;
        if at > start && bytes + more > LINE {
            portions.extend(names.get(start..at));
            (start, bytes) = (at, 0);
        }
        bytes += more;
    }
    portions.extend(names.get(start..).filter(|rest| !rest.is_empty()));
    portions
}

fn index(
    settings: &Map<String, Value>,
    aliases: Option<&Map<String, Value>>,
    is_in_stream: bool,
    health: Option<&Value>,
) -> Index {
    let text = |name: &str| settings.get(name).and_then(Value::as_str).unwrap_or_default();
    let shards = |pointer: &str| number(health?, pointer);
    // A yellow index may have no primary yet: a restore that has not begun is yellow.
    let whole = shards("/number_of_shards").is_some_and(|all| shards("/active_primary_shards") == Some(all));
    Index {
        uuid: text("index.uuid").to_owned(),
        closed: text("index.verified_before_close") == "true",
        whole,
        shards: text("index.number_of_shards").parse().unwrap_or(0),
        created_ms: text("index.creation_date").parse().ok(),
        shape: Shape::read(settings, aliases, is_in_stream),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_names_share_a_request_and_long_ones_do_not() {
        assert!(portions(&[]).is_empty());
        let short = ["docs"; 100];
        assert_eq!(portions(&short), [&short[..]]);
        let name = "é".repeat(120);
        let long = [name.as_str(); 9];
        let told: Vec<usize> = portions(&long).iter().map(|portion| portion.len()).collect();
        assert_eq!(told, [4, 4, 1]);
        let endless = "é".repeat(1000);
        assert_eq!(portions(&[&endless, "docs"]).len(), 2);
    }
}
