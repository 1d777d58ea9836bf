//! The steps of many indices as few requests. What one request can do for several indices is done once for all of them, and none
//! of them goes ahead of the others meanwhile; but an index that is not live comes before any that still is.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use serde_json::Value;

use super::next::{Next, next, stray_name};
use super::rivals::Rivals;
use crate::index::act::Act;
use crate::index::copies::Way;
use crate::index::{Index, batches, only, portions};
use crate::runs::seen::Seen;
use crate::runs::swapped::{State, SwapIndex};
use crate::server::json::text;

/// The next step of one index.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Step {
    /// The place of the index in the swap.
    pub at: usize,
    /// How it stands.
    pub state: State,
    /// What the server shows of it.
    pub seen: Seen,
    pub next: Next,
}

/// One request, and the places of the indices whose step it is.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Request {
    pub act: Act,
    pub of: Vec<usize>,
}

/// The places of the indices that are swapped together.
pub(super) fn together(all: &[SwapIndex]) -> Vec<Range<usize>> {
    batches(all, SwapIndex::names)
}

/// The next step of each of the indices at these places, from what the server shows.
pub(super) fn steps(
    way: &Way,
    all: &[SwapIndex],
    places: Range<usize>,
    rivals: &Rivals,
    world: &BTreeMap<String, Index>,
) -> Vec<Step> {
    let items = places.filter_map(|at| Some((at, all.get(at)?)));
    let step = |(at, item): (usize, &SwapIndex)| {
        let mut seen = Seen { indices: only(world, &item.names()), rivals: rivals.standing(at, all, world) };
        if let Some(stray) = stray(way, item, &seen) {
            seen.indices.extend(only(world, &[&stray]));
        }
        Step { at, state: seen.state(way, item), next: next(way, item, &seen), seen }
    };
    items.map(step).collect()
}

/// The name under which what is live is kept, where a client made it while the index was not there.
pub(super) fn stray(way: &Way, item: &SwapIndex, seen: &Seen) -> Option<String> {
    let live = seen.get(&item.index).filter(|_| !seen.is_old(item) && !seen.is_ours(way, item))?;
    seen.source(item).map(|_| stray_name(way, item, live))
}

/// The steps that are done now, all of one kind; of a single index where each is to go by itself (`apart`).
pub(super) fn choose(mut steps: Vec<Step>, apart: bool) -> Vec<Step> {
    steps.retain(|step| !matches!(step.next, Next::Finished | Next::Stuck(_)));
    if steps.iter().any(|step| step.state != State::Old) {
        steps.retain(|step| step.state != State::Old);
    }
    if apart {
        steps.truncate(1);
    }
    let least = steps.iter().map(rank).min();
    steps.retain(|step| Some(rank(step)) == least);
    steps
}

/// Which steps come first, so that the others catch up.
fn rank(step: &Step) -> usize {
    let is_old = step.state == State::Old;
    match &step.next {
        Next::Do(Act::Open(_) | Act::Close(_) | Act::Unblock(_)) | Next::Finished | Next::Stuck(_) => 0,
        Next::Do(Act::Block(_)) => 1,
        Next::Do(Act::Discard(_)) => 2,
        Next::Do(Act::Keep { .. }) => 3,
        Next::Wait(_) if is_old => 4,
        Next::Do(Act::Exchange(_)) => 5,
        Next::Do(Act::Clone { .. }) => 6,
        Next::Wait(_) => 7,
        Next::Do(Act::Settle { .. }) => 8,
        Next::Do(Act::Finish(_)) => 9,
        Next::Do(Act::SetBlocks { .. }) => 10,
    }
}

/// The requests that do these steps, all of one kind.
pub(super) fn join(steps: Vec<Step>) -> Vec<Request> {
    let (mut requests, mut blocks, mut settles) = (Vec::new(), Vec::new(), Vec::<(Value, Vec<(usize, String)>)>::new());
    let (mut exchange, mut finish) = (Moves::default(), Moves::default());
    for Step { at, next, .. } in steps {
        let Next::Do(act) = next else { continue };
        match act {
            Act::Block(names) => blocks.extend(names.into_iter().map(|name| (at, name))),
            Act::Settle { indices, settings } => {
                let named = indices.into_iter().map(|name| (at, name));
                match settles.iter_mut().find(|(same, _)| *same == settings) {
                    Some((_, all)) => all.extend(named),
                    None => settles.push((settings, named.collect())),
                }
            }
            Act::Exchange(actions) => exchange.add(at, actions),
            Act::Finish(actions) => finish.add(at, actions),
            act => requests.push(Request { act, of: vec![at] }),
        }
    }
    requests.extend(named(&blocks, Act::Block));
    for (settings, all) in &settles {
        requests.extend(named(all, |indices| Act::Settle { indices, settings: settings.clone() }));
    }
    requests.extend(exchange.request(Act::Exchange));
    requests.extend(finish.request(Act::Finish));
    requests
}

/// Requests that name their indices in the path.
fn named(all: &[(usize, String)], act: impl Fn(Vec<String>) -> Act) -> Vec<Request> {
    let names: Vec<&str> = all.iter().map(|(_, name)| name.as_str()).collect();
    let mut places = all.iter().map(|(at, _)| *at);
    let request = |names: &[&str]| Request {
        act: act(names.iter().map(|&name| name.to_owned()).collect()),
        of: places.by_ref().take(names.len()).collect(),
    };
    portions(&names).into_iter().map(request).collect()
}

/// What becomes one call of `_aliases`.
#[derive(Debug, Default)]
struct Moves {
    actions: Vec<Value>,
    of: Vec<usize>,
}

impl Moves {
    fn add(&mut self, at: usize, actions: Vec<Value>) {
        self.actions.extend(actions);
        self.of.push(at);
    }

    /// What two of them ask for is asked for once; and an index that goes in this call takes its aliases with it: the server
    /// refuses a call that speaks of them.
    fn request(self, act: impl FnOnce(Vec<Value>) -> Act) -> Option<Request> {
        let Self { mut actions, of } = self;
        let mut asked = BTreeSet::new();
        actions.retain(|action| asked.insert(action.to_string()));
        let gone: BTreeSet<String> =
            actions.iter().filter_map(|action| text(action, "/remove_index/index")).map(str::to_owned).collect();
        let index = |action: &Value| text(action, "/add/index").or_else(|| text(action, "/remove/index")).map(str::to_owned);
        actions.retain(|action| index(action).is_none_or(|index| !gone.contains(&index)));
        (!of.is_empty()).then(|| Request { act: act(actions), of })
    }
}

#[cfg(test)]
mod tests;
