//! The plan of a swap. Whatever would stop it after its exchange is refused here, before its first request.

use std::collections::{BTreeMap, BTreeSet};

use svc_step::{Call, Failure};

use crate::client::Server;
use crate::guard;
use crate::index::copies::marked_run;
use crate::index::{Found, Index, IndexMetadata, Patterns, Scope, SkipReason, Skipped, counts, get_indices, policy, select};
use crate::restore::phases::{Phase, phase, phase_of};
use crate::restore::{
    CopiedIndex, CopySet, SwapIndex, SwapSource, SwapState, Swapped, auto_create, capacity, checks, record, requests,
};

/// How a swap treats what is live.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub(crate) struct SwapOptions {
    /// Also remove indices in the scope that the backup does not hold
    #[arg(long)]
    pub exact: bool,
    /// Make no previous copy of what was live
    #[arg(long)]
    pub drop_old: bool,
}

/// The plan by which copies become live; if they are not verified, nothing is staged yet.
pub(crate) fn forward(call: &Call, server: &Server, scope: &Scope, set: &CopySet, how: SwapOptions) -> Result<Swapped, Failure> {
    let is_staged = set.is_verified();
    let mut swapped = empty(server, scope, &set.run, false, how);
    swapped.snapshot_uuid.clone_from(&set.snapshot_uuid);
    swapped.skipped.clone_from(&set.skipped);
    let (direct, beside): (Vec<&CopiedIndex>, Vec<&CopiedIndex>) = set.indices.iter().partition(|one| one.is_direct());
    swapped.direct = direct.into_iter().cloned().collect();
    let planned = |one: &CopiedIndex| SwapSource { name: one.copy.clone(), uuid: String::new(), docs_count: 0 };
    let mut targets = Vec::new();
    for one in beside {
        let source = if is_staged { one.source().ok_or_else(|| record::not_verified(call, &set.run))? } else { planned(one) };
        targets.push(target(&one.index, source, one.metadata.clone()));
    }
    if how.exact {
        let (surplus, left) = surplus(server, scope, set)?;
        targets.extend(surplus.into_iter().map(taken_away));
        swapped.skipped.extend(left);
    }
    let sources: Vec<&SwapSource> = targets.iter().filter_map(|item| item.source.as_ref()).collect();
    let names: Vec<&str> = targets.iter().flat_map(SwapIndex::names).collect();
    // A clone has the blocks of its source, and could not be given its settings.
    guard::refuse_blocked_live(server, &names)?;
    let mut found = get_indices(server, &names)?;
    if is_staged {
        policy::fill(call, server, &mut found)?;
        checks::refuse_unsound(server, &sources, &found)?;
    } else {
        found.extend(sources.iter().map(|source| (source.name.clone(), Index::of_copy())));
    }
    let not_captured = not_captured(&targets);
    lay_out(call, server, &mut swapped, targets, &found)?;
    if is_staged {
        warn_not_captured(call, &swapped, &not_captured);
    }
    Ok(swapped)
}

/// What is to become live under a name; `becomes`: what it is to have, or `None` if it is as what is live has it.
fn target(index: &str, source: SwapSource, becomes: Option<IndexMetadata>) -> SwapIndex {
    SwapIndex { source: Some(source), becomes, ..taken_away(index.to_owned()) }
}

pub(super) fn taken_away(index: String) -> SwapIndex {
    SwapIndex { index, ..SwapIndex::default() }
}

/// Refuses flags that are not the plan's (2). They are passed again only with the command that began the swap (`same`).
pub(crate) fn refuse_flags(call: &Call, server: &Server, planned: &Swapped, how: SwapOptions, same: bool) -> Result<(), Failure> {
    let flags = [("--exact", how.exact, planned.exact), ("--drop-old", how.drop_old, planned.drop_old)];
    let differing: Vec<&str> =
        flags.into_iter().filter(|(_, asked, planned)| asked != planned && (same || *asked)).map(|(flag, ..)| flag).collect();
    if differing.is_empty() {
        return Ok(());
    }
    let message = format!("The swap of the run {} was planned otherwise: {}.", planned.run, differing.join(", "));
    let resume = server.command(call, &["swap", "--run", &planned.run]);
    Err(Failure::usage("options_invalid", message).hint(format!("{resume} resumes it as it was planned.")))
}

/// Indices of the scope that the backup does not hold, and what stays although the backup does not hold it.
fn surplus(server: &Server, scope: &Scope, set: &CopySet) -> Result<(Vec<String>, Vec<Skipped>), Failure> {
    let held = set.indices.iter().map(|one| &one.index).chain(set.skipped.iter().map(|one| &one.name));
    let held: BTreeSet<&str> = held.map(String::as_str).collect();
    let live = select::any_live(server, scope, &Patterns::parse(&set.asked_for))?;
    let is_more = |name: &String| !held.contains(name.as_str());
    let servers_own = live.skipped.into_iter().filter(|one| one.reason == SkipReason::ServersOwn);
    let streams = live.streams.into_iter().map(|name| Skipped { name, reason: SkipReason::DataStream });
    let left = servers_own.chain(streams).filter(|one| is_more(&one.name)).collect();
    Ok((live.indices.into_iter().filter(&is_more).collect(), left))
}

