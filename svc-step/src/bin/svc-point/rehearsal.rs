//! `rehearsal`: what a rehearsal has found. What was staged is compared with the restore point, and timed.

use std::path::PathBuf;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_step::from::{Accept, Received};
use svc_step::journal::{Attempt, Journal};
use svc_step::steps;
use svc_step::{Call, Failure, StepResult};

use crate::last;
use crate::point::{ABOUT, About, real};

/// Arguments of `svc-point rehearsal`.
#[derive(Debug, clap::Args)]
pub struct RehearsalArgs {
    /// The directory of the restore point
    dir: PathBuf,
    /// The document of svc-snap stage
    #[arg(long, value_name = "FILE")]
    search: PathBuf,
    /// The document of svc-pgrestore stage
    #[arg(long, value_name = "FILE")]
    database: PathBuf,
}

/// What a rehearsal of a rollback has found.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Rehearsal {
    /// `upgrade`, `nightly` or `manual`.
    pub kind: Option<String>,
    /// The version of the restore point.
    pub version: Option<String>,
    /// When the restore point was made; RFC 3339, UTC.
    pub made_at: Option<String>,
    /// Whether the service was stopped while it was made.
    pub quiesced: bool,
    /// What was staged of the snapshot.
    pub indices: Vec<Index>,
    /// The documents of all indices.
    pub docs_count: u64,
    /// How many rows were counted in all tables when they were staged.
    pub rows_count: Option<u64>,
    /// How many rows the dump holds.
    pub rows_expected: u64,
    /// Whether all counts were known and are the same.
    pub counts_verified: bool,
    /// Measured: all that a rollback does before it stops the service, from the run's first step until now.
    pub before_stop_ms: u64,
    /// Measured: the part of it in which both databases were staged, in parallel.
    pub staging_ms: u64,
    /// How long the service was down in the last rollback on this host; `null` if none has told.
    pub downtime_ms: Option<u64>,
    /// The same as a sentence.
    pub summary: String,
}

/// An index that was staged.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Index {
    /// Its name in the snapshot.
    pub index: String,
    /// How many documents were counted in it when it was staged.
    pub docs_count: Option<u64>,
    /// How many the snapshot holds; `null` if the index was written to meanwhile, so that it is unknown.
    pub docs_expected: Option<u64>,
}

#[derive(Debug, Deserialize)]
struct Search {
    indices: Vec<Index>,
}

#[derive(Debug, Deserialize)]
struct Database {
    verification: Option<Verification>,
}

#[derive(Debug, Deserialize)]
struct Verification {
    rows_count: u64,
}

#[derive(Debug, Deserialize)]
struct Dump {
    rows_count: u64,
}

pub(crate) fn run(args: &RehearsalArgs, call: &Call) -> StepResult<Rehearsal> {
    let dir = real(&args.dir);
    let about = About::read(&dir).ok_or_else(|| {
        let message = format!("{} is not a restore point: its {ABOUT} is absent or invalid.", dir.display());
        Failure::not_found("point_not_found", message).hint("To list the restore points:\n  svc-backup --list")
    })?;
    let Search { indices } = Received::read(call, &args.search, &["svc-snap.stage/1"], Accept::Successful)?.result()?;
    let staged = Received::read(call, &args.database, &["svc-pgrestore.stage/1"], Accept::Successful)?;
    let database: Database = staged.result()?;
    let dump: Dump = Received::read(call, &dir.join("pgdump.json"), &["svc-pgdump.dump/1"], Accept::Successful)?.result()?;

    let (before_stop_ms, staging_ms) = times(&Journal::of(call.state_dir(), call.run_id().as_str()))?;
    let are_same = indices.iter().all(|one| one.docs_expected.is_some() && one.docs_count == one.docs_expected);
    let rehearsal = Rehearsal {
        kind: about.kind,
        version: about.version,
        made_at: about.made_at,
        quiesced: about.quiesced,
        docs_count: indices.iter().filter_map(|one| one.docs_count).sum(),
        indices,
        rows_count: database.verification.map(|verification| verification.rows_count),
        rows_expected: dump.rows_count,
        counts_verified: are_same && !staged.has_warning("not_verified"),
        before_stop_ms,
        staging_ms,
        downtime_ms: last::downtime(call.state_dir(), "svc-rollback"),
        summary: String::new(),
    };
    let summary = rehearsal.sentence();
    call.reporter().detail(&summary);
    Ok(Rehearsal { summary, ..rehearsal })
}

/// How long the run has taken, and the staging of both databases in it, in milliseconds.
fn times(run: &Journal) -> Result<(u64, u64), Failure> {
    let attempts = run.attempts();
    let is_staging = |one: &&Attempt| matches!(&*one.step, steps::STAGE_SEARCH | steps::STAGE_DATABASE);
    let staging: Vec<&Attempt> = attempts.iter().filter(is_staging).collect();
    let end = |one: &&Attempt| Some(one.begun_ms.saturating_add(one.document.as_ref()?.duration_ms));
    let first = attempts.iter().map(|one| one.begun_ms).min();
    let from = staging.iter().map(|one| one.begun_ms).min();
    let Some(((first, from), to)) = first.zip(from).zip(staging.iter().filter_map(end).max()) else {
        let message = format!("The run {} has no finished steps stage-search and stage-database.", run.id());
        return Err(Failure::not_found("swap_not_found", message).hint("Name the run that staged both with --run-id."));
    };
    let now = u64::try_from(Timestamp::now().as_millisecond()).unwrap_or_default();
    Ok((now.saturating_sub(first), to.saturating_sub(from)))
}

impl Rehearsal {
    fn sentence(&self) -> String {
        let rows = self.rows_count.map_or("unknown".to_owned(), |count| count.to_string());
        let downtime = match self.downtime_ms {
            Some(ms) => format!("The last one here had the service down for {ms} ms."),
            None => "No rollback here has shown yet how long the service is down.".to_owned(),
        };
        let (how, what) = if self.counts_verified { ("verified", "") } else { ("staged", "; not all counts could be compared") };
        format!(
            "{how}: {} documents in {} indices, {rows} rows{what}. A rollback would take {} ms before its stop, {} ms of them to stage \
             both databases. {downtime}",
            self.docs_count,
            self.indices.len(),
            self.before_stop_ms,
            self.staging_ms
        )
    }
}
