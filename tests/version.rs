//! svc-version: the marker, installers' names and checksums, and the upgrade path.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::json;
use svc_tests::os;
use svc_tests::tool::{Ran, Tool};
use tempfile::TempDir;

/// An installation with its own state folder.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        fs::set_permissions(place.0.path(), fs::Permissions::from_mode(0o755)).unwrap();
        place
    }

    /// One where the marker says this.
    fn saying(marker: impl AsRef<[u8]>) -> Self {
        let place = Self::new();
        fs::write(place.marker(), marker).unwrap();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, content).unwrap();
        path
    }

    fn installer(&self, name: &str) -> PathBuf {
        let path = self.file(name, "#!/bin/sh\n");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    fn marker(&self) -> PathBuf {
        self.path("current-version")
    }

    fn marker_says(&self) -> Option<String> {
        fs::read_to_string(self.marker()).ok()
    }

    fn tool(&self, step: &str) -> Tool {
        Tool::new("svc-version").arg(step).env("SVC_INSTALL_DIR", self.0.path()).env("SVC_STATE_DIR", self.path("state"))
    }

    fn check(&self, installed: &str, to: &str) -> Tool {
        self.tool("check").args(["--installed", installed, "--to", to])
    }
}

fn hint(ran: &Ran) -> &str {
    ran.doc()["error"]["hint"].as_str().unwrap_or_default()
}

fn sha256_line(path: &Path) -> String {
    os::run(std::process::Command::new("sha256sum").arg(path)).unwrap()
}

#[test]
fn the_marker_is_read_with_white_space_around_it() {
    for text in ["2.0.1", "2.0.1\n", " 2.0.1\r\n", "\n\t2.0.1  \n\n"] {
        let place = Place::saying(text);
        let ran = place.tool("current").run().ok().unchanged();
        assert_eq!(ran.result()["version"], "2.0.1");
        assert_eq!(ran.result()["marker"], place.marker().to_str().unwrap());
    }
}

#[test]
fn a_marker_of_other_content_is_invalid() {
    for text in ["", "\n", "2.0", "v2.0.1", "2.0.1-rc1", "2.0.1+5", "02.0.1", "2.0.1 2.0.2", "2.0.1\n2.0.2\n", "two", "2.0.-1"] {
        let ran = Place::saying(text).tool("current").run().fails(7, "marker_invalid").unchanged();
        assert!(hint(&ran).contains("svc-version record"), "{ran}");
    }
    Place::saying("1".repeat(1_000_000)).tool("current").run().fails(7, "file_too_large");
    Place::saying(b"2.0.\xff").tool("current").run().fails(7, "not_text");
}

#[test]
fn a_marker_that_is_missing_is_not_found() {
    let place = Place::new();
    place.tool("current").run().fails(4, "marker_not_found").unchanged();
    place.tool("check").args(["--to", "2.0.1"]).run().fails(4, "marker_not_found");
    // Another place can be named, and goes before the installation's.
    let other = place.file("elsewhere", "1.2.3");
    let ran = place.tool("current").arg("--marker").arg(&other).run().ok();
    assert_eq!(ran.result()["version"], "1.2.3");
}

#[test]
fn a_marker_that_may_not_be_read_is_refused_and_not_taken_for_a_missing_one() {
    let place = Place::saying("2.0.1");
    fs::set_permissions(place.marker(), fs::Permissions::from_mode(0o600)).unwrap();
    let user = os::system_user("svc-version-test").unwrap();
    let state = tempfile::tempdir().unwrap();
    std::os::unix::fs::chown(state.path(), Some(user.uid.as_raw()), None).unwrap();
    let tool = |step: &str| place.tool(step).env("SVC_STATE_DIR", state.path()).as_user(&user.name);
    tool("current").run().refused("permission_denied");
    tool("forget").run().refused("permission_denied");
    tool("record").arg("2.0.2").run().refused("permission_denied");
    // Readable, in a folder that the user may not write.
    fs::set_permissions(place.marker(), fs::Permissions::from_mode(0o644)).unwrap();
    tool("forget").run().refused("permission_denied");
    tool("record").args(["2.0.2", "--force"]).run().refused("permission_denied");
    assert_eq!(place.marker_says().as_deref(), Some("2.0.1"));
    // A state folder that cannot be used is no reason for a second one; a dry run needs none.
    let without = |step: &str| tool(step).env("SVC_STATE_DIR", "/proc/nothing");
    without("forget").run().refused("state_dir_unusable");
    without("forget").arg("--dry-run").run().ok().unchanged();
}

