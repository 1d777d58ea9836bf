//! The plan of a swap: what becomes live in whose place, under which name what is live is kept, and what each index has when it is
//! done. Whatever would stop the swap behind its exchange is found out here, before its first request.

use std::collections::{BTreeMap, BTreeSet};

use svc_step::{Call, Failure};

use super::record::swapped::{Source, State, SwapIndex, Swapped};
use super::source::{SourceCopy, SwapSource, not_proven};
use super::swap::{self, Stand};
use super::{checks, record};
use crate::capacity;
use crate::client::Server;
use crate::guard;
use crate::index::copies::{Way, is_marker};
use crate::index::count::counts;
use crate::index::live;
use crate::index::policy;
use crate::index::resolve::{PassedOver, Patterns, Reason};
use crate::index::scope::Scope;
use crate::index::shape::Shape;
use crate::index::{Index, look};
use crate::restore::streams::{self, StreamBack, StreamState};
use crate::throttle::auto_create::AutoCreate;

/// How a swap treats what is live.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub(crate) struct HowArgs {
    /// Take away the indices of the scope that the backup does not hold, too
    #[arg(long)]
    pub exact: bool,
    /// Do not keep what was live
    #[arg(long)]
    pub drop_old: bool,
}

/// What is asked for under one live name.
#[derive(Debug, Clone, PartialEq)]
struct SwapTarget {
    /// The live name.
    index: String,
    /// What is to become live; `None`: it is to be taken away.
    source: Option<Source>,
    /// What it is to have beside its documents; `None`: as what is live has it.
    becomes: Option<Shape>,
}

/// What nobody captured, of which people are told.
#[derive(Debug, Clone, PartialEq, Eq)]
enum MissingMetadata {
    /// It is taken from what is live.
    FromLive(String),
    /// Nothing is live: it comes without aliases and replicas.
    Unknown(String),
}

/// The plan by which what was staged or cloned becomes live.
///
/// # Errors
/// Its copies are not there any more (4); a safety rule says no (3).
pub(crate) fn forward(call: &Call, server: &Server, scope: &Scope, from: &SwapSource, how: HowArgs) -> Result<Swapped, Failure> {
    let source = |one: &SourceCopy| one.source.clone().ok_or_else(|| not_proven(&from.run));
    let way = Way { run: from.run.clone(), back: false };
    let (targets, skipped) = targets(server, scope, from, how, source)?;
    let mut found = look_at(server, &way, &targets)?;
    policy::fill(call, server, &mut found)?;
    let sources: Vec<&Source> = targets.iter().filter_map(|target| target.source.as_ref()).collect();
    checks::refuse_unsound(server, &sources, &found)?;
    let draft =
        Swapped { snapshot_uuid: from.snapshot_uuid.clone(), direct: from.direct(), skipped, ..draft(server, scope, &way, how) };
    let (swapped, missing) = planned(call, server, &way, draft, targets, &found)?;
    tell(call, &missing);
    let swapped = with_streams(server, from, swapped)?;
    let unproven = swapped.streams.iter().zip(&from.streams).filter(|(now, then)| now.was_live && !then.back.was_live);
    if unproven.count() > 0 {
        return Err(not_proven(&from.run));
    }
    streams::warn(call, &swapped.streams);
    Ok(swapped)
}

/// The same plan before anything is staged, as if what is to be staged were there: whatever forbids the swap shows. It is
/// printed and never carried out.
///
/// # Errors
/// As [`forward`].
pub(crate) fn foreseen(call: &Call, server: &Server, scope: &Scope, from: &SwapSource, how: HowArgs) -> Result<Swapped, Failure> {
    let not_yet = "not staged yet";
    let source = |one: &SourceCopy| Ok(Source { name: one.name.clone(), uuid: not_yet.to_owned(), docs_count: 0 });
    let way = Way { run: from.run.clone(), back: false };
    let (targets, skipped) = targets(server, scope, from, how, source)?;
    let mut found = look_at(server, &way, &targets)?;
    for copy in targets.iter().filter_map(|target| target.source.as_ref()) {
        let staged = Index { uuid: not_yet.to_owned(), closed: false, whole: true, shards: 0, shape: Shape::of_copy() };
        found.insert(copy.name.clone(), staged);
    }
    let draft = Swapped { direct: from.direct(), skipped, ..draft(server, scope, &way, how) };
    let (swapped, _) = planned(call, server, &way, draft, targets, &found)?;
    with_streams(server, from, swapped)
}

