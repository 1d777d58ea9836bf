//! The requests of a swap, by what there is on the server: pure, so that a plan shows what is sent.

use serde_json::{Map, Value, json};
use svc_step::Action;

use crate::index::act::{give, remove_index};
use crate::index::{Act, Found, Index, IndexMetadata, clone};
use crate::restore::phases::{Phase, live_clones, phase_of};
use crate::restore::{CopiedIndex, SwapIndex, SwapSource, Swapped};

/// Phase 3: what is live goes, and in the same call its aliases come to the copies that become live: no client can create an index of an
/// alias's name. All copies get the marker, so that the call fails if it comes late, when the swap was undone and its copies are gone.
pub(super) fn exchange_actions(swapped: &Swapped, found: &Found) -> Vec<Value> {
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
pub(super) fn clone_to_live(swapped: &Swapped, item: &SwapIndex, source: &SwapSource) -> Act {
    Act::Clone { from: source.name.clone(), to: item.index.clone(), lifecycle: Vec::new(), marker: Some(swapped.marker()) }
}

/// Phase 5: the aliases move to the live names, and the copies go.
pub(super) fn finish_act(swapped: &Swapped, found: &Found) -> Option<Act> {
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
pub(super) fn settings<'a>(of: impl IntoIterator<Item = (&'a str, Value)>) -> Vec<Act> {
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
pub(super) fn last_acts<'a>(
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
pub(super) fn left(swapped: &Swapped, found: &Found) -> Vec<Action> {
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
