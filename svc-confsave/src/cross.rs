//! Across layouts nothing is carried: what is customised is told, with the key of the other file that may be the same.

use crate::key::{KeyReport, Sides, counterpart};
use crate::merge::{Decision, Fate, Reason};
use crate::redact::Redactor;
use crate::tree::{Path, Tree, render};

/// What is said of each key. Without a base of the saved layout, a key counts as customised where the new file does not say
/// the same under the same path.
pub(crate) fn keys(sides: Sides<'_>, redactor: &Redactor) -> Vec<KeyReport> {
    let mut keys = Vec::new();
    let removed = sides.base.into_iter().flat_map(|base| base.keys().filter(|path| !sides.saved.contains_key(*path)));
    for path in sides.saved.keys().chain(removed) {
        let is = sides.saved.get(path);
        if sides.base.is_some_and(|base| base.get(path) == is) {
            continue;
        }
        let twin = counterpart(path, sides.new);
        let there = twin.and_then(|twin| sides.new.get(twin));
        let agree = is.map(Tree::to_json) == there.map(Tree::to_json);
        let at_home = |twin: Option<&Path>| twin.is_none_or(|twin| twin == path);
        if agree && at_home(twin) && sides.base.is_none() {
            continue;
        }
        let fate = if agree { Fate::Same } else { Fate::NotCarried(Reason::OtherLayout) };
        let mut report = KeyReport::of(&Decision { path: path.clone(), fate }, sides, redactor);
        report.suggestion = twin.map(|twin| render(twin));
        keys.push(report);
    }
    keys
}
