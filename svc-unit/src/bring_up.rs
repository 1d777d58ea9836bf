//! What `start` and `restart` have in common: whether the unit can be started at all, the request, and the wait until it holds.

use svc_step::{Call, Failure, Status, StepResult, Stopped};

use crate::journal;
use crate::moment::Moment;
use crate::name::Unit;
use crate::ready::{self, ReadyArgs};
use crate::report::Report;
use crate::request::{self, Complaint};
use crate::settle::{self, Patience, SettleArgs};
use crate::state::State;
use crate::status;

/// Sends the request of the plan, if there is one, and waits until the unit is as it should be.
pub(crate) fn finish(
    call: &Call,
    mut report: Report,
    began: Moment,
    verb: &str,
    settle: &SettleArgs,
    ready: &ReadyArgs,
) -> StepResult<Report> {
    match act(call, &mut report, verb, settle, ready) {
        Ok(()) => {
            warn_of_old_definition(call, &report);
            Ok(report)
        }
        Err(failure) => {
            if failure.status == Status::Failed && failure.signal.is_none() {
                journal::add(call, &mut report, began);
            }
            let failure = request::cut_off(failure, &report, "starting", "");
            Err(Stopped::with(failure, report))
        }
    }
}

fn act(call: &Call, report: &mut Report, verb: &str, settle: &SettleArgs, ready: &ReadyArgs) -> Result<(), Failure> {
    if report.skipped.is_none() {
        let complaint = request::send(call, report, verb)?;
        if ran_to_its_end(&report.after, &complaint) {
            return Ok(());
        }
        if complaint.refused && report.after.is_at_rest() {
            return Err(settle::died(report, false).cause(complaint.text));
        }
    }
    settle::settle(call, report, settle.settle, Patience::None)?;
    ready::wait(call, ready, report)
}

/// A oneshot unit is inactive when it has done its work, and an inactive unit keeps no trace of it. One that was not started
/// because another failed looks the same; only here does the word of systemctl count, and only its "no" (it waits for the end
/// of the job, and its "no" is never wrong; its "yes" proves nothing, and the result is read beside it).
fn ran_to_its_end(after: &State, complaint: &Complaint) -> bool {
    after.is_oneshot() && after.active_state == "inactive" && after.result == "success" && !complaint.refused
}

/// A unit file that was changed on disk is not in force until the manager reads it again.
fn warn_of_old_definition(call: &Call, report: &Report) {
    if report.after.need_daemon_reload {
        call.warn(
            "daemon_reload_needed",
            format!("The file of {} has changed on disk and is not in force: run systemctl daemon-reload.", report.unit),
        );
    }
}

/// Whether the manager can start it at all.
pub(crate) fn startable(unit: &Unit, state: &State) -> Result<(), Failure> {
    match state.load_state.as_str() {
        "not-found" => Err(status::not_found(unit)),
        "masked" => {
            Err(Failure::refused("unit_masked", format!("{} is masked, so that nobody starts it by mistake.", unit.name))
                .hint(format!("When it may be started: systemctl {}unmask {}", unit.flag(), unit.name)))
        }
        "loaded" => Ok(()),
        other => Err(Failure::invalid("unit_invalid", format!("The unit file of {} cannot be used: {other}.", unit.name))
            .hint(format!("systemd-analyze {}verify {} names the line.", unit.flag(), unit.name))
            .cause(state.load_error.clone().unwrap_or_default())),
    }
}
