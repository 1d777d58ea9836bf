//! Another program, run with its output read, its time limited, and ended with us.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, fcntl};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::call::Call;
use crate::failure::Failure;
use crate::user::OsUser;

/// How much of a program's stderr is kept: its end.
const KEPT: usize = 64 * 1024;
/// The size of a piece of its stdout.
const PIECE: usize = 256 * 1024;
/// How long a pipe is left alone that had little in it: a fraction of the time in which the quickest program fills it.
const FILLING: Duration = Duration::from_micros(500);
/// How much the pipe of its stdout holds, if the system allows it: the two ends wait for each other less often.
const PIPE: i32 = 1024 * 1024;
/// How often signals and the time limit are checked while waiting.
const POLL: Duration = Duration::from_millis(50);
/// How long a program may take to end after TERM.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// What a program left when it ended.
#[derive(Debug)]
pub struct Ended {
    /// Its exit status.
    pub status: ExitStatus,
    /// The end of what it wrote to stderr.
    pub stderr: String,
}

/// The same, with all that it wrote to stdout.
#[derive(Debug)]
pub struct Captured {
    /// Its exit status.
    pub status: ExitStatus,
    /// All of its stdout.
    pub stdout: Vec<u8>,
    /// The end of its stderr.
    pub stderr: String,
}

/// A running program. Dropped before it has ended, it is ended.
#[derive(Debug)]
pub struct Running {
    name: String,
    child: Child,
    stderr: Option<JoinHandle<Vec<u8>>>,
}

