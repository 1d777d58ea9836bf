//! A staging: a snapshot restored beside the live indices, and verified there; what is not live, under its own name, without writes.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use svc_step::{Action, Call, Failure, Status, swaps};

use crate::client::Server;
use crate::guard;
use crate::index::act::copy_settings;
use crate::index::metadata::{BLOCK_SETTINGS, set_last_patterns};
use crate::index::{Act, Found, clone, copies, counts, get_indices};
use crate::restore::{Begun, Chosen, CopiedIndex, CopySet, CopyState, Origin, Staged, capacity, record, verify};
use crate::throttle::Rates;

/// What helps if there is no disk space.
const OUT_OF_SPACE: &str = "Free disk space, or restore less (--indices). svc-snap restore --in-place --on-conflict delete needs less, but deletes what is live first: nothing is verified before, and nothing is left to go back to.";

/// The bodies of the requests that restore all of them, each with its indices.
fn bodies(run: &str, indices: &[CopiedIndex]) -> Vec<(Value, Vec<String>)> {
    let names = |indices: &[&CopiedIndex]| indices.iter().map(|one| one.index.clone()).collect::<Vec<_>>();
    let (direct, beside): (Vec<&CopiedIndex>, Vec<&CopiedIndex>) = indices.iter().partition(|one| one.is_direct());
    // No pattern makes a name that had to be cut: it has a request of its own.
    let pattern = copies::staged(run, "$1");
    let (regular, cut): (Vec<_>, Vec<_>) = beside.into_iter().partition(|one| one.copy == pattern.replace("$1", &one.index));
    let mut bodies = Vec::new();
    if !regular.is_empty() {
        bodies.push((staging_body(&names(&regular).join(","), &pattern), names(&regular)));
    }
    bodies.extend(cut.into_iter().map(|one| (staging_body(&one.index, &one.copy), vec![one.index.clone()])));
    if !direct.is_empty() {
        let body = json!({
            "indices": names(&direct).join(","),
            "include_global_state": false,
            "index_settings": {"index.blocks.write": true},
            "ignore_index_settings": [BLOCK_SETTINGS],
        });
        bodies.push((body, names(&direct)));
    }
    bodies
}

/// Renamed, hidden, without writes, replicas, aliases and lifecycle.
fn staging_body(indices: &str, replacement: &str) -> Value {
    json!({
        "indices": indices,
        "include_global_state": false,
        "include_aliases": false,
        "rename_pattern": "(.+)",
        "rename_replacement": replacement,
        "index_settings": copy_settings(),
        "ignore_index_settings": set_last_patterns(),
    })
}

/// What an earlier call of this run left of the same staging.
#[derive(Debug, Default)]
pub(crate) struct Earlier {
    /// All of it, verified and there.
    pub verified: Option<CopySet>,
    /// What it had not verified: copies, and what it restored under live names and never opened. They are removed first.
    pub leftovers: Vec<String>,
    /// What else is there under names that it was to restore directly: perhaps its own work, perhaps a client's.
    pub direct: Vec<String>,
}

impl Earlier {
    /// Reads the record of this run, and compares it with what the server shows; one of something else is 3.
    pub(crate) fn find(call: &Call, chosen: &Chosen) -> Result<Self, Failure> {
        let set = match record::find(call, call.run_id())? {
            None => return Ok(Self::default()),
            Some(Begun::Copies(set)) => set,
            Some(_) => return Err(record::in_use(call.run_id())),
        };
        clone::wait_for_requests(&chosen.server)?;
        let found = get_indices(&chosen.server, set.names())?;
        let is_complete = set.is_verified() && set.indices.iter().all(|one| one.is_there(&found));
        let is_same = set.snapshot_uuid.as_ref() == Some(&chosen.origin.snapshot_uuid)
            && set.cluster_uuid == chosen.origin.cluster_uuid
            && (!is_complete || set.indices.iter().map(|one| &one.index).eq(&chosen.indices));
        if !is_same {
            return Err(record::in_use(call.run_id()));
        }
        if is_complete {
            return Ok(Self { verified: Some(set), ..Self::default() });
        }
        let there = set.indices.iter().filter(|one| found.contains_key(&one.copy));
        let is_ours = |one: &&CopiedIndex| copies::is_own_of(&one.copy, &set.run) || one.is_unopened(&found);
        let (leftovers, direct): (Vec<_>, Vec<_>) = there.partition(is_ours);
        let names = |all: Vec<&CopiedIndex>| all.into_iter().map(|one| one.copy.clone()).collect();
        Ok(Self { verified: None, leftovers: names(leftovers), direct: names(direct) })
    }
}

impl Staged {
    pub(crate) fn of(chosen: &Chosen, copies: CopySet) -> Self {
        let Origin { repository, snapshot, .. } = chosen.origin.clone();
        Self { copies, repository, snapshot, disk_space: None, throttle: None }
    }
}

