//! The five steps: `status`, `stop` (procedure, 9.2 step 1), `start`, `restart` and `wait` (4.1, 9.3 steps 2 and 7).

use svc_step::common::DryRun;
use svc_step::from::{Accept, FromArg, Received};
use svc_step::reporter::shell_quoted;
use svc_step::{Call, Failure, StepResult};

use crate::dependents;
use crate::ready::{INTERVAL, Ready, ReadyArgs, died, until};
use crate::report::{self, Report, Skipped};
use crate::request::{Goal, interrupted, request};
use crate::state::{Exit, State};
use crate::systemctl::plan;
use crate::unit::{Unit, UnitArgs};

pub(crate) fn status(call: &Call, unit: Unit, expected: Option<Goal>) -> StepResult<Report> {
    report::of(call, "status", unit, |report| {
        if report.before.is_missing() {
            return Err(not_found(&report.unit));
        }
        report.dependents = dependents::running(call, &report.unit)?;
        expected.map_or(Ok(()), |goal| expect(goal, &report.unit, &report.before))
    })
}

fn expect(goal: Goal, unit: &Unit, state: &State) -> Result<(), Failure> {
    let (wanted, verb) = match goal {
        Goal::Inactive if state.is_inactive() => return Ok(()),
        Goal::Active if state.is_active() => return Ok(()),
        Goal::Inactive => ("inactive", "stop"),
        Goal::Active => ("active", "start"),
    };
    let pending = if state.job_pending { ", with a job pending" } else { "" };
    let message = format!("The unit {} was expected to be {wanted}, and is {}{pending}.", unit.name, state.phrase());
    let command = shell_quoted(&["svc-unit", verb, &unit.to_string()]);
    Err(Failure::refused("service_state", message).hint(format!("To {verb} it:\n  {command}")))
}

fn not_found(unit: &Unit) -> Failure {
    Failure::not_found("unit_not_found", format!("There is no unit {}.", unit.name))
        .hint("Name the right one, or set SVC_UNIT; systemctl list-unit-files (with --user) lists them.")
}

pub(crate) fn stop(call: &Call, unit: Unit, dry_run: bool) -> StepResult<Report> {
    report::of(call, "stop", unit, |report| {
        if report.before.is_inactive() {
            report.skipped = Some(if report.before.is_missing() { Skipped::NotThere } else { Skipped::AlreadySo });
            return Ok(());
        }
        report.plan = vec![plan(&report.unit, "stop")];
        report.dependents = dependents::running(call, &report.unit)?;
        if dry_run {
            return Ok(());
        }
        act_stop(call, report).map_err(|failure| interrupted(failure, report, Goal::Inactive))?;
        warn_of_end(call, report);
        dependents::stopped(call, report)
    })
}

fn act_stop(call: &Call, report: &mut Report) -> Result<(), Failure> {
    let answer = request(call, report, "stop")?;
    if report.after.is_inactive() {
        return Ok(());
    }
    let (unit, flag, name) = (&report.unit.name, report.unit.manager.flag(), shell_quoted(&[&report.unit.name]));
    Err(Failure::failed("unit_failed", format!("{unit} was to stop and is {}.", report.after.phrase()))
        .hint(format!("What starts it again, or forbids the stop: systemctl {flag}show -p TriggeredBy,RefuseManualStop {name}"))
        .cause(answer.stderr))
}

