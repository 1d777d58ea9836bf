//! A configuration of either layout, read by key.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_step::Failure;

use crate::content::Content;
use crate::edit;
use crate::hidden::Hidden;
use crate::layout::Layout;
use crate::lines::Lines;
use crate::tree::{Flat, Path, flatten};
use crate::yaml;

/// How a file is read.
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

/// A configuration file of which a document speaks.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ConfigFile {
    /// Its absolute path.
    pub path: String,
    /// Its layout.
    pub layout: Layout,
    /// How it is read.
    pub format: Format,
    /// The first line that is not understood, from 1; `null` where it is read by key.
    pub unknown_line: Option<u64>,
    /// Its SHA-256.
    pub sha256: String,
    /// Its size.
    pub size_bytes: u64,
}

/// A file that was read by key, or as text where that is not possible.
#[derive(Debug)]
pub(crate) struct Config {
    pub content: Content,
    pub layout: Layout,
    pub flat: Flat,
    pub hidden: Vec<Hidden>,
    model: Model,
}

#[derive(Debug)]
enum Model {
    Yaml,
    Lines(Lines),
    Text { line: usize },
}

const MARK: &str = "\u{feff}";

impl Config {
    /// Reads a file.
    ///
    /// # Errors
    /// It is no UTF-8 text or, being of the newer layout, no YAML that all readers agree about (7).
    pub(crate) fn read(content: Content, layout: Layout) -> Result<Self, Failure> {
        let text = text_of(&content)?;
        let text = text.strip_prefix(MARK).unwrap_or(text);
        let (flat, hidden, model) = match layout {
            Layout::Yaml => {
                let read = yaml::read(text).map_err(|fault| {
                    Failure::invalid(
                        "yaml_invalid",
                        format!("{} is no YAML that can be carried safely, at line {}.", content.path.display(), fault.line),
                    )
                    .hint("Mend that line; nothing was changed. The saved copy itself is whole, whatever is in it.")
                    .cause(fault.why)
                })?;
                (flatten(&read.tree), read.hidden, Model::Yaml)
            }
            Layout::Conf => match Lines::read(text) {
                Ok(lines) => (lines.flat(), lines.hidden(), Model::Lines(lines)),
                Err(line) => (Flat::new(), Vec::new(), Model::Text { line }),
            },
        };
        Ok(Self { content, layout, flat, hidden, model })
    }

    /// How it was read.
    pub(crate) const fn format(&self) -> Format {
        match self.model {
            Model::Yaml => Format::Yaml,
            Model::Lines(_) => Format::Lines,
            Model::Text { .. } => Format::Text,
        }
    }

    /// Its text without a byte-order mark.
    pub(crate) fn text(&self) -> &str {
        let text = std::str::from_utf8(&self.content.bytes).unwrap_or_default();
        text.strip_prefix(MARK).unwrap_or(text)
    }

    /// What documents say of it.
    pub(crate) fn report(&self) -> ConfigFile {
        ConfigFile {
            path: self.content.path.display().to_string(),
            layout: self.layout,
            format: self.format(),
            unknown_line: match self.model {
                Model::Text { line } => Some(line as u64),
                _ => None,
            },
            sha256: self.content.sha256(),
            size_bytes: self.content.bytes.len() as u64,
        }
    }

    /// The text of this file with the leaves `wanted`, each changed one written as it is in `mine`, and nothing else touched.
    /// `None` where that cannot be done: the text is read again by the strict reader and must say exactly what is wanted.
    pub(crate) fn written(&self, mine: &Self, wanted: &Flat) -> Option<String> {
        if *wanted == self.flat {
            return Some(self.whole(self.text()));
        }
        let edits = edit::edits(&self.flat, wanted);
        let text = match (&self.model, &mine.model) {
            (Model::Yaml, Model::Yaml) => edit::yaml(self.text(), mine.text(), &edits)?,
            (Model::Lines(new), Model::Lines(mine)) => edit::lines(new, mine, &edits),
            _ => return None,
        };
        (self.leaves_of(&text)? == *wanted).then(|| self.whole(&text))
    }

    /// What a text of this layout says, where it is good.
    fn leaves_of(&self, text: &str) -> Option<Flat> {
        match self.layout {
            Layout::Yaml => yaml::read(text).ok().map(|read| flatten(&read.tree)),
            Layout::Conf => Lines::read(text).ok().map(|lines| lines.flat()),
        }
    }

    /// With the byte-order mark where the file has one.
    fn whole(&self, text: &str) -> String {
        if self.content.bytes.starts_with(MARK.as_bytes()) { format!("{MARK}{text}") } else { text.to_owned() }
    }

    /// The paths of what differs from `wanted`.
    pub(crate) fn differing(&self, wanted: &Flat) -> Vec<Path> {
        let gone = self.flat.keys().filter(|path| !wanted.contains_key(*path));
        let set = wanted.iter().filter(|(path, leaf)| self.flat.get(*path) != Some(leaf)).map(|(path, _)| path);
        set.chain(gone).cloned().collect()
    }
}

fn text_of(content: &Content) -> Result<&str, Failure> {
    let no_text = |cause: String| {
        Failure::invalid("not_text", format!("{} is not UTF-8 text.", content.path.display()))
            .hint("Check that this is the right file; convert it to UTF-8 (iconv) to compare it by key.")
            .cause(cause)
    };
    let text = std::str::from_utf8(&content.bytes).map_err(|error| no_text(error.to_string()))?;
    if text.contains('\0') { Err(no_text("it holds a zero byte".to_owned())) } else { Ok(text) }
}
