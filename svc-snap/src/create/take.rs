//! The request that takes a snapshot, sent again only where it surely had no effect, and followed to its end whatever becomes of the answer.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use svc_step::action::Action;
use svc_step::effects::{Attempt, Changed};
use svc_step::{Call, Failure};

use crate::server::busy::{self, MOMENT, is_busy};
use crate::server::json::text;
use crate::server::line::Pending;
use crate::server::path::path;
use crate::server::transport::{Fate, Trouble};
use crate::server::{Server, failed};
use crate::snapshot::Snapshot;
use crate::snapshot::follow::Follow;
use crate::snapshot::mark::Mark;

/// How long a request may be under way while the server answers looks and shows no such snapshot. Servers themselves give up
/// waiting for their cluster after 30 s; a large repository's list may have to be read before.
const UNHEARD: Duration = Duration::from_secs(150);
/// How long looks may fail while the call itself is still open.
const SILENCE: Duration = Duration::from_secs(600);
/// How often signals and the time limit are looked at.
const LISTEN: Duration = Duration::from_millis(50);

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
    /// The server refuses (see [`crate::server::refusal`]); a signal, on which the snapshot is cancelled; the answer is lost
    /// and there is no such snapshot (6).
    pub(crate) fn begin(&self) -> Result<Option<Snapshot>, Failure> {
        let (attempt, pending) = self.send();
        match self.listen(&pending, UNHEARD) {
            Err(why) => Err(self.stopped(attempt, Some(&pending), why)),
            Ok(Some(Ok(_))) => {
                attempt.happened();
                Ok(self.glance().flatten().filter(|found| self.take.mark.is_on(found)))
            }
            Ok(Some(Err(trouble))) => self.appears(attempt, trouble, false).map(Some),
            Ok(None) => self.appears(attempt, unheard(), false).map(Some),
        }
    }

    /// Takes it, with some patience where the server is busy and has surely not begun it.
    ///
    /// # Errors
    /// As `take` has it.
    pub(crate) fn patiently<T>(&self, take: impl FnMut() -> Result<T, Failure>) -> Result<T, Failure> {
        let nothing_begun = |failure: &Failure| is_busy(failure) && self.call.effects().changed() == Changed::No;
        busy::patiently(self.call, MOMENT, nothing_begun, take)
    }

    /// Begins it and follows it to its end. A long call may be cut by anything on the way, so the snapshot itself is looked at
    /// beside it; when the call is lost, the look decides.
    ///
    /// # Errors
    /// The server refuses; a signal, on which the snapshot is cancelled; the end of the time limit, on which it goes on (6);
    /// a lost answer and no such snapshot (6); it was begun and is gone (4).
    pub(crate) fn until_finished(&self) -> Result<Snapshot, Failure> {
        let (attempt, pending) = self.send();
        let sent = Instant::now();
        let mut follow = self.follow().bearing(SILENCE);
        let mut seen = false;
        let mut absent = 0;
        loop {
            match self.listen(&pending, follow.pause()) {
                Err(why) => return Err(self.stopped(attempt, Some(&pending), why)),
                // What the server shows is what counts, not the answer.
                Ok(Some(Ok(_))) => {
                    attempt.happened();
                    return self.wait();
                }
                Ok(Some(Err(trouble))) => return self.lost(attempt, trouble, seen),
                Ok(None) => {}
            }
            match follow.look() {
                Ok(Some(found)) if self.take.mark.is_on(&found) => {
                    // A connection may die without a word, and its answer never come.
                    if !found.is_under_way() {
                        attempt.happened();
                        return Ok(found);
                    }
                    (seen, absent) = (true, 0);
                    follow.show();
                }
                Ok(None) if follow.is_answered() => {
                    absent += 1;
                    // The answer that says why may be on its way.
                    if (seen && absent > 3) || (!seen && sent.elapsed() > UNHEARD) {
                        return self.lost(attempt, unheard(), seen);
                    }
                }
                Ok(_) => {}
                Err(failure) => {
                    return Err(match self.call.check() {
                        Err(why) => self.stopped(attempt, Some(&pending), why),
                        Ok(()) if seen => {
                            attempt.happened();
                            self.out_of_sight(failure)
                        }
                        Ok(()) => failed(attempt, Trouble { failure, fate: Fate::Unknown }),
                    });
                }
            }
        }
    }

    fn send(&self) -> (Attempt<'_>, Pending) {
        (self.call.effects().attempt(), self.server.begin("PUT", &self.take.path(), Some(self.take.body())))
    }

    /// Waits so long for the answer, in small pieces, so that a signal is not left unheard. An answer that is not about this
    /// snapshot is none.
    fn listen(&self, pending: &Pending, time: Duration) -> Result<Option<Result<Value, Trouble>>, Failure> {
        let until = Instant::now() + time;
        while Instant::now() < until {
            match pending.wait(LISTEN) {
                Some(Ok(answer)) if !self.is_about_it(&answer) => return Ok(Some(Err(odd(&answer)))),
                Some(ended) => return Ok(Some(ended)),
                None => self.call.check()?,
            }
        }
        Ok(None)
    }

    fn is_about_it(&self, answer: &Value) -> bool {
        let name = text(answer, "/snapshot/snapshot");
        answer.get("accepted") == Some(&Value::Bool(true)) || name == Some(self.take.name)
    }

    pub(crate) fn follow(&self) -> Follow<'_> {
        Follow::new(self.call, self.server, self.take.repository, self.take.name)
    }
}

/// Somebody else has that name.
pub(crate) fn in_use(repository: &str, name: &str) -> Failure {
    Failure::refused("snapshot_name_in_use", format!("The repository {repository} has a snapshot {name} already."))
        .hint("Name another one, or say --unique to have a free name picked.")
}

/// The request was sent, and nobody speaks of it.
fn unheard() -> Trouble {
    let failure = Failure::timeout("answer_lost", "The server shows no such snapshot, and the request has no answer.");
    Trouble { failure, fate: Fate::Unknown }
}

fn odd(answer: &Value) -> Trouble {
    let failure = Failure::failed("answer_not_understood", "The answer is not that of a search database about this snapshot.")
        .cause(answer.to_string().chars().take(500).collect::<String>());
    Trouble { failure, fate: Fate::Unknown }
}
