//! The loader of `svc-pgrestore` on a real PostgreSQL: it restores what psql does, and refuses what psql would.

use svc_tests::pg_case::prelude::*;

/// What is before the first rows of a filled case's dump, and before its first index.
const ROWS: &str = "\n\nCOPY public.items";
const INDEX: &str = "--\n-- Name: notes_item; Type: INDEX";

/// Stages the dump with further arguments, and gives what the copy is in the words of pg_dump.
fn staged(case: &Case, dump: &Path, more: &[&str]) -> Vec<u8> {
    let ran = case.tool().arg("stage").args(more).arg(dump).run().ok().changed();
    case.take(&ran.result()["staged"], &case.pg)
}

/// What psql makes of a dump, in the words of pg_dump; none if it refuses it.
fn by_psql(case: &Case, dump: &Path) -> Option<Vec<u8>> {
    let name = format!("{}_psql", case.database);
    case.pg.create_database(&name, &case.owner).unwrap();
    let mut psql = case.pg.administrator("psql");
    psql.args(["-XAtq", "-v", "ON_ERROR_STOP=1", "-d", &name, "-f", "-"]).stdin(fs::File::open(dump).unwrap());
    let loaded = psql.output().unwrap().status.success();
    let bytes = loaded.then(|| postgres_bytes(&case.pg, &name).unwrap());
    case.pg.drop_database(&name).unwrap();
    bytes
}

#[test]
fn dump_with_inserts_clean_or_latin1_is_loaded() {
    let (case, dump) = Case::filled("pgl_others");
    case.sql("COMMENT ON TABLE notes IS 'quoted or not'; COMMENT ON SCHEMA public IS 'ours'");
    let before = case.bytes();
    case.tool().args(["stage", "--dry-run", "--jobs", "3"]).arg(&dump).run().ok().has(&json!({"jobs_count": 3}));
    let all = [&["--inserts"][..], &["--clean", "--if-exists"], &["--encoding=LATIN1"], &["--quote-all-identifiers"]];
    for (round, options) in all.into_iter().enumerate() {
        let run = format!("20300101t000000z-others-{round}");
        same(&before, &staged(&case, &case.dump_by(options), &["--run-id", &run]), &format!("{options:?}"));
    }
    // Longer than what is taken apart of a statement, and all in one.
    let long = case.dump_with(&dump, &format!("COMMENT ON TABLE public.notes IS '{}';", "x".repeat(20_000_000)));
    case.tool().args(["stage", "--run-id", "20300101t000000z-long"]).arg(&long).run().ok().changed();
}

/// A command to psql in what looks like a comment or a string. (`check/lexer/tests.rs` has all of it.)
#[test]
fn dump_with_hidden_psql_command_is_refused() {
    let (case, dump) = Case::filled("pgl_sly");
    let sets = "set_config('standard_conforming_strings', 'off', false)";
    let string = "SELECT 'a\\' || '\n\\! id\n';";
    // What a function of the dump does is not known before it runs.
    let function =
        format!("CREATE FUNCTION public.sly() RETURNS text LANGUAGE sql AS $$ SELECT {sets} $$;\nSELECT public.sly();");
    for (trap, status, code) in
        [("-- x\r\\! id\nSELECT 1;".to_owned(), 3, "dump_invalid"), (format!("{function}\n{string}"), 1, "server_refused")]
    {
        let sly = case.dump_with(&dump, &trap);
        case.tool().arg("stage").arg(&sly).run().fails(status, code).unchanged();
        assert_eq!(case.copies(), "", "{trap}");
        if status == 3 {
            let ran = case.dumper().arg("verify").arg(&sly).run().review("dump_invalid");
            assert!(ran.result()["commands"][0].as_str().unwrap().starts_with("\\! id"), "{ran}");
        }
    }
}

