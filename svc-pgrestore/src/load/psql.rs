//! The loader that psql is: we feed it, so that progress in bytes is known and the file needs to be readable by us only.
//!
//! A dump may be of a server that is not to be trusted, so nothing in it may be a command to psql. It is in its restricted mode
//! from the first byte on, with a key that the dump cannot hold; it never runs as root; and it cannot start a program.

use std::fs::File;
use std::io::{BufWriter, ErrorKind, Read, Write};
use std::process::{ChildStdin, Command, Stdio};

use nix::unistd::{Uid, User};
use svc_pgdump::check::lexer;
use svc_pgdump::check::lexer::{Kind, Piece};
use svc_pgdump::pg::{MAINTENANCE, SESSION_SETTINGS, Target};
use svc_step::child::{Ended, Running, capture, run_as};
use svc_step::file::hex;
use svc_step::line_secrets::without_secrets;
use svc_step::progress::{Progress, Unit};
use svc_step::user::OsUser;
use svc_step::{Call, Failure};

use super::filter::Filter;
use super::{ARRAY_NULLS, Load, WARNINGS, errors, unreadable};

/// How much is sent at once.
const PIECE: usize = 256 * 1024;

/// Status of a psql whose script failed, by its manual.
const SCRIPT_FAILED: i32 = 3;

/// Without room for one more process nothing in a dump can start a program, in no version of psql.
const NO_PROGRAMS: [&str; 4] = ["prlimit", "--nproc=0", "--", "psql"];

/// User numbers from here on: above those that systemd and sssd give out, and with room for every number that a process can have.
const UNASSIGNED: u32 = 0x7F00_0000;
/// The unassigned ones that are in every container too.
const UNASSIGNED_LOW: std::ops::RangeInclusive<u32> = 65_520..=65_533;

/// Whether psql can be run, connects as it will, and knows its restricted mode: found out before anything is altered.
pub(super) fn available(call: &Call, target: &Target) -> Result<(), Failure> {
    let mut version = Command::new("psql");
    version.arg("--version");
    own_user(target)?.iter().for_each(|user| run_as(&mut version, user));
    capture(call, &mut version).map_err(|failure| match failure.code.as_str() {
        "program_not_found" => failure.hint("Install it: apt install postgresql-client."),
        _ => failure,
    })?;
    let mut running = Running::start(&mut command(target, MAINTENANCE)?)?;
    let written = running.stdin().map(|mut stdin| stdin.write_all(restrict()?.as_bytes())).transpose();
    let Ended { status, stderr } = running.wait(call)?;
    match (status.code(), written) {
        (Some(0), Ok(_)) => Ok(()),
        (Some(SCRIPT_FAILED), _) => Err(Failure::refused(
            "psql_too_old",
            "The psql on the PATH does not know \\restrict, without which a dump could run commands on this host.",
        )
        .hint("Upgrade it: apt install postgresql-client (13.22, 14.19, 15.14, 16.10, 17.6 or newer).")),
        _ => Err(Failure::refused(
            "psql_unusable",
            format!("psql, which is needed for this dump, does not connect to {} as our own connection does.", target.place()),
        )
        .hint("It never runs as root: the files of PGSSLROOTCERT, PGSSLCERT and PGSSLKEY must be readable for the group of the user nobody (PGSSLKEY: chown root:nogroup, chmod 640); or connect with --as over the socket.")
        .cause(format!("psql ended with {status}"))
        .cause(connecting(&stderr))),
    }
}

/// What psql said of a connection that did not come about: it has read nothing of a dump by then.
fn connecting(stderr: &str) -> String {
    without_secrets(stderr.lines().find(|line| line.starts_with("psql: error: ")).unwrap_or_default())
}

/// The order that makes psql refuse every other one, with a key that nobody knows. What follows is on the same line, so that the
/// numbers of the lines stay right.
fn restrict() -> std::io::Result<String> {
    let mut key = [0; 24];
    File::open("/dev/urandom")?.read_exact(&mut key)?;
    Ok(format!("\\restrict {} \\\\ ", hex(&key)))
}

/// Whom psql runs as, where that is not the caller: a dump is nobody's business to read as root. In root's place it is nobody, by a
/// number of this call's own: processes of one number read each other's environment, where the password is.
fn own_user(target: &Target) -> Result<Option<OsUser>, Failure> {
    let user = target.os_user.as_ref().cloned().or_else(OsUser::current);
    match user {
        Some(user) if user.uid.is_root() => Ok(Some(OsUser { uid: unassigned()?, ..OsUser::named("nobody")? })),
        _ => Ok(target.os_user.as_ref().cloned()),
    }
}

/// A user's number that no other process has: of a range that nobody assigns, by the number of this process, which no other living one
/// has; where a container has no such numbers, one of those few that systemd leaves unassigned below 65536.
fn unassigned() -> Result<Uid, Failure> {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let is_mapped = |uid: u32| {
        map.lines().any(|line| {
            let mut numbers = line.split_whitespace().map_while(|word| word.parse::<u32>().ok());
            let (first, size) = (numbers.next(), numbers.nth(1));
            first.zip(size).is_some_and(|(first, size)| uid >= first && uid - first < size)
        })
    };
    let own = UNASSIGNED.saturating_add(std::process::id());
    let found = std::iter::once(own).chain(UNASSIGNED_LOW).find(|uid| is_mapped(*uid) && is_free(Uid::from_raw(*uid)));
    found.map(Uid::from_raw).ok_or_else(|| {
        Failure::refused(
            "psql_unusable",
            "psql, which is needed for this dump, never runs as root, and this host has no free user number.",
        )
        .hint("Run it as another user than root, or with --as over the socket.")
    })
}

