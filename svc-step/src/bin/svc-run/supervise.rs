//! `svc-run supervise`: takes the service's lock, keeps the journal, serves the script, and writes the last document.
//!
//! The script has no trap and no lock: whatever ends it, here it is "the script ended".

use std::ffi::OsString;
use std::os::fd::AsFd;
use std::os::unix::net::UnixListener;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;
use svc_step::document::Document;
use svc_step::journal::Notes;
use svc_step::settings::{service_settings, setting};
use svc_step::{Failure, Status, signals};

use super::arguments::SuperviseArgs;
use super::begin::{begin, parent};
use super::end::{End, finish, never_begun};
use super::protocol::{self, Request};
use super::report::RunResult;
use super::run::{Caller, Failed, NOTICED, Run};
use super::terminal::{FOLLOWED, Followed};
use super::{console, hooks, recover, resume, step, terminal};

/// Runs a script as a run. `of_file`: the names of the variables that are the settings file's.
pub fn supervise(args: &SuperviseArgs, caller: Caller, of_file: &[String]) -> ExitCode {
    let started = Timestamp::now();
    let script = name_of(&args.script);
    let followed = Followed::from_environment();
    let stay = args.dry_run || args.attached || parent().is_some() || resume::stays_attached(args, &script);
    let this: Vec<OsString> = std::env::args_os().collect();
    if followed.is_none()
        && let Some(code) = terminal::leave(&script, &this, of_file, stay, args.json)
    {
        return code;
    }
    let environment = caller.environment.clone();
    let mut recovered = recover::Recovered::default();
    let (end, document) = watched(args, caller, &script, started, &mut recovered);
    if let Some(followed) = followed {
        followed.finish();
    }
    // The lock of the service is free again. A nested script's failure is reported by its caller.
    if !args.dry_run && parent().is_none() {
        recovered.documents.iter().for_each(|killed| hooks::on_failure(killed, &environment));
        // Another run is in progress: nothing has failed.
        if !document.ok && !matches!(end, End::Code(code) if code == Status::Locked.code()) {
            hooks::on_failure(&document, &environment);
        }
        metrics();
    }
    match end {
        End::Code(code) => ExitCode::from(code),
        End::Signal(signal) => {
            signals::die_of(signal);
            ExitCode::FAILURE
        }
    }
}

/// Writes `SVC_METRICS_FILE`, if that is set; svc-point says what is wrong with it.
pub fn metrics() {
    if !setting("SVC_METRICS_FILE").is_empty() {
        let mut command = Command::new("svc-point");
        command.arg("metrics").envs(service_settings()).env_remove("SVC_RUN_ID").stdin(Stdio::null()).stdout(Stdio::null());
        if let Err(error) = command.status() {
            console::plain(&format!("svc-run: The metrics were not written: svc-point cannot be started: {error}."));
        }
    }
}

fn watched(
    args: &SuperviseArgs,
    caller: Caller,
    script: &str,
    started: Timestamp,
    recovered: &mut recover::Recovered,
) -> (End, Document<RunResult>) {
    // From here on a signal does not end the process: undoing a killed run's effects is finished first.
    let begun = catch_signals().and_then(|signals| Ok((signals, begin(args, caller, script, started, recovered)?)));
    let (signals, begun) = match begun {
        Ok(begun) => begun,
        Err(failure) => {
            let mut notes = Notes::default();
            recovered.tell(&mut notes);
            return never_begun(args, script, started, &failure, recovered.changed, &notes);
        }
    };
    let run = Arc::new(begun.run);
    pass_on(signals, &run);
    let ended = serve(&run, &begun.command, &begun.directory, &begun.settings);
    finish(&run, args, started, ended, &begun.settings, recovered.changed)
}

fn name_of(script: &[OsString]) -> String {
    script.first().map(Path::new).and_then(Path::file_name).unwrap_or_default().to_string_lossy().into_owned()
}

/// From here on a signal ends the process no more.
pub fn catch_signals() -> Result<signal_hook::iterator::Signals, Failure> {
    signals::caught().map_err(|error| Failure::fault(format!("Signals cannot be handled: {error}.")))
}

/// Hands the run each signal, also one that came since they are caught.
fn pass_on(mut signals: signal_hook::iterator::Signals, run: &Arc<Run>) {
    let run = Arc::clone(run);
    std::thread::spawn(move || signals.forever().for_each(|signal| run.interrupt(signal)));
}

/// Runs the script and serves its requests until it ends; the error is that it could not be started.
fn serve(
    run: &Arc<Run>,
    command: &[OsString],
    directory: &Path,
    settings: &[(OsString, OsString)],
) -> Result<std::process::ExitStatus, Failure> {
    let listener = protocol::listen(run.dir())?;
    let [script, arguments @ ..] = command else { return Err(Failure::usage("options_invalid", "No script is named.")) };
    let mut child = Command::new(script);
    child.args(arguments).current_dir(directory).envs(settings.iter().cloned());
    child.env_remove("SVC_RESUMED").env_remove("SVC_DRY_RUN").envs(run.own_settings(settings)).env_remove(FOLLOWED);
    child.stdin(Stdio::null());
    // Stdout is the last document's alone.
    child.stdout(std::io::stderr().as_fd().try_clone_to_owned().map_or_else(|_| Stdio::null(), Stdio::from));
    let mut child = child.spawn().map_err(|error| {
        Failure::not_found("file_not_found", format!("The script {} cannot be started.", script.to_string_lossy()))
            .cause(error.to_string())
    })?;
    accept(run, listener);
    let ended = child.wait().map_err(|error| Failure::fault(format!("The end of the script was lost: {error}.")))?;
    protocol::close(run.dir());
    if ended.signal().is_some() {
        // The same one may be on its way to this process, and the tools have it already.
        let _ = run.signal_within(NOTICED);
    }
    run.close(!ended.success());
    Ok(ended)
}

