//! The request of `register`, and what the server shows after it.

use serde_json::json;
use svc_step::lock::Lock;
use svc_step::{Call, Failure, Status, StepResult, Stopped};

use super::RegisterArgs;
use super::definition::Definition;
use super::plan::{Found, Plan};
use super::refused::{hinted, not_seen, other_than_asked};
use super::{Registered, strangers};
use crate::rate::LOCK;
use crate::repository::{self, unusable};
use crate::server::Server;
use crate::server::path::path;

/// A registration under way.
pub(super) struct Act<'a> {
    pub call: &'a Call,
    pub server: &'a Server,
    pub args: &'a RegisterArgs,
    pub wanted: &'a Definition,
    pub found: &'a Found,
}

/// What the server shows after the request.
struct After {
    definition: Option<Definition>,
    /// Why nobody knows.
    unseen: Option<Failure>,
    /// Whether it is as it was asked for.
    right: bool,
}

impl Act<'_> {
    /// Registers it, and proves that it is.
    pub(super) fn run(&self, plan: Plan) -> StepResult<Registered> {
        let put = self.put(&plan);
        // A repository that does not verify is refused and stays registered all the same.
        let after = self.look();
        if let Some(note) = self.found.note.as_ref().filter(|_| self.found.is_left && after.right) {
            Lock::forget(self.call, LOCK, &note.token);
        }
        match put {
            Ok(()) if after.right => self.prove(plan.registered),
            Ok(()) => {
                let name = self.name();
                let failure = after.unseen.map_or_else(|| other_than_asked(name), |why| not_seen(name, why));
                Err(Stopped::with(failure, plan.registered))
            }
            Err(failure) => self.refused(failure, after, plan.registered),
        }
    }

    fn name(&self) -> &str {
        &self.args.repository.repository
    }

    fn put(&self, plan: &Plan) -> Result<(), Failure> {
        match self.server.change(self.call, "PUT", &plan.request, Some(&plan.body)) {
            Ok(_) => Ok(()),
            Err(failure) => {
                let is_unusable = failure.code == unusable::CODE;
                let failure = if is_unusable { unusable::explained(self.server, self.name(), failure).1 } else { failure };
                Err(hinted(failure, self.args, self.server.product))
            }
        }
    }

    fn look(&self) -> After {
        let (definition, unseen) = match repository::definition(self.server, self.name()) {
            Ok(after) => (after.map(|value| Definition::read(&value)), None),
            Err(why) => (None, Some(why)),
        };
        let right = definition.as_ref().is_some_and(|definition| definition.is_as(self.wanted));
        After { definition, unseen, right }
    }

    /// The request failed: how things stand all the same.
    fn refused(&self, failure: Failure, after: After, registered: Registered) -> StepResult<Registered> {
        if after.definition.is_some() && after.definition != self.found.before {
            self.call.effects().happened();
            // Only the answer was lost.
            let is_done = after.right && failure.status == Status::Timeout;
            return if is_done { Ok(registered) } else { Err(Stopped::with(failure, registered)) };
        }
        match after.unseen {
            _ if failure.status == Status::Timeout => Err(Stopped::with(failure, registered)),
            // It is refused, and whether it is registered all the same nobody has seen.
            Some(why) if failure.code == unusable::CODE => {
                drop(self.call.effects().attempt());
                Err(Stopped::with(failure.cause(why.message), registered))
            }
            _ => Err(failure.into()),
        }
    }

    /// What lies in its folder must not be another search database's.
    fn prove(&self, registered: Registered) -> StepResult<Registered> {
        match strangers::check(self.call, self.server, self.name(), self.args.readonly) {
            Ok(()) => Ok(registered),
            Err(failure) => Err(self.back(failure, registered)),
        }
    }

    /// Registers it as it was before, or not at all.
    fn back(&self, failure: Failure, registered: Registered) -> Stopped<Registered> {
        let (call, server, request) = (self.call, self.server, path(&["_snapshot", self.name()]));
        let back = match &self.found.before {
            Some(before) if before.hides_settings() => {
                let why =
                    "It stays registered so: what it was before may have secrets that no server shows, and they would be lost.";
                return Stopped::with(failure.cause(why), registered);
            }
            Some(before) => {
                server.change(call, "PUT", &request, Some(&json!({"type": before.kind, "settings": before.settings})))
            }
            None => server.change(call, "DELETE", &request, None),
        };
        match back {
            Ok(_) => {
                call.effects().undone();
                failure.into()
            }
            Err(why) => {
                let why = format!("It is registered all the same, since taking it back failed: {why}");
                Stopped::with(failure.cause(why), registered)
            }
        }
    }
}
