//! svc-pgdump and svc-pgrestore beside pg_dump, psql and pg_restore, on a server of the benchmark's own in a throw-away host.

use std::cell::Cell;
use std::fs;

use anyhow::{Result, ensure};
use clap::{Args, ValueEnum};
use svc_tests::host::{Host, OwnPostgres};
use svc_tests::postgres::ADMINISTRATOR;
use svc_tests::{os, wait};

use crate::measure::{Line, Scratch, in_turn, machine, settle_disk};
use crate::report::{Point, Report};
use crate::{Frame, rows};

/// What can be measured by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// The dump, beside pg_dump and sync
    Dump,
    /// The restore, beside psql -f and pg_restore -Fd -j2
    Restore,
    /// The same with a database that one large table dominates
    Dominated,
    /// Many tables
    Tables,
}

/// What is measured, and on how much.
#[derive(Debug, Args)]
pub struct Arguments {
    /// How many MB the database has
    #[arg(long, default_value_t = 1500)]
    megabytes: usize,
    /// At how many tables the growth is measured
    #[arg(long, value_delimiter = ',', default_value = "1250,2500,5000")]
    tables: Vec<usize>,
    #[command(flatten)]
    frame: Frame<Part>,
}

/// The database that is dumped and restored, its owner, and where the plain commands restore to.
const DATABASE: &str = "svc_db";
const OWNER: &str = "svc";
const BESIDE: &str = "svc_db_plain";
/// What a call may hold at most, in MB.
const MEMORY: f64 = 64.0;

/// Measures; what missed its target.
pub fn run(arguments: &Arguments) -> Result<Vec<String>> {
    let (server, pairs) = (&Server::start()?, arguments.frame.pairs(10)?);
    arguments.frame.measure(server.described()?, |report, wanted| {
        if wanted(Part::Dump) || wanted(Part::Restore) {
            let schemas: Vec<String> = (0..10).map(|n| format!("part{n}")).collect();
            server.fill(|| rows::fill(&server.postgres, DATABASE, &schemas, arguments.megabytes))?;
            if wanted(Part::Dump) {
                dump(server, report, pairs)?;
            }
            if wanted(Part::Restore) {
                restore(server, report, pairs, "", 0.85)?;
            }
        }
        if wanted(Part::Dominated) {
            server.fill(|| dominated(server, arguments.megabytes / 3))?;
            restore(server, report, pairs, ", one large table", 1.0)?;
        }
        if wanted(Part::Tables) {
            many_tables(server, report, &arguments.tables)?;
        }
        Ok(())
    })
}

/// Makes a server of the tests wait for its disk, as Debian sets it up: nothing of the tests has to survive.
pub fn durable(host: &Host) -> Result<OwnPostgres> {
    let postgres = host.postgres_server()?;
    for name in ["fsync", "synchronous_commit", "full_page_writes", "dynamic_shared_memory_type", "max_connections"] {
        postgres.sql("postgres", &format!("ALTER SYSTEM RESET {name}"))?;
    }
    host.systemd.stop(&postgres.unit)?;
    host.systemd.start(&postgres.unit)?;
    wait::until("PostgreSQL", wait::HANG, || postgres.sql("postgres", "SELECT 1").ok())?;
    Ok(postgres)
}

/// A server of the benchmark's own, beside which nothing else runs.
struct Server {
    postgres: OwnPostgres,
    /// The administrator may write in it.
    scratch: Scratch,
}

impl Server {
    fn start() -> Result<Self> {
        let host = Host::shared()?;
        host.systemd.stop(&host.search.unit)?;
        let server = Self { postgres: durable(&host)?, scratch: Scratch(tempfile::tempdir_in("/var/tmp")?) };
        os::folder(server.scratch.0.path(), 0o755, Some(&os::system_user(ADMINISTRATOR)?))?;
        server.postgres.create_role(OWNER, "secret")?;
        Ok(server)
    }

    fn path(&self, name: &str) -> String {
        self.scratch.file(name).display().to_string()
    }

    fn connected(&self, line: Line) -> Line {
        line.env("PGHOST", &self.postgres.socket_dir).env("PGPORT", self.postgres.port.to_string())
    }

    /// `svc-pgdump` as root types it.
    fn dump(&self, path: &str, more: &[&str]) -> Line {
        let args = [&["--as", "postgres", "--force", "--dbname", DATABASE, "--output", path], more].concat();
        self.connected(Line::tool("svc-pgdump", &args)).env("SVC_STATE_DIR", self.path("state"))
    }

    /// `svc-pgrestore` likewise.
    fn restore(&self, args: &[&str]) -> Line {
        self.connected(Line::tool("svc-pgrestore", args)).env("SVC_STATE_DIR", self.path("state"))
    }