impl Running {
    /// Starts it; stderr is collected, stdout is read by [`Running::pieces`], stdin is as the command says (default: none).
    ///
    /// # Errors
    /// There is no such program (4), or it cannot be run (3, 1).
    pub fn start(command: &mut Command) -> Result<Self, Failure> {
        let name = command.get_program().to_string_lossy().into_owned();
        // By that, options behind a verb or an operand would be taken for operands.
        command.env_remove("POSIXLY_CORRECT");
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => {
                Failure::not_found("file_not_found", format!("The program {name} is not installed or not on the PATH."))
                    .hint(format!("Install the package that has {name}, or add its directory to PATH."))
            }
            _ => Failure::io("run the program", std::path::Path::new(&name), &error),
        })?;
        let stderr = child.stderr.take().map(|stream| std::thread::spawn(move || tail(stream)));
        Ok(Self { name, child, stderr })
    }

    /// Hands over stdout piece by piece until it ends.
    ///
    /// # Errors
    /// What `take` says, a signal, or the end of the time limit; the program is ended when `self` is dropped then.
    pub fn pieces(&mut self, call: &Call, take: impl FnMut(Vec<u8>) -> Result<(), Failure>) -> Result<(), Failure> {
        self.read(call, reader, take)
    }

    /// Hands over each line of stdout as soon as it is there, without its end.
    ///
    /// # Errors
    /// As [`Running::pieces`].
    pub fn lines(&mut self, call: &Call, take: impl FnMut(Vec<u8>) -> Result<(), Failure>) -> Result<(), Failure> {
        self.read(call, line_reader, take)
    }

    fn read(
        &mut self,
        call: &Call,
        reader: impl FnOnce(ChildStdout) -> Pieces,
        mut take: impl FnMut(Vec<u8>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let Some(stdout) = self.child.stdout.take() else { return Ok(()) };
        let pieces = reader(stdout);
        loop {
            match pieces.recv_timeout(POLL) {
                Ok(piece) => {
                    take(piece.map_err(|error| {
                        Failure::io("read the output of the program", std::path::Path::new(&self.name), &error)
                    })?)?;
                    call.check()?;
                }
                Err(RecvTimeoutError::Timeout) => call.check()?,
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
        }
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// A signal, or the end of the time limit.
    pub fn wait(mut self, call: &Call) -> Result<Ended, Failure> {
        // One that has closed its stdout is about to end.
        let mut poll = Duration::from_millis(1);
        loop {
            let ended = self
                .child
                .try_wait()
                .map_err(|error| Failure::io("wait for the program", std::path::Path::new(&self.name), &error))?;
            if let Some(status) = ended {
                let stderr = self.stderr.take().and_then(|thread| thread.join().ok()).unwrap_or_default();
                return Ok(Ended { status, stderr: String::from_utf8_lossy(&stderr).into_owned() });
            }
            call.pause(poll)?;
            poll = (poll * 2).min(POLL);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !matches!(self.child.try_wait(), Ok(None)) {
            return;
        }
        if let Ok(pid) = i32::try_from(self.child.id()) {
            let _ = kill(Pid::from_raw(pid), Signal::SIGTERM);
        }
        let until = Instant::now() + SHUTDOWN_TIMEOUT;
        while Instant::now() < until {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(POLL);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a program to its end and gives all that it wrote.
///
/// # Errors
/// As [`Running`].
pub fn capture(call: &Call, command: &mut Command) -> Result<Captured, Failure> {
    let mut running = Running::start(command.stdin(Stdio::null()))?;
    let mut stdout = Vec::new();
    running.pieces(call, |piece| {
        stdout.extend_from_slice(&piece);
        Ok(())
    })?;
    let Ended { status, stderr } = running.wait(call)?;
    Ok(Captured { status, stdout, stderr })
}

/// The exit status as a shell gives it: 128+n for a process that signal n has ended.
pub fn exit_status(ended: ExitStatus) -> i32 {
    ended.code().or_else(|| ended.signal().map(|signal| 128 + signal)).unwrap_or(1)
}

/// Lets the program run as another user of this host, with that user's home and none of root's groups.
pub fn run_as(command: &mut Command, user: &OsUser) {
    command.env("HOME", &user.home).env("USER", &user.name).env("LOGNAME", &user.name);
    if !user.is_current() {
        command.uid(user.uid.as_raw()).gid(user.gid.as_raw());
    }
    // The caller's directory may be closed to that user, and a program that cannot stand in its own directory complains.
    command.current_dir("/");
}

type Pieces = Receiver<std::io::Result<Vec<u8>>>;

/// Reads from a pipe, and lets it fill if a program writes much in small parts: each part would wake both otherwise, which
/// takes more time than the copying. What a program says in a few words is read at once.
struct Gathered<R> {
    pipe: R,
    read: usize,
    was_short: bool,
}

impl<R: Read> Read for Gathered<R> {
    fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
        if self.was_short && self.read > PIECE {
            std::thread::sleep(FILLING);
        }
        let size = self.pipe.read(bytes)?;
        self.read = self.read.saturating_add(size);
        self.was_short = size < bytes.len() && size < PIECE / 4;
        Ok(size)
    }
}

fn line_reader(stdout: ChildStdout) -> Pieces {
    let (send, receive) = sync_channel(4);
    std::thread::spawn(move || BufReader::new(stdout).split(b'\n').try_for_each(|line| send.send(line)));
    receive
}

fn reader(stdout: ChildStdout) -> Pieces {
    let _ = fcntl(&stdout, FcntlArg::F_SETPIPE_SZ(PIPE));
    let mut stdout = Gathered { pipe: stdout, read: 0, was_short: false };
    let (send, receive) = sync_channel(4);
    std::thread::spawn(move || {
        loop {
            // A program writes some kilobytes at a time: they are gathered, or whoever takes the pieces is woken for each.
            let mut piece = Vec::with_capacity(PIECE);
            let read = match stdout.by_ref().take(PIECE as u64).read_to_end(&mut piece) {
                Ok(0) => return,
                read => read.map(|_| piece),
            };
            let failed = read.is_err();
            if send.send(read).is_err() || failed {
                return;
            }
        }
    });
    receive
}

fn tail(mut stream: impl Read) -> Vec<u8> {
    let mut kept = Vec::new();
    let mut piece = [0; 8192];
    while let Ok(size) = stream.read(&mut piece) {
        if size == 0 {
            break;
        }
        kept.extend_from_slice(piece.get(..size).unwrap_or_default());
        if kept.len() > KEPT {
            kept.drain(..kept.len() - KEPT);
        }
    }
    kept
}