/// Data streams come after the indices.
fn with_streams(server: &Server, from: &SwapSource, mut swapped: Swapped) -> Result<Swapped, Failure> {
    swapped.streams = from.streams.iter().map(|one| one.back.clone()).collect();
    streams::look(server, &mut swapped.streams)?;
    swapped.plan.extend(streams::requests(&swapped.streams));
    Ok(swapped)
}

/// What a swap forward is to do, and what it leaves alone.
fn targets(
    server: &Server,
    scope: &Scope,
    from: &SwapSource,
    how: HowArgs,
    source: impl Fn(&SourceCopy) -> Result<Source, Failure>,
) -> Result<(Vec<SwapTarget>, Vec<PassedOver>), Failure> {
    let mut skipped = from.skipped.clone();
    let mut targets = Vec::new();
    for one in &from.copies {
        targets.push(SwapTarget { index: one.index.clone(), source: Some(source(one)?), becomes: one.becomes.clone() });
    }
    if how.exact {
        let (surplus, left) = surplus(server, scope, from)?;
        targets.extend(surplus.into_iter().map(taken_away));
        skipped.extend(left);
    }
    Ok((targets, skipped))
}

const fn taken_away(index: String) -> SwapTarget {
    SwapTarget { index, source: None, becomes: None }
}

/// A swap that is gone on with keeps to its plan. Where the command is the one that began it (`same`), its flags are the
/// plan's; elsewhere they need not be said again.
///
/// # Errors
/// They ask for something else (2).
pub(crate) fn refuse_other_plan(planned: &Swapped, how: HowArgs, same: bool) -> Result<(), Failure> {
    let differ = |asked: bool, planned: bool| if same { asked != planned } else { asked && !planned };
    let flags = [("--exact", how.exact, planned.exact), ("--drop-old", how.drop_old, planned.drop_old)];
    let differing: Vec<&str> =
        flags.into_iter().filter(|(_, asked, planned)| differ(*asked, *planned)).map(|(flag, ..)| flag).collect();
    if differing.is_empty() {
        return Ok(());
    }
    Err(Failure::usage(
        "plan_differs",
        format!("The swap of the run {} was planned otherwise: {}.", planned.run, differing.join(", ")),
    )
    .hint(format!("svc-snap swap --run {} goes on with it as it was planned.", planned.run)))
}

/// Indices of the scope that the backup does not hold, and what is left alone although it does not hold it.
fn surplus(server: &Server, scope: &Scope, from: &SwapSource) -> Result<(Vec<String>, Vec<PassedOver>), Failure> {
    let copies = from.copies.iter().chain(&from.direct).map(|one| &one.index);
    let streams = from.streams.iter().map(|one| &one.back.stream);
    let held: BTreeSet<&str> =
        copies.chain(streams).chain(from.skipped.iter().map(|one| &one.name)).map(String::as_str).collect();
    let live = live::any(server, scope, &Patterns::parse(&from.asked_for))?;
    let is_more = |name: &String| !held.contains(name.as_str());
    let surplus = live.indices.into_iter().map(|index| index.name).filter(&is_more).collect();
    let servers_own = live.skipped.into_iter().filter(|one| one.reason == Reason::ServersOwn);
    let streams = live.streams.into_iter().map(|name| PassedOver { name, reason: Reason::DataStream });
    Ok((surplus, servers_own.chain(streams).filter(|one| is_more(&one.name)).collect()))
}

/// The plan that takes back what `before` did, which has come to its exchange. Where it had not come to its end, what it had
/// exchanged goes.
///
/// # Errors
/// What was live was not kept (4); a safety rule says no (3).
pub(crate) fn backward(call: &Call, server: &Server, scope: &Scope, before: &Swapped, how: HowArgs) -> Result<Swapped, Failure> {
    if how.exact {
        return Err(Failure::usage(
            "exact_back",
            "--exact has no meaning when a swap is taken back: what it took away comes back.",
        )
        .hint("Leave --exact out."));
    }
    let run = record::named(&before.run)?;
    let way = Way { run, back: !before.back };
    let stand = if before.finished { Stand::After } else { swap::stand(server, before)? };
    let kept: Vec<String> = before.live_names().into_iter().map(|index| way.kept(index)).collect();
    let names = before.indices.iter().flat_map(SwapIndex::names).chain(before.direct.iter().map(|one| one.index.as_str()));
    let names: Vec<&str> = names.chain(kept.iter().map(String::as_str)).collect();
    guard::refuse_blocked_live(server, &names)?;
    let mut found = look(server, &names)?;
    policy::fill(call, server, &mut found)?;
    let there: Vec<&str> =
        before.indices.iter().filter_map(|item| item.kept.as_deref()).filter(|kept| found.contains_key(*kept)).collect();
    let counts = counts(server, &there)?;
    let mut targets = targets_back(before, &found, &counts)?;
    targets
        .extend(before.direct.iter().map(|one| &one.index).filter(|index| found.contains_key(*index)).cloned().map(taken_away));
    let mut draft = Swapped { skipped: streams_passed_over(call, before), ..draft(server, scope, &way, how) };
    if stand == Stand::Between {
        let sources = before.indices.iter().filter_map(|item| item.source.as_ref());
        let left = sources.filter(|source| found.get(&source.name).is_some_and(|copy| copy.uuid == source.uuid));
        draft.discarded = left.map(|source| source.name.clone()).collect();
    }
    let (swapped, missing) = planned(call, server, &way, draft, targets, &found)?;
    tell(call, &missing);
    Ok(swapped)
}

