//! Where passwords come from: `--password-file`, `PGPASSWORD`, libpq's password file, the terminal. Never the command line.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use nix::sys::termios::{LocalFlags, SetArg, Termios, tcgetattr, tcsetattr};
use nix::unistd::{getpgrp, tcgetpgrp};
use svc_step::secret::Secret;
use svc_step::user::OsUser;
use svc_step::{Call, Failure, file};

use super::environment::Environment;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum PasswordSource {
    /// libpq's own places (`PGPASSWORD`, `PGPASSFILE`, `~/.pgpass`); when the server wants one that is in none of them, the
    /// terminal, if there is one.
    #[default]
    Places,
    PlacesOnly,
    File(PathBuf),
    Prompt,
}

/// More of a password file than this is not read.
const LONGEST: u64 = 1024 * 1024;

/// What is known of passwords before the first connection.
#[derive(Debug)]
pub(super) struct Passwords {
    fixed: OnceLock<Secret>,
    entries: Vec<Entry>,
    may_ask: bool,
}

impl Passwords {
    pub(super) fn find(
        source: &PasswordSource,
        env: &Environment,
        os_user: Option<&OsUser>,
        call: &Call,
    ) -> Result<Self, Failure> {
        let none = |may_ask| Self { fixed: OnceLock::new(), entries: Vec::new(), may_ask };
        match source {
            PasswordSource::File(path) => Ok(Self { fixed: OnceLock::from(Secret::from_file("password", path)?), ..none(false) }),
            PasswordSource::Prompt => Ok(Self { fixed: OnceLock::from(ask_on_terminal(call)?), ..none(false) }),
            PasswordSource::Places | PasswordSource::PlacesOnly => {
                let may_ask = *source == PasswordSource::Places;
                if let Some(user) = os_user {
                    let entries = user.act_as(|| read_entries(&user.home.join(".pgpass"), false, call))?;
                    return Ok(Self { entries, ..none(may_ask) });
                }
                if let Some(password) = env.text("PGPASSWORD") {
                    return Ok(Self { fixed: OnceLock::from(Secret::new(password)), ..none(may_ask) });
                }
                let entries = match (env.path("PGPASSFILE"), env.home()) {
                    (Some(path), _) => read_entries(&path, true, call)?,
                    (None, Some(home)) => read_entries(&home.join(".pgpass"), false, call)?,
                    (None, None) => Vec::new(),
                };
                Ok(Self { entries, ..none(may_ask) })
            }
        }
    }

    pub(super) fn of(&self, wanted: &Wanted<'_>) -> Option<Secret> {
        self.fixed.get().cloned().or_else(|| lookup(&self.entries, wanted))
    }

    /// Asks on the terminal, once, where that is allowed and there is one.
    pub(super) fn ask(&self, call: &Call) -> Result<Option<Secret>, Failure> {
        if !self.may_ask || self.fixed.get().is_some() || !has_terminal() {
            return Ok(None);
        }
        let secret = ask_on_terminal(call)?;
        Ok(Some(self.fixed.get_or_init(|| secret).clone()))
    }
}

/// Reads a password file as libpq does: one that others can read is passed over, and a person is told. One that was named
/// and is not there is passed over too, since libpq does the same, with a word about it.
fn read_entries(path: &Path, named: bool, call: &Call) -> Result<Vec<Entry>, Failure> {
    let meta = match std::fs::metadata(path) {
        Ok(meta) => meta,
        Err(error) => {
            if named {
                call.warn("password_file_unusable", format!("The password file {} is not used: {error}.", path.display()));
            }
            return Ok(Vec::new());
        }
    };
    if !meta.is_file() {
        call.warn("password_file_unusable", format!("The password file {} is not used: it is no regular file.", path.display()));
        return Ok(Vec::new());
    }
    if meta.permissions().mode() & 0o077 != 0 {
        call.warn(
            "password_file_open",
            format!("The password file {} is not used, since others can read it: chmod 600 {0}.", path.display()),
        );
        return Ok(Vec::new());
    }
    let action = "read the password file";
    let mut bytes = Vec::new();
    let file = file::open_regular(action, path)?;
    file.take(LONGEST).read_to_end(&mut bytes).map_err(|error| Failure::io(action, path, &error))?;
    let (entries, odd) = parse(&bytes);
    if odd > 0 {
        call.warn("password_line_not_text", format!("{odd} lines of {} are not UTF-8 text and are not used.", path.display()));
    }
    Ok(entries)
}

#[derive(Debug, Clone)]
struct Entry {
    fields: [Field; 4],
    password: Secret,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Field {
    Any,
    Is(String),
}

/// The connection that a password is looked up for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted<'a> {
    /// A host name, or the folder of a socket; libpq's default folder also goes by `localhost`.
    pub(super) hosts: &'a [&'a str],
    pub(super) port: u16,
    pub(super) database: &'a str,
    pub(super) user: &'a str,
}