/// Wherever a text of the server's owner comes into a dump, pg_dump quotes it, and it comes back as it is.
#[test]
fn quoted_command_is_restored_as_text() {
    let case = Case::new("pgl_hostile");
    let run = "\\! id";
    let text = literal(&format!("-- x\r{run}\n{run}\n\\.\n{run}\r\n"));
    let body = format!("$f$ SELECT 1 -- x\n{run}\n -- \r{run}\n$f$");
    let name = identifier(&format!("x\n{run}"));
    case.sql(&format!(
        "SET check_function_bodies = off; CREATE TABLE {name} (a text DEFAULT {text}, {name} text CHECK ({name} <> {text})); \
         INSERT INTO {name} VALUES ({text}, NULL); COMMENT ON TABLE {name} IS {text}; COMMENT ON COLUMN {name}.a IS {text}; \
         CREATE VIEW v AS SELECT {text}::text AS {name} FROM {name}; COMMENT ON VIEW v IS {text}; \
         CREATE FUNCTION f() RETURNS int LANGUAGE sql AS {body}; COMMENT ON FUNCTION f() IS {text}; \
         CREATE FUNCTION g() RETURNS int LANGUAGE plpgsql AS {text}"
    ));
    case.backup();
    same(&case.bytes(), &staged(&case, &case.path("backup.sql"), &[]), "quoted");
}

#[test]
fn set_statement_of_dump_applies_on_every_load_connection() {
    let (case, dump) = Case::filled("pgl_settings");
    // Each index asks for the setting as often as there are rows, on whatever connection it is built.
    let setting = "SET svc.word = 'word';\n\
        CREATE FUNCTION public.word(text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$\n\
        BEGIN IF current_query() LIKE 'CREATE INDEX%' AND current_setting('svc.word', true) IS NULL THEN RAISE 'no word'; END IF;\n\
        RETURN $1; END $$;";
    let indexes: Vec<_> =
        (0..8).map(|n| format!("CREATE INDEX own_{n} ON public.items USING btree (public.word(name));")).collect();
    let dump = case.dump_before(&case.dump_before(&dump, ROWS, setting), INDEX, &indexes.join("\n"));
    case.tool().args(["stage", "--jobs", "4"]).arg(dump).run().ok().changed();
}

#[test]
fn dump_may_have_crlf_but_no_byte_order_mark() {
    let (case, dump) = Case::filled("pgl_crlf");
    let text = fs::read_to_string(&dump).unwrap();
    let marked = case.write("marked.sql", format!("\u{feff}{text}"));
    case.tool().arg("stage").arg(&marked).run().fails(7, "dump_invalid").unchanged();
    let crlf = case.write("crlf.sql", text.replace('\n', "\r\n"));
    let rows = |text: &str| text[text.find("\nCOPY public.items").unwrap()..text.rfind("\n\\.\n").unwrap()].to_owned();
    let staged = String::from_utf8(staged(&case, &crlf, &[])).unwrap();
    assert_eq!(rows(&staged), rows(&case.text()));
}

/// A dump that builds two indexes in parallel. The first takes an hour, for which nobody waits; so does the second by `slow`, and by
/// `fails` it fails as soon as the first one is running.
fn builds(case: &Case, dump: &Path, second: &str) -> PathBuf {
    let functions = "CREATE FUNCTION public.slow(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS \
        'BEGIN IF $1 = 3 THEN PERFORM pg_advisory_lock_shared(1); PERFORM pg_sleep(3600); END IF; RETURN $1; END';\n\
        CREATE FUNCTION public.fails(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS \
        'BEGIN WHILE NOT EXISTS (SELECT FROM pg_locks WHERE locktype = ''advisory'' AND database = \
        (SELECT oid FROM pg_database WHERE datname = current_database())) LOOP PERFORM pg_sleep(0.01); END LOOP; \
        RETURN 1 / 0; END';";
    let indexes = format!(
        "CREATE INDEX slow_1 ON public.items USING btree (public.slow(id));\n\
         CREATE INDEX slow_2 ON public.notes USING btree (public.{second}(item));"
    );
    case.dump_before(&case.dump_before(dump, ROWS, functions), INDEX, &indexes)
}

