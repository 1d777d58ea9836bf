//! `stop`: the unit is not at work any more (procedure, 9.2 step 1).

use svc_step::common::DryRun;
use svc_step::{Call, Failure, StepResult};

use crate::dependents;
use crate::journal;
use crate::manager;
use crate::moment::Moment;
use crate::name::UnitArgs;
use crate::report::{Report, Skipped};
use crate::request::{self, Complaint};
use crate::status::is_missing;

/// Arguments of `svc-unit stop`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  svc-unit stop svc.service > stopped.json")]
pub struct StopArgs {
    #[command(flatten)]
    unit: UnitArgs,
    #[command(flatten)]
    pub(crate) dry: DryRun,
}

pub(crate) fn run(args: &StopArgs, call: &Call) -> StepResult<Report> {
    let unit = args.unit.unit();
    let began = Moment::now();
    let mut report = Report::new(&unit, manager::state(call, &unit)?);
    if is_missing(&report.before) {
        return Ok(report.skip(Skipped::NotThere));
    }
    if report.before.is_at_rest() {
        return Ok(report.skip(Skipped::AlreadySo));
    }
    request::plan(&mut report, "stop");
    report.dependents = dependents::running(call, &unit)?;
    if args.dry.dry_run {
        return Ok(report);
    }
    let complaint = match request::send(call, &mut report, "stop") {
        Ok(complaint) => complaint,
        Err(failure) => {
            let failure = request::cut_off(failure, &report, "stopping", " --for inactive");
            return Err(report.stop(failure));
        }
    };
    if !report.after.is_at_rest() {
        journal::add(call, &mut report, began);
        let failure = still_there(&report, &complaint);
        return Err(report.stop(failure));
    }
    judge_end(call, &report);
    match dependents::stopped(call, &mut report) {
        Ok(()) => Ok(report),
        Err(failure) => Err(report.stop(failure)),
    }
}

/// How it ended. The result of a unit that was at work is of this stop: it is cleared when a unit starts. One that had ended
/// before, and whose next start was only taken out of the queue, still has the former one.
fn judge_end(call: &Call, report: &Report) {
    let before = &report.before;
    let had_ended = matches!(before.active_state.as_str(), "inactive" | "failed") || before.is_between_restarts();
    if had_ended && report.after.is_same_run(before) {
        return;
    }
    let (unit, end) = (&report.unit, report.after.phrase());
    match report.after.result.as_str() {
        // A unit that is no service may have no result at all (a target, a slice).
        "success" | "" => {}
        // A program may well end with a status of its own when it is told to (a Java virtual machine: 143).
        "exit-code" => call.warn("unit_ended_badly", format!("{unit} is stopped, and its end was no clean one: {end}.")),
        // The stop of a service that dies at each start comes now and then into such a start.
        "signal" if before.active_state == "activating" && !report.after.was_main_killed() => call.warn(
            "start_cut_short",
            format!("{unit} is stopped; it was being started, and what runs before its main process was told to end: {end}."),
        ),
        _ => call.review(
            "unit_killed",
            format!("{unit} is stopped, and had to be killed or was cut short: {end}. What it was writing may be incomplete."),
        ),
    }
}

fn still_there(report: &Report, complaint: &Complaint) -> Failure {
    let (unit, flag) = (&report.unit, report.unit().flag());
    Failure::failed("unit_not_stopped", format!("{unit} was to stop and is {}.", report.after.phrase()))
        .hint(format!("Something may start it again (a socket, a timer): systemctl {flag}show -p TriggeredBy {unit} names it."))
        .cause(complaint.text.as_str())
}
