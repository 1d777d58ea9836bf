//! Units of systemd: stopped, started and waited for through `systemctl`, and checked by their properties (procedure, sections
//! 1 and 3; 9.2 step 1, 9.3 steps 2 and 7).

mod dependents;
mod ready;
mod report;
mod request;
mod state;
mod steps;
mod systemctl;
mod unit;

use std::time::Duration;

use clap::{Parser, Subcommand};
use svc_step::call::{Call, Finished};
use svc_step::common::{Common, DryRun};
use svc_step::schema::Schemas;
use svc_step::tool::Tool;

use crate::ready::ReadyArgs;
use crate::request::Goal;
use crate::steps::StartArgs;
use crate::unit::UnitArgs;

/// Stop, start and check units of systemd
///
/// Checked by the unit's own properties, before and after. Without --timeout a step gives up after ten minutes (6).
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
    #[command(after_help = "Examples:\n  svc-unit status svc.service\n  svc-unit status svc.service --expect inactive")]
    Status {
        #[command(flatten)]
        unit: UnitArgs,
        /// Fail (3) unless it is active, or inactive (or failed) with all that stops along with it
        #[arg(long, value_name = "STATE", value_enum)]
        expect: Option<Goal>,
    },
    /// Stop the unit, and report whether it had to be killed
    #[command(after_help = "Example:\n  svc-unit stop svc.service > stopped.json")]
    Stop {
        #[command(flatten)]
        unit: UnitArgs,
        #[command(flatten)]
        dry: DryRun,
    },
    /// Start the unit, and wait until it is stable and ready
    #[command(after_help = "Example:\n  svc-unit start svc.service --settle 10s --ready-url http://127.0.0.1:8080/ready")]
    Start(StartArgs),
    /// Restart the unit, and wait until it is stable and ready
    #[command(after_help = "Example:\n  svc-unit restart postgresql.service --ready-tcp 127.0.0.1:5432")]
    Restart {
        #[command(flatten)]
        unit: UnitArgs,
        #[command(flatten)]
        ready: ReadyArgs,
        #[command(flatten)]
        dry: DryRun,
    },
    /// Wait until the unit is stable and ready, or inactive
    #[command(after_help = "Example:\n  svc-unit wait svc.service --timeout 2m --ready-tcp 127.0.0.1:8080")]
    Wait {
        #[command(flatten)]
        unit: UnitArgs,
        /// What to wait for
        #[arg(long = "for", value_name = "STATE", value_enum, default_value = "active")]
        goal: Goal,
        #[command(flatten)]
        ready: ReadyArgs,
    },
}

impl Tool for Cli {
    const NAME: &'static str = "svc-unit";
    const TIMEOUT: Option<Duration> = Some(Duration::from_secs(600));

    fn common(&self) -> &Common {
        &self.common
    }

    fn schemas() -> Schemas {
        let steps = ["status", "stop", "start", "restart", "wait"];
        steps.into_iter().fold(Schemas::of(Self::NAME), |all, step| all.step::<report::Report>(step))
    }

    fn run(self, call: &Call) -> Finished {
        match self.step {
            Step::Status { unit, expect } => call.step("status", false, |call| steps::status(call, unit.unit(), expect)),
            Step::Stop { unit, dry } => call.step("stop", dry.dry_run, |call| steps::stop(call, unit.unit(), dry.dry_run)),
            Step::Start(args) => call.step("start", args.dry.dry_run, |call| steps::start(&args, call)),
            Step::Restart { unit, ready, dry } => {
                call.step("restart", dry.dry_run, |call| steps::restart(call, unit.unit(), &ready, dry.dry_run))
            }
            Step::Wait { unit, goal, ready } => call.step("wait", false, |call| steps::wait(call, unit.unit(), goal, &ready)),
        }
    }
}

/// The definition of the command line, for tests that go through its steps.
#[must_use]
pub fn cli() -> clap::Command {
    svc_step::tool::command::<Cli>()
}
