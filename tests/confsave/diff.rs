//! `diff`: by key and not by line, and which copy is compared.

use std::fs;

use crate::site::{SHIPPED, Site, assert_outcomes, paths, text};

#[test]
fn a_diff_goes_by_key_and_not_by_line() {
    let site = Site::new();
    fs::write(site.yaml(), SHIPPED.replace("size: 16", "size: 32").replace("  lifetime_minutes: 240\n", "")).unwrap();
    let saved =
        site.write("saved.yaml", SHIPPED.replace("    - en\n", "    - en\n    - de\n").replace("240", "240\n  cluster.name: x"));
    let ran = site.tool("diff").arg(&saved).run().ok().unchanged();
    let result = ran.result();
    assert_eq!(result["same"], false);
    assert_eq!(paths(&result["changed"]), ["service.languages", "database.pool.size"]);
    assert_eq!(result["changed"][1]["key"], serde_json::json!(["database", "pool", "size"]));
    assert_eq!((&result["changed"][1]["saved"], &result["changed"][1]["new"]), (&"16".into(), &"32".into()));
    assert_eq!(result["changed"][0]["saved"], serde_json::json!(["en", "de", "fr"]));
    assert_eq!(paths(&result["only_saved"]), ["session.lifetime_minutes", "session.\"cluster.name\""]);
    assert_eq!(paths(&result["only_new"]), Vec::<&str>::new());
    assert!(result["text_diff"].is_null());
}

#[test]
fn formatting_order_and_comments_are_no_difference() {
    let site = Site::new();
    fs::write(site.yaml(), "b: {c: 1, d: \"y z\"} # note\n\n\na: x\n").unwrap();
    let saved = site.write("saved.yaml", "a: 'x'\r\nb:\r\n    d: y z\r\n    c: 1\r\n");
    assert_eq!(site.tool("diff").arg(&saved).run().ok().result()["same"], true);
    fs::write(site.yaml(), "b: 010\n").unwrap();
    fs::write(&saved, "b: 8\n").unwrap();
    assert_eq!(site.tool("diff").arg(&saved).run().ok().result()["same"], false);
    // Parsers disagree about these words, so they are not the strings of the same letters.
    for word in ["no", "010", "1_000", "~", "", "2026-11-20", ".inf", "-1", "On"] {
        fs::write(site.yaml(), format!("a: {word}\nb: info\n")).unwrap();
        fs::write(&saved, format!("a: '{word}'\nb: 'info'\n")).unwrap();
        let ran = site.tool("diff").arg(&saved).run().ok();
        assert_eq!(paths(&ran.result()["changed"]), ["a"], "{word}");
    }
}

#[test]
fn a_saves_document_leads_diff_and_carry_to_its_copy_also_when_both_have_moved() {
    let site = Site::new();
    let custom = SHIPPED.replace("size: 16", "size: 32");
    fs::write(site.yaml(), &custom).unwrap();
    let save = site.tool("save").arg("--to").arg(site.path("svc.yaml")).run().ok();
    fs::write(site.yaml(), SHIPPED).unwrap();
    let piped = site.tool("diff").args(["--from", "-"]).stdin(save.text()).run().ok();
    assert_eq!(paths(&piped.result()["changed"]), ["database.pool.size"]);

    fs::create_dir(site.path("moved")).unwrap();
    fs::rename(site.path("svc.yaml"), site.path("moved/svc.yaml")).unwrap();
    let document = site.write("moved/confsave.json", save.text());
    site.tool("diff").args(["--from", "-"]).stdin(save.text()).run().fails(4, "file_not_found");
    let from = |step: &str| site.tool(step).arg("--from").arg(&document);
    assert_eq!(paths(&from("diff").run().ok().result()["changed"]), ["database.pool.size"]);

    fs::write(site.path("moved/svc.yaml"), format!("{custom}x: 1\n")).unwrap();
    from("diff").run().fails(7, "content_differs").unchanged();
    let carry = || from("carry").arg("--base").arg(site.write("base.yaml", SHIPPED)).run();
    carry().fails(7, "content_differs").unchanged();
    fs::write(site.path("moved/svc.yaml"), &custom).unwrap();
    assert_outcomes(&carry().ok().changed(), &[("database.pool.size", "carried")]);
    assert_eq!(text(site.yaml()), custom);
}

#[test]
fn a_configuration_that_was_changed_since_is_for_a_person_to_look_at_where_it_was_expected_to_be_the_same() {
    let site = Site::new();
    // No YAML that could be compared by key: the same bytes are the same all the same.
    fs::write(site.yaml(), "a: [\n").unwrap();
    let saved = site.write("saved.yaml", "a: [\n");
    let diff = || site.tool("diff").arg(&saved).args(["--expect", "same"]);
    assert_eq!(diff().run().ok().unchanged().result()["same"], true);
    fs::write(site.yaml(), "a: 1\n").unwrap();
    diff().run().fails(7, "file_invalid").unchanged();
    fs::write(&saved, "a: 1 # as it was\n").unwrap();
    diff().run().ok();
    fs::write(&saved, "a: 2\n").unwrap();
    assert_eq!(diff().run().review("content_differs").unchanged().result()["same"], false);
}
