//! Where passwords come from: `--password-file`, `PGPASSWORD`, libpq's password file, the terminal. Never the command line.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::OnceLock;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, poll};
use nix::sys::termios::{LocalFlags, SetArg, Termios, tcgetattr, tcsetattr};
use nix::unistd::{getpgrp, tcgetpgrp};
use svc_step::reporter::shell_quoted;
use svc_step::secret::Secret;
use svc_step::user::OsUser;
use svc_step::{Call, Failure, file};

use super::environment::Environment;

/// A password file larger than this is another file.
const LONGEST: u64 = 1024 * 1024;

/// What is known of passwords before the first connection.
#[derive(Debug)]
pub(super) struct Passwords {
    fixed: OnceLock<Secret>,
    entries: Vec<Entry>,
}

impl Passwords {
    pub(super) fn fixed(secret: Secret) -> Self {
        Self { fixed: OnceLock::from(secret), entries: Vec::new() }
    }

    /// Those of libpq's own places (`PGPASSWORD`, `PGPASSFILE`, `~/.pgpass`).
    pub(super) fn of_libpq(env: &Environment, os_user: Option<&OsUser>, call: &Call) -> Result<Self, Failure> {
        if let Some(password) = env.text("PGPASSWORD").filter(|_| os_user.is_none()) {
            return Ok(Self::fixed(Secret::new(password)));
        }
        let entries = match (os_user, env.path("PGPASSFILE"), env.home()) {
            (Some(user), ..) => user.act_as(|| read_entries(&user.home.join(".pgpass"), false, call))?,
            (None, Some(path), _) => read_entries(&path, true, call)?,
            (None, None, Some(home)) => read_entries(&home.join(".pgpass"), false, call)?,
            (None, None, None) => Vec::new(),
        };
        Ok(Self { fixed: OnceLock::new(), entries })
    }

    /// The one for a host (or the directory of a socket), port, database and user.
    pub(super) fn of(&self, wanted: [&str; 4]) -> Option<Secret> {
        self.fixed.get().cloned().or_else(|| lookup(&self.entries, wanted))
    }

    /// Asks on the terminal, once, if there is one.
    pub(super) fn ask(&self, call: &Call) -> Result<Option<Secret>, Failure> {
        if self.fixed.get().is_some() || open_terminal().is_none() {
            return Ok(None);
        }
        let secret = ask_on_terminal(call)?;
        Ok(Some(self.fixed.get_or_init(|| secret).clone()))
    }
}

/// Reads a password file as libpq does: one that others can read is ignored with a warning, and so is one that was named and does not
/// exist.
fn read_entries(path: &Path, named: bool, call: &Call) -> Result<Vec<Entry>, Failure> {
    let passed_over = |why: String| {
        call.warn("settings_invalid", format!("The password file {} is not used{why}.", path.display()));
        Ok(Vec::new())
    };
    let meta = match std::fs::metadata(path) {
        Ok(meta) => meta,
        Err(error) if named => return passed_over(format!(": {error}")),
        Err(_) => return Ok(Vec::new()),
    };
    if !meta.is_file() {
        return passed_over(": it is not a regular file".to_owned());
    }
    if meta.permissions().mode() & 0o077 != 0 {
        return passed_over(format!(
            ", since others can read it: {}",
            shell_quoted(&["chmod", "600", &path.display().to_string()])
        ));
    }
    let action = "read the password file";
    Ok(parse(&file::bytes_of(&file::open_regular(action, path)?, action, path, LONGEST)?))
}

#[derive(Debug, Clone)]
struct Entry {
    /// Host, port, database and user; `None` is any.
    fields: [Option<String>; 4],
    password: Secret,
}

/// Reads all lines that are of that form; comments and others are passed over, as libpq does.
fn parse(bytes: &[u8]) -> Vec<Entry> {
    let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.starts_with(b"#"));
    let texts = lines.filter_map(|line| std::str::from_utf8(line).ok());
    texts.filter_map(|line| entry(line.strip_suffix('\r').unwrap_or(line))).collect()
}

fn entry(line: &str) -> Option<Entry> {
    let mut fields = vec![String::new()];
    let mut escaped = false;
    for letter in line.chars() {
        match letter {
            // The password goes to the end of the line, colons and all.
            ':' if !escaped && fields.len() < 5 => fields.push(String::new()),
            _ => fields.last_mut()?.push(letter),
        }
        escaped = letter == '\\' && !escaped;
    }
    let [host, port, database, user, password] = <[String; 5]>::try_from(fields).ok()?;
    let fields = [host, port, database, user].map(|field| (field != "*").then(|| unescape(&field)));
    Some(Entry { fields, password: Secret::new(unescape(&password)) })
}

