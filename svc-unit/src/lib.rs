//! The init system's units: stopped, started and waited for through `systemctl`, and judged by their properties, since its
//! exit status proves nothing (procedure, sections 1 and 3; 9.2 step 1, 9.3 steps 2 and 7).
//!
//! There is no lock here: the manager itself puts requests in order, and an operator must be able to stop a service while
//! another call still waits for its start.

mod bring_up;
mod dependents;
mod journal;
mod manager;
mod moment;
mod name;
mod ready;
mod report;
mod request;
mod restart;
mod settle;
mod start;
mod state;
mod status;
mod stop;
mod wait;

use std::time::Duration;

use clap::{Parser, Subcommand};
use schemars::Schema;
use svc_step::call::{Call, Finished};
use svc_step::common::Common;
use svc_step::tool::Tool;

pub use name::{Manager, Unit, UnitArgs};
pub use ready::ReadyArgs;
pub use report::{Report, Skipped};
pub use restart::RestartArgs;
pub use settle::SettleArgs;
pub use start::StartArgs;
pub use state::{Exit, State};
pub use status::StatusArgs;
pub use stop::StopArgs;
pub use wait::{Goal, WaitArgs};

/// Stop, start and judge the init system's units
///
/// Judged by the unit's own properties, before and after. Without --timeout a step gives up after ten minutes (6).
#[derive(Debug, Parser)]
#[command(
    name = "svc-unit",
    version,
    after_long_help = "Example: stop the service for a while, and start it again only if it was running
  svc-unit stop > stopped.json; …; svc-unit start --from stopped.json"
)]
pub struct Cli {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    step: Step,
}

#[derive(Debug, Subcommand)]
enum Step {
    /// Print the unit's state
    Status(StatusArgs),
    /// Stop the unit, and say whether it had to be killed
    Stop(StopArgs),
    /// Start the unit, and wait until it is stable and ready
    Start(StartArgs),
    /// Restart the unit, and wait until it is stable and ready
    Restart(RestartArgs),
    /// Wait until the unit is stable and ready, or inactive
    Wait(WaitArgs),
}

impl Tool for Cli {
    const NAME: &'static str = "svc-unit";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const TIMEOUT: Option<Duration> = Some(Duration::from_secs(600));

    fn common(&self) -> &Common {
        &self.common
    }

    fn run(self, call: &Call) -> Finished {
        match self.step {
            Step::Status(args) => call.step("status", false, |call| status::run(&args, call)),
            Step::Stop(args) => call.step("stop", args.dry.dry_run, |call| stop::run(&args, call)),
            Step::Start(args) => call.step("start", args.dry.dry_run, |call| start::run(&args, call)),
            Step::Restart(args) => call.step("restart", args.dry.dry_run, |call| restart::run(&args, call)),
            Step::Wait(args) => call.step("wait", false, |call| wait::run(&args, call)),
        }
    }
}

/// The command line's definition, for man pages and completions.
#[must_use]
pub fn cli() -> clap::Command {
    svc_step::tool::command::<Cli>()
}

/// The JSON Schema of each step's document, by the step's name.
#[must_use]
pub fn schemas() -> Vec<(String, Schema)> {
    ["status", "stop", "start", "restart", "wait"]
        .into_iter()
        .map(|step| svc_step::schema::of::<Report>(Cli::NAME, step))
        .collect()
}
