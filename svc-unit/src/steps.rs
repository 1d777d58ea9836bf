//! The five steps: `status`, `stop` (procedure, 9.2 step 1), `start`, `restart` and `wait` (4.1, 9.3 steps 2 and 7).

use svc_step::common::DryRun;
use svc_step::from::{Accept, FromArg, Received};
use svc_step::reporter::shell_quoted;
use svc_step::{Call, Failure, Status, StepResult};

use crate::dependents;
use crate::ready::{INTERVAL, Ready, ReadyArgs, died, until, until_stable};
use crate::report::{self, Report, Skipped};
use crate::request::{Goal, interrupted, request};
use crate::state::{Exit, State};
use crate::systemctl::{self, Shown, plan, show};
use crate::unit::{Unit, UnitArgs};

pub(crate) fn status(call: &Call, unit: Unit, expected: Option<Goal>) -> StepResult<Report> {
    report::of(call, "status", unit, |report| {
        let (up, running) = dependents::up(call, report)?;
        report.dependents = running;
        match expected {
            Some(Goal::Inactive) if !up.is_empty() => Err(unexpected(report, "down", "stop", &up)),
            _ if report.before.is_missing() => Err(not_found(&report.unit)),
            Some(Goal::Active) if !report.before.is_active() => Err(unexpected(report, "active", "start", &[])),
            _ => Ok(()),
        }
    })
}

/// The unit, or what stops along with it, is not as it was expected; `up` is what ought to be down.
fn unexpected(report: &Report, wanted: &str, verb: &str, up: &[Shown]) -> Failure {
    let own = up.is_empty().then(|| format!("it is {}", report.before.phrase()));
    let states = up.iter().map(|shown| format!("{} is {}", shown.unit.name, shown.state.phrase())).chain(own);
    let states = states.collect::<Vec<_>>().join(", ");
    let message = format!("The unit {} was expected to be {wanted}: {states}.", report.unit.name);
    let unit = up.iter().find(|shown| !shown.state.is_inactive()).map_or(&report.unit, |shown| &shown.unit);
    let pids: Vec<String> = up.iter().flat_map(|shown| shown.state.left_processes()).collect();
    Failure::refused("service_state", message).hint(if pids.is_empty() {
        format!("To {verb} it:\n  {}", shell_quoted(&["svc-unit", verb, &unit.to_string()]))
    } else {
        let instead = "KillMode=mixed ends them; what is to live on needs its own unit (systemd-run).";
        format!("{instead} To end them now:\n  kill {}", pids.join(" "))
    })
}

fn not_found(unit: &Unit) -> Failure {
    Failure::not_found("unit_not_found", format!("There is no unit {}.", unit.name)).hint(
        "Name the right one, or set SVC_UNIT (SVC_PG_UNIT, SVC_SEARCH_UNIT); systemctl list-unit-files (with --user) lists them.",
    )
}

pub(crate) fn stop(call: &Call, unit: Unit, dry_run: bool) -> StepResult<Report> {
    report::of(call, "stop", unit, |report| {
        let (up, running) = dependents::up(call, report)?;
        // systemd stops nothing by the name of a unit that is not there.
        if up.is_empty() || report.before.is_missing() {
            report.skipped = Some(if report.before.is_missing() { Skipped::NotThere } else { Skipped::AlreadySo });
            return if up.is_empty() { Ok(()) } else { Err(unexpected(report, "down", "stop", &up)) };
        }
        report.plan = vec![plan(&report.unit, "stop")];
        report.dependents = running;
        if dry_run {
            return Ok(());
        }
        act_stop(call, report).map_err(|failure| interrupted(failure, report, Goal::Inactive))?;
        for Shown { unit, state, .. } in up {
            warn_of_end(call, &unit.name, &state, &systemctl::state(call, "stop", &unit)?);
        }
        if !report.dependents.is_empty() {
            let (name, names) = (&report.unit.name, report.dependents.join(", "));
            call.warn("dependents_stopped", format!("Stopped along with {name}: {names}; start --from starts them again."));
        }
        Ok(())
    })
}

