//! The text of a configuration of either layout, read by key, and written anew with other values.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::edit;
use crate::edit_yaml::{self, Aliases};
use crate::hidden::Hidden;
use crate::layout::Layout;
use crate::lines::Lines;
use crate::tree::{Flat, Path, flatten};
use crate::{text_secrets, yaml};

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

/// Why a text is no acceptable YAML. The words are never the file's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong there.
    pub why: String,
}

/// A text that was read by key, or as such where that is not possible.
#[derive(Debug)]
pub struct Text {
    /// Without a byte-order mark.
    text: String,
    marked: bool,
    layout: Layout,
    flat: Flat,
    hidden: Vec<Hidden>,
    model: Model,
}

#[derive(Debug)]
enum Model {
    Yaml,
    Lines(Lines),
    Text { line: usize },
}

const MARK: char = '\u{feff}';

impl Text {
    /// Reads a text of that layout.
    ///
    /// # Errors
    /// Being of the newer layout, it is no YAML that all readers agree about.
    pub fn read(text: &str, layout: Layout) -> Result<Self, Fault> {
        let unmarked = text.strip_prefix(MARK);
        let (marked, text) = (unmarked.is_some(), unmarked.unwrap_or(text));
        let (flat, hidden, model) = match layout {
            Layout::Yaml => {
                let read = yaml::read(text)?;
                (flatten(&read.tree), read.hidden, Model::Yaml)
            }
            Layout::Conf => match Lines::read(text) {
                Ok(lines) => (lines.flat(), lines.hidden(), Model::Lines(lines)),
                Err(line) => (Flat::new(), text_secrets::places(text), Model::Text { line }),
            },
        };
        Ok(Self { text: text.to_owned(), marked, layout, flat, hidden, model })
    }

    /// Its words, without a byte-order mark.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Its layout.
    #[must_use]
    pub const fn layout(&self) -> Layout {
        self.layout
    }

    /// Its values by key; none where it is read as text.
    #[must_use]
    pub const fn flat(&self) -> &Flat {
        &self.flat
    }

    /// The places of its secrets.
    pub(crate) fn hidden(&self) -> &[Hidden] {
        &self.hidden
    }

    /// How it was read.
    #[must_use]
    pub const fn format(&self) -> Format {
        match self.model {
            Model::Yaml => Format::Yaml,
            Model::Lines(_) => Format::Lines,
            Model::Text { .. } => Format::Text,
        }
    }

    /// The first line that is not understood, from 1; `None` where it is read by key.
    #[must_use]
    pub const fn unknown_line(&self) -> Option<usize> {
        match self.model {
            Model::Text { line } => Some(line),
            _ => None,
        }
    }

    /// The paths of what differs from `wanted`.
    pub(crate) fn differing(&self, wanted: &Flat) -> Vec<Path> {
        let gone = self.flat.keys().filter(|path| !wanted.contains_key(*path));
        let set = wanted.iter().filter(|(path, leaf)| self.flat.get(*path) != Some(leaf)).map(|(path, _)| path);
        set.chain(gone).cloned().collect()
    }

    /// This text with the values `wanted`, each changed one written as it is in `mine`, and nothing else touched.
    /// `None` where that cannot be done: the text is read again by the strict reader and must say exactly what is wanted.
    #[must_use]
    pub fn written(&self, mine: &Self, wanted: &Flat) -> Option<String> {
        if *wanted == self.flat {
            return Some(self.whole(&self.text));
        }
        let says_it = |text: &String| {
            Self::read(text, self.layout).is_ok_and(|again| again.format() == self.format() && again.flat == *wanted)
        };
        let text = match (&self.model, &mine.model) {
            (Model::Yaml, Model::Yaml) => {
                let edits = edit::edits(&self.flat, wanted);
                let edited = |aliases| edit_yaml::edited(&self.text, &mine.text, &edits, aliases).filter(says_it);
                edited(Aliases::Stay).or_else(|| edited(Aliases::Give))
            }
            (Model::Lines(new), Model::Lines(mine)) => {
                Some(edit::lines(new, mine, &edit::of_lines(&self.flat, wanted))).filter(says_it)
            }
            _ => None,
        };
        text.map(|text| self.whole(&text))
    }

    /// With the byte-order mark where the text had one.
    fn whole(&self, text: &str) -> String {
        if self.marked { format!("{MARK}{text}") } else { text.to_owned() }
    }
}