/// The plan of a staging; those of `direct` are restored under their own names. Names in use, or no disk space, are 3.
pub(crate) fn plan(
    call: &Call,
    chosen: &Chosen,
    earlier: &Earlier,
    rates: &Rates<'_>,
    direct: &BTreeSet<String>,
) -> Result<Staged, Failure> {
    let run = call.run_id().as_str();
    let planned = |index: &String| {
        let copy = if direct.contains(index) { index.clone() } else { copies::staged(run, index) };
        let (docs_expected, metadata) = (chosen.docs_expected(index), chosen.metadata(index));
        CopiedIndex { docs_expected, metadata, ..CopiedIndex::planned(index.clone(), copy) }
    };
    let indices: Vec<CopiedIndex> = chosen.indices.iter().map(planned).collect();
    let copies: Vec<&String> = indices.iter().filter(|one| !one.is_direct()).map(|one| &one.copy).collect();
    guard::refuse_in_use(&chosen.server, "the staging", &copies, &earlier.leftovers)?;
    let hint = left_by_others(call, &chosen.server)? + OUT_OF_SPACE;
    let is_cloned = |index: &String| !direct.contains(index);
    let disk_space = capacity::refuse_restore(call, chosen, &chosen.indices, is_cloned, &earlier.leftovers, &hint)?;
    let request = |(body, _)| Action::request("POST", chosen.origin.path(&["_restore"]), Some(body));
    let requests = bodies(run, &indices).into_iter().map(request).collect();
    let removals = Act::each(&earlier.leftovers, Act::Delete);
    let set = CopySet {
        cluster_uuid: chosen.origin.cluster_uuid.clone(),
        snapshot_uuid: Some(chosen.origin.snapshot_uuid.clone()),
        run: run.to_owned(),
        asked_for: chosen.asked_for.clone(),
        indices,
        skipped: chosen.skipped.clone(),
        plan: removals.iter().map(Act::action).chain(rates.around(requests)).collect(),
    };
    Ok(Staged { disk_space: Some(disk_space), throttle: rates.used.clone(), ..Staged::of(chosen, set) })
}

/// Warns of the copies that stagings of other runs have left, with the commands that remove them, which it gives too.
fn left_by_others(call: &Call, server: &Server) -> Result<String, Failure> {
    let mut hint = String::new();
    for set in record::unfinished_stagings(call, server) {
        let found = get_indices(server, set.indices.iter().filter(|one| !one.is_direct()).map(|one| &one.copy))?;
        let copies = found.into_keys().collect::<Vec<_>>().join(", ");
        if !copies.is_empty() {
            let discard = copies::discard(call, &set.run);
            let left = format!("{discard} removes the copies of a staging that was interrupted: {copies}.");
            call.warn("not_removed", left.as_str());
            hint += &(left + " ");
        }
    }
    Ok(hint)
}

/// Restores all of it and verifies it; a failure or a signal leaves nothing of it, and what a killed call left is recorded.
pub(crate) fn act(
    call: &Call,
    chosen: &Chosen,
    earlier: &Earlier,
    staged: &mut Staged,
    rates: &mut Rates<'_>,
) -> Result<(), Failure> {
    call.check()?;
    remove(call, &chosen.server, &earlier.leftovers)?;
    rates.left.put_back(call, &chosen.server);
    // A staging that is taken back leaves nothing; but what was left of an earlier one is gone all the same.
    call.effects().stays();
    let set = &mut staged.copies;
    swaps::write(call, call.run_id(), "stage", set)?;
    let mut lost = Vec::new();
    let restored = rates.during(call, &chosen.server, || restore_and_verify(call, chosen, set, &mut lost));
    staged.throttle = rates.used.clone();
    restored.map_err(|failure| take_back(call, &chosen.server, set, &lost, failure))?;
    record::write_end(call, &set.run, "stage", set);
    Ok(())
}

/// `lost` gets the names of the copies whose request had no answer.
fn restore_and_verify(call: &Call, chosen: &Chosen, set: &mut CopySet, lost: &mut Vec<String>) -> Result<(), Failure> {
    let server = &chosen.server;
    call.check()?;
    let path = chosen.origin.path(&["_restore"]);
    for (body, indices) in bodies(&set.run, &set.indices) {
        call.reporter().detail(&format!("POST {path}"));
        let sent = server.change(call, "POST", &path, Some(&body));
        let is_lost = sent.as_ref().is_err_and(|failure| failure.status == Status::Timeout);
        // What was refused may be another host's of the same run. After a lost answer only names that no other run uses are surely ours.
        for one in set.indices.iter_mut().filter(|one| indices.contains(&one.index)) {
            if sent.is_ok() || (is_lost && !one.is_direct()) {
                one.state = CopyState::InProgress;
            }
            if is_lost {
                lost.push(one.copy.clone());
            }
        }
        sent?;
        record_direct(call, server, set)?;
    }
    let found = verify::until_complete(call, server, &set.names())?;
    let counts = counts(server, set.names())?;
    for one in &set.indices {
        verify::same_as_captured(&one.copy, counts.get(&one.copy).copied().unwrap_or_default(), one.docs_expected)?;
    }
    call.check()?;
    set.indices.iter_mut().for_each(|one| one.set_verified(&found, &counts));
    Ok(())
}