#[test]
fn another_version_than_the_expected_one_is_invalid_and_named() {
    let place = Place::saying("1.15.5\n");
    place.tool("current").args(["--expect", "1.15.5"]).run().ok();
    let ran = place.tool("current").args(["--expect", "2.0.1"]).run().fails(7, "version_unexpected").unchanged();
    assert_eq!(ran.result()["version"], "1.15.5");
    assert_eq!(place.tool("current").args(["--expect", "2.0"]).run().status, 2);
}

#[test]
fn an_installer_has_its_version_in_its_name() {
    let place = Place::new();
    let good = place.installer("svc-2.0.1.run");
    let ran = place.tool("installer").arg(&good).run().ok().unchanged();
    assert_eq!(ran.result()["version"], "2.0.1");
    assert_eq!(ran.result()["path"], good.to_str().unwrap());
    assert_eq!(ran.result()["size_bytes"], 10);
    assert!(sha256_line(&good).starts_with(ran.result()["sha256"].as_str().unwrap()));
    assert_eq!((&ran.result()["checksum_verified"], &ran.result()["executable"]), (&json!(false), &json!(true)));
    // A path is made absolute.
    let ran = place.tool("installer").arg("svc-2.0.1.run").dir(place.0.path()).run().ok();
    assert_eq!(ran.result()["path"], good.to_str().unwrap());

    for name in
        ["svc-2.0.run", "svc-2.0.1.sh", "svc-2.0.1-rc1.run", "svc_2.0.1.run", "2.0.1.run", "other-2.0.1.run", "svc-v2.0.1.run"]
    {
        let ran = place.tool("installer").arg(place.installer(name)).run().refused("installer_name");
        assert!(hint(&ran).contains("svc-X.Y.Z.run"), "{ran}");
    }
    place.tool("installer").arg(place.path("other-2.0.1.run")).env("SVC_NAME", "other").run().ok();
    place.tool("installer").arg(place.path("svc-9.9.9.run")).run().fails(4, "file_not_found");
}

#[test]
fn an_installer_that_is_empty_a_folder_or_not_executable_is_found_out_before_the_stop() {
    let place = Place::new();
    place.tool("installer").arg(place.file("svc-1.0.0.run", "")).run().fails(7, "installer_unusable");
    fs::create_dir(place.path("svc-1.0.1.run")).unwrap();
    place.tool("installer").arg(place.path("svc-1.0.1.run")).run().fails(7, "installer_unusable");
    let plain = place.file("svc-1.0.2.run", "#!/bin/sh\n");
    let ran = place.tool("installer").arg(&plain).run().refused("installer_not_executable");
    assert!(hint(&ran).contains(&format!("chmod +x '{}'", plain.display())), "{ran}");
    assert_eq!(ran.result()["executable"], false);
}

#[test]
fn an_installer_is_held_against_the_checksum_file_beside_it() {
    let place = Place::new();
    let installer = place.installer("svc-2.0.1.run");
    let beside = place.file("svc-2.0.1.run.sha256", sha256_line(&installer));
    let ran = place.tool("installer").arg(&installer).run().ok();
    assert_eq!(ran.result()["checksum_verified"], true);
    fs::write(&installer, "#!/bin/sh\nflipped\n").unwrap();
    let ran = place.tool("installer").arg(&installer).run().fails(7, "installer_altered").unchanged();
    assert!(ran.doc()["error"]["causes"][0].as_str().unwrap().contains(beside.to_str().unwrap()), "{ran}");
    for text in ["", "not a checksum\n", "<html>404</html>"] {
        fs::write(&beside, text).unwrap();
        place.tool("installer").arg(&installer).run().fails(7, "checksum_invalid");
    }
}

