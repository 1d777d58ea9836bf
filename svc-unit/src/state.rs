//! A unit's state: its properties, typed, and what they mean.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_step::document::Time;

use crate::moment::Moment;

/// The properties that are asked for.
pub(crate) const PROPERTIES: &str = "LoadState,LoadError,ActiveState,SubState,Result,Type,MainPID,ExecMainCode,\
ExecMainStatus,NRestarts,UnitFileState,InvocationID,NeedDaemonReload,Job,ActiveEnterTimestamp,ActiveEnterTimestampMonotonic,\
InactiveEnterTimestamp,InactiveEnterTimestampMonotonic";

/// How a main process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    /// By itself; `exec_main_status` is its exit status.
    Exited,
    /// By a signal; `exec_main_status` is its number.
    Killed,
    /// By a signal, leaving a core dump.
    Dumped,
}

/// What the manager says of a unit. The words of systemd pass unchanged.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct State {
    /// `loaded`, `not-found`, `masked`, `bad-setting`, `error`.
    pub load_state: String,
    /// Why it could not be loaded.
    pub load_error: Option<String>,
    /// `active`, `inactive`, `failed`, `activating`, `deactivating`, `reloading`.
    pub active_state: String,
    /// The state in the words of the unit's kind: `running`, `exited`, `dead`, `auto-restart`.
    pub sub_state: String,
    /// How it ended last: `success`, `exit-code`, `signal`, `timeout`, `oom-kill`, `start-limit-hit`.
    pub result: String,
    /// `simple`, `exec`, `forking`, `notify`, `oneshot`; `null` for a unit that is no service.
    pub service_type: Option<String>,
    /// The main process; `null` where there is none.
    pub main_pid: Option<u32>,
    /// How the main process ended last; `null` while it has not.
    pub exec_main_code: Option<Exit>,
    /// Its exit status, or the number of the signal; `null` while it has not ended.
    pub exec_main_status: Option<i32>,
    /// How often the manager has restarted it by itself since it was started.
    pub n_restarts: u64,
    /// `enabled`, `disabled`, `static`, `masked`; `null` where there is no unit file.
    pub unit_file_state: Option<String>,
    /// A new one each time it starts; `null` before.
    pub invocation_id: Option<String>,
    /// The unit file has changed on disk, and the manager has not read it again.
    pub need_daemon_reload: bool,
    /// A start or stop of it is under way or waits for another unit's.
    pub job_pending: bool,
    /// When it became active last, RFC 3339 in UTC; `null` if it has not, or the manager forgot it.
    pub active_enter_at: Option<Time>,
    /// The same in milliseconds since 1970.
    pub active_enter_epoch_ms: Option<u64>,
    /// When it became inactive or failed last, RFC 3339 in UTC.
    pub inactive_enter_at: Option<Time>,
    /// The same in milliseconds since 1970.
    pub inactive_enter_epoch_ms: Option<u64>,
}

impl State {
    /// Reads what `systemctl show` printed; `None` where that is no account of a unit.
    #[must_use]
    pub fn parse(shown: &str) -> Option<Self> {
        let map: BTreeMap<&str, &str> = shown.lines().filter_map(|line| line.split_once('=')).collect();
        let text = |key: &str| map.get(key).copied().unwrap_or_default();
        let some = |key: &str| Some(text(key)).filter(|value| !value.is_empty()).map(str::to_owned);
        let moment = |key: &str| Moment::told(text(key), text(&format!("{key}Monotonic")));
        let code = match text("ExecMainCode") {
            "1" => Some(Exit::Exited),
            "2" => Some(Exit::Killed),
            "3" => Some(Exit::Dumped),
            _ => None,
        };
        let (active, inactive) = (moment("ActiveEnterTimestamp"), moment("InactiveEnterTimestamp"));
        Some(Self {
            load_state: some("LoadState")?,
            load_error: some("LoadError"),
            active_state: some("ActiveState")?,
            sub_state: text("SubState").to_owned(),
            result: text("Result").to_owned(),
            service_type: some("Type"),
            main_pid: text("MainPID").parse().ok().filter(|pid| *pid != 0),
            exec_main_code: code,
            exec_main_status: text("ExecMainStatus").parse().ok().filter(|_| code.is_some()),
            n_restarts: text("NRestarts").parse().unwrap_or_default(),
            unit_file_state: some("UnitFileState"),
            invocation_id: some("InvocationID"),
            need_daemon_reload: text("NeedDaemonReload") == "yes",
            job_pending: some("Job").is_some_and(|job| job != "0"),
            active_enter_at: active.map(Moment::time),
            active_enter_epoch_ms: active.map(Moment::epoch_ms),
            inactive_enter_at: inactive.map(Moment::time),
            inactive_enter_epoch_ms: inactive.map(Moment::epoch_ms),
        })
    }

