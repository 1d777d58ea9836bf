//! `swap`: what was staged becomes the live database, or what a swap replaced becomes live again.

use svc_pgdump::Cloned;
use svc_pgdump::admin::{Admin, AdminArgs, Named, databases, drop_statement};
use svc_step::action::Action;
use svc_step::common::DryRun;
use svc_step::from::{OtherServer, Received};
use svc_step::run_id::RunId;
use svc_step::swaps::GivenArgs;
use svc_step::{Call, Failure, StepResult, Stopped, swaps};

use crate::exchange::{self, Exchange, Standing};
use crate::outcome::{Restored, Staged, Swapped};
use crate::settings::DatabaseArgs;
use crate::{notes, preflight, rename, server};

/// The documents that a swap goes on from.
pub(crate) const SCHEMAS: [&str; 4] = [STAGE, SWAP, RESTORE, CLONE];
/// Those of them that are this tool's.
pub(crate) const OWN_SCHEMAS: [&str; 3] = [STAGE, SWAP, RESTORE];
/// The one of a standing copy.
pub(crate) const CLONE: &str = "svc-pgdump.clone/1";
const STAGE: &str = "svc-pgrestore.stage/1";
const SWAP: &str = "svc-pgrestore.swap/1";
const RESTORE: &str = "svc-pgrestore.restore/1";

/// Arguments of `svc-pgrestore swap`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "A swap that is not finished is finished; the document of a finished one, swapped again, goes back.\n\nExample:\n  svc-pgrestore stage --from pgdump.json > staged.json && svc-pgrestore swap --from staged.json"
)]
pub struct SwapArgs {
    #[command(flatten)]
    given: GivenArgs,
    /// Go back: what the swap replaced becomes live again
    #[arg(long)]
    back: bool,
    /// Fail (3) where a swap has made the copy live before: what is live is written to
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

/// What becomes of the database that was replaced.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct DropOld {
    /// Drop what was replaced instead of keeping it
    #[arg(long)]
    pub(crate) drop_old: bool,
}

pub(crate) fn run(args: &SwapArgs, call: &Call) -> StepResult<Swapped> {
    let received = args.given.read(call, &SCHEMAS)?;
    let mut exchange = wanted(&received, args.back)?;
    args.database.agrees_with(&exchange.database)?;
    let mut admin = Admin::connect(&args.admin, call)?;
    admin.is_meant(args.other, &exchange.system_identifier)?;
    exchange.system_identifier.clone_from(&admin.server.system_identifier);
    let _lock = admin.lock(call, &exchange.database, args.dry.dry_run)?;
    if args.unused {
        is_unused(&mut admin, call, &exchange)?;
    }
    let note = |swapped: &Swapped| notes::write(call, &exchange.run, "swap", &swapped.database, swapped);
    perform(&mut admin, call, &exchange, args.old.drop_old, args.dry.dry_run, &note)
}

/// By the server's own list, and by what is noted of a swap that was taken back since.
///
/// # Errors
/// A swap has made the copy live before (3), or it is not there any more (4).
fn is_unused(admin: &mut Admin, call: &Call, exchange: &Exchange) -> Result<(), Failure> {
    let standing = exchange.standing(&databases(&mut admin.client)?)?;
    let was_live = noted(call, &exchange.run)?.is_some_and(|noted| noted.swapped || noted.back);
    if matches!(standing, Standing::Ready { .. }) && !was_live {
        return Ok(());
    }
    Err(Failure::refused("clones_used", format!("A swap has made the copy {} live before.", exchange.incoming.name))
        .hint("Restore the dump: svc-pgrestore stage --from DOCUMENT; or leave --unused out, to take the copy as it is now."))
}

/// The exchange that a document or a note asks for.
fn wanted(received: &Received, back: bool) -> Result<Exchange, Failure> {
    match received.step() {
        "stage" => of_stage(received, &received.result()?, back),
        "swap" => of_swap(received, &received.result()?, back),
        "clone" => of_clone(&received.result()?, back),
        _ => {
            let restored: Restored = received.result()?;
            match &restored.swap {
                _ if restored.in_place => {
                    Err(Failure::refused("restored_in_place", "The database was restored in place, so there is nothing to swap.")
                        .hint("Restore the dump of the state that is wanted: svc-pgrestore FILE."))
                }
                Some(swapped) => of_swap(received, swapped, back),
                None => of_stage(received, &restored.stage, back),
            }
        }
    }
}

fn of_stage(received: &Received, staged: &Staged, back: bool) -> Result<Exchange, Failure> {
    forward(back)?;
    proven(staged)?;
    Ok(Exchange::of_staged(staged, exchange::run_of(received.run_id())?))
}

/// What was cloned is swapped in as what was staged is.
fn of_clone(clone: &Cloned, back: bool) -> Result<Exchange, Failure> {
    forward(back)?;
    if !clone.proven {
        return Err(Failure::refused("not_proven", format!("The copy {} did not come to its end.", clone.clone.name))
            .hint("Clone the database again (svc-pgdump clone), which removes what is left of this one; or restore its dump."));
    }
    Exchange::of_clone(clone)
}

