//! The unit's last lines in the journal, for whoever must find out why it failed.

use svc_step::Call;

use crate::manager;
use crate::moment::Moment;
use crate::name::Manager;
use crate::report::Report;

/// How many lines are kept.
const LINES: &str = "20";

/// Puts the lines since `since` into the report; without any, a warning says so (a bare user manager has no journal).
pub(crate) fn add(call: &Call, report: &mut Report, since: Moment) {
    let option = match report.manager {
        Manager::System => "--unit",
        Manager::User => "--user-unit",
    };
    let since = format!("@{}", since.epoch_ms() / 1000);
    // Backwards, since with a time to begin at, --lines counts from there and not from the end (seen on 252).
    let argv = ["journalctl", "--no-pager", "--quiet", "--output=short-iso", "--utc", "--reverse", "--lines", LINES, "--since"];
    let argv = argv.into_iter().chain([since.as_str(), option, report.unit.as_str()]).map(str::to_owned).collect::<Vec<_>>();
    // Only an explanation: that there is none must not hide the failure itself.
    if let Ok(ended) = manager::capture(call, &argv) {
        report.journal = String::from_utf8_lossy(&ended.stdout).lines().rev().map(str::to_owned).collect();
    }
    if report.journal.is_empty() {
        call.warn(
            "journal_empty",
            format!("The journal has no lines of {} since the step began, or cannot be read.", report.unit),
        );
    }
}
