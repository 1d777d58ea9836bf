//! A tool that is running.

use std::io::Read;
use std::process::Child;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

use super::{Ran, Tool};
use crate::{children, os, wait};

struct Reader {
    text: Arc<Mutex<Vec<u8>>>,
    thread: JoinHandle<()>,
}

impl Reader {
    fn new(mut pipe: impl Read + Send + 'static) -> Self {
        let text = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&text);
        let thread = thread::spawn(move || {
            let mut buffer = [0; 8192];
            while let Ok(count @ 1..) = pipe.read(&mut buffer) {
                sink.lock().expect("nobody panics with the lock").extend_from_slice(&buffer[..count]);
            }
        });
        Self { text, thread }
    }

    fn so_far(&self) -> String {
        String::from_utf8_lossy(&self.text.lock().expect("nobody panics with the lock")).into_owned()
    }
}

/// A tool that is running. A test that fails in between leaves neither it nor what it started.
pub struct Spawned {
    tool: Tool,
    child: Child,
    stdout: Reader,
    stderr: Reader,
}

impl Drop for Spawned {
    fn drop(&mut self) {
        if self.is_running() {
            self.kill();
        }
    }
}

impl Spawned {
    pub(super) fn new(tool: Tool, mut child: Child) -> Self {
        let stdout = Reader::new(child.stdout.take().expect("stdout is a pipe"));
        let stderr = Reader::new(child.stderr.take().expect("stderr is a pipe"));
        Self { tool, child, stdout, stderr }
    }

    pub fn pid(&self) -> Pid {
        children::pid(&self.child)
    }

    pub fn child(&self, name: &str) -> Pid {
        let found = wait::until(name, self.tool.limit, || os::child(self.pid(), name));
        found.unwrap_or_else(|error| panic!("{:?} has started no {name}: {error:#}", self.tool))
    }

    fn kill(&mut self) {
        let _ = killpg(self.pid(), Signal::SIGKILL);
        let _ = self.child.wait();
    }

    pub fn signal(&self, signal: Signal) {
        kill(self.pid(), signal).unwrap_or_else(|error| panic!("cannot send {signal} to {:?}: {error}", self.tool));
    }

    /// Sends the signal, and waits for the end.
    pub fn ended_by(self, signal: Signal) -> Ran {
        self.signal(signal);
        self.wait()
    }

    /// Sends a signal to it and to all its children, as the end of a terminal session does.
    pub fn signal_group(&self, signal: Signal) {
        killpg(self.pid(), signal).unwrap_or_else(|error| panic!("cannot send {signal} to {:?}: {error}", self.tool));
    }

    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Interrupts it as soon as a condition holds: sends the signal to it alone, or to its whole group. It may end before.
    pub fn interrupted(mut self, what: &str, (signal, group): (Signal, bool), mut when: impl FnMut(&Self) -> bool) -> Ran {
        wait::promptly(what, self.tool.limit, || (when(&self) || !self.is_running()).then_some(())).expect("a tool ends");
        match group {
            _ if !self.is_running() => {}
            true => self.signal_group(signal),
            false => self.signal(signal),
        }
        self.wait()
    }

    /// Waits for its end and checks what it printed, as [`Tool::run`] does.
    pub fn wait(mut self) -> Ran {
        let ended = wait::until("the tool", self.tool.limit, || self.child.try_wait().ok().flatten());
        let Ok(status) = ended else {
            self.kill();
            let (limit, out, err) = (self.tool.limit, self.stdout.so_far(), self.stderr.so_far());
            panic!("{:?} did not end within {limit:?}\nstdout: {out}\nstderr: {err}", self.tool);
        };
        let is_closed = || [&self.stdout, &self.stderr].iter().all(|reader| reader.thread.is_finished());
        let closed = wait::gone(self.tool.limit, is_closed);
        let ran = Ran {
            program: self.tool.program.clone(),
            args: self.tool.args.clone(),
            status: os::status(status),
            stdout: self.stdout.so_far(),
            stderr: self.stderr.so_far(),
            document: None,
        };
        if !closed {
            self.kill();
        }
        assert!(closed, "a process that the tool left behind holds its output open\n{ran}");
        // One is killed at any moment, also while it prints its document.
        if ran.status == 128 + Signal::SIGKILL as i32 { ran } else { ran.checked(self.tool.talks) }
    }
}
