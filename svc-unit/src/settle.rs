//! Started means: active, the same main process and no restart, for as long as `--settle` says.

use std::time::{Duration, Instant};

use clap::Args;
use svc_step::{Call, Failure, deadline};

use crate::manager;
use crate::moment::Moment;
use crate::report::Report;
use crate::state::State;

/// How often the state is read.
pub(crate) const LOOK: Duration = Duration::from_millis(200);

/// How long a unit must hold.
#[derive(Debug, Clone, Copy, Args)]
pub struct SettleArgs {
    /// How long it must be active with the same main process and without a restart
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = deadline::parse)]
    pub settle: Duration,
}

/// What one look at a unit says, beside the look before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Look {
    /// On its way to some other state.
    Changing,
    /// Active for the first time, or with a main process that was handed over: it counts from now.
    Fresh,
    /// Active as before.
    Steady,
    /// Has done what it was started for; there is nothing to hold.
    Done,
    /// It ended and was started again, or waits for that.
    Restarted,
    /// It is not at work, and nothing starts it.
    AtRest,
}

/// Judges one look; `base` is the state since which it counts.
pub(crate) fn look(now: &State, base: Option<&State>) -> Look {
    if now.is_between_restarts() || base.is_some_and(|base| !now.is_at_rest() && !now.is_same_run(base)) {
        return Look::Restarted;
    }
    if now.is_active() {
        return match base {
            _ if now.sub_state == "exited" => Look::Done,
            Some(base) if now.main_pid == base.main_pid => Look::Steady,
            _ => Look::Fresh,
        };
    }
    if now.is_at_rest() { Look::AtRest } else { Look::Changing }
}

/// What to make of a unit that does not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Patience {
    /// It has just been started: an end or a restart is a failure.
    None,
    /// Somebody else starts it: count anew after a restart, and wait on while it is inactive. Failed is a failure.
    UntilFailed,
}

/// Waits until the unit has settled, keeping `report.after` up to date.
///
/// # Errors
/// It ended or was restarted (1), a signal, or the end of the time limit.
pub(crate) fn settle(call: &Call, report: &mut Report, wanted: Duration, patience: Patience) -> Result<(), Failure> {
    let progress = call.progress(&format!("wait for {}", report.unit), svc_step::progress::Unit::Items("s"));
    let started = Instant::now();
    let mut base: Option<(State, Instant)> = None;
    // A oneshot unit that was seen at its work and is inactive then has done it.
    let mut at_work = report.after.is_starting();
    loop {
        let now = manager::state(call, &report.unit())?;
        at_work |= now.is_starting();
        report.after = now.clone();
        progress.set(started.elapsed().as_secs(), 0);
        progress.at(&now.phrase());
        match look(&now, base.as_ref().map(|(state, _)| state)) {
            Look::Done => return Ok(()),
            Look::AtRest if at_work && now.has_done_its_work() => return Ok(()),
            Look::Fresh => {
                let since = if base.is_none() { since_active(&now, wanted) } else { Instant::now() };
                base = Some((now, since));
            }
            Look::Restarted if patience == Patience::None => return Err(died(report, base.is_some())),
            Look::AtRest if patience == Patience::None || now.active_state == "failed" => {
                return Err(died(report, base.is_some()));
            }
            Look::Restarted | Look::AtRest => base = None,
            Look::Steady | Look::Changing => {}
        }
        let held = base.as_ref().filter(|_| report.after.is_active()).map(|(_, since)| since.elapsed());
        if held.is_some_and(|held| held >= wanted) {
            return Ok(());
        }
        let left = held.map_or(LOOK, |held| wanted.saturating_sub(held));
        call.pause(LOOK.min(left))?;
    }
}

