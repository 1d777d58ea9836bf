//! How far a swap has come, as the server shows it, and its undoing before its exchange.

use std::collections::BTreeMap;

use svc_step::{Action, Call, Failure, RunId, Status, swaps};

use crate::client::Server;
use crate::index::clone::{LiveClone, again};
use crate::index::{Act, Found, SkipReason, Skipped, clone, copies, get_indices, refuse_any};
use crate::restore::{Begun, SwapIndex, SwapState, Swapped, record};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// What was live is live.
    Before,
    /// It is exchanged and not finished.
    Exchanged,
    /// It is exchanged, and no copy is left that was to become live.
    After,
}

/// How far it has come, once the server has done all that it had been asked before: an exchange whose answer was lost may be among that.
pub(crate) fn phase(server: &Server, swapped: &Swapped) -> Result<Phase, Failure> {
    clone::wait_for_requests(server)?;
    Ok(phase_of(swapped, &get_indices(server, swapped.names())?))
}

pub(super) fn phase_of(swapped: &Swapped, found: &Found) -> Phase {
    let is_left = |item: &SwapIndex| item.is_old(found) || item.source_in(found).is_some();
    let is_marked = |item: &SwapIndex| {
        let source = item.source.as_ref().is_some_and(|source| swapped.is_marked(found, &source.name));
        source || swapped.is_marked(found, &item.index)
    };
    if swapped.indices.iter().any(is_marked) {
        Phase::Exchanged
    } else if swapped.indices.iter().any(is_left) {
        Phase::Before
    } else {
        Phase::After
    }
}

pub(super) fn set_states(swapped: &mut Swapped, found: &Found) {
    let marker = swapped.marker();
    for item in &mut swapped.indices {
        let live = found.get(&item.index).filter(|live| !live.metadata.aliases.contains_key(&marker));
        let is_new = item.source.is_some() && live.is_some() && item.source_in(found).is_none();
        item.state = match item.is_old(found) {
            true => SwapState::Old,
            false if is_new => SwapState::New,
            false => SwapState::Absent,
        };
    }
}

/// Refuses to continue if a swap has begun and is not finished (3): its copies may be all that there is of some indices.
pub(crate) fn refuse_unfinished(call: &Call, server: &Server, swapped: &Swapped) -> Result<(), Failure> {
    if swapped.finished {
        return Ok(());
    }
    let found = get_indices(server, swapped.names())?;
    let is_untouched = match phase_of(swapped, &found) {
        // Copies alone hinder no step, unless they are what an unfinished swap has left that is to be taken back.
        Phase::Before => {
            let is_copy = |act: &Act| matches!(act, Act::Delete(_));
            swapped.discarded.is_empty() && clone::undoing(&live_clones(swapped), &found).iter().all(is_copy)
        }
        Phase::Exchanged => false,
        Phase::After => swapped.indices.is_empty() && swapped.direct.is_empty(),
    };
    if is_untouched { Ok(()) } else { Err(not_finished(call, server, &swapped.run, swapped.back)) }
}

fn not_finished(call: &Call, server: &Server, run: &str, back: bool) -> Failure {
    let hint = format!("On the host where it began: {}", hint_to_finish(call, server, run, back));
    Failure::refused("swap_unfinished", format!("The swap of the run {run} is not finished.")).hint(hint)
}

/// What ends an unfinished swap. One that goes back is not taken back itself: `--back` finishes it.
fn hint_to_finish(call: &Call, server: &Server, run: &str, back: bool) -> String {
    let swap = ["swap", "--run", run, "--back"];
    let take_back = if back { String::new() } else { format!("; {} takes it back", server.command(call, &swap)) };
    format!("{} finishes it{take_back}.", server.command(call, &swap[..3]))
}

/// Refuses to touch indices whose swap or clone by another run is not finished (3).
pub(crate) fn refuse_unfinished_runs(
    call: &Call,
    server: &Server,
    run: &RunId,
    touches: impl Fn(&str) -> bool,
) -> Result<(), Failure> {
    refuse_unfinished_swaps(call, server, run, &touches)?;
    refuse_unfinished_clones(call, server, touches)
}

/// Refuses to touch indices that a swap of another run has begun with and not finished, on this host or, once exchanged, on any (3).
pub(crate) fn refuse_unfinished_swaps(
    call: &Call,
    server: &Server,
    run: &RunId,
    touches: impl Fn(&str) -> bool,
) -> Result<(), Failure> {
    let marked = match copies::marked(server) {
        // Whoever may not list all indices, for lack of a right or for a block of their metadata, has the records.
        Err(failure) if failure.status == Status::Refused => BTreeMap::new(),
        marked => marked?,
    };
    for ((other, name), back) in marked {
        if other != run.as_str() && (touches(&name) || copies::is_copy_of(&name, &other, &touches)) {
            return Err(not_finished(call, server, &other, back));
        }
    }
    let swaps = swaps::all(call, &[record::SWAP]).into_iter().filter_map(|received| received.result::<Swapped>().ok());
    let concerns = |swapped: &Swapped| {
        let is_other = swapped.cluster_uuid == server.cluster_uuid && swapped.run != run.as_str();
        is_other && swapped.live_names().into_iter().any(&touches)
    };
    swaps.filter(concerns).try_for_each(|swapped| refuse_unfinished(call, server, &swapped))
}

