//! `save`: the copy, where it goes, and what it never replaces.

use std::os::unix::ffi::OsStrExt;

use crate::site::*;

#[test]
fn save_writes_private_copy_to_backup_folder() {
    let site = Site::new();
    fs::write(site.yaml(), SHIPPED).unwrap();
    os::chmod(site.yaml(), 0o640);
    let save = || site.tool("save").env("SVC_BACKUP_DIR", site.path("backup dir"));
    let missing = save().run().fails(4, "file_not_found").unchanged();
    os::run(Command::new("sh").args(["-c", missing.hint()])).unwrap();
    let ran = save().run().ok().changed();
    let copy = site.path("backup dir/svc.yaml");
    assert_eq!((text(&copy), mode(&copy)), (SHIPPED.to_owned(), 0o600));
    let ran = ran.has(&json!({"layout": "yaml", "source": site.yaml(), "path": copy, "size_bytes": SHIPPED.len()}));
    let ran = ran.has(&json!({"owner": "root", "group": "root", "mode": "0640"}));
    assert!(ran.result()["modified_at"].as_str().unwrap().ends_with('Z'));
    let sum = os::run(Command::new("sha256sum").arg(&copy)).unwrap();
    assert!(sum.contains(ran.result()["sha256"].as_str().unwrap()));
    assert_eq!(save().run().ok().unchanged().result()["plan"], json!([]));
    // One that others could read is private again.
    os::chmod(&copy, 0o644);
    save().run().ok().changed();
    assert_eq!(mode(&copy), 0o600);
}

#[test]
fn save_after_reinstall_never_loses_customised_copy() {
    let site = Site::new();
    let save = |content: &str| {
        fs::write(site.conf(), content).unwrap();
        site.tool("save").arg("--to").arg(site.path("svc.conf"))
    };
    let copies = || ["svc.conf", "svc.conf.1", "svc.conf.2"].map(|name| fs::read_to_string(site.path(name)).unwrap_or_default());
    let (custom, third) = ("customised = yes\n", "third = 3\n");
    assert_eq!(save(custom).run().ok().changed().result()["layout"], "conf");
    save(SHIPPED_CONF).run().refused("name_in_use");
    assert_eq!(copies(), [custom, "", ""]);
    save(SHIPPED_CONF).arg("--force").run().ok().changed().has(&json!({"previous": site.path("svc.conf.1")}));
    assert_eq!(copies(), [SHIPPED_CONF, custom, ""]);
    // The next one finds .1 taken, and loses nothing either.
    save(third).arg("--force").run().ok();
    assert_eq!(copies(), [third, custom, SHIPPED_CONF]);
    assert_eq!(mode(site.path("svc.conf")), 0o600);
}

#[test]
fn save_writes_to_named_file_or_folder() {
    let site = Site::new();
    fs::write(site.yaml(), SHIPPED).unwrap();
    fs::create_dir(site.path("a folder")).unwrap();
    let save = |to: PathBuf| site.tool("save").dir(site.dir.path()).arg("--to").arg(to).run();
    for (to, copy) in
        [(site.path("a folder"), "a folder/svc.yaml"), (site.path("other name"), "other name"), ("relative".into(), "relative")]
    {
        save(to).ok();
        assert_eq!(text(site.path(copy)), SHIPPED);
    }
    save(site.path("nowhere/")).fails(4, "file_not_found").unchanged();
    save(site.path("nowhere/x.yaml")).fails(4, "file_not_found").unchanged();
    save(site.yaml()).refused("name_in_use");
    save(OsStr::from_bytes(b"\xff.yaml").into()).fails(2, "options_invalid").unchanged().error_has(&["is not UTF-8"]);
}

#[test]
fn save_dry_run_has_same_result_as_real_run() {
    let site = Site::new();
    fs::write(site.yaml(), SHIPPED).unwrap();
    site.write("svc.yaml", "old: 1\n");
    let before = site.files();
    let save = site.tool("save").arg("--to").arg(site.dir.path()).arg("--force");
    let dry = save.clone().arg("--dry-run").run().ok().unchanged();
    assert_eq!(dry.doc()["dry_run"], true);
    assert_eq!(site.files(), before);
    assert_eq!(dry.result(), save.run().ok().changed().result());
    // A dry run's document is nothing to continue from.
    site.from("carry", dry.text()).run().fails(2, "from_invalid").unchanged();
}

#[test]
fn unprivileged_user_saves_only_readable_files() {
    let site = Site::new();
    let user = os::system_user("svc-confsave-a").unwrap();
    os::chmod(site.dir.path(), 0o755);
    fs::write(site.yaml(), SHIPPED).unwrap();
    os::folder(&site.path("home"), 0o700, Some(&user)).unwrap();
    let without_state = site.tool("save").as_user(&user.name).arg("--to").arg(site.path("home"));
    let save = without_state.clone().env("SVC_STATE_DIR", site.path("home/state"));
    without_state.run().refused("permission_denied");
    assert_eq!(save.clone().run().ok().result()["owner"], "root");
    assert_eq!(fs::metadata(site.path("home/svc.yaml")).unwrap().uid(), user.uid.as_raw());

    // Neither a file that may not be read nor one in a folder that may not be passed is taken for a missing one; nor such a folder.
    os::folder(&site.path("closed"), 0o700, None).unwrap();
    let closed = site.tool("save").as_user(&user.name).env("SVC_STATE_DIR", site.path("home/state"));
    closed.arg("--to").arg(site.path("closed/new/")).run().refused("permission_denied");
    os::chmod(site.yaml(), 0o600);
    save.clone().run().refused("permission_denied");
    os::chmod(site.path("inst dir"), 0o700);
    save.run().refused("permission_denied");
    let carry = site.tool("carry").as_user(&user.name).arg(site.path("home/svc.yaml"));
    carry.env("SVC_STATE_DIR", site.path("home/state")).run().refused("permission_denied");
}
