//! Times, as the manager tells them: in text to the second, and on the monotonic clock to the microsecond.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use nix::time::{ClockId, clock_gettime};
use svc_step::document::Time;

/// A time for people, and the same in milliseconds for whoever reckons with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moment(Timestamp);

impl Moment {
    pub(crate) fn now() -> Self {
        Self(Timestamp::now())
    }

    /// What `systemctl show` says with `TZ=UTC`: `text` is all that every systemd writes, and the monotonic clock adds the
    /// part of the second where the two agree (after a suspend or a set clock they do not).
    pub(crate) fn told(text: &str, monotonic_us: &str) -> Option<Self> {
        let civil = DateTime::strptime("%a %Y-%m-%d %H:%M:%S UTC", text).ok()?;
        let second = civil.to_zoned(TimeZone::UTC).ok()?.timestamp();
        let exact = monotonic_us.parse().ok().and_then(from_monotonic);
        let agrees = |exact: &Timestamp| exact.as_second() == second.as_second();
        Some(Self(exact.filter(agrees).unwrap_or(second)))
    }

    pub(crate) fn time(self) -> Time {
        self.0.into()
    }

    pub(crate) fn epoch_ms(self) -> u64 {
        u64::try_from(self.0.as_millisecond()).unwrap_or_default()
    }
}

fn from_monotonic(us: i64) -> Option<Timestamp> {
    let clock = clock_gettime(ClockId::CLOCK_MONOTONIC).ok()?;
    let now_us = clock.tv_sec().checked_mul(1_000_000)?.checked_add(clock.tv_nsec() / 1_000)?;
    Timestamp::from_microsecond(Timestamp::now().as_microsecond().checked_sub(now_us.checked_sub(us)?)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_of_systemd_is_read_and_an_unset_one_is_none() {
        let told = Moment::told("Sat 2026-11-21 09:02:18 UTC", "1").unwrap();
        assert_eq!(told.time().as_str(), "2026-11-21T09:02:18Z");
        assert_eq!(told.epoch_ms() % 1000, 0);
        assert_eq!(Moment::told("", "0"), None);
        assert_eq!(Moment::told("n/a", "0"), None);
    }
}
