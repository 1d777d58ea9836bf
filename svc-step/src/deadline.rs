//! The time limit of a whole step (`--timeout`).

use std::time::{Duration, Instant};

/// When to give up; without one, a step may take as long as it needs.
#[derive(Debug, Clone, Copy)]
pub struct Deadline {
    limit: Option<Duration>,
    started: Instant,
}

impl Deadline {
    /// Counts from now.
    pub fn new(limit: Option<Duration>) -> Self {
        Self { limit, started: Instant::now() }
    }

    /// What is left of it, `None` if there is no limit.
    pub fn remaining(&self) -> Option<Duration> {
        self.limit.map(|limit| limit.saturating_sub(self.started.elapsed()))
    }

    /// What is left of it and of `reserve` behind it, `None` if there is no limit.
    pub fn remaining_with(&self, reserve: Duration) -> Option<Duration> {
        self.limit.map(|limit| limit.saturating_add(reserve).saturating_sub(self.started.elapsed()))
    }

    /// The shorter of `wanted` and what is left.
    pub fn at_most(&self, wanted: Duration) -> Duration {
        self.remaining().map_or(wanted, |left| left.min(wanted))
    }

    /// Whether it has passed.
    pub fn passed(&self) -> bool {
        self.remaining().is_some_and(|left| left.is_zero())
    }

    /// The limit as it was given.
    pub const fn limit(&self) -> Option<Duration> {
        self.limit
    }
}

/// Reads `90s`, `5m`, `1h 30m` or a bare number of seconds.
///
/// # Errors
/// A sentence for clap if the text is no duration or a negative one.
pub fn parse(text: &str) -> Result<Duration, String> {
    if let Ok(seconds) = text.trim().parse::<u64>() {
        return Ok(Duration::from_secs(seconds));
    }
    let span: jiff::SignedDuration =
        text.trim().parse().map_err(|_| format!("`{text}` is not a duration: write 90s, 5m or 1h30m"))?;
    Duration::try_from(span).map_err(|_| format!("`{text}` is negative"))
}

/// The same, but no bare number: in a settings file beside ages, people may mean anything by it.
///
/// # Errors
/// A sentence, as that of [`parse`].
pub fn with_unit(text: &str) -> Result<Duration, String> {
    if has_unit(text) { parse(text) } else { Err(format!("`{text}` has no unit: write 90s, 5m or 1h30m")) }
}

/// Whether it is more than a number.
pub(crate) fn has_unit(text: &str) -> bool {
    !text.trim().bytes().all(|byte| byte.is_ascii_digit())
}
