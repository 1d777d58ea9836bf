//! The edits that make one configuration of another, and how they are written onto a file's own text.

use std::collections::BTreeSet;

use crate::layout::Layout;
use crate::lines::Lines;
use crate::tree::{Flat, Path, Paths, above};

/// One edit. What is set has its value in the saved file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Edit {
    Set(Path),
    Remove(Path),
}

/// The edits that turn `from` into `to`, two files of groups; of lines, see [`of_lines`].
pub(crate) fn edits(from: &Flat, to: &Flat) -> Vec<Edit> {
    let left = Paths::of(Layout::Yaml, to);
    let gone: BTreeSet<Path> = from.keys().filter(|path| !to.contains_key(*path)).cloned().collect();
    let changed = to.iter().filter(|(path, leaf)| from.get(*path) != Some(leaf)).map(|(path, _)| path);
    // A value that becomes a group is replaced by that group, in its place.
    let set: BTreeSet<Path> =
        changed.map(|path| above(path).find(|head| gone.contains(*head)).unwrap_or(path).to_vec()).collect();
    // What leaves an empty group behind takes the group with it; what a new value stands in the place of goes by itself.
    let replaced = |path: &Path| set.contains(path) || above(path).any(|head| set.contains(head));
    let topmost = |path: &Path| above(path).skip(1).map(<[String]>::to_vec).find(|head| !left.holds(head));
    let removed: BTreeSet<Path> =
        gone.iter().filter(|path| !replaced(path)).map(|path| topmost(path).unwrap_or_else(|| path.clone())).collect();
    let in_order = to.keys().chain(from.keys()).flat_map(|path| above(path).map(<[String]>::to_vec).chain([path.clone()]));
    let mut left_to_set = set.clone();
    // First what is set, so that no group stands empty meanwhile.
    let sets = in_order.filter(|path| left_to_set.remove(path)).map(Edit::Set);
    sets.chain(removed.into_iter().map(Edit::Remove)).collect()
}

/// The same of two files of lines, where each key stands for itself.
pub(crate) fn of_lines(from: &Flat, to: &Flat) -> Vec<Edit> {
    let set = to.iter().filter(|(path, leaf)| from.get(*path) != Some(leaf)).map(|(path, _)| Edit::Set(path.clone()));
    let gone = from.keys().filter(|path| !to.contains_key(*path)).cloned().map(Edit::Remove);
    set.chain(gone).collect()
}

/// Writes the edits onto a text of lines.
pub(crate) fn lines(new: &Lines, mine: &Lines, edits: &[Edit]) -> String {
    let mut new = new.clone();
    for edit in edits {
        match edit {
            Edit::Set(path) => new.set(path, mine),
            Edit::Remove(path) => new.remove(path),
        }
    }
    new.text()
}
