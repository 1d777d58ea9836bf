//! The loader of `svc-pgrestore` on a real PostgreSQL: it restores what psql does, and refuses what psql would.

use std::fs;
use std::path::{Path, PathBuf};

use nix::sys::signal::Signal;
use serde_json::Value;
use svc_tests::content::{difference, of_copy, postgres_dump};
use svc_tests::pg_case::Case;
use svc_tests::postgres::{identifier, literal};
use svc_tests::rounds;
use svc_tests::terminal::on_terminal;
use svc_tests::tool::Ran;

/// One of every kind of object.
const KINDS: [&str; 2] = [include_str!("every_kind.sql"), include_str!("more_kinds.sql")];

fn write(case: &Case, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
    let path = case.dir.path().join(name);
    fs::write(&path, text).unwrap();
    path
}

/// The dump with a statement more before the first rows.
fn before_the_rows(case: &Case, dump: &Path, statement: &str) -> PathBuf {
    let text = fs::read_to_string(dump).unwrap();
    let at = text.find("\n\nCOPY public.").unwrap();
    write(case, "before.sql", format!("{}\n{statement}\n{}", &text[..at], &text[at..]))
}

/// Stages the dump with further arguments, and gives what the copy is in the words of pg_dump.
fn staged(case: &Case, dump: &Path, more: &[&str]) -> String {
    let ran = case.tool().arg("stage").args(more).arg(dump).run().ok().changed();
    let name = ran.result()["staged"]["name"].as_str().unwrap();
    let text = of_copy(&case.pg, name, || postgres_dump(&case.pg, name)).unwrap();
    case.pg.drop_database(name).unwrap();
    text
}

/// What psql makes of a dump, in the words of pg_dump; none where it refuses it.
fn by_psql(case: &Case, dump: &Path) -> Option<String> {
    let name = format!("{}_psql", case.database);
    case.pg.create_database(&name, &case.owner).unwrap();
    let mut psql = case.pg.administrator("psql");
    psql.args(["-XAtq", "-v", "ON_ERROR_STOP=1", "-d", &name, "-f", "-"]).stdin(fs::File::open(dump).unwrap());
    let loaded = psql.output().unwrap().status.success();
    let text = loaded.then(|| svc_tests::content::postgres_dump(&case.pg, &name).unwrap());
    case.pg.drop_database(&name).unwrap();
    text
}

fn causes(document: &Value) -> String {
    document["error"]["causes"].to_string()
}

#[test]
fn every_kind_of_object_comes_back_the_same() {
    let case = Case::new("pgl_kinds");
    KINDS.iter().for_each(|script| case.script(script));
    let before = case.text();
    let dump = case.dump();
    for jobs in ["1", "3", "7"] {
        let run = format!("20300101t000000z-{jobs}");
        let after = staged(&case, &dump, &["--jobs", jobs, "--run-id", &run]);
        assert!(after == before, "{jobs} jobs:\n{}", difference(&before, &after));
    }
}

#[test]
fn a_dump_as_others_write_it_is_loaded_too() {
    let (case, dump) = Case::filled("pgl_others");
    let before = case.text();
    let ran = case.tool().args(["stage", "--dry-run", "--jobs", "3"]).arg(&dump).run().ok();
    assert_eq!(ran.result()["jobs_count"], 3);
    for (round, options) in [&["--inserts"][..], &["--clean", "--if-exists"], &["--encoding=LATIN1"]].into_iter().enumerate() {
        let mut pg_dump = case.pg.administrator("pg_dump");
        let written = pg_dump.args(options).args(["-d", &case.database]).output().unwrap();
        assert!(written.status.success(), "{options:?}");
        let dump = write(&case, "others.sql", written.stdout);
        assert_eq!(staged(&case, &dump, &["--run-id", &format!("20300101t000000z-others-{round}")]), before, "{options:?}");
    }
    // Longer than what is taken apart of a statement, and all in one.
    let long = case.dump_with(&dump, &format!("COMMENT ON TABLE public.notes IS '{}';", "x".repeat(20_000_000)));
    case.tool().args(["stage", "--run-id", "20300101t000000z-long"]).arg(&long).run().ok().changed();
    assert_eq!(case.tool().args(["stage", "--jobs", "0"]).arg(&dump).run().status, 2);
}

