//! How far a swap has come, as the server shows it, and its undoing where it has not come to its exchange.

use svc_step::{Call, Failure};

use super::record;
use super::requests::live_clones;
use super::result::{SwapIndex, Swapped};
use crate::client::Server;
use crate::index::act::Act;
use crate::index::clone::{self, again};
use crate::index::select::{PassedOver, Reason};
use crate::index::{Found, look};

/// How far a swap has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// What was live is live.
    Before,
    /// It is exchanged and not finished.
    Exchanged,
    /// It is exchanged, and no copy is left that was to become live.
    After,
}

/// How far a swap has come on the server.
pub(crate) fn phase(server: &Server, swapped: &Swapped) -> Result<Phase, Failure> {
    Ok(phase_of(swapped, &look(server, &swapped.names())?))
}

pub(super) fn phase_of(swapped: &Swapped, found: &Found) -> Phase {
    let is_left = |item: &SwapIndex| item.is_old(found) || item.source_in(found).is_some();
    if swapped.indices.iter().any(|item| item.names().any(|name| swapped.is_marked(found, name))) {
        Phase::Exchanged
    } else if swapped.indices.iter().any(is_left) {
        Phase::Before
    } else {
        Phase::After
    }
}

/// Refuses to go on where a swap has begun and is not finished: its copies may be all that there is of some indices.
/// Errors: It is so (3); the server does not answer, or refuses.
pub(crate) fn refuse_unfinished(server: &Server, swapped: &Swapped) -> Result<(), Failure> {
    if swapped.finished {
        return Ok(());
    }
    let found = look(server, &swapped.names())?;
    let is_untouched = match phase_of(swapped, &found) {
        // Copies alone are in nobody's way, unless they are what an unfinished swap has left that is to be taken back.
        Phase::Before => {
            let is_copy = |act: &Act| matches!(act, Act::Delete(_));
            swapped.discarded.is_empty() && clone::undoing(&live_clones(swapped), &found).iter().all(is_copy)
        }
        Phase::Exchanged => false,
        Phase::After => swapped.indices.is_empty() && swapped.direct.is_empty(),
    };
    if is_untouched {
        return Ok(());
    }
    Err(Failure::refused("swap_unfinished", format!("The swap of the run {} is not finished.", swapped.run))
        .hint(format!("svc-snap swap --run {0} finishes it; svc-snap swap --run {0} --back takes it back.", swapped.run)))
}

/// The result of taking back a swap that has not come to its exchange: there is nothing to swap.
pub(crate) fn undone(server: &Server, before: &Swapped) -> Result<Swapped, Failure> {
    let skipped = before.indices.iter().map(|item| PassedOver { name: item.index.clone(), reason: Reason::NotSwapped });
    Ok(Swapped {
        back: !before.back,
        indices: Vec::new(),
        direct: Vec::new(),
        discarded: Vec::new(),
        skipped: skipped.collect(),
        plan: undoing(server, before)?.iter().map(Act::action).collect(),
        ..before.clone()
    })
}

/// The requests; what was restored directly for the swap goes too.
fn undoing(server: &Server, before: &Swapped) -> Result<Vec<Act>, Failure> {
    let mut names = before.names();
    names.extend(before.direct.iter().map(|one| one.index.as_str()));
    let found = look(server, &names)?;
    let mut acts = clone::undoing(&live_clones(before), &found);
    let unopened = before.direct.iter().filter(|one| one.is_unopened(&found));
    acts.extend(Act::each(unopened.map(|one| one.index.as_str()), Act::Delete));
    Ok(acts)
}

/// Undoes `before`, which has not come to its exchange, and records that it was taken back.
/// Errors: The server does not answer, or refuses: the same command resumes it.
pub(crate) fn take_back(call: &Call, server: &Server, before: &Swapped, undone: &mut Swapped) -> Result<(), Failure> {
    let undo = || undoing(server, before)?.iter().try_for_each(|act| clone::send_or_each(call, server, act));
    again(undo).map_err(|failure| unfinished(&before.run, failure))?;
    undone.finished = true;
    record::write_end(call, &before.run, "swap", undone);
    Ok(())
}

/// Every failure of an unfinished swap names the command that resumes it.
pub(super) fn unfinished(run: &str, mut failure: Failure) -> Failure {
    let resume =
        format!("When it is fixed, svc-snap swap --run {run} finishes the swap; svc-snap swap --run {run} --back takes it back.");
    failure.hint = Some(failure.hint.map_or(resume.clone(), |hint| format!("{hint} {resume}")));
    failure
}
