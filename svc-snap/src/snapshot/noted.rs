//! What a snapshot does not hold or does not show, noted beside it index by index: how many documents, and what the index
//! has beside them.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use svc_step::{Call, Failure};

use crate::index::count::counts;
use crate::index::policy;
use crate::index::select::Selected;
use crate::index::shape::Shape;
use crate::index::stream::{self, Stream};
use crate::index::{Index, look, portions};
use crate::server::Server;
use crate::server::json::members;
use crate::server::path::path;

/// What was noted of one index when the snapshot was taken.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Noted {
    /// The index.
    pub name: String,
    /// Its `uuid`.
    pub uuid: String,
    /// Whether it was closed.
    pub closed: bool,
    /// How many documents it held just before the snapshot; `null` for an index that cannot be counted: a closed one, or one
    /// with shards missing.
    pub docs_count: Option<u64>,
    /// Whether the snapshot holds exactly `docs_count` documents: no shard was written to between the two looks, before and
    /// after.
    pub docs_exact: bool,
    /// What it has beside its documents and its mapping.
    pub shape: Shape,
}

/// What was noted of one data stream when the snapshot was taken.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NotedStream {
    /// The data stream.
    pub name: String,
    /// Its generation, or `null` where the server does not say.
    pub generation: Option<u64>,
    /// The index template that it needs for its next index; `null` where it has none, or the server does not say.
    pub template: Option<String>,
    /// Its aliases by their names, as the server states them (`filter`, `is_write_index`); OpenSearch knows none.
    pub aliases: BTreeMap<String, Map<String, Value>>,
    /// The indices behind it, oldest first.
    pub indices: Vec<Noted>,
}

impl NotedStream {
    /// How many documents the snapshot holds of it, where that is sure of every index behind it.
    pub(crate) fn docs_expected(&self) -> Option<u64> {
        self.indices.iter().map(|one| one.docs_count.filter(|_| one.docs_exact)).sum()
    }
}

/// The `max_seq_no` of an index's primary shards, by shard. Counts alone may agree and be wrong: one document more, another
/// one less.
type Sequence = BTreeMap<String, i64>;

/// What was noted, and how far each index had been written to.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Notes {
    indices: Vec<(Noted, Option<Sequence>)>,
    /// Data streams, without what is behind them.
    #[serde(default)]
    streams: Vec<NotedStream>,
    /// What is behind the data streams.
    #[serde(default)]
    behind: Vec<(String, Noted, Option<Sequence>)>,
    /// Whether somebody has looked again since the snapshot was finished.
    settled: bool,
}

impl Notes {
    /// What was noted. No count is exact as long as nobody has looked again.
    pub(crate) fn noted(&self) -> Vec<Noted> {
        self.indices.iter().map(|(noted, _)| noted.clone()).collect()
    }

    /// The same of data streams.
    pub(crate) fn noted_streams(&self) -> Vec<NotedStream> {
        let indices = |stream: &str| {
            let behind = self.behind.iter().filter(|(name, ..)| name == stream);
            behind.map(|(_, noted, _)| noted.clone()).collect()
        };
        self.streams.iter().map(|stream| NotedStream { indices: indices(&stream.name), ..stream.clone() }).collect()
    }

    /// Looks again after the snapshot, once: where nothing was written meanwhile, the count is exact. An index that cannot be
    /// looked at any more, or that is another one of the same name, is not exact; the snapshot is no worse for it. `false`
    /// where somebody had looked again already.
    ///
    /// # Errors
    /// The look failed: nothing is settled, and the next call looks again.
    pub(crate) fn settle(&mut self, server: &Server) -> Result<bool, Failure> {
        if self.settled {
            return Ok(false);
        }
        let behind = self.behind.iter_mut().map(|(_, noted, first)| (noted, first));
        let mut all: Vec<(&mut Noted, &mut Option<Sequence>)> =
            self.indices.iter_mut().map(|(noted, first)| (noted, first)).chain(behind).collect();
        let names: Vec<&str> = all.iter().map(|(noted, _)| noted.name.as_str()).collect();
        let found = look(server, &names)?;
        let is_same = |noted: &Noted| found.get(&noted.name).is_some_and(|index| index.uuid == noted.uuid);
        let same = all.iter().filter(|(noted, first)| first.is_some() && is_same(noted));
        let same: Vec<&str> = same.map(|(noted, _)| noted.name.as_str()).collect();
        let mut now = sequences(server, &same)?;
        for (noted, first) in &mut all {
            noted.docs_exact = first.is_some() && **first == now.remove(&noted.name);
        }
        self.settled = true;
        Ok(true)
    }
}