/// How it ended. The result of a unit that ran is of this stop: it is cleared when a unit starts. One that had ended before, and
/// whose next start was only taken out of the queue, still has the former one.
fn warn_of_end(call: &Call, Report { unit, before, after, .. }: &Report) {
    let had_ended = !before.is_running() && before.active_state != "deactivating" || before.is_between_restarts();
    if had_ended && after.is_same_run(before) {
        return;
    }
    let (unit, end) = (&unit.name, after.phrase());
    let main_was_killed = matches!(after.exec_main_code, Some(Exit::Killed | Exit::Dumped));
    match after.result.as_str() {
        // A unit that is no service may have no result at all (a target, a slice).
        "success" | "" => {}
        // A program may well end with a status of its own when it is told to (a Java virtual machine: 143).
        "exit-code" => call.warn("unit_failed", format!("{unit} is stopped, and did not end cleanly: {end}.")),
        // The stop of a service that dies at each start comes now and then into such a start.
        "signal" if before.active_state == "activating" && !main_was_killed => call.warn(
            "unit_failed",
            format!("{unit} is stopped; it was starting, and the programs before its main process were ended: {end}."),
        ),
        _ => call.review(
            "unit_failed",
            format!("{unit} is stopped, and had to be killed or was interrupted: {end}. What it was writing may be incomplete."),
        ),
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct StartArgs {
    #[command(flatten)]
    unit: UnitArgs,
    #[command(flatten)]
    from: FromArg,
    /// Start only what ran along with the unit when the --from document was made, and is down now
    #[arg(long, requires = "from")]
    dependents: bool,
    #[command(flatten)]
    ready: ReadyArgs,
    #[command(flatten)]
    pub(crate) dry: DryRun,
}

pub(crate) fn start(args: &StartArgs, call: &Call) -> StepResult<Report> {
    let ready = args.ready.ready()?;
    let then = received(args, call)?;
    let unit = then.as_ref().map_or_else(|| args.unit.unit(), |then| then.unit.clone());
    report::of(call, "start", unit, |report| {
        let down = dependents::down(call, &report.unit, then.as_ref().map_or(&[], |then| &then.dependents))?;
        let before = &report.before;
        if args.dependents {
            // The start of what requires the unit would start it too; it was started by others, and has settled.
            if !before.has_done_its_work() && !down.is_empty() {
                expect(Goal::Active, &report.unit, before)?;
            }
            report.skipped = Some(Skipped::AlreadySo);
        } else if then.as_ref().is_some_and(|then| !then.before.is_running()) {
            report.skipped = Some(Skipped::WasNotRunning);
            return Ok(());
        } else {
            startable(&report.unit, before)?;
            if before.is_active() || before.is_starting() {
                // One that is starting needs no second request, only to be waited for.
                report.skipped = Some(Skipped::AlreadySo);
            } else {
                report.plan = vec![plan(&report.unit, "start")];
            }
        }
        report.plan.extend(down.iter().map(|unit| plan(unit, "start")));
        if args.dry.dry_run {
            return Ok(());
        }
        if !args.dependents {
            act(call, report, "start", &ready)?;
        }
        dependents::start(call, report, down)
    })
}

/// The result of the --from document.
fn received(args: &StartArgs, call: &Call) -> Result<Option<Report>, Failure> {
    let Some(from) = &args.from.from else { return Ok(None) };
    let then = Received::read(call, from, &["svc-unit.status/1", "svc-unit.stop/1"], Accept::Successful)?.result::<Report>()?;
    let Some(named) = args.unit.named().filter(|named| *named != then.unit) else { return Ok(Some(then)) };
    let message = format!("The --from document is of {}, and {named} is named.", then.unit);
    Err(Failure::usage("from_invalid", message).hint("Leave the name out: the document says which unit it is."))
}

pub(crate) fn restart(call: &Call, unit: Unit, ready: &ReadyArgs, dry_run: bool) -> StepResult<Report> {
    let ready = ready.ready()?;
    report::of(call, "restart", unit, |report| {
        startable(&report.unit, &report.before)?;
        report.plan = vec![plan(&report.unit, "restart")];
        if dry_run { Ok(()) } else { act(call, report, "restart", &ready) }
    })
}

/// Whether systemd can start it at all.
fn startable(unit: &Unit, state: &State) -> Result<(), Failure> {
    let (name, flag, quoted) = (&unit.name, unit.manager.flag(), shell_quoted(&[&unit.name]));
    match state.load_state.as_str() {
        "loaded" => Ok(()),
        "not-found" => Err(not_found(unit)),
        "masked" => Err(Failure::refused("unit_failed", format!("{name} is masked, so that nobody starts it by mistake."))
            .hint(format!("When it may be started: systemctl {flag}unmask {quoted}"))),
        other => Err(Failure::invalid("unit_failed", format!("The unit file of {name} cannot be used: {other}."))
            .hint(format!("systemd-analyze {flag}verify {quoted} names the line."))
            .cause(state.load_error.clone().unwrap_or_default())),
    }
}

/// Sends the request, unless it was skipped, and waits until the unit is stable and ready.
fn act(call: &Call, report: &mut Report, verb: &str, ready: &Ready) -> Result<(), Failure> {
    let sent = if report.skipped.is_none() { send(call, report, verb) } else { Ok(()) };
    let ready = sent.and_then(|()| ready.wait(call, report, false));
    ready.map_err(|failure| interrupted(failure, report, Goal::Active))?;
    if report.after.need_daemon_reload {
        let why = "has changed on disk and is not in force: run systemctl daemon-reload.";
        call.warn("external_warning", format!("The file of {} {why}", report.unit.name));
    }
    Ok(())
}

/// Waits as long as the request is in systemd's queue. A restart that is refused leaves the previous run active, by its invocation ID.
fn send(call: &Call, report: &mut Report, verb: &str) -> Result<(), Failure> {
    let answer = request(call, report, verb)?;
    if !answer.status.success() && report.after.is_inactive() {
        return Err(died(report, false).cause(answer.stderr));
    }
    let is_former = |Report { before, after, .. }: &Report| {
        verb == "restart" && after.is_same_run(before) && before.invocation_id.is_some() && !after.is_inactive()
    };
    until(call, report, verb, |report| Ok((is_former(report) && report.after.job_pending).then_some(INTERVAL)))?;
    if !is_former(report) {
        return Ok(());
    }
    let (unit, flag, state) = (&report.unit.name, report.unit.manager.flag(), report.after.phrase());
    let name = shell_quoted(&[unit]);
    Err(Failure::failed("unit_failed", format!("systemd did not restart {unit}: it is {state}, the same run as before."))
        .hint(format!("What stands in the way: systemctl {flag}list-jobs; systemctl {flag}show -p RefuseManualStop {name}"))
        .cause(answer.stderr))
}

pub(crate) fn wait(call: &Call, unit: Unit, goal: Goal, ready: &ReadyArgs) -> StepResult<Report> {
    let ready = ready.ready()?;
    report::of(call, "wait", unit, |report| {
        let waited = match goal {
            Goal::Active => {
                if !report.before.is_active() {
                    startable(&report.unit, &report.before)?;
                }
                ready.wait(call, report, true)
            }
            Goal::Inactive => until(call, report, "wait for", |report| Ok((!report.after.is_inactive()).then_some(INTERVAL))),
        };
        waited.map_err(|failure| interrupted(failure, report, goal))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::tests::state;

    #[test]
    fn starting_unit_is_neither_active_nor_inactive() {
        let unit: Unit = "user:app".parse().unwrap();
        for (shown, inactive, active) in [
            ("ActiveState=inactive", true, false),
            ("ActiveState=failed", true, false),
            ("ActiveState=inactive Job=7", false, false),
            ("ActiveState=activating", false, false),
            ("ActiveState=active", false, true),
        ] {
            let is = |goal| expect(goal, &unit, &state(shown)).is_ok();
            assert_eq!((is(Goal::Inactive), is(Goal::Active)), (inactive, active), "{shown}");
        }
        let failure = expect(Goal::Inactive, &unit, &state("ActiveState=active")).unwrap_err();
        assert_eq!((failure.status.code(), failure.hint.as_deref()), (3, Some("To stop it:\n  svc-unit stop user:app.service")));
    }
}
