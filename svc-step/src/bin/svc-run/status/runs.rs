//! Which run is shown, and how it stands by its journal and by the runs after it.

use std::path::{Path, PathBuf};

use serde_json::Value;
use svc_step::document::{Document, ErrorPart};
use svc_step::journal::{self, Attempt, Journal, Kind, with_ending};
use svc_step::reporter::shell_quoted;
use svc_step::steps;

use super::{Pending, State, StatusResult, pending, steps};
use crate::command_line::NOTHING_CHANGED;
use crate::{command_line, external};

/// The runs of a state directory, the newest first.
pub struct Runs<'a> {
    state_dir: &'a Path,
    runs: Vec<Journal>,
}

impl<'a> Runs<'a> {
    pub fn of(state_dir: &'a Path) -> Self {
        Self { state_dir, runs: journal::runs(state_dir) }
    }

    /// The newest run of a script, or, of any script, the newest that no other run has called; if that one ended well, the one that
    /// is not finished.
    pub fn to_show(&self, script: Option<&str>) -> Option<Journal> {
        let chosen = |run: &&Journal| match script {
            Some(script) => run.script() == script,
            None => run.plan().parent.is_none(),
        };
        // One that was refused because another run is unfinished is passed over: that run says the same.
        let is_refused = |run: &&Journal| {
            run.last_document().and_then(|document| document.error).is_some_and(|error| error.code == "run_unfinished")
        };
        let newest = self.runs.iter().filter(chosen).find(|run| !is_refused(run)).or_else(|| self.runs.iter().find(chosen))?;
        // One that was killed and has left nothing is passed over for an older one that is not finished.
        let ended_so = newest.last_document().is_none_or(|document| {
            document.changed == Some(false) && document.error.is_some_and(|error| error.code == "interrupted")
        });
        let is_nothing = ended_so && !is_committed(newest) && self.pending_within(newest).is_empty() && !newest.is_running();
        if !newest.is_ok() && !is_nothing {
            return Some(newest.clone());
        }
        // A hop that ended well is only a part of a run, and hooks that were run alone finish no other run; one that was told that it is
        // repaired closes those before.
        let since = self.runs.iter().take_while(|run| !(run.ignores_unfinished() && run.is_ok()));
        let unfinished = self.unfinished_outer(newest).or_else(|| {
            let before = since.filter(chosen).find(|run| is_committed(run))?;
            (!is_committed(newest) && !before.is_ok()).then(|| before.clone())
        });
        unfinished.or_else(|| Some(newest.clone()))
    }

    /// The run of the same script that has made this one as a hop, if it has not ended well.
    fn unfinished_outer(&self, run: &Journal) -> Option<Journal> {
        let outer = journal::named(self.state_dir, &run.plan().parent?)?;
        (outer.script() == run.script() && !outer.is_ok()).then_some(outer)
    }

    pub fn status(&self, run: &Journal) -> StatusResult {
        let plan = run.plan();
        let last = run.last_document();
        let is_running = last.is_none() && run.is_running();
        let external = if is_running { None } else { self.external(run) };
        let superseded = if is_running || external.is_some() { None } else { self.superseded(run) };
        let follow =
            |file: &Path| Some(format!("To follow it:\n  {}", shell_quoted(&["tail", "-f", &file.display().to_string()])));
        let (state, message, next) = match (&external, &last, superseded) {
            _ if is_running => (State::Running, "It is running.".to_owned(), follow(&run.dir().join("log"))),
            (Some(files), ..) => {
                let message = "Its supervisor is gone; a command that it has started is still running.";
                (State::ExternalRunning, message.to_owned(), follow(&with_ending(files, "out")))
            }
            (None, _, Some(next)) => (State::Superseded, how_it_ended(last.as_ref()), Some(next)),
            (None, Some(document), None) if document.ok => (State::Ended, how_it_ended(last.as_ref()), None),
            (None, Some(document), None) if has_outlived(run, document) => {
                let message = "It was interrupted, and a command that it had started has ended since.";
                (State::Interrupted, message.to_owned(), Some(self.after_kill(run)))
            }
            (None, Some(document), None) => {
                let hint = document.error.as_ref().and_then(|error| error.hint.clone());
                (State::Failed, how_it_ended(last.as_ref()), Some(hint.unwrap_or_else(|| command_line::hint(&run.plan()))))
            }
            (None, None, None) => (State::Interrupted, how_it_ended(None), Some(self.after_kill(run))),
        };
        let rests = !matches!(state, State::Running | State::ExternalRunning);
        StatusResult {
            run: run.id().to_owned(),
            run_dir: run.dir().display().to_string(),
            undo: if rests { self.pending_within(run) } else { Vec::new() },
            steps: steps(&run.attempts(), is_running, state == State::Ended, external.as_deref()),
            downtime_ms: last.as_ref().and_then(|document| document.number("/downtime_ms")),
            script: plan.script,
            started_at: plan.started_at,
            state,
            message,
            next,
        }
    }

