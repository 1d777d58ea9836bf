//! What every step of this tool says: the unit before and after.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_step::action::Action;
use svc_step::document::Time;
use svc_step::{Failure, Stopped};

use crate::moment::Moment;
use crate::name::{Manager, Unit};
use crate::state::State;

/// Why there was nothing to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Skipped {
    /// It was so already, or was on its way there.
    AlreadySo,
    /// There is no such unit, and so nothing to stop.
    NotThere,
    /// The `--from` document says that the unit was not running then.
    WasNotRunning,
}

/// A unit before and after the step.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    /// The unit's name.
    pub unit: String,
    /// Who manages it.
    pub manager: Manager,
    /// Its state when the step began.
    pub before: State,
    /// Its state when the step ended, as it was last seen.
    pub after: State,
    /// When the manager was asked to act, RFC 3339 in UTC; `null` where it was not.
    pub requested_at: Option<Time>,
    /// The same in milliseconds since 1970.
    pub requested_epoch_ms: Option<u64>,
    /// Why there was nothing to do; `null` where there was.
    pub skipped: Option<Skipped>,
    /// Units that require this one, are bound to it or are part of it: of `status` those that run, of `stop` those that were
    /// stopped along with it, of `start --from` those that were started again.
    #[serde(default)]
    pub dependents: Vec<String>,
    /// After a failure: the unit's last journal lines since the step began.
    pub journal: Vec<String>,
    /// The commands that act.
    pub plan: Vec<Action>,
}

impl Report {
    pub(crate) fn new(unit: &Unit, before: State) -> Self {
        Self {
            unit: unit.name.clone(),
            manager: unit.manager,
            after: before.clone(),
            before,
            requested_at: None,
            requested_epoch_ms: None,
            skipped: None,
            dependents: Vec::new(),
            journal: Vec::new(),
            plan: Vec::new(),
        }
    }

    pub(crate) fn unit(&self) -> Unit {
        Unit { name: self.unit.clone(), manager: self.manager }
    }

    pub(crate) fn requested(&mut self, moment: Moment) {
        self.requested_at = Some(moment.time());
        self.requested_epoch_ms = Some(moment.epoch_ms());
    }

    pub(crate) fn skip(mut self, why: Skipped) -> Self {
        self.skipped = Some(why);
        self
    }

    pub(crate) fn stop(self, failure: Failure) -> Stopped<Self> {
        Stopped::with(failure, self)
    }
}
