//! The programs that `svc-testhost` and the tests run for their callers: signals are sent on to them.

use std::fs::File;
use std::io;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result, anyhow};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::{os, wait};

static RUNNING: Mutex<Vec<Pid>> = Mutex::new(Vec::new());

fn running() -> MutexGuard<'static, Vec<Pid>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

pub fn pid(child: &Child) -> Pid {
    Pid::from_raw(child.id().cast_signed())
}

/// Makes a program write into a log, and read nothing.
pub fn logging<'a>(command: &'a mut Command, log: &Path) -> Result<&'a mut Command> {
    let output = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
    Ok(command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output))
}

/// Waits until `probe` has an answer; fails, with the end of its log, if the child ends before.
pub fn until_up<T>(what: &str, child: &mut Child, log: &Path, mut probe: impl FnMut() -> Option<T>) -> Result<T> {
    let up = wait::until(what, wait::HANG, || match child.try_wait() {
        Ok(Some(status)) => Some(Err(status)),
        _ => probe().map(Ok),
    })?;
    up.map_err(|status| anyhow!("{what} ended ({status}):\n{}", os::tail(log, 20)))
}

/// Waits for the end of a child of the caller's process group, which gets every signal of [`signal`] meanwhile.
pub fn wait(child: &mut Child) -> io::Result<ExitStatus> {
    running().push(pid(child));
    let ended = child.wait();
    running().retain(|other| *other != pid(child));
    ended
}

/// Makes a command run in a process group of its own, which is told to end when the caller dies. Signals that the caller ignores
/// (under `nohup`, or in the background of a script) end it and what it starts as ever.
pub fn grouped(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new("env");
    command.args(["--default-signal=HUP,INT,TERM", "setpriv", "--pdeathsig", "TERM", "--"]).arg(program);
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    command
}

/// Sends a signal to all of them.
pub fn signal(signal: Signal) {
    for pid in running().iter() {
        // One that has just ended needs none.
        let _ = kill(*pid, signal);
    }
}