#[test]
fn reading_a_huge_installer_ends_at_a_signal_and_at_the_time_limit() {
    let place = Place::new();
    // Sparse: it takes no room, and minutes to read.
    let huge = place.installer("svc-2.0.1.run");
    File::options().write(true).open(&huge).unwrap().set_len(1 << 40).unwrap();
    let spawned = place.tool("installer").arg(&huge).args(["--progress", "json"]).spawn();
    // The tool has caught its signals as soon as it reads.
    let fd = PathBuf::from(format!("/proc/{}/fd", spawned.pid()));
    let reads = || fs::read_dir(&fd).ok()?.flatten().find(|one| fs::read_link(one.path()).is_ok_and(|to| to == huge)).map(drop);
    svc_tests::wait::until("the installer to be opened", Duration::from_secs(20), reads).unwrap();
    spawned.signal(Signal::SIGTERM);
    spawned.wait().fails(143, "interrupted").unchanged();
    place.tool("installer").arg(&huge).args(["--timeout", "200ms"]).run().fails(6, "timeout").unchanged();
}

#[test]
fn a_supported_way_names_its_rule() {
    let place = Place::new();
    for (installed, to, rule) in [("1.4.2", "1.4.3", "patch"), ("1.4.2", "1.5.0", "next_minor"), ("1.4.2", "1.5.9", "next_minor")]
    {
        let ran = place.check(installed, to).run().ok().unchanged();
        assert_eq!(ran.result(), &json!({"installed": installed, "to": to, "supported": true, "rule": rule}));
    }
    let ran = place.check("1.15.5", "2.0.1").args(["--last-minor", "1.15"]).run().ok();
    assert_eq!(ran.result()["rule"], "next_major");
}

#[test]
fn an_unsupported_way_is_refused_with_what_to_do_instead() {
    let place = Place::new();
    let last = ["--last-minor", "1.15"];
    let refused = |installed: &str, to: &str, code: &str, helps: &str| {
        let ran = place.check(installed, to).args(last).run().refused(code);
        assert!(hint(&ran).contains(helps), "expected `{helps}` in the hint\n{ran}");
    };
    refused("1.4.2", "1.6.0", "path_unsupported", "1.5.Z");
    refused("1.15.5", "2.1.0", "path_unsupported", "2.0.Z");
    refused("1.15.5", "3.0.0", "path_unsupported", "2.0.Z");
    refused("1.14.2", "2.0.1", "path_unsupported", "1.15.Z");
    refused("1.15.5", "1.15.5", "path_not_higher", "svc-rollback");
    refused("2.0.1", "1.15.5", "path_not_higher", "svc-rollback");
    refused("18446744073709551615.18446744073709551615.0", "18446744073709551615.0.0", "path_not_higher", "svc-rollback");
    let ran = place.check("1.15.5", "2.1.0").args(last).run().refused("path_unsupported");
    assert!(!hint(&ran).contains("1.16"), "1.15 is the last, so there is no 1.16\n{ran}");
    refused("0.18446744073709551615.0", "18446744073709551615.5.0", "path_unsupported", "versions between");
}

#[test]
fn a_way_to_the_next_major_is_undecided_while_nobody_says_which_minor_is_the_last() {
    let place = Place::new();
    let ran = place.check("1.15.5", "2.0.1").run().refused("path_undecided");
    assert!(hint(&ran).contains("--last-minor 1.Y") && hint(&ran).contains("SVC_RELEASES"), "{ran}");
    place.check("1.15.5", "2.0.1").args(["--last-minor", "2.3"]).run().refused("path_undecided");
    // What is installed shows that the one named was not the last.
    place.check("1.15.5", "2.0.1").args(["--last-minor", "1.14"]).run().refused("path_undecided");
    assert_eq!(place.check("1.15.5", "2.0.1").args(["--last-minor", "1.15.5"]).run().status, 2);
}

#[test]
fn the_last_minor_is_found_in_a_list_of_releases() {
    let place = Place::new();
    let list = place.file("releases", "# all of them\r\n1.14.2\r\n1.15.5 # the last of 1\r\n\r\n1.15.1\r\n2.0.1\r\n");
    let with = |installed: &str| place.check(installed, "2.0.1").env("SVC_RELEASES", &list);
    assert_eq!(with("1.15.1").run().ok().result()["rule"], "next_major");
    with("1.14.2").run().refused("path_unsupported");
    with("1.16.0").run().refused("path_undecided");
    // The flag goes before the environment.
    with("1.16.0").args(["--last-minor", "1.16"]).run().ok();
    with("1.15.5").arg("--releases").arg(place.file("empty", "")).run().refused("path_undecided");
    with("1.15.5").arg("--releases").arg(place.file("bad", "1.15.5\nsvc 2\n")).run().fails(7, "releases_invalid");
    with("1.15.5").args(["--releases", "/nonexistent/releases"]).run().fails(4, "file_not_found");
}

