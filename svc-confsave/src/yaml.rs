//! The strict reader of `svc.yaml`: YAML 1.2, one document, no double keys, bounded depth and size.

use std::collections::HashMap;
use std::ops::Range;

use indexmap::IndexMap;
use saphyr_parser::{Event, Parser, ScalarStyle, Span, Tag};

use crate::hidden::Hidden;
use crate::redact::{VALUE, is_flagged, names_a_secret};
use crate::text::Fault;
use crate::tree::{Path, Scalar, Tree, may_be_typed};
use svc_step::secret::is_secret_name;

/// Deeper than this is no configuration, and would exhaust the stack of recursive readers.
const DEEPEST: usize = 100;

/// More values than this, aliases written out, is no configuration.
const MOST_NODES: usize = 2_000_000;

/// A file as its tree, and the places of its secrets.
#[derive(Debug)]
pub(crate) struct Read {
    pub tree: Tree,
    pub hidden: Vec<Hidden>,
}

/// Reads a text without a byte-order mark. A text that holds nothing is an empty group.
pub(crate) fn read(text: &str) -> Result<Read, Fault> {
    let mut reader = Reader::default();
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
    let tree = reader.root.filter(|root| *root != Tree::plain("")).unwrap_or_else(|| Tree::group(IndexMap::new()));
    Ok(Read { tree, hidden: reader.hidden })
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
    /// Whether all in it is a secret, by the name of a key above.
    secret: bool,
}

#[derive(Debug)]
enum Collection {
    List(Vec<Tree>),
    Map {
        entries: IndexMap<String, Tree>,
        key: Option<String>,
        /// Which of the places read are those of its `value`, whose name may come after it.
        value: Range<usize>,
    },
}

#[derive(Debug, Default)]
struct Reader {
    open: Vec<Open>,
    /// What an alias may name, and where it stands if that is not inside of a list.
    anchors: HashMap<usize, (Tree, Option<Path>)>,
    nodes: usize,
    root: Option<Tree>,
    hidden: Vec<Hidden>,
    /// The places of all single values and keys.
    places: Vec<Hidden>,
}

