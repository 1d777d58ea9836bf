use serde_json::json;

use super::*;

fn shown(result: &Value) -> String {
    let document = json!({"tool": "svc-x 1", "step": "list", "ok": true, "result": result, "warnings": [], "error": null});
    document_of(&document)
}

fn document_of(document: &Value) -> String {
    super::document(&document.to_string(), 0)
}

#[test]
fn nothing_that_a_terminal_obeys_is_left_in_a_cell() {
    for (text, left) in [
        ("a\u{1b}[31mred\u{1b}[0m", "ared"),
        ("a\u{1b}]0;title\u{7}b", "ab"),
        ("a\u{1b}]8;;http://x\u{1b}\\link", "alink"),
        ("a\u{9b}2Jb\u{7f}\u{8}\r", "ab"),
        ("a\u{90}q\u{9c}b", "ab"),
        ("a\nb\tc", "a b c"),
        ("a\u{1b}(0b\u{1b}cd\u{1b}", "abd"),
        ("gpj.\u{202e}exe", "gpj.exe"),
        ("größe 日本", "größe 日本"),
        ("a\u{1b}]never ended\nb", "a b"),
    ] {
        assert_eq!(clean(text), left, "{text:?}");
    }
    let evil = "x\u{1b}[2J\u{9b}5m\u{7}";
    let text = shown(&json!({"name": evil, "names": [evil], "rows": [{"id": evil, "of": [evil]}], "text": format!("a\n{evil}")}));
    assert!(!text.chars().any(|letter| letter.is_control() && letter != '\n'), "{text:?}");
}

#[test]
fn table_shows_values_in_readable_units() {
    let result = json!({"size_bytes": 1024, "duration_ms": 61_000, "same": true, "none": [], "before": {"a": 1}, "after": {"a": 1},
        "x_epoch_ms": 5, "missing": null});
    assert_eq!(
        shown(&result),
        "size      1.00 KiB\nduration  1 m 1 s\nsame      yes\nnone      none\nbefore a  1\nsvc-x list: ok\n"
    );
    assert_eq!(shown(&json!({"summary": "It is \u{1b}[1mold.", "age_ms": 5})), "It is old.\n");
    let failed = json!({"tool": "svc-x 1", "step": "show", "ok": false, "result": null, "warnings": [{"code": "c", "message": "W."}],
        "error": {"code": "gone"}});
    assert!(document_of(&failed).ends_with("svc-x show: failed: gone\n"));
    let now = Timestamp::now();
    for (seconds, said) in [(5, "5 s ago"), (-7230, "in 2 h"), (3600, "1 h ago"), (200_000, "2 d ago")] {
        let time = now - jiff::SignedDuration::from_secs(seconds);
        assert_eq!(ago(time), said);
    }
    assert_eq!(duration(0) + &duration(59_900) + &duration(7_260_000), "0 ms59.9 s2 h 1 m");
}

#[test]
fn wide_value_has_line_of_its_own() {
    let name = "n".repeat(70);
    let label = "a_rather_long_label";
    assert_eq!(
        shown(&json!({label: name, "b": 1})),
        format!("a rather long label\n  {name}\nb                    1\nsvc-x list: ok\n")
    );
}
