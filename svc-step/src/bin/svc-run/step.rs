//! One step: started, recorded, awaited, checked by its document.

use std::ffi::{OsStr, OsString};
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use svc_step::child::exit_status;
use svc_step::document::Document;
use svc_step::journal::{self, Journal, Kind, with_ending};
use svc_step::reporter::shell_quoted;
use svc_step::work::{Lost, Work};
use svc_step::{Failure, Status, file, steps};

use super::console;
use super::external;
use super::protocol::Step;
use super::query;
use super::report::{Check, Verdict};
use super::run::{Failed, NOTICED, Run, SHUTDOWN_TIMEOUT, disk_space_hint, write_json};
use super::usage_error::{self, Printed};

/// With less space than this on the journal's disk, a document that is not there had none.
const RESERVED_FOR_A_DOCUMENT: u64 = 1024 * 1024;
/// How often a tool that is running is asked for.
const POLL: Duration = Duration::from_secs(1);
/// The scripts that are steps of others: they print each step if the outer one does.
const SCRIPTS: [&str; 5] = ["svc-backup", "svc-offsite", "svc-upgrade", "svc-rollback", "svc-rehearse"];

/// Runs a step of the script, and checks it as its options say. The error ends the run.
pub fn run(run: &Run, step: &Step) -> Result<(), Failure> {
    let mut failure = match perform(run, step) {
        Ok(()) => {
            if step.options.preflight {
                checked(run, step);
            }
            return Ok(());
        }
        Err(failure) => failure,
    };
    let options = &step.options;
    if let [code, text] = &options.hint[..]
        && *code == failure.code
    {
        failure.hint = Some(text.clone());
    }
    // What a signal ended says nothing of what it was doing; beside a command that is running, or without a journal, nothing is begun.
    let ends_the_run = ["external_running", "journal_full"].contains(&failure.code.as_str());
    // One to the whole process group may have ended the tool, with a document or before it had one, before the run has noticed it.
    let may_be_signal = ["no_document", "interrupted"].contains(&failure.code.as_str());
    let signal = if may_be_signal { run.signal_within(NOTICED) } else { run.signal() };
    if signal.is_none() && !ends_the_run {
        if options.preflight {
            check(run, &step.name, Verdict::Fail, failure.message.clone());
            run.state().failed_checks.push(failed(&step.name, &failure));
            return Ok(());
        }
        let tolerated = options.warn_if.iter().find(|code| **code == failure.code);
        let warning = options.or_warn.as_ref().or(options.or_review.as_ref()).or(tolerated);
        // One that was interrupted is no warning, with a document or, as its script was killed, without: it would outlive the run's
        // resumption.
        let is_interrupted = ["outcome_unknown", "interrupted"].contains(&failure.code.as_str()) || run.state().all_ending;
        if let Some(code) = warning.filter(|_| !is_interrupted) {
            run.warn(code, format!("{} failed: {}", step.name, failure.message), options.or_review.is_some())?;
            return Ok(());
        }
        if options.defer {
            run.state().deferred.get_or_insert(failed(&step.name, &failure));
            return Ok(());
        }
    }
    run.fail(ending(&step.name, &failure));
    Err(failure)
}

fn failed(step: &str, failure: &Failure) -> Failed {
    of_step(step, failure, "")
}

/// The same of a step that ends the run; after a deferred one, and after a check, the run has continued.
fn ending(step: &str, failure: &Failure) -> Failed {
    of_step(step, failure, ", and the run stopped there")
}

fn of_step(step: &str, failure: &Failure, and_then: &str) -> Failed {
    let begins = format!("The step {step} failed");
    // A script that is a step says it of its own step, which may have the same name.
    let own = failure.message.strip_prefix(&begins).and_then(|own| own.split_once(": "));
    let message = format!("{begins}{and_then}: {}", own.map_or(&*failure.message, |(_, why)| why));
    Failed { step: Some(step.to_owned()), failure: Failure { message, ..failure.clone() } }
}

fn check(run: &Run, name: &str, verdict: Verdict, message: String) {
    let mut state = run.state();
    state.checks.retain(|other| other.check != name);
    state.checks.push(Check { check: name.to_owned(), verdict, message });
}

fn checked(run: &Run, step: &Step) {
    let Some(document) = run.journal().attempt(&step.name).and_then(|one| one.document) else { return };
    let verdict = if document.warnings.is_empty() { Verdict::Pass } else { Verdict::Warn };
    check(run, &step.name, verdict, console::found(&document));
}

