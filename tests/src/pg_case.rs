//! One test's own database on the shared PostgreSQL, with its owner, and `svc-pgdump` and `svc-pgrestore` set up for it.

use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{fs, process};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;

use crate::content::{difference, of_copy, postgres_bytes, postgres_dump};
use crate::host::Host;
use crate::os;
use crate::postgres::{Postgres, identifier, literal};
use crate::proxy::Proxy;
use crate::tool::{Ran, Spawned, Tool, search_path};
use crate::wait;

/// What nearly every test of `svc-pgdump` and `svc-pgrestore` uses.
pub mod prelude {
    pub use super::{ALONE, Case, Held, PASSWORD, same, verify};
    pub use crate::content::{of_copy, postgres_bytes, postgres_dump};
    pub use crate::host::OwnPostgres;
    pub use crate::page::Example;
    pub use crate::postgres::{ADMINISTRATOR, GERMAN, Postgres, identifier, literal};
    pub use crate::prelude::*;
    pub use crate::programs::{self, Programs};
    pub use crate::proxy::{Mode, Proxy};
    pub use crate::random::{self, Random};
    pub use crate::secured::Authority;
    pub use crate::tool::search_path;
    pub use crate::witness::Witness;
}

pub const PASSWORD: &str = "secret";
/// The rights to one function are one row of the server's: of two tests that change them at once, one would fail.
pub const ALONE: &str = "SELECT pg_advisory_xact_lock(1);";
/// Ends the sessions that a condition behind it names.
const END_SESSIONS: &str = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND";
/// The comment before which [`Case::dump_with`] puts a statement.
const END: &str = "--\n-- PostgreSQL database dump complete";

/// What the service's database may look like: a serial key, a constraint, an index, an enumeration, a view, a comment with traps.
const CONTENT: &str = r"
    SET ROLE %OWNER%;
    CREATE TYPE public.kind AS ENUM ('one', 'two');
    CREATE TABLE public.items (id serial PRIMARY KEY, name text NOT NULL UNIQUE, kind public.kind, body jsonb);
    INSERT INTO public.items (name, kind, body) SELECT 'item ' || n, 'one', jsonb_build_object('n', n) FROM generate_series(1, 500) n;
    CREATE TABLE public.notes (item int NOT NULL REFERENCES public.items (id), note text);
    INSERT INTO public.notes SELECT n, E'back\\slash\ttab\nline \\.' FROM generate_series(1, 200) n;
    CREATE INDEX notes_item ON public.notes (item);
    CREATE VIEW public.named AS SELECT name FROM public.items;
    COMMENT ON TABLE public.items IS E'a trap:\nCOPY public.notes (item) FROM stdin;\n\\.\n';
";

/// A database with its owner, a folder for files and a state folder, all of one test.
pub struct Case {
    pub pg: Postgres,
    /// The database; the names of its copies begin with it.
    pub database: String,
    pub owner: String,
    pub dir: TempDir,
}

impl Case {
    pub fn new(name: &str) -> Self {
        Self::on(Host::shared().unwrap().postgres, own_name(name))
    }

    /// The same on any server, with the database's full name.
    pub fn on(pg: Postgres, database: String) -> Self {
        let case = Self { pg, owner: format!("{database}_o"), database, dir: tempfile::tempdir().unwrap() };
        case.pg.create_role(&case.owner, PASSWORD).unwrap();
        case.pg.create_database(&case.database, &case.owner).unwrap();
        case
    }

    /// The same, with content, and the dump of it.
    pub fn filled(name: &str) -> (Self, PathBuf) {
        Self::filled_on(Host::shared().unwrap().postgres, name)
    }

    /// The same on any server.
    pub fn filled_on(pg: Postgres, name: &str) -> (Self, PathBuf) {
        let case = Self::on(pg, own_name(name));
        case.sql(&CONTENT.replace("%OWNER%", &identifier(&case.owner)));
        let dump = case.dump();
        (case, dump)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        fs::write(self.path(name), text).unwrap();
        self.path(name)
    }

