//! A server that is busy for a moment, such as at the end of a removal or a cleanup, is asked again.

use std::time::{Duration, Instant};

use svc_step::{Call, Failure};

/// For how long a server is asked again that is busy only for a moment.
pub(crate) const MOMENT: Duration = Duration::from_secs(20);
/// The first pause between two attempts; it doubles to the last.
const FIRST: Duration = Duration::from_millis(200);
const LAST: Duration = Duration::from_secs(3);

/// Asks, and for so long asks again what the server is too busy for.
pub(crate) fn patiently<T>(
    call: &Call,
    time: Duration,
    is_busy: impl Fn(&Failure) -> bool,
    mut ask: impl FnMut() -> Result<T, Failure>,
) -> Result<T, Failure> {
    let until = Instant::now() + time;
    let mut pause = FIRST;
    loop {
        match ask() {
            Err(failure) if is_busy(&failure) && Instant::now() < until => {
                // What the server said last is worth more than that the time was up.
                call.pause(pause).map_err(|ended| if ended.signal.is_some() { ended } else { failure })?;
                pause = (pause * 2).min(LAST);
            }
            ended => return ended,
        }
    }
}

/// Whether the server is busy, or does not answer requests at the moment.
pub(crate) fn is_busy(failure: &Failure) -> bool {
    failure.code == "search_busy" || failure.code == "search_unavailable"
}
