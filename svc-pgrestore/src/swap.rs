//! `swap`: what was staged or cloned becomes the live database, or what a swap replaced becomes live again.

mod plan;
mod rename;

use svc_step::action::Action;
use svc_step::common::DryRun;
use svc_step::from::{OtherServer, Received};
use svc_step::people::shell_quoted;
use svc_step::run_id::RunId;
use svc_step::swaps::GivenArgs;
use svc_step::{Call, Failure, StepResult, Stopped, swaps};

pub(crate) use self::plan::{Exchange, Standing, run_of};
use crate::admin::{Admin, AdminArgs, databases, live};
use crate::args::DatabaseArgs;
use crate::document::{Cloned, Named, Restored, Staged, Swapped};
use crate::names::drop_statement;
use crate::record::SCHEMAS;
use crate::{preflight, record};

/// Arguments of `svc-pgrestore swap`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "An unfinished swap is finished; the document of a finished one, swapped again, goes back.\n\nExample:\n  svc-pgrestore stage --from pgdump.json > staged.json && svc-pgrestore swap --from staged.json"
)]
pub struct SwapArgs {
    #[command(flatten)]
    given: GivenArgs,
    /// Go back: what the swap replaced becomes live again
    #[arg(long)]
    back: bool,
    /// Fail (3) if a swap has made the copy live before: clients have written to it
    #[arg(long, conflicts_with = "back")]
    unused: bool,
    #[command(flatten)]
    old: DropOld,
    #[command(flatten)]
    other: OtherServer,
    #[command(flatten)]
    pub(crate) dry: DryRun,
    #[command(flatten)]
    database: DatabaseArgs,
    #[command(flatten)]
    admin: AdminArgs,
}

/// What happens to the replaced database.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct DropOld {
    /// Drop what was replaced
    #[arg(long)]
    pub(crate) drop_old: bool,
}

pub(crate) fn run(args: &SwapArgs, call: &Call) -> StepResult<Swapped> {
    let received = args.given.read(call, &SCHEMAS)?;
    let mut exchange = exchange(&received, args.back)?;
    args.database.check(&exchange.database)?;
    let mut admin = Admin::connect(&args.admin, call)?;
    admin.check_server(args.other, &exchange.system_identifier)?;
    exchange.system_identifier.clone_from(&admin.server.system_identifier);
    let _lock = admin.lock(call, &exchange.database, args.dry.dry_run)?;
    if args.unused {
        check_unused(&mut admin, call, &exchange)?;
    }
    let record = |swapped: &Swapped| record::write(call, &exchange.run, "swap", &swapped.database, swapped);
    perform(&mut admin, call, &exchange, args.old.drop_old, args.dry.dry_run, &record)
}

/// By the server's databases, and by the record of a swap that has gone back since.
fn check_unused(admin: &mut Admin, call: &Call, exchange: &Exchange) -> Result<(), Failure> {
    let standing = exchange.standing(&databases(&mut admin.client)?)?;
    let was_live = recorded(call, &exchange.run)?.is_some_and(|recorded| recorded.swapped || recorded.back);
    if matches!(standing, Standing::Ready { .. }) && !was_live {
        return Ok(());
    }
    Err(Failure::refused("clones_used", format!("A swap has made the copy {} live before.", exchange.incoming.name))
        .hint("Restore the dump: svc-pgrestore stage --from DOCUMENT; or omit --unused, to take the copy as it is now."))
}

/// The swap that a document or a record asks for.
fn exchange(received: &Received, back: bool) -> Result<Exchange, Failure> {
    match received.step() {
        "stage" => of_stage(received, &received.result()?, back),
        "swap" => of_swap(received, &received.result()?, back),
        "clone" => {
            let clone: Cloned = received.result()?;
            check_copy(back, clone.verified, &clone.clone.name, "svc-pgrestore clone")?;
            Exchange::of_clone(&clone)
        }
        _ => {
            let restored: Restored = received.result()?;
            match &restored.swap {
                _ if restored.in_place => {
                    Err(Failure::refused("restored_in_place", "The database was restored in place, so there is nothing to swap.")
                        .hint("Restore another dump: svc-pgrestore FILE."))
                }
                Some(swapped) => of_swap(received, swapped, back),
                None => of_stage(received, &restored.stage, back),
            }
        }
    }
}

fn of_stage(received: &Received, staged: &Staged, back: bool) -> Result<Exchange, Failure> {
    check_copy(back, staged.verified, &staged.staged.name, &shell_quoted(&["svc-pgrestore", "stage", &staged.dump.path]))?;
    Ok(Exchange::of_staged(staged, run_of(received.run_id())?))
}

