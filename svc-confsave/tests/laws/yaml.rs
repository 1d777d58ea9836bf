//! Configurations as YAML, in many ways of writing the same: quotes, block scalars, flow groups, anchors, comments, blank lines.

use std::collections::BTreeMap;

use proptest::prelude::*;

use crate::texts::{Line, Sample};

/// What stands under a key.
#[derive(Debug, Clone)]
enum Node {
    Leaf(Value, Style),
    Group(Vec<Entry>, Style),
}

#[derive(Debug, Clone)]
struct Entry {
    key: &'static str,
    node: Node,
    /// What stands above it: nothing, a comment, a blank line.
    above: u8,
}

/// A value, apart from how it is written.
#[derive(Debug, Clone, PartialEq)]
enum Value {
    /// As it stands here, a plain scalar or nothing at all.
    Plain(&'static str),
    Text(&'static str),
    List(Vec<&'static str>),
    Maps(Vec<&'static str>),
}

#[derive(Debug, Clone, Copy)]
struct Style {
    form: u8,
    /// A comment behind it.
    note: bool,
    anchor: bool,
    alias: bool,
}

fn style() -> impl Strategy<Value = Style> {
    let rarely = || prop::bool::weighted(0.2);
    let parts = (0..4_u8, prop::bool::weighted(0.3), rarely(), rarely());
    parts.prop_map(|(form, note, anchor, alias)| Style { form, note, anchor, alias })
}

fn value() -> impl Strategy<Value = Value> {
    let plain = prop::sample::select(vec!["0", "010", "no", "x y", "", "~", "{}", "[]", "!!int 5", "http://h:1/p#x"]);
    let texts = "0|x y|no||it's # odd: yes|tab\there|one\n  two\n|one\ntwo| lead|%a|- b";
    let text = prop::sample::select(texts.split('|').collect::<Vec<_>>());
    let words = || prop::sample::select(vec!["0", "no", "x", "'a b'", "\"q\""]);
    prop_oneof![
        4 => plain.prop_map(Value::Plain),
        4 => text.prop_map(Value::Text),
        1 => prop::collection::vec(words(), 1..4).prop_map(Value::List),
        1 => prop::collection::vec(words(), 1..3).prop_map(Value::Maps),
    ]
}

fn node(depth: u32) -> BoxedStrategy<Node> {
    let leaf = (value(), style()).prop_map(|(value, style)| Node::Leaf(value, style));
    if depth == 0 {
        return leaf.boxed();
    }
    let group = (entries(depth - 1, 1), style()).prop_map(|(entries, style)| Node::Group(entries, style));
    prop_oneof![3 => leaf, 2 => group].boxed()
}

fn entries(depth: u32, least: usize) -> BoxedStrategy<Vec<Entry>> {
    let keys = ["a", "c.d", "8080", "'010'", "e f"];
    prop::collection::btree_map(prop::sample::select(keys.to_vec()), (node(depth), 0..5_u8), least..4)
        .prop_map(BTreeMap::into_iter)
        .prop_map(|entries| entries.map(|(key, (node, above))| Entry { key, node, above }).collect())
        .prop_shuffle()
        .boxed()
}

/// A file; `aliases`: whether anchors may be referred to.
pub fn file(aliases: bool) -> impl Strategy<Value = Sample> {
    let ends = (any::<bool>(), prop::bool::weighted(0.2), prop::bool::weighted(0.2), prop::bool::weighted(0.2));
    (entries(2, 0), ends).prop_map(move |(entries, (crlf, marked, unended, started))| {
        let mut writer = Writer { lines: Vec::new(), anchored: Vec::new(), aliases, notes: 0 };
        if started {
            writer.comment("---", &[]);
        }
        writer.entries(&entries, &mut Vec::new());
        Sample::of(writer.lines, crlf, marked, unended)
    })
}

struct Writer {
    lines: Vec<Line>,
    anchored: Vec<(Value, usize)>,
    aliases: bool,
    notes: usize,
}

impl Writer {
    fn push(&mut self, text: String, owner: &[String], in_flow: bool) {
        self.lines.push(Line::new(text, owner, false, in_flow));
    }

    fn comment(&mut self, text: &str, group: &[String]) {
        self.lines.push(Line::new(text, group, true, false));
    }

    fn note(&mut self, style: Style) -> String {
        self.notes += 1;
        if style.note { format!(" # note {}", self.notes) } else { String::new() }
    }

    fn entries(&mut self, entries: &[Entry], path: &mut Vec<String>) {
        let pad = "  ".repeat(path.len());
        for Entry { key, node, above } in entries {
            match above {
                0 => self.comment(&format!("{pad}# about {key}"), path),
                // Behind a block of text a blank line is part of it.
                1 if !self.lines.last().is_some_and(|line| line.in_block) => self.comment("", path),
                _ => {}
            }
            let head = format!("{pad}{}:", if *key == "e f" { "'e f'" } else { key });
            path.push((*key).to_owned());
            match node {
                Node::Leaf(value, style) => self.leaf(&head, value, *style, path),
                Node::Group(entries, style) if style.form == 0 => {
                    let note = self.note(*style);
                    self.push(format!("{head} {}{note}", flow(entries)), path, true);
                }
                Node::Group(entries, style) => {
                    let note = self.note(*style);
                    self.push(format!("{head}{note}"), path, false);
                    self.entries(entries, path);
                }
            }
            path.pop();
        }
    }

    fn leaf(&mut self, head: &str, value: &Value, style: Style, path: &[String]) {
        let pad = "  ".repeat(path.len());
        let mut note = self.note(style);
        let known = self.anchored.iter().find(|(known, _)| known == value).map(|(_, number)| *number);
        if let (Some(number), true, true) = (known, style.alias, self.aliases) {
            return self.push(format!("{head} *x{number}{note}"), path, false);
        }
        let mut head = head.to_owned();
        if style.anchor && *value != Value::Plain("") {
            let number = self.anchored.len();
            head.push_str(&format!(" &x{number}"));
            self.anchored.push((value.clone(), number));
        }
        let below = match value {
            Value::Plain("") => {
                self.push(format!("{head}{note}"), path, false);
                return;
            }
            Value::Text(text) if style.form == 3 && text.contains('\n') => {
                let chomp = if text.ends_with('\n') { "" } else { "-" };
                // A comment is part of the text here.
                let sign = if note.is_empty() { '|' } else { '>' };
                note = String::new();
                head.push_str(&format!(" {sign}{chomp}"));
                text.lines().map(|line| format!("{pad}{line}")).collect::<Vec<_>>()
            }
            Value::List(items) if style.form > 1 => items.iter().map(|item| format!("{pad}- {item}")).collect(),
            Value::Maps(items) if style.form > 1 => items
                .iter()
                .flat_map(|item| [format!("{pad}- n: {item}"), format!("{pad}  v:"), format!("{pad}    w: 1")])
                .collect(),
            inline => {
                self.push(format!("{head} {}{note}", one_line(inline, style)), path, false);
                return;
            }
        };
        self.push(format!("{head}{note}"), path, false);
        for line in below {
            self.push(line, path, false);
        }
        if let Some(last) = self.lines.last_mut() {
            last.in_block = matches!(value, Value::Text(_));
        }
    }
}

/// A value on one line.
fn one_line(value: &Value, style: Style) -> String {
    let listed = |items: Vec<String>| format!("[{}]", items.join(", "));
    match value {
        Value::Plain(text) => (*text).to_owned(),
        Value::Text(text) => {
            let plain = text.contains(' ')
                && text.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b' ')
                && !text.starts_with(' ');
            match style.form {
                0 if plain => (*text).to_owned(),
                1 if !text.contains(['\n', '\t']) => format!("'{}'", text.replace('\'', "''")),
                _ => format!("\"{}\"", text.replace('\n', "\\n").replace('\t', "\\t")),
            }
        }
        Value::List(items) => listed(items.iter().map(|item| (*item).to_owned()).collect()),
        Value::Maps(items) => listed(items.iter().map(|item| format!("{{n: {item}, v: {{w: 1}}}}")).collect()),
    }
}

/// A group on one line.
fn flow(entries: &[Entry]) -> String {
    let one = |entry: &Entry| {
        let value = match &entry.node {
            Node::Leaf(value, style) => one_line(value, *style),
            Node::Group(entries, _) => flow(entries),
        };
        let key = if entry.key == "e f" { "\"e f\"" } else { entry.key };
        if value.is_empty() { format!("{key}: ''") } else { format!("{key}: {value}") }
    };
    format!("{{{}}}", entries.iter().map(one).collect::<Vec<_>>().join(", "))
}
