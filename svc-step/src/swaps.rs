//! The record of a staging, clone or swap, written before its first effect, so that `--run RUN` finishes or reverses it when its
//! document was lost.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use serde::Serialize;

use crate::call::Call;
use crate::document::Document;
use crate::failure::Failure;
use crate::file::{self, Existing};
use crate::from::{Accept, Received, Rejected};
use crate::lock::{self, make_private_folder};
use crate::reporter::shell_quoted;
use crate::run_id::RunId;
use crate::status::Status;

/// No record takes this long to write.
const ABANDONED: Duration = Duration::from_secs(60 * 60);

/// What a step finishes, reverses or clears away: the document of another call, or what is recorded of its run.
///
/// A document or record of a swap that is not finished is finished; the document of a finished one goes back.
#[derive(Debug, Clone, Args)]
#[group(id = "given", required = true, multiple = false, args = ["from", "of_run"])]
pub struct GivenArgs {
    /// Continue from this document: a file, or - for standard input
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
    /// Resume by what this host has recorded of that run, if its document was lost
    #[arg(id = "of_run", long = "run", value_name = "RUN")]
    run: Option<RunId>,
}

impl GivenArgs {
    /// The run that was named, if one was.
    pub const fn run(&self) -> Option<&RunId> {
        self.run.as_ref()
    }

    /// Reads the document or the record, before anything is locked, connected or changed. [`Received::run_id`] is the run
    /// that it is about, which names the previous data and where the record is, not the run of this call.
    ///
    /// # Errors
    /// The document is invalid (2), or nothing is recorded of that run (4).
    pub fn read(&self, call: &Call, schemas: &[&str]) -> Result<Received, Failure> {
        match (&self.from, &self.run) {
            (Some(from), _) => Received::read(call, from, schemas, Accept::Unfinished),
            (None, Some(run)) => read(call, run, schemas),
            (None, None) => Err(Failure::usage("from_invalid", "No document and no run to resume from is given.")
                .hint("Pass a document with --from FILE, or name its run with --run RUN.")),
        }
    }
}

/// Where the record of a tool's run is: `$SVC_STATE_DIR/swaps/<run>.<tool>.json`. The tool is part of the name,
/// since one run swaps both databases.
pub fn path(call: &Call, run: &RunId) -> PathBuf {
    path_of(call, call.tool(), run)
}

fn path_of(call: &Call, tool: &str, run: &RunId) -> PathBuf {
    call.state_dir().join("swaps").join(format!("{run}.{tool}.json"))
}

/// The tool whose schema this is.
fn tool_of(schema: &str) -> &str {
    schema.split('.').next().unwrap_or_default()
}

/// Writes the record, durably, as a document of `step` that is not finished.
///
/// # Errors
/// The state directory cannot be used (3), or the disk did not take it (1).
pub fn write<T: Serialize>(call: &Call, run: &RunId, step: &str, result: &T) -> Result<(), Failure> {
    let path = path(call, run);
    make_private_folder(file::folder_of(&path), lock::SETTING)?;
    remove_incomplete(file::folder_of(&path));
    let record = Document::new(call.tool(), step, run.as_str(), call.started_at());
    let record = Document { ok: false, changed: None, result: Some(result), ..record };
    let text = serde_json::to_string(&record)
        .map_err(|error| Failure::fault("The record cannot be written as JSON.").cause(error.to_string()))?;
    file::write_complete(&path, text.as_bytes(), 0o600, Existing::Replace)
}

/// Removes what calls have left that were killed while they wrote a record. A young one may be that of a running call.
fn remove_incomplete(folder: &Path) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let is_old =
            entry.metadata().and_then(|meta| meta.modified()).is_ok_and(|at| at.elapsed().is_ok_and(|age| age > ABANDONED));
        if is_old && entry.file_name().to_string_lossy().ends_with(".partial") {
            // It harms nobody where it is.
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// Reads the record of an earlier call, of the first tool among those of `schemas` that has one.
///
/// # Errors
/// There is none of that run (4), or it is empty or damaged (7): what that run did is not known then.
pub fn read(call: &Call, run: &RunId, schemas: &[&str]) -> Result<Received, Failure> {
    let mut paths = schemas.iter().map(|schema| path_of(call, tool_of(schema), run));
    let Some(path) = paths.find(|path| path.exists()) else {
        let records = call.state_dir().join("swaps").display().to_string();
        let hint = match Path::new(&records).is_dir() {
            true => format!("The runs that have a record:\n  ls {}", shell_quoted(&[records])),
            false => format!("No run has a record in {records}: set SVC_STATE_DIR as it was in that run."),
        };
        return Err(Failure::not_found("swap_not_found", format!("This host has recorded no swap of the run {run}.")).hint(hint));
    };
    Received::read_record(call, &path, schemas, Accept::Unfinished).map_err(|rejected| unknown(&path, rejected))
}

/// The same; `None` if there is none.
///
/// # Errors
/// It is empty or damaged (7).
pub fn find(call: &Call, run: &RunId, schemas: &[&str]) -> Result<Option<Received>, Failure> {
    match read(call, run, schemas) {
        Err(failure) if failure.status == Status::NotFound => Ok(None),
        found => found.map(Some),
    }
}

/// A record that is empty or damaged: a power cut, a full disk or a copy has lost what it said.
fn unknown(path: &Path, rejected: Rejected) -> Failure {
    let failure = match rejected {
        Rejected::Damaged(failure) => failure,
        Rejected::Other(failure) => return failure,
    };
    Failure::invalid(
        "file_invalid",
        format!("The record {} is incomplete, so it is unknown what that run has staged or swapped.", path.display()),
    )
    .hint(format!(
        "With the document of that run, continue from it (--from). Without it, list what there is, then remove the record:\n  svc-snap health\n  psql --list\n  rm {}",
        shell_quoted(&[path.display().to_string()])
    ))
    .cause(failure.message)
}

/// The records of this tool whose schema is one of `schemas`, of all runs, oldest run first. One that is incomplete is passed over with
/// a warning: it is no ground to act on.
pub fn all(call: &Call, schemas: &[&str]) -> Vec<Received> {
    let suffix = format!(".{}.json", call.tool());
    let entries = std::fs::read_dir(call.state_dir().join("swaps")).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.retain(|path| path.file_name().is_some_and(|name| name.to_string_lossy().ends_with(&suffix)));
    paths.sort();
    let read = |path: &PathBuf| {
        let failure = match Received::read_record(call, path, schemas, Accept::Unfinished) {
            Ok(received) => return Some(received),
            Err(rejected) => unknown(path, rejected),
        };
        if failure.code == "file_invalid" {
            call.warn(&failure.code, format!("{} {}", failure.message, failure.hint.unwrap_or_default()));
        }
        None
    };
    paths.iter().filter_map(read).collect()
}

/// Removes the record of a run that has left nothing; one that is not there is no failure.
///
/// # Errors
/// The state directory cannot be used (3), or the disk did not take it (1).
pub fn remove(call: &Call, run: &RunId) -> Result<(), Failure> {
    let path = path(call, run);
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(Failure::io("remove the record of a run", &path, &error)),
        Ok(()) => file::sync_folder_of(&path),
    }
}