#[test]
fn what_the_server_says_no_to_is_told_with_its_line() {
    let (case, dump) = Case::filled("pgl_lines");
    let text = fs::read_to_string(&dump).unwrap();
    let line_of = |text: &str, part: &str| text[..text.find(part).unwrap()].lines().count() as u64 + 1;
    let row = text.replace("\n77\titem 77\t", "\nx77\titem 77\t");
    let statement =
        text.replace("    ADD CONSTRAINT items_name_key UNIQUE (name);", "    ADD CONSTRAINT items_name_key UNIQUE (nobody);");
    let function = case.dump_with(&dump, "SELECT 1,\n    no_such_function();");
    let function = fs::read_to_string(function).unwrap();
    // Which row and column it is, and never what stands there.
    let ran = case.tool().arg("stage").arg(write(&case, "discreet", &row)).run().fails(1, "restore_failed").unchanged();
    let seen = format!("{}{}", ran.text(), ran.stderr);
    assert!(!seen.contains("x77") && causes(ran.doc()).contains("COPY items, line 77, column id"), "{ran}");
    for (name, text, part, word) in [
        ("row", &row, "x77\titem 77", "invalid input syntax"),
        ("statement", &statement, "ALTER TABLE ONLY public.items\n    ADD CONSTRAINT items_name_key", "nobody"),
        ("function", &function, "    no_such_function()", "no_such_function"),
    ] {
        let path = write(&case, name, text);
        let ran = case.tool().arg("stage").arg(path).run().fails(1, "restore_failed").unchanged();
        let message = ran.doc()["error"]["message"].as_str().unwrap();
        let line = format!("(line {} of the dump)", line_of(text, part));
        assert!(message.contains(&line) && message.contains(word), "{line} is not in {message}");
    }
    assert_eq!(case.copies(), "");
}

/// Statements that psql, or one version of it, reads otherwise than a careless reader: a command to psql stands in what looks like a
/// comment or a string. `RUN` is the command.
fn traps() -> Vec<(&'static str, String)> {
    let tag = "t".repeat(1100);
    let string = "SELECT 'a\\' || '\nRUN\n';";
    vec![
        ("a comment that a carriage return ends", "-- x\rRUN\nSELECT 1;".to_owned()),
        ("such a comment in a statement", "SELECT 1 -- x\rRUN\n;".to_owned()),
        ("strings set by a function", format!("SELECT set_config('standard_conforming_strings', 'off', false);\n{string}")),
        (
            "strings set by a function with a name that is made",
            format!("SELECT set_config('standard' || '_conforming_strings', 'off', false);\n{string}"),
        ),
        ("strings set for the session", format!("SET SESSION standard_conforming_strings TO off;\n{string}")),
        ("strings set by a block", format!("DO $$ BEGIN SET standard_conforming_strings = off; END $$;\n{string}")),
        (
            "strings set by a rule",
            format!("UPDATE pg_settings SET setting = 'off' WHERE name = 'standard_conforming_strings';\n{string}"),
        ),
        ("a string that continues", "SELECT E'a'\n'b\\' ,\nRUN\n ';".to_owned()),
        ("letters behind a number", "SELECT 1ae'x\\' || '\nRUN\n';".to_owned()),
        ("a dollar behind a number", "SELECT 1$a$ ' $a$\nRUN\n ';".to_owned()),
        ("a long tag", format!("SELECT ${tag}$ ' ${tag}$\nRUN\n ';")),
        ("a zero", "SELECT 1 \0'\nRUN\n';".to_owned()),
        ("a vertical tab, which is space to some servers", "\x0bCOPY notes FROM PROGRAM 'true';".to_owned()),
        // What a function of the dump does is not known before it runs.
        (
            "strings set by a function of the dump",
            format!(
                "CREATE FUNCTION public.sly() RETURNS text LANGUAGE sql AS $$ SELECT set_config('standard_conforming_strings', 'off', false) $$;\nSELECT public.sly();\n{string}"
            ),
        ),
    ]
}

