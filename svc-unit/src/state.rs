//! A unit's state: its properties, typed, and what they mean.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;
use nix::time::{ClockId, clock_gettime};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_step::document::Time;

/// How a main process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Exit {
    /// By itself; `exec_main_status` is its exit status.
    Exited,
    /// By a signal; `exec_main_status` is its number.
    Killed,
    /// By a signal, leaving a core dump.
    Dumped,
}

/// A unit's properties. The words of systemd pass unchanged.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct State {
    /// `loaded`, `not-found`, `masked`, `bad-setting`, `error`.
    pub(crate) load_state: String,
    /// Why it could not be loaded.
    pub(crate) load_error: Option<String>,
    /// `active`, `inactive`, `failed`, `activating`, `deactivating`, `reloading`.
    pub(crate) active_state: String,
    /// The state in the words of the unit's type: `running`, `exited`, `dead`, `auto-restart`.
    pub(crate) sub_state: String,
    /// How it ended last: `success`, `exit-code`, `signal`, `timeout`, `oom-kill`, `start-limit-hit`.
    pub(crate) result: String,
    /// `simple`, `exec`, `forking`, `notify`, `oneshot`; `null` for a unit that is no service.
    pub(crate) service_type: Option<String>,
    /// The main process; `null` if there is none.
    pub(crate) main_pid: Option<u32>,
    /// How the main process ended last; `null` while it has not.
    pub(crate) exec_main_code: Option<Exit>,
    /// Its exit status, or the number of the signal; `null` while it has not ended.
    pub(crate) exec_main_status: Option<i32>,
    /// How often systemd has restarted it by itself since it was started.
    pub(crate) n_restarts: u64,
    /// `enabled`, `disabled`, `static`, `masked`; `null` if there is no unit file.
    pub(crate) unit_file_state: Option<String>,
    /// A new one each time it starts; `null` before.
    pub(crate) invocation_id: Option<String>,
    /// The unit file has changed on disk, and systemd has not read it again.
    pub(crate) need_daemon_reload: bool,
    /// A start or stop of it is running or waits for another unit's.
    pub(crate) job_pending: bool,
    /// The control group of its processes; `null` if there is none.
    pub(crate) control_group: Option<String>,
    /// When it became active last, RFC 3339 in UTC; `null` if it has not, or systemd forgot it.
    pub(crate) active_enter_at: Option<Time>,
    /// The same in milliseconds since 1970.
    pub(crate) active_enter_epoch_ms: Option<u64>,
    /// When it became inactive or failed last, RFC 3339 in UTC.
    pub(crate) inactive_enter_at: Option<Time>,
    /// The same in milliseconds since 1970.
    pub(crate) inactive_enter_epoch_ms: Option<u64>,
}

impl From<&BTreeMap<&str, &str>> for State {
    fn from(shown: &BTreeMap<&str, &str>) -> Self {
        let text = |key: &str| shown.get(key).copied().unwrap_or_default();
        let some = |key: &str| Some(text(key)).filter(|value| !value.is_empty()).map(str::to_owned);
        let time = |key: &str| timestamp(text(key), text(&format!("{key}Monotonic")));
        let code = match text("ExecMainCode") {
            "1" => Some(Exit::Exited),
            "2" => Some(Exit::Killed),
            "3" => Some(Exit::Dumped),
            _ => None,
        };
        let (active, inactive) = (time("ActiveEnterTimestamp"), time("InactiveEnterTimestamp"));
        Self {
            load_state: text("LoadState").to_owned(),
            load_error: some("LoadError"),
            active_state: text("ActiveState").to_owned(),
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
            control_group: some("ControlGroup"),
            active_enter_at: active.map(Time::from),
            active_enter_epoch_ms: active.map(epoch_ms),
            inactive_enter_at: inactive.map(Time::from),
            inactive_enter_epoch_ms: inactive.map(epoch_ms),
        }
    }
}

impl State {
    pub(crate) fn is_active(&self) -> bool {
        matches!(self.active_state.as_str(), "active" | "reloading" | "refreshing")
    }

    /// Inactive or failed, and nothing is about to start it.
    pub(crate) fn is_inactive(&self) -> bool {
        matches!(self.active_state.as_str(), "inactive" | "failed") && !self.job_pending
    }

