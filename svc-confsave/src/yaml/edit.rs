//! Edits written onto a text of YAML: the value that changes, as the operator wrote it, and nothing else.

use std::collections::BTreeSet;

use yaml_edit::{Document, Mapping, MappingEntry, YamlFile, YamlNode};

use crate::layout::Layout;
use crate::tree::{Flat, Path, Paths, Scalar, Tree, above, key_name, may_be_typed};
use crate::yaml;

/// What is set and what is removed to turn `from` into `to`.
fn edits(from: &Flat, to: &Flat) -> (Vec<Path>, BTreeSet<Path>) {
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
    (in_order.filter(|path| left_to_set.remove(path)).collect(), removed)
}

/// The text of `new` with the leaves of `to` instead of `from`, each written as in `mine`. `None` if a key is
/// not found as the strict reader found it (behind an alias, say). With `keep_aliases` an
/// alias in the place of a value stays: what it names is edited too, and says the same.
pub(crate) fn edited(new: &str, mine: &str, (from, to): (&Flat, &Flat), keep_aliases: bool) -> Option<String> {
    let crlf = new.contains("\r\n");
    let mine = with_line_ends(mine, crlf);
    let file: YamlFile = new.parse().ok()?;
    let source: YamlFile = mine.parse().ok()?;
    let source = Source { text: &mine, root: source.document().and_then(|document| document.as_mapping()) };
    let document = file.ensure_document();
    let (changed, removed) = edits(from, to);
    // First what is set, so that no group stands empty meanwhile.
    for path in &changed {
        set(&document, &source, path, keep_aliases)?;
    }
    for path in &removed {
        let (last, heads) = path.split_last()?;
        let group = heads.iter().try_fold(document.as_mapping()?, |above, name| group(&entry(&above, name)?))?;
        group.remove(entry(&group, last)?.key_node()?)?;
    }
    let text = file.to_string();
    // Lines that the editor made end as all others do; a file of mixed line ends keeps them.
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
    /// The value of a path on one line, aliases written out.
    fn on_one_line(&self, path: &Path) -> Option<YamlNode> {
        let mut tree = &yaml::read(self.text).ok()?;
        for key in path {
            let Tree::Map { entries, .. } = tree else { return None };
            tree = entries.get(key)?;
        }
        let line: YamlFile = format!("value: {}\n", one_line(tree)?).parse().ok()?;
        entry(&line.document()?.as_mapping()?, "value")?.value_node()
    }
}

fn set(document: &Document, source: &Source<'_>, path: &Path, keep_aliases: bool) -> Option<()> {
    let (last, heads) = path.split_last()?;
    let (mut from, mut to) = (source.root.clone()?, document.as_mapping());
    for name in heads {
        let mine = entry(&from, name)?;
        let key = mine.key_node()?;
        from = group(&mine)?;
        to = Some(match to.as_ref().map(|group| (group, entry(group, name))) {
            Some((_, Some(there))) => group(&there)?,
            Some((group, None)) => group.entry(key).or_insert_mapping(),
            None => {
                document.set(&key, Mapping::new());
                document.get_mapping(&key)?
            }
        });
    }
    let mine = entry(&from, last)?;
    let (key, mut value) = (mine.key_node()?, mine.value_node()?);
    let in_flow = to.as_ref().is_some_and(Mapping::is_flow_style);
    if (in_flow && is_of_lines(&value)) || has_alias(&value) {
        value = source.on_one_line(path)?;
    }
    match to.as_ref().map(|group| (group, entry(group, last))) {
        Some((_, Some(there))) if keep_aliases && matches!(there.value_node(), Some(YamlNode::Alias(_))) => {}
        Some((group, Some(there))) => there.set_value(&value, group.is_flow_style()),
        Some((group, None)) => group.set(&key, &value),
        None => {
            document.set(&key, &value);
        }
    }
    Some(())
}

/// The entry of a key as paths have it.
fn entry(group: &Mapping, name: &str) -> Option<MappingEntry> {
    group.entries().find(|entry| match entry.key_node() {
        Some(YamlNode::Scalar(key)) => key_name(key.as_string(), key.is_quoted()) == name,
        _ => false,
    })
}

fn group(entry: &MappingEntry) -> Option<Mapping> {
    entry.value_node()?.as_mapping().cloned()
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

/// Whether a value refers to another one, which the new file may not have.
fn has_alias(value: &YamlNode) -> bool {
    match value {
        YamlNode::Alias(_) => true,
        YamlNode::Mapping(group) => group.values().any(|value| has_alias(&value)),
        YamlNode::Sequence(list) => list.values().any(|value| has_alias(&value)),
        YamlNode::Scalar(_) | YamlNode::TaggedNode(_) => false,
    }
}

/// A value on one line, as it must be written inside of braces and brackets; `None` if no such line says the same.
fn one_line(tree: &Tree) -> Option<String> {
    let listed = |parts: Option<Vec<String>>| Some(parts?.join(", "));
    Some(match tree {
        Tree::Scalar(scalar) => tagged(scalar.tag.as_deref()) + &single(scalar)?,
        Tree::List { tag, items } => {
            format!("{}[{}]", tagged(tag.as_deref()), listed(items.iter().map(one_line).collect())?)
        }
        Tree::Map { tag, entries } => {
            let entry = |(name, value): (&String, &Tree)| {
                let unquoted = name.strip_prefix('\'').and_then(|name| name.strip_suffix('\''));
                let text = unquoted.unwrap_or(name).to_owned();
                let key = Scalar { typed: unquoted.is_none() && may_be_typed(&text), text, tag: None };
                Some(format!("{}: {}", single(&key)?, one_line(value)?))
            };
            format!("{}{{{}}}", tagged(tag.as_deref()), listed(entries.iter().map(entry).collect())?)
        }
        Tree::Alias(_) => return None,
    })
}

/// One that readers may take for a number and the like must stay without quotes, so it may hold no sign of its own meaning here.
fn single(scalar: &Scalar) -> Option<String> {
    if !scalar.typed && !is_word(&scalar.text) {
        return Some(quoted(&scalar.text));
    }
    (!scalar.text.contains([',', '[', ']', '{', '}', '#', '\n'])).then(|| scalar.text.clone())
}

fn tagged(tag: Option<&str>) -> String {
    tag.map(|tag| tag.replace("tag:yaml.org,2002:", "!!") + " ").unwrap_or_default()
}

/// Letters, digits and some signs, and nobody's word for anything else.
fn is_word(text: &str) -> bool {
    !may_be_typed(text)
        && text.starts_with(|first: char| first.is_alphabetic() || first == '_')
        && text.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '/'))
}

/// In double quotes. What JSON escapes, YAML reads.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