/// What takes back an earlier swap.
fn targets_back(
    before: &Swapped,
    found: &BTreeMap<String, Index>,
    counts: &BTreeMap<&str, u64>,
) -> Result<Vec<SwapTarget>, Failure> {
    let mut lost = Vec::new();
    let mut targets = Vec::new();
    for item in &before.indices {
        if item.live_uuid.is_none() && item.was.is_none() {
            targets.extend(found.contains_key(&item.index).then(|| taken_away(item.index.clone())));
            continue;
        }
        match item.kept.as_ref().and_then(|kept| Some((kept, found.get(kept)?))) {
            Some((kept, copy)) => {
                let docs_count = counts.get(kept.as_str()).copied().unwrap_or_default();
                let source = Source { name: kept.clone(), uuid: copy.uuid.clone(), docs_count };
                targets.push(SwapTarget { index: item.index.clone(), source: Some(source), becomes: item.was.clone() });
            }
            None => lost.push(item.index.as_str()),
        }
    }
    if lost.is_empty() {
        return Ok(targets);
    }
    Err(Failure::not_found(
        "nothing_kept",
        format!("The swap cannot be taken back: what was live was not kept, or was removed: {}.", lost.join(", ")),
    )
    .hint("Restore a snapshot of that time instead: svc-snap restore."))
}

/// The data streams that `before` has touched, of which people are told: nothing of them was kept.
fn streams_passed_over(call: &Call, before: &Swapped) -> Vec<PassedOver> {
    let names = |wanted: fn(&StreamBack) -> bool| {
        before.streams.iter().filter(|one| wanted(one)).map(|one| one.stream.as_str()).collect::<Vec<_>>()
    };
    let (restored, cut) = (names(|one| one.state == StreamState::Restored), names(StreamBack::is_cut));
    if !restored.is_empty() {
        call.warn("streams_stay", format!("Data streams were restored in place and stay as they are: {}.", restored.join(", ")));
    }
    if !cut.is_empty() {
        call.review(
            "streams_not_restored",
            format!(
                "These data streams were given up, their restore was not finished, and nobody finishes it now: {0}. \
                 svc-snap restore --streams-in-place --indices '{1}' restores them.",
                cut.join(", "),
                cut.join(",")
            ),
        );
    }
    let touched = restored.into_iter().chain(cut);
    touched.map(|name| PassedOver { name: name.to_owned(), reason: Reason::DataStream }).collect()
}

fn look_at(server: &Server, way: &Way, targets: &[SwapTarget]) -> Result<BTreeMap<String, Index>, Failure> {
    let kept: Vec<String> = targets.iter().map(|target| way.kept(&target.index)).collect();
    let sources = targets.iter().filter_map(|target| target.source.as_ref()).map(|source| source.name.as_str());
    let mut names: Vec<&str> = targets.iter().map(|target| target.index.as_str()).chain(sources).collect();
    // A clone has the blocks of what it is of, and nobody could settle it.
    guard::refuse_blocked_live(server, &names)?;
    names.extend(kept.iter().map(String::as_str));
    look(server, &names)
}

/// A swap of which nothing is laid out yet.
fn draft(server: &Server, scope: &Scope, way: &Way, how: HowArgs) -> Swapped {
    Swapped {
        cluster_uuid: server.cluster_uuid.clone(),
        run: way.run.to_string(),
        snapshot_uuid: None,
        back: way.back,
        exact: how.exact,
        drop_old: how.drop_old,
        alone: scope.is_everything(),
        finished: false,
        indices: Vec::new(),
        direct: Vec::new(),
        discarded: Vec::new(),
        streams: Vec::new(),
        skipped: Vec::new(),
        plan: Vec::new(),
    }
}