    /// Of an inactive unit the processes in its control group and below it: `KillMode=process` leaves them.
    pub(crate) fn left_processes(&self) -> Vec<String> {
        let Some(group) = self.control_group.as_ref().filter(|_| self.is_inactive()) else { return Vec::new() };
        // systemd follows processes in version 2, or in a hierarchy of its own of version 1.
        let mut groups = Vec::from(["", "/systemd"].map(|hierarchy| PathBuf::from(format!("/sys/fs/cgroup{hierarchy}{group}"))));
        let mut found = Vec::new();
        while let Some(group) = groups.pop() {
            let processes = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
            found.extend(processes.lines().map(str::to_owned));
            let entries = fs::read_dir(group).into_iter().flatten().flatten();
            groups.extend(entries.map(|entry| entry.path()).filter(|path| path.is_dir()));
        }
        found
    }

    /// Neither a unit file nor a process. One whose file was removed while it runs still exists.
    pub(crate) fn is_missing(&self) -> bool {
        self.load_state == "not-found" && self.is_inactive()
    }

    /// On its way to being active; a oneshot unit does its work then.
    pub(crate) fn is_starting(&self) -> bool {
        self.active_state == "activating" && !self.is_between_restarts()
    }

    /// Waiting to be started again by systemd itself, after it ended.
    pub(crate) fn is_between_restarts(&self) -> bool {
        self.active_state == "activating" && self.sub_state.starts_with("auto-restart")
    }

    /// Active, on the way there, or about to be started: what `start --from` starts again.
    pub(crate) fn is_running(&self) -> bool {
        !self.is_inactive() && self.active_state != "deactivating"
    }

    /// Active and not about to be stopped, or on the way there.
    pub(crate) fn stays_up(&self) -> bool {
        self.is_active() && !self.job_pending || self.is_starting()
    }

    pub(crate) fn is_oneshot(&self) -> bool {
        self.service_type.as_deref() == Some("oneshot")
    }

    /// A oneshot unit that has ended well, or that has not run at all: an inactive unit keeps no trace of it.
    pub(crate) fn has_done_its_work(&self) -> bool {
        self.is_oneshot() && self.active_state == "inactive" && self.result == "success" && !self.job_pending
    }

    /// It was not started again between the two.
    pub(crate) fn is_same_run(&self, other: &Self) -> bool {
        self.invocation_id == other.invocation_id && self.n_restarts == other.n_restarts
    }

    pub(crate) fn active_for(&self) -> Duration {
        Duration::from_millis(epoch_ms(Timestamp::now()).saturating_sub(self.active_enter_epoch_ms.unwrap_or(u64::MAX)))
    }

    /// Whether it started, ended or changed its state between the two.
    pub(crate) fn differs(&self, before: &Self) -> bool {
        !self.is_same_run(before) || self.active_state != before.active_state || self.main_pid != before.main_pid
    }

    /// Its state as a phrase: `failed (exit-code, exit status 1)`.
    pub(crate) fn phrase(&self) -> String {
        let status = self.exec_main_status.unwrap_or_default();
        let end = match self.exec_main_code {
            Some(Exit::Exited) if status != 0 => format!("exit status {status}"),
            Some(Exit::Killed | Exit::Dumped) => format!("signal {status}"),
            _ => String::new(),
        };
        let sub_state = if self.sub_state == self.active_state { "" } else { &self.sub_state };
        let result = if self.result == "success" { "" } else { &self.result };
        let pending = if self.job_pending { "a job pending" } else { "" };
        let left = self.left_processes().iter().map(|pid| format!("process {pid} left")).collect::<Vec<_>>().join(", ");
        let parts: Vec<&str> = [sub_state, result, &end, pending, &left].into_iter().filter(|part| !part.is_empty()).collect();
        if parts.is_empty() { self.active_state.clone() } else { format!("{} ({})", self.active_state, parts.join(", ")) }
    }
}

/// A time as `systemctl show` prints it with `TZ=UTC`: the text has whole seconds in every version of systemd, and the monotonic
/// clock adds the fraction if the two agree (they do not after a suspend or a set clock).
fn timestamp(text: &str, monotonic_us: &str) -> Option<Timestamp> {
    let second = Timestamp::strptime("%a %Y-%m-%d %H:%M:%S UTC%z", format!("{text}+0000")).ok()?;
    let exact = || {
        let now = Duration::from(clock_gettime(ClockId::CLOCK_MONOTONIC).ok()?);
        Timestamp::now().checked_sub(now.checked_sub(Duration::from_micros(monotonic_us.parse().ok()?))?).ok()
    };
    Some(exact().filter(|exact| exact.as_second() == second.as_second()).unwrap_or(second))
}

pub(crate) fn epoch_ms(time: Timestamp) -> u64 {
    u64::try_from(time.as_millisecond()).unwrap_or_default()
}
