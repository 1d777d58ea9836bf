//! The results of stage, clone, swap and restore, as their documents and the records of runs have them.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use svc_step::{Action, Failure};

use crate::client::Server;
use crate::index::clone::LiveClone;
use crate::index::{Counts, Found, Index, IndexMetadata, Skipped, copies, get_indices};
use crate::throttle::Throttle;

/// Copies that a swap can make live: of a snapshot, or of what is live.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct CopySet {
    pub cluster_uuid: String,
    /// The snapshot's `uuid`, or `null` for a clone.
    pub snapshot_uuid: Option<String>,
    /// The run whose copies these are; their names hold it, and `--run` takes it.
    pub run: String,
    pub asked_for: String,
    pub indices: Vec<CopiedIndex>,
    /// What else the snapshot holds, or is live, and why it is not copied.
    pub skipped: Vec<Skipped>,
    pub plan: Vec<Action>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CopiedIndex {
    /// Its live name, or its name in the snapshot.
    pub index: String,
    /// The name of the copy; the same one if nothing was live and it was restored directly under its name.
    pub copy: String,
    pub state: CopyState,
    /// The `uuid` of the live index that is cloned, or `null` for a snapshot.
    pub live_uuid: Option<String>,
    /// The `uuid` of the copy, or `null` before it is known.
    pub uuid: Option<String>,
    /// How many documents the copy holds, or `null` before it is verified.
    pub docs_count: Option<u64>,
    /// How many documents were captured, or `null` if none were, or if the index was written to meanwhile.
    pub docs_expected: Option<u64>,
    /// What the index had beside its documents, or `null` if it was not captured.
    pub metadata: Option<IndexMetadata>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CopyState {
    /// Nothing was asked of the server yet.
    Planned,
    /// The server was asked for it. A live index takes no writes while it is cloned.
    InProgress,
    /// It is complete, and holds as many documents as were captured or counted.
    Verified,
    /// It was removed again, since the step did not succeed.
    Removed,
}

/// A snapshot that is restored beside the live indices.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Staged {
    #[serde(flatten)]
    pub copies: CopySet,
    pub repository: String,
    pub snapshot: String,
    /// The disk space for it before it began; `null` if an earlier call has staged it.
    pub disk_space: Option<DiskSpace>,
    /// The cluster's throttle, if `--rate-limit` changes it; else `null`.
    pub throttle: Option<Throttle>,
}

/// The disk space for what is restored, as it was before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DiskSpace {
    /// What the snapshot holds of it; `null` if that could not be read.
    pub needed_bytes: Option<u64>,
    /// What is free on the disks of the data nodes below their high watermarks; `null` if one has no limit.
    pub free_bytes: Option<u64>,
}

/// A swap: what had been staged, cloned or replaced is live now.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct Swapped {
    pub cluster_uuid: String,
    /// The run whose copies these are; their names hold it, and `--run` takes it.
    pub run: String,
    /// The `uuid` of the snapshot that became live, or `null` if the swap does not know it.
    pub snapshot_uuid: Option<String>,
    /// Whether this swap put back what an earlier one had replaced.
    pub back: bool,
    /// Whether it takes away the indices of the scope that the backup does not hold.
    pub exact: bool,
    /// Whether it leaves no previous copy of what was live.
    pub drop_old: bool,
    /// Whether the scope is `*`, so that clients may be kept from creating indices of the live names during the swap.
    pub alone: bool,
    /// Whether every index has come to where the swap leads.
    pub finished: bool,
    pub indices: Vec<SwapIndex>,
    /// Indices that were not live and were restored directly: they are opened for writes at the end, and going back takes them away.
    pub direct: Vec<CopiedIndex>,
    /// Copies that an unfinished swap which is taken back had exchanged; they go with the exchange.
    pub discarded: Vec<String>,
    /// What stays as it is, and why.
    pub skipped: Vec<Skipped>,
    pub plan: Vec<Action>,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct SwapIndex {
    /// The name under which it is live.
    pub index: String,
    /// What is live.
    pub state: SwapState,
    /// The copy that becomes live; `null`: the index is taken away. It is gone when the swap is finished.
    pub source: Option<SwapSource>,
    /// The `uuid` of the index that was live before, or `null` if none was.
    pub live_uuid: Option<String>,
    /// The name of the copy of the index that was live; `null`: there is none.
    pub previous: Option<String>,
    /// Names of the copies of indices that a client made meanwhile under the index's own name.
    pub conflicts: Vec<String>,
    /// What the index that was live had beside its documents, or `null` if none was.
    pub was: Option<IndexMetadata>,
    /// What the index has when the swap is finished, or `null` if it is taken away.
    pub becomes: Option<IndexMetadata>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SwapSource {
    pub name: String,
    pub uuid: String,
    pub docs_count: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SwapState {
    /// What was live is live.
    Old,
    /// Nothing is live under the name: the swap was interrupted there, or the index was to be taken away, or was removed since.
    #[default]
    Absent,
    /// The copy is live, complete, with its aliases.
    New,
}

impl CopiedIndex {
    pub(crate) const fn planned(index: String, copy: String) -> Self {
        let state = CopyState::Planned;
        Self { index, copy, state, live_uuid: None, uuid: None, docs_count: None, docs_expected: None, metadata: None }
    }

    /// Whether nothing was live under its name and it was restored directly under it.
    pub(crate) fn is_direct(&self) -> bool {
        self.copy == self.index
    }

    pub(crate) fn set_verified(&mut self, found: &Found, counts: &Counts) {
        self.uuid = found.get(&self.copy).map(|index| index.uuid.clone());
        self.docs_count = counts.get(&self.copy).copied();
        self.state = CopyState::Verified;
    }

    pub(crate) fn is_there(&self, found: &Found) -> bool {
        found.get(&self.copy).is_some_and(|index| Some(&index.uuid) == self.uuid.as_ref())
    }

    /// Whether it was restored under its own name and still takes no writes, so that no client can have written to it.
    pub(crate) fn is_unopened(&self, found: &Found) -> bool {
        self.is_direct() && self.is_there(found) && found.get(&self.copy).is_some_and(|index| index.metadata.write_block())
    }

    /// The copy as a swap makes it live; `None` before it is verified.
    pub(crate) fn source(&self) -> Option<SwapSource> {
        Some(SwapSource { name: self.copy.clone(), uuid: self.uuid.clone()?, docs_count: self.docs_count? })
    }
}

impl CopySet {
    /// The step that makes such copies.
    pub(crate) const fn step(&self) -> &'static str {
        if self.snapshot_uuid.is_some() { "stage" } else { "clone" }
    }

    pub(crate) fn is_verified(&self) -> bool {
        self.indices.iter().all(|one| one.state == CopyState::Verified)
    }

    pub(crate) fn names(&self) -> Vec<&str> {
        self.indices.iter().map(|one| one.copy.as_str()).collect()
    }

    pub(crate) fn set_all(&mut self, state: CopyState) {
        self.indices.iter_mut().for_each(|one| one.state = state);
    }

    /// What is live, as it is blocked and cloned.
    pub(crate) fn live_clones(&self) -> Vec<LiveClone<'_>> {
        let clones = self.indices.iter().filter_map(|one| {
            let (uuid, was) = (one.live_uuid.as_deref()?, one.metadata.as_ref()?);
            Some(LiveClone { index: &one.index, uuid, copy: Some(&one.copy), was })
        });
        clones.collect()
    }

    /// The live indices that an unfinished clone has left without writes.
    pub(crate) fn left_blocked(&self, server: &Server) -> Result<Vec<String>, Failure> {
        let mut set = self.clone();
        set.indices.retain(|one| one.state == CopyState::InProgress);
        let found = get_indices(server, set.indices.iter().map(|one| &one.index))?;
        let clones = set.live_clones();
        Ok(clones.iter().filter(|one| one.is_blocked_by_us(&found)).map(|one| one.index.to_owned()).collect())
    }
}

