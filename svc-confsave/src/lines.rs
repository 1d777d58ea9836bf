//! The line model of `svc.conf`: `key = value`, `key: value`, `[section]`, comments, blank lines; without loss.
//!
//! The format is not documented. A file with any other line is not read by key at all: nobody can say what such a line does
//! to those around it.

use std::collections::BTreeSet;

use crate::tree::{Flat, Path, Tree};

/// A file whose every line is understood.
#[derive(Debug, Clone)]
pub(crate) struct Lines {
    lines: Vec<Line>,
    /// The line end that new lines get.
    end: &'static str,
}

#[derive(Debug, Clone)]
struct Line {
    /// All of the line that comes before its value; the whole line if there is none.
    head: String,
    value: String,
    /// Blanks after the value, and the line end.
    tail: String,
    /// The section that it stands in, or begins.
    section: Option<String>,
    kind: Kind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    /// A blank line or a comment.
    Silent,
    Section,
    Entry(Path),
}

impl Lines {
    /// Reads a text; the number of the first line, from 1, that is not understood if there is one.
    pub(crate) fn read(text: &str) -> Result<Self, usize> {
        let (mut section, mut sections) = (None, BTreeSet::new());
        // The indentation of the entry before: a line that is indented further may continue it.
        let mut indent: Option<usize> = None;
        let mut lines = Vec::new();
        for (at, raw) in text.split_inclusive('\n').enumerate() {
            let line = Line::read(raw, section.as_ref()).ok_or(at + 1)?;
            match &line.kind {
                Kind::Silent => {}
                // A key's path does not say in which of two sections of one name it is.
                Kind::Section if !sections.insert(line.section.clone()) => return Err(at + 1),
                Kind::Section => (section, indent) = (line.section.clone(), None),
                Kind::Entry(_) => {
                    let own = line.head.len() - line.head.trim_start().len();
                    if indent.is_some_and(|before| own > before) || line.value.ends_with('\\') {
                        return Err(at + 1);
                    }
                    indent = Some(own);
                }
            }
            lines.push(line);
        }
        let end = if text.contains("\r\n") { "\r\n" } else { "\n" };
        Ok(Self { lines, end })
    }

    /// The values by `[section, key]` or `[key]`; a key that is repeated is a list.
    pub(crate) fn flat(&self) -> Flat {
        let mut flat = Flat::new();
        for line in &self.lines {
            let Kind::Entry(path) = &line.kind else { continue };
            let value = Tree::plain(&line.value);
            match flat.get_mut(path) {
                None => drop(flat.insert(path.clone(), value)),
                Some(Tree::List { items, .. }) => items.push(value),
                Some(first) => *first = Tree::List { tag: None, items: vec![first.clone(), value] },
            }
        }
        flat
    }

    /// This text with the values `wanted`, each changed one as it is in `mine`. Every key stands for itself here. The line and the
    /// comments of a section stay.
    pub(crate) fn with(&self, wanted: &Flat, mine: &Self) -> String {
        let (mut new, from) = (self.clone(), self.flat());
        wanted.iter().filter(|(path, value)| from.get(*path) != Some(value)).for_each(|(path, _)| new.set(path, mine));
        new.lines.retain(|line| !matches!(&line.kind, Kind::Entry(path) if !wanted.contains_key(path)));
        new.lines.iter().flat_map(|line| [line.head.as_str(), &line.value, &line.tail]).collect()
    }

    /// Gives a key the values that it has in `mine`, keeping how its lines are written here.
    fn set(&mut self, path: &Path, mine: &Self) {
        let is_path = |line: &Line| matches!(&line.kind, Kind::Entry(own) if own == path);
        let mut wanted = mine.lines.iter().filter(|line| is_path(line));
        let mut last = None;
        let mut at = 0;
        self.lines.retain_mut(|line| {
            let value = if is_path(line) { wanted.next().map(|wanted| line.give(&wanted.value)) } else { None };
            let stays = value.is_some() || !is_path(line);
            if value.is_some() {
                last = Some(at);
            }
            at += usize::from(stays);
            stays
        });
        let more: Vec<Line> = wanted.cloned().collect();
        if !more.is_empty() {
            let at = last.map_or_else(|| self.place_for(path), |last| last + 1);
            self.insert(at, more);
        }
    }