/// Runs a step, or passes over it.
pub fn perform(run: &Run, step: &Step) -> Result<(), Failure> {
    let options = &step.options;
    let reads = options.reads || options.preflight;
    if run.resumed && !options.again && run.journal().is_done(&step.name) {
        run.log(&format!("{}: ok already", step.name));
        if options.external {
            external::complete(run, step);
        }
        return Ok(());
    }
    let missing = options.needs.as_ref().is_some_and(|needed| !run.journal().is_done(needed));
    if missing || options.unless.as_ref().is_some_and(|step| run.journal().is_done(step)) {
        return Ok(());
    }
    if run.dry_run && !reads {
        return plan(run, step);
    }
    if options.external {
        return external::perform(run, step);
    }
    let mut command = with_documents(run, &step.command)?;
    let nested = if run.resumed { nested_run(run, step) } else { None };
    if let Some(nested) = &nested
        && let Some(document) = nested.last_document().filter(|document| document.ok)
    {
        return adopt(run, step, nested, &document);
    }
    match nested.filter(|nested| nested.notes().commit.is_some()) {
        Some(nested) => command = resumed(run, step, &nested),
        // One that is resumed asks for them itself, if its installer is still to run.
        None if steps::is_hop(&step.name) => external::refuse_lost_arguments(run)?,
        None => {}
    }
    let files = run.name_files(&step.name);
    let shown = shell_quoted(&run.shown(&command));
    run.log(&format!("{} {}: {shown}", if reads { "check" } else { "step" }, step.name));
    run.note_started(&files, if reads { Kind::Check } else { Kind::Step })?;
    run.tell_begin(&files);
    let (status, printed) = wait(run, step, &command, &files)?;
    if run.dry_run {
        let document = with_ending(&files, "json").file_name().unwrap_or_default().into();
        run.state().checked.insert(document, (format!("{}.json", step.name), command_line(run, step, &command)));
    }
    check_outcome(run, step, &files, status, &printed)
}

/// A command in which the argument `@STEP` is the file of that step's document. (What an external command is given is its own.)
///
/// # Errors
/// The step has left none (4).
pub fn with_documents<T: Clone + AsRef<OsStr> + From<String>>(run: &Run, command: &[T]) -> Result<Vec<T>, Failure> {
    let argument = |argument: &T| {
        let step = argument.as_ref().to_str().and_then(|text| text.strip_prefix('@'));
        match step.filter(|step| run.journal().has_begun(step) || run.state().planned.contains(*step)) {
            Some(step) => query::document(run.journal(), step, run.dry_run).map(|path| path.display().to_string().into()),
            None => Ok(argument.clone()),
        }
    };
    command.iter().map(argument).collect()
}

/// A line of the plan of a dry run, which can be typed in any directory, where the documents are `<step>.json`. A check whose document it
/// needs comes first of all.
fn plan(run: &Run, step: &Step) -> Result<(), Failure> {
    let mut command = if step.options.external { step.command.clone() } else { with_documents(run, &step.command)? };
    for argument in &mut command {
        let Some(name) = Path::new(argument).strip_prefix(run.dir()).ok().map(Path::to_owned) else { continue };
        let checked = run.state().checked.get(&name).cloned();
        if let Some((file, line)) = checked {
            *argument = file.into();
            let mut state = run.state();
            if !state.plan.contains(&line) {
                state.plan.insert(0, line);
            }
        } else if name.as_os_str().is_empty() {
            *argument = ".".into();
        } else {
            *argument = name.into();
        }
    }
    let line = command_line(run, step, &command);
    let mut state = run.state();
    state.plan.push(line);
    state.planned.insert(step.name.clone());
    Ok(())
}

fn command_line(run: &Run, step: &Step, command: &[OsString]) -> String {
    let mut line = shell_quoted(&run.shown(command));
    if command.first().is_some_and(|program| program.to_string_lossy().starts_with("svc-")) {
        line.push_str(&format!(" > {}.json", step.name));
    }
    line
}

