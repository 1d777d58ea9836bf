//! `rehearsal`: what a rehearsal has found. What was staged is compared with the restore point, and a rollback's time is estimated.

use std::collections::BTreeMap;
use std::path::PathBuf;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_step::from::{Accept, Received};
use svc_step::journal::{Attempt, Journal};
use svc_step::settings::variable;
use svc_step::steps;
use svc_step::{Call, Failure, StepResult};

use crate::downtime::{self, Part};
use crate::point::{ABOUT, About, real};

/// Arguments of `svc-point rehearsal`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: after both databases were staged by the steps stage-search and stage-database of this run
  svc-point rehearsal \"$point\" --search \"$(svc-run document stage-search)\" \\
    --database \"$(svc-run document stage-database)\"

The downtime is estimated by the steps of earlier upgrades and rollbacks on this host.")]
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
    /// What was staged of the dump: each table has these rows, or the staging would have failed.
    pub tables: Vec<Table>,
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
    /// An estimate of a rollback's downtime: the sum of `downtime_parts`, as far as they are known.
    pub downtime_known_ms: u64,
    /// How long each part took when a run on this host last did it.
    pub downtime_parts: Vec<Part>,
    /// The parts that are not in the estimate, since no run on this host has done them.
    pub downtime_not_known: Vec<String>,
    /// An estimate of a rollback's whole time: before the stop, and the downtime as far as it is known.
    pub total_known_ms: u64,
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

/// A table of the dump.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Table {
    /// As SQL names it.
    pub table: String,
    /// How many rows the dump holds, in all its blocks of the table.
    pub rows_expected: u64,
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
    tables: Vec<Block>,
    row_count: u64,
}

#[derive(Debug, Deserialize)]
struct Block {
    schema: Option<String>,
    name: String,
    row_count: u64,
}

pub(crate) fn run(args: &RehearsalArgs, call: &Call) -> StepResult<Rehearsal> {
    let dir = real(&args.dir);
    let about = About::read(&dir).ok_or_else(|| {
        let message = format!("{} is no restore point: its {ABOUT} is absent or invalid.", dir.display());
        Failure::not_found("point_not_found", message).hint("To list the restore points:\n  svc-backup --list")
    })?;
    let Search { indices } = Received::read(call, &args.search, &["svc-snap.stage/1"], Accept::Successful)?.result()?;
    let staged = Received::read(call, &args.database, &["svc-pgrestore.stage/1"], Accept::Successful)?;
    let database: Database = staged.result()?;
    let dump: Dump = Received::read(call, &dir.join("pgdump.json"), &["svc-pgdump.dump/1"], Accept::Successful)?.result()?;

    let times = times(&Journal::of(call.state_dir(), call.run_id().as_str()))?;
    let parts = downtime::parts(call.state_dir(), about.version.as_deref(), variable("SVC_PG_UNIT").is_some());
    let downtime_known_ms = parts.iter().filter_map(|part| part.ms).sum();
    let are_same = indices.iter().all(|one| one.docs_expected.is_some() && one.docs_count == one.docs_expected);
    let rehearsal = Rehearsal {
        kind: about.kind,
        version: about.version,
        made_at: about.made_at,
        quiesced: about.quiesced,
        docs_count: indices.iter().filter_map(|one| one.docs_count).sum(),
        indices,
        tables: tables(dump.tables),
        rows_count: database.verification.map(|verification| verification.rows_count),
        rows_expected: dump.row_count,
        counts_verified: are_same && !staged.has_warning("not_verified"),
        before_stop_ms: times.before_stop_ms,
        staging_ms: times.staging_ms,
        downtime_known_ms,
        downtime_not_known: parts.iter().filter(|part| part.ms.is_none()).map(|part| part.step.clone()).collect(),
        downtime_parts: parts,
        total_known_ms: times.before_stop_ms.saturating_add(downtime_known_ms),
        summary: String::new(),
    };
    let summary = rehearsal.sentence();
    call.reporter().detail(&summary);
    Ok(Rehearsal { summary, ..rehearsal })
}

/// How long the run has taken.
struct Times {
    before_stop_ms: u64,
    staging_ms: u64,
}

fn times(run: &Journal) -> Result<Times, Failure> {
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
    Ok(Times { before_stop_ms: now.saturating_sub(first), staging_ms: to.saturating_sub(from) })
}

/// A table may have several blocks: its partitions.
fn tables(blocks: Vec<Block>) -> Vec<Table> {
    let mut tables = BTreeMap::<String, u64>::new();
    for block in blocks {
        let table = block.schema.map_or(block.name.clone(), |schema| format!("{schema}.{}", block.name));
        *tables.entry(table).or_default() += block.row_count;
    }
    tables.into_iter().map(|(table, rows_expected)| Table { table, rows_expected }).collect()
}

impl Rehearsal {
    fn sentence(&self) -> String {
        let rows = self.rows_count.map_or("unknown".to_owned(), |count| count.to_string());
        let not_known = if self.downtime_not_known.is_empty() {
            String::new()
        } else {
            format!(" (no run here has shown yet how long these take: {})", self.downtime_not_known.join(", "))
        };
        let (how, what) = if self.counts_verified { ("verified", "") } else { ("staged", "; not all counts could be compared") };
        format!(
            "{how}: {} documents in {} indices, {rows} rows in {} tables{what}. A rollback would take {} ms before its stop, {} ms of \
             them to stage both databases, and then at least {} ms{not_known}.",
            self.docs_count,
            self.indices.len(),
            self.tables.len(),
            self.before_stop_ms,
            self.staging_ms,
            self.downtime_known_ms
        )
    }
}
