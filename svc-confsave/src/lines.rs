//! The line model of `svc.conf`: `key = value`, `key: value`, `[section]`, comments, blank lines; without loss.
//!
//! The format is not documented. A file with any other line is not read by key at all: nobody can say what such a line does
//! to those around it.

use crate::hidden::Hidden;
use crate::redact::named_secrets;
use crate::tree::{Flat, Path, Tree};
use svc_step::secret::is_secret_name;

/// A file of which every line is understood.
#[derive(Debug, Clone)]
pub(crate) struct Lines {
    lines: Vec<Line>,
    /// The line end that new lines get.
    end: &'static str,
}

#[derive(Debug, Clone)]
struct Line {
    /// All of the line that comes before its value; the whole line where there is none.
    head: String,
    value: String,
    /// Blanks behind the value, and the line end.
    tail: String,
    kind: Kind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    /// A blank line or a comment.
    Silent,
    Section(String),
    Entry(Path),
}

impl Lines {
    /// Reads a text; the number of the first line, from 1, that is not understood where there is one.
    pub(crate) fn read(text: &str) -> Result<Self, usize> {
        let mut section: Option<String> = None;
        // How far the entry before was indented: a line that is indented further may continue it.
        let mut indent: Option<usize> = None;
        let mut lines = Vec::new();
        for (at, raw) in text.split_inclusive('\n').enumerate() {
            // A carriage return alone ends a line for some readers and none for others.
            if raw.trim_end_matches("\r\n").trim_end_matches('\n').contains('\r') {
                return Err(at + 1);
            }
            let line = Line::read(raw, section.as_deref()).ok_or(at + 1)?;
            match &line.kind {
                Kind::Silent => {}
                Kind::Section(name) => {
                    section = Some(name.clone());
                    indent = None;
                }
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
                None => {
                    flat.insert(path.clone(), value);
                }
                Some(Tree::List { items, .. }) => items.push(value),
                Some(first) => *first = Tree::List { tag: None, items: vec![first.clone(), value] },
            }
        }
        flat
    }

    /// The places of secrets.
    pub(crate) fn hidden(&self) -> Vec<Hidden> {
        let named = named_secrets(&self.flat());
        let is_secret = |path: &Path| named.contains(path) || path.iter().any(|key| is_secret_name(key));
        let secret = |line: &Line| matches!(&line.kind, Kind::Entry(path) if is_secret(path));
        let place = |(at, line): (usize, &Line)| Hidden::in_line(at, line.head.chars().count());
        self.lines.iter().enumerate().filter(|(_, line)| secret(line)).map(place).collect()
    }

    /// The whole text again.
    pub(crate) fn text(&self) -> String {
        self.lines.iter().flat_map(|line| [line.head.as_str(), &line.value, &line.tail]).collect()
    }

    /// Takes a key out, with all its lines. The line and the comments of its section stay.
    pub(crate) fn remove(&mut self, path: &Path) {
        self.lines.retain(|line| !matches!(&line.kind, Kind::Entry(own) if own == path));
    }

    /// Gives a key the values that it has in `mine`, keeping how its lines are written here.
    pub(crate) fn set(&mut self, path: &Path, mine: &Self) {
        let is_path = |line: &&Line| line.kind == Kind::Entry(path.clone());
        let mut wanted = mine.lines.iter().filter(is_path);
        let mut last = None;
        let mut surplus = Vec::new();
        for (at, line) in self.lines.iter_mut().enumerate().filter(|(_, line)| is_path(&&**line)) {
            match wanted.next() {
                Some(value) => {
                    line.give(&value.value);
                    last = Some(at);
                }
                None => surplus.push(at),
            }
        }
        for at in surplus.into_iter().rev() {
            self.lines.remove(at);
        }
        let more: Vec<Line> = wanted.cloned().collect();
        if more.is_empty() {
            return;
        }
        let at = last.map_or_else(|| self.place_for(path), |last| last + 1);
        self.insert(at, more);
    }

    /// Where a new line of this key goes: behind the last one of its section, which is made where it is missing.
    fn place_for(&mut self, path: &Path) -> usize {
        let section = match path.as_slice() {
            [section, _] => Some(section.clone()),
            _ => None,
        };
        let entries = |line: &Line| match (&line.kind, &section) {
            (Kind::Entry(other), Some(section)) => other.len() == 2 && other.first() == Some(section),
            (Kind::Entry(other), None) => other.len() == 1,
            (Kind::Section(name), Some(section)) => name == section,
            _ => false,
        };
        if let Some(last) = self.lines.iter().rposition(entries) {
            return last + 1;
        }
        match section {
            Some(section) => {
                let kind = Kind::Section(section.clone());
                let header = Line { head: format!("[{section}]"), value: String::new(), tail: self.end.to_owned(), kind };
                let blank = Line { head: String::new(), value: String::new(), tail: self.end.to_owned(), kind: Kind::Silent };
                let new = if self.lines.is_empty() { vec![header] } else { vec![blank, header] };
                self.insert(self.lines.len(), new);
                self.lines.len()
            }
            None => {
                let first = self.lines.iter().position(|line| matches!(line.kind, Kind::Section(_)));
                first.unwrap_or(self.lines.len())
            }
        }
    }

    fn insert(&mut self, at: usize, new: Vec<Line>) {
        let end = self.end;
        let ended = |line: &mut Line| {
            let blanks = line.tail.trim_end_matches(['\r', '\n']).to_owned();
            line.tail = format!("{blanks}{end}");
        };
        if let Some(before) = at.checked_sub(1).and_then(|before| self.lines.get_mut(before))
            && !before.tail.ends_with('\n')
        {
            ended(before);
        }
        let new: Vec<Line> = new
            .into_iter()
            .map(|mut line| {
                ended(&mut line);
                line
            })
            .collect();
        self.lines.splice(at..at, new);
    }
}

