//! What an operator is told of a way that is not supported, or that nobody can judge.

use svc_step::Failure;

use crate::rules::{LastMinor, Unsupported, first_hop};
use crate::version::Version;

/// The refusal (3) of the way from one version to another, `last_minor` being what is known of the installed major's last minor.
pub(crate) fn refusal(installed: Version, to: Version, why: Unsupported, last_minor: Option<LastMinor>) -> Failure {
    match why {
        Unsupported::PassThrough(last) => Failure::refused(
            "path_unsupported",
            format!("{installed} is not of the last minor version before {to}, which is {last}."),
        )
        .hint(format!("Upgrade to {last}.Z first, minor by minor, then to {to}; svc-version plan lists the hops.")),
        Unsupported::Undecided if last_minor.is_some_and(|last| last.major == installed.major) => {
            not_the_last(installed.major, &format!("{installed} is installed"))
        }
        Unsupported::Undecided => undecided(installed, to),
        Unsupported::NotHigher => {
            Failure::refused("path_not_higher", format!("{to} is not higher than the installed {installed}."))
                .hint("An upgrade goes upward only; svc-rollback brings a former version back.")
        }
        Unsupported::TooFar => {
            Failure::refused("path_unsupported", format!("An upgrade from {installed} to {to} at once is not supported.")).hint(
                format!(
                    "Go by way of the versions between: first {}; svc-version plan lists the hops.",
                    first_hop(installed, to, last_minor)
                ),
            )
        }
    }
}

/// Nobody said which minor is the last of the major of `at`.
pub(crate) fn undecided(at: Version, to: Version) -> Failure {
    Failure::refused(
        "path_undecided",
        format!("Whether {at} is of the last minor version before {to} is not known, so the way is neither allowed nor refused."),
    )
    .hint(format!("Pass --last-minor {}.Y, or name the list of releases in SVC_RELEASES.", at.major))
}

/// Something shows that the minor that was named is not the last of its major.
pub(crate) fn not_the_last(major: u64, evidence: &str) -> Failure {
    Failure::refused("path_undecided", format!("{evidence}, so the last minor version of {major} is not the one that was named."))
        .hint(format!("Look up which one it is, and say --last-minor {major}.Y or mend the list of releases."))
}
