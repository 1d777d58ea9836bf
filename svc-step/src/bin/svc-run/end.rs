//! The end of a run: why it did not end well, what is undone, and the last document with what helps.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;

use jiff::Timestamp;
use svc_step::document::{Document, ErrorPart};
use svc_step::journal::{self, Attempt, Journal, Notes, Plan};
use svc_step::reporter::shell_quoted;
use svc_step::{Failure, Status, signals};

use super::arguments::SuperviseArgs;
use super::command_line::NOTHING_CHANGED;
use super::report::{self, Outcome, RunResult};
use super::run::{Failed, Run, write_json};
use super::terminal::FOLLOWED;
use super::{command_line, console, external, undo};

/// How the hint of a run begins that was rolled back by itself.
const ROLLED_BACK: &str = "It was rolled back";
/// What hints say of a command that is run again from its start, and of a run that is resumed.
const AGAIN: [(&str, &str); 3] = [
    ("run the same command again", "resume the run"),
    ("Run the same command again", "Resume the run"),
    ("Running the same command again", "Resuming the run"),
];

/// How the process ends.
pub enum End {
    Code(u8),
    Signal(i32),
}

pub fn finish(
    run: &Run,
    args: &SuperviseArgs,
    started: Timestamp,
    ended: Result<std::process::ExitStatus, Failure>,
    settings: &[(OsString, OsString)],
    recovered: bool,
) -> (End, Document<RunResult>) {
    let is_ended_by_signal = ended.as_ref().is_ok_and(|ended| ended.signal().is_some());
    let mut signal = run.signal();
    let (mut failed, deferred) = {
        let mut state = run.state();
        (state.failed.take(), state.deferred.take())
    };
    match &ended {
        Ok(ended) if ended.success() => failed = failed.or(deferred),
        // Steps that failed because the script died are not the cause.
        Ok(ended) if ended.signal().is_some() && signal.is_none() => failed = Some(script_failed(ended)),
        Ok(ended) => failed = failed.or_else(|| Some(script_failed(ended))),
        Err(failure) => failed = failed.or_else(|| Some(Failed::from(failure))),
    }
    if let Some(signal) = signal {
        failed = Some(interrupted(signal, failed));
    }
    let committed = run.committed();
    let environment = step_environment(run, settings);
    let list = run.undo_list();
    // Where all that the run did is undone however it ends, nothing is left of it.
    let for_its_time = list.iter().all(|undo| undo.always);
    let left = undo::run_all(run, &environment, None, failed.is_some(), is_ended_by_signal);
    // One that came while a rollback was running has ended that; no other undo is ended by one.
    let rollback_ended = run.undo_list().iter().any(|undo| undo.unless_interrupted);
    if let (None, Some(late), true) = (signal, run.signal(), failed.is_some() && rollback_ended) {
        signal = Some(late);
        failed = Some(interrupted(late, failed));
    }
    // A full disk may refuse new notes and still allow their removal: a run that was undone must not be resumed.
    if left.is_empty() && run.committed().is_none() && run.journal().notes().commit.is_some() {
        let _ = std::fs::remove_file(run.dir().join("notes.json"));
    }
    let mut left: Vec<String> = left.iter().map(|undo| undo::command_line(run, undo)).collect();
    // A run that this one called was killed, and its tools may be running still: the next call undoes what it has left.
    let is_own = |other: &Journal| other.plan().parent.as_deref() == Some(&run.id) && !other.left_to_undo().is_empty();
    if journal::runs(&run.state_dir).iter().take_while(|other| other.id() > &*run.id).any(is_own) {
        left.push("svc-run recover".to_owned());
    }
    let left_to_undo = (!left.is_empty()).then(|| format!("Not everything was undone. {}", undo::by_hand(&left)));
    if let Some(text) = &left_to_undo {
        let _ = run.warn("run_unfinished", text.clone(), true);
    }
    let undone = (failed.is_some() || for_its_time) && committed.is_none() && left.is_empty();
    run.state().plan.iter().for_each(|line| console::plain(line));
    let outcome = Outcome {
        script: run.script.clone(),
        run_id: run.id.clone(),
        status: status(run, failed.as_ref(), signal),
        dry_run: run.dry_run,
        started,
        failure: failed.as_ref().map(|failed| failed.failure.clone()),
        // Without an undo nothing was taken back.
        undone: if undone && !list.is_empty() { own_steps(run) } else { Vec::new() },
        recovered,
        earlier: run.earlier.clone(),
        plan: run.state().plan.clone(),
    };
    let mut document = report::document(Some(run.journal()), &run.state().notes.clone(), &outcome);
    if let Some(failed) = &failed {
        let helps = hint(run, failed, undone.then(|| as_before(&document)).flatten(), args);
        let hint = left_to_undo.into_iter().chain([helps]).collect::<Vec<_>>().join("\n");
        document.error = document.error.map(|error| ErrorPart { hint: Some(hint), ..error });
    }
    publish(run, args, outcome, document, signal)
}

