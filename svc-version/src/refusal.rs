//! The refusals of an upgrade that is not supported, or not known to be.

use svc_step::Failure;

use crate::rules::{LastMinor, Unsupported, first_hop};
use crate::version::Version;

/// The refusal (3) of an upgrade; `last_minor` is the installed major's last minor, if it is known.
pub(crate) fn refusal(installed: Version, to: Version, why: Unsupported, last_minor: Option<LastMinor>) -> Failure {
    match why {
        Unsupported::PassThrough(last) => Failure::refused(
            "version_unsupported",
            format!("{installed} is not of the last minor version before {to}, which is {last}."),
        )
        .hint(format!("Upgrade to {last}.Z first, minor by minor, then to {to}; svc-version plan DIR --to {to} lists the hops.")),
        Unsupported::Undecided if last_minor.is_some_and(|last| last.major == installed.major) => {
            not_the_last(installed.major, &format!("{installed} is installed"))
        }
        Unsupported::Undecided => undecided(installed, to),
        Unsupported::NotHigher => {
            Failure::refused("version_unsupported", format!("{to} is not higher than the installed {installed}."))
                .hint("An upgrade goes to a higher version only; svc-rollback restores the version before.")
        }
        Unsupported::TooFar => {
            Failure::refused("version_unsupported", format!("An upgrade from {installed} to {to} at once is not supported."))
                .hint(format!(
                    "Upgrade through the versions between: first {}; svc-version plan DIR --to {to} lists the hops.",
                    first_hop(installed, to, last_minor)
                ))
        }
    }
}

/// Which minor is the last of the major of `at` is not known.
pub(crate) fn undecided(at: Version, to: Version) -> Failure {
    Failure::refused(
        "version_unsupported",
        format!("Whether {at} is of the last minor version before {to} is not known, so the upgrade is not allowed."),
    )
    .hint(format!("Pass --last-minor {}.Y, or name in SVC_RELEASES a list of releases that reaches a higher major.", at.major))
}

/// Something shows that the minor that was named is not the last of its major.
pub(crate) fn not_the_last(major: u64, evidence: &str) -> Failure {
    Failure::refused("version_unsupported", format!("{evidence}, so the last minor version of {major} is not the given one."))
        .hint(format!("Look up which one it is, and pass --last-minor {major}.Y or fix the list of releases."))
}
