//! The releases of the sample service: which shape of content each has.

use std::fs;
use std::path::Path;

use anyhow::{Error, Result};
use semver::Version;

/// A rule said no, and nothing was changed.
#[derive(Debug)]
pub struct Refusal(String);

impl Refusal {
    pub fn because(sentence: impl Into<String>) -> Error {
        Error::new(Self(sentence.into()))
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refusal {}

/// The shape of a version's content. Another product's releases 3.3 and 3.4 have 2 and 3.
pub fn shape_of(version: &Version) -> Result<u32> {
    match (version.major, version.minor) {
        (1, 14) => Ok(1),
        (1, 15) | (3, 3) => Ok(2),
        (2, 0) | (3, 4) => Ok(3),
        _ => Err(Refusal::because(format!("The content of version {version} is not known to this program."))),
    }
}

/// The version that the marker of an installation records.
pub fn installed(install_dir: &Path) -> Result<Version> {
    let text = fs::read_to_string(install_dir.join("current-version")).unwrap_or_default();
    let refused = |_| Refusal::because(format!("There is no version marker in {}.", install_dir.display()));
    Version::parse(text.trim()).map_err(refused)
}
