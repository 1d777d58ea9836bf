//! The two ways of a swap, each as a plan: forward from what was staged, back to what an earlier swap kept.

use std::collections::{BTreeMap, BTreeSet};

use svc_step::{Call, Failure};

use super::HowArgs;
use super::foresee::foresee_undo;
use super::offer::{Offer, Offered, not_proven};
use super::plan::{Doubt, Wish, lay_out, refuse_second_write_index, requests, wishes_back, write_aliases};
use crate::bring::room;
use crate::bring::streams::{self, StreamBack, StreamState};
use crate::guard;
use crate::index::act::Act;
use crate::index::clone::let_start;
use crate::index::copies::Way;
use crate::index::count::counts;
use crate::index::live;
use crate::index::policy;
use crate::index::resolve::{PassedOver, Patterns, Reason};
use crate::index::scope::Scope;
use crate::index::shape::{Shape, is_write_index};
use crate::index::{Index, look, only};
use crate::runs;
use crate::runs::seen::{Seen, state};
use crate::runs::swapped::{Source, State, SwapIndex, Swapped};
use crate::server::Server;
use crate::server::json::members;

/// The plan by which what was staged or set aside becomes live.
///
/// # Errors
/// Its copies are not there any more (4); a safety rule says no (3).
pub(crate) fn forward(call: &Call, server: &Server, scope: &Scope, offer: &Offer, how: HowArgs) -> Result<Swapped, Failure> {
    let source = |one: &Offered| one.source.clone().ok_or_else(|| not_proven(&offer.run));
    let way = Way { run: offer.run.clone(), back: false };
    let (wishes, skipped) = wishes(server, scope, offer, how, source)?;
    let mut seen = look_at(server, &way, &wishes)?;
    policy::fill(call, server, &mut seen)?;
    refuse_stuck(server, &seen)?;
    let missing = wishes.iter().filter_map(|wish| wish.source.as_ref());
    let missing: Vec<&str> = missing
        .filter(|copy| seen.get(&copy.name).is_none_or(|index| index.uuid != copy.uuid))
        .map(|copy| copy.name.as_str())
        .collect();
    if !missing.is_empty() {
        return Err(Failure::not_found(
            "staged_copy_missing",
            format!("What was staged or set aside is not there any more: {}.", missing.join(", ")),
        )
        .hint("Stage the snapshot again: svc-snap stage."));
    }
    refuse_unsound(server, &wishes, &seen)?;
    let (swapped, doubts) = planned(server, &way, wishes, &seen, how, skipped, &offer.straight)?;
    tell(call, &doubts);
    let swapped = with_streams(server, offer, swapped)?;
    let unproven = swapped.streams.iter().zip(&offer.streams).filter(|(now, then)| now.was_live && !then.back.was_live);
    if unproven.count() > 0 {
        return Err(not_proven(&offer.run));
    }
    streams::warn(call, &swapped.streams);
    let swapped = opening(offer, swapped);
    Ok(Swapped {
        snapshot_uuid: offer.snapshot_uuid.clone(),
        straight: offer.straight.iter().map(|one| one.index.clone()).collect(),
        ..swapped
    })
}

/// A swap clones what is live and what becomes live.
fn refuse_stuck(server: &Server, seen: &BTreeMap<String, Index>) -> Result<(), Failure> {
    room::refuse_stuck_clones(server, &seen.keys().map(String::as_str).collect::<Vec<_>>())
}

/// What was proven may have lost a shard or been written to since: nothing that is live is given up for it.
fn refuse_unsound(server: &Server, wishes: &[Wish], seen: &BTreeMap<String, Index>) -> Result<(), Failure> {
    let sources: Vec<&Source> = wishes.iter().filter_map(|wish| wish.source.as_ref()).collect();
    let names: Vec<&str> = sources.iter().map(|source| source.name.as_str()).collect();
    let red: Vec<&str> = names.iter().copied().filter(|name| seen.get(*name).is_none_or(|copy| !copy.whole)).collect();
    if !red.is_empty() {
        return Err(Failure::refused(
            "staged_copy_red",
            format!("What was staged or set aside lacks shards by now: {}.", red.join(", ")),
        )
        .hint("GET /_cluster/allocation/explain says why; mend it, or stage the snapshot again: svc-snap stage."));
    }
    let counts = counts(server, &names)?;
    sources.iter().try_for_each(|source| source.same_as_proven(counts.get(source.name.as_str()).copied().unwrap_or_default()))
}

