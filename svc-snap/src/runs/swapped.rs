//! A swap as its document and its noted plan have it.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use svc_step::Failure;
use svc_step::action::Action;

use crate::bring::streams::{StreamBack, StreamState};
use crate::index::Index;
use crate::index::resolve::PassedOver;
use crate::index::shape::Shape;

/// A swap: what had been staged, kept or set aside is live now.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Swapped {
    /// The cluster.
    pub cluster_uuid: String,
    /// The run whose copies these are; their names hold it, and `--run` takes it.
    pub run: String,
    /// The `uuid` of the snapshot that became live, or `null` where the swap does not know it.
    pub snapshot_uuid: Option<String>,
    /// Whether this swap put back what an earlier one had replaced.
    pub back: bool,
    /// Whether it takes away the indices of the scope that the backup does not hold.
    pub exact: bool,
    /// Whether it keeps nothing of what was live.
    pub drop_old: bool,
    /// Every index of the swap.
    pub indices: Vec<SwapIndex>,
    /// Indices that were not live and were restored straight under their names: nothing is left to swap, and going back takes
    /// them away.
    pub straight: Vec<String>,
    /// Indices at which an earlier swap may have begun and which it had not exchanged: what it began is taken back first, and as long
    /// as one is listed here, that is not done.
    pub begun: Vec<SwapIndex>,
    /// The same when it is done: what is live has nothing of the earlier swap any more, and their staged copies are still there.
    #[serde(default)]
    pub taken_back: Vec<SwapIndex>,
    /// Data streams that are restored in place after the indices; going back leaves them as they are.
    #[serde(default)]
    pub streams: Vec<StreamBack>,
    /// What stays as it is although it might be thought of, and why.
    pub skipped: Vec<PassedOver>,
    /// The requests, in their order.
    pub plan: Vec<Action>,
}

/// One index of a swap.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SwapIndex {
    /// The name under which it is live.
    pub index: String,
    /// How things stand.
    pub state: State,
    /// The copy that becomes live; `null`: the index is taken away. It is consumed: when the swap is finished, it is gone.
    pub source: Option<Source>,
    /// The `uuid` of the index that was live before, or `null` where none was.
    pub live_uuid: Option<String>,
    /// Whether that index was closed; it is opened for its clone.
    pub live_closed: bool,
    /// The name under which the index that was live is kept; `null`: it is not kept.
    pub kept: Option<String>,
    /// Names under which indices are kept that a client made meanwhile under the index's own name.
    pub strays: Vec<String>,
    /// What the index that was live had beside its documents, or `null` where none was.
    pub was: Option<Shape>,
    /// What the index has when the swap is finished, or `null` where it is taken away.
    pub becomes: Option<Shape>,
    /// A further copy that may hold the index's aliases, left by a swap that was not finished, or `null`.
    pub holder: Option<String>,
}

/// A copy that becomes live.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Source {
    /// Its name.
    pub name: String,
    /// Its `uuid`.
    pub uuid: String,
    /// How many documents it holds.
    pub docs_count: u64,
}

impl Source {
    /// Refuses a copy that holds something else than when it was proven.
    ///
    /// # Errors
    /// The counts differ (7).
    pub(crate) fn same_as_proven(&self, docs_count: u64) -> Result<(), Failure> {
        if docs_count == self.docs_count {
            return Ok(());
        }
        Err(Failure::invalid(
            "copy_differs",
            format!("{} holds {docs_count} documents, but {} when it was proven.", self.name, self.docs_count),
        )
        .hint("What is live stays live; stage the snapshot again: svc-snap stage."))
    }
}

/// How an index of a swap stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// What was live is live.
    Old,
    /// Nothing is live under the name: the swap was cut there, or the index was to be taken away.
    Absent,
    /// What was staged is live, whole, with its aliases.
    New,
}

impl SwapIndex {
    /// Where its swap leads to.
    pub(crate) const fn goal(&self) -> State {
        if self.source.is_some() { State::New } else { State::Absent }
    }

    /// The names that its swap speaks of, save those of strays.
    pub(crate) fn names(&self) -> Vec<&str> {
        let source = self.source.as_ref().map(|source| source.name.as_str());
        [Some(self.index.as_str()), source, self.kept.as_deref(), self.holder.as_deref()].into_iter().flatten().collect()
    }

    /// What it is to have of an alias; `None`: nothing.
    pub(crate) fn wanted(&self, alias: &str) -> Option<&Map<String, Value>> {
        self.becomes.as_ref().and_then(|becomes| becomes.aliases.get(alias))
    }

    /// The blocks that come last where the finished clone, as `live` shows it, has them not yet.
    pub(crate) fn missing_blocks(&self, live: &Index) -> Option<Value> {
        self.source.as_ref().and(self.becomes.as_ref()).and_then(|becomes| becomes.missing_blocks(&live.shape))
    }

    /// Whether its swap is finished.
    pub(crate) fn is_finished(&self) -> bool {
        self.state == self.goal()
    }
}

impl Swapped {
    /// Whether every index and every data stream has come to where the swap leads, and nothing that an earlier one began is left.
    pub(crate) fn is_finished(&self) -> bool {
        self.begun.is_empty()
            && self.indices.iter().all(SwapIndex::is_finished)
            && self.streams.iter().all(|one| one.state == StreamState::Restored)
    }

    /// The live names that it speaks of.
    pub(crate) fn live_names(&self) -> Vec<&str> {
        let streams = self.streams.iter().map(|one| one.stream.as_str());
        self.indices.iter().chain(&self.begun).map(|item| item.index.as_str()).chain(streams).collect()
    }

    /// What of the backup it brings back: indices and data streams.
    pub(crate) fn restored_names(&self) -> BTreeSet<&str> {
        let swapped = self.indices.iter().filter(|item| item.source.is_some()).map(|item| &item.index);
        let streams = self.streams.iter().map(|one| &one.stream);
        swapped.chain(&self.straight).chain(streams).map(String::as_str).collect()
    }

    /// Every index that it has copies of.
    pub(crate) fn all_items(&self) -> impl Iterator<Item = &SwapIndex> {
        self.indices.iter().chain(&self.begun).chain(&self.taken_back)
    }
}
