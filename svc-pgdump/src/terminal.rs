//! Asking for a password on the terminal, where there is one.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use nix::sys::termios::{LocalFlags, SetArg, Termios, tcgetattr, tcsetattr};
use nix::unistd::{getpgrp, tcgetpgrp};
use svc_step::secret::Secret;
use svc_step::{Call, Failure};

/// How often signals are looked at while a person types.
const LOOK: Duration = Duration::from_millis(100);

/// Whether somebody can be asked: there is a controlling terminal, and this process is in its foreground (one in the
/// background would be stopped by reading).
pub(crate) fn is_there() -> bool {
    open().is_some()
}

fn open() -> Option<File> {
    let terminal = OpenOptions::new().read(true).write(true).open("/dev/tty").ok()?;
    (tcgetpgrp(&terminal).ok()? == getpgrp()).then_some(terminal)
}

/// Asks, without showing what is typed.
///
/// # Errors
/// There is no terminal (3), a signal came, or the time limit passed.
pub(crate) fn ask(call: &Call) -> Result<Secret, Failure> {
    let no_terminal = || {
        Failure::refused("no_terminal", "There is no terminal to ask for the password on.")
            .hint("Write the password into ~/.pgpass (mode 0600), or name a file of it with --password-file.")
    };
    let mut terminal = open().ok_or_else(no_terminal)?;
    let fault = |error: std::io::Error| Failure::io("ask for the password", std::path::Path::new("/dev/tty"), &error);
    let _echo = Echo::off(terminal.try_clone().map_err(fault)?)?;
    terminal.write_all(b"Password: ").map_err(fault)?;
    let reader = terminal.try_clone().map_err(fault)?;
    let (send, receive) = channel();
    std::thread::spawn(move || {
        let mut line = String::new();
        let read = BufReader::new(reader).read_line(&mut line).map(|_| line);
        let _ = send.send(read);
    });
    loop {
        match receive.recv_timeout(LOOK) {
            Ok(line) => {
                let _ = terminal.write_all(b"\n");
                return Ok(Secret::new(line.map_err(fault)?.trim_end_matches(['\r', '\n']).to_owned()));
            }
            Err(RecvTimeoutError::Timeout) => call.check()?,
            Err(RecvTimeoutError::Disconnected) => return Err(no_terminal()),
        }
    }
}

/// The terminal without echo; put back when dropped.
struct Echo {
    terminal: File,
    before: Termios,
}

impl Echo {
    fn off(terminal: File) -> Result<Self, Failure> {
        let fault = |error: nix::Error| {
            Failure::refused("no_terminal", "The terminal does not let its echo be turned off.")
                .hint("Write the password into ~/.pgpass (mode 0600), or name a file of it with --password-file.")
                .cause(error.to_string())
        };
        let before = tcgetattr(&terminal).map_err(fault)?;
        let mut silent = before.clone();
        silent.local_flags.remove(LocalFlags::ECHO);
        tcsetattr(&terminal, SetArg::TCSAFLUSH, &silent).map_err(fault)?;
        Ok(Self { terminal, before })
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        let _ = tcsetattr(&self.terminal, SetArg::TCSAFLUSH, &self.before);
    }
}
