//! The setting `path.repo` in a search database's configuration file: read, and extended, without touching anything else.
//!
//! The file belongs to people: it is full of comments, and a tool may change nothing in it but what it was asked to. So a YAML
//! parser says what the file means and where the setting's value stands, the value is extended there as text, and the parser
//! proves that the edited file says the same as before, save for the one folder more. A form that is not understood is
//! refused, not guessed at.

mod place;
mod settings;

use self::place::Value;
use self::settings::Settings;
use crate::repository::place::covers;

/// The setting's name.
const NAME: &str = "path.repo";

/// The configuration with the setting as it is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Edited {
    pub text: String,
    /// The folders that it names.
    pub folders: Vec<String>,
}

/// Adds `location` to the setting, unless it is covered already.
///
/// # Errors
/// Why the setting is not understood, as the end of a sentence.
pub(crate) fn extend(text: &str, location: &str) -> Result<Edited, String> {
    let before = Settings::read(text)?;
    let mut folders = before.value.as_ref().map(Value::folders).unwrap_or_default();
    if covers(&folders, location) {
        return Ok(Edited { text: text.to_owned(), folders });
    }
    folders.push(location.to_owned());
    let edited = match &before.value {
        Some(value) => value.extended(text, location)?,
        None => appended(text, &before.margin, location),
    };
    let after = Settings::read(&edited).map_err(|why| format!("it cannot be extended: then {why}"))?;
    let named = after.value.as_ref().map(Value::folders).unwrap_or_default();
    if after.others == before.others && named == folders {
        Ok(Edited { text: edited, folders })
    } else {
        Err("the edited file would not say what it should".to_owned())
    }
}

/// The file with the setting in a line of its own at its end.
fn appended(text: &str, margin: &str, location: &str) -> String {
    let end = line_end(text);
    let gap = if text.is_empty() || text.ends_with('\n') { "" } else { end };
    format!("{text}{gap}{margin}{NAME}: [{}]{end}", quoted(location))
}

/// How the file ends its lines.
fn line_end(text: &str) -> &'static str {
    if text.contains("\r\n") { "\r\n" } else { "\n" }
}

/// A JSON string is a YAML string.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests;
