//! Whether to go on: what a thread asks that has no [`crate::Call`].

use std::time::Duration;

use crate::deadline::Deadline;
use crate::failure::Failure;
use crate::signals::Signals;

/// How long at a time nobody looks at the clock, where there is no time limit.
const LONG: Duration = Duration::from_secs(3600);

/// A call's signals and time limit, to be kept or handed to a thread.
#[derive(Debug, Clone)]
pub struct Watch {
    signals: Signals,
    deadline: Deadline,
}

impl Watch {
    pub(crate) const fn new(signals: Signals, deadline: Deadline) -> Self {
        Self { signals, deadline }
    }

    /// Whether to go on: a signal or the end of the time limit says no.
    ///
    /// # Errors
    /// `interrupted`, or `timeout` (6).
    pub fn check(&self) -> Result<(), Failure> {
        if let Some(signal) = self.signals.came() {
            return Err(Failure::interrupted(signal));
        }
        if self.deadline.passed() {
            let limit = self.deadline.limit().unwrap_or_default();
            return Err(Failure::timeout("timeout", format!("The step did not end within {} s.", limit.as_secs_f64()))
                .hint("Allow more time with --timeout, and run the same command again."));
        }
        Ok(())
    }

    /// Waits until there is a reason not to go on.
    pub fn until_stopped(&self) {
        while self.check().is_ok() {
            self.signals.wait(self.deadline.at_most(LONG));
        }
    }

    /// The time limit.
    #[must_use]
    pub const fn deadline(&self) -> &Deadline {
        &self.deadline
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_the_time_limit_is_6() {
        let watch = |limit| Watch::new(Signals::default(), Deadline::new(limit));
        assert!(watch(None).check().is_ok() && watch(Some(Duration::from_secs(60))).check().is_ok());
        assert_eq!(watch(Some(Duration::ZERO)).check().unwrap_err().status.code(), 6);
    }

    #[test]
    fn whoever_waits_for_the_end_of_the_time_is_woken_then() {
        let watch = Watch::new(Signals::default(), Deadline::new(Some(Duration::from_millis(20))));
        watch.until_stopped();
        assert!(watch.check().is_err());
    }
}
