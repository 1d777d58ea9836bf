//! `swap`: what was staged becomes the live database, or what a swap replaced becomes live again.

use svc_step::action::Action;
use svc_step::common::DryRun;
use svc_step::from::{Accept, FromArg, Received};
use svc_step::run_id::RunId;
use svc_step::{Call, Failure, StepResult, Stopped, swaps};

use crate::exchange::{Exchange, Standing, drop_statement};
use crate::outcome::{Restored, Staged, Swapped};
use crate::session::Admin;
use crate::settings::{AdminArgs, DatabaseArgs};
use crate::{names, notes, preflight, rename, server};

/// The documents that a swap goes on from.
pub(crate) const SCHEMAS: [&str; 3] = ["svc-pgrestore.stage/1", "svc-pgrestore.swap/1", "svc-pgrestore.restore/1"];

/// Arguments of `svc-pgrestore swap`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The document of a swap, swapped again, goes back.\n\nExample:\n  svc-pgrestore stage --from pgdump.json > staged.json && svc-pgrestore swap --from staged.json"
)]
pub struct SwapArgs {
    #[command(flatten)]
    from: FromArg,
    /// Finish what is noted of this run on this host, when its document was lost
    #[arg(long, value_name = "RUN", required_unless_present = "from", conflicts_with = "from")]
    run: Option<RunId>,
    /// Go back: what the swap replaced becomes live again
    #[arg(long)]
    back: bool,
    #[command(flatten)]
    old: DropOld,
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
    let received = received(args.from.from.as_deref(), args.run.as_ref(), call)?;
    let exchange = wanted(&received, args.run.is_some(), args.back, call)?;
    args.database.agrees_with(&exchange.database)?;
    let mut admin = Admin::connect(&args.admin, call)?;
    preflight::same_server(&exchange.system_identifier, &admin.server)?;
    let _lock = admin.lock(call, &exchange.database)?;
    let note = |swapped: &Swapped| notes::write(call, "swap", &swapped.database, swapped);
    perform(&mut admin, call, &exchange, args.old.drop_old, args.dry.dry_run, &note)
}

/// The document of the step before, or what is noted of its run.
pub(crate) fn received(from: Option<&std::path::Path>, run: Option<&RunId>, call: &Call) -> Result<Received, Failure> {
    match (from, run) {
        (Some(from), _) => Received::read(call, from, &SCHEMAS, Accept::Unfinished),
        (None, Some(run)) => swaps::read(call, run, &SCHEMAS),
        (None, None) => Err(Failure::usage("from_missing", "Nothing says what is to be swapped.")
            .hint("Hand over the document of the staging by --from FILE, or name its run by --run RUN.")),
    }
}

/// The exchange that a document asks for.
fn wanted(received: &Received, noted: bool, back: bool, call: &Call) -> Result<Exchange, Failure> {
    let of_swap = |swapped: &Swapped| {
        // What is noted of a run is finished; a document that says that it is done is gone back from.
        if back || (swapped.swapped && !noted) {
            Exchange::back(swapped)
        } else {
            Ok(Exchange::of(swapped, names::before(&swapped.database, call.run_id())))
        }
    };
    let of_stage = |staged: &Staged| {
        if back {
            return Err(Failure::usage("not_swapped", "This is the document of a staging, from which there is no way back.")
                .hint("Hand over the document of the swap, or leave --back out."));
        }
        proven(staged)?;
        Ok(Exchange::from_staged(staged, call))
    };
    match received.step() {
        "stage" => of_stage(&received.result()?),
        "swap" => of_swap(&received.result()?),
        _ => {
            let restored: Restored = received.result()?;
            match &restored.swap {
                _ if restored.in_place => {
                    Err(Failure::refused("restored_in_place", "The database was restored in place, so there is nothing to swap.")
                        .hint("Restore the dump of the state that is wanted: svc-pgrestore FILE."))
                }
                Some(swapped) => of_swap(swapped),
                None => of_stage(&restored.stage),
            }
        }
    }
}

/// Only what was loaded and proven is ever swapped in.
fn proven(staged: &Staged) -> Result<(), Failure> {
    if staged.proven {
        return Ok(());
    }
    Err(Failure::refused("not_proven", format!("The staging of {} did not come to its end.", staged.staged.name))
        .hint("Stage the dump again; the next staging removes what is left of this one."))
}

impl Exchange {
    /// What was staged becomes live.
    pub(crate) fn from_staged(staged: &Staged, call: &Call) -> Self {
        Self {
            database: staged.database.clone(),
            system_identifier: staged.system_identifier.clone(),
            incoming: staged.staged.clone(),
            kept_name: names::before(&staged.database, call.run_id()),
        }
    }
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
    let catalog = server::catalog(&mut admin.client)?;
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
        match rename::exchange(admin, call, exchange, swapped.kept.as_ref()) {
            Ok(ended) => swapped.sessions_ended_count = ended,
            Err(failure) => return Err(Stopped::with(hinted(failure, call), swapped)),
        }
        swapped.swapped = true;
    }
    if drop_old && let Some(kept) = swapped.kept.clone() {
        if let Err(failure) = admin.alter(call, &drop_statement(&kept.name), "drop the database that was replaced") {
            return Err(Stopped::with(failure, swapped));
        }
        swapped.kept_dropped = true;
        swapped.drop_command = None;
    }
    // The plan says from now on that it is done. It is right without that too: the next call finds out by the server's own list.
    if (ready || drop_old)
        && let Err(failure) = note(&swapped)
    {
        call.warn("not_noted", format!("The swap is done, and could not be noted for --run: {}", failure.message));
    }
    Ok(swapped)
}

/// A failed exchange names the command that goes on from it, the document or none.
pub(crate) fn hinted(mut failure: Failure, call: &Call) -> Failure {
    let again = format!("svc-pgrestore swap --run {} goes on.", call.run_id());
    failure.hint = Some(match failure.hint {
        Some(hint) if hint.contains("--run") => hint,
        Some(hint) => format!("{hint} {again}"),
        None => again,
    });
    failure
}