fn act_stop(call: &Call, report: &mut Report) -> Result<(), Failure> {
    let answer = request(call, report, "stop")?;
    if report.after.is_inactive() {
        return until_down(call, report);
    }
    let (unit, flag, name) = (&report.unit.name, report.unit.manager.flag(), shell_quoted(&[&report.unit.name]));
    Err(Failure::failed("unit_failed", format!("{unit} was told to stop and is {}.", report.after.phrase()))
        .hint(format!("What starts it again, or forbids the stop: systemctl {flag}show -p TriggeredBy,RefuseManualStop {name}"))
        .cause(answer.stderr))
}

/// Waits until all is down: what stops along with the unit need not stop before it, and `KillMode=process` leaves processes.
fn until_down(call: &Call, report: &mut Report) -> Result<(), Failure> {
    let mut up = Vec::new();
    let ended = until(call, report, "wait for the end of", |report| {
        up = dependents::up(call, report)?.0;
        Ok((!up.is_empty()).then_some(INTERVAL))
    });
    match ended {
        Err(failure) if failure.code == "timeout" && report.after.is_inactive() => {
            Err(Failure { status: Status::Failed, code: "unit_failed".to_owned(), ..unexpected(report, "down", "stop", &up) })
        }
        ended => ended,
    }
}

/// How it ended. A start clears the result; one that had ended before, and was only taken out of the queue, has the former one.
fn warn_of_end(call: &Call, unit: &str, before: &State, after: &State) {
    let had_ended = matches!(before.active_state.as_str(), "inactive" | "failed") || before.is_between_restarts();
    if had_ended && after.is_same_run(before) {
        return;
    }
    let end = after.phrase();
    // The stop of a service that dies at each start comes now and then into such a start. And a program may well end with a status
    // of its own when it is told to (a Java virtual machine: 143).
    let start_ended = after.result == "signal"
        && before.active_state == "activating"
        && !matches!(after.exec_main_code, Some(Exit::Killed | Exit::Dumped));
    match after.result.as_str() {
        // A unit that is no service may have no result at all (a target, a slice).
        "success" | "" => {}
        result if start_ended || result == "exit-code" => {
            call.warn("unit_failed", format!("{unit} is stopped, and did not end cleanly: {end}."));
        }
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
    /// Start the unit also if it did not run when the --from document was made
    #[arg(long, requires = "from")]
    always: bool,
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
        let named = then.as_ref().map_or(&[][..], |then| &then.dependents);
        let named = show(call, "status", report.unit.manager, named, "")?.into_iter().filter(|shown| !shown.state.stays_up());
        let down = Vec::from_iter(named.map(|shown| shown.unit));
        if !args.always && then.as_ref().is_some_and(|then| !then.before.is_running()) {
            report.skipped = Some(Skipped::WasNotRunning);
        } else {
            startable(&report.unit, &report.before)?;
            if report.before.stays_up() {
                report.skipped = Some(Skipped::AlreadySo);
            } else {
                report.plan = vec![plan(&report.unit, "start")];
            }
        }
        report.plan.extend(down.iter().map(|unit| plan(unit, "start")));
        if args.dry.dry_run {
            return Ok(());
        }
        if report.skipped == Some(Skipped::WasNotRunning) {
            return dependents::start(call, report, down);
        }
        act(call, report, "start", &ready, down)
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
        if dry_run { Ok(()) } else { act(call, report, "restart", &ready, Vec::new()) }
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

/// Sends the request, unless it was skipped, waits until the unit is stable, starts what is `down`, and waits for the answers: one of
/// those may give them.
fn act(call: &Call, report: &mut Report, verb: &str, ready: &Ready, down: Vec<Unit>) -> Result<(), Failure> {
    let sent = if report.skipped.is_none() { send(call, report, verb) } else { Ok(()) };
    let stable = sent.and_then(|()| until_stable(call, report, ready.settle, false));
    stable.map_err(|failure| interrupted(failure, report, Goal::Active))?;
    if report.after.need_daemon_reload {
        let why = format!("has changed on disk and is not in force: run systemctl {}daemon-reload.", report.unit.manager.flag());
        call.warn("external_warning", format!("The file of {} {why}", report.unit.name));
    }
    dependents::start(call, report, down)?;
    ready.until_answered(call, report).map_err(|failure| interrupted(failure, report, Goal::Active))
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
                until_stable(call, report, ready.settle, true).and_then(|()| ready.until_answered(call, report))
            }
            Goal::Inactive => until_down(call, report),
        };
        waited.map_err(|failure| interrupted(failure, report, goal))
    })
}
