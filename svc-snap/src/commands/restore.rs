//! `restore` (procedure, 4 and 2.3): what is live is staged, proven and swapped; what is not live has nothing to protect and
//! is restored directly under its own name. `--in-place` is the procedure's literal way, for lack of room.

use std::collections::{BTreeMap, BTreeSet};

use svc_step::common::DryRun;
use svc_step::{Call, Failure, StepResult, Stopped};

use super::stage::StreamsArg;
use crate::client::path::path;
use crate::guard;
use crate::index::copies;
use crate::index::{Index, look};
use crate::restore::chosen::{Chosen, WhatArgs};
use crate::restore::earlier::Earlier;
use crate::restore::in_place::{self, OnConflict};
use crate::restore::plan::{self, HowArgs, refuse_other_plan};
use crate::restore::record::restored::{RestoreState, RestoreWay, Restored};
use crate::restore::record::staged::{StageState, Staged};
use crate::restore::record::swapped::{State, Swapped};
use crate::restore::record::{self, Begun};
use crate::restore::source::SwapSource;
use crate::restore::stage::{self, Bring};
use crate::restore::swap::{self, Ended};
use crate::restore::undo;
use crate::throttle::Rates;

/// Arguments of `svc-snap restore`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  svc-snap restore snapshot_svc_20261120              stage it, prove it, swap it in
  svc-snap restore --from snapshot.json --exact       as the backup had it, to the index
  svc-snap restore snapshot_svc_20261120 --in-place --on-conflict close")]
pub struct RestoreArgs {
    #[command(flatten)]
    what: WhatArgs,
    #[command(flatten)]
    how: HowArgs,
    #[command(flatten)]
    streams: StreamsArg,
    /// Restore over what is live, without proof and without a way back, as there is no room for both
    #[arg(long, conflicts_with_all = ["exact", "drop_old"])]
    in_place: bool,
    /// In place: what to do with live indices of the same names
    #[arg(long, value_name = "HOW", value_enum, default_value_t, requires = "in_place")]
    on_conflict: OnConflict,
    #[command(flatten)]
    pub(crate) dry: DryRun,
}

pub(crate) fn run(args: &RestoreArgs, call: &Call) -> StepResult<Restored> {
    let chosen = Chosen::find(&args.what, call)?;
    if args.in_place {
        in_place::run(call, &chosen, args.on_conflict, args.dry.dry_run)
    } else {
        beside(call, &chosen, args.how, args.streams, args.dry.dry_run)
    }
}

/// Restores by staging and swapping: nothing that is live is touched before all of it is proven.
fn beside(call: &Call, chosen: &Chosen, how: HowArgs, streams: StreamsArg, dry_run: bool) -> StepResult<Restored> {
    let server = &chosen.server;
    let _lock = guard::lock(call, server, dry_run)?;
    let names: Vec<&str> = chosen.indices.iter().map(String::as_str).collect();
    record::refuse_unfinished_swaps(call, server, call.run_id(), &chosen.names())?;
    if let Some(swapped) = cut_before(call, chosen)? {
        refuse_other_plan(&swapped, how, true)?;
        return go_on(call, chosen, swapped, dry_run);
    }
    guard::refuse_blocked_live(server, &names)?;
    let back = chosen.streams_back()?;
    // What is not live has nothing to protect.
    let in_the_way = back.iter().filter(|one| one.was_live && !streams.streams_in_place);
    Chosen::refuse_streams(&in_the_way.map(|one| one.stream.as_str()).collect::<Vec<_>>())?;
    let earlier = Earlier::find(call, chosen, dry_run)?;
    earlier.settle(call, server)?;
    let mut rates = chosen.rates(call)?;
    let (brings, mut staged) = match &earlier.proven {
        Some(staged) => (Vec::new(), staged.clone()),
        None => {
            let mut live = look(server, &names)?;
            live.retain(|index, _| !earlier.leftovers.contains(index));
            let brings = brings(call, chosen, &live)?;
            let staged = earlier.planned(call, chosen, &brings, back, &rates)?;
            (brings, staged)
        }
    };
    let is_direct = |index: &str| staged.indices.iter().any(|one| one.index == index && one.is_direct());
    let mut restored =
        Restored::begun(call, chosen, false, |index| if is_direct(index) { RestoreWay::Direct } else { RestoreWay::Swapped });
    // Whatever forbids the swap is found out before anything is staged.
    let foreseen = plan::foreseen(call, server, &chosen.scope, &SwapSource::staged(&staged)?, how)?;
    restored.plan = staged.plan.iter().chain(&foreseen.plan).cloned().collect();
    restored.skipped.clone_from(&foreseen.skipped);
    restored.streams.clone_from(&foreseen.streams);
    restored.throttle.clone_from(&staged.throttle);
    if dry_run {
        return Ok(restored);
    }
    let ready = stage(call, chosen, &earlier, &brings, &mut staged, &mut rates);
    restored.throttle.clone_from(&staged.throttle);
    let ready = ready.and_then(|()| {
        // The last place where a signal or the time limit ends it without an effect on what is live.
        let planned = SwapSource::staged(&staged)
            .and_then(|source| plan::forward(call, server, &chosen.scope, &source, how))
            .and_then(|planned| call.check().map(|()| planned));
        planned.map_err(|failure| take_back(call, chosen, &earlier, &mut staged, failure))
    });
    let mut swapped = match ready {
        Ok(swapped) => swapped,
        Err(failure) => {
            tell_left(&mut restored, &staged);
            return Err(rates.stopped(call, failure, restored));
        }
    };
    match swap::execute(call, server, &mut swapped) {
        Ended::Finished => {
            report(&mut restored, swapped, &staged);
            Ok(restored)
        }
        Ended::Undone(failure) => {
            record::note_end(call, call.run_id(), "stage", &staged);
            let failure = take_back(call, chosen, &earlier, &mut staged, failure);
            tell_left(&mut restored, &staged);
            Err(rates.stopped(call, failure, restored))
        }
        Ended::Unfinished(failure) => {
            report(&mut restored, swapped, &staged);
            Err(Stopped::with(failure, restored))
        }
    }
}

