//! The throttle is taken off for the time of some work, and put back after it, whatever came of either.

use std::time::{Duration, Instant};

use svc_step::lock::Lock;
use svc_step::{Call, Status};

use super::back::{Back, PutBack, by_hand, sent};
use super::{LOCK, Planned, Rates};
use crate::server::Server;
use crate::server::transport::Fate;

/// How long the server may take to put a throttle back, and how long it is asked again while it is busy.
const PATIENCE: Duration = Duration::from_secs(20);

/// A throttle that was taken off, or may be: its answer was lost.
struct Taken {
    /// As long as it is held, other runs know that this one is at work. The kernel frees it however this one ends.
    _lock: Lock,
    planned: Planned,
    /// When the request was sent, where nobody has answered it.
    unanswered: Option<Instant>,
}

impl Rates<'_> {
    /// Does `work` with the throttle as it was asked for, and puts it back on every way out.
    pub(crate) fn during<T>(&mut self, call: &Call, server: &Server, work: impl FnOnce() -> T) -> T {
        let taken = self.planned.take().and_then(|planned| self.take_off(call, server, planned));
        let done = work();
        if let Some(taken) = taken {
            self.put_back(call, server, &taken);
        }
        done
    }

    /// Takes it off, by what the server has of it now: somebody may have changed it since it was planned. `None` where it is left
    /// as it is, or the server has surely not done it.
    fn take_off(&mut self, call: &Call, server: &Server, planned: Planned) -> Option<Taken> {
        let planned = match self.throttle.look(server) {
            Ok(seen) if seen == planned.seen => planned,
            Ok(seen) => self.change(call, seen, &planned.change.note.set)?,
            // The work will not be begun.
            Err(failure) if failure.signal.is_some() || failure.status == Status::Timeout => return None,
            Err(failure) => {
                self.leave(call, &failure.message);
                return None;
            }
        };
        let note = &planned.change.note;
        let lock = match Lock::take(call, LOCK, &note.token) {
            Ok(lock) => lock,
            Err(failure) => {
                self.leave(call, &failure.message);
                return None;
            }
        };
        let began = Instant::now();
        let unanswered = match sent(&planned.change.off, |method, path, body| server.attempt(method, path, body)) {
            Ok(_) => None,
            // A signal or the end of the time limit leaves the request unanswered too.
            Err(trouble) if trouble.fate == Fate::Unknown => Some(began),
            Err(trouble) => {
                Lock::forget(call, LOCK, &note.token);
                self.leave(call, &trouble.failure.message);
                return None;
            }
        };
        self.used.iter_mut().for_each(|used| used.set = Some(note.set.clone()));
        Some(Taken { _lock: lock, planned, unanswered })
    }

    fn put_back(&mut self, call: &Call, server: &Server, taken: &Taken) {
        let Taken { planned, unanswered, .. } = taken;
        let note = &planned.change.note;
        let ended = PutBack { throttle: self.throttle, note, patience: PATIENCE, unanswered: *unanswered }.run(call, server);
        let what = self.throttle.name();
        let put_back = match ended {
            Ok(Back::NotThere) | Err(_) if unanswered.is_some() => {
                // Its lock is free from now on and stays there, which tells the next call that its run has ended.
                call.warn("rate_unknown", format!(
                    "Whether the rate of {what} was changed is not known: the request was not answered. The next call of svc-snap that finds it changed puts it back; svc-snap health says whether it is."
                ));
                None
            }
            Ok(Back::Whole | Back::NotThere) => {
                Lock::forget(call, LOCK, &note.token);
                Some(true)
            }
            Ok(Back::NoteStays) => Some(true),
            Ok(Back::Harm(why)) => {
                call.warn("rate_not_put_back", format!("The rate of {what} could not be put back: {why}."));
                Some(false)
            }
            Err(failure) => {
                let by_hand = by_hand(server, &planned.seen);
                call.warn("rate_not_put_back", format!(
                    "The rate of {what} could not be put back ({failure}); the next call of svc-snap that works with it puts it back, or by hand: {by_hand}"
                ));
                Some(false)
            }
        };
        self.used.iter_mut().for_each(|used| used.put_back = put_back);
        self.account(call);
    }
}
