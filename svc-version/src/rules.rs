//! The rules of the upgrade path (procedure, section 8).

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::version::Version;

/// By which rule an upgrade is supported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// X.Y.Z → X.Y.Z', any higher patch.
    Patch,
    /// X.Y.Z → X.(Y+1).Z'.
    NextMinor,
    /// X.Y.Z → (X+1).0.Z', Y being the last minor of X.
    NextMajor,
}

/// The last minor version of a major version, such as 1.15.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastMinor {
    /// X
    pub major: u64,
    /// Y
    pub minor: u64,
}

impl FromStr for LastMinor {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // A patch number makes it a whole version, so that the reader of versions does the work.
        let version: Version = format!("{text}.0").parse().map_err(|_| format!("`{text}` is not a minor version X.Y"))?;
        Ok(Self { major: version.major, minor: version.minor })
    }
}

impl fmt::Display for LastMinor {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}.{}", self.major, self.minor)
    }
}

/// Why an upgrade is not supported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unsupported {
    /// The next major is reached from this last minor only.
    PassThrough(LastMinor),
    /// Which minor is the last of its major is not known, or the given one is outdated: an installed minor above it shows that
    /// it was not the last.
    Undecided,
    /// Too far for one upgrade.
    TooFar,
    /// Not higher than what is installed.
    NotHigher,
}

/// The rule that supports an upgrade; `last_minor` is the installed major's last minor, if it is known.
///
/// # Errors
/// The upgrade is not supported, or that is not known.
pub fn rule_between(installed: Version, to: Version, last_minor: Option<LastMinor>) -> Result<Rule, Unsupported> {
    if to <= installed {
        return Err(Unsupported::NotHigher);
    }
    if to.major == installed.major {
        return match to.minor - installed.minor {
            0 => Ok(Rule::Patch),
            1 => Ok(Rule::NextMinor),
            _ => Err(Unsupported::TooFar),
        };
    }
    if to.major - installed.major > 1 || to.minor != 0 {
        return Err(Unsupported::TooFar);
    }
    match last_minor.filter(|last| is_known_for(installed, *last)) {
        None => Err(Unsupported::Undecided),
        Some(last) if installed.minor == last.minor => Ok(Rule::NextMajor),
        Some(last) => Err(Unsupported::PassThrough(last)),
    }
}

/// A minor version to stop at, whatever its patch: `1.16.Z`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stop {
    /// X
    pub major: u64,
    /// Y
    pub minor: u64,
}

impl fmt::Display for Stop {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}.{}.Z", self.major, self.minor)
    }
}

/// The next stop on the path to a higher version; `None` if that depends on which minor is the last of its major, which is
/// not known.
pub(crate) fn next_stop(at: Version, to: Version, last_minor: Option<LastMinor>) -> Option<Stop> {
    if at.major == to.major {
        let minor = at.minor.saturating_add(1).min(to.minor);
        return Some(Stop { major: at.major, minor });
    }
    let last = last_minor.filter(|last| is_known_for(at, *last))?;
    Some(if at.minor == last.minor { first_of_next_major(at) } else { next_minor(at) })
}

/// The first hop of an upgrade that is too far for one, for people: `1.16.Z`.
#[must_use]
pub fn first_hop(installed: Version, to: Version, last_minor: Option<LastMinor>) -> String {
    next_stop(installed, to, last_minor).map_or_else(
        || {
            let (minor, major) = (next_minor(installed), first_of_next_major(installed));
            format!("{minor}, or {major} if {}.{} is the last minor version", installed.major, installed.minor)
        },
        |stop| stop.to_string(),
    )
}

const fn next_minor(at: Version) -> Stop {
    Stop { major: at.major, minor: at.minor.saturating_add(1) }
}

const fn first_of_next_major(at: Version) -> Stop {
    Stop { major: at.major.saturating_add(1), minor: 0 }
}

/// Whether the given last minor can be that of the installed major.
const fn is_known_for(installed: Version, last: LastMinor) -> bool {
    last.major == installed.major && last.minor >= installed.minor
}
