//! The hooks of an event: `$SVC_HOOKS_DIR/<event>/*`. They run as root, so they and their directories belong to the caller, and nobody
//! else can write to them.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use svc_step::Failure;
use svc_step::document::Document;
use svc_step::reporter::shell_quoted;
use svc_step::settings::{default_of, setting};
use svc_step::work::{Lost, Work};

use super::console;
use super::report::RunResult;

/// Set in the environment of `on-failure` hooks: the runs that they start call no such hooks.
const TOLD: &str = "SVC_ON_FAILURE";
/// How long a hook may take that is told of a failure.
const LIMIT: Duration = Duration::from_secs(60);

/// The hooks, in the order of their names.
/// Errors: others can write to one (3 `permission_denied`), two have the same name as steps (3 `name_in_use`), or a script cannot
/// be told its path (3 `file_invalid`).
pub fn of(event: &str) -> Result<Vec<PathBuf>, Failure> {
    let folder = &PathBuf::from(setting("SVC_HOOKS_DIR"));
    let default = default_of("SVC_HOOKS_DIR", "");
    let event = folder.join(event);
    let entries = match fs::read_dir(&event) {
        Ok(entries) => entries,
        // A directory without this event's own has no such hooks. One that is not there is mistyped, unless nobody has named it.
        Err(error) if error.kind() == io::ErrorKind::NotFound && (folder.is_dir() || folder == Path::new(&default)) => {
            return Ok(Vec::new());
        }
        Err(error) => return Err(Failure::directory(&event, "SVC_HOOKS_DIR", &error)),
    };
    let mut hooks: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    let is_program = |hook: &Path| fs::metadata(hook).is_ok_and(|data| data.is_file() && data.mode() & 0o111 != 0);
    hooks.retain(|hook| is_program(hook) && !is_backup_file(&hook.file_name().unwrap_or_default().to_string_lossy()));
    hooks.sort();
    for hook in &hooks {
        // A script reads them line by line, and env takes `=` for an assignment.
        if hook.to_str().is_none_or(|path| path.contains(['\n', '='])) {
            let message = format!("The path of the hook {hook:?} has a line break or `=`, or is not UTF-8.");
            return Err(Failure::refused("file_invalid", message).hint("Rename it."));
        }
        [hook.as_path(), event.as_path(), folder].into_iter().try_for_each(|path| refuse_unsafe(hook, path))?;
    }
    let names: Vec<String> = hooks.iter().map(|hook| step_of(hook)).collect();
    for (number, name) in names.iter().enumerate() {
        if names.iter().take(number).any(|other| other == name) {
            return Err(Failure::refused(
                "name_in_use",
                format!("Two hooks in {} would both be the step {name}.", event.display()),
            )
            .hint("Rename one of the two: steps are told apart by letters, digits, - and _."));
        }
    }
    Ok(hooks)
}

/// Whether an editor or a package has put it there.
fn is_backup_file(name: &str) -> bool {
    name.starts_with('.') || ["~", ".bak", ".swp"].iter().any(|end| name.ends_with(end)) || name.contains(".dpkg-")
}

fn refuse_unsafe(hook: &Path, path: &Path) -> Result<(), Failure> {
    let data = fs::metadata(path).map_err(|error| Failure::io("inspect the hook", path, &error))?;
    if data.uid() == nix::unistd::Uid::effective().as_raw() && data.mode() & 0o022 == 0 {
        return Ok(());
    }
    let shown = path.display();
    let quoted = shell_quoted(&[path.to_string_lossy()]);
    Err(Failure::refused(
        "permission_denied",
        format!("The hook {} is not run: others can write to {shown}, or it is not yours.", hook.display()),
    )
    .hint(format!("chown {} {quoted} && chmod go-w {quoted}", nix::unistd::Uid::effective())))
}

/// The step that a hook is: a step's name has no dots.
pub fn step_of(hook: &Path) -> String {
    let name = hook.file_name().unwrap_or_default().to_string_lossy();
    let plain = |one: char| if one.is_ascii_alphanumeric() || one == '-' || one == '_' { one } else { '-' };
    format!("hook-{}", name.chars().map(plain).collect::<String>())
}

/// Tells the hooks of `on-failure` of a run that has not ended well: each gets the last document on stdin, and the caller's environment.
/// What is wrong with one changes nothing of the run.
pub fn on_failure(document: &Document<RunResult>, environment: &[(OsString, OsString)]) {
    if std::env::var_os(TOLD).is_some() {
        return;
    }
    let failures = match of("on-failure") {
        Ok(hooks) => hooks.iter().filter_map(|hook| tell(hook, document, environment).err()).collect(),
        Err(failure) => vec![failure],
    };
    for failure in failures {
        console::failed("svc-run", &failure);
    }
}

fn tell(hook: &Path, document: &Document<RunResult>, environment: &[(OsString, OsString)]) -> Result<(), Failure> {
    let fault = |error: io::Error| Failure::io("run the hook", hook, &error);
    // A pipe would wait for a hook that does not read, and a disk may be full: that is what it may have to tell.
    let mut input = File::from(memfd_create(c"document", MFdFlags::MFD_CLOEXEC).map_err(|error| fault(error.into()))?);
    input.write_all(&serde_json::to_vec(document).unwrap_or_default()).and_then(|()| input.rewind()).map_err(fault)?;
    let mut command = Command::new(hook);
    command.env_clear().envs(environment.iter().cloned()).env(TOLD, "1");
    command.stdin(Stdio::from(input)).process_group(0);
    let output = log_of(document).map_err(fault)?;
    command.stdout(output.try_clone().map_err(fault)?).stderr(output);
    let mut child = command.spawn().map_err(fault)?;
    // It leads a process group of its own.
    let group = Pid::from_raw(i32::try_from(child.id()).unwrap_or_default());
    let message = match Work::begin(move || child.wait()).ended(LIMIT) {
        Ok(Some(ended)) => match ended.map_err(fault)? {
            ended if ended.success() => return Ok(()),
            ended => format!("The hook {} failed: {ended}.", hook.display()),
        },
        Ok(None) | Err(Lost) => {
            let _ = killpg(group, Signal::SIGKILL);
            format!("The hook {} was ended, since it took longer than {LIMIT:?}.", hook.display())
        }
    };
    Err(Failure::failed("command_failed", message))
}

/// What hooks print goes into the log of the run, if there is one.
fn log_of(document: &Document<RunResult>) -> io::Result<File> {
    let open = |log: &Path| OpenOptions::new().append(true).open(log);
    let run = document.result.as_ref().and_then(|result| result.run_dir.as_ref());
    run.and_then(|run| open(&Path::new(run).join("log")).ok()).map_or_else(|| open(Path::new("/dev/null")), Ok)
}
