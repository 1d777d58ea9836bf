//! The restore without a step name: stage, prove and swap; or, with `--in-place`, the procedure's literal order.

use svc_step::common::DryRun;
use svc_step::{Call, Failure, StepResult, Stopped};

use crate::exchange::{Exchange, Standing, drop_statement};
use crate::fill::fill;
use crate::outcome::{Restored, Staged, Swapped};
use crate::prepare::{Aim, Prepared, RestoreArgs, prepare};
use crate::swap::{self, DropOld};
use crate::{notes, server, stage};

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
        return in_place(args, call);
    }
    let mut prepared = prepare(&args.restore, Aim::Copy, call)?;
    let exchange = |staged: &Staged| Exchange::from_staged(staged, call);
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
    let note = |swapped: &Swapped| notes::write(call, "restore", &staged.database, &restored(Some(swapped)));
    match swap::perform(&mut prepared.admin, call, &exchange(&staged), args.old.drop_old, false, &note) {
        Ok(swapped) => Ok(restored(Some(&swapped))),
        Err(Stopped { failure, result }) => Err(Stopped::with(swap::hinted(failure, call), restored(result.as_ref()))),
    }
}

/// A dry run's plan: both halves, the copy having no number yet.
fn planned(mut prepared: Prepared, drop_old: bool, exchange: &dyn Fn(&Staged) -> Exchange) -> Result<Restored, Failure> {
    let stage = prepared.staged;
    let exchange = exchange(&stage);
    let mut catalog = server::catalog(&mut prepared.admin.client)?;
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
    let Some(staged) = stage::noted(&prepared.staged, call) else { return Ok(None) };
    let catalog = server::catalog(&mut prepared.admin.client)?;
    Ok(catalog.iter().any(|one| one.oid == staged.staged.oid).then_some(staged))
}

fn stopped_at_stage(stopped: Stopped<Staged>) -> Stopped<Restored> {
    let result = stopped.result.map(|stage| whole(stage, false));
    Stopped { failure: stopped.failure, result }
}

fn whole(stage: Staged, in_place: bool) -> Restored {
    Restored { database: stage.database.clone(), in_place, plan: stage.plan.clone(), stage, swap: None }
}

/// The procedure's literal order (4.2): DROP, CREATE (with OWNER), GRANT, load.
fn in_place(args: &WholeArgs, call: &Call) -> StepResult<Restored> {
    let mut prepared = prepare(&args.restore, Aim::Place, call)?;
    call.warn(
        "in_place",
        format!(
            "The database {} is dropped before the dump is loaded: there is no way back but a dump.",
            prepared.staged.database
        ),
    );
    if args.dry.dry_run {
        return Ok(whole(prepared.staged, true));
    }
    call.check()?;
    let database = prepared.staged.database.clone();
    if server::live(&mut prepared.admin.client, &database)?.is_some() {
        prepared.admin.alter(call, &drop_statement(&database), &format!("drop the database {database}"))?;
    }
    match fill(&mut prepared, call) {
        Ok(()) => Ok(whole(prepared.staged, true)),
        Err(mut failure) => {
            failure.hint = Some(format!(
                "The database {database} is not whole. When the cause is mended, restore again: svc-pgrestore --in-place {}.",
                prepared.staged.dump.path
            ));
            Err(Stopped::with(failure, whole(prepared.staged, true)))
        }
    }
}
