//! Secrets: a password that cannot be printed, and names that tell that their value is one.

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
        out.write_str(REDACTED)
    }
}

/// What stands in a secret's place.
pub const REDACTED: &str = "<redacted>";

/// Names that hold one of these, written together, name a secret.
const PARTS: [&str; 17] = [
    "password",
    "passwd",
    "passphrase",
    "passcode",
    "secret",
    "token",
    "credential",
    "apikey",
    "accesskey",
    "privatekey",
    "encryptionkey",
    "signingkey",
    "masterkey",
    "authorization",
    "cookie",
    "keystorepass",
    "pwd",
];

/// Names of which one word ends so name a secret too (`dbpass`, `bindpw`), but for these words.
const ENDS: [&str; 2] = ["pass", "pw"];
const NO_SECRETS: [&str; 6] = ["bypass", "compass", "encompass", "surpass", "trespass", "overpass"];

/// Names of which one word is one of these name a secret.
const WORDS: [&str; 7] = ["key", "keys", "auth", "salt", "pin", "psk", "pem"];

/// What a last word says that makes it a place or a measure, not the secret itself.
const PLACES: [&str; 7] = ["file", "path", "dir", "directory", "folder", "minutes", "length"];

/// Whether a setting or key of this name holds a secret.
#[must_use]
pub fn is_secret_name(name: &str) -> bool {
    let words = words(name);
    if words.last().is_some_and(|last| PLACES.contains(&last.as_str())) {
        return false;
    }
    let ends = |word: &str| ENDS.iter().any(|end| word.ends_with(end)) && !NO_SECRETS.contains(&word);
    let together = words.concat();
    PARTS.iter().any(|part| together.contains(part)) || words.iter().any(|word| WORDS.contains(&word.as_str()) || ends(word))
}

/// `apiKey`, `api-key` and `API_KEY` are `api` and `key`.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut lower = false;
    for c in name.chars() {
        if !c.is_alphanumeric() || (c.is_uppercase() && lower) {
            words.push(String::new());
        }
        lower = c.is_lowercase();
        if let (true, Some(word)) = (c.is_alphanumeric(), words.last_mut()) {
            word.extend(c.to_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}
