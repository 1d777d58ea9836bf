//! A configuration as a tree of raw scalars, and as leaves by key path. Scalars are compared by their text and by whether a parser
//! may take them for anything but a string, never by typed values: parsers of YAML 1.1 and 1.2 disagree about `no` and `010`.

use std::collections::BTreeSet;

use indexmap::IndexMap;

use crate::layout::Layout;

/// Where a value stands: the keys that lead to it. Keys may hold dots, so this is never one dotted string.
pub type Path = Vec<String>;

/// Leaves by their path, in the order of the file; two are equal whatever their order.
pub type Flat = IndexMap<Path, Tree>;

/// What stands for a key of a file that is not read by key.
pub(crate) const WHOLE_FILE: &str = "(the whole file)";

/// A value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tree {
    /// A single value.
    Scalar(Scalar),
    /// A list, which is compared and carried as a whole.
    List {
        /// An explicit tag other than `!!seq`.
        tag: Option<String>,
        /// What it holds.
        items: Vec<Tree>,
    },
    /// A group of settings.
    Map {
        /// An explicit tag other than `!!map`.
        tag: Option<String>,
        /// Values by key; their order is no difference.
        entries: IndexMap<String, Tree>,
    },
    /// A group that stands at another path, to which this place refers (`<<: *defaults`).
    Alias(Path),
}

/// A single value as it stands in the file, its quotes taken off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scalar {
    /// Its text.
    pub text: String,
    /// Whether it is unquoted and some reader may take it for a number, a truth value, a date or nothing.
    pub typed: bool,
    /// An explicit tag other than `!!str`.
    pub tag: Option<String>,
}

impl Tree {
    /// A value without quotes or tag.
    #[must_use]
    pub fn plain(text: &str) -> Self {
        Self::Scalar(Scalar { text: text.to_owned(), typed: may_be_typed(text), tag: None })
    }

    /// A group without a tag.
    #[must_use]
    pub const fn group(entries: IndexMap<String, Self>) -> Self {
        Self::Map { tag: None, entries }
    }

    /// The text of a single value.
    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Self::Scalar(scalar) => Some(&scalar.text),
            _ => None,
        }
    }

    /// The count of its nodes, and how deep it goes.
    pub(crate) fn measure(&self) -> (usize, usize) {
        let add = |(nodes, depth): (usize, usize), inner: &Self| {
            let (more, deep) = inner.measure();
            (nodes.saturating_add(more), depth.max(deep + 1))
        };
        match self {
            Self::Scalar(_) | Self::Alias(_) => (1, 1),
            Self::List { items, .. } => items.iter().fold((1, 1), add),
            Self::Map { entries, .. } => entries.values().fold((1, 1), add),
        }
    }
}

/// Whether an unquoted scalar may be read as something else than a string, by a reader of YAML 1.1 or 1.2. If unsure, yes.
pub(crate) fn may_be_typed(text: &str) -> bool {
    let word = text.to_ascii_lowercase();
    text.starts_with(|first: char| first.is_ascii_digit() || matches!(first, '+' | '-' | '.'))
        || matches!(word.as_str(), "" | "~" | "null" | "true" | "false" | "yes" | "no" | "on" | "off" | "y" | "n" | "=" | "<<")
}

/// A key as paths have it: `8080` is a number to some readers, and `'8080'` keeps its quotes so that it is another key.
pub(crate) fn key_name(text: String, quoted: bool) -> String {
    if quoted && (may_be_typed(&text) || text.starts_with('\'')) { format!("'{text}'") } else { text }
}

/// The leaves of a tree: everything but groups that hold something and carry no tag. An empty root has none.
#[must_use]
pub fn flatten(tree: &Tree) -> Flat {
    let mut flat = Flat::new();
    walk(tree, &mut Vec::new(), &mut flat);
    flat
}

fn walk(tree: &Tree, path: &mut Path, flat: &mut Flat) {
    match tree {
        Tree::Map { tag: None, entries } if !entries.is_empty() || path.is_empty() => {
            for (key, value) in entries {
                path.push(key.clone());
                walk(value, path, flat);
                path.pop();
            }
        }
        leaf => drop(flat.insert(path.clone(), leaf.clone())),
    }
}

/// The paths above one, the root first.
pub(crate) fn above(path: &[String]) -> impl Iterator<Item = &[String]> {
    (0..path.len()).filter_map(|count| path.get(..count))
}

/// A path for people: `a.b.c`, keys that would be misread in double quotes.
pub(crate) fn render(path: &[String]) -> String {
    let odd = |key: &str| key.is_empty() || key.contains(|c: char| c == '.' || c == '"' || c.is_whitespace() || c.is_control());
    let shown: Vec<String> = path.iter().map(|key| if odd(key) { format!("{key:?}") } else { key.clone() }).collect();
    shown.join(".")
}

/// The first few of some paths, for a sentence.
pub(crate) fn list<'a>(paths: impl Iterator<Item = &'a str>) -> Option<String> {
    const SHOWN: usize = 10;
    let paths: Vec<&str> = paths.collect();
    let first = paths.iter().take(SHOWN).copied().collect::<Vec<_>>().join(", ");
    let more = if paths.len() > SHOWN { format!(" and {} more", paths.len() - SHOWN) } else { String::new() };
    (!paths.is_empty()).then_some(first + &more)
}

/// Whether what an operator typed names this path, or a group that it is in. Quotes may be left out.
pub(crate) fn names(typed: &str, path: &[String]) -> bool {
    (1..=path.len()).filter_map(|count| path.get(..count)).any(|head| render(head) == typed || head.join(".") == typed)
}

/// The paths of a file, to be asked what stands above and below one.
///
/// In the layout of lines nothing stands above or below anything: a key and a section may have the same name.
#[derive(Debug)]
pub struct Paths {
    paths: BTreeSet<Path>,
    has_groups: bool,
}

impl Paths {
    /// The paths of `flat`.
    #[must_use]
    pub fn of(layout: Layout, flat: &Flat) -> Self {
        Self { paths: flat.keys().cloned().collect(), has_groups: layout == Layout::Yaml }
    }

    /// Whether a value stands where `path` needs a group.
    pub(crate) fn value_above(&self, path: &[String]) -> bool {
        self.has_groups && above(path).any(|head| self.paths.contains(head))
    }

    /// Whether `path` is a group that holds values.
    #[must_use]
    pub fn values_below(&self, path: &Path) -> bool {
        use std::ops::Bound::{Excluded, Unbounded};
        let next = self.paths.range::<Path, _>((Excluded(path), Unbounded)).next();
        self.has_groups && next.is_some_and(|next| next.starts_with(path))
    }

    /// Whether `path` itself is there, as a value or a group.
    pub(crate) fn holds(&self, path: &Path) -> bool {
        self.paths.contains(path) || self.values_below(path)
    }
}
