//! A swap in five phases over the whole set, all or nothing:
//!
//! 1. what is live takes no writes any more;
//! 2. all of it is cloned to the names under which it is kept, waited for and counted;
//! 3. the exchange: one `_aliases` call removes what is live and gives its aliases to the copies that are to become live;
//! 4. those are cloned to the live names, waited for, counted and settled: replicas, lifecycle, writes;
//! 5. one `_aliases` call moves the aliases to them and removes the copies.
//!
//! What fails before the exchange is undone, all of it. After it the swap is only finished, by this call or the next: how far it has
//! come is read from the server. Since the exchange every copy that is to become live bears a marker, a hidden alias, and so does its
//! clone; the call of phase 5 takes it off.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use svc_step::action::Action;
use svc_step::progress::Unit;
use svc_step::{Call, Failure, Status, swaps};

use super::checks::refuse_unsound;
use super::record::{self, swapped};
use crate::client::Server;
use crate::index::act::Act;
use crate::index::clone::{self, LiveClone, again, is_refusal, same_count, wait_complete};
use crate::index::copies::{self, Way};
use crate::index::count::counts;
use crate::index::resolve::{PassedOver, Reason};
use crate::index::shape::{Shape, give};
use crate::index::{Index, look, policy};
use crate::restore::streams::{self, StreamBack};
use crate::throttle::auto_create::AutoCreate;
use swapped::{Source, State, SwapIndex, Swapped};

/// How often what fails after the exchange is tried again, and the pause before.
const ATTEMPTS: u32 = 8;
const PAUSE: Duration = Duration::from_millis(250);

/// How a swap stands on the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stand {
    /// What was live is live.
    Before,
    /// It is exchanged and not finished.
    Between,
    /// It is exchanged, and no copy is left that was to become live.
    After,
}

/// How a swap ended.
#[derive(Debug)]
pub(crate) enum Ended {
    /// All of it is done.
    Finished,
    /// It failed before its exchange, and what is live is as it was.
    Undone(Failure),
    /// It failed, and the same command finishes it.
    Unfinished(Failure),
}

/// A swap at work.
struct Swap<'a> {
    call: &'a Call,
    server: &'a Server,
    way: Way,
}

/// How a noted swap stands on the server.
///
/// # Errors
/// The server does not answer, or refuses; the note names no run (2).
pub(crate) fn stand(server: &Server, swapped: &Swapped) -> Result<Stand, Failure> {
    Ok(stand_of(&way_of(swapped)?, swapped, &look_at(server, swapped)?))
}

fn way_of(swapped: &Swapped) -> Result<Way, Failure> {
    Ok(Way { run: record::named(&swapped.run)?, back: swapped.back })
}

fn look_at(server: &Server, swapped: &Swapped) -> Result<BTreeMap<String, Index>, Failure> {
    look(server, &swapped.names().collect::<Vec<_>>())
}

fn stand_of(way: &Way, swapped: &Swapped, found: &BTreeMap<String, Index>) -> Stand {
    let is_marked = |name: &str| found.get(name).is_some_and(|index| index.shape.aliases.contains_key(&way.marker()));
    let is_left = |item: &SwapIndex| item.is_old(found) || item.source_in(found).is_some();
    if swapped.indices.iter().any(|item| item.names().any(is_marked)) {
        Stand::Between
    } else if swapped.indices.iter().any(is_left) {
        Stand::Before
    } else {
        Stand::After
    }
}

impl SwapIndex {
    /// Whether the index that was live when the swap was planned still is.
    fn is_old(&self, found: &BTreeMap<String, Index>) -> bool {
        found.get(&self.index).is_some_and(|live| Some(&live.uuid) == self.live_uuid.as_ref())
    }

    /// The settings that its clone under the live name, which looks like `seen`, still needs.
    fn settle(&self, seen: &Shape) -> Option<Value> {
        let becomes = self.becomes.clone().unwrap_or_default();
        (!becomes.is_settled(seen)).then(|| becomes.settle(seen))
    }

    /// The copy that is to become live, where it is that very one.
    fn source_in<'a>(&self, found: &'a BTreeMap<String, Index>) -> Option<&'a Index> {
        let source = self.source.as_ref()?;
        found.get(&source.name).filter(|copy| copy.uuid == source.uuid)
    }
}

