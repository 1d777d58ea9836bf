//! A planned swap carried out, some tens of indices at a time, each proven before the next request that cannot be taken back.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use svc_step::progress::Unit;
use svc_step::{Call, Failure, Status, swaps};

use super::foresee::MOST;
use super::next::Next;
use super::rivals::Rivals;
use super::turn::{Request, Step, choose, join, steps, stray, together};
use crate::index::act::Act;
use crate::index::clone::wait_whole;
use crate::index::copies::Way;
use crate::index::policy;
use crate::index::{Index, look, only};
use crate::runs::seen::Seen;
use crate::runs::swapped::{State, SwapIndex, Swapped};
use crate::server::Server;

/// How often a client may be faster with a live name than the clone, or an answer be lost.
const RACES: u32 = 5;

/// A swap under way.
pub(crate) struct Swapping<'a> {
    pub call: &'a Call,
    pub server: &'a Server,
    pub way: &'a Way,
}

/// What is remembered of indices that are swapped together, beside what the server shows.
#[derive(Default)]
struct Memory {
    /// Requests that a client or the network got in the way of, by the place of the index.
    races: BTreeMap<usize, u32>,
    /// Indices that this call has blocked.
    blocked: BTreeSet<usize>,
    /// Whether each index goes by itself, since the server refused a request for several of them.
    apart: bool,
    /// Indices that are not live and whose swap cannot go on. The others' does: they are not live either.
    failed: BTreeMap<usize, Failure>,
}

impl Swapping<'_> {
    /// Carries out what is not done yet. A signal does not cut it; the time limit does, between those that are swapped together
    /// and the next. What fails before it was exchanged is put back as it was.
    ///
    /// # Errors
    /// Whatever stopped it; the states of `swapped` say how things stand.
    pub(crate) fn carry_out(&self, swapped: &mut Swapped) -> Result<(), Failure> {
        self.take_back_begun(swapped).map_err(|failure| self.cut(failure))?;
        let progress = self.call.progress("swap", Unit::Items("indices"));
        let total = swapped.indices.len() as u64;
        let rivals = Rivals::of(&swapped.indices);
        for places in together(&swapped.indices) {
            progress.set(places.start as u64, total);
            if self.call.deadline().passed() {
                return Err(self.cut(Failure::timeout("timeout", "The swap did not end within the time limit.")));
            }
            let ended = self.some(swapped, &places, &rivals);
            if let Err(failure) = ended {
                self.settle_states(swapped, places);
                return Err(self.cut(failure));
            }
        }
        Ok(())
    }

    /// Every failure of a swap names what goes on with it.
    pub(crate) fn cut(&self, mut failure: Failure) -> Failure {
        let way = format!(
            "When it is mended, svc-snap swap --run {0} finishes the swap; svc-snap swap --run {0} --back takes it back.",
            self.way.run
        );
        failure.hint = Some(match failure.hint {
            Some(hint) => format!("{hint} {way}"),
            None => way,
        });
        failure
    }

    /// Swaps those at these places.
    fn some(&self, swapped: &mut Swapped, places: &Range<usize>, rivals: &Rivals) -> Result<(), Failure> {
        let mut memory = Memory::default();
        for _ in 0..MOST * places.len() {
            match self.turn(swapped, places, rivals, &mut memory) {
                Ok(false) => {}
                // What failed first says more than that the server has fallen silent since.
                ended => return memory.failed.pop_first().map_or_else(|| ended.map(drop), |(_, failure)| Err(failure)),
            }
        }
        Err(Failure::failed("swap_goes_round", "The swap does not come to an end."))
    }

    /// One look, and the requests that follow from it; `true` when none does.
    fn turn(&self, swapped: &mut Swapped, places: &Range<usize>, rivals: &Rivals, memory: &mut Memory) -> Result<bool, Failure> {
        let world = self.see(swapped, places, rivals)?;
        let mut steps = steps(self.way, &swapped.indices, places.clone(), rivals, &world);
        for step in &mut steps {
            let Some(item) = swapped.indices.get_mut(step.at) else { continue };
            item.state = step.state;
            // Another host was faster, and what is live now is not what was to be blocked.
            if step.next == Next::Finished && memory.blocked.contains(&step.at) && step.seen.is_blocked_against(item) {
                step.next = Next::Do(Act::Unblock(vec![item.index.clone()]));
            }
            if let Next::Stuck(why) = &step.next {
                memory.fail(step.at, step.state, stuck(item, why))?;
            }
        }
        for step in &steps {
            self.note_stray(swapped, step)?;
        }
        steps.retain(|step| !memory.failed.contains_key(&step.at));
        let chosen = choose(steps, memory.apart);
        let waits = chosen.iter().filter_map(|step| if let Next::Wait(name) = &step.next { Some(name.as_str()) } else { None });
        let waits: Vec<&str> = waits.collect();
        if chosen.is_empty() || !waits.is_empty() {
            // Neither a signal nor the time limit ends it: the swap of an index is finished.
            return wait_whole(self.server, &waits, || Ok(())).map(|()| chosen.is_empty());
        }
        let (proven, unproven) = self.prove(swapped, chosen)?;
        memory.failed.extend(unproven);
        for request in join(proven) {
            if matches!(request.act, Act::Block(_)) {
                memory.blocked.extend(&request.of);
            }
            let state = request.of.first().and_then(|at| swapped.indices.get(*at)).map_or(State::Old, |item| item.state);
            let sent = request.act.send(self.call, self.server);
            sent.or_else(|failure| self.without_lifecycle(swapped, &request, failure))
                .or_else(|failure| memory.bear(&request, state, failure))?;
        }
        Ok(false)
    }

    /// A server may not know the settings of a lifecycle policy, or not take them any more, and names them then: the index becomes live
    /// without it, and people are told. Several are tried one by one first.
    fn without_lifecycle(&self, swapped: &mut Swapped, request: &Request, failure: Failure) -> Result<(), Failure> {
        let (&[at], Act::Settle { .. }) = (request.of.as_slice(), &request.act) else { return Err(failure) };
        let becomes = swapped.indices.get_mut(at).and_then(|item| Some((&item.index, item.becomes.as_mut()?)));
        let Some((index, becomes)) = becomes.filter(|_| failure.status == Status::Failed) else { return Err(failure) };
        let names = |cause: &&String| becomes.lifecycle.keys().any(|name| cause.contains(name.as_str()));
        let Some(why) = failure.causes.iter().rfind(names) else { return Err(failure) };
        let settings = std::mem::take(&mut becomes.lifecycle);
        let settings: Vec<String> = settings.iter().map(|(name, value)| format!("{name}={value}")).collect();
        policy::tell_left(self.call, &[format!("{index} ({})", settings.join(", "))], why);
        Ok(())
    }

    /// What the server shows of the names that the indices at these places speak of.
    fn see(&self, swapped: &Swapped, places: &Range<usize>, rivals: &Rivals) -> Result<BTreeMap<String, Index>, Failure> {
        let items = swapped.indices.get(places.clone()).unwrap_or_default();
        let names: BTreeSet<&str> = items.iter().flat_map(SwapIndex::names).collect();
        let names = &names | &rivals.names(places.clone(), &swapped.indices);
        let mut world = look(self.server, &names.into_iter().collect::<Vec<_>>())?;
        // The name of a stray follows from what is live; so it is looked up in a second step, which is rare.
        let seen = |item: &SwapIndex| Seen { indices: only(&world, &item.names()), rivals: Vec::new() };
        let strays: Vec<String> = items.iter().filter_map(|item| stray(self.way, item, &seen(item))).collect();
        if !strays.is_empty() {
            world.extend(look(self.server, &strays.iter().map(String::as_str).collect::<Vec<_>>())?);
        }
        Ok(world)
    }

    /// A stray is noted before it is kept: nobody could name it afterwards.
    fn note_stray(&self, swapped: &mut Swapped, step: &Step) -> Result<(), Failure> {
        let Next::Do(Act::Keep { from, to, .. }) = &step.next else { return Ok(()) };
        let Some(item) = swapped.indices.get_mut(step.at) else { return Ok(()) };
        if item.kept.as_ref() == Some(to) || item.strays.contains(to) || step.seen.get(from).is_none() {
            return Ok(());
        }
        item.strays.push(to.clone());
        self.call.review(
            "stray_index",
            format!("While {from} was not there, a client created an index of that name; it is kept as {to}."),
        );
        swaps::write(self.call, &self.way.run, "swap", swapped)
    }
}

