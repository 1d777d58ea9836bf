//! What a call came to: its exit status, what it printed, and its document, checked against its schema.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::{fmt, fs};

use jsonschema::Validator;
use serde_json::{Value, json};

use super::root;

#[derive(Debug, Clone)]
pub struct Ran {
    pub(super) program: PathBuf,
    pub(super) args: Vec<OsString>,
    /// The exit status; 128 and the signal's number for a tool that a signal ended.
    pub status: i32,
    pub stdout: String,
    pub stderr: String,
    /// The document; `None` for `--help`, `--version`, a wrong command line, and a tool that was killed.
    pub document: Option<Value>,
}

impl fmt::Display for Ran {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "{} {:?}\nstatus: {}", self.program.display(), self.args, self.status)?;
        match &self.document {
            // What went wrong first: of a long output a reader may see only the beginning.
            Some(document) => {
                writeln!(out, "error: {:#}\nwarnings: {:#}\ndocument: {document:#}", document["error"], document["warnings"])?;
            }
            None => writeln!(out, "stdout: {}", self.stdout)?,
        }
        write!(out, "stderr: {}", self.stderr)
    }
}

impl Ran {
    pub(super) fn checked(mut self, talks: bool) -> Self {
        if self.stdout.trim_start().starts_with('{') {
            let documents: Result<Vec<Value>, _> = serde_json::Deserializer::from_str(&self.stdout).into_iter().collect();
            let mut documents = documents.unwrap_or_else(|error| panic!("stdout is not JSON to its end: {error}\n{self}"));
            assert!(documents.len() == 1, "stdout has {} documents, not one\n{self}", documents.len());
            self.document = documents.pop();
            self.check_document();
        }
        assert!(talks || self.status != 0 || self.stderr.is_empty(), "it succeeded, and was not silent on stderr\n{self}");
        self
    }

    fn check_document(&self) {
        let document = self.doc();
        let validator = validator(&self.schema());
        let errors: Vec<String> =
            validator.iter_errors(document).map(|error| format!("{}: {error}", error.instance_path())).collect();
        assert!(errors.is_empty(), "its schema does not allow the document:\n{}\n{self}", errors.join("\n"));

        let good = matches!(self.status, 0 | 9);
        assert!(document["ok"] == good, "the exit status and `ok` disagree\n{self}");
        assert!(document["error"].is_null() == good, "the exit status and `error` disagree\n{self}");
        // A script ends with the status of the step that stopped it, whatever the steps before that have done.
        if self.status == 3 && !self.schema().ends_with(".run/1") {
            assert!(document["changed"] == false, "status 3 says that nothing was changed\n{self}");
        }
        if self.status == 9 {
            assert!(document["warnings"].as_array().is_some_and(|all| !all.is_empty()), "status 9 without a warning\n{self}");
        }
    }

    pub fn doc(&self) -> &Value {
        self.document.as_ref().unwrap_or_else(|| panic!("no document\n{self}"))
    }

    /// Such as `svc-snap.create/1`.
    fn schema(&self) -> String {
        self.doc()["schema"].as_str().unwrap_or_else(|| panic!("the document names no schema\n{self}")).to_owned()
    }

    pub fn result(&self) -> &Value {
        &self.doc()["result"]
    }

    fn list(&self, name: &str) -> &[Value] {
        self.result()[name].as_array().unwrap_or_else(|| panic!("no {name}\n{self}"))
    }

    pub fn steps(&self) -> Vec<&str> {
        self.list("steps").iter().filter_map(|step| step["step"].as_str()).collect()
    }

    #[track_caller]
    pub fn check(&self, name: &str) -> &Value {
        let found = self.list("preflight").iter().find(|check| check["check"] == name);
        found.unwrap_or_else(|| panic!("no check {name}\n{self}"))
    }

    pub fn failed_checks(&self) -> Vec<&str> {
        let failed = self.list("preflight").iter().filter(|check| check["verdict"] == "fail");
        failed.filter_map(|check| check["check"].as_str()).collect()
    }

    /// The ID of its run.
    pub fn id(&self) -> &str {
        self.doc()["run_id"].as_str().unwrap_or_else(|| panic!("no run\n{self}"))
    }

    pub fn run_dir(&self) -> PathBuf {
        PathBuf::from(self.result()["run_dir"].as_str().unwrap_or_else(|| panic!("no run directory\n{self}")))
    }

    /// The lines of a list of its result, such as `plan`.
    pub fn lines(&self, list: &str) -> Vec<&str> {
        self.list(list).iter().filter_map(Value::as_str).collect()
    }

    /// What helps, of a failed call.
    pub fn hint(&self) -> &str {
        self.doc()["error"]["hint"].as_str().unwrap_or_else(|| panic!("no hint\n{self}"))
    }

    /// A field of each member of a list of its result.
    pub fn texts(&self, list: &str, field: &str) -> Vec<String> {
        let all = self.result()[list].as_array().into_iter().flatten();
        all.map(|one| one[field].as_str().unwrap_or_default().to_owned()).collect()
    }

    /// How its indices stand, in the document of a step that stages, swaps or restores.
    pub fn states(&self) -> Vec<String> {
        self.texts("indices", "state")
    }

