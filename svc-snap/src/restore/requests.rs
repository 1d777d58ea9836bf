//! The requests of a swap, phase by phase.

use serde_json::{Value, json};
use svc_step::action::Action;

use super::result::{CopiedIndex, Source, SwapIndex, Swapped};
use crate::index::Found;
use crate::index::act::Act;
use crate::index::clone::{self, LiveClone};
use crate::index::shape::{Shape, give};

impl SwapIndex {
    /// The settings that its clone under the live name, which looks like `seen`, still needs.
    pub(super) fn settle(&self, seen: &Shape) -> Option<Value> {
        let becomes = self.becomes.clone().unwrap_or_default();
        (!becomes.is_settled(seen)).then(|| becomes.settle(seen))
    }
}

/// What is live, as it is blocked and cloned. The clone of an unfinished swap that is taken back is not.
pub(super) fn live_clones(swapped: &Swapped) -> Vec<LiveClone<'_>> {
    let clones = swapped.indices.iter().filter_map(|item| {
        let (uuid, was) = (item.live_uuid.as_deref()?, item.was.as_ref()?);
        Some(LiveClone { index: &item.index, uuid, copy: item.previous.as_deref(), was, was_closed: item.live_closed })
    });
    clones.collect()
}

/// Phase 3: what is live goes, and in the same call its aliases come to the copies that are to become live, which take no writes. So
/// no client can create an index of an alias's name.
pub(super) fn exchange(swapped: &Swapped, found: &Found) -> Vec<Value> {
    let live = swapped.indices.iter().filter(|item| item.is_old(found)).map(|item| &item.index);
    let discarded = swapped.discarded.iter().filter(|name| found.contains_key(*name));
    let mut actions: Vec<Value> = live.chain(discarded).map(|name| remove_index(name)).collect();
    for (item, source) in swapped.with_source() {
        actions.extend(all_aliases(item, &source.name));
        actions.push(json!({"add": {"index": source.name, "alias": swapped.marker(), "is_hidden": true}}));
    }
    actions
}

/// Phase 5: the aliases move to the live names, and the copies go.
pub(super) fn finish(swapped: &Swapped, found: &Found) -> Vec<Value> {
    let mut actions = Vec::new();
    for (item, source) in swapped.with_source() {
        actions.extend(item.source_in(found).map(|_| remove_index(&source.name)));
        actions.extend(all_aliases(item, &item.index));
        actions.push(json!({"remove": {"index": item.index, "alias": swapped.marker()}}));
    }
    actions
}

pub(super) fn remove_index(name: &str) -> Value {
    json!({"remove_index": {"index": name}})
}

fn all_aliases<'a>(item: &'a SwapIndex, index: &'a str) -> impl Iterator<Item = Value> + 'a {
    item.becomes.iter().flat_map(|becomes| &becomes.aliases).map(move |(alias, properties)| give(index, alias, properties))
}

/// Phase 4: a clone under a live name.
pub(super) fn clone_to_live(swapped: &Swapped, item: &SwapIndex, source: &Source) -> Act {
    let (from, to) = (source.name.clone(), item.index.clone());
    Act::Clone { from, to, lifecycle: Vec::new(), marker: Some(swapped.marker()) }
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

/// What was restored directly is opened for writes when nothing but the end of the swap is left; it is never removed from then on.
pub(super) fn openings<'a>(direct: impl IntoIterator<Item = &'a CopiedIndex>) -> Vec<Act> {
    let opening = |one: &'a CopiedIndex| (one.index.as_str(), one.shape.clone().unwrap_or_default().block_settings());
    settings(direct.into_iter().map(opening))
}

/// The blocks that forbid to change an index any more come last; `None` for `found`: none of them is there yet.
pub(super) fn blocks(swapped: &Swapped, found: Option<&Found>) -> Vec<Act> {
    let missing = swapped.with_source().filter_map(|(item, _)| {
        let shape = match found {
            Some(found) => found.get(&item.index)?.shape.clone(),
            None => Shape::of_copy(),
        };
        Some((item.index.as_str(), item.becomes.as_ref()?.missing_blocks(&shape)?))
    });
    settings(missing)
}

