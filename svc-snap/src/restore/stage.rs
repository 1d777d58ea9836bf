//! A staging: the plan, the requests that bring indices back from a snapshot, the wait for them, and the proof.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::{Value, json};
use svc_step::action::Action;
use svc_step::progress::{Parts, Unit};
use svc_step::run_id::RunId;
use svc_step::{Call, Failure, Status, swaps};

use super::chosen::Chosen;
use super::record;
use super::record::staged::{StageState, Staged, StagedIndex, StagedStream};
use super::streams::StreamBack;
use super::undo::take_back_all;
use crate::client::Server;
use crate::client::json::{list, members, number, text};
use crate::client::path::path;
use crate::index::copies;
use crate::index::count::counts;
use crate::index::shape::{block_patterns, in_place_ignored, set_last_patterns};
use crate::index::{Index, look, portions};
use crate::throttle::Rates;

/// How long a restore under way is left alone: shortly at first, then longer.
const FIRST: Duration = Duration::from_millis(20);
const LAST: Duration = Duration::from_millis(500);

/// One index of the snapshot, and where it is brought to: beside the live one, or under its own name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Bring {
    pub index: String,
    pub target: String,
}

/// One request of a restore, and the indices that it brings.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Request {
    pub path: String,
    pub body: Value,
    pub brings: Vec<String>,
}

/// The requests that bring all of them. What comes under its own name comes with the aliases that the snapshot holds, and takes no
/// writes until the swap opens it: as long as nobody may have written to it, it may be removed again.
pub(crate) fn requests(run: &RunId, repository: &str, snapshot: &str, brings: &[Bring]) -> Vec<Request> {
    let path = path(&["_snapshot", repository, snapshot, "_restore"]);
    let names = |wanted: &dyn Fn(&Bring) -> bool| {
        brings.iter().filter(|one| wanted(one)).map(|one| one.index.clone()).collect::<Vec<_>>()
    };
    let direct = names(&|one| one.index == one.target);
    let regular = names(&|one| one.index != one.target && copies::is_regular(run, &one.index));
    // A name that had to be cut is no pattern's outcome: it has a request of its own.
    let cut = names(&|one| one.index != one.target && !copies::is_regular(run, &one.index));
    let mut requests = Vec::new();
    if !regular.is_empty() {
        let body = beside(&regular.join(","), &copies::staged_replacement(run));
        requests.push(Request { path: path.clone(), body, brings: regular });
    }
    for index in cut {
        let body = beside(&index, &copies::staged(run, &index));
        requests.push(Request { path: path.clone(), body, brings: vec![index] });
    }
    if !direct.is_empty() {
        let body = json!({
            "indices": direct.join(","),
            "include_global_state": false,
            "index_settings": {"index.blocks.write": true},
            "ignore_index_settings": block_patterns(),
        });
        requests.push(Request { path, body, brings: direct });
    }
    requests
}

/// The request that brings these in place: the body of the procedure (2.3), names instead of patterns.
pub(crate) fn in_place(repository: &str, snapshot: &str, brings: &[String]) -> Request {
    let body = json!({"indices": brings.join(","), "include_global_state": false, "ignore_index_settings": in_place_ignored()});
    Request { path: path(&["_snapshot", repository, snapshot, "_restore"]), body, brings: brings.to_vec() }
}

/// The body that stages: renamed, hidden, without writes, replicas, aliases and lifecycle.
fn beside(indices: &str, replacement: &str) -> Value {
    json!({
        "indices": indices,
        "include_global_state": false,
        "include_aliases": false,
        "rename_pattern": "(.+)",
        "rename_replacement": replacement,
        "index_settings": {
            "index.number_of_replicas": 0,
            "index.auto_expand_replicas": "false",
            "index.hidden": true,
            "index.blocks.write": true,
        },
        "ignore_index_settings": set_last_patterns(),
    })
}

/// Waits until the server has nothing more to restore of `names`, then wants each of them whole.
///
/// # Errors
/// A signal or the time limit; a shard that could not be restored (7), with the server's own reason.
pub(crate) fn follow(call: &Call, server: &Server, names: &[&str]) -> Result<BTreeMap<String, Index>, Failure> {
    wait_for(call, server, names)?;
    let found = look(server, names)?;
    let broken: Vec<&str> = names.iter().copied().filter(|name| found.get(*name).is_none_or(|index| !index.whole)).collect();
    if broken.is_empty() { Ok(found) } else { Err(not_whole(server, &broken)) }
}

