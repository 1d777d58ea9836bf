//! `swap`: what was staged becomes live, some tens of indices at a time, in about a second; what was live is kept. A swap that
//! was cut is finished; the document of a finished one, swapped again, goes back.

mod act;
mod foresee;
mod next;
mod offer;
mod plan;
mod prove;
mod rivals;
mod run;
mod take_back;
mod turn;
mod ways;

pub(crate) use offer::Offer;
pub(crate) use run::{execute, refuse_other_plan, run};
pub(crate) use ways::{foreseen, forward};

use svc_step::common::DryRun;
use svc_step::from::OtherServer;
use svc_step::swaps::GivenArgs;

use crate::connection::Connection;
use crate::index::scope::ScopeArg;

/// Arguments of `svc-snap swap`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  svc-snap swap --from staged.json > swapped.json    what was staged becomes live
  svc-snap swap --from aside.json                    what was set aside becomes live
  svc-snap swap --from swapped.json                  and back again
  svc-snap swap --run 20261120t020003z-hand --back   back, without the document
  svc-snap swap --run 20261120t020003z-hand          finish a swap that was cut")]
pub struct SwapArgs {
    #[command(flatten)]
    given: GivenArgs,
    /// Put back what the swap replaced, whether it is finished or not
    #[arg(long)]
    back: bool,
    /// Fail (3) where a swap has begun to make the copies live before: what is live is written to
    #[arg(long, conflicts_with = "back")]
    unused: bool,
    #[command(flatten)]
    how: HowArgs,
    #[command(flatten)]
    other: OtherServer,
    #[command(flatten)]
    scope: ScopeArg,
    #[command(flatten)]
    pub(crate) dry: DryRun,
    #[command(flatten)]
    connection: Connection,
}

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