/// Starts a staging of such a dump, and waits until both are built.
fn building(case: &Case, dump: &Path) -> Spawned {
    let spawned = case.tool().args(["stage", "--jobs", "2"]).arg(builds(case, dump, "slow")).spawn();
    let sleepers = case.sleeping_loads();
    wait::so("the slow builds", || (case.sessions(&sleepers) == 2).then_some(()));
    spawned
}

#[test]
fn signal_timeout_or_failure_ends_all_sessions_of_stage() {
    let (case, dump) = Case::filled("pgl_term");
    let witness = Witness::of(&case);
    let nothing_left = |what: &str| {
        assert_eq!(case.sessions(&format!("datname LIKE '{}_staged_%'", case.database)), 0, "{what}");
        witness.assert_unchanged(what);
    };
    for (what, signal, group) in [("SIGTERM", Signal::SIGTERM, false), ("SIGINT by the terminal", Signal::SIGINT, true)] {
        let ran = building(&case, &dump).interrupted(what, (signal, group), |_| true);
        ran.fails(128 + signal as i32, "interrupted").unchanged();
        nothing_left(what);
    }
    let slow = builds(&case, &dump, "slow");
    case.tool().args(["stage", "--jobs", "2", "--timeout", "3s"]).arg(slow).run().fails(6, "timeout").unchanged();
    nothing_left("the time limit");
    // One that fails does not wait for the others.
    let failing = builds(&case, &dump, "fails");
    let ran = case.tool().args(["stage", "--jobs", "2"]).arg(failing).run().fails(1, "server_refused").unchanged();
    ran.error_has(&["could not be loaded", "division by zero"]);
    nothing_left("a build that fails");
    let spawned = building(&case, &dump);
    case.end(&format!("{} AND query LIKE '%slow_1%'", case.sleeping_loads()));
    let ran = spawned.wait().fails(5, "postgres_unreachable").unchanged();
    assert!(ran.doc()["error"]["message"].as_str().unwrap().contains("line "), "{ran}");
    nothing_left("a session that the server ends");
}

#[test]
fn load_jobs_leave_reserved_connections_free() {
    let (case, _) = Case::filled("pgl_reserved");
    let free = "SELECT current_setting('max_connections')::int4 - current_setting('superuser_reserved_connections')::int4";
    let free: u64 = case.admin(free).parse().unwrap();
    let tables: String = (0..free + 10).map(|n| format!("CREATE TABLE public.many_{n} AS SELECT 1 AS a;\n")).collect();
    case.sql(&tables);
    let dump = case.dump();
    let ran = case.tool().args(["stage", "--dry-run", "--jobs", "256"]).arg(&dump).run().ok();
    assert!(ran.result()["jobs_count"].as_u64().unwrap() < free, "{ran}");
    let ran = case.tool().args(["stage", "--dry-run"]).arg(&dump).run().ok();
    assert!((1..=8).contains(&ran.result()["jobs_count"].as_u64().unwrap()), "{ran}");
}

#[test]
fn stage_with_more_jobs_than_connections_succeeds() {
    let (case, dump) = Case::filled("pgl_few");
    let admin = case.role("adm", &format!("CREATEDB CONNECTION LIMIT 3 IN ROLE {}", case.owner));
    let ran = case.by(&admin, case.tool().args(["stage", "--jobs", "8"])).arg(dump).run().ok();
    same(&case.bytes(), &case.take(&ran.result()["staged"], &case.pg), "three connections");
}

