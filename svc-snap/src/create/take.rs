//! The request that takes a snapshot, sent once, and polled for until it is accepted and until the snapshot has ended. What the server
//! shows decides, not the answer, which may be lost on the way.

use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use svc_step::action::Action;
use svc_step::effects::{Attempt, Changed};
use svc_step::work::Work;
use svc_step::{Call, Failure, Status};

use crate::server::Server;
use crate::server::busy::{self, MOMENT, is_busy};
use crate::server::client::Pending;
use crate::server::client::failed;
use crate::server::client::{Effect, RequestError};
use crate::server::path::path;
use crate::snapshot::follow::{self, Follow};
use crate::snapshot::mark::Mark;
use crate::snapshot::{self, Snapshot};

/// How long a request may be unanswered while the server shows no such snapshot: servers give up waiting for their cluster after
/// 30 s, and a large repository's list may have to be read before.
const UNHEARD: Duration = Duration::from_secs(150);
/// How long after a lost answer the snapshot may take to appear.
const APPEARS: Duration = Duration::from_secs(10);
/// How long a cancelled snapshot may take to go, and how long one request of that.
const CANCEL: Duration = Duration::from_secs(60);
const REMOVAL: Duration = Duration::from_secs(20);
const LAST_GET: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(200);
/// How often signals and the time limit are checked.
const LISTEN: Duration = Duration::from_millis(50);

/// A snapshot to be taken.
#[derive(Debug, Clone)]
pub(crate) struct Take<'a> {
    pub repository: &'a str,
    pub name: &'a str,
    /// Indices and data streams by name.
    pub wanted: Vec<String>,
    pub mark: &'a Mark,
}

