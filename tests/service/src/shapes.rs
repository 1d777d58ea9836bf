//! The shapes of the content, one number for both databases; the search half needs nothing that one of the servers lacks.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::Value;

/// One of them.
pub struct Shape {
    /// Leads the relational half here from the shape before (from nothing, for the first).
    pub migration: &'static str,
    /// Adds `$1` items and gives their ids back.
    pub insert: &'static str,
    /// The documents of the items above id `$1`, `$2` at most, in the order of their ids.
    pub documents: &'static str,
    indices: &'static str,
}

macro_rules! shape {
    ($number:literal) => {
        Shape {
            migration: include_str!(concat!("shapes/", $number, ".sql")),
            insert: include_str!(concat!("shapes/", $number, ".insert.sql")),
            documents: include_str!(concat!("shapes/", $number, ".documents.sql")),
            indices: include_str!(concat!("shapes/", $number, ".json")),
        }
    };
}

/// The first first.
pub const SHAPES: [Shape; 3] = [shape!("1"), shape!("2"), shape!("3")];

/// An index as a shape wants it.
#[derive(Deserialize)]
pub struct Index {
    pub settings: Value,
    /// The fields of its mapping.
    pub properties: Value,
    pub aliases: BTreeMap<String, Value>,
    /// What is in it, besides items, as lines for the bulk interface.
    pub lines: Vec<Value>,
}

impl Shape {
    pub fn of(number: u32) -> Result<&'static Self> {
        let found = SHAPES.iter().zip(1..).find(|(_, one)| *one == number);
        Ok(found.with_context(|| format!("shape {number} of the content is not known to this program"))?.0)
    }

    /// Its indices by their names, with the service's name in front.
    pub fn indices(&self, name: &str) -> Result<BTreeMap<String, Index>> {
        Ok(serde_json::from_str(&self.indices.replace("%NAME%", name))?)
    }
}

/// The index that holds a shape's items.
pub fn items_index(name: &str, shape: u32) -> String {
    format!("{name}-items-00000{}", if shape < 3 { 1 } else { 2 })
}
