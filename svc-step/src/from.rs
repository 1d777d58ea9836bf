//! `--from`: a step resumes from the document of another.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};

use crate::call::Call;
use crate::document::{ErrorPart, Warning};
use crate::failure::Failure;
use crate::file;
use crate::status::Status;
use crate::work::{Lost, Work};

/// A document larger than this is none of ours.
const LARGEST: u64 = 256 * 1024 * 1024;
/// How often signals and the time limit are checked while the input does not end.
const POLL: Duration = Duration::from_millis(50);

/// For steps that continue from another's document.
#[derive(Debug, Clone, Default, Args)]
pub struct FromArg {
    /// Continue from this document: a file, or - for standard input
    #[arg(long, value_name = "FILE")]
    pub from: Option<PathBuf>,
}

/// For steps that must find themselves on the server that the document speaks of.
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct OtherServer {
    /// Continue even if the document is of another server (a rebuilt one, for example)
    #[arg(long)]
    pub other_server: bool,
}

impl OtherServer {
    /// Refuses a document that speaks of another server. `spoken_of` and `found` identify them, `found` with the words
    /// that people know it by; `setting` names what leads to the right one.
    ///
    /// # Errors
    /// They differ, and `--other-server` was not passed (3).
    pub fn check(self, spoken_of: &str, found: &str, server: &str, setting: &str) -> Result<(), Failure> {
        if self.other_server || spoken_of == found {
            return Ok(());
        }
        Err(Failure::refused("other_server", format!("The document is of the server {spoken_of}, and {server} is {found}."))
            .hint(format!("Check {setting}; pass --other-server if another server is meant (a rebuilt one, for example).")))
    }
}

/// Which documents may be resumed from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accept {
    /// Only one that is `ok`.
    Successful,
    /// Also one that failed, if it says what had been done by then (`swap`, `discard`, `wait`).
    Unfinished,
}

/// Why what came in is not taken.
#[derive(Debug)]
pub(crate) enum Rejected {
    /// It is empty, cut short, or no document.
    Damaged(Failure),
    /// It is another's, a dry run's or a failed step's, or the call was ended while it was read.
    Other(Failure),
}

impl Rejected {
    pub(crate) fn failure(self) -> Failure {
        let (Self::Damaged(failure) | Self::Other(failure)) = self;
        failure
    }
}

impl From<Failure> for Rejected {
    fn from(failure: Failure) -> Self {
        Self::Other(failure)
    }
}

/// A document that came in and was accepted.
#[derive(Debug, Clone)]
pub struct Received {
    envelope: Envelope,
    /// Its result is read from it when it is known as what: a tree of a result of thousands of parts would be many times its
    /// size.
    text: String,
    origin: Option<PathBuf>,
}

/// What a reader wants to know of a document before its result.
#[derive(Debug, Clone, Deserialize)]
struct Envelope {
    schema: String,
    step: String,
    run_id: String,
    ok: bool,
    dry_run: bool,
    result: Option<IgnoredAny>,
    warnings: Vec<Warning>,
    error: Option<ErrorPart>,
}

/// A document as a reader of its result sees it.
#[derive(Debug, Deserialize)]
struct WithResult<T> {
    result: T,
}

impl Received {
    /// Reads to the end of the input and wants exactly one document, whose schema is one of `schemas`.
    ///
    /// # Errors
    /// Always status 2, before anything was locked, connected or changed: the input is empty, cut short, holds two
    /// documents, a dry run, a document of another tool or step, or one that failed (then with its own error repeated).
    /// Only a signal or the end of the time limit, while the input does not end, are what they are elsewhere.
    pub fn read(call: &Call, from: &Path, schemas: &[&str], accept: Accept) -> Result<Self, Failure> {
        Self::read_record(call, from, schemas, accept).map_err(Rejected::failure)
    }

    /// The same of a record; an error tells whether it is damaged.
    pub(crate) fn read_record(call: &Call, from: &Path, schemas: &[&str], accept: Accept) -> Result<Self, Rejected> {
        let (text, origin) = input(call, from)?;
        Self::parse(text, origin, schemas, accept)
    }

    fn parse(text: String, origin: Option<PathBuf>, schemas: &[&str], accept: Accept) -> Result<Self, Rejected> {
        let envelope = one_document(&text)?;
        if !schemas.contains(&envelope.schema.as_str()) {
            let message = format!("The --from document is `{}`, which this step cannot resume from.", envelope.schema);
            let hint = format!("Pass the document of one of: {}.", schemas.join(", "));
            return Err(bad("from_invalid", message).hint(hint).into());
        }
        if envelope.dry_run {
            return Err(bad("from_invalid", "The --from document is of a dry run, in which nothing was done.")
                .hint("Run that step without --dry-run, and pass its document.")
                .into());
        }
        if envelope.result.is_none() || (!envelope.ok && accept == Accept::Successful) {
            return Err(repeat(envelope).into());
        }
        Ok(Self { envelope, text, origin })
    }

    /// Whether the call that made it was successful. A record of a swap never says so.
    pub const fn is_ok(&self) -> bool {
        self.envelope.ok
    }

    /// The refusal of a document that failed (2), for a step that takes such documents of other steps; it repeats its error.
    pub fn refusal(&self) -> Failure {
        repeat(self.envelope.clone())
    }

    /// `<tool>.<step>/<major>`.
    pub fn schema(&self) -> &str {
        &self.envelope.schema
    }

    /// The step that made it.
    pub fn step(&self) -> &str {
        &self.envelope.step
    }

