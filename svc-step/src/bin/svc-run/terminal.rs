//! The terminal: a run that changes things must not depend on a login session. On a bare terminal it continues in a session of its own,
//! and the first process only follows it: whatever becomes of the terminal is nothing to the run.

use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, IsTerminal, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::time::Duration;

use nix::unistd::{Pid, Uid, getppid, setsid};
use svc_step::child::exit_status;
use svc_step::document::Document;
use svc_step::reporter::WATCHED;
use svc_step::signals::{self, Signals};

use crate::console;
use crate::report::RunResult;
use crate::run::ADDED;

/// The setting that tells a process that it is followed: the directory of what it writes.
pub const FOLLOWED: &str = "SVC_FOLLOWED";
/// How often what the run writes is shown.
const POLL: Duration = Duration::from_millis(100);
/// How long the programs of systemd are waited for.
const SYSTEMD: &str = "5";

/// A run that another process follows.
#[derive(Debug)]
pub struct Followed {
    folder: PathBuf,
    follower: Pid,
}

impl Followed {
    /// What a supervisor asks first, since it leaves the terminal's session then. None if nobody follows it. The
    /// caller removes [`FOLLOWED`] from the environment of what it starts.
    pub fn from_environment() -> Option<Self> {
        let folder = env::var_os(FOLLOWED).filter(|folder| !folder.is_empty())?;
        // Where it leads a session already, that is one of its own.
        let _ = setsid();
        Some(Self { folder: folder.into(), follower: getppid() })
    }

    /// The last act of the run: if nobody is there to read what it wrote, that is removed.
    pub fn finish(&self) {
        if getppid() != self.follower {
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}

/// Starts `command` in a session of its own and follows it to its end, if this process is on a terminal that may be closed; none
/// if the run stays in this process. `stay`: it is to (--attached, --dry-run, a run within a run). `json`: the document is wanted,
/// not the summary.
pub fn leave(script: &str, command: &[OsString], of_file: &[String], stay: bool, json: bool) -> Option<ExitCode> {
    let is_terminal = io::stdin().is_terminal() || io::stdout().is_terminal() || io::stderr().is_terminal();
    if stay || !is_terminal || env::var_os(FOLLOWED).is_some_and(|folder| !folder.is_empty()) {
        return None;
    }
    let in_multiplexer = ["TMUX", "STY"].iter().any(|name| env::var_os(name).is_some_and(|value| !value.is_empty()));
    let shelter = logind_kills();
    if in_multiplexer && !shelter {
        return None;
    }
    match start(script, command, of_file, shelter) {
        Ok((child, folder)) => Some(follow(script, child, &folder, json)),
        Err(error) => {
            console::line(script, &format!("stays on this terminal, since it cannot leave it: {error}"));
            None
        }
    }
}

/// Whether the end of the login session ends whatever was started in it (`KillUserProcesses=yes`): a session of its own is no shelter
/// then, nor is a multiplexer, but a scope of the system's is. It inherits the environment, so no secret of that is on a command line. Only
/// root may make one.
fn logind_kills() -> bool {
    let says = |program: &str, arguments: &[&str]| {
        let output =
            Command::new("timeout").arg(SYSTEMD).arg(program).args(arguments).stdin(Stdio::null()).stderr(Stdio::null()).output();
        output
            .ok()
            .filter(|output| output.status.success())
            .map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let manager = ["get-property", "org.freedesktop.login1", "/org/freedesktop/login1", "org.freedesktop.login1.Manager"];
    Uid::effective().is_root()
        && fs::read_to_string("/proc/self/cgroup").is_ok_and(|text| text.contains("/user.slice/"))
        && says("busctl", &[&manager[..], &["KillUserProcesses"]].concat()).as_deref() == Some("b true")
        && says("systemd-run", &["--scope", "--quiet", "--collect", "true"]).is_some()
}

/// The new process, and the directory of what it writes: `err` and `out`.
fn start(script: &str, command: &[OsString], of_file: &[String], shelter: bool) -> io::Result<(Child, PathBuf)> {
    let [program, arguments @ ..] = command else { return Err(io::Error::other("there is no command")) };
    let private = fs::Permissions::from_mode(0o700);
    let folder = tempfile::Builder::new().prefix(&format!("{script}.")).permissions(private).tempdir()?;
    let (out, err) = (File::create(folder.path().join("out"))?, File::create(folder.path().join("err"))?);
    let mut child = if shelter {
        let mut scope = Command::new("systemd-run");
        // Without a description the command line is one, and stands in the system's log.
        scope.args(["--scope", "--quiet", "--collect", "--description", script]).arg(program);
        scope
    } else {
        Command::new(program)
    };
    if io::stderr().is_terminal() {
        child.env(WATCHED, "1");
    }
    // They are none of the caller's.
    child.env(ADDED, of_file.join(" "));
    let child = child.args(arguments).env(FOLLOWED, folder.path()).stdin(Stdio::null()).stdout(out).stderr(err).spawn()?;
    Ok((child, folder.keep()))
}

fn follow(script: &str, mut child: Child, folder: &Path, json: bool) -> ExitCode {
    let process = child.id();
    let caught = Signals::catch();
    console::line(
        script,
        &format!("continues in a session of its own (process {process}): ^C and the end of this terminal do not end the run."),
    );
    let mut shown = File::open(folder.join("err")).ok();
    let status = loop {
        let ended = child.try_wait();
        if let Some(err) = &mut shown {
            copy(err, &mut io::stderr());
        }
        match ended {
            Ok(Some(status)) => break status,
            Err(_) => break ExitStatus::from_raw(1 << 8),
            Ok(None) => {}
        }
        match &caught {
            Ok(signals) => {
                signals.wait(POLL);
                if let Some(signal) = signals.came() {
                    console::plain(&format!(
                        "\n{script}: the run continues. To see its state, or to end it:\n  svc-run status\n  kill {process}"
                    ));
                    signals::die_of(signal);
                }
            }
            Err(_) => std::thread::sleep(POLL),
        }
    };
    let is_printed = print(&fs::read(folder.join("out")).unwrap_or_default(), json);
    let _ = fs::remove_dir_all(folder);
    let code = if is_printed { exit_status(status) } else { 1 };
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}

/// What the run printed, as it would have printed it here. Whether it could be written.
fn print(out: &[u8], json: bool) -> bool {
    let document = serde_json::from_slice::<Document<RunResult>>(out).ok().filter(|_| io::stdout().is_terminal());
    document.map_or_else(|| console::is_written(out), |document| console::show(&document, json))
}

/// What was not shown yet. A terminal that is gone is nothing to the run.
fn copy(from: &mut impl Read, to: &mut impl Write) {
    let mut text = Vec::new();
    if from.read_to_end(&mut text).is_ok() && !text.is_empty() {
        let _ = to.write_all(&text).and_then(|()| to.flush());
    }
}
