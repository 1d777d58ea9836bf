//! `svc-pgrestore` verifies before it harms anything: invalid dumps, servers that lack something, and databases that somebody
//! needs. Each time the live database answers as before, to a session that was there all the time.

use svc_tests::pg_case::prelude::*;

#[test]
fn truncated_dump_is_refused_before_any_change() {
    let (case, dump) = Case::filled("pgh_cut");
    let witness = Witness::of(&case);
    let text = fs::read_to_string(&dump).unwrap();
    let at = |part: &str| text.find(part).unwrap();
    let (rows, complete) = (at("COPY public.items") + 200, at("-- PostgreSQL database dump complete"));
    let line = rows + text[rows..].find('\n').unwrap() + 1;
    let between = at("ALTER TABLE ONLY public.items\n    ADD CONSTRAINT");
    let mut cuts = vec![0, 60, rows, line, at("\n\\.\n") + 4, between, complete, complete + 20, text.len() - 12];
    let mut random = Random::with_seed(random::seed());
    cuts.extend((0..rounds("a cut dump", 3, 100)).map(|_| random.usize(..text.len() - 12)));
    for (round, cut) in (0..).zip(cuts) {
        let how = [&["stage"][..], &["--in-place"], &[]][round % 3];
        let path = case.write("cut.sql", &text.as_bytes()[..cut]);
        case.tool().args(how).arg(path).run().fails(7, "dump_invalid").unchanged();
    }
    witness.assert_unchanged("after cut dumps");
}

#[test]
fn dump_with_unmet_needs_or_server_statements_is_refused() {
    let (case, dump) = Case::filled("pgh_needs");
    let witness = Witness::of(&case);
    let text = fs::read_to_string(&dump).unwrap();
    let newer = text.replacen("-- Dumped from database version 1", "-- Dumped from database version 9", 1);
    let with = |statement: &str| fs::read_to_string(case.dump_with(&dump, statement)).unwrap();
    let (lacks, live) = ((3, "version_unsupported"), &case.database);
    for (text, more, (status, code), word) in [
        (with("GRANT SELECT ON TABLE public.items TO \"nobody else\";"), &[][..], lacks, "nobody else"),
        (with("CREATE EXTENSION IF NOT EXISTS no_such_thing;"), &[], lacks, "no_such_thing"),
        (with("SET default_tablespace = \"no such place\";"), &[], lacks, "no such place"),
        (newer, &[], lacks, "version 9"),
        (text, &["--owner", "nobody else"], lacks, "--owner"),
        (with("\n\\connect postgres"), &[], (3, "dump_invalid"), "connect"),
        // What is not of its own database. (`check/tokens.rs` has all of it.)
        (with(&format!("DROP DATABASE IF EXISTS {live} WITH (FORCE);")), &[], (7, "dump_invalid"), "of the server"),
    ] {
        case.tool().args(more).arg(case.write("needs.sql", text)).run().fails(status, code).unchanged().error_has(&[word]);
        witness.assert_unchanged(word);
    }
    case.backup();
    let properties = fs::read_to_string(case.path("backup.sql.properties.json")).unwrap();
    let place = || case.tool().arg("--in-place").arg(case.path("backup.sql")).run();
    case.write("backup.sql.properties.json", properties.replace("\"pg_default\"", "\"of another host\""));
    place().refused("version_unsupported");
    case.write("backup.sql.properties.json", "{}");
    place().fails(7, "dump_invalid").unchanged();
    witness.assert_unchanged("after all that was lacking");
}

#[test]
fn functions_of_owner_are_never_run_as_administrator() {
    let (case, _) = Case::filled("pgh_path");
    let (database, owner) = (&case.database, &case.owner);
    case.sql(&format!("CREATE SCHEMA sly AUTHORIZATION {owner}; GRANT USAGE ON SCHEMA sly TO PUBLIC"));
    for (function, returns, call) in [
        ("current_setting(text)", "text", "current_setting($1)"),
        ("quote_ident(name)", "text", "quote_ident($1)"),
        ("pg_backend_pid()", "int", "pg_backend_pid()"),
    ] {
        let body = format!("BEGIN EXECUTE 'ALTER ROLE {owner} SUPERUSER'; RETURN pg_catalog.{call}; END");
        case.sql(&format!("SET ROLE {owner}; CREATE FUNCTION sly.{function} RETURNS {returns} LANGUAGE plpgsql AS $$ {body} $$"));
    }
    case.admin(&format!("ALTER DATABASE {database} SET search_path = sly, pg_catalog"));
    case.backup();
    case.tool().arg("clone").run().ok();
    case.tool().args(["stage", "--run-id", "20300101t000000z-sly"]).arg(case.path("backup.sql")).run().ok();
    assert_eq!(case.admin(&format!("SELECT rolsuper FROM pg_roles WHERE rolname = '{owner}'")), "f");
}

