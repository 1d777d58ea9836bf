//! A swap in five phases over the whole set, all or nothing:
//!
//! 1. what is live takes no writes any more;
//! 2. all of it is cloned to the names of the previous copies, waited for and counted;
//! 3. the exchange: one `_aliases` call removes what is live and gives its aliases to the copies that are to become live;
//! 4. those are cloned to the live names, waited for and counted, and get their settings: replicas, lifecycle, writes;
//! 5. one `_aliases` call moves the aliases to them and removes the copies.
//!
//! What fails before the exchange is undone, all of it. After it the swap is only finished, by this call or the next: the server shows how
//! far it has come. From the exchange to phase 5 every copy has a marker, a hidden alias, and so has each clone under a live name.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::Value;
use svc_step::poll::{retry, sleep};
use svc_step::{Call, Failure, Status};

use crate::client::{RETRY_AWAY_FOR, Server, passes, while_away};
use crate::index::act::remove_index;
use crate::index::clone::{LiveClone, PLACED, Theirs, again, is_refusal, same_count, wait_complete};
use crate::index::{Act, Found, Index, IndexMetadata, clone, copies, counts, get_indices, policy, refuse_unplaced};
use crate::restore::phases::{Phase, live_clones, phase, phase_of, set_states, unfinished};
use crate::restore::requests::{clone_to_live, exchange_actions, finish_act, last_acts, settings};
use crate::restore::{SwapIndex, SwapSource, Swapped, auto_create, checks, record};
use crate::temporary::{Change, lasting};

/// For how long what fails after the exchange is tried again, if it does not pass by itself.
const REFUSED: Duration = Duration::from_secs(2);

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

