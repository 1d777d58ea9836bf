//! Asking again: for what is awaited, and for what fails for a while.

use std::thread;
use std::time::{Duration, Instant};

use crate::Failure;

/// How often what fails is tried at least: a busy server may take half a minute to say so.
const ATTEMPTS: u32 = 3;
/// The first pause between two polls of what takes no time.
pub const AT_ONCE: Duration = Duration::from_millis(5);
/// That of anything else.
pub const SOON: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(2);

/// The pause before the next poll: a twentieth of the time since the first one.
pub fn pause_since(begun: Instant, first: Duration) -> Duration {
    (begun.elapsed() / 20).clamp(first, LONGEST)
}

/// Asks until there is an answer, for so long; `pause` may end it.
///
/// # Errors
/// What `ask` or `pause` says.
pub fn poll<T>(
    first: Duration,
    time: Duration,
    pause: impl Fn(Duration) -> Result<(), Failure>,
    mut ask: impl FnMut() -> Result<Option<T>, Failure>,
) -> Result<Option<T>, Failure> {
    let begun = Instant::now();
    loop {
        let answer = ask()?;
        if answer.is_some() || begun.elapsed() > time {
            return Ok(answer);
        }
        pause(pause_since(begun, first))?;
    }
}

/// Tries again what fails, for as long as `time` says of the failure; if `pause` ends it, the last failure says more than that.
///
/// # Errors
/// The last failure of `work`.
pub fn retry<T>(
    time: impl Fn(&Failure) -> Option<Duration>,
    pause: impl Fn(Duration) -> Result<(), Failure>,
    mut work: impl FnMut() -> Result<T, Failure>,
) -> Result<T, Failure> {
    let (begun, mut attempts) = (Instant::now(), 0);
    loop {
        let ended = work();
        attempts += 1;
        let time = ended.as_ref().err().and_then(&time);
        let is_tried_again = time.is_some_and(|time| attempts < ATTEMPTS || begun.elapsed() < time);
        if !is_tried_again || pause(pause_since(begun, SOON)).is_err() {
            return ended;
        }
    }
}

/// A pause that nothing ends.
///
/// # Errors
/// None: it is a pause as [`poll`] and [`retry`] take it.
#[allow(clippy::unnecessary_wraps)]
pub fn sleep(time: Duration) -> Result<(), Failure> {
    thread::sleep(time);
    Ok(())
}
