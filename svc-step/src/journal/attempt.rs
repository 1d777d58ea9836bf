//! An attempt of a step, by its files `NN-<step>[.<attempt>].…`.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use serde_json::Value;

use super::document_in;
use crate::document::Document;
use crate::file;

/// What a step was started as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It only reads.
    Check,
    /// It has an effect.
    Step,
    /// A command without a document of its own: an installer, an uninstaller, a hook.
    External,
}

/// One attempt of a step.
#[derive(Debug, Clone)]
pub struct Attempt {
    /// Its number in the run: all attempts of a step share it.
    pub number: u32,
    /// The step's name.
    pub step: String,
    /// Which attempt it is, from 1.
    pub attempt: u32,
    /// What it was started as.
    pub kind: Kind,
    /// When it was started, in milliseconds since 1970.
    pub begun_ms: u64,
    /// The path of its files, without their endings.
    pub files: PathBuf,
    /// The exit status of an external command that has ended.
    pub exit_status: Option<i32>,
    /// Its document; none if it has not ended, or its outcome is unknown.
    pub document: Option<Document<Value>>,
}

/// `NN-step` and `json` are `NN-step.json`: a step has no dots, an attempt has.
pub fn with_ending(files: &Path, ending: &str) -> PathBuf {
    file::beside(files, &format!(".{ending}"))
}

/// Number, step and attempt of `NN-<step>[.<attempt>].started`.
pub(super) fn parts(path: &Path) -> Option<(u32, String, u32)> {
    let (number, rest) = path.file_name()?.to_str()?.strip_suffix(".started")?.split_once('-')?;
    let (step, attempt) = rest.split_once('.').map_or((rest, Some(1)), |(step, attempt)| (step, attempt.parse().ok()));
    Some((number.parse().ok()?, step.to_owned(), attempt?))
}

impl Attempt {
    /// The attempt whose `.started` that is.
    pub(super) fn of(started: &Path) -> Option<Self> {
        let (number, step, attempt) = parts(started)?;
        let files = started.with_extension("");
        let file = |ending: &str| with_ending(&files, ending);
        let kind = match fs::read_to_string(started).unwrap_or_default().trim() {
            "check" => Kind::Check,
            "external" => Kind::External,
            // An empty file: the step was started, and its kind is unknown.
            _ => Kind::Step,
        };
        let begun = fs::metadata(started).and_then(|data| data.modified()).ok()?.duration_since(UNIX_EPOCH).ok()?;
        Some(Self {
            number,
            step,
            attempt,
            kind,
            begun_ms: u64::try_from(begun.as_millis()).ok()?,
            exit_status: fs::read_to_string(file("rc")).ok().and_then(|text| text.trim().parse().ok()),
            // A tool that has outlived its run has left it under its first name.
            document: document_in(&file("json")).or_else(|| document_in(&file("json.partial"))),
            files,
        })
    }

    /// Whether the command of an external step has begun, and may have had an effect.
    pub fn command_has_begun(&self) -> bool {
        with_ending(&self.files, "out").exists() || self.exit_status.is_some() || self.document.is_some()
    }

    /// Where its document is, or will be.
    pub fn document_path(&self) -> PathBuf {
        let (path, partial) = (with_ending(&self.files, "json"), with_ending(&self.files, "json.partial"));
        if path.exists() || !partial.exists() { path } else { partial }
    }

    /// Whether it has ended well; of an external command whose document was lost, its exit status says it.
    pub fn is_ok(&self) -> bool {
        let status = (self.kind == Kind::External).then_some(self.exit_status).flatten();
        self.document.as_ref().map_or(status == Some(0), |document| document.ok)
    }
}