#[test]
fn the_last_minor_is_found_in_a_folder_of_the_products_installers() {
    let place = Place::new();
    fs::create_dir(place.path("shelf")).unwrap();
    for name in [
        "svc-1.14.2.run",
        "svc-1.15.5.run",
        "svc-2.0.1.run",
        "svc-1.15.5.run.sha256",
        "README",
        "other-1.99.0.run",
        "svc-1.77.run",
    ] {
        place.file(&format!("shelf/{name}"), "x");
    }
    let with = |installed: &str| place.check(installed, "2.0.1").arg("--releases").arg(place.path("shelf"));
    assert_eq!(with("1.15.5").run().ok().result()["rule"], "next_major");
    with("1.14.2").run().refused("path_unsupported");
}

#[test]
fn a_check_goes_on_from_an_installers_document_and_takes_the_installed_version_from_the_marker() {
    let place = Place::saying("1.15.5\n");
    let document = place.tool("installer").arg(place.installer("svc-2.0.1.run")).run().ok().text();
    let from = || place.tool("check").args(["--from", "-", "--last-minor", "1.15"]).stdin(document.clone());
    let ran = from().run().ok();
    assert_eq!(ran.result(), &json!({"installed": "1.15.5", "to": "2.0.1", "supported": true, "rule": "next_major"}));
    from().args(["--installed", "1.14.2"]).run().refused("path_unsupported");
    from().args(["--to", "2.0.1"]).run().fails(2, "version_twice");
    // A file is as good as a pipe.
    let file = place.file("installer.json", &document);
    place.tool("check").arg("--from").arg(&file).args(["--last-minor", "1.15"]).run().ok();
    // An installer that was refused leads nowhere, and says why.
    let bad = place.tool("installer").arg(place.installer("svc-two.run")).run().text();
    place.tool("check").args(["--from", "-"]).stdin(bad).run().fails(2, "installer_name").unchanged();
    for (input, code) in [
        (String::new(), "from_empty"),
        (document[..document.len() / 2].to_owned(), "from_damaged"),
        (format!("{document}{document}"), "from_several"),
        (document.replace("svc-version.installer/1", "svc-version.installer/2"), "from_wrong_schema"),
        (document.replace("\"version\":\"2.0.1\"", "\"version\":\"two\""), "from_damaged"),
    ] {
        for step in ["check", "record"] {
            place.tool(step).args(["--from", "-"]).stdin(input.clone()).run().fails(2, code).unchanged();
        }
    }
    assert_eq!(place.tool("check").run().status, 2, "neither --to nor --from");
}

#[test]
fn what_was_forgotten_is_recorded_again_to_the_letter_and_where_it_was() {
    let place = Place::saying("  1.15.5\r\n");
    let forgotten = place.tool("forget").run().ok().changed();
    assert_eq!(forgotten.result()["content"], "  1.15.5\r\n");
    assert_eq!(forgotten.result()["version"], "1.15.5");
    assert_eq!(place.marker_says(), None);
    let again = place.tool("forget").run().ok().unchanged();
    assert_eq!((&again.result()["content"], &again.result()["plan"]), (&json!(null), &json!([])));

    // It says what was installed, too.
    let way = place.tool("check").args(["--from", "-", "--to", "1.16.0"]).stdin(forgotten.text()).run().ok();
    assert_eq!(way.result()["installed"], "1.15.5");
    place.tool("check").args(["--from", "-"]).stdin(forgotten.text()).run().fails(2, "version_missing");

    // Nobody but the document says where.
    let elsewhere = Tool::new("svc-version").arg("record").env("SVC_STATE_DIR", place.path("state"));
    let ran = elsewhere.args(["--from", "-"]).stdin(forgotten.text()).run().ok().changed();
    assert_eq!(ran.result()["before"], json!(null));
    assert_eq!(place.marker_says().as_deref(), Some("  1.15.5\r\n"));
    place.tool("record").args(["--from", "-"]).stdin(forgotten.text()).run().ok().unchanged();
    // A marker that was absent is nothing to record.
    place.tool("record").args(["--from", "-"]).stdin(again.text()).run().fails(2, "version_missing");
}

