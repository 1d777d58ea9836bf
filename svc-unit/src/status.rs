//! `status`: the unit's state.

use svc_step::{Call, Failure, StepResult};

use crate::dependents;
use crate::manager;
use crate::name::{Unit, UnitArgs};
use crate::report::Report;
use crate::state::State;

/// Arguments of `svc-unit status`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  svc-unit status svc.service\n  svc-unit status svc.service --expect inactive")]
pub struct StatusArgs {
    #[command(flatten)]
    unit: UnitArgs,
    /// Fail (3) where the unit is not so: inactive (or failed, with no job pending), or active
    #[arg(long, value_name = "STATE", value_enum)]
    expect: Option<Expected>,
}

/// What the caller relies on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Expected {
    /// Not at work, and nothing about to start it
    Inactive,
    /// At work
    Active,
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
    match args.expect.and_then(|expected| unexpected(expected, &unit, &report.before)) {
        None => Ok(report),
        Some(failure) => Err(report.stop(failure)),
    }
}

fn unexpected(expected: Expected, unit: &Unit, state: &State) -> Option<Failure> {
    let (code, wanted, verb) = match expected {
        Expected::Inactive if state.is_at_rest() => return None,
        Expected::Active if state.is_active() => return None,
        Expected::Inactive => ("service_active", "inactive", "stop"),
        Expected::Active => ("service_inactive", "active", "start"),
    };
    let pending = if state.job_pending { ", with a job pending" } else { "" };
    let message = format!("The unit {} was expected to be {wanted}, and is {}{pending}.", unit.name, state.phrase());
    Some(Failure::refused(code, message).hint(format!("svc-unit {verb} {unit}")))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::tests::state;

    #[test]
    fn a_unit_that_is_about_to_start_is_neither_active_nor_inactive() {
        let unit: Unit = "user:app".parse().unwrap();
        for (shown, inactive, active) in [
            ("ActiveState=inactive", None, Some("service_inactive")),
            ("ActiveState=failed", None, Some("service_inactive")),
            ("ActiveState=inactive Job=7", Some("service_active"), Some("service_inactive")),
            ("ActiveState=activating", Some("service_active"), Some("service_inactive")),
            ("ActiveState=active", Some("service_active"), None),
        ] {
            let code = |expected| unexpected(expected, &unit, &state(shown)).map(|failure| failure.code);
            assert_eq!(code(Expected::Inactive).as_deref(), inactive, "{shown}");
            assert_eq!(code(Expected::Active).as_deref(), active, "{shown}");
        }
        let failure = unexpected(Expected::Inactive, &unit, &state("ActiveState=active")).unwrap();
        assert_eq!((failure.status.code(), failure.hint.as_deref()), (3, Some("svc-unit stop user:app.service")));
    }
}
