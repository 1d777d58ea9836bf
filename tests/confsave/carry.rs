//! `carry`: what the operator changed, onto the new file and nothing else.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;
use svc_tests::{os, rights};

use crate::site::{SECRET, SHIPPED, Site, assert_outcomes, mode, outcomes, text};

#[test]
fn customised_values_are_carried_and_the_new_files_comments_order_and_quoting_stay() {
    let site = Site::new();
    let mine = SHIPPED
        .replace("size: 16", "size: 32")
        .replace("\"fr\"  # not whole yet", "de")
        .replace("change-me", "mine")
        .replace("level: info", "level: debug")
        .replace("# The pool", "# a comment of mine\n  extra: 'yes'");
    // The vendor changed a default, a comment, and added a key.
    let new =
        SHIPPED.replace("240", "480").replace("# short", "# in short").replace("    size", "    # new\n    kind: fast\n    size");
    let ran = site.carry("yaml", &mine, Some(SHIPPED), &new).run().ok().changed();
    assert_outcomes(
        &ran,
        &[
            ("service.languages", "carried"),
            ("database.extra", "carried"),
            ("database.pool.size", "carried"),
            ("session.secret", "carried"),
            ("log.level", "carried"),
        ],
    );
    let wanted = new
        .replace("size: 16", "size: 32")
        .replace("\"fr\"  # not whole yet", "de")
        .replace("change-me", "mine")
        .replace("level: info", "level: debug")
        .replace("svc_db\n", "svc_db\n  extra: 'yes'\n");
    assert_eq!(text(site.yaml()), wanted);
    let before = site.path("inst dir/config/svc/svc.yaml.before-20261120t020003z-test");
    assert_eq!(ran.result()["previous"], before.to_str().unwrap());
    assert_eq!(text(&before), new);
    let sum = os::run(Command::new("sha256sum").arg(site.yaml())).unwrap();
    assert!(sum.contains(ran.result()["sha256"].as_str().unwrap()));

    // A second one finds all of it done.
    let again = site.tool("carry").arg(site.path("saved.yaml")).arg("--base").arg(site.path("base.yaml")).run().ok().unchanged();
    assert!(outcomes(&again).iter().all(|(_, outcome)| outcome == "same"));
    assert_eq!(again.result()["plan"], serde_json::json!([]));
    assert_eq!(text(&before), new);
}

#[test]
fn what_both_changed_is_a_conflict_that_the_operator_wins_and_a_person_must_look_at() {
    let site = Site::new();
    let mine = SHIPPED.replace("size: 16", "size: 32").replace("  lifetime_minutes: 240\n", "");
    let new = SHIPPED.replace("size: 16", "size: 64").replace("240", "480");
    let ran = site.carry("yaml", mine, Some(SHIPPED), &new).run().review("conflict").changed();
    assert_outcomes(&ran, &[("database.pool.size", "conflict"), ("session.lifetime_minutes", "conflict")]);
    let key = &ran.result()["keys"][0];
    assert_eq!((&key["saved"], &key["base"], &key["new"]), (&"32".into(), &"16".into(), &"64".into()));
    assert_eq!(ran.result()["keys"][1]["saved"], Value::Null);
    assert_eq!(text(site.yaml()), new.replace("size: 64", "size: 32").replace("  lifetime_minutes: 480\n", ""));
}

#[test]
fn a_key_that_the_new_version_does_not_have_is_not_carried_and_not_forgotten() {
    let site = Site::new();
    let mine = SHIPPED.replace("size: 16", "size: 32").replace("240", "100");
    let new = SHIPPED.replace("  lifetime_minutes: 240\n", "");
    let ran = site.carry("yaml", &mine, Some(SHIPPED), &new).run().review("not_restored").changed();
    assert_outcomes(&ran, &[("database.pool.size", "carried"), ("session.lifetime_minutes", "not_carried: gone_in_new")]);
    assert_eq!(text(site.yaml()), new.replace("size: 16", "size: 32"));
    // Whoever wants it all the same names it.
    let ran = site.tool("carry").arg(site.path("saved.yaml")).args(["--key", "session.lifetime_minutes"]).run().ok().changed();
    assert_outcomes(&ran, &[("session.lifetime_minutes", "carried")]);
    assert!(text(site.yaml()).contains("  lifetime_minutes: 100\n"));
}

