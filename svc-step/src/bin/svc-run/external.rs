//! Commands that are not ours: installers, uninstallers, hooks. Each runs in a session of its own under the lock of such commands; its
//! output and its exit status come into the journal whatever becomes of the script and of its supervisor.

use std::fmt::Display;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_step::document::{Document, ErrorPart};
use svc_step::journal::{Attempt, Journal, Kind, with_ending};
use svc_step::lock;
use svc_step::redact::without_secrets;
use svc_step::reporter::shell_quoted;
use svc_step::secret::REDACTED;
use svc_step::steps;
use svc_step::work::{Lost, Work};
use svc_step::{Failure, Status, file};

use super::private_arguments;
use super::protocol::Step;
use super::run::{Run, write_json};

/// How long another run may still hold the lock that is about to end, or that only reads (`svc-run status`).
pub const SHORTLY: Duration = Duration::from_secs(1);
/// The status of a holder that did not begin its command; if the system has a number for why, that.
pub const NOT_BEGUN: u8 = 255;
/// How much of the journal's disk must be free for a command's output.
const RESERVED: u64 = 8 * 1024 * 1024;
/// How much of a failed command's output is read for its last lines.
const TAIL: u64 = 4096;

/// The result of such a command (schema `svc-run.command/1`).
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct CommandResult {
    /// The step.
    pub name: String,
    /// The command and its arguments, without those that are written nowhere.
    pub argv: Vec<String>,
    /// Its exit status.
    pub exit_status: i32,
    /// The file that holds what it printed.
    pub output: String,
}

/// Runs such a command, or finds what became of an earlier attempt: one that failed, or whose outcome is unknown, is not run again without
/// `--rerun-installer` (a hook that failed is).
pub fn perform(run: &Run, step: &Step) -> Result<(), Failure> {
    if let Some(earlier) = run.journal().attempt(&step.name)
        && let Some(outcome) = earlier_outcome(run, step, &earlier)
    {
        return outcome;
    }
    if step.name == steps::INSTALLER {
        refuse_lost_arguments(run)?;
    }
    if file::free_bytes(run.dir()).is_some_and(|free| free < RESERVED) {
        return Err(run.journal_full(&Failure::failed("out_of_space", "Less than 8 MiB are free for the output of the command.")));
    }
    let lock = take_lock(&run.state_dir)?;
    let files = run.name_files(&step.name);
    run.log(&format!("external {}: {}", step.name, shell_quoted(&run.shown(&step.command))));
    let undos = run.note_started(&files, Kind::External)?;
    // Whoever finds the lock free, and this file without `.rc`, knows which process to ask for.
    let _ = fs::write(lock_path(&run.state_dir), format!("{}\n", files.display()));
    run.tell_begin(&files);
    let ended = hold(run, step, &files, lock).and_then(|holder| outcome(run, step, &files, holder));
    ended.map_err(|stop| {
        if !stop.begun {
            let _ = fs::remove_file(with_ending(&files, "started"));
            undos.into_iter().for_each(|undos| run.withdraw_commit(undos));
        }
        stop.failure
    })
}

/// Refuses to run an installer without the arguments that the run was called with first.
/// Errors: they are not passed again (2).
pub fn refuse_lost_arguments(run: &Run) -> Result<(), Failure> {
    if !run.private_lost {
        return Ok(());
    }
    let rerun = if run.rerun_installer { " --rerun-installer" } else { "" };
    Err(Failure::usage("options_invalid", "The installer has arguments, which are not recorded.")
        .hint(format!("Pass them again:\n  {}{rerun} --installer-arg ARG", resume(run))))
}

/// The failure of a command, and whether it was begun: else it has changed nothing.
struct Stop {
    failure: Failure,
    begun: bool,
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self { failure, begun: true }
    }
}

