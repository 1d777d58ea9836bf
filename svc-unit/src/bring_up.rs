//! What `start` and `restart` have in common: whether the unit can be started at all, the request, and the wait until it holds.

use svc_step::{Call, Failure, Status, StepResult, Stopped};

use crate::journal;
use crate::manager;
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
            return ready::wait(call, ready, report);
        }
        if complaint.refused && report.after.is_at_rest() {
            return Err(settle::died(report, false).cause(complaint.text));
        }
        if verb == "restart" {
            is_anew(call, report, &complaint)?;
        }
    }
    settle::settle(call, report, settle.settle, Patience::None)?;
    ready::wait(call, ready, report)
}

/// A restart that systemd refused (or never got to) leaves the former run at work, which looks as good as a new one: only its
/// invocation tells the two apart. While the request still waits in the queue, so does this.
fn is_anew(call: &Call, report: &mut Report, complaint: &Complaint) -> Result<(), Failure> {
    let is_former = |report: &Report| {
        let (before, after) = (&report.before, &report.after);
        after.is_same_run(before) && before.invocation_id.is_some() && !after.is_at_rest()
    };
    while is_former(report) && report.after.job_pending {
        call.pause(settle::LOOK)?;
        report.after = manager::state(call, &report.unit())?;
    }
    if !is_former(report) {
        return Ok(());
    }
    let (unit, flag, state) = (&report.unit, report.unit().flag(), report.after.phrase());
    Err(Failure::failed("unit_not_restarted", format!("systemd did not restart {unit}: it is {state}, the same run as before."))
        .hint(format!(
            "systemctl {flag}list-jobs shows what stands in the way, systemctl {flag}show -p RefuseManualStop {unit} whether it may be stopped by hand at all."
        ))
        .cause(complaint.text.as_str()))
}

/// A oneshot unit is inactive when it has done its work, and an inactive unit keeps no trace of it. One that was not started
/// because another failed looks the same; only here does the word of systemctl count, and only its "no" (it waits for the end
/// of the job, and its "no" is never wrong; its "yes" proves nothing, and the result is read beside it).
fn ran_to_its_end(after: &State, complaint: &Complaint) -> bool {
    after.has_done_its_work() && !complaint.refused
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