/// What is live, as it is blocked and cloned. The clone of an unfinished swap that is taken back is not.
fn live_clones(swapped: &Swapped) -> Vec<LiveClone<'_>> {
    let clones = swapped.indices.iter().filter_map(|item| {
        let was = item.was.as_ref()?;
        Some(LiveClone {
            index: &item.index,
            uuid: item.live_uuid.as_deref()?,
            copy: item.kept.as_deref(),
            lifecycle: was.lifecycle.keys().cloned().collect(),
            was_blocked: was.write_block(),
            was_closed: item.live_closed,
        })
    });
    clones.collect()
}

/// Phase 3: what is live goes, and in the same call its aliases come to the copies that are to become live, which take no writes. So
/// no client can create an index of an alias's name.
fn exchange(way: &Way, swapped: &Swapped, found: &BTreeMap<String, Index>) -> Vec<Value> {
    let live = swapped.indices.iter().filter(|item| item.is_old(found)).map(|item| &item.index);
    let discarded = swapped.discarded.iter().filter(|name| found.contains_key(*name));
    let mut actions: Vec<Value> = live.chain(discarded).map(|name| remove_index(name)).collect();
    for (item, source) in with_source(swapped) {
        actions.extend(all_aliases(item, &source.name));
        actions.push(json!({"add": {"index": source.name, "alias": way.marker(), "is_hidden": true}}));
    }
    actions
}

/// Phase 5: the aliases move to the live names, and the copies go.
fn finish(way: &Way, swapped: &Swapped, found: &BTreeMap<String, Index>) -> Vec<Value> {
    let mut actions = Vec::new();
    for (item, source) in with_source(swapped) {
        actions.extend(item.source_in(found).map(|_| remove_index(&source.name)));
        actions.extend(all_aliases(item, &item.index));
        actions.push(json!({"remove": {"index": item.index, "alias": way.marker()}}));
    }
    actions
}

fn remove_index(name: &str) -> Value {
    json!({"remove_index": {"index": name}})
}

fn with_source(swapped: &Swapped) -> impl Iterator<Item = (&SwapIndex, &Source)> {
    swapped.indices.iter().filter_map(|item| Some((item, item.source.as_ref()?)))
}

fn all_aliases<'a>(item: &'a SwapIndex, index: &'a str) -> impl Iterator<Item = Value> + 'a {
    item.becomes.iter().flat_map(|becomes| &becomes.aliases).map(move |(alias, properties)| give(index, alias, properties))
}

/// Phase 4: a clone under a live name.
fn clone_to_live(way: &Way, item: &SwapIndex, source: &Source) -> Act {
    Act::CloneCopy { from: source.name.clone(), to: item.index.clone(), marker: way.marker() }
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
    let acts = alike
        .into_iter()
        .flat_map(|(settings, indices)| Act::each(indices, move |indices| Act::Set { indices, settings: settings.clone() }));
    acts.collect()
}

/// What was restored under its own name and takes no writes yet, so that nobody can have written to it.
fn unopened<'a>(swapped: &'a Swapped, found: &BTreeMap<String, Index>) -> Vec<&'a swapped::Direct> {
    let is_unopened = |one: &&swapped::Direct| {
        let unopened = |live: &Index| Some(&live.uuid) == one.uuid.as_ref() && live.shape.write_block();
        found.get(&one.index).is_some_and(unopened)
    };
    swapped.direct.iter().filter(is_unopened).collect()
}

/// It is opened for writes when nothing but the end of the swap is left; it is never removed from then on.
fn openings<'a>(direct: impl IntoIterator<Item = &'a swapped::Direct>) -> Vec<Act> {
    let opening = |one: &'a swapped::Direct| (one.index.as_str(), one.becomes.clone().unwrap_or_default().block_settings());
    settings(direct.into_iter().map(opening))
}

/// The blocks that forbid to change an index any more come last; `None` for `found`: none of them is there yet.
fn blocks(swapped: &Swapped, found: Option<&BTreeMap<String, Index>>) -> Vec<Act> {
    let missing = with_source(swapped).filter_map(|(item, _)| {
        let shape = match found {
            Some(found) => found.get(&item.index)?.shape.clone(),
            None => Shape::of_copy(),
        };
        Some((item.index.as_str(), item.becomes.as_ref()?.missing_blocks(&shape)?))
    });
    settings(missing)
}

