//! The program `pg_dump`: which one it is, and what its end means.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use postgres::error::SqlState;
use svc_step::child::{self, Ended};
use svc_step::{Call, Failure, file};

use crate::check::major;
use crate::pg::{self, Server, Target};

/// A `pg_dump` that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PgDump {
    path: PathBuf,
    /// Such as `15.18 (Debian 15.18-0+deb12u1)`.
    pub(crate) version: String,
}

impl PgDump {
    /// The given pg_dump; else the packaged one of the server's major version, since what a newer one writes may not load into that server
    /// again; else the one on the PATH.
    pub(crate) fn find(call: &Call, given: Option<&Path>, server: &Server) -> Result<Self, Failure> {
        let path = match given {
            // With `--as`, the dump runs in another directory.
            Some(path) if path.components().count() > 1 => file::absolute(path)?,
            given => given.map_or_else(|| packaged(&[server.major()]), Path::to_owned),
        };
        let program = Self::ask(call, &path, server.major())?;
        let own = major(&program.version).unwrap_or_default();
        // pg_dump refuses newer servers itself, after it has connected.
        if own < server.major() {
            return Err(Failure::refused(
                "version_unsupported",
                format!("pg_dump {} cannot dump the server, which is {}.", program.version, server.version),
            )
            .hint(format!(
                "Install a newer one: apt install postgresql-client-{0} (from apt.postgresql.org where Debian has none), or name it with --pg-dump /usr/lib/postgresql/{0}/bin/pg_dump.",
                server.major()
            )));
        }
        if own > server.major() {
            call.warn(
                "version_unsupported",
                format!(
                    "pg_dump {} is newer than the server, which is {}: in rare cases, what it writes cannot be loaded into that server again. \
                     The package postgresql-client-{} has a compatible one.",
                    program.version,
                    server.version,
                    server.major()
                ),
            );
        }
        Ok(program)
    }

    /// Asks a `pg_dump` for its version.
    fn ask(call: &Call, path: &Path, server_major: u32) -> Result<Self, Failure> {
        let mut command = Command::new(path);
        command.arg("--version").env("LC_ALL", "C");
        let package = format!("Install the package that has it: apt install postgresql-client-{server_major}.");
        let asked = child::capture(call, &mut command).map_err(|failure| match failure.code.as_str() {
            "file_not_found" => failure.hint(&package),
            _ => failure,
        })?;
        // pg_dump (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)
        let text = String::from_utf8_lossy(&asked.stdout);
        match text.trim().strip_prefix("pg_dump (PostgreSQL) ") {
            Some(version) if asked.status.success() => Ok(Self { path: path.to_owned(), version: version.to_owned() }),
            _ => Err(Failure::fault(format!("{} does not say which pg_dump it is.", path.display()))
                .hint(package)
                .cause(if asked.stderr.is_empty() { text.into_owned() } else { asked.stderr })),
        }
    }

    fn args(lock_wait: Duration, target: &Target, database: &str) -> Vec<String> {
        vec![
            "--format=plain".to_owned(),
            "--no-password".to_owned(),
            format!("--lock-wait-timeout={}", lock_wait.as_millis()),
            format!("--host={}", target.host),
            format!("--port={}", target.port),
            format!("--username={}", target.user),
            format!("--dbname={database}"),
        ]
    }

    /// The whole command line, as it would be typed.
    pub(crate) fn typed(&self, lock_wait: Duration, target: &Target, database: &str) -> Vec<String> {
        let become_user = target.os_user.as_ref().map(|user| ["runuser", "-u", &user.name, "--"].map(str::to_owned));
        let program = self.path.display().to_string();
        become_user.into_iter().flatten().chain([program]).chain(Self::args(lock_wait, target, database)).collect()
    }

    /// The command, with the rest of the target (password, TLS) in its environment.
    pub(crate) fn command(&self, lock_wait: Duration, target: &Target, database: &str) -> Command {
        let mut command = Command::new(&self.path);
        command.args(Self::args(lock_wait, target, database)).stdin(std::process::Stdio::null());
        target.child_env(&mut command, database);
        // Messages are parsed below; nothing in a dump depends on it.
        command.env("LC_ALL", "C");
        command
    }

