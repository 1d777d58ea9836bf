//! The upgrade path: what is supported, what is not, and what nobody can say.

use crate::place::*;

#[test]
fn upgrade_follows_rule_or_is_refused_with_hint() {
    let place = Place::new();
    let most = u64::MAX;
    for (installed, to, last_minor, rule, helps) in [
        ("1.15.5", "2.0.1", Some("1.15"), "next_major", ""),
        ("1.4.2", "1.6.0", None, "", "first 1.5.Z;"),
        ("1.14.2", "2.0.1", Some("1.15"), "", "svc-version plan DIR --to 2.0.1"),
        ("2.0.1", "1.15.5", None, "", "svc-rollback"),
        (&format!("{most}.{most}.0"), &format!("{most}.0.0"), None, "", "svc-rollback"),
        (&format!("0.{most}.0"), &format!("{most}.5.0"), None, "", "versions between"),
        ("1.15.5", "2.0.1", None, "", "--last-minor 1.Y"),
        ("1.15.5", "2.0.1", None, "", "SVC_RELEASES"),
        ("1.4.2", "1.4.90", None, "patch", ""),
        ("1.15.5", "1.15.5", None, "", "svc-rollback"),
        ("1.15.5", "2.0.1", Some("2.9"), "", "--last-minor 1.Y"),
        ("1.15.5", "2.0.1", Some("1.14"), "", "is not the given one"),
        ("1.4.2", "2.1.0", Some("1.15"), "", "first 1.5.Z;"),
        ("1.15.5", "2.1.0", Some("1.15"), "", "first 2.0.Z;"),
        ("1.15.5", "3.0.0", Some("1.15"), "", "first 2.0.Z;"),
        ("1.15.5", "3.0.0", None, "", "first 1.16.Z, or 2.0.Z if 1.15 is the last minor version;"),
        ("1.15.5", "3.0.0", Some("1.14"), "", "first 1.16.Z, or 2.0.Z if"),
        ("1.15.5", "3.0.0", Some("2.3"), "", "first 1.16.Z, or 2.0.Z if"),
    ] {
        let ran = place.check(installed, to).args(last_minor.map(|last| format!("--last-minor={last}"))).run();
        if rule.is_empty() {
            ran.refused("version_unsupported").error_has(&[helps]);
        } else {
            assert_eq!(ran.ok().unchanged().result(), &json!({"installed": installed, "to": to, "rule": rule}));
        }
    }
    assert_eq!(place.check("1.15.5", "2.0.1").args(["--last-minor", "1.15.5"]).run().status, 2);
}

#[test]
fn last_minor_is_found_in_release_list_or_installer_folder() {
    let place = Place::new();
    let list = place.file("releases", "# all of them\r\n1.14.2\r\n1.15.5 # the last of 1\r\n\r\n1.15.1\r\n2.0.1\r\n");
    let with = |installed: &str| place.check(installed, "2.0.1").env("SVC_RELEASES", &list);
    assert_eq!(with("1.15.1").run().ok().result()["rule"], "next_major");
    with("1.14.2").run().refused("version_unsupported");
    with("1.16.0").run().refused("version_unsupported");
    // The flag goes before the environment.
    with("1.16.0").args(["--last-minor", "1.16"]).run().ok();
    // Nor is the last one of a list that ends with it.
    for list in ["", "1.14.2\n1.15.5\n"] {
        with("1.15.5").arg("--releases").arg(place.file("ends", list)).run().refused("version_unsupported");
    }
    with("1.15.5").arg("--releases").arg(place.file("bad", "1.15.5\nsvc 2\n")).run().fails(7, "file_invalid");

    fs::create_dir(place.path("shelf")).unwrap();
    for name in ["svc-1.15.5.run", "svc-2.0.1.run", "svc-1.15.5.run.sha256", "README", "other-1.99.0.run", "svc-1.77.run"] {
        place.file(&format!("shelf/{name}"), "x");
    }
    let with = |installed: &str| place.check(installed, "2.0.1").arg("--releases").arg(place.path("shelf"));
    assert_eq!(with("1.15.5").run().ok().result()["rule"], "next_major");
    with("1.14.2").run().refused("version_unsupported");

    // One that is missing matters only for the next major.
    let missing = |to: &str| place.check("1.15.5", to).args(["--releases", "/nonexistent/releases"]).run();
    missing("1.16.0").ok();
    missing("2.0.1").fails(4, "file_not_found");
}

#[test]
fn check_takes_versions_from_document_and_marker() {
    let place = Place::saying("1.15.5\n");
    let document = place.tool("installer").arg(place.installer("svc-2.0.1.run")).run().ok().text();
    let from = |document: &str| place.tool("check").args(["--from", "-", "--last-minor", "1.15"]).stdin(document);
    let checked = json!({"installed": "1.15.5", "to": "2.0.1", "rule": "next_major"});
    assert_eq!(from(&document).run().ok().result(), &checked);
    from(&document).args(["--installed", "1.14.2"]).run().refused("version_unsupported");
    from(&document).args(["--to", "2.0.1"]).run().fails(2, "options_invalid");
    // A file is as good as a pipe.
    let file = place.file("installer.json", &document);
    place.tool("check").arg("--from").arg(&file).args(["--last-minor", "1.15"]).run().ok();
    // An installer that was refused leads nowhere, and says why.
    let bad = place.tool("installer").arg(place.installer("svc-two.run")).run().text();
    from(&bad).run().fails(2, "file_invalid").unchanged();
    from(&document.replace("\"version\":\"2.0.1\"", "\"version\":\"two\"")).run().fails(2, "from_invalid").error_has(&["shape"]);
    assert_eq!(place.tool("check").run().status, 2, "neither --to nor --from");
}
