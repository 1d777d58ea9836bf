//! How an index of a swap stands, by what the server shows of the names that its swap speaks of: nothing else is remembered.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::index::Index;
use crate::index::copies::Way;
use crate::runs::swapped::{State, SwapIndex};

/// What the server shows of the names that one item speaks of; a name without an index is not in it.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Seen {
    pub indices: BTreeMap<String, Index>,
    /// Aliases that other indices of the same swap hold and this one is to have, with what each such index is to have of it.
    pub rivals: Vec<Rival>,
}

/// Another index of the swap that holds an alias of this one now.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Rival {
    pub index: String,
    pub alias: String,
    /// What it is to have of it; `None`: nothing.
    pub becomes: Option<Map<String, Value>>,
}

impl Seen {
    /// The index of that name.
    pub(crate) fn get(&self, name: &str) -> Option<&Index> {
        self.indices.get(name)
    }

    /// The copy that is to become live, where it is that very one.
    pub(crate) fn source(&self, item: &SwapIndex) -> Option<&Index> {
        let source = item.source.as_ref()?;
        self.get(&source.name).filter(|seen| seen.uuid == source.uuid)
    }

    /// Whether the live index is the one that was live when the swap was planned.
    pub(crate) fn is_old(&self, item: &SwapIndex) -> bool {
        self.get(&item.index).is_some_and(|live| Some(&live.uuid) == item.live_uuid.as_ref())
    }

    /// Whether the index that was live, and still is, was blocked for its clone and takes no writes yet.
    pub(crate) fn is_left_blocked(&self, item: &SwapIndex) -> bool {
        let was_blocked = item.was.as_ref().is_some_and(|was| was.write_block());
        !was_blocked && self.is_old(item) && self.get(&item.index).is_some_and(|live| live.shape.write_block())
    }

    /// Whether the index that was live, and still is, was opened for its clone and is not closed again.
    pub(crate) fn is_left_open(&self, item: &SwapIndex) -> bool {
        item.live_closed && self.is_old(item) && self.get(&item.index).is_some_and(|live| !live.closed)
    }

    /// Whether what is live now is another index than the one that was, and takes no writes although it is to take them.
    pub(crate) fn is_blocked_against(&self, item: &SwapIndex) -> bool {
        let wanted = item.becomes.as_ref().is_some_and(|becomes| becomes.write_block());
        !wanted && !self.is_old(item) && self.get(&item.index).is_some_and(|live| live.shape.write_block())
    }

    /// Whether the live index is the clone of this swap, not finished yet.
    pub(crate) fn is_ours(&self, way: &Way, item: &SwapIndex) -> bool {
        self.get(&item.index).is_some_and(|live| live.shape.aliases.contains_key(&way.marker(&item.index)))
    }

    /// The state that the server shows.
    pub(crate) fn state(&self, way: &Way, item: &SwapIndex) -> State {
        match self.get(&item.index) {
            Some(_) if self.is_old(item) && !self.is_ours(way, item) => State::Old,
            // A clone that is not finished has no aliases yet: it is not live for those who use them.
            Some(live) if item.source.is_some() && self.source(item).is_none() && !self.is_ours(way, item) => {
                if item.missing_blocks(live).is_none() { State::New } else { State::Absent }
            }
            _ => State::Absent,
        }
    }
}

/// How an index of a swap stands, from what the server shows of its names.
pub(crate) fn state(way: &Way, item: &SwapIndex, indices: BTreeMap<String, Index>) -> State {
    Seen { indices, rivals: Vec::new() }.state(way, item)
}
