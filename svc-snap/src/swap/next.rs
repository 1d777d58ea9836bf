//! The swap of one index as a state machine: from what the server shows follows the next request, and nothing else is
//! remembered. So a swap that was cut between any two requests is finished by the same command.
//!
//! The live index is blocked for writes and cloned to the name under which it is kept; one `_aliases` call takes it away
//! and gives its aliases to the staged copy, so that no client can create an index of an alias's name; the staged copy is
//! cloned to the live name, with a marker alias by which it is known as ours; it is settled; one more `_aliases` call moves
//! the aliases, consumes the staged copy and takes the marker off.

use serde_json::{Value, json};

use crate::index::Index;
use crate::index::act::Act;
use crate::index::copies::{self, Way};
use crate::index::shape::give;
use crate::runs::seen::Seen;
use crate::runs::swapped::SwapIndex;

/// What to do next.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Next {
    /// This request.
    Do(Act),
    /// Nothing, until that index is whole.
    Wait(String),
    /// Nothing any more.
    Finished,
    /// Nothing that would be safe; the sentence says why.
    Stuck(String),
}

/// What to do next with `item`.
pub(crate) fn next(way: &Way, item: &SwapIndex, seen: &Seen) -> Next {
    match seen.get(&item.index) {
        Some(live) if seen.is_ours(way, item) => finish(way, item, seen, live),
        Some(live) if seen.is_old(item) => leave(item, seen, live),
        Some(live) if item.source.is_some() && seen.source(item).is_some() => keep_stray(way, item, seen, live),
        // Either the finished swap, or the work of somebody else since: not ours to touch, save for the blocks that come last.
        Some(live) => item
            .missing_blocks(live)
            .map_or(Next::Finished, |settings| Next::Do(Act::SetBlocks { index: item.index.clone(), settings })),
        None => match &item.source {
            None => Next::Finished,
            Some(source) if seen.source(item).is_none() => {
                Next::Stuck(format!("neither {} nor the copy {} that was to become live is there", item.index, source.name))
            }
            Some(source) => Next::Do(Act::Clone {
                from: source.name.clone(),
                to: item.index.clone(),
                hidden: item.becomes.as_ref().is_some_and(|becomes| becomes.hidden),
                marker: way.marker(&item.index),
            }),
        },
    }
}

/// From `old`: keep it, then exchange it.
fn leave(item: &SwapIndex, seen: &Seen, live: &Index) -> Next {
    if let Some(source) = &item.source {
        match seen.source(item) {
            None => return Next::Stuck(format!("the copy {} that was to become live is not there", source.name)),
            // It may have lost a shard since it was proven, and what is live is all there is then.
            Some(copy) if !copy.whole => {
                return Next::Stuck(format!("the copy {} that was to become live lacks shards", source.name));
            }
            Some(_) => {}
        }
    }
    if let Some(kept) = &item.kept {
        let lifecycle = item.was.iter().flat_map(|was| was.lifecycle.keys().cloned()).collect();
        if let Some(step) = keep(&item.index, live, kept, seen.get(kept), lifecycle) {
            return step;
        }
    }
    Next::Do(Act::Exchange(exchange(item, seen)))
}

/// An index that a client made meanwhile is kept too, each under a name of its own.
fn keep_stray(way: &Way, item: &SwapIndex, seen: &Seen, live: &Index) -> Next {
    let kept = stray_name(way, item, live);
    if let Some(step) = keep(&item.index, live, &kept, seen.get(&kept), live.shape.lifecycle.keys().cloned().collect()) {
        return step;
    }
    Next::Do(Act::Exchange(vec![json!({"remove_index": {"index": item.index}})]))
}

/// The name under which a stray is kept, from its `uuid`: there may be several.
pub(crate) fn stray_name(way: &Way, item: &SwapIndex, stray: &Index) -> String {
    copies::stray(&way.kept(&item.index), &stray.uuid)
}

