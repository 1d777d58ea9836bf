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

use serde_json::{Map, Value, json};
use svc_step::poll::{retry, sleep};
use svc_step::{Action, Call, Failure, Status};

use crate::client::{PASSES, Server, passes, while_away};
use crate::index::act::{give, remove_index};
use crate::index::clone::{LiveClone, PLACED, Theirs, again, is_refusal, same_count, wait_complete};
use crate::index::{Act, Found, Index, IndexMetadata, clone, copies, counts, get_indices, policy, refuse_unplaced};
use crate::restore::phases::{Phase, live_clones, phase, phase_of, set_states, unfinished};
use crate::restore::{CopiedIndex, SwapIndex, SwapSource, Swapped, auto_create, checks, record};
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
            return Ended::Unfinished(unfinished(&swapped.run, failure));
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
            return Ended::Unfinished(unfinished(&swapped.run, failure));
        }
        let ended = clone::undo(self.call, server, &swapped.run, (&live_clones(swapped), theirs), &mut failure);
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
        let time = |failure: &Failure| match failure.code.as_str() {
            "timeout" | "swap_unfinished" => None,
            _ if passes(failure) => Some(self.server.at_most(PASSES)),
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

    /// After phase 5: opens direct indices, sets the last blocks, closes what was closed, checks that all is finished.
    fn end(&self, swapped: &mut Swapped) -> Result<(), Failure> {
        let found = get_indices(self.server, swapped.names())?;
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
        set_states(swapped, &found);
        match swapped.indices.iter().find(|item| !item.is_finished()) {
            None => {
                swapped.finished = true;
                Ok(())
            }
            Some(item) => Err(stuck(item, "Neither the index nor the copy that was to become live is there.")),
        }
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

/// Phase 3: what is live goes, and in the same call its aliases come to the copies that become live: no client can create an index of an
/// alias's name. All copies get the marker, so that the call fails if it comes late, when the swap was undone and its copies are gone.
fn exchange_actions(swapped: &Swapped, found: &Found) -> Vec<Value> {
    let live = swapped.indices.iter().filter(|item| item.is_old(found)).map(|item| &item.index);
    let discarded = swapped.discarded.iter().filter(|name| found.contains_key(*name));
    let mut actions: Vec<Value> = live.chain(discarded).map(|name| remove_index(name)).collect();
    for (item, source) in swapped.with_source() {
        actions.extend(all_aliases(item, &source.name));
    }
    let mark = |name: &str| json!({"add": {"index": name, "alias": swapped.marker(), "is_hidden": true}});
    actions.extend(swapped.indices.iter().flat_map(SwapIndex::copies).map(mark));
    actions
}

/// Phase 4: a clone under a live name.
fn clone_to_live(swapped: &Swapped, item: &SwapIndex, source: &SwapSource) -> Act {
    let (from, to) = (source.name.clone(), item.index.clone());
    Act::Clone { from, to, lifecycle: Vec::new(), marker: Some(swapped.marker()) }
}

/// Phase 5: the aliases move to the live names, and the copies go.
fn finish_act(swapped: &Swapped, found: &Found) -> Option<Act> {
    let mut actions = Vec::new();
    for (item, source) in swapped.with_source() {
        actions.extend(item.source_in(found).map(|_| remove_index(&source.name)));
        actions.extend(all_aliases(item, &item.index));
    }
    let marked = swapped.with_source().map(|(item, _)| item.index.clone()).chain(swapped.marked_previous(found));
    actions.extend(marked.map(|name| unmark(swapped, &name)));
    (!actions.is_empty()).then_some(Act::Aliases(actions))
}

fn unmark(swapped: &Swapped, name: &str) -> Value {
    json!({"remove": {"index": name, "alias": swapped.marker()}})
}

fn all_aliases<'a>(item: &'a SwapIndex, index: &'a str) -> impl Iterator<Item = Value> + 'a {
    item.becomes.iter().flat_map(|becomes| &becomes.aliases).map(move |(alias, properties)| give(index, alias, properties))
}

/// The requests that give indices their settings, each for all that get the same.
fn settings<'a>(of: impl IntoIterator<Item = (&'a str, Value)>) -> Vec<Act> {
    let mut alike: Vec<(Value, Vec<&str>)> = Vec::new();
    for (index, settings) in of {
        match alike.iter_mut().find(|(same, _)| *same == settings) {
            Some((_, indices)) => indices.push(index),
            None => alike.push((settings, vec![index])),
        }
    }
    let set = |(settings, indices): (Value, Vec<&str>)| {
        Act::each(indices, move |indices| Act::Set { indices, settings: settings.clone() })
    };
    alike.into_iter().flat_map(set).collect()
}

