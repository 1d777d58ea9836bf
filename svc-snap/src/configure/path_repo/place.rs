//! Where the setting's value stands in the file, and how it is extended there.

use std::ops::Range;

use super::{line_end, quoted};

/// A folder in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Item {
    pub folder: String,
    /// Its bytes, with its quotes.
    pub at: Range<usize>,
}

/// The setting's value. Places are bytes of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value {
    /// Nothing at all: where its key's colon ends.
    Nothing { at: usize },
    /// One text (`null` too), in which commas separate folders.
    Text { folders: Vec<String>, at: Range<usize> },
    /// `[a, b]`, over one line or several: where the bracket ends.
    Flow { items: Vec<Item>, open: usize },
    /// Lines of `- a`.
    Block { items: Vec<Item> },
}

impl Value {
    /// The folders that it names.
    pub(crate) fn folders(&self) -> Vec<String> {
        match self {
            Self::Nothing { .. } => Vec::new(),
            Self::Text { folders, .. } => folders.clone(),
            Self::Flow { items, .. } | Self::Block { items } => items.iter().map(|item| item.folder.clone()).collect(),
        }
    }

    /// The file with one folder more in it.
    ///
    /// # Errors
    /// Why that cannot be done, as the end of a sentence.
    pub(crate) fn extended(&self, text: &str, location: &str) -> Result<String, String> {
        let new = quoted(location);
        match self {
            Self::Nothing { at } => replaced(text, *at..*at, &format!(" [{new}]")),
            Self::Text { folders, at } => {
                let all: Vec<String> = folders.iter().map(|folder| quoted(folder)).chain([new]).collect();
                replaced(text, at.clone(), &format!("[{}]", all.join(", ")))
            }
            Self::Flow { items, open } => match items.last() {
                Some(last) => replaced(text, last.at.end..last.at.end, &format!(", {new}")),
                None => replaced(text, *open..*open, &new),
            },
            Self::Block { items } => {
                let last = items.last().ok_or_else(odd)?;
                below(text, last, &new)
            }
        }
    }
}

/// A further line below that of the last item, with its margin.
fn below(text: &str, last: &Item, new: &str) -> Result<String, String> {
    let start = text.get(..last.at.start).ok_or_else(odd)?.rfind('\n').map_or(0, |at| at + 1);
    let margin = text.get(start..last.at.start).and_then(|head| head.trim_end().strip_suffix('-')).ok_or_else(odd)?;
    if !margin.chars().all(char::is_whitespace) {
        return Err(odd());
    }
    let end = text.get(last.at.end..).ok_or_else(odd)?.find('\n').map(|at| last.at.end + at + 1);
    let eol = line_end(text);
    match end {
        Some(end) => replaced(text, end..end, &format!("{margin}- {new}{eol}")),
        None => Ok(format!("{text}{eol}{margin}- {new}{eol}")),
    }
}

fn replaced(text: &str, at: Range<usize>, with: &str) -> Result<String, String> {
    let (head, tail) = text.get(..at.start).zip(text.get(at.end..)).ok_or_else(odd)?;
    Ok(format!("{head}{with}{tail}"))
}

/// The refusal to guess.
pub(crate) fn odd() -> String {
    "its path.repo is written in a form that is not understood".to_owned()
}