/// Waits until the server has nothing more to restore of `names`, whatever came of it.
///
/// # Errors
/// A signal, or the time limit.
pub(crate) fn wait_for(call: &Call, server: &Server, names: &[&str]) -> Result<(), Failure> {
    if names.is_empty() {
        return Ok(());
    }
    let progress = call.progress("restore", Unit::Bytes);
    let wanted: BTreeSet<&str> = names.iter().copied().collect();
    // The server may fall silent, and a signal or the time limit must be heard all the same.
    let server = server.for_looks();
    let mut pause = FIRST;
    while under_way(&server.get("/_cluster/state/customs?filter_path=restore.snapshots.indices")?, &wanted) {
        if progress.is_shown() {
            let (done, total, shards) = far(&server, names)?;
            progress.set_with_parts(done, total, &shards);
        }
        call.pause(pause)?;
        pause = (pause * 3 / 2).min(LAST);
    }
    Ok(())
}

/// Whether the cluster's state speaks of a restore of one of `names`.
fn under_way(state: &Value, names: &BTreeSet<&str>) -> bool {
    let mut indices = list(state, "/restore/snapshots").flat_map(|restore| list(restore, "/indices"));
    indices.any(|index| index.as_str().is_some_and(|index| names.contains(index)))
}

/// How many bytes have come, and of how many, as far as the server knows yet; and how many shards are whole.
fn far(server: &Server, names: &[&str]) -> Result<(u64, u64, Parts), Failure> {
    let (mut done, mut total) = (0, 0);
    let mut shards_whole = Parts { name: "shards", done: 0, total: 0 };
    for names in portions(names) {
        // The index may not be there for a moment yet.
        let Some(answer) = server.find(&path(&[&names.join(","), "_recovery"]))? else { continue };
        let shards = members(&answer).flat_map(|(_, index)| list(index, "/shards"));
        for shard in shards.filter(|shard| shard.get("primary") == Some(&Value::Bool(true))) {
            done += number(shard, "/index/size/recovered_in_bytes").unwrap_or(0);
            total += number(shard, "/index/size/total_in_bytes").unwrap_or(0);
            shards_whole.total += 1;
            shards_whole.done += u64::from(text(shard, "/stage") == Some("DONE"));
        }
    }
    Ok((done, total, shards_whole))
}

fn not_whole(server: &Server, names: &[&str]) -> Failure {
    let mut failure =
        Failure::invalid("restore_failed", format!("The snapshot could not be restored whole: {}.", names.join(", ")))
            .hint("The repository may be damaged: restore another snapshot (svc-snap list), and look after its disk.");
    for names in portions(names) {
        let shards = format!(
            "{}?format=json&h=index,shard,prirep,state,unassigned.reason,unassigned.details",
            path(&["_cat", "shards", &names.join(",")])
        );
        let Ok(Some(Value::Array(shards))) = server.find(&shards) else { continue };
        for shard in &shards {
            let says = |pointer: &str| text(shard, pointer).unwrap_or_default();
            if says("/state") == "STARTED" || says("/prirep") != "p" {
                continue;
            }
            let why = innermost(says("/unassigned.details"));
            failure = failure.cause(format!("{} shard {}: {} {why}", says("/index"), says("/shard"), says("/unassigned.reason")));
        }
    }
    failure
}

/// The innermost of the server's nested reasons, without its stack trace.
fn innermost(details: &str) -> String {
    let reasons = details.split("; nested: ").flat_map(|part| part.split("\nCaused by: "));
    let last = reasons.filter(|part| part.contains("Exception")).last().unwrap_or(details);
    last.lines().next().unwrap_or_default().trim().chars().take(400).collect()
}

/// Counts what was brought, each name with what the backup noted of it, and compares.
///
/// # Errors
/// A count differs (7), or a shard does not answer (7).
pub(crate) fn prove_counts(server: &Server, brought: &[(&str, Option<u64>)]) -> Result<Vec<u64>, Failure> {
    let found = counts(server, &brought.iter().map(|(name, _)| *name).collect::<Vec<_>>())?;
    let same = |&(name, expected): &(&str, Option<u64>)| {
        let found = found.get(name).copied().unwrap_or_default();
        same_as_noted(name, found, expected).map(|()| found)
    };
    brought.iter().map(same).collect()
}

