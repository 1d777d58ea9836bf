//! The procedure's restore in place, over what is live, without a previous copy. It is the only way of data streams, which have no clones.

use std::slice;

use serde_json::{Value, json};
use svc_step::{Action, Call, Failure, Status, StepResult, Stopped};

use crate::client::{continues_by_itself, path};
use crate::guard;
use crate::index::select::Names;
use crate::index::{Index, Stream, clone, counts, get_indices, get_streams, policy, refuse_any, select};
use crate::restore::{
    Begun, Chosen, CopiedIndex, RestoreState, Restored, Swapped, capacity, checks, phases, plan, record, verify,
};
use crate::temporary::Left;

/// What to do with live indices and data streams of the same names; `close` gives up a closed index as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum OnConflict {
    /// Change nothing, and name all of them
    #[default]
    Fail,
    /// Close indices, so that the restore replaces them and uses what files are the same; delete data streams
    Close,
    /// Delete them first
    Delete,
}

/// A request that removes or closes what is live under a name.
type Clearing = (String, &'static str, String);

pub(crate) fn run(call: &Call, chosen: &Chosen, on_conflict: OnConflict, dry_run: bool) -> StepResult<Restored> {
    let server = &chosen.server;
    let _lock = guard::lock(call, server, dry_run)?;
    let names: Vec<&str> = chosen.indices.iter().map(String::as_str).collect();
    phases::refuse_unfinished_swaps(call, server, call.run_id(), |name| chosen.names().contains(&name))?;
    guard::refuse_blocked_live(server, &names)?;
    let earlier = earlier(call, chosen)?;
    if let Some(mut restored) = earlier.clone()
        && is_restored(call, chosen, &restored, dry_run)?
    {
        let is_done = restored.indices.iter().all(|one| one.state == RestoreState::Restored);
        if !is_done {
            restored.indices.iter_mut().for_each(|one| one.state = RestoreState::InProgress);
        }
        if is_done || dry_run {
            return Ok(restored);
        }
        // The killed call may have left the throttle changed.
        let left = Left::find(call, server, None)?;
        let verified = wait_and_verify(call, chosen, &mut restored);
        left.put_back(call, server);
        return Stopped::ended(verified, restored);
    }
    let live = get_indices(server, &names)?;
    let there = if chosen.streams.is_empty() { Names::default() } else { select::names(server)? };
    let live_streams: Vec<&String> = chosen.streams.iter().filter(|stream| there.streams.contains(stream)).collect();
    let conflicts: Vec<&str> = live.keys().chain(live_streams.iter().copied()).map(String::as_str).collect();
    if on_conflict == OnConflict::Fail {
        let hint = "Without --in-place, there is a previous copy of the live indices; --on-conflict close or delete gives up all that is live.";
        refuse_any("name_in_use", "Indices or data streams of the same names are in the way", &conflicts, hint)?;
    }
    // What was closed or deleted could not be restored, so whatever the server would refuse is refused before.
    let deleted = live.keys().filter(|_| on_conflict == OnConflict::Delete).cloned().map(plan::taken_away);
    let direct = |one: &String| CopiedIndex { metadata: chosen.metadata(one), ..CopiedIndex::planned(one.clone(), one.clone()) };
    let direct = chosen.indices.iter().map(direct).collect();
    let restores = Swapped { indices: deleted.collect(), direct, ..Swapped::default() };
    checks::refuse_name_clashes(server, &restores)?;
    checks::refuse_second_write_index(server, &restores)?;
    let wanted: Vec<String> =
        chosen.indices.iter().cloned().chain(chosen.streams.iter().flat_map(|one| chosen.backing(one))).collect();
    let backing = live_streams.iter().filter_map(|stream| there.backing.get(*stream)).flatten();
    let given_up: Vec<&String> = live.keys().chain(backing).collect();
    let hint = "Free disk space (svc-snap health shows the disks), or restore less (--indices).";
    capacity::refuse_restore(call, chosen, &wanted, |_| false, &given_up, hint)?;
    // Data streams first: if the server does not delete them, nothing is changed. It restores over a closed index by itself.
    let streams = live_streams.iter().map(|name| (String::clone(name), "DELETE", path(&["_data_stream", name])));
    // If the server refuses, the indices that an earlier call has closed are opened again. Those that a client has closed stay so.
    let earlier: Vec<Action> = earlier.into_iter().flat_map(|earlier| earlier.plan).collect();
    let indices = live.iter().filter_map(|(name, index)| {
        let close = path(&[name, "_close"]);
        match on_conflict {
            OnConflict::Delete => Some((name.clone(), "DELETE", path(&[name]))),
            _ if index.metadata.closed && !earlier.contains(&Action::request("POST", close.as_str(), None)) => None,
            _ => Some((name.clone(), "POST", close)),
        }
    });
    let clearing: Vec<Clearing> = streams.chain(indices).collect();
    let mut restored = Restored::planned(call, chosen, true, |_| false);
    restored.replaced = get_indices(server, all_indices(&restored))?.values().map(Index::identity).collect();
    let mut rates = chosen.rates(call)?;
    restored.throttle = rates.used.clone();
    let clear = clearing.iter().map(|(_, method, path)| Action::request(method, path.as_str(), None));
    let (path, body) = request(chosen, &restored);
    restored.plan = rates.around(clear.chain([Action::request("POST", path, Some(body))]).collect());
    if dry_run {
        return Ok(restored);
    }
    if !conflicts.is_empty() {
        call.warn(
            "not_verified",
            "Restored in place: nothing was verified before, and there is no previous copy of what was live.",
        );
    }
    rates.left.put_back(call, server);
    let ended = rates.during(call, server, || {
        act(call, chosen, &clearing, &mut restored).and_then(|()| wait_and_verify(call, chosen, &mut restored))
    });
    restored.throttle = rates.used.clone();
    Stopped::ended(ended, restored)
}

/// What an earlier call of this run has recorded of the same restore.
fn earlier(call: &Call, chosen: &Chosen) -> Result<Option<Restored>, Failure> {
    let has_same_names = |restored: &Restored| restored.indices.iter().map(|one| one.index.as_str()).eq(chosen.names());
    match record::find(call, call.run_id())? {
        None => Ok(None),
        Some(Begun::InPlace(found)) if found.origin == chosen.origin && has_same_names(&found) => Ok(Some(*found)),
        Some(_) => Err(record::in_use(call.run_id())),
    }
}

/// Whether the server has restored what an earlier call had asked for: all is there, open, as old as the snapshot, and not what was live.
fn is_restored(call: &Call, chosen: &Chosen, restored: &Restored, dry_run: bool) -> Result<bool, Failure> {
    let names = all_indices(restored);
    if !dry_run {
        clone::wait_for_requests(&chosen.server)?;
        let idle = verify::until_idle(call, &chosen.server, &names);
        idle.map_err(|failure| continues_by_itself(call, failure, true, "the restore"))?;
    }
    let found = get_indices(&chosen.server, &names)?;
    // The clock by which a server dates a snapshot stands still for 200 ms at a time, and that of an index may not.
    let latest = chosen.started_ms.map(|started| started + 250);
    let is_new = |index: &Index| !restored.replaced.contains(&index.identity());
    let is_of_snapshot = |index: &Index| !index.metadata.closed && index.created_ms <= latest && is_new(index);
    Ok(names.iter().all(|name| found.get(*name).is_some_and(is_of_snapshot)))
}

/// The names of the indices that are restored, backing indices instead of data streams.
fn all_indices(restored: &Restored) -> Vec<&str> {
    let each = restored.indices.iter().map(|one| one.backing_indices.as_deref().unwrap_or(slice::from_ref(&one.index)));
    each.flatten().map(String::as_str).collect()
}

/// The body of the procedure (2.3), with names instead of patterns. A data stream is named beside its backing indices: those alone would
/// become indices without a stream, and OpenSearch's security plugin asks for rights on what the snapshot's list of indices has.
fn request(chosen: &Chosen, restored: &Restored) -> (String, Value) {
    let streams: Vec<&str> =
        restored.indices.iter().filter(|one| one.backing_indices.is_some()).map(|one| one.index.as_str()).collect();
    let names = [streams.as_slice(), &all_indices(restored)].concat();
    // That block hinders every client that lists indices.
    let body = json!({"indices": names.join(","), "include_global_state": false, "ignore_index_settings": ["index.blocks.metadata"],
        "ignore_unavailable": !streams.is_empty()});
    (chosen.origin.path(&["_restore"]), body)
}

/// Clears the way and asks the server for the restore. What was live is recorded before, so that the same command resumes it.
fn act(call: &Call, chosen: &Chosen, clearing: &[Clearing], restored: &mut Restored) -> Result<(), Failure> {
    call.check()?;
    record::write(call, &restored.run, "restore", restored)?;
    for (name, method, path) in clearing {
        let cleared = chosen.server.change(call, method, path, None);
        // When its answer is lost, what was live may be gone.
        if !cleared.as_ref().is_err_and(|failure| failure.status != Status::Timeout) {
            restored.set(name, RestoreState::InProgress);
        }
        cleared.map_err(|failure| reopen(call, chosen, clearing, restored, failure))?;
    }
    let (path, body) = request(chosen, restored);
    match chosen.server.change(call, "POST", &path, Some(&body)) {
        Err(failure) if failure.status != Status::Timeout => Err(reopen(call, chosen, clearing, restored, failure)),
        // It is running, or may be: what is closed must stay so.
        sent => {
            restored.indices.iter_mut().for_each(|one| one.state = RestoreState::InProgress);
            sent.map(drop).map_err(|failure| continues_by_itself(call, failure, true, "the restore"))
        }
    }
}

/// As long as the server was not asked to restore, or refused to, closed indices are complete: they are opened again.
fn reopen(call: &Call, chosen: &Chosen, clearing: &[Clearing], restored: &mut Restored, mut failure: Failure) -> Failure {
    let server = &chosen.server;
    let closed = || clearing.iter().filter(|(_, method, _)| *method == "POST").map(|(name, ..)| name);
    // A close whose answer was lost may be under way, or in the server's queue.
    clone::wait_for_tasks(server, "indices:admin/close");
    let found = clone::wait_for_requests(server).and_then(|()| get_indices(server, closed())).unwrap_or_default();
    let open = |name: &str| server.change(call, "POST", &path(&[name, "_open"]), None).is_ok();
    for name in closed() {
        let is_open = found.get(name).is_some_and(|index| !index.metadata.closed || open(name));
        restored.set(name, if is_open { RestoreState::Untouched } else { RestoreState::InProgress });
    }
    let left = restored.indices.iter().filter(|one| one.state != RestoreState::Untouched);
    let left: Vec<&str> = left.map(|one| one.index.as_str()).collect();
    if left.is_empty() {
        call.effects().undone();
        return record::remove(call, failure);
    }
    failure.causes.push(format!("These were closed or removed, or may be, and are not restored: {}.", left.join(", ")));
    let again = call.same_command();
    failure.further_hint(format!(
        "When it is fixed, run {again}: it checks the outcome and restores them; POST /INDEX/_open opens what is only closed."
    ))
}

/// Waits until the restore is complete, and verifies it. After a restore that failed the same command restores again.
fn wait_and_verify(call: &Call, chosen: &Chosen, restored: &mut Restored) -> Result<(), Failure> {
    match verify_all(call, chosen, restored) {
        Ok(()) => {
            let policies = chosen.indices.iter().filter_map(|index| Some((index.as_str(), chosen.metadata(index)?.policy?)));
            policy::attach(call, &chosen.server, policies);
            record::write_end(call, &restored.run, "restore", restored);
            Ok(())
        }
        Err(failure) if failure.status == Status::Invalid => Err(record::remove(call, failure)),
        Err(failure) => Err(continues_by_itself(call, failure, true, "the restore")),
    }
}

fn verify_all(call: &Call, chosen: &Chosen, restored: &mut Restored) -> Result<(), Failure> {
    let server = &chosen.server;
    verify::until_complete(call, server, &all_indices(restored))?;
    let (counts, streams) = (counts(server, &chosen.indices)?, get_streams(server, &chosen.streams)?);
    for one in &mut restored.indices {
        let count = match one.backing_indices {
            Some(_) => verify_stream(call, chosen, &one.index, streams.get(&one.index))?,
            None => counts.get(&one.index).copied().unwrap_or_default(),
        };
        verify::same_as_captured(&one.index, count, one.docs_expected)?;
        one.docs_count = Some(count);
        one.state = RestoreState::Restored;
    }
    Ok(())
}

/// The stream itself is there, with the aliases that were captured. Gives how many documents it holds.
fn verify_stream(call: &Call, chosen: &Chosen, name: &str, live: Option<&Stream>) -> Result<u64, Failure> {
    let Some(live) = live else {
        return Err(Failure::invalid("content_differs", format!("The data stream {name} is not there after its restore.")).hint(
            "GET /_data_stream shows which there are; restore it by its own name, never by those of its backing indices.",
        ));
    };
    let sum = counts(&chosen.server, &live.backing)?.into_values().sum();
    let captured = chosen.captured_stream(name);
    if captured.is_some_and(|captured| captured.aliases != live.aliases) {
        call.review("not_restored", format!("The data stream {name} has other aliases than the backup (GET /_alias)."));
    }
    if let Some(template) = captured.and_then(|captured| captured.template.as_ref()).filter(|_| live.template.is_none()) {
        let message =
            format!("The data stream {name} needs an index template for its next index ({template}), and the server has none.");
        call.review("not_restored", message);
    }
    Ok(sum)
}

impl Restored {
    fn set(&mut self, name: &str, state: RestoreState) {
        self.indices.iter_mut().filter(|one| one.index == name).for_each(|one| one.state = state);
    }
}