/// Records the plan, carries it out, and records how it ended. A signal or the time limit interrupts it before the exchange only.
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
        self.server.begin();
        let auto_create = auto_create::exclude(self.call, self.server, swapped);
        let mut theirs = Theirs::new();
        if let Err(failure) = self.until_exchanged(swapped, &mut theirs) {
            return self.undo(swapped, &theirs, auto_create, failure);
        }
        if let Err(failure) = self.finish(swapped) {
            self.read_states(swapped);
            // Clients are kept from creating indices of the live names until the next call finishes it.
            return Ended::Unfinished(unfinished(self.call, self.server, swapped, failure));
        }
        let _ = auto_create.map(|change| change.put_back_own(self.call, self.server));
        let direct = swapped.direct.iter().map(|one| (one.index.as_str(), one.metadata.as_ref()));
        let all = swapped.indices.iter().map(|item| (item.index.as_str(), item.becomes.as_ref())).chain(direct);
        policy::attach(self.call, self.server, all.filter_map(|(index, metadata)| Some((index, metadata?.policy.clone()?))));
        Ended::Finished
    }

    fn until_exchanged(&self, swapped: &Swapped, theirs: &mut Theirs) -> Result<(), Failure> {
        again(|| match self.exchange(swapped, theirs) {
            // The answer was lost, or another host was faster with the same run.
            Err(failure) => match while_away(&self.server.for_undo(self.call), |server| phase(server, swapped)) {
                Ok(Phase::Exchanged | Phase::After) => Ok(()),
                Ok(Phase::Before) | Err(_) => Err(failure),
            },
            ended => ended,
        })
    }

    /// Phases 1 to 3.
    fn exchange(&self, swapped: &Swapped, theirs: &mut Theirs) -> Result<(), Failure> {
        let found = get_indices(self.server, swapped.names())?;
        if phase_of(swapped, &found) != Phase::Before {
            return Ok(());
        }
        clone::make(self.call, self.server, &live_clones(swapped), theirs, || self.call.check())?;
        // They may have lost a shard since they were verified, and what is live is all there is then.
        let found = get_indices(self.server, swapped.names())?;
        checks::refuse_writable(swapped, &found)?;
        let sources: Vec<&SwapSource> = swapped.with_source().map(|(_, source)| source).collect();
        checks::refuse_unsound(self.server, &sources, &found)?;
        self.call.check()?;
        Act::Aliases(exchange_actions(swapped, &found)).send(self.call, self.server)
    }

    /// After a failure before the exchange: nothing of the swap stays. If the outcome of the exchange is unknown, nothing is touched.
    fn undo(&self, swapped: &mut Swapped, theirs: &Theirs, auto_create: Option<Change<'_>>, mut failure: Failure) -> Ended {
        let server = &self.server.for_undo(self.call);
        let is_known = failure.code != "outcome_unknown" && phase(server, swapped).is_ok_and(|phase| phase == Phase::Before);
        if !is_known {
            auto_create.iter().for_each(|_| lasting(self.call));
            self.read_states(swapped);
            return Ended::Unfinished(unfinished(self.call, self.server, swapped, failure));
        }
        let ended = clone::undo(self.call, server, &swapped.run, (&live_clones(swapped), theirs), &mut failure);
        let _ = auto_create.map(|change| change.put_back_own(self.call, self.server));
        self.read_states(swapped);
        if let Err(left) = ended {
            failure.causes.push(format!("What the swap had begun could not be undone: {left}"));
            return Ended::Unfinished(unfinished(self.call, self.server, swapped, failure));
        }
        self.call.effects().undone();
        if failure.hint.is_none() {
            failure.hint = Some("What is live is as it was; when that is fixed, run the same command again.".to_owned());
        }
        Ended::Undone(failure)
    }

    /// Phases 4 and 5, tried again whatever fails: there is no way back any more.
    fn finish(&self, swapped: &mut Swapped) -> Result<(), Failure> {
        let time = |failure: &Failure| match failure.code.as_str() {
            "timeout" | "swap_unfinished" => None,
            _ if passes(failure) => Some(self.server.at_most(RETRY_AWAY_FOR)),
            _ => Some(REFUSED),
        };
        retry(time, sleep, || self.finish_once(swapped).and_then(|()| self.end(swapped)))
    }

    fn finish_once(&self, swapped: &mut Swapped) -> Result<(), Failure> {
        let found = get_indices(self.server, swapped.names())?;
        if phase_of(swapped, &found) == Phase::After {
            return Ok(());
        }
        refuse_stuck(swapped, &found)?;
        let cloned_away = clone_away(self.call, self.server, swapped, &found)?;
        // Right behind the removal of what clients made there.
        let is_free = |item: &SwapIndex| !found.contains_key(&item.index) || cloned_away.contains(&item.index);
        let free = swapped.with_source().filter(|(item, _)| is_free(item));
        let clones: Vec<Act> = free.map(|(item, source)| clone_to_live(swapped, item, source)).collect();
        clone::send_clones(self.call, self.server, &clones, &mut Theirs::new(), || Ok(()))?;
        let live: Vec<&str> = swapped.with_source().map(|(item, _)| item.index.as_str()).collect();
        let (begun, is_told) = (Instant::now(), Cell::new(false));
        // Neither a signal nor the time limit ends it, nor what no node takes now: a node may come back, or a setting be changed.
        wait_complete(self.server, &live, || {
            if begun.elapsed() > PLACED
                && !is_told.get()
                && let Err(why) = refuse_unplaced(self.server, &live)
            {
                is_told.set(why.code == "indices_red");
                let why = format!("{} They are waited for. {}", why.message, why.causes.join("; "));
                is_told.get().then(|| self.call.warn("indices_red", why));
            }
            Ok(())
        })?;
        self.verify_and_set(swapped)?;
        let found = get_indices(self.server, swapped.names())?;
        refuse_external(swapped, &found)?;
        finish_act(swapped, &found).map_or(Ok(()), |act| act.send(self.call, self.server))
    }

    /// The clones hold what their sources held, and get the settings that they are to have.
    fn verify_and_set(&self, swapped: &mut Swapped) -> Result<(), Failure> {
        let found = get_indices(self.server, swapped.names())?;
        let clones = swapped.with_source().filter(|(item, _)| swapped.is_marked(&found, &item.index));
        let missing = |item: &SwapIndex| item.missing_settings(&found.get(&item.index)?.metadata);
        let unset: Vec<(&str, &SwapSource, Value)> =
            clones.filter_map(|(item, source)| Some((item.index.as_str(), source, missing(item)?))).collect();
        // Whoever writes by an index's own name may do so from its settings on: they are counted before.
        let counts = counts(self.server, unset.iter().map(|(index, ..)| *index))?;
        for (index, source, _) in &unset {
            same_count(&source.name, source.docs_count, index, counts.get(*index).copied().unwrap_or_default())?;
        }
        let acts = settings(unset.into_iter().map(|(index, _, settings)| (index, settings)));
        acts.iter().try_for_each(|act| self.set(swapped, act))
    }

    fn set(&self, swapped: &mut Swapped, act: &Act) -> Result<(), Failure> {
        let Err(failure) = act.send(self.call, self.server) else { return Ok(()) };
        match (act.one_by_one().as_slice(), act) {
            _ if !is_refusal(&failure) => Err(failure),
            ([_], Act::Set { indices, .. }) => self.without_lifecycle(swapped, &indices.concat(), failure),
            // What was refused to several may be granted to each.
            (several, _) => several.iter().try_for_each(|act| self.set(swapped, act)),
        }
    }

    /// A server that does not take the settings of a lifecycle policy names them: the index becomes live without it, with a warning.
    fn without_lifecycle(&self, swapped: &mut Swapped, index: &str, failure: Failure) -> Result<(), Failure> {
        let item = swapped.indices.iter_mut().find(|item| item.index == index);
        let becomes = item.and_then(|item| item.becomes.as_mut()).filter(|_| failure.status == Status::Failed);
        let Some(becomes) = becomes else { return Err(failure) };
        let names = |cause: &&String| becomes.lifecycle.keys().any(|name| cause.contains(name.as_str()));
        let Some(why) = failure.causes.iter().rfind(names) else { return Err(failure) };
        let lifecycle = std::mem::take(&mut becomes.lifecycle);
        let named: Vec<String> = lifecycle.iter().map(|(name, value)| format!("{name}={value}")).collect();
        policy::warn_left(self.call, &[format!("{index} ({})", named.join(", "))], why);
        let settings = becomes.final_settings(&IndexMetadata::of_copy());
        Act::Set { indices: vec![index.to_owned()], settings }.send(self.call, self.server)
    }

    /// After phase 5: checks that all of it is live, or was; opens direct indices, sets the last blocks, closes what was closed.
    fn end(&self, swapped: &mut Swapped) -> Result<(), Failure> {
        let found = get_indices(self.server, swapped.names())?;
        set_states(swapped, &found);
        // Phase 5 takes the marker off the previous copies: what is not live behind it has been.
        let is_over = phase_of(swapped, &found) == Phase::After && swapped.marked_previous(&found).is_empty();
        let not_live: Vec<&SwapIndex> = swapped.indices.iter().filter(|item| !item.is_finished()).collect();
        match not_live.first() {
            None => {}
            Some(item) if !is_over => {
                return Err(stuck(item, "Neither the index nor the copy that was to become live is there."));
            }
            Some(_) => {
                let names = not_live.iter().map(|item| item.index.as_str()).collect::<Vec<_>>().join(", ");
                let message = format!("Something has removed these since the swap made them live: {names}.");
                self.call.review("not_restored", message);
            }
        }
        for act in last_acts(swapped, &found, |item| Some(&found.get(&item.index)?.metadata), false) {
            match (act.send(self.call, self.server), &act) {
                // It is open then, with all that it holds and has.
                (Err(failure), Act::Close(names)) if is_refusal(&failure) => {
                    let why = failure.causes.last().unwrap_or(&failure.message);
                    let message =
                        format!("These were closed, and the server does not close them again: {}. {why}", names.join(", "));
                    self.call.review("not_restored", message);
                }
                (ended, _) => ended?,
            }
        }
        swapped.finished = true;
        Ok(())
    }

    fn read_states(&self, swapped: &mut Swapped) {
        if let Ok(found) = get_indices(self.server, swapped.names()) {
            set_states(swapped, &found);
        }
    }
}

