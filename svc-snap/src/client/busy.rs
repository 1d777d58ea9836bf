//! How long to pause before a server is asked again: one that something is awaited of, or that is busy for a moment.

use std::time::{Duration, Instant};

use svc_step::{Call, Failure};

/// For how long a server is asked again that is busy only for a moment.
pub(crate) const MOMENT: Duration = Duration::from_secs(20);
/// How often it is asked at least: a busy one may take half a minute to say so.
const ATTEMPTS: u32 = 3;
/// The first pause between two attempts; it doubles to the last.
const FIRST: Duration = Duration::from_millis(200);
const LAST: Duration = Duration::from_secs(3);

/// The pause before the next poll of what has been awaited since `begun`: a twentieth of that time, within these bounds.
pub(crate) fn poll_pause(begun: Instant, first: Duration, longest: Duration) -> Duration {
    (begun.elapsed() / 20).clamp(first, longest)
}

/// Asks, and for so long asks again what the server is too busy for; a signal or the time limit ends that. Where its answer was lost a
/// request has another failure, and is not sent again.
pub(crate) fn retry_while_busy<T>(
    call: &Call,
    time: Duration,
    mut ask: impl FnMut() -> Result<T, Failure>,
) -> Result<T, Failure> {
    let until = Instant::now() + time;
    let (mut pause, mut attempts) = (FIRST, 0);
    loop {
        attempts += 1;
        match ask() {
            Err(failure) if is_busy(&failure) && (attempts < ATTEMPTS || Instant::now() < until) => {
                // What the server said last is worth more than that the time was up.
                if call.pause(pause).is_err() {
                    return Err(failure);
                }
                pause = (pause * 2).min(LAST);
            }
            ended => return ended,
        }
    }
}

pub(crate) fn is_busy(failure: &Failure) -> bool {
    failure.code == "search_busy" || failure.code == "search_unavailable"
}
