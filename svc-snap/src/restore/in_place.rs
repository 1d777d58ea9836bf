//! The procedure's literal restore: over what is live, which is closed or deleted first. Nothing is proven before, and
//! nothing is kept.

use svc_step::action::Action;
use svc_step::{Call, Failure, Status, StepResult, Stopped};

use super::record;
use super::record::restored::{RestoreState, RestoreWay, Restored};
use super::stage::{self, Bring, Request};
use super::streams;
use crate::capacity;
use crate::client::path::path;
use crate::guard;
use crate::index::look;
use crate::restore::chosen::Chosen;

/// What to do with live indices of the same names; one that is closed already is given up by `close` as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum OnConflict {
    /// Change nothing, and name all of them
    #[default]
    Fail,
    /// Close them, so that the restore replaces them and uses what files are the same
    Close,
    /// Delete them first
    Delete,
}

pub(crate) fn run(call: &Call, chosen: &Chosen, on_conflict: OnConflict, dry_run: bool) -> StepResult<Restored> {
    let _lock = guard::lock(call, &chosen.server, dry_run)?;
    let names: Vec<&str> = chosen.indices.iter().map(String::as_str).collect();
    record::refuse_unfinished_swaps(call, &chosen.server, call.run_id(), &chosen.names())?;
    guard::refuse_blocked_live(&chosen.server, &names)?;
    let streams = chosen.streams_back()?;
    let live = look(&chosen.server, &names)?;
    let live_streams = streams.iter().filter(|one| one.was_live).map(|one| &one.stream);
    let in_the_way: Vec<&str> = live.keys().chain(live_streams).map(String::as_str).collect();
    if on_conflict == OnConflict::Fail && !in_the_way.is_empty() {
        return Err(Failure::refused(
            "index_in_the_way",
            format!("Indices or data streams of the same names are in the way: {}.", in_the_way.join(", ")),
        )
        .hint("Leave --in-place out, and they are kept; or say --on-conflict close or delete to give them up.")
        .into());
    }
    // The server restores over a closed index by itself, whatever is in it; only a deletion need not leave it.
    let conflicts = live.iter().filter(|(_, index)| !index.closed || on_conflict == OnConflict::Delete);
    let conflicts: Vec<String> = conflicts.map(|(name, _)| name.clone()).collect();
    let mut restored = Restored::begun(call, chosen, true, |_| RestoreWay::InPlace);
    let brings: Vec<Bring> = chosen.indices.iter().map(|index| Bring { index: index.clone(), target: index.clone() }).collect();
    // What was closed or deleted could not be brought back, so it is looked at before.
    capacity::refuse_without_in_place(call, chosen, &brings, &live.keys().map(String::as_str).collect::<Vec<_>>())?;
    let clear = clearing(on_conflict, &conflicts);
    let asks = !chosen.indices.is_empty();
    let requests = asks.then(|| stage::in_place(&chosen.origin.repository, &chosen.origin.snapshot, &chosen.indices));
    let requests: Vec<Request> = requests.into_iter().collect();
    let mut rates = chosen.rates(call)?;
    restored.throttle = rates.used();
    restored.plan = clear.iter().map(|(method, path)| Action::request(method, path.as_str(), None)).collect();
    restored.plan.extend(requests.iter().map(|one| Action::request("POST", one.path.as_str(), Some(one.body.clone()))));
    restored.plan = rates.around(restored.plan);
    restored.plan.extend(streams::requests(&streams));
    restored.streams = streams;
    if dry_run {
        return Ok(restored);
    }
    if !live.is_empty() {
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
    restored.throttle = rates.used();
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
    for (at, (name, (method, path))) in conflicts.iter().zip(clear).enumerate() {
        // Before the request: when its answer is lost, what was live may be gone.
        set(restored, name, RestoreState::UnderWay);
        if let Err(failure) = chosen.server.change(call, method, path, None) {
            if failure.status != Status::Timeout {
                set(restored, name, RestoreState::Untouched);
            }
            return Err(reopen(call, chosen, conflicts.get(..=at).unwrap_or_default(), restored, failure));
        }
    }
    for request in requests {
        request.brings.iter().for_each(|name| set(restored, name, RestoreState::UnderWay));
        if let Err(failure) = chosen.server.change(call, "POST", &request.path, Some(&request.body)) {
            if failure.status == Status::Timeout {
                // It may be at work: what is closed must stay so, and nothing is as it was.
                return Err(goes_on(failure));
            }
            let cleared = |name: &&String| !conflicts.contains(name);
            request.brings.iter().filter(cleared).for_each(|name| set(restored, name, RestoreState::Untouched));
            return Err(reopen(call, chosen, conflicts, restored, failure));
        }
    }
    Ok(())
}

/// As long as the server was not asked to restore, or refused to, closed indices are whole: they are opened again.
fn reopen(call: &Call, chosen: &Chosen, cleared: &[String], restored: &mut Restored, mut failure: Failure) -> Failure {
    let names: Vec<&str> = cleared.iter().map(String::as_str).collect();
    let found = look(&chosen.server, &names).unwrap_or_default();
    for name in found.iter().filter(|(_, index)| index.closed).map(|(name, _)| name) {
        if chosen.server.change(call, "POST", &path(&[name, "_open"]), None).is_ok() {
            set(restored, name, RestoreState::Untouched);
        }
    }
    let left: Vec<&str> =
        restored.indices.iter().filter(|one| one.state != RestoreState::Untouched).map(|one| one.index.as_str()).collect();
    if left.is_empty() {
        call.effects().undone();
    } else {
        failure.causes.push(format!("These were closed or removed, or may be, and are not restored: {}.", left.join(", ")));
        failure.hint = Some(
            "The same command again finds out how things stand and goes on; POST /INDEX/_open opens what is only closed."
                .to_owned(),
        );
    }
    failure
}

fn prove(call: &Call, chosen: &Chosen, restored: &mut Restored) -> Result<(), Failure> {
    let names: Vec<&str> = chosen.indices.iter().map(String::as_str).collect();
    stage::follow(call, &chosen.server, &names).map_err(goes_on)?;
    let brought: Vec<(&str, Option<u64>)> = restored.indices.iter().map(|one| (one.index.as_str(), one.docs_expected)).collect();
    let counts = stage::prove_counts(&chosen.server, &brought)?;
    for (one, count) in restored.indices.iter_mut().zip(counts) {
        one.docs_count = Some(count);
        one.state = RestoreState::Restored;
    }
    Ok(())
}

fn goes_on(failure: Failure) -> Failure {
    if failure.signal.is_none() && failure.status != Status::Timeout {
        return failure;
    }
    failure.hint(
        "The search database goes on with what it was asked for by itself: svc-snap wait --from FILE, with this document in FILE, waits for it and proves it.",
    )
}

fn set(restored: &mut Restored, name: &str, state: RestoreState) {
    if let Some(one) = restored.indices.iter_mut().find(|one| one.index == name) {
        one.state = state;
    }
}