    pub fn sql(&self, sql: &str) -> String {
        self.pg.sql(&self.database, sql).unwrap()
    }

    /// Runs a script of psql in the database; `:owner` in it is the owner.
    pub fn script(&self, text: &str) {
        let mut psql = self.pg.administrator("psql");
        psql.args(["-XAtq", "-v", "ON_ERROR_STOP=1", "-d", &self.database, "-v", &format!("owner={}", self.owner), "-f", "-"]);
        os::fed(&mut psql, text).unwrap();
    }

    pub fn admin(&self, sql: &str) -> String {
        self.pg.sql("postgres", sql).unwrap()
    }

    pub fn dump(&self) -> PathBuf {
        self.dump_by(&[])
    }

    /// What `pg_dump` itself writes with such options.
    pub fn dump_by(&self, options: &[&str]) -> PathBuf {
        let output = self.pg.administrator("pg_dump").args(options).arg(format!("--dbname={}", self.database)).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        self.write("svc_db.backup.sql", output.stdout)
    }

    /// The same dump with a statement more at its end, before the last comment.
    pub fn dump_with(&self, dump: &Path, statement: &str) -> PathBuf {
        self.dump_before(dump, END, statement)
    }

    /// The same dump with a statement more before that text.
    pub fn dump_before(&self, dump: &Path, place: &str, statement: &str) -> PathBuf {
        let text = fs::read_to_string(dump).unwrap();
        let at = text.rfind(place).unwrap();
        self.write("changed.sql", format!("{}\n{statement}\n\n{}", &text[..at], &text[at..]))
    }

    pub fn bytes(&self) -> Vec<u8> {
        postgres_bytes(&self.pg, &self.database).unwrap()
    }

    pub fn text(&self) -> String {
        postgres_dump(&self.pg, &self.database).unwrap()
    }

    pub fn tool(&self) -> Tool {
        self.set_up("svc-pgrestore")
    }

    pub fn dumper(&self) -> Tool {
        self.set_up("svc-pgdump").dir(self.dir.path())
    }

    fn set_up(&self, name: &str) -> Tool {
        // The clients of the server's version are where the others of its host are.
        let tool = Tool::new(name).env("PATH", search_path([self.pg.bin_dir.clone()])).env("PGHOST", &self.pg.socket_dir);
        let tool = tool.env("PGPORT", self.pg.port.to_string()).env("SVC_STATE_DIR", self.path("state"));
        tool.env("SVC_DATABASE", &self.database).env("SVC_DB_USER", &self.owner)
    }

    /// A backup by our own tool, which writes the database's properties beside it; gives its document's file.
    pub fn backup(&self) -> PathBuf {
        let own = self.dumper().arg("--pg-dump").arg(self.pg.bin_dir.join("pg_dump"));
        self.keep("pgdump.json", &own.args(["--as", "postgres", "--force", "--output", "backup.sql"]).run().ok())
    }

    pub fn by_run(&self, step: &[&str], run: &str) -> Ran {
        self.tool().args(step).args(["--run", run]).run()
    }

    pub fn from(&self, step: &[&str], document: &Path) -> Ran {
        self.tool().args(step).arg("--from").arg(document).run()
    }

    /// A role with a password and such rights, which goes with the case; the tools run as it by [`Case::by`].
    pub fn role(&self, suffix: &str, rights: &str) -> String {
        let role = format!("{}_{suffix}", self.database);
        os::file(&self.path("password"), &format!("{PASSWORD}\n"), 0o600, None).unwrap();
        self.admin(&format!(
            "{ALONE} CREATE ROLE {role} LOGIN PASSWORD {} {rights}; GRANT EXECUTE ON FUNCTION pg_control_system() TO {role}",
            literal(PASSWORD)
        ));
        role
    }

