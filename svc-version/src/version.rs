//! A version of the service: exactly X.Y.Z (procedure, 9.1).

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Exactly X.Y.Z: no pre-release, no build tag, no leading zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String", extend("pattern" = r"^(0|[1-9][0-9]*)(\.(0|[1-9][0-9]*)){2}$"))]
pub struct Version {
    /// X
    pub major: u64,
    /// Y
    pub minor: u64,
    /// Z
    pub patch: u64,
}

impl FromStr for Version {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parsed = semver::Version::parse(text).map_err(|error| format!("`{text}` is not a version X.Y.Z: {error}"))?;
        if parsed.pre.is_empty() && parsed.build.is_empty() {
            Ok(Self { major: parsed.major, minor: parsed.minor, patch: parsed.patch })
        } else {
            Err(format!("`{text}` is more than X.Y.Z: the service has no pre-releases and no build tags"))
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

impl TryFrom<String> for Version {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<Version> for String {
    fn from(version: Version) -> Self {
        version.to_string()
    }
}
