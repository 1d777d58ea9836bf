//! `restore` (procedure, 4 and 2.3): what is live is staged, proven and swapped; what is not live has nothing to protect and
//! is restored straight under its own name. `--in-place` is the procedure's literal way, for lack of room.

mod beside;
mod in_place;

use svc_step::common::DryRun;
use svc_step::{Call, StepResult};

use crate::bring::chosen::{Chosen, WhatArgs};
use crate::runs::restored::{RestoreState, RestoreWay, Restored, RestoredIndex};
use crate::stage::StreamsArg;
use crate::swap::HowArgs;

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

/// What to do with live indices of the same names; one that is closed already is given up by `close` as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum OnConflict {
    /// Change nothing, and name all of them
    #[default]
    Fail,
    /// Close them, so that the restore replaces them and uses what files are the same
    Close,
    /// Delete them first
    Delete,
}

/// A restore of which nothing is done yet.
fn begun(call: &Call, chosen: &Chosen, in_place: bool, way: impl Fn(&str) -> RestoreWay) -> Restored {
    let indices = chosen.indices.iter().map(|index| RestoredIndex {
        index: index.clone(),
        way: way(index),
        state: RestoreState::Untouched,
        docs_count: None,
        docs_expected: chosen.docs_expected(index),
    });
    Restored {
        origin: chosen.origin.clone(),
        run: call.run_id().to_string(),
        in_place,
        indices: indices.collect(),
        streams: Vec::new(),
        swap: None,
        rate: None,
        skipped: chosen.skipped.clone(),
        plan: Vec::new(),
    }
}

pub(crate) fn run(args: &RestoreArgs, call: &Call) -> StepResult<Restored> {
    let chosen = Chosen::find(&args.what, call)?;
    if args.in_place {
        in_place::run(call, &chosen, args.on_conflict, args.dry.dry_run)
    } else {
        beside::run(call, &chosen, args.how, args.streams, args.dry.dry_run)
    }
}