/// What is under a live name is recorded as soon as the server has it: by its `uuid` a later call knows it from a client's.
fn record_direct(call: &Call, server: &Server, set: &mut CopySet) -> Result<(), Failure> {
    let is_new = |one: &CopiedIndex| one.is_direct() && one.state == CopyState::InProgress && one.uuid.is_none();
    let found = get_indices(server, set.indices.iter().filter(|one| is_new(one)).map(|one| &one.index))?;
    if found.is_empty() {
        return Ok(());
    }
    for one in set.indices.iter_mut().filter(|one| is_new(one)) {
        one.uuid = found.get(&one.index).map(|index| index.uuid.clone());
    }
    swaps::write(call, call.run_id(), "stage", set)
}

/// Removes what was restored. The copies of a request whose answer was `lost` are waited for first; without them `changed` is unknown.
pub(crate) fn take_back(call: &Call, server: &Server, set: &mut CopySet, lost: &[String], mut failure: Failure) -> Failure {
    let server = &server.for_undo(call);
    let asked: Vec<CopiedIndex> = set.indices.iter().filter(|one| one.state != CopyState::Planned).cloned().collect();
    // What is under live names and may have been written to stays: whatever does not show that it takes no writes since its restore.
    let found = get_indices(server, asked.iter().filter(|one| one.is_direct()).map(|one| &one.index));
    let stays = |one: &CopiedIndex| {
        let is_written = |found: &Found| found.contains_key(&one.index) && !one.is_unopened(found);
        one.is_direct() && found.as_ref().map_or(true, is_written)
    };
    let (stays, ours): (Vec<CopiedIndex>, Vec<CopiedIndex>) = asked.into_iter().partition(stays);
    let [stays, ours] = [&stays, &ours].map(|all| all.iter().map(|one| one.copy.as_str()).collect::<Vec<_>>());
    // What is under a live name may be a client's as well, so that it is neither waited for nor removed.
    let count = || clone::wait_for_requests(server).and_then(|()| get_indices(server, lost)).map_or(0, |found| found.len());
    let is_known = lost.iter().all(|name| ours.contains(&name.as_str())) && (lost.is_empty() || count() == lost.len());
    let removed = remove(call, server, &ours).and_then(|()| {
        let left: Vec<String> = get_indices(server, &ours)?.into_keys().collect();
        let message = format!("These were not removed: {}.", left.join(", "));
        if left.is_empty() { Ok(()) } else { Err(Failure::failed("not_removed", message)) }
    });
    for one in set.indices.iter_mut() {
        if !is_known && lost.contains(&one.copy) {
            one.state = CopyState::InProgress;
        } else if removed.is_ok() && ours.contains(&one.copy.as_str()) {
            one.state = CopyState::Removed;
        }
    }
    let discard = copies::discard(call, &set.run);
    match removed {
        Err(error) => {
            // Whatever was undone before this: the copies are there.
            call.effects().happened();
            failure.causes.push(format!("What had been staged could not be removed ({}): {error}", ours.join(", ")));
            failure.hint = Some(format!("{discard} removes what is left of it."));
        }
        Ok(()) if !is_known => {
            failure.causes.push(format!("These may still appear: {}.", lost.join(", ")));
            let again = call.same_command();
            failure.hint = Some(format!("Run {again}: it checks the outcome; {discard} removes what is left of it."));
        }
        Ok(()) if !stays.is_empty() => {
            failure.causes.push(format!("Clients may have written to these, so they stay: {}.", stays.join(", ")));
        }
        Ok(()) => {
            call.effects().undone();
            failure = record::remove(call, failure);
        }
    }
    failure
}

fn remove<T: AsRef<str>>(call: &Call, server: &Server, names: &[T]) -> Result<(), Failure> {
    let found = get_indices(server, names)?;
    Act::each(found.keys(), Act::Delete).iter().try_for_each(|act| clone::send_or_each(call, server, act))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_request_stages_all_but_the_names_that_had_to_be_cut() {
        let run = "20261120t020003z-hand";
        let staged = |index: &str| CopiedIndex::planned(index.to_owned(), copies::staged(run, index));
        let long = "x".repeat(250);
        let direct = CopiedIndex::planned("c".to_owned(), "c".to_owned());
        let bodies = bodies(run, &[staged("a"), staged("b"), staged(&long), direct]);
        assert_eq!(bodies.len(), 3);
        assert_eq!((&bodies[0].0["indices"], &bodies[0].0["include_aliases"]), (&json!("a,b"), &json!(false)));
        assert_eq!(bodies[0].0["rename_replacement"], "svc-staged-20261120t020003z-hand-$1");
        let cut = &bodies[1].0;
        assert_eq!((&cut["indices"], &cut["rename_replacement"]), (&json!(long), &json!(copies::staged(run, &long))));
        assert_eq!(bodies[2].0["index_settings"], json!({"index.blocks.write": true}));
    }
}