    /// The tool as a role that comes from the network.
    pub fn by(&self, role: &str, tool: Tool) -> Tool {
        tool.args(["--host", "127.0.0.1", "--username", role, "--password-file"]).arg(self.path("password"))
    }

    /// What a network between the tools and the server may do to them.
    pub fn proxy(&self) -> Proxy {
        Proxy::to(&format!("127.0.0.1:{}", self.pg.port)).unwrap()
    }

    /// The tool as a role on its way through such a network.
    pub fn through(&self, proxy: &Proxy, role: &str, tool: Tool) -> Tool {
        self.by(role, tool).args(["--port", &proxy.port().to_string()])
    }

    /// Our own databases beside this one.
    pub fn copies(&self) -> String {
        self.pg.databases(&format!("{}_", self.database)).unwrap().join("\n")
    }

    pub fn oid(&self, database: &str) -> String {
        self.admin(&format!("SELECT oid FROM pg_database WHERE datname = {}", literal(database)))
    }

    /// What a dump does not hold of a database. The owner's rights may stand there or be understood.
    pub fn properties(&self, database: &str) -> String {
        self.admin(&format!(
            "SELECT to_jsonb(d) - '{{oid,datname,datallowconn,datfrozenxid,datminmxid,datacl}}'::text[], datdba::regrole, \
             shobj_description(oid, 'pg_database'), (SELECT string_agg(format('%s: %s', setrole::regrole, setconfig), ';' ORDER BY setrole) \
             FROM pg_db_role_setting WHERE setdatabase = d.oid), \
             (SELECT string_agg(a::text, ';' ORDER BY a::text) FROM aclexplode(coalesce(datacl, acldefault('d', datdba))) a) \
             FROM pg_database d WHERE datname = {}",
            literal(database)
        ))
    }

    pub fn connection_limit(&self) -> String {
        self.admin(&format!("SELECT datconnlimit FROM pg_database WHERE datname = {}", literal(&self.database)))
    }

    /// What one of our own databases holds, by the document that names it, in the words of such clients; the database goes.
    pub fn take(&self, copy: &Value, clients: &Postgres) -> Vec<u8> {
        let name = copy["name"].as_str().unwrap();
        let bytes = of_copy(clients, name, || postgres_bytes(clients, name)).unwrap();
        self.pg.drop_database(name).unwrap();
        bytes
    }

    /// How many rows there are in the smaller of its tables: 200 in the dump.
    pub fn notes(&self) -> String {
        self.sql("SELECT count(*) FROM notes")
    }

    pub fn keep(&self, name: &str, ran: &Ran) -> PathBuf {
        self.write(name, ran.text())
    }

    pub fn sessions(&self, condition: &str) -> usize {
        let sql = format!("SELECT count(*) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND {condition}");
        self.admin(&sql).parse().unwrap()
    }

    pub fn wait_for(&self, what: &str, condition: &str) {
        wait::so(what, || (self.sessions(condition) > 0).then_some(()));
    }

    pub fn wait_for_end(&self, what: &str, condition: &str) {
        wait::so(what, || (self.sessions(condition) == 0).then_some(()));
    }

    pub fn end(&self, condition: &str) {
        self.admin(&format!("{END_SESSIONS} {condition}"));
    }

    /// The sessions that load a copy and sleep.
    pub fn sleeping_loads(&self) -> String {
        format!("datname LIKE {} AND wait_event = 'PgSleep'", literal(&format!("{}_staged_%", self.database)))
    }

    /// Starts a staging whose load sleeps at its end.
    pub fn sleeping(&self, stage: Tool, dump: &Path) -> Spawned {
        let spawned = stage.arg(self.dump_with(dump, "SELECT pg_catalog.pg_sleep(600);")).spawn();
        self.wait_for("the sleeping load", &self.sleeping_loads());
        spawned
    }

