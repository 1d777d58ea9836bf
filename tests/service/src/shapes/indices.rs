//! The search half of each shape: indices with their settings, mappings, aliases and fixed documents.
//!
//! Nothing in it needs a module that one of the supported search databases lacks.

use serde_json::{Value, json};

use crate::releases::Shape;

/// An index as a shape wants it.
pub struct Index {
    /// Its name, with the service's name in front.
    pub name: String,
    /// Its settings when it is created.
    pub settings: Value,
    /// The fields of its mapping.
    pub properties: Value,
    /// Its aliases with their properties, as the create-index interface takes them.
    pub aliases: Value,
    /// What is in it, besides items: identifier, routing and document.
    pub fixed: Vec<(u32, Option<&'static str>, Value)>,
}

/// The index that holds a shape's items.
pub fn items_index(name: &str, shape: Shape) -> String {
    format!("{name}-items-00000{}", if shape < 3 { 1 } else { 2 })
}

/// Every index that belongs to any shape.
pub fn known(name: &str) -> Vec<String> {
    ["items-000001", "items-000002", "settings", "legacy", "suggest", "audit", "teams", "state"]
        .map(|index| format!("{name}-{index}"))
        .to_vec()
}

/// The indices of a shape, the items' first.
pub fn wanted(name: &str, shape: Shape) -> Vec<Index> {
    let mut indices = vec![items(name, shape), plain(name, "settings", "key", &["theme", "retention"])];
    if shape == 1 {
        indices.push(plain(name, "suggest", "term", &["first", "second", "third"]));
    }
    if shape < 3 {
        indices.push(plain(name, "legacy", "note", &["kept since 1.2", "kept since 1.9"]));
    }
    if shape > 1 {
        indices.push(plain(name, "audit", "event", &["created", "opened", "closed", "reopened"]));
    }
    if shape > 2 {
        indices.push(teams(name));
        let mut state = plain(name, "state", "job", &["indexer"]);
        merge(&mut state.settings, json!({"index.hidden": true}));
        indices.push(state);
    }
    indices
}

fn items(name: &str, shape: Shape) -> Index {
    let mut properties = json!({
        "item_id": {"type": "long"}, "ticket": {"type": "long"}, "state": {"type": "keyword"},
        "created_at": {"type": "date"},
    });
    let renamed = if shape < 3 {
        json!({"title": {"type": "text", "fields": {"raw": {"type": "keyword"}}}, "body": {"type": "text"}, "tags": {"type": "keyword"}})
    } else {
        json!({"name": {"type": "text", "fields": {"raw": {"type": "keyword"}}}, "text": {"type": "text"},
               "language": {"type": "keyword"}, "labels": {"type": "keyword"}})
    };
    merge(&mut properties, renamed);
    if shape > 1 {
        merge(&mut properties, json!({"priority": {"type": "short"}}));
    }
    let open = match shape {
        1 => json!({"term": {"state": "open"}}),
        _ => json!({"terms": {"state": ["open", "late"]}}),
    };
    let mut aliases = json!({});
    merge(&mut aliases, json!({(format!("{name}-items")): {"is_write_index": true}}));
    merge(&mut aliases, json!({(format!("{name}-items-open")): {"filter": open}}));
    if shape > 1 {
        let urgent = json!({"range": {"priority": {"gte": 8}}});
        merge(&mut aliases, json!({(format!("{name}-items-urgent")): {"filter": urgent}}));
    }
    if shape > 2 {
        merge(&mut aliases, json!({(format!("{name}-all")): {}}));
    }
    Index { name: items_index(name, shape), settings: settings(1), properties, aliases, fixed: Vec::new() }
}

fn teams(name: &str) -> Index {
    let red = json!({"filter": {"term": {"team": "red"}}, "routing": "red"});
    Index {
        name: format!("{name}-teams"),
        settings: settings(2),
        properties: json!({"item_id": {"type": "long"}, "team": {"type": "keyword"}}),
        aliases: json!({(format!("{name}-team-red")): red, (format!("{name}-all")): {}}),
        fixed: ["red", "blue", "red", "green"]
            .into_iter()
            .zip(1..)
            .map(|(team, id)| (id, Some(team), json!({"item_id": id, "team": team})))
            .collect(),
    }
}

/// An index of a few fixed documents with one field of text.
fn plain(name: &str, what: &str, field: &str, texts: &[&str]) -> Index {
    Index {
        name: format!("{name}-{what}"),
        settings: settings(1),
        properties: json!({"item_id": {"type": "long"}, (field): {"type": "keyword"}}),
        aliases: json!({}),
        fixed: texts.iter().zip(1..).map(|(text, id)| (id, None, json!({"item_id": id, (field): text}))).collect(),
    }
}

fn settings(shards: u32) -> Value {
    json!({"index.number_of_shards": shards, "index.number_of_replicas": 0})
}

/// Adds the keys of one object to another.
fn merge(to: &mut Value, more: Value) {
    if let (Value::Object(to), Value::Object(more)) = (to, more) {
        to.extend(more);
    }
}
