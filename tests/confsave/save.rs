//! `save`: the copy, where it goes, and what it never replaces.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;
use std::process::Command;

use svc_tests::os;
use svc_tests::tool::bin_dir;

use crate::site::{SHIPPED, SHIPPED_CONF, Site, mode, text};

#[test]
fn a_save_copies_the_newer_layout_private_to_the_backup_folder_and_records_whose_the_source_is() {
    let site = Site::new();
    let source = site.write("inst dir/config/svc/svc.yaml", SHIPPED);
    fs::set_permissions(&source, fs::Permissions::from_mode(0o640)).unwrap();
    let save = || site.tool("save").env("SVC_BACKUP_DIR", site.path("backup dir"));
    let ran = save().run().fails(4, "file_not_found").unchanged();
    let hint = ran.doc()["error"]["hint"].as_str().unwrap().to_owned();
    os::run(Command::new("sh").args(["-c", &hint])).unwrap();
    let ran = save().run().ok().changed();
    let copy = site.path("backup dir/svc.yaml");
    assert_eq!(text(&copy), SHIPPED);
    assert_eq!(mode(&copy), 0o600);
    let result = ran.result();
    assert_eq!(result["layout"], "yaml");
    assert_eq!(result["source"], source.to_str().unwrap());
    assert_eq!(result["path"], copy.to_str().unwrap());
    assert_eq!(result["size_bytes"], SHIPPED.len());
    assert_eq!(result["owner"], "root");
    assert_eq!(result["group"], "root");
    assert_eq!(result["mode"], "0640");
    assert!(result["modified_at"].as_str().unwrap().ends_with('Z'));
    let sum = os::run(Command::new("sha256sum").arg(&copy)).unwrap();
    assert!(sum.contains(result["sha256"].as_str().unwrap()));
    assert_eq!(mode(&source), 0o640);

    let again = save().run().ok().unchanged();
    assert_eq!(again.result()["plan"], serde_json::json!([]));
}

#[test]
fn a_save_after_the_reinstallation_never_replaces_the_customised_copy() {
    let site = Site::new();
    fs::write(site.conf(), "customised = yes\n").unwrap();
    let save = || site.tool("save").arg("--to").arg(site.path("svc.conf"));
    assert_eq!(save().run().ok().changed().result()["layout"], "conf");
    fs::write(site.conf(), SHIPPED_CONF).unwrap();
    save().run().refused("file_exists");
    assert_eq!(text(site.path("svc.conf")), "customised = yes\n");

    let forced = save().arg("--force").run().ok().changed();
    assert_eq!(forced.result()["previous"], site.path("svc.conf.1").to_str().unwrap());
    assert_eq!(text(site.path("svc.conf.1")), "customised = yes\n");
    assert_eq!(text(site.path("svc.conf")), SHIPPED_CONF);
    // The next one finds .1 taken, and loses nothing either.
    fs::write(site.conf(), "third = 3\n").unwrap();
    save().arg("--force").run().ok();
    assert_eq!(text(site.path("svc.conf.1")), "customised = yes\n");
    assert_eq!(text(site.path("svc.conf.2")), SHIPPED_CONF);
    assert_eq!(mode(&site.path("svc.conf")), 0o600);
}

#[test]
fn the_copy_goes_to_the_file_or_folder_that_is_named() {
    let site = Site::new();
    fs::write(site.yaml(), SHIPPED).unwrap();
    fs::create_dir(site.path("a folder")).unwrap();
    let save = |to: PathBuf| site.tool("save").arg("--to").arg(to).run();
    save(site.path("a folder")).ok();
    assert_eq!(text(site.path("a folder/svc.yaml")), SHIPPED);
    save(site.path("other name")).ok();
    assert_eq!(text(site.path("other name")), SHIPPED);
    save(site.path("nowhere/")).fails(4, "file_not_found").unchanged();
    save(site.path("nowhere/x.yaml")).fails(4, "file_not_found").unchanged();
    save(site.yaml()).refused("file_exists");
    // A relative path is one of the folder that the call is made in.
    site.tool("save").args(["--to", "relative.yaml"]).dir(site.dir.path()).run().ok();
    assert_eq!(text(site.path("relative.yaml")), SHIPPED);
}

