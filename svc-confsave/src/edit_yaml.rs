//! Edits written onto a text of YAML: the value that changes, as the operator wrote it, and nothing else.

use yaml_edit::{Document, Mapping, MappingEntry, YamlFile, YamlNode};

use crate::edit::Edit;
use crate::flow;
use crate::tree::{Path, Tree};
use crate::yaml;

/// What to do where the new file has an alias in the place of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Aliases {
    /// It stays: what it names is edited too, and says the same.
    Stay,
    /// The value takes its place.
    Give,
}

/// The text of `new` with the edits, whose values are those of `mine`. `None` where a key is not found as the strict reader found
/// it (behind an alias, say).
pub(crate) fn edited(new: &str, mine: &str, edits: &[Edit], aliases: Aliases) -> Option<String> {
    let crlf = new.contains("\r\n");
    let mine = with_line_ends(mine, crlf);
    let file: YamlFile = new.parse().ok()?;
    let source: YamlFile = mine.parse().ok()?;
    let source = Source { text: &mine, root: source.document().and_then(|document| document.as_mapping()) };
    let document = file.ensure_document();
    for edit in edits {
        match edit {
            Edit::Set(path) => set(&document, &source, path, aliases)?,
            Edit::Remove(path) => remove(&document.as_mapping()?, path)?,
        }
    }
    let text = file.to_string();
    // Lines that the editor made end as all others do; a file of mixed line ends keeps its mixture.
    let all_crlf = crlf && new.matches('\n').count() == new.matches("\r\n").count();
    Some(if all_crlf { with_line_ends(&text, true) } else { text })
}

fn with_line_ends(text: &str, crlf: bool) -> String {
    let text = text.replace("\r\n", "\n");
    if crlf { text.replace('\n', "\r\n") } else { text }
}

/// The file that values come from.
struct Source<'a> {
    text: &'a str,
    root: Option<Mapping>,
}

impl Source<'_> {
    /// The key and the value of a path, as they are written.
    fn find(&self, path: &Path) -> Option<(YamlNode, YamlNode)> {
        let (last, heads) = path.split_last()?;
        let mut group_of = self.root.clone()?;
        for key in heads {
            group_of = group(&entry(&group_of, key)?)?;
        }
        let found = entry(&group_of, last)?;
        Some((found.key_node()?, found.value_node()?))
    }

    /// The value of a path on one line, aliases written out.
    fn on_one_line(&self, path: &Path) -> Option<YamlNode> {
        let mut tree = &yaml::read(self.text).ok()?.tree;
        for key in path {
            let Tree::Map { entries, .. } = tree else { return None };
            tree = entries.get(key)?;
        }
        let line: YamlFile = format!("value: {}\n", flow::one_line(tree)?).parse().ok()?;
        entry(&line.document()?.as_mapping()?, "value")?.value_node()
    }
}

fn set(document: &Document, source: &Source<'_>, path: &Path, aliases: Aliases) -> Option<()> {
    let (last, heads) = path.split_last()?;
    let mut to = document.as_mapping();
    for key in heads {
        to = Some(match to.as_ref().map(|group| (group, entry(group, key))) {
            Some((_, Some(there))) => group(&there)?,
            Some((group, None)) => group.entry(key.as_str()).or_insert_mapping(),
            None => {
                document.set(key.as_str(), Mapping::new());
                document.get_mapping(key.as_str())?
            }
        });
    }
    let (key, mut value) = source.find(path)?;
    let in_flow = to.as_ref().is_some_and(Mapping::is_flow_style);
    if (in_flow && is_of_lines(&value)) || has_alias(&value) {
        value = source.on_one_line(path)?;
    }
    match to.as_ref().map(|group| (group, entry(group, last))) {
        Some((_, Some(there))) if aliases == Aliases::Stay && is_alias(&there) => {}
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

fn is_alias(entry: &MappingEntry) -> bool {
    matches!(entry.value_node(), Some(YamlNode::Alias(_)))
}

/// Whether a value is written over lines that mean something by their indentation.
fn is_of_lines(value: &YamlNode) -> bool {
    match value {
        YamlNode::Mapping(group) => !group.is_flow_style(),
        YamlNode::Sequence(list) => !list.is_flow_style(),
        YamlNode::Scalar(scalar) => scalar.to_string().contains('\n'),
        YamlNode::TaggedNode(tagged) => tagged.to_string().contains('\n'),
        YamlNode::Alias(_) => false,
    }
}

/// Whether a value refers to another one, of which the new file may know nothing.
fn has_alias(value: &YamlNode) -> bool {
    match value {
        YamlNode::Alias(_) => true,
        YamlNode::Mapping(group) => group.values().any(|value| has_alias(&value)),
        YamlNode::Sequence(list) => list.values().any(|value| has_alias(&value)),
        YamlNode::Scalar(_) | YamlNode::TaggedNode(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edit::edits;
    use crate::tree::{Flat, flatten};

    fn leaves(text: &str) -> Flat {
        flatten(&crate::yaml::read(text).expect(text).tree)
    }

    fn written(new: &str, mine: &str, edits: &[Edit]) -> Option<String> {
        edited(new, mine, edits, Aliases::Give)
    }

    /// Makes all of `mine` of `new`.
    fn made(new: &str, mine: &str) -> String {
        let text = written(new, mine, &edits(&leaves(new), &leaves(mine))).expect("it can be edited");
        assert_eq!(leaves(&text), leaves(mine), "{text}");
        text
    }

    #[test]
    fn only_what_changes_is_touched() {
        let new = "# head\na: 1 # one\nb: 'x'   # bee\nc:\n  # in c\n  d: true # dee\n  e: [1, 2]\n\n# tail\nz: end\n";
        let mine = "a: \"010\"\nb: 'x'\nc: {d: true, e: [1, 2]}\nz: end\n";
        assert_eq!(made(new, mine), new.replace("a: 1", "a: \"010\""));
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
                made(new, &format!("k:\n  v: {value}\n  w: 1\n"));
            }
        }
    }

    #[test]
    fn values_become_groups_and_groups_values() {
        made("a: 1\nb: 2\n", "a:\n  x: 1\n  y: {z: 1}\nb: 2\n");
        made("a:\n  x: 1\n  y: {z: 1}\nb: 2\n", "a: 1\nb: 2\n");
        made("a: {}\n", "a:\n  x: 1\n");
        made("a:\nb: 1\n", "a:\n  x: 1\nb: 1\n");
    }

    #[test]
    fn a_group_that_loses_its_last_key_goes() {
        let new = "a:\n  b:\n    c: 1\n# keep\nd: 2\n";
        assert_eq!(made(new, "d: 2\n"), "# keep\nd: 2\n");
    }

    #[test]
    fn line_ends_and_odd_keys_are_kept() {
        let out = made("a: 1\r\n\"b.c\": 2 # c\r\n8080: x\r\n", "a: 1\n'b.c': [x,\n  y]\n\"8080\": y\nnew key: |\n  1\n  2\n");
        assert_eq!(out.matches('\n').count(), out.matches("\r\n").count(), "{out:?}");
    }
}
