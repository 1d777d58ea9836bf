//! `svc-run supervise`: takes the service's lock, keeps the journal, serves the script, and writes the last document.
//!
//! The script has no trap and no lock: whatever ends it, here it is "the script ended".

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::IsTerminal;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::os::unix::net::UnixListener;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use jiff::{SignedDuration, Timestamp};
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use serde_json::Value;
use svc_step::file::{self, Existing};
use svc_step::journal::{self, Journal, Plan, numbered};
use svc_step::{Failure, settings, signals};

use super::protocol::{self, Reply, Request};
use super::report::{self, Outcome};
use super::run::{Caller, Failed, REDACTED, Run};
use super::terminal::{FOLLOWED, Followed};
use super::{again, console, external, recover, resume, step, terminal, undo};

/// How long another run may still hold the lock that is about to end, or that only looks (`svc-run status`).
const SHORTLY: Duration = Duration::from_secs(1);
/// How the hint of a run begins that was rolled back by itself.
const ROLLED_BACK: &str = "It was rolled back";
/// The tools' version.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// When a run can be resumed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Resumable {
    /// What it did not finish is run again from the start
    #[default]
    Never,
    /// From its point of no return on
    Committed,
}

/// The run of a script.
#[derive(Debug, Args)]
pub struct SuperviseArgs {
    /// What the run's ID says of it: upgrade-2.0.1
    #[arg(long)]
    pub kind: String,
    /// Whether the run can be resumed
    #[arg(long, value_enum, default_value_t)]
    pub resumable: Resumable,
    /// The values of this option of the script are written nowhere (installer-arg)
    #[arg(long, value_name = "OPTION")]
    pub private: Vec<String>,
    /// Resume that run, or the one that is to be resumed
    #[arg(long, value_name = "RUN", num_args = 0..=1, default_missing_value = "")]
    pub resume: Option<String>,
    /// Run an external command again although it failed or its outcome is unknown
    #[arg(long, requires = "resume")]
    pub rerun_installer: bool,
    /// Stay on the terminal, which the installer may read from
    #[arg(long)]
    pub attached: bool,
    /// Make the checks, print the commands, change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Print each step
    #[arg(short, long)]
    pub verbose: bool,
    /// Print nothing on stdout: the document is in the run directory only
    #[arg(long)]
    pub silent: bool,
    /// The script and its arguments
    #[arg(last = true, required = true)]
    pub script: Vec<OsString>,
}

/// What is decided before there is a run.
pub struct Begun {
    pub run: Run,
    /// The script and the arguments that it is run with.
    pub command: Vec<OsString>,
    /// Where it is run.
    pub directory: PathBuf,
    /// What is set for it besides its environment.
    pub settings: Vec<(OsString, OsString)>,
    /// Held for as long as the run lasts; none in a dry run, and where the caller holds it.
    _lock: Option<File>,
    _dry: Option<tempfile::TempDir>,
}

/// Runs a script as a run.
pub fn supervise(args: &SuperviseArgs, caller: Caller) -> ExitCode {
    let started = Timestamp::now();
    let script = name_of(&args.script);
    let followed = Followed::from_environment();
    let stay = args.dry_run || args.attached || parent().is_some() || resume::stays_attached(args, &script);
    let this: Vec<OsString> = std::env::args_os().collect();
    if followed.is_none()
        && let Some(code) = terminal::leave(&script, &this, stay, false)
    {
        return code;
    }
    let code = watched(args, caller, &script, started, followed.is_some());
    if let Some(followed) = followed {
        followed.finish();
    }
    match code {
        End::Code(code) => code,
        End::Signal(signal) => {
            signals::die_of(signal);
            ExitCode::FAILURE
        }
    }
}

/// How the process ends.
enum End {
    Code(ExitCode),
    Signal(i32),
}

fn watched(args: &SuperviseArgs, caller: Caller, script: &str, started: Timestamp, followed: bool) -> End {
    let begun = match begin(args, caller, script, started, followed) {
        Ok(begun) => begun,
        Err(failure) => return End::Code(never_begun(args, script, started, &failure)),
    };
    let run = Arc::new(begun.run);
    if let Err(error) = watch_signals(&run) {
        let failure = Failure::failed("signals_lost", format!("Signals cannot be handled: {error}."));
        return End::Code(never_begun(args, script, started, &failure));
    }
    let ended = serve(&run, &begun.command, &begun.directory, &begun.settings);
    finish(&run, args, started, ended, &begun.settings)
}