/// Looks at the live indices and data streams before a snapshot.
///
/// # Errors
/// The server does not answer, or refuses.
pub(crate) fn before(call: &Call, server: &Server, live: &Selected) -> Result<Notes, Failure> {
    let indices = each(call, server, &live.indices.iter().map(String::as_str).collect::<Vec<_>>())?;
    let (mut streams, mut behind) = (Vec::new(), Vec::new());
    for (name, Stream { generation, template, backing: names, aliases }) in stream::look(server, &live.streams)? {
        let mut noted = each(call, server, &names.iter().map(String::as_str).collect::<Vec<_>>())?;
        noted.sort_by_key(|(noted, _)| names.iter().position(|name| *name == noted.name));
        behind.extend(noted.into_iter().map(|(noted, first)| (name.clone(), noted, first)));
        streams.push(NotedStream { name, generation, template, aliases, indices: Vec::new() });
    }
    Ok(Notes { indices, streams, behind, settled: false })
}

fn each(call: &Call, server: &Server, names: &[&str]) -> Result<Vec<(Noted, Option<Sequence>)>, Failure> {
    let mut found = look(server, names)?;
    policy::fill(call, server, &mut found)?;
    let countable: Vec<&str> =
        found.iter().filter(|(_, index)| index.whole && !index.closed).map(|(name, _)| name.as_str()).collect();
    // The sequences are read first, so that a write beside the counts shows at the second look.
    let mut sequences = sequences(server, &countable)?;
    let counts: BTreeMap<String, u64> =
        counts(server, &countable)?.into_iter().map(|(name, count)| (name.to_owned(), count)).collect();
    let noted = found.into_iter().map(|(name, index)| {
        let Index { uuid, closed, shape, .. } = index;
        let (sequence, docs_count) = (sequences.remove(&name), counts.get(&name).copied());
        (Noted { name, uuid, closed, docs_count, docs_exact: false, shape }, sequence)
    });
    Ok(noted.collect())
}

/// How far indices were written to; one that has gone or was closed meanwhile is not in it. A refresh makes what was written
/// count.
fn sequences(server: &Server, names: &[&str]) -> Result<BTreeMap<String, Sequence>, Failure> {
    let mut sequences = BTreeMap::new();
    for names in portions(names) {
        let listed = names.join(",");
        server.ask("POST", &format!("{}?ignore_unavailable=true", path(&[&listed, "_refresh"])), None)?;
        let stats = server.get(&format!("{}?{STATS}", path(&[&listed, "_stats", "docs"])))?;
        sequences.extend(names.iter().filter_map(|name| Some(((*name).to_owned(), read(&stats, name)?))));
    }
    Ok(sequences)
}

/// What of the statistics says how far a shard was written to.
const STATS: &str = "level=shards&ignore_unavailable=true&expand_wildcards=all\
    &filter_path=indices.*.shards.*.routing.primary,indices.*.shards.*.seq_no.max_seq_no";

fn read(stats: &Value, index: &str) -> Option<Sequence> {
    let shards = stats.get("indices")?.get(index)?.get("shards")?;
    let is_primary = |copy: &&Value| copy.pointer("/routing/primary") == Some(&Value::Bool(true));
    let sequence = members(shards).filter_map(|(number, copies)| {
        let primary = copies.as_array()?.iter().find(is_primary)?;
        Some((number.clone(), primary.pointer("/seq_no/max_seq_no")?.as_i64()?))
    });
    Some(sequence.collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_sequence_is_that_of_the_primaries() {
        let copy = |primary: bool, sequence: i64| json!({"routing": {"primary": primary}, "seq_no": {"max_seq_no": sequence}});
        let stats = json!({"indices": {"a": {"shards": {"0": [copy(false, 8), copy(true, 9)], "1": [copy(true, -1)]}}}});
        assert_eq!(read(&stats, "a"), Some(Sequence::from([("0".to_owned(), 9), ("1".to_owned(), -1)])));
        assert!(read(&stats, "b").is_none());
    }
}
