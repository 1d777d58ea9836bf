//! `swap`: what was staged becomes live, all of it or nothing; what was live is kept. A swap that was cut is finished; the document
//! of a finished one, swapped again, goes back.

use svc_step::common::DryRun;
use svc_step::from::OtherServer;
use svc_step::swaps::GivenArgs;
use svc_step::{Call, Failure, StepResult, Stopped};

use crate::client::Server;
use crate::client::auth::Connection;
use crate::guard;
use crate::index::scope::{Scope, ScopeArg};
use crate::restore::plan::{self, HowArgs, refuse_other_plan};
use crate::restore::record::given::Given;
use crate::restore::record::swapped::Swapped;
use crate::restore::record::{self, Begun};
use crate::restore::source::{SwapSource, not_proven};
use crate::restore::swap::{self, Ended, Stand};
use crate::throttle::Left;

/// Arguments of `svc-snap swap`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  svc-snap swap --from staged.json > swapped.json    what was staged becomes live
  svc-snap swap --from clone.json                    what was cloned becomes live
  svc-snap swap --from swapped.json                  and back again
  svc-snap swap --run 20261120t020003z-hand --back   back, without the document
  svc-snap swap --run 20261120t020003z-hand          finish a swap that was cut")]
pub struct SwapArgs {
    #[command(flatten)]
    given: GivenArgs,
    /// Put back what the swap replaced, whether it is finished or not
    #[arg(long)]
    back: bool,
    /// Fail (3) where a swap has begun to make the copies live before: what is live is written to
    #[arg(long, conflicts_with = "back")]
    unused: bool,
    #[command(flatten)]
    how: HowArgs,
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
struct Task {
    swapped: Swapped,
    kind: Kind,
}

enum Kind {
    /// A swap that was planned before is gone on with.
    Resume,
    /// A new swap. This is noted of the run until it has an effect.
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
    let Task { mut swapped, kind } = task(args, call, &server, given)?;
    if args.unused && matches!(kind, Kind::Resume) {
        return Err(clones_used(&swapped).into());
    }
    let names = swapped.live_names();
    guard::refuse_outside(&args.scope.scope, names.iter().copied())?;
    if matches!(kind, Kind::Resume) && swapped.is_finished() {
        return Ok(swapped);
    }
    record::refuse_unfinished_swaps(call, &server, &run, &names)?;
    if args.dry.dry_run {
        return Ok(swapped);
    }
    let left = Left::find(call, &server, None)?;
    // From here on a signal does not cut it.
    call.check().map_err(|failure| Stopped::with(failure, swapped.clone()))?;
    if let Kind::Undo(before) = &kind {
        let ended = swap::take_back(call, &server, before, &mut swapped);
        left.put_back(call, &server);
        return match ended {
            Ok(()) => Ok(swapped),
            Err(failure) => Err(Stopped::with(failure, swapped)),
        };
    }
    let ended = swap::execute(call, &server, &mut swapped);
    // Not before: clients would create indices of the live names where the swap was cut behind its exchange.
    left.put_back(call, &server);
    match (ended, kind) {
        (Ended::Finished, _) => Ok(swapped),
        (Ended::Undone(failure), kind) => {
            if let Kind::Begin(before) = kind {
                before.note_end(call, &run);
            }
            Err(Stopped::with(failure, swapped))
        }
        (Ended::Unfinished(failure), _) => Err(Stopped::with(failure, swapped)),
    }
}

/// A swap that is not finished is finished; the document of a finished one goes back; `--back` goes back in any case. What
/// is noted of the run on this host is newer than any document.
fn task(args: &SwapArgs, call: &Call, server: &Server, given: Given) -> Result<Task, Failure> {
    let noted = match record::noted(call, &given.run)? {
        Some(Begun::Swapped(noted)) if noted.cluster_uuid == server.cluster_uuid => Some(noted),
        _ => None,
    };
    let scope = &args.scope.scope;
    let (source, proven) = match &given.begun {
        Begun::Staged(staged) => (SwapSource::staged(staged)?, staged.is_proven()),
        Begun::Cloned(clone) => (SwapSource::cloned(clone)?, clone.is_proven()),
        Begun::Swapped(spoken_of) => {
            let spoken_of = spoken_of.clone();
            let back = if given.is_ok { !spoken_of.back } else { spoken_of.back || args.back };
            let known_here = noted.is_some();
            let latest = noted.unwrap_or(Swapped { cluster_uuid: server.cluster_uuid.clone(), ..spoken_of });
            return if latest.back == back {
                refuse_other_plan(&latest, args.how, false)?;
                Ok(Task { swapped: latest, kind: Kind::Resume })
            } else if given.is_ok || args.back || !known_here {
                take_back(call, server, scope, latest, args.how)
            } else {
                Err(taken_back(&latest))
            };
        }
    };
    match noted {
        None if !proven => Err(not_proven(&given.run)),
        None if args.back => {
            Err(Failure::usage("not_swapped", "What was staged or cloned was never swapped, so there is no way back.")
                .hint("Leave --back out to make it live; svc-snap discard removes it."))
        }
        None => {
            let swapped = plan::forward(call, server, scope, &source, args.how)?;
            Ok(Task { swapped, kind: Kind::Begin(given.begun) })
        }
        Some(noted) if noted.back == args.back => {
            refuse_other_plan(&noted, args.how, !args.back)?;
            Ok(Task { swapped: noted, kind: Kind::Resume })
        }
        Some(noted) if args.back => take_back(call, server, scope, noted, args.how),
        Some(noted) => Err(taken_back(&noted)),
    }
}

/// What takes back `before`: what was exchanged is exchanged again, and what was not is undone.
fn take_back(call: &Call, server: &Server, scope: &Scope, before: Swapped, how: HowArgs) -> Result<Task, Failure> {
    if !before.finished && swap::stand(server, &before)? == Stand::Before {
        return Ok(Task { swapped: swap::undone(server, &before)?, kind: Kind::Undo(before) });
    }
    let swapped = plan::backward(call, server, scope, &before, how)?;
    Ok(Task { swapped, kind: Kind::Begin(Begun::Swapped(before)) })
}

/// A swap of these copies is noted: from its first request on, any of them may have been live.
fn clones_used(noted: &Swapped) -> Failure {
    Failure::refused("clones_used", format!("A swap of the run {} has made copies live before, or was about to.", noted.run))
        .hint("Stage the snapshot: svc-snap stage --from DOCUMENT; or leave --unused out, to take the copies as they are now.")
}

fn taken_back(noted: &Swapped) -> Failure {
    let failure =
        Failure::refused("swap_taken_back", format!("The swap of the run {} was taken back, or is being so.", noted.run));
    if noted.is_finished() {
        failure.hint("Swap the document of the swap back once more, or stage the snapshot again under another --run-id.")
    } else {
        failure.hint(format!("svc-snap swap --run {} finishes it.", noted.run))
    }
}
