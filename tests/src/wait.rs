//! Waiting for a condition instead of for a time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// How long a condition is left alone between two looks.
const PAUSE: Duration = Duration::from_millis(50);

static CANCELLED: AtomicBool = AtomicBool::new(false);

/// Asks `probe` until it has an answer. Fails after `limit`, or as soon as [`cancel`] was called; `what` completes the sentence
/// "gave up waiting for …".
pub fn until<T>(what: &str, limit: Duration, mut probe: impl FnMut() -> Option<T>) -> Result<T> {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(answer) = probe() {
            return Ok(answer);
        }
        if CANCELLED.load(Ordering::SeqCst) {
            bail!("stopped waiting for {what}: interrupted");
        }
        if Instant::now() >= deadline {
            bail!("gave up waiting for {what} after {limit:?}");
        }
        thread::sleep(PAUSE);
    }
}

/// Like [`until`], for a condition that has no answer but yes; also goes on when the program was interrupted, since it is used
/// for taking things away.
pub fn gone(limit: Duration, mut is_gone: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + limit;
    loop {
        if is_gone() {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        thread::sleep(PAUSE);
    }
}

/// Ends every [`until`] of this process with an error: somebody asked the program to stop.
pub fn cancel() {
    CANCELLED.store(true, Ordering::SeqCst);
}

/// Whether [`cancel`] was called.
pub fn is_cancelled() -> bool {
    CANCELLED.load(Ordering::SeqCst)
}
