//! `restore` (procedure, 4 and 2.3), in five files: this one, `restore/source.rs` (which snapshot), `restore/stage.rs` (beside what is
//! live), `restore/plan.rs` (what becomes live in whose place) and `restore/swap.rs` (the five phases).

use std::collections::BTreeSet;

use svc_step::{Call, DryRun, Failure, StepResult, Stopped};

use crate::guard;
use crate::index::{Patterns, get_indices, select};
use crate::restore::in_place::OnConflict;
use crate::restore::stage::Earlier;
use crate::restore::{
    Begun, Chosen, CopySet, CopyState, Ended, RestoreMethod, RestoreState, Restored, SelectionArgs, Staged, SwapOptions,
    SwapState, Swapped, in_place, phases, plan, record, refuse_flags, stage, swap, verify,
};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  svc-snap restore snapshot_svc_20261120              stage it, verify it, swap it in
  svc-snap restore --from snapshot.json --exact       as the backup had it, to the index
  svc-snap restore snapshot_svc_20261120 --in-place --on-conflict close")]
pub struct RestoreArgs {
    #[command(flatten)]
    what: SelectionArgs,
    #[command(flatten)]
    how: SwapOptions,
    /// Restore over what is live, without verification before and without a way back: for lack of disk space, and for data streams
    #[arg(long, conflicts_with_all = ["exact", "drop_old"])]
    in_place: bool,
    /// In place: what to do with live indices and data streams of the same names
    #[arg(long, value_name = "HOW", value_enum, default_value_t, requires = "in_place")]
    on_conflict: OnConflict,
    #[command(flatten)]
    pub(crate) dry: DryRun,
}

pub(crate) fn run(args: &RestoreArgs, call: &Call) -> StepResult<Restored> {
    let chosen = Chosen::find(&args.what, call)?;
    if args.in_place {
        return in_place::run(call, &chosen, args.on_conflict, args.dry.dry_run);
    }
    chosen.refuse_streams()?;
    let server = &chosen.server;
    let _lock = guard::lock(call, server, args.dry.dry_run)?;
    let names = chosen.names();
    let asked_for = Patterns::parse(&chosen.asked_for);
    // What is surplus is taken away with --exact.
    let is_surplus = |name: &str| args.how.exact && chosen.scope.contains(name) && asked_for.ask_for(name);
    phases::refuse_unfinished_runs(call, server, call.run_id(), |name| names.contains(&name) || is_surplus(name))?;
    if let Some(swapped) = unfinished_swap(call, &chosen)? {
        refuse_flags(call, server, &swapped, args.how, true)?;
        return resume(call, &chosen, swapped, args.dry.dry_run);
    }
    guard::refuse_blocked_live(server, &names)?;
    let earlier = Earlier::find(call, &chosen)?;
    // What a killed call had asked the server to restore directly is live when that is done, and treated so.
    if !args.dry.dry_run {
        verify::until_idle(call, server, &earlier.direct)?;
    }
    let mut rates = chosen.rates(call)?;
    let mut staged = match &earlier.verified {
        Some(copies) => Staged::of(&chosen, copies.clone()),
        None => stage::plan(call, &chosen, &earlier, &rates, &direct(&chosen, &earlier)?)?,
    };
    let is_direct = |index: &str| staged.copies.indices.iter().any(|one| one.index == index && one.is_direct());
    let mut restored = Restored::planned(call, &chosen, false, is_direct);
    // Whatever forbids the swap is found out before anything is staged.
    let planned = plan::forward(call, server, &chosen.scope, &staged.copies, args.how)?;
    restored.plan = staged.copies.plan.iter().chain(&planned.plan).cloned().collect();
    restored.skipped.clone_from(&planned.skipped);
    restored.throttle.clone_from(&staged.throttle);
    if args.dry.dry_run {
        return Ok(restored);
    }
    let ready = if earlier.verified.is_some() {
        rates.left.put_back(call, server);
        Ok(())
    } else {
        stage::act(call, &chosen, &earlier, &mut staged, &mut rates)
    };
    restored.throttle.clone_from(&staged.throttle);
    let copies = &mut staged.copies;
    // What this call has staged goes; what an earlier one had stays.
    let take_back = |copies: &mut CopySet, failure| match earlier.verified {
        None => stage::take_back(call, server, copies, &[], failure),
        Some(_) => failure,
    };
    let ready = ready.and_then(|()| {
        // The last place where a signal or the time limit ends it without an effect on what is live.
        let planned = plan::forward(call, server, &chosen.scope, copies, args.how);
        planned.and_then(|planned| call.check().map(|()| planned)).map_err(|failure| take_back(copies, failure))
    });
    let mut swapped = match ready {
        Ok(swapped) => swapped,
        Err(failure) => {
            report_copies(&mut restored, copies);
            return Err(Stopped::with(failure, restored));
        }
    };
    match swap::execute(call, server, &mut swapped) {
        Ended::Finished => {
            report_swap(&mut restored, swapped, copies);
            Ok(restored)
        }
        Ended::Undone(failure) => {
            record::write_end(call, &copies.run, copies.step(), copies);
            let failure = take_back(copies, failure);
            // By the record a discard finds what had to stay.
            if call.effects().changed() != Some(false) {
                record::write_end(call, &copies.run, copies.step(), copies);
            }
            report_copies(&mut restored, copies);
            Err(Stopped::with(failure, restored))
        }
        Ended::Unfinished(failure) => {
            report_swap(&mut restored, swapped, copies);
            Err(Stopped::with(failure, restored))
        }
    }
}

