//! `swap`: what was staged becomes live, all of it or nothing; a previous copy of what was live stays.

use svc_step::{Call, DryRun, Failure, GivenArgs, OtherServer, StepResult, Stopped};

use crate::client::{Connection, Server};
use crate::guard;
use crate::index::{Scope, ScopeArg};
use crate::restore::phases::Phase;
use crate::restore::{Begun, Ended, Given, SwapOptions, Swapped, phases, plan, record, refuse_flags, swap};
use crate::temporary::Left;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  svc-snap swap --from staged.json > swapped.json    what was staged becomes live
  svc-snap swap --from clone.json                    what was cloned becomes live
  svc-snap swap --from swapped.json                  and back again
  svc-snap swap --run 20261120t020003z-hand --back   back, without the document
  svc-snap swap --run 20261120t020003z-hand          finish an interrupted swap")]
pub struct SwapArgs {
    #[command(flatten)]
    given: GivenArgs,
    /// Put back what the swap replaced, whether it is finished or not
    #[arg(long)]
    back: bool,
    /// Fail (3) if an earlier swap has begun to make the copies live: clients may have written to them
    #[arg(long, conflicts_with = "back")]
    unused: bool,
    #[command(flatten)]
    how: SwapOptions,
    #[command(flatten)]
    other: OtherServer,
    #[command(flatten)]
    scope: ScopeArg,
    #[command(flatten)]
    pub(crate) dry: DryRun,
    #[command(flatten)]
    connection: Connection,
}

/// What is to be done.
enum Task {
    /// A swap that was planned before is resumed.
    Resume,
    /// A new swap. This is recorded of the run until it has an effect.
    Begin(Begun),
    /// A swap that has not come to its exchange is undone.
    Undo(Swapped),
}

pub(crate) fn run(args: &SwapArgs, call: &Call) -> StepResult<Swapped> {
    let given = Given::read(&args.given, call)?;
    let server = Server::connect(&args.connection, call)?;
    args.other.check(given.begun.cluster_uuid(), &server.cluster_uuid, server.url(), "--url (SVC_SEARCH_URL)")?;
    let _lock = guard::lock(call, &server, args.dry.dry_run)?;
    let run = given.run.clone();
    let (mut swapped, kind) = task(args, call, &server, given)?;
    if args.unused && matches!(kind, Task::Resume) {
        // From its first request on, any of the copies may have been live.
        let message = format!("A swap of the run {run} has made copies live before, or was about to.");
        let hint =
            "Stage the snapshot: svc-snap stage --from DOCUMENT; or leave --unused out, to take the copies as they are now.";
        return Err(Failure::refused("not_swappable", message).hint(hint).into());
    }
    let names = swapped.live_names();
    let touched = if let Task::Undo(before) = &kind { before } else { &swapped };
    let direct = touched.direct.iter().map(|one| one.index.as_str());
    guard::refuse_outside(&args.scope.scope, touched.live_names().into_iter().chain(direct))?;
    if matches!(kind, Task::Resume) && swapped.finished {
        if args.dry.dry_run {
            // Those of the call that finished it: this one would send nothing.
            swapped.plan.clear();
        }
        return Ok(swapped);
    }
    phases::refuse_unfinished_runs(call, &server, &run, |name| names.contains(&name))?;
    if matches!(kind, Task::Resume) {
        plan::resume(call, &server, &mut swapped)?;
    }
    if args.dry.dry_run {
        return Ok(swapped);
    }
    let left = Left::find(call, &server, None)?;
    call.check().map_err(|failure| Stopped::with(failure, swapped.clone()))?;
    if let Task::Undo(before) = &kind {
        let ended = phases::take_back(call, &server, before, &mut swapped);
        left.put_back(call, &server);
        return Stopped::ended(ended, swapped);
    }
    let ended = swap::execute(call, &server, &mut swapped);
    // Not before: clients would create indices of the live names of a swap that was interrupted after its exchange.
    left.put_back(call, &server);
    let ended = match (ended, kind) {
        (Ended::Finished, _) => Ok(()),
        (Ended::Undone(failure), Task::Begin(before)) => {
            before.write_end(call);
            Err(failure)
        }
        // Its plan is an earlier call's, and may be what fails.
        (Ended::Undone(failure), _) => Err(phases::unfinished(call, &server, &swapped, failure)),
        (Ended::Unfinished(failure), _) => Err(failure),
    };
    Stopped::ended(ended, swapped)
}

/// An unfinished swap is finished; the document of a finished one goes back, and `--back` in any case. A record is newer than a document.
fn task(args: &SwapArgs, call: &Call, server: &Server, given: Given) -> Result<(Swapped, Task), Failure> {
    // Copies whose swap was undone before its exchange are staged as before.
    let is_undone = |one: &Swapped| one.back && one.finished && one.indices.is_empty() && matches!(given.begun, Begun::Copies(_));
    let recorded = match record::find(call, &given.run)? {
        Some(Begun::Swapped(one)) if one.cluster_uuid == server.cluster_uuid && !is_undone(&one) => Some(one),
        _ => None,
    };
    let scope = &args.scope.scope;
    let is_recorded = recorded.is_some();
    // The swap that there is, and whether it is to be one that goes back.
    let (latest, back, may_go_back) = match (&given.begun, recorded) {
        (Begun::Copies(set), None) => {
            let not_swapped = "What was staged or cloned was never swapped, so there is no way back.";
            if !set.is_verified() {
                return Err(given.failed.unwrap_or_else(|| record::not_verified(call, given.run.as_str())));
            } else if args.back {
                return Err(Failure::usage("options_invalid", not_swapped)
                    .hint("Leave --back out to make it live; svc-snap discard removes it."));
            }
            return Ok((plan::forward(call, server, scope, set, args.how)?, Task::Begin(given.begun)));
        }
        (Begun::Swapped(document), recorded) => {
            let back = if given.failed.is_none() { !document.back } else { document.back || args.back };
            let here = || Swapped { cluster_uuid: server.cluster_uuid.clone(), ..document.clone() };
            (recorded.unwrap_or_else(here), back, given.failed.is_none() || args.back || !is_recorded)
        }
        (_, Some(recorded)) => (recorded, args.back, args.back),
        (Begun::InPlace(_), None) => return Err(record::not_verified(call, given.run.as_str())),
    };
    if latest.back == back {
        let is_same_command = matches!(given.begun, Begun::Copies(_)) && !args.back;
        refuse_flags(call, server, &latest, args.how, is_same_command)?;
        Ok((latest, Task::Resume))
    } else if may_go_back {
        take_back(call, server, scope, latest, args.how)
    } else {
        Err(taken_back(call, server, &latest))
    }
}

/// What takes back `before`: what was exchanged is exchanged again, and what was not is undone.
fn take_back(call: &Call, server: &Server, scope: &Scope, before: Swapped, how: SwapOptions) -> Result<(Swapped, Task), Failure> {
    if !before.finished && phases::phase(server, &before)? == Phase::Before {
        return Ok((phases::undone(server, &before)?, Task::Undo(before)));
    }
    Ok((plan::backward(call, server, scope, &before, how)?, Task::Begin(Begun::Swapped(before))))
}

fn taken_back(call: &Call, server: &Server, recorded: &Swapped) -> Failure {
    let failure =
        Failure::refused("name_in_use", format!("The swap of the run {} was reversed, or is being reversed.", recorded.run));
    if recorded.finished {
        failure.hint("Swap the document of the swap back once more, or stage the snapshot again under another --run-id.")
    } else {
        failure.hint(format!("{} finishes it.", server.command(call, &["swap", "--run", &recorded.run])))
    }
}