fn name_of(script: &[OsString]) -> String {
    script.first().map(Path::new).and_then(Path::file_name).unwrap_or_default().to_string_lossy().into_owned()
}

// The begin.

fn begin(args: &SuperviseArgs, caller: Caller, script: &str, started: Timestamp, followed: bool) -> Result<Begun, Failure> {
    let settings = settings::service_settings();
    let state_dir = super::query::state_dir();
    let environment = |extra: Vec<(String, String)>| {
        settings.iter().cloned().chain(extra).map(|(name, value)| (name.into(), value.into())).collect()
    };
    let verbose = args.verbose || std::env::var_os("SVC_VERBOSE").is_some() || std::io::stderr().is_terminal() || followed;
    // It was copied from a journal; the installer would get it as it stands.
    if private_values(&args.script, &args.private).iter().any(|value| value == REDACTED) {
        let message = format!("`{REDACTED}` stands for an argument of the installer in the journal, and is none itself.");
        return Err(Failure::usage("installer_args_missing", message)
            .hint(format!("Pass the argument itself:\n  {script} --installer-arg ARG")));
    }
    if args.dry_run {
        if args.resume.is_some() {
            return Err(Failure::usage("resume_dry_run", "--resume has no dry run.").hint(format!("{script} --status")));
        }
        let dir = tempfile::Builder::new()
            .prefix("svc-dry-run.")
            .tempdir()
            .map_err(|error| Failure::io("make a folder", &std::env::temp_dir(), &error))?;
        let id = new_id(&state_dir, &args.kind, started);
        let run_dir = dir.path().join(id);
        make_dir(&run_dir)?;
        let run = Run::new(script.to_owned(), Journal::at(run_dir), state_dir, caller, true, verbose, false);
        if parent().is_none() {
            recover::plan(&run);
        }
        let directory = here();
        return Ok(Begun {
            run,
            command: args.script.clone(),
            directory,
            settings: environment(Vec::new()),
            _lock: None,
            _dry: Some(dir),
        });
    }
    make_runs(&state_dir)?;
    let (lock, parent) = lock_service(&state_dir)?;
    let cleared = if parent.is_none() { recover::all(&state_dir, &caller, verbose)? } else { Vec::new() };
    if let Some(asked) = &args.resume {
        let resumed = resume::open(args, script, asked, &state_dir)?;
        let mut run = Run::new(
            script.to_owned(),
            resumed.journal,
            state_dir.clone(),
            caller,
            false,
            verbose,
            args.attached || resumed.attached,
        );
        name_holder(&state_dir, &run.id, parent.as_ref());
        run.lock_fd = lock.as_ref().map(AsRawFd::as_raw_fd);
        run.resumed = true;
        run.adopt_undos();
        run.rerun_installer = args.rerun_installer;
        run.private = resumed.private;
        run.private_lost = resumed.private_lost;
        let plan = plan(args, &run, &parent, started);
        write_plan(&run, &plan, run.journal().times() + 1)?;
        run.say(&format!("run {} in {}, resumed", run.id, run.dir().display()));
        log_call(&run, &plan);
        let mut command: Vec<OsString> = args.script.iter().take(1).cloned().collect();
        command.extend(resumed.arguments);
        return Ok(Begun {
            run,
            command,
            directory: resumed.directory,
            settings: environment(resumed.settings),
            _lock: lock,
            _dry: None,
        });
    }
    let id = match std::env::var("SVC_RUN_ID").ok().filter(|id| !id.is_empty() && parent.is_none()) {
        Some(id) => id
            .parse::<svc_step::run_id::RunId>()
            .map_err(|error| Failure::usage("run_id_invalid", format!("SVC_RUN_ID: {error}.")).hint("Unset it."))?
            .to_string(),
        None => new_id(&state_dir, &args.kind, started),
    };
    let dir = state_dir.join("runs").join(&id);
    if dir.exists() {
        return Err(Failure::refused("run_exists", format!("There is a run {id} already."))
            .hint("Unset SVC_RUN_ID: the run gets an ID of its own."));
    }
    let mut run = Run::new(script.to_owned(), Journal::at(&dir), state_dir.clone(), caller, false, verbose, args.attached);
    run.lock_fd = lock.as_ref().map(AsRawFd::as_raw_fd);
    run.expected = console::expected_total(&state_dir, script, &run.id);
    run.private = private_values(&args.script, &args.private);
    let plan = plan(args, &run, &parent, started);
    make_run_dir(&run, &plan)?;
    name_holder(&state_dir, &id, parent.as_ref());
    run.say(&format!("run {id} in {}", dir.display()));
    log_call(&run, &plan);
    if !cleared.is_empty() {
        run.fact("cleared", Value::Array(cleared.into_iter().map(Value::String).collect()))?;
    }
    Ok(Begun { run, command: args.script.clone(), directory: here(), settings: environment(Vec::new()), _lock: lock, _dry: None })
}