#[test]
fn a_marker_that_a_failed_installer_spoilt_is_forgotten_all_the_same() {
    let place = Place::saying("half a ver");
    let ran = place.tool("forget").run().ok().changed();
    assert_eq!((&ran.result()["content"], &ran.result()["version"]), (&json!("half a ver"), &json!(null)));
    fs::write(place.marker(), b"1.15\xff\x00").unwrap();
    let ran = place.tool("forget").run().ok().changed().warns("marker_not_text");
    assert!(ran.result()["content"].as_str().unwrap().starts_with("1.15"));
    assert_eq!(place.marker_says(), None);
    // What is far too large to be a marker is something else, and stays.
    fs::write(place.marker(), "1".repeat(1_000_000)).unwrap();
    place.tool("forget").run().fails(7, "file_too_large").unchanged();
    assert!(place.marker().exists());
}

#[test]
fn a_version_is_recorded_once_and_another_marker_is_kept_unless_forced() {
    let place = Place::new();
    let ran = place.tool("record").arg("1.15.5").run().ok().changed();
    assert_eq!(ran.result()["version"], "1.15.5");
    assert_eq!(place.marker_says().as_deref(), Some("1.15.5\n"));
    assert_eq!(fs::metadata(place.marker()).unwrap().permissions().mode() & 0o777, 0o644);
    place.tool("record").arg("1.15.5").run().ok().unchanged();
    place.tool("record").arg("2.0.1").run().refused("marker_exists");
    assert_eq!(place.marker_says().as_deref(), Some("1.15.5\n"));
    let ran = place.tool("record").args(["2.0.1", "--force"]).run().ok().changed();
    assert_eq!(ran.result()["before"], "1.15.5\n");
    assert_eq!(place.marker_says().as_deref(), Some("2.0.1\n"));
    let installer = place.tool("installer").arg(place.installer("svc-2.0.2.run")).run().text();
    place.tool("record").args(["--from", "-", "--force"]).stdin(installer).run().ok().changed();
    assert_eq!(place.marker_says().as_deref(), Some("2.0.2\n"));
    place.tool("record").args(["1.0.0", "--install-dir", "/nonexistent"]).run().fails(4, "file_not_found").unchanged();
    for wrong in [vec![], vec!["2.0"], vec!["1.0.0", "--from", "-"]] {
        assert_eq!(place.tool("record").args(wrong.clone()).run().status, 2, "{wrong:?}");
    }
}

#[test]
fn a_planted_link_in_the_markers_place_is_replaced_and_never_written_through() {
    let place = Place::new();
    let victim = place.file("victim", "1.0.0");
    std::os::unix::fs::symlink(&victim, place.marker()).unwrap();
    place.tool("record").args(["2.0.1", "--force"]).run().ok().changed();
    assert_eq!(fs::read_to_string(&victim).unwrap(), "1.0.0");
    assert!(fs::symlink_metadata(place.marker()).unwrap().is_file());
}

#[test]
fn a_dry_run_says_what_it_would_do_and_leaves_the_marker_alone() {
    let place = Place::saying("1.15.5\n");
    let marker = place.marker().display().to_string();
    let ran = place.tool("forget").arg("--dry-run").run().ok().unchanged();
    assert_eq!(ran.doc()["dry_run"], true);
    assert_eq!(ran.result()["plan"], json!([{"kind": "file", "path": marker, "change": "remove"}]));
    place.tool("record").args(["--from", "-"]).stdin(ran.text()).run().fails(2, "from_dry_run").unchanged();
    let ran = place.tool("record").args(["2.0.1", "--force", "--dry-run"]).run().ok().unchanged();
    assert_eq!(ran.result()["plan"], json!([{"kind": "file", "path": marker, "change": "write 2.0.1"}]));
    place.tool("record").args(["2.0.1", "--dry-run"]).run().refused("marker_exists");
    assert_eq!(place.marker_says().as_deref(), Some("1.15.5\n"));
    assert!(!place.path("state").exists(), "a dry run made the state folder");
}

#[test]
fn a_marker_that_another_run_is_at_is_locked() {
    let place = Place::saying("1.15.5\n");
    place.tool("record").arg("1.15.5").run().ok();
    let lock = fs::read_dir(place.path("state/locks")).unwrap().next().unwrap().unwrap().path();
    let held = File::options().write(true).open(lock).unwrap();
    held.lock().unwrap();
    place.tool("forget").run().fails(8, "locked").unchanged();
    place.tool("record").args(["2.0.1", "--force"]).run().fails(8, "locked").unchanged();
    drop(held);
    place.tool("forget").run().ok().changed();
}