/// The requests of the whole swap, in their order.
pub(crate) fn requests(way: &Way, swapped: &Swapped, found: &BTreeMap<String, Index>) -> Vec<Action> {
    let aliases = |actions: Vec<Value>| (!actions.is_empty()).then_some(Act::Aliases(actions));
    let clone = Shape::of_copy();
    let settle = with_source(swapped).filter_map(|(item, _)| Some((item.index.as_str(), item.settle(&clone)?)));
    let mut acts = clone::requests(&live_clones(swapped), found);
    acts.extend(aliases(exchange(way, swapped, found)));
    acts.extend(with_source(swapped).map(|(item, source)| clone_to_live(way, item, source)));
    acts.extend(settings(settle));
    acts.extend(aliases(finish(way, swapped, found)));
    acts.extend(openings(&swapped.direct));
    acts.extend(blocks(swapped, None));
    acts.iter().map(Act::action).collect()
}

/// Refuses to go on where a swap has begun and is not finished, as the server shows it: its copies may be all that there is of some
/// indices.
///
/// # Errors
/// It is so (3); the server does not answer, or refuses.
pub(crate) fn refuse_unfinished(server: &Server, swapped: &Swapped) -> Result<(), Failure> {
    let is_stream_cut = swapped.streams.iter().any(StreamBack::is_cut);
    if swapped.is_finished() {
        return Ok(());
    }
    let found = look_at(server, swapped)?;
    let is_untouched = match stand_of(&way_of(swapped)?, swapped, &found) {
        // Copies alone stand in nobody's way, unless they are what an unfinished swap has left that is to be taken back.
        Stand::Before => {
            let is_copy = |act: &Act| matches!(act, Act::Delete(_));
            swapped.discarded.is_empty() && clone::undoing(&live_clones(swapped), &found).iter().all(is_copy)
        }
        Stand::Between => false,
        Stand::After => swapped.indices.is_empty() && swapped.direct.is_empty(),
    };
    if is_untouched && !is_stream_cut {
        return Ok(());
    }
    Err(Failure::refused("swap_unfinished", format!("The swap of the run {} is not finished.", swapped.run))
        .hint(format!("svc-snap swap --run {0} finishes it; svc-snap swap --run {0} --back takes it back.", swapped.run)))
}

/// The swap that takes back one which has not come to its exchange: there is nothing to swap.
///
/// # Errors
/// The server does not answer, or refuses.
pub(crate) fn undone(server: &Server, before: &Swapped) -> Result<Swapped, Failure> {
    let skipped = before.indices.iter().map(|item| PassedOver { name: item.index.clone(), reason: Reason::NotSwapped });
    Ok(Swapped {
        back: !before.back,
        indices: Vec::new(),
        direct: Vec::new(),
        streams: Vec::new(),
        discarded: Vec::new(),
        skipped: skipped.collect(),
        plan: undoing(server, before)?.iter().map(Act::action).collect(),
        ..before.clone()
    })
}

/// What takes back a swap that has not come to its exchange; what was restored directly for it goes too.
fn undoing(server: &Server, before: &Swapped) -> Result<Vec<Act>, Failure> {
    let direct: Vec<&str> = before.direct.iter().map(|one| one.index.as_str()).collect();
    let found = look(server, &direct)?;
    let mut acts = clone::undoing(&live_clones(before), &look_at(server, before)?);
    acts.extend(Act::each(unopened(before, &found).into_iter().map(|one| one.index.as_str()), Act::Delete));
    Ok(acts)
}

/// Undoes `before`, which has not come to its exchange, and notes that it was taken back.
///
/// # Errors
/// The server does not answer, or refuses: the same command goes on.
pub(crate) fn take_back(call: &Call, server: &Server, before: &Swapped, undone: &mut Swapped) -> Result<(), Failure> {
    let undo = || undoing(server, before)?.iter().try_for_each(|act| clone::send_or_each(call, server, act));
    again(undo).map_err(|failure| cut(&before.run, failure))?;
    undone.finished = true;
    record::note_end(call, &record::named(&before.run)?, "swap", undone);
    Ok(())
}

