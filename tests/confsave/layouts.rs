//! Both layouts: which one is meant, across them, and a file of lines with one that is not understood.

use crate::site::*;

#[test]
fn two_layouts_are_refused_unless_one_is_named() {
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
fn save_document_decides_between_two_layouts() {
    let site = Site::new();
    fs::write(site.conf(), SHIPPED_CONF.replace("db1", "db7")).unwrap();
    let saved = site.tool("save").arg("--to").arg(site.path("svc.conf")).run().ok().text();
    fs::write(site.conf(), SHIPPED_CONF).unwrap();
    fs::write(site.yaml(), SHIPPED).unwrap();
    site.tool("diff").arg(site.path("svc.conf")).run().refused("options_invalid");
    assert_eq!(site.from("diff", &*saved).run().ok().texts("changed", "path"), ["database.host"]);
    let carry = || site.from("carry", &*saved).arg("--base").arg(site.write("base.conf", SHIPPED_CONF));
    carry().run().ok().changed();
    assert_eq!(text(site.conf()), SHIPPED_CONF.replace("db1", "db7"));
    assert_eq!(text(site.yaml()), SHIPPED);
    // Who asks for the other one gets it.
    carry().args(["--layout", "yaml"]).run().review("not_restored").unchanged();
}

#[test]
fn layout_comes_from_option_document_or_installation_if_name_has_none() {
    let site = Site::new();
    let odd = site.write("configuration", SHIPPED.replace("240", "60"));
    let save = site.tool("save").args(["--layout", "yaml", "--config"]).arg(&odd).arg("--to").arg(site.path("odd"));
    let saved = save.run().ok().text();
    fs::write(&odd, SHIPPED).unwrap();
    // A configuration outside of an installation is not that of the one that the settings name.
    assert_eq!(site.from("diff", &*saved).run().ok().texts("changed", "path"), ["session.lifetime_minutes"]);
    fs::write(site.yaml(), SHIPPED).unwrap();
    site.tool("carry").arg(site.path("odd")).args(["--all", "--layout", "yaml"]).run().ok().changed();
    assert_eq!(text(site.yaml()), SHIPPED.replace("240", "60"));
    fs::write(site.yaml(), SHIPPED).unwrap();
    site.tool("restore").arg(site.path("odd")).run().ok().changed();
    assert!(text(site.yaml()) == SHIPPED.replace("240", "60") && !site.conf().exists());
    fs::remove_file(site.yaml()).unwrap();
    assert!(site.tool("restore").arg(site.path("odd")).run().fails(4, "file_not_found").hint().contains("--layout yaml"));
    site.tool("restore").arg(site.path("odd")).arg("--config").arg(site.yaml()).run().ok().changed();
    assert_eq!(text(site.yaml()), SHIPPED.replace("240", "60"));
}

#[test]
fn conf_with_unrecognised_line_is_carried_as_whole() {
    let site = Site::new();
    let shipped = format!("{SHIPPED_CONF}include more.d\n");
    let mine = shipped.replace("db1", "db7");
    let ran = site.carry("conf", &mine, None, &shipped).run().review("not_restored").unchanged();
    assert_eq!(outcomes(&ran), ["(the whole file): not_carried: not_recognised"]);
    // Nobody can tell where a secret ends there, so its lines are shown to those alone who ask for them.
    let diff = site.tool("diff").arg(site.path("saved.conf"));
    let ran = diff.clone().args(["--expect", "kept"]).run().ok().warns_of("content_differs", "(the whole file)");
    assert!(ran.result()["same"] == false && ran.result()["text_diff"].is_null(), "{ran}");
    let shown = diff.arg("--show-secrets").run().ok();
    assert!(shown.result()["text_diff"].as_str().unwrap().contains("\n-host = db7\n+host = db1\n"));

    os::chmod(site.conf(), 0o640);
    let ran = site.carry("conf", &mine, Some(&shipped), &shipped).run().review("not_restored").changed();
    let beside = site.path("inst dir/conf/svc.conf.svc-new");
    assert_eq!(ran.result()["previous"], beside.to_str().unwrap());
    assert_eq!((text(site.conf()), text(&beside)), (mine.clone(), shipped.clone()));
    assert_eq!((mode(site.conf()), mode(&beside)), (0o640, 0o640));
    let again = site.tool("carry").arg(site.path("saved.conf")).arg("--all").run().ok().unchanged();
    assert_eq!(outcomes(&again), ["(the whole file): same"]);
    // What the next release shipped does not take the place of what is there already.
    let theirs = shipped.replace("12", "24");
    let ran = site.carry("conf", &mine, Some(&shipped), &theirs).run().review("conflict").changed();
    assert_eq!((text(ran.result()["previous"].as_str().unwrap()), text(&beside)), (theirs, shipped));
    // Of two sections of one name a key's path does not say which.
    let site = Site::new();
    let shipped = format!("{SHIPPED_CONF}[peer]\nkey = A\nips = X\n[peer]\nkey = B\nips = Y\n");
    let mine = shipped.replace("ips = X\n", "");
    site.carry("conf", &mine, Some(&shipped), &shipped).run().review("not_restored").changed();
    assert_eq!(text(site.conf()), mine);
}

#[test]
fn carry_to_other_layout_changes_nothing() {
    let site = Site::new();
    let conf =
        site.write("svc.conf", SHIPPED_CONF.replace("pool_size = 12", "pool_size = 99").replace("level = info", "level = debug"));
    let yaml = site.write("svc.yaml", SHIPPED.replace("size: 16", "size: 99"));
    let base = site.write("base.conf", SHIPPED_CONF);
    for (saved, place, new, options) in [
        (&yaml, site.conf(), SHIPPED_CONF, vec!["--all".into()]),
        (&conf, site.yaml(), SHIPPED, vec!["--all".into()]),
        (&conf, site.yaml(), SHIPPED, vec!["--base".into(), base]),
    ] {
        let _ = fs::remove_file(site.conf());
        fs::write(&place, new).unwrap();
        let ran = site.tool("carry").arg(saved).args(options).run().review("not_restored").unchanged();
        assert_eq!(outcomes(&ran), ["(the whole file): not_carried: other_layout"]);
        assert_eq!(text(place), new);
    }
    // Quotes, which the other layout does not have, are no difference.
    fs::write(site.yaml(), SHIPPED.replace("minutes: 240", "minutes: '240'")).unwrap();
    let diff = site.tool("diff").arg(&conf).run().ok().has(&json!({"same": false}));
    assert_eq!(diff.texts("changed", "path"), ["log.level"]);
    assert_eq!(diff.texts("only_saved", "path"), ["database.host", "database.pool_size"]);
}

#[test]
fn diff_gives_line_number_of_unknown_conf_line() {
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
        site.tool("diff").arg(&saved).run().ok().has(&json!({"new/unknown_line": line}));
    }
}
