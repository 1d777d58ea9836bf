//! The begin of a run: its lock, its ID, its directory, what earlier runs have left, and what it was called with.

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use jiff::{SignedDuration, Timestamp};
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use svc_step::file::{self, Existing};
use svc_step::journal::{self, Journal, Plan, numbered};
use svc_step::reporter::shell_quoted;
use svc_step::run_id::{self, RunId, stamp};
use svc_step::secret::REDACTED;
use svc_step::{Failure, deadline, settings};

use super::arguments::SuperviseArgs;
use super::command_line::{here, private_values, program, recorded, texts};
use super::run::{Caller, Run, append, disk_space_hint};
use super::{console, external, protocol, recover, resume};

/// What is decided before there is a run.
pub struct Begun {
    pub run: Run,
    /// The script and the arguments that it is run with.
    pub command: Vec<OsString>,
    /// Where it is run.
    pub directory: PathBuf,
    /// What is set for it besides its environment.
    pub settings: Vec<(OsString, OsString)>,
    /// Held for as long as the run lasts; none in a dry run, and if the caller holds it.
    _lock: Option<File>,
    _dry: Option<tempfile::TempDir>,
}

impl Begun {
    /// The script as it is called, where it is called.
    fn here(run: Run, args: &SuperviseArgs) -> Self {
        Self { run, command: args.script.clone(), directory: here(), settings: environment(Vec::new()), _lock: None, _dry: None }
    }
}

/// Begins a run. `recovered` is what was undone of earlier ones, even if this one is refused then.
/// Errors: another run holds the lock (8); it cannot be resumed, or its journal cannot be written.
pub fn begin(
    args: &SuperviseArgs,
    caller: Caller,
    script: &str,
    started: Timestamp,
    recovered: &mut recover::Recovered,
) -> Result<Begun, Failure> {
    let state_dir = super::query::state_dir();
    check_call(args, script, &state_dir)?;
    let verbose = args.verbose || std::env::var_os("SVC_VERBOSE").is_some() || svc_step::reporter::is_watched();
    let (lock, parent) = if args.dry_run { (None, parent()) } else { lock_service(&state_dir)? };
    if parent.is_none() && !args.dry_run {
        recover::all(&state_dir, &caller, verbose, recovered)?;
    }
    let new = |journal| {
        let mut run = Run::new(script.to_owned(), journal, state_dir.clone(), caller);
        (run.dry_run, run.verbose) = (args.dry_run, verbose);
        run.attached = args.attached || std::env::var_os("SVC_ATTACHED").is_some();
        run.lock_fd = lock.as_ref().map(AsRawFd::as_raw_fd);
        run
    };
    if args.dry_run {
        return dry_run(args, started, &state_dir, parent.as_ref(), new);
    }
    let begun = match &args.resume {
        Some(asked) => resumed(args, resume::open(args, script, asked, &state_dir)?, started, parent.as_ref(), new)?,
        None => fresh(args, started, &state_dir, parent.as_ref(), new)?,
    };
    tell_recovered(&begun.run, recovered)?;
    Ok(Begun { _lock: lock, ..begun })
}

