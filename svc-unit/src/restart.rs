//! `restart`: the unit runs anew, stable and ready (procedure, 4.1 and 9.3 step 2).

use svc_step::common::DryRun;
use svc_step::{Call, StepResult};

use crate::bring_up::{finish, startable};
use crate::manager;
use crate::moment::Moment;
use crate::name::UnitArgs;
use crate::ready::ReadyArgs;
use crate::report::Report;
use crate::request;
use crate::settle::SettleArgs;

/// Arguments of `svc-unit restart`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  svc-unit restart postgresql.service --ready-tcp 127.0.0.1:5432")]
pub struct RestartArgs {
    #[command(flatten)]
    unit: UnitArgs,
    #[command(flatten)]
    settle: SettleArgs,
    #[command(flatten)]
    ready: ReadyArgs,
    #[command(flatten)]
    pub(crate) dry: DryRun,
}

pub(crate) fn run(args: &RestartArgs, call: &Call) -> StepResult<Report> {
    let unit = args.unit.unit();
    let began = Moment::now();
    let mut report = Report::new(&unit, manager::state(call, &unit)?);
    if let Err(failure) = startable(&unit, &report.before) {
        return Err(report.stop(failure));
    }
    request::plan(&mut report, "restart");
    if args.dry.dry_run {
        return Ok(report);
    }
    finish(call, report, began, "restart", &args.settle, &args.ready)
}
