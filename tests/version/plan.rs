//! The chain of upgrades through the installers of a folder.

use crate::place::*;

/// A folder of installers in a place where 1.14.2 is installed.
fn shelf(versions: &[&str]) -> Place {
    let place = Place::saying("1.14.2\n");
    fs::create_dir(place.path("shelf")).unwrap();
    for version in versions {
        place.file(&format!("shelf/svc-{version}.run"), "x");
    }
    place
}

fn plan(place: &Place, args: &[&str]) -> Tool {
    place.tool("plan").arg(place.path("shelf")).args(args.iter().copied())
}

fn hops(ran: &Ran) -> Vec<String> {
    let hop = |hop: &Value| format!("{} {} {}", hop["from"], hop["to"], hop["rule"]).replace('"', "");
    ran.result()["hops"].as_array().unwrap().iter().map(hop).collect()
}

#[test]
fn plan_leads_hop_by_hop_to_highest_installer() {
    let place = shelf(&["1.15.1", "1.15.5", "2.0.1", "2.1.0"]);
    place.file("shelf/svc-2.1.0.run.sha256", "x");
    place.file("shelf/other-9.0.0.run", "x");
    let ran = plan(&place, &["--last-minor", "1.15"]).run().ok().unchanged();
    assert_eq!(hops(&ran), ["1.14.2 1.15.5 next_minor", "1.15.5 2.0.1 next_major", "2.0.1 2.1.0 next_minor"]);
    let first = place.path("shelf/svc-1.15.5.run");
    ran.has(&json!({"installed": "1.14.2", "to": "2.1.0", "hops/0/installer": first, "missing": []}));
    // The folder and the list of releases may come from the environment, what is installed and where to from the command line.
    let elsewhere = place.tool("plan").env("SVC_INSTALLER_DIR", place.path("shelf")).env("SVC_RELEASES", place.path("shelf"));
    let ran = elsewhere.args(["--installed", "1.15.1", "--to", "1.15.5"]).run().ok();
    assert_eq!(hops(&ran), ["1.15.1 1.15.5 patch"]);
    // Before a major whose last minor version is not known, what is sure is told.
    place.file("shelf/svc-3.0.0.run", "x");
    let ran = plan(&place, &["--last-minor", "1.15"]).run().refused("version_unsupported");
    assert!(hops(&ran).len() == 2 && ran.hint().contains("--last-minor 2.Y") && ran.hint().contains("SVC_RELEASES"), "{ran}");
}

#[test]
fn last_minor_option_wins_over_release_list() {
    let place = shelf(&["1.15.5", "2.0.1", "2.1.0", "3.0.0"]);
    let list = place.file("releases", "1.14.2\n1.16.0\n2.0.1\n2.1.0\n3.0.0\n");
    let with_list = |args: &[&str]| plan(&place, args).arg("--releases").arg(&list).run();
    assert_eq!(hops(&with_list(&["--last-minor", "1.15"]).ok()).len(), 4);
    assert_eq!(with_list(&[]).fails(4, "file_not_found").result()["missing"], json!(["1.16.Z"]));
}

#[test]
fn installers_that_are_missing_are_all_named_at_once() {
    let place = shelf(&["1.15.5", "2.1.0"]);
    place.file("shelf/svc-2.0.1.run", "");
    fs::create_dir(place.path("shelf/svc-1.16.0.run")).unwrap();
    let ran = plan(&place, &["--to", "2.2.3", "--last-minor", "1.15"]).run().fails(4, "file_not_found").unchanged();
    assert_eq!(ran.result()["missing"], json!(["2.0.Z", "2.2.3"]));
    assert_eq!(hops(&ran), ["1.14.2 1.15.5 next_minor"]);
    assert!(ran.hint().contains("svc-X.Y.Z.run"), "{ran}");
    // What looks like an installer and is none is told.
    let warned = ran.doc()["warnings"].as_array().unwrap().iter().filter(|warning| warning["code"] == "file_invalid");
    assert_eq!(warned.count(), 2, "{ran}");
    place.tool("plan").arg(place.path("nowhere")).run().fails(4, "file_not_found");
    assert_eq!(place.tool("plan").run().status, 2, "neither DIR nor SVC_INSTALLER_DIR");
}

#[test]
fn plan_without_higher_installer_is_empty() {
    let place = shelf(&["1.13.0", "1.14.2"]);
    plan(&place, &[]).run().ok().unchanged().has(&json!({"to": "1.14.2", "hops": []}));
    for to in ["1.14.2", "1.13.0"] {
        plan(&place, &["--to", to]).run().refused("version_unsupported").error_has(&["svc-rollback"]);
    }
    fs::remove_file(place.marker()).unwrap();
    plan(&place, &[]).run().fails(4, "file_not_found");
}

#[test]
fn plan_through_named_installers_keeps_their_order() {
    let place = shelf(&[]);
    let [first, second, far] = ["1.15.5", "2.0.1", "2.2.0"].map(|version| place.installer(&format!("svc-{version}.run")));
    let through = |files: &[&Path]| {
        let plan = place.tool("plan").args(["--last-minor", "1.15"]).env("SVC_INSTALLER_DIR", place.path("shelf"));
        files.iter().fold(plan, |plan, file| plan.arg("--through").arg(*file)).run()
    };
    let ran = through(&[&first, &second]).ok().unchanged();
    assert_eq!(hops(&ran), ["1.14.2 1.15.5 next_minor", "1.15.5 2.0.1 next_major"]);
    ran.has(&json!({"to": "2.0.1", "directory": null, "hops/1/installer": second}));
    let ran = through(&[&first, &second, &far]).refused("version_unsupported").unchanged();
    assert_eq!(hops(&ran).len(), 2, "what is sure is told");
    through(&[&second, &first]).refused("version_unsupported");
    through(&[&first, &first]).refused("version_unsupported");
    through(&[&first, &place.path("svc-2.0.0.run")]).fails(4, "file_not_found");
}