/// The plan of the way back of a swap that has been exchanged. If it is unfinished, its copies are removed.
pub(crate) fn backward(
    call: &Call,
    server: &Server,
    scope: &Scope,
    before: &Swapped,
    how: SwapOptions,
) -> Result<Swapped, Failure> {
    if how.exact {
        let message = "--exact has no meaning with --back: the indices that the swap removed are restored.";
        return Err(Failure::usage("options_invalid", message).hint("Leave --exact out."));
    }
    let mut swapped = empty(server, scope, &before.run, !before.back, how);
    let direct = before.direct.iter().map(|one| one.index.as_str());
    let names: Vec<&str> = before.indices.iter().flat_map(SwapIndex::names).chain(direct).collect();
    guard::refuse_blocked_live(server, &names)?;
    let mut found = get_indices(server, &names)?;
    policy::fill(call, server, &mut found)?;
    // A clone that clients may have written to is live, and has what it was to have at the end of the swap.
    for item in &before.indices {
        let Some(live) = found.get_mut(&item.index) else { continue };
        if live.metadata.aliases.contains_key(&before.marker()) && !live.metadata.write_block() {
            live.metadata = item.becomes.clone().unwrap_or_default();
        }
    }
    let previous = before.indices.iter().filter_map(|item| item.previous.as_deref());
    let counts = counts(server, previous.filter(|name| found.contains_key(*name)))?;
    let mut targets = targets_back(before, &found, &counts)?;
    let direct = before.direct.iter().map(|one| &one.index).filter(|index| found.contains_key(*index));
    targets.extend(direct.cloned().map(taken_away));
    if !before.finished && phase(server, before)? == Phase::Exchanged {
        let left = before.indices.iter().filter(|item| item.source_in(&found).is_some());
        swapped.discarded = left.filter_map(|item| item.source.as_ref()).map(|source| source.name.clone()).collect();
    }
    let not_captured = not_captured(&targets);
    lay_out(call, server, &mut swapped, targets, &found)?;
    warn_not_captured(call, &swapped, &not_captured);
    Ok(swapped)
}

fn targets_back(before: &Swapped, found: &Found, counts: &BTreeMap<String, u64>) -> Result<Vec<SwapIndex>, Failure> {
    let (mut lost, mut targets) = (Vec::new(), Vec::new());
    for item in &before.indices {
        if item.live_uuid.is_none() && item.was.is_none() {
            targets.extend(found.contains_key(&item.index).then(|| taken_away(item.index.clone())));
            continue;
        }
        match item.previous.as_ref().and_then(|previous| Some((previous, found.get(previous)?))) {
            Some((previous, copy)) => {
                let docs_count = counts.get(previous).copied().unwrap_or_default();
                let source = SwapSource { name: previous.clone(), uuid: copy.uuid.clone(), docs_count };
                targets.push(target(&item.index, source, item.was.clone()));
            }
            None => lost.push(item.index.as_str()),
        }
    }
    if lost.is_empty() {
        return Ok(targets);
    }
    let message = format!("The swap cannot be reversed: there is no previous copy of {}.", lost.join(", "));
    Err(Failure::not_found("swap_not_found", message)
        .hint("Restore a snapshot of that time instead (svc-snap list, svc-snap restore NAME)."))
}

