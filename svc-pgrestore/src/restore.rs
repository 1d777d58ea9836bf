//! The restore without a step name: stage, prove and swap; or, with `--in-place`, the procedure's literal order.

use svc_pgdump::admin::databases;
use svc_step::common::DryRun;
use svc_step::{Call, Failure, StepResult, Stopped};

use crate::exchange::{Exchange, Standing};
use crate::outcome::{Restored, Staged, Swapped};
use crate::prepare::{Aim, Prepared, RestoreArgs, prepare};
use crate::swap::{self, DropOld};
use crate::{in_place, notes, stage};

/// Arguments of `svc-pgrestore` without a step name.
#[derive(Debug, clap::Args)]
pub struct WholeArgs {
    #[command(flatten)]
    old: DropOld,
    /// Drop the database first and load into its place, for lack of room for a copy; there is no way back then
    #[arg(long, conflicts_with = "drop_old")]
    in_place: bool,
    #[command(flatten)]
    pub(crate) dry: DryRun,
    #[command(flatten)]
    restore: RestoreArgs,
}

pub(crate) fn run(args: &WholeArgs, call: &Call) -> StepResult<Restored> {
    if args.in_place {
        return in_place::run(&args.restore, args.dry.dry_run, call);
    }
    let mut prepared = prepare(&args.restore, Aim::Swap, args.dry.dry_run, call)?;
    let exchange = |staged: &Staged| Exchange::of_staged(staged, call.run_id().clone());
    if args.dry.dry_run {
        return Ok(planned(prepared, args.old.drop_old, &exchange)?);
    }
    let staged = match finished_before(&mut prepared, call)? {
        Some(staged) => staged,
        None => stage::perform(&mut prepared, call).map_err(stopped_at_stage)?,
    };
    let restored = |swapped: Option<&Swapped>| {
        let plan = staged.plan.iter().chain(swapped.iter().flat_map(|swapped| &swapped.plan)).cloned().collect();
        Restored { database: staged.database.clone(), in_place: false, stage: staged.clone(), swap: swapped.cloned(), plan }
    };
    // One note holds both halves, so that the same run, killed and started again, finds the staging.
    let note = |swapped: &Swapped| notes::write(call, call.run_id(), "restore", &staged.database, &restored(Some(swapped)));
    match swap::perform(&mut prepared.admin, call, &exchange(&staged), args.old.drop_old, false, &note) {
        Ok(swapped) => Ok(restored(Some(&swapped))),
        Err(Stopped { failure, result }) => Err(Stopped::with(swap::hinted(failure, call.run_id()), restored(result.as_ref()))),
    }
}

/// A dry run's plan: both halves, the copy having no number yet.
fn planned(mut prepared: Prepared, drop_old: bool, exchange: &dyn Fn(&Staged) -> Exchange) -> Result<Restored, Failure> {
    let stage = prepared.staged;
    let exchange = exchange(&stage);
    let mut catalog = databases(&mut prepared.admin.client)?;
    // As if it were staged.
    catalog.push(exchange.incoming.clone());
    let swap = match exchange.ready(&catalog)? {
        Standing::Ready { kept } | Standing::Done { kept } => {
            let plan = exchange.plan(kept.as_ref(), drop_old);
            exchange.planned(kept, plan)
        }
    };
    let plan = stage.plan.iter().chain(&swap.plan).cloned().collect();
    Ok(Restored { database: stage.database.clone(), in_place: false, stage, swap: Some(swap), plan })
}

/// What this run has staged already, wherever it stands now: the swap finds out what is left to do.
fn finished_before(prepared: &mut Prepared, call: &Call) -> Result<Option<Staged>, Failure> {
    let Some(staged) = stage::noted(&prepared.staged, call)? else { return Ok(None) };
    let catalog = databases(&mut prepared.admin.client)?;
    Ok(catalog.iter().any(|one| one.oid == staged.staged.oid).then_some(staged))
}

fn stopped_at_stage(stopped: Stopped<Staged>) -> Stopped<Restored> {
    let result = stopped.result.map(|stage| without_swap(stage, false));
    Stopped { failure: stopped.failure, result }
}

/// A restore of which there is no exchange of names.
pub(crate) fn without_swap(stage: Staged, in_place: bool) -> Restored {
    Restored { database: stage.database.clone(), in_place, plan: stage.plan.clone(), stage, swap: None }
}
