//! What an index has beside its documents and its mapping, as a swap carries it over.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// What an index has beside its documents and its mapping.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct IndexMetadata {
    /// Its aliases by name, as the server states them (`filter`, `index_routing`, `search_routing`, `is_write_index`, `is_hidden`).
    pub aliases: BTreeMap<String, Map<String, Value>>,
    pub number_of_replicas: u32,
    /// `index.auto_expand_replicas`, or `null`; if it is set, the server chooses the number.
    pub auto_expand_replicas: Option<String>,
    pub hidden: bool,
    /// Whether it is closed: a clone or a staged copy is open, and is closed when the swap is at its end.
    pub closed: bool,
    /// Its blocks (`index.blocks.*`), such as `write` and `read_only`.
    pub blocks: BTreeSet<String>,
    /// `index.verified_read_only` (Elasticsearch 9), which `PUT /<index>/_block/write` sets, and no request for settings.
    pub verified_read_only: bool,
    /// The settings that bind it to a lifecycle policy. If none says from when on it ages, and no rollover does,
    /// `index.lifecycle.origination_date` is the date of its creation: a copy has a new one, from which every `min_age` would start again.
    pub lifecycle: BTreeMap<String, String>,
    /// Those of `index.hidden`, `index.auto_expand_replicas` and `index.blocks.*` that are set to `false`, which is their default.
    pub explicit: BTreeSet<String>,
    /// The policy of OpenSearch's index state management that it is attached to (by its `uuid`: a copy is not), or `null`.
    pub policy: Option<String>,
}

/// Settings whose names start so bind an index to a lifecycle policy.
const LIFECYCLE: [&str; 3] =
    ["index.lifecycle.", "index.plugins.index_state_management.", "index.opendistro.index_state_management."];

/// Settings of an index that rolls over. It ages from its rollover on, whose date no setting holds: with an origination date it
/// would be deleted too early. So its copy has none, and stays longer, never shorter.
const ROLLS_OVER: [&str; 2] = ["index.lifecycle.rollover_alias", "index.lifecycle.indexing_complete"];

const HIDDEN: &str = "index.hidden";
const AUTO_EXPAND: &str = "index.auto_expand_replicas";

const BLOCK_PREFIX: &str = "index.blocks.";
const WRITE: &str = "write";

pub(crate) const BLOCK_SETTINGS: &str = "index.blocks.*";

/// The settings that are set last, lifecycle and blocks, as patterns for a restore that ignores them.
pub(crate) fn set_last_patterns() -> Vec<String> {
    LIFECYCLE.iter().chain([&BLOCK_PREFIX]).map(|prefix| format!("{prefix}*")).collect()
}

