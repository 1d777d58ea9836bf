//! Waiting for a condition instead of for a time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// How long a condition is left alone between the first two polls, and at most: most of what is waited for is a tool that ends
/// within some milliseconds.
const PAUSES: [Duration; 2] = [Duration::from_millis(2), Duration::from_millis(50)];

/// How long a test waits for what must come: so long that nothing but a hang takes as long, on the slowest machine. What is
/// waited for decides a test, never the time.
pub const HANG: Duration = Duration::from_secs(900);

static CANCELLED: AtomicBool = AtomicBool::new(false);

/// Asks `probe` until it has an answer. Fails after `limit`, or as soon as [`cancel`] was called; `what` completes the sentence
/// "gave up waiting for …".
pub fn until<T>(what: &str, limit: Duration, probe: impl FnMut() -> Option<T>) -> Result<T> {
    told(what, limit, PAUSES[1], probe)
}

/// The same for what a test waits for until it hangs.
#[track_caller]
pub fn so<T>(what: &str, probe: impl FnMut() -> Option<T>) -> T {
    until(what, HANG, probe).unwrap_or_else(|error| panic!("{error:#}"))
}

/// The same for a moment that is soon over: the polls do not become fewer.
pub fn promptly<T>(what: &str, limit: Duration, probe: impl FnMut() -> Option<T>) -> Result<T> {
    told(what, limit, PAUSES[0], probe)
}

fn told<T>(what: &str, limit: Duration, most: Duration, probe: impl FnMut() -> Option<T>) -> Result<T> {
    ask(limit, most, || !is_cancelled(), probe).with_context(|| {
        let why = if is_cancelled() { "interrupted".to_owned() } else { format!("not within {limit:?}") };
        format!("gave up waiting for {what}: {why}")
    })
}

/// Like [`until`], for a condition that has no answer but yes; also continues when the program was interrupted, since it is used
/// for taking things away.
pub fn gone(limit: Duration, mut is_gone: impl FnMut() -> bool) -> bool {
    ask(limit, PAUSES[1], || true, || is_gone().then_some(())).is_some()
}

/// Asks soon after each other at first, then less and less often.
fn ask<T>(limit: Duration, most: Duration, continues: impl Fn() -> bool, mut probe: impl FnMut() -> Option<T>) -> Option<T> {
    let (deadline, mut pause) = (Instant::now() + limit, PAUSES[0]);
    loop {
        let answer = probe();
        if answer.is_some() || !continues() || Instant::now() >= deadline {
            return answer;
        }
        thread::sleep(pause);
        pause = most.min(pause * 2);
    }
}

/// Ends every [`until`] of this process with an error: somebody asked the program to stop.
pub fn cancel() {
    CANCELLED.store(true, Ordering::SeqCst);
}

pub fn is_cancelled() -> bool {
    CANCELLED.load(Ordering::SeqCst)
}
