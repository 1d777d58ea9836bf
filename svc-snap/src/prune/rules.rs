//! Which snapshots go: the rules of snapshot lifecycle management (Elasticsearch's SnapshotRetentionConfiguration), as a pure
//! function of the list.
//!
//! Only valid backups count. The oldest go where there are more than the most; of the others the oldest go that are too old, as
//! long as the fewest are left; what is no valid backup goes where it is older than the newest one that is.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How many snapshots of a kind stay, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rules {
    /// Older ones go, in milliseconds; `None`: none is too old.
    pub max_age_ms: Option<i128>,
    /// So many stay at most; `None`: any number.
    pub max_count: Option<usize>,
    /// So many stay whatever their age.
    pub min_count: usize,
}

/// What a snapshot is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Worth {
    /// A valid backup.
    Good,
    /// Finished, and none (`PARTIAL`, `FAILED`, a success that holds nothing).
    Bad,
    /// Still being taken.
    UnderWay,
    /// The server does not say enough: another state, or no time.
    Unknown,
}

/// What the rules need to know of one snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub name: String,
    /// Whether its metadata bears our mark.
    pub ours: bool,
    pub kind: Option<String>,
    pub worth: Worth,
    pub started_at: Option<Timestamp>,
    /// Whether a `--keep-from` file names it.
    pub named: bool,
}

/// Why a snapshot stays or goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// It stays: it is not one of ours.
    NotOurs,
    /// It stays: it is of a kind that was not asked for.
    OtherKind,
    /// It stays: a `--keep-from` file names it.
    KeepFrom,
    /// It stays: it is still being taken.
    UnderWay,
    /// It stays: the server does not say enough of it to judge it.
    NotJudged,
    /// It stays: the newest valid backup of its kind.
    Newest,
    /// It stays: no valid backup, and there is no newer one that is.
    NoNewerGood,
    /// It stays: one of the newest `--min-count`.
    MinCount,
    /// It stays: neither too old nor one too many.
    WithinRules,
    /// It goes: there are more than `--max-count` valid backups of its kind, and it is one of the oldest.
    MaxCount,
    /// It goes: it is older than `--max-age`.
    MaxAge,
    /// It goes: no valid backup, and there is a newer one that is.
    NotGood,
}

impl Reason {
    /// Whether it is a reason to delete.
    pub(crate) const fn deletes(self) -> bool {
        matches!(self, Self::MaxCount | Self::MaxAge | Self::NotGood)
    }
}

/// A verdict for each candidate, in their order. Each of the kinds is judged by itself.
pub(crate) fn judge(candidates: &[Candidate], kinds: &[&str], rules: &Rules, now: Timestamp) -> Vec<Reason> {
    let mut verdicts: Vec<Option<Reason>> = candidates.iter().map(|one| outside(one, kinds)).collect();
    for kind in kinds {
        let of_kind = |(at, one): (usize, &Candidate)| (one.ours && one.kind.as_deref() == Some(*kind)).then_some(at);
        let members: Vec<usize> = candidates.iter().enumerate().filter_map(of_kind).collect();
        for (at, reason) in of_one_kind(candidates, &members, rules, now) {
            if let Some(verdict) = verdicts.get_mut(at) {
                verdict.get_or_insert(reason);
            }
        }
    }
    verdicts.into_iter().map(|verdict| verdict.unwrap_or(Reason::NotJudged)).collect()
}

/// What the rules do not touch at all.
fn outside(one: &Candidate, kinds: &[&str]) -> Option<Reason> {
    if !one.ours {
        Some(Reason::NotOurs)
    } else if !one.kind.as_deref().is_some_and(|kind| kinds.contains(&kind)) {
        Some(Reason::OtherKind)
    } else if one.named {
        Some(Reason::KeepFrom)
    } else if one.worth == Worth::UnderWay {
        Some(Reason::UnderWay)
    } else if one.worth == Worth::Unknown || one.started_at.is_none() {
        Some(Reason::NotJudged)
    } else {
        None
    }
}

fn of_one_kind(candidates: &[Candidate], members: &[usize], rules: &Rules, now: Timestamp) -> BTreeMap<usize, Reason> {
    // Two of the same moment are told apart by name, so that the same list always gives the same verdicts.
    let timed = members.iter().filter_map(|&at| {
        let one = candidates.get(at)?;
        Some(((one.started_at?, one.name.as_str()), at, one))
    });
    let mut timed: Vec<_> = timed.collect();
    timed.sort_by(|one, other| one.0.cmp(&other.0));
    let good = || timed.iter().filter(|(_, _, one)| one.worth == Worth::Good);
    // One that a file names is a valid backup too, beside which a bad one is needed no more; but it does not count, or naming
    // one would drive out another.
    let newest_of_all = good().next_back().map(|(key, _, _)| *key);
    let counted: Vec<usize> = good().filter(|(_, _, one)| !one.named).map(|(_, at, _)| *at).collect();
    let count = counted.len();
    let too_many = rules.max_count.map_or(0, |most| count.saturating_sub(most.max(rules.min_count)));
    let may_age = count.saturating_sub(rules.min_count);
    let is_old = |at: usize| {
        let started = candidates.get(at).and_then(|one| one.started_at);
        let age = started.map(|started| i128::from(now.as_millisecond()) - i128::from(started.as_millisecond()));
        rules.max_age_ms.zip(age).is_some_and(|(most, age)| age > most)
    };
    let mut verdicts = BTreeMap::new();
    for (rank, &at) in counted.iter().enumerate() {
        let reason = if rank + 1 == count {
            Reason::Newest
        } else if rank < too_many {
            Reason::MaxCount
        } else if rank >= may_age {
            Reason::MinCount
        } else if is_old(at) {
            Reason::MaxAge
        } else {
            Reason::WithinRules
        };
        verdicts.insert(at, reason);
    }
    for (key, at, one) in &timed {
        if one.worth == Worth::Bad {
            let replaced = newest_of_all.is_some_and(|newest| *key < newest);
            verdicts.insert(*at, if replaced { Reason::NotGood } else { Reason::NoNewerGood });
        }
    }
    verdicts
}

#[cfg(test)]
mod tests;