#[test]
fn with_the_same_release_as_base_all_customisations_come_back_after_a_reinstallation() {
    let site = Site::new();
    let mine = SHIPPED.replace("size: 16", "size: 32").replace("log: {level: info, keep_days: 30} # short\n", "more: [1]\n");
    let ran = site.carry("yaml", &mine, Some(SHIPPED), SHIPPED).run().ok().changed();
    assert_outcomes(
        &ran,
        &[("database.pool.size", "carried"), ("more", "carried"), ("log.level", "carried"), ("log.keep_days", "carried")],
    );
    assert_eq!(ran.result()["base"]["path"], site.path("base.yaml").to_str().unwrap());
    assert_eq!(site.tool("diff").arg(site.path("saved.yaml")).run().ok().result()["same"], true);
    assert!(text(site.yaml()).starts_with("# Configuration of the service."));
}

#[test]
fn without_a_base_nothing_is_carried_but_what_is_named() {
    let site = Site::new();
    let mine = SHIPPED.replace("size: 16", "size: 32").replace("240", "100").replace("level: info", "level: debug");
    let carry = |args: &[&str]| site.carry("yaml", &mine, None, SHIPPED).args(args.iter().copied()).run();
    let ran = carry(&[]).review("not_restored").unchanged();
    assert_eq!(outcomes(&ran).len(), 3);
    assert_eq!(outcomes(&ran)[0], ("database.pool.size".into(), "not_carried: no_base".into()));
    assert_eq!(text(site.yaml()), SHIPPED);

    let ran = carry(&["--key", "database", "--key", "log.level"]).ok().changed().warns("not_restored");
    assert_outcomes(
        &ran,
        &[
            ("database.pool.size", "carried"),
            ("database.pool.idle_timeout_ms", "same"),
            ("database.url", "same"),
            ("session.lifetime_minutes", "not_carried: not_named"),
            ("log.level", "carried"),
        ],
    );
    assert_eq!(text(site.yaml()), SHIPPED.replace("size: 16", "size: 32").replace("level: info", "level: debug"));
    carry(&["--all"]).ok().changed();
    assert_eq!(text(site.yaml()), mine);
    carry(&["--key", "databse"]).fails(4, "options_invalid").unchanged();
    assert_eq!(carry(&["--all", "--base", "base.yaml"]).status, 2);
    assert_eq!(carry(&["--key", "a", "--base", "base.yaml"]).status, 2);
}

#[test]
fn line_ends_byte_order_mark_and_empty_files_are_borne() {
    let site = Site::new();
    let crlf = format!("\u{feff}{}", SHIPPED.replace('\n', "\r\n"));
    site.carry("yaml", SHIPPED.replace("size: 16", "size: 32"), Some(SHIPPED), &crlf).run().ok().changed();
    assert_eq!(text(site.yaml()), crlf.replace("size: 16", "size: 32"));
    site.carry("yaml", "a:\n  b: [1,\n    2]\nc: |\n  x\n", Some("a: 0\n"), "a: 0\r\n").run().ok();
    assert_eq!(text(site.yaml()).matches('\n').count(), text(site.yaml()).matches("\r\n").count());

    for empty in ["", "# only a comment\n"] {
        let ran = site.carry("yaml", "a:\n  b: 1\nc: 2\n", Some(""), empty).run().ok().changed();
        assert_outcomes(&ran, &[("a.b", "carried"), ("c", "carried")]);
        assert!(text(site.yaml()).starts_with(empty));
        let ran = site.carry("yaml", "", Some(""), empty).run().ok().unchanged();
        assert_outcomes(&ran, &[]);
    }
    fs::remove_file(site.yaml()).unwrap();
    let ran = site.carry("conf", "a = 1\r\n[s]\r\nb = 2\r\n", None, "").arg("--all").run().ok().changed();
    assert_outcomes(&ran, &[("a", "carried"), ("s.b", "carried")]);
    assert_eq!(text(site.conf()), "a = 1\n\n[s]\nb = 2\n");
}

#[test]
fn a_key_that_cannot_be_written_by_itself_alone_is_left_and_the_others_are_carried() {
    let site = Site::new();
    // Another key says the same by an alias: to set the one would set both.
    let new = "a: &x 1\nb: *x\nc: 1\n";
    let ran = site.carry("yaml", "a: 2\nb: 1\nc: 2\n", Some("a: 1\nb: 1\nc: 1\n"), new).run().review("not_restored").changed();
    assert_outcomes(&ran, &[("a", "not_carried: not_writable"), ("c", "carried")]);
    assert_eq!(text(site.yaml()), "a: &x 1\nb: *x\nc: 2\n");
}

