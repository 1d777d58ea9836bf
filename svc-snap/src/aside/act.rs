//! An aside carried out: index by index, each blocked for writes no longer than its clone takes. What is being done is noted
//! before it is, so that a live index which a killed call left blocked is found by the next one.

use svc_step::progress::Unit;
use svc_step::{Call, Failure, Status, swaps};

use super::Before;
use crate::bring;
use crate::index::act::Act;
use crate::index::clone::{same_count, wait_whole};
use crate::index::count::count;
use crate::index::look;
use crate::runs::aside::{Aside, AsideIndex, AsideState, blocked, release};
use crate::runs::{self, ASIDE};
use crate::server::Server;

/// The requests that set one index aside.
pub(super) fn requests(one: &AsideIndex) -> Vec<Act> {
    [one.block(), Some(one.clone_it()), one.unblock()].into_iter().flatten().collect()
}

/// Clears away what earlier calls have left, and sets all of them aside; a failure or a signal leaves nothing behind, neither a
/// copy nor a block.
///
/// # Errors
/// Whatever stopped it.
pub(super) fn set_aside(call: &Call, server: &Server, aside: &mut Aside, before: Before) -> Result<(), Failure> {
    call.check()?;
    for (cut, names) in before.cut {
        release_cut(call, server, cut, &names, &mut aside.released)?;
    }
    bring::remove(call, server, &before.leftovers.iter().map(String::as_str).collect::<Vec<_>>())?;
    call.effects().stays();
    // Noted once and as a whole: a call that finds it looks which of them are blocked or there.
    let mut noted = aside.clone();
    noted.indices.iter_mut().for_each(|one| one.state = AsideState::Blocked);
    swaps::write(call, call.run_id(), "aside", &noted)?;
    match each(call, server, aside) {
        Ok(()) => {
            runs::note_end(call, call.run_id(), "aside", aside);
            Ok(())
        }
        Err(failure) => Err(take_back(call, server, aside, failure)),
    }
}

fn each(call: &Call, server: &Server, aside: &mut Aside) -> Result<(), Failure> {
    let progress = call.progress("aside", Unit::Items("indices"));
    let total = aside.indices.len() as u64;
    for (at, one) in aside.indices.iter_mut().enumerate() {
        progress.set(at as u64, total);
        call.check()?;
        one.state = AsideState::Blocked;
        one_aside(call, server, one)?;
    }
    Ok(())
}

fn one_aside(call: &Call, server: &Server, one: &mut AsideIndex) -> Result<(), Failure> {
    if let Some(block) = one.block() {
        block.send(call, server)?;
    }
    if let Err(failure) = one.clone_it().send(call, server) {
        // What was refused is not ours to remove: a call of the same run on another host may have it.
        let is_refused = failure.status != Status::Timeout;
        if is_refused && one.unblock().is_none_or(|unblock| unblock.send(call, server).is_ok()) {
            one.state = AsideState::Planned;
        }
        return Err(failure);
    }
    wait_whole(server, &one.aside, || call.check())?;
    server.refresh(&one.index)?;
    let docs_count = count(server, &one.index)?;
    same_count(&one.index, docs_count, &one.aside, count(server, &one.aside)?)?;
    if let Some(unblock) = one.unblock() {
        unblock.send(call, server)?;
    }
    one.uuid = look(server, &[&one.aside])?.get(&one.aside).map(|index| index.uuid.clone());
    one.docs_count = Some(docs_count);
    one.state = AsideState::Proven;
    Ok(())
}

/// Removes the copies and takes the blocks off.
fn take_back(call: &Call, server: &Server, aside: &mut Aside, mut failure: Failure) -> Failure {
    let begun = aside.indices.iter().filter(|one| one.state != AsideState::Planned);
    let names: Vec<&str> = begun.map(|one| one.aside.as_str()).collect();
    let taken_back = blocked(server, aside)
        .and_then(|blocked| release(call, server, &blocked))
        .and_then(|()| bring::remove(call, server, &names).map(drop));
    match taken_back {
        Ok(()) => {
            let begun = aside.indices.iter_mut().filter(|one| one.state != AsideState::Planned);
            begun.for_each(|one| one.state = AsideState::Removed);
            call.effects().undone();
            if let Err(error) = swaps::remove(call, call.run_id()) {
                failure.causes.push(error.message);
            }
        }
        Err(error) => {
            failure.causes.push(format!("What was begun could not be taken back: {error}"));
            failure.hint =
                Some(format!("svc-snap unstage --run {} takes the blocks off and removes what is left of it.", aside.run));
        }
    }
    failure
}

/// Every aside that is noted here and was not finished, of whatever run, with the live indices that it left without writes:
/// their calls are dead, since the lock is ours.
///
/// # Errors
/// The server refuses or does not answer.
pub(super) fn cut(call: &Call, server: &Server) -> Result<Vec<(Aside, Vec<String>)>, Failure> {
    let noted = swaps::all(call, &[ASIDE]).into_iter().filter_map(|received| received.result::<Aside>().ok());
    let is_cut = |aside: &Aside| {
        aside.cluster_uuid == server.cluster_uuid && aside.indices.iter().any(|one| one.state == AsideState::Blocked)
    };
    noted.filter(is_cut).map(|aside| blocked(server, &aside).map(|names| (aside, names))).collect()
}

fn release_cut(
    call: &Call,
    server: &Server,
    mut aside: Aside,
    names: &[String],
    released: &mut Vec<String>,
) -> Result<(), Failure> {
    for name in names {
        Act::Unblock(name.clone()).send(call, server)?;
        released.push(name.clone());
    }
    if !names.is_empty() {
        call.warn(
            "block_taken_off",
            format!("The aside of the run {} was cut and had left these without writes: {}.", aside.run, names.join(", ")),
        );
    }
    let blocked = aside.indices.iter_mut().filter(|one| one.state == AsideState::Blocked);
    blocked.for_each(|one| one.state = AsideState::Planned);
    runs::note_end(call, &runs::named(&aside.run)?, "aside", &aside);
    Ok(())
}