/// Compares a count with what the backup noted.
///
/// # Errors
/// They differ (7).
pub(crate) fn same_as_noted(name: &str, found: u64, expected: Option<u64>) -> Result<(), Failure> {
    match expected {
        Some(expected) if expected != found => Err(Failure::invalid(
            "count_differs",
            format!("{name} holds {found} documents, but the backup noted {expected}."),
        )
        .hint("Something wrote while the snapshot was taken, or the snapshot is damaged: restore another one (svc-snap list).")),
        _ => Ok(()),
    }
}

/// Removes what a call brought; what is not there is passed over.
///
/// # Errors
/// The server refuses or does not answer; what was removed by then is removed.
pub(crate) fn remove(call: &Call, server: &Server, names: &[&str]) -> Result<(), Failure> {
    for name in look(server, names)?.keys() {
        server.change(call, "DELETE", &path(&[name]), None)?;
    }
    Ok(())
}

/// The plan of a staging: each index, and where it is brought to.
pub(crate) fn plan(call: &Call, chosen: &Chosen, brings: &[Bring], streams: Vec<StreamBack>) -> Staged {
    let streams: Vec<StagedStream> = streams.into_iter().map(|back| StagedStream::planned(call.run_id(), back)).collect();
    let proofs: Vec<Bring> = streams.iter().flat_map(StagedStream::brings).collect();
    let all = [brings, &proofs].concat();
    let indices = brings.iter().map(|one| StagedIndex {
        index: one.index.clone(),
        staged: one.target.clone(),
        state: StageState::Planned,
        uuid: None,
        docs_count: None,
        docs_expected: chosen.docs_expected(&one.index),
        shape_noted: chosen.noted(&one.index),
    });
    let requests = requests(call.run_id(), &chosen.origin.repository, &chosen.origin.snapshot, &all).into_iter();
    let requests = requests.map(|request| Action::request("POST", request.path, Some(request.body)));
    let removals = proofs.iter().map(|proof| Action::request("DELETE", path(&[&proof.target]), None));
    Staged {
        origin: chosen.origin.clone(),
        run: call.run_id().to_string(),
        asked_for: chosen.asked_for.clone(),
        indices: indices.collect(),
        skipped: chosen.skipped.clone(),
        plan: requests.chain(removals).collect(),
        streams,
        throttle: None,
        room: None,
    }
}

/// Brings `brings` back and proves them; a failure or a signal leaves nothing of them behind. The plan is noted before the
/// first effect, so that `--run` finds what a killed call left.
///
/// # Errors
/// Whatever stopped it, after what it had brought was removed.
pub(crate) fn bring_back(
    call: &Call,
    chosen: &Chosen,
    brings: &[Bring],
    staged: &mut Staged,
    rates: &mut Rates<'_>,
) -> Result<(), Failure> {
    swaps::write(call, call.run_id(), "stage", staged)?;
    let mut lost = Vec::new();
    let brought = rates.during(call, &chosen.server, || bring_and_prove(call, chosen, brings, staged, &mut lost));
    staged.throttle = rates.used();
    match brought {
        Ok(()) => {
            record::note_end(call, call.run_id(), "stage", staged);
            Ok(())
        }
        Err(failure) => Err(take_back_all(call, &chosen.server, staged, &lost, failure)),
    }
}

/// `lost` gets the names that a request was to bring whose answer was lost.
fn bring_and_prove(
    call: &Call,
    chosen: &Chosen,
    brings: &[Bring],
    staged: &mut Staged,
    lost: &mut Vec<String>,
) -> Result<(), Failure> {
    call.check()?;
    let all = staged.with_proofs(brings);
    for request in requests(call.run_id(), &chosen.origin.repository, &chosen.origin.snapshot, &all) {
        call.people().detail(&format!("POST {}", request.path));
        let sent = chosen.server.change(call, "POST", &request.path, Some(&request.body));
        let is_lost = sent.as_ref().is_err_and(|failure| failure.status == Status::Timeout);
        // What was refused is not ours: a call of the same run on another host may have it. After a lost answer only the names
        // that nobody else has are surely ours to remove.
        let asked = staged.indices.iter_mut().filter(|one| request.brings.contains(&one.index));
        asked.filter(|one| sent.is_ok() || (is_lost && !one.is_direct())).for_each(|one| one.state = StageState::Restoring);
        let is_brought = |one: &StagedStream| one.brings().any(|proof| request.brings.contains(&proof.index));
        let proofs = staged.streams.iter_mut().filter(|one| is_brought(one) && (sent.is_ok() || is_lost));
        proofs.for_each(|one| one.proof = StageState::Restoring);
        if is_lost {
            lost.extend(all.iter().filter(|one| request.brings.contains(&one.index)).map(|one| one.target.clone()));
        }
        sent?;
        record_direct(call, &chosen.server, staged)?;
    }
    let found = follow(call, &chosen.server, &staged.names())?;
    let brought: Vec<(&str, Option<u64>)> = staged.indices.iter().map(|one| (one.staged.as_str(), one.docs_expected)).collect();
    let counts = prove_counts(&chosen.server, &brought)?;
    call.check()?;
    for (one, count) in staged.indices.iter_mut().zip(counts) {
        one.docs_count = Some(count);
        one.uuid = found.get(&one.staged).map(|index| index.uuid.clone());
        one.state = StageState::Proven;
    }
    for one in staged.streams.iter_mut().filter(|one| !one.copies.is_empty()) {
        call.check()?;
        let proofs: Vec<Bring> = one.brings().collect();
        let proofs: Vec<(&str, Option<u64>)> =
            proofs.iter().map(|proof| (proof.target.as_str(), chosen.docs_expected(&proof.index))).collect();
        prove_counts(&chosen.server, &proofs)?;
        remove(call, &chosen.server, &one.copies.iter().map(String::as_str).collect::<Vec<_>>())?;
        one.proof = StageState::Proven;
    }
    Ok(())
}