/// The requests of the whole swap, in their order.
pub(super) fn requests(swapped: &Swapped, found: &Found) -> Vec<Action> {
    let aliases = |actions: Vec<Value>| (!actions.is_empty()).then_some(Act::Aliases(actions));
    let copy = Shape::of_copy();
    let settle = swapped.with_source().filter_map(|(item, _)| Some((item.index.as_str(), item.settle(&copy)?)));
    let mut acts = clone::requests(&live_clones(swapped), found);
    acts.extend(aliases(exchange(swapped, found)));
    acts.extend(swapped.with_source().map(|(item, source)| clone_to_live(swapped, item, source)));
    acts.extend(settings(settle));
    acts.extend(aliases(finish(swapped, found)));
    acts.extend(openings(&swapped.direct));
    acts.extend(blocks(swapped, None));
    acts.iter().map(Act::action).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::{Index, copies};
    use crate::restore::result::State;
    use crate::restore::swap::set_states;
    use crate::restore::undo::{Phase, phase_of};

    const RUN: &str = "20261120t020003z-hand";

    fn index(uuid: &str, aliases: &[&str]) -> Index {
        let aliases = aliases.iter().map(|alias| ((*alias).to_owned(), serde_json::Map::new())).collect();
        Index { uuid: uuid.to_owned(), shape: Shape { aliases, ..Shape::default() }, ..Index::of_copy() }
    }

    /// A swap of `a`, which is live, and one that takes `b` away.
    fn swapped() -> Swapped {
        let item = |name: &str, source: Option<Source>| SwapIndex {
            index: name.to_owned(),
            state: State::Old,
            live_uuid: Some(format!("live {name}")),
            live_closed: false,
            previous: Some(copies::previous(RUN, false, name)),
            conflicts: Vec::new(),
            was: Some(Shape::default()),
            becomes: source.as_ref().map(|_| index("", &["all"]).shape),
            source,
        };
        let source = Source { name: copies::staged(RUN, "a"), uuid: "staged".to_owned(), docs_count: 1 };
        let indices = vec![item("a", Some(source)), item("b", None)];
        Swapped { run: RUN.to_owned(), exact: true, indices, ..Swapped::default() }
    }

    fn found(indices: &[(&str, Index)]) -> Found {
        indices.iter().map(|(name, index)| ((*name).to_owned(), index.clone())).collect()
    }

    #[test]
    fn all_is_blocked_and_cloned_before_one_call_exchanges_it_and_another_finishes_it() {
        let live = found(&[("a", index("live a", &["all"])), ("b", index("live b", &["all"]))]);
        let requests = requests(&swapped(), &live);
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
        let exchange = Value::Array(exchange(&swapped(), &live)).to_string();
        assert_eq!((exchange.matches("remove_index").count(), exchange.matches(staged).count()), (2, 2), "{exchange}");
    }

    #[test]
    fn how_far_a_swap_has_come_is_told_by_the_names_and_the_marker() {
        let (staged, marker) = (copies::staged(RUN, "a"), copies::marker(RUN, false));
        let phase = |indices: &[(&str, Index)]| phase_of(&swapped(), &found(indices));
        let live = [("a", index("live a", &[])), ("b", index("live b", &[]))];
        assert_eq!(phase(&[&live[..], &[(&staged, index("staged", &[]))]].concat()), Phase::Before);
        assert_eq!(phase(&[(&staged, index("staged", &["all", &marker]))]), Phase::Exchanged);
        assert_eq!(phase(&[("a", index("new", &[&marker])), (&staged, index("staged", &["all", &marker]))]), Phase::Exchanged);
        // A client's index under the live name changes nothing of it.
        assert_eq!(phase(&[("a", index("client's", &[])), (&staged, index("staged", &["all", &marker]))]), Phase::Exchanged);
        assert_eq!(phase(&[("a", index("new", &["all"]))]), Phase::After);
        let mut done = swapped();
        set_states(&mut done, &found(&[("a", index("new", &["all"]))]));
        assert!(done.indices.iter().all(SwapIndex::is_finished));
    }
}
