//! The request that takes a snapshot, sent once and only once, and how its end is found out whatever becomes of the answer.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use svc_step::action::Action;
use svc_step::effects::Attempt;
use svc_step::{Call, Failure};

use crate::create::mark::Mark;
use crate::server::line::Pending;
use crate::server::path::path;
use crate::server::transport::{Fate, Trouble};
use crate::server::{Server, failed};
use crate::snapshot::follow::{self, Follow};
use crate::snapshot::{self, Snapshot};

/// How long after a lost answer the snapshot may take to show.
const APPEARS: Duration = Duration::from_secs(20);
/// How long a cancelled snapshot may take to go.
const CANCEL: Duration = Duration::from_secs(60);

/// A snapshot to be taken.
#[derive(Debug, Clone)]
pub(crate) struct Take<'a> {
    pub repository: &'a str,
    pub name: &'a str,
    /// Indices and data streams by name.
    pub wanted: Vec<String>,
    pub mark: &'a Mark,
    pub wait: bool,
}

impl Take<'_> {
    fn path(&self) -> String {
        format!("{}?wait_for_completion={}", path(&["_snapshot", self.repository, self.name]), self.wait)
    }

    /// The body of the procedure (2.2), with names: a snapshot of `*` would hold our own hidden copies too.
    fn body(&self) -> Value {
        json!({
            "indices": self.wanted.join(","),
            "ignore_unavailable": true,
            "include_global_state": true,
            "metadata": self.mark.metadata(),
        })
    }

    /// The request as a plan has it.
    pub(crate) fn action(&self) -> Action {
        Action::request("PUT", self.path(), Some(self.body()))
    }
}

/// A snapshot being taken.
pub(crate) struct Taking<'a> {
    pub call: &'a Call,
    pub server: &'a Server,
    pub take: &'a Take<'a>,
}

