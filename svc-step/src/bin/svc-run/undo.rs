//! What a run does if it fails: registered before the step that it belongs to, and run in reverse order, by the run itself or by the
//! next call of any script. What is registered before the point of no return holds no longer than to there.

use std::collections::BTreeMap;
use std::ffi::OsString;

use svc_step::document::Document;
use svc_step::journal::Undo;
use svc_step::steps;

use super::external;
use super::protocol::{Options, Step};
use super::run::Run;

/// The environment of an undo.
pub type Environment = Vec<(OsString, OsString)>;

/// The command of an undo as it is typed, without private arguments.
pub fn command_line(run: &Run, undo: &Undo) -> String {
    svc_step::reporter::shell_quoted(&run.shown(&undo.command.iter().map(OsString::from).collect::<Vec<_>>()))
}

/// What helps if something is left to be undone.
pub fn by_hand(left: &[String]) -> String {
    format!("Run by hand what is left to be undone:\n  {}", left.join("\n  "))
}

/// Runs what is registered, the last first, and gives the ones that failed. `failed`: the run did not end well. `interrupted`: a signal
/// or a kill has ended it. What fails with the settings of `environment` is tried with those of this call, `now`: one may have been put
/// right since.
pub fn run_all(run: &Run, environment: &Environment, now: Option<&Environment>, failed: bool, interrupted: bool) -> Vec<Undo> {
    // Of two of one name the last counts.
    let counts = |environment: &Environment| environment.iter().cloned().collect::<BTreeMap<_, _>>();
    let other = now.filter(|now| counts(now) != counts(environment));
    let mut left = Vec::new();
    let list = run.undo_list();
    for undo in list.into_iter().rev() {
        // A rollback beside an installer that is running would take the data from under it.
        let prevented =
            undo.unless_interrupted && (interrupted || run.signal().is_some() || external::is_running(&run.state_dir));
        if prevented || !run.journal().needs_undo(&undo, failed) {
            continue;
        }
        // An undo is run although the directory of the call was removed.
        let directory = if undo.directory.is_dir() { undo.directory.clone() } else { "/".into() };
        let step = Step {
            name: undo.name.clone(),
            command: undo.command.iter().map(OsString::from).collect(),
            directory,
            environment: environment.clone(),
            options: Options { again: true, ok: Some(4), ..Options::default() },
        };
        let ended = super::step::perform(run, &step).or_else(|failure| match other {
            Some(now) => super::step::perform(run, &Step { environment: now.clone(), ..step.clone() }),
            None => Err(failure),
        });
        match ended {
            Ok(()) => run.remove_undo(&undo.name),
            // A full disk must not keep the service stopped: the undo runs unrecorded.
            Err(failure) if failure.code == "journal_full" && super::step::undo_unrecorded(run, &step) => {
                run.remove_undo(&undo.name);
            }
            Err(failure) => {
                run.log(&format!("the undo {} failed: {}", undo.name, failure.message));
                // A rollback is a run of its own, which has told what helps.
                if !undo.unless_interrupted {
                    left.push(undo);
                }
            }
        }
    }
    left
}

/// What an undo that is a run of its own, a rollback, has restored.
pub struct RolledBack {
    pub version: String,
    /// The rollback.
    pub run: String,
}

/// That, or the hint of a rollback that failed, for the last hint: of this call, not of an earlier one of the same run.
pub fn rolled_back(run: &Run) -> Option<Result<RolledBack, Option<String>>> {
    let attempt = run.journal().attempt(steps::ROLLBACK).filter(|one| !run.earlier.contains(&one.files))?;
    let document: Document<serde_json::Value> = attempt.document?;
    Some(if document.ok {
        Ok(RolledBack { version: document.text("/version")?, run: document.run_id })
    } else {
        Err(document.error.and_then(|error| error.hint))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fixture::Made;
    use crate::run::Caller;

    #[test]
    fn rollback_of_earlier_call_is_not_told_again() {
        let made = Made::new("svc-upgrade");
        let error = json!({"code": "x", "message": "It failed.", "hint": "Look.", "retryable": false, "causes": []});
        let failed = json!({"schema": "svc-rollback.run/1", "ok": false, "error": error});
        made.step("07-rollback", "step", &failed);
        let run = Run::new("svc-upgrade".to_owned(), made.journal(), made.state().to_owned(), Caller::default());
        assert!(rolled_back(&run).is_none());
        made.step("07-rollback.2", "step", &failed);
        assert!(matches!(rolled_back(&run), Some(Err(Some(hint))) if hint == "Look."));
    }
}
