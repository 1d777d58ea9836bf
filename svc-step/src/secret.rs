//! A password that cannot be printed.

use std::fmt;
use std::path::Path;

use crate::failure::Failure;
use crate::file;

/// A secret. It has neither `Display` nor `Serialize`, and its `Debug` shows nothing.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

/// A password file longer than this is another file.
const LONGEST: u64 = 64 * 1024;

impl Secret {
    /// Takes a secret that came from elsewhere (a prompt, the environment).
    #[must_use]
    pub const fn new(secret: String) -> Self {
        Self(secret)
    }

    /// The first line of a file, without its line end.
    ///
    /// # Errors
    /// The file is missing (4), unreadable (3), empty or not text (2).
    pub fn from_file(path: &Path) -> Result<Self, Failure> {
        let text = file::read_text("read the password file", path, LONGEST)?;
        match text.lines().next() {
            Some(line) if !line.is_empty() => Ok(Self(line.to_owned())),
            _ => Err(Failure::usage("password_file_empty", format!("The password file {} is empty.", path.display()))
                .hint("Write the secret into its first line.")),
        }
    }

    /// The secret itself, for the one place that sends it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("<redacted>")
    }
}