impl Memory {
    /// An index that cannot go on. Where it is live as it was, nothing of those that are swapped together with it goes on.
    fn fail(&mut self, at: usize, state: State, failure: Failure) -> Result<(), Failure> {
        if state == State::Old {
            return Err(failure);
        }
        self.failed.entry(at).or_insert(failure);
        Ok(())
    }

    /// A request that failed: what the server shows says what became of one whose answer was lost; an index that a client made just
    /// now under the name of a clone is kept; and what was refused to several may be granted to each.
    fn bear(&mut self, request: &Request, state: State, failure: Failure) -> Result<(), Failure> {
        let of = &request.of;
        let is_bearable = is_lost(&failure) || is_taken(&request.act, &failure);
        if is_bearable && of.iter().all(|at| self.races.get(at).is_none_or(|races| *races < RACES)) {
            of.iter().for_each(|at| *self.races.entry(*at).or_default() += 1);
            return Ok(());
        }
        match of.as_slice() {
            _ if matches!(failure.status, Status::Unavailable | Status::Timeout) => Err(failure),
            &[at] => self.fail(at, state, failure),
            _ => {
                self.apart = true;
                Ok(())
            }
        }
    }
}

fn stuck(item: &SwapIndex, why: &str) -> Failure {
    Failure::invalid("swap_stuck", format!("The swap of {} cannot go on.", item.index))
        .cause(why)
        .hint("Look at the indices that the plan names; stage the snapshot again if its copy is gone.")
}

/// Whether nobody knows what became of the request.
fn is_lost(failure: &Failure) -> bool {
    failure.code == "answer_lost"
}

/// Whether the server refused to clone since an index of that name is there.
fn is_taken(act: &Act, failure: &Failure) -> bool {
    let clones = matches!(act, Act::Clone { .. } | Act::Keep { .. });
    clones && failure.causes.iter().any(|cause| cause.contains("already_exists") || cause.contains("already exists"))
}
