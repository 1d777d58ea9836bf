//! `stage`: a snapshot restored beside the live indices and proven there, without an effect on them.

use svc_step::common::DryRun;
use svc_step::{Call, StepResult};

use crate::guard;
use crate::index::copies;
use crate::restore::chosen::{Chosen, WhatArgs};
use crate::restore::earlier::Earlier;
use crate::restore::record;
use crate::restore::record::staged::Staged;
use crate::restore::stage::{self, Bring};

/// Arguments of `svc-snap stage`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  svc-snap stage --from snapshot.json > staged.json && svc-snap swap --from staged.json")]
pub struct StageArgs {
    #[command(flatten)]
    what: WhatArgs,
    #[command(flatten)]
    streams: StreamsArg,
    #[command(flatten)]
    pub(crate) dry: DryRun,
}

/// What to do with data streams.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub(crate) struct StreamsArg {
    /// Restore data streams, which cannot be staged, in place after the swap; nothing of what is live of them is kept
    #[arg(long)]
    pub streams_in_place: bool,
}

pub(crate) fn run(args: &StageArgs, call: &Call) -> StepResult<Staged> {
    let chosen = Chosen::find(&args.what, call)?;
    let streams: Vec<&str> = chosen.streams.iter().filter(|_| !args.streams.streams_in_place).map(String::as_str).collect();
    Chosen::refuse_streams(&streams)?;
    let _lock = guard::lock(call, &chosen.server, args.dry.dry_run)?;
    record::refuse_unfinished_swaps(call, &chosen.server, call.run_id(), &chosen.names())?;
    let earlier = Earlier::find(call, &chosen, args.dry.dry_run)?;
    if let Some(staged) = earlier.proven {
        return Ok(staged);
    }
    let beside = |index: &String| Bring { index: index.clone(), target: copies::staged(call.run_id(), index) };
    let brings: Vec<Bring> = chosen.indices.iter().map(beside).collect();
    let mut rates = chosen.rates(call)?;
    let mut staged = earlier.planned(call, &chosen, &brings, chosen.streams_back()?, &rates)?;
    if args.dry.dry_run {
        return Ok(staged);
    }
    earlier
        .clear(call, &chosen.server, &rates)
        .and_then(|()| stage::bring_back(call, &chosen, &brings, &mut staged, &mut rates))
        .map_err(|failure| rates.stopped(call, failure, staged.clone()))?;
    Ok(staged)
}
