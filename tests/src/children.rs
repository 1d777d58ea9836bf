//! The programs that `svc-testhost` and the tests run for their callers.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, anyhow};
use nix::unistd::Pid;

use crate::{os, wait};

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

/// Makes a command run in a process group of its own, which is told to end when the caller dies. Signals that the caller ignores
/// (under `nohup`, or in the background of a script) end it and what it starts as ever.
pub fn grouped(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new("env");
    command.args(["--default-signal=HUP,INT,TERM", "setpriv", "--pdeathsig", "TERM", "--"]).arg(program);
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    command
}
