//! Hand-made run directories, for the tests of what reads them.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use svc_step::journal::{Journal, Notes};
use tempfile::TempDir;

/// A run in a state directory of its own.
pub struct Made {
    _folder: Option<TempDir>,
    state: PathBuf,
    dir: PathBuf,
}

impl Made {
    /// The run of a script in a new state directory.
    pub fn new(script: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().to_owned();
        Self { _folder: Some(folder), ..Self::within(&state, "20261120t020003z-first", script, None) }
    }

    /// A further run in the same state directory.
    pub fn another(&self, id: &str, script: &str, parent: Option<&str>) -> Self {
        Self::within(&self.state, id, script, parent)
    }

    fn within(state: &Path, id: &str, script: &str, parent: Option<&str>) -> Self {
        let made = Self { _folder: None, state: state.to_owned(), dir: state.join("runs").join(id) };
        fs::create_dir_all(&made.dir).unwrap();
        made.plan(&json!({"script": script, "parent": parent}));
        made
    }

    /// How the run was called, as far as it is not usual.
    pub fn plan(&self, differs: &Value) {
        let usual = json!({
            "script": "svc-upgrade", "program": "", "parent": null, "started_at": "2026-11-20T02:00:03Z",
            "directory": "/", "user": "root", "tools": "0.1.0", "arguments": ["/srv/svc-2.0.1.run"], "settings": {},
        });
        self.write("plan.json", &merged(usual, differs));
    }

    /// A step that was started, as `01-stop` or `01-stop.2`.
    pub fn started(&self, name: &str, kind: &str) {
        fs::write(self.dir.join(format!("{name}.started")), format!("{kind}\n")).unwrap();
    }

    /// A step that has ended, with a document that is as usual as far as nothing else is given.
    pub fn step(&self, name: &str, kind: &str, differs: &Value) {
        self.started(name, kind);
        self.write(&format!("{name}.json"), &document(differs));
    }

    /// The last document of the run.
    pub fn ended(&self, differs: &Value) {
        self.write("document.json", &document(differs));
    }

    /// The run's notes, as far as they are not usual.
    pub fn notes(&self, differs: &Value) {
        self.write("notes.json", &merged(json!(Notes::default()), differs));
    }

    fn write(&self, name: &str, value: &Value) {
        fs::write(self.dir.join(name), value.to_string()).unwrap();
    }

    pub fn journal(&self) -> Journal {
        Journal::at(&self.dir)
    }

    pub fn state(&self) -> &Path {
        &self.state
    }
}

/// A document that is as usual as far as nothing else is given.
pub fn document(differs: &Value) -> Value {
    let usual = json!({
        "schema": "svc-unit.stop/1", "tool": "svc-unit 0.1.0", "step": "stop", "ok": true, "changed": false, "dry_run": false,
        "run_id": "20261120t020003z-first", "host": "app1", "started_at": "2026-11-20T02:00:03Z",
        "finished_at": "2026-11-20T02:00:04Z", "duration_ms": 1000, "result": {}, "warnings": [], "error": null,
    });
    merged(usual, differs)
}

fn merged(usual: Value, differs: &Value) -> Value {
    let members = usual.as_object().unwrap().clone().into_iter().chain(differs.as_object().unwrap().clone());
    Value::Object(members.collect())
}
