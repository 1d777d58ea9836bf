//! The phases of a swap: their requests, how far a swap has come as the server shows it, and its undoing before its exchange.

use serde_json::{Value, json};
use svc_step::{Action, Call, Failure, RunId, swaps};

use crate::client::Server;
use crate::index::clone::{LiveClone, again};
use crate::index::metadata::give;
use crate::index::{Act, Found, IndexMetadata, Reason, Skipped, clone, get_indices};
use crate::restore::{CopiedIndex, SwapIndex, SwapSource, Swapped, record};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// What was live is live.
    Before,
    /// It is exchanged and not finished.
    Exchanged,
    /// It is exchanged, and no copy is left that was to become live.
    After,
}

/// How far it has come, once the server has done all that it had been asked before: an exchange whose answer was lost may be among that.
pub(crate) fn phase(server: &Server, swapped: &Swapped) -> Result<Phase, Failure> {
    let health = server.get("/_cluster/health?wait_for_events=languid&timeout=30s&filter_path=timed_out")?;
    if health.get("timed_out") != Some(&Value::Bool(false)) {
        return Err(Failure::unavailable("search_busy", "The server has more to do than it does in half a minute."));
    }
    Ok(phase_of(swapped, &get_indices(server, &swapped.names())?))
}

pub(super) fn phase_of(swapped: &Swapped, found: &Found) -> Phase {
    let is_left = |item: &SwapIndex| item.is_old(found) || item.source_in(found).is_some();
    if swapped.indices.iter().any(|item| item.names().any(|name| swapped.is_marked(found, name))) {
        Phase::Exchanged
    } else if swapped.indices.iter().any(is_left) {
        Phase::Before
    } else {
        Phase::After
    }
}

/// Refuses to continue where a swap has begun and is not finished: its copies may be all that there is of some indices.
/// Errors: It is so (3); the server does not answer, or refuses.
pub(crate) fn refuse_unfinished(server: &Server, swapped: &Swapped) -> Result<(), Failure> {
    if swapped.finished {
        return Ok(());
    }
    let found = get_indices(server, &swapped.names())?;
    let is_untouched = match phase_of(swapped, &found) {
        // Copies alone hinder no step, unless they are what an unfinished swap has left that is to be taken back.
        Phase::Before => {
            let is_copy = |act: &Act| matches!(act, Act::Delete(_));
            swapped.discarded.is_empty() && clone::undoing(&live_clones(swapped), &found).iter().all(is_copy)
        }
        Phase::Exchanged => false,
        Phase::After => swapped.indices.is_empty() && swapped.direct.is_empty(),
    };
    if is_untouched {
        return Ok(());
    }
    Err(Failure::refused("swap_unfinished", format!("The swap of the run {} is not finished.", swapped.run))
        .hint(format!("svc-snap swap --run {0} finishes it; svc-snap swap --run {0} --back takes it back.", swapped.run)))
}

/// Refuses to touch indices that a swap of another run has begun with and not finished, as the server shows it.
/// Errors: There is such a swap (3).
pub(crate) fn refuse_unfinished_swaps(call: &Call, server: &Server, run: &RunId, names: &[&str]) -> Result<(), Failure> {
    let swaps = swaps::all(call, &[record::SWAP]).into_iter().filter_map(|received| received.result::<Swapped>().ok());
    let concerns = |swapped: &Swapped| {
        let is_other = swapped.cluster_uuid == server.cluster_uuid && swapped.run != run.as_str();
        is_other && swapped.live_names().iter().any(|name| names.contains(name))
    };
    swaps.filter(concerns).try_for_each(|swapped| refuse_unfinished(server, &swapped))
}

/// The result of taking back a swap that has not come to its exchange: there is nothing to swap.
pub(crate) fn undone(server: &Server, before: &Swapped) -> Result<Swapped, Failure> {
    let skipped = before.indices.iter().map(|item| Skipped { name: item.index.clone(), reason: Reason::NotSwapped });
    Ok(Swapped {
        back: !before.back,
        indices: Vec::new(),
        direct: Vec::new(),
        discarded: Vec::new(),
        skipped: skipped.collect(),
        plan: undoing(server, before)?.iter().map(Act::action).collect(),
        ..before.clone()
    })
}

/// The requests; what was restored directly for the swap goes too.
fn undoing(server: &Server, before: &Swapped) -> Result<Vec<Act>, Failure> {
    let mut names = before.names();
    names.extend(before.direct.iter().map(|one| one.index.as_str()));
    let found = get_indices(server, &names)?;
    let mut acts = clone::undoing(&live_clones(before), &found);
    let unopened = before.direct.iter().filter(|one| one.is_unopened(&found));
    acts.extend(Act::each(unopened.map(|one| one.index.as_str()), Act::Delete));
    Ok(acts)
}