fn here() -> PathBuf {
    std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"))
}

fn make_runs(state_dir: &Path) -> Result<(), Failure> {
    svc_step::lock::make_private_folder(&state_dir.join("runs"))
}

fn make_dir(dir: &Path) -> Result<(), Failure> {
    fs::DirBuilder::new().mode(0o700).create(dir).map_err(|error| match error.kind() {
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
            Failure::failed("journal_full", format!("The journal {} cannot be made: the disk is full.", dir.display()))
                .hint(format!("Free disk space for {}, then run the same command again.", dir.display()))
        }
        _ => Failure::refused("state_dir_unusable", format!("The state folder cannot be used: {}.", dir.display()))
            .hint("Run the script as root, or set SVC_STATE_DIR to a folder of your own.")
            .cause(error.to_string()),
    })
}

/// An ID of this second, or of the one after the newest run's: it grows also when the clock went back.
fn new_id(state_dir: &Path, kind: &str, now: Timestamp) -> String {
    let stamp = |time: Timestamp| time.strftime("%Y%m%dt%H%M%Sz").to_string();
    let mut new = stamp(now);
    let newest = journal::runs(state_dir).first().and_then(|run| run.id().get(..16).map(str::to_owned));
    if let Some(newest) = newest.filter(|newest| *newest >= new) {
        let time = jiff::civil::DateTime::strptime("%Y%m%dt%H%M%Sz", &newest)
            .ok()
            .and_then(|time| time.to_zoned(jiff::tz::TimeZone::UTC).ok());
        let next = time.and_then(|time| time.timestamp().checked_add(SignedDuration::from_secs(1)).ok());
        new = next.map_or(newest, stamp);
    }
    format!("{new}-{kind}")
}

/// The run of the script that called this one, where that holds the service's lock.
fn parent() -> Option<String> {
    std::env::var("SVC_LOCK_FD").ok()?;
    std::env::var("SVC_RUN_ID").ok()
}

/// The service's lock, which the tools inherit: one that has outlived its run keeps it until it has ended. With it, the run of the script
/// that called this one, where that holds the lock already.
pub fn lock_service(state_dir: &Path) -> Result<(Option<File>, Option<String>), Failure> {
    let path = state_dir.join("lock");
    let fault = |error: std::io::Error| Failure::io("use the lock of the service", &path, &error);
    if let Some(fd) = std::env::var("SVC_LOCK_FD").ok().and_then(|fd| fd.parse::<u32>().ok()) {
        let held = fs::metadata(format!("/proc/self/fd/{fd}")).ok().zip(fs::metadata(&path).ok());
        if held.is_some_and(|(held, lock)| (held.dev(), held.ino()) == (lock.dev(), lock.ino())) {
            return Ok((None, std::env::var("SVC_RUN_ID").ok()));
        }
    }
    let file = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(&path).map_err(fault)?;
    let until = Instant::now() + SHORTLY;
    loop {
        match file.try_lock() {
            Ok(()) => break,
            Err(TryLockError::WouldBlock) if Instant::now() < until => std::thread::sleep(Duration::from_millis(20)),
            Err(TryLockError::WouldBlock) => {
                let holder = fs::read_to_string(&path).unwrap_or_default();
                return Err(Failure::locked("locked", "Another run holds the lock of the service.")
                    .hint(format!("Wait until it has ended:\n  svc-run status {}", holder.trim())));
            }
            Err(TryLockError::Error(error)) => return Err(fault(error)),
        }
    }
    drop(external::take_lock(state_dir)?);
    fcntl(&file, FcntlArg::F_SETFD(FdFlag::empty())).map_err(|error| fault(error.into()))?;
    Ok((Some(file), None))
}

