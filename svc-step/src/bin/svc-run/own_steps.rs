//! The verbs of svc-run that are steps themselves: each prints a document.

use std::io::IsTerminal;
use std::process::ExitCode;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use svc_step::document::{Document, ErrorPart};
use svc_step::journal::{self, Journal};
use svc_step::steps;
use svc_step::{Failure, Status};

use super::query::{state_dir, unreadable};
use super::run::Caller;
use super::{console, hooks, recover, undo};

/// What was found.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Found {
    /// The run that it is about; null if there is none.
    pub run: Option<String>,
}

/// What was undone.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Recovered {
    /// The runs whose effects were undone.
    pub undone: Vec<String>,
}

/// Ends with 3 if the newest run of these scripts that passed its point of no return did not end well: a restore point of what that has
/// left is none to go back to. A later run that was told to ignore it, and ended well, says that it was repaired by hand.
pub fn unfinished(scripts: &[String]) -> ExitCode {
    if let Some(failure) = unreadable(&state_dir()) {
        return answer("refuse-unfinished", Err(failure));
    }
    let this = Journal::of(&state_dir(), &std::env::var("SVC_RUN_ID").unwrap_or_default());
    // This run, and those that it is a part of.
    let (own, others): (Vec<Journal>, Vec<Journal>) =
        journal::runs(&state_dir()).into_iter().partition(|run| this.is_within(run.id()));
    let newest = journal::last_change(&others, |run| scripts.contains(&run.script()));
    let found = match newest {
        Some(run) if !run.is_ok() && !own.iter().any(Journal::ignores_unfinished) => {
            let id = run.id();
            Err(Failure::refused("run_unfinished", format!("The run {id} has changed the service and did not end well."))
                .hint(format!("How to resume it or to go back:\n  svc-run status {id}\nIf you have repaired it by hand, make a restore point, after which the run counts as finished:\n  svc-backup --ignore-unfinished")))
        }
        newest => Ok(Found { run: newest.map(|run| run.id().to_owned()) }),
    };
    answer("refuse-unfinished", found)
}

/// What a rollback that ended well replaced: the last one that has swapped, unless one is named.
pub fn previous(asked: Option<&str>) -> ExitCode {
    answer("previous", find_previous(asked))
}

fn find_previous(asked: Option<&str>) -> Result<Found, Failure> {
    let state_dir = state_dir();
    let runs = asked.map_or_else(|| journal::runs(&state_dir), |asked| journal::named(&state_dir, asked).into_iter().collect());
    let swapped = |run: &Journal| run.script() == "svc-rollback" && run.has_begun(steps::SWAP_SEARCH);
    let Some(rollback) = runs.into_iter().find(swapped) else {
        let which = asked.map(|asked| format!(" {asked}")).unwrap_or_default();
        return Err(Failure::not_found(
            "swap_not_found",
            format!("No rollback{which} that has replaced anything is in {}.", state_dir.join("runs").display()),
        )
        .hint("The copies that there are:\n  svc-snap health"));
    };
    if !rollback.is_ok() && rollback.replaced_by().is_none() {
        return Err(Failure::refused(
            "run_unfinished",
            format!("The rollback {} is not finished, and may need what it replaced.", rollback.id()),
        )
        .hint(format!("Resume it:\n  svc-rollback --resume {}", rollback.id())));
    }
    match rollback.previous_run() {
        Some(run) => Ok(Found { run: Some(run) }),
        None => Err(Failure::not_found("swap_not_found", format!("The rollback {} has left nothing in place.", rollback.id()))
            .hint("There is nothing to discard.")),
    }
}

/// Undoes what killed runs have left, under the lock of the service. `silent`: without a word if that is not needed.
pub fn recover(caller: &Caller, silent: bool) -> ExitCode {
    let state_dir = state_dir();
    let mut recovered = recover::Recovered::default();
    // No signal ends an undo.
    let ended = super::supervise::catch_signals().and_then(|_signals| {
        let (_lock, parent) = super::begin::lock_service(&state_dir)?;
        if let Some(parent) = parent {
            return Err(Failure::locked("locked", format!("The run {parent} is running: what it has done is not undone."))
                .hint(format!("Wait until it has ended:\n  svc-run status {parent}")));
        }
        recover::all(&state_dir, caller, std::io::stderr().is_terminal(), &mut recovered)
    });
    let recover::Recovered { undone, changed, left, documents } = recovered;
    documents.iter().for_each(|killed| hooks::on_failure(killed, &caller.environment));
    if !undone.is_empty() || !documents.is_empty() {
        super::supervise::metrics();
    }
    match &ended {
        Err(failure) if silent && failure.status == Status::Locked => return ExitCode::from(failure.exit_code()),
        Ok(()) if silent && left.is_empty() => return ExitCode::SUCCESS,
        _ => {}
    }
    let failure = ended.err().or_else(|| {
        (!left.is_empty()).then(|| {
            Failure::failed("run_unfinished", "What an earlier run has left could not be undone.").hint(undo::by_hand(&left))
        })
    });
    let found = (failure.is_none() || changed || !left.is_empty()).then_some(Recovered { undone });
    print("recover", found, failure, changed)
}

fn answer(step: &str, found: Result<Found, Failure>) -> ExitCode {
    match found {
        Ok(found) => print(step, Some(found), None, false),
        Err(failure) => print::<Found>(step, None, Some(failure), false),
    }
}

fn print<T: Serialize>(step: &str, result: Option<T>, failure: Option<Failure>, changed: bool) -> ExitCode {
    let now = Timestamp::now();
    let run_id = std::env::var("SVC_RUN_ID").unwrap_or_else(|_| svc_step::run_id::RunId::by_hand(now).to_string());
    let error = failure.as_ref().map(ErrorPart::from);
    let document =
        Document { ok: error.is_none(), changed: Some(changed), error, result, ..Document::new("svc-run", step, &run_id, now) };
    console::lines(&[serde_json::to_string(&document).unwrap_or_default()]);
    failure.map_or(ExitCode::SUCCESS, |failure| console::failed("svc-run", &failure))
}