/// Reads all lines that are of that form; comments and others are passed over, as libpq does. The second is how many lines
/// are no UTF-8 text, which a password here must be.
fn parse(bytes: &[u8]) -> (Vec<Entry>, usize) {
    let mut odd = 0;
    let mut entries = Vec::new();
    for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.starts_with(b"#")) {
        match std::str::from_utf8(line) {
            Ok(line) => entries.extend(entry(line.strip_suffix('\r').unwrap_or(line))),
            Err(_) => odd += 1,
        }
    }
    (entries, odd)
}

fn entry(line: &str) -> Option<Entry> {
    let mut rest = line;
    let mut field = || {
        let (field, after) = split(rest)?;
        rest = after;
        Some(field)
    };
    let fields = [field()?, field()?, field()?, field()?];
    // The password goes to the end of the line, colons and all.
    Some(Entry { fields, password: Secret::new(unescape(rest)) })
}

/// The field before the first colon that is not escaped, and what follows that colon.
fn split(text: &str) -> Option<(Field, &str)> {
    let mut escaped = false;
    let colon = text.char_indices().find(|(_, letter)| {
        let found = *letter == ':' && !escaped;
        escaped = *letter == '\\' && !escaped;
        found
    });
    let (field, rest) = text.split_at_checked(colon?.0)?;
    let field = if field == "*" { Field::Any } else { Field::Is(unescape(field)) };
    Some((field, rest.strip_prefix(':')?))
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

/// The first line that fits decides.
fn lookup(entries: &[Entry], wanted: &Wanted<'_>) -> Option<Secret> {
    let port = wanted.port.to_string();
    let fits = |entry: &&Entry| {
        let [host, its_port, database, user] = &entry.fields;
        let is = |field: &Field, value: &str| match field {
            Field::Any => true,
            Field::Is(text) => text == value,
        };
        wanted.hosts.iter().any(|name| is(host, name))
            && is(its_port, &port)
            && is(database, wanted.database)
            && is(user, wanted.user)
    };
    entries.iter().find(fits).map(|entry| entry.password.clone())
}

/// How often signals are polled while a person types.
const POLL: Duration = Duration::from_millis(100);

/// Whether somebody can be asked: there is a controlling terminal, and this process is in its foreground (one in the
/// background would be stopped by reading).
fn has_terminal() -> bool {
    open_terminal().is_some()
}

fn open_terminal() -> Option<File> {
    let terminal = OpenOptions::new().read(true).write(true).open("/dev/tty").ok()?;
    (tcgetpgrp(&terminal).ok()? == getpgrp()).then_some(terminal)
}

fn ask_on_terminal(call: &Call) -> Result<Secret, Failure> {
    let no_terminal = || {
        Failure::refused("no_terminal", "There is no terminal to ask for the password on.")
            .hint("Write the password into ~/.pgpass (mode 0600), or name a file of it with --password-file.")
    };
    let mut terminal = open_terminal().ok_or_else(no_terminal)?;
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
        match receive.recv_timeout(POLL) {
            Ok(line) => {
                let _ = terminal.write_all(b"\n");
                return Ok(Secret::new(line.map_err(fault)?.trim_end_matches(['\r', '\n']).to_owned()));
            }
            Err(RecvTimeoutError::Timeout) => call.check()?,
            Err(RecvTimeoutError::Disconnected) => return Err(no_terminal()),
        }
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str, hosts: &[&str], database: &str, user: &str) -> Option<String> {
        lookup(&parse(text.as_bytes()).0, &Wanted { hosts, port: 5432, database, user }).map(|secret| secret.expose().to_owned())
    }

    #[test]
    fn the_first_line_that_fits_decides() {
        let text = "# comment\nbroken line\nh:5433:*:svc:other\nh:5432:*:svc:first\nh:*:*:*:second\n";
        assert_eq!(found(text, &["h"], "db", "svc").as_deref(), Some("first"));
        assert_eq!(found(text, &["h"], "db", "x").as_deref(), Some("second"));
        assert_eq!(found(text, &["g"], "db", "svc"), None);
    }

    #[test]
    fn escapes_are_understood() {
        let text = r"fe80\:\:1:5432:a\\b:u\:v:p\:w\\:x";
        assert_eq!(found(text, &["fe80::1"], r"a\b", "u:v").as_deref(), Some(r"p:w\:x"));
    }

    #[test]
    fn the_default_socket_also_goes_by_localhost() {
        assert_eq!(found("localhost:*:*:*:pw", &["/var/run/postgresql", "localhost"], "db", "svc").as_deref(), Some("pw"));
    }

    #[test]
    fn a_comment_in_another_encoding_is_no_obstacle_and_a_line_in_one_is_counted() {
        let (entries, odd) = parse(b"# G\xfcnter's\nh:*:*:svc:pw\r\nh:*:*:x:p\xe4ss\n");
        assert_eq!((entries.len(), odd), (1, 1));
        let wanted = Wanted { hosts: &["h"], port: 1, database: "db", user: "svc" };
        assert_eq!(lookup(&entries, &wanted).unwrap().expose(), "pw");
    }

    #[test]
    fn a_password_is_never_shown() {
        assert!(!format!("{:?}", parse(b"*:*:*:*:hunter2")).contains("hunter2"));
    }
}
