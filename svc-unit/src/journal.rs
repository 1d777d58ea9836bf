//! The unit's last lines in the journal, for whoever must find out why it failed.

use svc_step::Call;
use svc_step::line_secrets::without_secrets;

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
        report.journal = lines(&String::from_utf8_lossy(&ended.stdout));
    }
    if report.journal.is_empty() {
        call.warn(
            "journal_empty",
            format!("The journal has no lines of {} since the step began, or cannot be read.", report.unit),
        );
    }
}

/// The oldest first, without the secrets that a service has written into its log.
fn lines(reversed: &str) -> Vec<String> {
    reversed.lines().rev().map(without_secrets).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_in_their_order_and_without_secrets() {
        let reversed = "2026-11-20T02:00:04+0000 app1 svc[7]: password=hunter2 was refused\n\
            2026-11-20T02:00:03+0000 app1 svc[7]: cannot connect to postgres://svc:hunter2@db1/svc_db\n";
        let shown = lines(reversed);
        assert!(shown[0].starts_with("2026-11-20T02:00:03") && shown[0].ends_with("@db1/svc_db"), "{shown:?}");
        assert!(shown[1].starts_with("2026-11-20T02:00:04+0000 app1 svc[7]: password"), "{shown:?}");
        assert!(shown.iter().all(|line| !line.contains("hunter2")), "{shown:?}");
    }
}
