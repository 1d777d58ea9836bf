//! Which backups go and which stay: one set of rules for snapshots (`svc-snap prune`) and restore points (`svc-point prune`), those of
//! Elasticsearch's snapshot lifecycle management.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::Args;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::deadline;

/// How many backups of a kind stay, and for how long. The newest valid one always stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Args)]
pub struct Retention {
    #[arg(long, value_name = "DURATION", env = "SVC_KEEP_MAX_AGE", default_value = "30d", value_parser = age)]
    max_age: Limit<Duration>,
    #[arg(long, value_name = "N", env = "SVC_KEEP_MAX_COUNT", default_value = "30", value_parser = count)]
    max_count: Limit<u64>,
    #[arg(long, value_name = "N", env = "SVC_KEEP_MIN_COUNT", default_value = "7", value_parser = clap::value_parser!(u64).range(1..))]
    min_count: u64,
}

/// A limit, or `none`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit<T>(pub Option<T>);

/// A backup, as far as the rules need to know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Item<'a> {
    /// Each kind is pruned on its own.
    pub kind: &'a str,
    /// When it was made.
    pub made: Timestamp,
    /// Its state.
    pub state: State,
}

/// The state of a backup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It counts.
    Valid,
    /// It does not count, and goes if a newer one is valid.
    Invalid,
    /// It stays for this reason, and does not count.
    Exempt(Reason),
}

/// Why a backup stays or goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// It stays: another tool made it.
    NotOurs,
    /// It stays: its kind is not pruned.
    OtherKind,
    /// It stays: a `--keep-from` file names it.
    KeepFrom,
    /// It stays: it is still being made.
    Running,
    /// It stays: a run that is in progress or is to be resumed needs it.
    Needed,
    /// It stays: its state, its time, or which service made it is unknown.
    Unknown,
    /// It stays: a person must see why it is damaged.
    Damaged,
    /// It stays: none of its kind could be verified.
    NoneVerified,
    /// It stays: it is newer than the newest verified one of its kind.
    NotVerified,
    /// It stays: it is invalid, and no newer one of its kind is valid.
    NoNewerValid,
    /// It stays: it is the newest valid one of its kind.
    Newest,
    /// It stays: it is one of the newest `--min-count`.
    MinCount,
    /// It stays: it is neither too old nor one too many.
    Young,
    /// It goes: there are `--max-count` newer ones.
    MaxCount,
    /// It goes: it is older than `--max-age`.
    MaxAge,
    /// It goes: it is incomplete or invalid, and a newer one of its kind is valid.
    Superseded,
}

impl Reason {
    /// Whether the backup goes.
    pub const fn removes(self) -> bool {
        matches!(self, Self::MaxCount | Self::MaxAge | Self::Superseded)
    }
}

