//! The text of a configuration of either layout, read by key, and written again with other values.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_step::Failure;

use crate::content::Content;
use crate::layout::Layout;
use crate::lines::Lines;
use crate::merge::{Decision, Merge, Outcome, Reason};
use crate::tree::{Flat, Path, flatten};
use crate::yaml;
use crate::yaml::edit::edited;

/// How a text is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// By key, as YAML.
    Yaml,
    /// By key, line by line.
    Lines,
    /// As text: it has lines that are not understood.
    Text,
}

/// A text that was read by key, or as such if that is not possible.
#[derive(Debug)]
pub struct Text {
    /// Without a byte-order mark.
    text: String,
    marked: bool,
    layout: Layout,
    flat: Flat,
    /// Of a text that is read line by line.
    lines: Option<Lines>,
    /// The first line that is not understood, from 1; `None` if it is read by key.
    pub(crate) unknown_line: Option<usize>,
}

/// What is written of a merge, and what became of each key.
#[derive(Debug)]
pub struct Written {
    /// As the merge decided, save what cannot be written.
    pub decisions: Vec<Decision>,
    /// The values that the text has.
    pub values: Flat,
    /// The text.
    pub text: String,
}

const MARK: char = '\u{feff}';

impl Text {
    /// Reads a text of that layout.
    ///
    /// # Errors
    /// Being of the newer layout, it is no YAML that all readers agree about.
    pub fn read(text: &str, layout: Layout) -> Result<Self, yaml::Fault> {
        let unmarked = text.strip_prefix(MARK);
        let (marked, text) = (unmarked.is_some(), unmarked.unwrap_or(text));
        let (flat, lines, unknown_line) = match layout {
            Layout::Yaml => (flatten(&yaml::read(text)?), None, None),
            Layout::Conf => match Lines::read(text) {
                Ok(lines) => (lines.flat(), Some(lines), None),
                Err(line) => (Flat::new(), None, Some(line)),
            },
        };
        Ok(Self { text: text.to_owned(), marked, layout, flat, lines, unknown_line })
    }

    /// The text, without a byte-order mark.
    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    /// Its layout.
    #[must_use]
    pub const fn layout(&self) -> Layout {
        self.layout
    }

    /// Its values by key; none if it is read as text.
    #[must_use]
    pub const fn flat(&self) -> &Flat {
        &self.flat
    }

    /// How it was read.
    #[must_use]
    pub const fn format(&self) -> Format {
        match (self.layout, self.unknown_line) {
            (Layout::Yaml, _) => Format::Yaml,
            (Layout::Conf, None) => Format::Lines,
            (Layout::Conf, Some(_)) => Format::Text,
        }
    }

    /// The paths of what differs from `wanted`.
    pub(crate) fn differing(&self, wanted: &Flat) -> Vec<Path> {
        let gone = self.flat.keys().filter(|path| !wanted.contains_key(*path));
        let set = wanted.iter().filter(|(path, leaf)| self.flat.get(*path) != Some(leaf)).map(|(path, _)| path);
        set.chain(gone).cloned().collect()
    }

    /// Writes a merge of `mine` onto this text: all of it, or, change by change, all that can be written so that exactly it changes.
    /// `check` is called before each attempt.
    ///
    /// # Errors
    /// Those of `check`.
    pub fn write<E>(&self, merge: Merge, mine: &Self, mut check: impl FnMut() -> Result<(), E>) -> Result<Written, E> {
        let Merge { mut decisions, result } = merge;
        if let Some(text) = self.with(&result, mine) {
            return Ok(Written { decisions, values: result, text });
        }
        let mut values = self.flat.clone();
        for group in together(&decisions) {
            check()?;
            let mut next = values.clone();
            for decision in group.iter().filter_map(|at| decisions.get(*at)) {
                match result.get(&decision.path) {
                    Some(value) => drop(next.insert(decision.path.clone(), value.clone())),
                    None => drop(next.shift_remove(&decision.path)),
                }
            }
            if self.with(&next, mine).is_some() {
                values = next;
                continue;
            }
            for at in group {
                if let Some(decision) = decisions.get_mut(at) {
                    (decision.outcome, decision.reason) = (Outcome::NotCarried, Some(Reason::NotWritable));
                }
            }
        }
        let text = self.with(&values, mine).unwrap_or_else(|| self.whole(&self.text));
        Ok(Written { decisions, values, text })
    }

