//! The rules: which restore points go, and why.

use std::time::Duration;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use crate::point::{Point, State};

/// The rules of one call.
#[derive(Debug)]
pub struct Rules<'a> {
    /// The kinds that are pruned.
    pub kinds: &'a [&'a str],
    /// The newest verified restore point of each kind, by its ID.
    pub verified: &'a [String],
    /// Older ones go.
    pub max_age: Option<Duration>,
    /// The oldest above this number go.
    pub max_count: Option<u64>,
    /// This number stays.
    pub min_count: u64,
}

/// What becomes of a restore point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// It stays.
    Stays,
    /// It goes.
    Goes,
}

/// Why a restore point stays or goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// It stays: its run is in progress.
    Running,
    /// It stays: its kind is not pruned.
    OtherKind,
    /// It stays: it is the newest verified one of its kind.
    Newest,
    /// It stays: a person must look why it is damaged.
    Damaged,
    /// It stays: none of its kind could be verified.
    NoneVerified,
    /// It stays: it is newer than the newest verified one of its kind.
    NotVerified,
    /// It stays: it is one of the newest `min_count`.
    MinCount,
    /// It stays: nothing speaks against it.
    Young,
    /// It goes: a newer one of its kind was finalized and verified.
    Incomplete,
    /// It goes: there are `max_count` newer ones.
    MaxCount,
    /// It goes: it is older than `max_age`.
    MaxAge,
}

impl Reason {
    /// What becomes of the restore point.
    pub const fn fate(self) -> Fate {
        match self {
            Self::Incomplete | Self::MaxCount | Self::MaxAge => Fate::Goes,
            _ => Fate::Stays,
        }
    }
}

impl Rules<'_> {
    /// The reason of each, in the order of `points`, which are the oldest first.
    pub fn judge(&self, points: &[Point], now: Timestamp) -> Vec<Reason> {
        points
            .iter()
            .enumerate()
            .map(|(at, point)| self.reason(point, points.get(at + 1..).unwrap_or_default(), points, now))
            .collect()
    }

    fn reason(&self, point: &Point, newer: &[Point], all: &[Point], now: Timestamp) -> Reason {
        let Some(kind) = point.kind.as_deref().filter(|kind| self.kinds.contains(kind)) else {
            return if point.state == State::Running { Reason::Running } else { Reason::OtherKind };
        };
        let is_verified = |point: &Point| self.verified.contains(&point.id);
        let newest = all.iter().find(|other| is_verified(other) && other.kind.as_deref() == Some(kind));
        match (point.state, newest) {
            (State::Running, _) => Reason::Running,
            _ if is_verified(point) => Reason::Newest,
            (State::Damaged, _) => Reason::Damaged,
            (_, None) => Reason::NoneVerified,
            (_, Some(newest)) if point.order > newest.order => Reason::NotVerified,
            (State::Incomplete, _) => Reason::Incomplete,
            (State::Valid, Some(newest)) => {
                // How many valid ones are newer; the newest verified one is the first.
                let counts = |other: &&Point| {
                    other.state == State::Valid && other.kind.as_deref() == Some(kind) && other.order <= newest.order
                };
                let place = newer.iter().filter(counts).count() as u64;
                let age = Duration::try_from(now.duration_since(point.made)).unwrap_or_default();
                if place < self.min_count {
                    Reason::MinCount
                } else if self.max_count.is_some_and(|most| place >= most) {
                    Reason::MaxCount
                } else if self.max_age.is_some_and(|most| age > most) {
                    Reason::MaxAge
                } else {
                    Reason::Young
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3600;

    fn point(id: &str, kind: &str, state: State, days: i64) -> Point {
        let made = Timestamp::from_second(1_800_000_000 - days * 24 * HOUR).unwrap();
        Point {
            id: id.to_owned(),
            path: format!("/var/backups/svc/{id}"),
            state,
            kind: Some(kind.to_owned()),
            version: None,
            quiesced: None,
            made_at: None,
            size_bytes: 0,
            read_all: false,
            damaged_files: Vec::new(),
            made,
            order: made,
        }
    }

    fn judged(rules: &Rules<'_>, points: &[Point]) -> Vec<Reason> {
        rules.judge(points, Timestamp::from_second(1_800_000_000).unwrap())
    }

    #[test]
    fn each_restore_point_has_its_reason() {
        use Reason::{
            Damaged as Damaged_, Incomplete as Incomplete_, MaxAge, MaxCount, MinCount, Newest, NoneVerified, NotVerified,
            OtherKind, Running as Running_,
        };
        use State::{Damaged, Incomplete, Running, Valid};
        let table = [
            ("manual", "manual", Valid, 60, OtherKind),
            ("upgrade", "upgrade", Incomplete, 60, OtherKind),
            ("many", "nightly", Valid, 50, MaxCount),
            ("old", "nightly", Valid, 40, MaxAge),
            ("cut", "nightly", Incomplete, 35, Incomplete_),
            ("damaged", "nightly", Damaged, 33, Damaged_),
            ("second", "nightly", Valid, 32, MinCount),
            ("newest", "nightly", Valid, 3, Newest),
            ("unverified", "nightly", Valid, 2, NotVerified),
            ("cut now", "nightly", Incomplete, 1, NotVerified),
            ("running", "nightly", Running, 0, Running_),
        ];
        let points: Vec<Point> = table.iter().map(|(id, kind, state, days, _)| point(id, kind, *state, *days)).collect();
        let verified = ["newest".to_owned()];
        let days = |days: u64| Some(Duration::from_secs(days * 24 * 3600));
        let rules = Rules { kinds: &["nightly"], verified: &verified, max_age: days(30), max_count: Some(3), min_count: 2 };
        assert_eq!(judged(&rules, &points), table.map(|(.., reason)| reason));

        let none = Rules { verified: &[], ..rules };
        let of = |id: &str| judged(&none, &points)[points.iter().position(|point| point.id == id).unwrap()];
        assert_eq!(["many", "old", "cut", "damaged"].map(of), [NoneVerified, NoneVerified, NoneVerified, Damaged_]);
    }

    #[test]
    fn without_limits_all_stay_and_each_kind_counts_by_itself() {
        let points = [
            point("a", "manual", State::Valid, 900),
            point("b", "nightly", State::Valid, 800),
            point("c", "manual", State::Valid, 2),
            point("d", "nightly", State::Valid, 1),
        ];
        let verified = ["c".to_owned(), "d".to_owned()];
        let mut rules =
            Rules { kinds: &["manual", "nightly"], verified: &verified, max_age: None, max_count: None, min_count: 1 };
        assert_eq!(judged(&rules, &points), [Reason::Young, Reason::Young, Reason::Newest, Reason::Newest]);
        rules.max_count = Some(1);
        assert_eq!(judged(&rules, &points), [Reason::MaxCount, Reason::MaxCount, Reason::Newest, Reason::Newest]);
    }
}