/// Starts the holder, which runs the command and writes how it ended, and waits for it. A signal ends the waiting, not the command.
/// None if its own end was lost.
fn hold(run: &Run, step: &Step, files: &Path, lock: File) -> Result<Option<ExitStatus>, Stop> {
    let log = OpenOptions::new().append(true).create(true).mode(0o600).open(run.dir().join("log"));
    let log = log.map_err(|error| not_begun(run, step, error))?;
    let private = if step.name == steps::INSTALLER { run.private.len() } else { 0 };
    // This program, even if a newer one has been installed in its place meanwhile; `ps` shows it under its name.
    let mut holder = Command::new("/proc/self/exe");
    holder.arg0("svc-run").arg("hold").arg("--files").arg(files).args(["--private", &private.to_string()]);
    // That of the run that has called this one, if this one has none of its own.
    if let Some(fd) = run.lock_fd.map(|fd| fd.to_string()).or_else(|| std::env::var("SVC_LOCK_FD").ok()) {
        holder.args(["--lock", &fd]);
    }
    if run.attached {
        holder.arg("--terminal");
    }
    if run.signal().is_some() {
        return Err(not_begun(run, step, "a signal came before"));
    }
    holder.arg("--").args(&step.command).current_dir(&step.directory).env_clear().envs(run.caller.environment.iter().cloned());
    // The lock is the holder's standard input: it is taken before the holder exists, and nobody else inherits it.
    let mut holder =
        holder.stdin(Stdio::from(lock)).stdout(Stdio::null()).stderr(log).spawn().map_err(|error| not_begun(run, step, error))?;
    let holder = Work::begin(move || holder.wait());
    loop {
        match holder.ended(Duration::from_millis(50)) {
            Ok(Some(ended)) => return Ok(ended.ok()),
            Ok(None) if run.signal().is_some() => return Err(still_running(step, files).into()),
            Ok(None) => {}
            Err(Lost) => return Ok(None),
        }
    }
}

fn still_running(step: &Step, files: &Path) -> Failure {
    Failure::locked("external_running", format!("The command of the step {} is still running.", step.name))
        .hint(format!("Wait until it has ended; it prints to {}.", with_ending(files, "out").display()))
}

fn not_begun(run: &Run, step: &Step, why: impl Display) -> Stop {
    let mut failure = Failure::fault(format!("The command of the step {} was not begun: {why}.", step.name));
    // Before the point of no return the whole run is undone.
    if run.script == "svc-rollback" && step.name == steps::INSTALLER {
        failure = failure.hint(format!("With another installer:\n  {} --installer FILE", resume(run)));
    }
    Stop { failure, begun: false }
}

/// What became of the command, by what its holder has written.
fn outcome(run: &Run, step: &Step, files: &Path, holder: Option<ExitStatus>) -> Result<(), Stop> {
    let status = fs::read_to_string(with_ending(files, "rc")).ok().and_then(|text| text.trim().parse::<i32>().ok());
    match status {
        Some(status) => {
            let document = write_document(run, step, files, status);
            run.say(&format!("{}: ended with status {status}", step.name));
            Ok(check_outcome(run, &document)?)
        }
        None if is_running(&run.state_dir) => Err(still_running(step, files).into()),
        None if with_ending(files, "out").exists() => {
            remove_unredacted(run.journal());
            Err(unknown(run, step).into())
        }
        // The supervisor itself has written that file: what has removed it since is the command.
        None if !with_ending(files, "started").exists() => Err(unknown(run, step).into()),
        None => match holder.and_then(|holder| holder.code()).filter(|code| *code != i32::from(NOT_BEGUN)) {
            Some(number) => Err(not_begun(run, step, std::io::Error::from_raw_os_error(number))),
            None => Err(not_begun(run, step, "its holder ended before it")),
        },
    }
}

fn check_outcome(run: &Run, document: &Document<CommandResult>) -> Result<(), Failure> {
    let Some(error) = document.error.clone() else { return Ok(()) };
    run.log(&error.message);
    Err(error.into_failure(Status::Failed))
}