/// Undoes `before`, which has not come to its exchange, and records that it was taken back.
/// Errors: The server does not answer, or refuses: the same command resumes it.
pub(crate) fn take_back(call: &Call, server: &Server, before: &Swapped, undone: &mut Swapped) -> Result<(), Failure> {
    let undo = || undoing(server, before)?.iter().try_for_each(|act| clone::send_or_each(call, server, act));
    again(undo).map_err(|failure| unfinished(&before.run, failure))?;
    undone.finished = true;
    record::write_end(call, &before.run, "swap", undone);
    Ok(())
}

/// Every failure of an unfinished swap names the command that resumes it.
pub(super) fn unfinished(run: &str, mut failure: Failure) -> Failure {
    let resume =
        format!("When it is fixed, svc-snap swap --run {run} finishes the swap; svc-snap swap --run {run} --back takes it back.");
    failure.hint = Some(failure.hint.map_or(resume.clone(), |hint| format!("{hint} {resume}")));
    failure
}

impl SwapIndex {
    /// The settings that its clone under the live name, which is as `seen`, still needs.
    pub(super) fn settle(&self, seen: &IndexMetadata) -> Option<Value> {
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
/// no client can create an index of an alias's name. All copies get the marker, so that the call fails if it comes late, when the swap was
/// undone and its copies are gone.
pub(super) fn exchange(swapped: &Swapped, found: &Found) -> Vec<Value> {
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

/// Phase 5: the aliases move to the live names, and the copies go.
pub(super) fn finish(swapped: &Swapped, found: &Found) -> Vec<Value> {
    let mut actions = Vec::new();
    for (item, source) in swapped.with_source() {
        actions.extend(item.source_in(found).map(|_| remove_index(&source.name)));
        actions.extend(all_aliases(item, &item.index));
    }
    let unmark = |name: &str| json!({"remove": {"index": name, "alias": swapped.marker()}});
    let previous = swapped.indices.iter().filter_map(|item| item.previous.as_deref());
    let marked = previous.filter(|name| swapped.is_marked(found, name));
    actions.extend(swapped.with_source().map(|(item, _)| item.index.as_str()).chain(marked).map(unmark));
    actions
}

pub(super) fn remove_index(name: &str) -> Value {
    json!({"remove_index": {"index": name}})
}

fn all_aliases<'a>(item: &'a SwapIndex, index: &'a str) -> impl Iterator<Item = Value> + 'a {
    item.becomes.iter().flat_map(|becomes| &becomes.aliases).map(move |(alias, properties)| give(index, alias, properties))
}

/// Phase 4: a clone under a live name.
pub(super) fn clone_to_live(swapped: &Swapped, item: &SwapIndex, source: &SwapSource) -> Act {
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
    let opening = |one: &'a CopiedIndex| (one.index.as_str(), one.metadata.clone().unwrap_or_default().block_settings());
    settings(direct.into_iter().map(opening))
}

/// The blocks that forbid to change an index any more come last; `None` for `found`: none of them is there yet.
pub(super) fn blocks(swapped: &Swapped, found: Option<&Found>) -> Vec<Act> {
    let missing = swapped.with_source().filter_map(|(item, _)| {
        let metadata = match found {
            Some(found) => found.get(&item.index)?.metadata.clone(),
            None => IndexMetadata::of_copy(),
        };
        Some((item.index.as_str(), item.becomes.as_ref()?.missing_blocks(&metadata)?))
    });
    settings(missing)
}

/// The requests of the whole swap, in their order.
pub(super) fn requests(swapped: &Swapped, found: &Found) -> Vec<Action> {
    let aliases = |actions: Vec<Value>| (!actions.is_empty()).then_some(Act::Aliases(actions));
    let copy = IndexMetadata::of_copy();
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
    use crate::restore::result::SwapState;
    use crate::restore::swap::set_states;

    const RUN: &str = "20261120t020003z-hand";

    fn index(uuid: &str, aliases: &[&str]) -> Index {
        let aliases = aliases.iter().map(|alias| ((*alias).to_owned(), serde_json::Map::new())).collect();
        Index { uuid: uuid.to_owned(), metadata: IndexMetadata { aliases, ..IndexMetadata::default() }, ..Index::of_copy() }
    }

    /// A swap of `a`, which is live, and one that takes `b` away.
    fn swapped() -> Swapped {
        let item = |name: &str, source: Option<SwapSource>| SwapIndex {
            index: name.to_owned(),
            state: SwapState::Old,
            live_uuid: Some(format!("live {name}")),
            live_closed: false,
            previous: Some(copies::previous(RUN, false, name)),
            conflicts: Vec::new(),
            was: Some(IndexMetadata::default()),
            becomes: source.as_ref().map(|_| index("", &["all"]).metadata),
            source,
        };
        let source = SwapSource { name: copies::staged(RUN, "a"), uuid: "staged".to_owned(), docs_count: 1 };
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
