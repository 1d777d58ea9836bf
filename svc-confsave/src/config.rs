//! A configuration file, read by key.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_step::Failure;

use crate::content::Content;
use crate::layout::Layout;
use crate::text::{Format, Text};

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
    /// It is no UTF-8 text or, being of the newer layout, no YAML that all readers agree about (7).
    pub(crate) fn read(content: Content, layout: Layout) -> Result<Self, Failure> {
        let text = Text::read(text_of(&content)?, layout).map_err(|fault| {
            Failure::invalid(
                "yaml_invalid",
                format!("{} is no YAML that can be carried safely, at line {}.", content.path.display(), fault.line),
            )
            .hint("Mend that line; nothing was changed. The saved copy itself is whole, whatever is in it.")
            .cause(fault.why)
        })?;
        Ok(Self { content, text })
    }

    /// What documents say of it.
    pub(crate) fn report(&self) -> ConfigFile {
        ConfigFile {
            path: self.content.path.display().to_string(),
            layout: self.text.layout(),
            format: self.text.format(),
            unknown_line: self.text.unknown_line().map(|line| line as u64),
            sha256: self.content.sha256(),
            size_bytes: self.content.bytes.len() as u64,
        }
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
