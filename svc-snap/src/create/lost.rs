//! What became of a snapshot whose request has no answer, or none that says it: the server is looked at.

use std::time::{Duration, Instant};

use svc_step::effects::Attempt;
use svc_step::{Failure, Status};

use crate::create::take::{Taking, in_use};
use crate::server::failed;
use crate::server::transport::{Fate, Trouble};
use crate::snapshot::Snapshot;
use crate::snapshot::follow;

/// How long after a lost answer the snapshot may take to show.
const APPEARS: Duration = Duration::from_secs(10);
/// How long looks may fail after a lost answer: a server that is restarted takes minutes.
const SILENCE: Duration = Duration::from_secs(300);

impl Taking<'_> {
    /// The answer was an error, or there was none: if there is a snapshot of ours all the same, it is followed to its end.
    /// `seen`: the server has shown it before.
    ///
    /// # Errors
    /// As [`Taking::appears`] and [`Taking::wait`]; a signal cancels it.
    pub(crate) fn lost(&self, attempt: Attempt<'_>, trouble: Trouble, seen: bool) -> Result<Snapshot, Failure> {
        self.appears(attempt, trouble, seen)?;
        self.wait().map_err(|why| if why.signal.is_some() { self.cancelled(None, why) } else { why })
    }

    /// The answer was an error, or there was none: is there a snapshot of ours all the same?
    ///
    /// # Errors
    /// There is none: the server's refusal, or 6 where nobody knows whether it may still come. It was there and is gone (4).
    /// A signal, on which it is cancelled, or the end of the time limit (6).
    pub(crate) fn appears(&self, attempt: Attempt<'_>, trouble: Trouble, seen: bool) -> Result<Snapshot, Failure> {
        let until = Instant::now() + APPEARS;
        let mut follow = self.follow().bearing(SILENCE);
        let mut absent = 0;
        loop {
            match follow.look() {
                Ok(Some(found)) if self.take.mark.is_on(&found) => {
                    attempt.happened();
                    return Ok(found);
                }
                // Somebody else's: ours is refused as long as that one is there.
                Ok(Some(_)) => {
                    attempt.refused();
                    return Err(match trouble.fate {
                        Fate::NoEffect => trouble.failure,
                        Fate::Unknown => in_use(self.take.repository, self.take.name),
                    });
                }
                Ok(None) if follow.is_answered() => {
                    absent += 1;
                    if seen && absent > 1 {
                        attempt.happened();
                        return Err(self.gone(trouble.failure));
                    }
                    if !seen && (trouble.fate == Fate::NoEffect || Instant::now() > until) {
                        return Err(failed(attempt, trouble));
                    }
                }
                Ok(None) => {}
                Err(_) => {
                    return Err(match self.call.check() {
                        Err(why) => self.stopped(attempt, None, why),
                        Ok(()) if seen => {
                            attempt.happened();
                            self.out_of_sight(trouble.failure)
                        }
                        // A refusal that nobody could look behind is believed only of a server that refuses at once.
                        Ok(()) => failed(attempt, Trouble { fate: Fate::Unknown, ..trouble }),
                    });
                }
            }
            let pause = follow.pause();
            if let Err(why) = self.call.pause(pause) {
                return Err(self.stopped(attempt, None, why));
            }
        }
    }

    /// Waits for the end of one that is there. A signal leaves it at work.
    ///
    /// # Errors
    /// It has gone (4); a signal, the end of the time limit (6), or a server that does not answer any more (6).
    pub(crate) fn wait(&self) -> Result<Snapshot, Failure> {
        match self.follow().bearing(SILENCE).until_finished() {
            Ok(found) if self.take.mark.is_on(&found) => Ok(found),
            Ok(_) => Err(self.gone(in_use(self.take.repository, self.take.name))),
            Err(why) if why.signal.is_some() || why.status == Status::Timeout => Err(why),
            Err(why) if why.code == "snapshot_not_found" => Err(self.gone(why)),
            Err(why) => Err(self.out_of_sight(why)),
        }
    }

    /// It was begun, and is not there any more.
    fn gone(&self, why: Failure) -> Failure {
        let (repository, name) = (self.take.repository, self.take.name);
        let message = format!("The snapshot {name} in {repository} was begun, and is not there any more.");
        let hint =
            "It was deleted, or the search database was restarted meanwhile; run the same command again, which takes it anew.";
        behind(Failure::not_found("snapshot_gone", message).hint(hint), why)
    }

    /// It was begun, and whether it has ended is not to be seen.
    pub(crate) fn out_of_sight(&self, why: Failure) -> Failure {
        let (repository, name) = (self.take.repository, self.take.name);
        let message = format!("The snapshot {name} in {repository} was begun, and its end could not be seen.");
        follow::goes_on(behind(Failure::timeout("snapshot_out_of_sight", message), why), repository, name)
    }
}

fn behind(mut failure: Failure, why: Failure) -> Failure {
    failure.causes.push(why.message);
    failure.causes.extend(why.causes);
    failure
}