    /// A transaction that has done this in that database, and stays open.
    pub fn hold(&self, database: &str, statement: &str) -> Held<'_> {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let mark = format!("{} holds {};", self.database, NEXT.fetch_add(1, Ordering::Relaxed));
        let sleeps = format!("position({} IN query) > 0", literal(&mark));
        let psql = self.session(database, &format!("/* {mark} */ BEGIN; {statement}; SELECT pg_sleep(600)"));
        self.wait_for("the open transaction", &format!("{sleeps} AND wait_event = 'PgSleep'"));
        Held { case: self, sleeps, psql }
    }

    /// A transaction that holds a lock on the database as such, so that no rename gets through until it ends.
    pub fn blocker(&self) -> Held<'_> {
        self.hold("postgres", &format!("COMMENT ON DATABASE {} IS 'held'", identifier(&self.database)))
    }

    pub fn wait_for_rename(&self) {
        let like = literal(&format!("ALTER DATABASE%{}%", self.database));
        self.wait_for("the rename", &format!("query LIKE {like} AND wait_event_type = 'Lock'"));
    }

    /// The server's processes that a condition names, stopped.
    pub fn stopped(&self, condition: &str) -> Stopped {
        let pids = self.admin(&format!("SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND {condition}"));
        let stopped = Stopped(pids.lines().map(|pid| Pid::from_raw(pid.parse().unwrap())).collect());
        stopped.0.iter().for_each(|pid| kill(*pid, Signal::SIGSTOP).unwrap());
        stopped
    }

    /// A session of the owner's, from the network.
    pub fn owners_session(&self, database: &str) -> Result<postgres::Client, postgres::Error> {
        let mut config = postgres::Config::new();
        config.host("127.0.0.1").port(self.pg.port).user(&self.owner).password(PASSWORD).dbname(database);
        config.connect(postgres::NoTls)
    }

    pub fn session(&self, database: &str, sql: &str) -> Child {
        let mut psql = self.pg.administrator("psql");
        psql.args(["-XAtq", "-d", database, "-c", sql]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }
}

/// Processes of a server that are stopped until this is dropped, also by a test that fails.
pub struct Stopped(Vec<Pid>);

impl Drop for Stopped {
    fn drop(&mut self) {
        for pid in &self.0 {
            let _ = kill(*pid, Signal::SIGCONT);
        }
    }
}

pub struct Held<'a> {
    case: &'a Case,
    sleeps: String,
    psql: Child,
}

impl Held<'_> {
    pub fn is_open(&mut self) -> bool {
        matches!(self.psql.try_wait(), Ok(None))
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        // The server ends it: the death of its psql alone does not wake a session that sleeps. The server may have been stopped.
        let _ = self.case.pg.sql("postgres", &format!("{END_SESSIONS} {}", self.sleeps));
        let _ = self.psql.kill();
        let _ = self.psql.wait();
    }
}

#[track_caller]
pub fn same(before: &[u8], after: &[u8], what: &str) {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    assert!(before == after, "{what}:\n{}", difference(&text(before), &text(after)));
}

pub fn verify(dump: &Path) -> Ran {
    Tool::new("svc-pgdump").arg("verify").arg(dump).run()
}

fn own_name(name: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    // None of them begins with another one.
    format!("{name}_{}_{number:03}", process::id())
}

impl Drop for Case {
    fn drop(&mut self) {
        for database in self.pg.databases(&self.database).unwrap_or_default() {
            let _ = self.pg.drop_database(&database);
        }
        let roles = format!("SELECT quote_ident(rolname) FROM pg_roles WHERE starts_with(rolname, {})", literal(&self.database));
        for role in self.pg.sql("postgres", &roles).unwrap_or_default().lines() {
            let _ = self.pg.sql("postgres", &format!("{ALONE} DROP OWNED BY {role}; DROP ROLE {role}"));
        }
        let _ = self.pg.sql("postgres", &format!("DROP ROLE IF EXISTS {}", identifier(&self.owner)));
    }
}