impl Line {
    fn read(raw: &str, section: Option<&str>) -> Option<Self> {
        let text = raw.trim_end_matches(['\n', '\r']);
        let trimmed = text.trim();
        let whole = |kind| {
            let (head, tail) = raw.split_at_checked(text.len()).unwrap_or((raw, ""));
            Self { head: head.to_owned(), value: String::new(), tail: tail.to_owned(), kind }
        };
        if trimmed.is_empty() || trimmed.starts_with(['#', ';']) {
            return Some(whole(Kind::Silent));
        }
        if let Some(rest) = trimmed.strip_prefix('[') {
            let name = rest.strip_suffix(']')?.trim();
            return (!name.is_empty() && !name.contains(['[', ']'])).then(|| whole(Kind::Section(name.to_owned())));
        }
        let sign = text.find(['=', ':'])?;
        let (before, rest) = text.split_at_checked(sign)?;
        let key = before.trim();
        if !is_key(key) {
            return None;
        }
        let mut rest = rest.chars();
        let sign = rest.next()?;
        let rest = rest.as_str();
        let value = rest.trim();
        let blanks = rest.len() - rest.trim_start().len();
        let (blanks, _) = if value.is_empty() { ("", rest) } else { rest.split_at_checked(blanks)? };
        let head = format!("{before}{sign}{blanks}");
        let tail = raw.get(head.len() + value.len()..)?.to_owned();
        let path = section.into_iter().chain([key]).map(str::to_owned).collect();
        Some(Self { head, value: value.to_owned(), tail, kind: Kind::Entry(path) })
    }

    fn give(&mut self, value: &str) {
        if self.value.is_empty() && !value.is_empty() && !self.head.ends_with(char::is_whitespace) {
            let mut head = self.head.chars();
            let sign = head.next_back();
            if sign == Some(':') || head.as_str().ends_with(char::is_whitespace) {
                self.head.push(' ');
                self.tail = self.tail.trim_start_matches([' ', '\t']).to_owned();
            }
        }
        value.clone_into(&mut self.value);
    }
}

fn is_key(key: &str) -> bool {
    key.starts_with(|first: char| first.is_alphanumeric() || first == '_')
        && key.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "# head\ntop=1\n\n[a]\n  ; note\nkey = one two  \nurl: http://h:1/x\nempty =\n[b.c]\nkey = 2";

    fn path(keys: &[&str]) -> Path {
        keys.iter().map(|&key| key.to_owned()).collect()
    }

    #[test]
    fn every_byte_is_kept() {
        for text in [FILE, "", "\n", "a=1", "a = 1 \r\n\r\n[s]\r\n", "  # x\n \t\n"] {
            assert_eq!(Lines::read(text).unwrap().text(), text);
        }
    }

    #[test]
    fn values_are_read_by_section_and_key() {
        let flat = Lines::read(FILE).unwrap().flat();
        let found: Vec<String> = flat.iter().map(|(path, leaf)| format!("{path:?} {}", leaf.to_json())).collect();
        assert_eq!(
            found,
            [
                r#"["top"] "1""#,
                r#"["a", "key"] "one two""#,
                r#"["a", "url"] "http://h:1/x""#,
                r#"["a", "empty"] """#,
                r#"["b.c", "key"] "2""#
            ]
        );
    }

    #[test]
    fn a_line_of_any_other_form_is_named() {
        for (text, line) in [
            ("a = 1\ninclude other.conf\n", 2),
            ("{\"a\": 1}\n", 1),
            ("<a>\n", 1),
            ("a:\n  b: 1\n", 2),
            ("a = 1\n    more = 2\n", 2),
            ("a = 1 \\\n2\n", 1),
            ("[a\n", 1),
            ("some words: here\n", 1),
            ("a = 1\nb = 2\rc = 3\n", 2),
        ] {
            assert_eq!(Lines::read(text).unwrap_err(), line, "{text:?}");
        }
    }

    #[test]
    fn only_the_values_that_are_set_change() {
        let mine = Lines::read("[a]\nkey=mine\nempty=now\nnew = 5\n[d]\nx: y\n").unwrap();
        let mut new = Lines::read(FILE).unwrap();
        for keys in [["a", "key"], ["a", "empty"], ["a", "new"], ["d", "x"]] {
            new.set(&path(&keys), &mine);
        }
        new.remove(&path(&["b.c", "key"]));
        let wanted =
            "# head\ntop=1\n\n[a]\n  ; note\nkey = mine  \nurl: http://h:1/x\nempty = now\nnew = 5\n[b.c]\n\n[d]\nx: y\n";
        assert_eq!(new.text(), wanted);
    }

    #[test]
    fn a_repeated_key_is_a_list_and_is_set_as_one() {
        let mine = Lines::read("a = 1\na = 2\na = 3\n").unwrap();
        let mut new = Lines::read("# x\r\na: 7\r\nb: 8").unwrap();
        new.set(&path(&["a"]), &mine);
        assert_eq!(new.text(), "# x\r\na: 1\r\na = 2\r\na = 3\r\nb: 8");
        let mut back = mine.clone();
        back.set(&path(&["a"]), &Lines::read("a = 9").unwrap());
        assert_eq!(back.text(), "a = 9\n");
        assert_eq!(new.flat().get(&path(&["a"])), mine.flat().get(&path(&["a"])));
    }
}
