//! A request to the manager, followed until it has been carried out.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use svc_step::action::Action;
use svc_step::{Call, Failure};

use crate::manager;
use crate::moment::Moment;
use crate::report::Report;

/// How often the state is read while the manager is at work.
const LOOK: Duration = Duration::from_millis(100);

/// Notes what is going to be done.
pub(crate) fn plan(report: &mut Report, verb: &str) {
    report.plan = vec![Action::command(manager::command_line(&report.unit(), verb))];
}

/// Asks the manager to `verb` the unit and waits until systemctl has seen it done, keeping `report.after` up to date. Gives
/// what systemctl wrote to stderr and whether it complained, which explains but does not judge.
///
/// `changed` is true where something was seen to befall the unit; a request that was cut off counts as soon as it is seen in
/// the manager's queue. It is unknown where it was cut off before that (or the manager did not answer systemctl in time), and
/// where the unit stayed as it was because another, which it requires, failed to start.
///
/// # Errors
/// No rights (3), a signal, or the end of the time limit; the manager then goes on by itself.
pub(crate) fn send(call: &Call, report: &mut Report, verb: &str) -> Result<Complaint, Failure> {
    let unit = report.unit();
    let attempt = call.effects().attempt();
    report.requested(Moment::now());
    let progress = call.progress(&format!("{verb} {}", unit.name), svc_step::progress::Unit::Items("s"));
    let started = std::time::Instant::now();
    let (seen, queued, asked) = thread::scope(|scope| {
        let (say, said) = channel();
        let unit = &unit;
        scope.spawn(move || say.send(manager::ask(call, unit, verb)));
        let (mut seen, mut queued) = (false, false);
        let asked = loop {
            // Reading fails as soon as a signal has come; then systemctl is being ended too.
            if let Ok(state) = manager::state(call, unit) {
                seen |= state.differs(&report.before);
                queued |= state.job_pending;
                progress.set(started.elapsed().as_secs(), 0);
                progress.at(&state.phrase());
                report.after = state;
            }
            match said.recv_timeout(LOOK) {
                Err(RecvTimeoutError::Timeout) if call.check().is_ok() => {}
                Err(RecvTimeoutError::Timeout) => break said.recv().ok(),
                ended => break ended.ok(),
            }
        };
        (seen, queued, asked)
    });
    let ended = asked.unwrap_or_else(|| Err(Failure::failed("systemctl_lost", "The thread that ran systemctl broke off.")));
    let ended = match ended {
        Ok(ended) => ended,
        Err(failure) => {
            if seen || queued {
                attempt.happened();
            } else if failure.code == "systemctl_not_found" {
                attempt.refused();
            }
            return Err(failure);
        }
    };
    report.after = match manager::state(call, &unit) {
        Ok(state) => state,
        Err(failure) => {
            if seen || queued {
                attempt.happened();
            }
            return Err(failure);
        }
    };
    let complaint = Complaint { text: ended.stderr.trim().to_owned(), refused: !ended.status.success() };
    let cancelled = report.before.job_pending && !report.after.job_pending;
    // A oneshot unit that has run is forgotten already: an inactive unit keeps no trace.
    let ran = verb != "stop" && report.after.is_oneshot() && !complaint.refused;
    if seen || cancelled || ran || report.after.differs(&report.before) {
        attempt.happened();
    } else if !["dependency job", "timed out"].iter().any(|sign| complaint.text.contains(sign)) {
        attempt.refused();
    }
    if !seen && complaint.refused && manager::lacks_rights(&complaint.text) {
        return Err(manager::no_rights(&unit, verb, &complaint.text));
    }
    if !complaint.refused && !complaint.text.is_empty() {
        call.warn("systemctl_warning", format!("systemctl says: {}", complaint.text.replace('\n', " ")));
    }
    Ok(complaint)
}

/// What systemctl said.
#[derive(Debug, Default)]
pub(crate) struct Complaint {
    /// Its stderr.
    pub(crate) text: String,
    /// It ended with a status that is not 0.
    pub(crate) refused: bool,
}

/// Says, of a wait that was cut off by a signal or the time limit, what goes on without us and how to find out.
pub(crate) fn cut_off(failure: Failure, report: &Report, doing: &str, goal: &str) -> Failure {
    let cut_by = match (failure.signal, failure.code.as_str()) {
        (Some(signal), _) => format!("The call was ended by {}", svc_step::signals::name(signal)),
        (None, "timeout") => "The time limit came".to_owned(),
        _ => return failure,
    };
    let mut failure = failure;
    let unit = report.unit();
    let last = report.after.phrase();
    failure.message = format!("{cut_by} while {} was {doing}; it was {last} then, and systemd goes on by itself.", unit.name);
    if goal.is_empty() && report.after.is_oneshot() {
        // To wait for it would be to miss it: when it has done its work it is inactive, as it was before.
        return failure.hint(format!(
            "Look with svc-unit status {unit}: a oneshot unit that has done its work is inactive (or active and exited), with the result success."
        ));
    }
    failure.hint(format!("Find out with svc-unit wait {unit}{goal}, or look with svc-unit status {unit}."))
}