#[test]
fn database_with_slot_or_subscription_is_not_replaced() {
    let host = Host::shared().unwrap();
    let own = host.postgres_server().unwrap();
    // Its log holds what a slot needs.
    own.sql("postgres", "ALTER SYSTEM SET wal_level = logical").unwrap();
    host.systemd.control(&["restart", &own.unit]).unwrap();
    let (case, dump) = Case::filled_on(own.server.clone(), "pgh_lost");
    let witness = Witness::of(&case);
    let (before, beside) = ("20300101t000000z-before", "20300101t000000z-beside");
    let stage = |run: &str| case.tool().args(["stage", "--run-id", run]).arg(&dump).run().ok().changed();
    let by_run = |step: &str, run: &str| case.by_run(&[step], run);
    stage(before);
    let name = "it's in the way";
    let (text, subscription) = (literal(name), identifier(name));
    let prepare = format!("BEGIN; UPDATE items SET name = name; PREPARE TRANSACTION {text}");
    let subscribe = "CONNECTION 'dbname=x' PUBLICATION p WITH (connect = false, slot_name = NONE)";
    let slot = "SELECT pg_create_logical_replication_slot('follower', 'test_decoding')";
    let drop_slot = "pg_drop_replication_slot('follower')";
    for (made, gone, word) in [
        (&*prepare, &*format!("ROLLBACK PREPARED {text}"), name),
        (&format!("CREATE SUBSCRIPTION {subscription} {subscribe}"), &format!("DROP SUBSCRIPTION {subscription}"), name),
        (slot, &format!("SELECT {drop_slot}"), drop_slot),
    ] {
        case.sql(made);
        for how in [&[][..], &["--in-place"], &["--dry-run"]] {
            case.tool().args(how).arg(&dump).run().refused("not_swappable").error_has(&[word]);
        }
        by_run("swap", before).refused("not_swappable");
        if made.contains("PREPARE") {
            case.tool().arg("clone").run().fails(5, "server_busy").unchanged().error_has(&[name]);
        }
        // A copy beside it is in nobody's way.
        stage(beside).warns("not_swappable");
        by_run("discard", beside).ok().changed();
        case.sql(gone);
    }
    by_run("discard", before).ok().changed();
    witness.assert_unchanged("after all that would have been lost");
    case.tool().arg(&dump).run().ok().changed();
}