impl Take<'_> {
    fn path(&self) -> String {
        format!("{}?wait_for_completion=false", path(&["_snapshot", self.repository, self.name]))
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
    /// Begins it, and returns as soon as the server has accepted it or shows it. A server that is busy and has surely not begun it
    /// is asked again for a moment.
    ///
    /// # Errors
    /// The server refuses; a signal, on which the snapshot is cancelled, or the end of the time limit, on which it continues (6); the
    /// answer is lost and there is no such snapshot (6).
    pub(crate) fn begin(&self) -> Result<(), Failure> {
        let nothing_begun = |failure: &Failure| is_busy(failure) && self.call.effects().changed() == Changed::No;
        busy::patiently(self.call, MOMENT, nothing_begun, || self.send())
    }

    fn send(&self) -> Result<(), Failure> {
        let attempt = self.call.effects().attempt();
        let pending = self.server.start("PUT", &self.take.path(), Some(self.take.body()));
        let mut follow = self.follow();
        // What came in place of an acceptance.
        let mut trouble: Option<RequestError> = None;
        let mut until = Instant::now() + UNHEARD;
        loop {
            let pause = follow.pause();
            let listened = if trouble.is_none() { self.listen(&pending, pause) } else { self.call.pause(pause).map(|()| None) };
            match listened {
                Err(why) => return Err(self.stopped(attempt, &pending, why)),
                Ok(Some(Ok(answer))) if answer.get("accepted") == Some(&Value::Bool(true)) => {
                    attempt.happened();
                    return Ok(());
                }
                Ok(Some(ended)) => {
                    trouble = Some(ended.err().unwrap_or_else(unheard));
                    until = Instant::now() + APPEARS;
                }
                Ok(None) => {}
            }
            let has_no_effect = trouble.as_ref().is_some_and(|trouble| trouble.effect == Effect::None);
            match follow.poll() {
                Ok(Some(found)) if self.is_ours(&found) => {
                    attempt.happened();
                    return Ok(());
                }
                // Another run's: this one's is refused as long as that one is there.
                Ok(Some(_)) if trouble.is_some() => {
                    attempt.refused();
                    let in_use = || in_use(self.take.repository, self.take.name);
                    return Err(trouble.filter(|_| has_no_effect).map_or_else(in_use, |trouble| trouble.failure));
                }
                Ok(None) if follow.is_answered() && (has_no_effect || Instant::now() > until) => {
                    return Err(failed(attempt, trouble.unwrap_or_else(unheard)));
                }
                Ok(_) => {}
                Err(why) => {
                    return Err(match self.call.check() {
                        Err(end) => self.stopped(attempt, &pending, end),
                        // A refusal is believed only of a server that shows that there is no such snapshot.
                        Ok(()) => {
                            let failure = trouble.map_or(why, |trouble| trouble.failure);
                            failed(attempt, RequestError { failure, effect: Effect::Unknown })
                        }
                    });
                }
            }
        }
    }

    /// Waits so long for the answer, in small pieces, so that signals are heard.
    fn listen(&self, pending: &Pending, time: Duration) -> Result<Option<Result<Value, RequestError>>, Failure> {
        let until = Instant::now() + time;
        while Instant::now() < until {
            match pending.wait(LISTEN) {
                None => self.call.check()?,
                ended => return Ok(ended),
            }
        }
        Ok(None)
    }

    /// Polls one that was begun until it has ended; a signal leaves it running.
    ///
    /// # Errors
    /// It is gone (4); a signal, the end of the time limit (6), or a server that does not answer any more (6).
    pub(crate) fn wait(&self) -> Result<Snapshot, Failure> {
        let (repository, name) = (self.take.repository, self.take.name);
        let (failure, why) = match self.follow().until_finished() {
            Ok(found) if self.is_ours(&found) => return Ok(found),
            Err(why) if why.signal.is_some() || why.status == Status::Timeout => return Err(why),
            Err(why) if why.code != "snapshot_not_found" => {
                let message = format!("The snapshot {name} in {repository} was begun, and its end could not be seen.");
                (follow::continues(Failure::timeout("snapshot_out_of_sight", message), repository, name), why)
            }
            gone => {
                let message = format!("The snapshot {name} in {repository} was begun, and is not there any more.");
                let hint =
                    "It was deleted, or the server was restarted meanwhile; run the same command again, which takes it again.";
                let why = gone.err().unwrap_or_else(|| in_use(repository, name));
                (Failure::not_found("snapshot_gone", message).hint(hint), why)
            }
        };
        Err(why.causes.into_iter().fold(failure.cause(why.message), Failure::cause))
    }

    /// The same for one that this call has begun: a signal cancels it.
    pub(crate) fn wait_or_cancel(&self) -> Result<Snapshot, Failure> {
        self.wait().map_err(|why| if why.signal.is_some() { self.cancelled(None, why) } else { why })
    }

    fn follow(&self) -> Follow<'_> {
        Follow::new(self.call, self.server, self.take.repository, self.take.name)
    }

    fn is_ours(&self, found: &Snapshot) -> bool {
        self.take.mark.is_on(found)
    }

    /// The snapshot of that name, whatever has come; `None` where the server does not answer.
    pub(crate) fn last_get(&self) -> Option<Option<Snapshot>> {
        let (server, repository, name) = (self.server.clone(), self.take.repository.to_owned(), self.take.name.to_owned());
        let found = Work::begin(move || snapshot::find(&server, &repository, &name)).ended(self.server.at_most(LAST_GET));
        found.ok().flatten().and_then(Result::ok)
    }

    /// A signal, which cancels the snapshot, or the end of the time limit, which does not, while the answer is awaited.
    fn stopped(&self, attempt: Attempt<'_>, pending: &Pending, why: Failure) -> Failure {
        let is_begun = self.last_get().flatten().is_some_and(|found| self.is_ours(&found));
        if is_begun {
            attempt.happened();
        } else {
            drop(attempt);
        }
        if why.signal.is_some() {
            self.cancelled(Some(pending), why)
        } else if is_begun {
            follow::continues(why, self.take.repository, self.take.name)
        } else {
            why.hint("Run the same command again, with the same --run-id: it finds out whether the snapshot was begun.")
        }
    }

    /// Takes back what was begun. Only a snapshot that bears this run's mark is deleted.
    fn cancelled(&self, pending: Option<&Pending>, why: Failure) -> Failure {
        let until = Instant::now() + self.server.at_most(CANCEL);
        let request = path(&["_snapshot", self.take.repository, self.take.name]);
        // Whether the server has shown it, or has refused it: else it may still come.
        let mut is_known = pending.is_none();
        while Instant::now() < until {
            if let Some(Some(Err(trouble))) = pending.map(|pending| pending.wait(Duration::ZERO)) {
                is_known |= trouble.effect == Effect::None;
            }
            match self.last_get() {
                Some(Some(found)) if self.is_ours(&found) => {
                    is_known = true;
                    let _ = self.server.within(REMOVAL, "DELETE", &request, None);
                    continue;
                }
                Some(_) if is_known => {
                    self.call.effects().undone();
                    return why.hint("Nothing is left of the snapshot; running the same command again is safe.");
                }
                _ => {}
            }
            thread::sleep(PAUSE);
        }
        why.hint(format!(
            "The snapshot could not be cancelled: svc-snap show {0} --repository {1} shows it, and svc-snap delete {0} --cancel --repository {1} removes it.",
            self.take.name, self.take.repository
        ))
    }
}

/// Another run has that name.
pub(crate) fn in_use(repository: &str, name: &str) -> Failure {
    Failure::refused("snapshot_name_in_use", format!("The repository {repository} has a snapshot {name} already."))
        .hint("Give another name, or pass --unique to have a free name picked.")
}

/// The request was sent, and neither an acceptance nor the snapshot came.
fn unheard() -> RequestError {
    let failure = Failure::timeout("answer_lost", "The server shows no such snapshot, and no answer accepts it.");
    RequestError { failure, effect: Effect::Unknown }
}
