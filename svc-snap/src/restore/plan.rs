//! The plan of a swap: what becomes live in whose place, under which name what is live is kept, and what each index has when it is
//! done. Whatever would stop the swap after its exchange is refused here, before its first request.

use std::collections::{BTreeMap, BTreeSet};

use svc_step::{Call, Failure};

use super::checks;
use super::record;
use super::requests::requests;
use super::result::{CopiedIndex, CopySet, Source, State, SwapIndex, Swapped};
use super::undo::{self, Phase};
use crate::capacity;
use crate::client::Server;
use crate::guard;
use crate::index::copies::is_marker;
use crate::index::count::counts;
use crate::index::policy;
use crate::index::select::{self, PassedOver, Patterns, Reason, Scope};
use crate::index::shape::Shape;
use crate::index::{Found, Index, look};
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
    index: String,
    /// What is to become live; `None`: it is to be taken away.
    source: Option<Source>,
    /// What it is to have beside its documents; `None`: as what is live has it.
    becomes: Option<Shape>,
}

/// Indices whose aliases, replicas and lifecycle nobody captured.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct MissingMetadata {
    /// They get those of what is live.
    from_live: Vec<String>,
    /// Nothing is live: they have none.
    unknown: Vec<String>,
}

/// The plan by which what was staged or cloned becomes live. With `is_staged` false nothing is staged yet: whatever forbids the swap
/// shows, and the plan is only printed.
/// Errors: The copies are not there any more (4); a safety rule says no (3).
pub(crate) fn forward(
    call: &Call,
    server: &Server,
    scope: &Scope,
    set: &CopySet,
    how: HowArgs,
    is_staged: bool,
) -> Result<Swapped, Failure> {
    let mut swapped = empty(server, scope, &set.run, false, how);
    swapped.snapshot_uuid.clone_from(&set.snapshot_uuid);
    swapped.skipped.clone_from(&set.skipped);
    let (direct, beside): (Vec<&CopiedIndex>, Vec<&CopiedIndex>) = set.indices.iter().partition(|one| one.is_direct());
    swapped.direct = direct.into_iter().cloned().collect();
    let planned = |one: &CopiedIndex| Source { name: one.copy.clone(), uuid: String::new(), docs_count: 0 };
    let mut targets = Vec::new();
    for one in beside {
        let source = if is_staged { one.source().ok_or_else(|| record::not_verified(&set.run))? } else { planned(one) };
        targets.push(SwapTarget { index: one.index.clone(), source: Some(source), becomes: one.shape.clone() });
    }
    if how.exact {
        let (surplus, left) = surplus(server, scope, set)?;
        targets.extend(surplus.into_iter().map(taken_away));
        swapped.skipped.extend(left);
    }
    let sources: Vec<&Source> = targets.iter().filter_map(|target| target.source.as_ref()).collect();
    let mut names: Vec<&str> = targets.iter().map(|target| target.index.as_str()).collect();
    names.extend(sources.iter().map(|source| source.name.as_str()));
    // A clone has the blocks of its source, and nobody could settle it.
    guard::refuse_blocked_live(server, &names)?;
    let previous: Vec<String> = targets.iter().map(|target| swapped.previous_name(&target.index)).collect();
    names.extend(previous.iter().map(String::as_str));
    let mut found = look(server, &names)?;
    if is_staged {
        policy::fill(call, server, &mut found)?;
        checks::refuse_unsound(server, &sources, &found)?;
    } else {
        found.extend(sources.iter().map(|source| (source.name.clone(), Index::of_copy())));
    }
    let missing = lay_out(call, server, &mut swapped, targets, &found)?;
    if is_staged {
        tell(call, &missing);
    }
    Ok(swapped)
}

const fn taken_away(index: String) -> SwapTarget {
    SwapTarget { index, source: None, becomes: None }
}

/// A resumed swap keeps to its plan. Where the command is the one that began it (`same`), its flags are the plan's; elsewhere they
/// need not be passed again.
/// Errors: They ask for something else (2).
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
    .hint(format!("svc-snap swap --run {} resumes it as it was planned.", planned.run)))
}