/// Says which run holds the lock, unless it is a part of the one that does.
fn name_holder(state_dir: &Path, id: &str, parent: Option<&String>) {
    if parent.is_none() {
        let _ = fs::write(state_dir.join("lock"), format!("{id}\n"));
    }
}

/// The values of the script's private options.
pub fn private_values(script: &[OsString], options: &[String]) -> Vec<String> {
    let words: Vec<String> = external::words(script);
    let flags: Vec<String> = options.iter().map(|option| format!("--{option}")).collect();
    let mut values = Vec::new();
    for (number, word) in words.iter().enumerate() {
        if flags.contains(word) {
            values.extend(words.get(number + 1).cloned());
        } else if let Some((flag, value)) = word.split_once('=')
            && flags.iter().any(|known| known == flag)
        {
            values.push(value.to_owned());
        }
    }
    values
}

fn plan(args: &SuperviseArgs, run: &Run, parent: &Option<String>, started: Timestamp) -> Plan {
    let known = settings::KNOWN.iter().filter_map(|name| Some(((*name).to_owned(), std::env::var(name).ok()?)));
    let all = known
        .chain(settings::service_settings())
        .filter(|(name, value)| name != "PATH" && name != "SVC_RUN_ID" && !value.is_empty());
    Plan {
        script: run.script.clone(),
        run_id: run.id.clone(),
        parent: parent.clone(),
        started_at: svc_step::document::Time::from(started).as_str().to_owned(),
        directory: here().display().to_string(),
        user: std::env::var("SUDO_USER")
            .ok()
            .or_else(|| svc_step::user::OsUser::current().map(|user| user.name))
            .unwrap_or_default(),
        tools: VERSION.to_owned(),
        arguments: recorded(&external::words(args.script.get(1..).unwrap_or_default()), &args.private),
        settings: all.map(|(name, value)| (name, svc_step::line_secrets::without_secrets(&value))).collect(),
    }
}

/// The arguments as they are written: without private values, and without the secrets in the others.
fn recorded(words: &[String], private: &[String]) -> Vec<String> {
    let flags: Vec<String> = private.iter().map(|option| format!("--{option}")).collect();
    let mut after_flag = false;
    let mut recorded = Vec::new();
    for word in words {
        let shown = match word.split_once('=') {
            _ if after_flag => REDACTED.to_owned(),
            Some((flag, _)) if flags.iter().any(|known| known == flag) => format!("{flag}={REDACTED}"),
            _ => svc_step::line_secrets::without_secrets(word),
        };
        after_flag = !after_flag && flags.contains(word);
        recorded.push(shown);
    }
    recorded
}

fn write_plan(run: &Run, plan: &Plan, time: u32) -> Result<(), Failure> {
    let text = serde_json::to_vec_pretty(plan).unwrap_or_default();
    file::write_whole(&run.dir().join(numbered("plan", time)), &text, 0o600, Existing::Replace)
        .and_then(|()| file::sync_folder_of(run.dir()))
        .map_err(|failure| run.journal_full(&failure))
}

/// Makes the run directory with its plan, at once: there is no run that nobody knows the command of.
fn make_run_dir(run: &Run, plan: &Plan) -> Result<(), Failure> {
    let new = run.dir().with_file_name(format!(".new-{}", run.id));
    // What a call has left that was killed here.
    let _ = fs::remove_dir_all(&new);
    make_dir(&new)?;
    let text = serde_json::to_vec_pretty(plan).unwrap_or_default();
    let made = file::write_whole(&new.join("plan.json"), &text, 0o600, Existing::Replace)
        .and_then(|()| fs::rename(&new, run.dir()).map_err(|error| Failure::io("make the run directory", run.dir(), &error)))
        .and_then(|()| file::sync_folder_of(run.dir()));
    made.map_err(|failure| {
        let _ = fs::remove_dir_all(&new);
        run.journal_full(&failure)
    })
}

