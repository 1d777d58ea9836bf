//! `carry`: which keys, what the document says, and whose the file is. (What comes of the text is in `merge`.)

use crate::site::*;

#[test]
fn carry_does_what_its_dry_run_says_and_keeps_the_previous_file() {
    let site = Site::new();
    let mine = SHIPPED.replace("size: 16", "size: 32").replace("  lifetime_minutes: 240\n", "").replace("change-me", SECRET);
    let carry = site.carry("yaml", mine, Some(SHIPPED), SHIPPED);
    let before = site.files();
    let dry = carry.clone().arg("--dry-run").run().ok().unchanged();
    assert_eq!(site.files(), before);
    let changes = dry.texts("plan", "change");
    assert!(changes[0].starts_with("previous file: "), "{changes:?}");
    let wanted = ["set database.pool.size to \"32\"", "set session.secret to \"<redacted>\"", "remove session.lifetime_minutes"];
    assert_eq!(changes[1..], wanted);
    let real = carry.run().ok().changed();
    assert_eq!(dry.result(), real.result());
    let previous = site.path("inst dir/config/svc/svc.yaml.before-20261120t020003z-test");
    let real = real.has(&json!({"previous": previous, "base/path": site.path("base.yaml")}));
    let sum = os::run(Command::new("sha256sum").arg(site.yaml())).unwrap();
    assert!(sum.contains(real.result()["sha256"].as_str().unwrap()));
    assert_eq!(text(&previous), SHIPPED);
}

#[test]
fn block_of_text_without_a_final_line_end_gets_none() {
    let site = Site::new();
    // The value of `b` ends with no line end, which a key behind it would give it.
    for sign in ["|", "|+", ">"] {
        let new = format!("b: {sign}\n  v");
        let ran = site.carry("yaml", format!("c: 1\n{new}"), Some(&new), &new).run().review("not_restored").unchanged();
        assert_eq!((outcomes(&ran), text(site.yaml())), (vec!["c: not_carried: not_writable".to_owned()], new.clone()));
        let ran = site.carry("yaml", format!("c: 1\n{new}"), Some("b: x\nc: 1\n"), "b: x\nc: 1\n").run();
        assert_eq!(outcomes(&ran.review("not_restored").unchanged()), ["b: not_carried: not_writable"]);
        site.carry("yaml", &new, Some("b: x\nc: 1\n"), "b: x\nc: 1\n").run().ok();
        assert_eq!(text(site.yaml()), new);
        site.carry("yaml", format!("a: 2\n{new}"), Some(&format!("a: 1\n{new}")), format!("a: 1\n{new}")).run().ok();
        assert_eq!(text(site.yaml()), format!("a: 2\n{new}"));
        let ended = site.write("ended.yaml", format!("a: 2\n{new}\n"));
        site.tool("diff").arg(ended).args(["--expect", "same"]).run().review("content_differs");
    }
}

#[test]
fn carry_conflict_shows_saved_base_and_new_value() {
    let site = Site::new();
    let mine = SHIPPED.replace("size: 16", "size: 32").replace("  lifetime_minutes: 240\n", "");
    let new = SHIPPED.replace("size: 16", "size: 64").replace("240", "480");
    let ran = site.carry("yaml", mine, Some(SHIPPED), new).run().review("conflict").changed();
    let values = |at: usize| ["saved", "base", "new"].map(|of| ran.result()["keys"][at][of].clone());
    assert_eq!(values(0), ["32", "16", "64"]);
    assert_eq!(values(1), [Value::Null, "240".into(), "480".into()]);
}