#[test]
fn failed_or_differing_load_leaves_nothing_behind() {
    let (case, dump) = Case::filled("pgh_midway");
    let witness = Witness::of(&case);
    let (differs, rows) = ((7, "content_differs"), "\n\nCOPY public.items");
    let swallows = "CREATE FUNCTION public.swallow() RETURNS trigger LANGUAGE plpgsql AS \
        'BEGIN IF NEW.item = 7 THEN RETURN NULL; END IF; RETURN NEW; END';\n\
        CREATE TRIGGER swallow BEFORE INSERT ON public.notes FOR EACH ROW EXECUTE FUNCTION public.swallow();";
    let fills = "CREATE FUNCTION public.fill() RETURNS void LANGUAGE sql AS 'INSERT INTO public.notes VALUES (1, ''own'')';\n\
        SELECT public.fill();";
    let invalid =
        "UPDATE pg_catalog.pg_index SET indisvalid = false WHERE indexrelid = 'public.notes_item'::pg_catalog.regclass;";
    let mut cases: Vec<_> = [
        ("SELECT 1/0;", (1, "server_refused"), "division by zero"),
        ("DELETE FROM public.notes WHERE item = 7;", differs, "notes: 200 rows in the dump, 199"),
        ("DROP TABLE public.notes;", differs, "notes"),
        ("DROP INDEX public.notes_item;", differs, "notes_item"),
        ("SELECT pg_catalog.lo_creat(-1);", differs, "large object"),
        (invalid, differs, "notes_item"),
        ("CREATE EXTENSION IF NOT EXISTS pg_trgm VERSION '0.1';", (1, "server_refused"), "extension pg_trgm"),
    ]
    .map(|(statement, code, word)| (fs::read(case.dump_with(&dump, statement)).unwrap(), code, word))
    .into();
    // The server's own count tells of rows that it did not take, or that were there.
    for (statement, word) in [(swallows, "199 arrived"), (fills, "200 rows in the dump, 201 in the database")] {
        cases.push((fs::read(case.dump_before(&dump, rows, statement)).unwrap(), differs, word));
    }
    // A security label is in the dump, and wants its provider in the server.
    let labels = "pg_catalog.pg_seclabel (objoid, classoid, objsubid, provider, label)";
    let label = format!("INSERT INTO {labels} VALUES ('items'::regclass, 'pg_class'::regclass, 0, 'nobody', 'confidential')");
    case.sql(&label);
    cases.push((fs::read(case.dump()).unwrap(), (1, "server_refused"), "provider \\\"nobody\\\" is not loaded"));
    // A client that is newer than the server may write what only another server understands.
    let newer = fs::read_to_string(&dump).unwrap().replacen("by pg_dump version 15", "by pg_dump version 18", 1);
    let newer = case.dump_with(&case.write("newer.sql", newer), "CREATE TABLE heir (NOT NULL item) INHERITS (public.notes);");
    cases.push((fs::read(newer).unwrap(), (1, "server_refused"), "dump with one of version"));
    for (text, (status, code), word) in cases {
        let path = case.write("midway.sql", text);
        // The whole restore stops if the staging does.
        let both = if word == "notes" { &[&["stage"][..], &[]][..] } else { &[&["stage"][..]] };
        for step in both {
            case.tool().args(step.iter().copied()).arg(&path).run().fails(status, code).unchanged().error_has(&[word]);
            witness.assert_unchanged(word);
        }
    }
}

#[test]
fn function_without_search_path_is_named_with_its_remedy() {
    let (case, _) = Case::filled("pgh_path");
    case.sql("CREATE FUNCTION sums() RETURNS bigint LANGUAGE sql AS 'SELECT count(*) FROM items'; CREATE MATERIALIZED VIEW seen AS SELECT sums()");
    case.sql(
        "CREATE FUNCTION kinds(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN (SELECT count(*) FROM items); END'",
    );
    let refused = |function: &str| {
        // Of a client that is newer than the server too.
        let dump = fs::read_to_string(case.dump()).unwrap().replacen("by pg_dump version 15", "by pg_dump version 18", 1);
        let ran = case.tool().arg("stage").arg(case.write("newer.sql", dump)).run().fails(1, "server_refused").unchanged();
        ran.error_has(&[&format!("ALTER FUNCTION {function} SET search_path"), &format!("in the function {function}")]);
        case.sql(&format!("ALTER FUNCTION {function} SET search_path = public, pg_temp"));
    };
    refused("sums");
    case.sql("CREATE INDEX by_kinds ON notes (kinds(item))");
    refused("public.kinds");
    case.tool().arg("stage").arg(case.dump()).run().ok().changed();
}

#[test]
fn restore_without_database_or_sudo_rights_is_refused() {
    let (case, dump) = Case::filled("pgh_nobody");
    let witness = Witness::of(&case);
    os::chmod(case.dir.path(), 0o777);
    let nobody = || case.tool().env("SVC_STATE_DIR", case.path("nobodys")).as_user("daemon");
    nobody().env("SVC_PG_ADMIN", "postgres").arg(&dump).run().refused("permission_denied").error_has(&["sudo"]);
    nobody().arg(&dump).run().refused("access_denied").error_has(&["requires a password"]);
    // Somebody who may create databases, but none for this owner; and the service's own user, who may connect.
    for role in [&case.role("maker", "CREATEDB"), &case.owner] {
        case.by(role, case.tool()).arg(&dump).run().refused("permission_denied");
    }
    case.tool().env("SVC_DATABASE", "postgres").arg(&dump).run().fails(2, "options_invalid");
    witness.assert_unchanged("after all who may not");
}