impl Retention {
    /// The reason of each item, in their order, which is oldest first.
    pub fn reasons(&self, items: &[Item<'_>], now: Timestamp) -> Vec<Reason> {
        let mut newer_valid = BTreeMap::<&str, u64>::new();
        let newest_first = items.iter().rev().map(|item| {
            let newer = newer_valid.entry(item.kind).or_default();
            match item.state {
                State::Exempt(reason) => reason,
                State::Invalid if *newer == 0 => Reason::NoNewerValid,
                State::Invalid => Reason::Superseded,
                State::Valid => {
                    *newer += 1;
                    let age = Duration::try_from(now.duration_since(item.made)).unwrap_or_default();
                    self.reason(*newer - 1, age)
                }
            }
        });
        let mut reasons: Vec<Reason> = newest_first.collect();
        reasons.reverse();
        reasons
    }

    fn reason(&self, newer: u64, age: Duration) -> Reason {
        if newer == 0 {
            Reason::Newest
        } else if newer < self.min_count {
            Reason::MinCount
        } else if self.max_count.0.is_some_and(|most| newer >= most) {
            Reason::MaxCount
        } else if self.max_age.0.is_some_and(|most| age > most) {
            Reason::MaxAge
        } else {
            Reason::Young
        }
    }
}

/// Reads `30d`, `4w`, `36h`, `1h30m`. A bare number is refused: by it people mean days, and deadlines seconds.
///
/// # Errors
/// A sentence for clap.
pub fn duration(text: &str) -> Result<Duration, String> {
    if !deadline::has_unit(text) {
        return Err(format!("`{text}` has no unit: write 30d, 4w or 36h"));
    }
    let days = |text: &str, days: u64| text.trim().parse::<u64>().ok()?.checked_mul(days * 86_400).map(Duration::from_secs);
    let long =
        text.strip_suffix('d').and_then(|text| days(text, 1)).or_else(|| text.strip_suffix('w').and_then(|text| days(text, 7)));
    long.map_or_else(|| deadline::parse(text).map_err(|_| format!("`{text}` is not a duration: write 30d, 4w or 36h")), Ok)
}

/// Reads a duration or `none`.
///
/// # Errors
/// A sentence for clap.
pub fn age(text: &str) -> Result<Limit<Duration>, String> {
    if text == "none" { Ok(Limit(None)) } else { duration(text).map(|age| Limit(Some(age))) }
}

fn count(text: &str) -> Result<Limit<u64>, String> {
    match text.parse() {
        _ if text == "none" => Ok(Limit(None)),
        Ok(number) if number > 0 => Ok(Limit(Some(number))),
        _ => Err(format!("`{text}` is not a number of backups: write 1 or more, or none")),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::test_runner::{Config, RngSeed};

    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);
    const NOW: Timestamp = Timestamp::constant(1_800_000_000, 0);

    fn item(kind: &'static str, days: u32, state: State) -> Item<'static> {
        Item { kind, made: NOW - DAY * days, state }
    }

    fn rules(max_days: Option<u32>, max_count: Option<u64>, min_count: u64) -> Retention {
        Retention { max_age: Limit(max_days.map(|days| DAY * days)), max_count: Limit(max_count), min_count }
    }

    /// The days of those that go.
    fn gone(items: &[Item<'_>], rules: &Retention) -> Vec<usize> {
        let reasons = rules.reasons(items, NOW);
        reasons.iter().enumerate().filter(|(_, reason)| reason.removes()).map(|(at, _)| at).collect()
    }

    #[test]
    fn each_item_has_its_reason() {
        use Reason::{Damaged, MaxAge, MaxCount, MinCount, Newest, NoNewerValid, NotOurs, Superseded, Young};
        use State::{Exempt, Invalid, Valid};
        let table = [
            ("nightly", 90, Exempt(NotOurs), NotOurs),
            ("manual", 60, Valid, MaxAge),
            ("nightly", 50, Valid, MaxCount),
            ("nightly", 40, Valid, MaxAge),
            ("nightly", 35, Invalid, Superseded),
            ("nightly", 33, Exempt(Damaged), Damaged),
            ("nightly", 31, Valid, MaxAge),
            ("nightly", 30, Valid, Young),
            ("manual", 29, Valid, MinCount),
            ("nightly", 28, Valid, MinCount),
            ("manual", 3, Valid, Newest),
            ("nightly", 2, Valid, Newest),
            ("nightly", 1, Invalid, NoNewerValid),
        ];
        let items = table.map(|(kind, days, state, _)| item(kind, days, state));
        assert_eq!(rules(Some(30), Some(5), 2).reasons(&items, NOW), table.map(|(.., reason)| reason));
        assert_eq!(gone(&items, &rules(None, None, 1)), [4], "without limits only what is invalid goes");
        let old: Vec<Item<'_>> = (100..107).rev().map(|days| item("nightly", days, Valid)).collect();
        assert!(gone(&old, &rules(Some(30), Some(30), 7)).is_empty(), "time alone removes nothing when backups stop");
        assert_eq!(gone(&old, &rules(Some(0), Some(1), 1)), [0, 1, 2, 3, 4, 5]);
    }

    #[test]
    fn age_and_count_limits_are_parsed() {
        let days = |days: u32| Ok(Limit(Some(DAY * days)));
        assert_eq!((age("30d"), age("2w"), age("24h"), age("none")), (days(30), days(14), days(1), Ok(Limit(None))));
        assert!(age("soon").is_err() && age("-1d").is_err() && age("").is_err());
        assert_eq!((count("30"), count("none")), (Ok(Limit(Some(30))), Ok(Limit(None))));
        assert!(count("0").is_err() && count("-1").is_err() && count("all").is_err());
    }

    fn items() -> impl Strategy<Value = Vec<Item<'static>>> {
        let state = prop_oneof![
            6 => Just(State::Valid),
            2 => Just(State::Invalid),
            2 => Just(State::Exempt(Reason::KeepFrom)),
        ];
        let one = (prop_oneof![3 => Just("nightly"), 1 => Just("manual")], 0..12_u32, state);
        prop::collection::vec(one.prop_map(|(kind, days, state)| item(kind, days, state)), 0..25).prop_map(|mut items| {
            items.sort_by_key(|item| item.made);
            items
        })
    }

    fn some_rules() -> impl Strategy<Value = Retention> {
        (prop::option::of(0..14_u32), prop::option::of(1..12_u64), 1..8_u64)
            .prop_map(|(days, most, least)| rules(days, most, least))
    }

    proptest! {
        #![proptest_config(Config { rng_seed: RngSeed::Fixed(1), failure_persistence: None, ..Config::default() })]

        #[test]
        fn newest_valid_and_exempt_backups_are_kept(items in items(), rules in some_rules()) {
            let gone = gone(&items, &rules);
            prop_assert!(gone.iter().all(|at| !matches!(items[*at].state, State::Exempt(_))));
            for kind in ["nightly", "manual"] {
                let valid = items.iter().enumerate().filter(|(_, item)| item.kind == kind && item.state == State::Valid);
                let valid: Vec<usize> = valid.map(|(at, _)| at).collect();
                let newest = valid.iter().rev().take(usize::try_from(rules.min_count).unwrap());
                prop_assert!(newest.copied().all(|at| !gone.contains(&at)));
            }
        }
    }
}
