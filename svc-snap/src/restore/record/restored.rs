//! A restore as its document has it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_step::Call;
use svc_step::action::Action;

use crate::index::resolve::PassedOver;
use crate::restore::chosen::Chosen;
use crate::restore::record::origin::Origin;
use crate::restore::record::swapped::Swapped;
use crate::restore::streams::StreamBack;
use crate::throttle::RateUsed;

/// A snapshot that is live.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Restored {
    /// The snapshot.
    #[serde(flatten)]
    pub origin: Origin,
    /// The run; what is kept has it in its name, and `swap --run` and `discard --run` take it.
    pub run: String,
    /// Whether it was restored over what was live.
    pub in_place: bool,
    /// Every index that is restored.
    pub indices: Vec<RestoredIndex>,
    /// Every data stream that is restored; what was live of it is not kept.
    #[serde(default)]
    pub streams: Vec<StreamBack>,
    /// The swap by which it became live, which `swap` takes back; `null` where there was none.
    pub swap: Option<Swapped>,
    /// The cluster's throttle, where `--rate-limit` speaks of it; else `null`.
    #[serde(default)]
    pub throttle: Option<RateUsed>,
    /// What else the snapshot holds, and why it is not restored.
    pub skipped: Vec<PassedOver>,
    /// The requests, in their order.
    pub plan: Vec<Action>,
}

/// One index of a restore.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RestoredIndex {
    /// Its name.
    pub index: String,
    /// Which way it goes.
    pub way: RestoreWay,
    /// How far it has come.
    pub state: RestoreState,
    /// How many documents it holds, or `null` before it is proven.
    pub docs_count: Option<u64>,
    /// How many documents the backup noted, or `null` where it noted none or writes went on meanwhile.
    pub docs_expected: Option<u64>,
}

/// Which way an index of a restore goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RestoreWay {
    /// Staged, proven and swapped.
    Swapped,
    /// Restored direct under its own name, since nothing was live under it.
    Direct,
    /// Restored over what was live.
    InPlace,
}

/// How far an index of a restore has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RestoreState {
    /// What was live is live, or nothing is as nothing was.
    Untouched,
    /// What was live is closed, deleted or being exchanged, or is just about to be, or nothing was; and the backup is not live
    /// yet.
    UnderWay,
    /// The backup is live, whole, with as many documents as were noted.
    Restored,
}

impl Restored {
    /// A restore of which nothing is done yet.
    pub(crate) fn begun(call: &Call, chosen: &Chosen, in_place: bool, way: impl Fn(&str) -> RestoreWay) -> Self {
        let indices = chosen.indices.iter().map(|index| RestoredIndex {
            index: index.clone(),
            way: way(index),
            state: RestoreState::Untouched,
            docs_count: None,
            docs_expected: chosen.docs_expected(index),
        });
        Self {
            origin: chosen.origin.clone(),
            run: call.run_id().to_string(),
            in_place,
            indices: indices.collect(),
            streams: Vec::new(),
            swap: None,
            throttle: None,
            skipped: chosen.skipped.clone(),
            plan: Vec::new(),
        }
    }
}