    /// This text with the values `wanted`, each changed one written as it is in `mine`, and nothing else touched.
    /// `None` if that cannot be done: the text is read again by the strict reader and must say exactly what is wanted.
    fn with(&self, wanted: &Flat, mine: &Self) -> Option<String> {
        if *wanted == self.flat {
            return Some(self.whole(&self.text));
        }
        let says_it = |text: &String| {
            Self::read(text, self.layout).is_ok_and(|again| again.format() == self.format() && again.flat == *wanted)
        };
        let text = match (self.layout, &self.lines, &mine.lines) {
            (Layout::Yaml, ..) => {
                let edited = |keep| edited(&self.text, &mine.text, (&self.flat, wanted), keep);
                // A block of text at the end may have no line end.
                let with_unended = |text: String| [text.clone(), text.trim_end_matches(['\r', '\n']).to_owned()];
                [true, false].into_iter().filter_map(edited).flat_map(with_unended).find(says_it)
            }
            (Layout::Conf, Some(new), Some(mine)) => Some(new.with(wanted, mine)).filter(says_it),
            _ => None,
        };
        text.map(|text| self.whole(&text))
    }

    /// With the byte-order mark if the text had one.
    fn whole(&self, text: &str) -> String {
        if self.marked { format!("{MARK}{text}") } else { text.to_owned() }
    }
}

/// The decisions that change something, by their numbers. Those of related paths are together: a value that becomes a group, or the
/// other way, is written at once or not at all.
fn together(decisions: &[Decision]) -> Vec<Vec<usize>> {
    let is_change = |one: &Decision| matches!(one.outcome, Outcome::Carried | Outcome::Conflict);
    let mut changes: Vec<(usize, &Path)> =
        decisions.iter().enumerate().filter(|(_, one)| is_change(one)).map(|(at, one)| (at, &one.path)).collect();
    // In the order of their paths, what is below a path comes right behind it.
    changes.sort_by_key(|(_, path)| *path);
    let mut groups: Vec<(&Path, Vec<usize>)> = Vec::new();
    for (at, path) in changes {
        match groups.last_mut() {
            Some((head, group)) if path.starts_with(head) => group.push(at),
            _ => groups.push((path, vec![at])),
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}

/// A configuration file that a document names.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ConfigFile {
    /// Its absolute path.
    pub path: String,
    /// Its layout.
    pub layout: Layout,
    /// How it is read.
    pub format: Format,
    /// The first line that is not understood, from 1; `null` if it is read by key.
    pub unknown_line: Option<u64>,
    /// Its SHA-256.
    pub sha256: String,
}

impl ConfigFile {
    /// A file that is not read by key.
    pub(crate) fn unread(content: &Content, layout: Layout) -> Self {
        let path = content.path.display().to_string();
        Self { path, layout, format: Format::Text, unknown_line: None, sha256: content.sha256() }
    }
}

/// A file and its text.
#[derive(Debug)]
pub(crate) struct Config {
    pub content: Content,
    pub text: Text,
}

impl Config {
    /// Reads a file.
    ///
    /// # Errors
    /// It is no UTF-8 text, or no YAML that all parsers agree about (7).
    pub(crate) fn read(content: Content, layout: Layout) -> Result<Self, Failure> {
        let not_text = |cause: String| {
            Failure::invalid("file_invalid", format!("{} is not UTF-8 text.", content.path.display()))
                .hint("Check that this is the right file; convert it to UTF-8 (iconv) to compare it by key.")
                .cause(cause)
        };
        let text = std::str::from_utf8(&content.bytes).map_err(|error| not_text(error.to_string()))?;
        if text.contains('\0') {
            return Err(not_text("it holds a zero byte".to_owned()));
        }
        let text = Text::read(text, layout).map_err(|fault| {
            let message = format!("{} is not YAML that all parsers read alike, at line {}.", content.path.display(), fault.line);
            Failure::invalid("file_invalid", message)
                .hint("Fix that line, or restore the saved file as it is with svc-confsave restore. Nothing was changed.")
                .cause(fault.why)
        })?;
        Ok(Self { content, text })
    }

    /// What documents say of it.
    pub(crate) fn report(&self) -> ConfigFile {
        ConfigFile {
            format: self.text.format(),
            unknown_line: self.text.unknown_line.map(|line| line as u64),
            ..ConfigFile::unread(&self.content, self.text.layout())
        }
    }
}
