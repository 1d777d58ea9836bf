//! The edits that make one configuration of another, and how they are written onto a file's own text.

use std::collections::BTreeSet;

use yaml_edit::{Document, Mapping, MappingEntry, YamlFile, YamlNode};

use crate::lines::Lines;
use crate::tree::{Flat, Path, Paths, above};

/// One edit. What is set has its value in the saved file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Edit {
    Set(Path),
    Remove(Path),
}

/// The edits that turn `from` into `to`.
pub(crate) fn edits(from: &Flat, to: &Flat) -> Vec<Edit> {
    let left = Paths::of(to);
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

/// Writes the edits onto a text of YAML, values as the operator wrote them. `None` where a key is not found as the strict
/// reader found it (behind an alias, say).
pub(crate) fn yaml(new: &str, mine: &str, edits: &[Edit]) -> Option<String> {
    let mine = if new.contains("\r\n") { mine.replace("\r\n", "\n").replace('\n', "\r\n") } else { mine.replace("\r\n", "\n") };
    let file: YamlFile = new.parse().ok()?;
    let mine: YamlFile = mine.parse().ok()?;
    let document = file.ensure_document();
    for edit in edits {
        match edit {
            Edit::Set(path) => set(&document, &mine.document()?.as_mapping()?, path)?,
            Edit::Remove(path) => remove(&document.as_mapping()?, path)?,
        }
    }
    Some(file.to_string())
}

fn set(document: &Document, mine: &Mapping, path: &Path) -> Option<()> {
    let (last, heads) = path.split_last()?;
    let mut from = mine.clone();
    let mut to = document.as_mapping();
    for key in heads {
        let inner = group(&entry(&from, key)?)?;
        to = Some(match to.as_ref().map(|group| (group, entry(group, key))) {
            Some((_, Some(there))) => group(&there)?,
            Some((group, None)) => group.entry(key.as_str()).or_insert_mapping(),
            None => {
                document.set(key.as_str(), Mapping::new());
                document.get_mapping(key.as_str())?
            }
        });
        from = inner;
    }
    let found = entry(&from, last)?;
    let (key, value) = (found.key_node()?, found.value_node()?);
    match to.as_ref().map(|group| (group, entry(group, last))) {
        Some((group, Some(there))) => there.set_value(&value, group.is_flow_style()),
        Some((group, None)) => group.set(&key, &value),
        None => {
            document.set(&key, &value);
        }
    }
    Some(())
}

fn remove(root: &Mapping, path: &Path) -> Option<()> {
    let (last, heads) = path.split_last()?;
    let mut group_of = root.clone();
    for key in heads {
        group_of = group(&entry(&group_of, key)?)?;
    }
    let key = entry(&group_of, last)?.key_node()?;
    group_of.remove(&key).map(drop)
}

/// The entry of a key by its text, whatever its quotes.
fn entry(group: &Mapping, key: &str) -> Option<MappingEntry> {
    group.entries().find(|entry| match entry.key_node() {
        Some(YamlNode::Scalar(scalar)) => scalar.as_string() == key,
        _ => false,
    })
}

fn group(entry: &MappingEntry) -> Option<Mapping> {
    entry.value_node()?.as_mapping().cloned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::flatten;

    fn leaves(text: &str) -> Flat {
        flatten(&crate::yaml::read(text).expect(text).tree)
    }

    /// Makes all of `mine` of `new`.
    fn edited(new: &str, mine: &str) -> String {
        let text = yaml(new, mine, &edits(&leaves(new), &leaves(mine))).expect("it can be edited");
        assert_eq!(leaves(&text), leaves(mine), "{text}");
        text
    }

    #[test]
    fn only_what_changes_is_touched() {
        let new = "# head\na: 1 # one\nb: 'x'   # bee\nc:\n  # in c\n  d: true # dee\n  e: [1, 2]\n\n# tail\nz: end\n";
        let mine = "a: \"010\"\nb: 'x'\nc: {d: true, e: [1, 2]}\nz: end\n";
        assert_eq!(edited(new, mine), new.replace("a: 1", "a: \"010\""));
    }

    #[test]
    fn values_of_every_form_are_carried() {
        for value in [
            "no",
            "'no'",
            "~",
            "",
            "{}",
            "[]",
            "[a, {b: c}]",
            "\n    - a # c\n    - b: c\n      d: e",
            "|\n    one\n      two",
            ">-\n    one\n    two",
            "!!int 5",
            "\"x\\ty\"",
            "'it''s'",
            "\n    deeper:\n      still: 1",
        ] {
            for new in [
                "k:\n  v: old # c\n  w: 1\n",
                "k:\n  v:\n    - 1\n    - 2\n  w: 1\n",
                "k:\n  v: |\n    text\n  w: 1\n",
                "k:\n  w: 1\n",
                "# c\n",
                "",
            ] {
                edited(new, &format!("k:\n  v: {value}\n  w: 1\n"));
            }
        }
    }

    #[test]
    fn values_become_groups_and_groups_values() {
        edited("a: 1\nb: 2\n", "a:\n  x: 1\n  y: {z: 1}\nb: 2\n");
        edited("a:\n  x: 1\n  y: {z: 1}\nb: 2\n", "a: 1\nb: 2\n");
        edited("a: {}\n", "a:\n  x: 1\n");
        edited("a:\nb: 1\n", "a:\n  x: 1\nb: 1\n");
    }

    #[test]
    fn a_group_that_loses_its_last_key_goes() {
        let new = "a:\n  b:\n    c: 1\n# keep\nd: 2\n";
        assert_eq!(edited(new, "d: 2\n"), "# keep\nd: 2\n");
    }

    #[test]
    fn line_ends_and_odd_keys_are_kept() {
        let out = edited("a: 1\r\n\"b.c\": 2 # c\r\n8080: x\r\n", "a: 1\n'b.c': [x,\n  y]\n\"8080\": y\nnew key: |\n  1\n  2\n");
        assert_eq!(out.matches('\n').count(), out.matches("\r\n").count(), "{out:?}");
    }

    use proptest::prelude::*;

    /// A value as text at some depth: what follows `key:`, line end and all.
    fn value(depth: usize) -> BoxedStrategy<String> {
        let pad = "  ".repeat(depth + 1);
        let scalar = prop_oneof![
            "[a-z0-9]{1,6}",
            Just("'it''s # x'".to_owned()),
            Just("\"a\\tb\"".to_owned()),
            Just("[1, {x: y}]".to_owned()),
            Just("{}".to_owned()),
            Just("!!str 5".to_owned()),
        ];
        let inline = (scalar, prop::bool::ANY).prop_map(|(text, note)| format!(" {text}{}\n", if note { " # note" } else { "" }));
        let (list_pad, text_pad) = (pad.clone(), pad.clone());
        let list = prop::collection::vec("[a-z]{1,3}", 1..3)
            .prop_map(move |items| format!("\n{}", items.iter().map(|item| format!("{list_pad}- {item}\n")).collect::<String>()));
        let block = "[a-z]{1,3}".prop_map(move |word| format!(" |\n{text_pad}{word}\n{text_pad}  {word}\n"));
        let leaf = prop_oneof![4 => inline, 1 => list, 1 => block];
        if depth >= 2 {
            return leaf.boxed();
        }
        let group = entries(depth + 1, 1).prop_map(|text| format!("\n{text}"));
        prop_oneof![3 => leaf, 1 => group].boxed()
    }

    /// Lines of a group of few possible keys, with comments and blank lines between.
    fn entries(depth: usize, least: usize) -> BoxedStrategy<String> {
        let pad = "  ".repeat(depth);
        prop::collection::btree_map("[abcd]", (value(depth), 0..4), least..4)
            .prop_map(move |entries| {
                let one = |(key, (value, before)): (&String, &(String, i32))| {
                    let before = match before {
                        0 => format!("{pad}# about {key}\n"),
                        1 => "\n".to_owned(),
                        _ => String::new(),
                    };
                    format!("{before}{pad}{key}:{value}")
                };
                entries.iter().map(one).collect::<String>()
            })
            .boxed()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1500))]

        #[test]
        fn any_file_is_made_of_any_other_and_says_exactly_the_same(new in entries(0, 1), mine in entries(0, 1)) {
            let (from, to) = (leaves(&new), leaves(&mine));
            let text = yaml(&new, &mine, &edits(&from, &to));
            let said = text.as_deref().and_then(|text| crate::yaml::read(text).ok()).map(|read| flatten(&read.tree));
            prop_assert_eq!(said.as_ref(), Some(&to), "\nnew:\n{}\nmine:\n{}\nwritten:\n{:?}", new, mine, text);
        }

        #[test]
        fn one_set_value_leaves_every_other_line_as_it_is(new in entries(0, 1), word in "[a-z]{7}") {
            let flat = leaves(&new);
            let Some((path, _)) = flat.iter().find(|(_, leaf)| matches!(leaf, crate::tree::Tree::Scalar(one) if !one.text.contains('\n'))) else {
                return Ok(());
            };
            let mine = path.iter().enumerate().map(|(depth, key)| format!("\n{}{key}:", "  ".repeat(depth))).collect::<String>();
            let text = yaml(&new, &format!("{mine} {word}\n"), &[Edit::Set(path.clone())]).unwrap();
            let changed: Vec<(&str, &str)> = new.lines().zip(text.lines()).filter(|(old, new)| old != new).collect();
            prop_assert_eq!(changed.len(), 1, "\n{}\n{}", new, text);
            prop_assert_eq!(new.lines().count(), text.lines().count());
        }
    }
}
