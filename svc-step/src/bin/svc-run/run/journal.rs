//! The journal as the run writes it: each file is on the disk, and so is its name, before what follows from it begins.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use svc_step::Failure;
use svc_step::document::Time;
use svc_step::file::{self, Existing};
use svc_step::journal::{Kind, Notes, Undo, with_ending};

use super::{Run, State, disk_space_hint};
use crate::console;

impl Run {
    /// The path of a step's files without their endings: a step that an earlier call of the run has started keeps its number, and nothing
    /// of it is overwritten.
    pub fn name_files(&self, step: &str) -> PathBuf {
        let name = match self.journal.attempt(step) {
            Some(earlier) => format!("{:02}-{step}.{}", earlier.number, earlier.attempt + 1),
            None => {
                let mut state = self.state();
                let number = state.reserved.remove(step).unwrap_or_else(|| state.take_number());
                format!("{number:02}-{step}")
            }
        };
        self.dir().join(name)
    }

    /// Keeps the next number for a step, unless it has one.
    pub fn reserve(&self, step: &str) {
        if self.journal.attempt(step).is_none() {
            let mut state = self.state();
            let number = state.take_number();
            state.reserved.insert(step.to_owned(), number);
        }
    }

    /// Records that a step begins: one with an effect passes the point of no return, if the script has come to that; then it gives the
    /// undos that are dropped.
    ///
    /// # Errors
    /// The disk does not take it (1 `journal_full`): what cannot be recorded is not begun.
    pub fn note_started(&self, files: &Path, kind: Kind) -> Result<Option<Vec<Undo>>, Failure> {
        let text = match kind {
            Kind::Check => "check\n",
            Kind::Step => "step\n",
            Kind::External => "external\n",
        };
        let path = with_ending(files, "started");
        // A check is asked again, whatever became of it.
        if kind == Kind::Check || self.state().pending_commit.is_none() {
            return self.write(&path, text.as_bytes(), kind != Kind::Check).map(|()| None);
        }
        // The disk has taken it before the point of no return is passed.
        let partial = with_ending(files, "started.partial");
        let _ = fs::remove_file(&partial);
        self.write(&partial, text.as_bytes(), true)?;
        let undo = self.pass_commit().inspect_err(|_| drop(fs::remove_file(&partial)))?;
        let named = fs::rename(&partial, &path).map_err(|error| Failure::io("write the journal", &path, &error));
        let Err(failure) = named.and_then(|()| file::sync_folder_of(&path)) else { return Ok(Some(undo)) };
        let _ = fs::remove_file(&partial).or_else(|_| fs::remove_file(&path));
        self.withdraw_commit(undo);
        Err(self.journal_full(&failure))
    }

    /// Writes a file of the journal that is not there yet.
    pub fn write(&self, path: &Path, content: &[u8], synced: bool) -> Result<(), Failure> {
        let written = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).and_then(|mut file| {
            file.write_all(content)?;
            if synced && !self.dry_run { file.sync_all() } else { Ok(()) }
        });
        let synced = written
            .map_err(|error| Failure::io("write the journal", path, &error))
            .and_then(|()| if synced && !self.dry_run { file::sync_folder_of(path) } else { Ok(()) });
        synced.map_err(|failure| {
            let _ = fs::remove_file(path);
            self.journal_full(&failure)
        })
    }

    /// What is told if the journal's disk does not take any more, or something else keeps it from being written.
    pub fn journal_full(&self, failure: &Failure) -> Failure {
        let other = failure.hint.clone().filter(|_| failure.code != "out_of_space");
        Failure::failed(
            "journal_full",
            format!("The journal in {} cannot be written, so the next step was not begun.", self.dir().display()),
        )
        .hint(other.unwrap_or_else(|| disk_space_hint(&self.state_dir)))
        .cause(failure.message.clone())
    }

    /// Gives a document of a step that was written under `.partial` its name, and makes both durable.
    pub fn keep_document(&self, files: &Path) -> Result<(), Failure> {
        let (partial, path) = (with_ending(files, "json.partial"), with_ending(files, "json"));
        let fault = |error: std::io::Error| Failure::io("keep the document of the step", &path, &error);
        if !self.dry_run {
            File::open(&partial).and_then(|file| file.sync_all()).map_err(fault)?;
        }
        fs::rename(&partial, &path).map_err(fault)?;
        if self.dry_run { Ok(()) } else { file::sync_folder_of(&path) }
    }

    /// A line for the run's log alone.
    pub fn log(&self, text: &str) {
        append(&self.dir().join("log"), text);
    }

    /// A line of what happens, for the log, and for whoever watches.
    pub fn say(&self, text: &str) {
        self.log(text);
        if self.verbose {
            console::line(&self.script, text);
        }
    }

    /// Tells a person that a step begins.
    pub fn tell_begin(&self, files: &Path) {
        if self.verbose {
            console::line(&self.script, &console::begins(files, self.expected));
        }
    }

    /// Changes the notes, and keeps them where a resumed run finds them.
    pub fn note(&self, alter: impl FnOnce(&mut State)) -> Result<(), Failure> {
        let mut state = self.state();
        alter(&mut state);
        self.keep_notes(&state.notes, &state.undo)
    }

    pub(super) fn keep_notes(&self, notes: &Notes, undo: &[Undo]) -> Result<(), Failure> {
        if self.dry_run {
            return Ok(());
        }
        let mut notes = notes.clone();
        // What is not run after a kill need not be kept, and may hold what is written nowhere.
        notes.undo = undo.iter().filter(|undo| !undo.unless_interrupted).cloned().collect();
        write_json(&self.dir().join("notes.json"), &notes).map_err(|failure| self.journal_full(&failure))
    }

    /// A fact of the last document.
    pub fn fact(&self, key: &str, value: Value) -> Result<(), Failure> {
        self.note(|state| insert(&mut state.notes.facts, key, value))
    }

    /// A warning of the run's own; what was told before is not told twice.
    pub fn warn(&self, code: &str, message: String, review: bool) -> Result<(), Failure> {
        self.say(&format!("warning: {message}"));
        self.note(|state| state.notes.warn(code, message, review))
    }
}

/// Writes a file of the journal, or writes it again.
pub fn write_json(path: &Path, value: &impl Serialize) -> Result<(), Failure> {
    file::write_complete(path, &serde_json::to_vec(value).unwrap_or_default(), 0o600, Existing::Replace)
}

/// Appends a line to the log of a run.
pub fn append(path: &Path, text: &str) {
    let line = format!("{} {text}\n", Time::from(Timestamp::now()).as_str());
    let _ =
        OpenOptions::new().append(true).create(true).mode(0o600).open(path).and_then(|mut file| file.write_all(line.as_bytes()));
}

/// A dot in the key is a member of an object: `previous.run`.
fn insert(facts: &mut serde_json::Map<String, Value>, key: &str, value: Value) {
    match key.split_once('.') {
        Some((outer, inner)) => {
            let object = facts.entry(outer.to_owned()).or_insert_with(|| Value::Object(serde_json::Map::new()));
            if let Value::Object(members) = object {
                insert(members, inner, value);
            }
        }
        None => drop(facts.insert(key.to_owned(), value)),
    }
}
