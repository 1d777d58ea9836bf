//! `restore`: the saved bytes in their place again, whatever they are, with owner, group and mode.

use svc_tests::disk::while_mounted;

use crate::site::*;

#[test]
fn restore_is_byte_exact_with_owner_group_and_mode() {
    let user = os::system_user("svc-confsave-r").unwrap();
    for (what, layout, bytes) in [
        ("no YAML at all", "yaml", &b"a:\n\tb: [1\n}{\n"[..]),
        ("neither UTF-8 nor text", "yaml", b"name: Gr\xf6\xdfe\0\n"),
        ("a byte-order mark, CRLF and no line end", "yaml", b"\xef\xbb\xbfa: 1\r\nb: 2"),
        ("nothing", "yaml", b""),
        ("lines that are not understood", "conf", b"a\tb\n[c\n"),
    ] {
        let site = Site::new();
        let (place, shipped) = if layout == "yaml" { (site.yaml(), SHIPPED) } else { (site.conf(), SHIPPED_CONF) };
        fs::write(&place, bytes).unwrap();
        chown(&place, Some(user.uid.as_raw()), Some(1)).unwrap();
        os::chmod(&place, 0o604);
        let save = site.tool("save").arg("--to").arg(site.path(&format!("svc.{layout}"))).run().ok();
        assert_eq!(fs::read(site.path(&format!("svc.{layout}"))).unwrap(), bytes, "{what}");
        // A reinstallation.
        fs::remove_file(&place).unwrap();
        fs::write(&place, shipped).unwrap();
        let restore = site.from("restore", save.text());
        let before = site.files();
        let dry = restore.clone().arg("--dry-run").run().ok().unchanged();
        assert_eq!(site.files(), before, "{what}");
        let ran = restore.clone().run().ok().changed();
        assert_eq!(dry.result(), ran.result(), "{what}");
        assert_eq!(fs::read(&place).unwrap(), bytes, "{what}");
        let meta = fs::metadata(&place).unwrap();
        assert_eq!((meta.uid(), meta.gid(), mode(&place)), (user.uid.as_raw(), 1, 0o604), "{what}");
        assert_eq!(text(ran.result()["previous"].as_str().unwrap()), shipped, "{what}");
        assert_eq!(restore.run().ok().unchanged().result()["plan"], json!([]), "{what}");
    }
}

#[test]
fn restore_recreates_symlink_if_target_is_unchanged() {
    let site = Site::new();
    let mine = SHIPPED.replace("size: 16", "size: 32");
    let real = site.path("the real one");
    symlink("../../../the real one", site.yaml()).unwrap();
    let saved = site.saved(&mine);
    let restore = || site.from("restore", &*saved).run();
    restore().ok().unchanged();

    // Its file was written to: the link stays, and what it leads to comes back.
    fs::write(&real, SHIPPED).unwrap();
    restore().ok().changed();
    assert_eq!((text(&real), text(site.path("the real one.svc-new"))), (mine.clone(), SHIPPED.to_owned()));
    assert!(site.yaml().is_symlink());

    // An uninstaller took the link away, and an installer laid a file.
    let reinstall = || {
        let _ = fs::remove_file(site.yaml());
        fs::write(site.yaml(), SHIPPED).unwrap();
    };
    reinstall();
    restore().ok().changed();
    assert_eq!(fs::read_link(site.yaml()).unwrap().to_str(), Some("../../../the real one"));
    assert_eq!((text(site.yaml()), text(site.yaml().with_extension("yaml.svc-new"))), (mine.clone(), SHIPPED.to_owned()));

    // What it led to is another file by now, which is not touched.
    reinstall();
    fs::write(&real, "another: 1\n").unwrap();
    restore().review("not_restored").changed();
    assert!(!site.yaml().is_symlink());
    assert_eq!((text(site.yaml()), text(&real)), (mine.clone(), "another: 1\n".to_owned()));

    // A link that leads nowhere makes way for the file.
    fs::remove_file(site.yaml()).unwrap();
    symlink("nowhere", site.yaml()).unwrap();
    restore().review("not_restored").changed();
    assert_eq!(text(site.yaml()), mine);
}

#[test]
fn restore_of_removed_installation_sets_owner_by_name() {
    let site = Site::new();
    let user = os::system_user("svc-confsave-r").unwrap();
    fs::write(site.yaml(), "").unwrap();
    chown(site.yaml(), Some(user.uid.as_raw()), None).unwrap();
    let saved = site.saved(SHIPPED);
    fs::remove_dir_all(site.path("inst dir")).unwrap();
    // As if the service's user had been created again since.
    let other = saved.replace(&format!("\"uid\":{}", user.uid), "\"uid\":54321");
    assert_ne!(other, saved);
    site.from("restore", &*other).arg("--dry-run").run().ok().unchanged();
    assert!(!site.path("inst dir").exists());
    let ran = site.from("restore", other).run().ok().changed();
    assert_eq!((text(site.yaml()), ran.result()["previous"].is_null()), (SHIPPED.to_owned(), true));
    assert_eq!(fs::metadata(site.yaml()).unwrap().uid(), user.uid.as_raw());
}

