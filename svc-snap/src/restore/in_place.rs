//! The procedure's literal restore: over what is live, which is closed or deleted first. Nothing is proven before, and
//! nothing is kept.

use svc_step::action::Action;
use svc_step::{Call, Failure, StepResult, Stopped};

use super::{OnConflict, RestoreState, RestoreWay, Restored};
use crate::bring::chosen::Chosen;
use crate::bring::{self, Bring, Request, streams};
use crate::guard;
use crate::index::look;
use crate::runs;
use crate::server::path::path;

pub(super) fn run(call: &Call, chosen: &Chosen, on_conflict: OnConflict, dry_run: bool) -> StepResult<Restored> {
    let _lock = guard::lock(call, &chosen.server, dry_run)?;
    let names: Vec<&str> = chosen.indices.iter().map(String::as_str).collect();
    runs::refuse_unfinished_swaps(call, &chosen.server, call.run_id(), &chosen.names())?;
    let streams = chosen.streams_back()?;
    let live = look(&chosen.server, &names)?;
    // The server restores over a closed index by itself; only a deletion need not leave it.
    let conflicts = live.iter().filter(|(_, index)| !index.closed || on_conflict == OnConflict::Delete);
    let conflicts: Vec<String> = conflicts.map(|(name, _)| name.clone()).collect();
    let live_streams = streams.iter().filter(|one| one.was_live).map(|one| &one.stream);
    let in_the_way: Vec<&str> = conflicts.iter().chain(live_streams).map(String::as_str).collect();
    if on_conflict == OnConflict::Fail && !in_the_way.is_empty() {
        return Err(Failure::refused(
            "index_in_the_way",
            format!("Open indices or data streams of the same names are in the way: {}.", in_the_way.join(", ")),
        )
        .hint("Leave --in-place out, and they are kept; or say --on-conflict close or delete to give them up.")
        .into());
    }
    let mut restored = Restored::new(call, chosen, true, |_| RestoreWay::InPlace);
    let brings: Vec<Bring> = chosen.indices.iter().map(|index| Bring { index: index.clone(), target: index.clone() }).collect();
    let clear = clearing(on_conflict, &conflicts);
    let requests = bring::requests(call.run_id(), &chosen.origin.repository, &chosen.origin.snapshot, &brings);
    let mut rates = chosen.rates(call)?;
    restored.rate = rates.used();
    restored.plan = clear.iter().map(|(method, path)| Action::request(method, path.as_str(), None)).collect();
    restored.plan.extend(requests.iter().map(|one| Action::request("POST", one.path.as_str(), Some(one.body.clone()))));
    restored.plan = rates.around(restored.plan);
    restored.plan.extend(streams::requests(&streams));
    restored.streams = streams;
    if dry_run {
        return Ok(restored);
    }
    if !conflicts.is_empty() {
        call.warn("nothing_kept", "Restored in place: nothing was proven before, and nothing of what was live is kept.");
    }
    streams::warn(call, &restored.streams);
    // What is live of data streams is always removed; when this call is killed, the same one again does so once more.
    rates.clear(call, &chosen.server);
    let ended = rates.during(call, &chosen.server, || {
        act(call, chosen, &conflicts, &clear, &requests, &mut restored).and_then(|()| prove(call, chosen, &mut restored))
    });
    let ended =
        ended.and_then(|()| streams::restore(call, &chosen.server, &mut restored.streams, &mut |_| Ok(())).map_err(goes_on));
    restored.rate = rates.used();
    rates.account(call);
    match ended {
        Ok(()) => Ok(restored),
        Err(failure) => Err(Stopped::with(failure, restored)),
    }
}

/// The requests that clear the way.
fn clearing(on_conflict: OnConflict, conflicts: &[String]) -> Vec<(&'static str, String)> {
    let request = |name: &String| match on_conflict {
        OnConflict::Delete => ("DELETE", path(&[name])),
        _ => ("POST", path(&[name, "_close"])),
    };
    conflicts.iter().map(request).collect()
}

fn act(
    call: &Call,
    chosen: &Chosen,
    conflicts: &[String],
    clear: &[(&str, String)],
    requests: &[Request],
    restored: &mut Restored,
) -> Result<(), Failure> {
    call.check()?;
    for (name, (method, path)) in conflicts.iter().zip(clear) {
        chosen.server.change(call, method, path, None)?;
        set(restored, name, RestoreState::UnderWay);
    }
    for request in requests {
        if let Err(failure) = chosen.server.change(call, "POST", &request.path, Some(&request.body)) {
            return Err(reopen(call, chosen, conflicts, restored, failure));
        }
    }
    restored.indices.iter_mut().for_each(|one| one.state = RestoreState::UnderWay);
    Ok(())
}

/// A restore that the server refused leaves closed indices whole: they are opened again.
fn reopen(call: &Call, chosen: &Chosen, conflicts: &[String], restored: &mut Restored, failure: Failure) -> Failure {
    let names: Vec<&str> = conflicts.iter().map(String::as_str).collect();
    let Ok(found) = look(&chosen.server, &names) else { return failure };
    for name in found.iter().filter(|(_, index)| index.closed).map(|(name, _)| name) {
        if chosen.server.change(call, "POST", &path(&[name, "_open"]), None).is_ok() {
            set(restored, name, RestoreState::Untouched);
        }
    }
    if restored.indices.iter().all(|one| one.state == RestoreState::Untouched) {
        call.effects().undone();
    }
    failure
}

fn prove(call: &Call, chosen: &Chosen, restored: &mut Restored) -> Result<(), Failure> {
    let names: Vec<&str> = chosen.indices.iter().map(String::as_str).collect();
    bring::follow(call, &chosen.server, &names).map_err(goes_on)?;
    for one in &mut restored.indices {
        one.docs_count = bring::prove_counts(&chosen.server, &[(&one.index, one.docs_expected)])?.pop();
        one.state = RestoreState::Restored;
    }
    Ok(())
}

fn goes_on(failure: Failure) -> Failure {
    if failure.signal.is_none() && failure.status != svc_step::Status::Timeout {
        return failure;
    }
    failure
        .hint("The search database goes on with the restore by itself: GET /_cat/recovery?active_only=true shows how far it is.")
}

fn set(restored: &mut Restored, name: &str, state: RestoreState) {
    if let Some(one) = restored.indices.iter_mut().find(|one| one.index == name) {
        one.state = state;
    }
}
