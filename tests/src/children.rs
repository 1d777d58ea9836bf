//! The programs that `svc-testhost` runs for its caller, so that a signal can be sent on to them.

use std::io;
use std::process::{Child, ExitStatus};
use std::sync::{Mutex, MutexGuard, PoisonError};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

static RUNNING: Mutex<Vec<Pid>> = Mutex::new(Vec::new());

fn running() -> MutexGuard<'static, Vec<Pid>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for the end of a child, which gets every signal of [`signal`] meanwhile.
pub fn wait(child: &mut Child) -> io::Result<ExitStatus> {
    let pid = Pid::from_raw(i32::try_from(child.id()).map_err(io::Error::other)?);
    running().push(pid);
    let status = child.wait();
    running().retain(|one| *one != pid);
    status
}

/// Sends a signal to all of them.
pub fn signal(signal: Signal) {
    for pid in running().iter() {
        // One that has just ended needs none.
        let _ = kill(*pid, signal);
    }
}
