//! `svc-run status`: the state of a run, and what to run next. It reads only, also while the run is running.

mod runs;
mod show;

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::Args;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_step::Failure;
use svc_step::document::Time;
use svc_step::journal::{self, Attempt, Journal};
use svc_step::redact::arguments_without_secrets;
use svc_step::reporter::shell_quoted;

pub use show::text;

use crate::query;
use runs::Runs;

/// Which run.
#[derive(Debug, Clone, Default, Args)]
pub struct Arguments {
    /// Without RUN: the unfinished run of this script, or its last one
    #[arg(long, value_name = "SCRIPT")]
    pub script: Option<String>,
    /// Print the document instead of the table
    #[arg(long)]
    pub json: bool,
    /// The run's ID or its directory; default: the unfinished run, or the last one
    #[arg(value_name = "RUN")]
    pub run: Option<String>,
}

/// Where a run stands.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct StatusResult {
    /// The run's ID.
    pub run: String,
    /// Its directory.
    pub run_dir: String,
    /// The script; empty if the record of the call was lost.
    pub script: String,
    /// RFC 3339, UTC; empty if the record of the call was lost.
    pub started_at: String,
    /// How it stands.
    pub state: State,
    /// The same as a sentence.
    pub message: String,
    /// What to run next, each command on a line of its own; null if nothing is left to do.
    pub next: Option<String>,
    /// What the next call of any script, or `svc-run recover`, undoes first: the commands in their order.
    pub undo: Vec<Pending>,
    /// Every attempt of every step, in the order in which the steps were begun.
    pub steps: Vec<StepStatus>,
    /// How long the service was down; null if it was not, or is still.
    pub downtime_ms: Option<u64>,
}

/// How a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Its supervisor is running.
    Running,
    /// Its supervisor is gone; an installer, uninstaller or hook of it is running.
    ExternalRunning,
    /// It ended well.
    Ended,
    /// It failed, and ended in order.
    Failed,
    /// It was killed.
    Interrupted,
    /// A later run has replaced what it had left to do.
    Superseded,
}

/// An undo that is left to be run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Pending {
    /// The step that it is.
    pub name: String,
    /// The command, as it is typed.
    pub command: String,
}

/// One attempt of a step.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct StepStatus {
    /// Its number, which all its attempts share.
    pub number: u32,
    /// Its name.
    pub step: String,
    /// From 1.
    pub attempt: u32,
    /// RFC 3339, UTC.
    pub started_at: Time,
    /// `ok`, `not there` (which was no failure), the code of its error, `failed`, `running`, `ended with N`, or `outcome unknown`.
    pub state: String,
    /// How long it took, or has been running; null if it is unknown.
    pub duration_ms: Option<u64>,
}

/// Where the run stands that was asked for.
/// Errors: there is none (4); the state directory cannot be read (3).
pub fn status(state_dir: &Path, arguments: &Arguments) -> Result<StatusResult, Failure> {
    let runs = Runs::of(state_dir);
    let script = arguments.script.as_deref();
    let found = arguments.run.as_deref().map_or_else(|| runs.to_show(script), |run| journal::named(state_dir, run));
    found.map(|run| runs.status(&run)).ok_or_else(|| {
        let which = match (&arguments.run, script) {
            (Some(run), _) => format!(" {run}"),
            (None, Some(script)) => format!(" of {script}"),
            (None, None) => String::new(),
        };
        query::not_found(state_dir, &which)
    })
}

/// The rollback of an upgrade that has begun to change the service.
pub fn rolled_back_by(state_dir: &Path, upgrade: &Journal) -> Option<Journal> {
    Runs::of(state_dir).rolled_back_by(upgrade)
}

/// What would be undone first, the last registered first.
pub fn pending(run: &Journal) -> Vec<Pending> {
    let left = run.left_to_undo().into_iter();
    left.map(|undo| Pending { command: shell_quoted(&arguments_without_secrets(&undo.command)), name: undo.name }).collect()
}

fn steps(attempts: &[Attempt], is_running: bool, is_ok: bool, external: Option<&Path>) -> Vec<StepStatus> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
    let newest = |one: &Attempt| !attempts.iter().any(|other| other.step == one.step && other.attempt > one.attempt);
    let outlives = |one: &Attempt| external.is_some_and(|files| files == one.files);
    let line = |one: &Attempt| {
        let runs = newest(one) && (is_running || outlives(one));
        let state = match (&one.document, one.exit_status) {
            (Some(document), _) if document.ok => "ok".to_owned(),
            (Some(document), _) if is_ok && document.error.as_ref().is_some_and(|error| error.code.ends_with("_not_found")) => {
                "not there".to_owned()
            }
            (Some(document), _) => document.error.as_ref().map_or_else(|| "failed".to_owned(), |error| error.code.clone()),
            (None, Some(status)) => format!("ended with {status}"),
            (None, None) if runs => "running".to_owned(),
            (None, None) => "outcome unknown".to_owned(),
        };
        let since = (state == "running").then(|| now.saturating_sub(one.begun_ms));
        StepStatus {
            number: one.number,
            step: one.step.clone(),
            attempt: one.attempt,
            started_at: i64::try_from(one.begun_ms)
                .ok()
                .and_then(|ms| Timestamp::from_millisecond(ms).ok())
                .unwrap_or_default()
                .into(),
            duration_ms: one.document.as_ref().map(|document| document.duration_ms).or(since),
            state,
        }
    };
    attempts.iter().map(line).collect()
}

#[cfg(test)]
mod tests;
