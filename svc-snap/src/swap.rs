//! `swap`: what was staged becomes live, index by index, in under a second each; what was live is kept. The document of a
//! swap, swapped again, goes back.

mod act;
mod foresee;
mod item;
mod next;
mod plan;
mod run;

pub use item::{State, SwapIndex, Swapped};
pub(crate) use run::{begun, cluster_of, execute, forward, run, run_of, state};

use svc_step::common::DryRun;
use svc_step::from::FromArg;
use svc_step::run_id::RunId;

use crate::connection::Connection;
use crate::identity::OtherServer;
use crate::scope::ScopeArg;

/// Arguments of `svc-snap swap`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  svc-snap swap --from staged.json > swapped.json    what was staged becomes live
  svc-snap swap --from swapped.json                  and back again
  svc-snap swap --run 20261120t020003z-hand          finish a swap that was cut")]
#[group(id = "which", required = true, multiple = false, args = ["from", "of_run"])]
pub struct SwapArgs {
    #[command(flatten)]
    from: FromArg,
    /// Go on with what that run staged or swapped on this host
    #[arg(id = "of_run", long = "run", value_name = "RUN")]
    of_run: Option<RunId>,
    /// Put back what the swap of that run replaced
    #[arg(long, requires = "of_run")]
    back: bool,
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