/// Refuses indices without writes that a clone has blocked, which is in progress or was interrupted (3): the block is not theirs.
fn refuse_unfinished_clones(call: &Call, server: &Server, touches: impl Fn(&str) -> bool) -> Result<(), Failure> {
    for set in record::unfinished_clones(call, server) {
        let mut blocked = set.left_blocked(server)?;
        blocked.retain(|index| touches(index));
        let hint = format!("If it does not run any more, {} removes the write blocks.", copies::discard(call, &set.run));
        refuse_any("index_blocked", "A clone that is not finished has blocked writes to these", &blocked, &hint)?;
    }
    Ok(())
}

/// Refuses what a restore has put under live names, and has not opened or was killed before it did (3): the block is not theirs.
pub(crate) fn refuse_unopened(call: &Call, server: &Server, touches: impl Fn(&str) -> bool) -> Result<(), Failure> {
    let all = swaps::all(call, &[record::STAGE, record::SWAP]).into_iter().filter_map(|received| Begun::read(&received).ok());
    for begun in all.filter(|begun| begun.cluster_uuid() == server.cluster_uuid) {
        let mut unopened = begun.unopened(server)?;
        unopened.retain(|index| touches(index));
        let hint = match &begun {
            Begun::Swapped(swapped) => hint_to_finish(call, server, &swapped.run, swapped.back),
            other => format!("If it does not run any more, {} removes them.", copies::discard(call, other.of().0)),
        };
        refuse_any("index_blocked", "A restore that is not finished has blocked writes to these", &unopened, &hint)?;
    }
    Ok(())
}

/// The result of taking back a swap that has not come to its exchange: there is nothing to swap.
pub(crate) fn undone(server: &Server, before: &Swapped) -> Result<Swapped, Failure> {
    let skipped = before.indices.iter().map(|item| Skipped { name: item.index.clone(), reason: SkipReason::NotSwapped });
    Ok(Swapped {
        back: !before.back,
        indices: Vec::new(),
        direct: Vec::new(),
        discarded: Vec::new(),
        skipped: skipped.collect(),
        plan: undoing(server, before)?.iter().map(Act::action).collect::<Vec<Action>>(),
        ..before.clone()
    })
}

/// The requests; what was restored directly for the swap goes too.
fn undoing(server: &Server, before: &Swapped) -> Result<Vec<Act>, Failure> {
    let found = get_indices(server, before.names())?;
    let mut acts = clone::undoing(&live_clones(before), &found);
    let unopened = before.direct.iter().filter(|one| one.is_unopened(&found));
    acts.extend(Act::each(unopened.map(|one| &one.index), Act::Delete));
    Ok(acts)
}

/// Undoes `before`, which has not come to its exchange, and records that it was taken back; after a failure the same command resumes it.
pub(crate) fn take_back(call: &Call, server: &Server, before: &Swapped, undone: &mut Swapped) -> Result<(), Failure> {
    let undo = || {
        undoing(server, before)?.iter().try_for_each(|act| clone::send_or_each(call, server, act))?;
        get_indices(server, before.names())
    };
    let found = again(undo).map_err(|failure| unfinished(call, server, before, failure))?;
    let _ = clone::review_last(call, &before.run, &clone::last_copies(&live_clones(before), &found));
    undone.finished = true;
    record::write_end(call, &before.run, "swap", undone);
    Ok(())
}

/// Every failure of an unfinished swap names the command that resumes it.
pub(crate) fn unfinished(call: &Call, server: &Server, swapped: &Swapped, failure: Failure) -> Failure {
    failure.further_hint(format!("When it is fixed, {}", hint_to_finish(call, server, &swapped.run, swapped.back)))
}

/// What is live, as it is blocked and cloned. The clone of an unfinished swap that is taken back is not.
pub(super) fn live_clones(swapped: &Swapped) -> Vec<LiveClone<'_>> {
    let clones = swapped.indices.iter().filter_map(|item| {
        let (uuid, was) = (item.live_uuid.as_deref()?, item.was.as_ref()?);
        Some(LiveClone { index: &item.index, uuid, copy: item.previous.as_deref(), was })
    });
    clones.collect()
}
