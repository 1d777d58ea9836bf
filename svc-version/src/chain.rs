//! The chain of hops from one version to another, a pure function: each hop is one that the rules support.

use std::collections::BTreeSet;

use crate::releases::LastMinors;
use crate::rules::{LastMinor, Rule, Stop, next_stop, rule_between};
use crate::version::Version;

/// So many missing installers are enough to know of at once.
const MOST_MISSING: usize = 20;

/// A chain, as far as it goes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Chain {
    /// The hops up to the first installer that is missing, each with its rule.
    pub hops: Vec<(Version, Rule)>,
    /// What else is needed: `1.16.Z`, or the version to go to.
    pub missing: Vec<String>,
    /// Why the chain cannot be known further.
    pub blocked: Option<Blocked>,
}

/// Why the next hop is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blocked {
    /// Which minor is the last of the major of this version is not known.
    Unknown(Version),
    /// The minor that was named cannot be the last of its major: this version is there.
    NotTheLast(Version),
}

/// The upgrade path from `installed` to `to` through the versions that there are `installers` of. At each stop it takes the highest
/// patch.
#[must_use]
pub fn chain(installed: Version, to: Version, installers: &BTreeSet<Version>, last_minors: &LastMinors) -> Chain {
    let mut chain = Chain::default();
    let mut at = installed;
    while at < to && chain.missing.len() < MOST_MISSING {
        let last = match last_minor(at, to, installers, last_minors) {
            Ok(last) => last,
            Err(why) => {
                chain.blocked = Some(why);
                break;
            }
        };
        let Some(stop) = next_stop(at, to, last) else {
            chain.blocked = Some(Blocked::Unknown(at));
            break;
        };
        let lowest = Version { major: stop.major, minor: stop.minor, patch: 0 };
        let is_last_stop = is_at(to, stop);
        let found = if is_last_stop {
            installers.get(&to)
        } else {
            installers.range(lowest..=Version { patch: u64::MAX, ..lowest }).next_back()
        };
        match found {
            Some(&next) => {
                if let (Ok(rule), true) = (rule_between(at, next, last), chain.missing.is_empty()) {
                    chain.hops.push((next, rule));
                }
                at = next;
            }
            None => {
                chain.missing.push(if is_last_stop { to.to_string() } else { stop.to_string() });
                // Whichever patch it will be, the stops behind it are the same.
                at = if is_last_stop { to } else { lowest };
            }
        }
    }
    chain
}

/// The last minor of the major of `at`, as far as it is known, if the path leaves that major.
fn last_minor(
    at: Version,
    to: Version,
    installers: &BTreeSet<Version>,
    last_minors: &LastMinors,
) -> Result<Option<LastMinor>, Blocked> {
    if at.major == to.major {
        return Ok(None);
    }
    let Some(last) = last_minors.of(at.major) else { return Ok(None) };
    let highest = Version { major: at.major, minor: u64::MAX, patch: u64::MAX };
    let above = [Some(&at), installers.range(..=highest).next_back()];
    match above.into_iter().flatten().find(|version| version.major == at.major && version.minor > last.minor) {
        Some(version) => Err(Blocked::NotTheLast(*version)),
        None => Ok(Some(last)),
    }
}

const fn is_at(version: Version, stop: Stop) -> bool {
    version.major == stop.major && version.minor == stop.minor
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_so_many_missing_installers_are_named() {
        let [from, to] = ["0.0.0", "0.18446744073709551615.0"].map(|text| text.parse().unwrap());
        assert_eq!(chain(from, to, &BTreeSet::new(), &LastMinors::highest_of([])).missing.len(), MOST_MISSING);
    }

    #[test]
    fn unknown_or_impossible_last_minor_blocks_chain() {
        let version = |text: &str| text.parse::<Version>().unwrap();
        let blocked = |last: &[(u64, u64)], installers: &str| {
            let installers = installers.split_whitespace().map(version).collect();
            chain(version("1.15.5"), version("2.0.1"), &installers, &LastMinors::highest_of(last.iter().copied())).blocked
        };
        assert_eq!(blocked(&[], "2.0.1"), Some(Blocked::Unknown(version("1.15.5"))));
        assert_eq!(blocked(&[(2, 3)], "2.0.1"), Some(Blocked::Unknown(version("1.15.5"))));
        assert_eq!(blocked(&[(1, 14)], "2.0.1"), Some(Blocked::NotTheLast(version("1.15.5"))));
        // An installer of a later minor shows the same.
        assert_eq!(blocked(&[(1, 15)], "1.16.0 2.0.1"), Some(Blocked::NotTheLast(version("1.16.0"))));
        assert_eq!(blocked(&[(1, 15)], "2.0.1"), None);
    }
}