fn empty(server: &Server, scope: &Scope, run: &str, back: bool, how: SwapOptions) -> Swapped {
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
fn lay_out(call: &Call, server: &Server, swapped: &mut Swapped, targets: Vec<SwapIndex>, found: &Found) -> Result<(), Failure> {
    add_indices(swapped, targets, found)?;
    let previous: Vec<&str> = swapped.indices.iter().filter_map(|item| item.previous.as_deref()).collect();
    guard::refuse_in_use(server, "the previous copies", &previous, &[])?;
    checks::refuse_name_clashes(server, swapped)?;
    checks::refuse_second_write_index(server, swapped)?;
    capacity::refuse_swap(server, &swapped.indices, found)?;
    add_requests(call, server, swapped, found);
    Ok(())
}

/// The requests that are left of a swap which an earlier call has begun.
pub(crate) fn resume(call: &Call, server: &Server, swapped: &mut Swapped) -> Result<(), Failure> {
    let found = get_indices(server, swapped.names())?;
    // One that goes back is never taken back itself, so it follows what clients have done to what is live, unless a copy would be lost.
    if swapped.back && phase_of(swapped, &found) == Phase::Before {
        let has_copy = |item: &SwapIndex| item.previous.as_ref().is_some_and(|previous| found.contains_key(previous));
        let is_other = |item: &SwapIndex| !(item.is_old(&found) || found.contains_key(&item.index) && has_copy(item));
        let mut indices = std::mem::take(&mut swapped.indices);
        indices.iter_mut().filter(|item| is_other(item)).for_each(|item| set_live(swapped, item, &found));
        swapped.indices = indices;
    }
    add_requests(call, server, swapped, &found);
    Ok(())
}

fn add_requests(call: &Call, server: &Server, swapped: &mut Swapped, found: &Found) {
    let requests = requests::left(swapped, found);
    swapped.plan = match auto_create::exclusion(call, server, swapped) {
        Some(change) => change.around(requests),
        None => requests,
    };
}

/// Fills in what is live under its name, and what comes of that.
fn set_live(swapped: &Swapped, item: &mut SwapIndex, found: &Found) {
    let live = found.get(&item.index);
    // No client has used the clone of an unfinished swap that is taken back.
    let is_unfinished = live.is_some_and(|live| live.metadata.aliases.keys().any(|alias| marked_run(alias).is_some()));
    item.was = live.map(|live| live.metadata.clone()).filter(|_| !is_unfinished);
    // A block says something of what is live, and nothing of the backup.
    let as_live = || item.was.clone().unwrap_or_default().writable();
    item.becomes = item.source.as_ref().map(|_| item.becomes.take().unwrap_or_else(as_live));
    let is_copied = !swapped.drop_old && live.is_some() && !is_unfinished;
    item.previous = is_copied.then(|| swapped.previous_name(&item.index));
    item.state = if live.is_some() { SwapState::Old } else { SwapState::Absent };
    item.live_uuid = live.map(|live| live.uuid.clone());
}

/// Adds the indices, in the order of the names, what is taken away last.
fn add_indices(swapped: &mut Swapped, targets: Vec<SwapIndex>, found: &Found) -> Result<(), Failure> {
    for mut item in targets {
        set_live(swapped, &mut item, found);
        swapped.indices.push(item);
    }
    swapped.indices.sort_by(|one, other| (one.source.is_none(), &one.index).cmp(&(other.source.is_none(), &other.index)));
    checks::refuse_red(&swapped.indices, found)
}

/// The indices whose aliases, replicas and lifecycle were not captured.
fn not_captured(targets: &[SwapIndex]) -> BTreeSet<String> {
    let targets = targets.iter().filter(|item| item.source.is_some() && item.becomes.is_none());
    targets.map(|item| item.index.clone()).collect()
}

/// Those of `not_captured` get what the live index has, or nothing.
fn warn_not_captured(call: &Call, swapped: &Swapped, not_captured: &BTreeSet<String>) {
    let items = swapped.indices.iter().filter(|item| not_captured.contains(&item.index));
    let (from_live, unknown): (Vec<&SwapIndex>, Vec<&SwapIndex>) = items.partition(|item| item.was.is_some());
    let [from_live, unknown] =
        [from_live, unknown].map(|items| items.iter().map(|item| item.index.as_str()).collect::<Vec<_>>().join(", "));
    if !from_live.is_empty() {
        let message =
            "No document of create says which aliases, replicas and lifecycle these had, so they get those of what is live";
        call.warn("not_checked", format!("{message}: {from_live}."));
    }
    if !unknown.is_empty() {
        let message = "Nothing says which aliases, replicas and lifecycle these had; they have none";
        call.review("not_restored", format!("{message}: {unknown}."));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Map;

    use super::*;
    use crate::index::copies;

    const RUN: &str = "20261120t020003z-hand";

    fn index(uuid: &str, aliases: &[&str]) -> Index {
        let aliases = aliases.iter().map(|alias| ((*alias).to_owned(), Map::new())).collect();
        let metadata = IndexMetadata { aliases, number_of_replicas: 1, ..IndexMetadata::default() };
        Index { uuid: uuid.to_owned(), metadata, ..Index::of_copy() }
    }

    fn laid_out(targets: Vec<SwapIndex>, found: &Found) -> Vec<SwapIndex> {
        let mut swapped = Swapped { run: RUN.to_owned(), ..Swapped::default() };
        add_indices(&mut swapped, targets, found).unwrap();
        swapped.indices
    }

    fn target(name: &str) -> SwapIndex {
        let source = SwapSource { name: copies::staged(RUN, name), uuid: "staged".to_owned(), docs_count: 1 };
        super::target(name, source, None)
    }

    fn live(names: &[&str]) -> Found {
        names.iter().map(|&name| (name.to_owned(), index(name, &["all"]))).collect()
    }

    #[test]
    fn restored_indices_precede_removed_ones_in_plan() {
        let targets = vec![taken_away("a".to_owned()), target("c"), target("b")];
        assert_eq!(not_captured(&targets), ["b", "c"].map(str::to_owned).into());
        let items = laid_out(targets, &live(&["a", "b"]));
        assert_eq!(items.iter().map(|item| item.index.as_str()).collect::<Vec<_>>(), ["b", "c", "a"]);
        assert_eq!(items.iter().map(|item| item.was.is_some()).collect::<Vec<_>>(), [true, false, true]);
        let previous: Vec<_> = items.iter().map(|item| item.previous.as_deref()).collect();
        assert_eq!(previous, [Some("svc-before-20261120t020003z-hand-b"), None, Some("svc-before-20261120t020003z-hand-a")]);
        assert_eq!(items[0].becomes, items[0].was);
        assert_eq!(items[2].becomes, None);
    }
}
