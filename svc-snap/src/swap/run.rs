//! A swap begun, gone on with or taken back, by what it is given and what is noted of its run.

use svc_step::effects::Changed;
use svc_step::{Call, Failure, StepResult, Stopped, swaps};

use super::act::Swapping;
use super::offer::{Offer, not_proven};
use super::ways::{backward, forward};
use super::{HowArgs, SwapArgs};
use crate::bring::streams::{self, StreamBack};
use crate::guard;
use crate::index::copies::Way;
use crate::index::policy;
use crate::runs::given::Given;
use crate::runs::swapped::{SwapIndex, Swapped};
use crate::runs::{self, Begun};
use crate::server::Server;
use crate::throttle::Left;

/// What is to be done.
struct Task {
    swapped: Swapped,
    /// What is noted of the run until a new swap has an effect; `None` where one that was planned before is gone on with.
    before: Option<Begun>,
}

impl Task {
    const fn go_on(swapped: Swapped) -> Self {
        Self { swapped, before: None }
    }

    const fn begin(swapped: Swapped, before: Begun) -> Self {
        Self { swapped, before: Some(before) }
    }
}

pub(crate) fn run(args: &SwapArgs, call: &Call) -> StepResult<Swapped> {
    let given = Given::read(&args.given, call)?;
    let server = Server::connect(&args.connection, call)?;
    args.other.check(given.begun.cluster_uuid(), &server.cluster_uuid, server.url(), "--url (SVC_SEARCH_URL)")?;
    let _lock = guard::lock(call, &server, args.dry.dry_run)?;
    let run = given.run.clone();
    let Task { mut swapped, before } = task(args, call, &server, given)?;
    if args.unused && before.is_none() {
        return Err(clones_used(&swapped).into());
    }
    let names = swapped.live_names();
    guard::refuse_outside(&args.scope.scope, names.iter().copied())?;
    if before.is_none() && swapped.is_finished() {
        return Ok(swapped);
    }
    runs::refuse_unfinished_swaps(call, &server, &run, &names)?;
    if args.dry.dry_run {
        return Ok(swapped);
    }
    let left = Left::find(call, &server, None)?;
    // From here on a signal does not cut it.
    call.check().map_err(|failure| Stopped::with(failure, swapped.clone()))?;
    left.put_back(call, &server);
    let opened = match &before {
        Some(Begun::Staged(staged)) => Offer::staged(staged).and_then(|offer| offer.open(call, &server)),
        _ => Ok(()),
    };
    let ended = opened.and_then(|()| execute(call, &server, &mut swapped));
    if let (Err(_), Some(before), Changed::No) = (&ended, &before, call.effects().changed()) {
        before.note_end(call, &run);
    }
    ended.map_err(|failure| Stopped::with(failure, swapped.clone()))?;
    Ok(swapped)
}

/// A swap that is not finished is finished; the document of a finished one goes back; `--back` goes back in any case. What
/// is noted of the run on this host is newer than any document.
fn task(args: &SwapArgs, call: &Call, server: &Server, given: Given) -> Result<Task, Failure> {
    let noted = match runs::noted(call, &given.run)? {
        Some(Begun::Swapped(noted)) if noted.cluster_uuid == server.cluster_uuid => Some(noted),
        _ => None,
    };
    let take_back = |before: Swapped| {
        let swapped = backward(call, server, &before, args.how)?;
        Ok(Task::begin(swapped, Begun::Swapped(before)))
    };
    let (offer, proven) = match &given.begun {
        Begun::Staged(staged) => (Offer::staged(staged)?, staged.is_proven()),
        Begun::Aside(aside) => (Offer::aside(aside)?, aside.is_proven()),
        Begun::Swapped(spoken_of) => {
            let spoken_of = spoken_of.clone();
            let back = if given.is_ok { !spoken_of.back } else { spoken_of.back || args.back };
            let known_here = noted.is_some();
            let latest = noted.unwrap_or(Swapped { cluster_uuid: server.cluster_uuid.clone(), ..spoken_of });
            return if latest.back == back {
                refuse_other_plan(&latest, args.how, false)?;
                Ok(Task::go_on(latest))
            } else if given.is_ok || args.back || !known_here {
                take_back(latest)
            } else {
                Err(taken_back(&latest))
            };
        }
    };
    match noted {
        None if !proven => Err(not_proven(&given.run)),
        None if args.back => {
            Err(Failure::usage("not_swapped", "What was staged or set aside was never swapped, so there is no way back.")
                .hint("Leave --back out to make it live; svc-snap unstage removes it."))
        }
        None => {
            let swapped = forward(call, server, &args.scope.scope, &offer, args.how)?;
            Ok(Task::begin(swapped, given.begun))
        }
        Some(noted) if noted.back == args.back => {
            refuse_other_plan(&noted, args.how, !args.back)?;
            Ok(Task::go_on(noted))
        }
        Some(noted) if args.back => take_back(noted),
        Some(noted) => Err(taken_back(&noted)),
    }
}

/// A swap that is gone on with keeps to its plan. Where the command is the one that began it (`same`), its flags are the
/// plan's; elsewhere they need not be said again.
///
/// # Errors
/// They ask for something else (2).
pub(crate) fn refuse_other_plan(planned: &Swapped, how: HowArgs, same: bool) -> Result<(), Failure> {
    let differ = |asked: bool, planned: bool| if same { asked != planned } else { asked && !planned };
    let flags = [("--exact", how.exact, planned.exact), ("--drop-old", how.drop_old, planned.drop_old)];
    let differing: Vec<&str> =
        flags.into_iter().filter(|(_, asked, planned)| differ(*asked, *planned)).map(|(flag, ..)| flag).collect();
    if differing.is_empty() {
        return Ok(());
    }
    Err(Failure::usage(
        "plan_differs",
        format!("The swap of the run {} was planned otherwise: {}.", planned.run, differing.join(", ")),
    )
    .hint(format!("svc-snap swap --run {} goes on with it as it was planned.", planned.run)))
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

/// Notes the plan, carries it out, and notes how it ended.
///
/// # Errors
/// Whatever stopped it; the states say how things stand.
pub(crate) fn execute(call: &Call, server: &Server, swapped: &mut Swapped) -> Result<(), Failure> {
    let way = Way { run: runs::named(&swapped.run)?, back: swapped.back };
    swaps::write(call, &way.run, "swap", swapped)?;
    let swapping = Swapping { call, server, way: &way };
    let ended = swapping.carry_out(swapped).and_then(|()| {
        let policy = |item: &SwapIndex| item.becomes.as_ref().and_then(|becomes| becomes.policy.clone());
        policy::attach(call, server, swapped.indices.iter().map(|item| (item.index.as_str(), policy(item))));
        restore_streams(&swapping, swapped)
    });
    runs::note_end(call, &way.run, "swap", swapped);
    ended
}

/// The data streams come last: what is live of them cannot be kept.
fn restore_streams(swapping: &Swapping<'_>, swapped: &mut Swapped) -> Result<(), Failure> {
    let Swapping { call, server, way } = swapping;
    if swapped.streams.is_empty() {
        return Ok(());
    }
    let mut noted = swapped.clone();
    let mut note = |streams: &[StreamBack]| {
        noted.streams = streams.to_vec();
        swaps::write(call, &way.run, "swap", &noted)
    };
    streams::restore(call, server, &mut swapped.streams, &mut note).map_err(|failure| {
        let failure = if failure.signal.is_some() { failure.retryable(true) } else { failure };
        swapping.cut(failure)
    })
}
