//! Both layouts: which one is meant, the older one line by line, and across them.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::site::{SHIPPED, SHIPPED_CONF, Site, assert_outcomes, mode, paths, text};

#[test]
fn both_layouts_are_refused_until_one_is_named_and_neither_is_not_found() {
    let site = Site::new();
    let save = || site.tool("save").arg("--to").arg(site.dir.path());
    save().run().fails(4, "file_not_found").unchanged();
    fs::write(site.yaml(), SHIPPED).unwrap();
    fs::write(site.conf(), SHIPPED_CONF).unwrap();
    save().run().refused("options_invalid");
    save().args(["--layout", "conf"]).run().ok();
    save().args(["--layout", "yaml"]).run().ok();
    assert_eq!(text(site.path("svc.conf")), SHIPPED_CONF);
    assert_eq!(text(site.path("svc.yaml")), SHIPPED);
    fs::remove_file(site.conf()).unwrap();
    save().args(["--layout", "conf"]).run().fails(4, "file_not_found");
}

#[test]
fn a_document_decides_between_two_layouts_that_an_uninstaller_left() {
    let site = Site::new();
    fs::write(site.conf(), SHIPPED_CONF.replace("db1", "db7")).unwrap();
    let save = site.tool("save").arg("--to").arg(site.path("svc.conf")).run().ok();
    fs::write(site.conf(), SHIPPED_CONF).unwrap();
    fs::write(site.yaml(), SHIPPED).unwrap();
    site.tool("diff").arg(site.path("svc.conf")).run().refused("options_invalid");
    let ran = site.tool("diff").args(["--from", "-"]).stdin(save.text()).run().ok();
    assert_eq!(paths(&ran.result()["changed"]), ["database.host"]);
    let base = site.write("base.conf", SHIPPED_CONF);
    let carry = || site.tool("carry").args(["--from", "-", "--base"]).arg(&base).stdin(save.text());
    carry().run().ok().changed();
    assert_eq!(text(site.conf()), SHIPPED_CONF.replace("db1", "db7"));
    assert_eq!(text(site.yaml()), SHIPPED);
    // Who asks for the other one gets it.
    carry().args(["--layout", "yaml"]).run().review("not_restored").unchanged();
    // So it does for a file whose name tells none.
    let odd = site.write("configuration", SHIPPED);
    let save = site.tool("save").args(["--layout", "yaml", "--config"]).arg(&odd).arg("--to").arg(site.path("odd")).run().ok();
    fs::write(&odd, SHIPPED.replace("16", "32")).unwrap();
    let ran = site.tool("diff").arg("--config").arg(&odd).args(["--from", "-"]).stdin(save.text()).run().ok();
    assert_eq!(paths(&ran.result()["changed"]), ["database.pool.size"]);
}

#[test]
fn the_older_layout_is_carried_line_by_line() {
    let site = Site::new();
    let mine =
        SHIPPED_CONF.replace("db1", "db7").replace("= change-me", "=mine").replace("level = info", "level = debug\nfile=/x y");
    let new =
        SHIPPED_CONF.replace("pool_size = 12", "pool_size = 24").replace("level = info", "level = info  \n# new\nformat: text");
    let ran = site.carry("conf", &mine, Some(SHIPPED_CONF), &new).run().ok().changed();
    assert_outcomes(
        &ran,
        &[("database.host", "carried"), ("session.secret", "carried"), ("log.level", "carried"), ("log.file", "carried")],
    );
    let wanted = new
        .replace("db1", "db7")
        .replace("change-me", "mine")
        .replace("level = info", "level = debug")
        .replace("format: text\n", "format: text\nfile=/x y\n");
    assert_eq!(text(site.conf()), wanted);
    assert_eq!(text(site.path("inst dir/conf/svc.conf.before-20261120t020003z-test")), new);
}

#[test]
fn a_conf_with_a_line_that_is_not_understood_is_put_back_as_a_whole_with_the_shipped_one_beside_it() {
    let site = Site::new();
    let shipped = format!("{SHIPPED_CONF}include more.d\n");
    let mine = shipped.replace("db1", "db7");
    let beside = site.path("inst dir/conf/svc.conf.svc-new");

    let ran = site.carry("conf", &mine, None, &shipped).run().review("not_restored").unchanged();
    assert_outcomes(&ran, &[("(the whole file)", "not_carried: not_recognised")]);
    assert_eq!(ran.result()["new"]["unknown_line"], 14);
    let diff = || site.tool("diff").arg(site.path("saved.conf"));
    let ran = diff().run().ok();
    assert_eq!(ran.result()["same"], false);
    // Nobody can tell where a secret ends there, so its lines are shown to those alone who ask for them.
    assert!(ran.result()["text_diff"].is_null());
    let diff = diff().arg("--show-secrets").run().ok();
    assert!(diff.result()["text_diff"].as_str().unwrap().contains("\n-host = db7\n+host = db1\n"));

    fs::set_permissions(site.conf(), fs::Permissions::from_mode(0o640)).unwrap();
    let base = site.write("base.conf", &shipped);
    let ran = site.tool("carry").arg(site.path("saved.conf")).arg("--base").arg(base).run().review("not_restored").changed();
    assert_outcomes(&ran, &[("(the whole file)", "carried")]);
    assert_eq!(ran.result()["previous"], beside.to_str().unwrap());
    assert_eq!((text(site.conf()), text(&beside)), (mine.clone(), shipped.clone()));
    assert_eq!((mode(&site.conf()), mode(&beside)), (0o640, 0o640));
    let again = site.tool("carry").arg(site.path("saved.conf")).arg("--all").run().ok().unchanged();
    assert_outcomes(&again, &[("(the whole file)", "same")]);

    // Both changed it: the operator's file wins as a whole, and it is a conflict.
    let theirs = shipped.replace("12", "24");
    let ran = site.carry("conf", &mine, Some(&shipped), &theirs).run().review("conflict").changed();
    assert_eq!(text(site.conf()), mine);
    assert_eq!(text(ran.result()["previous"].as_str().unwrap()), theirs);
    assert_eq!(text(&beside), shipped, "what was kept before is not lost");
    // Nobody customised it: the shipped one stays.
    let ran = site.carry("conf", &shipped, Some(&shipped), &theirs).run().ok().unchanged();
    assert_outcomes(&ran, &[]);
    assert_eq!(text(site.conf()), theirs);
}