impl Reader {
    fn take(&mut self, event: Event<'_>, span: &Span) -> Result<(), Fault> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let place = Hidden::of(span);
                self.places.push(place);
                if (self.in_secret() || self.is_flagged(Some(&text))) && !text.is_empty() {
                    self.hidden.push(place);
                }
                let tree = Tree::Scalar(scalar(text.into_owned(), style, tag.as_deref()));
                self.put(tree, anchor, span)
            }
            Event::SequenceStart(anchor, tag) => {
                self.start(Collection::List(Vec::new()), anchor, own_tag(tag.as_deref(), "seq"), span)
            }
            Event::MappingStart(anchor, tag) => {
                let map = Collection::Map { entries: IndexMap::new(), key: None, value: 0..0 };
                self.start(map, anchor, own_tag(tag.as_deref(), "map"), span)
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let Some(Open { what, tag, anchor, .. }) = self.open.pop() else { return Ok(()) };
                let tree = match what {
                    Collection::List(items) => Tree::List { tag, items },
                    Collection::Map { entries, value, .. } => {
                        if names_a_secret(&entries) {
                            self.hidden.extend(self.places.get(value).unwrap_or_default());
                        }
                        Tree::Map { tag, entries }
                    }
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
        if matches!(self.open.last(), Some(Open { what: Collection::Map { key: None, .. }, .. })) {
            return Err(fault(span, "a list or a group stands where a key must be"));
        }
        if self.open.len() >= DEEPEST {
            return Err(fault(span, format!("values lie deeper than {DEEPEST} levels")));
        }
        let secret = self.in_secret() || self.is_flagged(None);
        self.open.push(Open { what, tag, anchor, secret });
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
            Some(Collection::Map { entries, key, value: places }) => match (key.take(), tree) {
                (Some(name), value) => {
                    if name == VALUE {
                        places.end = self.places.len();
                    }
                    entries.insert(name, value);
                }
                (None, Tree::Scalar(scalar)) => {
                    if entries.contains_key(&scalar.text) {
                        return Err(fault(span, "a key stands here for the second time in its group"));
                    }
                    *places = if scalar.text == VALUE { self.places.len()..self.places.len() } else { places.clone() };
                    *key = Some(scalar.text);
                }
                (None, _) => return Err(fault(span, "a list or a group stands where a key must be")),
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

    /// Whether the next value, of that text where it is a single one, is a secret for what comes before it in its list.
    fn is_flagged(&self, text: Option<&str>) -> bool {
        match self.open.last() {
            Some(Open { what: Collection::List(items), .. }) => is_flagged(items.last(), text),
            _ => false,
        }
    }

    /// Whether the next value is a secret. A key is none.
    fn in_secret(&self) -> bool {
        match self.open.last() {
            None => false,
            Some(Open { what: Collection::List(_), secret, .. }) => *secret,
            Some(Open { what: Collection::Map { key, .. }, secret, .. }) => {
                key.as_deref().is_some_and(|key| *secret || is_secret_name(key))
            }
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::{flatten, render};

    fn keys(text: &str) -> Vec<String> {
        flatten(&read(text).unwrap().tree).iter().map(|(path, leaf)| format!("{}={}", render(path), leaf.to_json())).collect()
    }

    #[test]
    fn values_are_read_by_key_path_and_lists_as_a_whole() {
        let text = "a: 1 # c\nb:\n  c: 'x'\n  d: [1, {e: f}]\nempty:\nmap: {}\n";
        assert_eq!(keys(text), ["a=\"1\"", "b.c=\"x\"", "b.d=[\"1\",{\"e\":\"f\"}]", "empty=\"\"", "map={}"]);
    }

    #[test]
    fn formatting_order_and_comments_are_no_difference() {
        let one = "a: x\nb: {c: 1, d: \"y z\"}\nt: |\n  one\n  two\n";
        let two = "# head\r\nt: \"one\\ntwo\\n\"\r\nb:\r\n    d: 'y z' # c\r\n    c: 1\r\n\r\na: \"x\"\r\n";
        assert_eq!(flatten(&read(one).unwrap().tree), flatten(&read(two).unwrap().tree));
        assert_ne!(flatten(&read("a: no").unwrap().tree), flatten(&read("a: 'no'").unwrap().tree));
    }

    #[test]
    fn nothing_and_comments_alone_are_an_empty_group() {
        for text in ["", "\n\n", "# only\n# comments\n", "---\n", "--- # c\n...\n", "{}"] {
            let flat = flatten(&read(text).unwrap().tree);
            assert!(flat.is_empty(), "{text:?}: {flat:?}");
        }
    }

    #[test]
    fn what_readers_do_not_agree_about_is_refused_with_its_line() {
        for (text, line) in [
            ("a: 1\na: 2\n", 2),
            ("a: 1\n\"a\": 2\n", 2),
            ("a:\n\tb: 1\n", 2),
            ("a: 1\n---\nb: 2\n", 2),
            ("a: [1, 2\n", 2),
            ("a: *nowhere\n", 1),
            ("? [a, b]\n: c\n", 1),
            ("a: b: c\n", 1),
        ] {
            let fault = read(text).expect_err(text);
            assert_eq!(fault.line, line, "{text:?}: {fault:?}");
        }
    }

    #[test]
    fn deep_nesting_and_a_bomb_of_aliases_are_refused() {
        assert!(read(&format!("a: {}{}", "[".repeat(5000), "]".repeat(5000))).is_err());
        let nested: String = (0..5000).map(|depth| format!("{}k:\n", " ".repeat(depth))).collect();
        assert!(read(&nested).is_err());
        let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
        for level in 1..9 {
            let inner = format!("*a{}, ", level - 1).repeat(10);
            bomb.push_str(&format!("a{level}: &a{level} [{inner}]\n"));
        }
        assert!(read(&bomb).is_err());
    }

    #[test]
    fn an_alias_counts_as_what_it_names() {
        assert_eq!(keys("a: &x 1\nb: *x\n"), ["a=\"1\"", "b=\"1\""]);
        assert_eq!(keys("- &x {a: 1}\n- *x\n"), ["=[{\"a\":\"1\"},{\"a\":\"1\"}]"]);
    }

    #[test]
    fn a_group_that_is_referred_to_is_one_group() {
        let text = "a: &x\n  b: {c: 1}\nd:\n  <<: *x\n  e: 2\n";
        assert_eq!(keys(text), ["a.b.c=\"1\"", "d.<<=\"*a\"", "d.e=\"2\""]);
    }

    #[test]
    fn a_value_is_hidden_for_the_name_beside_it_and_the_flag_before_it() {
        let text = "env:\n  - value: one\n    name: DB_PASSWORD\n  - name: B\n    value: two\nargs:\n  - --password\n  - three\n  - four\nu: [-u, a:b, c]";
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        for hidden in read(text).unwrap().hidden {
            hidden.cover(&mut lines);
        }
        let wanted = "env:\n  - value: <redacted>\n    name: DB_PASSWORD\n  - name: B\n    value: two\nargs:\n  - --password\n  - <redacted>\n  - four\nu: [-u, <redacted>";
        assert_eq!(lines.join("\n"), wanted);
    }

    #[test]
    fn the_lines_of_secrets_are_known() {
        let text = "a: 1\nsession:\n  secret: |\n    one\n    two\n  x: 2\ntokens: [t1, t2]\ncredentials:\n  u: v\n  w: |\n    six\n    ten";
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        for hidden in read(text).unwrap().hidden {
            hidden.cover(&mut lines);
        }
        let wanted = "a: 1\nsession:\n  secret: |\n    <redacted>\n    <redacted>\n  x: 2\ntokens: [<redacted>\ncredentials:\n  u: <redacted>\n  w: |\n    <redacted>\n    <redacted>";
        assert_eq!(lines.join("\n"), wanted);
    }
}