#[test]
fn restore_targets_saved_path_unless_another_is_given() {
    let site = Site::new();
    // Not that of a real installation.
    let name = "confsave-source";
    let mine = SHIPPED.replace("size: 16", "size: 32");
    let tool = |step: &str| site.tool(step).env_remove("SVC_INSTALL_DIR").env("SVC_NAME", name);
    let installed = site.path(&format!("inst dir/config/{name}/{name}.yaml"));
    fs::create_dir(installed.parent().unwrap()).unwrap();
    fs::write(&installed, &mine).unwrap();
    let elsewhere = site.write("x.yaml", &mine);
    for (place, option, source) in
        [(&installed, "--install-dir", site.path("inst dir")), (&elsewhere, "--config", elsewhere.clone())]
    {
        let copy = site.path(&format!("copy{option}.yaml"));
        let saved = tool("save").arg(option).arg(source).arg("--to").arg(copy).run().ok().text();
        let from = |step: &str| tool(step).args(["--from", "-"]).stdin(&*saved);
        fs::write(place, SHIPPED).unwrap();
        assert_eq!(from("diff").run().ok().result()["new"]["path"], place.to_str().unwrap());
        assert_eq!(from("carry").arg("--dry-run").run().result()["new"]["path"], place.to_str().unwrap());
        let ran = from("restore").run().ok().changed();
        assert_eq!((ran.result()["path"].as_str(), text(place)), (place.to_str(), mine.clone()));
        // The installation has moved; what is in none stays where it was.
        fs::write(place, SHIPPED).unwrap();
        let moved = site.path("moved").join(format!("config/{name}/{name}.yaml"));
        let ran = from("restore").arg("--install-dir").arg(site.path("moved")).run().ok().changed();
        let wanted = if option == "--config" { place } else { &moved };
        assert_eq!((ran.result()["path"].as_str(), text(wanted)), (wanted.to_str(), mine.clone()));
    }
    assert!(!Path::new("/opt").join(name).exists());
}

#[test]
fn document_goes_back_to_its_own_file_whatever_setting_names() {
    let site = Site::new();
    let files = [("x.conf", "size=16\n"), ("x.yaml", SHIPPED), ("other.conf", "size=1\n")];
    let [older, newer, other] = files.map(|(name, text)| site.write(name, text));
    let copy = site.path("copy.conf");
    let saved = site.tool("save").arg("--config").arg(&older).arg("--to").arg(&copy).run().ok().text();
    for set in [&newer, &other] {
        fs::write(&older, "size=2\n").unwrap();
        let restore = || site.from("restore", &*saved).env("SVC_CONFIG_FILE", set);
        assert_eq!(restore().run().ok().changed().result()["path"], older.to_str().unwrap());
        assert_eq!(text(&older), "size=16\n");
    }
    let typed = site.from("restore", &*saved).env("SVC_CONFIG_FILE", &other).arg("--config").arg(&other);
    assert_eq!(typed.arg("--dry-run").run().ok().result()["path"], other.to_str().unwrap());
    // A file of another layout is no place for it, whoever names that.
    for restore in [site.from("restore", &*saved).arg("--config"), site.tool("restore").arg(&copy).arg("--config")] {
        let restore = restore.arg(&newer);
        restore.clone().arg("--dry-run").run().refused("options_invalid").unchanged();
        restore.clone().run().refused("options_invalid").error_has(&["--layout conf"]);
        restore.args(["--layout", "conf", "--dry-run"]).run().ok();
    }
    assert_eq!((text(&newer), text(&other)), (SHIPPED.to_owned(), "size=1\n".to_owned()));
}

#[test]
fn failed_restore_over_mount_point_leaves_no_new_file() {
    let site = Site::new();
    let saved = site.saved(SHIPPED);
    // Nothing takes the name of a file on which another is mounted.
    let other = site.write("other", "other: 1\n");
    os::run(Command::new("mount").arg("--bind").args([&other, &site.yaml()])).unwrap();
    let files = site.files();
    let restore = site.from("restore", saved);
    let ran = [restore.clone().arg("--dry-run").run(), restore.run()];
    let left = site.files();
    os::run(Command::new("umount").arg(site.yaml())).unwrap();
    for ran in ran {
        ran.fails(1, "failed").unchanged().error_has(&["busy"]);
    }
    assert_eq!(left, files);
}