/// Data streams come after the indices.
fn with_streams(server: &Server, offer: &Offer, mut swapped: Swapped) -> Result<Swapped, Failure> {
    swapped.streams = offer.streams.iter().map(|one| one.back.clone()).collect();
    streams::look(server, &mut swapped.streams)?;
    swapped.plan.extend(streams::requests(&swapped.streams));
    Ok(swapped)
}

/// The same plan before anything is staged, as if what is to be staged were there: whatever forbids the swap shows. It is
/// printed and never carried out.
///
/// # Errors
/// As [`forward`].
pub(crate) fn foreseen(server: &Server, scope: &Scope, offer: &Offer, how: HowArgs) -> Result<Swapped, Failure> {
    let not_yet = "not staged yet";
    let source = |one: &Offered| Ok(Source { name: one.name.clone(), uuid: not_yet.to_owned(), docs_count: 0 });
    let way = Way { run: offer.run.clone(), back: false };
    let (wishes, skipped) = wishes(server, scope, offer, how, source)?;
    let mut seen = look_at(server, &way, &wishes)?;
    refuse_stuck(server, &seen)?;
    for copy in wishes.iter().filter_map(|wish| wish.source.as_ref()) {
        let shape = Shape::of_copy();
        seen.insert(copy.name.clone(), Index { uuid: not_yet.to_owned(), closed: false, whole: true, shape });
    }
    let (swapped, _) = planned(server, &way, wishes, &seen, how, skipped, &offer.straight)?;
    with_streams(server, offer, opening(offer, swapped))
}

/// What was restored under its own name is opened first.
fn opening(offer: &Offer, mut swapped: Swapped) -> Swapped {
    swapped.plan.splice(0..0, offer.openings().iter().map(Act::action));
    swapped
}

/// What a swap forward is to do, and what it leaves alone.
fn wishes(
    server: &Server,
    scope: &Scope,
    offer: &Offer,
    how: HowArgs,
    source: impl Fn(&Offered) -> Result<Source, Failure>,
) -> Result<(Vec<Wish>, Vec<PassedOver>), Failure> {
    let mut skipped = offer.skipped.clone();
    let mut wishes = Vec::new();
    for one in &offer.copies {
        let source = Some(source(one)?);
        wishes.push(Wish { index: one.index.clone(), source, becomes: one.becomes.clone(), holder: None });
    }
    if how.exact {
        let (surplus, left) = surplus(server, scope, offer)?;
        wishes.extend(surplus.into_iter().map(taken_away));
        skipped.extend(left);
    }
    Ok((wishes, skipped))
}

fn taken_away(index: String) -> Wish {
    Wish { index, source: None, becomes: None, holder: None }
}