#[test]
fn no_dump_runs_a_command_on_this_host() {
    let (case, dump) = Case::filled("pgl_sly");
    let marker = case.dir.path().join("marker");
    fs::set_permissions(case.dir.path(), std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    for (round, (what, trap)) in traps().into_iter().enumerate() {
        // The shell's own redirection: nothing else is started.
        let trap = trap.replace("RUN", &format!("\\! : > {}", marker.display()));
        let sly = case.dump_with(&dump, &trap);
        let tool = case.tool().args(["stage", "--run-id", &format!("20300101t000000z-{round}")]);
        let ran = tool.arg(&sly).run();
        assert!(!marker.exists(), "{what}: {ran}");
        let ran = match what {
            "a comment that a carriage return ends" => ran.fails(3, "dump_invalid"),
            // Only what runs tells.
            "strings set by a function of the dump" => ran.fails(1, "restore_failed"),
            _ => ran.fails(7, "dump_invalid"),
        };
        ran.unchanged();
        assert_eq!(case.copies(), "", "{what}");
    }
}

/// Restores the dump if it is one, and gives how that ended. Nothing of the dump may run on this host.
fn restored_and_not_run(case: &Case, dump: &Path, marker: &Path, what: &str) -> Ran {
    let ran = case.tool().arg("stage").arg(dump).run();
    assert!(!marker.exists(), "{what}: {ran}");
    if let Some(name) = ran.result()["staged"]["name"].as_str().filter(|_| ran.status == 0) {
        let text = of_copy(&case.pg, name, || postgres_dump(&case.pg, name)).unwrap();
        assert_eq!(text, case.text(), "{what}");
        case.pg.drop_database(name).unwrap();
    }
    assert_eq!(case.copies(), "", "{what}");
    ran
}

#[test]
fn a_hostile_server_runs_no_command_where_its_dump_is_restored() {
    let case = Case::new("pgl_hostile");
    let marker = case.dir.path().join("marker");
    fs::set_permissions(case.dir.path(), std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    let run = format!("\\! : > {}", marker.display());
    // Wherever a text of the server's owner comes into a dump, pg_dump quotes it, and it comes back as it is.
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
    case.dumper().args(["--as", "postgres", "--output", "quoted.sql"]).run().ok();
    restored_and_not_run(&case, &case.dir.path().join("quoted.sql"), &marker, "quoted").ok();
    // A view's definition is what the server says: here, one that ends the statement, and continues with a trap.
    case.sql("DROP VIEW v; CREATE VIEW v AS SELECT 1 AS a; ALTER FUNCTION pg_catalog.pg_get_viewdef(oid) RENAME TO true_viewdef");
    let mut dumps = 0;
    for (what, trap) in traps().into_iter().filter(|(_, trap)| !trap.contains('\0')) {
        let definition = literal(&format!("SELECT 1 AS a;\n{}", trap.replace("RUN", &run)));
        case.sql(&format!(
            "CREATE OR REPLACE FUNCTION pg_catalog.pg_get_viewdef(oid) RETURNS text LANGUAGE sql AS $sly_def$ SELECT {definition}::text $sly_def$"
        ));
        let ran = case.dumper().args(["--as", "postgres", "--force", "--output", "sly.sql"]).run();
        assert!(!marker.exists(), "{what}: {ran}");
        dumps += usize::from(ran.status == 0);
        // One that svc-pgdump does not publish is tried as pg_dump itself writes it.
        let dump = if ran.status == 0 { case.dir.path().join("sly.sql") } else { case.dump() };
        assert!(fs::read_to_string(&dump).unwrap().contains(marker.to_str().unwrap()) || !trap.contains("RUN"), "{what}");
        let ran = restored_and_not_run(&case, &dump, &marker, what);
        assert_ne!(ran.status, 0, "{what}: {ran}");
    }
    assert!(dumps > 0, "svc-pgdump published none of them");
}

#[test]
fn commands_to_psql_are_named_by_verify_too() {
    let (case, dump) = Case::filled("pgl_named");
    let sly = case.dump_with(&dump, "-- x\r\\! id\nSELECT 1;");
    let ran = case.dumper().arg("verify").arg(&sly).run().review("dump_invalid");
    assert_eq!(ran.result()["commands"][0], "\\! id");
    case.tool().arg("stage").arg(&sly).run().refused("dump_invalid");
}

#[test]
fn rows_that_the_server_did_not_take_are_noticed_by_its_own_count() {
    let (case, dump) = Case::filled("pgl_count");
    let swallows = "CREATE FUNCTION public.swallow() RETURNS trigger LANGUAGE plpgsql AS \
        'BEGIN IF NEW.item = 7 THEN RETURN NULL; END IF; RETURN NEW; END';\n\
        CREATE TRIGGER swallow BEFORE INSERT ON public.notes FOR EACH ROW EXECUTE FUNCTION public.swallow();";
    let fewer = before_the_rows(&case, &dump, swallows);
    let ran = case.tool().arg("stage").arg(&fewer).run().fails(7, "content_differs").unchanged();
    assert!(causes(ran.doc()).contains("200 rows in the dump") && causes(ran.doc()).contains("199 arrived"), "{ran}");
    assert_eq!(case.copies(), "");
}

#[test]
fn a_table_that_is_not_empty_keeps_what_it_has() {
    let (case, dump) = Case::filled("pgl_notfresh");
    let row = "CREATE FUNCTION public.fill() RETURNS void LANGUAGE sql AS 'INSERT INTO public.notes VALUES (1, ''own'')';\n\
        SELECT public.fill();";
    let more = before_the_rows(&case, &dump, row);
    let ran = case.tool().arg("stage").arg(&more).run().fails(7, "content_differs").unchanged();
    assert!(causes(ran.doc()).contains("200 rows in the dump, 201 in the database"), "{ran}");
}

#[test]
fn settings_of_the_dump_hold_on_every_connection() {
    let (case, dump) = Case::filled("pgl_settings");
    // Each index asks for the setting as often as there are rows, on whatever connection it is built.
    let setting = "SET svc.word = 'word';\n\
        CREATE FUNCTION public.word(text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$\n\
        BEGIN IF current_query() LIKE 'CREATE INDEX%' AND current_setting('svc.word', true) IS NULL THEN RAISE 'no word'; END IF;\n\
        RETURN $1; END $$;";
    let text = fs::read_to_string(before_the_rows(&case, &dump, setting)).unwrap();
    let indexes: String =
        (0..8).map(|n| format!("CREATE INDEX own_{n} ON public.items USING btree (public.word(name));\n")).collect();
    let at = text.find("--\n-- Name: notes_item; Type: INDEX").unwrap();
    let dump = write(&case, "settings.sql", format!("{}{indexes}\n{}", &text[..at], &text[at..]));
    case.tool().args(["stage", "--jobs", "4"]).arg(dump).run().ok().changed();
}

#[test]
fn names_that_psql_takes_for_the_start_of_a_body_are_no_trap() {
    // psql 15 takes everything behind this for one statement, and then cannot read the rows.
    let case = Case::new("pgl_begin");
    case.sql("CREATE FUNCTION public.begin() RETURNS int LANGUAGE sql AS 'SELECT 1'; CREATE TABLE t AS SELECT 1 AS a");
    let before = case.text();
    assert_eq!(staged(&case, &case.dump(), &[]), before);
}

#[test]
fn line_ends_of_another_system_are_no_obstacle_and_a_byte_order_mark_is_refused() {
    let (case, dump) = Case::filled("pgl_crlf");
    let text = fs::read_to_string(&dump).unwrap();
    let marked = write(&case, "marked.sql", format!("\u{feff}{text}"));
    let before = case.text();
    case.tool().arg("stage").arg(&marked).run().fails(7, "dump_invalid").unchanged();
    let crlf = write(&case, "crlf.sql", text.replace('\n', "\r\n"));
    let rows = |text: &str| text[text.find("\nCOPY public.items").unwrap()..text.rfind("\n\\.\n").unwrap()].to_owned();
    assert_eq!(rows(&staged(&case, &crlf, &["--run-id", "20300101t000000z-crlf"])), rows(&before));
}

/// A dump that builds two indexes in parallel which take an hour each: nobody waits for them.
fn slow_builds(case: &Case, dump: &Path) -> PathBuf {
    let function = "CREATE FUNCTION public.slow(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS \
        'BEGIN IF $1 = 3 THEN PERFORM pg_advisory_lock_shared(1); PERFORM pg_sleep(3600); END IF; RETURN $1; END';";
    let text = fs::read_to_string(before_the_rows(case, dump, function)).unwrap();
    let at = text.find("--\n-- Name: notes_item; Type: INDEX").unwrap();
    let indexes = "CREATE INDEX slow_1 ON public.items USING btree (public.slow(id));\n\
        CREATE INDEX slow_2 ON public.notes USING btree (public.slow(item));\n";
    write(case, "slow.sql", format!("{}{indexes}\n{}", &text[..at], &text[at..]))
}

/// Waits until so many sessions of the case's copy sleep.
fn wait_for_sleepers(case: &Case, count: usize) {
    let sleepers = format!("datname LIKE {} AND wait_event = 'PgSleep'", literal(&format!("{}_staged_%", case.database)));
    let all = format!("{sleepers} AND (SELECT count(*) FROM pg_stat_activity WHERE {sleepers}) = {count}");
    case.wait_for("the slow builds", &all);
}

#[test]
fn a_signal_ends_every_session_and_leaves_nothing() {
    let (case, dump) = Case::filled("pgl_term");
    let before = (case.text(), case.oid(&case.database));
    let slow = slow_builds(&case, &dump);
    let spawned = case.tool().args(["stage", "--jobs", "2"]).arg(slow).spawn();
    wait_for_sleepers(&case, 2);
    spawned.signal(Signal::SIGTERM);
    let ran = spawned.wait();
    assert_eq!((ran.status, &ran.doc()["error"]["code"]), (128 + 15, &Value::from("interrupted")), "{ran}");
    ran.unchanged();
    let left = format!("SELECT count(*) FROM pg_stat_activity WHERE datname LIKE {}", literal(&format!("{}_%", case.database)));
    assert_eq!(case.admin(&left), "0");
    assert_eq!((case.text(), case.oid(&case.database), case.copies().as_str()), (before.0, before.1, ""));
}

#[test]
fn one_that_fails_does_not_wait_for_the_others() {
    let (case, dump) = Case::filled("pgl_first");
    let slow = fs::read_to_string(slow_builds(&case, &dump)).unwrap();
    // The second one fails as soon as the first one is running.
    let fails = "CREATE FUNCTION public.fails(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS \
        'BEGIN WHILE NOT EXISTS (SELECT FROM pg_locks WHERE locktype = ''advisory'' AND database = \
        (SELECT oid FROM pg_database WHERE datname = current_database())) LOOP PERFORM pg_sleep(0.01); END LOOP; \
        RETURN 1 / 0; END';\n";
    let failing = slow.replacen("CREATE FUNCTION public.slow", &format!("{fails}CREATE FUNCTION public.slow"), 1);
    let failing = failing.replace("public.slow(item)", "public.fails(item)");
    let path = write(&case, "failing.sql", failing);
    let ran = case.tool().args(["stage", "--jobs", "2"]).arg(path).run().fails(1, "restore_failed").unchanged();
    assert!(ran.doc()["error"]["message"].as_str().unwrap().contains("division by zero"), "{ran}");
    assert_eq!(case.copies(), "");
}

#[test]
fn a_session_that_the_server_ends_is_a_lost_connection() {
    let (case, dump) = Case::filled("pgl_lost");
    let slow = slow_builds(&case, &dump);
    let spawned = case.tool().args(["stage", "--jobs", "2"]).arg(slow).spawn();
    wait_for_sleepers(&case, 2);
    case.admin(&format!(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname LIKE {} AND query LIKE '%slow_1%'",
        literal(&format!("{}_staged_%", case.database))
    ));
    let ran = spawned.wait().fails(5, "postgres_unreachable").unchanged();
    assert!(ran.doc()["error"]["message"].as_str().unwrap().contains("line "), "{ran}");
    assert_eq!(case.copies(), "");
}

#[test]
fn the_reserved_connections_are_left_alone() {
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
fn fewer_connections_than_wanted_are_enough() {
    let (case, dump) = Case::filled("pgl_few");
    let before = case.text();
    let admin = format!("{}_adm", case.database);
    case.admin(&format!(
        "CREATE ROLE {admin} LOGIN PASSWORD 'x' CREATEDB CONNECTION LIMIT 3 IN ROLE {}",
        identifier(&case.owner)
    ));
    case.admin(&format!("ALTER DATABASE {} OWNER TO {}", identifier(&case.database), identifier(&case.owner)));
    let password = case.dir.path().join("password");
    svc_tests::os::file(&password, "x\n", 0o600, None).unwrap();
    let owned = fs::read_to_string(&dump).unwrap();
    let dump = write(&case, "owned.sql", owned);
    let tool = case.tool().args(["stage", "--jobs", "8", "--host", "127.0.0.1", "--username", &admin]);
    let ran = tool.arg("--password-file").arg(&password).arg(&dump).run();
    let staged = case.copies();
    let text = of_copy(&case.pg, &staged, || postgres_dump(&case.pg, &staged));
    case.pg.drop_database(&staged).unwrap();
    case.admin(&format!("DROP ROLE {admin}"));
    ran.ok();
    assert_eq!(text.unwrap(), before);
}

#[test]
fn a_damaged_dump_is_refused_or_undone_or_holds_what_it_says() {
    let (case, dump) = Case::filled("pgl_damage");
    let whole = fs::read(&dump).unwrap();
    let before = (case.text(), case.oid(&case.database));
    let rounds = rounds("a dump with a flipped byte", 12, 300);
    let mut restored = 0;
    // Spread over the dump by a step that meets every place in the end.
    for round in 0..rounds {
        let at = (round * 7919 + 31) % whole.len();
        let mut damaged = whole.clone();
        damaged[at] ^= 1 << (round % 7);
        let path = write(&case, "damaged.sql", damaged);
        let ran = case.tool().args(["stage", "--run-id", &format!("20300101t000000z-flip-{round}")]).arg(&path).run();
        if ran.status == 0 {
            let name = ran.result()["staged"]["name"].as_str().unwrap();
            let staged = of_copy(&case.pg, name, || postgres_dump(&case.pg, name)).unwrap();
            case.pg.drop_database(name).unwrap();
            let said = by_psql(&case, &path).unwrap_or_else(|| panic!("flipped at {at}: psql refuses it\n{ran}"));
            assert!(staged == said, "flipped at {at}:\n{}", difference(&said, &staged));
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
fn a_server_that_ends_idle_sessions_does_not_end_those_that_wait_for_a_long_load() {
    let (case, dump) = Case::filled("pgl_idle");
    let slow = case.dump_with(&dump, "SELECT pg_catalog.pg_sleep(3);");
    case.tool().arg("stage").arg(&slow).env("PGOPTIONS", "-c idle_session_timeout=2s").run().ok();
}

#[test]
fn progress_says_what_is_running() {
    let (case, dump) = Case::filled("pgl_progress");
    let ran = case.tool().args(["stage", "--progress", "json"]).arg(&dump).talks().run().ok();
    let lines: Vec<Value> = ran.stderr.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let load = lines.iter().find(|line| line["progress"] == "load").unwrap_or_else(|| panic!("{ran}"));
    assert!(load["at"].as_str().unwrap().contains("rows/s") && load["unit"] == "bytes", "{load}");
}

#[test]
fn a_terminal_shows_bytes_rows_and_the_running_statement() {
    let (case, _) = Case::filled("pgl_terminal");
    case.sql("CREATE TABLE public.large AS SELECT n, md5(n::text) FROM generate_series(1, 50000) n; CREATE INDEX ON public.large (md5)");
    // A staging that is over before the bar is drawn shows nothing of itself.
    let slow = case.dump_with(&case.dump(), "SELECT pg_catalog.pg_sleep(2);");
    let typed = format!("stty cols 160; svc-pgrestore stage {} > {}", slow.display(), case.dir.path().join("out").display());
    let ran = on_terminal(&typed)
        .env("PGHOST", &case.pg.socket_dir)
        .env("PGPORT", case.pg.port.to_string())
        .env("SVC_STATE_DIR", case.dir.path().join("state"))
        .env("SVC_DATABASE", &case.database)
        .env("SVC_DB_USER", &case.owner)
        .output()
        .unwrap();
    let screen = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success(), "{screen}");
    let line = screen.split(['\r', '\n']).find(|line| line.contains("load: ") && line.contains("pg_sleep"));
    let line = line.unwrap_or_else(|| panic!("{screen}"));
    // So many of so many bytes, the statement, rows and bytes a second, the time that is left.
    assert!(line.contains("MiB/") && line.contains("rows/s") && line.contains("iB/s") && line.contains(" left"), "{line}");
    assert!(!line.contains(", 0 rows/s"), "{line}");
}

#[test]
#[ignore = "a database of 5,000 tables"]
fn thousands_of_tables_come_back() {
    let case = Case::new("pgl_many");
    // Some at a time, or the server runs out of room for locks.
    for part in 0..50 {
        case.sql(&format!(
            "DO $$ BEGIN FOR n IN {0} * 100 .. {0} * 100 + 99 LOOP EXECUTE format('CREATE TABLE t%s (id int PRIMARY KEY, t text); \
             INSERT INTO t%s SELECT n, n FROM generate_series(1, %s) n; CREATE INDEX ON t%s (t)', n, n, n % 7, n); END LOOP; END $$",
            part
        ));
    }
    let before = case.text();
    let dump = case.dump();
    let after = staged(&case, &dump, &[]);
    assert!(after == before, "{}", difference(&before, &after));
}
