//! The merge, a pure function on leaves: what the operator changed is carried, what the vendor changed stays.
//!
//! Its laws, held by property tests: `merge(base, base, new) = new`; `merge(base, mine, base) = mine`; a second merge changes
//! nothing.

use std::collections::HashSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::layout::Layout;
use crate::tree::{Flat, Path, Paths, Tree, names};

/// What became of a customised key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The new configuration has the operator's value.
    Carried,
    /// It had it already.
    Same,
    /// The vendor had changed it too; the new configuration has the operator's value.
    Conflict,
    /// The new configuration stays as it is there.
    NotCarried,
}

/// Why a customised key is not carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// Without a base nobody knows who changed it, and nothing was named to be carried.
    NoBase,
    /// Without a base only what is named is carried, and this was not.
    NotNamed,
    /// The new configuration has no such key any more.
    GoneInNew,
    /// A key is a group in one configuration and a value in the other.
    OtherStructure,
    /// The saved and the new configuration are of different layouts.
    OtherLayout,
    /// A file has lines that are not understood, so it is not changed by key.
    NotRecognised,
    /// The new file cannot be written so that exactly this changes.
    NotWritable,
}

/// One customised key, and what becomes of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// The key.
    pub path: Path,
    /// What becomes of it.
    pub outcome: Outcome,
    /// Why it is not carried; `None` if it is.
    pub reason: Option<Reason>,
}

impl Decision {
    fn of(path: &Path, outcome: Outcome) -> Self {
        Self { path: path.clone(), outcome, reason: None }
    }

    fn not_carried(path: &Path, reason: Reason) -> Self {
        Self { path: path.clone(), outcome: Outcome::NotCarried, reason: Some(reason) }
    }
}

/// A merge: what becomes of each customised key, and what the new configuration is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Merge {
    /// In the order of the saved file, keys that it lacks last.
    pub decisions: Vec<Decision>,
    /// All leaves.
    pub result: Flat,
}

/// A change at one path, before it is known whether the structure of the new file allows it.
struct Change<'a> {
    path: &'a Path,
    /// `None`: the key is to go.
    value: Option<&'a Tree>,
    outcome: Outcome,
}

/// The merge with a base: `base` is what was shipped when `mine` was made of it.
#[must_use]
pub fn three_way(layout: Layout, base: &Flat, mine: &Flat, new: &Flat) -> Merge {
    let (mut changes, mut settled) = (Vec::new(), Vec::new());
    let paths = Paths::of(layout, new);
    let all = mine.keys().chain(base.keys().filter(|path| !mine.contains_key(*path)));
    for path in all {
        let (was, is, there) = (base.get(path), mine.get(path), new.get(path));
        if is == was {
            if is != there && matches!(is, Some(Tree::Alias(target)) if is_customised(target, base, mine)) {
                settled.push(Decision::not_carried(path, Reason::OtherStructure));
            }
            continue;
        }
        if is == there {
            settled.push(Decision::of(path, Outcome::Same));
        } else if there == was {
            changes.push(Change { path, value: is, outcome: Outcome::Carried });
        } else if there.is_some() {
            changes.push(Change { path, value: is, outcome: Outcome::Conflict });
        } else {
            let is_structure = paths.value_above(path) || paths.values_below(path);
            settled.push(Decision::not_carried(path, if is_structure { Reason::OtherStructure } else { Reason::GoneInNew }));
        }
    }
    apply(layout, changes, settled, mine, new)
}

/// Whether something of a group is, or of one that it refers to.
fn is_customised(group: &Path, base: &Flat, mine: &Flat) -> bool {
    let refers_to_one = |is: &Tree| matches!(is, Tree::Alias(target) if is_customised(target, base, mine));
    let is_changed = |path: &Path| base.get(path) != mine.get(path) || mine.get(path).is_some_and(refers_to_one);
    mine.keys().chain(base.keys()).any(|path| path.starts_with(group) && is_changed(path))
}

/// The merge without a base: only what is named, a key or a group each, is carried, or with `None` all that differs. Nothing is removed.
#[must_use]
pub fn two_way(layout: Layout, mine: &Flat, new: &Flat, named: Option<&[String]>) -> Merge {
    let (mut changes, mut settled) = (Vec::new(), Vec::new());
    let otherwise = if named.is_some_and(<[String]>::is_empty) { Reason::NoBase } else { Reason::NotNamed };
    for (path, is) in mine {
        let is_same = new.get(path) == Some(is);
        let is_chosen = named.is_none_or(|named| named.iter().any(|name| names(name, path)));
        if is_same && is_chosen && named.is_some() {
            settled.push(Decision::of(path, Outcome::Same));
        } else if !is_same && is_chosen {
            changes.push(Change { path, value: Some(is), outcome: Outcome::Carried });
        } else if !is_same {
            settled.push(Decision::not_carried(path, otherwise));
        }
    }
    apply(layout, changes, settled, mine, new)
}

/// Makes the changes, unless a value would come to stand above or below another one. Keys that belong to such a
/// change of structure stay together: either all of it is carried or none.
fn apply(layout: Layout, changes: Vec<Change<'_>>, settled: Vec<Decision>, mine: &Flat, new: &Flat) -> Merge {
    let mut blocked: HashSet<&Path> = HashSet::new();
    let (mut result, clashes) = loop {
        let mut result = new.clone();
        for change in changes.iter().filter(|change| change.value.is_none() && !blocked.contains(change.path)) {
            result.shift_remove(change.path);
        }
        let paths = Paths::of(layout, &result);
        let clashes: Vec<&Path> = changes
            .iter()
            .filter(|change| change.value.is_some() && !blocked.contains(change.path))
            .map(|change| change.path)
            .filter(|path| paths.value_above(path) || paths.values_below(path))
            .collect();
        if clashes.is_empty() {
            break (result, blocked);
        }
        let related = |path: &Path| clashes.iter().any(|clash| path.starts_with(clash) || clash.starts_with(path));
        blocked.extend(changes.iter().map(|change| change.path).filter(|path| related(path)));
    };
    let mut decisions = settled;
    for Change { path, value, outcome } in changes {
        if clashes.contains(path) {
            decisions.push(Decision::not_carried(path, Reason::OtherStructure));
            continue;
        }
        decisions.push(Decision::of(path, outcome));
        if let Some(value) = value {
            result.insert(path.clone(), value.clone());
        }
    }
    decisions.sort_by_key(|decision| mine.get_index_of(&decision.path).unwrap_or(usize::MAX));
    Merge { decisions, result }
}
