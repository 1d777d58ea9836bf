//! Which minor version is the last of its major version: only the vendor knows, so it is given.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use clap::Args;
use svc_step::{Failure, file};

use crate::folder;
use crate::rules::LastMinor;
use crate::version::Version;

/// A file of releases is a list of versions.
const LONGEST: u64 = 1024 * 1024;

/// Where the last minors come from.
#[derive(Debug, Clone, Args)]
pub(crate) struct ReleaseArgs {
    /// The last minor version of a major version (may be repeated); takes precedence over --releases
    #[arg(long, value_name = "X.Y")]
    last_minor: Vec<LastMinor>,
    #[arg(long, value_name = "FILE|DIR", env = "SVC_RELEASES")]
    releases: Option<PathBuf>,
}

impl ReleaseArgs {
    /// The given last minors. The list of releases is read only if one of `majors` is not named.
    ///
    /// # Errors
    /// The list is missing (4), cannot be read completely (3, 1), or has a line that is no version (7).
    pub(crate) fn last_minors(&self, product: &str, majors: Range<u64>) -> Result<LastMinors, Failure> {
        let named = self.last_minor.iter().map(|last| (last.major, last.minor));
        let mut known = LastMinors::highest_of(named);
        if let Some(releases) = &self.releases
            && majors.into_iter().any(|major| known.of(major).is_none())
        {
            let versions = if releases.is_dir() { folder::versions(releases, product)? } else { of_file(releases)? };
            let LastMinors(mut listed) = LastMinors::highest_of(versions.iter().map(|version| (version.major, version.minor)));
            // More minors of the newest major version may have been released since.
            listed.pop_last();
            for (major, minor) in listed {
                known.0.entry(major).or_insert(minor);
            }
        }
        Ok(known)
    }
}

/// The last minor version of each major version, as far as it is known.
#[derive(Debug, Clone, Default)]
pub struct LastMinors(BTreeMap<u64, u64>);

impl LastMinors {
    /// The highest minor of each major.
    pub fn highest_of(pairs: impl IntoIterator<Item = (u64, u64)>) -> Self {
        let mut all = BTreeMap::new();
        for (major, minor) in pairs {
            let highest = all.entry(major).or_insert(minor);
            *highest = minor.max(*highest);
        }
        Self(all)
    }

    /// That of one major.
    #[must_use]
    pub fn of(&self, major: u64) -> Option<LastMinor> {
        self.0.get(&major).map(|&minor| LastMinor { major, minor })
    }
}

fn of_file(path: &Path) -> Result<Vec<Version>, Failure> {
    let text = file::read_text("read the list of releases", path, LONGEST)?;
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim()).filter(|line| !line.is_empty());
    lines
        .map(|line| {
            line.parse().map_err(|why: String| {
                Failure::invalid(
                    "file_invalid",
                    format!("The list of releases {} has a line that is not a version.", path.display()),
                )
                .hint("Write one X.Y.Z a line; # starts a comment.")
                .cause(why)
            })
        })
        .collect()
}
