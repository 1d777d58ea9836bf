//! Data streams of a staging: what is behind them is brought back as plain copies beside the live ones, proven and removed
//! again, so that a damaged snapshot shows before anything that is live is given up.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_step::run_id::RunId;

use super::StageState;
use crate::bring::Bring;
use crate::bring::streams::StreamBack;
use crate::index::copies;

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