/// Refuses a call that no run could be made of.
fn check_call(args: &SuperviseArgs, script: &str, state_dir: &Path) -> Result<(), Failure> {
    // The supervisor was killed before its script had come here: what that began now would be a run that nobody has asked for any more.
    if std::env::var_os("SVC_SUPERVISOR").is_some()
        && let Some(run) = std::env::var_os("SVC_RUN_DIR")
    {
        drop(protocol::connect(Path::new(&run))?);
    }
    // It was copied from a journal or a hint; the installer, or the shell, would get it as it stands.
    let values = ["uninstall".to_owned()].iter().chain(&args.private).cloned().collect::<Vec<_>>();
    let values = private_values(&texts(&args.script), &values);
    let invalid = |message: String| {
        Err(Failure::usage("options_invalid", message).hint(format!("The script's options:\n  {script} --help")))
    };
    if let Some(value) = values.iter().find(|value| [REDACTED, "ARG", "COMMAND"].contains(&value.as_str())) {
        return invalid(format!("`{value}` stands for a value that is not shown: pass the value itself."));
    }
    if args.rerun_installer && args.resume.is_none() {
        return invalid("--rerun-installer belongs to --resume.".to_owned());
    }
    for name in settings::known().filter(|name| name.ends_with("_TIMEOUT")) {
        let limit = settings::setting(name);
        let read = deadline::with_unit(&limit);
        let read = read.and_then(|limit| if limit.is_zero() { Err("it is 0".to_owned()) } else { Ok(limit) });
        if let (false, Err(error)) = (limit.is_empty(), read) {
            return Err(Failure::usage("settings_invalid", format!("{name}: {error}.")).hint(format!("Set {name}, or unset it.")));
        }
    }
    if parent().is_none() {
        refuse_of_another_product(state_dir, &settings::product())?;
    }
    if args.dry_run && args.resume.is_some() {
        return Err(Failure::usage("not_resumable", "--resume has no dry run.").hint("svc-run status"));
    }
    Ok(())
}

/// A dry run has a directory that is gone after it.
fn dry_run(
    args: &SuperviseArgs,
    started: Timestamp,
    state_dir: &Path,
    parent: Option<&String>,
    new: impl FnOnce(Journal) -> Run,
) -> Result<Begun, Failure> {
    let dir = tempfile::Builder::new()
        .prefix("svc-dry-run.")
        .tempdir()
        .map_err(|error| Failure::io("make a directory", &std::env::temp_dir(), &error))?;
    let run_dir = dir.path().join(new_id(state_dir, &args.kind, started));
    make_dir(&run_dir)?;
    let run = new(Journal::at(run_dir));
    if parent.is_none() {
        recover::plan(&run);
    }
    Ok(Begun { _dry: Some(dir), ..Begun::here(run, args) })
}

/// A run that is resumed keeps its directory, and where and with what it was called.
fn resumed(
    args: &SuperviseArgs,
    earlier: resume::Resumed,
    started: Timestamp,
    parent: Option<&String>,
    new: impl FnOnce(Journal) -> Run,
) -> Result<Begun, Failure> {
    let mut run = new(earlier.journal);
    name_holder(&run.state_dir, &run.id, parent);
    run.attached |= earlier.attached;
    run.resumed = true;
    run.adopt_undos(|_| true);
    run.rerun_installer = args.rerun_installer;
    run.private = earlier.private;
    run.private_lost = earlier.private_lost;
    let plan = plan(args, &run, parent, started);
    write_plan(&run, &plan, run.journal().times() + 1)?;
    run.say(&format!("run {} in {}, resumed", run.id, run.dir().display()));
    log_call(&run, &plan);
    let mut command: Vec<OsString> = args.script.iter().take(1).cloned().collect();
    command.extend(earlier.arguments);
    let settings = environment(earlier.settings);
    Ok(Begun { command, directory: earlier.directory, settings, ..Begun::here(run, args) })
}

/// A new run, with the ID that the caller has set, or one of this second.
fn fresh(
    args: &SuperviseArgs,
    started: Timestamp,
    state_dir: &Path,
    parent: Option<&String>,
    new: impl FnOnce(Journal) -> Run,
) -> Result<Begun, Failure> {
    let id = match std::env::var("SVC_RUN_ID").ok().filter(|id| !id.is_empty() && parent.is_none()) {
        Some(id) => given_id(state_dir, id, started)?,
        None => new_id(state_dir, &args.kind, started),
    };
    if id.parse::<RunId>().is_err() {
        let message = format!("--kind {}: the ID of a run has the letters a-z, digits, `.` and `-` only.", args.kind);
        return Err(Failure::usage("options_invalid", message).hint("Name such a kind in the script's in_run."));
    }
    let journal = Journal::of(state_dir, &id);
    let dir = journal.dir().to_owned();
    if dir.exists() {
        return Err(Failure::refused("name_in_use", format!("There is a run {id} already."))
            .hint("Unset SVC_RUN_ID: the run gets an ID of its own."));
    }
    let mut run = new(journal);
    run.private = private_values(&texts(&args.script), &args.private);
    let plan = plan(args, &run, parent, started);
    run.expected = run.verbose.then(|| console::expected_total(state_dir, &run.script, &run.id, &plan.arguments)).flatten();
    make_run_dir(&run, &plan)?;
    name_holder(state_dir, &id, parent);
    run.say(&format!("run {id} in {}", dir.display()));
    log_call(&run, &plan);
    Ok(Begun::here(run, args))
}

