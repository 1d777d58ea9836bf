//! A swap as its document and its noted plan have it.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_step::Failure;
use svc_step::action::Action;

use crate::index::resolve::PassedOver;
use crate::index::shape::Shape;
use crate::restore::streams::{StreamBack, StreamState};

/// A swap: what had been staged, kept or cloned is live now.
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
    /// Whether the search database is the service's alone (the scope is `*`), so that clients may be kept from creating indices of
    /// the live names while the swap is at work.
    pub alone: bool,
    /// Whether every index has come to where the swap leads.
    pub finished: bool,
    /// Every index of the swap.
    pub indices: Vec<SwapIndex>,
    /// Indices that were not live and were restored directly under their names: they are opened for writes when the others are
    /// exchanged, and going back takes them away.
    pub direct: Vec<Direct>,
    /// Copies that a swap which is taken back had exchanged and not finished with; they go with the exchange.
    pub discarded: Vec<String>,
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
    pub conflicts: Vec<String>,
    /// What the index that was live had beside its documents, or `null` where none was.
    pub was: Option<Shape>,
    /// What the index has when the swap is finished, or `null` where it is taken away.
    pub becomes: Option<Shape>,
}

/// An index that was restored directly under its name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Direct {
    /// Its name.
    pub index: String,
    /// Its `uuid`, or `null` before it is there.
    pub uuid: Option<String>,
    /// What it has when the swap is finished, or `null` where nobody noted it.
    pub becomes: Option<Shape>,
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

    /// The names that its swap speaks of, save those of conflicting indices.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.index.as_str()).chain(self.copies())
    }

    /// The names of its copies.
    fn copies(&self) -> impl Iterator<Item = &str> {
        self.source.as_ref().map(|source| source.name.as_str()).into_iter().chain(self.kept.as_deref())
    }

    /// Whether its swap is finished.
    pub(crate) fn is_finished(&self) -> bool {
        self.state == self.goal()
    }
}

impl Swapped {
    /// Whether every index and every data stream has come to where the swap leads.
    pub(crate) fn is_finished(&self) -> bool {
        self.finished && self.streams.iter().all(|one| one.state == StreamState::Restored)
    }

    /// The live names that it speaks of.
    pub(crate) fn live_names(&self) -> Vec<&str> {
        let streams = self.streams.iter().map(|one| one.stream.as_str());
        self.indices.iter().map(|item| item.index.as_str()).chain(streams).collect()
    }

    /// What of the backup it brings back: indices and data streams.
    pub(crate) fn restored_names(&self) -> BTreeSet<&str> {
        let swapped = self.indices.iter().filter(|item| item.source.is_some()).map(|item| &item.index);
        let direct = self.direct.iter().map(|one| &one.index);
        let streams = self.streams.iter().map(|one| &one.stream);
        swapped.chain(direct).chain(streams).map(String::as_str).collect()
    }

    /// All names that it speaks of, save those of conflicting indices.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.indices.iter().flat_map(SwapIndex::names).chain(self.discarded.iter().map(String::as_str))
    }

    /// The names of its copies.
    pub(crate) fn copies(&self) -> impl Iterator<Item = &str> {
        let conflicts = self.indices.iter().flat_map(|item| &item.conflicts);
        let further = conflicts.chain(&self.discarded).map(String::as_str);
        self.indices.iter().flat_map(SwapIndex::copies).chain(further)
    }

    /// Whether `index` was restored directly.
    pub(crate) fn is_direct(&self, index: &str) -> bool {
        self.direct.iter().any(|one| one.index == index)
    }
}
