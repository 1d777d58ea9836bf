//! svc-pgdump and svc-pgrestore beside pg_dump, psql and pg_restore, on a server of the benchmark's own in a throw-away host.

use std::fs;

use anyhow::Result;
use clap::Args;
use svc_tests::host::{Host, OwnPostgres};
use svc_tests::os;
use svc_tests::postgres::ADMINISTRATOR;

use crate::Frame;
use crate::measure::{Line, Scratch, durable, fill_tables, machine, megabytes, postgresql, seconds, settle};
use crate::report::{Point, Report};

/// What can be measured by itself: the dump, beside pg_dump and sync; the restore, beside psql -f and pg_restore -Fd -j2; the same with
/// a database that one large table dominates; many tables.
const PARTS: [&str; 4] = ["dump", "restore", "dominated", "tables"];

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
    frame: Frame,
}

/// The database that is dumped and restored, its owner, and where the plain commands restore to.
const DATABASE: &str = "svc_db";
const OWNER: &str = "svc";
const BESIDE: &str = "svc_db_plain";
/// What a call may hold at most, in MB.
const MEMORY: f64 = 64.0;

/// Measures; what missed its target.
pub fn run(arguments: &Arguments) -> Result<Vec<String>> {
    let (server, pairs) = (&Server::start()?, arguments.frame.pairs(10));
    arguments.frame.measure(&PARTS, server.described()?, |report, wanted| {
        if wanted("dump") || wanted("restore") {
            let schemas: Vec<String> = (0..10).map(|n| format!("part{n}")).collect();
            server.fill(|| fill_tables(&server.postgres, DATABASE, &schemas, arguments.megabytes))?;
            if wanted("dump") {
                dump(server, report, pairs)?;
            }
            if wanted("restore") {
                restore(server, report, pairs, "", 0.85)?;
            }
        }
        if wanted("dominated") {
            server.fill(|| dominated(server, arguments.megabytes / 3))?;
            restore(server, report, pairs, ", one large table", 1.0)?;
        }
        if wanted("tables") {
            many_tables(server, report, &arguments.tables)?;
        }
        Ok(())
    })
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
        let postgres = durable(&host)?;
        let mut scratch =
            Scratch::new(vec![("PGHOST", postgres.socket_dir.display().to_string()), ("PGPORT", postgres.port.to_string())])?;
        scratch.env.push(("SVC_STATE_DIR", scratch.path("state")));
        os::folder(scratch.folder.path(), 0o755, Some(&os::system_user(ADMINISTRATOR)?))?;
        postgres.create_role(OWNER, "secret")?;
        Ok(Self { postgres, scratch })
    }

    /// A line that is measured when all is written that the server and the system have not written yet.
    fn line(&self, before: &str, timed: String, holds: &str, after: &str) -> Line {
        let settle = self.plain("psql -Xqc CHECKPOINT postgres");
        let before = if before.is_empty() { String::new() } else { self.plain(before) + "; " };
        Line { before: format!("{before}{settle}; sync"), timed, holds: holds.to_owned(), after: after.to_owned() }
    }

    /// Plain commands, as the administrator types them.
    fn plain(&self, script: &str) -> String {
        format!("runuser -u {ADMINISTRATOR} -- sh -ec 'PATH={}:$PATH; {script}'", self.postgres.bin_dir.display())
    }

    /// Fills the database again, from the start.
    fn fill(&self, fill: impl FnOnce() -> Result<()>) -> Result<()> {
        self.postgres.drop_database(DATABASE)?;
        self.postgres.create_database(DATABASE, OWNER)?;
        fill()?;
        settle(&self.postgres)?;
        let size = self.postgres.sql(DATABASE, "SELECT pg_database_size(current_database()) / 1000000")?;
        eprintln!("the database has {size} MB");
        Ok(())
    }

    /// Runs SQL in it as its owner.
    fn sql(&self, sql: &str) -> Result<()> {
        self.postgres.sql(DATABASE, &format!("SET ROLE {OWNER}; {sql}")).map(drop)
    }

    /// The machine and the server, as a report names them.
    fn described(&self) -> Result<String> {
        let checksums = self.postgres.sql("postgres", "SELECT current_setting('data_checksums')")?;
        let with = if checksums == "on" { "with" } else { "without" };
        Ok(format!("{}; {}, {with} page checksums", machine(self.scratch.folder.path())?, postgresql(&self.postgres)?))
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

/// `svc-pgdump` as root types it.
const DUMP: &str = "svc-pgdump --as postgres --force --dbname svc_db --output";

/// `svc-pgdump` beside `pg_dump > file` and `sync`; the compressed one beside the same, with no target.
fn dump(server: &Server, report: &mut Report, pairs: usize) -> Result<()> {
    let theirs = server.plain(&format!("pg_dump --dbname={DATABASE} > theirs.sql; sync theirs.sql"));
    let theirs = server.line("", theirs, "", "rm theirs.sql");
    let mut all = Vec::new();
    for (options, pairs, target) in [("", pairs, Some(1.05)), (" --compress zstd", pairs.div_ceil(3), None)] {
        let ours = server.line("", format!("{DUMP} ours.sql{options}"), ".ok", "rm ours.sql");
        // Nobody's first call is measured.
        server.scratch.in_turn(1, [&ours, &theirs])?;
        let [ours, theirs] = server.scratch.in_turn(pairs, [&ours, &theirs])?;
        let sides = (seconds(&ours), seconds(&theirs));
        report.ratio(&format!("`svc-pgdump{options}`"), "`pg_dump > file` and `sync`", target, (&sides.0, &sides.1));
        all.extend(ours);
    }
    report.quantity("`svc-pgdump`, MB of memory", megabytes(&all), MEMORY, pairs);
    Ok(())
}

/// `svc-pgrestore` (verify, stage, verify, swap) beside `psql -f` and `pg_restore -Fd -j2`, each with the statistics at the end. `of`:
/// what the database is like; `limit`: the ratio to `pg_restore`.
fn restore(server: &Server, report: &mut Report, rounds: usize, of: &str, limit: f64) -> Result<()> {
    server.scratch.call(&format!("{DUMP} svc_db.backup.sql"))?;
    server.scratch.keep("pgdump.json")?;
    // The plain commands' administrator reads it too.
    let dump = server.scratch.file("svc_db.backup.sql");
    std::os::unix::fs::chown(&dump, Some(os::system_user(ADMINISTRATOR)?.uid.as_raw()), None)?;
    server.scratch.call(&server.plain(&format!("pg_dump --format=directory --jobs=2 --file=folder {DATABASE}")))?;
    let run = format!("20260101t000000z-bench{}-%N", of.len());
    let restored = format!("svc-pgrestore --from pgdump.json --owner {OWNER} --run-id {run}");
    let ours = server.line("", restored, ".ok", &format!("svc-pgrestore discard --run {run}"));
    let theirs = |load: &str| {
        let script = format!("createdb --owner={OWNER} --template=template0 {BESIDE}; {load}; psql -Xqd {BESIDE} -c ANALYZE");
        let drop = format!("dropdb --if-exists --force {BESIDE}");
        server.line(&drop, server.plain(&script), "", &server.plain(&drop))
    };
    let by_psql = theirs(&format!("psql -Xqd {BESIDE} -v ON_ERROR_STOP=1 -f svc_db.backup.sql > /dev/null"));
    let by_pg_restore = theirs(&format!("pg_restore --format=directory --jobs=2 --dbname={BESIDE} folder"));
    server.scratch.run(&ours)?;
    let costs = server.scratch.in_turn(rounds, [&ours, &by_psql, &by_pg_restore])?;
    let memory = megabytes(&costs[0]);
    let [ours, psql, pg_restore] = costs.map(|costs| seconds(&costs));
    let what = format!("`svc-pgrestore`: check, stage, verify, swap{of}");
    report.ratio(&what, "`createdb`, `psql -f`, `ANALYZE`", Some(0.60), (&ours, &psql));
    report.ratio(&what, "`createdb`, `pg_restore -Fd -j2`, `ANALYZE`", Some(limit), (&ours, &pg_restore));
    report.quantity(&format!("`svc-pgrestore`{of}, MB of memory"), memory, MEMORY, rounds);
    fs::remove_file(dump)?;
    Ok(fs::remove_dir_all(server.scratch.file("folder"))?)
}

/// So many tables, dumped and restored.
fn many_tables(server: &Server, report: &mut Report, sizes: &[usize]) -> Result<()> {
    let mut points: [Vec<Point>; 2] = Default::default();
    for &size in sizes {
        server.fill(|| small_tables(server, size))?;
        let dump = format!("{DUMP} grown.sql");
        let run = format!("20260101t000000z-tables-{size}");
        let restore = format!("svc-pgrestore --from output.json --owner {OWNER} --run-id {run} --drop-old");
        for (points, timed) in points.iter_mut().zip([dump, restore]) {
            let cost = server.scratch.run(&server.line("", timed, ".ok", "cp output output.json"))?;
            eprintln!("{size}: {cost:?}");
            points.push((size, cost, None));
        }
        fs::remove_file(server.scratch.file("grown.sql"))?;
    }
    server.postgres.drop_database(DATABASE)?;
    for (tool, points) in ["svc-pgdump", "svc-pgrestore"].into_iter().zip(points) {
        let what = format!("`{tool}` of n small tables");
        let most = megabytes(points.iter().map(|(_, cost, _)| cost));
        report.quantity(&format!("{what}, MB of memory"), most, MEMORY, points.len());
        report.growth(&what, &points);
    }
    Ok(())
}