#[test]
fn owner_and_mode_of_the_new_file_stay_and_a_link_is_not_replaced() {
    let site = Site::new();
    let user = os::system_user("svc-confsave-a").unwrap();
    let call = site.carry("yaml", SHIPPED.replace("16", "32"), Some(SHIPPED), SHIPPED);
    chown(site.yaml(), Some(user.uid.as_raw()), Some(user.gid.as_raw())).unwrap();
    fs::set_permissions(site.yaml(), fs::Permissions::from_mode(0o640)).unwrap();
    call.run().ok().changed();
    let meta = fs::metadata(site.yaml()).unwrap();
    assert_eq!((meta.uid(), meta.gid(), mode(&site.yaml())), (user.uid.as_raw(), user.gid.as_raw(), 0o640));

    let real = site.write("real.yaml", SHIPPED);
    fs::remove_file(site.yaml()).unwrap();
    symlink(&real, site.yaml()).unwrap();
    let carry = || site.tool("carry").arg(site.path("saved.yaml")).arg("--base").arg(site.path("base.yaml"));
    let ran = carry().run().refused("file_invalid");
    let hint = ran.doc()["error"]["hint"].as_str().unwrap();
    assert!(hint.ends_with(&format!("--layout yaml --config '{}'", real.display())), "{hint}");
    carry().arg("--config").arg(&real).run().ok().changed();
    assert!(fs::symlink_metadata(site.yaml()).unwrap().is_symlink());
    assert_eq!(text(&real), SHIPPED.replace("16", "32"));
}

#[test]
fn whoever_could_not_read_the_file_before_cannot_read_it_after_a_carry() {
    let folder_rights = [false, true].map(|own_group| {
        let site = Site::new();
        let call = site.carry("yaml", SHIPPED.replace("16", "32"), Some(SHIPPED), SHIPPED);
        fs::set_permissions(site.yaml(), fs::Permissions::from_mode(0o640)).unwrap();
        if own_group {
            rights::plant(&site.yaml()).unwrap();
        }
        // What is made in this folder from now on belongs to its group, and one more user may read it.
        rights::plant_in_folder(site.yaml().parent().unwrap()).unwrap();
        let before = rights::of(&site.yaml());
        let kept = call.run().ok().changed().result()["previous"].as_str().map(PathBuf::from).unwrap();
        assert_eq!(text(site.yaml()), SHIPPED.replace("16", "32"));
        assert_eq!(rights::of(&site.yaml()), before);
        assert_eq!(rights::of(&kept), before, "the file before is as it was");
        before
    });
    assert_ne!(folder_rights[0], folder_rights[1]);
}

#[test]
fn a_carry_that_cannot_keep_the_rights_of_the_file_is_refused_and_changes_nothing() {
    let site = Site::new();
    let user = os::system_user("svc-confsave-a").unwrap();
    let call = site.carry("yaml", SHIPPED.replace("16", "32"), Some(SHIPPED), SHIPPED);
    os::run(Command::new("chmod").args(["-R", "a+rwX"]).arg(site.dir.path())).unwrap();
    os::run(Command::new("chown").arg(format!("{}", user.uid)).arg(site.path("saved.yaml")).arg(site.path("base.yaml"))).unwrap();
    let files = site.files();
    // Whoever may write the folder, but is not root, cannot give the file to root.
    call.as_user(&user.name).run().refused("permission_denied").unchanged();
    assert_eq!(site.files(), files);
}

#[test]
fn a_dry_run_of_a_carry_says_exactly_what_the_real_one_does_and_changes_nothing() {
    let site = Site::new();
    let mine = SHIPPED.replace("size: 16", "size: 32").replace("  lifetime_minutes: 240\n", "").replace("change-me", SECRET);
    let carry = || site.tool("carry").arg(site.path("saved.yaml")).arg("--base").arg(site.path("base.yaml"));
    drop(site.carry("yaml", mine, Some(SHIPPED), SHIPPED));
    let before = site.files();
    let dry = carry().arg("--dry-run").run().ok().unchanged();
    assert_eq!(site.files(), before);
    let changes: Vec<&str> =
        dry.result()["plan"].as_array().unwrap().iter().map(|action| action["change"].as_str().unwrap()).collect();
    assert!(changes[0].starts_with("previous file: "), "{changes:?}");
    let wanted = ["set database.pool.size to \"32\"", "set session.secret to \"<redacted>\"", "remove session.lifetime_minutes"];
    assert_eq!(changes[1..], wanted);
    let real = carry().run().ok().changed();
    assert_eq!(dry.result(), real.result());
}
