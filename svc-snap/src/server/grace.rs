//! How much longer than its time limit a step may take. Whoever has altered nothing yet ends at once; what is begun is finished or
//! taken back, and a server that does not answer meanwhile is not waited for as long as usual.

use std::time::Duration;

use svc_step::deadline::Deadline;

/// So much longer in all.
pub(crate) const GRACE: Duration = Duration::from_secs(10);
/// What every request is given even then: a server that answers is never cut off between two of them.
const LEAST: Duration = Duration::from_secs(1);

/// What is left of the time limit and the grace behind it; `None` where there is no limit.
pub(crate) fn left(deadline: &Deadline) -> Option<Duration> {
    deadline.remaining_with(GRACE).map(|left| left.max(LEAST))
}

/// As long as `wanted`, and no longer than that.
pub(crate) fn at_most(deadline: &Deadline, wanted: Duration) -> Duration {
    left(deadline).map_or(wanted, |left| left.min(wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_waits_longer_than_the_time_limit_and_its_grace() {
        let (short, long) = (Duration::from_secs(1), Duration::from_secs(90));
        assert_eq!(at_most(&Deadline::new(None), long), long);
        assert_eq!(at_most(&Deadline::new(Some(long)), long), long);
        let over = Deadline::new(Some(Duration::ZERO));
        assert!(at_most(&over, long) <= GRACE && at_most(&over, long) > LEAST);
        assert_eq!(at_most(&over, short), short);
    }
}