    pub fn planned(&self) -> Vec<String> {
        self.texts("plan", "path")
    }

    pub fn text(&self) -> String {
        self.stdout.clone()
    }

    #[track_caller]
    pub fn ok(self) -> Self {
        assert!(self.status == 0, "expected success\n{self}");
        self.doc();
        self
    }

    /// Asserts its exit status, and that all of that is on its stdout, or after a failure on its stderr: for a call that prints no
    /// document.
    #[track_caller]
    pub fn exits(self, status: i32, words: &[&str]) -> Self {
        assert!(self.status == status, "expected exit {status}\n{self}");
        let shown = if status == 0 { &self.stdout } else { &self.stderr };
        assert!(words.iter().all(|word| shown.contains(word)), "not all of {words:?} is shown\n{self}");
        self
    }

    /// Asserts parts of its result, each by its path, such as `database/state`.
    #[track_caller]
    pub fn has(self, parts: &Value) -> Self {
        for (path, value) in parts.as_object().expect("paths and values") {
            assert!(self.result().pointer(&format!("/{path}")) == Some(value), "expected {path}: {value}\n{self}");
        }
        self
    }

    /// Asserts that it is done and that a person must look (exit 9), with a warning of that code.
    #[track_caller]
    pub fn review(self, code: &str) -> Self {
        assert!(self.status == 9, "expected exit 9\n{self}");
        self.warns(code)
    }

    #[track_caller]
    pub fn warns(self, code: &str) -> Self {
        self.warns_of(code, "")
    }

    /// Asserts a warning of that code that has these words.
    #[track_caller]
    pub fn warns_of(self, code: &str, words: &str) -> Self {
        let warnings = self.doc()["warnings"].as_array().cloned().unwrap_or_default();
        let is_it =
            |warning: &Value| warning["code"] == code && warning["message"].as_str().is_some_and(|text| text.contains(words));
        assert!(warnings.iter().any(is_it), "expected the warning {code} with {words}\n{self}");
        self
    }

    /// Asserts that it failed with that status and that `error.code`, and says in sentences what is wrong and what helps, in the
    /// document and on stderr.
    #[track_caller]
    pub fn fails(self, status: i32, code: &str) -> Self {
        assert!(self.status == status, "expected exit {status}\n{self}");
        let error = &self.doc()["error"];
        assert!(error["code"] == code, "expected error.code {code}\n{self}");
        let message = error["message"].as_str().unwrap_or_default();
        assert!(message.ends_with('.') && message.contains(' '), "error.message is no sentence\n{self}");
        assert!(error["hint"].as_str().is_some_and(|hint| !hint.is_empty()), "error.hint says nothing\n{self}");
        assert!(self.stderr.contains(message), "stderr does not say what is wrong\n{self}");
        self
    }

    /// The same for a safety rule that said no (exit 3): nothing was changed.
    #[track_caller]
    pub fn refused(self, code: &str) -> Self {
        self.fails(3, code).unchanged()
    }

    #[track_caller]
    pub fn changed(self) -> Self {
        assert!(self.doc()["changed"] == true, "expected changed:true\n{self}");
        self
    }

    #[track_caller]
    pub fn unchanged(self) -> Self {
        assert!(self.doc()["changed"] == false, "expected changed:false\n{self}");
        self
    }

    /// Asserts that its error has all of that in its message, its hint or its causes.
    #[track_caller]
    pub fn error_has(self, parts: &[&str]) -> Self {
        let error = &self.doc()["error"];
        let words = format!("{} {} {}", error["message"], error["hint"], error["causes"]);
        parts.iter().for_each(|part| assert!(words.contains(part), "the error does not have {part}\n{self}"));
        self
    }

    /// Asserts that nothing that it said has any of these in it, such as a secret.
    #[track_caller]
    pub fn without(self, words: &[&str]) -> Self {
        let shows = |word: &&str| self.stdout.contains(*word) || self.stderr.contains(*word);
        assert!(!words.iter().any(shows), "one of {words:?} is shown\n{self}");
        self
    }
}

pub fn schema_file() -> PathBuf {
    root().join("schema/svc-tools.json")
}

/// What checks the documents of that schema name, made once for all tests of a program; that of every script's last document is
/// `svc-run.run`.
fn validator(name: &str) -> Arc<Validator> {
    static MADE: Mutex<BTreeMap<String, Arc<Validator>>> = Mutex::new(BTreeMap::new());
    let step = name.split_once('/').map_or(name, |(step, _major)| step);
    let step = if step.ends_with(".run") { "svc-run.run" } else { step };
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    let make = || {
        let text = fs::read_to_string(schema_file()).expect("the schema file can be read");
        let mut all: Value = serde_json::from_str(&text).expect("the schema file is JSON");
        assert!(all["$defs"][step].is_object(), "{} has no {step}", schema_file().display());
        let schema = json!({"$schema": all["$schema"].take(), "$ref": format!("#/$defs/{step}"), "$defs": all["$defs"].take()});
        Arc::new(jsonschema::validator_for(&schema).expect("the schema file is a JSON Schema"))
    };
    Arc::clone(made.entry(step.to_owned()).or_insert_with(make))
}