/// Every failure of a swap that is not finished names what goes on with it.
fn cut(run: &str, mut failure: Failure) -> Failure {
    let way = format!(
        "When it is mended, svc-snap swap --run {run} finishes the swap; svc-snap swap --run {run} --back takes it back."
    );
    failure.hint = Some(match failure.hint {
        Some(hint) => format!("{hint} {way}"),
        None => way,
    });
    failure
}

/// Notes the plan, carries it out, and notes how it ended. A signal does not cut it; the time limit does, before the exchange.
pub(crate) fn execute(call: &Call, server: &Server, swapped: &mut Swapped) -> Ended {
    let way = match way_of(swapped).and_then(|way| swaps::write(call, &way.run, "swap", swapped).map(|()| way)) {
        Ok(way) => way,
        Err(failure) => return Ended::Undone(failure),
    };
    let swap = Swap { call, server, way };
    let ended = swap.carry_out(swapped);
    if !matches!(ended, Ended::Undone(_)) {
        record::note_end(call, &swap.way.run, "swap", swapped);
    }
    ended
}

impl Swap<'_> {
    fn carry_out(&self, swapped: &mut Swapped) -> Ended {
        let progress = self.call.progress("swap", Unit::Items("indices"));
        let total = swapped.indices.len() as u64;
        progress.set(0, total);
        let auto_create = self.auto_create(swapped);
        let mut theirs = BTreeSet::new();
        if let Err(failure) = self.until_exchanged(swapped, &mut theirs) {
            return self.undo(swapped, &theirs, auto_create, failure);
        }
        if let Err(failure) = self.finish(swapped) {
            self.read_states(swapped);
            // Clients are kept from creating indices of the live names until the next call finishes it.
            return Ended::Unfinished(cut(&swapped.run, failure));
        }
        auto_create.into_iter().for_each(|changed| changed.put_back(self.call, self.server));
        progress.set(total, total);
        let policy = |item: &SwapIndex| item.becomes.as_ref().and_then(|becomes| becomes.policy.clone());
        policy::attach(self.call, self.server, swapped.indices.iter().map(|item| (item.index.as_str(), policy(item))));
        let direct =
            swapped.direct.iter().map(|one| (one.index.as_str(), one.becomes.as_ref().and_then(|shape| shape.policy.clone())));
        policy::attach(self.call, self.server, direct);
        match self.restore_streams(swapped) {
            Ok(()) => Ended::Finished,
            Err(failure) => Ended::Unfinished(cut(&swapped.run, failure)),
        }
    }

    fn auto_create(&self, swapped: &Swapped) -> Option<AutoCreate> {
        let names: Vec<&str> = swapped.indices.iter().map(|item| item.index.as_str()).collect();
        if swapped.alone && !names.is_empty() { AutoCreate::exclude(self.call, self.server, &names) } else { None }
    }

    fn until_exchanged(&self, swapped: &Swapped, theirs: &mut BTreeSet<String>) -> Result<(), Failure> {
        again(|| match self.exchange(swapped, theirs) {
            // The answer was lost, or another host was faster with the same run.
            Err(failure) => match stand(self.server, swapped) {
                Ok(Stand::Between | Stand::After) => Ok(()),
                Ok(Stand::Before) | Err(_) => Err(failure),
            },
            ended => ended,
        })
    }

    /// Phases 1 to 3.
    fn exchange(&self, swapped: &Swapped, theirs: &mut BTreeSet<String>) -> Result<(), Failure> {
        let found = look_at(self.server, swapped)?;
        if stand_of(&self.way, swapped, &found) != Stand::Before {
            return Ok(());
        }
        let limit = || {
            if self.call.deadline().passed() {
                return Err(Failure::timeout("timeout", "The swap did not come to its exchange within the time limit."));
            }
            Ok(())
        };
        clone::make(self.call, self.server, &live_clones(swapped), theirs, limit)?;
        // It may have lost a shard since it was proven, and what is live is all there is then.
        let found = look_at(self.server, swapped)?;
        let sources: Vec<&Source> = with_source(swapped).map(|(_, source)| source).collect();
        refuse_unsound(self.server, &sources, &found)?;
        limit()?;
        Act::Aliases(exchange(&self.way, swapped, &found)).send(self.call, self.server)
    }

    /// After a failure before the exchange: nothing of the swap stays. Where nobody knows whether it was exchanged, nothing is touched.
    fn undo(
        &self,
        swapped: &mut Swapped,
        theirs: &BTreeSet<String>,
        auto_create: Option<AutoCreate>,
        mut failure: Failure,
    ) -> Ended {
        let is_known = failure.code != "answer_lost" && stand(self.server, swapped).is_ok_and(|stand| stand == Stand::Before);
        if !is_known {
            self.read_states(swapped);
            return Ended::Unfinished(cut(&swapped.run, failure));
        }
        let ended = clone::undo(self.call, self.server, &live_clones(swapped), theirs);
        auto_create.into_iter().for_each(|changed| changed.put_back(self.call, self.server));
        self.read_states(swapped);
        if let Err(left) = ended {
            failure.causes.push(format!("What the swap had begun could not be undone: {left}"));
            return Ended::Unfinished(cut(&swapped.run, failure));
        }
        self.call.effects().undone();
        if failure.hint.is_none() {
            failure.hint = Some("What is live is as it was; when that is mended, run the same command again.".to_owned());
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
            if attempts >= ATTEMPTS || ["clone_not_whole", "swap_stuck"].contains(&failure.code.as_str()) {
                return Err(failure);
            }
            thread::sleep(PAUSE);
        }
    }

    fn finish_once(&self, swapped: &mut Swapped) -> Result<(), Failure> {
        let found = look_at(self.server, swapped)?;
        if stand_of(&self.way, swapped, &found) == Stand::After {
            return Ok(());
        }
        self.refuse_stuck(swapped, &found)?;
        let kept = self.keep_conflicts(swapped, &found)?;
        // Right behind the removal of what clients made there.
        let is_free = |item: &SwapIndex| !found.contains_key(&item.index) || kept.contains(&item.index);
        for (item, source) in with_source(swapped).filter(|(item, _)| is_free(item)) {
            clone_to_live(&self.way, item, source).send(self.call, self.server)?;
        }
        let live: Vec<&str> = with_source(swapped).map(|(item, _)| item.index.as_str()).collect();
        // Neither a signal nor the time limit ends it.
        wait_complete(self.server, &live, || Ok(()))?;
        self.verify_and_settle(swapped)?;
        let found = look_at(self.server, swapped)?;
        self.refuse_foreign(swapped, &found)?;
        let actions = finish(&self.way, swapped, &found);
        if !actions.is_empty() {
            Act::Aliases(actions).send(self.call, self.server)?;
        }
        Ok(())
    }

    fn is_ours(&self, item: &SwapIndex, found: &BTreeMap<String, Index>) -> bool {
        found.get(&item.index).is_some_and(|live| live.shape.aliases.contains_key(&self.way.marker()))
    }

    fn refuse_stuck(&self, swapped: &Swapped, found: &BTreeMap<String, Index>) -> Result<(), Failure> {
        let lost = with_source(swapped).find(|(item, _)| !self.is_ours(item, found) && item.source_in(found).is_none());
        let Some((item, source)) = lost else { return Ok(()) };
        Err(Failure::invalid("swap_stuck", format!("The swap of {} cannot go on.", item.index))
            .cause(format!("The copy {} that was to become live is not there.", source.name))
            .hint("Look at the indices that the plan names; stage the snapshot again if its copy is gone."))
    }

    /// Under a live name there is an index that a client has just made: the next attempt keeps it.
    fn refuse_foreign(&self, swapped: &Swapped, found: &BTreeMap<String, Index>) -> Result<(), Failure> {
        match with_source(swapped).find(|(item, _)| !self.is_ours(item, found)) {
            None => Ok(()),
            Some((item, _)) => Err(Failure::failed(
                "conflicting_index",
                format!("Clients create the index {} again and again while it is to become live.", item.index),
            )
            .hint("Stop what writes to it by that name.")),
        }
    }

    /// Indices that clients made under live names since the exchange are kept too, each under a name of its own, and go. Gives their
    /// names.
    fn keep_conflicts(&self, swapped: &mut Swapped, found: &BTreeMap<String, Index>) -> Result<BTreeSet<String>, Failure> {
        let is_foreign = |item: &&SwapIndex| item.source.is_some() && !self.is_ours(item, found);
        let foreign = swapped.indices.iter().filter(is_foreign);
        let foreign = foreign.filter_map(|item| Some((item.index.clone(), found.get(&item.index)?)));
        let kept: Vec<(String, &Index, String)> = foreign
            .map(|(name, live)| {
                let copy = copies::conflict(&self.way.kept(&name), &live.uuid);
                (name, live, copy)
            })
            .collect();
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
                lifecycle: live.shape.lifecycle.keys().cloned().collect(),
                was_blocked: false,
                was_closed: live.closed,
            })
            .collect();
        clone::make(self.call, self.server, &clones, &mut BTreeSet::new(), || Ok(()))?;
        Act::Aliases(names.iter().map(|name| remove_index(name)).collect()).send(self.call, self.server)?;
        for (name, _, copy) in &kept {
            self.call.review(
                "conflicting_index",
                format!("While {name} was not there, a client created an index of that name; it is kept as {copy}."),
            );
            let item = swapped.indices.iter_mut().find(|item| item.index == *name);
            item.into_iter().for_each(|item| item.conflicts.push(copy.clone()));
        }
        Ok(kept.into_iter().map(|(name, ..)| name).collect())
    }

    /// The clones hold what their sources held, and get what they are to have.
    fn verify_and_settle(&self, swapped: &mut Swapped) -> Result<(), Failure> {
        let found = look_at(self.server, swapped)?;
        let clones = with_source(swapped).filter(|(item, _)| self.is_ours(item, &found));
        let unsettled: Vec<(&str, &Source, Value)> = clones
            .filter_map(|(item, source)| Some((item.index.as_str(), source, item.settle(&found.get(&item.index)?.shape)?)))
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
        let settings = becomes.settle(&Shape::of_copy());
        Act::Set { indices: vec![index.to_owned()], settings }.send(self.call, self.server)
    }

    /// What comes when the aliases are where they belong; then all of it has come to where the swap leads.
    fn open_and_block(&self, swapped: &mut Swapped) -> Result<(), Failure> {
        let names = swapped.direct.iter().map(|one| one.index.as_str()).chain(swapped.indices.iter().flat_map(SwapIndex::names));
        let found = look(self.server, &names.collect::<Vec<_>>())?;
        let acts = [openings(unopened(swapped, &found)), blocks(swapped, Some(&found))].concat();
        acts.iter().try_for_each(|act| act.send(self.call, self.server))?;
        set_states(&self.way, swapped, &found);
        match swapped.indices.iter().find(|item| !item.is_finished()) {
            None => {
                swapped.finished = true;
                Ok(())
            }
            Some(item) => Err(Failure::invalid("swap_stuck", format!("The swap of {} cannot go on.", item.index))
                .cause("Neither the index nor the copy that was to become live is there.")
                .hint("Stage the snapshot again: svc-snap stage.")),
        }
    }

    /// The states, as far as the server answers.
    fn read_states(&self, swapped: &mut Swapped) {
        if let Ok(found) = look_at(self.server, swapped) {
            set_states(&self.way, swapped, &found);
        }
    }

    /// The data streams come last: what is live of them cannot be kept.
    fn restore_streams(&self, swapped: &mut Swapped) -> Result<(), Failure> {
        if swapped.streams.is_empty() {
            return Ok(());
        }
        let mut noted = swapped.clone();
        let mut note = |streams: &[StreamBack]| {
            noted.streams = streams.to_vec();
            swaps::write(self.call, &self.way.run, "swap", &noted)
        };
        streams::restore(self.call, self.server, &mut swapped.streams, &mut note)
            .map_err(|failure| if failure.signal.is_some() { failure.retryable(true) } else { failure })
    }
}