/// Starts the tool with its document under `.partial`, and waits; the exit status as a shell gives it, and what it has printed.
fn wait(run: &Run, step: &Step, command: &[OsString], files: &Path) -> Result<(i32, Printed), Failure> {
    let partial = with_ending(files, "json.partial");
    let open = |path: &Path, append: bool| {
        let mut options = OpenOptions::new();
        options.create(true).mode(0o600);
        if append {
            options.append(true)
        } else {
            options.write(true).truncate(true)
        };
        options.open(path).map_err(|error| run.journal_full(&Failure::io("write the journal", path, &error)))
    };
    let stdout = open(&partial, false)?;
    // A script keeps a log of its own.
    let is_script = command.first().is_some_and(|program| SCRIPTS.iter().any(|script| Path::new(program).ends_with(script)));
    let told = svc_step::reporter::is_watched() || (is_script && run.verbose);
    let log = run.dir().join("log");
    let stderr = if told { Stdio::inherit() } else { open(&log, true)?.into() };
    let printed = Printed::from_here(if told { "/proc/self/fd/2".into() } else { log });
    let mut child = child_of(run, step, command)?.stdout(stdout).stderr(stderr).spawn().map_err(|error| {
        let program = command.first().map(|program| program.to_string_lossy()).unwrap_or_default();
        let message = format!("The program {program} of the step {} cannot be started: {error}.", step.name);
        match error.kind() {
            io::ErrorKind::NotFound => {
                Failure::not_found("file_not_found", message).hint("Install it in a directory of the PATH.")
            }
            _ => Failure::fault(message),
        }
    })?;
    let process = child.id();
    run.register(process, &step.name);
    let ended = end_of(run, process, &Work::begin(move || child.wait()));
    run.unregister(process);
    let ended = ended.map_err(|error| {
        Failure::fault(format!("How the step {} ended is unknown: {error}.", step.name))
            .hint(format!("Find out what keeps its process {process} from ending:\n  ps -o pid,stat,wchan,args {process}"))
    })?;
    Ok((exit_status(ended), printed))
}

/// Waits for a tool. One that was told to end and does not is killed, and what no signal ends (it waits for a disk that is away) is left
/// behind. A script ends its own tools and undoes what they did.
fn end_of(run: &Run, process: u32, tool: &Work<io::Result<ExitStatus>>) -> io::Result<ExitStatus> {
    let is_run = |other: &Journal| other.plan().parent.as_deref() == Some(&run.id) && other.is_running();
    loop {
        match tool.ended(POLL) {
            Ok(Some(ended)) => return ended,
            Err(Lost) => return Err(io::Error::other("nobody waited for it")),
            Ok(None) if !run.is_overdue(process, SHUTDOWN_TIMEOUT) || journal::runs(&run.state_dir).iter().any(is_run) => {}
            Ok(None) if run.is_overdue(process, SHUTDOWN_TIMEOUT + NOTICED * 5) => {
                return Err(io::Error::other("it was killed and does not end"));
            }
            Ok(None) => {
                run.log(&format!("the process {process} does not end and is killed"));
                let _ = kill(Pid::from_raw(i32::try_from(process).unwrap_or(0)), Signal::SIGKILL);
            }
        }
    }
}

fn child_of(run: &Run, step: &Step, command: &[OsString]) -> Result<Command, Failure> {
    let [program, arguments @ ..] = command else {
        return Err(Failure::usage("options_invalid", format!("The step {} has no command.", step.name)));
    };
    let mut child = Command::new(program);
    child.args(arguments).current_dir(&step.directory).env_clear().envs(step.environment.iter().cloned());
    // A script that is called as a step is a run of its own.
    child.env_remove("SVC_SUPERVISOR").env_remove("SVC_RESUMED").stdin(Stdio::null());
    if run.state().is_undo(&step.name) {
        // No signal ends an undo, nor one that a terminal sends to a process group.
        child.process_group(0);
    }
    Ok(child)
}

/// Runs an undo that cannot be recorded; whether it went well.
pub fn undo_unrecorded(run: &Run, step: &Step) -> bool {
    let ended = child_of(run, step, &step.command).and_then(|mut child| {
        child.stdout(Stdio::null()).status().map_err(|error| Failure::io("run an undo", run.dir(), &error))
    });
    ended.is_ok_and(|ended| matches!(ended.code(), Some(0 | 4 | 9)))
}

