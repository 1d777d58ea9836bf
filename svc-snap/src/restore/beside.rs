//! A restore by staging and swapping: nothing that is live is touched before all of it is proven.

use std::collections::BTreeMap;

use svc_step::{Call, Failure, StepResult, Stopped};

use super::{RestoreState, RestoreWay, Restored};
use crate::bring::Bring;
use crate::chosen::Chosen;
use crate::guard::{self, Noted};
use crate::look::{Index, look};
use crate::path::path;
use crate::stage::{self, Staged};
use crate::staged;
use crate::swap::{self, HowArgs, State, SwapIndex, Swapped};

pub(super) fn run(call: &Call, chosen: &Chosen, how: HowArgs, dry_run: bool) -> StepResult<Restored> {
    let server = &chosen.server;
    let _lock = guard::lock(call, server, &chosen.scope)?;
    let names: Vec<&str> = chosen.indices.iter().map(String::as_str).collect();
    guard::refuse_unfinished_swaps(call, server, call.run_id(), &names)?;
    let live = look(server, &names)?;
    if let Some(swapped) = cut_before(call, chosen)? {
        return go_on(call, chosen, swapped, dry_run);
    }
    let brings = brings(call, chosen, &live)?;
    stage::refuse_names_in_use(server, &brings)?;
    let is_straight = |index: &str| brings.iter().any(|one| one.index == index && one.target == index);
    let mut restored =
        Restored::new(call, chosen, false, |index| if is_straight(index) { RestoreWay::Straight } else { RestoreWay::Swapped });
    let mut staged = Staged::plan(call, chosen, &brings);
    // Whatever forbids the swap is found out before anything is staged.
    let imagined = swap::forward(call, server, &chosen.scope, &stage::imagined(&staged), how)?;
    restored.plan = staged.plan.iter().chain(&imagined.plan).cloned().collect();
    restored.skipped.clone_from(&imagined.skipped);
    if dry_run {
        return Ok(restored);
    }
    if let Err(failure) = stage::bring_back(call, chosen, &brings, &mut staged) {
        return Err(Stopped::with(failure, restored));
    }
    let mut swapped = match swap::forward(call, server, &chosen.scope, &staged, how) {
        Ok(swapped) => swapped,
        Err(failure) => return Err(Stopped::with(stage::take_back(call, server, &mut staged, failure), restored)),
    };
    swapped.snapshot_uuid = Some(chosen.snapshot_uuid.clone());
    swapped.indices.extend(staged.indices.iter().filter(|one| one.index == one.staged).map(|one| straight(&one.index)));
    let ended = swap::execute(call, server, &mut swapped);
    report(&mut restored, swapped, &staged);
    match ended {
        Ok(()) => Ok(restored),
        Err(failure) => Err(Stopped::with(failure, restored)),
    }
}

/// The swap of this run that an earlier call of the same command began.
fn cut_before(call: &Call, chosen: &Chosen) -> Result<Option<Swapped>, Failure> {
    match guard::noted(call, call.run_id())? {
        Some(Noted::Swapped(swapped)) if !swapped.back && swapped.snapshot_uuid.as_deref() == Some(&chosen.snapshot_uuid) => {
            Ok(Some(swapped))
        }
        _ => guard::refuse_used_run(call, call.run_id()).map(|()| None),
    }
}

fn go_on(call: &Call, chosen: &Chosen, mut swapped: Swapped, dry_run: bool) -> StepResult<Restored> {
    let way = |index: &str| {
        let is_straight = swapped.indices.iter().any(|item| item.index == index && item.straight);
        if is_straight { RestoreWay::Straight } else { RestoreWay::Swapped }
    };
    let mut restored = Restored::new(call, chosen, false, way);
    restored.plan.clone_from(&swapped.plan);
    let ended = if swapped.is_finished() || dry_run { Ok(()) } else { swap::execute(call, &chosen.server, &mut swapped) };
    report(&mut restored, swapped, &Staged::plan(call, chosen, &[]));
    match ended {
        Ok(()) => Ok(restored),
        Err(failure) => Err(Stopped::with(failure, restored)),
    }
}

/// What is live goes beside it, what is not live comes straight; but not where another index has its aliases, which would
/// count double until the swap.
fn brings(call: &Call, chosen: &Chosen, live: &BTreeMap<String, Index>) -> Result<Vec<Bring>, Failure> {
    let mut brings = Vec::new();
    for index in &chosen.indices {
        let straight = !live.contains_key(index) && !has_held_alias(chosen, index)?;
        let target = if straight { index.clone() } else { staged::staged(call.run_id(), index) };
        brings.push(Bring { index: index.clone(), target });
    }
    Ok(brings)
}

fn has_held_alias(chosen: &Chosen, index: &str) -> Result<bool, Failure> {
    for alias in chosen.noted(index).unwrap_or_default().aliases.keys() {
        if chosen.server.find(&path(&["_alias", alias]))?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// An index that was restored straight, as the swap's document has it: going back takes it away.
fn straight(index: &str) -> SwapIndex {
    SwapIndex {
        index: index.to_owned(),
        state: State::New,
        source: None,
        live_uuid: None,
        live_closed: false,
        kept: None,
        strays: Vec::new(),
        was: None,
        becomes: None,
        holder: None,
        straight: true,
    }
}

fn report(restored: &mut Restored, swapped: Swapped, staged: &Staged) {
    for one in &mut restored.indices {
        let item = swapped.indices.iter().find(|item| item.index == one.index);
        one.state = match item.map(|item| item.state) {
            Some(State::New) => RestoreState::Restored,
            Some(State::Absent) => RestoreState::UnderWay,
            Some(State::Old) | None => RestoreState::Untouched,
        };
        let proven = staged.indices.iter().find(|brought| brought.index == one.index).and_then(|brought| brought.docs_count);
        one.docs_count = proven.or_else(|| item.and_then(|item| item.source.as_ref()).map(|source| source.docs_count));
    }
    restored.swap = Some(swapped);
}