fn set_states(way: &Way, swapped: &mut Swapped, found: &BTreeMap<String, Index>) {
    for item in &mut swapped.indices {
        let live = found.get(&item.index);
        let is_marked = live.is_some_and(|live| live.shape.aliases.contains_key(&way.marker()));
        item.state = if item.is_old(found) {
            State::Old
        } else if item.source.is_some() && live.is_some() && !is_marked && item.source_in(found).is_none() {
            State::New
        } else {
            State::Absent
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn way() -> Way {
        Way { run: "20261120t020003z-hand".parse().unwrap(), back: false }
    }

    fn index(uuid: &str, aliases: &[&str]) -> Index {
        let aliases = aliases.iter().map(|alias| ((*alias).to_owned(), serde_json::Map::new())).collect();
        Index { uuid: uuid.to_owned(), closed: false, whole: true, shards: 1, shape: Shape { aliases, ..Shape::default() } }
    }

    /// A swap of `a`, which is live, and one that takes `b` away.
    fn swapped() -> Swapped {
        let item = |name: &str, source: Option<Source>| SwapIndex {
            index: name.to_owned(),
            state: State::Old,
            live_uuid: Some(format!("live {name}")),
            live_closed: false,
            kept: Some(way().kept(name)),
            conflicts: Vec::new(),
            was: Some(Shape::default()),
            becomes: source.as_ref().map(|_| index("", &["all"]).shape),
            source,
        };
        let source = Source { name: copies::staged(&way().run, "a"), uuid: "staged".to_owned(), docs_count: 1 };
        Swapped {
            cluster_uuid: "c".to_owned(),
            run: way().run.to_string(),
            snapshot_uuid: None,
            back: false,
            exact: true,
            drop_old: false,
            alone: false,
            finished: false,
            indices: vec![item("a", Some(source)), item("b", None)],
            direct: Vec::new(),
            discarded: Vec::new(),
            streams: Vec::new(),
            skipped: Vec::new(),
            plan: Vec::new(),
        }
    }

    fn found(indices: &[(&str, Index)]) -> BTreeMap<String, Index> {
        indices.iter().map(|(name, index)| ((*name).to_owned(), index.clone())).collect()
    }

    #[test]
    fn all_is_blocked_and_cloned_before_one_call_exchanges_it_and_another_finishes_it() {
        let live = found(&[("a", index("live a", &["all"])), ("b", index("live b", &["all"]))]);
        let requests = requests(&way(), &swapped(), &live);
        let told: Vec<String> = requests
            .iter()
            .map(|action| match action {
                Action::Request { method, path, .. } => format!("{method} {}", path.split('?').next().unwrap_or_default()),
                _ => String::new(),
            })
            .collect();
        let (kept, staged) = ("svc-before-20261120t020003z-hand", "svc-staged-20261120t020003z-hand-a");
        assert_eq!(
            told,
            [
                "PUT /a,b/_block/write".to_owned(),
                format!("POST /a/_clone/{kept}-a"),
                format!("POST /b/_clone/{kept}-b"),
                "POST /_aliases".to_owned(),
                format!("POST /{staged}/_clone/a"),
                "PUT /a/_settings".to_owned(),
                "POST /_aliases".to_owned(),
            ]
        );
        let exchange = Value::Array(exchange(&way(), &swapped(), &live)).to_string();
        assert_eq!((exchange.matches("remove_index").count(), exchange.matches(staged).count()), (2, 2), "{exchange}");
    }

    #[test]
    fn how_a_swap_stands_is_told_by_the_names_and_the_marker() {
        let (staged, marker) = (copies::staged(&way().run, "a"), way().marker());
        let stand = |indices: &[(&str, Index)]| stand_of(&way(), &swapped(), &found(indices));
        let live = [("a", index("live a", &[])), ("b", index("live b", &[]))];
        assert_eq!(stand(&[&live[..], &[(&staged, index("staged", &[]))]].concat()), Stand::Before);
        assert_eq!(stand(&[(&staged, index("staged", &["all", &marker]))]), Stand::Between);
        assert_eq!(stand(&[("a", index("new", &[&marker])), (&staged, index("staged", &["all", &marker]))]), Stand::Between);
        // A client's index under the live name changes nothing of it.
        assert_eq!(stand(&[("a", index("client's", &[])), (&staged, index("staged", &["all", &marker]))]), Stand::Between);
        assert_eq!(stand(&[("a", index("new", &["all"]))]), Stand::After);
        let mut done = swapped();
        set_states(&way(), &mut done, &found(&[("a", index("new", &["all"]))]));
        assert!(done.indices.iter().all(SwapIndex::is_finished));
    }
}
