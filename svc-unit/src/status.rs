//! `status`: the unit's state.

use svc_step::{Call, Failure, StepResult};

use crate::dependents;
use crate::manager;
use crate::name::{Unit, UnitArgs};
use crate::report::Report;
use crate::state::State;

/// Arguments of `svc-unit status`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  svc-unit status svc.service")]
pub struct StatusArgs {
    #[command(flatten)]
    unit: UnitArgs,
}

pub(crate) fn run(args: &StatusArgs, call: &Call) -> StepResult<Report> {
    let unit = args.unit.unit();
    let state = manager::state(call, &unit)?;
    let missing = is_missing(&state);
    let mut report = Report::new(&unit, state);
    if missing {
        return Err(report.stop(not_found(&unit)));
    }
    report.dependents = dependents::running(call, &unit)?;
    Ok(report)
}

/// Neither a unit file nor a process. One whose file was removed while it runs is still there.
pub(crate) fn is_missing(state: &State) -> bool {
    state.load_state == "not-found" && state.is_at_rest()
}

pub(crate) fn not_found(unit: &Unit) -> Failure {
    Failure::not_found("unit_not_found", format!("There is no unit {}.", unit.name)).hint(
        "Name the right one, or set SVC_UNIT; systemctl list-unit-files lists them (with --user those of the user manager).",
    )
}