    /// What would be undone first, of the run and of those that it has called, the newest first.
    fn pending_within(&self, run: &Journal) -> Vec<Pending> {
        self.runs.iter().filter(|other| other.is_within(run.id())).flat_map(pending).collect()
    }

    /// The files of the external command that is running, if it is this run's, or one of a run that this one called.
    fn external(&self, run: &Journal) -> Option<PathBuf> {
        let files = external::running(self.state_dir)?;
        let Some(folder) = files.parent().filter(|folder| folder.is_dir()) else { return Some(files) };
        Journal::at(folder).is_within(run.id()).then_some(files)
    }

    /// What to run if what the run had to say does not hold any more: an upgrade that was rolled back, or that another one followed.
    fn superseded(&self, run: &Journal) -> Option<String> {
        let of = |script: &'static str| self.runs.iter().filter(move |other| other.script() == script);
        let has_replaced = |run: &Journal| {
            let later = if run.is_ok() { None } else { run.replaced_by() }?;
            Some(format!("A later run has replaced it:\n  svc-run status {}", later.id()))
        };
        if run.script() != "svc-upgrade" {
            return has_replaced(run).filter(|_| run.has_changed_the_service());
        }
        let last_hop = || of("svc-upgrade").find(|other| other.plan().parent.as_deref() == Some(run.id())).cloned();
        let run = if run.has_begun(steps::FIRST_HOP) { last_hop()? } else { run.clone() };
        if !run.has_begun(steps::INSTALLER) {
            return None;
        }
        if let Some(back) = self.rolled_back_by(&run).filter(|back| back.is_ok() || back.replaced_by().is_none()) {
            let id = back.id();
            return Some(if back.is_ok() {
                format!(
                    "It was rolled back by the run {id}: nothing is left to do. To see that run:\n  svc-rollback --status {id}"
                )
            } else {
                format!("Its rollback has begun. To continue it:\n  svc-rollback --resume {id}")
            });
        }
        has_replaced(&run)
    }

    pub fn rolled_back_by(&self, run: &Journal) -> Option<Journal> {
        if run.script() != "svc-upgrade" {
            return None;
        }
        let point = run.restore_point().unwrap_or_else(|| run.id().to_owned());
        let goes_back = |other: &&Journal| {
            other.script() == "svc-rollback" && is_committed(other) && other.restore_point().as_ref() == Some(&point)
        };
        self.runs.iter().find(goes_back).cloned()
    }

    /// What to run after a run that was killed.
    fn after_kill(&self, run: &Journal) -> String {
        let hops = |run: &Journal| format!("To continue with the hops:\n  {} --resume {}", run.script(), run.id());
        match self.unfinished_outer(run) {
            Some(outer) => hops(&outer),
            None => match run.committed_hint() {
                Some(hint) => hint,
                None if run.has_begun(steps::FIRST_HOP) => hops(run),
                None if has_changed(run) => command_line::hint(&run.plan()),
                None => format!("{NOTHING_CHANGED} {}", command_line::hint(&run.plan())),
            },
        }
    }
}

/// Whether a step of a run may have changed something.
fn has_changed(run: &Journal) -> bool {
    let changed = |one: &Attempt| one.document.as_ref().is_none_or(|document| document.changed != Some(false));
    run.attempts().iter().any(|one| one.kind != Kind::Check && changed(one))
}

/// Whether an external command, which is not running now, has ended when its run was not there any more.
fn has_outlived(run: &Journal, last: &Document<Value>) -> bool {
    let was_running = |error: &ErrorPart| ["external_running", "interrupted"].contains(&error.code.as_str());
    let attempts = run.attempts();
    let external = attempts.iter().rfind(|one| one.kind == Kind::External);
    last.error.as_ref().is_some_and(was_running) && external.is_some_and(|one| one.document.is_none())
}

/// Whether a run has passed its point of no return; of several hops, the first hop may have.
fn is_committed(run: &Journal) -> bool {
    run.notes().commit.is_some() || run.has_begun(steps::FIRST_HOP)
}

fn how_it_ended(document: Option<&Document<Value>>) -> String {
    let Some(document) = document else { return "It was interrupted.".to_owned() };
    match &document.error {
        Some(error) if !document.ok => error.message.clone(),
        _ => match document.number("/downtime_ms") {
            Some(ms) => format!("It ended well. The service was down for {ms} ms."),
            None => "It ended well.".to_owned(),
        },
    }
}
