//! The releases of the sample service: which shape of content each has, and which may follow which.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use anyhow::{Context, Error, Result};
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

/// Whether the move is supported (section 8 of the procedure); 1.15 is the latest minor version of 1.
pub fn may_follow(from: &Version, to: &Version) -> bool {
    let (from_minor, to_minor) = ((from.major, from.minor), (to.major, to.minor));
    from_minor == to_minor && to.patch > from.patch
        || to_minor == (from.major, from.minor + 1)
        || from_minor == (1, 15) && to_minor == (2, 0)
}

/// The version that the marker of an installation records; `None` where there is no marker.
pub fn installed(install_dir: &Path) -> Result<Option<Version>> {
    let marker = install_dir.join("current-version");
    let text = match fs::read_to_string(&marker) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        read => read.with_context(|| format!("cannot read {}", marker.display()))?,
    };
    let version = Version::parse(text.trim());
    Ok(Some(version.map_err(|_| Refusal::because(format!("The marker {} has no version.", marker.display())))?))
}
