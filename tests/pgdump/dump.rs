//! svc-pgdump on a real server: a dump is whole or not there, and says what it holds.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use svc_tests::disk::SmallDisk;
use svc_tests::host::Host;
use svc_tests::postgres::{identifier, literal};
use svc_tests::terminal::on_terminal;
use svc_tests::tool::{Ran, Spawned, Tool};
use svc_tests::wait;

const PASSWORD: &str = "s3cret: with \\ and ' in it";

/// A database and its owner, and a folder for dumps, of one test.
struct Own {
    host: Host,
    name: String,
    dir: tempfile::TempDir,
}

impl Own {
    fn new(test: &str) -> Self {
        let host = Host::shared().unwrap();
        let name = format!("pgdump_{test}_{}", std::process::id());
        host.postgres.create_role(&name, PASSWORD).unwrap();
        host.postgres.create_database(&name, &name).unwrap();
        let dir = tempfile::Builder::new().prefix("svc pgdump ").tempdir_in("/var/tmp").unwrap();
        host.postgres.pgpass(&dir.path().join("pgpass"), &name, PASSWORD).unwrap();
        Self { host, name, dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn out(&self) -> PathBuf {
        self.path("dump.sql")
    }

    /// SQL as the owner.
    fn sql(&self, sql: &str) -> String {
        self.host.postgres.sql(&self.name, &format!("SET ROLE {}; {sql}", identifier(&self.name))).unwrap()
    }

    fn admin(&self, sql: &str) -> String {
        self.host.postgres.sql(&self.name, sql).unwrap()
    }

    /// The tool, told nothing but the server, the state folder and the database.
    fn bare(&self) -> Tool {
        let postgres = &self.host.postgres;
        Tool::new("svc-pgdump")
            .env("PGHOST", &postgres.socket_dir)
            .env("PGPORT", postgres.port.to_string())
            .env("SVC_STATE_DIR", self.path("state"))
            .env("SVC_DATABASE", &self.name)
            .env("SVC_DB_USER", &self.name)
            .dir(self.dir.path())
    }

    /// The tool as the owner, with a password file, writing `dump.sql`.
    fn dump(&self) -> Tool {
        self.bare().env("PGPASSFILE", self.path("pgpass")).arg("--output").arg(self.out())
    }

    /// What lies in the test's folder, but its own files.
    fn left(&self) -> Vec<String> {
        let names = fs::read_dir(self.dir.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.filter(|name| !["pgpass", "state"].contains(&name.as_str())).collect();
        names.sort();
        names
    }

    /// A table of 80 MB, which takes a while to dump.
    fn fill(&self) {
        self.sql("CREATE TABLE large (id int, t text)");
        self.sql("INSERT INTO large SELECT i, repeat(md5(i::text), 8) FROM generate_series(1, 300000) i");
    }

    /// A dump of a large table that has begun to write and stands still: the tool is stopped, so the pipe is full.
    fn standing(&self) -> Spawned {
        let spawned = self.dump().spawn();
        let partial = self.path("dump.sql.partial");
        wait::until("rows in the partial file", svc_tests::wait::HANG, || {
            fs::metadata(&partial).ok().filter(|meta| meta.len() > 1_000_000)
        })
        .unwrap();
        spawned.signal(Signal::SIGSTOP);
        spawned
    }

    /// How many sessions other than ours the database has.
    fn sessions(&self) -> String {
        let count = format!("SELECT count(*) FROM pg_stat_activity WHERE {}", self.sessions_are());
        self.host.postgres.sql("postgres", &count).unwrap()
    }

    /// Which rows of `pg_stat_activity` they are; a worker of autovacuum is none.
    fn sessions_are(&self) -> String {
        format!("datname = {} AND backend_type = 'client backend'", literal(&self.name))
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        let _ = self.host.postgres.drop_database(&self.name);
        let _ = self.host.postgres.sql("postgres", &format!("DROP ROLE IF EXISTS {}", identifier(&self.name)));
    }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn verify(path: &Path) -> Ran {
    Tool::new("svc-pgdump").arg("verify").arg(path).run()
}

fn rows(ran: &Ran) -> Vec<(String, u64)> {
    let tables = ran.result()["tables"].as_array().unwrap();
    let name = |table: &Value| format!("{}.{}", table["schema"].as_str().unwrap(), table["name"].as_str().unwrap());
    tables.iter().map(|table| (name(table), table["row_count"].as_u64().unwrap())).collect()
}

/// What makes readers of dumps stumble: names, comments and bodies that look like parts of a dump.
const NASTY: &str = r#"
CREATE TABLE items (id serial PRIMARY KEY, body text);
INSERT INTO items (body) SELECT 'row ' || i FROM generate_series(1, 1234) i;
INSERT INTO items (body) VALUES (E'\\.'), (E'a\n\\.\nb'), (NULL), (E'\t'), (E'COPY x FROM stdin;\n');
CREATE TABLE empty (a int);
CREATE TABLE "we;ird; Type: ""TABLE" ("from stdin;" text, "order" int);
INSERT INTO "we;ird; Type: ""TABLE" VALUES ('x', 1), ('y', 2);
CREATE TABLE nothing ();
COMMENT ON TABLE items IS E'\n-- Name: x; Type: TABLE DATA; Schema: public; Owner: -\nCOPY public.q (a) FROM stdin;\n1\n\\.\n-- PostgreSQL database dump complete\n--\n';
CREATE FUNCTION f() RETURNS text LANGUAGE plpgsql AS $_$ BEGIN RETURN $$COPY public.q (a) FROM stdin;
1
\.
\connect nowhere
$$; END $_$;
CREATE FUNCTION g(a int) RETURNS int LANGUAGE sql BEGIN ATOMIC SELECT CASE WHEN a > 0 THEN 1 ELSE 2 END; SELECT 3; END;
CREATE VIEW v AS SELECT E'\\.\n;''' AS "end";
CREATE TABLE parts (k int, v text) PARTITION BY LIST (k);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES IN (1);
CREATE TABLE parts_2 PARTITION OF parts FOR VALUES IN (2);
INSERT INTO parts VALUES (1, 'a'), (2, 'b'), (2, 'c');
SELECT lo_from_bytea(0, 'large object');
"#;

#[test]
fn a_dump_is_complete_and_private_and_counts_its_rows() {
    let own = Own::new("whole");
    own.sql(NASTY);
    let ran = own.dump().run().ok().changed();
    assert_eq!(own.left(), ["dump.sql", "dump.sql.properties.json"]);
    assert_eq!((mode(&own.out()), mode(&own.path("dump.sql.properties.json"))), (0o600, 0o600));
    let wanted = [
        ("public.empty", 0),
        ("public.items", 1239),
        ("public.nothing", 0),
        ("public.parts_1", 1),
        ("public.parts_2", 2),
        ("public.we;ird; Type: \"TABLE", 2),
    ];
    let mut found = rows(&ran);
    found.sort();
    assert_eq!(found, wanted.map(|(name, rows)| (name.to_owned(), rows)));
    let result = ran.result();
    assert_eq!(result["row_count"], 1244);
    assert_eq!(result["roles"], json!([own.name]));
    assert_eq!(result["size_bytes"], fs::metadata(own.out()).unwrap().len());
    assert_eq!(result["system_identifier"], json!(own.admin("SELECT system_identifier FROM pg_control_system()")));
    assert_eq!(result["server_version"], json!(own.admin("SHOW server_version")));
    let sum = Command::new("sha256sum").arg(own.out()).output().unwrap().stdout;
    assert!(String::from_utf8(sum).unwrap().starts_with(result["sha256"].as_str().unwrap()));

    let verified = Tool::new("svc-pgdump").args(["verify", "--from", "-"]).stdin(ran.text()).run().ok().unchanged();
    assert_eq!(verified.result()["as_documented"], true);
    assert_eq!(verified.result()["tables"], result["tables"]);

    // It loads, and holds the same.
    let copy = format!("{}_copy", own.name);
    own.host.postgres.create_database(&copy, &own.name).unwrap();
    let mut psql = own.host.postgres.administrator("psql");
    let stdin = fs::File::open(own.out()).unwrap();
    let loaded = psql.args(["-XAtq", "-v", "ON_ERROR_STOP=1", "-d", &copy]).stdin(stdin).output().unwrap();
    let dumps = [&own.name, &copy].map(|name| svc_tests::content::postgres_dump(&own.host.postgres, name).unwrap());
    own.host.postgres.drop_database(&copy).unwrap();
    assert!(loaded.status.success(), "{}", String::from_utf8_lossy(&loaded.stderr));
    assert!(dumps[0] == dumps[1]);
}

#[test]
fn the_databases_own_properties_lie_beside_the_dump() {
    let own = Own::new("properties");
    let name = identifier(&own.name);
    own.admin(&format!(
        "ALTER DATABASE {name} SET work_mem = '7MB'; ALTER DATABASE {name} SET search_path = \"$user\", public, 'Odd, One'; \
         ALTER ROLE {name} IN DATABASE {name} SET statement_timeout = '5s'; ALTER DATABASE {name} CONNECTION LIMIT 17; \
         COMMENT ON DATABASE {name} IS 'It''s ours'; REVOKE CONNECT ON DATABASE {name} FROM PUBLIC; \
         GRANT CONNECT ON DATABASE {name} TO pg_monitor WITH GRANT OPTION"
    ));
    let ran = own.dump().run().ok();
    let text = fs::read_to_string(own.path("dump.sql.properties.json")).unwrap();
    let read: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(read["owner"], json!(own.name));
    assert_eq!(
        (&read["encoding"], &read["collate"], &read["locale_provider"]),
        (&json!("UTF8"), &json!("C.UTF-8"), &json!("libc"))
    );
    assert_eq!((&read["connection_limit"], &read["comment"]), (&json!(17), &json!("It's ours")));
    let settings = json!([
        {"role": null, "name": "work_mem", "value": "7MB"},
        {"role": null, "name": "search_path", "value": "\"$user\", public, \"Odd, One\""},
        {"role": own.name, "name": "statement_timeout", "value": "5s"},
    ]);
    assert_eq!(read["settings"], settings);
    let acl = read["acl"].as_array().unwrap();
    assert!(acl.contains(&json!({"grantee": null, "privilege": "TEMPORARY", "grantable": false})));
    assert!(acl.contains(&json!({"grantee": "pg_monitor", "privilege": "CONNECT", "grantable": true})));
    assert!(!acl.iter().any(|grant| grant["grantee"].is_null() && grant["privilege"] == "CONNECT"));

    // They are part of what the document vouches for.
    fs::write(own.path("dump.sql.properties.json"), text.replace("7MB", "8MB")).unwrap();
    let verified = Tool::new("svc-pgdump").args(["verify", "--from", "-"]).stdin(ran.text()).run();
    assert_eq!(verified.fails(7, "dump_invalid").result()["as_documented"], false);
}

#[test]
fn a_database_with_an_icu_locale_says_so() {
    let own = Own::new("icu");
    let name = format!("{}_icu", own.name);
    let sql = format!(
        "CREATE DATABASE {} OWNER {} TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'de-DE'",
        identifier(&name),
        identifier(&own.name)
    );
    own.host.postgres.sql("postgres", &sql).unwrap();
    let ran = own.dump().args(["--dbname", &name]).run();
    own.host.postgres.drop_database(&name).unwrap();
    let ran = ran.ok();
    let read: Value =
        serde_json::from_str(&fs::read_to_string(ran.result()["properties_path"].as_str().unwrap()).unwrap()).unwrap();
    assert_eq!((&read["locale_provider"], &read["locale"]), (&json!("icu"), &json!("de-DE")));
}

#[test]
fn what_cannot_be_connected_to_is_told_apart_and_leaves_nothing() {
    let own = Own::new("connect");
    let port = {
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        free.local_addr().unwrap().port().to_string()
    };
    own.dump().args(["--dbname", "nowhere"]).run().fails(4, "database_not_found").unchanged();
    own.dump().args(["--host", "127.0.0.1", "--port", &port]).run().fails(5, "postgres_unreachable").unchanged();
    own.dump().args(["--host", "/nowhere"]).run().fails(5, "postgres_unreachable").unchanged();
    own.dump().args(["--host", "no.such.host.invalid"]).run().fails(5, "postgres_unreachable").unchanged();
    own.dump().env("PGPASSWORD", "wrong").run().refused("access_denied");
    own.dump().args(["--username", "nobody_here"]).env("PGPASSWORD", "x").run().refused("access_denied");
    own.bare().run().refused("password_missing");
    own.bare().arg("--password").run().refused("password_missing");
    own.dump().args(["--host", "127.0.0.1"]).env("PGSSLMODE", "require").run().refused("not_trusted");
    own.dump().env("PGHOST", "127.0.0.1").env("PGSSLMODE", "maybe").run().fails(2, "settings_invalid").unchanged();
    own.dump().env("PGSERVICE", "x").run().fails(2, "settings_invalid").unchanged();
    own.dump().args(["--dbname", "postgresql://u:p@h/d"]).run().fails(2, "options_invalid");
    own.dump().args(["--as", "nobody_here"]).run().fails(4, "settings_invalid");
    own.dump().args(["--as", "postgres"]).as_user("daemon").run().refused("permission_denied");
    assert!(own.left().is_empty(), "{:?}", own.left());
}

#[test]
fn a_server_that_accepts_and_says_nothing_is_given_up() {
    let own = Own::new("silent");
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port().to_string();
    let at = |tool: Tool| tool.args(["--host", "127.0.0.1", "--port", &port]);
    at(own.dump().env("PGCONNECT_TIMEOUT", "1")).run().fails(5, "postgres_unreachable");
    at(own.dump()).args(["--timeout", "300ms"]).run().fails(6, "timeout").unchanged();
}

#[test]
fn every_place_of_a_password_serves() {
    let own = Own::new("places");
    let pgpass = own.path("pgpass");
    let home = own.path("home");
    fs::create_dir(&home).unwrap();
    fs::copy(&pgpass, home.join(".pgpass")).unwrap();
    let plain = own.path("password");
    fs::write(&plain, format!("{PASSWORD}\n")).unwrap();
    let force = || own.bare().arg("--force").args(["--host", "127.0.0.1"]);
    force().env("PGPASSFILE", &pgpass).run().ok();
    force().env("HOME", &home).run().ok();
    force().env("PGPASSWORD", PASSWORD).run().ok();
    force().arg("--password-file").arg(&plain).run().refused("settings_invalid");
    fs::set_permissions(&plain, fs::Permissions::from_mode(0o600)).unwrap();
    force().arg("--password-file").arg(&plain).run().ok();
    // As in libpq, one that others can read is not used.
    fs::set_permissions(&pgpass, fs::Permissions::from_mode(0o644)).unwrap();
    force().env("PGPASSFILE", &pgpass).run().refused("password_missing").warns("settings_invalid");
    let there = own.path(&format!("{}.backup.sql", own.name));
    assert!(there.exists(), "the default name is that of the database");
}

#[test]
fn as_the_administrator_nothing_of_the_callers_settings_counts() {
    let own = Own::new("as");
    own.sql("CREATE TABLE t AS SELECT generate_series(1, 7) a");
    let output = own.path("a folder");
    fs::create_dir(&output).unwrap();
    let output = output.join("with spaces 'and quotes'.sql");
    let postgres = &own.host.postgres;
    // env -i: not even PATH.
    let ran = Tool::new("svc-pgdump")
        .env_remove("PATH")
        .env_remove("LANG")
        .args(["--as", "postgres", "--dbname", &own.name, "--port", &postgres.port.to_string(), "--host"])
        .arg(&postgres.socket_dir)
        .arg("--state-dir")
        .arg(own.path("state"))
        .arg("--output")
        .arg(&output)
        .run()
        .ok();
    assert_eq!(rows(&ran), [("public.t".to_owned(), 7)]);
    assert_eq!(ran.result()["path"], json!(output.display().to_string()));
    verify(&output).ok();
    // PGHOST is no folder, so it is not used; the others are the caller's own.
    let odd = own.bare().env("PGHOST", "no.such.host.invalid").env("PGUSER", "x").env("PGPASSWORD", "x").env("PGSERVICE", "x");
    odd.args(["--as", "postgres"]).run().fails(5, "postgres_unreachable");
    own.bare().env("PGUSER", "x").env("PGPASSWORD", "x").env("PGSERVICE", "x").args(["--as", "postgres"]).run().ok();
}

#[test]
fn a_server_process_that_is_killed_leaves_no_dump() {
    let own = Own::new("killed");
    own.fill();
    let spawned = own.standing();
    let killed = own
        .host
        .postgres
        .sql("postgres", &format!("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE {}", own.sessions_are()));
    assert_eq!(killed.unwrap(), "1");
    wait::until("the end of the server process", svc_tests::wait::HANG, || (own.sessions() == "0").then_some(())).unwrap();
    spawned.signal(Signal::SIGCONT);
    let ran = spawned.wait().fails(1, "postgres_refused").unchanged();
    assert!(ran.doc()["error"]["causes"].to_string().contains("terminat"), "{ran}");
    assert!(own.left().is_empty(), "{:?}", own.left());
}

#[test]
fn a_signal_ends_pg_dump_and_leaves_nothing() {
    let own = Own::new("signal");
    own.fill();
    for (signal, group) in [(Signal::SIGTERM, false), (Signal::SIGINT, true), (Signal::SIGHUP, true)] {
        let spawned = own.standing();
        if group {
            spawned.signal_group(signal)
        } else {
            spawned.signal(signal)
        }
        spawned.signal(Signal::SIGCONT);
        spawned.wait().fails(128 + signal as i32, "interrupted").unchanged();
        assert!(own.left().is_empty(), "{signal}: {:?}", own.left());
        wait::until("the end of the session", svc_tests::wait::HANG, || (own.sessions() == "0").then_some(())).unwrap();
    }
    // The next call finds nothing in its way, also what a kill -9 left.
    let spawned = own.standing();
    spawned.signal(Signal::SIGKILL);
    assert_eq!(spawned.wait().document, None);
    assert_eq!(own.left(), ["dump.sql.partial"]);
    own.dump().run().ok();
    assert_eq!(own.left(), ["dump.sql", "dump.sql.properties.json"]);
}

#[test]
fn the_password_is_in_no_command_line_and_no_output() {
    let own = Own::new("secret");
    own.fill();
    let spawned = own.standing();
    let mut seen = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        if line.contains(&own.name) {
            assert!(!line.contains("s3cret"), "{line}");
            seen.push(line);
        }
    }
    assert!(seen.iter().any(|line| line.contains("pg_dump --format=plain")), "{seen:?}");
    spawned.signal(Signal::SIGCONT);
    let ran = spawned.wait().ok();
    assert!(!ran.stdout.contains("s3cret") && !ran.stderr.contains("s3cret"));
    let failed = own.dump().arg("--force").arg("-v").env("PGPASSWORD", "s3cret-wrong").run();
    assert!(!failed.stdout.contains("s3cret") && !failed.stderr.contains("s3cret"), "{failed}");
}

#[test]
fn an_existing_file_is_kept_unless_told_otherwise() {
    let own = Own::new("existing");
    own.sql("CREATE TABLE t AS SELECT 1 a");
    fs::write(own.out(), "precious").unwrap();
    own.dump().run().refused("file_exists");
    own.dump().arg("--dry-run").run().refused("file_exists");
    assert_eq!(fs::read_to_string(own.out()).unwrap(), "precious");
    assert_eq!(own.left(), ["dump.sql"]);
    // A failing call keeps what is there, also with --force.
    own.dump().arg("--force").args(["--dbname", "nowhere"]).run().fails(4, "database_not_found");
    assert_eq!(fs::read_to_string(own.out()).unwrap(), "precious");
    own.dump().arg("--force").run().ok().changed();
    verify(&own.out()).ok();

    let victim = own.path("victim");
    fs::write(&victim, "precious").unwrap();
    let link = own.path("link.sql");
    symlink(&victim, &link).unwrap();
    symlink(&victim, own.path("other.sql.partial")).unwrap();
    let pipe = own.path("pipe.sql");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    for odd in [&link, &pipe] {
        for force in [&[][..], &["--force"]] {
            let tool = own.bare().env("PGPASSFILE", own.path("pgpass")).arg("--output").arg(odd).args(force.iter().copied());
            let ran = tool.run().refused("file_invalid").unchanged();
            assert!(!ran.doc()["error"]["hint"].as_str().unwrap().contains("--force"), "{ran}");
        }
        assert!(!fs::symlink_metadata(odd).unwrap().is_file());
    }
    own.bare().env("PGPASSFILE", own.path("pgpass")).arg("--output").arg(own.path("other.sql")).run().ok();
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    own.bare().env("PGPASSFILE", own.path("pgpass")).args(["--output", "/nowhere/x.sql"]).run().fails(4, "file_not_found");
}

#[test]
fn a_dry_run_changes_nothing_and_says_what_would_be_done() {
    let own = Own::new("dry");
    let ran = own.dump().arg("--dry-run").run().ok().unchanged();
    assert_eq!(ran.doc()["dry_run"], true);
    assert!(own.left().is_empty());
    let plan = ran.result()["plan"].as_array().unwrap();
    assert!(plan[0]["argv"][0].as_str().unwrap().ends_with("pg_dump"), "{ran}");
    assert!(plan[0]["argv"].as_array().unwrap().contains(&json!(format!("--dbname={}", own.name))));
    assert_eq!(plan[2]["path"], json!(own.out().display().to_string()));
    // It is no document to continue from.
    Tool::new("svc-pgdump").args(["verify", "--from", "-"]).stdin(ran.text()).run().fails(2, "from_invalid");
}

#[test]
fn a_full_disk_is_a_sentence_and_leaves_nothing() {
    let own = Own::new("full");
    // Rows that the server keeps compressed: 5 MB of dump out of some pages.
    own.sql("CREATE TABLE t AS SELECT repeat('x', 100000) a FROM generate_series(1, 50)");
    let disk = own.path("disk");
    fs::create_dir(&disk).unwrap();
    let _small = SmallDisk::at(&disk, 1).unwrap();
    let to_disk = || own.bare().env("PGPASSFILE", own.path("pgpass")).arg("--output").arg(disk.join("x.sql"));
    let ran = to_disk().run();
    // The tables themselves are more than ten times as large as the disk: the dump is tried, and a warning says why it may fail.
    own.sql("INSERT INTO t SELECT string_agg(md5(i::text || j::text), '') FROM generate_series(1, 16) i, generate_series(1, 33000) j GROUP BY i");
    own.admin("VACUUM ANALYZE t");
    let hopeless = to_disk().run();
    let left = fs::read_dir(&disk).unwrap().count();
    ran.fails(1, "out_of_space").unchanged();
    hopeless.fails(1, "out_of_space").unchanged().warns("out_of_space");
    assert_eq!(left, 0);
}

#[test]
fn a_cut_or_changed_dump_is_refused() {
    let own = Own::new("cut");
    own.sql(NASTY);
    let ran = own.dump().run().ok();
    let whole = fs::read(own.out()).unwrap();
    let document = own.path("pgdump.json");
    fs::write(&document, ran.text()).unwrap();
    let cut = own.path("cut.sql");
    // The last line end may go: nothing is lost with it.
    let end = whole.len() - 2;
    let points = (0..40).map(|point| end * point / 40).chain([1, 2, 5, 20, 66, 90, 130].map(|back| end - back));
    for point in points {
        fs::write(&cut, &whole[..point]).unwrap();
        let ran = verify(&cut).fails(7, "dump_invalid").unchanged();
        assert_eq!(ran.result()["complete"], false, "cut at {point}");
    }
    let from = || Tool::new("svc-pgdump").args(["verify", "--from"]).arg(&document).run();
    from().ok();
    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 1;
    fs::write(own.out(), &flipped).unwrap();
    let ran = from();
    assert_eq!(ran.status, 7, "{ran}");
    fs::write(own.out(), &whole[..whole.len() / 3]).unwrap();
    from().fails(7, "dump_invalid");
    // A dump that moved with its document is found beside it.
    let moved = own.path("moved");
    fs::create_dir(&moved).unwrap();
    fs::write(moved.join("dump.sql"), &whole).unwrap();
    fs::rename(own.path("dump.sql.properties.json"), moved.join("dump.sql.properties.json")).unwrap();
    fs::rename(&document, moved.join("pgdump.json")).unwrap();
    fs::remove_file(own.out()).unwrap();
    Tool::new("svc-pgdump").args(["verify", "--from"]).arg(moved.join("pgdump.json")).run().ok();
    verify(&own.out()).fails(4, "file_not_found");
    verify(own.dir.path()).refused("file_invalid");
}

#[test]
fn only_one_valid_document_of_a_dump_is_resumed_from() {
    let own = Own::new("from");
    let good = own.dump().run().ok().text();
    let failed = own.dump().run().refused("file_exists").text();
    let verified = verify(&own.out()).ok().text();
    let from = |text: &str| Tool::new("svc-pgdump").args(["verify", "--from", "-"]).stdin(text).run();
    for (text, code) in [
        (String::new(), "from_damaged"),
        (good[..good.len() / 2].to_owned(), "from_damaged"),
        (format!("{good}{good}"), "from_invalid"),
        (failed, "file_exists"),
        (verified, "from_invalid"),
        ("hello".to_owned(), "from_damaged"),
    ] {
        from(&text).fails(2, code).unchanged();
    }
    from(&good).ok();
}

#[test]
fn a_pg_dump_that_does_not_fit_is_named_with_its_package() {
    let own = Own::new("program");
    let old = own.path("pg_dump");
    svc_tests::os::write_program(&old, "#!/bin/sh\necho 'pg_dump (PostgreSQL) 12.1'\n").unwrap();
    let ran = own.dump().arg("--pg-dump").arg(&old).run().refused("version_unsupported");
    let package = format!("postgresql-client-{}", own.host.postgres.version);
    assert!(ran.doc()["error"]["hint"].as_str().unwrap().contains(&package), "{ran}");
    let ran = own.dump().args(["--pg-dump", "/nowhere/pg_dump"]).run().fails(4, "file_not_found").unchanged();
    assert!(ran.doc()["error"]["hint"].as_str().unwrap().contains(&package), "{ran}");
    // What is on the PATH gives way to one of the server's own version; what is named does not.
    fs::write(&old, "#!/bin/sh\nPATH=/usr/bin\n[ $1 = --version ] && echo 'pg_dump (PostgreSQL) 99.1' || exec pg_dump \"$@\"\n")
        .unwrap();
    let path = format!("{}:/usr/bin:/bin", own.dir.path().display());
    let ran = own.dump().env("PATH", path).args(["--dry-run"]).run().ok();
    let version = own.host.postgres.version.to_string();
    assert!(ran.result()["pg_dump_version"].as_str().unwrap().starts_with(&version), "{ran}");
    let ran = own.dump().arg("--dry-run").arg("--pg-dump").arg(&old).run().ok().warns("version_unsupported");
    assert_eq!(ran.result()["pg_dump_version"], "99.1");
    // By a path of the caller's folder, also where another user of the host runs it, in another folder.
    fs::set_permissions(own.dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let other = own.bare().args(["--as", "postgres", "--pg-dump", "./pg_dump", "--output", "other.sql"]);
    other.run().ok().warns("version_unsupported");
    for file in ["other.sql", "other.sql.properties.json"] {
        fs::remove_file(own.path(file)).unwrap();
    }
    // One that succeeds and writes half a dump.
    fs::write(&old, "#!/bin/sh\n[ $1 = --version ] && exec pg_dump --version\npg_dump \"$@\" | head -c 500\n").unwrap();
    own.dump().arg("--pg-dump").arg(&old).run().fails(7, "dump_invalid").unchanged();
    assert_eq!(own.left(), ["pg_dump"]);
}

#[test]
fn a_lock_a_missing_right_and_the_time_limit_end_a_dump_with_nothing() {
    let own = Own::new("locked");
    own.sql("CREATE TABLE t AS SELECT 1 a");
    let mut holder = own
        .host
        .postgres
        .administrator("psql")
        .args(["-XAtq", "-d", &own.name, "-c", "BEGIN; LOCK TABLE t; SELECT pg_sleep(600)"])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait::until("the lock", svc_tests::wait::HANG, || {
        (own.admin("SELECT count(*) FROM pg_locks WHERE relation = 't'::regclass AND granted") == "1").then_some(())
    })
    .unwrap();
    own.dump().args(["--lock-wait-timeout", "200ms"]).run().fails(5, "postgres_busy").unchanged();
    own.dump().args(["--timeout", "1s"]).run().fails(6, "timeout").unchanged();
    // Beside a dump of the same file a second one is not begun.
    let first = own.dump().spawn();
    wait::until("the partial file", svc_tests::wait::HANG, || own.path("dump.sql.partial").exists().then_some(())).unwrap();
    own.dump().run().fails(8, "locked").unchanged();
    own.admin(&format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = {} AND query ~ 'pg_sleep' AND pid <> pg_backend_pid()", literal(&own.name)));
    holder.wait().unwrap();
    first.wait().ok();
    fs::remove_file(own.out()).unwrap();
    fs::remove_file(own.path("dump.sql.properties.json")).unwrap();
    own.admin("CREATE TABLE theirs (a int)");
    own.dump().run().refused("permission_denied");
    assert!(own.left().is_empty(), "{:?}", own.left());
}

#[test]
fn a_dump_that_cannot_be_replaced_keeps_its_own_properties() {
    let own = Own::new("replace");
    own.sql("CREATE TABLE t AS SELECT 1 a");
    own.dump().run().ok();
    let properties = || fs::read_to_string(own.path("dump.sql.properties.json")).unwrap();
    let first = properties();
    own.admin(&format!("ALTER DATABASE {} SET work_mem = '17MB'", identifier(&own.name)));
    // Somebody puts a folder in the dump's place meanwhile, so that the new one cannot have its name.
    let meddling = own.path("pg_dump");
    let script = "#!/bin/sh\n[ $1 = --version ] || { mv dump.sql moved.sql; mkdir dump.sql; }\nexec pg_dump \"$@\"\n";
    svc_tests::os::write_program(&meddling, script).unwrap();
    let ran = own.dump().arg("--force").arg("--pg-dump").arg(&meddling).run();
    assert!(ran.status == 1 || ran.status == 3, "{ran}");
    ran.unchanged();
    assert_eq!(properties(), first);
    assert_eq!(own.left(), ["dump.sql", "dump.sql.properties.json", "moved.sql", "pg_dump"]);
    fs::remove_dir(own.out()).unwrap();
    fs::rename(own.path("moved.sql"), own.out()).unwrap();
    own.dump().arg("--force").run().ok().changed();
    assert!(properties().contains("17MB"));
    // A call that is killed while it replaces a dump leaves the properties of the dump before: they are not taken for its own.
    fs::write(own.path("dump.sql.properties.json"), first).unwrap();
    let verified = Tool::new("svc-pgdump").arg("verify").arg(own.out()).run().ok().warns("not_restored");
    assert_eq!(verified.result()["properties_path"], Value::Null);
    assert_eq!(own.left(), ["dump.sql", "dump.sql.properties.json", "pg_dump"]);
}

#[test]
fn a_folder_that_cannot_be_synced_leaves_nothing_or_is_a_change() {
    let own = Own::new("unsynced");
    own.sql("CREATE TABLE t AS SELECT 1 a");
    let daemon = svc_tests::os::system_user("daemon").unwrap();
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    for (name, mode) in [("state", 0o700), ("out", 0o300)] {
        svc_tests::os::folder(&folder.path().join(name), mode, Some(&daemon)).unwrap();
    }
    let path = |name: &str| folder.path().join(name);
    let dump = || own.bare().env("PGPASSWORD", PASSWORD).env("SVC_STATE_DIR", path("state")).as_user("daemon").dir("/");
    // Only somebody who may read a folder can make its names durable.
    dump().arg("--output").arg(path("out/dump.sql")).run().refused("permission_denied").unchanged();
    assert_eq!(fs::read_dir(path("out")).unwrap().count(), 0);
    fs::write(path("out/dump.sql.properties.json"), "of a dump that is gone").unwrap();
    dump().arg("--output").arg(path("out/dump.sql")).run().fails(1, "permission_denied").changed();
}

#[test]
fn what_libpq_would_demand_of_the_other_end_is_refused_and_not_passed_over() {
    let own = Own::new("demands");
    for (name, value) in [("PGREQUIREAUTH", "scram-sha-256"), ("PGREQUIREPEER", "postgres")] {
        own.dump().env(name, value).run().fails(2, "settings_invalid").unchanged();
        own.dump().args(["--as", "postgres", "--dry-run"]).env(name, value).run().ok();
    }
    for name in ["PGGSSENCMODE", "PGSSLCRLDIR", "PGSSLNEGOTIATION"] {
        own.dump().args(["--host", "127.0.0.1"]).env(name, "require").run().fails(2, "settings_invalid").unchanged();
        own.dump().arg("--dry-run").env(name, "require").run().ok();
    }
    // A comment in another encoding is no part of a password.
    let mut pgpass = b"# G\xfcnter\n".to_vec();
    pgpass.extend(fs::read(own.path("pgpass")).unwrap());
    fs::write(own.path("pgpass"), pgpass).unwrap();
    own.dump().args(["--host", "127.0.0.1"]).run().ok();
}

#[test]
fn a_pipe_where_a_file_is_wanted_is_refused_at_once() {
    let own = Own::new("fifo");
    let pipe = own.path("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::from_bits_truncate(0o600)).unwrap();
    Tool::new("svc-pgdump").arg("verify").arg(&pipe).run().refused("file_invalid");
    own.bare().arg("--password-file").arg(&pipe).run().refused("file_invalid");
    own.bare()
        .args(["--host", "127.0.0.1"])
        .env("PGSSLMODE", "verify-full")
        .env("PGSSLROOTCERT", &pipe)
        .run()
        .refused("file_invalid");
}

#[test]
fn a_connect_timeout_that_no_clock_can_hold_is_no_panic() {
    let own = Own::new("longest");
    own.dump().env("PGCONNECT_TIMEOUT", u64::MAX.to_string()).run().ok();
}

#[test]
fn help_and_wrong_command_lines_are_plain_text() {
    let own = Own::new("help");
    for args in [vec!["--help"], vec!["-?"], vec!["verify", "--help"], vec!["--version"]] {
        let ran = own.bare().args(args).run();
        assert!(ran.status == 0 && ran.document.is_none() && !ran.stdout.is_empty(), "{ran}");
    }
    let help = own.bare().arg("--help").run().stdout;
    assert!(help.contains("Example:") && help.contains("-h, --host") && help.contains("Exit status:"), "{help}");
    for args in [vec!["verify"], vec!["--nonsense"], vec!["--port", "x"], vec!["verify", "x", "--from", "y"]] {
        let ran = own.bare().args(args).run();
        assert!(ran.status == 2 && ran.document.is_none() && ran.stdout.is_empty(), "{ran}");
    }
}

#[test]
fn progress_is_shown_only_where_it_is_wanted() {
    let own = Own::new("progress");
    own.sql("CREATE TABLE t AS SELECT 1 a");
    let ran = own.dump().run().ok();
    assert_eq!(ran.stderr, "");
    let ran = own.dump().args(["--force", "--progress", "json"]).talks().run().ok();
    let lines: Vec<Value> = ran.stderr.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(!lines.is_empty() && lines.iter().all(|line| line["progress"] == "dump" && line["unit"] == "bytes"), "{ran}");
    let ran = own.dump().args(["--force", "--progress", "plain"]).talks().run().ok();
    assert!(ran.stderr.starts_with("dump: ") && ran.stderr.contains("bytes"), "{ran}");
}

#[test]
fn a_bar_is_shown_on_a_terminal() {
    let own = Own::new("terminal");
    own.sql("CREATE TABLE t AS SELECT i, repeat(md5(i::text), 8) FROM generate_series(1, 50000) i");
    let postgres = &own.host.postgres;
    let ran = on_terminal(&format!("svc-pgdump --as postgres --dbname {} --output dump.sql", own.name))
        .env("PGHOST", &postgres.socket_dir)
        .env("PGPORT", postgres.port.to_string())
        .env("SVC_STATE_DIR", own.path("state"))
        .current_dir(own.dir.path())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&ran.stdout);
    assert!(
        ran.status.success()
            && text.contains("dump: ")
            && text.contains("public.t ")
            && text.contains("/s")
            && text.contains("\"ok\": true"),
        "{text}"
    );
    // In a file that is copied to a terminal too.
    let ran = own.dump().env("SVC_WATCHED", "1").args(["--force"]).talks().run().ok();
    assert!(ran.stderr.contains("dump: ") && ran.stderr.contains("B/s"), "{ran}");
}

#[test]
fn a_dump_that_another_run_wrote_meanwhile_keeps_its_own_properties() {
    let own = Own::new("meanwhile");
    // It looks whether the file is there, reads the properties, and then waits before it has the file's lock.
    let slow = own.path("pg_dump");
    let wait = "while ! [ -e go ]; do sleep 0.05; done";
    let script = format!("#!/bin/sh\nif [ $1 = --version ]; then touch waits; {wait}; fi\nexec pg_dump \"$@\"\n");
    svc_tests::os::file(&slow, &script, 0o755, None).unwrap();
    let late = own.dump().arg("--pg-dump").arg(&slow).spawn();
    wait::until("the run that waits", svc_tests::wait::HANG, || own.path("waits").exists().then_some(())).unwrap();
    own.admin(&format!("ALTER DATABASE {} SET work_mem = '9MB'", identifier(&own.name)));
    let document = own.dump().run().ok().text();
    fs::write(own.path("go"), "").unwrap();
    late.wait().refused("file_exists");
    Tool::new("svc-pgdump").args(["verify", "--from", "-"]).stdin(document).run().ok();
    assert!(fs::read_to_string(own.path("dump.sql.properties.json")).unwrap().contains("9MB"));
}

/// The modules of a crate, each with those that it names; what is in a folder belongs to the module of that name.
fn modules(source: &Path) -> BTreeMap<String, BTreeSet<String>> {
    let mut modules: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut folders = vec![source.to_owned()];
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let first = path.strip_prefix(source).unwrap().iter().next().unwrap().to_string_lossy().into_owned();
            let text = fs::read_to_string(&path).unwrap();
            let name =
                |rest: &str| rest.split(|letter: char| !letter.is_alphanumeric() && letter != '_').next().unwrap().to_owned();
            // Braces after `crate::` name modules too.
            let named = text.split("crate::").skip(1).flat_map(|rest| match rest.strip_prefix('{') {
                Some(list) => list.split('}').next().unwrap().split(',').map(|one| name(one.trim())).collect(),
                None => vec![name(rest)],
            });
            modules.entry(first.trim_end_matches(".rs").to_owned()).or_default().extend(named);
        }
    }
    modules.retain(|module, _| !["lib", "main"].contains(&module.as_str()));
    let known: BTreeSet<String> = modules.keys().cloned().collect();
    modules.iter_mut().for_each(|(module, named)| named.retain(|one| one != module && known.contains(one)));
    modules
}

#[test]
fn no_module_imports_in_a_circle_and_the_client_imports_nothing_of_the_rest() {
    for tool in ["svc-snap", "svc-pgdump", "svc-pgrestore", "svc-version", "svc-unit", "svc-confsave"] {
        let mut left = modules(&svc_tests::tool::root().join(tool).join("src"));
        assert!(left.get("pg").is_none_or(BTreeSet::is_empty), "{left:?}");
        // Whoever imports nothing that is left goes, until nobody can.
        while let Some(module) = left.iter().find(|(_, named)| named.is_empty()).map(|(module, _)| module.clone()) {
            left.remove(&module);
            left.values_mut().for_each(|named| named.retain(|one| *one != module));
        }
        assert!(left.is_empty(), "{tool}: in circles are {left:#?}");
    }
}
