//! What this host did last: its rehearsal, its off-site copy, its upgrade, and what is unfinished. For people and for monitoring.

use std::path::Path;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_step::document::Time;
use svc_step::journal::{self, Journal};
use svc_step::steps;
use svc_step::{Failure, Status, file};

use crate::point;

/// The record of the last off-site copy, in the state directory; `push` writes it.
pub const OFFSITE: &str = "offsite.json";
/// Larger than this it is none of ours.
const LARGEST: u64 = 64 * 1024;

/// The last rehearsal of a rollback on this host.
#[derive(Debug, Serialize, JsonSchema)]
pub struct LastRehearsal {
    /// The ID of its run.
    pub run_id: String,
    /// When it began; RFC 3339, UTC.
    pub started_at: Time,
    /// How long ago that was.
    pub age_ms: u64,
    /// How long it took; `null` if it was interrupted.
    pub duration_ms: Option<u64>,
    /// What it has found.
    pub verdict: Verdict,
    /// The code of its error, if it failed.
    pub error: Option<String>,
    /// When it began, to be counted with.
    #[serde(skip)]
    pub begun: Timestamp,
}

/// What a rehearsal has found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The restore point was restored beside the live data, and every count was as expected.
    Verified,
    /// It was restored, but not every count was known and as expected.
    NotVerified,
    /// It could not be restored.
    Failed,
    /// It was killed, or ended by a signal.
    Interrupted,
}

impl Verdict {
    /// Every verdict.
    pub const ALL: [Self; 4] = [Self::Verified, Self::NotVerified, Self::Failed, Self::Interrupted];
}

/// The last off-site copy of a restore point.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct OffsiteCopy {
    /// The restore point.
    pub point_id: String,
    /// When it was made; RFC 3339.
    #[schemars(with = "Time")]
    pub made_at: Timestamp,
    /// When it was copied; RFC 3339.
    #[schemars(with = "Time")]
    pub copied_at: Timestamp,
}

/// The last off-site copy; none if none is recorded.
/// Errors: the record cannot be read, or is invalid (7 `file_invalid`).
pub fn offsite_copy(state_dir: &Path) -> Result<Option<OffsiteCopy>, Failure> {
    let path = state_dir.join(OFFSITE);
    let text = match file::read_text("read the record of the off-site copy", &path, LARGEST) {
        Ok(text) => text,
        Err(failure) if failure.status == Status::NotFound => return Ok(None),
        Err(failure) => return Err(failure),
    };
    serde_json::from_str(&text).map(Some).map_err(|error| {
        let message = format!("The record of the last off-site copy, {}, is invalid.", path.display());
        let failure = Failure::invalid("file_invalid", message).hint("To write a new one:\n  svc-offsite push");
        failure.cause(error.to_string())
    })
}

/// The last rehearsal that has chosen its restore point and is not running.
pub fn rehearsal(state_dir: &Path) -> Option<LastRehearsal> {
    let mut runs = journal::runs_of(state_dir, "svc-rehearse").filter(|run| run.has_begun(steps::POINT));
    runs.find_map(|run| of_rehearsal(&run))
}

fn of_rehearsal(run: &Journal) -> Option<LastRehearsal> {
    // A clock that was ahead once has put the IDs of later runs ahead too.
    let begun = run.plan().started_at.parse().ok().or_else(|| svc_step::run_id::time(run.id()))?;
    let document = run.last_document();
    if document.is_none() && run.is_running() {
        return None;
    }
    let error = document.as_ref().and_then(|document| Some(document.error.as_ref()?.code.clone()));
    let counts_verified = document.as_ref().and_then(|document| document.at("/rehearsal/counts_verified")?.as_bool());
    let verdict = match (&document, error.as_deref()) {
        (None, _) | (_, Some("interrupted")) => Verdict::Interrupted,
        (Some(document), _) if !document.ok => Verdict::Failed,
        _ if counts_verified == Some(true) => Verdict::Verified,
        _ => Verdict::NotVerified,
    };
    Some(LastRehearsal {
        run_id: run.id().to_owned(),
        started_at: begun.into(),
        age_ms: millis(begun),
        duration_ms: document.map(|document| document.duration_ms),
        verdict,
        error,
        begun,
    })
}

/// The downtime of the last run of a script that has told one, in milliseconds.
pub fn downtime(state_dir: &Path, script: &str) -> Option<u64> {
    journal::runs_of(state_dir, script).find_map(|run| run.last_document()?.number("/downtime_ms"))
}

/// How many runs are unfinished: the one that has changed the service last, if it did not end well, and those that have left something
/// to be undone.
pub fn unfinished(state_dir: &Path) -> usize {
    let mut runs = journal::runs(state_dir);
    runs.retain(|run| !run.is_running());
    let left = runs.iter().filter(|run| !run.left_to_undo().is_empty());
    let committed = journal::last_change(&runs, |_| true).filter(|run| !run.is_ok() && run.left_to_undo().is_empty());
    left.chain(committed).count()
}

/// How long ago a time is, in milliseconds.
fn millis(time: Timestamp) -> u64 {
    u64::try_from(point::older(time).as_millis()).unwrap_or(u64::MAX)
}