    /// Plain commands, as the administrator types them.
    fn plain(&self, script: &str) -> Line {
        let script = format!("set -e; PATH={}:$PATH; {script}", self.postgres.bin_dir.display());
        self.connected(Line::new(["runuser", "-u", ADMINISTRATOR, "--", "sh", "-c", &script]))
    }

    /// Fills the database again, from the start.
    fn fill(&self, fill: impl FnOnce() -> Result<()>) -> Result<()> {
        self.postgres.drop_database(DATABASE)?;
        self.postgres.create_database(DATABASE, OWNER)?;
        fill()?;
        self.settle()?;
        let size = self.postgres.sql(DATABASE, "SELECT pg_database_size(current_database()) / 1000000")?;
        eprintln!("the database has {size} MB");
        Ok(())
    }

    /// Runs SQL in it as its owner.
    fn sql(&self, sql: &str) -> Result<()> {
        self.postgres.sql(DATABASE, &format!("SET ROLE {OWNER}; {sql}")).map(drop)
    }

    /// Writes all that the server and the system have not written yet, so that what is measured next does not pay for it.
    fn settle(&self) -> Result<()> {
        self.postgres.sql("postgres", "CHECKPOINT")?;
        settle_disk();
        Ok(())
    }

    /// The machine and the server, as a report names them.
    fn described(&self) -> Result<String> {
        let version = self.postgres.sql("postgres", "SELECT current_setting('server_version')")?;
        let checksums = self.postgres.sql("postgres", "SELECT current_setting('data_checksums')")?;
        let with = if checksums == "on" { "with" } else { "without" };
        Ok(format!(
            "{}; PostgreSQL {version} as Debian sets it up (128 MB of shared buffers, fsync on), {with} page checksums",
            machine(self.scratch.0.path())?
        ))
    }
}

/// A database of about that size, of which one table is two thirds, with a GIN index.
fn dominated(server: &Server, megabytes: usize) -> Result<()> {
    let table = |name: &str, rows: usize, index: &str| {
        server.sql(&format!(
            "CREATE TABLE {name} (id bigint, name text, content text, tags int[]); INSERT INTO {name} SELECT n, 'item ' || n % 5000, \
             (SELECT string_agg(md5((n + k)::text), ' ') FROM generate_series(1, 30) k), ARRAY[n % 1000, n % 777] \
             FROM generate_series(1, {rows}) n; ALTER TABLE {name} ADD PRIMARY KEY (id); CREATE INDEX ON {name} (name); {index}"
        ))
    };
    // Some 1.1 kB a row.
    let rows = megabytes * 900;
    table("large", rows * 2 / 3, "CREATE INDEX ON large USING gin (tags)")?;
    (0..10).try_for_each(|n| table(&format!("small{n}"), rows / 30, ""))
}

/// So many small tables, each with a key, an index and a foreign key.
fn small_tables(server: &Server, count: usize) -> Result<()> {
    server.sql("CREATE TABLE base (id int PRIMARY KEY); INSERT INTO base SELECT generate_series(1, 10)")?;
    // Some at a time, or the server runs out of room for locks.
    (0..count).step_by(100).try_for_each(|first| {
        server.sql(&format!(
            "DO $$ BEGIN FOR n IN {first} .. {} LOOP EXECUTE format('CREATE TABLE t%s (id int PRIMARY KEY, base int REFERENCES base, \
             t text); INSERT INTO t%s SELECT k, k, md5(k::text) FROM generate_series(1, 10) k; CREATE INDEX ON t%s (t)', n, n, n); END LOOP; END $$",
            (first + 100).min(count) - 1
        ))
    })
}

/// `svc-pgdump` beside `pg_dump > file` and `sync`; the compressed one beside the same, with no target.
fn dump(server: &Server, report: &mut Report, pairs: usize) -> Result<()> {
    let memory = Cell::new(0);
    let ours = |more: &[&str]| {
        server.settle()?;
        let path = server.path("ours.sql");
        let cost = server.scratch.watch(&server.dump(&path, more))?;
        memory.set(memory.get().max(cost.memory_bytes));
        ensure!(server.scratch.printed()?["ok"] == true, "ours is not ok");
        fs::remove_file(path)?;
        Ok(cost.seconds)
    };
    let theirs = || {
        server.settle()?;
        let path = server.path("theirs.sql");
        let seconds = server.scratch.time(&server.plain(&format!("pg_dump --dbname={DATABASE} > {path}; sync {path}")))?;
        fs::remove_file(path)?;
        Ok(seconds)
    };
    // Nobody's first call is measured.
    ours(&[])?;
    theirs()?;
    for (options, pairs, target) in [(&[][..], pairs, Some(1.05)), (&["--compress", "zstd"], pairs.div_ceil(3), None)] {
        let [ours, theirs] = in_turn(pairs, [&mut || ours(options), &mut || theirs()])?;
        let what = format!("`{}`", [&["svc-pgdump"], options].concat().join(" "));
        report.ratio(&what, "`pg_dump > file` and `sync`", target, (&ours, &theirs));
    }
    report.quantity("`svc-pgdump`, MB of memory", memory.get() as f64 / 1e6, MEMORY, pairs);
    Ok(())
}