/// What lies under a live name is noted as soon as the server has it: by its `uuid` a later call knows it from a client's.
fn record_direct(call: &Call, server: &Server, staged: &mut Staged) -> Result<(), Failure> {
    let asked = |one: &StagedIndex| one.is_direct() && one.state == StageState::Restoring && one.uuid.is_none();
    let names: Vec<String> = staged.indices.iter().filter(|one| asked(one)).map(|one| one.index.clone()).collect();
    if names.is_empty() {
        return Ok(());
    }
    let found = look(server, &names.iter().map(String::as_str).collect::<Vec<_>>())?;
    for one in staged.indices.iter_mut().filter(|one| asked(one)) {
        one.uuid = found.get(&one.index).map(|index| index.uuid.clone());
    }
    swaps::write(call, call.run_id(), "stage", staged)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run() -> RunId {
        "20261120t020003z-hand".parse().unwrap()
    }

    fn bring(index: &str) -> Bring {
        Bring { index: index.to_owned(), target: copies::staged(&run(), index) }
    }

    #[test]
    fn one_request_stages_all_but_the_names_that_had_to_be_cut() {
        let long = "x".repeat(250);
        let direct = Bring { index: "c".to_owned(), target: "c".to_owned() };
        let requests = requests(&run(), "my backup", "s1", &[bring("a"), bring("b"), bring(&long), direct]);
        assert_eq!(requests.len(), 3);
        assert!(requests.iter().all(|one| one.path == "/_snapshot/my%20backup/s1/_restore"));
        assert_eq!(requests[0].body["indices"], "a,b");
        assert_eq!(requests[0].body["rename_replacement"], "svc-staged-20261120t020003z-hand-$1");
        assert_eq!(requests[0].body["include_aliases"], false);
        assert_eq!(requests[1].body["indices"], long);
        assert_eq!(requests[1].body["rename_replacement"], copies::staged(&run(), &long));
        assert_eq!(requests[2].body["index_settings"], json!({"index.blocks.write": true}));
    }

    #[test]
    fn a_restore_is_under_way_while_the_clusters_state_speaks_of_its_indices() {
        let state = json!({"restore": {"snapshots": [{"snapshot": "s", "indices": ["other", "mine"]}]}});
        assert!(under_way(&state, &BTreeSet::from(["mine"])));
        assert!(!under_way(&state, &BTreeSet::from(["yours"])));
        assert!(!under_way(&json!({"restore": {"snapshots": []}}), &BTreeSet::from(["mine"])));
        assert!(!under_way(&json!({}), &BTreeSet::from(["mine"])));
    }

    #[test]
    fn the_innermost_reason_is_found_in_both_servers_ways_of_telling() {
        let nested = "failed shard on node [n]: failed recovery, failure RecoveryFailedException[x]; nested: CorruptIndexException[checksum failed]; ";
        assert_eq!(innermost(nested), "CorruptIndexException[checksum failed];");
        let trace = "failed recovery, failure a.RecoveryFailedException: x\n\tat a.B(C.java:1)\nCaused by: org.CorruptIndexException: verification failed\n\tat d.E";
        assert_eq!(innermost(trace), "org.CorruptIndexException: verification failed");
    }
}
