//! A swap in five phases over the whole set, all or nothing:
//!
//! 1. what is live takes no writes any more;
//! 2. all of it is cloned to the names of the previous copies, waited for and counted;
//! 3. the exchange: one `_aliases` call removes what is live and gives its aliases to the copies that are to become live;
//! 4. those are cloned to the live names, waited for, counted and settled: replicas, lifecycle, writes;
//! 5. one `_aliases` call moves the aliases to them and removes the copies.
//!
//! What fails before the exchange is undone, all of it. After it the swap is only finished, by this call or the next: how far it has
//! come is read from the server. Since the exchange every copy that is to become live bears a marker, a hidden alias, and so does its
//! clone; the call of phase 5 takes it off.

use std::collections::BTreeSet;
use std::thread;
use std::time::Duration;

use serde_json::Value;
use svc_step::{Call, Failure, Status, Unit};

use crate::client::Server;
use crate::index::clone::{LiveClone, again, is_refusal, same_count, wait_complete};
use crate::index::{Act, Found, Index, IndexMetadata, clone, copies, counts, get_indices, policy};
use crate::restore::checks::refuse_unsound;
use crate::restore::phases::{
    blocks, clone_to_live, exchange, finish, live_clones, openings, phase, phase_of, remove_index, settings, unfinished,
};
use crate::restore::{Phase, SwapIndex, SwapSource, SwapState, Swapped, record};
use crate::throttle::{self, Change};

/// How often what fails after the exchange is tried again, and the pause before.
const ATTEMPTS: u32 = 8;
const PAUSE: Duration = Duration::from_millis(250);

#[derive(Debug)]
pub(crate) enum Ended {
    Finished,
    /// It failed before its exchange, and what is live is as it was.
    Undone(Failure),
    /// It failed, and the same command finishes it.
    Unfinished(Failure),
}

struct Swap<'a> {
    call: &'a Call,
    server: &'a Server,
}

/// Records the plan, carries it out, and records how it ended. A signal does not interrupt it; the time limit does, before the exchange.
pub(crate) fn execute(call: &Call, server: &Server, swapped: &mut Swapped) -> Ended {
    if let Err(failure) = record::write(call, &swapped.run, "swap", swapped)
        && !matches!(phase(server, swapped), Ok(Phase::Exchanged))
    {
        return Ended::Undone(failure);
    }
    let ended = Swap { call, server }.run(swapped);
    if !matches!(ended, Ended::Undone(_)) {
        record::write_end(call, &swapped.run, "swap", swapped);
    }
    ended
}