/// What this call has staged goes; what an earlier one had stays.
fn take_back(call: &Call, chosen: &Chosen, earlier: &Earlier, staged: &mut Staged, failure: Failure) -> Failure {
    match earlier.proven {
        None => undo::take_back(call, &chosen.server, staged, failure),
        Some(_) => failure,
    }
}

fn stage(
    call: &Call,
    chosen: &Chosen,
    earlier: &Earlier,
    brings: &[Bring],
    staged: &mut Staged,
    rates: &mut Rates<'_>,
) -> Result<(), Failure> {
    if earlier.proven.is_some() {
        rates.clear(call, &chosen.server);
        return Ok(());
    }
    earlier.clear(call, &chosen.server, rates)?;
    stage::bring_back(call, chosen, brings, staged, rates)
}

/// The swap of this run that an earlier call of the same command began. A call that was given the same run id may want something else of
/// the snapshot.
fn cut_before(call: &Call, chosen: &Chosen) -> Result<Option<Swapped>, Failure> {
    match record::noted(call, call.run_id())? {
        Some(Begun::Swapped(swapped))
            if !swapped.back && swapped.snapshot_uuid.as_deref() == Some(&chosen.origin.snapshot_uuid) =>
        {
            let wanted: BTreeSet<&str> = chosen.names().into_iter().collect();
            if swapped.restored_names() == wanted { Ok(Some(swapped)) } else { Err(record::in_use(call.run_id())) }
        }
        _ => Ok(None),
    }
}

fn go_on(call: &Call, chosen: &Chosen, mut swapped: Swapped, dry_run: bool) -> StepResult<Restored> {
    let way = |index: &str| {
        if swapped.is_direct(index) { RestoreWay::Direct } else { RestoreWay::Swapped }
    };
    let mut restored = Restored::begun(call, chosen, false, way);
    restored.plan.clone_from(&swapped.plan);
    let ended = if swapped.is_finished() || dry_run {
        Ok(())
    } else {
        call.check().and_then(|()| match swap::execute(call, &chosen.server, &mut swapped) {
            Ended::Finished => Ok(()),
            Ended::Undone(failure) | Ended::Unfinished(failure) => Err(failure),
        })
    };
    report(&mut restored, swapped, &stage::plan(call, chosen, &[], Vec::new()));
    match ended {
        Ok(()) => Ok(restored),
        Err(failure) => Err(Stopped::with(failure, restored)),
    }
}

/// What is live goes beside it, what is not live comes directly; but not where another index has its aliases, which would
/// count double until the swap.
fn brings(call: &Call, chosen: &Chosen, live: &BTreeMap<String, Index>) -> Result<Vec<Bring>, Failure> {
    let (mut brings, mut held) = (Vec::new(), BTreeMap::new());
    for index in &chosen.indices {
        let direct = !live.contains_key(index) && !has_held_alias(chosen, index, &mut held)?;
        let target = if direct { index.clone() } else { copies::staged(call.run_id(), index) };
        brings.push(Bring { index: index.clone(), target });
    }
    Ok(brings)
}

/// Many indices may have the same alias: what was asked of one stands in `held`.
fn has_held_alias(chosen: &Chosen, index: &str, held: &mut BTreeMap<String, bool>) -> Result<bool, Failure> {
    for alias in chosen.noted(index).unwrap_or_default().aliases.into_keys() {
        let is_held = match held.get(&alias) {
            Some(is_held) => *is_held,
            None => chosen.server.find(&path(&["_alias", &alias]))?.is_some(),
        };
        held.insert(alias, is_held);
        if is_held {
            return Ok(true);
        }
    }
    Ok(false)
}

/// What a staging that failed, and could not be taken back, left under live names.
fn tell_left(restored: &mut Restored, staged: &Staged) {
    for one in &mut restored.indices {
        let Some(left) = staged.indices.iter().find(|left| left.index == one.index && left.is_direct()) else { continue };
        one.state = match left.state {
            StageState::Proven => RestoreState::Restored,
            StageState::Restoring => RestoreState::UnderWay,
            StageState::Planned | StageState::Removed => continue,
        };
        one.docs_count = left.docs_count;
    }
}

fn report(restored: &mut Restored, swapped: Swapped, staged: &Staged) {
    for one in &mut restored.indices {
        let item = swapped.indices.iter().find(|item| item.index == one.index);
        one.state = match item.map(|item| item.state) {
            Some(State::New) => RestoreState::Restored,
            Some(State::Absent) => RestoreState::UnderWay,
            None if swapped.is_direct(&one.index) && swapped.finished => RestoreState::Restored,
            None if swapped.is_direct(&one.index) => RestoreState::UnderWay,
            Some(State::Old) | None => RestoreState::Untouched,
        };
        let proven = staged.indices.iter().find(|brought| brought.index == one.index).and_then(|brought| brought.docs_count);
        one.docs_count = proven.or_else(|| item.and_then(|item| item.source.as_ref()).map(|source| source.docs_count));
    }
    restored.streams.clone_from(&swapped.streams);
    restored.swap = Some(swapped);
}
