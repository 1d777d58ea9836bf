//! Secrets: a password that cannot be printed, and names that tell that their value is one.

use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::failure::Failure;
use crate::file;
use crate::reporter::shell_quoted;

/// A secret. It has neither `Display` nor `Serialize`, and its `Debug` shows nothing.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

/// A file of a secret longer than this is another file.
const LONGEST: u64 = 64 * 1024;

/// What a file of a secret must not allow to its group and to others, as libpq has it for keys: root's may be read by the group that
/// root has given it.
const fn open_to_others(owner: u32) -> u32 {
    if owner == 0 { 0o037 } else { 0o077 }
}

impl Secret {
    /// Takes a secret that came from elsewhere (a prompt, the environment).
    pub const fn new(secret: String) -> Self {
        Self(secret)
    }

    /// The first line of a file, without its line end. `what` says what it is a file of: `password`, `API key`.
    ///
    /// # Errors
    /// As [`Secret::whole_file`]; nothing in the first line is 2.
    pub fn from_file(what: &str, path: &Path) -> Result<Self, Failure> {
        let whole = Self::whole_file(what, path)?;
        match whole.0.lines().next() {
            Some(line) if !line.is_empty() => Ok(Self(line.to_owned())),
            _ => Err(Failure::usage("settings_invalid", format!("The {what} file {} is empty.", path.display()))
                .hint("Write the secret into its first line.")),
        }
    }

    /// All that a file holds, such as a private key in PEM.
    ///
    /// # Errors
    /// The file is missing (2), unreadable or accessible to users other than its owner and root's group (3), too large or not text (7).
    pub fn whole_file(what: &str, path: &Path) -> Result<Self, Failure> {
        let action = format!("read the {what} file");
        let file = file::open_regular(&action, path).map_err(Failure::of_setting)?;
        let meta = file.metadata().map_err(|error| Failure::io(&action, path, &error))?;
        if meta.mode() & open_to_others(meta.uid()) != 0 {
            let (shown, mode) = (path.display().to_string(), meta.mode() & 0o777);
            let message = format!("The {what} file {shown} is accessible to users other than its owner (mode {mode:03o}).");
            let close = shell_quoted(&["chmod", "600", &shown]);
            return Err(Failure::refused("settings_invalid", message)
                .hint(format!("Whoever could read it may know the secret by now. To close it:\n  {close}")));
        }
        file::text_of(file, &action, path, LONGEST).map(Self)
    }

    /// The secret itself, for the one place that sends it.
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
const PARTS: &str = "password passwd passphrase passcode secret token credential apikey accesskey privatekey encryptionkey signingkey \
    masterkey authorization cookie keystorepass pwd";

/// A name with a word that ends so names a secret too (`dbpass`, `bindpw`), but for these words.
const ENDS: [&str; 2] = ["pass", "pw"];
const NO_SECRETS: [&str; 6] = ["bypass", "compass", "encompass", "surpass", "trespass", "overpass"];

/// A name that has one of these words names a secret.
/// (`sig`: the signature of a shared access to Azure's storage.)
const WORDS: [&str; 8] = ["key", "keys", "auth", "salt", "pin", "psk", "pem", "sig"];

/// What a last word says that makes it a place or a measure, not the secret itself.
const PLACES: [&str; 7] = ["file", "path", "dir", "directory", "folder", "minutes", "length"];

/// Whether a setting or key of this name holds a secret.
pub fn is_secret_name(name: &str) -> bool {
    let words = words(name);
    if words.last().is_some_and(|last| PLACES.contains(&last.as_str())) {
        return false;
    }
    let ends = |word: &str| ENDS.iter().any(|end| word.ends_with(end)) && !NO_SECRETS.contains(&word);
    let together = words.concat();
    PARTS.split(' ').any(|part| together.contains(part)) || words.iter().any(|word| WORDS.contains(&word.as_str()) || ends(word))
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