fn log_call(run: &Run, plan: &Plan) {
    let mut words = vec![plan.script.clone()];
    words.extend(plan.arguments.iter().cloned());
    run.log(&format!("typed: {} ({}, in {})", again::quoted(&words), plan.user, plan.directory));
    if let Some(parent) = &plan.parent {
        let log = run.state_dir.join("runs").join(parent).join("log");
        external::append(
            &log,
            &format!("{} run {}: {}\n", Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ"), run.id, again::quoted(&words)),
        );
    }
}

// The run.

fn watch_signals(run: &Arc<Run>) -> std::io::Result<()> {
    let mut wanted = vec![signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM];
    if !signals::inherited_as_ignored(signal_hook::consts::SIGHUP) {
        wanted.push(signal_hook::consts::SIGHUP);
    }
    let mut incoming = signal_hook::iterator::Signals::new(wanted)?;
    let run = Arc::clone(run);
    std::thread::spawn(move || incoming.forever().for_each(|signal| run.interrupt(signal)));
    Ok(())
}

/// Runs the script and serves its requests until it ends; the error is that it could not be started.
fn serve(
    run: &Arc<Run>,
    command: &[OsString],
    directory: &Path,
    settings: &[(OsString, OsString)],
) -> Result<std::process::ExitStatus, Failure> {
    let listener = protocol::listen(run.dir())?;
    let [script, arguments @ ..] = command else { return Err(Failure::usage("script_missing", "No script is named.")) };
    let mut child = Command::new(script);
    child.args(arguments).current_dir(directory).envs(settings.iter().cloned());
    child.envs(own_settings(run)).env_remove(FOLLOWED);
    child.stdin(Stdio::null());
    // Stdout is the last document's alone.
    child.stdout(std::io::stderr().as_fd().try_clone_to_owned().map_or_else(|_| Stdio::null(), Stdio::from));
    let mut child = child.spawn().map_err(|error| {
        Failure::not_found("program_not_found", format!("The script {} cannot be started.", script.to_string_lossy()))
            .cause(error.to_string())
    })?;
    accept(run, listener);
    let ended =
        child.wait().map_err(|error| Failure::failed("script_lost", format!("The end of the script was lost: {error}.")))?;
    protocol::close(run.dir());
    run.close(!ended.success());
    Ok(ended)
}

/// What a script finds in its environment besides the settings.
fn own_settings(run: &Run) -> Vec<(OsString, OsString)> {
    let mut own: Vec<(OsString, OsString)> = vec![
        ("SVC_RUN_DIR".into(), run.dir().into()),
        ("SVC_RUN_ID".into(), run.id.clone().into()),
        ("SVC_SUPERVISOR".into(), std::process::id().to_string().into()),
    ];
    if run.dry_run {
        own.push(("SVC_DRY_RUN".into(), "1".into()));
    }
    if run.verbose {
        own.push(("SVC_VERBOSE".into(), "1".into()));
    }
    if run.resumed {
        own.push(("SVC_RESUMED".into(), "1".into()));
    }
    if let Some(fd) = run.lock_fd {
        own.push(("SVC_LOCK_FD".into(), fd.to_string().into()));
    }
    let all =
        std::env::vars_os().map(|(name, _)| name).chain(settings::service_settings().into_iter().map(|(name, _)| name.into()));
    own.push((super::run::ADDED.into(), run.caller.added(all).into()));
    own
}

fn accept(run: &Arc<Run>, listener: UnixListener) {
    let run = Arc::clone(run);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { continue };
            let run = Arc::clone(&run);
            std::thread::spawn(move || {
                let Some(request) = protocol::receive(&stream) else { return };
                let reply = match answer(&run, request) {
                    Ok(status) => Reply { status, message: None },
                    Err(failure) => Reply { status: i32::from(failure.exit_code()), message: None },
                };
                let _ = protocol::send(&mut stream, &reply);
            });
        }
    });
}