#[test]
fn without_a_base_nothing_is_carried_but_what_is_named() {
    let site = Site::new();
    let mine = SHIPPED.replace("size: 16", "size: 32").replace("240", "100").replace("level: info", "level: debug");
    let carry = |args: &[&str], new: &str| site.carry("yaml", &mine, None, new).args(args.iter().copied()).run();
    let ran = carry(&[], SHIPPED).review("not_restored").unchanged();
    let all = ["database.pool.size", "session.lifetime_minutes", "log.level"];
    assert_eq!(outcomes(&ran), all.map(|key| format!("{key}: not_carried: no_base")));
    assert_eq!(text(site.yaml()), SHIPPED);

    let ran = carry(&["--key", "database", "--key", "log.level"], SHIPPED).ok().changed().warns("not_restored");
    let wanted = [
        "database.pool.size: carried",
        "database.pool.idle_timeout_ms: same",
        "database.url: same",
        "session.lifetime_minutes: not_carried: not_named",
        "log.level: carried",
    ];
    assert_eq!(outcomes(&ran), wanted);
    assert_eq!(text(site.yaml()), SHIPPED.replace("size: 16", "size: 32").replace("level: info", "level: debug"));
    carry(&["--all"], SHIPPED).ok().changed();
    assert_eq!(text(site.yaml()), mine);
    // One that the new version has no more is written where it is named.
    carry(&["--key", "session.lifetime_minutes"], &SHIPPED.replace("  lifetime_minutes: 240\n", "")).ok().changed();
    assert!(text(site.yaml()).contains("  lifetime_minutes: 100\n"));
    carry(&["--key", "databse"], SHIPPED).fails(4, "options_invalid").unchanged();
    for wrong in [["--all", "--base", "base.yaml"].as_slice(), &["--key", "a", "--base", "base.yaml"]] {
        assert_eq!(carry(wrong, SHIPPED).status, 2, "{wrong:?}");
    }
}

#[test]
fn carry_to_symlink_is_refused_with_hint_of_its_target() {
    let site = Site::new();
    let carry = site.carry("yaml", SHIPPED.replace("16", "32"), Some(SHIPPED), SHIPPED);
    let real = site.path("real.yaml");
    fs::rename(site.yaml(), &real).unwrap();
    symlink(&real, site.yaml()).unwrap();
    let hint = format!("--layout yaml --config '{}'", real.display());
    carry.clone().run().refused("file_invalid").error_has(&[&hint]);
    carry.arg("--config").arg(&real).run().ok().changed();
    assert!(site.yaml().is_symlink());
    assert_eq!(text(&real), SHIPPED.replace("16", "32"));
}

#[test]
fn carry_keeps_owner_mode_and_acl() {
    let user = os::system_user("svc-confsave-a").unwrap();
    for own_group in [false, true] {
        let site = Site::new();
        let call = site.carry("yaml", SHIPPED.replace("16", "32"), Some(SHIPPED), SHIPPED);
        chown(site.yaml(), Some(user.uid.as_raw()), Some(user.gid.as_raw())).unwrap();
        os::chmod(site.yaml(), 0o640);
        if own_group {
            rights::plant(&site.yaml()).unwrap();
        }
        // What is made in this folder from now on belongs to its group, and one more user may read it.
        rights::plant_in_folder(site.yaml().parent().unwrap()).unwrap();
        let before = rights::of(&site.yaml());
        let previous = call.run().ok().changed().result()["previous"].as_str().map(PathBuf::from).unwrap();
        assert_eq!(text(site.yaml()), SHIPPED.replace("16", "32"));
        assert_eq!((rights::of(&site.yaml()), rights::of(&previous)), (before.clone(), before));
    }
}

#[test]
fn carry_that_cannot_keep_owner_is_refused() {
    let site = Site::new();
    let user = os::system_user("svc-confsave-a").unwrap();
    let call = site.carry("yaml", SHIPPED.replace("16", "32"), Some(SHIPPED), SHIPPED);
    os::run(Command::new("chmod").args(["-R", "a+rwX"]).arg(site.dir.path())).unwrap();
    os::run(Command::new("chown").arg(user.uid.to_string()).args([site.path("saved.yaml"), site.path("base.yaml")])).unwrap();
    let files = site.files();
    // Whoever may write the folder, but is not root, cannot give the file to root.
    call.as_user(&user.name).run().refused("permission_denied").unchanged();
    assert_eq!(site.files(), files);
}