/// What comes after phase 5. What was restored directly is opened for writes; it is never removed from then on. The blocks that forbid to
/// change an index any more come last, and what is closed. `seen`: what is live; `is_plan`: what is not there is still to come.
fn last_acts<'a>(
    swapped: &'a Swapped,
    found: &Found,
    seen: impl Fn(&SwapIndex) -> Option<&'a IndexMetadata>,
    is_plan: bool,
) -> Vec<Act> {
    let is_unopened = |one: &&CopiedIndex| found.get(&one.index).map_or(is_plan, |_| one.is_unopened(found));
    let opening = |one: &'a CopiedIndex| (one.index.as_str(), one.metadata.clone().unwrap_or_default().block_settings());
    let all = || swapped.with_source().filter_map(|(item, _)| Some((item.index.as_str(), item.becomes.as_ref()?, seen(item)?)));
    let is_verified = |of: &IndexMetadata| of.verified_read_only;
    let verified = all().filter(|(_, becomes, seen)| is_verified(becomes) && !is_verified(seen)).map(|(index, ..)| index);
    let is_direct = |one: &&CopiedIndex| is_unopened(one) && one.metadata.as_ref().is_some_and(is_verified);
    let direct = swapped.direct.iter().filter(is_direct).map(|one| one.index.as_str());
    let mut acts = Act::each(verified.chain(direct), Act::Block);
    acts.extend(settings(swapped.direct.iter().filter(is_unopened).map(opening)));
    // Another host may have come through phase 5 without them.
    let marked: Vec<Value> = swapped.marked_previous(found).iter().map(|name| unmark(swapped, name)).collect();
    acts.extend((!marked.is_empty()).then_some(Act::Aliases(marked)));
    acts.extend(settings(all().filter_map(|(index, becomes, seen)| Some((index, becomes.missing_blocks(seen)?)))));
    let open = all().filter(|(_, becomes, seen)| becomes.closed && !seen.closed).map(|(index, ..)| index);
    let is_to_close = |one: &&CopiedIndex| {
        let is_open = found.get(&one.index).map_or(is_plan, |live| !live.metadata.closed);
        is_open && one.metadata.as_ref().is_some_and(|metadata| metadata.closed)
    };
    acts.extend(Act::each(open.chain(swapped.direct.iter().filter(is_to_close).map(|one| one.index.as_str())), Act::Close));
    acts
}

/// The requests that are left of the swap, in their order, by what the server shows.
pub(super) fn requests(swapped: &Swapped, found: &Found) -> Vec<Action> {
    let (phase, copy, mut then, mut acts) = (phase_of(swapped, found), IndexMetadata::of_copy(), found.clone(), Vec::new());
    if phase == Phase::Before {
        acts = clone::requests(&live_clones(swapped), found);
        acts.push(Act::Aliases(exchange_actions(swapped, found)));
        let mut marked = Index::of_copy();
        marked.metadata.aliases.insert(swapped.marker(), Map::new());
        then.extend(swapped.indices.iter().filter_map(|item| Some((item.previous.clone()?, marked.clone()))));
    }
    let is_clone = |item: &SwapIndex| phase == Phase::After || swapped.is_marked(found, &item.index);
    let seen = |item: &SwapIndex| found.get(&item.index).filter(|_| is_clone(item)).map_or(&copy, |live| &live.metadata);
    if phase != Phase::After {
        let missing = swapped.with_source().filter(|(item, _)| !is_clone(item));
        acts.extend(missing.map(|(item, source)| clone_to_live(swapped, item, source)));
        let unset = swapped.with_source().filter_map(|(item, _)| Some((item.index.as_str(), item.missing_settings(seen(item))?)));
        acts.extend(settings(unset));
        acts.extend(finish_act(swapped, &then));
        swapped.marked_previous(&then).iter().for_each(|name| drop(then.remove(name)));
    }
    acts.extend(last_acts(swapped, &then, |item| Some(seen(item)), true));
    acts.iter().map(Act::action).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::restore::fixtures::{found, index, swapped};

    #[test]
    fn indices_are_blocked_and_cloned_before_exchange() {
        let live = found(&[("a", index("live a", &["all"])), ("b", index("live b", &["all"]))]);
        let requests = requests(&swapped(), &live);
        let lines: Vec<String> = requests
            .iter()
            .map(|action| match action {
                Action::Request { method, path, .. } => format!("{method} {}", path.split('?').next().unwrap_or_default()),
                _ => String::new(),
            })
            .collect();
        let (previous, staged) = ("svc-before-20261120t020003z-hand", "svc-staged-20261120t020003z-hand-a");
        assert_eq!(
            lines,
            [
                "PUT /a,b/_block/write".to_owned(),
                format!("POST /a/_clone/{previous}-a"),
                format!("POST /b/_clone/{previous}-b"),
                "POST /_aliases".to_owned(),
                format!("POST /{staged}/_clone/a"),
                "PUT /a/_settings".to_owned(),
                "POST /_aliases".to_owned(),
            ]
        );
        let exchange = Value::Array(exchange_actions(&swapped(), &live)).to_string();
        assert_eq!((exchange.matches("remove_index").count(), exchange.matches(staged).count()), (2, 2), "{exchange}");
    }
}