/// The swap of this run that an earlier call of the same command began; another command may have been given the same run ID.
fn unfinished_swap(call: &Call, chosen: &Chosen) -> Result<Option<Swapped>, Failure> {
    match record::find(call, call.run_id())? {
        Some(Begun::Swapped(swapped))
            if !swapped.back
                && swapped.cluster_uuid == chosen.origin.cluster_uuid
                && swapped.snapshot_uuid.as_deref() == Some(&chosen.origin.snapshot_uuid) =>
        {
            let wanted: BTreeSet<&str> = chosen.names().into_iter().collect();
            let items = swapped.with_source().map(|(item, _)| item.index.as_str());
            let is_same = items.chain(swapped.direct.iter().map(|one| one.index.as_str())).collect::<BTreeSet<_>>() == wanted;
            if is_same { Ok(Some(swapped)) } else { Err(record::in_use(call.run_id())) }
        }
        _ => Ok(None),
    }
}

fn resume(call: &Call, chosen: &Chosen, mut swapped: Swapped, dry_run: bool) -> StepResult<Restored> {
    let is_direct = |index: &str| swapped.direct.iter().any(|one| one.index == index);
    let mut restored = Restored::planned(call, chosen, false, is_direct);
    if !swapped.finished {
        plan::resume(call, &chosen.server, &mut swapped)?;
    }
    restored.plan.clone_from(&swapped.plan);
    let ended = if swapped.finished || dry_run {
        Ok(())
    } else {
        call.check().and_then(|()| match swap::execute(call, &chosen.server, &mut swapped) {
            Ended::Finished => Ok(()),
            // Its plan may be what fails.
            Ended::Undone(failure) => Err(phases::unfinished(call, &chosen.server, &swapped, failure)),
            Ended::Unfinished(failure) => Err(failure),
        })
    };
    report_swap(&mut restored, swapped, &CopySet::default());
    Stopped::ended(ended, restored)
}

/// What is restored directly: what is not live, unless its name is an alias, or one of its aliases is an index or has another one, which
/// would count double until the swap.
fn direct(chosen: &Chosen, earlier: &Earlier) -> Result<BTreeSet<String>, Failure> {
    let mut live = get_indices(&chosen.server, chosen.names())?;
    live.retain(|index, _| !earlier.leftovers.contains(index));
    let names = select::names(&chosen.server)?;
    let is_alias = |name: &String| names.aliases.contains_key(name);
    let is_live = |alias: &String| is_alias(alias) || names.indices.contains(alias);
    let has_live_alias = |index: &str| chosen.metadata(index).is_some_and(|metadata| metadata.aliases.keys().any(is_live));
    let direct = chosen.indices.iter().filter(|index| !live.contains_key(*index) && !is_alias(index) && !has_live_alias(index));
    Ok(direct.cloned().collect())
}

/// What a staging that failed, and could not be taken back, left under live names.
fn report_copies(restored: &mut Restored, copies: &CopySet) {
    for one in &mut restored.indices {
        let Some(left) = copies.indices.iter().find(|left| left.index == one.index && left.is_direct()) else { continue };
        one.state = match left.state {
            CopyState::Verified => RestoreState::Restored,
            CopyState::InProgress => RestoreState::InProgress,
            CopyState::Planned | CopyState::Removed => continue,
        };
        one.docs_count = left.docs_count;
    }
}

fn report_swap(restored: &mut Restored, swapped: Swapped, copies: &CopySet) {
    for one in &mut restored.indices {
        let item = swapped.indices.iter().find(|item| item.index == one.index);
        one.state = match item.map(|item| item.state) {
            Some(SwapState::New) => RestoreState::Restored,
            Some(SwapState::Absent) => RestoreState::InProgress,
            None if one.method == RestoreMethod::Direct && swapped.finished => RestoreState::Restored,
            None if one.method == RestoreMethod::Direct => RestoreState::InProgress,
            Some(SwapState::Old) | None => RestoreState::Untouched,
        };
        let copy = copies.indices.iter().find(|copy| copy.index == one.index).and_then(|copy| copy.docs_count);
        one.docs_count = copy.or_else(|| item.and_then(|item| item.source.as_ref()).map(|source| source.docs_count));
    }
    restored.swap = Some(swapped);
}
