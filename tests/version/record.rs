//! The marker cleared and recorded.

use crate::place::*;

#[test]
fn cleared_marker_is_recorded_again_verbatim() {
    let place = Place::saying("  1.15.5\r\n");
    let from = |step: &str, document: &str| place.tool(step).args(["--from", "-"]).stdin(document);
    let cleared = place.tool("clear").run().ok().changed().has(&json!({"content": "  1.15.5\r\n", "version": "1.15.5"}));
    assert_eq!(place.marker_says(), None);
    let again = place.tool("clear").run().ok().unchanged().has(&json!({"content": null, "plan": []}));

    let cleared = cleared.text();
    // Nobody but the document says where.
    let elsewhere = Tool::new("svc-version").arg("record").env("SVC_STATE_DIR", place.path("state"));
    elsewhere.args(["--from", "-"]).stdin(&*cleared).run().ok().changed().has(&json!({"before": null}));
    assert_eq!(place.marker_says().as_deref(), Some("  1.15.5\r\n"));
    from("record", &cleared).run().ok().unchanged();
    // A marker that was absent is nothing to record.
    from("record", &again.text()).run().fails(2, "options_invalid");

    // One that names no version is restored too.
    for content in ["", "\u{feff}1.15.5\n", "1.15.5\0", "half a ver"] {
        fs::write(place.marker(), content).unwrap();
        let cleared = place.tool("clear").run().ok().changed().text();
        from("record", &cleared).run().ok().changed().has(&json!({"version": null}));
        assert_eq!(place.marker_says().as_deref(), Some(content));
        from("record", &cleared).run().ok().unchanged();
        fs::write(place.marker(), "1.16.0").unwrap();
        from("record", &cleared).run().refused("name_in_use");
    }
}

#[test]
fn damaged_marker_is_still_cleared() {
    let place = Place::saying(b"1.15\xff\x00");
    let ran = place.tool("clear").run().ok().changed().warns("file_invalid");
    assert!(ran.result()["content"].as_str().unwrap().starts_with("1.15"));
    assert_eq!(place.marker_says(), None);
    // What is far too large to be a marker is something else, and stays.
    fs::write(place.marker(), "1".repeat(1_000_000)).unwrap();
    place.tool("clear").run().fails(7, "file_invalid").unchanged();
    assert!(place.marker().exists());
}

#[test]
fn other_marker_is_replaced_only_with_force() {
    let place = Place::new();
    let record = |args: &[&str]| place.tool("record").args(args.iter().copied());
    let is_now = |version: &str| assert_eq!(place.marker_says(), Some(format!("{version}\n")));
    assert_eq!(record(&["1.15.5"]).run().ok().changed().result()["version"], "1.15.5");
    is_now("1.15.5");
    assert_eq!(os::mode(place.marker()), 0o644);
    record(&["1.15.5"]).run().ok().unchanged();
    record(&["2.0.1"]).run().refused("name_in_use");
    is_now("1.15.5");
    assert_eq!(record(&["2.0.1", "--force"]).run().ok().changed().result()["before"], "1.15.5\n");
    is_now("2.0.1");
    let installer = place.tool("installer").arg(place.installer("svc-2.0.2.run")).run().text();
    record(&["--from", "-", "--force"]).stdin(installer).run().ok().changed();
    is_now("2.0.2");
    record(&["1.0.0", "--install-dir", "/nonexistent"]).run().fails(4, "file_not_found").unchanged();
    for wrong in [&[][..], &["2.0"], &["1.0.0", "--from", "-"]] {
        assert_eq!(record(wrong).run().status, 2, "{wrong:?}");
    }
}

#[test]
fn symlinked_marker_is_replaced_not_followed() {
    let place = Place::new();
    let victim = place.file("victim", "1.0.0");
    symlink(&victim, place.marker()).unwrap();
    place.tool("record").args(["2.0.1", "--force"]).run().ok().changed();
    assert_eq!(fs::read_to_string(&victim).unwrap(), "1.0.0");
    assert!(!place.marker().is_symlink());
}

#[test]
fn dry_run_leaves_marker_unchanged() {
    let place = Place::saying("1.15.5\n");
    let plan = |change: &str| json!([{"kind": "file", "path": place.marker(), "change": change}]);
    let clear = place.tool("clear").arg("--dry-run").run().ok().unchanged();
    assert_eq!((&clear.doc()["dry_run"], &clear.result()["plan"]), (&json!(true), &plan("remove")));
    let record = place.tool("record").args(["2.0.1", "--dry-run"]);
    record.clone().run().refused("name_in_use");
    assert_eq!(record.arg("--force").run().ok().unchanged().result()["plan"], plan("write 2.0.1"));
    assert_eq!(place.marker_says().as_deref(), Some("1.15.5\n"));
    assert!(!place.path("state").exists(), "a dry run made the state folder");
}

#[test]
fn record_and_clear_fail_while_marker_is_locked() {
    let place = Place::saying("1.15.5\n");
    place.tool("record").arg("1.15.5").run().ok();
    let lock = fs::read_dir(place.path("state/locks")).unwrap().next().unwrap().unwrap().path();
    let held = File::options().write(true).open(lock).unwrap();
    held.lock().unwrap();
    place.tool("clear").run().fails(8, "locked").unchanged();
    place.tool("record").args(["2.0.1", "--force"]).run().fails(8, "locked").unchanged();
    held.unlock().unwrap();
    place.tool("clear").run().ok().changed();
}