#[test]
fn across_layouts_nothing_is_carried_and_what_differs_is_told_by_diff() {
    let site = Site::new();
    fs::write(site.yaml(), SHIPPED).unwrap();
    let conf =
        site.write("svc.conf", SHIPPED_CONF.replace("pool_size = 12", "pool_size = 99").replace("level = info", "level = debug"));
    let base = site.write("base.conf", SHIPPED_CONF);
    let before = site.files();
    let whole = [("(the whole file)", "not_carried: other_layout")];
    for options in [vec!["--base".into(), base], vec!["--all".into()]] {
        assert_outcomes(&site.tool("carry").arg(&conf).args(options).run().review("not_restored").unchanged(), &whole);
    }
    assert_eq!(site.files(), before);
    let diff = site.tool("diff").arg(&conf).run().ok();
    assert_eq!(diff.result()["same"], false);
    assert_eq!(paths(&diff.result()["changed"]), ["log.level"]);
    assert_eq!(paths(&diff.result()["only_saved"]), ["database.host", "database.pool_size"]);
    // The other way.
    fs::remove_file(site.yaml()).unwrap();
    fs::write(site.conf(), SHIPPED_CONF).unwrap();
    let yaml = site.write("svc.yaml", SHIPPED.replace("size: 16", "size: 99"));
    assert_outcomes(&site.tool("carry").arg(&yaml).arg("--all").run().review("not_restored").unchanged(), &whole);
}

#[test]
fn the_layout_of_a_copy_whose_name_says_none_is_what_the_flag_says() {
    let site = Site::new();
    fs::write(site.yaml(), SHIPPED.replace("240", "60")).unwrap();
    let copy = site.path("copy");
    site.tool("save").arg("--to").arg(&copy).run().ok();
    fs::write(site.yaml(), SHIPPED).unwrap();
    site.tool("carry").arg(&copy).args(["--all", "--layout", "yaml"]).run().ok().changed();
    assert_eq!(text(site.yaml()), SHIPPED.replace("240", "60"));
}

#[test]
fn a_key_named_like_a_section_is_carried_and_neither_takes_the_other_with_it() {
    let site = Site::new();
    let new = "log = plain\n[log]\nlevel = info\n";
    let ran = site.carry("conf", new.replace("plain", "mine"), Some(new), new).run().ok().changed();
    assert_outcomes(&ran, &[("log", "carried")]);
    assert_eq!(text(site.conf()), new.replace("plain", "mine"));
    site.carry("conf", "[log]\nlevel = debug\n", Some(new), new).run().ok().changed();
    assert_eq!(text(site.conf()), "[log]\nlevel = debug\n");
}

#[test]
fn a_line_of_any_other_form_is_named() {
    let site = Site::new();
    let saved = site.write("saved.conf", SHIPPED_CONF);
    for (odd, line) in [
        ("a = 1\ninclude other.conf\n", 2),
        ("{\"a\": 1}\n", 1),
        ("<a>\n", 1),
        ("a:\n  b: 1\n", 2),
        ("a = 1\n    more = 2\n", 2),
        ("a = 1 \\\n2\n", 1),
        ("[a\n", 1),
        ("some words: here\n", 1),
        ("a = 1\nb = 2\rc = 3\n", 2),
    ] {
        fs::write(site.conf(), odd).unwrap();
        let ran = site.tool("diff").arg(&saved).run().ok();
        assert_eq!(ran.result()["new"]["unknown_line"], line, "{odd:?}");
    }
}

#[test]
fn a_repeated_key_is_a_list_and_every_line_keeps_how_it_is_written() {
    let site = Site::new();
    let carry = |mine: &str, new: &str| {
        fs::write(site.conf(), new).unwrap();
        site.tool("carry").arg(site.write("saved.conf", mine)).arg("--all").run().ok().changed();
        text(site.conf())
    };
    assert_eq!(carry("a = 1\na = 2\na = 3\n", "# x\r\na: 7\r\nb: 8"), "# x\r\na: 1\r\na = 2\r\na = 3\r\nb: 8");
    assert_eq!(carry("a = 9", "a = 1\na = 2\na = 3\n"), "a = 9\n");
    let mine = "[a]\nkey=mine\nempty=now\nnew = 5\n[d]\nx: y\n";
    let new = "# head\ntop=1\n\n[a]\n  ; note\nkey = one two  \nurl: http://h:1/x\nempty =\n[b.c]\nkey = 2";
    let wanted =
        "# head\ntop=1\n\n[a]\n  ; note\nkey = mine  \nurl: http://h:1/x\nempty = now\nnew = 5\n[b.c]\nkey = 2\n\n[d]\nx: y\n";
    assert_eq!(carry(mine, new), wanted);
}
