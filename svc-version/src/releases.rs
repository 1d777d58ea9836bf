//! Which releases there are: a file with a version a line, or a folder of installers.

use std::path::Path;

use svc_step::{Failure, file};

use crate::installer::version_of;
use crate::path::LastMinor;
use crate::version::Version;

/// A file of releases is a list of versions.
const LONGEST: u64 = 1024 * 1024;

/// The highest minor of `major` among the releases; `None` where there is none of that major.
///
/// # Errors
/// The list is missing (4), cannot be read whole (3, 1), or has a line that is no version (7).
pub(crate) fn last_minor(releases: &Path, product: &str, major: u64) -> Result<Option<LastMinor>, Failure> {
    let versions = if releases.is_dir() { of_folder(releases, product)? } else { of_file(releases)? };
    let minors = versions.iter().filter(|version| version.major == major).map(|version| version.minor);
    Ok(minors.max().map(|minor| LastMinor { major, minor }))
}

fn of_file(path: &Path) -> Result<Vec<Version>, Failure> {
    let text = file::read_text("read the list of releases", path, LONGEST)?;
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim()).filter(|line| !line.is_empty());
    lines
        .map(|line| {
            line.parse().map_err(|why: String| {
                Failure::invalid(
                    "releases_invalid",
                    format!("The list of releases {} has a line that is no version.", path.display()),
                )
                .hint("Write one X.Y.Z a line; # starts a comment.")
                .cause(why)
            })
        })
        .collect()
}

/// The product's installers by their names; other files of the folder do not matter. A folder that cannot be read whole is no
/// list: the last minor might be what is missing.
fn of_folder(path: &Path, product: &str) -> Result<Vec<Version>, Failure> {
    let fault = |error: std::io::Error| Failure::io("read the folder of installers", path, &error);
    let mut versions = Vec::new();
    for entry in std::fs::read_dir(path).map_err(fault)? {
        versions.extend(version_of(&entry.map_err(fault)?.path(), product));
    }
    Ok(versions)
}
