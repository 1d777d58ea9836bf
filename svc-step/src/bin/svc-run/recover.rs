//! What a run that was killed has left is undone by the next call of any script, in the killed run's directory.

use std::ffi::OsString;
use std::path::Path;

use jiff::Timestamp;
use svc_step::Failure;
use svc_step::file::{self, Existing};
use svc_step::journal::{self, Journal};

use super::report::{self, Outcome};
use super::run::{Caller, Run};
use super::undo;

/// Undoes what killed runs have left, the newest first. The caller holds the service's lock. What cannot be undone is told, and is tried
/// again by the next call.
///
/// # Errors
/// A journal cannot be written (1).
pub fn all(state_dir: &Path, caller: &Caller, verbose: bool) -> Result<Vec<String>, Failure> {
    let mut done = Vec::new();
    for journal in journal::runs(state_dir) {
        // One that ended in order has no document of its newest call only where that was killed.
        if journal.last_document().is_none() && !journal.notes().undo.is_empty() {
            done.push(journal.id().to_owned());
            one(journal, state_dir, caller, verbose)?;
        }
    }
    Ok(done)
}

/// What [`all`] would run, for a dry run.
pub fn plan(run: &Run) {
    let killed = journal::runs(&run.state_dir).into_iter().filter(|other| other.last_document().is_none() && !other.is_running());
    for undo in killed.flat_map(|other| super::status::pending(&other)) {
        run.state().plan.push(undo.command);
    }
}

fn one(journal: Journal, state_dir: &Path, caller: &Caller, verbose: bool) -> Result<(), Failure> {
    let plan = journal.plan();
    let run = Run::new(plan.script.clone(), journal, state_dir.to_owned(), caller.clone(), false, verbose, false);
    run.say(&format!("the run {} was killed: what it has left is undone", run.id));
    run.adopt_undos();
    let failed = run.committed().is_none();
    let mut environment: Vec<(OsString, OsString)> = std::env::vars_os().collect();
    let known = |name: &str| std::env::var_os(name).is_some();
    environment.extend(plan.settings.iter().filter(|(name, _)| !known(name)).map(|(name, value)| (name.into(), value.into())));
    environment.push(("SVC_RUN_ID".into(), run.id.clone().into()));
    let left = undo::run_all(&run, &environment, failed);
    for undo in &left {
        super::console::line(
            &run.script,
            &format!("warning: {} of the run {} failed. Run it by hand:\n  {}", undo.name, run.id, undo::typed(&run, undo)),
        );
    }
    // After its point of no return it is still to be resumed; and what is left is tried again.
    if !failed || !left.is_empty() {
        return Ok(());
    }
    let undone = run.journal().attempts().iter().map(|one| one.step.clone()).collect();
    let outcome = Outcome {
        script: run.script.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        run_id: run.id.clone(),
        status: 1,
        started: Timestamp::now(),
        code: "interrupted".to_owned(),
        message: "The run was killed, and a later call has undone what it had done.".to_owned(),
        hint: Some(format!(
            "Nothing was changed.\nRun the same command again:\n  {}",
            super::again::command(&plan).map(|again| again.line).unwrap_or_default()
        )),
        undone,
        ..Outcome::default()
    };
    let document = report::document(Some(run.journal()), &run.state().notes.clone(), &outcome);
    let text = serde_json::to_vec(&document).unwrap_or_default();
    file::write_whole(&run.journal().document_path(), &text, 0o600, Existing::Replace)
        .map_err(|failure| run.journal_full(&failure))
}
