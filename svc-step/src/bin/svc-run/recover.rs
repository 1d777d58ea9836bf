//! What a run that was killed has left is undone by the next call of any script, in the killed run's directory.

use std::ffi::OsString;
use std::path::Path;

use jiff::Timestamp;
use svc_step::document::{Document, ErrorPart};
use svc_step::journal::{self, Journal, Notes, Undo};
use svc_step::{Failure, settings, steps};

use super::end::{as_before, own_steps};
use super::report::{self, Outcome, RunResult};
use super::run::{Caller, Run, write_json};
use super::{command_line, external, undo};

/// What was undone of earlier runs.
#[derive(Debug, Default)]
pub struct Recovered {
    /// The IDs of the runs.
    pub undone: Vec<String>,
    /// Whether an undo has changed anything, also of a run that has something left.
    pub changed: bool,
    /// The commands of what could not be undone; the next call tries it again.
    pub left: Vec<String>,
    /// The last documents of the killed runs that are done with, for the hooks: of a run and one that it has called, the first one's.
    pub documents: Vec<Document<RunResult>>,
}

impl Recovered {
    /// Tells it in the notes of a run.
    pub fn tell(&self, notes: &mut Notes) {
        for run in self.undone.iter().filter(|_| self.changed) {
            notes.warn("run_recovered", format!("The unfinished run {run} was undone first."), false);
        }
        if let Some(message) = self.left_by_hand() {
            notes.warn("run_unfinished", message, true);
        }
    }

    /// What is to be typed if something is left.
    pub fn left_by_hand(&self) -> Option<String> {
        (!self.left.is_empty()).then(|| undo::by_hand(&self.left))
    }
}

/// Undoes what killed runs have left, and what others could not undo, the newest first. The caller holds the service's lock.
pub fn all(state_dir: &Path, caller: &Caller, verbose: bool, recovered: &mut Recovered) -> Result<(), Failure> {
    for journal in journal::runs(state_dir) {
        external::remove_unredacted(&journal);
        let needed = journal.left_to_undo();
        if !needed.is_empty() || is_killed(&journal) {
            let id = journal.id().to_owned();
            let (left, document) = one(journal.clone(), &needed, state_dir, caller, verbose)?;
            recovered
                .documents
                .retain(|other| Journal::at(journal.dir().with_file_name(&other.run_id)).plan().parent.as_ref() != Some(&id));
            recovered.documents.extend(document);
            let changed = |undo: &Undo| {
                let document = journal.attempt(&undo.name).and_then(|one| one.document);
                document.is_none_or(|document| document.ok && document.changed != Some(false))
            };
            recovered.changed |= needed.iter().any(changed);
            if left.is_empty() && !needed.is_empty() {
                recovered.undone.push(id);
            }
            recovered.left.extend(left);
        }
    }
    Ok(())
}

/// Whether nobody has told yet that a run was killed which is not to be resumed. What another run has called, that one tells of.
fn is_killed(journal: &Journal) -> bool {
    let is_resumed = || journal.notes().commit.is_some() || journal.has_begun(steps::FIRST_HOP);
    journal.last_document().is_none() && journal.is_readable() && journal.plan().parent.is_none() && !is_resumed()
}

/// What [`all`] would run, for a dry run.
pub fn plan(run: &Run) {
    let ended = journal::runs(&run.state_dir).into_iter().filter(|other| !other.is_running());
    for undo in ended.flat_map(|other| super::status::pending(&other)) {
        run.state().plan.push(undo.command);
    }
}

/// The commands of what could not be undone; the last document of a killed run that has nothing left to undo.
fn one(
    journal: Journal,
    needed: &[Undo],
    state_dir: &Path,
    caller: &Caller,
    verbose: bool,
) -> Result<(Vec<String>, Option<Document<RunResult>>), Failure> {
    let plan = journal.plan();
    let (nothing_left, superseded, script) = (needed.is_empty(), journal.is_superseded(), journal.script());
    let (was_killed, was_ok) = (journal.last_document().is_none(), journal.is_ok());
    let mut run = Run::new(script, journal, state_dir.to_owned(), caller.clone());
    run.verbose = verbose;
    if !nothing_left {
        run.say(&format!("what the run {} has left is undone", run.id));
    }
    run.adopt_undos(|undo| undo.always || !superseded);
    // Its script has ended: no signal ends an undo.
    run.close(false);
    let failed = run.committed().is_none() && !was_ok;
    let with = |settings: Vec<(String, String)>| {
        let settings = settings.into_iter().chain([("SVC_RUN_ID".to_owned(), run.id.clone())]);
        let settings = settings.map(|(name, value)| (OsString::from(name), OsString::from(value)));
        std::env::vars_os().chain(settings).collect::<undo::Environment>()
    };
    let now = settings::service_settings();
    // Where it was, even if the settings have changed since.
    let recorded = with(now.iter().cloned().chain(super::resume::recorded(&plan)).collect());
    let left = undo::run_all(&run, &recorded, Some(&with(now)), failed, true);
    // After its point of no return it is still to be resumed; and what is left is tried again.
    if !was_killed || !failed || !left.is_empty() {
        return Ok((left.iter().map(|undo| undo::command_line(&run, undo)).collect(), None));
    }
    let message = match nothing_left {
        true => "The run has left no last document: it was killed, or its disk was full.",
        false => "The run was killed, and a later call has undone what it had done.",
    };
    let outcome = Outcome {
        script: run.script.clone(),
        run_id: run.id.clone(),
        status: 1,
        started: Timestamp::now(),
        failure: Some(Failure::failed("interrupted", message)),
        undone: if nothing_left { Vec::new() } else { own_steps(&run) },
        ..Outcome::default()
    };
    let mut document = report::document(Some(run.journal()), &run.state().notes.clone(), &outcome);
    let hint = as_before(&document).into_iter().chain([command_line::hint(&plan)]).collect::<Vec<_>>().join("\n");
    document.error = document.error.map(|error| ErrorPart { hint: Some(hint), ..error });
    write_json(&run.journal().document_path(), &document).map_err(|failure| run.journal_full(&failure))?;
    Ok((Vec::new(), Some(document)))
}
