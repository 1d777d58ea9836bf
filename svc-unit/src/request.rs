//! A request to systemd, which ends when its job has.

use std::thread;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use jiff::Timestamp;
use svc_step::child::Captured;
use svc_step::reporter::shell_quoted;
use svc_step::{Call, Failure};

use crate::ready;
use crate::report::Report;
use crate::state::epoch_ms;
use crate::systemctl::{NOT_PERMITTED, arguments, capture, is_of_another_user, no_rights, show, state};
use crate::unit::Unit;

/// What is waited for, or expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Goal {
    /// Active; of `wait` also stable and ready
    Active,
    /// Inactive or failed, as is all that stops along with it, and nothing about to start it
    Inactive,
}

/// Asks systemd to `verb` the unit and waits until its job has ended, keeping `report.after` up to date. An exit status of 0 says
/// that the job ended well, or that there was nothing to do; what is on stderr is for people.
///
/// `changed` is unknown if the request failed and nothing shows that it had no effect: a unit that it requires failed to start.
pub(crate) fn request(call: &Call, report: &mut Report, verb: &str) -> Result<Captured, Failure> {
    let (unit, before) = (report.unit.clone(), report.before.clone());
    let attempt = call.effects().attempt();
    let now = Timestamp::now();
    (report.requested_at, report.requested_epoch_ms) = (Some(now.into()), Some(epoch_ms(now)));
    let (started, mut changed) = (Instant::now(), false);
    let ended = thread::scope(|scope| {
        let arguments = arguments(unit.manager, &[verb], std::slice::from_ref(&unit.name));
        let request = scope.spawn(|| capture(call, "systemctl", arguments));
        // It fails as soon as a signal has come; systemctl is being ended then too, and gives the reason.
        let _ = ready::until(call, report, verb, |report| {
            changed |= report.after.differs(&before);
            // Often at first, so that a quick stop is not kept waiting.
            Ok((!request.is_finished()).then(|| Duration::from_millis(20).max(started.elapsed() / 4)))
        });
        request.join().unwrap_or_else(|_| Err(Failure::fault("The thread that ran systemctl failed.")))
    });
    let ended = ended.and_then(|answer| Ok((answer, state(call, verb, &unit)?)));
    let (answer, after) = ended.inspect_err(|_| {
        if changed || report.after.job_pending {
            call.effects().happened();
        }
    })?;
    let (done, text) = (answer.status.success(), answer.stderr.trim());
    // A oneshot unit that has run is forgotten already: an inactive unit keeps no trace.
    let ran = done && verb != "stop" && after.is_oneshot();
    let cancelled = before.job_pending && !after.job_pending;
    // What stops along with it may run although it has ended.
    changed |= ran || cancelled || (done && !report.dependents.is_empty()) || after.differs(&before);
    report.after = after;
    let is_denied = is_of_another_user(unit.manager);
    if changed {
        attempt.happened();
    } else if done
        || answer.status.code() == Some(NOT_PERMITTED)
        // A failed unit that is failed as before was started too often in a short time.
        || ((is_denied || before.active_state == "failed") && !requirement_failed(call, &unit)?)
    {
        attempt.refused();
        if is_denied && !done {
            return Err(no_rights(unit.manager, verb, &unit.name, text));
        }
    }
    if done && !text.is_empty() {
        call.warn("external_warning", format!("systemctl says: {}", text.replace('\n', " ")));
    }
    Ok(answer)
}

/// Of a wait that a signal or the time limit has ended: systemd continues by itself, and which command finds out.
pub(crate) fn interrupted(mut failure: Failure, report: &Report, goal: Goal) -> Failure {
    let by = match (failure.signal, failure.code.as_str()) {
        (Some(signal), _) => format!("The call was ended by {}", svc_step::signals::name(signal)),
        (None, "timeout") => "The time limit came".to_owned(),
        _ => return failure,
    };
    let (unit, option) = (shell_quoted(&[report.unit.to_string()]), if goal == Goal::Inactive { " --for inactive" } else { "" });
    failure.message = format!("{by} while {} was {}; systemd continues by itself.", report.unit.name, report.after.phrase());
    if goal == Goal::Active && report.after.is_oneshot() {
        // To wait for it would be to miss it: when it has done its work it is inactive, as it was before.
        return failure.hint(format!(
            "Run svc-unit status {unit}: a oneshot unit that has done its work is inactive (or active and exited), with the result success."
        ));
    }
    failure.hint(format!("Find out with svc-unit wait {unit}{option}, or svc-unit status {unit}."))
}

/// Whether a unit that `unit` requires is not active, nor done: systemd then fails the start of `unit` and leaves no trace of it.
fn requirement_failed(call: &Call, unit: &Unit) -> Result<bool, Failure> {
    let requirements = "Requires,Requisite,BindsTo";
    let required = show(call, "status", unit.manager, std::slice::from_ref(&unit.name), requirements)?.pop();
    let required = required.map_or_else(Vec::new, |shown| shown.related);
    let required = show(call, "status", unit.manager, &required, "")?;
    Ok(required.iter().any(|shown| !shown.state.is_active() && !shown.state.has_done_its_work()))
}
