//! Paths of requests: the one place where names are made part of a URL.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// Everything but what RFC 3986 calls unreserved, `*` and `,`, which servers read the same either way and people read better
/// plain.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'*').remove(b',');

/// `/a/b/c`, each segment percent-encoded.
pub(crate) fn path(segments: &[&str]) -> String {
    segments.iter().flat_map(|segment| ["/".to_owned(), utf8_percent_encode(segment, SEGMENT).to_string()]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_can_never_leave_its_segment() {
        assert_eq!(path(&["_snapshot", "my_backup", "snapshot_svc_20261120"]), "/_snapshot/my_backup/snapshot_svc_20261120");
        assert_eq!(path(&["a/b", "c?d#e", "%2f", "ü"]), "/a%2Fb/c%3Fd%23e/%252f/%C3%BC");
        assert_eq!(path(&["a,b*", "_stats"]), "/a,b*/_stats");
    }
}
