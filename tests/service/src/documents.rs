//! The search half: what is there, storing items, and migrating it to a shape.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, bail};
use serde_json::{Value, json};
use svc_tests::http;

use crate::rows::Item;
use crate::settings::Settings;
use crate::shapes::{Index, SHAPES, Shape, items_index};

/// Indices, with the names of their aliases.
pub type Indices = BTreeMap<String, BTreeSet<String>>;

/// The search half of the service.
pub struct Documents<'a>(pub &'a Settings);

impl Documents<'_> {
    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.0.search_url.trim_end_matches('/'))
    }

    pub fn ask(&self, method: &str, path: &str, body: &Value) -> Result<Value> {
        http::expect(method, &self.url(path), Some(body))
    }

    /// Gets or deletes something; `None` if it is not there.
    pub fn found(&self, method: &str, path: &str) -> Result<Option<Value>> {
        match http::request(method, &self.url(path), None)? {
            (200..300, answer) => Ok(Some(answer)),
            (404, _) => Ok(None),
            (status, answer) => bail!("the search database answered {status} to {method} {path}: {answer}"),
        }
    }

    /// The indices of any shape that are there.
    pub fn present(&self) -> Result<Indices> {
        let mut present = Indices::new();
        for shape in &SHAPES {
            for index in shape.indices(&self.0.name)?.into_keys().filter(|index| !present.contains_key(index)).collect::<Vec<_>>()
            {
                if let Some(answer) = self.found("GET", &format!("/{index}/_alias"))? {
                    let aliases = answer.as_object().and_then(|map| map.values().next()?["aliases"].as_object());
                    present.insert(index, aliases.into_iter().flat_map(|map| map.keys().cloned()).collect());
                }
            }
        }
        Ok(present)
    }

    /// The shape that the index behind the items' alias records; `None` if there is none.
    pub fn recorded_shape(&self) -> Result<Option<u32>> {
        let Some(answer) = self.found("GET", &format!("/{}-items/_mapping", self.0.name))? else { return Ok(None) };
        let mapping = answer.as_object().and_then(|map| map.values().next());
        Ok(mapping.and_then(|of| of.pointer("/mappings/_meta/shape")?.as_u64()?.try_into().ok()))
    }

    /// Records the shape and the version that made it.
    pub fn record(&self, shape: u32, version: &str) -> Result<()> {
        let body = json!({"_meta": {"shape": shape, "version": version}});
        self.ask("PUT", &format!("/{}/_mapping", items_index(&self.0.name, shape)), &body).map(drop)
    }

    /// Stores one item through the alias; never makes an index.
    pub fn store(&self, (id, document): &Item) -> Result<()> {
        let path = format!("/{}-items/_doc/{id}?require_alias=true", self.0.name);
        self.ask("PUT", &path, &serde_json::from_str(document)?).map(drop)
    }

    /// Stores many items in an index, or through an alias.
    pub fn store_all(&self, target: &str, items: &[Item]) -> Result<()> {
        let lines: String =
            items.iter().map(|(id, document)| format!("{{\"index\":{{\"_id\":\"{id}\"}}}}\n{document}\n")).collect();
        self.bulk(target, &lines)
    }

    fn bulk(&self, target: &str, lines: &str) -> Result<()> {
        if lines.is_empty() { Ok(()) } else { http::bulk(&self.url(&format!("/{target}")), lines) }
    }

    /// Creates an index without its aliases and fills in its fixed documents; one that is there gets new fields only.
    pub fn prepare(&self, name: &str, index: &Index) -> Result<()> {
        let path = format!("/{name}");
        let mappings = json!({"properties": index.properties});
        if self.found("GET", &path)?.is_some() {
            return self.ask("PUT", &format!("{path}/_mapping"), &mappings).map(drop);
        }
        self.ask("PUT", &path, &json!({"settings": index.settings, "mappings": mappings}))?;
        let lines: String = index.lines.iter().map(|line| format!("{line}\n")).collect();
        self.bulk(name, &lines)
    }

    /// Sets the aliases of a shape and takes away those of other shapes, in one call; then deletes the indices that it does not have.
    pub fn finish(&self, shape: u32) -> Result<()> {
        let wanted = Shape::of(shape)?.indices(&self.0.name)?;
        let present = self.present()?;
        let mut actions = Vec::new();
        for (index, aliases) in &present {
            let leaving = aliases.iter().filter(|alias| !wanted.get(index).is_some_and(|of| of.aliases.contains_key(*alias)));
            actions.extend(leaving.map(|alias| json!({"remove": {"index": index, "alias": alias}})));
        }
        for (name, index) in &wanted {
            for (alias, properties) in &index.aliases {
                let mut add = properties.clone();
                (add["index"], add["alias"]) = (json!(name), json!(alias));
                actions.push(json!({"add": add}));
            }
        }
        self.ask("POST", "/_aliases", &json!({"actions": actions}))?;
        present.keys().filter(|index| !wanted.contains_key(*index)).try_for_each(|index| self.delete(index))
    }

    pub fn delete(&self, index: &str) -> Result<()> {
        self.found("DELETE", &format!("/{index}")).map(drop)
    }
}