    /// The run that it belongs to.
    pub fn run_id(&self) -> &str {
        &self.envelope.run_id
    }

    /// Whether it holds a warning of that code.
    pub fn has_warning(&self, code: &str) -> bool {
        self.envelope.warnings.iter().any(|warning| warning.code == code)
    }

    /// Its result; keys that the reader does not know are passed over.
    ///
    /// # Errors
    /// The result lacks what its schema promises (2).
    pub fn result<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        serde_json::from_str::<WithResult<T>>(&self.text).map(|document| document.result).map_err(|error| {
            bad("from_invalid", format!("The --from document says {} but its result is not of that shape.", self.schema()))
                .hint("Pass the document as the tool printed it.")
                .cause(error.to_string())
        })
    }

    /// A file that the document names: the one beside the `--from` file, since whoever has copied or moved both means that one,
    /// or else the one of that path; so too if only that one fits the document.
    pub fn locate(&self, named: &Path, fits: impl Fn(&Path) -> bool) -> PathBuf {
        let beside = self.origin.as_deref().zip(named.file_name()).map(|(origin, name)| file::folder_of(origin).join(name));
        beside.filter(|beside| fits(beside) || (beside.exists() && !fits(named))).unwrap_or_else(|| named.to_owned())
    }
}

fn input(call: &Call, from: &Path) -> Result<(String, Option<PathBuf>), Rejected> {
    let fault = |error: std::io::Error| {
        bad("from_invalid", format!("The --from document {} cannot be read.", from.display()))
            .hint("Name the file that holds the document, or - for standard input.")
            .cause(error.to_string())
    };
    let origin = (from != Path::new("-")).then(|| from.to_owned());
    // In a thread of its own: whoever feeds a pipe may take hours, and a signal must not wait for him.
    let file = origin.clone();
    let reading = Work::begin(move || {
        let mut bytes = Vec::new();
        let read = match file {
            None => std::io::stdin().lock().take(LARGEST).read_to_end(&mut bytes),
            Some(file) => File::open(file).and_then(|file| file.take(LARGEST).read_to_end(&mut bytes)),
        };
        read.map(|_| bytes)
    });
    let bytes = loop {
        match reading.ended(POLL) {
            Ok(Some(read)) => break read.map_err(fault)?,
            Ok(None) => call.check()?,
            Err(Lost) => return Err(unreadable("its reader ended")),
        }
    };
    String::from_utf8(bytes).map(|text| (text, origin)).map_err(|_| unreadable("it is not UTF-8 text"))
}

fn one_document(text: &str) -> Result<Envelope, Rejected> {
    if !text.trim_start().is_empty() && !text.trim_start().starts_with('{') {
        return Err(unreadable("it is not a JSON object"));
    }
    let mut documents = serde_json::Deserializer::from_str(text).into_iter::<Envelope>();
    let first = match documents.next() {
        None => {
            let message = "The --from document is empty: the previous step printed nothing.";
            return Err(Rejected::Damaged(bad("from_invalid", message).hint(READ_STEP_BEFORE)));
        }
        Some(first) => first.map_err(|error| unreadable(&error.to_string()))?,
    };
    match documents.next() {
        None => Ok(first),
        Some(Ok(_)) => {
            Err(bad("from_invalid", "The --from input holds more than one document.").hint("Pass exactly one.").into())
        }
        Some(Err(error)) => Err(unreadable(&error.to_string())),
    }
}

const READ_STEP_BEFORE: &str = "Read what the previous step printed on stderr, and run it again.";

fn bad(code: &str, message: impl Into<String>) -> Failure {
    Failure::usage(code, message)
}

fn unreadable(why: &str) -> Rejected {
    let failure = bad("from_invalid", "The --from document is incomplete or not a JSON document.");
    Rejected::Damaged(failure.hint(READ_STEP_BEFORE).cause(why))
}

/// The refusal of a document that failed repeats what it said.
fn repeat(Envelope { step, error, .. }: Envelope) -> Failure {
    let Some(error) = error else {
        return bad("from_invalid", format!("The previous step, {step}, did not end well.")).hint(READ_STEP_BEFORE);
    };
    let message = format!("The previous step, {step}, had failed: {}", error.message);
    ErrorPart { message, retryable: false, ..error }.into_failure(Status::Usage)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUCCESSFUL: &str =
        r#"{"schema":"a.b/1","step":"b","run_id":"r","ok":true,"dry_run":false,"result":{"n":1},"warnings":[],"error":null}"#;

    #[test]
    fn file_next_to_document_wins_over_recorded_path() {
        let folder = || tempfile::tempdir().unwrap();
        let (first, copy) = (folder(), folder());
        let (named, beside) = (first.path().join("dump.sql"), copy.path().join("dump.sql"));
        let origin = Some(copy.path().join("pgdump.json"));
        let received = Received::parse(SUCCESSFUL.to_owned(), origin, &["a.b/1"], Accept::Successful).unwrap();
        std::fs::write(&named, "first").unwrap();
        assert_eq!(received.locate(&named, Path::exists), named);
        std::fs::write(&beside, "another").unwrap();
        assert_eq!(received.locate(&named, Path::exists), beside);
        let is_first = |path: &Path| std::fs::read(path).is_ok_and(|text| text == b"first");
        assert_eq!(received.locate(&named, is_first), named);
        assert_eq!(received.locate(&named, |_| false), beside);
        std::fs::remove_file(&named).unwrap();
        assert_eq!(received.locate(&named, is_first), beside);
    }
}