/// Indices of the scope that the backup does not hold, and what stays although the backup does not hold it.
fn surplus(server: &Server, scope: &Scope, set: &CopySet) -> Result<(Vec<String>, Vec<PassedOver>), Failure> {
    let held = set.indices.iter().map(|one| &one.index).chain(set.skipped.iter().map(|one| &one.name));
    let held: BTreeSet<&str> = held.map(String::as_str).collect();
    let live = select::any_live(server, scope, &Patterns::parse(&set.asked_for))?;
    let is_more = |name: &String| !held.contains(name.as_str());
    let servers_own = live.skipped.into_iter().filter(|one| one.reason == Reason::ServersOwn);
    let streams = live.streams.into_iter().map(|name| PassedOver { name, reason: Reason::DataStream });
    let left = servers_own.chain(streams).filter(|one| is_more(&one.name)).collect();
    Ok((live.indices.into_iter().filter(&is_more).collect(), left))
}

/// The plan that takes back what `before` did, which has come to its exchange. Where it had not come to its end, what it had
/// exchanged goes.
/// Errors: What was live was not kept (4); a safety rule says no (3).
pub(crate) fn backward(call: &Call, server: &Server, scope: &Scope, before: &Swapped, how: HowArgs) -> Result<Swapped, Failure> {
    if how.exact {
        return Err(Failure::usage(
            "exact_back",
            "--exact has no meaning when a swap is taken back: what it took away comes back.",
        )
        .hint("Leave --exact out."));
    }
    let mut swapped = empty(server, scope, &before.run, !before.back, how);
    let previous: Vec<String> = before.live_names().into_iter().map(|index| swapped.previous_name(index)).collect();
    let names = before.indices.iter().flat_map(SwapIndex::names).chain(before.direct.iter().map(|one| one.index.as_str()));
    let names: Vec<&str> = names.chain(previous.iter().map(String::as_str)).collect();
    guard::refuse_blocked_live(server, &names)?;
    let mut found = look(server, &names)?;
    policy::fill(call, server, &mut found)?;
    let kept = before.indices.iter().filter_map(|item| item.previous.as_deref());
    let counts = counts(server, &kept.filter(|previous| found.contains_key(*previous)).collect::<Vec<_>>())?;
    let mut targets = targets_back(before, &found, &counts)?;
    let direct = before.direct.iter().map(|one| &one.index).filter(|index| found.contains_key(*index));
    targets.extend(direct.cloned().map(taken_away));
    if !before.finished && undo::phase(server, before)? == Phase::Exchanged {
        let left = before.indices.iter().filter(|item| item.source_in(&found).is_some());
        swapped.discarded = left.filter_map(|item| item.source.as_ref()).map(|source| source.name.clone()).collect();
    }
    let missing = lay_out(call, server, &mut swapped, targets, &found)?;
    tell(call, &missing);
    Ok(swapped)
}

