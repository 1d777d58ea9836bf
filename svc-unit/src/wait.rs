//! `wait`: until the unit is stable and ready, or inactive, whoever starts or stops it.

use std::time::Duration;

use clap::ValueEnum;
use svc_step::{Call, Failure, Status, StepResult};

use crate::bring_up::startable;
use crate::journal;
use crate::manager;
use crate::moment::Moment;
use crate::name::UnitArgs;
use crate::ready::{self, ReadyArgs};
use crate::report::Report;
use crate::request;
use crate::settle::{self, Patience, SettleArgs};

/// How often the state is read.
const LOOK: Duration = Duration::from_millis(200);

/// What is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Goal {
    /// Active, settled and ready.
    Active,
    /// Not at work, and nothing about to start it.
    Inactive,
}

/// Arguments of `svc-unit wait`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  svc-unit wait svc.service --timeout 2m --ready-tcp 127.0.0.1:8080")]
pub struct WaitArgs {
    #[command(flatten)]
    unit: UnitArgs,
    /// What to wait for
    #[arg(long = "for", value_name = "STATE", value_enum, default_value = "active")]
    goal: Goal,
    #[command(flatten)]
    settle: SettleArgs,
    #[command(flatten)]
    ready: ReadyArgs,
}

pub(crate) fn run(args: &WaitArgs, call: &Call) -> StepResult<Report> {
    let unit = args.unit.unit();
    let began = Moment::now();
    let mut report = Report::new(&unit, manager::state(call, &unit)?);
    let (waited, goal) = match args.goal {
        Goal::Active => (until_active(call, &mut report, args), ""),
        Goal::Inactive => (until_at_rest(call, &mut report), " --for inactive"),
    };
    match waited {
        Ok(()) => Ok(report),
        Err(failure) => {
            if failure.status == Status::Failed && failure.signal.is_none() {
                journal::add(call, &mut report, began);
            }
            let failure = request::cut_off(failure, &report, "waited for", goal);
            Err(report.stop(failure))
        }
    }
}

fn until_active(call: &Call, report: &mut Report, args: &WaitArgs) -> Result<(), Failure> {
    if !report.before.is_active() {
        startable(&report.unit(), &report.before)?;
    }
    settle::settle(call, report, args.settle.settle, Patience::UntilFailed)?;
    ready::wait(call, &args.ready, report)
}

fn until_at_rest(call: &Call, report: &mut Report) -> Result<(), Failure> {
    while !report.after.is_at_rest() {
        call.pause(LOOK)?;
        report.after = manager::state(call, &report.unit())?;
    }
    Ok(())
}