impl Swap<'_> {
    fn run(&self, swapped: &mut Swapped) -> Ended {
        let progress = self.call.progress("swap", Unit::Items("indices"));
        let total = swapped.indices.len() as u64;
        progress.set(0, total);
        let names = swapped.live_names();
        let is_excluded = swapped.alone && !names.is_empty();
        let auto_create = is_excluded.then(|| throttle::exclude_live(self.call, self.server, &names)).flatten();
        let mut theirs = BTreeSet::new();
        if let Err(failure) = self.until_exchanged(swapped, &mut theirs) {
            return self.undo(swapped, &theirs, auto_create, failure);
        }
        if let Err(failure) = self.finish(swapped) {
            self.read_states(swapped);
            // Clients are kept from creating indices of the live names until the next call finishes it.
            return Ended::Unfinished(unfinished(&swapped.run, failure));
        }
        let _ = auto_create.map(|change| change.put_back_own(self.call, self.server));
        progress.set(total, total);
        let direct = swapped.direct.iter().map(|one| (one.index.as_str(), one.metadata.as_ref()));
        let all = swapped.indices.iter().map(|item| (item.index.as_str(), item.becomes.as_ref())).chain(direct);
        policy::attach(self.call, self.server, all.filter_map(|(index, metadata)| Some((index, metadata?.policy.clone()?))));
        Ended::Finished
    }

    fn until_exchanged(&self, swapped: &Swapped, theirs: &mut BTreeSet<String>) -> Result<(), Failure> {
        again(|| match self.exchange(swapped, theirs) {
            // The answer was lost, or another host was faster with the same run.
            Err(failure) => match phase(self.server, swapped) {
                Ok(Phase::Exchanged | Phase::After) => Ok(()),
                Ok(Phase::Before) | Err(_) => Err(failure),
            },
            ended => ended,
        })
    }

    /// Phases 1 to 3.
    fn exchange(&self, swapped: &Swapped, theirs: &mut BTreeSet<String>) -> Result<(), Failure> {
        let found = get_indices(self.server, &swapped.names())?;
        if phase_of(swapped, &found) != Phase::Before {
            return Ok(());
        }
        let limit = || {
            if self.call.deadline().passed() {
                return Err(Failure::timeout("timeout", "The swap did not come to its exchange within the time limit."));
            }
            Ok(())
        };
        clone::make(self.call, self.server, &live_clones(swapped), theirs, limit)?;
        // It may have lost a shard since it was verified, and what is live is all there is then.
        let found = get_indices(self.server, &swapped.names())?;
        let sources: Vec<&SwapSource> = swapped.with_source().map(|(_, source)| source).collect();
        refuse_unsound(self.server, &sources, &found)?;
        limit()?;
        Act::Aliases(exchange(swapped, &found)).send(self.call, self.server)
    }

    /// After a failure before the exchange: nothing of the swap stays. Where the outcome of the exchange is unknown, nothing is touched.
    fn undo(
        &self,
        swapped: &mut Swapped,
        theirs: &BTreeSet<String>,
        auto_create: Option<Change<'_>>,
        mut failure: Failure,
    ) -> Ended {
        let is_known = failure.code != "answer_lost" && phase(self.server, swapped).is_ok_and(|phase| phase == Phase::Before);
        if !is_known {
            self.read_states(swapped);
            return Ended::Unfinished(unfinished(&swapped.run, failure));
        }
        let ended = clone::undo(self.call, self.server, &live_clones(swapped), theirs);
        let _ = auto_create.map(|change| change.put_back_own(self.call, self.server));
        self.read_states(swapped);
        if let Err(left) = ended {
            failure.causes.push(format!("What the swap had begun could not be undone: {left}"));
            return Ended::Unfinished(unfinished(&swapped.run, failure));
        }
        self.call.effects().undone();
        if failure.hint.is_none() {
            failure.hint = Some("What is live is as it was; when that is fixed, run the same command again.".to_owned());
        }
        Ended::Undone(failure)
    }

    /// Phases 4 and 5, tried again whatever fails: there is no way back any more.
    fn finish(&self, swapped: &mut Swapped) -> Result<(), Failure> {
        let mut attempts = 0;
        loop {
            let ended = self.finish_once(swapped).and_then(|()| self.open_and_block(swapped));
            let Err(failure) = ended else { return Ok(()) };
            attempts += 1;
            if attempts >= ATTEMPTS || ["timeout", "swap_unfinished"].contains(&failure.code.as_str()) {
                return Err(failure);
            }
            thread::sleep(PAUSE);
        }
    }

    fn finish_once(&self, swapped: &mut Swapped) -> Result<(), Failure> {
        let found = get_indices(self.server, &swapped.names())?;
        if phase_of(swapped, &found) == Phase::After {
            return Ok(());
        }
        self.refuse_stuck(swapped, &found)?;
        let kept = self.keep_conflicts(swapped, &found)?;
        // Right behind the removal of what clients made there.
        let is_free = |item: &SwapIndex| !found.contains_key(&item.index) || kept.contains(&item.index);
        for (item, source) in swapped.with_source().filter(|(item, _)| is_free(item)) {
            clone_to_live(swapped, item, source).send(self.call, self.server)?;
        }
        let live: Vec<&str> = swapped.with_source().map(|(item, _)| item.index.as_str()).collect();
        // Neither a signal nor the time limit ends it.
        wait_complete(self.server, &live, || Ok(()))?;
        self.verify_and_settle(swapped)?;
        let found = get_indices(self.server, &swapped.names())?;
        self.refuse_external(swapped, &found)?;
        let actions = finish(swapped, &found);
        if !actions.is_empty() {
            Act::Aliases(actions).send(self.call, self.server)?;
        }
        Ok(())
    }

    fn refuse_stuck(&self, swapped: &Swapped, found: &Found) -> Result<(), Failure> {
        let lost =
            swapped.with_source().find(|(item, _)| !swapped.is_marked(found, &item.index) && item.source_in(found).is_none());
        let Some((item, source)) = lost else { return Ok(()) };
        Err(stuck(item, &format!("The copy {} that was to become live is not there.", source.name)))
    }

    /// Under a live name there is an index that a client has just made: the next attempt clones it first.
    fn refuse_external(&self, swapped: &Swapped, found: &Found) -> Result<(), Failure> {
        let external = swapped.with_source().find(|(item, _)| !swapped.is_marked(found, &item.index));
        let Some((item, _)) = external else { return Ok(()) };
        let message = format!("Clients create the index {} again and again while it is to become live.", item.index);
        Err(Failure::failed("conflicting_index", message).hint("Stop what writes to it by that name."))
    }

    /// Keeps the indices that clients made under live names since the exchange, each under a name of its own, and removes them. Gives
    /// their names.
    fn keep_conflicts(&self, swapped: &mut Swapped, found: &Found) -> Result<BTreeSet<String>, Failure> {
        let is_external = |item: &&SwapIndex| item.source.is_some() && !swapped.is_marked(found, &item.index);
        let external = swapped.indices.iter().filter(is_external);
        let external = external.filter_map(|item| Some((item.index.clone(), found.get(&item.index)?)));
        let kept = external.map(|(name, live)| {
            let copy = copies::conflict(&swapped.previous_name(&name), &live.uuid);
            (name, live, copy)
        });
        let kept: Vec<(String, &Index, String)> = kept.collect();
        if kept.is_empty() {
            return Ok(BTreeSet::new());
        }
        let names: Vec<&str> = kept.iter().map(|(name, ..)| name.as_str()).collect();
        wait_complete(self.server, &names, || Ok(()))?;
        let clones: Vec<LiveClone<'_>> = kept
            .iter()
            .map(|(index, live, copy)| LiveClone {
                index,
                uuid: &live.uuid,
                copy: Some(copy),
                was: &live.metadata,
                was_closed: live.closed,
            })
            .collect();
        clone::make(self.call, self.server, &clones, &mut BTreeSet::new(), || Ok(()))?;
        Act::Aliases(names.iter().map(|name| remove_index(name)).collect()).send(self.call, self.server)?;
        for (name, _, copy) in &kept {
            self.call.review(
                "conflicting_index",
                format!("While {name} was not there, a client created an index of that name; it is now {copy}."),
            );
            let item = swapped.indices.iter_mut().find(|item| item.index == *name);
            item.into_iter().for_each(|item| item.conflicts.push(copy.clone()));
        }
        Ok(kept.into_iter().map(|(name, ..)| name).collect())
    }

    /// The clones hold what their sources held, and get what they are to have.
    fn verify_and_settle(&self, swapped: &mut Swapped) -> Result<(), Failure> {
        let found = get_indices(self.server, &swapped.names())?;
        let clones = swapped.with_source().filter(|(item, _)| swapped.is_marked(&found, &item.index));
        let unsettled: Vec<(&str, &SwapSource, Value)> = clones
            .filter_map(|(item, source)| Some((item.index.as_str(), source, item.settle(&found.get(&item.index)?.metadata)?)))
            .collect();
        // Whoever writes by an index's own name may do so from its settings on: they are counted before.
        let counts = counts(self.server, &unsettled.iter().map(|(index, ..)| *index).collect::<Vec<_>>())?;
        for (index, source, _) in &unsettled {
            same_count(&source.name, source.docs_count, index, counts.get(index).copied().unwrap_or_default())?;
        }
        let acts = settings(unsettled.into_iter().map(|(index, _, settings)| (index, settings)));
        acts.iter().try_for_each(|act| self.settle(swapped, act))
    }

    fn settle(&self, swapped: &mut Swapped, act: &Act) -> Result<(), Failure> {
        let Err(failure) = act.send(self.call, self.server) else { return Ok(()) };
        match (act.one_by_one().as_slice(), act) {
            _ if !is_refusal(&failure) => Err(failure),
            ([_], Act::Set { indices, .. }) => self.without_lifecycle(swapped, &indices.concat(), failure),
            // What was refused to several may be granted to each.
            (several, _) => several.iter().try_for_each(|act| self.settle(swapped, act)),
        }
    }

    /// A server may not know the settings of a lifecycle policy, or not take them any more, and names them then: the index becomes live
    /// without it, and people are told.
    fn without_lifecycle(&self, swapped: &mut Swapped, index: &str, failure: Failure) -> Result<(), Failure> {
        let item = swapped.indices.iter_mut().find(|item| item.index == index);
        let becomes = item.and_then(|item| item.becomes.as_mut()).filter(|_| failure.status == Status::Failed);
        let Some(becomes) = becomes else { return Err(failure) };
        let names = |cause: &&String| becomes.lifecycle.keys().any(|name| cause.contains(name.as_str()));
        let Some(why) = failure.causes.iter().rfind(names) else { return Err(failure) };
        let lifecycle = std::mem::take(&mut becomes.lifecycle);
        let told: Vec<String> = lifecycle.iter().map(|(name, value)| format!("{name}={value}")).collect();
        policy::tell_left(self.call, &[format!("{index} ({})", told.join(", "))], why);
        let settings = becomes.settle(&IndexMetadata::of_copy());
        Act::Set { indices: vec![index.to_owned()], settings }.send(self.call, self.server)
    }

    /// What comes when the aliases are where they belong; then all of it has come to where the swap leads.
    fn open_and_block(&self, swapped: &mut Swapped) -> Result<(), Failure> {
        let names = swapped.direct.iter().map(|one| one.index.as_str()).chain(swapped.indices.iter().flat_map(SwapIndex::names));
        let found = get_indices(self.server, &names.collect::<Vec<_>>())?;
        let unopened = swapped.direct.iter().filter(|one| one.is_unopened(&found));
        let acts = [openings(unopened), blocks(swapped, Some(&found))].concat();
        acts.iter().try_for_each(|act| act.send(self.call, self.server))?;
        set_states(swapped, &found);
        match swapped.indices.iter().find(|item| !item.is_finished()) {
            None => {
                swapped.finished = true;
                Ok(())
            }
            Some(item) => Err(stuck(item, "Neither the index nor the copy that was to become live is there.")),
        }
    }

    /// The states, as far as the server answers.
    fn read_states(&self, swapped: &mut Swapped) {
        if let Ok(found) = get_indices(self.server, &swapped.names()) {
            set_states(swapped, &found);
        }
    }
}

fn stuck(item: &SwapIndex, why: &str) -> Failure {
    Failure::invalid("swap_unfinished", format!("The swap of {} cannot be finished.", item.index)).cause(why).hint(
        "GET /_cat/indices shows what there is of the indices that the plan names; if a staged copy is missing, stage its snapshot again (svc-snap stage --from DOCUMENT).",
    )
}

pub(super) fn set_states(swapped: &mut Swapped, found: &Found) {
    let marked: Vec<bool> = swapped.indices.iter().map(|item| swapped.is_marked(found, &item.index)).collect();
    for (item, is_marked) in swapped.indices.iter_mut().zip(marked) {
        let is_new = item.source.is_some() && found.contains_key(&item.index) && !is_marked && item.source_in(found).is_none();
        item.state = match item.is_old(found) {
            true => SwapState::Old,
            false if is_new => SwapState::New,
            false => SwapState::Absent,
        };
    }
}
