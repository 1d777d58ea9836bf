//! The search half: what is there, storing items, and migrating it to a shape.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::releases::Shape;
use crate::rows::Item;
use crate::search::Search;
use crate::shapes::indices::{self, Index};

/// The indices of any shape that are there, with the names of their aliases in order.
pub type Present = BTreeMap<String, Vec<String>>;

pub fn present(search: &Search, name: &str) -> anyhow::Result<Present> {
    let mut present = Present::new();
    for index in indices::known(name) {
        if let Some(answer) = search.found("GET", &format!("/{index}/_alias"))? {
            let aliases = answer.as_object().and_then(|map| map.values().next()).and_then(|of| of.get("aliases"));
            present.insert(index, aliases.map(keys).unwrap_or_default());
        }
    }
    Ok(present)
}

/// What a shape wants to be there.
pub fn expected(name: &str, shape: Shape) -> Present {
    indices::wanted(name, shape).into_iter().map(|index| (index.name, keys(&index.aliases))).collect()
}

fn keys(object: &Value) -> Vec<String> {
    let mut keys: Vec<String> = object.as_object().into_iter().flat_map(|map| map.keys().cloned()).collect();
    keys.sort();
    keys
}

/// The shape that the index behind the items' alias records; `None` where there is none.
pub fn recorded_shape(search: &Search, name: &str) -> anyhow::Result<Option<Shape>> {
    let Some(answer) = search.found("GET", &format!("/{name}-items/_mapping"))? else { return Ok(None) };
    let mapping = answer.as_object().and_then(|map| map.values().next());
    let shape = mapping.and_then(|of| of.pointer("/mappings/_meta/shape")).and_then(Value::as_u64);
    Ok(shape.and_then(|shape| Shape::try_from(shape).ok()))
}

/// Records the shape and the version that made it.
pub fn record(search: &Search, name: &str, shape: Shape, version: &str) -> anyhow::Result<()> {
    let body = json!({"_meta": {"shape": shape, "version": version}});
    search.done("PUT", &format!("/{}/_mapping", indices::items_index(name, shape)), &body).map(drop)
}

/// Stores one item through the alias; never makes an index.
pub fn store(search: &Search, name: &str, item: &Item) -> anyhow::Result<()> {
    let path = format!("/{name}-items/_doc/{}?require_alias=true", item.id);
    search.done("PUT", &path, &serde_json::from_str(&item.document)?).map(drop)
}

/// Stores many items in an index, or through an alias.
pub fn store_all(search: &Search, target: &str, items: &[Item]) -> anyhow::Result<()> {
    let lines = items.iter().map(|Item { id, document }| format!("{{\"index\":{{\"_id\":\"{id}\"}}}}\n{document}\n"));
    search.bulk(target, lines.collect())
}

/// Creates an index without its aliases and fills in its fixed documents; one that is there gets new fields only.
pub fn prepare(search: &Search, index: &Index) -> anyhow::Result<()> {
    let path = format!("/{}", index.name);
    let mappings = json!({"properties": index.properties});
    if search.found("GET", &path)?.is_some() {
        return search.done("PUT", &format!("{path}/_mapping"), &mappings).map(drop);
    }
    search.done("PUT", &path, &json!({"settings": index.settings, "mappings": mappings}))?;
    let line = |(id, routing, document): &(u32, Option<&str>, Value)| {
        let mut action = json!({"_id": id.to_string()});
        if let Some(routing) = routing {
            action["routing"] = json!(routing);
        }
        format!("{}\n{document}\n", json!({"index": action}))
    };
    search.bulk(&index.name, index.fixed.iter().map(line).collect())
}

/// Sets the aliases of a shape and takes away those of other shapes, in one call.
pub fn set_aliases(search: &Search, name: &str, shape: Shape) -> anyhow::Result<()> {
    let wanted = indices::wanted(name, shape);
    let mut actions = Vec::new();
    for (index, aliases) in present(search, name)? {
        let stays = |alias: &String| wanted.iter().any(|of| of.name == index && of.aliases.get(alias).is_some());
        let leaving = aliases.iter().filter(|alias| !stays(alias));
        actions.extend(leaving.map(|alias| json!({"remove": {"index": index, "alias": alias}})));
    }
    for index in &wanted {
        for (alias, properties) in index.aliases.as_object().into_iter().flatten() {
            let mut add = properties.clone();
            (add["index"], add["alias"]) = (json!(index.name), json!(alias));
            actions.push(json!({"add": add}));
        }
    }
    search.done("POST", "/_aliases", &json!({"actions": actions})).map(drop)
}

/// Deletes the service's indices that a shape no longer has.
pub fn delete_others(search: &Search, name: &str, shape: Shape) -> anyhow::Result<()> {
    let wanted = expected(name, shape);
    let present = present(search, name)?;
    present.keys().filter(|index| !wanted.contains_key(*index)).try_for_each(|index| delete(search, index))
}

pub fn delete(search: &Search, index: &str) -> anyhow::Result<()> {
    search.found("DELETE", &format!("/{index}")).map(drop)
}