/// The plan that takes back what `before` did.
///
/// # Errors
/// What was live was not kept (4); a safety rule says no (3).
pub(super) fn backward(call: &Call, server: &Server, before: &Swapped, how: HowArgs) -> Result<Swapped, Failure> {
    if how.exact {
        return Err(Failure::usage(
            "exact_back",
            "--exact has no meaning when a swap is taken back: what it took away comes back.",
        )
        .hint("Leave --exact out."));
    }
    let run = runs::named(&before.run)?;
    let (was, way) = (Way { run: run.clone(), back: before.back }, Way { run, back: !before.back });
    let mut before = before.clone();
    let kept: Vec<String> =
        before.indices.iter().map(|item| &item.index).chain(&before.straight).map(|index| way.kept(index)).collect();
    let items = before.indices.iter().chain(&before.begun);
    let names = items.flat_map(SwapIndex::names).chain(before.straight.iter().map(String::as_str));
    let names: Vec<&str> = names.chain(kept.iter().map(String::as_str)).collect();
    guard::refuse_blocked_live(server, &names)?;
    let mut seen = look(server, &names)?;
    let starting: Vec<&str> = before.indices.iter().flat_map(|item| starting(&was, item, &seen)).collect();
    if !starting.is_empty() {
        let_start(server, &starting, || call.check())?;
        seen = look(server, &names)?;
    }
    refuse_stuck(server, &seen)?;
    policy::fill(call, server, &mut seen)?;
    for item in &mut before.indices {
        item.state = state(&was, item, only(&seen, &item.names()));
    }
    // What was kept of an index that is live as it was is removed, whatever it holds.
    let changed = before.indices.iter().filter(|item| item.state != State::Old);
    let there: Vec<&str> = changed.filter_map(|item| item.kept.as_deref()).filter(|kept| seen.contains_key(*kept)).collect();
    let counts = counts(server, &there)?;
    let old = before.indices.iter().filter(|item| item.state == State::Old);
    let skipped = old.map(|item| PassedOver { name: item.index.clone(), reason: Reason::NotSwapped }).collect();
    let mut wishes = wishes_back(&before, &seen, &counts)?;
    wishes.extend(before.straight.iter().filter(|index| seen.contains_key(*index)).cloned().map(taken_away));
    let mut skipped: Vec<PassedOver> = skipped;
    skipped.extend(streams_passed_over(call, &before));
    let (mut swapped, doubts) = planned(server, &way, wishes, &seen, how, skipped, &[])?;
    tell(call, &doubts);
    let begun = before.indices.into_iter().filter(|item| item.state == State::Old);
    swapped.begun = begun.chain(before.begun).collect();
    let undone = swapped.begun.iter().flat_map(|item| {
        let seen = Seen { indices: only(&seen, &item.names()), rivals: Vec::new() };
        foresee_undo(item, &seen).into_iter().map(|act| act.action())
    });
    swapped.plan = undone.chain(std::mem::take(&mut swapped.plan)).collect();
    swapped.taken_back = before.taken_back;
    Ok(swapped)
}

/// The clones of a swap that was cut which may not have started yet.
fn starting<'a>(was: &Way, item: &'a SwapIndex, seen: &BTreeMap<String, Index>) -> Vec<&'a str> {
    let of = Seen { indices: only(seen, &item.names()), rivals: Vec::new() };
    let live = of.is_ours(was, item).then_some(item.index.as_str());
    let kept = item.kept.as_deref().filter(|_| !of.is_old(item));
    live.into_iter().chain(kept).filter(|name| of.get(name).is_some_and(|index| !index.whole && !index.closed)).collect()
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

/// Indices of the scope that the backup does not hold, and what is left alone although it does not hold it.
fn surplus(server: &Server, scope: &Scope, offer: &Offer) -> Result<(Vec<String>, Vec<PassedOver>), Failure> {
    let copies = offer.copies.iter().map(|one| &one.index).chain(offer.straight.iter().map(|one| &one.index));
    let streams = offer.streams.iter().map(|one| &one.back.stream);
    let held: BTreeSet<&str> =
        copies.chain(streams).chain(offer.skipped.iter().map(|one| &one.name)).map(String::as_str).collect();
    let live = live::any(server, scope, &Patterns::parse(&offer.asked_for))?;
    let is_more = |name: &String| !held.contains(name.as_str());
    let surplus = live.indices.into_iter().map(|index| index.name).filter(&is_more).collect();
    let servers_own = live.skipped.into_iter().filter(|one| one.reason == Reason::ServersOwn);
    let streams = live.streams.into_iter().map(|name| PassedOver { name, reason: Reason::DataStream });
    Ok((surplus, servers_own.chain(streams).filter(|one| is_more(&one.name)).collect()))
}

fn look_at(server: &Server, way: &Way, wishes: &[Wish]) -> Result<BTreeMap<String, Index>, Failure> {
    let kept: Vec<String> = wishes.iter().map(|wish| way.kept(&wish.index)).collect();
    let sources = wishes.iter().filter_map(|wish| wish.source.as_ref()).map(|source| source.name.as_str());
    let mut names: Vec<&str> = wishes.iter().map(|wish| wish.index.as_str()).chain(sources).collect();
    // A clone has the blocks of what it is of, and nobody could settle it.
    guard::refuse_blocked_live(server, &names)?;
    names.extend(kept.iter().map(String::as_str));
    look(server, &names)
}

