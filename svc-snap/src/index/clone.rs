//! Clones of live indices: the first two phases of a swap, and all of `clone`.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use svc_step::poll::{AT_ONCE, poll, retry, sleep};
use svc_step::{Call, Failure, Status, Unit};

use crate::client::{RETRY_BUSY_FOR, Server, path, while_away};
use crate::index::{
    Act, Counts, Found, Index, IndexMetadata, copies, counts, get_indices, incomplete, list_of, portions, refuse_any,
    refuse_unplaced,
};

/// How long clones may take to become complete. They are made of hard links; what is live takes no writes, or is not there, meanwhile.
const TIMEOUT: Duration = Duration::from_secs(300);

/// When a server has decided which node takes a clone.
pub(crate) const PLACED: Duration = Duration::from_secs(2);

/// How many clones are asked for at once.
const TOGETHER: usize = 16;

/// A live index, and the copy that is made of it.
#[derive(Debug, Clone)]
pub(crate) struct LiveClone<'a> {
    pub index: &'a str,
    /// Its `uuid`: another index of that name is neither cloned nor touched.
    pub uuid: &'a str,
    /// The name of the copy; `None`: it is only blocked.
    pub copy: Option<&'a str>,
    /// What it had before beside its documents.
    pub was: &'a IndexMetadata,
}

impl LiveClone<'_> {
    fn live<'f>(&self, found: &'f Found) -> Option<&'f Index> {
        found.get(self.index).filter(|live| live.uuid == self.uuid)
    }

    fn has_copy(&self, found: &Found) -> bool {
        self.copy.is_some_and(|copy| found.contains_key(copy))
    }

    pub(crate) fn is_blocked_by_us(&self, found: &Found) -> bool {
        !self.was.write_block() && self.live(found).is_some_and(|live| live.metadata.write_block())
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.index).chain(self.copy)
    }
}