fn targets_back(before: &Swapped, found: &Found, counts: &BTreeMap<&str, u64>) -> Result<Vec<SwapTarget>, Failure> {
    let (mut lost, mut targets) = (Vec::new(), Vec::new());
    for item in &before.indices {
        if item.live_uuid.is_none() && item.was.is_none() {
            targets.extend(found.contains_key(&item.index).then(|| taken_away(item.index.clone())));
            continue;
        }
        match item.previous.as_ref().and_then(|previous| Some((previous, found.get(previous)?))) {
            Some((previous, copy)) => {
                let docs_count = counts.get(previous.as_str()).copied().unwrap_or_default();
                let source = Source { name: previous.clone(), uuid: copy.uuid.clone(), docs_count };
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

fn empty(server: &Server, scope: &Scope, run: &str, back: bool, how: HowArgs) -> Swapped {
    Swapped {
        cluster_uuid: server.cluster_uuid.clone(),
        run: run.to_owned(),
        back,
        exact: how.exact,
        drop_old: how.drop_old,
        alone: scope.is_everything(),
        ..Swapped::default()
    }
}

/// Fills in the indices and the requests, and checks them.
fn lay_out(
    call: &Call,
    server: &Server,
    swapped: &mut Swapped,
    targets: Vec<SwapTarget>,
    found: &Found,
) -> Result<MissingMetadata, Failure> {
    capacity::refuse_stuck_clones(server, &found.keys().map(String::as_str).collect::<Vec<_>>())?;
    let missing = add_indices(swapped, targets, found)?;
    checks::refuse_name_clashes(server, swapped)?;
    checks::refuse_second_write_index(server, swapped)?;
    capacity::refuse_swap(server, &swapped.indices, found)?;
    let requests = requests(swapped, found);
    let is_excluded = swapped.alone && !swapped.indices.is_empty();
    swapped.plan = if is_excluded { AutoCreate::around(call, server, &swapped.live_names(), requests) } else { requests };
    Ok(missing)
}

/// Adds the indices, in the order of the names, what is taken away last.
fn add_indices(swapped: &mut Swapped, targets: Vec<SwapTarget>, found: &Found) -> Result<MissingMetadata, Failure> {
    let mut missing = MissingMetadata::default();
    for SwapTarget { index, source, becomes } in targets {
        let live = found.get(&index);
        // The clone of an unfinished swap that is taken back is nothing that anybody has used.
        let is_unfinished = live.is_some_and(|live| live.shape.aliases.keys().any(|alias| is_marker(alias)));
        let was = live.map(|live| live.shape.clone()).filter(|_| !is_unfinished);
        let becomes = source.as_ref().map(|_| match (becomes, &was) {
            (Some(becomes), _) => becomes,
            (None, Some(was)) => {
                missing.from_live.push(index.clone());
                // A block says something of what is live, and nothing of the backup.
                Shape { blocks: BTreeSet::new(), ..was.clone() }
            }
            (None, None) => {
                missing.unknown.push(index.clone());
                Shape::default()
            }
        });
        let is_kept = !swapped.drop_old && live.is_some() && !is_unfinished;
        swapped.indices.push(SwapIndex {
            state: if live.is_some() { State::Old } else { State::Absent },
            source,
            live_uuid: live.map(|live| live.uuid.clone()),
            live_closed: live.is_some_and(|live| live.closed),
            previous: is_kept.then(|| swapped.previous_name(&index)),
            conflicts: Vec::new(),
            was,
            becomes,
            index,
        });
    }
    swapped.indices.sort_by(|one, other| (one.source.is_none(), &one.index).cmp(&(other.source.is_none(), &other.index)));
    let in_use = swapped.indices.iter().filter_map(|item| item.previous.as_deref());
    guard::refuse_in_use("what is live", &in_use.filter(|name| found.contains_key(*name)).collect::<Vec<_>>())?;
    checks::refuse_red(&swapped.indices, found)?;
    Ok(missing)
}

fn tell(call: &Call, missing: &MissingMetadata) {
    if !missing.from_live.is_empty() {
        call.warn(
            "shape_from_live",
            format!(
                "No document of create says which aliases, replicas and lifecycle these had, so they get those of what is live: {}.",
                missing.from_live.join(", ")
            ),
        );
    }
    if !missing.unknown.is_empty() {
        call.review(
            "shape_unknown",
            format!(
                "Nothing says which aliases, replicas and lifecycle these had; they have none: {}.",
                missing.unknown.join(", ")
            ),
        );
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn swapped(back: bool) -> Swapped {
        Swapped { run: "20261120t020003z-hand".to_owned(), back, ..Swapped::default() }
    }

    fn laid_out(back: bool, targets: Vec<SwapTarget>, found: &Found) -> (Vec<SwapIndex>, MissingMetadata) {
        let mut swapped = swapped(back);
        let missing = add_indices(&mut swapped, targets, found).unwrap();
        (swapped.indices, missing)
    }

    fn index(uuid: &str, aliases: &serde_json::Value) -> Index {
        let aliases = aliases.as_object().unwrap().iter().map(|(name, alias)| (name.clone(), alias.as_object().unwrap().clone()));
        let shape = Shape { aliases: aliases.collect(), number_of_replicas: 1, ..Shape::default() };
        Index { uuid: uuid.to_owned(), shape, ..Index::of_copy() }
    }

    fn target(name: &str) -> SwapTarget {
        let source = Source { name: format!("svc-staged-20261120t020003z-hand-{name}"), uuid: "s".to_owned(), docs_count: 1 };
        SwapTarget { index: name.to_owned(), source: Some(source), becomes: None }
    }

    fn live(names: &[&str]) -> Found {
        names.iter().map(|&name| (name.to_owned(), index(name, &json!({"all": {}})))).collect()
    }

    #[test]
    fn what_comes_is_first_and_what_is_taken_away_last() {
        let targets = vec![taken_away("a".to_owned()), target("c"), target("b")];
        let (items, missing) = laid_out(false, targets, &live(&["a", "b"]));
        assert_eq!(items.iter().map(|item| item.index.as_str()).collect::<Vec<_>>(), ["b", "c", "a"]);
        assert_eq!(missing, MissingMetadata { from_live: vec!["b".to_owned()], unknown: vec!["c".to_owned()] });
        let previous: Vec<_> = items.iter().map(|item| item.previous.as_deref()).collect();
        assert_eq!(previous, [Some("svc-before-20261120t020003z-hand-b"), None, Some("svc-before-20261120t020003z-hand-a")]);
        assert_eq!(items[0].becomes, items[0].was);
        assert_eq!(items[2].becomes, None);
    }

    #[test]
    fn what_cannot_be_kept_is_refused_by_all_its_names() {
        let mut found = live(&["a", "b"]);
        for name in ["a", "b"] {
            found.insert(swapped(false).previous_name(name), index("k", &json!({})));
        }
        let failure = add_indices(&mut swapped(false), vec![target("a"), target("b")], &found).unwrap_err();
        assert_eq!((failure.status.code(), failure.code.as_str()), (3, "name_in_use"));
        assert!(failure.message.contains("hand-a, svc-before"));
        let mut red = live(&["a", "b"]);
        red.values_mut().for_each(|index| index.whole = false);
        assert_eq!(add_indices(&mut swapped(false), vec![target("a"), target("b")], &red).unwrap_err().code, "live_index_red");
        assert!(add_indices(&mut Swapped { drop_old: true, ..swapped(false) }, vec![target("a"), target("b")], &red).is_ok());
    }

    #[test]
    fn a_finished_swap_is_taken_back_to_what_was_and_the_clone_of_an_unfinished_one_is_not_kept() {
        let targets = vec![target("a"), target("fresh"), taken_away("gone".to_owned())];
        let (indices, _) = laid_out(false, targets, &live(&["a", "gone"]));
        let before = Swapped { finished: true, indices, ..swapped(false) };
        let mut found = live(&["a", "fresh"]);
        found.insert("fresh".to_owned(), index("fresh", &json!({swapped(false).marker(): {}})));
        for name in ["a", "gone"] {
            found.insert(swapped(false).previous_name(name), index(&format!("kept {name}"), &json!({})));
        }
        let targets = targets_back(&before, &found, &BTreeMap::new()).unwrap();
        let told: Vec<_> =
            targets.iter().map(|one| (one.index.as_str(), one.source.as_ref().map(|copy| copy.uuid.as_str()))).collect();
        assert_eq!(told, [("a", Some("kept a")), ("fresh", None), ("gone", Some("kept gone"))]);
        let (back, missing) = laid_out(true, targets, &found);
        assert_eq!(missing, MissingMetadata::default());
        assert_eq!(back[0].previous.as_deref(), Some("svc-replaced-20261120t020003z-hand-a"));
        assert_eq!(back[0].becomes, before.indices[0].was);
        assert_eq!((back[2].index.as_str(), &back[2].previous), ("fresh", &None));
        found.remove(&swapped(false).previous_name("gone"));
        let failure = targets_back(&before, &found, &BTreeMap::new()).unwrap_err();
        assert_eq!((failure.status.code(), failure.code.as_str()), (4, "nothing_kept"));
    }
}
