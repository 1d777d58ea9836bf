//! A tool at work.

use std::fs;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

use super::{Ran, Tool};
use crate::wait;

/// What a pipe has brought so far.
#[derive(Debug)]
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

/// A tool at work.
#[derive(Debug)]
pub struct Spawned {
    tool: Tool,
    child: Child,
    stdout: Reader,
    stderr: Reader,
}

/// A test that fails in between leaves no tool at work, nor what it started.
impl Drop for Spawned {
    fn drop(&mut self) {
        if self.is_running() {
            let _ = killpg(self.pid(), Signal::SIGKILL);
            let _ = self.child.wait();
        }
    }
}

impl Spawned {
    /// Takes over a child whose output goes into pipes.
    pub(super) fn new(tool: Tool, mut child: Child) -> Self {
        let stdout = Reader::new(child.stdout.take().expect("stdout is a pipe"));
        let stderr = Reader::new(child.stderr.take().expect("stderr is a pipe"));
        Self { tool, child, stdout, stderr }
    }

    /// The process id.
    pub fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.child.id()).expect("process ids are small"))
    }

    /// A program that it has started.
    pub fn child(&self, name: &str) -> Pid {
        let found = wait::until(name, self.tool.limit, || self.child_now(name));
        found.unwrap_or_else(|error| panic!("{:?} has started no {name}: {error:#}", self.tool))
    }

    /// The same, where it is running now.
    pub fn child_now(&self, name: &str) -> Option<Pid> {
        let parent = format!("PPid:\t{}\n", self.pid());
        let is_it = |pid: &i32| {
            let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            status.starts_with(&format!("Name:\t{name}\n")) && status.contains(&parent)
        };
        let all = fs::read_dir("/proc").ok()?.flatten();
        all.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok()).find(is_it).map(Pid::from_raw)
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        kill(self.pid(), signal)
            .unwrap_or_else(|error| panic!("cannot send {signal} to {}: {error}", self.tool.program.display()));
    }

    /// Sends a signal to it and to all its children, as the end of a terminal session does.
    pub fn signal_group(&self, signal: Signal) {
        killpg(self.pid(), signal)
            .unwrap_or_else(|error| panic!("cannot send {signal} to {}: {error}", self.tool.program.display()));
    }

    /// What it has written to stderr up to now.
    pub fn stderr_so_far(&self) -> String {
        self.stderr.so_far()
    }

    /// Whether it is still running.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Waits for its end and looks at what it printed, as [`Tool::run`] does.
    pub fn wait(mut self) -> Ran {
        let ended = wait::until("the tool", self.tool.limit, || self.child.try_wait().ok().flatten());
        let Ok(status) = ended else {
            let _ = killpg(self.pid(), Signal::SIGKILL);
            let _ = self.child.wait();
            let (limit, out, err) = (self.tool.limit, self.stdout.so_far(), self.stderr.so_far());
            panic!("{:?} did not end within {limit:?}\nstdout: {out}\nstderr: {err}", self.tool);
        };
        let readers = [&self.stdout, &self.stderr];
        crate::tell_progress();
        let closed = wait::gone(self.tool.limit, || readers.iter().all(|reader| reader.thread.is_finished()));
        let ran = Ran {
            program: self.tool.program.clone(),
            args: self.tool.args.clone(),
            status: number(status),
            stdout: self.stdout.so_far(),
            stderr: self.stderr.so_far(),
            document: None,
        };
        if !closed {
            let _ = killpg(self.pid(), Signal::SIGKILL);
        }
        assert!(closed, "a process that the tool left behind holds its output open\n{ran}");
        if self.tool.may_be_killed && ran.status == 128 + Signal::SIGKILL as i32 { ran } else { ran.judged(self.tool.talks) }
    }
}

fn number(status: ExitStatus) -> i32 {
    status.code().or(status.signal().map(|signal| 128 + signal)).unwrap_or(1)
}