/// By its document; without one its outcome is unknown.
fn check_outcome(run: &Run, step: &Step, files: &Path, status: i32, printed: &Printed) -> Result<(), Failure> {
    let kept = run.keep_document(files);
    let path = with_ending(files, "json");
    let mut document = journal::document_in(&path);
    if document.is_none() && status == i32::from(Status::Usage.code()) && !is_disk_full(run) {
        document = usage_error::document(run, step, &printed.text());
        if let Some(document) = &document {
            let _ = write_json(&path, document);
        }
    }
    let outcome = match &document {
        Some(document) if document.ok && (status == 0 || status == i32::from(Status::Review.code())) => {
            if status != 0 {
                run.note(|state| state.notes.review = true)?;
            }
            Ok(())
        }
        Some(_) if step.options.ok == Some(status) => Ok(()),
        _ => Err(failure_of(run, step, document.as_ref(), status)),
    };
    let tolerated = document.as_ref().and_then(|document| document.error.as_ref());
    let failed = outcome.as_ref().err().map(|failure| (failure.exit_code(), failure.message.as_str()));
    let failed = failed.or_else(|| Some((u8::try_from(status).ok()?, tolerated?.message.as_str())));
    run.say(&console::ended(&step.name, document.as_ref(), failed));
    outcome?;
    kept.map_err(|failure| run.journal_full(&failure))
}

fn failure_of(run: &Run, step: &Step, document: Option<&Document<Value>>, status: i32) -> Failure {
    let status = Status::of_failure(status);
    let Some(error) = document.and_then(|document| document.error.as_ref()) else {
        if is_disk_full(run) {
            let message =
                format!("The step {} ended, and there was no disk space for its document in {}.", step.name, run.dir().display());
            return Failure::failed("journal_full", message).hint(disk_space_hint(&run.state_dir));
        }
        let message = format!("The step {} ended and left no document", step.name);
        // What a dry run has written is gone when this is read.
        if run.dry_run {
            return Failure::new(status, "no_document", format!("{message}."));
        }
        let log = run.dir().join("log");
        return Failure::new(status, "no_document", format!("{message}; see {}.", log.display()))
            .hint(format!("Read {}, then run the same command again.", log.display()));
    };
    let failure = error.clone().into_failure(status);
    Failure { hint: console::hint_of(&run.script, document).or(failure.hint), ..failure }
}

/// Whether a document that is not there may be lost of that.
fn is_disk_full(run: &Run) -> bool {
    file::free_bytes(run.dir()).is_some_and(|free| free < RESERVED_FOR_A_DOCUMENT)
}

/// The newest run that an earlier attempt of this step has made, if the step is a script: it was called for the same thing.
fn nested_run(run: &Run, step: &Step) -> Option<Journal> {
    run.journal().attempt(&step.name)?;
    let script = step.command.first()?.to_string_lossy().rsplit('/').next()?.to_owned();
    let last = step.command.last()?.to_string_lossy().into_owned();
    journal::runs(&run.state_dir).into_iter().find(|other| {
        let plan = other.plan();
        plan.script == script && plan.parent.as_deref() == Some(&run.id) && plan.arguments.last() == Some(&last)
    })
}

/// A script that ended well when nobody was left to keep its document.
fn adopt(run: &Run, step: &Step, nested: &Journal, document: &Document<Value>) -> Result<(), Failure> {
    if nested.notes().review {
        run.note(|state| state.notes.review = true)?;
    }
    let files = run.name_files(&step.name);
    run.note_started(&files, Kind::Step)?;
    let text = serde_json::to_vec(document).unwrap_or_default();
    run.write(&with_ending(&files, "json"), &text, true)
}

/// `svc-upgrade --resume RUN`, with the arguments that are written nowhere.
fn resumed(run: &Run, step: &Step, nested: &Journal) -> Vec<OsString> {
    let mut command: Vec<OsString> = step.command.iter().take(1).cloned().collect();
    command.extend(["--resume".into(), nested.id().into()]);
    if run.rerun_installer {
        command.push("--rerun-installer".into());
    }
    command.extend(step.command.iter().filter(|argument| argument.to_string_lossy().starts_with("--installer-arg=")).cloned());
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_step_message_says_if_run_stopped() {
        let failure = Failure::failed("out_of_space", "The disk is full.");
        assert_eq!(failed("hook-1", &failure).failure.message, "The step hook-1 failed: The disk is full.");
        let ending = ending("prune", &failure).failure;
        assert_eq!(ending.message, "The step prune failed, and the run stopped there: The disk is full.");
        assert_eq!(failed("prune", &ending).failure.message, "The step prune failed: The disk is full.");
    }
}