impl SwapIndex {
    /// The names in its swap, except conflicting indices.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.index.as_str()).chain(self.copies())
    }

    pub(crate) fn copies(&self) -> impl Iterator<Item = &str> {
        self.source.as_ref().map(|source| source.name.as_str()).into_iter().chain(self.previous.as_deref())
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.state == if self.source.is_some() { SwapState::New } else { SwapState::Absent }
    }

    /// Whether the index that was live when the swap was planned still is.
    pub(crate) fn is_old(&self, found: &Found) -> bool {
        found.get(&self.index).is_some_and(|live| Some(&live.uuid) == self.live_uuid.as_ref())
    }

    /// The settings that its clone under the live name, which is as `seen`, still needs.
    pub(crate) fn missing_settings(&self, seen: &IndexMetadata) -> Option<Value> {
        let becomes = self.becomes.clone().unwrap_or_default();
        (!becomes.has_final_settings(seen)).then(|| becomes.final_settings(seen))
    }

    /// The copy that is to become live, if it is that very one.
    pub(crate) fn source_in<'a>(&self, found: &'a Found) -> Option<&'a Index> {
        let source = self.source.as_ref()?;
        found.get(&source.name).filter(|copy| copy.uuid == source.uuid)
    }
}

impl Swapped {
    pub(crate) fn live_names(&self) -> Vec<&str> {
        self.indices.iter().map(|item| item.index.as_str()).collect()
    }

    /// All names in it, except conflicting indices; with the previous copies that another host may have made in the same run.
    pub(crate) fn names(&self) -> BTreeSet<String> {
        let (named, direct) = (self.indices.iter().flat_map(SwapIndex::names), self.direct.iter().map(|one| &one.index));
        let all = named.map(str::to_owned).chain(self.discarded.iter().chain(direct).cloned());
        all.chain(self.previous_names()).collect()
    }

    fn previous_names(&self) -> impl Iterator<Item = String> {
        self.indices.iter().map(|item| self.previous_name(&item.index))
    }

    /// The previous copies that have the marker.
    pub(crate) fn marked_previous(&self, found: &Found) -> Vec<String> {
        self.previous_names().filter(|name| self.is_marked(found, name)).collect()
    }

    pub(crate) fn previous_name(&self, index: &str) -> String {
        copies::previous(&self.run, self.back, index)
    }

    /// The hidden alias of what has been exchanged and is not finished.
    pub(crate) fn marker(&self) -> String {
        copies::marker(&self.run, self.back)
    }

    pub(crate) fn is_marked(&self, found: &Found, name: &str) -> bool {
        found.get(name).is_some_and(|index| index.metadata.aliases.contains_key(&self.marker()))
    }

    pub(crate) fn with_source(&self) -> impl Iterator<Item = (&SwapIndex, &SwapSource)> {
        self.indices.iter().filter_map(|item| Some((item, item.source.as_ref()?)))
    }
}