impl IndexMetadata {
    /// Reads it from flat settings and from aliases as `GET /<index>` gives them; `is_in_stream`: it is a backing index.
    pub(crate) fn read(settings: &Map<String, Value>, aliases: Option<&Map<String, Value>>, is_in_stream: bool) -> Self {
        let text = |name: &str| settings.get(name).and_then(Value::as_str);
        let lifecycle = settings
            .iter()
            .filter(|(name, _)| LIFECYCLE.iter().any(|prefix| name.starts_with(prefix)))
            .filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())));
        let mut lifecycle: BTreeMap<String, String> = lifecycle.collect();
        let is_policy_of_age = lifecycle.contains_key("index.lifecycle.name")
            && !is_in_stream
            && !ROLLS_OVER.iter().any(|name| lifecycle.contains_key(*name));
        if let Some(created) = text("index.creation_date").filter(|_| is_policy_of_age) {
            lifecycle.entry("index.lifecycle.origination_date".to_owned()).or_insert_with(|| created.to_owned());
        }
        let blocks = settings.iter().filter(|(_, value)| value.as_str() == Some("true"));
        let blocks = blocks.filter_map(|(name, _)| name.strip_prefix(BLOCK_PREFIX));
        let is_shown = |name: &str| name == HIDDEN || name == AUTO_EXPAND || name.starts_with(BLOCK_PREFIX);
        let explicit = settings.iter().filter(|(name, value)| value.as_str() == Some("false") && is_shown(name));
        let aliases = aliases.into_iter().flatten().filter_map(|(name, alias)| Some((name.clone(), alias.as_object()?.clone())));
        Self {
            aliases: aliases.collect(),
            number_of_replicas: text("index.number_of_replicas").and_then(|number| number.parse().ok()).unwrap_or(0),
            auto_expand_replicas: text(AUTO_EXPAND).filter(|value| *value != "false").map(str::to_owned),
            hidden: text(HIDDEN) == Some("true"),
            closed: text("index.verified_before_close") == Some("true"),
            blocks: blocks.map(str::to_owned).collect(),
            verified_read_only: text("index.verified_read_only") == Some("true"),
            lifecycle,
            explicit: explicit.map(|(name, _)| name.clone()).collect(),
            policy: None,
        }
    }

    /// What a copy of ours has: it is hidden and takes no writes.
    pub(crate) fn of_copy() -> Self {
        let explicit = BTreeSet::from([AUTO_EXPAND.to_owned()]);
        Self { hidden: true, blocks: BTreeSet::from([WRITE.to_owned()]), explicit, ..Self::default() }
    }

    /// The same of an open index without a block.
    pub(crate) fn writable(self) -> Self {
        Self { closed: false, blocks: BTreeSet::new(), verified_read_only: false, ..self }
    }

    pub(crate) fn write_block(&self) -> bool {
        self.blocks.contains(WRITE)
    }

    /// A setting that is not on: off as it was, explicitly or by default.
    fn off(&self, name: &str) -> Value {
        if self.explicit.contains(name) { json!("false") } else { Value::Null }
    }

    /// The blocks as settings: that of writes on or off, the others on.
    pub(crate) fn block_settings(&self) -> Value {
        let write = format!("{BLOCK_PREFIX}{WRITE}");
        let off = self.explicit.iter().filter(|name| name.starts_with(BLOCK_PREFIX)).map(|name| (name.clone(), json!("false")));
        let mut settings: Map<String, Value> = [(write.clone(), self.off(&write))].into_iter().chain(off).collect();
        settings.extend(self.blocks.iter().map(|block| (format!("{BLOCK_PREFIX}{block}"), json!(true))));
        Value::Object(settings)
    }

    /// The last settings of an index that is as `seen`, or `None` if it has them: other blocks than that of writes.
    pub(crate) fn missing_blocks(&self, seen: &Self) -> Option<Value> {
        let has_others = self.blocks.iter().any(|block| block != WRITE);
        (has_others && !self.blocks.is_subset(&seen.blocks)).then(|| self.block_settings())
    }

    /// The settings that a complete clone, which is as `seen`, gets: its replicas and its lifecycle on, and its block off, unless it has
    /// blocks: until those are set it takes no writes. A block that its source got meanwhile goes.
    pub(crate) fn final_settings(&self, seen: &Self) -> Value {
        let others =
            seen.blocks.iter().filter(|block| *block != WRITE).map(|block| (format!("{BLOCK_PREFIX}{block}"), Value::Null));
        let mut settings: Map<String, Value> = others.collect();
        match self.blocks.is_empty() {
            true => settings.extend(self.block_settings().as_object().cloned().unwrap_or_default()),
            false => drop(settings.insert(format!("{BLOCK_PREFIX}{WRITE}"), json!(true))),
        }
        settings.insert(HIDDEN.to_owned(), if self.hidden { json!("true") } else { self.off(HIDDEN) });
        match &self.auto_expand_replicas {
            Some(range) => settings.insert(AUTO_EXPAND.to_owned(), json!(range)),
            None => {
                settings.insert(AUTO_EXPAND.to_owned(), self.off(AUTO_EXPAND));
                settings.insert("index.number_of_replicas".to_owned(), json!(self.number_of_replicas))
            }
        };
        settings.extend(self.lifecycle.iter().map(|(name, value)| (name.clone(), json!(value))));
        Value::Object(settings)
    }

    /// Whether an index that is as `seen` has them.
    pub(crate) fn has_final_settings(&self, seen: &Self) -> bool {
        self.blocks.is_empty() != seen.write_block()
            && (self.hidden, self.explicit.contains(HIDDEN)) == (seen.hidden, seen.explicit.contains(HIDDEN))
            && self.explicit.contains(AUTO_EXPAND) == seen.explicit.contains(AUTO_EXPAND)
            && self.auto_expand_replicas == seen.auto_expand_replicas
            && (self.auto_expand_replicas.is_some() || self.number_of_replicas == seen.number_of_replicas)
            && self.lifecycle == seen.lifecycle
    }
}

pub(crate) fn is_write_index(properties: &Map<String, Value>) -> bool {
    properties.get("is_write_index") == Some(&Value::Bool(true))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lifecycle_age_counts_from_creation_without_rollover() {
        let (created, own) = (Some("1700000000000"), Some("5"));
        let (alias, complete, date) =
            ("index.lifecycle.rollover_alias", "index.lifecycle.indexing_complete", "index.lifecycle.origination_date");
        for (settings, is_in_stream, aged) in [
            (json!({"index.lifecycle.name": "month"}), false, created),
            (json!({"index.lifecycle.name": "month", date: "5"}), false, own),
            (json!({"index.lifecycle.name": "month", alias: "logs"}), false, None),
            (json!({"index.lifecycle.name": "month", alias: "logs", complete: "true"}), false, None),
            (json!({"index.lifecycle.name": "month", complete: "true"}), false, None),
            (json!({"index.lifecycle.name": "month", alias: "logs", date: "5"}), false, own),
            (json!({"index.lifecycle.name": "month"}), true, None),
            (json!({"index.lifecycle.name": "month", date: "5"}), true, own),
            (json!({}), false, None),
        ] {
            let mut all = settings.as_object().unwrap().clone();
            all.insert("index.creation_date".to_owned(), json!("1700000000000"));
            let settings_of_clone = IndexMetadata::read(&all, None, is_in_stream).final_settings(&IndexMetadata::default());
            assert_eq!(settings_of_clone.get(date).and_then(Value::as_str), aged, "{settings}, {is_in_stream}");
        }
    }
}
