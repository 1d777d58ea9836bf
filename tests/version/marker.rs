//! The version marker: what it may say, where it is, and who may read it.

use crate::place::*;

#[test]
fn marker_is_read_despite_surrounding_white_space() {
    for text in ["2.0.1", "2.0.1\n", " 2.0.1\r\n", "\n\t2.0.1  \n\n"] {
        let place = Place::saying(text);
        place.tool("current").run().ok().unchanged().has(&json!({"version": "2.0.1", "marker": place.marker()}));
    }
}

#[test]
fn marker_that_is_not_one_version_is_invalid() {
    let fails = |text: &[u8]| Place::saying(text).tool("current").run().fails(7, "file_invalid").unchanged();
    for text in ["", "\n", "2.0", "v2.0.1", "2.0.1-rc1", "2.0.1+5", "02.0.1", "2.0.1 2.0.2", "2.0.1\n2.0.2\n", "two", "2.0.-1"] {
        fails(text.as_bytes()).error_has(&["svc-version record"]);
    }
    fails("1".repeat(1_000_000).as_bytes());
    fails(b"2.0.\xff");
}

#[test]
fn unreadable_marker_is_refused_not_missing() {
    let place = Place::saying("2.0.1");
    let user = os::system_user("svc-version-test").unwrap();
    let state = tempfile::tempdir().unwrap();
    chown(state.path(), Some(user.uid.as_raw()), None).unwrap();
    let tool = |step: &str| place.tool(step).env("SVC_STATE_DIR", state.path()).as_user(&user.name);
    os::chmod(place.marker(), 0o600);
    for call in [tool("current"), tool("clear"), tool("record").arg("2.0.2")] {
        call.run().refused("permission_denied");
    }
    // Readable, in a folder that the user may not write.
    os::chmod(place.marker(), 0o644);
    for call in [tool("clear"), tool("record").args(["2.0.2", "--force"])] {
        call.run().refused("permission_denied");
    }
    assert_eq!(place.marker_says().as_deref(), Some("2.0.1"));
    // A state folder that cannot be used is no reason for a second one; a dry run needs none.
    let clear = tool("clear").env("SVC_STATE_DIR", "/proc/nothing");
    clear.clone().run().refused("settings_invalid");
    clear.arg("--dry-run").run().ok().unchanged();
}

#[test]
fn missing_marker_or_other_version_than_expected_fails() {
    let place = Place::new();
    place.tool("current").run().fails(4, "file_not_found").unchanged();
    place.tool("check").args(["--to", "2.0.1"]).run().fails(4, "file_not_found");
    place.file("current-version", "1.15.5\n");
    place.tool("current").args(["--expect", "1.15.5"]).run().ok();
    let differs = place.tool("current").args(["--expect", "2.0.1"]).run().fails(7, "content_differs").unchanged();
    differs.has(&json!({"version": "1.15.5"}));
    assert_eq!(place.tool("current").args(["--expect", "2.0"]).run().status, 2);
}
