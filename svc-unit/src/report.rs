//! The result of every step of this tool: the unit before and after.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_step::action::Action;
use svc_step::document::Time;
use svc_step::redact::without_secrets;
use svc_step::{Call, Failure, Status, StepResult, Stopped};

use crate::state::State;
use crate::systemctl;
use crate::unit::{Manager, Unit};

/// Why there was nothing to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Skipped {
    /// It was so already, or was on its way there.
    AlreadySo,
    /// There is no such unit, and so nothing to stop.
    NotThere,
    /// The unit was not running when the `--from` document was made.
    WasNotRunning,
}

/// A unit before and after the step.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Report {
    #[serde(flatten)]
    pub(crate) unit: Unit,
    /// Its state when the step began.
    pub(crate) before: State,
    /// Its state when the step ended, as it was read last.
    pub(crate) after: State,
    /// When systemd was asked to act, RFC 3339 in UTC; `null` if it was not.
    pub(crate) requested_at: Option<Time>,
    /// The same in milliseconds since 1970.
    pub(crate) requested_epoch_ms: Option<u64>,
    /// Why there was nothing to do; `null` if there was.
    pub(crate) skipped: Option<Skipped>,
    /// Units that require this one, are bound to it or are part of it: of `status` those that run, of `stop` those that were
    /// stopped along with it, of `start --from` those that were started again.
    pub(crate) dependents: Vec<String>,
    /// After a failure: the unit's last journal lines since the step began.
    pub(crate) journal: Vec<String>,
    /// The commands that act.
    pub(crate) plan: Vec<Action>,
}

type Done = Result<(), Failure>;

/// Runs a step on the unit. A failure of the unit comes with its journal.
pub(crate) fn of(call: &Call, step: &str, unit: Unit, act: impl FnOnce(&mut Report) -> Done) -> StepResult<Report> {
    let mut report = Report::new(call, step, unit)?;
    let ended = act(&mut report);
    if ended.as_ref().is_err_and(|failure| failure.status == Status::Failed && failure.signal.is_none()) {
        report.add_journal(call);
    }
    Stopped::ended(ended, report)
}

impl Report {
    pub(crate) fn new(call: &Call, step: &str, unit: Unit) -> Result<Self, Failure> {
        let before = systemctl::state(call, step, &unit)?;
        Ok(Self { unit, after: before.clone(), before, ..Self::default() })
    }

    /// The oldest line first, without the secrets that a service has written into its log.
    fn add_journal(&mut self, call: &Call) {
        let option = if self.unit.manager == Manager::User { "--user-unit" } else { "--unit" };
        let since = format!("@{}", call.started_at().as_second());
        // Backwards, since with a time to begin at, --lines counts from there and not from the end (seen on 252).
        let how = ["--no-pager", "--quiet", "--output=short-iso", "--utc", "--reverse", "--lines=20", "--since", &since];
        // Only an explanation: that there is none must not hide the failure itself.
        if let Ok(ended) = systemctl::capture(call, "journalctl", how.into_iter().chain([option, &self.unit.name])) {
            self.journal = String::from_utf8_lossy(&ended.stdout).lines().rev().map(without_secrets).collect();
        }
        if self.journal.is_empty() {
            let name = &self.unit.name;
            call.warn("not_checked", format!("The journal has no lines of {name} since the step began, or cannot be read."));
        }
    }
}