    /// The one that writes what is in a database besides its rows: of the version that wrote a dump (`writer`) or, if that is newer, of
    /// the server's; else the one on the PATH. `None` if there is none that can dump that server.
    pub fn for_schema(call: &Call, server_major: u32, writer: &str) -> Option<Self> {
        let path = packaged(&[major(writer).unwrap_or_default().max(server_major), server_major]);
        let program = Self::ask(call, &path, server_major).ok()?;
        (major(&program.version)? >= server_major).then_some(program)
    }

    /// Hands over what is in a database besides its rows, piece by piece.
    ///
    /// # Errors
    /// It cannot be run, does not come to its end, or a signal or the time limit ends it.
    pub fn schema(
        &self,
        call: &Call,
        target: &Target,
        database: &str,
        encoding: Option<&str>,
        mut take: impl FnMut(&[u8]),
    ) -> Result<(), Failure> {
        let mut command = self.command(Duration::from_secs(60), target, database);
        command.arg("--schema-only").args(encoding.map(|name| format!("--encoding={name}")));
        let mut running = child::Running::start(&mut command)?;
        running.pieces(call, |piece| {
            take(&piece);
            Ok(())
        })?;
        let ended = running.wait(call)?;
        if ended.status.success() { Ok(()) } else { Err(failure(call, &ended, target, database)) }
    }
}

/// The first `pg_dump` of these major versions where Debian's packages, and those of postgresql.org for Red Hat's systems, put it; else
/// the one on the PATH.
fn packaged(majors: &[u32]) -> PathBuf {
    let places = |major: &u32| [format!("/usr/lib/postgresql/{major}/bin/pg_dump"), format!("/usr/pgsql-{major}/bin/pg_dump")];
    let found = majors.iter().flat_map(places).map(PathBuf::from).find(|path| path.exists());
    found.unwrap_or_else(|| "pg_dump".into())
}

/// Statements that read no row of all that pg_dump reads, with the rights and the locks that this takes.
const READS: &str = "SELECT string_agg(format('SELECT * FROM ONLY %s LIMIT 0', c.oid::regclass), ';')
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'p', 'S') AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
        AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e')";

/// The server's refusal of what pg_dump reads, if it lacks a right or waits for a lock. (pg_dump tells no SQLSTATE, and the words of the
/// server are in its own language.)
fn refused(call: &Call, target: &Target, database: &str) -> Option<Failure> {
    let mut client = target.connect(call, database).ok()?;
    let reads: String = client.query_one(READS, &[]).ok()?.try_get(0).ok()?;
    client.batch_execute("SET row_security = off; SET lock_timeout = '1s'").ok()?;
    let error = client.batch_execute(&reads).err()?;
    let of_server = [SqlState::INSUFFICIENT_PRIVILEGE, SqlState::LOCK_NOT_AVAILABLE].contains(error.code()?);
    of_server.then(|| pg::of_query(&error, &format!("dump the database {database}")))
}

/// What pg_dump itself says, line by line: what the server says of a row, and the query, follow on lines of other kinds.
pub(crate) fn own_words(stderr: &str) -> impl Iterator<Item = &str> {
    stderr.lines().map(str::trim).filter(|line| line.starts_with("pg_dump"))
}

/// What a pg_dump that did not end well says.
pub(crate) fn failure(call: &Call, ended: &Ended, target: &Target, database: &str) -> Failure {
    const OF_SERVER: [&str; 4] = [": detail: ", "Error message from server", "ommand was: ", "uery was: "];
    const LOST: [&str; 4] = [
        "server closed the connection unexpectedly",
        "terminating connection",
        "could not receive data from server",
        "SSL SYSCALL error",
    ];
    let is_own = |line: &&str| !OF_SERVER.iter().any(|mark| line.contains(mark));
    let said = own_words(&ended.stderr).filter(is_own).collect::<Vec<_>>().join("\n");
    let refused = ended.status.code().and_then(|_| refused(call, target, database));
    let failure = refused.unwrap_or_else(|| {
        Failure::fault(format!("pg_dump did not dump the database {database} to its end."))
            .hint("See the cause and the server's log; when it is fixed, run the same command again.")
    });
    let failure = failure.cause(format!("pg_dump ended with {}", ended.status)).cause(said);
    // libpq's own words, which are English in pg_dump's environment.
    match LOST.iter().any(|words| ended.stderr.contains(words)) {
        true => failure.cause("the server terminated the connection"),
        false => failure,
    }
}
