//! The merge, a pure function on leaves: what the operator changed is carried, what the vendor changed stays.
//!
//! Its laws, held by property tests: `merge(base, base, new) = new`; `merge(base, mine, base) = mine`; a second merge changes
//! nothing.

use std::collections::HashSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::layout::Layout;
use crate::tree::{Flat, Path, Paths, Tree, names};

/// What becomes of a key that the operator customised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// The new configuration gets the operator's value.
    Carried,
    /// The new configuration says the same already.
    Same,
    /// The vendor changed it too; the operator's value wins.
    Conflict,
    /// The new configuration stays as it is there.
    NotCarried(Reason),
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
    /// The new configuration has a group where the saved one has a value, or the other way.
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
    pub fate: Fate,
}

/// A merge: what becomes of each customised key, and what the new configuration is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Merge {
    /// In the order of the saved file, keys that it lacks last.
    pub decisions: Vec<Decision>,
    /// All leaves.
    pub result: Flat,
}

/// Without a base, what is carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice<'a> {
    /// Nothing; all that differs is reported.
    Nothing,
    /// What these name, a key or a group each.
    Named(&'a [String]),
    /// All that the saved copy has and that differs.
    All,
}

/// What is to be done at one path, before it is known whether the structure of the new file allows it.
struct Wish<'a> {
    path: &'a Path,
    /// `None`: the key is to go.
    value: Option<&'a Tree>,
    fate: Fate,
}

/// The merge with a base: `base` is what was shipped when `mine` was made of it.
#[must_use]
pub fn three_way(layout: Layout, base: &Flat, mine: &Flat, new: &Flat) -> Merge {
    let (mut wishes, mut settled) = (Vec::new(), Vec::new());
    let paths = Paths::of(layout, new);
    let all = mine.keys().chain(base.keys().filter(|path| !mine.contains_key(*path)));
    for path in all {
        let (was, is, there) = (base.get(path), mine.get(path), new.get(path));
        if is == was {
            continue;
        }
        if is == there {
            settled.push(Decision { path: path.clone(), fate: Fate::Same });
        } else if there == was {
            wishes.push(Wish { path, value: is, fate: Fate::Carried });
        } else if there.is_some() {
            wishes.push(Wish { path, value: is, fate: Fate::Conflict });
        } else {
            settled.push(Decision { path: path.clone(), fate: Fate::NotCarried(gone(path, &paths)) });
        }
    }
    fulfil(layout, wishes, settled, mine, new)
}

/// The merge without a base: only what is chosen is carried, and nothing is taken away.
#[must_use]
pub fn two_way(layout: Layout, mine: &Flat, new: &Flat, choice: Choice<'_>) -> Merge {
    let mut wishes = Vec::new();
    let mut settled = Vec::new();
    for (path, is) in mine {
        let same = new.get(path) == Some(is);
        let (chosen, otherwise) = match choice {
            Choice::Nothing => (false, Reason::NoBase),
            Choice::Named(named) => (named.iter().any(|name| names(name, path)), Reason::NotNamed),
            Choice::All => (true, Reason::NotNamed),
        };
        if same && matches!(choice, Choice::Named(_)) && chosen {
            settled.push(Decision { path: path.clone(), fate: Fate::Same });
        } else if !same && chosen {
            wishes.push(Wish { path, value: Some(is), fate: Fate::Carried });
        } else if !same {
            settled.push(Decision { path: path.clone(), fate: Fate::NotCarried(otherwise) });
        }
    }
    fulfil(layout, wishes, settled, mine, new)
}

fn gone(path: &Path, paths: &Paths) -> Reason {
    if paths.value_above(path) || paths.values_below(path) { Reason::OtherStructure } else { Reason::GoneInNew }
}