/// Lays it out, checks it, and plans its requests; what nobody captured is given beside it.
fn planned(
    call: &Call,
    server: &Server,
    way: &Way,
    mut swapped: Swapped,
    targets: Vec<SwapTarget>,
    found: &BTreeMap<String, Index>,
) -> Result<(Swapped, Vec<MissingMetadata>), Failure> {
    capacity::refuse_stuck_clones(server, &found.keys().map(String::as_str).collect::<Vec<_>>())?;
    let (indices, missing) = lay_out(way, targets, found, swapped.drop_old)?;
    swapped.indices = indices;
    checks::refuse_name_clashes(server, &swapped)?;
    checks::refuse_second_write_index(server, &swapped)?;
    capacity::refuse_swap(server, &swapped.indices, found)?;
    swapped.plan = swap::requests(way, &swapped, found);
    if swapped.alone && !swapped.indices.is_empty() {
        let names: Vec<&str> = swapped.indices.iter().map(|item| item.index.as_str()).collect();
        swapped.plan = AutoCreate::around(call, server, &names, std::mem::take(&mut swapped.plan));
    }
    Ok((swapped, missing))
}

/// Lays out the swap, in the order of the names.
fn lay_out(
    way: &Way,
    targets: Vec<SwapTarget>,
    found: &BTreeMap<String, Index>,
    drop_old: bool,
) -> Result<(Vec<SwapIndex>, Vec<MissingMetadata>), Failure> {
    let (mut indices, mut missing) = (Vec::new(), Vec::new());
    for target in targets {
        let live = found.get(&target.index);
        // The clone of a swap that is taken back before it was finished is nothing that anybody has used.
        let is_unfinished = live.is_some_and(|live| live.shape.aliases.keys().any(|alias| is_marker(alias)));
        let was = live.map(|live| live.shape.clone()).filter(|_| !is_unfinished);
        let becomes = target.source.as_ref().map(|_| match (&target.becomes, &was) {
            (Some(becomes), _) => becomes.clone(),
            (None, Some(was)) => {
                missing.push(MissingMetadata::FromLive(target.index.clone()));
                // A block says how things stand with what is live, and nothing of the backup.
                Shape { blocks: BTreeSet::new(), ..was.clone() }
            }
            (None, None) => {
                missing.push(MissingMetadata::Unknown(target.index.clone()));
                Shape::default()
            }
        });
        let kept = (!drop_old && live.is_some() && !is_unfinished).then(|| way.kept(&target.index));
        indices.push(SwapIndex {
            state: if live.is_some() { State::Old } else { State::Absent },
            source: target.source,
            live_uuid: live.map(|live| live.uuid.clone()),
            live_closed: live.is_some_and(|live| live.closed),
            kept,
            conflicts: Vec::new(),
            was,
            becomes,
            index: target.index,
        });
    }
    indices.sort_by(|one, other| (one.source.is_none(), &one.index).cmp(&(other.source.is_none(), &other.index)));
    let in_use = indices.iter().filter_map(|item| item.kept.as_deref());
    let in_use: Vec<&str> = in_use.filter(|kept| found.contains_key(*kept)).collect();
    guard::refuse_in_use("what is live", &in_use)?;
    checks::refuse_unkeepable(&indices, found)?;
    Ok((indices, missing))
}