/// The steps whose effects the undos have taken back: all but scripts, which are runs of their own and have their own restore points, and
/// but the steps after which an undo is not needed: what those have made is complete and stays.
pub fn own_steps(run: &Run) -> Vec<String> {
    let attempts = run.journal().attempts();
    let stay: Vec<String> = run.undo_list().into_iter().filter_map(|undo| undo.until).collect();
    let is_script = |one: &Attempt| one.document.as_ref().is_some_and(|document| document.schema.ends_with(".run/1"));
    let own = attempts.iter().filter(|one| !stay.contains(&one.step) && !is_script(one));
    own.map(|one| one.step.clone()).collect()
}

fn status(run: &Run, failed: Option<&Failed>, signal: Option<i32>) -> i32 {
    match (signal, failed) {
        (Some(signal), _) => 128 + signal,
        (None, Some(Failed { failure, .. })) if failure.status == Status::Review => 1,
        // 8 is a run that has not begun, since another one is in progress. This one has, and must not pass for that: try it again.
        (None, Some(Failed { failure, .. })) if failure.code == "locked" => Status::Unavailable.code().into(),
        (None, Some(Failed { failure, .. })) => failure.status.code().into(),
        (None, None) if run.state().notes.review => 9,
        (None, None) => 0,
    }
}

fn script_failed(ended: &std::process::ExitStatus) -> Failed {
    let how = match (ended.code(), ended.signal()) {
        (Some(code), _) => format!("it ended with status {code}"),
        (None, Some(signal)) => format!("it was ended by {}", signals::name(signal)),
        (None, None) => "its outcome is unknown".to_owned(),
    };
    Failed::from(&Failure::fault(format!("The script itself failed: {how}.")))
}

fn interrupted(signal: i32, failed: Option<Failed>) -> Failed {
    let (step, before) = failed.map_or((None, None), |Failed { step, failure }| (step, Some(failure)));
    let external = before.as_ref().filter(|failure| failure.code == "external_running");
    let how = if external.is_some() { "is still" } else { "was" };
    let during = step.as_ref().map(|step| format!(" The step {step} {how} running.")).unwrap_or_default();
    let failure = Failure {
        message: format!("The run was ended by {}.{during}", signals::name(signal)),
        hint: external.and_then(|failure| failure.hint.clone()),
        causes: before.map(|failure| failure.causes).unwrap_or_default(),
        ..Failure::interrupted(signal)
    };
    Failed { step, failure }
}

/// How the hint begins of a run that was undone: nothing is left of it, but a restore point that was complete.
pub fn as_before(document: &Document<RunResult>) -> Option<String> {
    if document.changed == Some(false) {
        return Some(NOTHING_CHANGED.to_owned());
    }
    let point = document.result.as_ref()?.restore_point.as_ref().filter(|point| report::is_complete(point))?;
    Some(format!("The service was not changed. The restore point {point} is complete and stays."))
}

