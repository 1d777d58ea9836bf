//! The upgrade path: what is supported, what is not, and what nobody can say.

use std::fs;

use serde_json::json;

use crate::place::{Place, hint};

#[test]
fn a_supported_upgrade_names_its_rule() {
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
fn an_unsupported_upgrade_is_refused_with_what_to_do_instead() {
    let place = Place::new();
    let last = ["--last-minor", "1.15"];
    let refused = |installed: &str, to: &str, code: &str, helps: &str| {
        let ran = place.check(installed, to).args(last).run().refused(code);
        assert!(hint(&ran).contains(helps), "expected `{helps}` in the hint\n{ran}");
    };
    refused("1.4.2", "1.6.0", "version_unsupported", "1.5.Z");
    refused("1.15.5", "2.1.0", "version_unsupported", "2.0.Z");
    refused("1.15.5", "3.0.0", "version_unsupported", "2.0.Z");
    refused("1.14.2", "2.0.1", "version_unsupported", "1.15.Z");
    refused("1.15.5", "1.15.5", "version_unsupported", "svc-rollback");
    refused("2.0.1", "1.15.5", "version_unsupported", "svc-rollback");
    refused("18446744073709551615.18446744073709551615.0", "18446744073709551615.0.0", "version_unsupported", "svc-rollback");
    let ran = place.check("1.15.5", "2.1.0").args(last).run().refused("version_unsupported");
    assert!(!hint(&ran).contains("1.16"), "1.15 is the last, so there is no 1.16\n{ran}");
    refused("0.18446744073709551615.0", "18446744073709551615.5.0", "version_unsupported", "versions between");
}

#[test]
fn an_upgrade_to_the_next_major_is_undecided_while_the_last_minor_is_not_known() {
    let place = Place::new();
    let ran = place.check("1.15.5", "2.0.1").run().refused("version_unsupported");
    assert!(hint(&ran).contains("--last-minor 1.Y") && hint(&ran).contains("SVC_RELEASES"), "{ran}");
    place.check("1.15.5", "2.0.1").args(["--last-minor", "2.3"]).run().refused("version_unsupported");
    // What is installed shows that the one named was not the last.
    place.check("1.15.5", "2.0.1").args(["--last-minor", "1.14"]).run().refused("version_unsupported");
    assert_eq!(place.check("1.15.5", "2.0.1").args(["--last-minor", "1.15.5"]).run().status, 2);
}

#[test]
fn the_last_minor_is_found_in_a_list_of_releases() {
    let place = Place::new();
    let list = place.file("releases", "# all of them\r\n1.14.2\r\n1.15.5 # the last of 1\r\n\r\n1.15.1\r\n2.0.1\r\n");
    let with = |installed: &str| place.check(installed, "2.0.1").env("SVC_RELEASES", &list);
    assert_eq!(with("1.15.1").run().ok().result()["rule"], "next_major");
    with("1.14.2").run().refused("version_unsupported");
    with("1.16.0").run().refused("version_unsupported");
    // The flag goes before the environment.
    with("1.16.0").args(["--last-minor", "1.16"]).run().ok();
    with("1.15.5").arg("--releases").arg(place.file("empty", "")).run().refused("version_unsupported");
    with("1.15.5").arg("--releases").arg(place.file("bad", "1.15.5\nsvc 2\n")).run().fails(7, "file_invalid");
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
    with("1.14.2").run().refused("version_unsupported");
}

#[test]
fn a_check_resumes_from_an_installers_document_and_takes_the_installed_version_from_the_marker() {
    let place = Place::saying("1.15.5\n");
    let document = place.tool("installer").arg(place.installer("svc-2.0.1.run")).run().ok().text();
    let from = || place.tool("check").args(["--from", "-", "--last-minor", "1.15"]).stdin(document.clone());
    let ran = from().run().ok();
    assert_eq!(ran.result(), &json!({"installed": "1.15.5", "to": "2.0.1", "supported": true, "rule": "next_major"}));
    from().args(["--installed", "1.14.2"]).run().refused("version_unsupported");
    from().args(["--to", "2.0.1"]).run().fails(2, "options_invalid");
    // A file is as good as a pipe.
    let file = place.file("installer.json", &document);
    place.tool("check").arg("--from").arg(&file).args(["--last-minor", "1.15"]).run().ok();
    // An installer that was refused leads nowhere, and says why.
    let bad = place.tool("installer").arg(place.installer("svc-two.run")).run().text();
    place.tool("check").args(["--from", "-"]).stdin(bad).run().fails(2, "file_invalid").unchanged();
    for (input, code) in [
        (String::new(), "from_damaged"),
        (document[..document.len() / 2].to_owned(), "from_damaged"),
        (format!("{document}{document}"), "from_invalid"),
        (document.replace("svc-version.installer/1", "svc-version.installer/2"), "from_invalid"),
        (document.replace("\"version\":\"2.0.1\"", "\"version\":\"two\""), "from_damaged"),
    ] {
        for step in ["check", "record"] {
            place.tool(step).args(["--from", "-"]).stdin(input.clone()).run().fails(2, code).unchanged();
        }
    }
    assert_eq!(place.tool("check").run().status, 2, "neither --to nor --from");
}

#[test]
fn a_list_of_releases_that_is_not_there_matters_only_for_another_major() {
    let place = Place::new();
    let check = |installed: &str, to: &str| place.check(installed, to).args(["--releases", "/nonexistent/releases"]).run();
    for (installed, to) in [("1.4.2", "1.4.3"), ("1.4.2", "1.5.0"), ("0.1.0", "0.1.1")] {
        check(installed, to).ok();
    }
    check("1.4.2", "1.6.0").refused("version_unsupported");
    check("1.15.5", "2.0.1").fails(4, "file_not_found");
}