fn is_free(uid: Uid) -> bool {
    !matches!(User::from_uid(uid), Ok(Some(_)))
}

fn words() -> Vec<&'static str> {
    let mut words = vec!["-X", "--no-password", "-q", "-v", "ON_ERROR_STOP=1", "-c", SESSION_SETTINGS, "-c", ARRAY_NULLS];
    // With the SQLSTATE of each answer: it tells which of them quote the values of rows.
    words.extend(["-v", "VERBOSITY=verbose", "-f", "-"]);
    words
}

/// What is run, as an operator would type it; the dump is sent to it.
pub(super) fn command_line(target: &Target, database: &str) -> Vec<String> {
    let user = match own_user(target) {
        Ok(Some(user)) if target.os_user.as_ref() == Some(&user) => {
            vec!["runuser".to_owned(), "-u".to_owned(), user.name, "--".to_owned()]
        }
        Ok(Some(user)) => {
            let (uid, gid) = (format!("--reuid={}", user.uid), format!("--regid={}", user.gid));
            vec!["setpriv".to_owned(), uid, gid, "--clear-groups".to_owned(), "--".to_owned()]
        }
        _ => Vec::new(),
    };
    user.into_iter().chain(NO_PROGRAMS.into_iter().chain(words()).chain(["-d", database]).map(str::to_owned)).collect()
}

pub(super) fn load(call: &Call, target: &Target, load: &Load<'_>) -> Result<(), Failure> {
    let mut running = Running::start(&mut command(target, load.database)?)?;
    let stdin = running.stdin();
    let progress = call.progress("load", Unit::Bytes);
    let (fed, ended) = std::thread::scope(|scope| {
        let feeder = scope.spawn(|| stdin.map_or(Ok(()), |stdin| feed(load, stdin, &progress)));
        // What psql prints on stdout is of no use to anybody. A signal ends psql here, and with it the feeder.
        let ended = running.pieces(call, |_| Ok(())).and_then(|()| running.wait(call));
        (feeder.join(), ended)
    });
    let Ended { status, stderr } = ended?;
    // A ^C on a terminal reaches psql too, and its end is then no failure of the dump.
    call.check()?;
    if !status.success() {
        return Err(errors::of_psql(status.code(), &stderr));
    }
    fed.map_err(|_| Failure::failed("internal", "A thread panicked."))??;
    for warning in errors::psql_warnings(&stderr).iter().take(WARNINGS) {
        call.warn("load_warning", format!("The server warned during the load: {warning}."));
    }
    Ok(())
}

fn command(target: &Target, database: &str) -> Result<Command, Failure> {
    let [prlimit, rest @ ..] = NO_PROGRAMS;
    let mut command = Command::new(prlimit);
    command.args(rest);
    target.child_env(&mut command, database);
    own_user(target)?.iter().for_each(|user| run_as(&mut command, user));
    // SQLSTATE decides, in whatever language the server speaks; but psql's own labels of the fields (TABLE NAME, CONTEXT, …), by which
    // values of rows are left out, come in the language of psql: English.
    command.env("LC_ALL", "C.UTF-8").env_remove("PSQLRC");
    command.args(words()).stdin(Stdio::piped());
    Ok(command)
}

/// Whether [`ARRAY_NULLS`] holds: it is taken back where a materialized view may be filled, and set where rows may follow.
#[derive(Default)]
struct Arrays {
    is_taken_back: bool,
    is_in_statement: bool,
}

impl Arrays {
    /// What is sent before a piece of the dump.
    fn before(&mut self, piece: &Piece<'_>) -> &'static str {
        if piece.kind != Kind::Statement {
            return "";
        }
        let is_first = !std::mem::replace(&mut self.is_in_statement, !piece.last);
        // REFRESH, and COPY; before others that begin so it does no harm.
        match piece.bytes.first() {
            Some(b'R') if is_first && !self.is_taken_back => {
                self.is_taken_back = true;
                "RESET array_nulls; "
            }
            Some(b'C') if is_first && self.is_taken_back => {
                self.is_taken_back = false;
                "SET array_nulls = on; "
            }
            _ => "",
        }
    }
}

/// Sends the dump to psql. A psql that stops reading says why.
fn feed(load: &Load<'_>, psql: ChildStdin, progress: &Progress) -> Result<(), Failure> {
    let mut psql = BufWriter::with_capacity(PIECE, psql);
    let mut filter = Filter::new(load.server);
    let mut arrays = Arrays::default();
    let ordered = restrict().and_then(|order| psql.write_all(order.as_bytes()));
    let pass = |piece: Piece<'_>| {
        progress.set(piece.at.byte, load.size_bytes);
        psql.write_all(arrays.before(&piece).as_bytes())?;
        filter.pass(piece, &mut psql)
    };
    let fed = ordered.and_then(|()| lexer::read(load.dump.text(), pass)).and_then(|_| filter.finish(&mut psql));
    // What is left in the buffer is for nobody; a drop would try to write it once more.
    let (_, _) = psql.into_parts();
    match fed {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(unreadable(&error)),
        _ => Ok(()),
    }
}
