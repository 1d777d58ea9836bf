//! The files of a run as `svc-run` writes them, for tests that leave a run by hand.

use serde_json::{Value, json};

/// A `plan.json` that is as usual as far as nothing else is given.
pub fn plan(differs: &Value) -> Value {
    let usual = json!({"script": "svc-upgrade", "program": "", "parent": null, "started_at": "", "directory": "/", "user": "root",
        "tools": "", "arguments": [], "settings": {}});
    merged(usual, differs)
}

/// A `notes.json`, likewise.
pub fn notes(differs: &Value) -> Value {
    merged(json!({"facts": {}, "warnings": [], "review": false, "commit": null, "undo": []}), differs)
}

fn merged(mut usual: Value, differs: &Value) -> Value {
    for (key, value) in differs.as_object().unwrap() {
        usual[key] = value.clone();
    }
    usual
}