fn planned(
    server: &Server,
    way: &Way,
    wishes: Vec<Wish>,
    seen: &BTreeMap<String, Index>,
    how: HowArgs,
    skipped: Vec<PassedOver>,
    straight: &[Offered],
) -> Result<(Swapped, Vec<Doubt>), Failure> {
    let (indices, doubts) = lay_out(way, wishes, seen, how.drop_old)?;
    refuse_name_clashes(server, &indices, straight)?;
    if !write_aliases(&indices).is_empty() {
        refuse_second_write_index(&indices, &write_holders(server)?)?;
    }
    let swapped = Swapped {
        cluster_uuid: server.cluster_uuid.clone(),
        run: way.run.to_string(),
        snapshot_uuid: None,
        back: way.back,
        exact: how.exact,
        drop_old: how.drop_old,
        plan: requests(way, &indices, seen),
        indices,
        straight: Vec::new(),
        begun: Vec::new(),
        taken_back: Vec::new(),
        streams: Vec::new(),
        skipped,
    };
    Ok((swapped, doubts))
}

/// A name that is an alias cannot become that of an index, nor the other way round: both are found out before the exchange, after which
/// nothing would be live under the name.
fn refuse_name_clashes(server: &Server, indices: &[SwapIndex], straight: &[Offered]) -> Result<(), Failure> {
    let live = live::names(server)?;
    let new = indices.iter().filter(|item| item.live_uuid.is_none() && item.source.is_some()).map(|item| &item.index);
    let taken: Vec<&str> = new
        .chain(straight.iter().map(|one| &one.index))
        .filter(|name| live.aliases.contains(*name))
        .map(String::as_str)
        .collect();
    if !taken.is_empty() {
        return Err(Failure::refused(
            "alias_in_the_way",
            format!("Indices of the backup have the names of aliases that are there now: {}.", taken.join(", ")),
        )
        .hint("GET /_cat/aliases shows them; rename or remove those aliases first."));
    }
    let names: BTreeSet<&String> = live.indices.iter().map(|index| &index.name).chain(&live.streams).collect();
    let become_live = indices.iter().map(|item| &item.becomes).chain(straight.iter().map(|one| &one.becomes)).flatten();
    let taken: BTreeSet<&str> =
        become_live.flat_map(|shape| shape.aliases.keys()).filter(|alias| names.contains(alias)).map(String::as_str).collect();
    if taken.is_empty() {
        return Ok(());
    }
    let taken: Vec<&str> = taken.into_iter().collect();
    Err(Failure::refused(
        "alias_in_the_way",
        format!("Aliases of the backup have the names of indices or data streams that are there now: {}.", taken.join(", ")),
    )
    .hint("Clone those to other names (POST /INDEX/_clone/NAME) if anything in them is needed, and delete them first."))
}

/// The indices that each alias writes to, of all aliases in one request.
fn write_holders(server: &Server) -> Result<BTreeMap<String, Vec<String>>, Failure> {
    let found = server.get("/_alias?expand_wildcards=all&filter_path=*.aliases.*.is_write_index")?;
    let mut holders = BTreeMap::<String, Vec<String>>::new();
    for (name, index) in members(&found) {
        let aliases = index.get("aliases").into_iter().flat_map(members);
        for (alias, _) in aliases.filter(|(_, properties)| properties.as_object().is_some_and(is_write_index)) {
            holders.entry(alias.clone()).or_default().push(name.clone());
        }
    }
    Ok(holders)
}

fn tell(call: &Call, doubts: &[Doubt]) {
    let names = |wanted: fn(&Doubt) -> Option<&String>| {
        doubts.iter().filter_map(wanted).map(String::as_str).collect::<Vec<_>>().join(", ")
    };
    let live = names(|doubt| if let Doubt::FromLive(name) = doubt { Some(name) } else { None });
    let unknown = names(|doubt| if let Doubt::Unknown(name) = doubt { Some(name) } else { None });
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
