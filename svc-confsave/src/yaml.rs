//! The strict reader of `svc.yaml`: YAML 1.2, one document, no double keys, bounded depth and size.

pub(crate) mod edit;

use std::collections::HashMap;

use indexmap::IndexMap;
use saphyr_parser::{Event, Parser, ScalarStyle, Span, Tag};

use crate::tree::{Path, Scalar, Tree, key_name, may_be_typed};

/// Deeper than this is no configuration, and would exhaust the stack of recursive readers.
const DEEPEST: usize = 100;

/// More values than this, aliases written out, is no configuration.
const MOST_NODES: usize = 2_000_000;

/// Why a text is not accepted. The words are never the file's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong there.
    pub why: String,
}

/// Reads a text without a byte-order mark. A text that holds nothing is an empty group.
pub(crate) fn read(text: &str) -> Result<Tree, Fault> {
    let unended = (!text.ends_with('\n')).then(|| text.chars().count());
    let mut reader = Reader { unended, ..Reader::default() };
    let mut parser = Parser::new_from_str(text);
    let mut documents = 0_usize;
    while let Some(event) = parser.next_event() {
        let (event, span) = event.map_err(|error| Fault { line: error.marker().line(), why: error.info().to_owned() })?;
        match event {
            Event::DocumentStart(_) => {
                documents += 1;
                if documents > 1 {
                    return Err(fault(&span, "a second document starts here, and a configuration is one document"));
                }
            }
            event => reader.take(event, &span)?,
        }
    }
    // A document that is begun and holds nothing is as empty as no document.
    Ok(reader.root.filter(|root| *root != Tree::plain("")).unwrap_or_else(|| Tree::group(IndexMap::new())))
}

fn fault(span: &Span, why: impl Into<String>) -> Fault {
    Fault { line: span.start.line(), why: why.into() }
}

/// A list or a group that is not closed yet.
#[derive(Debug)]
struct Open {
    what: Collection,
    tag: Option<String>,
    anchor: usize,
}

#[derive(Debug)]
enum Collection {
    List(Vec<Tree>),
    Map { entries: IndexMap<String, Tree>, key: Option<String> },
}

#[derive(Debug, Default)]
struct Reader {
    open: Vec<Open>,
    /// What an alias may name, and where it stands if that is not inside of a list.
    anchors: HashMap<usize, (Tree, Option<Path>)>,
    nodes: usize,
    /// Where the text ends, if that is no line end: a block of text there has none either, though this parser adds it.
    unended: Option<usize>,
    root: Option<Tree>,
}

impl Reader {
    fn take(&mut self, event: Event<'_>, span: &Span) -> Result<(), Fault> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let is_block = matches!(style, ScalarStyle::Literal | ScalarStyle::Folded);
                let text = match text.strip_suffix('\n') {
                    Some(unended) if is_block && self.unended == Some(span.end.index()) => unended.to_owned(),
                    _ => text.into_owned(),
                };
                let tree = Tree::Scalar(scalar(text, style, tag.as_deref()));
                self.put(tree, anchor, span)
            }
            Event::SequenceStart(anchor, tag) => {
                self.start(Collection::List(Vec::new()), anchor, own_tag(tag.as_deref(), "seq"), span)
            }
            Event::MappingStart(anchor, tag) => {
                let map = Collection::Map { entries: IndexMap::new(), key: None };
                self.start(map, anchor, own_tag(tag.as_deref(), "map"), span)
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let Some(Open { what, tag, anchor, .. }) = self.open.pop() else { return Ok(()) };
                let tree = match what {
                    Collection::List(items) => Tree::List { tag, items },
                    Collection::Map { entries, .. } => Tree::Map { tag, entries },
                };
                self.put(tree, anchor, span)
            }
            Event::Alias(anchor) => {
                let tree = match self.anchors.get(&anchor) {
                    None => return Err(fault(span, "an alias stands inside of what it names")),
                    // A group that is named stays one group: who changes it changes it once.
                    Some((Tree::Map { tag: None, entries }, Some(path))) if !entries.is_empty() && self.path().is_some() => {
                        Tree::Alias(path.clone())
                    }
                    Some((tree, _)) => tree.clone(),
                };
                let (nodes, depth) = tree.measure();
                self.count(nodes, span)?;
                if self.open.len() + depth > DEEPEST {
                    return Err(fault(span, format!("values lie deeper than {DEEPEST} levels")));
                }
                self.put(tree, 0, span)
            }
            _ => Ok(()),
        }
    }

    fn start(&mut self, what: Collection, anchor: usize, tag: Option<String>, span: &Span) -> Result<(), Fault> {
        if self.open.len() >= DEEPEST {
            return Err(fault(span, format!("values lie deeper than {DEEPEST} levels")));
        }
        self.open.push(Open { what, tag, anchor });
        Ok(())
    }

    fn put(&mut self, tree: Tree, anchor: usize, span: &Span) -> Result<(), Fault> {
        self.count(1, span)?;
        if anchor > 0 {
            self.anchors.insert(anchor, (tree.clone(), self.path()));
        }
        match self.open.last_mut().map(|open| &mut open.what) {
            None => self.root = Some(tree),
            Some(Collection::List(items)) => items.push(tree),
            Some(Collection::Map { entries, key }) => match (key.take(), tree) {
                (Some(name), value) => drop(entries.insert(name, value)),
                (None, Tree::Scalar(Scalar { text, typed, tag: None })) => {
                    if entries.contains_key(&text) || entries.contains_key(&format!("'{text}'")) {
                        return Err(fault(span, "a key stands here for the second time in its group"));
                    }
                    *key = Some(key_name(text, !typed));
                }
                (None, _) => return Err(fault(span, "a list, a group or a tag stands where a key must be")),
            },
        }
        Ok(())
    }

    /// Where the next value stands; `None` inside of a list, and for a key.
    fn path(&self) -> Option<Path> {
        let key = |open: &Open| match &open.what {
            Collection::Map { key, .. } => key.clone(),
            Collection::List(_) => None,
        };
        self.open.iter().map(key).collect()
    }

    fn count(&mut self, nodes: usize, span: &Span) -> Result<(), Fault> {
        self.nodes = self.nodes.saturating_add(nodes);
        if self.nodes > MOST_NODES { Err(fault(span, format!("it holds more than {MOST_NODES} values"))) } else { Ok(()) }
    }
}

fn scalar(text: String, style: ScalarStyle, tag: Option<&Tag>) -> Scalar {
    let typed = style == ScalarStyle::Plain && tag.is_none() && may_be_typed(&text);
    Scalar { text, typed, tag: own_tag(tag, "str") }
}

/// An explicit tag, unless it says what would be so without it.
fn own_tag(tag: Option<&Tag>, usual: &str) -> Option<String> {
    let tag = tag?;
    let usual = (tag.is_yaml_core_schema() && tag.suffix == usual) || (tag.handle.is_empty() && tag.suffix == "!");
    (!usual).then(|| format!("{}{}", tag.handle, tag.suffix))
}
