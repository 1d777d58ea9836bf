//! An aside carried out: index by index, each blocked for writes no longer than its clone takes. What is being done is noted
//! before it is, so that a live index which a killed call left blocked is found by the next one.

use svc_step::progress::Unit;
use svc_step::{Call, Failure, swaps};

use super::{Aside, AsideIndex, AsideState};
use crate::bring;
use crate::index::count::count;
use crate::index::look;
use crate::runs::{self, ASIDE, Begun};
use crate::server::Server;
use crate::swap::{Act, same_count, wait_whole};

/// The requests that set one index aside.
pub(super) fn requests(one: &AsideIndex) -> Vec<Act> {
    [one.block(), Some(one.clone_it()), one.unblock()].into_iter().flatten().collect()
}

/// Sets all of them aside; a failure or a signal leaves nothing behind, neither a copy nor a block.
///
/// # Errors
/// Whatever stopped it.
pub(super) fn set_aside(call: &Call, server: &Server, aside: &mut Aside, leftovers: &[&str]) -> Result<(), Failure> {
    call.check()?;
    bring::remove(call, server, leftovers)?;
    let ended = each(call, server, aside);
    match ended {
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
    for at in 0..aside.indices.len() {
        progress.set(at as u64, total);
        call.check()?;
        if let Some(one) = aside.indices.get_mut(at) {
            one.state = AsideState::Blocked;
        }
        swaps::write(call, call.run_id(), "aside", aside)?;
        if let Some(one) = aside.indices.get_mut(at) {
            one_aside(call, server, one)?;
        }
    }
    Ok(())
}

fn one_aside(call: &Call, server: &Server, one: &mut AsideIndex) -> Result<(), Failure> {
    if let Some(block) = one.block() {
        act(call, server, &block)?;
    }
    act(call, server, &one.clone_it())?;
    wait_whole(server, &one.aside, || call.check())?;
    server.refresh(&one.index)?;
    let docs_count = count(server, &one.index)?;
    same_count(&one.index, docs_count, &one.aside, count(server, &one.aside)?)?;
    if let Some(unblock) = one.unblock() {
        act(call, server, &unblock)?;
    }
    one.uuid = look(server, &[&one.aside])?.get(&one.aside).map(|index| index.uuid.clone());
    one.docs_count = Some(docs_count);
    one.state = AsideState::Proven;
    Ok(())
}

fn act(call: &Call, server: &Server, act: &Act) -> Result<(), Failure> {
    let (method, path, body) = act.request();
    call.people().detail(&format!("{method} {path}"));
    server.change(call, method, &path, body.as_ref()).map(drop)
}

/// Removes the copies and takes the blocks off.
fn take_back(call: &Call, server: &Server, aside: &mut Aside, mut failure: Failure) -> Failure {
    let begun = aside.indices.iter().filter(|one| one.state != AsideState::Planned);
    let names: Vec<&str> = begun.map(|one| one.aside.as_str()).collect();
    let taken_back = release(call, server, aside).and_then(|_| bring::remove(call, server, &names).map(drop));
    match taken_back {
        Ok(()) => {
            let begun = aside.indices.iter_mut().filter(|one| one.state != AsideState::Planned);
            begun.for_each(|one| one.state = AsideState::Removed);
            // What an earlier, killed call had left blocked takes writes again, whatever came of this one.
            if aside.released.is_empty() {
                call.effects().undone();
            }
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

/// Takes off the blocks that an unfinished aside left, and gives the names of the live indices.
///
/// # Errors
/// The server refuses or does not answer.
pub(crate) fn release(call: &Call, server: &Server, aside: &Aside) -> Result<Vec<String>, Failure> {
    let mut released = Vec::new();
    for one in aside.indices.iter().filter(|one| one.state == AsideState::Blocked) {
        let Some(unblock) = one.unblock() else { continue };
        let found = look(server, &[&one.index])?;
        if found.get(&one.index).is_some_and(|live| live.uuid == one.live_uuid && live.shape.write_block) {
            act(call, server, &unblock)?;
            released.push(one.index.clone());
        }
    }
    Ok(released)
}

/// The same for every aside that is noted here and was not finished, of whatever run: their calls are dead, since the lock is
/// ours.
///
/// # Errors
/// The server refuses or does not answer.
pub(super) fn release_all(call: &Call, server: &Server) -> Result<Vec<String>, Failure> {
    let mut released = Vec::new();
    for received in swaps::all(call, &[ASIDE]) {
        let Ok(mut aside) = received.result::<Aside>() else { continue };
        let is_cut = aside.indices.iter().any(|one| one.state == AsideState::Blocked);
        if !is_cut || aside.cluster_uuid != server.cluster_uuid {
            continue;
        }
        let names = release(call, server, &aside)?;
        if !names.is_empty() {
            call.warn(
                "block_taken_off",
                format!("The aside of the run {} was cut and had left these without writes: {}.", aside.run, names.join(", ")),
            );
        }
        released.extend(names);
        let blocked = aside.indices.iter_mut().filter(|one| one.state == AsideState::Blocked);
        blocked.for_each(|one| one.state = AsideState::Planned);
        runs::note_end(call, &Begun::Aside(aside.clone()).run()?, "aside", &aside);
    }
    Ok(released)
}