#[test]
fn named_copy_takes_rights_of_replaced_file_or_0600() {
    let site = Site::new();
    let copy = site.write("svc.yaml", "mine: 1\n");
    fs::write(site.yaml(), SHIPPED).unwrap();
    os::chmod(site.yaml(), 0o640);
    chown(site.yaml(), None, Some(1)).unwrap();
    site.tool("restore").arg(&copy).run().ok().changed();
    assert_eq!((text(site.yaml()).as_str(), mode(site.yaml())), ("mine: 1\n", 0o640));
    assert_eq!(fs::metadata(site.yaml()).unwrap().gid(), 1);
    fs::remove_file(site.yaml()).unwrap();
    site.tool("restore").arg(&copy).run().ok().changed();
    assert_eq!((text(site.yaml()).as_str(), mode(site.yaml())), ("mine: 1\n", 0o600));
}

#[test]
fn impossible_restore_is_found_by_dry_run() {
    let site = Site::new();
    let saved = site.saved(SHIPPED);
    let fails_as = |status: i32, code: &str, says: &str| {
        let files = site.files();
        site.from("restore", &*saved).arg("--dry-run").run().fails(status, code).unchanged().error_has(&[says]);
        site.from("restore", &*saved).run().fails(status, code).unchanged().error_has(&[says]);
        assert_eq!(site.files(), files);
    };
    let fails = |status: i32, code: &str| fails_as(status, code, "");
    let folder = site.yaml().parent().unwrap().to_owned();
    // A folder that nobody may write to.
    fs::write(site.yaml(), "other: 1\n").unwrap();
    while_mounted(&folder, "ro", || fails_as(3, "permission_denied", "Read-only"));
    // Something else has its name, or its folder's.
    fs::remove_file(site.yaml()).unwrap();
    fs::create_dir(site.yaml()).unwrap();
    fails(3, "file_invalid");
    fs::remove_dir_all(&folder).unwrap();
    fs::write(&folder, "").unwrap();
    fails_as(1, "failed", "Not a directory");
    fs::remove_file(&folder).unwrap();
    fs::create_dir(&folder).unwrap();
    // The copy is another one.
    fs::write(site.path("svc.yaml"), "x: 1\n").unwrap();
    fails(7, "content_differs");
    fs::remove_file(site.path("svc.yaml")).unwrap();
    fails(4, "file_not_found");
}

#[test]
fn restore_without_right_to_set_owner_is_refused() {
    let site = Site::new();
    let user = os::system_user("svc-confsave-r").unwrap();
    let saved = site.saved(SHIPPED);
    os::run(Command::new("chmod").args(["-R", "a+rwX"]).arg(site.dir.path())).unwrap();
    fs::write(site.yaml(), "other: 1\n").unwrap();
    for options in [vec!["--dry-run"], vec![]] {
        site.from("restore", &*saved).args(options).as_user(&user.name).run().refused("permission_denied").unchanged();
        assert_eq!(text(site.yaml()), "other: 1\n");
    }
}

#[test]
fn failed_restore_reports_folder_it_made_as_change() {
    let site = Site::new();
    let saved = site.saved(SHIPPED);
    let folder = site.yaml().parent().unwrap().to_owned();
    fs::remove_dir_all(&folder).unwrap();
    let daemon = os::system_user("daemon").unwrap();
    for path in [site.dir.path(), &site.path("svc.yaml"), folder.parent().unwrap()] {
        chown(path, Some(daemon.uid.as_raw()), None).unwrap();
    }
    // Only root may give the file to root again.
    let restore = site.from("restore", saved).env("SVC_STATE_DIR", site.path("state of daemon")).as_user("daemon");
    restore.run().fails(1, "permission_denied").changed();
    assert!(folder.exists() && !site.yaml().exists());
}

#[test]
fn restore_keeps_acl_without_default_acl_of_folder() {
    let site = Site::new();
    fs::write(site.yaml(), SHIPPED).unwrap();
    rights::plant(&site.yaml()).unwrap();
    let acl_of = |path: &Path| {
        let (uid, gid, mode, attributes) = rights::of(path);
        (uid, gid, mode, attributes.get(OsStr::new("system.posix_acl_access")).cloned())
    };
    let before = acl_of(&site.yaml());
    let saved = site.saved(SHIPPED);
    let folder = site.yaml().parent().unwrap().to_owned();
    // Beside no file, and over one that an installer laid in a folder that lets others in.
    for lay in [false, true] {
        fs::remove_dir_all(&folder).unwrap();
        fs::create_dir(&folder).unwrap();
        rights::plant_in_folder(&folder).unwrap();
        if lay {
            fs::write(site.yaml(), "shipped: 1\n").unwrap();
        }
        site.from("restore", &*saved).run().ok().changed();
        assert_eq!(acl_of(&site.yaml()), before);
    }
}
