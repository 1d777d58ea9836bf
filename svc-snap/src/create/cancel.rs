//! A signal or the end of the time limit while a snapshot is taken.

use std::thread;
use std::time::{Duration, Instant};

use svc_step::Failure;
use svc_step::effects::Attempt;
use svc_step::work::Work;

use crate::create::take::Taking;
use crate::server::line::Pending;
use crate::server::path::path;
use crate::server::transport::Fate;
use crate::snapshot::{self, Snapshot, follow};

/// How long a cancelled snapshot may take to go.
const CANCEL: Duration = Duration::from_secs(60);
/// How long one removal of it may take, before another look.
const REMOVAL: Duration = Duration::from_secs(20);
/// How long a last look may take.
const GLANCE: Duration = Duration::from_secs(5);
/// The pause between two looks.
const PAUSE: Duration = Duration::from_millis(200);

impl Taking<'_> {
    /// A last look, whatever has come: the snapshot of that name; `None` where the server does not answer.
    pub(crate) fn glance(&self) -> Option<Option<Snapshot>> {
        let (server, repository, name) = (self.server.clone(), self.take.repository.to_owned(), self.take.name.to_owned());
        let looked = Work::begin(move || snapshot::find(&server, &repository, &name)).ended(self.server.at_most(GLANCE));
        looked.ok().flatten().and_then(Result::ok)
    }

    fn is_ours(&self, found: &Snapshot) -> bool {
        self.take.mark.is_on(found)
    }

    /// A signal or the end of the time limit while the answer is awaited: a signal cancels the snapshot, the time limit leaves
    /// it at work.
    pub(crate) fn stopped(&self, attempt: Attempt<'_>, pending: Option<&Pending>, why: Failure) -> Failure {
        let begun = self.glance().flatten().is_some_and(|found| self.is_ours(&found));
        if begun {
            attempt.happened();
        } else {
            drop(attempt);
        }
        if why.signal.is_some() {
            self.cancelled(pending, why)
        } else if begun {
            follow::goes_on(why, self.take.repository, self.take.name)
        } else {
            why.hint("Run the same command again, with the same --run-id: it finds out whether the snapshot was begun.")
        }
    }

    /// Takes back what was begun. Only a snapshot that bears this run's mark is deleted.
    pub(crate) fn cancelled(&self, pending: Option<&Pending>, why: Failure) -> Failure {
        let until = Instant::now() + self.server.at_most(CANCEL);
        let mut refused = false;
        let mut seen = false;
        while Instant::now() < until {
            if let Some(Some(Err(trouble))) = pending.map(|pending| pending.wait(Duration::ZERO)) {
                refused = refused || trouble.fate == Fate::NoEffect;
            }
            match self.glance() {
                Some(Some(found)) if self.is_ours(&found) => {
                    seen = true;
                    let request = path(&["_snapshot", self.take.repository, self.take.name]);
                    let server = self.server.clone();
                    let _ = Work::begin(move || server.ask("DELETE", &request, None)).ended(self.server.at_most(REMOVAL));
                    continue;
                }
                // It was there once and does not come again; or it never was and the server has said no.
                Some(_) if seen || refused => {
                    self.call.effects().undone();
                    return why.hint("Nothing is left of the snapshot; running the same command again is safe.");
                }
                _ => {}
            }
            thread::sleep(PAUSE);
        }
        why.hint(format!(
            "The snapshot could not be cancelled: look at it with svc-snap show {0} --repository {1}, and remove it with svc-snap delete {0} --repository {1}.",
            self.take.name, self.take.repository
        ))
    }
}
