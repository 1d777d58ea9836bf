//! The search half: what is there, storing items, and bringing it to a shape.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::item::{Item, bulk_lines};
use crate::releases::Shape;
use crate::search::Search;
use crate::shapes::indices::{self, Index};

/// The indices of any shape that are there, with the names of their aliases.
pub type Present = BTreeMap<String, Vec<String>>;

/// What is there of the service's indices.
///
/// # Errors
/// A failed call.
pub fn present(search: &Search, name: &str) -> anyhow::Result<Present> {
    let mut present = Present::new();
    for index in indices::known(name) {
        if let Some(answer) = search.found(&format!("/{index}/_alias"))? {
            let aliases = answer.as_object().and_then(|map| map.values().next()).and_then(|of| of.get("aliases"));
            let mut names = aliases.map(keys).unwrap_or_default();
            names.sort();
            present.insert(index, names);
        }
    }
    Ok(present)
}

/// What a shape wants to be there.
pub fn expected(name: &str, shape: Shape) -> Present {
    let sorted = |index: Index| {
        let mut names = keys(&index.aliases);
        names.sort();
        (index.name, names)
    };
    indices::wanted(name, shape).into_iter().map(sorted).collect()
}

/// The shape that the index behind the items' alias records; `None` where there is none.
///
/// # Errors
/// A failed call.
pub fn recorded_shape(search: &Search, name: &str) -> anyhow::Result<Option<Shape>> {
    let Some(answer) = search.found(&format!("/{name}-items/_mapping"))? else { return Ok(None) };
    let mapping = answer.as_object().and_then(|map| map.values().next());
    let shape = mapping.and_then(|of| of.pointer("/mappings/_meta/shape")).and_then(Value::as_u64);
    Ok(shape.and_then(|shape| Shape::try_from(shape).ok()))
}

/// Records the shape and the version that made it.
///
/// # Errors
/// A failed call.
pub fn record(search: &Search, name: &str, shape: Shape, version: &str) -> anyhow::Result<()> {
    let body = json!({"_meta": {"shape": shape, "version": version}});
    search.done("PUT", &format!("/{}/_mapping", indices::items_index(name, shape)), &body)?;
    Ok(())
}

/// Stores one item through the alias; never makes an index.
///
/// # Errors
/// A failed call, as when the alias is not there or the index is closed for writing.
pub fn store(search: &Search, name: &str, item: &Item) -> anyhow::Result<()> {
    let path = format!("/{name}-items/_doc/{}?require_alias=true", item.id);
    search.done("PUT", &path, &serde_json::from_str(&item.document)?)?;
    Ok(())
}

/// Is an item's document there?
///
/// # Errors
/// A failed call.
pub fn is_stored(search: &Search, name: &str, id: i64) -> anyhow::Result<bool> {
    Ok(search.found(&format!("/{name}-items/_doc/{id}"))?.is_some())
}

/// Stores many items in an index, or through an alias.
///
/// # Errors
/// A failed call, or a document that was refused.
pub fn store_all(search: &Search, target: &str, items: &[Item]) -> anyhow::Result<()> {
    search.bulk(target, bulk_lines(items))
}

/// Creates an index without its aliases and fills in its fixed documents; one that is there gets new fields only.
///
/// # Errors
/// A failed call.
pub fn prepare(search: &Search, index: &Index) -> anyhow::Result<()> {
    let path = format!("/{}", index.name);
    let mappings = json!({"properties": index.properties});
    if search.found(&path)?.is_some() {
        search.done("PUT", &format!("{path}/_mapping"), &mappings)?;
        return Ok(());
    }
    search.done("PUT", &path, &json!({"settings": index.settings, "mappings": mappings}))?;
    let mut lines = String::new();
    for (id, routing, document) in &index.fixed {
        let mut action = json!({"_id": id.to_string()});
        if let (Some(routing), Value::Object(action)) = (routing, &mut action) {
            action.insert("routing".to_owned(), json!(routing));
        }
        lines += &format!("{}\n{document}\n", json!({"index": action}));
    }
    search.bulk(&index.name, lines)
}

/// Sets the aliases of a shape and takes away those of other shapes, in one call.
///
/// # Errors
/// A failed call.
pub fn set_aliases(search: &Search, name: &str, shape: Shape) -> anyhow::Result<()> {
    let wanted = indices::wanted(name, shape);
    let mut actions = Vec::new();
    for (index, aliases) in present(search, name)? {
        for alias in aliases {
            let stays = wanted.iter().any(|of| of.name == index && of.aliases.get(&alias).is_some());
            if !stays {
                actions.push(json!({"remove": {"index": index, "alias": alias}}));
            }
        }
    }
    for index in &wanted {
        for (alias, properties) in index.aliases.as_object().into_iter().flatten() {
            let mut add = json!({"index": index.name, "alias": alias});
            if let (Value::Object(add), Value::Object(properties)) = (&mut add, properties) {
                add.extend(properties.clone());
            }
            actions.push(json!({"add": add}));
        }
    }
    search.done("POST", "/_aliases", &json!({"actions": actions}))?;
    Ok(())
}

/// Deletes the service's indices that a shape no longer has.
///
/// # Errors
/// A failed call.
pub fn delete_others(search: &Search, name: &str, shape: Shape) -> anyhow::Result<()> {
    let wanted = expected(name, shape);
    for index in present(search, name)?.keys().filter(|index| !wanted.contains_key(*index)) {
        search.delete(index)?;
    }
    Ok(())
}

fn keys(object: &Value) -> Vec<String> {
    object.as_object().into_iter().flat_map(|map| map.keys().cloned()).collect()
}