/// The steps that clone a live index to a name of ours; `None` when that is done.
fn keep(index: &str, live: &Index, kept: &str, copy: Option<&Index>, lifecycle: Vec<String>) -> Option<Next> {
    if live.closed {
        return Some(Next::Do(Act::Open(index.to_owned())));
    }
    match copy {
        // Writes may have come since the copy was made.
        Some(_) if !live.shape.write_block() => Some(Next::Do(Act::Discard(kept.to_owned()))),
        Some(copy) if !copy.whole => Some(Next::Wait(kept.to_owned())),
        Some(_) => None,
        None if !live.whole => Some(Next::Wait(index.to_owned())),
        None if !live.shape.write_block() => Some(Next::Do(Act::Block(vec![index.to_owned()]))),
        None => Some(Next::Do(Act::Keep { from: index.to_owned(), to: kept.to_owned(), lifecycle })),
    }
}

/// What is live goes, and in the same call its aliases come to the staged copy, which takes no writes.
fn exchange(item: &SwapIndex, seen: &Seen) -> Vec<Value> {
    let mut actions = vec![json!({"remove_index": {"index": item.index}})];
    if let Some(source) = &item.source {
        actions.extend(from_holder(item, seen));
        actions.extend(rivals(seen));
        actions.extend(all_aliases(item, &source.name));
    }
    actions
}

/// From the clone to the finished swap.
fn finish(way: &Way, item: &SwapIndex, seen: &Seen, live: &Index) -> Next {
    if !live.whole {
        return Next::Wait(item.index.clone());
    }
    // Before the aliases move, since the marker goes with that request: without it nobody could tell a clone that is not
    // settled from one that is. Those who use an alias are still led to the staged copy, which takes no writes; a client that
    // writes by the index's own name writes to the index that stays.
    let becomes = item.becomes.clone().unwrap_or_default();
    if !becomes.is_settled(&live.shape) {
        return Next::Do(Act::Settle { indices: vec![item.index.clone()], settings: becomes.settle() });
    }
    let mut actions = Vec::new();
    if let Some(source) = item.source.as_ref().filter(|_| seen.source(item).is_some()) {
        actions.push(json!({"remove_index": {"index": source.name}}));
    }
    actions.extend(from_holder(item, seen));
    actions.extend(rivals(seen));
    actions.extend(all_aliases(item, &item.index));
    actions.push(json!({"remove": {"index": item.index, "alias": way.marker(&item.index)}}));
    Next::Do(Act::Finish(actions))
}

/// What an unfinished swap left with its staged copy goes in the same call: an alias never has two holders.
fn from_holder(item: &SwapIndex, seen: &Seen) -> Vec<Value> {
    let Some((name, holder)) = item.holder.as_ref().and_then(|name| Some((name, seen.get(name)?))) else { return Vec::new() };
    holder.shape.aliases.keys().map(|alias| json!({"remove": {"index": name, "alias": alias}})).collect()
}

fn all_aliases<'a>(item: &'a SwapIndex, index: &'a str) -> impl Iterator<Item = Value> + 'a {
    item.becomes.iter().flat_map(|becomes| &becomes.aliases).map(move |(alias, properties)| give(index, alias, properties))
}

/// An alias that moves from one index of the swap to another moves in the same call, so that it never has two write indices.
fn rivals(seen: &Seen) -> impl Iterator<Item = Value> + '_ {
    seen.rivals.iter().map(|rival| match &rival.becomes {
        Some(properties) => give(&rival.index, &rival.alias, properties),
        None => json!({"remove": {"index": rival.index, "alias": rival.alias}}),
    })
}

/// What takes back the beginning of a swap that has not come to its exchange; `None` when nothing is left to take back.
pub(crate) fn undo(item: &SwapIndex, seen: &Seen) -> Option<Act> {
    if !seen.is_old(item) {
        return None;
    }
    if let Some(kept) = item.kept.as_ref().filter(|kept| seen.get(kept).is_some()) {
        return Some(Act::Discard(kept.clone()));
    }
    if seen.is_left_blocked(item) {
        return Some(Act::Unblock(vec![item.index.clone()]));
    }
    seen.is_left_open(item).then(|| Act::Close(item.index.clone()))
}