/// The document of a command that has ended. Where there is no disk space for it, the next step finds that too; the status is kept.
fn write_document(run: &Run, step: &Step, files: &Path, status: i32) -> Document<CommandResult> {
    let time = |ending: &str| {
        let modified = fs::metadata(with_ending(files, ending)).and_then(|data| data.modified()).ok();
        modified.and_then(|time| Timestamp::try_from(time).ok()).unwrap_or_else(Timestamp::now)
    };
    let (began, ended) = (time("started"), time("rc"));
    let output = with_ending(files, "out");
    // An installer may repeat its arguments in words of its own.
    let causes =
        if status == 0 || (step.name == steps::INSTALLER && has_private(run)) { Vec::new() } else { last_lines(&output) };
    let document = Document {
        ok: status == 0,
        // One that failed may have changed anything.
        changed: (status == 0).then_some(true),
        finished_at: ended.into(),
        duration_ms: u64::try_from(ended.duration_since(began).as_millis()).unwrap_or(0),
        result: Some(CommandResult {
            name: step.name.clone(),
            argv: run.shown(&step.command),
            exit_status: status,
            output: output.display().to_string(),
        }),
        error: (status != 0).then(|| ErrorPart {
            code: "command_failed".to_owned(),
            message: format!("The command of the step {} ended with status {status}.", step.name),
            hint: Some(format!("Read {}.", output.display())),
            retryable: false,
            causes,
        }),
        ..Document::new("svc-run", "command", &run.id, began)
    };
    let _ = write_json(&with_ending(files, "json"), &document);
    document
}

/// Writes the document of a command that ended well when nobody was left to write it.
pub fn complete(run: &Run, step: &Step) {
    let earlier = run.journal().attempt(&step.name).filter(|earlier| earlier.document.is_none());
    if let Some((earlier, status)) = earlier.and_then(|earlier| Some((earlier.files, earlier.exit_status?))) {
        write_document(run, step, &earlier, status);
    }
}

/// Removes what an installer printed whose holder did not live to take its arguments out of that: nobody knows them now. It has ended.
pub fn remove_unredacted(run: &Journal) {
    let lost = run.attempt(steps::INSTALLER).filter(|one| one.kind == Kind::External && one.exit_status.is_none());
    let Some(output) = lost.map(|one| with_ending(&one.files, "out")).filter(|output| output.exists()) else { return };
    if run.plans().iter().any(|plan| plan.arguments.iter().any(|argument| argument.contains(REDACTED))) {
        let _ = fs::write(output, private_arguments::REMOVED);
    }
}

fn last_lines(output: &Path) -> Vec<String> {
    let Ok(mut file) = File::open(output) else { return Vec::new() };
    let length = file.metadata().map_or(0, |data| data.len());
    let mut text = Vec::new();
    if file.seek(SeekFrom::Start(length.saturating_sub(TAIL))).and_then(|_| file.read_to_end(&mut text)).is_err() {
        return Vec::new();
    }
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<String> = text.lines().filter(|line| !line.is_empty()).map(without_secrets).collect();
    lines.iter().skip(lines.len().saturating_sub(5)).cloned().collect()
}

/// In a resumed run: what an earlier attempt came to. None if the command is to be run.
fn earlier_outcome(run: &Run, step: &Step, earlier: &Attempt) -> Option<Result<(), Failure>> {
    if !earlier.command_has_begun() {
        return None;
    }
    if earlier.exit_status.is_none() && is_running(&run.state_dir) {
        return Some(Err(still_running(step, &earlier.files)));
    }
    let ok = match (&earlier.document, earlier.exit_status) {
        (Some(document), _) => Some(document.ok),
        (None, Some(status)) => Some(write_document(run, step, &earlier.files, status).error.is_none()),
        (None, None) => None,
    };
    match ok {
        Some(true) => Some(Ok(())),
        _ if run.rerun_installer => None,
        None => Some(Err(unknown(run, step))),
        Some(false) if is_hook(&step.name) => None,
        Some(false) => {
            let status = earlier.exit_status.map_or_else(|| "an unknown status".to_owned(), |status| format!("status {status}"));
            let output = with_ending(&earlier.files, "out");
            let text = format!(
                "The command of the step {} ended with {status}, and is not run again automatically; see {}.",
                step.name,
                output.display()
            );
            Some(Err(Failure::refused("command_failed", text).hint(rerun_hint(run))))
        }
    }
}

