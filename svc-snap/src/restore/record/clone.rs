//! A clone as its document and its note have it, and what it left blocked when it was cut.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_step::action::Action;

use crate::index::clone::LiveClone;
use crate::index::resolve::PassedOver;
use crate::index::shape::Shape;

/// A standing copy of the live indices.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Cloned {
    /// The cluster.
    pub cluster_uuid: String,
    /// The run whose copies these are; their names hold it, and `--run` takes it.
    pub run: String,
    /// The patterns that were asked for.
    pub asked_for: String,
    /// Every index that is cloned.
    pub indices: Vec<ClonedIndex>,
    /// What else is live, and why it is not cloned.
    pub skipped: Vec<PassedOver>,
    /// Live indices that take writes again: a call that was killed had left them blocked, and this one found it noted.
    pub released: Vec<String>,
    /// The requests, in their order.
    pub plan: Vec<Action>,
}

/// One index that is cloned.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClonedIndex {
    /// The name of the live index.
    pub index: String,
    /// The name of its copy: hidden, without writes, replicas, aliases and lifecycle.
    pub clone: String,
    /// How far it has come.
    pub state: CloneState,
    /// The `uuid` of the live index.
    pub live_uuid: String,
    /// The `uuid` of the copy, or `null` before it is proven.
    pub uuid: Option<String>,
    /// How many documents both hold, counted while the live one took no writes; `null` before it is proven.
    pub docs_count: Option<u64>,
    /// What the live index has beside its documents; it has it again when its copy is swapped in.
    pub shape: Shape,
}

/// How far an index has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CloneState {
    /// Nothing was asked of the server yet.
    Planned,
    /// It is being cloned: the live index takes no writes until it is done.
    Blocked,
    /// Its copy is whole and holds as many documents, and the live index is as it was.
    Proven,
    /// Its copy was removed again, since the step did not succeed; the live index is as it was.
    Removed,
}

impl Cloned {
    /// Whether all of it is proven.
    pub(crate) fn is_proven(&self) -> bool {
        self.indices.iter().all(|one| one.state == CloneState::Proven)
    }

    /// The names of the copies.
    pub(crate) fn names(&self) -> Vec<&str> {
        self.indices.iter().map(|one| one.clone.as_str()).collect()
    }
}

impl Cloned {
    /// What is live, as it is blocked and cloned.
    pub(crate) fn clones(&self) -> Vec<LiveClone<'_>> {
        let clones = self.indices.iter().map(|one| LiveClone {
            index: &one.index,
            uuid: &one.live_uuid,
            copy: Some(&one.clone),
            lifecycle: one.shape.lifecycle.keys().cloned().collect(),
            was_blocked: one.shape.write_block(),
            was_closed: false,
        });
        clones.collect()
    }

    /// The same with every index in that state.
    pub(crate) fn with(&self, state: CloneState) -> Self {
        let mut clone = self.clone();
        clone.indices.iter_mut().for_each(|one| one.state = state);
        clone
    }
}
