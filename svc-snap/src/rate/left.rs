//! Throttles that a run has left off which was killed, or was cut off from the server: found by the next call, and put back.

use std::cell::Cell;
use std::time::Duration;

use svc_step::action::Action;
use svc_step::lock::Lock;
use svc_step::{Call, Failure, Status};

use super::back::{Back, PutBack, by_hand};
use super::{LOCK, Life, Note, Seen, Throttle};
use crate::repository;
use crate::server::Server;

/// How long a server may be busy with the snapshot that the dead run began; then it is the next call's.
const PATIENCE: Duration = Duration::from_secs(3);

/// The steps that look for such a throttle and put it back, as people are told.
const STEPS: &str = "create, wait, stage, restore, swap, unstage, delete, prune, cleanup or register";

/// Throttles that a dead run has left changed.
#[derive(Debug, Default)]
pub(crate) struct Left<'a> {
    found: Vec<One<'a>>,
    /// Whether this call has put one back.
    done: Cell<bool>,
}

/// One of them.
#[derive(Debug)]
struct One<'a> {
    throttle: Throttle<'a>,
    note: Note,
    seen: Seen,
}

impl One<'_> {
    fn back(&self) -> Action {
        self.seen.with(self.seen.was().as_deref(), None)
    }

    /// Whether the rate itself is changed, and not only the note left: a run that gave up waiting could not take that away.
    fn is_changed(&self) -> bool {
        self.seen.is_changed()
    }
}

impl<'a> Left<'a> {
    /// Looks for notes of dead runs, on the cluster and, where one is named, on a repository. A note of which nobody can tell
    /// whether its run is at work is left alone, with a warning (`rate_left_changed`) that names the command which puts it back.
    ///
    /// # Errors
    /// A signal, or the end of the time limit. A throttle that cannot be read is passed over: nobody can know.
    pub(crate) fn find(call: &Call, server: &Server, repository: Option<&'a str>) -> Result<Self, Failure> {
        let mut left = Self::default();
        for throttle in repository.map(Throttle::Repository).into_iter().chain([Throttle::Cluster]) {
            let seen = match throttle.look(server) {
                Ok(seen) => seen,
                Err(failure) if failure.signal.is_some() || failure.status == Status::Timeout => return Err(failure),
                Err(_) => continue,
            };
            let further = seen.for_auto_create().map(|seen| (Throttle::AutoCreate, seen));
            for (throttle, seen) in [(throttle, seen)].into_iter().chain(further) {
                left.take(call, server, throttle, seen);
            }
        }
        Ok(left)
    }

    fn take(&mut self, call: &Call, server: &Server, throttle: Throttle<'a>, seen: Seen) {
        let Some(note) = seen.note() else { return };
        let what = throttle.what();
        match (note.life(call), seen.harm()) {
            (Life::Alive, _) => {}
            (_, Some(why)) => call.warn(
                "rate_left_changed",
                format!("The run {} has changed {what}, and it cannot be put back: {why}. {}.", note.run, by_hand(server, &seen)),
            ),
            (Life::Dead, None) => self.found.push(One { throttle, note, seen }),
            (Life::Unknown, None) if !seen.is_changed() => {}
            (Life::Unknown, None) => call.warn(
                "rate_left_changed",
                format!(
                    "The run {} on {} has changed {what}, and whether it is still at work cannot be told here. If it is not: {}",
                    note.run,
                    note.host,
                    by_hand(server, &seen)
                ),
            ),
        }
    }

    /// The requests that put them back.
    pub(crate) fn actions(&self) -> impl Iterator<Item = Action> + '_ {
        self.found.iter().map(One::back)
    }

    /// The same for a step that does not hold the repository's lock, which is taken meanwhile: a repository is written anew as
    /// a whole. One that another run is at work with is passed over, with a warning (`rate_left_changed`).
    pub(crate) fn put_back_alone(&self, call: &Call, server: &Server) {
        for one in &self.found {
            let Throttle::Repository(repository) = one.throttle else {
                self.put_one_back(call, server, one);
                continue;
            };
            match repository::hold(call, server, repository) {
                Ok(_lock) => self.put_one_back(call, server, one),
                Err(_) if !one.is_changed() => {}
                Err(failure) => call.warn(
                    "rate_left_changed",
                    format!(
                        "The run {} has left {} changed; the next call puts it back, since it could not be done now: {}",
                        one.note.run,
                        one.throttle.what(),
                        failure.message
                    ),
                ),
            }
        }
    }

    /// Puts them back; what the server refuses is a warning, and the next call's. The caller holds the repository's lock.
    pub(crate) fn put_back(&self, call: &Call, server: &Server) {
        self.found.iter().for_each(|one| self.put_one_back(call, server, one));
    }

    fn put_one_back(&self, call: &Call, server: &Server, one: &One<'_>) {
        let One { throttle, note, seen } = one;
        let what = throttle.what();
        match (PutBack { throttle: *throttle, note, patience: PATIENCE, unanswered: None }).run(call, server) {
            Ok(Back::NotThere) => Lock::forget(call, LOCK, &note.token),
            Ok(Back::Harm(why)) => call.warn(
                "rate_left_changed",
                format!("The run {} has left {what} changed, and it cannot be put back: {why}.", note.run),
            ),
            Ok(back) => {
                self.done.set(self.done.get() || one.is_changed() || back == Back::Whole);
                self.account(call);
                if back == Back::Whole {
                    Lock::forget(call, LOCK, &note.token);
                }
                if one.is_changed() {
                    let was = note.was.as_deref().unwrap_or("unset");
                    call.warn("rate_put_back", format!("The run {} had left {what} changed; it was put back ({was}).", note.run));
                }
            }
            Err(failure) => call.warn(
                "rate_not_put_back",
                format!(
                    "The run {} has left {what} changed, and it could not be put back ({failure}); by hand: {}",
                    note.run,
                    by_hand(server, seen)
                ),
            ),
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
        for One { throttle, note, .. } in self.found.iter().filter(|one| one.is_changed()) {
            call.warn(
                "rate_left_changed",
                format!("The run {} has left {} changed; the next svc-snap {STEPS} puts it back.", note.run, throttle.what()),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_names_the_steps_that_put_a_rate_back_as_the_warning_does() {
        let page = include_str!("../../README.md");
        let code = |step: &str| format!("`{step}`");
        let (first, last) = STEPS.split_once(" or ").unwrap();
        let first: Vec<String> = first.split(", ").map(code).collect();
        let listed = format!("the next {} or {} under the same", first.join(", "), code(last));
        assert!(page.contains(&listed), "README.md does not say: {listed}");
    }
}
