//! `stage`: a copy of the database beside the live one, loaded and verified. The live database is not touched.

use svc_step::common::DryRun;
use svc_step::{Call, Failure, StepResult, swaps};

use crate::admin::databases;
use crate::args::RestoreArgs;
use crate::document::{Restored, Staged};
use crate::fill::fill;
use crate::prepare::{Aim, Prepared, prepare};
use crate::record::{self, SCHEMAS};

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

pub(crate) fn perform(prepared: &mut Prepared, call: &Call) -> StepResult<Staged> {
    act(prepared, call).map_err(|failure| call.stopped(failure, prepared.staged.clone()))
}

fn act(prepared: &mut Prepared, call: &Call) -> Result<Staged, Failure> {
    prepared.admin.remove_leftovers(call, &prepared.staged.database)?;
    let catalog = databases(&mut prepared.admin.client)?;
    let name = prepared.staged.staged.name.clone();
    if catalog.iter().any(|one| one.name == name) {
        return match recorded(&prepared.staged, call)? {
            Some(staged) if catalog.contains(&staged.staged) => Ok(staged),
            _ => {
                let message = format!("There is a database {name} already, of another dump.");
                Err(Failure::refused("staged_exists", message)
                    .hint(format!("svc-pgrestore discard --run {} drops it, or pass another run ID.", call.run_id())))
            }
        };
    }
    let record = |staged: &Staged| record::write(call, call.run_id(), "stage", &staged.database, staged);
    record(&prepared.staged)?;
    fill(prepared, call).map_err(|failure| prepared.admin.undo(call, &name, failure))?;
    record(&prepared.staged)?;
    Ok(prepared.staged.clone())
}

/// What this run has staged and verified of this dump already.
pub(crate) fn recorded(wanted: &Staged, call: &Call) -> Result<Option<Staged>, Failure> {
    let Some(received) = swaps::find(call, call.run_id(), &SCHEMAS)? else { return Ok(None) };
    let staged: Option<Staged> = match received.step() {
        "stage" => received.result().ok(),
        "restore" => received.result::<Restored>().ok().filter(|restored| !restored.in_place).map(|restored| restored.stage),
        _ => return Err(record::run_id_taken(call.run_id())),
    };
    Ok(staged.filter(|staged| {
        staged.verified
            && staged.database == wanted.database
            && staged.system_identifier == wanted.system_identifier
            && staged.dump.sha256 == wanted.dump.sha256
            && staged.owner == wanted.owner
    }))
}