#[test]
fn dump_with_flipped_bit_fails_or_loads_as_by_psql() {
    let (case, dump) = Case::filled("pgl_damage");
    let whole = fs::read(&dump).unwrap();
    let before = (case.text(), case.oid(&case.database));
    let rounds = rounds("a dump with a flipped byte", 8, 300);
    let mut restored = 0;
    // Spread over the dump by a step that meets every place in the end.
    for round in 0..rounds {
        let at = (round * 7919 + 31) % whole.len();
        let mut damaged = whole.clone();
        damaged[at] ^= 1 << (round % 7);
        let path = case.write("damaged.sql", damaged);
        let ran = case.tool().args(["stage", "--run-id", &format!("20300101t000000z-flip-{round}")]).arg(&path).run();
        if ran.status == 0 {
            let staged = case.take(&ran.result()["staged"], &case.pg);
            let said = by_psql(&case, &path).unwrap_or_else(|| panic!("flipped at {at}: psql refuses it\n{ran}"));
            same(&said, &staged, &format!("flipped at {at}"));
            restored += 1;
        } else {
            assert!([1, 3, 4, 7].contains(&ran.status), "flipped at {at}: {ran}");
            ran.unchanged();
        }
        assert_eq!(case.copies(), "", "flipped at {at}");
    }
    assert!((1..rounds).contains(&restored), "{restored} of {rounds} were restored");
    assert_eq!((case.text(), case.oid(&case.database)), before);
}

#[test]
fn idle_session_timeout_spares_waiting_load_sessions() {
    let (case, dump) = Case::filled("pgl_idle");
    let slow = case.dump_with(&dump, "SELECT pg_catalog.pg_sleep(3);");
    case.tool().arg("stage").arg(&slow).env("PGOPTIONS", "-c idle_session_timeout=2s").run().ok();
}

#[test]
fn progress_has_bytes_rows_and_running_statement() {
    let (case, dump) = Case::filled("pgl_progress");
    let ran = case.tool().args(["stage", "--progress", "json"]).arg(&dump).talks().run().ok();
    let lines: Vec<Value> = ran.stderr.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let load = lines.iter().find(|line| line["progress"] == "load").unwrap_or_else(|| panic!("{ran}"));
    assert!(load["at"].as_str().unwrap().contains("rows/s") && load["unit"] == "bytes", "{load}");

    case.sql("CREATE TABLE public.large AS SELECT n, md5(n::text) FROM generate_series(1, 50000) n; CREATE INDEX ON public.large (md5)");
    // A staging that is over before the bar is drawn shows nothing of itself.
    let slow = case.dump_with(&case.dump(), "SELECT pg_catalog.pg_sleep(2);");
    let typed = format!("stty cols 160; svc-pgrestore stage {} > {}", slow.display(), case.path("out").display());
    let mut terminal = on_terminal(&typed);
    terminal.env("PGHOST", &case.pg.socket_dir).env("PGPORT", case.pg.port.to_string()).env("SVC_STATE_DIR", case.path("state"));
    let screen = os::run(terminal.env("SVC_DATABASE", &case.database).env("SVC_DB_USER", &case.owner)).unwrap();
    let line = screen.split(['\r', '\n']).find(|line| line.contains("load: ") && line.contains("pg_sleep"));
    let line = line.unwrap_or_else(|| panic!("{screen}"));
    // So many of so many bytes, the statement, rows and bytes a second, the time that is left.
    for part in ["MiB/", "rows/s", "iB/s", " left"] {
        assert!(line.contains(part) && !line.contains(", 0 rows/s"), "{part}: {line}");
    }
}

#[test]
#[ignore = "a database of 5,000 tables"]
fn dump_of_5000_tables_is_restored_identically() {
    let case = Case::new("pgl_many");
    // Some at a time, or the server runs out of room for locks.
    for part in 0..50 {
        case.sql(&format!(
            "DO $$ BEGIN FOR n IN {0} * 100 .. {0} * 100 + 99 LOOP EXECUTE format('CREATE TABLE t%s (id int PRIMARY KEY, t text); \
             INSERT INTO t%s SELECT n, n FROM generate_series(1, %s) n; CREATE INDEX ON t%s (t)', n, n, n % 7, n); END LOOP; END $$",
            part
        ));
    }
    same(&case.bytes(), &staged(&case, &case.dump(), &[]), "5,000 tables");
}