/// It counts from when the unit became active, so that one that has been so for long need not be watched.
fn since_active(state: &State, wanted: Duration) -> Instant {
    let now = Moment::now().epoch_ms();
    let age = state.active_enter_epoch_ms.map_or(0, |since| now.saturating_sub(since));
    let age = Duration::from_millis(age).min(wanted);
    Instant::now().checked_sub(age).unwrap_or_else(Instant::now)
}

/// The failure of a unit that did not hold.
pub(crate) fn died(report: &Report, was_active: bool) -> Failure {
    let (unit, flag, state) = (&report.unit, report.unit().flag(), &report.after);
    if report.requested_at.is_some() && state.active_state == "failed" && state.invocation_id == report.before.invocation_id {
        // Nothing of the result is of this request: systemd leaves the former one where it refuses a further start.
        return Failure::failed(
            "unit_not_started",
            format!("systemd did not start {unit} again: it is still {}.", state.phrase()),
        )
        .hint(format!("Started too often in a short time? Then systemctl {flag}reset-failed {unit}, and start it again."));
    }
    let (code, what) =
        if was_active { ("unit_died", "became active and did not stay so") } else { ("unit_not_started", "did not start") };
    let failure = Failure::failed(code, format!("{unit} {what}: it is {}.", state.phrase()));
    if state.result == "start-limit-hit" {
        return failure
            .hint(format!("It was started too often in a short time: mend it, then systemctl {flag}reset-failed {unit}."));
    }
    if state.active_state == "inactive" && matches!(state.result.as_str(), "success" | "") {
        return failure.hint(format!(
            "Its program ended by itself, a condition of the unit is not met, or a unit that it requires failed: systemctl {flag}status {unit}."
        ));
    }
    failure.hint(format!("Read why with journalctl {flag}-u {unit} (result.journal has the last lines); then start it again."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::tests::state;

    #[test]
    fn a_unit_holds_while_run_and_main_process_are_the_same() {
        let first = state("ActiveState=active SubState=running MainPID=10 InvocationID=a");
        assert_eq!(look(&first, None), Look::Fresh);
        assert_eq!(look(&first, Some(&first)), Look::Steady);
        let handed_over = state("ActiveState=active SubState=running MainPID=11 InvocationID=a");
        assert_eq!(look(&handed_over, Some(&first)), Look::Fresh);
        let reloading = state("ActiveState=reloading SubState=reload MainPID=10 InvocationID=a");
        assert_eq!(look(&reloading, Some(&first)), Look::Steady);
    }

    #[test]
    fn a_restart_is_seen_by_its_count_its_invocation_and_its_waiting_state() {
        let first = state("ActiveState=active SubState=running MainPID=10 InvocationID=a");
        for text in [
            "ActiveState=active SubState=running MainPID=11 InvocationID=b",
            "ActiveState=active SubState=running MainPID=11 InvocationID=a NRestarts=1",
            "ActiveState=activating SubState=auto-restart InvocationID=a",
            "ActiveState=activating SubState=start-pre InvocationID=b",
        ] {
            assert_eq!(look(&state(text), Some(&first)), Look::Restarted, "{text}");
        }
        assert_eq!(look(&state("ActiveState=activating SubState=auto-restart"), None), Look::Restarted);
    }

    #[test]
    fn an_end_is_seen_and_what_is_under_way_is_waited_for() {
        let first = state("ActiveState=active SubState=running MainPID=10 InvocationID=a");
        assert_eq!(look(&state("ActiveState=failed InvocationID=a"), Some(&first)), Look::AtRest);
        assert_eq!(look(&state("ActiveState=inactive"), Some(&first)), Look::AtRest);
        assert_eq!(look(&state("ActiveState=inactive Job=7"), None), Look::Changing);
        assert_eq!(look(&state("ActiveState=activating SubState=start"), None), Look::Changing);
        assert_eq!(look(&state("ActiveState=deactivating SubState=stop-post InvocationID=a"), Some(&first)), Look::Changing);
        assert_eq!(look(&state("ActiveState=active SubState=exited"), None), Look::Done);
    }
}