/// Before the point of no return everything was undone; after it, the script has told what helps.
fn hint(run: &Run, failed: &Failed, as_before: Option<String>, args: &SuperviseArgs) -> String {
    let Failure { hint: own, code, status, .. } = failed.failure.clone();
    if !run.dry_run && !run.dir().exists() {
        return journal_lost(run).unwrap_or_else(|| run_again(args));
    }
    let committed = run.committed().and_then(|back| Some((run.journal().committed_hint()?, back)));
    let join =
        |parts: [Option<String>; 3]| parts.into_iter().flatten().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n");
    if let Some(rolled_back) = undo::rolled_back(run) {
        return match rolled_back {
            // There is nothing to resume any more.
            Ok(undo::RolledBack { version, run }) => {
                let own = own.filter(|own| !own.contains("--resume"));
                let discard = format!("To discard the data that was replaced:\n  svc-rollback --discard-previous {run}");
                join([Some(format!("{ROLLED_BACK}: {version} runs again.")), own, Some(discard)])
            }
            Err(hint) => {
                // One that has begun to change the service is resumed itself.
                let helps = committed
                    .map(|(helps, _)| helps)
                    .filter(|_| super::status::rolled_back_by(&run.state_dir, run.journal()).is_none());
                join([Some("The automatic rollback failed too.".to_owned()), hint, helps])
            }
        };
    }
    if let Some((committed, back)) = committed {
        // The same command again is refused now.
        let to_resume = |own: &str| AGAIN.iter().fold(own.to_owned(), |own, (again, resume)| own.replace(again, resume));
        if own.as_ref().is_some_and(|own| own.starts_with(ROLLED_BACK)) {
            return join([own, Some("The remaining hops are an upgrade of their own.".to_owned()), None]);
        }
        let script = script_step(run, failed);
        // A script that is a step of this one is resumed by this one.
        if let Some((own, nested)) = own.as_ref().zip(script.as_ref()) {
            let (theirs, ours) = (format!("--resume {nested}"), format!("--resume {}", run.id));
            if own.contains(&theirs) {
                return own.replace(&theirs, &ours);
            }
            // What it says of itself does not hold for all of this run.
            let helps = own.split(command_line::SAME_COMMAND).next().unwrap_or_default();
            let helps = helps.trim_start_matches(NOTHING_CHANGED).trim();
            return join([Some(to_resume(helps)), None, Some(committed)]);
        }
        let is_hook = failed.step.as_ref().is_some_and(|step| external::is_hook(step));
        let rerun = (code == "command_failed" && status == Status::Failed && !is_hook && script.is_none())
            .then(|| external::rerun_hint(run));
        // That resumes it too, or begins it again since it cannot be resumed.
        let script = format!("\n  {} ", run.script);
        let begins = |hint: &String| hint.contains(&script) && !hint.contains(" --resume ") && !hint.contains(" --help");
        let says = |hint: &String| hint.contains("--rerun-installer") || begins(hint);
        let names_one = [&own, &rerun].into_iter().flatten().any(says);
        return join([own.as_deref().map(to_resume), rerun, Some(if names_one { back } else { committed })]);
    }
    // A script that is a step says it of itself; what is run again is this one.
    let own = own.map(|own| match own.split_once(command_line::SAME_COMMAND) {
        Some((helps, _)) if script_step(run, failed).is_some() => format!("{helps}{}", run_again(args)),
        _ => own,
    });
    let own = own.map(|own| if as_before.is_some() { own.trim_start_matches(NOTHING_CHANGED).trim().to_owned() } else { own });
    join([as_before, Some(own.unwrap_or_else(|| run_again(args))), None])
}

/// What helps if the run directory was removed: nothing can be resumed. None before the point of no return.
fn journal_lost(run: &Run) -> Option<String> {
    let back = run.committed()?;
    let point = run.state().notes.facts.get("restore_point")?.as_str()?.to_owned();
    let back =
        if run.script == "svc-upgrade" { back } else { format!("To roll back again, with its options:\n  {}", run.script) };
    let point = shell_quoted(&[point]);
    Some(format!("The run directory {} was removed, so the run cannot be resumed.\n{back} {point}", run.dir().display()))
}