/// The settings of the service, and what is set besides.
fn environment(extra: Vec<(String, String)>) -> Vec<(OsString, OsString)> {
    settings::service_settings().into_iter().chain(extra).map(|(name, value)| (name.into(), value.into())).collect()
}

/// What was undone of earlier runs, and what could not be, for the last document.
fn tell_recovered(run: &Run, recovered: &recover::Recovered) -> Result<(), Failure> {
    if recovered.undone.is_empty() && recovered.left.is_empty() {
        return Ok(());
    }
    if let Some(left) = recovered.left_by_hand() {
        let line = format!("warning: {left}");
        run.log(&line);
        console::line(&run.script, &line);
    }
    run.note(|state| recovered.tell(&mut state.notes))
}

fn make_dir(dir: &Path) -> Result<(), Failure> {
    fs::DirBuilder::new().mode(0o700).create(dir).map_err(|error| match error.kind() {
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
            Failure::failed("journal_full", format!("The journal {} cannot be made: the disk is full.", dir.display()))
                .hint(disk_space_hint(dir))
        }
        _ => Failure::directory(dir, svc_step::lock::SETTING, &error),
    })
}

/// The ID that the caller gives to his run. Which run is the last one is told by their IDs.
/// Errors: it is no ID, there is a newer run, or it is of a later day (2).
fn given_id(state_dir: &Path, id: String, now: Timestamp) -> Result<String, Failure> {
    let invalid = |why: String| Failure::usage("options_invalid", format!("SVC_RUN_ID: {why}.")).hint("Unset it.");
    id.parse::<RunId>().map_err(invalid)?;
    let newest = journal::runs(state_dir).into_iter().next().filter(|newest| newest.id() > id.as_str());
    if let Some(newest) = newest {
        return Err(invalid(format!("there is a newer run than {id}, {}", newest.id())));
    }
    let tomorrow = now.checked_add(SignedDuration::from_hours(24)).unwrap_or(now);
    if id.as_str() > stamp(tomorrow).as_str() {
        return Err(invalid(format!("{id} is of a later day")));
    }
    Ok(id)
}

/// An ID of this second, or of the one after the newest run's: it grows also when the clock went back.
fn new_id(state_dir: &Path, kind: &str, now: Timestamp) -> String {
    let mut new = stamp(now);
    let newest = journal::runs(state_dir).first().and_then(|run| run.id().get(..16).map(str::to_owned));
    if let Some(newest) = newest.filter(|newest| *newest >= new) {
        let next = run_id::time(&newest).and_then(|time| time.checked_add(SignedDuration::from_secs(1)).ok());
        new = next.map_or(newest, stamp);
    }
    format!("{new}-{kind}")
}

/// The run of the script that called this one, if that holds the service's lock.
pub fn parent() -> Option<String> {
    std::env::var("SVC_LOCK_FD").ok()?;
    std::env::var("SVC_RUN_ID").ok()
}

/// Refuses a state directory with the runs of another product (3): a rollback would take the restore point of that one.
fn refuse_of_another_product(state_dir: &Path, product: &str) -> Result<(), Failure> {
    let recorded = journal::runs(state_dir).iter().find_map(|run| run.plan().settings.get("SVC_NAME").cloned());
    let Some(other) = recorded.filter(|other| other != product) else { return Ok(()) };
    let runs = state_dir.join("runs").display().to_string();
    let message = format!("The runs in {runs} are of the product {other}, and SVC_NAME is {product}.");
    let away = shell_quoted(&["mv", &runs, &format!("{runs}-of-{other}")]);
    Err(Failure::refused("settings_invalid", message).hint(format!(
        "Set SVC_STATE_DIR: each product has a directory of its own. If the product has a new name, put the runs of the old one away:\n  {away}"
    )))
}

