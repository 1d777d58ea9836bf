//! The installer of a version, found in the places where an operator keeps installers.

use svc_tests::bare;

use crate::place::*;

/// A document; only its result matters.
fn document(place: &Place, name: &str, schema: &str, result: &Value) -> PathBuf {
    place.file(name, bare::document(schema, result).to_string())
}

#[test]
fn installer_folders_are_searched_in_order() {
    let place = Place::saying("1.14.2\n");
    for folder in ["here", "shelf", "beside", "seen", "run"] {
        fs::create_dir(place.path(folder)).unwrap();
    }
    let seen = json!({"path": place.path("seen/svc-1.14.2.run")});
    let seen = document(&place, "run/03-previous-installer.json", "svc-version.find/1", &seen);
    place.file("run/03-previous-installer.started", "check\n");
    let point = json!({"path": "/p", "version": "1.14.2", "upgrade_run_dir": place.path("run")});
    let point = document(&place, "point.json", "svc-point.choose/1", &point);
    let of_point = || place.tool("find").dir(place.path("here")).arg("--for").arg(&point);
    let find = || {
        let shelf = of_point().env("SVC_INSTALLER_DIR", place.path("shelf"));
        shelf.arg("--beside").arg(place.path("beside/svc-2.0.1.run")).run()
    };
    let missing = find().fails(4, "file_not_found").unchanged().error_has(&["/shelf/svc-1.14.2.run"]);
    assert!(missing.hint().contains("SVC_INSTALLER_DIR"), "{missing}");
    for folder in ["here", "seen", "beside", "shelf"] {
        let installer = place.installer(&format!("{folder}/svc-1.14.2.run"));
        find().ok().unchanged().has(&json!({"path": installer, "version": "1.14.2"}));
    }
    // What an upgrade has found under another name, or not found at all, is none of this version.
    of_point().arg("1.13.0").run().fails(4, "file_not_found");
    fs::remove_file(seen).unwrap();
    assert_eq!(of_point().run().ok().result()["path"], json!(place.path("here/svc-1.14.2.run")));
}

#[test]
fn named_installer_must_have_wanted_version() {
    let place = Place::saying("1.14.2\n");
    let (right, wrong) = (place.installer("svc-1.14.2.run"), place.installer("svc-1.15.0.run"));
    let current = place.tool("current").run().ok().text();
    let find = |named: &Path| {
        let find = place.tool("find").args(["--from", "-", "--installer"]).arg(named).stdin(current.clone());
        find.env("SVC_INSTALLER_DIR", place.0.path()).run()
    };
    assert_eq!(find(&right).ok().result()["path"], json!(right));
    find(&wrong).refused("file_invalid").error_has(&["svc-1.14.2.run"]).has(&json!({"version": "1.15.0"}));
    find(&place.path("svc-9.9.9.run")).fails(4, "file_not_found");
    assert_eq!(place.tool("find").run().status, 2, "nothing says which version");
    let point = json!({"path": "/p", "version": null, "upgrade_run_dir": null});
    let point = document(&place, "point.json", "svc-point.choose/1", &point);
    place.tool("find").arg("--for").arg(point).run().fails(2, "options_invalid");
}
