//! `stage`: a snapshot restored beside the live indices and proven there, without an effect on them.

mod act;
mod earlier;
mod take_back;

use svc_step::action::Action;
use svc_step::common::DryRun;
use svc_step::{Call, StepResult};

use crate::bring::chosen::{Chosen, WhatArgs};
use crate::bring::streams::StreamBack;
use crate::bring::{self, Bring};
use crate::guard;
use crate::index::copies;
use crate::restore::record;
use crate::restore::record::staged::{StageState, Staged, StagedIndex, StagedStream};
use crate::server::path::path;

pub(crate) use self::act::bring_back;
pub(crate) use self::earlier::Earlier;
pub(crate) use self::take_back::take_back;

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
        .and_then(|()| bring_back(call, &chosen, &brings, &mut staged, &mut rates))
        .map_err(|failure| rates.stopped(call, failure, staged.clone()))?;
    Ok(staged)
}

/// The plan of a staging: each index, and where it is brought to.
pub(crate) fn plan(call: &Call, chosen: &Chosen, brings: &[Bring], streams: Vec<StreamBack>) -> Staged {
    let streams: Vec<StagedStream> = streams.into_iter().map(|back| StagedStream::planned(call.run_id(), back)).collect();
    let proofs: Vec<Bring> = streams.iter().flat_map(StagedStream::brings).collect();
    let all = [brings, &proofs].concat();
    let indices = brings.iter().map(|one| StagedIndex {
        index: one.index.clone(),
        staged: one.target.clone(),
        state: StageState::Planned,
        uuid: None,
        docs_count: None,
        docs_expected: chosen.docs_expected(&one.index),
        shape_noted: chosen.noted(&one.index),
    });
    let requests = bring::requests(call.run_id(), &chosen.origin.repository, &chosen.origin.snapshot, &all).into_iter();
    let requests = requests.map(|request| Action::request("POST", request.path, Some(request.body)));
    let removals = proofs.iter().map(|proof| Action::request("DELETE", path(&[&proof.target]), None));
    Staged {
        origin: chosen.origin.clone(),
        run: call.run_id().to_string(),
        asked_for: chosen.asked_for.clone(),
        indices: indices.collect(),
        skipped: chosen.skipped.clone(),
        plan: requests.chain(removals).collect(),
        streams,
        rate: None,
        room: None,
    }
}
