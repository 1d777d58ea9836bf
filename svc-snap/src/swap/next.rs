//! The swap of one index as a state machine: from what the server shows follows the next request, and nothing else is
//! remembered. So a swap that was cut between any two requests is finished by the same command.
//!
//! The live index is blocked for writes and cloned to the name under which it is kept; one `_aliases` call takes it away
//! and gives its aliases to the staged copy, so that no client can create an index of an alias's name; the staged copy is
//! cloned to the live name, with a marker alias by which it is known as ours; it is settled; one more `_aliases` call moves
//! the aliases, consumes the staged copy and takes the marker off.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use svc_step::action::Action;

use super::item::{State, SwapIndex};
use crate::index::Index;
use crate::index::copies::{self, Way};
use crate::index::shape::give;
use crate::server::path::path;

/// What the server shows of the names that one item speaks of; a name without an index is not in it.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Seen {
    pub indices: BTreeMap<String, Index>,
    /// Aliases that other indices of the same swap hold and this one is to have, with what each such index is to have of it.
    pub rivals: Vec<Rival>,
}

/// Another index of the swap that holds an alias of this one now.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Rival {
    pub index: String,
    pub alias: String,
    /// What it is to have of it; `None`: nothing.
    pub becomes: Option<Map<String, Value>>,
}

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

/// One request of a swap.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Act {
    /// Opens a closed index for its clone.
    Open(String),
    /// Closes it again.
    Close(String),
    /// Blocks writes, and waits for those under way.
    Block(String),
    /// Takes the block off again.
    Unblock(String),
    /// Clones what is live to a name of ours.
    Keep { from: String, to: String, lifecycle: Vec<String> },
    /// Removes an incomplete or outdated copy of ours.
    Discard(String),
    /// One call: what is live goes, its aliases come to the staged copy.
    Exchange(Vec<Value>),
    /// Clones the staged copy to the live name.
    Clone { from: String, to: String, hidden: bool, marker: String },
    /// Gives the clone its replicas and its lifecycle, and takes writes.
    Settle { index: String, settings: Value },
    /// One call: the aliases come to the new index, the staged copy goes, and the marker.
    Finish(Vec<Value>),
}

impl Act {
    /// The request that does it.
    pub(crate) fn request(&self) -> (&'static str, String, Option<Value>) {
        let aliases = |actions: &[Value]| Some(json!({ "actions": actions }));
        match self {
            Self::Open(index) => ("POST", path(&[index, "_open"]), None),
            Self::Close(index) => ("POST", path(&[index, "_close"]), None),
            Self::Block(index) => ("PUT", path(&[index, "_block", "write"]), None),
            Self::Unblock(index) => ("PUT", path(&[index, "_settings"]), Some(json!({"index.blocks.write": null}))),
            Self::Keep { from, to, lifecycle } => {
                let mut settings = copy_settings(json!(true));
                settings.extend(lifecycle.iter().map(|name| (name.clone(), Value::Null)));
                ("POST", path(&[from, "_clone", to]), Some(json!({ "settings": settings })))
            }
            Self::Discard(index) => ("DELETE", path(&[index]), None),
            Self::Exchange(actions) | Self::Finish(actions) => ("POST", "/_aliases".to_owned(), aliases(actions)),
            Self::Clone { from, to, hidden, marker } => {
                let settings = copy_settings(if *hidden { json!(true) } else { Value::Null });
                let mut aliases = Map::new();
                aliases.insert(marker.clone(), json!({"is_hidden": true}));
                ("POST", path(&[from, "_clone", to]), Some(json!({"settings": settings, "aliases": aliases})))
            }
            Self::Settle { index, settings } => ("PUT", path(&[index, "_settings"]), Some(settings.clone())),
        }
    }

    /// The request as a plan has it.
    pub(crate) fn action(&self) -> Action {
        let (method, path, body) = self.request();
        Action::request(method, path, body)
    }
}

/// A clone takes no writes and has no replicas until it is proven.
fn copy_settings(hidden: Value) -> Map<String, Value> {
    let mut settings = Map::new();
    settings.insert("index.hidden".to_owned(), hidden);
    settings.insert("index.number_of_replicas".to_owned(), json!(0));
    settings.insert("index.auto_expand_replicas".to_owned(), json!("false"));
    settings.insert("index.blocks.write".to_owned(), json!(true));
    settings
}

impl Seen {
    pub(crate) fn get(&self, name: &str) -> Option<&Index> {
        self.indices.get(name)
    }

    fn source(&self, item: &SwapIndex) -> Option<&Index> {
        let source = item.source.as_ref()?;
        self.get(&source.name).filter(|seen| seen.uuid == source.uuid)
    }

    /// Whether the live index is the one that was live when the swap was planned.
    fn is_old(&self, item: &SwapIndex) -> bool {
        self.get(&item.index).is_some_and(|live| Some(&live.uuid) == item.live_uuid.as_ref())
    }

    /// Whether the live index is the clone of this swap, not finished yet.
    fn is_ours(&self, way: &Way, item: &SwapIndex) -> bool {
        self.get(&item.index).is_some_and(|live| live.shape.aliases.contains_key(&way.marker(&item.index)))
    }

    /// The state that the server shows.
    pub(crate) fn state(&self, way: &Way, item: &SwapIndex) -> State {
        match self.get(&item.index) {
            Some(_) if self.is_old(item) && !self.is_ours(way, item) => State::Old,
            // A clone that is not finished has no aliases yet: it is not live for those who use them.
            Some(_) if item.source.is_some() && self.source(item).is_none() && !self.is_ours(way, item) => State::New,
            _ => State::Absent,
        }
    }
}

/// What to do next with `item`.
pub(crate) fn next(way: &Way, item: &SwapIndex, seen: &Seen) -> Next {
    match seen.get(&item.index) {
        Some(live) if seen.is_ours(way, item) => finish(way, item, seen, live),
        Some(live) if seen.is_old(item) => leave(item, seen, live),
        Some(live) if item.source.is_some() && seen.source(item).is_some() => keep_stray(way, item, seen, live),
        // Either the finished swap, or the work of somebody else since: not ours to touch.
        Some(_) => Next::Finished,
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
        Some(_) if !live.shape.write_block => Some(Next::Do(Act::Discard(kept.to_owned()))),
        Some(copy) if !copy.whole => Some(Next::Wait(kept.to_owned())),
        Some(_) => None,
        None if !live.whole => Some(Next::Wait(index.to_owned())),
        None if !live.shape.write_block => Some(Next::Do(Act::Block(index.to_owned()))),
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
        return Next::Do(Act::Settle { index: item.index.clone(), settings: becomes.settle() });
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
    let live = seen.get(&item.index).filter(|_| seen.is_old(item))?;
    if let Some(kept) = item.kept.as_ref().filter(|kept| seen.get(kept).is_some()) {
        return Some(Act::Discard(kept.clone()));
    }
    let was_blocked = item.was.as_ref().is_some_and(|was| was.write_block);
    if live.shape.write_block && !was_blocked {
        return Some(Act::Unblock(item.index.clone()));
    }
    (item.live_closed && !live.closed).then(|| Act::Close(item.index.clone()))
}