/// Does what the script asks, and gives the exit status of its call; an error is one that has ended the run.
fn answer(run: &Arc<Run>, request: Request) -> Result<i32, Failure> {
    let busy = run.admit()?;
    let done = match request {
        Request::Step(wanted) => step::run(run, &wanted).map(|_| 0),
        Request::Start(wanted) => {
            start(run, wanted);
            Ok(0)
        }
        Request::Wait { steps, all } => wait(run, &steps, all).map(|()| 0),
        Request::Undo(undo) => run.register_undo(undo).map(|()| 0),
        Request::Commit { hint } => run.commit(&hint).map(|()| 0),
        Request::Verdict => verdict(run).map(|()| 0),
        Request::Note { key, values, list, from } => {
            noted(run, values, list, from).and_then(|value| run.fact(&key, value)).map(|()| 0)
        }
        Request::Warn { review, code, text } => run.warn(&code, text, review).map(|()| 0),
        Request::Fail { status, code, text, hint } => Err(Failure::new(super::run::status_of(status), &code, text).hint(hint)),
    };
    drop(busy);
    if let Err(failure) = &done {
        run.fail(Failed::from(failure));
    }
    done
}

fn start(run: &Arc<Run>, wanted: protocol::Step) {
    run.state().started.insert(wanted.name.clone(), None);
    let run = Arc::clone(run);
    std::thread::spawn(move || {
        let ended = match run.admit() {
            Ok(_busy) => step::run(&run, &wanted).map(|_| ()),
            Err(failure) => Err(failure),
        };
        run.state().started.insert(wanted.name, Some(ended));
        run.notify();
    });
}

/// The value of a fact.
fn noted(run: &Run, values: Vec<String>, list: bool, from: Option<String>) -> Result<Value, Failure> {
    let first = values.first().map_or("", String::as_str);
    if let Some(step) = from {
        let document =
            run.journal().attempt(&step).and_then(|one| one.document).and_then(|document| serde_json::to_value(document).ok());
        let found = document.as_ref().and_then(|document| document.pointer(&first.replace('.', "/")));
        return Ok(found.cloned().unwrap_or(Value::Null));
    }
    Ok(match (list, first) {
        (true, _) => Value::Array(values.into_iter().map(Value::String).collect()),
        (false, "true") => Value::Bool(true),
        (false, "false") => Value::Bool(false),
        (false, "") => Value::Null,
        (false, text) => Value::String(text.to_owned()),
    })
}

/// Waits for all; the first that fails ends the others at once, unless all are to be finished.
fn wait(run: &Run, steps: &[String], all: bool) -> Result<(), Failure> {
    let mut first: Option<Failure> = None;
    let mut state = run.state();
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
    let (checks, failed) = {
        let mut state = run.state();
        (state.checks.clone(), std::mem::take(&mut state.failed_checks))
    };
    run.fact("preflight", serde_json::to_value(&checks).unwrap_or_default())?;
    console::preflight(&checks).iter().for_each(|line| run.say(line));
    let count = failed.len();
    match failed.into_iter().next() {
        None => Ok(()),
        Some(mut failed) => {
            if count > 1 {
                failed.message = format!("{count} checks failed. {}", failed.message);
            }
            let failure = Failure::new(
                super::run::status_of(u8::try_from(failed.status).unwrap_or(1)),
                &failed.code,
                failed.message.clone(),
            );
            run.fail(failed);
            Err(failure)
        }
    }
}

// The end.

