//! `start`: the unit is at work, stable and ready (procedure, 9.3 step 7).

use svc_step::common::DryRun;
use svc_step::from::{Accept, FromArg, Received};
use svc_step::{Call, Failure, StepResult, Stopped};

use crate::journal;
use crate::manager;
use crate::moment::Moment;
use crate::name::{Unit, UnitArgs};
use crate::ready::{self, ReadyArgs};
use crate::report::{Report, Skipped};
use crate::request::{self, Complaint};
use crate::settle::{self, Patience, SettleArgs};
use crate::state::State;
use crate::status;

/// Arguments of `svc-unit start`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  svc-unit start svc.service --settle 10s --ready-url http://127.0.0.1:8080/ready")]
pub struct StartArgs {
    #[command(flatten)]
    unit: UnitArgs,
    #[command(flatten)]
    from: FromArg,
    #[command(flatten)]
    settle: SettleArgs,
    #[command(flatten)]
    ready: ReadyArgs,
    #[command(flatten)]
    pub(crate) dry: DryRun,
}

pub(crate) fn run(args: &StartArgs, call: &Call) -> StepResult<Report> {
    let (unit, wanted) = wanted(args, call)?;
    let began = Moment::now();
    let mut report = Report::new(&unit, manager::state(call, &unit)?);
    if !wanted {
        return Ok(report.skip(Skipped::WasNotRunning));
    }
    if let Err(failure) = startable(&unit, &report.before) {
        return Err(report.stop(failure));
    }
    // One that is on its way already needs no second request, only patience.
    let before = &report.before;
    if before.is_active() || (before.active_state == "activating" && !before.is_between_restarts()) {
        report = report.skip(Skipped::AlreadySo);
    } else {
        request::plan(&mut report, "start");
    }
    if args.dry.dry_run {
        return Ok(report);
    }
    finish(call, report, began, "start", &args.settle, &args.ready)
}

/// Sends the request of the plan, if there is one, and waits until the unit is as it should be: the common end of `start` and
/// `restart`.
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
            if failure.status == svc_step::Status::Failed && failure.signal.is_none() {
                journal::add(call, &mut report, began);
            }
            let failure = request::cut_off(failure, &report, "starting", "");
            Err(Stopped::with(failure, report))
        }
    }
}

fn act(call: &Call, report: &mut Report, verb: &str, settle: &SettleArgs, ready: &ReadyArgs) -> Result<(), Failure> {
    if !report.plan.is_empty() {
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

/// The unit, and whether it is to run: with a document, only if it was running then.
fn wanted(args: &StartArgs, call: &Call) -> Result<(Unit, bool), Failure> {
    let Some(from) = &args.from.from else { return Ok((args.unit.unit(), true)) };
    let then = Received::read(call, from, &["svc-unit.status/1", "svc-unit.stop/1"], Accept::Good)?.result::<Report>()?;
    let unit = then.unit();
    match args.unit.named().filter(|named| *named != unit) {
        None => Ok((unit, then.before.was_running())),
        Some(named) => Err(Failure::usage("from_other_unit", format!("The --from document is of {unit}, and {named} is named."))
            .hint("Leave the name out: the document says which unit is meant.")),
    }
}