/// Only what was loaded and verified is ever swapped in, and it cannot go back before.
fn check_copy(back: bool, verified: bool, copy: &str, again: &str) -> Result<(), Failure> {
    if back {
        return Err(Failure::usage("not_swapped", "The document is of a copy that was not swapped in, so nothing can go back.")
            .hint("Pass the document of the swap, or omit --back."));
    }
    if verified {
        return Ok(());
    }
    Err(Failure::refused("not_verified", format!("The copy {copy} is incomplete."))
        .hint(format!("Do it again, which removes what is left of this one:\n  {again}")))
}

/// An unfinished swap is finished, and so is a recorded one; the document of a finished swap goes back.
fn of_swap(received: &Received, swapped: &Swapped, back: bool) -> Result<Exchange, Failure> {
    // A record is never ok. That of a way back is resumed, so that the same `--run RUN --back` again does not go forward.
    let going_back = swapped.back && !received.is_ok();
    let reverse = (back && !going_back) || (received.is_ok() && swapped.swapped);
    if reverse { Exchange::back(swapped) } else { Exchange::again(swapped) }
}

/// Swaps, under a lock that the caller holds. `record` writes the plan for `--run`.
pub(crate) fn perform(
    admin: &mut Admin,
    call: &Call,
    exchange: &Exchange,
    drop_old: bool,
    dry_run: bool,
    record: &dyn Fn(&Swapped) -> Result<(), Failure>,
) -> StepResult<Swapped> {
    let catalog = databases(&mut admin.client)?;
    let previous_oid = exchange.previous_oid.or_else(|| recorded_previous(call, exchange));
    let exchange = &Exchange { previous_oid, ..exchange.clone() };
    let (mut swapped, ready) = match exchange.standing(&catalog)? {
        Standing::Done { previous } => {
            let mut swapped = exchange.planned(previous.clone(), Vec::new());
            swapped.swapped = true;
            if let (true, Some(previous)) = (drop_old, previous) {
                swapped.plan = vec![Action::statement(drop_statement(&previous.name))];
            }
            (swapped, false)
        }
        Standing::Ready { previous } => {
            let plan = exchange.plan(previous.as_ref(), drop_old);
            (exchange.planned(previous, plan), true)
        }
    };
    if ready && let Some(live) = live(&mut admin.client, &exchange.database)? {
        preflight::in_the_way(&exchange.database, &live)?;
    }
    if dry_run {
        return Ok(swapped);
    }
    if ready {
        call.check()?;
        record(&swapped)?;
        match rename::rename(admin, call, exchange, swapped.previous.as_ref()) {
            Ok(ended) => swapped.sessions_ended_count = ended,
            Err(failure) => return Err(Stopped::with(with_hint(failure, &exchange.run), swapped)),
        }
        swapped.swapped = true;
    }
    if drop_old && let Some(previous) = swapped.previous.clone() {
        if let Err(failure) = drop_previous(admin, call, &previous, ready || exchange.previous_oid.is_some()) {
            return Err(Stopped::with(failure, swapped));
        }
        swapped.previous_dropped = true;
        swapped.drop_command = None;
    }
    // Without this record the next call finds out by the server's databases.
    if (ready || swapped.previous_dropped)
        && let Err(failure) = record(&swapped)
    {
        call.warn("not_noted", format!("The swap is done, and could not be recorded for --run: {}", failure.message));
    }
    Ok(swapped)
}

/// The OID of what a swap that took place has replaced, by its record.
fn recorded_previous(call: &Call, exchange: &Exchange) -> Option<u32> {
    let recorded = recorded(call, &exchange.run).ok()??;
    // It may be that of the way back.
    if recorded.incoming.oid == exchange.incoming.oid { recorded.previous?.oid } else { recorded.incoming.oid }
}

fn recorded(call: &Call, run: &RunId) -> Result<Option<Swapped>, Failure> {
    let Some(received) = swaps::find(call, run, &SCHEMAS)? else { return Ok(None) };
    match received.step() {
        "swap" => received.result().map(Some),
        "restore" => received.result::<Restored>().map(|restored| restored.swap),
        _ => Ok(None),
    }
}

/// `known`: it is the one that was replaced, not another of its name.
fn drop_previous(admin: &mut Admin, call: &Call, previous: &Named, known: bool) -> Result<(), Failure> {
    let sql = drop_statement(&previous.name);
    if known && databases(&mut admin.client)?.contains(previous) {
        return admin.alter(call, &sql, "drop the database that was replaced");
    }
    let message = format!("It is unknown whether the database {} is the one that was replaced.", previous.name);
    Err(Failure::refused("previous_unknown", message).hint(format!("Check it; if it is not needed, {sql} drops it.")))
}

/// A failed swap names the command that resumes it.
pub(crate) fn with_hint(mut failure: Failure, run: &RunId) -> Failure {
    let resume = format!("svc-pgrestore swap --run {run} resumes it.");
    failure.hint = Some(match failure.hint {
        Some(hint) if hint.contains("--run ") => hint,
        Some(hint) => format!("{hint} {resume}"),
        None => resume,
    });
    failure
}