/// Does what is wished, save where a value would come to stand above or below another one. Keys that belong to such a
/// change of structure stay together: either all of it is carried or none.
fn fulfil(layout: Layout, wishes: Vec<Wish<'_>>, settled: Vec<Decision>, mine: &Flat, new: &Flat) -> Merge {
    let mut blocked: HashSet<&Path> = HashSet::new();
    let (mut result, clashes) = loop {
        let mut result = new.clone();
        for wish in wishes.iter().filter(|wish| wish.value.is_none() && !blocked.contains(wish.path)) {
            result.shift_remove(wish.path);
        }
        let paths = Paths::of(layout, &result);
        let clashes: Vec<&Path> = wishes
            .iter()
            .filter(|wish| wish.value.is_some() && !blocked.contains(wish.path))
            .map(|wish| wish.path)
            .filter(|path| paths.value_above(path) || paths.values_below(path))
            .collect();
        if clashes.is_empty() {
            break (result, blocked);
        }
        let related = |path: &Path| clashes.iter().any(|clash| path.starts_with(clash) || clash.starts_with(path));
        blocked.extend(wishes.iter().map(|wish| wish.path).filter(|path| related(path)));
    };
    let mut decisions = settled;
    for Wish { path, value, fate } in wishes {
        let fate = if clashes.contains(path) { Fate::NotCarried(Reason::OtherStructure) } else { fate };
        if let (Some(value), Fate::Carried | Fate::Conflict) = (value, fate) {
            result.insert(path.clone(), value.clone());
        }
        decisions.push(Decision { path: path.clone(), fate });
    }
    decisions.sort_by_key(|decision| mine.get_index_of(&decision.path).unwrap_or(usize::MAX));
    Merge { decisions, result }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `a.b=1 c=2` as leaves.
    fn flat(text: &str) -> Flat {
        let leaf = |pair: &str| {
            let (path, value) = pair.split_once('=').unwrap();
            (path.split('.').map(str::to_owned).collect::<Path>(), Tree::plain(value))
        };
        text.split_whitespace().map(leaf).collect()
    }

    fn fates(merge: &Merge) -> Vec<(String, Fate)> {
        merge.decisions.iter().map(|decision| (decision.path.join("."), decision.fate)).collect()
    }

    fn check(merge: &Merge, result: &str, wanted: &[(&str, Fate)]) {
        assert_eq!(merge.result, flat(result));
        let wanted: Vec<(String, Fate)> = wanted.iter().map(|(path, fate)| ((*path).to_owned(), *fate)).collect();
        assert_eq!(fates(merge), wanted);
    }

    #[test]
    fn with_a_base_each_side_keeps_what_it_alone_changed_and_the_operator_wins_a_conflict() {
        let merge = three_way(
            Layout::Yaml,
            &flat("mine=0 theirs=0 both=0 agreed=0 gone=0 left=0 out=0 fought=0"),
            &flat("mine=1 theirs=0 both=1 agreed=1 gone=1 left=0 added=1"),
            &flat("mine=0 theirs=2 both=2 agreed=1 left=0 out=0 fought=2 fresh=2"),
        );
        check(
            &merge,
            "mine=1 theirs=2 both=1 agreed=1 left=0 fresh=2 added=1",
            &[
                ("mine", Fate::Carried),
                ("both", Fate::Conflict),
                ("agreed", Fate::Same),
                ("gone", Fate::NotCarried(Reason::GoneInNew)),
                ("added", Fate::Carried),
                ("out", Fate::Carried),
                ("fought", Fate::Conflict),
            ],
        );
    }

    #[test]
    fn without_a_base_only_what_is_chosen_is_carried_and_nothing_is_taken_away() {
        let (mine, new) = (flat("a.x=1 a.y=2 b=3 same=4"), flat("a.x=0 a.y=2 b=0 same=4 fresh=5"));
        let nothing = two_way(Layout::Yaml, &mine, &new, Choice::Nothing);
        let no_base = Fate::NotCarried(Reason::NoBase);
        check(&nothing, "a.x=0 a.y=2 b=0 same=4 fresh=5", &[("a.x", no_base), ("b", no_base)]);
        let named = two_way(Layout::Yaml, &mine, &new, Choice::Named(&["a".to_owned()]));
        let not_named = Fate::NotCarried(Reason::NotNamed);
        let wanted = [("a.x", Fate::Carried), ("a.y", Fate::Same), ("b", not_named)];
        check(&named, "a.x=1 a.y=2 b=0 same=4 fresh=5", &wanted);
        let all = two_way(Layout::Yaml, &mine, &new, Choice::All);
        check(&all, "a.x=1 a.y=2 b=3 same=4 fresh=5", &[("a.x", Fate::Carried), ("b", Fate::Carried)]);
    }

    #[test]
    fn in_lines_a_key_and_a_section_of_the_same_name_are_two_things() {
        let files = [flat("log=0 log.level=info"), flat("log=1 log.level=debug"), flat("log=0 log.level=info log.file=x")];
        let [base, mine, new] = &files;
        let carried = [("log", Fate::Carried), ("log.level", Fate::Carried)];
        check(&three_way(Layout::Conf, base, mine, new), "log=1 log.level=debug log.file=x", &carried);
        let out = three_way(Layout::Conf, base, &flat("log.level=info"), new);
        check(&out, "log.level=info log.file=x", &[("log", Fate::Carried)]);
        let gone = three_way(Layout::Conf, base, mine, &flat("log.level=info"));
        check(&gone, "log.level=debug", &[("log", Fate::NotCarried(Reason::GoneInNew)), ("log.level", Fate::Carried)]);
    }

    #[test]
    fn a_change_of_structure_is_carried_as_a_whole_or_not_at_all() {
        let as_a_whole = three_way(Layout::Yaml, &flat("a=0"), &flat("a.x=1 a.y=1"), &flat("a=0 b=2"));
        let carried = |path| (path, Fate::Carried);
        check(&as_a_whole, "b=2 a.x=1 a.y=1", &[carried("a.x"), carried("a.y"), carried("a")]);
        // The vendor added a.z, so the operator's single value has no place.
        let blocked = three_way(Layout::Yaml, &flat("a.x=0 a.y=0"), &flat("a=1"), &flat("a.x=0 a.y=0 a.z=2"));
        let other = |path| (path, Fate::NotCarried(Reason::OtherStructure));
        check(&blocked, "a.x=0 a.y=0 a.z=2", &[other("a"), other("a.x"), other("a.y")]);
        let vendor = three_way(Layout::Yaml, &flat("a=0"), &flat("a=1"), &flat("a.x=2"));
        check(&vendor, "a.x=2", &[other("a")]);
    }
}
