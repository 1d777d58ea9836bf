//! Brakes that a run which was killed has left off: found by the next call, and put back.

use std::cell::Cell;
use std::time::Duration;

use svc_step::action::Action;
use svc_step::lock::Lock;
use svc_step::{Call, Failure, Status};

use super::{Back, Brake, LOCK, Life, Note, by_hand, put_back};
use crate::server::Server;

/// How long a server may be busy with the snapshot that the dead run began; then it is the next call's.
const PATIENCE: Duration = Duration::from_secs(3);

/// Brakes that a dead run has left changed.
#[derive(Debug, Default)]
pub(crate) struct Left<'a> {
    found: Vec<One<'a>>,
    /// Whether this call has put one back.
    done: Cell<bool>,
}

/// One of them.
#[derive(Debug)]
struct One<'a> {
    brake: Brake<'a>,
    note: Note,
    back: Action,
    /// Whether the rate itself is changed, and not only the note left: a run that gave up waiting could not take that away.
    changed: bool,
}

impl<'a> Left<'a> {
    /// Looks for notes of dead runs, on the cluster and, where one is named, on a repository. A note of which nobody can tell
    /// whether its run is at work is left alone, with a warning (`rate_left_changed`) that names the command which puts it back.
    ///
    /// # Errors
    /// A signal, or the end of the time limit. A brake that cannot be read is passed over: nobody can know.
    pub(crate) fn find(call: &Call, server: &Server, repository: Option<&'a str>) -> Result<Self, Failure> {
        let mut left = Self::default();
        for brake in repository.map(Brake::Repository).into_iter().chain([Brake::Cluster]) {
            let seen = match brake.look(server) {
                Ok(seen) => seen,
                Err(failure) if failure.signal.is_some() || failure.status == Status::Timeout => return Err(failure),
                Err(_) => continue,
            };
            let Some(note) = seen.note() else { continue };
            let back = seen.with(seen.was().as_deref(), None);
            match note.life(call) {
                Life::Alive => {}
                Life::Dead => left.found.push(One { brake, note, back, changed: seen.is_changed() }),
                Life::Unknown if !seen.is_changed() => {}
                Life::Unknown => call.warn("rate_left_changed", format!(
                    "The run {} on {} has changed the rate of {}, and whether it is still at work cannot be told here. If it is not: {}",
                    note.run, note.host, brake.name(), by_hand(server, &back)
                )),
            }
        }
        Ok(left)
    }

    /// The requests that put them back.
    pub(crate) fn actions(&self) -> impl Iterator<Item = Action> + '_ {
        self.found.iter().map(|one| one.back.clone())
    }

    /// Puts them back; what the server refuses is a warning, and the next call's.
    pub(crate) fn put_back(&self, call: &Call, server: &Server) {
        for One { brake, note, back, changed } in &self.found {
            let what = brake.name();
            match put_back(call, server, *brake, note, PATIENCE) {
                Ok(back) => {
                    self.done.set(*changed || back == Back::Whole);
                    self.account(call);
                    if back == Back::Whole {
                        Lock::forget(call, LOCK, &note.token);
                    }
                    if !changed {
                        continue;
                    }
                    let was = note.was.as_deref().unwrap_or("unset");
                    call.warn("rate_put_back", format!("The run {} was killed and had left the rate of {what} changed; it was put back ({was}).", note.run));
                }
                Err(failure) => call.warn("rate_not_put_back", format!(
                    "The run {} was killed and has left the rate of {what} changed, and it could not be put back ({failure}); by hand: {}",
                    note.run, by_hand(server, back)
                )),
            }
        }
    }

    /// A step that has taken back all its effects has put these back all the same.
    pub(crate) fn account(&self, call: &Call) {
        if self.done.get() {
            call.effects().happened();
        }
    }

    /// Only says that they are there (`rate_left_changed`).
    pub(crate) fn remark(&self, call: &Call) {
        for One { brake, note, .. } in self.found.iter().filter(|one| one.changed) {
            call.warn("rate_left_changed", format!(
                "The run {} was killed and has left the rate of {} changed; the next svc-snap create, stage, restore, swap, unstage, delete, cleanup or register puts it back.",
                note.run, brake.name()
            ));
        }
    }
}