    /// Where a new line of this key goes: behind the last one of its section, which is made if it is missing.
    fn place_for(&mut self, path: &Path) -> usize {
        let section = path.split_last().and_then(|(_, section)| section.first()).cloned();
        if let Some(last) = self.lines.iter().rposition(|line| line.section == section && line.kind != Kind::Silent) {
            return last + 1;
        }
        let Some(name) = &section else {
            return self.lines.iter().position(|line| line.kind == Kind::Section).unwrap_or(self.lines.len());
        };
        let line = |head: String, kind| Line { head, value: String::new(), tail: String::new(), section: section.clone(), kind };
        let header = line(format!("[{name}]"), Kind::Section);
        let blank = (!self.lines.is_empty()).then(|| line(String::new(), Kind::Silent));
        self.insert(self.lines.len(), blank.into_iter().chain([header]).collect());
        self.lines.len()
    }

    /// Inserts lines, which end as the others do.
    fn insert(&mut self, at: usize, mut new: Vec<Line>) {
        let before = at.checked_sub(1).and_then(|before| self.lines.get_mut(before)).filter(|line| !line.tail.ends_with('\n'));
        for line in before.into_iter().chain(&mut new) {
            line.tail = format!("{}{}", line.tail.trim_end_matches(['\r', '\n']), self.end);
        }
        self.lines.splice(at..at, new);
    }
}

impl Line {
    fn read(raw: &str, section: Option<&String>) -> Option<Self> {
        let text = raw.strip_suffix('\n').map_or(raw, |text| text.strip_suffix('\r').unwrap_or(text));
        // A carriage return alone ends a line for some readers and none for others.
        if text.contains('\r') {
            return None;
        }
        let line = |head: &str, value: &str, section: Option<&String>, kind| {
            let tail = raw.get(head.len() + value.len()..)?.to_owned();
            Some(Self { head: head.to_owned(), value: value.to_owned(), tail, section: section.cloned(), kind })
        };
        let trimmed = text.trim();
        if trimmed.is_empty() || trimmed.starts_with(['#', ';']) {
            return line(text, "", section, Kind::Silent);
        }
        if let Some(rest) = trimmed.strip_prefix('[') {
            let name = rest.strip_suffix(']')?.trim().to_owned();
            return if name.is_empty() || name.contains(['[', ']']) { None } else { line(text, "", Some(&name), Kind::Section) };
        }
        let (key, rest) = text.split_once(['=', ':'])?;
        let value = rest.trim();
        let blanks = if value.is_empty() { 0 } else { rest.len() - rest.trim_start().len() };
        let head = text.get(..key.len() + 1 + blanks)?;
        let path = section.into_iter().cloned().chain([key.trim().to_owned()]).collect();
        if is_key(key.trim()) { line(head, value, section, Kind::Entry(path)) } else { None }
    }

    /// Sets the value, with a blank before it if there is one before the sign.
    fn give(&mut self, value: &str) {
        let is_bare = self.value.is_empty() && !value.is_empty() && !self.head.ends_with(char::is_whitespace);
        let key = self.head.strip_suffix(['=', ':']).unwrap_or_default();
        if is_bare && (self.head.ends_with(':') || key.ends_with(char::is_whitespace)) {
            self.head.push(' ');
            self.tail = self.tail.trim_start_matches([' ', '\t']).to_owned();
        }
        value.clone_into(&mut self.value);
    }
}

fn is_key(key: &str) -> bool {
    key.starts_with(|first: char| first.is_alphanumeric() || first == '_')
        && key.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '/'))
}