fn forward(back: bool) -> Result<(), Failure> {
    if !back {
        return Ok(());
    }
    Err(Failure::usage("not_swapped", "This is about a copy that was not swapped in, from which there is no way back.")
        .hint("Hand over the document of the swap, or leave --back out."))
}

/// What is not finished is finished, and so is what is noted; the document of a finished swap goes back.
fn of_swap(received: &Received, swapped: &Swapped, back: bool) -> Result<Exchange, Failure> {
    // A note is never ok. One of a way back is gone on with, so that the same `--run RUN --back` again does not go forward.
    let going_back = swapped.back && !received.is_ok();
    let reverse = (back && !going_back) || (received.is_ok() && swapped.swapped);
    if reverse { Exchange::back(swapped) } else { Exchange::again(swapped) }
}

/// Only what was loaded and proven is ever swapped in.
fn proven(staged: &Staged) -> Result<(), Failure> {
    if staged.proven {
        return Ok(());
    }
    Err(Failure::refused("not_proven", format!("The staging of {} did not come to its end.", staged.staged.name))
        .hint("Stage the dump again; the next staging removes what is left of this one."))
}

/// Does it, under a lock that is held already. `note` writes the plan down, for `--run`.
pub(crate) fn perform(
    admin: &mut Admin,
    call: &Call,
    exchange: &Exchange,
    drop_old: bool,
    dry_run: bool,
    note: &dyn Fn(&Swapped) -> Result<(), Failure>,
) -> StepResult<Swapped> {
    let catalog = databases(&mut admin.client)?;
    let kept_oid = exchange.kept_oid.or_else(|| noted_kept(call, exchange));
    let exchange = &Exchange { kept_oid, ..exchange.clone() };
    let (mut swapped, ready) = match exchange.standing(&catalog)? {
        Standing::Done { kept } => {
            let mut swapped = exchange.planned(kept.clone(), Vec::new());
            swapped.swapped = true;
            if let (true, Some(kept)) = (drop_old, kept) {
                swapped.plan = vec![Action::statement(drop_statement(&kept.name))];
            }
            (swapped, false)
        }
        Standing::Ready { kept } => {
            let plan = exchange.plan(kept.as_ref(), drop_old);
            (exchange.planned(kept, plan), true)
        }
    };
    if ready && let Some(live) = server::live(&mut admin.client, &exchange.database)? {
        preflight::in_the_way(&exchange.database, &live)?;
    }
    if dry_run {
        return Ok(swapped);
    }
    if ready {
        call.check()?;
        note(&swapped)?;
        match rename::rename(admin, call, exchange, swapped.kept.as_ref()) {
            Ok(ended) => swapped.sessions_ended_count = ended,
            Err(failure) => return Err(Stopped::with(hinted(failure, &exchange.run), swapped)),
        }
        swapped.swapped = true;
    }
    if drop_old && let Some(kept) = swapped.kept.clone() {
        if let Err(failure) = drop_kept(admin, call, &kept, ready || exchange.kept_oid.is_some()) {
            return Err(Stopped::with(failure, swapped));
        }
        swapped.kept_dropped = true;
        swapped.drop_command = None;
    }
    // The plan says from now on that it is done. It is right without that too: the next call finds out by the server's own list.
    if (ready || swapped.kept_dropped)
        && let Err(failure) = note(&swapped)
    {
        call.warn("not_noted", format!("The swap is done, and could not be noted for --run: {}", failure.message));
    }
    Ok(swapped)
}

/// The OID of what an exchange that took place has replaced, as it was noted before.
fn noted_kept(call: &Call, exchange: &Exchange) -> Option<u32> {
    let noted = noted(call, &exchange.run).ok()??;
    // The note may be of the way back.
    if noted.incoming.oid == exchange.incoming.oid { noted.kept?.oid } else { noted.incoming.oid }
}

/// The swap that is noted of a run.
fn noted(call: &Call, run: &RunId) -> Result<Option<Swapped>, Failure> {
    let Some(received) = swaps::find(call, run, &SCHEMAS)? else { return Ok(None) };
    match received.step() {
        "swap" => received.result().map(Some),
        "restore" => received.result::<Restored>().map(|restored| restored.swap),
        _ => Ok(None),
    }
}

/// Drops what was replaced, under the name that it has now; `known` says that it is that one, not another of its name.
fn drop_kept(admin: &mut Admin, call: &Call, kept: &Named, known: bool) -> Result<(), Failure> {
    let sql = drop_statement(&kept.name);
    let there = databases(&mut admin.client)?;
    if known && there.contains(kept) {
        return admin.alter(call, &sql, "drop the database that was replaced");
    }
    Err(Failure::refused(
        "previous_unknown",
        format!("Nothing here tells that the database {} is the one that was replaced.", kept.name),
    )
    .hint(format!("Look at it; if it is of no use, {sql} drops it.")))
}

/// A failed exchange names the command that goes on from it, the document or none.
pub(crate) fn hinted(mut failure: Failure, run: &RunId) -> Failure {
    let again = format!("svc-pgrestore swap --run {run} goes on.");
    failure.hint = Some(match failure.hint {
        Some(hint) if hint.contains("--run") => hint,
        Some(hint) => format!("{hint} {again}"),
        None => again,
    });
    failure
}