fn finish(
    run: &Run,
    args: &SuperviseArgs,
    started: Timestamp,
    ended: Result<std::process::ExitStatus, Failure>,
    settings: &[(OsString, OsString)],
) -> End {
    let mut signal = run.signal();
    let (mut failed, deferred) = {
        let mut state = run.state();
        (state.failed.take(), state.deferred.take())
    };
    match &ended {
        Ok(ended) if ended.success() => failed = failed.or(deferred),
        Ok(ended) => failed = failed.or_else(|| Some(script_failed(ended))),
        Err(failure) => failed = failed.or_else(|| Some(Failed::from(failure))),
    }
    if let Some(signal) = signal {
        failed = Some(interrupted(signal, failed));
    }
    let committed = run.committed();
    let environment = step_environment(run, settings);
    // Where all that the run did is undone however it ends, nothing is left of it.
    let for_its_time = run.undo_list().iter().all(|undo| undo.always) && !run.undo_list().is_empty();
    let left = undo::run_all(run, &environment, failed.is_some());
    // One that came while a rollback was running has ended that; a run that had ended well has ended well.
    if let (None, Some(late), true) = (signal, run.signal(), failed.is_some()) {
        signal = Some(late);
        failed = Some(interrupted(late, failed));
    }
    if !left.is_empty() {
        let commands = left.iter().map(|undo| format!("  {}", undo::typed(run, undo))).collect::<Vec<_>>().join("\n");
        let _ = run.warn("undo_failed", format!("Not everything was undone. What is left to run by hand:\n{commands}"), true);
    }
    let undone = failed.is_some() && committed.is_none() && left.is_empty();
    run.state().plan.iter().for_each(|line| console::plain(line));
    let outcome = Outcome {
        script: run.script.clone(),
        version: VERSION.to_owned(),
        run_id: run.id.clone(),
        status: status(run, failed.as_ref(), signal),
        dry_run: run.dry_run,
        started,
        failed_step: failed.as_ref().and_then(|failed| failed.step.clone()),
        code: failed.as_ref().map(|failed| failed.code.clone()).unwrap_or_default(),
        message: failed.as_ref().map(|failed| failed.message.clone()).unwrap_or_default(),
        hint: failed.as_ref().map(|failed| hint(run, failed, committed.as_deref(), undone, args)),
        undone: if undone || (for_its_time && committed.is_none() && left.is_empty()) { own_steps(run) } else { Vec::new() },
        plan: run.state().plan.clone(),
    };
    publish(run, args, outcome, signal)
}

/// The steps whose effects the undos have taken back: all but scripts, which are runs of their own and have their own restore points.
fn own_steps(run: &Run) -> Vec<String> {
    let attempts = run.journal().attempts();
    let own = attempts.iter().filter(|one| one.document.as_ref().is_none_or(|document| !document.schema.ends_with(".run/1")));
    own.map(|one| one.step.clone()).collect()
}

fn status(run: &Run, failed: Option<&Failed>, signal: Option<i32>) -> i32 {
    match (signal, failed) {
        (Some(signal), _) => 128 + signal,
        (None, Some(failed)) if (1..=8).contains(&failed.status) => failed.status,
        (None, Some(_)) => 1,
        (None, None) if run.state().notes.review => 9,
        (None, None) => 0,
    }
}

fn script_failed(ended: &std::process::ExitStatus) -> Failed {
    let how = match (ended.code(), ended.signal()) {
        (Some(code), _) => format!("it ended with status {code}"),
        (None, Some(signal)) => format!("it was ended by {}", signals::name(signal)),
        (None, None) => "nobody knows how".to_owned(),
    };
    Failed { status: 1, code: "failed".to_owned(), message: format!("The script itself failed: {how}."), ..Failed::default() }
}

fn interrupted(signal: i32, failed: Option<Failed>) -> Failed {
    let external = failed.as_ref().is_some_and(|failed| failed.code == "external_running");
    let how = if external { "is still" } else { "was" };
    let during = failed.as_ref().and_then(|failed| failed.step.as_ref()).map(|step| format!(" The step {step} {how} running."));
    Failed {
        status: 128 + signal,
        step: failed.as_ref().and_then(|failed| failed.step.clone()),
        code: "interrupted".to_owned(),
        message: format!("The run was ended by {}.{}", signals::name(signal), during.unwrap_or_default()),
        hint: failed.filter(|_| external).and_then(|failed| failed.hint),
    }
}

/// Before the point of no return everything was undone; after it, the script has told what helps.
fn hint(run: &Run, failed: &Failed, committed: Option<&str>, undone: bool, args: &SuperviseArgs) -> String {
    let own = failed.hint.clone();
    let join =
        |parts: [Option<String>; 3]| parts.into_iter().flatten().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n");
    if let Some(rolled_back) = undo::rolled_back(run) {
        return match rolled_back {
            Ok(version) => join([Some(format!("{ROLLED_BACK}: {version} runs again.")), own, None]),
            Err(hint) => {
                join([Some("It was to be rolled back, and that failed too.".to_owned()), hint, committed.map(str::to_owned)])
            }
        };
    }
    if let Some(committed) = committed {
        if own.as_ref().is_some_and(|own| own.starts_with(ROLLED_BACK)) {
            return join([own, Some("The hops that are left are an upgrade of their own.".to_owned()), None]);
        }
        let is_hook = failed.step.as_ref().is_some_and(|step| step.starts_with("hook-"));
        let rerun = (failed.code == "command_failed" && !is_hook && !is_script(run, failed)).then(|| external::rerun_hint(run));
        return join([own, rerun, Some(committed.to_owned())]);
    }
    let again = format!("Run the same command again:\n  {}", run_again(run, args));
    join([undone.then(|| "Nothing was changed.".to_owned()), Some(own.unwrap_or(again)), None])
}

