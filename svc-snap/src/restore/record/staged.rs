//! A staging as its document and its note have it.
//!
//! What is behind a data stream is brought back as plain copies beside the live ones, proven and removed again, so that a
//! damaged snapshot shows before anything that is live is given up.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_step::action::Action;
use svc_step::run_id::RunId;

use crate::capacity::Room;
use crate::index::Index;
use crate::index::copies;
use crate::index::resolve::PassedOver;
use crate::index::shape::Shape;
use crate::restore::record::origin::Origin;
use crate::restore::stage::Bring;
use crate::restore::streams::StreamBack;
use crate::throttle::RateUsed;

/// A snapshot that lies beside the live indices, proven.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Staged {
    /// The snapshot.
    #[serde(flatten)]
    pub origin: Origin,
    /// The run whose copies these are; their names hold it, and `--run` takes it.
    pub run: String,
    /// The patterns that were asked for.
    pub asked_for: String,
    /// Every index that is brought back.
    pub indices: Vec<StagedIndex>,
    /// Every data stream that is restored in place after the swap.
    #[serde(default)]
    pub streams: Vec<StagedStream>,
    /// What else the snapshot holds, and why it is not brought back.
    pub skipped: Vec<PassedOver>,
    /// The room for it, as it was before; `null` where an earlier call had begun.
    #[serde(default)]
    pub room: Option<Room>,
    /// The cluster's throttle, where `--rate-limit` speaks of it; else `null`.
    #[serde(default)]
    pub throttle: Option<RateUsed>,
    /// The requests, in their order.
    pub plan: Vec<Action>,
}

/// One index of a snapshot, brought back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StagedIndex {
    /// Its name in the snapshot.
    pub index: String,
    /// The name under which it lies; the same one where nothing was live and it was restored directly under its name.
    pub staged: String,
    /// How far it has come.
    pub state: StageState,
    /// The `uuid` of what lies there, or `null` before it is known.
    pub uuid: Option<String>,
    /// How many documents it holds, or `null` before it is proven.
    pub docs_count: Option<u64>,
    /// How many documents the backup noted, or `null` where it noted none or writes went on meanwhile.
    pub docs_expected: Option<u64>,
    /// What the backup noted of it beside its documents, or `null` without the document of `create`.
    pub shape_noted: Option<Shape>,
}

impl StagedIndex {
    /// Whether nothing was live under its name and it was restored directly under it.
    pub(crate) fn is_direct(&self) -> bool {
        self.staged == self.index
    }

    /// Whether it was restored under its own name and still takes no writes, so that nobody can have written to it.
    pub(crate) fn is_unopened(&self, found: &BTreeMap<String, Index>) -> bool {
        let live = found.get(&self.index).filter(|_| self.is_direct());
        live.is_some_and(|live| Some(&live.uuid) == self.uuid.as_ref() && live.shape.write_block())
    }
}

/// How far an index has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StageState {
    /// Nothing was asked of the server yet.
    Planned,
    /// The server was asked for it, and it is not proven.
    Restoring,
    /// It is whole, and holds as many documents as were noted.
    Proven,
    /// It was removed again, since the staging did not succeed.
    Removed,
}

impl Staged {
    /// Whether all of it is proven.
    pub(crate) fn is_proven(&self) -> bool {
        self.indices.iter().all(|one| one.state == StageState::Proven) && self.streams.iter().all(StagedStream::is_ready)
    }

    /// What is brought back, with what is brought for the proof of data streams.
    pub(crate) fn with_proofs(&self, brings: &[Bring]) -> Vec<Bring> {
        brings.iter().cloned().chain(self.streams.iter().flat_map(StagedStream::brings)).collect()
    }

    /// The names under which it lies, or lay for its proof.
    pub(crate) fn names(&self) -> Vec<&str> {
        let copies = self.streams.iter().flat_map(|stream| &stream.copies);
        self.indices.iter().map(|one| &one.staged).chain(copies).map(String::as_str).collect()
    }
}

/// A data stream that is restored in place after the swap.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StagedStream {
    /// The data stream, and how it stands.
    #[serde(flatten)]
    pub back: StreamBack,
    /// How far the proof has come: `proven`, or `planned` for ever where nothing is live that would be given up.
    pub proof: StageState,
    /// The names under which the indices behind it are proven; none of them is there any more when they are.
    pub copies: Vec<String>,
}

impl StagedStream {
    /// One whose proof has not begun.
    pub(crate) fn planned(run: &RunId, back: StreamBack) -> Self {
        let indices = back.indices.iter().filter(|_| back.was_live);
        let copies = indices.map(|index| copies::staged(run, index)).collect();
        Self { back, proof: StageState::Planned, copies }
    }

    /// What is brought for the proof.
    pub(crate) fn brings(&self) -> impl Iterator<Item = Bring> + '_ {
        let pairs = self.back.indices.iter().zip(&self.copies);
        pairs.map(|(index, target)| Bring { index: index.clone(), target: target.clone() })
    }

    /// Whether it may be restored in place.
    pub(crate) fn is_ready(&self) -> bool {
        self.proof == StageState::Proven || self.copies.is_empty()
    }
}