fn get_all(server: &Server, all: &[LiveClone<'_>]) -> Result<Found, Failure> {
    get_indices(server, all.iter().flat_map(LiveClone::names))
}

/// The requests that are left to be sent, by what the server shows: open, remove the copies of indices that took writes since, block.
fn blocking(all: &[LiveClone<'_>], found: &Found) -> Vec<Act> {
    // What is given up is blocked too, unless it is closed or lacks shards.
    let is = |wanted: fn(&Index) -> bool| {
        move |one: &&LiveClone<'_>| {
            let blocks = |live: &Index| wanted(live) && (one.copy.is_some() || (live.complete && !live.metadata.closed));
            one.live(found).is_some_and(blocks)
        }
    };
    let names = |wanted: fn(&Index) -> bool| all.iter().filter(is(wanted)).map(|one| one.index);
    let outdated = all.iter().filter(is(|live| !live.metadata.write_block())).filter(|one| one.has_copy(found));
    let mut acts = Act::each(names(|live| live.metadata.closed), Act::Open);
    acts.extend(Act::each(outdated.filter_map(|one| one.copy), Act::Delete));
    acts.extend(Act::each(names(|live| !live.metadata.write_block()), Act::Block));
    acts
}

fn clones(all: &[LiveClone<'_>], found: &Found) -> Vec<Act> {
    let missing = all.iter().filter(|one| !one.has_copy(found));
    let clone = |one: &LiveClone<'_>| {
        let (from, to) = (one.index.to_owned(), one.copy?.to_owned());
        Some(Act::Clone { from, to, lifecycle: one.was.lifecycle.keys().cloned().collect(), marker: None })
    };
    missing.filter_map(clone).collect()
}

/// The requests, if no other run is in progress.
pub(crate) fn requests(all: &[LiveClone<'_>], found: &Found) -> Vec<Act> {
    let blocking = blocking(all, found);
    let outdated = blocking.iter().filter_map(|act| if let Act::Delete(copies) = act { Some(copies) } else { None }).flatten();
    let mut found = found.clone();
    outdated.for_each(|copy| drop(found.remove(copy)));
    let clones = clones(all, &found);
    blocking.into_iter().chain(clones).collect()
}

/// The copies that a call of the same run on another host has made meanwhile.
pub(crate) type Theirs = BTreeSet<String>;

/// Blocks all of them, clones them, and gives how many documents each holds; `check` says whether to continue.
pub(crate) fn make(
    call: &Call,
    server: &Server,
    all: &[LiveClone<'_>],
    theirs: &mut Theirs,
    check: impl Fn() -> Result<(), Failure> + Sync,
) -> Result<Counts, Failure> {
    again(|| {
        check()?;
        block(call, server, all, &check)
    })?;
    again(|| {
        let clones = clones(all, &get_all(server, all)?);
        send_clones(call, server, &clones, theirs, &check)
    })?;
    let (live, copies): (Vec<&str>, Vec<&str>) = all.iter().filter_map(|one| Some((one.index, one.copy?))).unzip();
    // What can still be undone does not wait for what no node may take.
    let begun = Instant::now();
    let is_placed = || if begun.elapsed() < PLACED { Ok(()) } else { refuse_unplaced(server, &copies) };
    wait_complete(server, &copies, || check().and_then(|()| is_placed()))?;
    for names in portions(&live) {
        server.post(&path(&[&list_of(&names), "_refresh"]), None)?;
    }
    let counts = counts(server, live.iter().chain(&copies))?;
    let of = |name: &str| counts.get(name).copied().unwrap_or_default();
    for (live, copy) in live.into_iter().zip(copies) {
        same_count(live, of(live), copy, of(copy))?;
    }
    Ok(counts)
}

/// Sends them, several at once where they are many: the more shards a server has, the longer it takes for each.
pub(crate) fn send_clones(
    call: &Call,
    server: &Server,
    clones: &[Act],
    theirs: &mut Theirs,
    check: impl Fn() -> Result<(), Failure> + Sync,
) -> Result<(), Failure> {
    let progress = call.progress("clone", Unit::Items("indices"));
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let failures = || failed.lock().unwrap_or_else(PoisonError::into_inner);
    let has_failed = || !failures().is_empty();
    let send = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(act) = clones.get(number).filter(|_| !has_failed()) else { return };
            progress.set(number as u64, clones.len() as u64, None);
            if let Err(failure) = check().and_then(|()| act.send(call, server)) {
                failures().push((act, failure));
            }
        }
    };
    thread::scope(|scope| (0..(clones.len() / TOGETHER).clamp(1, TOGETHER)).for_each(|_| drop(scope.spawn(send))));
    let failed = std::mem::take(&mut *failures());
    theirs.extend(failed.iter().filter_map(|(act, failure)| match act {
        Act::Clone { to, .. } if is_there(failure) => Some(to.clone()),
        _ => None,
    }));
    failed.into_iter().map(|(_, failure)| failure).min_by_key(is_transient).map_or(Ok(()), Err)
}

fn block(call: &Call, server: &Server, all: &[LiveClone<'_>], check: &impl Fn() -> Result<(), Failure>) -> Result<(), Failure> {
    let found = get_all(server, all)?;
    refuse_changed(all, &found)?;
    let (first, blocks): (Vec<Act>, Vec<Act>) = blocking(all, &found).into_iter().partition(|act| !matches!(act, Act::Block(_)));
    first.iter().try_for_each(|act| act.send(call, server))?;
    let opened: Vec<&str> = all.iter().filter(|one| one.was.closed && one.copy.is_some()).map(|one| one.index).collect();
    wait_complete(server, &opened, check)?;
    blocks.iter().try_for_each(|act| act.send(call, server))?;
    let now = get_all(server, all)?;
    // Another host was faster with the same run: what it has made live takes writes again.
    let is_conflicting = |one: &&LiveClone<'_>| {
        let blocked = |act: &Act| matches!(act, Act::Block(names) if names.iter().any(|name| name == one.index));
        one.live(&now).is_none() && now.contains_key(one.index) && blocks.iter().any(blocked)
    };
    let conflicting = all.iter().filter(is_conflicting).map(|one| one.index);
    Act::each(conflicting, Act::Unblock).iter().try_for_each(|act| act.send(call, server))?;
    refuse_changed(all, &now)
}

fn refuse_changed(all: &[LiveClone<'_>], found: &Found) -> Result<(), Failure> {
    let changed: Vec<&str> = all.iter().filter(|one| one.live(found).is_none()).map(|one| one.index).collect();
    let message = "Another client has removed or replaced these meanwhile";
    let hint = "What else is live is as it was. Run the same command again; a swap that was begun can only be reversed (--back).";
    refuse_any("name_in_use", message, &changed, hint)
}

/// What has to be undone of it, by what the server shows.
pub(crate) fn undoing(all: &[LiveClone<'_>], found: &Found) -> Vec<Act> {
    let live = || all.iter().filter(|one| one.live(found).is_some());
    let is_opened = |one: &&LiveClone<'_>| one.was.closed && one.live(found).is_some_and(|live| !live.metadata.closed);
    // A copy goes before the block, so that a call that finds a copy of an index that takes writes knows it to be outdated.
    let copies = live().filter(|one| one.has_copy(found)).filter_map(|one| one.copy);
    let mut acts = Act::each(copies, Act::Delete);
    acts.extend(Act::each(live().filter(|one| one.is_blocked_by_us(found)).map(|one| one.index), Act::Unblock));
    acts.extend(Act::each(live().filter(is_opened).map(|one| one.index), Act::Close));
    acts
}

/// Removes the copies but `theirs`, takes the blocks off and closes what was closed, as far as the server does it. Gives the copies that
/// stay, since another client has removed or replaced their indices; `failure` says so then.
pub(crate) fn undo(
    call: &Call,
    server: &Server,
    run: &str,
    (all, theirs): (&[LiveClone<'_>], &Theirs),
    failure: &mut Failure,
) -> Result<Vec<String>, Failure> {
    let found = while_away(server, |server| {
        let mut ended = wait_for_requests(server);
        let mut found = get_all(server, all)?;
        found.retain(|name, _| !theirs.contains(name));
        for act in undoing(all, &found) {
            ended = ended.and(send_or_each(call, server, &act));
        }
        ended.map(|()| found)
    })?;
    let may_be_why = failure.signal.is_none() && (is_refusal(failure) || failure.status == Status::Invalid);
    if let (true, Err(changed)) = (may_be_why && failure.code != "name_in_use", refuse_changed(all, &found)) {
        let was = std::mem::replace(failure, changed);
        failure.causes = std::iter::once(was.message).chain(was.causes).collect();
    }
    let last = last_copies(all, &found);
    if let Some(discard) = review_last(call, run, &last) {
        call.effects().stays();
        *failure = failure.clone().further_hint(discard);
    }
    Ok(last)
}

/// Waits until the server has done what it was asked before: a request of a killed call, or one whose answer was lost, may be among
/// that. What it does before such a request is in its queue is among its tasks, which not every user may list.
pub(crate) fn wait_for_requests(server: &Server) -> Result<(), Failure> {
    wait_for_tasks(server, "cluster:admin/snapshot/restore,indices:admin/resize,indices:admin/block/add");
    let health = server.get("/_cluster/health?wait_for_events=languid&timeout=30s&filter_path=timed_out")?;
    if health.get("timed_out") == Some(&Value::Bool(false)) {
        return Ok(());
    }
    Err(Failure::unavailable("server_busy", "The server has more to do than it does in half a minute."))
}

/// Waits for the server's tasks of these actions, half a minute at most.
pub(crate) fn wait_for_tasks(server: &Server, actions: &str) {
    let _ = server.get(&format!("/_tasks?actions={actions}&wait_for_completion=true&timeout=30s"));
}

/// Whether the server shows a task of these actions.
pub(crate) fn is_under_way(server: &Server, actions: &str) -> bool {
    let tasks = server.get(&format!("/_tasks?actions={actions}"));
    tasks.is_ok_and(|tasks| tasks.get("nodes").and_then(Value::as_object).is_some_and(|nodes| !nodes.is_empty()))
}

/// Says of copies that may be the last ones that they stay; gives the command that removes them, as a sentence.
pub(crate) fn review_last(call: &Call, run: &str, last: &[String]) -> Option<String> {
    let discard = format!("{} removes what stays, if it is not needed.", copies::discard(call, run));
    let message = "These may be the last copies of what other clients have removed or replaced, and stay";
    (!last.is_empty()).then(|| {
        call.review("not_removed", format!("{message}: {}. {discard}", last.join(", ")));
        discard
    })
}

/// The copies of indices that are not there any more.
pub(crate) fn last_copies(all: &[LiveClone<'_>], found: &Found) -> Vec<String> {
    let lost = all.iter().filter(|one| one.live(found).is_none() && one.has_copy(found));
    lost.filter_map(|one| one.copy).map(str::to_owned).collect()
}

/// A request for several indices that the server refuses may be granted to each but one.
pub(crate) fn send_or_each(call: &Call, server: &Server, act: &Act) -> Result<(), Failure> {
    match (act.send(call, server), act.one_by_one()) {
        (Err(failure), each) if each.len() > 1 && is_refusal(&failure) => {
            each.iter().map(|act| act.send(call, server)).fold(Ok(()), Result::and)
        }
        (ended, _) => ended,
    }
}

/// Does it again if an answer was lost or another client was faster with a name: what is there is asked first.
pub(crate) fn again<T>(work: impl FnMut() -> Result<T, Failure>) -> Result<T, Failure> {
    retry(|failure| is_transient(failure).then_some(RETRY_BUSY_FOR), sleep, work)
}

/// Whether the outcome of the request is unknown, or an index of the clone's name is there already.
fn is_transient(failure: &Failure) -> bool {
    failure.code == "outcome_unknown" || is_there(failure)
}

/// Whether the server says that an index of the clone's name is there already; an alias of that name does not pass by itself.
fn is_there(failure: &Failure) -> bool {
    failure.code == "name_in_use" && failure.causes.iter().any(|cause| cause.contains("resource_already_exists"))
}

/// Waits until these indices are complete (else 6) or gone; `check` says whether to continue.
pub(crate) fn wait_complete(server: &Server, names: &[&str], check: impl Fn() -> Result<(), Failure>) -> Result<(), Failure> {
    let mut left = names.to_vec();
    let poll_once = || {
        left = incomplete(server, &left)?;
        Ok(left.is_empty().then_some(()))
    };
    let pause = |time| sleep(time).and_then(|()| check());
    match (poll(AT_ONCE, TIMEOUT, pause, poll_once)?, left.first()) {
        (None, Some(index)) => Err(Failure::timeout("timeout", format!("The index {index} did not become complete in time."))
            .hint(format!("GET /_cluster/allocation/explain says why; GET /_cat/shards/{index} shows its shards."))),
        _ => Ok(()),
    }
}

/// Refuses a clone that does not hold as many documents as what it is of (7).
pub(crate) fn same_count(one: &str, count: u64, other: &str, other_count: u64) -> Result<(), Failure> {
    if count == other_count {
        return Ok(());
    }
    Err(Failure::invalid("content_differs", format!("{one} holds {count} documents, but its clone {other} holds {other_count}.")))
}

/// Whether a request for several indices may be granted to each of them.
pub(crate) fn is_refusal(failure: &Failure) -> bool {
    matches!(failure.status, Status::Failed | Status::Refused | Status::NotFound)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::is_transient;
    use crate::client::errors::refusal;

    #[test]
    fn existing_clone_index_is_transient_error() {
        let passes =
            |kind: &str, reason: &str| is_transient(&refusal(400, &json!({"error": {"type": kind, "reason": reason}})).failure);
        assert!(passes("resource_already_exists_exception", "index [a/uuid] already exists"));
        assert!(!passes("invalid_index_name_exception", "Invalid index name [a], already exists as alias"));
        assert!(!passes("snapshot_restore_exception", "an open index with same name already exists in the cluster"));
    }
}