/// The service's lock, which the tools inherit: one that has outlived its run keeps it until it has ended. With it, the run of the script
/// that called this one, if that holds the lock already.
pub fn lock_service(state_dir: &Path) -> Result<(Option<File>, Option<String>), Failure> {
    let path = state_dir.join("lock");
    let fault = |error: std::io::Error| Failure::io("use the lock of the service", &path, &error);
    if let Some(fd) = std::env::var("SVC_LOCK_FD").ok().and_then(|fd| fd.parse::<u32>().ok()) {
        let held = fs::metadata(format!("/proc/self/fd/{fd}")).ok().zip(fs::metadata(&path).ok());
        if held.is_some_and(|(held, lock)| (held.dev(), held.ino()) == (lock.dev(), lock.ino())) {
            return Ok((None, std::env::var("SVC_RUN_ID").ok()));
        }
    }
    // This may be the first call on this host.
    svc_step::lock::make_private_folder(&state_dir.join("runs"), svc_step::lock::SETTING)?;
    let file = svc_step::lock::open(&path).map_err(fault)?;
    if !svc_step::lock::within(external::SHORTLY, &file).map_err(fault)? {
        let holder = fs::read_to_string(&path).unwrap_or_default();
        return Err(Failure::locked("locked", "Another run holds the lock of the service.")
            .hint(format!("Wait until it has ended:\n  svc-run status {}", holder.trim())));
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

fn plan(args: &SuperviseArgs, run: &Run, parent: Option<&String>, started: Timestamp) -> Plan {
    let known = settings::known().filter_map(|name| Some(((*name).to_owned(), std::env::var(name).ok()?)));
    let all = known
        .chain(settings::service_settings())
        .filter(|(name, value)| name != "PATH" && name != "SVC_RUN_ID" && !value.is_empty());
    Plan {
        script: run.script.clone(),
        program: program(&args.script),
        parent: parent.cloned(),
        started_at: svc_step::document::Time::from(started).as_str().to_owned(),
        directory: here().display().to_string(),
        user: std::env::var("SUDO_USER")
            .ok()
            .or_else(|| svc_step::user::OsUser::current().map(|user| user.name))
            .unwrap_or_default(),
        tools: env!("CARGO_PKG_VERSION").to_owned(),
        arguments: recorded(&texts(args.script.get(1..).unwrap_or_default()), &args.private),
        settings: all.map(|(name, value)| (name, svc_step::redact::without_secrets(&value))).collect(),
    }
}

fn write_plan(run: &Run, plan: &Plan, time: u32) -> Result<(), Failure> {
    let text = serde_json::to_vec_pretty(plan).unwrap_or_default();
    file::write_complete(&run.dir().join(numbered("plan", time)), &text, 0o600, Existing::Replace)
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
    let made = file::write_complete(&new.join("plan.json"), &text, 0o600, Existing::Replace)
        .and_then(|()| fs::rename(&new, run.dir()).map_err(|error| Failure::io("make the run directory", run.dir(), &error)))
        .and_then(|()| file::sync_folder_of(run.dir()));
    made.map_err(|failure| {
        let _ = fs::remove_dir_all(&new);
        run.journal_full(&failure)
    })
}

fn log_call(run: &Run, plan: &Plan) {
    let mut command = vec![plan.script.clone()];
    command.extend(plan.arguments.iter().cloned());
    let process = std::process::id();
    run.log(&format!("command: {} ({}, process {process}, in {})", shell_quoted(&command), plan.user, plan.directory));
    if let Some(parent) = &plan.parent {
        let log = Journal::of(&run.state_dir, parent).dir().join("log");
        append(&log, &format!("run {}: {}", run.id, shell_quoted(&command)));
    }
}
