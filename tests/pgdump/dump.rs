//! svc-pgdump on a real server: a dump is complete or not there, and says what it holds.

use std::ffi::OsStr;
use std::net::TcpListener;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;

use nix::sys::signal::kill;
use svc_tests::pg_case::prelude::*;

/// The tool as the owner, with the password, writing `dump.sql`.
fn dump(case: &Case) -> Tool {
    case.dumper().env("PGPASSWORD", PASSWORD).args(["--output", "dump.sql"])
}

/// The same by a pg_dump that does something before.
fn by_stub(case: &Case, does: &str) -> Tool {
    dump(case).stub(&case.path("bin"), "pg_dump", does).args(["--pg-dump", "bin/pg_dump"])
}

fn verify_from(ran: &Ran) -> Ran {
    Tool::new("svc-pgdump").args(["verify", "--from", "-"]).stdin(ran.text()).run()
}

fn own(case: &Case, sql: &str) {
    case.sql(&format!("SET ROLE {}; {sql}", identifier(&case.owner)));
}

fn properties(case: &Case) -> String {
    fs::read_to_string(case.path("dump.sql.properties.json")).unwrap()
}

/// What is in the test's folder, but its state.
fn left(case: &Case) -> Vec<String> {
    let names = fs::read_dir(case.dir.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.filter(|name| name != "state").collect();
    names.sort();
    names
}

/// Which session waits for a lock in the database.
fn waits(case: &Case) -> String {
    format!("datname = '{}' AND wait_event_type = 'Lock'", case.database)
}

/// A dump that has written rows and waits for the large objects, on which the other session has a lock.
fn standing(case: &Case, tool: Tool) -> (Spawned, Held<'_>) {
    let held = case.hold(&case.database, "LOCK TABLE pg_catalog.pg_largeobject");
    let spawned = tool.spawn();
    case.wait_for("the dump behind its rows", &waits(case));
    let is_large = || fs::metadata(case.path("dump.sql.partial")).ok().filter(|data| data.len() > 100_000);
    wait::so("rows in the dump", is_large);
    (spawned, held)
}

/// Some MB that do not compress well, and a large object.
fn fill(case: &Case) {
    let text = "(SELECT string_agg(md5(n::text || i::text), '') FROM generate_series(1, 8) i)";
    own(case, &format!("CREATE TABLE large AS SELECT n, {text} AS t FROM generate_series(1, 20000) n"));
    own(case, "SELECT lo_from_bytea(0, 'x')");
}

/// A database with one of every kind of object, with names and texts that look like parts of a dump; and its dump.
fn of_every_kind(name: &str) -> (Case, Ran) {
    let case = Case::new(name);
    case.script(include_str!("../pgrestore/every_kind.sql"));
    let ran = case.dumper().args(["--as", "postgres", "--output", "dump.sql"]).run().ok().changed();
    (case, ran)
}

#[test]
fn complete_dump_is_private_with_row_counts() {
    let (case, ran) = of_every_kind("pgd_whole");
    assert_eq!(left(&case), ["dump.sql", "dump.sql.properties.json"]);
    for name in left(&case) {
        assert_eq!(os::mode(case.path(&name)), 0o600, "{name}");
    }
    assert_eq!(ran.doc()["warnings"], json!([]));
    let system_identifier = case.admin("SELECT system_identifier FROM pg_control_system()");
    let ran = ran.has(&json!({"system_identifier": system_identifier, "server_version": case.admin("SHOW server_version"),
        "roles": [case.owner, "postgres"], "extensions": ["btree_gist", "pg_trgm"]}));
    let result = ran.result();
    let tables = result["tables"].as_array().unwrap();
    let count = |table: &Value| {
        let [schema, name] = ["schema", "name"].map(|key| identifier(table[key].as_str().unwrap()));
        format!("(SELECT count(*) FROM ONLY {schema}.{name})")
    };
    let counts: Vec<_> = tables.iter().map(count).collect();
    let said: Vec<_> = tables.iter().map(|table| table["rows_count"].to_string()).collect();
    assert_eq!(case.sql(&format!("SELECT ARRAY[{}]", counts.join(", "))), format!("{{{}}}", said.join(",")));
    let all = "SELECT count(*) FROM pg_class WHERE relkind = 'r' AND oid > 16383";
    assert_eq!(case.sql(all), tables.len().to_string());
    // It is what pg_dump writes, so that psql loads it.
    let lines = |text: &str| text.lines().filter(|line| !line.contains("restrict ")).map(str::to_owned).collect::<Vec<_>>();
    assert!(lines(&fs::read_to_string(case.path("dump.sql")).unwrap()) == lines(&case.text()), "it is not what pg_dump writes");
    let sum = os::run(Command::new("sha256sum").arg(case.path("dump.sql"))).unwrap();
    assert!(sum.starts_with(result["sha256"].as_str().unwrap()), "{sum}");
    verify_from(&ran).ok().unchanged().has(&json!({"as_documented": true, "tables": result["tables"]}));
}

#[test]
fn connection_and_settings_errors_have_distinct_codes() {
    let case = Case::new("pgd_connect");
    // It accepts, and says nothing.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent_at = format!("--host 127.0.0.1 --port {}", silent.local_addr().unwrap().port());
    // Nobody else is given that one.
    let closed_at = format!("--host 127.0.0.1 --port {}", os::free_ports(1).unwrap()[0]);
    let silent_for = format!("{silent_at} --timeout 300ms");
    // The server cuts such a name, as a pooler leads another one elsewhere.
    let cut = format!("{:x<64}", case.database);
    case.pg.create_database(&cut, &case.owner).unwrap();
    nix::unistd::mkfifo(&case.path("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    for (name, mode) in [("empty", 0o600), ("readable", 0o644)] {
        os::file(&case.path(name), if mode == 0o600 { "\n" } else { PASSWORD }, mode, None).unwrap();
    }
    let files = left(&case);
    for (env_text, args, status, code, says) in [
        ("", "--dbname nowhere", 4, "data_not_found", ""),
        ("", &format!("--dbname {cut}"), 3, "options_invalid", &cut[..63]),
        ("", closed_at.as_str(), 5, "postgres_unreachable", ""),
        ("", "--host /nowhere", 5, "postgres_unreachable", ""),
        ("", "--host no.such.host.invalid", 5, "postgres_unreachable", ""),
        ("PGCONNECT_TIMEOUT=1", &silent_at, 5, "postgres_unreachable", ""),
        ("", &silent_for, 6, "timeout", ""),
        ("PGPASSWORD=wrong", "", 3, "access_denied", "does not let the user"),
        ("", "--username nobody_here", 3, "access_denied", "does not let the user"),
        ("PGPASSWORD=", "", 3, "access_denied", "requires a password"),
        ("PGPASSWORD=", "--password", 3, "access_denied", "no terminal"),
        ("", "--password-file empty", 2, "settings_invalid", ""),
        ("", "--password-file readable", 3, "settings_invalid", ""),
        ("", "--password-file pipe", 3, "file_invalid", ""),
        ("PGSSLMODE=require", "--host 127.0.0.1", 3, "not_trusted", ""),
        ("PGSSLMODE=verify-full PGSSLROOTCERT=pipe", "--host 127.0.0.1", 3, "file_invalid", ""),
        ("PGSSLMODE=sometimes", "--host 127.0.0.1", 2, "settings_invalid", ""),
        ("PGSSLROOTCERT=system", "--host 127.0.0.1", 2, "settings_invalid", ""),
        ("HOME=/nowhere PGSSLMODE=verify-full", "--host 127.0.0.1", 2, "settings_invalid", ""),
        ("HOME=/nowhere PGSSLCERT=/c", "--host 127.0.0.1", 2, "settings_invalid", ""),
        ("HOME=/nowhere PGSSLKEY=/k", "--host 127.0.0.1", 2, "settings_invalid", ""),
        ("PGPORT=x", "", 2, "settings_invalid", ""),
        ("PGCONNECT_TIMEOUT=soon", "", 2, "settings_invalid", ""),
        ("PGSERVICE=x", "", 2, "settings_invalid", ""),
        ("PGREQUIREAUTH=scram-sha-256", "", 2, "settings_invalid", ""),
        ("PGREQUIREPEER=postgres", "", 2, "settings_invalid", ""),
        ("PGTARGETSESSIONATTRS=primary", "", 2, "settings_invalid", ""),
        ("", "--as nobody_here", 2, "settings_invalid", ""),
        ("", "--output ..", 2, "options_invalid", ""),
        ("", "--output .", 2, "options_invalid", ""),
        ("", &format!("--output {}", "x".repeat(226)), 2, "options_invalid", "has a name of 226 bytes, and at most 225 fit"),
        ("", "--output /nowhere/x.sql", 4, "file_not_found", ""),
    ] {
        eprintln!("{env_text} svc-pgdump {args}: {code}");
        let env = env_text.split_whitespace().filter_map(|one| one.split_once('='));
        let ran = case.dumper().env("PGPASSWORD", PASSWORD).envs(env).args(args.split_whitespace()).run();
        ran.fails(status, code).unchanged().error_has(&[says]);
    }
    let odd = OsStr::from_bytes(b"\xff.sql");
    let ran = case.dumper().env("PGPASSWORD", PASSWORD).arg("--output").arg(odd).run();
    ran.fails(2, "options_invalid").unchanged().error_has(&["is not UTF-8"]);
    case.dumper().args(["--as", "postgres"]).as_user("daemon").run().refused("permission_denied");
    case.admin(&format!("ALTER DATABASE {} CONNECTION LIMIT 0", case.database));
    dump(&case).run().fails(5, "server_busy").unchanged();
    case.admin(&format!("ALTER DATABASE {} CONNECTION LIMIT -1", case.database));
    for limit in ["--nofile=8:8", "--nofile=16:16"] {
        let ran = dump(&case).through("prlimit", [limit]).run().fails(1, "failed").unchanged().error_has(&["too few files"]);
        assert!(!ran.stderr.contains("panicked"), "{ran}");
    }
    assert_eq!(left(&case), files);
    Tool::new("svc-pgdump").arg("verify").arg(case.path("pipe")).run().refused("file_invalid");
    // Over the socket nothing is demanded of TLS, and of an administrator nothing that is the caller's own.
    dump(&case).env("PGSSLCRLDIR", "x").env("PGCONNECT_TIMEOUT", u64::MAX.to_string()).run().ok();
}

#[test]
fn password_is_taken_from_each_private_source() {
    let case = Case::new("pgd_places");
    let password = "with: \\ and ' in it";
    case.admin(&format!("ALTER ROLE {} PASSWORD {}", case.owner, literal(password)));
    let (pgpass, plain) = (case.path("pgpass"), case.path("password"));
    case.pg.pgpass(&pgpass, &case.owner, password).unwrap();
    fs::create_dir(case.path("home")).unwrap();
    fs::copy(&pgpass, case.path("home/.pgpass")).unwrap();
    os::file(&plain, &format!("{password}\n"), 0o600, None).unwrap();
    let from = |variable: &str, value: &Path| case.dumper().args(["--force", "--host", "127.0.0.1"]).env(variable, value);
    for (variable, value) in [
        ("PGPASSFILE", pgpass.as_path()),
        ("HOME", &case.path("home")),
        ("PGPASSWORD", Path::new(password)),
        ("SVC_DB_PASSWORD_FILE", &plain),
    ] {
        from(variable, value).run().ok();
    }
    case.dumper().args(["--force", "--password-file", "password"]).run().ok();
    assert!(case.path(&format!("{}.backup.sql", case.database)).exists(), "the default name is that of the database");
    // As in libpq, one that others can read is not used.
    os::chmod(&pgpass, 0o644);
    for file in [pgpass.as_path(), Path::new("/nowhere")] {
        from("PGPASSFILE", file).run().refused("access_denied").warns("settings_invalid").error_has(&["requires a password"]);
    }
}

#[test]
fn dump_as_administrator_ignores_caller_credentials() {
    let case = Case::new("pgd_as");
    own(&case, "CREATE TABLE t AS SELECT generate_series(1, 7) a");
    fs::create_dir(case.path("a folder")).unwrap();
    let output = case.path("a folder").join("with spaces 'and quotes'.sql");
    // env -i: not even PATH.
    let tool =
        Tool::new("svc-pgdump").env_remove("PATH").env_remove("LANG").args(["--as", "postgres", "--dbname", &case.database]);
    let tool = tool.arg("--host").arg(&case.pg.socket_dir).args(["--port", &case.pg.port.to_string(), "--state-dir"]);
    tool.arg(case.path("state")).arg("--output").arg(&output).run().ok().has(&json!({"rows_count": 7, "path": output}));
    verify(&output).ok();
    let others = [("PGUSER", "x"), ("PGPASSWORD", "x"), ("PGSERVICE", "x"), ("PGREQUIREPEER", "x")];
    let callers = || case.dumper().args(["--as", "postgres", "--force"]).envs(others);
    callers().run().ok();
    // Another host is no folder, so it is not used.
    callers().env("PGHOST", "no.such.host.invalid").run().fails(5, "postgres_unreachable");
}

#[test]
fn user_mapping_of_other_role_needs_review_unless_superuser_dumps() {
    let (case, _) = Case::filled("pgd_mapping");
    case.sql(&format!(
        "CREATE FOREIGN DATA WRAPPER dummy; CREATE SERVER elsewhere FOREIGN DATA WRAPPER dummy;
        GRANT USAGE ON FOREIGN SERVER elsewhere TO {0}; CREATE USER MAPPING FOR {0} SERVER elsewhere",
        identifier(&case.owner)
    ));
    dump(&case).run().ok();
    case.sql("CREATE USER MAPPING FOR postgres SERVER elsewhere OPTIONS (password 's3cret')");
    dump(&case).arg("--force").run().review("not_restored").warns_of("not_restored", "--as postgres");
    assert!(!fs::read_to_string(case.path("dump.sql")).unwrap().contains("s3cret"));
    case.dumper().args(["--output", "dump.sql", "--force", "--as", "postgres"]).run().ok();
    assert!(fs::read_to_string(case.path("dump.sql")).unwrap().contains("s3cret"));
}

#[test]
fn interrupted_dump_leaves_previous_file_only() {
    let case = Case::new("pgd_ends");
    fill(&case);
    case.write("dump.sql", "precious");
    type How<'a> = &'a dyn Fn(&Spawned);
    let end = |_: &Spawned| case.end(&waits(&case));
    let compressed = &["--compress", "zstd"][..];
    let killed = |dump: &Spawned| kill(dump.child("pg_dump"), Signal::SIGKILL).unwrap();
    for (what, more, how, status, code, cause) in [
        ("SIGTERM", &[][..], (&|dump: &Spawned| dump.signal(Signal::SIGTERM)) as How<'_>, 143, "interrupted", ""),
        ("SIGTERM, compressed", compressed, &|dump: &Spawned| dump.signal(Signal::SIGTERM), 143, "interrupted", ""),
        ("SIGINT by the terminal", &[], &|dump: &Spawned| dump.signal_group(Signal::SIGINT), 130, "interrupted", ""),
        ("SIGHUP by the terminal", &[], &|dump: &Spawned| dump.signal_group(Signal::SIGHUP), 129, "interrupted", ""),
        ("the end of the server process", &[], &end, 1, "failed", "terminat"),
        ("the end of it, compressed", compressed, &end, 1, "failed", "terminat"),
        ("a killed pg_dump", &[], &killed, 1, "failed", "signal: 9"),
    ] {
        let (spawned, held) = standing(&case, dump(&case).arg("--force").args(more));
        how(&spawned);
        let ran = spawned.wait();
        drop(held);
        assert_eq!(fs::read_to_string(case.path("dump.sql")).unwrap(), "precious", "{what}");
        assert_eq!(left(&case), ["dump.sql"], "{what}");
        ran.fails(status, code).unchanged().error_has(&[cause]);
        case.wait_for_end(what, &format!("datname = '{}'", case.database));
    }
}

#[test]
fn existing_file_is_replaced_only_with_force() {
    let case = Case::new("pgd_existing");
    let to = |output: &str| case.dumper().env("PGPASSWORD", PASSWORD).args(["--output", output]);
    let ran = to("dump.sql").arg("--dry-run").run().ok().unchanged();
    assert!(left(&case).is_empty() && ran.doc()["dry_run"] == true, "{ran}");
    let plan = &ran.result()["plan"];
    assert!(plan[0]["argv"].as_array().unwrap().contains(&json!(format!("--dbname={}", case.database))), "{ran}");
    assert_eq!(plan[2]["path"], json!(case.path("dump.sql").display().to_string()));
    case.write("dump.sql", "precious");
    to("dump.sql").run().refused("name_in_use");
    to("dump.sql").arg("--dry-run").run().refused("name_in_use");
    to("dump.sql").args(["--force", "--dbname", "nowhere"]).run().fails(4, "data_not_found");
    assert_eq!((fs::read_to_string(case.path("dump.sql")).unwrap(), left(&case).len()), ("precious".to_owned(), 1));
    to("dump.sql").arg("--force").run().ok().changed();
    verify(&case.path("dump.sql")).ok();
    for link in ["link.sql", "other.sql.partial"] {
        symlink(case.write("victim", "precious"), case.path(link)).unwrap();
    }
    nix::unistd::mkfifo(&case.path("pipe.sql"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    for odd in ["link.sql", "pipe.sql"] {
        for force in [&[][..], &["--force"]] {
            let ran = to(odd).args(force).run().refused("file_invalid");
            assert!(!ran.hint().contains("--force"), "{ran}");
        }
        assert!(!fs::symlink_metadata(case.path(odd)).unwrap().is_file(), "{odd}");
    }
    to("other.sql").run().ok();
    assert_eq!(fs::read_to_string(case.path("victim")).unwrap(), "precious");
}

#[test]
fn dump_to_full_disk_leaves_previous_file() {
    let case = Case::new("pgd_full");
    fs::create_dir(case.path("disk")).unwrap();
    let _small = SmallDisk::at(&case.path("disk"), 3).unwrap();
    let to_disk = || case.dumper().args(["--as", "postgres", "--output", "disk/x.sql"]);
    // Rows that are deleted still take disk space, and none in a dump.
    case.sql(
        "CREATE TABLE gone WITH (autovacuum_enabled = off) AS SELECT repeat(md5(n::text), 30) FROM generate_series(1, 12000) n",
    );
    case.sql("ANALYZE gone; DELETE FROM gone");
    let small = to_disk().run();
    // Rows that the server keeps compressed: 5 MB of dump out of some pages.
    case.sql("DROP TABLE gone; CREATE TABLE t AS SELECT repeat('x', 100000) a FROM generate_series(1, 50)");
    let full = to_disk().arg("--force").run();
    let files = fs::read_dir(case.path("disk")).unwrap().count();
    let kept = verify(&case.path("disk/x.sql"));
    small.ok().warns("out_of_space");
    full.fails(1, "out_of_space").unchanged();
    kept.ok();
    assert_eq!(files, 2);
}

#[test]
fn verify_finds_damaged_dump_or_properties() {
    let (case, ran) = of_every_kind("pgd_cut");
    let whole = fs::read(case.path("dump.sql")).unwrap();
    // (pg/harm.rs cuts it anywhere.)
    let cut = verify(&case.write("cut.sql", &whole[..whole.len() - 90])).fails(7, "dump_invalid").unchanged();
    assert_eq!(cut.result()["complete"], false, "{cut}");
    for file in ["dump.sql", "dump.sql.properties.json"] {
        let text = fs::read(case.path(file)).unwrap();
        let mut flipped = text.clone();
        flipped[text.len() / 2] ^= 1;
        for damaged in [&flipped[..], &text[..text.len() / 3]] {
            case.write(file, damaged);
            let found = verify_from(&ran).fails(7, "dump_invalid").unchanged();
            assert_ne!(found.result()["as_documented"], true, "{file}: {found}");
        }
        case.write(file, text);
    }
    verify_from(&ran).ok();
    fs::remove_file(case.path("dump.sql")).unwrap();
    verify_from(&ran).fails(4, "file_not_found");
    verify(case.dir.path()).refused("file_invalid");
}

#[test]
fn unsuitable_pg_dump_is_refused_with_package_name() {
    let case = Case::new("pgd_program");
    let package = format!("postgresql-client-{}", case.pg.version);
    let by = |program: &str| dump(&case).args(["--pg-dump", program]);
    // It knows its version, and then does that.
    let script = |version: &str, does: &str| {
        let text = format!("#!/bin/sh\nPATH=/usr/bin\n[ \"$1\" = --version ] && {{ {version}; exit; }}\n{does}\n");
        os::write_program(case.path("pg_dump"), text).unwrap();
    };
    script("echo 'pg_dump (PostgreSQL) 12.1'", "");
    for (program, status, code) in [("./pg_dump", 3, "version_unsupported"), ("/nowhere/pg_dump", 4, "file_not_found")] {
        by(program).run().fails(status, code).unchanged().error_has(&[&package]);
    }
    for (version, does, status, code) in
        [("echo hello", "", 1, "failed"), ("pg_dump --version", "pg_dump \"$@\" | head -c 500", 7, "dump_invalid")]
    {
        script(version, does);
        by("./pg_dump").run().fails(status, code).unchanged();
    }
    assert_eq!(left(&case), ["pg_dump"]);
    // What is on the PATH gives way to one of the server's own version; what is named does not.
    script("echo 'pg_dump (PostgreSQL) 99.1'", "echo 'pg_dump: warning: look here' >&2; exec pg_dump \"$@\"");
    let ran = dump(&case).env("PATH", format!("{}:/usr/bin:/bin", case.dir.path().display())).arg("--dry-run").run().ok();
    assert!(ran.result()["pg_dump_version"].as_str().unwrap().starts_with(&case.pg.version.to_string()), "{ran}");
    // By a path of the caller's folder, even if another user of the host runs it, in another folder.
    os::chmod(case.dir.path(), 0o755);
    by("./pg_dump").args(["--as", "postgres"]).run().ok().warns("version_unsupported").warns_of("external_warning", "look here");
}

#[test]
fn lock_and_missing_right_differ_in_any_server_language_and_run_out_of_time() {
    let case = Case::new("pgd_language");
    own(&case, "CREATE TABLE t AS SELECT 1 a");
    for language in ["C", GERMAN] {
        case.admin(&format!("ALTER ROLE {} SET lc_messages = '{language}'", case.owner));
        let held = case.hold(&case.database, "LOCK TABLE t");
        let busy = dump(&case).args(["--lock-wait-timeout", "200ms"]).run().fails(5, "server_busy").unchanged();
        assert_eq!(busy.text().contains("FEHLER"), language == GERMAN, "{busy}");
        drop(held);
        case.sql("CREATE TABLE theirs (a int)");
        dump(&case).run().refused("permission_denied");
        case.sql("DROP TABLE theirs");
    }
    // Without a limit of its own for locks.
    let held = case.hold(&case.database, "LOCK TABLE t");
    dump(&case).args(["--timeout", "1s"]).run().fails(6, "timeout").unchanged();
    assert!(left(&case).is_empty(), "{:?}", left(&case));
    let first = dump(&case).spawn();
    wait::so("the partial file", || case.path("dump.sql.partial").exists().then_some(()));
    dump(&case).run().fails(8, "locked").unchanged();
    drop(held);
    first.wait().ok();
}

#[test]
fn dump_that_cannot_be_replaced_keeps_properties() {
    let case = Case::new("pgd_replace");
    dump(&case).run().ok();
    let first = properties(&case);
    case.admin(&format!("ALTER DATABASE {} SET work_mem = '17MB'", case.database));
    // Somebody puts a folder in the dump's place meanwhile, so that the new one cannot have its name.
    let moves = "[ $1 = --version ] || { mv dump.sql moved.sql; mkdir dump.sql; }";
    let ran = by_stub(&case, moves).arg("--force").run();
    assert!(ran.status == 1 || ran.status == 3, "{ran}");
    ran.unchanged();
    assert_eq!(properties(&case), first);
    assert_eq!(left(&case), ["bin", "dump.sql", "dump.sql.properties.json", "moved.sql"]);
    fs::remove_dir(case.path("dump.sql")).unwrap();
    fs::rename(case.path("moved.sql"), case.path("dump.sql")).unwrap();
    dump(&case).arg("--force").run().ok().changed();
    assert!(properties(&case).contains("17MB"));
    // A call that is killed while it replaces a dump leaves the properties of the dump before: they are not taken for its own.
    case.write("dump.sql.properties.json", first);
    verify(&case.path("dump.sql")).ok().warns("not_restored").has(&json!({"properties_path": null}));
}

#[test]
fn dump_written_meanwhile_keeps_its_own_properties() {
    let case = Case::new("pgd_meanwhile");
    // It looks whether the file is there, reads the properties, and then waits before it has the file's lock.
    let waits = "if [ $1 = --version ]; then touch waits; while ! [ -e go ]; do sleep 0.05; done; fi";
    let late = by_stub(&case, waits).spawn();
    wait::so("the run that waits", || case.path("waits").exists().then_some(()));
    case.admin(&format!("ALTER DATABASE {} SET work_mem = '9MB'", case.database));
    let ran = dump(&case).run().ok();
    case.write("go", "");
    late.wait().refused("name_in_use");
    verify_from(&ran).ok();
    assert!(properties(&case).contains("9MB"));
}

#[test]
fn unsyncable_folder_leaves_nothing_or_reports_change() {
    let case = Case::new("pgd_unsynced");
    let daemon = os::system_user("daemon").unwrap();
    os::chmod(case.dir.path(), 0o755);
    for (name, mode) in [("daemons", 0o700), ("out", 0o300)] {
        os::folder(&case.path(name), mode, Some(&daemon)).unwrap();
    }
    let tool = || case.dumper().env("PGPASSWORD", PASSWORD).env("SVC_STATE_DIR", case.path("daemons")).as_user("daemon").dir("/");
    let dump = || tool().arg("--output").arg(case.path("out/dump.sql")).run();
    // Only somebody who may read a folder can make its names durable.
    dump().refused("permission_denied");
    assert_eq!(fs::read_dir(case.path("out")).unwrap().count(), 0);
    case.write("out/dump.sql.properties.json", "of a dump that is gone");
    dump().fails(1, "permission_denied").changed();
}

#[test]
fn progress_is_shown_on_request_or_on_terminal() {
    let case = Case::new("pgd_progress");
    fill(&case);
    let dump = || dump(&case).arg("--force");
    assert_eq!(dump().run().ok().stderr, "");
    let ran = dump().args(["--progress", "json"]).talks().run().ok();
    let lines: Vec<Value> = ran.stderr.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(!lines.is_empty() && lines.iter().all(|line| line["progress"] == "dump" && line["unit"] == "bytes"), "{ran}");
    let ran = dump().args(["--progress", "plain"]).talks().run().ok();
    assert!(ran.stderr.starts_with("dump: ") && ran.stderr.contains("bytes"), "{ran}");
    // In a file that is copied to a terminal too.
    let ran = dump().env("SVC_WATCHED", "1").talks().run().ok();
    assert!(ran.stderr.contains("dump: ") && ran.stderr.contains("B/s"), "{ran}");
    let typed = format!("svc-pgdump --as postgres --dbname {} --output terminal.sql", case.database);
    let (host, port) = (&case.pg.socket_dir, case.pg.port.to_string());
    let mut terminal = on_terminal(&typed);
    terminal.env("PGHOST", host).env("PGPORT", port).env("SVC_STATE_DIR", case.path("state"));
    let screen = os::run(terminal.current_dir(case.dir.path())).unwrap();
    for part in ["dump: ", "public.large ", "/s", "\"ok\": true"] {
        assert!(screen.contains(part), "{part} is not in {screen}");
    }
}