/// A hook that failed is run again by itself.
pub fn is_hook(step: &str) -> bool {
    step.starts_with("hook-")
}

fn unknown(run: &Run, step: &Step) -> Failure {
    let text = format!(
        "The outcome of the step {} is unknown: its command has left no exit status in {}.",
        step.name,
        run.dir().display()
    );
    Failure::refused("outcome_unknown", text).hint(rerun_hint(run))
}

/// Whether the installer has arguments that are not recorded.
const fn has_private(run: &Run) -> bool {
    run.private_lost || !run.private.is_empty()
}

pub fn rerun_hint(run: &Run) -> String {
    let (with, private) = match has_private(run) {
        true => (", with its arguments, which are not recorded", " --installer-arg ARG"),
        false => ("", ""),
    };
    format!("If it can safely be run twice{with}:\n  {} --rerun-installer{private}", resume(run))
}

fn resume(run: &Run) -> String {
    let plan = run.journal().plan();
    let program = Some(plan.program()).filter(|program| !program.is_empty());
    shell_quoted(&[program.unwrap_or(&run.script), "--resume", &run.id])
}

// The lock of such commands.

fn lock_path(state_dir: &Path) -> PathBuf {
    state_dir.join("external.lock")
}

/// Takes the lock, waiting for one that has just ended.
/// Errors: such a command of an earlier run is still running (8).
pub fn take_lock(state_dir: &Path) -> Result<File, Failure> {
    let path = lock_path(state_dir);
    let fault = |error: std::io::Error| Failure::io("use the lock of external commands", &path, &error);
    let file = lock::open(&path).map_err(fault)?;
    if lock::within(SHORTLY, &file).map_err(fault)? && !recorded_is_alive(&path) {
        return Ok(file);
    }
    Err(Failure::locked("external_running", "An installer or another external command of an earlier run is still running.").hint(
        format!(
            "Wait until it has ended: its output is {}.",
            recorded(&path)
                .map_or_else(|| "in the newest run".to_owned(), |files| with_ending(&files, "out").display().to_string())
        ),
    ))
}

pub fn is_running(state_dir: &Path) -> bool {
    running(state_dir).is_some()
}

/// The files of such a command that is running.
pub fn running(state_dir: &Path) -> Option<PathBuf> {
    let path = lock_path(state_dir);
    (lock::holder(&path).is_some() || recorded_is_alive(&path)).then(|| recorded(&path).unwrap_or_default())
}

/// The files of the command that has the lock, or had it last.
fn recorded(path: &Path) -> Option<PathBuf> {
    let text = fs::read_to_string(path).ok()?;
    (!text.trim().is_empty()).then(|| PathBuf::from(text.trim()))
}

/// Whether the command itself lives although its holder, which holds the lock, was killed.
fn recorded_is_alive(path: &Path) -> bool {
    let Some(files) = recorded(path) else { return false };
    if with_ending(&files, "rc").exists() {
        return false;
    }
    let recorded = fs::read_to_string(with_ending(&files, "process")).unwrap_or_default();
    let mut words = recorded.split_whitespace();
    let (Some(process), Some(started)) = (words.next(), words.next()) else { return false };
    started_at(process).is_some_and(|now| now == started)
}

/// When a process was started, in the kernel's ticks: with its number it names the process.
pub fn started_at(process: &str) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let after_name = stat.rsplit_once(')')?.1;
    let mut fields = after_name.split_whitespace();
    // Of one that has ended and was not waited for, nothing runs any more.
    let state = fields.next()?;
    (state != "Z" && state != "X").then(|| fields.nth(18).map(str::to_owned)).flatten()
}