fn accept(run: &Arc<Run>, listener: UnixListener) {
    let run = Arc::clone(run);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { continue };
            let run = Arc::clone(&run);
            std::thread::spawn(move || {
                let Some(request) = protocol::receive(&stream) else { return };
                let status = answer(&run, request).unwrap_or_else(|failure| i32::from(failure.exit_code()));
                let _ = protocol::send(&mut stream, &status);
            });
        }
    });
}

/// Does what the script asks, and gives the exit status of its call; an error is one that has ended the run.
fn answer(run: &Arc<Run>, request: Request) -> Result<i32, Failure> {
    let busy = run.admit()?;
    let done = named(&request).and_then(|()| match request {
        Request::Step(wanted) => step::run(run, &wanted).map(|()| 0),
        Request::Start(wanted) => {
            start(run, wanted);
            Ok(0)
        }
        Request::Wait { steps, all } => wait(run, &steps, all).map(|()| 0),
        Request::Undo(undo) => step::with_documents(run, &undo.command)
            .and_then(|command| run.register_undo(svc_step::journal::Undo { command, ..undo }))
            .map(|()| 0),
        Request::Commit { hint } => run.commit(&hint).map(|()| 0),
        Request::Verdict => verdict(run).map(|()| 0),
        Request::Note { key, values, list } => run.fact(&key, fact_value(values, list)).map(|()| 0),
        Request::Warn { code, text } => run.warn(&code, text, false).map(|()| 0),
        Request::Fail { status, code, text, hint } => {
            Err(Failure::new(Status::of_failure(status.into()), &code, text).hint(hint))
        }
    });
    drop(busy);
    if let Err(failure) = &done {
        run.fail(Failed::from(failure));
    }
    done
}

/// Whether the name of a step can be that of its files.
fn named(request: &Request) -> Result<(), Failure> {
    let name = match request {
        Request::Step(step) | Request::Start(step) => &step.name,
        Request::Undo(undo) => &undo.name,
        _ => return Ok(()),
    };
    if !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)) {
        return Ok(());
    }
    let message = format!("`{name}` is not a name of a step: it may have letters, digits, `-` and `_`.");
    Err(Failure::usage("options_invalid", message).hint("Give the step another name."))
}

fn start(run: &Arc<Run>, wanted: protocol::Step) {
    run.state().started.insert(wanted.name.clone(), None);
    run.reserve(&wanted.name);
    let run = Arc::clone(run);
    let in_parallel = !run.dry_run;
    let thread = std::thread::spawn(move || {
        let ended = match run.admit() {
            Ok(_busy) => step::run(&run, &wanted),
            Err(failure) => Err(failure),
        };
        run.state().started.insert(wanted.name, Some(ended));
        run.notify();
    });
    // A plan is in the order of the script.
    if !in_parallel {
        let _ = thread.join();
    }
}

/// The value of a fact.
fn fact_value(values: Vec<String>, list: bool) -> Value {
    match (list, values.first().map_or("", String::as_str)) {
        (true, _) => Value::Array(values.into_iter().map(Value::String).collect()),
        (false, "true") => Value::Bool(true),
        (false, "false") => Value::Bool(false),
        (false, "") => Value::Null,
        (false, text) => Value::String(text.to_owned()),
    }
}

/// Waits for all; the first that fails ends the others at once, unless all are to be finished.
fn wait(run: &Run, steps: &[String], all: bool) -> Result<(), Failure> {
    let mut first: Option<Failure> = None;
    let mut state = run.state();
    if let Some(name) = steps.iter().find(|name| !state.started.contains_key(*name)) {
        let message = format!("The script waits for the step {name}, which it has not started.");
        return Err(Failure::usage("options_invalid", message).hint("Name the steps as `start` names them."));
    }
    loop {
        let ended: Vec<Option<Result<(), Failure>>> = steps.iter().filter_map(|name| state.started.get(name).cloned()).collect();
        if first.is_none()
            && let Some(failure) = ended.iter().flatten().find_map(|one| one.clone().err())
        {
            first = Some(failure);
            if !all {
                drop(state);
                run.terminate(Some(steps));
                state = run.state();
                continue;
            }
        }
        if ended.iter().all(Option::is_some) {
            return first.map_or(Ok(()), Err);
        }
        state = run.wait_for_change(state);
    }
}

/// All checks are told, and the first that failed ends the run: nothing was changed.
fn verdict(run: &Run) -> Result<(), Failure> {
    let (checks, shown, failed) = {
        let mut state = run.state();
        let count = state.checks.len();
        let shown = std::mem::replace(&mut state.shown_checks, count);
        (state.checks.clone(), shown, std::mem::take(&mut state.failed_checks))
    };
    run.fact("preflight", serde_json::to_value(&checks).unwrap_or_default())?;
    console::preflight(&checks, shown).iter().for_each(|line| run.say(line));
    let count = failed.len();
    match failed.into_iter().next() {
        None => Ok(()),
        Some(mut failed) => {
            if count > 1 {
                failed.failure.message = format!("{count} checks failed. {}", failed.failure.message);
            }
            run.fail(failed.clone());
            Err(failed.failure)
        }
    }
}
