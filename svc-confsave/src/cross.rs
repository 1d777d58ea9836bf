//! Across layouts nothing is carried: what is customised is told, with the key of the other file that may be the same.

use std::collections::HashMap;

use crate::key::{KeyReport, Sides};
use crate::merge::{Decision, Fate, Reason};
use crate::redact::Redactor;
use crate::tree::{Flat, Path, Tree, render};

/// What is said of each key. Without a base of the saved layout, a key counts as customised where the new file does not say
/// the same under the same path.
pub(crate) fn keys(sides: Sides<'_>, redactor: &Redactor) -> Vec<KeyReport> {
    let twins = Twins::among(sides.new);
    let mut keys = Vec::new();
    let removed = sides.base.into_iter().flat_map(|base| base.keys().filter(|path| !sides.saved.contains_key(*path)));
    for path in sides.saved.keys().chain(removed) {
        let is = sides.saved.get(path);
        if sides.base.is_some_and(|base| base.get(path) == is) {
            continue;
        }
        let twin = twins.of(path);
        let there = twin.and_then(|twin| sides.new.get(twin));
        let agree = is.map(Tree::to_json) == there.map(Tree::to_json);
        let at_home = twin.is_none_or(|twin| twin == path);
        if agree && at_home && sides.base.is_none() {
            continue;
        }
        let fate = if agree { Fate::Same } else { Fate::NotCarried(Reason::OtherLayout) };
        let mut report = KeyReport::of(&Decision { path: path.clone(), fate }, sides, redactor);
        report.suggestion = twin.map(|twin| render(&redactor.path(twin)));
        keys.push(report);
    }
    keys
}

/// The keys of a file, to be found by what they most likely mean.
struct Twins<'a> {
    /// By the whole path, without its signs: `database.pool_size` and `database.pool.size` are alike.
    by_path: HashMap<String, &'a Path>,
    /// By the last key; `None` where several have it.
    by_name: HashMap<String, Option<&'a Path>>,
}

impl<'a> Twins<'a> {
    fn among(flat: &'a Flat) -> Self {
        let (mut by_path, mut by_name) = (HashMap::new(), HashMap::new());
        for path in flat.keys() {
            by_path.entry(plain(path)).or_insert(path);
            by_name.entry(plain(last(path))).and_modify(|only| *only = None).or_insert(Some(path));
        }
        Self { by_path, by_name }
    }

    /// The key of the same path but for its signs, else the only one of that name.
    fn of(&self, path: &[String]) -> Option<&'a Path> {
        self.by_path.get(&plain(path)).copied().or_else(|| self.by_name.get(&plain(last(path))).copied().flatten())
    }
}

fn last(path: &[String]) -> &[String] {
    path.last().map(std::slice::from_ref).unwrap_or_default()
}

fn plain(keys: &[String]) -> String {
    keys.concat().to_lowercase().replace(|c: char| !c.is_alphanumeric(), "")
}
