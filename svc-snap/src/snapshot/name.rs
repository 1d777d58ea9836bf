//! Names of snapshots: the servers' rules, checked before anything is sent, and names that are free.

use jiff::Timestamp;

use crate::repository::name::checked;

/// The procedure's form of a snapshot's name (2.4): `snapshot_svc_<YYYYMMDD>`, the date in UTC.
pub(crate) fn default_snapshot(service: &str, now: Timestamp) -> String {
    format!("snapshot_{service}_{}", now.strftime("%Y%m%d"))
}

/// `name`, or `name_2`, `name_3`, … : the first that is not among `taken`.
pub(crate) fn free(name: &str, taken: &[String]) -> String {
    let is_free = |candidate: &String| !taken.contains(candidate);
    std::iter::once(name.to_owned())
        .chain((2_u64..).map(|number| format!("{name}_{number}")))
        .find(is_free)
        .unwrap_or_else(|| name.to_owned())
}

/// Checks a snapshot's name; date mathematics (`<snap-{now/d}>`) is not taken, since its name is not known before.
pub(crate) fn snapshot(text: &str) -> Result<String, String> {
    checked("snapshot", text, true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked_by_the_servers_rules() {
        assert_eq!(snapshot("snapshot_svc_20261120t0200z-2.0.1").as_deref(), Ok("snapshot_svc_20261120t0200z-2.0.1"));
        for bad in ["", "_a", "-a", "A", "a b", "a/b", "a\\b", "a*", "a?", "a\"", "<a>", "a|", "a,b", "a#", ".", "..", "a\n"] {
            assert!(snapshot(bad).is_err(), "{bad:?}");
            assert_eq!(crate::repository::name::repository(bad).is_ok(), bad == "A", "{bad:?}");
        }
    }

    #[test]
    fn a_free_name_counts_on_from_two() {
        let now: Timestamp = "2026-11-20T02:00:03Z".parse().unwrap();
        let name = default_snapshot("svc", now);
        assert_eq!(name, "snapshot_svc_20261120");
        assert_eq!(free(&name, &[]), name);
        assert_eq!(free(&name, &[name.clone(), format!("{name}_2")]), format!("{name}_3"));
    }
}