/// Its backup goes into a tablespace on a disk of 24 MB, which has that name. While such a disk is full, no checkpoint of the whole
/// server succeeds, on which others wait: the server is one of the test's own.
fn backup_for_small_disk(case: &Case) -> (SmallDisk, String) {
    let folder = case.path("disk");
    // The server must get there too.
    os::chmod(case.dir.path(), 0o755);
    os::folder(&folder, 0o700, Some(&os::system_user(ADMINISTRATOR).unwrap())).unwrap();
    let disk = SmallDisk::at(&folder, 24).unwrap();
    let space = identifier(&format!("{} space", case.database));
    case.admin(&format!("CREATE TABLESPACE {space} LOCATION {}", literal(&folder.display().to_string())));
    case.backup();
    let text = fs::read_to_string(case.path("backup.sql.properties.json")).unwrap();
    case.write("backup.sql.properties.json", text.replace("\"pg_default\"", &space));
    (disk, space)
}

#[test]
fn copy_left_by_killed_call_counts_as_free_space() {
    let own = Host::shared().unwrap().postgres_server().unwrap();
    let (case, _) = Case::filled_on(own.clone(), "pgh_left");
    // A load that sleeps where a setting says so.
    case.sql(
        "CREATE TABLE many AS SELECT n, repeat(md5(n::text), 8) AS t FROM generate_series(1, 25000) n; \
         CREATE FUNCTION sleeps(int) RETURNS bool LANGUAGE sql AS \
         $$ SELECT pg_sleep(coalesce(current_setting('test.sleep', true), '0')::float8) IS NOT NULL $$; \
         CREATE TABLE slow (n int CHECK (sleeps(n))); INSERT INTO slow VALUES (1)",
    );
    let _disk = backup_for_small_disk(&case);
    let run = "20300101t000000z-left";
    let call = |step: &[&str]| case.tool().args(step).args(["--run-id", run]).arg(case.path("backup.sql"));
    let spawned = call(&["stage"]).env("PGOPTIONS", "-c test.sleep=600").spawn();
    case.wait_for("the sleeping load", &case.sleeping_loads());
    spawned.ended_by(Signal::SIGKILL);
    call(&["stage", "--dry-run"]).run().ok();
    call(&["stage"]).run().ok().warns("run_recovered");
    // Of that one, only the names are exchanged.
    call(&[]).run().ok().changed();
    for step in [&["swap", "--back"][..], &["discard"]] {
        case.by_run(step, run).ok();
    }
}

#[test]
fn restore_without_disk_space_is_refused_or_undone() {
    let own = Host::shared().unwrap().postgres_server().unwrap();
    let (case, _) = Case::filled_on(own.clone(), "pgh_room");
    // On that disk there is disk space for an empty database and a half of this one.
    case.sql("CREATE TABLE many AS SELECT n, repeat(md5(n::text), 8) AS t FROM generate_series(1, 100000) n");
    let witness = Witness::of(&case);
    let (disk, space) = backup_for_small_disk(&case);
    let folder = case.path("disk");
    let restore = |options: &[&str]| case.tool().args(options).arg(case.path("backup.sql")).run();
    let (ran, in_place, full) = (restore(&[]), restore(&["--in-place"]), restore(&["--ignore-disk-space"]));
    // No space even for an empty one.
    let _ = fs::write(folder.join("filler"), vec![b'x'; 24_000_000]);
    let hopeless = restore(&["--in-place", "--ignore-disk-space"]);
    fs::remove_file(folder.join("filler")).unwrap();
    let copies = case.copies();
    if !copies.is_empty() {
        case.pg.drop_database(&copies).unwrap();
    }
    // What was dropped is gone from the disk at the next checkpoint.
    wait::so("the end of the tablespace", || {
        case.pg.sql("postgres", "CHECKPOINT").ok()?;
        case.pg.sql("postgres", &format!("DROP TABLESPACE {space}")).ok()
    });
    drop(disk);
    in_place.refused("out_of_space");
    ran.refused("out_of_space").error_has(&[&folder.display().to_string()]);
    let ran = full.unchanged();
    assert!(ran.status == 1 && ran.text().contains("No space left on device"), "{ran}");
    hopeless.fails(1, "out_of_space").unchanged();
    assert_eq!(copies, "");
    witness.assert_unchanged("after a full disk");
}