#[test]
fn a_file_of_neither_layout_is_named_by_flag_or_environment() {
    let site = Site::new();
    let odd = site.write("odd place.yml", SHIPPED);
    let ran = site.tool("save").arg("--to").arg(site.path("x")).env("SVC_CONFIG_FILE", &odd).run().ok();
    assert_eq!(ran.result()["layout"], "yaml");
    site.tool("save").arg("--config").arg(site.path("none.conf")).run().fails(4, "file_not_found");
}

#[test]
fn a_copy_that_others_can_read_is_made_private() {
    let site = Site::new();
    fs::write(site.yaml(), SHIPPED).unwrap();
    let copy = site.write("svc.yaml", SHIPPED);
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o644)).unwrap();
    site.tool("save").arg("--to").arg(&copy).run().ok().changed();
    assert_eq!(mode(&copy), 0o600);
    site.tool("save").arg("--to").arg(&copy).run().ok().unchanged();
}

#[test]
fn a_save_copies_any_bytes_and_reads_nothing_into_them() {
    let site = Site::new();
    for (at, bytes) in [&b""[..], b"\xff\xfe\x00binary", b"a: 1\r\na: [", b"\xef\xbb\xbfa: 1\n"].into_iter().enumerate() {
        fs::write(site.yaml(), bytes).unwrap();
        let copy = site.path(&format!("copy{at}"));
        site.tool("save").arg("--to").arg(&copy).run().ok();
        assert_eq!(fs::read(copy).unwrap(), bytes);
    }
}

#[test]
fn a_dry_run_of_a_save_says_the_plan_and_changes_nothing() {
    let site = Site::new();
    fs::write(site.yaml(), SHIPPED).unwrap();
    site.write("svc.yaml", "old: 1\n");
    let before = site.files();
    let save = || site.tool("save").arg("--to").arg(site.dir.path()).arg("--force");
    let dry = save().arg("--dry-run").run().ok().unchanged();
    assert_eq!(dry.doc()["dry_run"], true);
    assert_eq!(site.files(), before);
    let real = save().run().ok().changed();
    assert_eq!(dry.result(), real.result());
    // A dry run's document is nothing to continue from.
    site.tool("carry").args(["--from", "-"]).stdin(dry.text()).run().fails(2, "from_invalid").unchanged();
}

#[test]
fn an_unprivileged_user_saves_what_it_may_read_and_is_told_what_it_may_not() {
    let site = Site::new();
    let user = os::system_user("svc-confsave-a").unwrap();
    fs::set_permissions(site.dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(site.yaml(), SHIPPED).unwrap();
    os::folder(&site.path("home"), 0o700, Some(&user)).unwrap();
    let save = || site.tool("save").as_user(&user.name).arg("--to").arg(site.path("home"));
    save().run().refused("permission_denied");
    let ran = save().env("SVC_STATE_DIR", site.path("home/state")).run().ok();
    assert_eq!(ran.result()["owner"], "root");
    assert_eq!(fs::metadata(site.path("home/svc.yaml")).unwrap().uid(), user.uid.as_raw());

    fs::set_permissions(site.yaml(), fs::Permissions::from_mode(0o600)).unwrap();
    save().env("SVC_STATE_DIR", site.path("home/state")).run().refused("permission_denied");
    fs::set_permissions(site.path("inst dir"), fs::Permissions::from_mode(0o700)).unwrap();
    save().env("SVC_STATE_DIR", site.path("home/state")).run().refused("permission_denied");
    let carry = site.tool("carry").as_user(&user.name).arg(site.path("home/svc.yaml"));
    carry.env("SVC_STATE_DIR", site.path("home/state")).run().refused("permission_denied");
}

#[test]
fn an_empty_environment_is_enough() {
    let site = Site::new();
    fs::write(site.yaml(), SHIPPED).unwrap();
    let out = Command::new("env")
        .arg("-i")
        .arg(bin_dir().join("svc-confsave"))
        .arg("save")
        .args(["--install-dir".into(), site.path("inst dir"), "--state-dir".into(), site.path("state")])
        .arg("--to")
        .arg(site.dir.path())
        .output()
        .unwrap();
    assert!(out.status.success() && out.stderr.is_empty(), "{out:?}");
    assert_eq!(text(site.path("svc.yaml")), SHIPPED);
}
