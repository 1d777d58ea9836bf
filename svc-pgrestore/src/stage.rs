//! `stage`: a copy of the database beside the live one, loaded and proven. The live database is not touched.

use svc_pgdump::admin::{Named, databases};
use svc_step::common::DryRun;
use svc_step::from::Received;
use svc_step::{Call, Failure, StepResult, swaps};

use crate::fill::fill;
use crate::notes;
use crate::outcome::{Restored, Staged};
use crate::prepare::{Aim, Prepared, RestoreArgs, prepare};

/// Arguments of `svc-pgrestore stage`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  svc-pgrestore stage --from pgdump.json > staged.json")]
pub struct StageArgs {
    #[command(flatten)]
    pub(crate) dry: DryRun,
    #[command(flatten)]
    restore: RestoreArgs,
}

pub(crate) fn run(args: &StageArgs, call: &Call) -> StepResult<Staged> {
    let mut prepared = prepare(&args.restore, Aim::Copy, args.dry.dry_run, call)?;
    if args.dry.dry_run {
        return Ok(prepared.staged);
    }
    perform(&mut prepared, call)
}

/// Stages what was prepared.
pub(crate) fn perform(prepared: &mut Prepared, call: &Call) -> StepResult<Staged> {
    attempt(prepared, call).map_err(|failure| call.stopped(failure, prepared.staged.clone()))
}

fn attempt(prepared: &mut Prepared, call: &Call) -> Result<Staged, Failure> {
    remove_leftovers(prepared, call)?;
    let catalog = databases(&mut prepared.admin.client)?;
    if catalog.iter().any(|one| one.name == prepared.staged.staged.name) {
        return already(&prepared.staged, &catalog, call);
    }
    let note = |staged: &Staged| notes::write(call, call.run_id(), "stage", &staged.database, staged);
    note(&prepared.staged)?;
    fill(prepared, call).map_err(|failure| prepared.admin.undo(call, &prepared.staged.staged.name, failure))?;
    note(&prepared.staged)?;
    Ok(prepared.staged.clone())
}

/// Drops what stagings that were killed have left.
pub(crate) fn remove_leftovers(prepared: &mut Prepared, call: &Call) -> Result<(), Failure> {
    prepared.admin.remove_leftovers(call, "svc-pgrestore.stage/1", &prepared.staged.database, "staging")
}

/// The copy of this run is there already: it is the one that is wanted, or somebody must look.
fn already(wanted: &Staged, catalog: &[Named], call: &Call) -> Result<Staged, Failure> {
    match noted(wanted, call)? {
        Some(staged) if catalog.contains(&staged.staged) => Ok(staged),
        _ => Err(Failure::refused(
            "staged_exists",
            format!("There is a database {} already, of another dump.", wanted.staged.name),
        )
        .hint(format!("svc-pgrestore discard --run {} drops it, or give this run an id of its own.", call.run_id()))),
    }
}

/// What this run has staged and proven of this dump already, by what is noted of it.
///
/// # Errors
/// The note is empty or damaged (7).
pub(crate) fn noted(wanted: &Staged, call: &Call) -> Result<Option<Staged>, Failure> {
    let received = swaps::find(call, call.run_id(), &["svc-pgrestore.stage/1", "svc-pgrestore.restore/1"])?;
    let Some(staged) = received.as_ref().and_then(staged_of) else { return Ok(None) };
    let same = staged.database == wanted.database
        && staged.system_identifier == wanted.system_identifier
        && staged.dump.sha256 == wanted.dump.sha256
        && staged.owner == wanted.owner;
    Ok((same && staged.proven).then_some(staged))
}

fn staged_of(received: &Received) -> Option<Staged> {
    match received.step() {
        "stage" => received.result().ok(),
        _ => received.result::<Restored>().ok().filter(|restored| !restored.in_place).map(|restored| restored.stage),
    }
}
