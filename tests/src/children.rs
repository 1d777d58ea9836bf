//! The programs that `svc-testhost` and the tests run for their callers: signals are sent on to them, and their time is limited.

use std::fs::File;
use std::io;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

use crate::{os, wait};

/// A child, and whether it leads a process group of its own.
static RUNNING: Mutex<Vec<(Pid, bool)>> = Mutex::new(Vec::new());

fn running() -> MutexGuard<'static, Vec<(Pid, bool)>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

pub fn pid(child: &Child) -> Pid {
    Pid::from_raw(child.id().cast_signed())
}

fn registered<T>(one: (Pid, bool), work: impl FnOnce() -> T) -> T {
    running().push(one);
    let done = work();
    running().retain(|other| *other != one);
    done
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
    registered((pid(child), false), || child.wait())
}

/// Makes a command run in a process group of its own, which is told to end when the caller dies. Signals that the caller ignores
/// (under `nohup`, or in the background of a script) end it and what it starts as ever.
pub fn grouped(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new("env");
    command.args(["--default-signal=HUP,INT,TERM", "setpriv", "--pdeathsig", "TERM", "--"]).arg(program);
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    command
}

/// Waits for the end of a child that leads a process group ([`grouped`]), which gets every signal of [`signal`] meanwhile. When
/// `progress` has not changed for `watchdog`, the whole group is told to end, and killed if it does not; then there is no status.
pub fn while_it_progresses<T: PartialEq>(
    child: &mut Child,
    watchdog: Duration,
    mut progress: impl FnMut() -> T,
) -> io::Result<Option<ExitStatus>> {
    let leader = pid(child);
    registered((leader, true), || {
        let mut ended = false;
        let mut last = progress();
        // A signal to the caller does not end the wait: the group gets it too, and cleans up.
        while wait::gone(watchdog, || {
            ended = !matches!(child.try_wait(), Ok(None));
            ended || progress() != last
        }) {
            if ended {
                return child.wait().map(Some);
            }
            last = progress();
        }
        let _ = killpg(leader, Signal::SIGTERM);
        wait::gone(wait::HANG, || !matches!(child.try_wait(), Ok(None)));
        // The leader is gone, or not; whoever is left of its group goes now.
        let _ = killpg(leader, Signal::SIGKILL);
        child.wait()?;
        Ok(None)
    })
}

/// Sends a signal to all of them; `to_own_groups` only to those which a terminal does not reach by itself.
pub fn signal(signal: Signal, to_own_groups: bool) {
    for (pid, leads) in running().iter() {
        // One that has just ended needs none.
        let _ = match leads {
            true => killpg(*pid, signal),
            false if to_own_groups => Ok(()),
            false => kill(*pid, signal),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn group_without_progress_is_ended_without_status() {
        let mut child = grouped("sh").args(["-c", "sleep 600 & wait"]).spawn().unwrap();
        assert_eq!(while_it_progresses(&mut child, Duration::from_millis(200), || ()).unwrap(), None);
        assert!(wait::gone(wait::HANG, || killpg(pid(&child), None).is_err()));
        let mut child = grouped("sleep").arg("1").spawn().unwrap();
        let mut count = 0;
        let more = || {
            count += 1;
            count
        };
        assert!(while_it_progresses(&mut child, Duration::ZERO, more).unwrap().unwrap().success());
    }
}
