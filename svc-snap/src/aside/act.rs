//! An aside carried out: some tens of indices at a time, blocked for writes no longer than their clones take. What is being done
//! is noted before it is, so that a live index which a killed call left blocked is found by the next one.

use svc_step::progress::Unit;
use svc_step::{Call, Failure, Status, swaps};

use super::Before;
use crate::bring;
use crate::index::act::Act;
use crate::index::clone::{same_count, wait_whole};
use crate::index::count::counts;
use crate::index::{batches, look};
use crate::runs::aside::{Aside, AsideIndex, AsideState, blocked, release, releases};
use crate::runs::{self, ASIDE};
use crate::server::Server;

/// The requests that set these indices aside.
pub(super) fn requests(indices: &[AsideIndex]) -> Vec<Act> {
    let together = batches(indices, names).into_iter().filter_map(|places| indices.get(places));
    let requests = together.flat_map(|some| {
        let clones = some.iter().map(AsideIndex::clone_it);
        block(some).into_iter().chain(clones).chain(releases(writable(some))).collect::<Vec<_>>()
    });
    requests.collect()
}

/// The names that are spoken of when it is set aside.
fn names(one: &AsideIndex) -> Vec<&str> {
    vec![&one.index, &one.aside]
}

/// Those that take writes, and none while they are cloned.
fn writable(some: &[AsideIndex]) -> impl Iterator<Item = &String> {
    some.iter().filter(|one| one.takes_writes()).map(|one| &one.index)
}

/// Blocks them for their clones.
fn block(some: &[AsideIndex]) -> Option<Act> {
    let names: Vec<String> = writable(some).cloned().collect();
    (!names.is_empty()).then_some(Act::Block(names))
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
    for places in batches(&aside.indices, names) {
        progress.set(places.start as u64, total);
        call.check()?;
        if let Some(some) = aside.indices.get_mut(places) {
            together(call, server, some)?;
        }
    }
    Ok(())
}

/// Sets some tens of indices aside, all of them without writes until the last is cloned.
fn together(call: &Call, server: &Server, some: &mut [AsideIndex]) -> Result<(), Failure> {
    some.iter_mut().for_each(|one| one.state = AsideState::Blocked);
    if let Some(block) = block(some) {
        block.send(call, server)?;
    }
    for at in 0..some.len() {
        clone_one(call, server, some, at)?;
    }
    let all: Vec<&str> = some.iter().flat_map(names).collect();
    let (live, copies): (Vec<&str>, Vec<&str>) = some.iter().map(|one| (one.index.as_str(), one.aside.as_str())).unzip();
    wait_whole(server, &copies, || call.check())?;
    server.refresh(&live.join(","))?;
    let counts = counts(server, &all)?;
    let of = |name: &str| counts.get(name).copied().unwrap_or_default();
    some.iter().try_for_each(|one| same_count(&one.index, of(&one.index), &one.aside, of(&one.aside)))?;
    let held: Vec<u64> = live.iter().map(|name| of(name)).collect();
    release(call, server, writable(some))?;
    let found = look(server, &copies)?;
    for (one, docs_count) in some.iter_mut().zip(held) {
        one.uuid = found.get(&one.aside).map(|index| index.uuid.clone());
        one.docs_count = Some(docs_count);
        one.state = AsideState::Proven;
    }
    Ok(())
}

/// What was refused, and what was not asked for, is not ours to remove: a call of the same run on another host may have it.
fn clone_one(call: &Call, server: &Server, some: &mut [AsideIndex], at: usize) -> Result<(), Failure> {
    let Some(one) = some.get(at) else { return Ok(()) };
    let (ended, is_asked) = match call.check() {
        Ok(()) => (one.clone_it().send(call, server), true),
        Err(failure) => (Err(failure), false),
    };
    let Err(failure) = ended else { return Ok(()) };
    let is_ours = is_asked && failure.status == Status::Timeout;
    if let Some(others) = some.get_mut(if is_ours { at + 1 } else { at }..)
        && release(call, server, writable(others)).is_ok()
    {
        others.iter_mut().for_each(|one| one.state = AsideState::Planned);
    }
    Err(failure)
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
    release(call, server, names)?;
    released.extend_from_slice(names);
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
