//! A server that is busy, and what else passes by itself.

use std::time::Duration;

use svc_step::poll::retry;
use svc_step::{Call, Failure, Status};

/// For how long a server is asked again that is busy only for a moment.
pub(crate) const MOMENT: Duration = Duration::from_secs(20);

/// Asks a server again for so long that is too busy. A request whose answer was lost has another failure, and is not sent again.
pub(crate) fn retry_while_busy<T>(call: &Call, time: Duration, ask: impl FnMut() -> Result<T, Failure>) -> Result<T, Failure> {
    retry(|failure| is_busy(failure).then_some(time), |time| call.pause(time), ask)
}

/// Whether the server is busy, or cannot answer at the moment: the request was surely not begun.
pub(crate) fn is_busy(failure: &Failure) -> bool {
    failure.code == "server_busy"
}

/// Whether it may pass by itself: the server is busy, restarting or not reached.
pub(crate) fn passes(failure: &Failure) -> bool {
    failure.status == Status::Unavailable || failure.code == "outcome_unknown"
}