/// `svc-pgrestore` (verify, stage, verify, swap) beside `psql -f` and `pg_restore -Fd -j2`, each with the statistics at the end. `of`:
/// what the database is like; `limit`: the ratio to `pg_restore`.
fn restore(server: &Server, report: &mut Report, rounds: usize, of: &str, limit: f64) -> Result<()> {
    let (plain, folder) = (server.path("svc_db.backup.sql"), server.path("folder"));
    server.scratch.time(&server.dump(&plain, &[]))?;
    let from = server.scratch.keep("pgdump.json")?;
    // The plain commands' administrator reads it too.
    std::os::unix::fs::chown(&plain, Some(os::system_user(ADMINISTRATOR)?.uid.as_raw()), None)?;
    server.scratch.time(&server.plain(&format!("pg_dump --format=directory --jobs=2 --file={folder} {DATABASE}")))?;
    let (mut memory_bytes, mut round) = (0, 0);
    let mut ours = || {
        server.settle()?;
        round += 1;
        let run = format!("20260101t000000z-bench{}-{round}", of.len());
        let cost = server.scratch.watch(&server.restore(&["--from", &from, "--owner", OWNER, "--run-id", &run]))?;
        memory_bytes = cost.memory_bytes.max(memory_bytes);
        let printed = server.scratch.printed()?;
        ensure!(printed["ok"] == true, "ours is not ok: {printed}");
        server.scratch.time(&server.restore(&["discard", "--run", &run]))?;
        anyhow::Ok(cost.seconds)
    };
    let theirs = |load: &str| {
        server.postgres.drop_database(BESIDE)?;
        server.settle()?;
        let script = format!("createdb --owner={OWNER} --template=template0 {BESIDE}; {load}; psql -Xqd {BESIDE} -c ANALYZE");
        let seconds = server.scratch.time(&server.plain(&script))?;
        server.postgres.drop_database(BESIDE)?;
        anyhow::Ok(seconds)
    };
    let by_psql = format!("psql -Xqd {BESIDE} -v ON_ERROR_STOP=1 -f {plain} > /dev/null");
    let by_pg_restore = format!("pg_restore --format=directory --jobs=2 --dbname={BESIDE} {folder}");
    ours()?;
    let [ours, psql, pg_restore] = in_turn(rounds, [&mut ours, &mut || theirs(&by_psql), &mut || theirs(&by_pg_restore)])?;
    let what = format!("`svc-pgrestore`: check, stage, verify, swap{of}");
    report.ratio(&what, "`createdb`, `psql -f`, `ANALYZE`", Some(0.60), (&ours, &psql));
    report.ratio(&what, "`createdb`, `pg_restore -Fd -j2`, `ANALYZE`", Some(limit), (&ours, &pg_restore));
    report.quantity(&format!("`svc-pgrestore`{of}, MB of memory"), memory_bytes as f64 / 1e6, MEMORY, rounds);
    fs::remove_file(&plain)?;
    Ok(fs::remove_dir_all(&folder)?)
}

/// So many tables, dumped and restored.
fn many_tables(server: &Server, report: &mut Report, sizes: &[usize]) -> Result<()> {
    let (mut dumped, mut restored) = (Vec::new(), Vec::new());
    let point = |size: usize, line: &Line| {
        server.settle()?;
        // Our own memory is the question, not that of pg_dump; our computing includes it.
        let cost = server.scratch.watch(line)?;
        eprintln!("{size}: {cost:?}");
        anyhow::Ok(Point { size, cost, curl_seconds: None })
    };
    for &size in sizes {
        server.fill(|| small_tables(server, size))?;
        let plain = server.path("grown.sql");
        dumped.push(point(size, &server.dump(&plain, &[]))?);
        let from = server.scratch.keep("grown.json")?;
        let run = format!("20260101t000000z-tables-{size}");
        restored.push(point(size, &server.restore(&["--from", &from, "--owner", OWNER, "--run-id", &run, "--drop-old"]))?);
        ensure!(server.scratch.printed()?["ok"] == true, "the restore is not ok");
        fs::remove_file(&plain)?;
    }
    server.postgres.drop_database(DATABASE)?;
    for (tool, points) in [("svc-pgdump", dumped), ("svc-pgrestore", restored)] {
        let what = format!("`{tool}` of n small tables");
        let most = points.iter().map(|point| point.cost.memory_bytes).max().unwrap_or_default();
        report.quantity(&format!("{what}, MB of memory"), most as f64 / 1e6, MEMORY, points.len());
        report.growth(&what, &points);
    }
    Ok(())
}