/// Clones indices that clients made under live names since the exchange to names of their own, and removes them. Gives their names.
fn clone_away(call: &Call, server: &Server, swapped: &mut Swapped, found: &Found) -> Result<BTreeSet<String>, Failure> {
    let is_external = |item: &&SwapIndex| item.source.is_some() && !swapped.is_marked(found, &item.index);
    let conflict = |item: &SwapIndex| {
        let live = found.get(&item.index)?;
        Some((item.index.clone(), live, copies::conflict(&swapped.previous_name(&item.index), &live.uuid)))
    };
    let conflicts: Vec<(String, &Index, String)> = swapped.indices.iter().filter(is_external).filter_map(conflict).collect();
    if conflicts.is_empty() {
        return Ok(BTreeSet::new());
    }
    let names: Vec<&str> = conflicts.iter().map(|(name, ..)| name.as_str()).collect();
    wait_complete(server, &names, || Ok(()))?;
    let clones =
        conflicts.iter().map(|(index, live, copy)| LiveClone { index, uuid: &live.uuid, copy: Some(copy), was: &live.metadata });
    clone::make(call, server, &clones.collect::<Vec<_>>(), &mut Theirs::new(), || Ok(()))?;
    // Before the removal: its answer may be lost.
    for (name, _, copy) in &conflicts {
        let message = format!("While {name} was not there, a client created an index of that name; it is now {copy}.");
        call.review("name_in_use", message);
        let item = swapped.indices.iter_mut().find(|item| item.index == *name && !item.conflicts.contains(copy));
        item.into_iter().for_each(|item| item.conflicts.push(copy.clone()));
    }
    record::write_end(call, &swapped.run, "swap", swapped);
    Act::Aliases(names.iter().map(|name| remove_index(name)).collect()).send(call, server)?;
    Ok(conflicts.into_iter().map(|(name, ..)| name).collect())
}

fn refuse_stuck(swapped: &Swapped, found: &Found) -> Result<(), Failure> {
    let lost = swapped.with_source().find(|(item, _)| !swapped.is_marked(found, &item.index) && item.source_in(found).is_none());
    let Some((item, source)) = lost else { return Ok(()) };
    Err(stuck(item, &format!("The copy {} that was to become live is not there.", source.name)))
}

/// Under a live name there is an index that a client has just made: the next attempt clones it first.
fn refuse_external(swapped: &Swapped, found: &Found) -> Result<(), Failure> {
    let external = swapped.with_source().find(|(item, _)| !swapped.is_marked(found, &item.index));
    let Some((item, _)) = external else { return Ok(()) };
    let message = format!("Clients create the index {} again and again while it is to become live.", item.index);
    Err(Failure::failed("name_in_use", message).hint("Stop what writes to it by that name."))
}

fn stuck(item: &SwapIndex, why: &str) -> Failure {
    Failure::invalid("swap_unfinished", format!("The swap of {} cannot be finished.", item.index))
        .cause(why)
        .hint("GET /_cat/indices shows what there is of the indices that the plan names.")
}