    /// At work, as far as the manager knows.
    #[must_use]
    pub fn is_active(&self) -> bool {
        matches!(self.active_state.as_str(), "active" | "reloading" | "refreshing")
    }

    /// Not at work, and nothing is about to start or stop it.
    #[must_use]
    pub fn is_at_rest(&self) -> bool {
        matches!(self.active_state.as_str(), "inactive" | "failed") && !self.job_pending
    }

    /// On its way to being active; a oneshot unit is at its work then.
    #[must_use]
    pub fn is_starting(&self) -> bool {
        self.active_state == "activating" && !self.is_between_restarts()
    }

    /// Waiting to be started again by the manager itself, after it ended.
    #[must_use]
    pub fn is_between_restarts(&self) -> bool {
        self.active_state == "activating" && self.sub_state.starts_with("auto-restart")
    }

    /// At work, or on the way there: what `start --from` brings back.
    #[must_use]
    pub fn was_running(&self) -> bool {
        self.is_active() || self.active_state == "activating"
    }

    /// A unit that does its work and ends.
    #[must_use]
    pub fn is_oneshot(&self) -> bool {
        self.service_type.as_deref() == Some("oneshot")
    }

    /// A oneshot unit that has ended well, or that has not run at all: an inactive unit keeps no trace of it.
    #[must_use]
    pub fn has_done_its_work(&self) -> bool {
        self.is_oneshot() && self.active_state == "inactive" && self.result == "success" && !self.job_pending
    }

    /// The same run of the same unit: not started anew between the two.
    #[must_use]
    pub fn is_same_run(&self, other: &Self) -> bool {
        self.invocation_id == other.invocation_id && self.n_restarts == other.n_restarts
    }

    /// Whether something befell it between the two.
    #[must_use]
    pub fn differs(&self, before: &Self) -> bool {
        !self.is_same_run(before) || self.active_state != before.active_state || self.main_pid != before.main_pid
    }

    /// Whether a signal ended its main process.
    #[must_use]
    pub fn was_main_killed(&self) -> bool {
        matches!(self.exec_main_code, Some(Exit::Killed | Exit::Dumped))
    }

    /// Its state as a phrase: `failed (exit-code, exit status 1)`.
    #[must_use]
    pub fn phrase(&self) -> String {
        let mut parts = vec![];
        if !self.sub_state.is_empty() && self.sub_state != self.active_state {
            parts.push(self.sub_state.clone());
        }
        if self.result != "success" && !self.result.is_empty() {
            parts.push(self.result.clone());
        }
        let status = self.exec_main_status.unwrap_or_default();
        match self.exec_main_code {
            Some(Exit::Exited) if status != 0 => parts.push(format!("exit status {status}")),
            Some(Exit::Killed | Exit::Dumped) => parts.push(format!("signal {status}")),
            _ => {}
        }
        if parts.is_empty() { self.active_state.clone() } else { format!("{} ({})", self.active_state, parts.join(", ")) }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn state(text: &str) -> State {
        let shown = text.replace(' ', "\n");
        State::parse(&format!("LoadState=loaded\nResult=success\nNRestarts=0\nType=simple\n{shown}")).unwrap()
    }

    #[test]
    fn what_is_unset_is_null() {
        let state = state("ActiveState=inactive SubState=dead MainPID=0 ExecMainCode=0 ExecMainStatus=0 UnitFileState=");
        assert_eq!((state.main_pid, state.exec_main_code, state.exec_main_status), (None, None, None));
        assert_eq!((state.unit_file_state.clone(), state.invocation_id.clone()), (None, None));
        assert!(state.is_at_rest() && !state.was_running());
        assert_eq!(State::parse("Failed to connect to bus"), None);
    }

    #[test]
    fn a_unit_that_waits_for_its_start_is_not_at_rest() {
        assert!(!state("ActiveState=inactive Job=612").is_at_rest());
        assert!(state("ActiveState=failed Job=").is_at_rest());
    }

    #[test]
    fn the_phrase_says_how_it_ended() {
        let crashed = state("ActiveState=failed SubState=failed Result=exit-code ExecMainCode=1 ExecMainStatus=3");
        assert_eq!(crashed.phrase(), "failed (exit-code, exit status 3)");
        let killed = state("ActiveState=failed SubState=failed Result=timeout ExecMainCode=2 ExecMainStatus=9");
        assert_eq!(killed.phrase(), "failed (timeout, signal 9)");
        assert_eq!(state("ActiveState=active SubState=running").phrase(), "active (running)");
    }
}