/// The run of the step that failed, if that is a script, which has told what helps.
fn script_step(run: &Run, failed: &Failed) -> Option<String> {
    let document = failed.step.as_ref().and_then(|step| run.journal().attempt(step)?.document)?;
    document.schema.ends_with(".run/1").then_some(document.run_id)
}

/// The command line of this call, which a dry run has written nowhere.
fn run_again(args: &SuperviseArgs) -> String {
    command_line::hint(&Plan {
        program: command_line::program(&args.script),
        directory: command_line::here().display().to_string(),
        arguments: command_line::recorded(&command_line::texts(args.script.get(1..).unwrap_or_default()), &args.private),
        ..Plan::default()
    })
}

/// The environment of the steps of the end, which no script hands over.
fn step_environment(run: &Run, settings: &[(OsString, OsString)]) -> Vec<(OsString, OsString)> {
    let mut environment: Vec<(OsString, OsString)> = std::env::vars_os().collect();
    environment.extend(settings.iter().cloned());
    environment.extend(run.own_settings(settings));
    environment.retain(|(name, _)| name != FOLLOWED);
    environment
}

/// Writes the last document into the journal and on stdout, tells a person, and ends.
fn publish(
    run: &Run,
    args: &SuperviseArgs,
    mut outcome: Outcome,
    mut document: Document<RunResult>,
    signal: Option<i32>,
) -> (End, Document<RunResult>) {
    if !run.dry_run && write_json(&run.journal().document_path(), &document).is_err() && outcome.is_ok() {
        // A run whose end nobody can read has not ended well.
        outcome.status = 1;
        let message = format!("All was done, but the last document could not be written to {}.", run.dir().display());
        let hint = format!("Free disk space for {}.", run.state_dir.display());
        outcome.failure = Some(Failure::failed("journal_full", message).hint(hint));
        document = report::document(Some(run.journal()), &run.state().notes.clone(), &outcome);
    }
    run.log(&format!("ended with status {}", outcome.status));
    let is_told = print(args, &run.script, &document);
    // Nobody reads the document of a run that is silent.
    if outcome.status == 9 && args.silent && !run.verbose {
        document.warnings.iter().for_each(|one| console::plain(&format!("{}: warning: {}", run.script, one.message)));
    }
    let end = match signal {
        Some(signal) => End::Signal(signal),
        None if outcome.is_ok() && !is_told => End::Code(1),
        None => End::Code(u8::try_from(outcome.status).unwrap_or(1)),
    };
    (end, document)
}

/// The document on stdout, or its summary on a terminal; the two lines of a failure. Whether it could be written.
fn print(args: &SuperviseArgs, script: &str, document: &Document<RunResult>) -> bool {
    let is_written = (args.silent && !args.dry_run) || console::show(document, args.json);
    if let Some(error) = &document.error {
        console::plain(&console::failure(script, error));
    }
    is_written
}

/// A run that ended before it had a directory; what was undone of earlier ones is told all the same.
pub fn never_begun(
    args: &SuperviseArgs,
    script: &str,
    started: Timestamp,
    failure: &Failure,
    recovered: bool,
    notes: &Notes,
) -> (End, Document<RunResult>) {
    let outcome = Outcome {
        script: script.to_owned(),
        run_id: svc_step::run_id::RunId::by_hand(started).to_string(),
        status: i32::from(failure.exit_code()),
        dry_run: args.dry_run,
        started,
        failure: Some(failure.clone()),
        recovered,
        ..Outcome::default()
    };
    let document = report::document(None, notes, &outcome);
    // In cron, another run that is in progress is no news.
    if !args.silent || failure.status != Status::Locked {
        print(args, script, &document);
    }
    (End::Code(failure.exit_code()), document)
}