/// Whether the step that failed is a script, which has told what helps.
fn is_script(run: &Run, failed: &Failed) -> bool {
    let document = failed.step.as_ref().and_then(|step| run.journal().attempt(step)?.document);
    document.is_some_and(|document| document.schema.ends_with(".run/1"))
}

/// The command line of the run; the private arguments are written nowhere.
fn run_again(run: &Run, args: &SuperviseArgs) -> String {
    let mut words = vec![run.script.clone()];
    words.extend(recorded(&external::words(args.script.get(1..).unwrap_or_default()), &args.private));
    again::quoted(&words)
}

/// The environment of the steps of the end, which no script hands over.
fn step_environment(run: &Run, settings: &[(OsString, OsString)]) -> Vec<(OsString, OsString)> {
    let mut environment: Vec<(OsString, OsString)> = std::env::vars_os().collect();
    environment.extend(settings.iter().cloned());
    environment.extend(own_settings(run));
    environment.retain(|(name, _)| name != FOLLOWED);
    environment
}

/// Writes the last document into the journal and on stdout, tells a person, and ends.
fn publish(run: &Run, args: &SuperviseArgs, mut outcome: Outcome, signal: Option<i32>) -> End {
    let mut document = report::document(Some(run.journal()), &run.state().notes.clone(), &outcome);
    if !run.dry_run {
        let path = run.journal().document_path();
        let text = serde_json::to_vec(&document).unwrap_or_default();
        if file::write_whole(&path, &text, 0o600, Existing::Replace).is_err() && outcome.is_ok() {
            // A run of which nobody can read how it ended has not ended well.
            outcome.status = 1;
            outcome.code = "journal_full".to_owned();
            outcome.message = format!("All was done, but the last document could not be written to {}.", run.dir().display());
            outcome.hint = Some(format!("Free disk space for {}.", run.state_dir.display()));
            document = report::document(Some(run.journal()), &run.state().notes.clone(), &outcome);
        }
    }
    run.log(&format!("ended with status {}", outcome.status));
    print(&run.script, &document, args.silent && !run.dry_run);
    match signal {
        Some(signal) => End::Signal(signal),
        None => End::Code(ExitCode::from(u8::try_from(outcome.status).unwrap_or(1))),
    }
}

/// The document on stdout, or its summary where a person looks; the two lines of a failure. A reader that has gone is no failure.
fn print(script: &str, document: &svc_step::document::Document<report::RunResult>, silent: bool) {
    match console::summary(document).filter(|_| std::io::stdout().is_terminal()) {
        _ if silent => {}
        Some(summary) => console::plain(&summary),
        None => drop(console::lines(&[serde_json::to_string(document).unwrap_or_default()])),
    }
    if let Some(error) = &document.error {
        console::plain(&console::failure(script, error));
    }
}

/// A run that ended before it had a directory.
fn never_begun(args: &SuperviseArgs, script: &str, started: Timestamp, failure: &Failure) -> ExitCode {
    let outcome = Outcome {
        script: script.to_owned(),
        version: VERSION.to_owned(),
        run_id: svc_step::run_id::RunId::by_hand(started).to_string(),
        status: i32::from(failure.exit_code()),
        dry_run: args.dry_run,
        started,
        code: failure.code.clone(),
        message: failure.message.clone(),
        hint: failure.hint.clone(),
        ..Outcome::default()
    };
    let document = report::document(None, &journal::Notes::default(), &outcome);
    print(script, &document, args.silent && !args.dry_run);
    ExitCode::from(failure.exit_code())
}
