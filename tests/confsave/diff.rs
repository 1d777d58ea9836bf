//! `diff`: by key and not by line, and which copy is compared.

use crate::site::*;

#[test]
fn diff_compares_keys_not_lines() {
    let site = Site::new();
    fs::write(site.yaml(), SHIPPED.replace("size: 16", "size: 32").replace("  lifetime_minutes: 240\n", "")).unwrap();
    let saved =
        site.write("saved.yaml", SHIPPED.replace("    - en\n", "    - en\n    - de\n").replace("240", "240\n  cluster.name: x"));
    let ran = site.tool("diff").arg(&saved).run().ok().unchanged();
    let languages =
        json!({"path": "service.languages", "key": ["service", "languages"], "saved": ["en", "de", "fr"], "new": ["en", "fr"]});
    let size = json!({"path": "database.pool.size", "key": ["database", "pool", "size"], "saved": "16", "new": "32"});
    let ran = ran.has(&json!({"same": false, "changed": [languages, size], "only_new": [], "text_diff": null}));
    assert_eq!(ran.texts("only_saved", "path"), ["session.lifetime_minutes", "session.\"cluster.name\""]);
}

#[test]
fn diff_ignores_formatting_but_not_scalar_type() {
    let site = Site::new();
    let differing = |saved: &str, new: &str| {
        fs::write(site.yaml(), new).unwrap();
        site.tool("diff").arg(site.write("saved.yaml", saved)).run().ok().texts("changed", "path").join(" ")
    };
    assert_eq!(differing("a: 'x'\r\nb:\r\n    d: y z\r\n    c: 1\r\n", "b: {c: 1, d: \"y z\"} # note\n\n\na: x\n"), "");
    assert_eq!(differing("b: 8\n", "b: 010\n"), "b");
    // Parsers disagree about these words.
    for word in ["no", "010", "1_000", "~", "", "2026-11-20", ".inf", "-1", "On"] {
        assert_eq!(differing(&format!("a: '{word}'\nb: 'info'\n"), &format!("a: {word}\nb: info\n")), "a", "{word}");
    }
}

#[test]
fn save_document_locates_its_copy_after_both_moved() {
    let site = Site::new();
    let custom = SHIPPED.replace("size: 16", "size: 32");
    let saved = site.saved(&custom);
    fs::write(site.yaml(), SHIPPED).unwrap();
    assert_eq!(site.from("diff", &*saved).run().ok().texts("changed", "path"), ["database.pool.size"]);

    fs::create_dir(site.path("moved")).unwrap();
    fs::rename(site.path("svc.yaml"), site.path("moved/svc.yaml")).unwrap();
    site.from("diff", &*saved).run().fails(4, "file_not_found");
    let document = site.write("moved/confsave.json", saved);
    let diff = || site.tool("diff").arg("--from").arg(&document).run();
    assert_eq!(diff().ok().texts("changed", "path"), ["database.pool.size"]);

    fs::write(site.path("moved/svc.yaml"), format!("{custom}x: 1\n")).unwrap();
    diff().fails(7, "content_differs").unchanged();
    let base = site.write("base.yaml", SHIPPED);
    let carry = || site.tool("carry").arg("--from").arg(&document).arg("--base").arg(&base).run();
    carry().fails(7, "content_differs").unchanged();
    fs::write(site.path("moved/svc.yaml"), &custom).unwrap();
    assert_eq!(outcomes(&carry().ok().changed()), ["database.pool.size: carried"]);
    assert_eq!(text(site.yaml()), custom);
}

#[test]
fn difference_under_expect_same_needs_review_and_loss_under_expect_kept_is_told() {
    let site = Site::new();
    let expect = |expected: &str, saved: &str, new: &str| {
        fs::write(site.yaml(), new).unwrap();
        site.tool("diff").arg(site.write("saved.yaml", saved)).args(["--expect", expected]).run()
    };
    let diff = |saved: &str, new: &str| expect("same", saved, new);
    // No YAML that could be compared by key: the same bytes are the same all the same.
    assert_eq!(diff("a: [\n", "a: [\n").ok().unchanged().result()["same"], true);
    diff("a: [\n", "a: 1\n").fails(7, "file_invalid").unchanged();
    diff("a: 1 # as it was\n", "a: 1\n").ok();
    assert_eq!(diff("a: 2\n", "a: 1\n").review("content_differs").unchanged().result()["same"], false);
    let told = expect("kept", "a: s3cret\nb: 1\nc: {d: 2}\n", "a: other\nb: 1\n").ok().warns("content_differs");
    let message = told.doc()["warnings"][0]["message"].as_str().unwrap();
    assert!(message.ends_with(": a, c.d.") && !message.contains("s3cret"), "{told}");
    assert_eq!(expect("kept", "a: 1\n", "b: 2\na: 1\n").ok().doc()["warnings"], json!([]));
}