fn tell(call: &Call, missing: &[MissingMetadata]) {
    let names = |wanted: fn(&MissingMetadata) -> Option<&String>| {
        missing.iter().filter_map(wanted).map(String::as_str).collect::<Vec<_>>().join(", ")
    };
    let live = names(|one| if let MissingMetadata::FromLive(name) = one { Some(name) } else { None });
    let unknown = names(|one| if let MissingMetadata::Unknown(name) = one { Some(name) } else { None });
    if !live.is_empty() {
        call.warn(
            "shape_from_live",
            format!("No document of create says which aliases, replicas and lifecycle these had, so they get those of what is live: {live}."),
        );
    }
    if !unknown.is_empty() {
        call.review(
            "shape_unknown",
            format!("Nothing says which aliases, replicas and lifecycle these had; they have none: {unknown}."),
        );
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn way(back: bool) -> Way {
        Way { run: "20261120t020003z-hand".parse().unwrap(), back }
    }

    fn index(uuid: &str, aliases: &serde_json::Value) -> Index {
        let aliases = aliases.as_object().unwrap().iter().map(|(name, alias)| (name.clone(), alias.as_object().unwrap().clone()));
        let shape = Shape { aliases: aliases.collect(), number_of_replicas: 1, ..Shape::default() };
        Index { uuid: uuid.to_owned(), closed: false, whole: true, shards: 1, shape }
    }

    fn target(name: &str) -> SwapTarget {
        let source = Source { name: format!("svc-staged-20261120t020003z-hand-{name}"), uuid: "s".to_owned(), docs_count: 1 };
        SwapTarget { index: name.to_owned(), source: Some(source), becomes: None }
    }

    fn live(names: &[&str]) -> BTreeMap<String, Index> {
        names.iter().map(|&name| (name.to_owned(), index(name, &json!({"all": {}})))).collect()
    }

    #[test]
    fn what_comes_is_first_and_what_is_taken_away_last() {
        let targets = vec![taken_away("a".to_owned()), target("c"), target("b")];
        let (items, missing) = lay_out(&way(false), targets, &live(&["a", "b"]), false).unwrap();
        assert_eq!(items.iter().map(|item| item.index.as_str()).collect::<Vec<_>>(), ["b", "c", "a"]);
        assert_eq!(missing, [MissingMetadata::Unknown("c".to_owned()), MissingMetadata::FromLive("b".to_owned())]);
        let kept: Vec<_> = items.iter().map(|item| item.kept.as_deref()).collect();
        assert_eq!(kept, [Some("svc-before-20261120t020003z-hand-b"), None, Some("svc-before-20261120t020003z-hand-a")]);
        assert_eq!(items[0].becomes, items[0].was);
        assert_eq!(items[2].becomes, None);
    }

    #[test]
    fn what_cannot_be_kept_is_refused_by_all_its_names() {
        let mut found = live(&["a", "b"]);
        for name in ["a", "b"] {
            found.insert(way(false).kept(name), index("k", &json!({})));
        }
        let failure = lay_out(&way(false), vec![target("a"), target("b")], &found, false).unwrap_err();
        assert_eq!((failure.status.code(), failure.code.as_str()), (3, "name_in_use"));
        assert!(failure.message.contains("hand-a, svc-before"));
        let mut red = live(&["a", "b"]);
        red.values_mut().for_each(|index| index.whole = false);
        assert_eq!(lay_out(&way(false), vec![target("a"), target("b")], &red, false).unwrap_err().code, "live_index_red");
        assert!(lay_out(&way(false), vec![target("a"), target("b")], &red, true).is_ok());
    }

    #[test]
    fn a_finished_swap_is_taken_back_to_what_was_and_the_clone_of_an_unfinished_one_is_not_kept() {
        let targets = vec![target("a"), target("fresh"), taken_away("gone".to_owned())];
        let (indices, _) = lay_out(&way(false), targets, &live(&["a", "gone"]), false).unwrap();
        let before = Swapped {
            cluster_uuid: "c".to_owned(),
            run: "20261120t020003z-hand".to_owned(),
            snapshot_uuid: None,
            back: false,
            exact: false,
            drop_old: false,
            alone: false,
            finished: true,
            direct: Vec::new(),
            indices,
            discarded: Vec::new(),
            streams: Vec::new(),
            skipped: Vec::new(),
            plan: Vec::new(),
        };
        let mut found = live(&["a", "fresh"]);
        found.insert("fresh".to_owned(), index("fresh", &json!({way(false).marker(): {}})));
        for name in ["a", "gone"] {
            found.insert(way(false).kept(name), index(&format!("kept {name}"), &json!({})));
        }
        let targets = targets_back(&before, &found, &BTreeMap::new()).unwrap();
        let told: Vec<_> =
            targets.iter().map(|one| (one.index.as_str(), one.source.as_ref().map(|copy| copy.uuid.as_str()))).collect();
        assert_eq!(told, [("a", Some("kept a")), ("fresh", None), ("gone", Some("kept gone"))]);
        let (back, missing) = lay_out(&way(true), targets, &found, false).unwrap();
        assert!(missing.is_empty());
        assert_eq!(back[0].kept.as_deref(), Some("svc-replaced-20261120t020003z-hand-a"));
        assert_eq!(back[0].becomes, before.indices[0].was);
        assert_eq!((back[2].index.as_str(), &back[2].kept), ("fresh", &None));
        found.remove(&way(false).kept("gone"));
        let failure = targets_back(&before, &found, &BTreeMap::new()).unwrap_err();
        assert_eq!((failure.status.code(), failure.code.as_str()), (4, "nothing_kept"));
    }
}
