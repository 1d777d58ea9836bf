//! `stage`: a snapshot restored beside the live indices and verified there, without an effect on them.

use std::collections::BTreeSet;

use svc_step::{Call, DryRun, StepResult, Stopped};

use crate::guard;
use crate::restore::stage::Earlier;
use crate::restore::{Chosen, SelectionArgs, Staged, phases, stage};

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  svc-snap stage --from snapshot.json > staged.json && svc-snap swap --from staged.json")]
pub struct StageArgs {
    #[command(flatten)]
    what: SelectionArgs,
    #[command(flatten)]
    pub(crate) dry: DryRun,
}

pub(crate) fn run(args: &StageArgs, call: &Call) -> StepResult<Staged> {
    let chosen = Chosen::find(&args.what, call)?;
    chosen.refuse_streams()?;
    let _lock = guard::lock(call, &chosen.server, args.dry.dry_run)?;
    phases::refuse_unfinished_swaps(call, &chosen.server, call.run_id(), |name| chosen.names().contains(&name))?;
    let mut earlier = Earlier::find(call, &chosen)?;
    if let Some(copies) = earlier.verified.take() {
        return Ok(Staged::of(&chosen, copies));
    }
    let mut rates = chosen.rates(call)?;
    let mut staged = stage::plan(call, &chosen, &earlier, &rates, &BTreeSet::new())?;
    if !args.dry.dry_run {
        let acted = stage::act(call, &chosen, &earlier, &mut staged, &mut rates);
        acted.map_err(|failure| Stopped::with(failure, staged.clone()))?;
    }
    Ok(staged)
}
