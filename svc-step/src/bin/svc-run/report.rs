//! The last document of a run: the contract's envelope over the documents of its steps.

mod make;

use std::collections::BTreeSet;
use std::path::PathBuf;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use svc_step::Failure;

pub use make::{document, is_complete};

/// What a run has done.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
// It is read from the facts of a script, which need not have all.
#[serde(default)]
pub struct RunResult {
    /// The run directory, which is the run's journal; null in a dry run.
    pub run_dir: Option<String>,
    /// Every attempt of every step, in the order in which the steps were begun.
    pub steps: Vec<StepLine>,
    /// From the request to stop to the unit's own time of becoming active; null if the unit was not stopped, or is not running.
    pub downtime_ms: Option<u64>,
    /// The restore point that was made, restored, or rehearsed.
    pub restore_point: Option<String>,
    /// The version that was installed before; null if it is unknown.
    pub from_version: Option<String>,
    /// The version that is installed when the run has ended well.
    pub version: Option<String>,
    /// The checks that were made before anything was changed.
    pub preflight: Vec<Check>,
    /// What a rollback replaced and left in place; null if there is nothing of the kind.
    pub previous: Option<Previous>,
    /// The commands that undo the swaps of a rollback, in their order.
    pub swap_back: Vec<String>,
    /// The commands that discard what a rollback replaced, or the clones of an upgrade.
    pub discard_previous: Vec<String>,
    /// The commands that carry changes of the configuration over, which the installed one lacks: after an upgrade for one KEY, after a
    /// rollback for all that was changed since the upgrade.
    pub carry_configuration: Vec<String>,
    /// The command that goes back to the version before an upgrade; of several hops, before the last.
    pub go_back: Option<String>,
    /// Whether a rollback took the clones of `svc-upgrade --clone`; null if there were none.
    pub clones: Option<bool>,
    /// The upgrades that a run of several hops has made, each a run of its own.
    pub hops: Vec<Hop>,
    /// The restore point from which this run has removed `SHA256SUMS`, and could not remove the rest.
    pub partially_removed: Option<String>,
    /// What a rehearsal of a rollback has found; null if none was made.
    pub rehearsal: Option<Value>,
    /// In a dry run: the commands, as they are typed.
    pub plan: Vec<String>,
    /// The restore points as they were found (`svc-backup --prune`, `--delete`), the oldest first; else null.
    pub points: Option<Vec<Value>>,
    /// The restore points that this run has removed; null if it was not to remove any.
    pub removed: Option<Vec<String>>,
    /// The run directories that `svc-backup --prune` has removed; null if it was not to remove any.
    pub removed_runs: Option<Vec<String>>,
    /// Where a failed nightly backup left what it could back up; it is not a restore point.
    pub incomplete_point: Option<String>,
    /// The facts of an operator's own script (`svc-run note KEY VALUE`).
    #[serde(flatten)]
    pub facts: Map<String, Value>,
}

/// One attempt of a step.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StepLine {
    /// Its name.
    pub step: String,
    /// 1, and one more for each time that the run made the step again.
    pub attempt: u32,
    /// The schema of its document; null if it left none.
    pub schema: Option<String>,
    /// Whether it ended well.
    pub ok: bool,
    /// As in its document; null if it left none.
    pub changed: Option<bool>,
    /// As in its document; 0 if it left none.
    pub duration_ms: u64,
    /// The code of its error; `no_document` if it left none.
    pub error: Option<String>,
}

/// One check of the preflight.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Check {
    /// The step.
    pub check: String,
    /// How it ended.
    pub verdict: Verdict,
    /// What was found, in a few words.
    pub message: String,
}

/// How a check ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// All is well.
    Pass,
    /// It has a warning.
    Warn,
    /// It failed: the run ends after the preflight.
    Fail,
}

impl Verdict {
    pub const fn word(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Warn => "warn",
            Self::Fail => "fail",
        }
    }
}

/// What a rollback replaced and left in place.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
// A script gives the run only.
#[serde(default)]
pub struct Previous {
    /// The run that it is named after: the rollback's, or that of the upgrade whose clones were taken.
    pub run: String,
    /// Names in the cluster; empty before its swap.
    pub indices: Vec<String>,
    /// Names in PostgreSQL; empty before its swap.
    pub databases: Vec<String>,
}

/// One upgrade of a run over several versions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Hop {
    /// Its run.
    pub run_id: String,
    /// Whether it ended well.
    pub ok: bool,
    /// The version that it installed.
    pub version: Option<String>,
    /// Its restore point.
    pub restore_point: Option<String>,
    /// As [`RunResult::downtime_ms`].
    pub downtime_ms: Option<u64>,
}

/// How a run ended, as far as its journal does not say it.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// The script, `svc-upgrade`.
    pub script: String,
    /// The run's ID.
    pub run_id: String,
    /// The exit status: 0, or 9 (review), is an end without an error.
    pub status: i32,
    /// Whether it only printed what it would do.
    pub dry_run: bool,
    /// When this call began.
    pub started: Timestamp,
    /// Why it did not end well.
    pub failure: Option<Failure>,
    /// The steps that left nothing, since an undo has taken back what they did.
    pub undone: Vec<String>,
    /// Whether what earlier runs have left was undone first, which has changed something.
    pub recovered: bool,
    /// The attempts of earlier calls of the run, by their files.
    pub earlier: BTreeSet<PathBuf>,
    /// In a dry run, the commands.
    pub plan: Vec<String>,
}

impl Outcome {
    pub const fn is_ok(&self) -> bool {
        self.status == 0 || self.status == 9
    }
}

#[cfg(test)]
mod tests;
