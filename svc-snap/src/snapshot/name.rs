//! Names of snapshots and repositories: the servers' rules, checked before anything is sent, and names that are free.

use jiff::Timestamp;

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
///
/// # Errors
/// A sentence for clap.
pub(crate) fn snapshot(text: &str) -> Result<String, String> {
    checked("snapshot", text, true)
}

/// Checks a repository's name, which may have upper-case letters.
///
/// # Errors
/// A sentence for clap.
pub(crate) fn repository(text: &str) -> Result<String, String> {
    checked("repository", text, false)
}

fn checked(what: &str, text: &str, lower: bool) -> Result<String, String> {
    const FORBIDDEN: &[char] = &['\\', '/', '*', '?', '"', '<', '>', '|', ',', '#', ':'];
    let wrong = |why: &str| Err(format!("`{text}` is no {what} name: {why}"));
    if text.is_empty() {
        wrong("it is empty")
    } else if text.starts_with('_') || text.starts_with('-') {
        wrong("it starts with _ or -")
    } else if text == "." || text == ".." {
        wrong("it is . or ..")
    } else if text.contains(FORBIDDEN) || text.chars().any(|one| one.is_whitespace() || one.is_control()) {
        wrong("it has white space or one of \\ / * ? \" < > | , # : in it")
    } else if lower && text.chars().any(char::is_uppercase) {
        wrong("it has upper-case letters")
    } else if text.len() > 255 {
        wrong("it is longer than 255 bytes")
    } else {
        Ok(text.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked_by_the_servers_rules() {
        assert_eq!(snapshot("snapshot_svc_20261120t0200z-2.0.1").as_deref(), Ok("snapshot_svc_20261120t0200z-2.0.1"));
        for bad in ["", "_a", "-a", "A", "a b", "a/b", "a\\b", "a*", "a?", "a\"", "<a>", "a|", "a,b", "a#", ".", "..", "a\n"] {
            assert!(snapshot(bad).is_err(), "{bad:?}");
        }
        assert!(repository("My_Backup").is_ok() && repository("a,b").is_err());
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
