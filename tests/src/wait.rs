//! Waiting for a condition instead of for a time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// How long a condition is left alone between the first two polls, and at most: most of what is waited for is a tool that ends
/// within some milliseconds.
const PAUSES: [Duration; 2] = [Duration::from_millis(2), Duration::from_millis(50)];

/// How long a test waits for what must come: so long that nothing but a hang takes as long, on the slowest machine. What is
/// waited for decides a test, never the time.
pub const HANG: Duration = Duration::from_secs(900);

static CANCELLED: AtomicBool = AtomicBool::new(false);

/// The polls of a condition: soon after each other at first, then less and less often.
struct Polls {
    deadline: Instant,
    pause: Duration,
    most: Duration,
}

impl Polls {
    fn within(limit: Duration) -> Self {
        Self { deadline: Instant::now() + limit, pause: PAUSES[0], most: PAUSES[1] }
    }

    /// Waits for the next poll; false when the time for polls is over.
    fn again(&mut self) -> bool {
        let in_time = Instant::now() < self.deadline;
        if in_time {
            thread::sleep(self.pause);
            self.pause = self.most.min(self.pause * 2);
        }
        in_time
    }
}

/// Asks `probe` until it has an answer. Fails after `limit`, or as soon as [`cancel`] was called; `what` completes the sentence
/// "gave up waiting for …".
pub fn until<T>(what: &str, limit: Duration, probe: impl FnMut() -> Option<T>) -> Result<T> {
    ask(what, limit, Polls::within(limit), probe)
}

/// The same for a moment that is soon over: the polls do not become fewer.
pub fn promptly<T>(what: &str, limit: Duration, probe: impl FnMut() -> Option<T>) -> Result<T> {
    ask(what, limit, Polls { most: PAUSES[0], ..Polls::within(limit) }, probe)
}

fn ask<T>(what: &str, limit: Duration, mut polls: Polls, mut probe: impl FnMut() -> Option<T>) -> Result<T> {
    loop {
        if let Some(answer) = probe() {
            return Ok(answer);
        }
        if CANCELLED.load(Ordering::SeqCst) {
            bail!("stopped waiting for {what}: interrupted");
        }
        if !polls.again() {
            bail!("gave up waiting for {what} after {limit:?}");
        }
    }
}

/// Like [`until`], for a condition that has no answer but yes; also continues when the program was interrupted, since it is used
/// for taking things away.
pub fn gone(limit: Duration, mut is_gone: impl FnMut() -> bool) -> bool {
    let mut polls = Polls::within(limit);
    loop {
        if is_gone() {
            return true;
        }
        if !polls.again() {
            return false;
        }
    }
}

/// Ends every [`until`] of this process with an error: somebody asked the program to stop.
pub fn cancel() {
    CANCELLED.store(true, Ordering::SeqCst);
}

pub fn is_cancelled() -> bool {
    CANCELLED.load(Ordering::SeqCst)
}
