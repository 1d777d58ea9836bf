//! What a run does where it fails before its point of no return: registered before the step that it belongs to, and run in reverse order,
//! by the run itself or by the next call of any script.

use std::ffi::OsString;

use svc_step::document::Document;
use svc_step::journal::Undo;

use super::protocol::{Options, Step};
use super::run::Run;

/// The command of an undo as it is typed, without private arguments.
pub fn typed(run: &Run, undo: &Undo) -> String {
    super::again::quoted(&run.shown(&undo.command.iter().map(OsString::from).collect::<Vec<_>>()))
}

/// Runs what is registered, the last first, and gives the ones that failed. `failed`: the run did not end well.
pub fn run_all(run: &Run, environment: &[(OsString, OsString)], failed: bool) -> Vec<Undo> {
    let mut left = Vec::new();
    let list = run.undo_list();
    for undo in list.into_iter().rev() {
        let needed = (failed || undo.always)
            && undo.until.as_ref().is_none_or(|step| !run.journal().is_done(step))
            && !(undo.unless_interrupted && run.signal().is_some());
        if !needed {
            continue;
        }
        let step = Step {
            name: undo.name.clone(),
            command: undo.command.iter().map(OsString::from).collect(),
            directory: undo.directory.clone(),
            environment: environment.to_vec(),
            options: Options { again: true, ok: Some(4), ..Options::default() },
        };
        match super::step::perform(run, &step) {
            Ok(_) => run.forget_undo(&undo.name),
            Err(failure) => {
                run.log(&format!("the undo {} failed: {}", undo.name, failure.message));
                left.push(undo);
            }
        }
    }
    left
}

/// What an undo that is a whole run (a rollback) has restored, for the last hint.
pub fn rolled_back(run: &Run) -> Option<Result<String, Option<String>>> {
    let document: Document<serde_json::Value> = run.journal().attempt("rollback")?.document?;
    Some(if document.ok {
        Ok(document.result?.get("version")?.as_str()?.to_owned())
    } else {
        Err(document.error.and_then(|error| error.hint))
    })
}
