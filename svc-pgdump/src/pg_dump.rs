//! The program `pg_dump`: which one it is, and what its end means.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use postgres::error::SqlState;
use svc_step::child::{self, Ended};
use svc_step::{Call, Failure};

use crate::check::{INTERNAL_OPTION, major};
use crate::pg::{self, Server, Target};

/// The one that the PATH finds.
const ON_PATH: &str = "pg_dump";

/// A `pg_dump` that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PgDump {
    path: PathBuf,
    /// Such as `15.18 (Debian 15.18-0+deb12u1)`.
    pub(crate) version: String,
}

impl PgDump {
    /// The `pg_dump` that is named; else the one on the PATH, unless that is of another version than the server and a package has
    /// put the server's own somewhere: what a newer one writes may not load into that server again.
    pub(crate) fn find(call: &Call, named: Option<&Path>, server: &Server) -> Result<Self, Failure> {
        let program = match named {
            Some(path) => Self::ask(call, path, server)?,
            None => {
                let on_path = Self::ask(call, Path::new(ON_PATH), server);
                let fits = on_path.as_ref().is_ok_and(|program| major(&program.version) == Some(server.major()));
                match packaged(server.major()).filter(|_| !fits) {
                    Some(path) => Self::ask(call, &path, server)?,
                    None => on_path?,
                }
            }
        };
        program.check(server)?;
        if major(&program.version).is_some_and(|own| own > server.major()) {
            call.warn(
                "pg_dump_newer",
                format!(
                    "pg_dump {} is newer than the server, which is {}: what it writes may, seldom, not load into that server again. \
                     The package postgresql-client-{} has one that fits.",
                    program.version,
                    server.version,
                    server.major()
                ),
            );
        }
        Ok(program)
    }

    /// Asks a `pg_dump` for its version.
    fn ask(call: &Call, path: &Path, server: &Server) -> Result<Self, Failure> {
        let mut command = Command::new(path);
        command.arg("--version").env("LC_ALL", "C");
        let package = format!("Install the package that has it: apt install postgresql-client-{}.", server.major());
        let asked = child::capture(call, &mut command).map_err(|failure| match failure.code.as_str() {
            "program_not_found" => failure.hint(&package),
            _ => failure,
        })?;
        // pg_dump (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)
        let text = String::from_utf8_lossy(&asked.stdout);
        match text.trim().strip_prefix("pg_dump (PostgreSQL) ") {
            Some(version) if asked.status.success() => Ok(Self { path: path.to_owned(), version: version.to_owned() }),
            _ => Err(Failure::failed("pg_dump_unusable", format!("{} does not say which pg_dump it is.", path.display()))
                .hint(package)
                .cause(if asked.stderr.is_empty() { text.into_owned() } else { asked.stderr })),
        }
    }

    /// Whether it can dump that server: pg_dump refuses newer ones, after it has connected.
    fn check(&self, server: &Server) -> Result<(), Failure> {
        if major(&self.version).is_some_and(|own| own >= server.major()) {
            return Ok(());
        }
        Err(Failure::refused(
            "pg_dump_too_old",
            format!("pg_dump {} cannot dump the server, which is {}.", self.version, server.version),
        )
        .hint(format!(
            "Install a newer one: apt install postgresql-client-{0} (from apt.postgresql.org where Debian has none), or name it with --pg-dump /usr/lib/postgresql/{0}/bin/pg_dump.",
            server.major()
        )))
    }

    /// What is said of a dump that sets [`INTERNAL_OPTION`].
    pub(crate) fn internal_option(&self, server: &str, major: u32) -> String {
        format!(
            "pg_dump {} has written the column option {INTERNAL_OPTION}, which the server ({server}) keeps for itself and another one \
             may refuse. The server's own pg_dump leaves it out: install the newest postgresql-client-{major}, and pass it with --pg-dump.",
            self.version
        )
    }

    fn args(lock_wait: Duration, target: &Target, database: &str) -> Vec<String> {
        vec![
            "--format=plain".to_owned(),
            "--no-password".to_owned(),
            format!("--lock-wait-timeout={}", lock_wait.as_millis()),
            format!("--host={}", target.host()),
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
}

/// Where Debian's packages, and those of postgresql.org for Red Hat's systems, put the `pg_dump` of a major version.
fn packaged(major: u32) -> Option<PathBuf> {
    let places = [format!("/usr/lib/postgresql/{major}/bin/pg_dump"), format!("/usr/pgsql-{major}/bin/pg_dump")];
    places.into_iter().map(PathBuf::from).find(|path| path.exists())
}

/// Statements that read no row of all that pg_dump reads, with the rights and the locks that this takes.
const READS: &str = "SELECT string_agg(format('SELECT * FROM ONLY %s LIMIT 0', c.oid::regclass), ';')
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'p', 'S') AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
        AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e')";

/// The server's refusal of what pg_dump reads, where it lacks a right or waits for a lock. (pg_dump tells no SQLSTATE, and the words of the
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
    let is_own = |line: &&str| !OF_SERVER.iter().any(|mark| line.contains(mark));
    let said = own_words(&ended.stderr).filter(is_own).collect::<Vec<_>>().join("\n");
    let refused = ended.status.code().and_then(|_| refused(call, target, database));
    let failure = refused.unwrap_or_else(|| {
        Failure::failed("pg_dump_failed", format!("pg_dump did not dump the database {database} to its end."))
            .hint("See the cause and the server's log; when it is fixed, run the same command again.")
    });
    let failure = failure.cause(format!("pg_dump ended with {}", ended.status)).cause(said);
    // libpq's own words, which are English in pg_dump's environment.
    match ended.stderr.contains("server closed the connection unexpectedly") {
        true => failure.cause("the server terminated the connection"),
        false => failure,
    }
}
