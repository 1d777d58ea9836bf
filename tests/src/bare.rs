//! A host without a service: scripts and tools whose settings all lead into one folder.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::os;
use crate::tool::{Tool, root};

pub struct Bare(TempDir);

impl Default for Bare {
    fn default() -> Self {
        Self(tempfile::tempdir().expect("there is disk space for a folder"))
    }
}

impl Bare {
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn tool(&self, name: &str, args: &[&str]) -> Tool {
        self.with(Tool::new(name).args(args.iter().copied()))
    }

    fn with(&self, tool: Tool) -> Tool {
        let tool = tool.env("SVC_ENVIRONMENT_FILE", "/dev/null").env("SVC_STATE_DIR", self.path("state"));
        tool.env("SVC_BACKUP_DIR", self.path("backups")).env("SVC_INSTALL_DIR", self.0.path()).env("SVC_UNINSTALL", "true")
    }

    /// Which version is installed, as far as anybody asks.
    pub fn has_version(&self, version: &str) {
        fs::write(self.path("current-version"), format!("{version}\n")).expect("the marker can be written");
    }

    pub fn own_script(&self, does: &str) -> Tool {
        self.has_version("1.15.5");
        let (script, lib) = (self.path("own scripts/mine"), root().join("scripts/lib/script.sh"));
        let text = format!("#!/bin/bash\n. '{}'\nin_run --kind mine --resumable\n{does}", lib.display());
        os::write_program(&script, text).expect("a script can be written");
        self.with(Tool::program(script))
    }

    /// A run as a call has left it.
    pub fn run_left(&self, id: &str, files: &[(&str, Value)]) -> PathBuf {
        let run = self.path("state/runs").join(id);
        fs::create_dir_all(&run).expect("a run has a folder");
        files.iter().for_each(|(name, value)| left(&run, name, value));
        run
    }
}

/// A file of a run as `svc-run` writes it: of its plan and its notes, `value` says what is not as usual.
pub fn left(run: &Path, name: &str, value: &Value) {
    let usual = match name {
        "plan.json" => {
            json!({"script": "svc-upgrade", "program": "", "parent": null, "started_at": "", "directory": "/", "user": "root",
                "tools": "", "arguments": [], "settings": {}})
        }
        "notes.json" => json!({"facts": {}, "warnings": [], "review": false, "commit": null, "undo": []}),
        _ => json!({}),
    };
    let text = match (usual, value) {
        (Value::Object(usual), Value::Object(differs)) => Value::from_iter(usual.into_iter().chain(differs.clone())).to_string(),
        _ => value.as_str().map_or(value.to_string(), str::to_owned),
    };
    fs::write(run.join(name), text).expect("a file of a run can be written");
}

/// The document of a step that has ended well and changed something.
pub fn document(schema: &str, result: &Value) -> Value {
    json!({"schema": schema, "tool": "mine 1", "step": "make", "ok": true, "changed": true, "dry_run": false,
        "run_id": "20260101t000000z-x", "host": "h", "started_at": "2026-01-01T00:00:00Z", "finished_at": "2026-01-01T00:00:00Z",
        "duration_ms": 1, "result": result, "warnings": [], "error": null})
}

/// The document of a step that has failed with that code, and changed nothing.
pub fn failed(schema: &str, code: &str) -> Value {
    let mut document = document(schema, &json!({}));
    (document["ok"], document["changed"]) = (json!(false), json!(false));
    document["error"] = json!({"code": code, "message": "It is odd.", "hint": "Look.", "retryable": false, "causes": []});
    document
}

/// What the notes of a run have to undo.
pub fn undo(name: &str, command: &[&str]) -> Value {
    let undo = json!({"name": name, "command": command, "directory": "/", "until": null, "always": false,
        "unless_interrupted": false});
    json!({"undo": [undo]})
}
