//! The releases of the sample service: which shape of content each has, and which may follow which.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use anyhow::Context;
use semver::Version;

use crate::refusal::Refusal;

/// The last minor version of major version 1; only from there can one move to 2.0.
const LAST_MINOR_OF_1: u64 = 15;

/// A shape of the content: 1 for the releases 1.14, 2 for 1.15 and 3 for 2.0. Another product's releases 3.3 and 3.4 have 2 and 3.
pub type Shape = u32;

/// The shape of a release's content.
///
/// # Errors
/// A refusal for a release that this program does not know.
pub fn shape_of(version: &Version) -> anyhow::Result<Shape> {
    match (version.major, version.minor) {
        (1, 14) => Ok(1),
        (1, 15) | (3, 3) => Ok(2),
        (2, 0) | (3, 4) => Ok(3),
        _ => Err(Refusal::because(format!("The content of version {version} is not known to this program."))),
    }
}

/// Is the move from one version to another supported (section 8 of the procedure)?
///
/// # Errors
/// A refusal with the reason, if it is not.
pub fn check_path(from: &Version, to: &Version) -> anyhow::Result<()> {
    let same_minor = (to.major, to.minor) == (from.major, from.minor) && to.patch > from.patch;
    let next_minor = to.major == from.major && to.minor == from.minor + 1;
    let next_major = to.major == from.major + 1 && to.minor == 0;
    if same_minor || next_minor {
        return Ok(());
    }
    if next_major && from.major == 1 && from.minor == LAST_MINOR_OF_1 {
        return Ok(());
    }
    let reason = if to <= from {
        "it is no newer version; go back by the rollback procedure"
    } else if next_major {
        "a move to the next major version starts from the latest minor version; install 1.15 first"
    } else {
        "it is neither the next minor version nor the first one of the next major version"
    };
    Err(Refusal::because(format!("The upgrade from {from} to {to} is not supported: {reason}.")))
}

/// The version that the marker of an installation records; `None` where there is no marker.
///
/// # Errors
/// A marker that cannot be read, or a refusal for one that holds no version.
pub fn installed(install_dir: &Path) -> anyhow::Result<Option<Version>> {
    let marker = install_dir.join("current-version");
    match fs::read_to_string(&marker) {
        Ok(text) => match Version::parse(text.trim()) {
            Ok(version) => Ok(Some(version)),
            Err(_) => Err(Refusal::because(format!("The marker {} holds no version.", marker.display()))),
        },
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", marker.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn supported(from: &str, to: &str) -> bool {
        check_path(&Version::parse(from).unwrap(), &Version::parse(to).unwrap()).is_ok()
    }

    #[test]
    fn a_patch_the_next_minor_and_the_next_major_are_supported() {
        assert!(supported("1.14.2", "1.14.9"));
        assert!(supported("1.14.2", "1.15.5"));
        assert!(supported("1.15.5", "2.0.1"));
    }

    #[test]
    fn a_jump_over_a_minor_and_a_way_back_are_not() {
        assert!(!supported("1.13.0", "1.15.5"));
        assert!(!supported("1.14.2", "2.0.1"));
        assert!(!supported("1.15.5", "2.1.0"));
        assert!(!supported("1.15.5", "1.14.2"));
        assert!(!supported("1.15.5", "1.15.5"));
    }
}