fn unescape(text: &str) -> String {
    let mut out = String::new();
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => out.extend(letters.next()),
            other => out.push(other),
        }
    }
    out
}

/// The first matching line decides. libpq knows its default directory as localhost.
fn lookup(entries: &[Entry], wanted: [&str; 4]) -> Option<Secret> {
    let local = matches!(wanted.first(), Some(&("/var/run/postgresql" | "/run/postgresql"))).then_some("localhost");
    let is = |field: &Option<String>, value: &str| field.as_ref().is_none_or(|text| text == value);
    let matches = |entry: &&Entry| {
        let [host, rest @ ..] = &entry.fields;
        let [wanted_host, wanted_rest @ ..] = wanted;
        (is(host, wanted_host) || host.as_deref() == local) && rest.iter().zip(wanted_rest).all(|(field, value)| is(field, value))
    };
    entries.iter().find(matches).map(|entry| entry.password.clone())
}

/// How often signals are polled while the password is typed, in milliseconds.
const POLL: u16 = 100;

/// The terminal for the question: the controlling one, if this process is in its foreground (one in the background
/// would be stopped by reading).
fn open_terminal() -> Option<File> {
    let terminal = OpenOptions::new().read(true).write(true).open("/dev/tty").ok()?;
    (tcgetpgrp(&terminal).ok()? == getpgrp()).then_some(terminal)
}

pub(super) fn ask_on_terminal(call: &Call) -> Result<Secret, Failure> {
    let mut terminal = open_terminal().ok_or_else(|| no_terminal("There is no terminal to ask for the password on."))?;
    let fault = |error: std::io::Error| Failure::io("ask for the password", Path::new("/dev/tty"), &error);
    let _echo = Echo::off(terminal.try_clone().map_err(fault)?)?;
    terminal.write_all(b"Password: ").map_err(fault)?;
    let mut line = Vec::new();
    // One read for each poll: a part of a line (^D, a terminal in raw mode) must not make it deaf to signals.
    while !line.ends_with(b"\n") {
        if let Ok(0) | Err(Errno::EINTR) = poll(&mut [PollFd::new(terminal.as_fd(), PollFlags::POLLIN)], POLL) {
            call.check()?;
            continue;
        }
        let mut piece = [0; 256];
        match terminal.read(&mut piece) {
            Ok(0) => break,
            Ok(count) => line.extend_from_slice(piece.get(..count).unwrap_or_default()),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(fault(error)),
        }
    }
    let _ = terminal.write_all(b"\n");
    Ok(Secret::new(String::from_utf8_lossy(&line).trim_end_matches(['\r', '\n']).to_owned()))
}

fn no_terminal(message: &str) -> Failure {
    Failure::refused("access_denied", message)
        .hint("Write the password into ~/.pgpass (mode 0600), or name a file of it with --password-file.")
}

struct Echo {
    terminal: File,
    before: Termios,
}

impl Echo {
    fn off(terminal: File) -> Result<Self, Failure> {
        let fault = |error: Errno| no_terminal("The terminal does not let its echo be turned off.").cause(error.to_string());
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

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str, host: &str, database: &str, user: &str) -> Option<String> {
        lookup(&parse(text.as_bytes()), [host, "5432", database, user]).map(|secret| secret.expose().to_owned())
    }

    #[test]
    fn first_matching_password_line_wins() {
        let text = "# comment\nbroken line\nh:5433:*:svc:other\nh:5432:*:svc:first\nh:*:*:*:second\n";
        assert_eq!(found(text, "h", "db", "svc").as_deref(), Some("first"));
        assert_eq!(found(text, "h", "db", "x").as_deref(), Some("second"));
        assert_eq!(found(text, "g", "db", "svc"), None);
    }

    #[test]
    fn escapes_are_understood() {
        let text = r"fe80\:\:1:5432:a\\b:u\:v:p\:w\\:x";
        assert_eq!(found(text, "fe80::1", r"a\b", "u:v").as_deref(), Some(r"p:w\:x"));
    }

    #[test]
    fn default_socket_matches_localhost_password_line() {
        assert_eq!(found("localhost:*:*:*:pw", "/var/run/postgresql", "db", "svc").as_deref(), Some("pw"));
    }

    #[test]
    fn password_line_not_in_utf8_is_skipped() {
        let entries = parse(b"# G\xfcnter's\nh:*:*:svc:pw\r\nh:*:*:x:p\xe4ss\n");
        assert_eq!(entries.len(), 1);
        assert_eq!(lookup(&entries, ["h", "1", "db", "svc"]).unwrap().expose(), "pw");
    }
}
