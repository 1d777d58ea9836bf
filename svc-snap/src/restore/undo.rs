//! A staging that did not succeed is taken back: nothing of it stays beside what is live.

use std::time::{Duration, Instant};

use svc_step::{Call, Failure, swaps};

use super::stage;
use crate::client::Server;
use crate::index::look;
use crate::restore::record::staged::{StageState, Staged, StagedIndex};

/// How long what a request was to bring is waited for when its answer was lost, and how often it is looked for.
const PATIENCE: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(200);

/// Removes what was brought, all of which the server is known to have been asked for.
pub(crate) fn take_back(call: &Call, server: &Server, staged: &mut Staged, failure: Failure) -> Failure {
    take_back_all(call, server, staged, &[], failure)
}

/// Removes what was brought. A request whose answer was lost may still be at work: what it was to bring (`lost`) is waited
/// for first, and when it does not show, nobody says that nothing was changed.
pub(super) fn take_back_all(call: &Call, server: &Server, staged: &mut Staged, lost: &[String], mut failure: Failure) -> Failure {
    let asked = staged.indices.iter().filter(|one| one.state != StageState::Planned);
    let proofs = staged.streams.iter().filter(|one| one.proof != StageState::Planned).flat_map(|one| &one.copies);
    let names: Vec<String> = asked.map(|one| &one.staged).chain(proofs).cloned().collect();
    let hasty = call.check().is_err().then(|| server.in_haste());
    let server = hasty.as_ref().unwrap_or(server);
    let stays = written_to(server, staged);
    let names: Vec<&str> = names.iter().filter(|name| !stays.contains(name)).map(String::as_str).collect();
    // What lies under a live name may be a client's as well, so that it is neither waited for nor removed.
    let own = |name: &String| names.contains(&name.as_str());
    let is_settled = lost.is_empty() || (lost.iter().all(own) && show(server, lost));
    let unsure = !is_settled;
    let removed = stage::remove(call, server, &names).and_then(|()| match look(server, &names)? {
        left if left.is_empty() => Ok(()),
        left => Err(Failure::failed(
            "not_removed",
            format!("These were not removed: {}.", left.into_keys().collect::<Vec<_>>().join(", ")),
        )),
    });
    let is_lost = |name: &String| unsure && lost.contains(name);
    staged.indices.iter_mut().filter(|one| is_lost(&one.staged)).for_each(|one| one.state = StageState::Restoring);
    match removed {
        Ok(()) => {
            let asked = staged.indices.iter_mut().filter(|one| one.state != StageState::Planned);
            let is_gone = |one: &&mut StagedIndex| !is_lost(&one.staged) && !stays.contains(&one.index);
            asked.filter(is_gone).for_each(|one| one.state = StageState::Removed);
            let proofs = staged.streams.iter_mut().filter(|one| one.proof != StageState::Planned);
            proofs.filter(|one| !one.copies.iter().any(is_lost)).for_each(|one| one.proof = StageState::Removed);
            if unsure {
                failure.causes.push(format!("These may still appear: {}.", lost.join(", ")));
                failure.hint = Some(format!(
                    "The same command again (--run-id {0}) finds out how things stand; svc-snap discard --run {0} removes what is left of it.",
                    staged.run
                ));
                return failure;
            }
            if !stays.is_empty() {
                failure.causes.push(format!("Clients may have written to these, so they stay: {}.", stays.join(", ")));
                return failure;
            }
            call.effects().undone();
            if let Err(error) = swaps::remove(call, call.run_id()) {
                failure.causes.push(error.message);
            }
        }
        Err(error) => {
            failure.causes.push(format!("What had been staged could not be removed ({}): {error}", names.join(", ")));
            failure.hint = Some(format!("svc-snap discard --run {} removes what is left of it.", staged.run));
        }
    }
    failure
}

/// What lies under live names and may have been written to: whatever does not show that it takes no writes since it was restored.
fn written_to(server: &Server, staged: &Staged) -> Vec<String> {
    let direct = staged.indices.iter().filter(|one| one.is_direct() && one.state != StageState::Planned);
    let direct: Vec<&StagedIndex> = direct.collect();
    let found = look(server, &direct.iter().map(|one| one.index.as_str()).collect::<Vec<_>>());
    let stays = direct.into_iter().filter(|one| match &found {
        Ok(found) => found.contains_key(&one.index) && !one.is_unopened(found),
        Err(_) => true,
    });
    stays.map(|one| one.index.clone()).collect()
}

/// Waits until all of `names` are there, so long as is worth it.
fn show(server: &Server, names: &[String]) -> bool {
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let until = Instant::now() + server.at_most(PATIENCE);
    loop {
        if look(server, &names).is_ok_and(|found| names.iter().all(|name| found.contains_key(*name))) {
            return true;
        }
        if Instant::now() > until {
            return false;
        }
        std::thread::sleep(LOOK);
    }
}
