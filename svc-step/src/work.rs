//! Work in a thread of its own, for which nobody waits longer than he can: a pipe or a connection may be dead.

use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use crate::failure::Failure;

/// Work that was begun; it ends by itself, or with the process.
#[derive(Debug)]
pub struct Work<T>(Receiver<T>);

/// The thread has ended without a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lost;

impl<T: Send + 'static> Work<T> {
    /// Begins it.
    pub fn begin(work: impl FnOnce() -> T + Send + 'static) -> Self {
        let (send, done) = channel();
        thread::spawn(move || {
            // Nobody listens any more once the step has ended without it.
            let _ = send.send(work());
        });
        Self(done)
    }

    /// Waits so long for its end; `None` while it is running.
    ///
    /// # Errors
    /// It will never come.
    pub fn ended(&self, time: Duration) -> Result<Option<T>, Lost> {
        match self.0.recv_timeout(time) {
            Ok(done) => Ok(Some(done)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(Lost),
        }
    }
}

/// What a thread of a scope gives; a panic of it is a failure of ours.
///
/// # Errors
/// It panicked (1).
pub fn joined<T>(thread: thread::ScopedJoinHandle<'_, T>) -> Result<T, Failure> {
    thread.join().map_err(|_| Failure::fault("A thread panicked."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_ended_pending_or_lost() {
        assert_eq!(Work::begin(|| 1).ended(Duration::from_secs(10)), Ok(Some(1)));
        assert_eq!(Work::begin(thread::park).ended(Duration::from_millis(10)), Ok(None));
        let lost: Work<()> = Work::begin(|| std::panic::resume_unwind(Box::new(())));
        assert_eq!(lost.ended(Duration::from_secs(10)), Err(Lost));
    }
}