impl Taking<'_> {
    /// Begins it, and returns as soon as the server has accepted it; with the snapshot, where the server shows it by then.
    ///
    /// # Errors
    /// The server refuses (see [`crate::server::refusal`]), or the answer is lost and there is no such snapshot (6).
    pub(crate) fn begin(&self) -> Result<Option<Snapshot>, Failure> {
        let begun = self.server.change(self.call, "PUT", &self.take.path(), Some(&self.take.body()));
        let found = snapshot::find(self.server, self.take.repository, self.take.name).ok().flatten();
        let ours = found.filter(|found| self.take.mark.is_on(found));
        match begun {
            Err(failure) if ours.is_none() => return Err(failure),
            // Only the answer was lost.
            Err(_) => self.call.effects().happened(),
            Ok(_) => {}
        }
        Ok(ours)
    }

    /// Begins it and follows it to its end. A long call may be cut by anything on the way, so the snapshot itself is looked at
    /// beside it; when the call is lost, the look decides.
    ///
    /// # Errors
    /// The server refuses; a signal, on which the snapshot is cancelled; the end of the time limit, on which it goes on (6);
    /// a lost answer and no such snapshot (6).
    pub(crate) fn until_finished(&self) -> Result<Snapshot, Failure> {
        let attempt = self.call.effects().attempt();
        let pending = self.server.begin("PUT", &self.take.path(), Some(self.take.body()));
        let mut follow = self.follow();
        loop {
            let pause = follow.pause();
            // Waits in small pieces, so that a signal is not left unheard.
            let until = Instant::now() + pause;
            let mut ended = None;
            while ended.is_none() && Instant::now() < until {
                ended = pending.wait(Duration::from_millis(50));
                if ended.is_none()
                    && let Err(why) = self.call.check()
                {
                    return Err(self.stopped(attempt, Some(&pending), why));
                }
            }
            match ended {
                None => match follow.look() {
                    // A connection may die without a word, and its answer never come.
                    Ok(Some(found)) if self.take.mark.is_on(&found) && !found.is_under_way() => {
                        attempt.happened();
                        return Ok(found);
                    }
                    Ok(_) => follow.show(),
                    Err(failure) => {
                        return Err(match self.call.check() {
                            Err(why) => self.stopped(attempt, Some(&pending), why),
                            Ok(()) => failed(attempt, Trouble { failure, fate: Fate::Unknown }),
                        });
                    }
                },
                // What the server shows is what counts, not the answer.
                Some(Ok(_)) => {
                    attempt.happened();
                    return self.wait();
                }
                Some(Err(trouble)) => return self.lost(attempt, trouble),
            }
        }
    }

    /// Waits for the end of one that is there. A signal leaves it at work.
    ///
    /// # Errors
    /// As [`Follow::until_finished`].
    pub(crate) fn wait(&self) -> Result<Snapshot, Failure> {
        self.follow().until_finished()
    }

    fn follow(&self) -> Follow<'_> {
        Follow::new(self.call, self.server, self.take.repository, self.take.name)
    }

    /// The answer was an error, or there was none: is there a snapshot of ours all the same?
    fn lost(&self, attempt: Attempt<'_>, trouble: Trouble) -> Result<Snapshot, Failure> {
        let until = Instant::now() + APPEARS;
        let mut follow = self.follow();
        loop {
            match follow.look() {
                Ok(Some(found)) if self.take.mark.is_on(&found) => {
                    attempt.happened();
                    return self.end_of_ours();
                }
                // Somebody else's of the same name: the server has refused ours.
                Ok(Some(_)) => {
                    return Err(failed(attempt, Trouble { fate: Fate::NoEffect, ..trouble }));
                }
                Ok(None) if trouble.fate == Fate::NoEffect && follow.is_answered() => {
                    return Err(failed(attempt, trouble));
                }
                Ok(None) if follow.is_answered() && Instant::now() > until => {
                    return Err(failed(attempt, trouble));
                }
                Ok(None) => {}
                Err(_) => {
                    return Err(match self.call.check() {
                        Err(why) => self.stopped(attempt, None, why),
                        Ok(()) => failed(attempt, trouble),
                    });
                }
            }
            let pause = follow.pause();
            if let Err(why) = self.call.pause(pause) {
                return Err(self.stopped(attempt, None, why));
            }
        }
    }

    /// Follows one that this call began, without its answer.
    fn end_of_ours(&self) -> Result<Snapshot, Failure> {
        self.follow().until_finished().map_err(|why| match why.signal {
            Some(_) => self.cancelled(None, why),
            None => why,
        })
    }

    /// A signal or the end of the time limit while the answer is awaited.
    fn stopped(&self, attempt: Attempt<'_>, pending: Option<&Pending>, why: Failure) -> Failure {
        let found = snapshot::find(self.server, self.take.repository, self.take.name).ok().flatten();
        let is_ours = found.is_some_and(|found| self.take.mark.is_on(&found));
        if is_ours {
            attempt.happened();
        } else {
            drop(attempt);
        }
        if why.signal.is_some() {
            self.cancelled(pending, why)
        } else {
            follow::goes_on(why, self.take.repository, self.take.name)
        }
    }

    /// Takes back what was begun. Only a snapshot that bears this run's mark is deleted.
    fn cancelled(&self, pending: Option<&Pending>, why: Failure) -> Failure {
        let until = Instant::now() + CANCEL;
        let mut refused = false;
        let mut deleted = false;
        loop {
            match pending.and_then(|pending| pending.wait(Duration::from_millis(200))) {
                Some(Err(trouble)) if trouble.fate == Fate::NoEffect => refused = true,
                Some(_) => {}
                None => std::thread::sleep(Duration::from_millis(50)),
            }
            match snapshot::find(self.server, self.take.repository, self.take.name) {
                Ok(Some(found)) if self.take.mark.is_on(&found) => {
                    deleted =
                        self.server.ask("DELETE", &path(&["_snapshot", self.take.repository, self.take.name]), None).is_ok()
                            || deleted;
                }
                Ok(_) if deleted || refused => {
                    self.call.effects().undone();
                    return why.hint("Nothing is left of the snapshot; running the same command again is safe.");
                }
                _ => {}
            }
            if Instant::now() > until {
                return why.hint(format!(
                    "The snapshot could not be cancelled: look at it with svc-snap show {0} --repository {1}, and remove it with svc-snap delete {0} --repository {1}.",
                    self.take.name, self.take.repository
                ));
            }
        }
    }
}
