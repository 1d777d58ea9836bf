//! A swap thought through without a server: the requests that a dry run prints, and the ground of the tests that cut a swap
//! between any two of them.

use std::collections::BTreeMap;

use super::next::{Next, undo};
use super::rivals::Rivals;
use super::turn::{Request, choose, join, steps, together};
use crate::index::Index;
use crate::index::act::Act;
use crate::index::copies::Way;
use crate::index::shape::Shape;
use crate::runs::seen::Seen;
use crate::runs::swapped::SwapIndex;
use crate::server::json::text;

/// More requests than any swap of one index needs; a machine that goes round would show here and not in a server.
pub(crate) const MOST: usize = 40;

/// The requests that would finish the swap, if every request did what it is for and nobody else were at it.
pub(crate) fn foresee(way: &Way, all: &[SwapIndex], seen: &BTreeMap<String, Index>) -> Vec<Act> {
    let (mut world, rivals) = (seen.clone(), Rivals::of(all));
    let mut acts = Vec::new();
    for places in together(all) {
        for _ in 0..MOST {
            let chosen = choose(steps(way, all, places.clone(), &rivals, &world), false);
            if chosen.is_empty() {
                break;
            }
            for step in &chosen {
                if let Next::Wait(name) = &step.next {
                    whole(&mut world, name);
                }
            }
            for Request { act, .. } in join(chosen) {
                apply(&act, &mut world);
                acts.push(act);
            }
        }
    }
    acts
}

/// The requests that would take back what was begun at `item`.
pub(crate) fn foresee_undo(item: &SwapIndex, seen: &Seen) -> Vec<Act> {
    let mut seen = seen.clone();
    let mut acts = Vec::new();
    while let Some(act) = undo(item, &seen).filter(|_| acts.len() < MOST) {
        apply(&act, &mut seen.indices);
        acts.push(act);
    }
    acts
}

/// What the server would show after `act`.
pub(crate) fn apply(act: &Act, indices: &mut BTreeMap<String, Index>) {
    match act {
        Act::Open(index) => change(indices, index, |index| index.closed = false),
        Act::Close(index) => change(indices, index, |index| index.closed = true),
        Act::Block(names) => names.iter().for_each(|name| change(indices, name, |index| index.shape.block_writes(true))),
        Act::Unblock(names) => names.iter().for_each(|name| change(indices, name, |index| index.shape.block_writes(false))),
        Act::Keep { from, to, .. } => copy(indices, from, to, Shape::of_copy()),
        Act::Discard(index) => drop(indices.remove(index)),
        Act::Clone { from, to, hidden, marker } => {
            let aliases = BTreeMap::from([(marker.clone(), serde_json::Map::new())]);
            copy(indices, from, to, Shape { hidden: *hidden, aliases, ..Shape::of_copy() });
        }
        Act::SetBlocks { index, settings } => change(indices, index, |index| index.shape.take(settings)),
        Act::Settle { indices: names, settings } => {
            names.iter().for_each(|name| change(indices, name, |index| index.shape.take(settings)));
        }
        Act::Exchange(actions) | Act::Finish(actions) => actions.iter().for_each(|action| alias_action(indices, action)),
    }
}

fn alias_action(indices: &mut BTreeMap<String, Index>, action: &serde_json::Value) {
    let text = |pointer: &str| text(action, pointer).unwrap_or_default().to_owned();
    if action.get("remove_index").is_some() {
        indices.remove(&text("/remove_index/index"));
    } else if action.get("remove").is_some() {
        change(indices, &text("/remove/index"), |index| drop(index.shape.aliases.remove(&text("/remove/alias"))));
    } else if let Some(add) = action.get("add").and_then(serde_json::Value::as_object) {
        let properties = add.iter().filter(|(key, _)| !matches!(key.as_str(), "index" | "alias"));
        let properties = properties.map(|(key, value)| (key.clone(), value.clone())).collect();
        change(indices, &text("/add/index"), |index| drop(index.shape.aliases.insert(text("/add/alias"), properties)));
    }
}

fn change(indices: &mut BTreeMap<String, Index>, name: &str, change: impl FnOnce(&mut Index)) {
    if let Some(index) = indices.get_mut(name) {
        change(index);
    }
}

fn copy(indices: &mut BTreeMap<String, Index>, from: &str, name: &str, shape: Shape) {
    indices.insert(name.to_owned(), Index { uuid: format!("{from} as {name}"), closed: false, whole: false, shape });
}

fn whole(indices: &mut BTreeMap<String, Index>, name: &str) {
    change(indices, name, |index| index.whole = true);
}

#[cfg(test)]
mod tests;
