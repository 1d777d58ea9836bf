//! Refusals and warnings of `svc-pgdump` and `svc-pgrestore` that no other test comes across.

use std::fs;

use svc_tests::disk::SmallDisk;
use svc_tests::os;
use svc_tests::pg_case::Case;
use svc_tests::postgres::{GERMAN, identifier};
use svc_tests::witness::Witness;

fn script(case: &Case, name: &str, text: &str) -> std::path::PathBuf {
    let path = case.dir.path().join(name);
    os::file(&path, text, 0o755, None).unwrap();
    path
}

#[test]
fn settings_of_a_dump_that_are_wrong_are_named() {
    let (case, _) = Case::filled("pgf_dump");
    let dump = || case.dumper().env("PGPASSWORD", "secret").arg("--force");
    for (name, value) in [("PGPORT", "x"), ("PGCONNECT_TIMEOUT", "soon"), ("PGHOSTADDR", "somewhere")] {
        let tool = if name == "PGHOSTADDR" { dump().env("PGHOST", "db.test") } else { dump() };
        tool.env(name, value).run().fails(2, "settings_invalid").unchanged();
    }
    dump().args(["--host", "a,b"]).run().fails(2, "settings_invalid").unchanged();
    dump().args(["--as", "postgres", "--host", "127.0.0.1"]).run().fails(2, "settings_invalid").unchanged();
    dump().arg("--output").arg(case.dir.path().join("..")).run().fails(2, "options_invalid").unchanged();
    dump().arg("--output").arg(case.dir.path()).run().fails(2, "options_invalid");
    let empty = case.dir.path().join("empty");
    os::file(&empty, "\n", 0o600, None).unwrap();
    dump().arg("--password-file").arg(&empty).run().fails(2, "settings_invalid").unchanged();
    let places = || case.dumper().arg("--force");
    places().env("PGPASSFILE", "/nowhere").run().refused("password_missing").warns("settings_invalid");
    fs::write(&empty, b"*:*:*:*:\xe4\n").unwrap();
    places().env("PGPASSFILE", &empty).run().refused("password_missing");

    let talks =
        script(&case, "talks", "#!/bin/sh\n[ $1 = --version ] || echo 'pg_dump: warning: look here' >&2\nexec pg_dump \"$@\"\n");
    let ran = dump().arg("--pg-dump").arg(talks).run().ok().warns("external_warning");
    assert!(ran.doc()["warnings"].to_string().contains("look here"), "{ran}");
    assert_eq!(dump().run().ok().doc()["warnings"], serde_json::json!([]));
    let other = script(&case, "other", "#!/bin/sh\necho hello\n");
    dump().arg("--pg-dump").arg(other).run().fails(1, "postgres_refused").unchanged();

    case.admin(&format!("ALTER DATABASE {} CONNECTION LIMIT 0", identifier(&case.database)));
    dump().run().fails(5, "postgres_busy").unchanged();
    case.admin(&format!("ALTER DATABASE {} CONNECTION LIMIT -1", identifier(&case.database)));

    // Rows that are deleted still take disk space, and none in a dump.
    case.sql(&format!(
        "SET ROLE {}; CREATE TABLE gone WITH (autovacuum_enabled = off) AS SELECT repeat(md5(n::text), 30) FROM generate_series(1, 12000) n; ANALYZE gone; DELETE FROM gone",
        identifier(&case.owner)
    ));
    let disk = case.dir.path().join("disk");
    fs::create_dir(&disk).unwrap();
    let small = SmallDisk::at(&disk, 3).unwrap();
    let ran = dump().arg("--output").arg(disk.join("dump.sql")).run();
    drop(small);
    ran.ok().warns("out_of_space");
}

#[test]
fn names_that_are_taken_or_were_changed_by_others_are_told() {
    let (case, dump) = Case::filled("pgf_names");
    let witness = Witness::of(&case);
    let run = "20300101t000000z-names";
    let staged = format!("{}_staged_{run}", case.database);
    let kept = format!("{}_before_{run}", case.database);
    let stage = || case.tool().args(["stage", "--run-id", run]).arg(&dump);
    case.pg.create_database(&staged, &case.owner).unwrap();
    let ran = stage().run().refused("name_in_use");
    // Nothing is recorded of that run, so `discard` does not know it.
    let hint = ran.doc()["error"]["hint"].as_str().unwrap().split(" drops it").next().unwrap();
    case.admin(hint);
    let ran = stage().run().ok().changed();
    let document = case.keep("staged.json", &ran);

    let step = |step: &str| case.tool().args([step, "--from"]).arg(&document).run();
    case.pg.create_database(&kept, &case.owner).unwrap();
    step("swap").refused("name_in_use");
    case.pg.drop_database(&kept).unwrap();
    let mine = format!("{}_mine", case.database);
    case.admin(&format!("ALTER DATABASE {} RENAME TO {}", identifier(&staged), identifier(&mine)));
    for name in ["swap", "discard"] {
        let ran = step(name).refused("name_in_use");
        assert!(ran.doc()["error"]["message"].as_str().unwrap().contains(&mine), "{ran}");
    }
    case.pg.drop_database(&mine).unwrap();
    witness.assert_unchanged("after names that others have taken");
}

#[test]
fn what_a_load_has_to_say_and_what_it_does_not_know_are_warnings() {
    let (case, dump) = Case::filled("pgf_warn");
    let loud = case.dump_with(&dump, "DO $$ BEGIN RAISE WARNING 'look here'; END $$;");
    let ran = case.tool().args(["stage", "--run-id", "20300101t000000z-loud"]).arg(loud).run().ok().warns("external_warning");
    // What a function says may be of a row; what the server says is not.
    assert!(ran.doc()["warnings"].to_string().contains("a function of the database raised 01000"), "{ran}");
    case.pg.drop_database(&case.copies()).unwrap();
    let loud = case.dump_with(&dump, "COMMIT;");
    let ran = case.tool().args(["stage", "--run-id", "20300101t000000z-loud2"]).arg(loud).run().ok().warns("external_warning");
    assert!(ran.doc()["warnings"].to_string().contains("no transaction in progress"), "{ran}");
    let inserts = case.dump_with(&dump, "INSERT INTO public.notes VALUES (1, 'COPY');");
    // A row more than the COPY blocks have is one that nobody can account for.
    case.tool().args(["stage", "--dry-run"]).arg(inserts).run().ok().warns("not_verified");
    case.pg.drop_database(&case.copies()).unwrap();
    case.pg.drop_database(&case.database).unwrap();
    case.tool().arg(&dump).run().ok().warns("not_restored");
}

#[test]
fn a_server_that_speaks_another_language_is_understood_and_tells_nothing_of_rows() {
    let (case, dump) = Case::filled("pgf_german");
    let text = fs::read_to_string(&dump).unwrap();
    let path = case.dir.path().join("german.sql");
    let of_row = text.replace("\n77\titem 77\t", "\nhunter2\titem 77\t");
    let of_key = text.replace("\titem 77\t", "\thunter2\t").replace("\titem 78\t", "\thunter2\t");
    let with = |statement: &str| fs::read_to_string(case.dump_with(&dump, statement)).unwrap();
    let raised = with("DO $$ BEGIN RAISE 'hunter2' USING DETAIL = 'hunter2', HINT = 'hunter2'; END $$;");
    let syntax = with("INSERT INTO public.notes VALUES (1, 'it''s') hunter2;");
    let german = || case.tool().env("PGOPTIONS", format!("-c lc_messages={GERMAN}")).arg("stage");
    let missing = case.dump_with(&dump, "SELECT 1 FROM public.no_such_table;");
    let ran = german().arg(missing).run().fails(1, "restore_failed").unchanged();
    assert!(ran.text().contains("no_such_table") && ran.text().contains("existiert nicht"), "it does not speak German: {ran}");
    for (text, place) in
        [(&of_row, "COPY items, line 77, column id"), (&of_key, "items_name_key"), (&raised, "P0001"), (&syntax, "42601")]
    {
        fs::write(&path, text).unwrap();
        let ran = german().arg(&path).run().fails(1, "restore_failed").unchanged();
        assert!(!format!("{}{}", ran.text(), ran.stderr).contains("hunter2"), "{ran}");
        assert!(ran.doc()["error"]["causes"].to_string().contains(place), "{ran}");
    }
    fs::write(&path, with("COMMIT; DO $$ BEGIN RAISE WARNING 'hunter2'; END $$;")).unwrap();
    let run = "20300101t000000z-german";
    let ran = german().args(["--run-id", run]).arg(&path).run().ok().warns("external_warning");
    assert!(ran.doc()["warnings"].to_string().contains("Transaktion") && !ran.text().contains("hunter2"), "{ran}");
    case.pg.drop_database(&case.copies()).unwrap();

    fs::write(&path, with("SELECT pg_catalog.pg_sleep(600);")).unwrap();
    let spawned = german().arg(&path).spawn();
    let sleeps = format!("datname LIKE '{}_staged_%' AND wait_event = 'PgSleep'", case.database);
    case.wait_for("the sleeping load", &sleeps);
    case.admin(&format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {sleeps}"));
    spawned.wait().fails(5, "postgres_unreachable").unchanged();
    assert_eq!(case.copies(), "");
}

#[test]
fn a_dump_by_an_owner_whose_server_speaks_another_language_is_refused_or_waits_as_in_english() {
    let (case, _) = Case::filled("pgf_owner");
    case.admin(&format!("ALTER ROLE {} SET lc_messages = '{GERMAN}'", identifier(&case.owner)));
    let dump = || case.dumper().env("PGPASSWORD", "secret").args(["--force", "--lock-wait-timeout", "1s"]);
    let mut holder = case.session(&case.database, "BEGIN; LOCK TABLE items; SELECT pg_sleep(600)");
    case.wait_for("the lock", "query LIKE 'BEGIN; LOCK TABLE items%' AND wait_event = 'PgSleep'");
    let ran = dump().run().fails(5, "postgres_busy").unchanged();
    assert!(ran.text().contains("FEHLER"), "it does not speak German: {ran}");
    case.admin(&format!(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{}' AND query LIKE 'BEGIN; LOCK%'",
        case.database
    ));
    holder.wait().unwrap();
    case.sql("CREATE TABLE foreign_to_it (secret text)");
    dump().run().refused("permission_denied");
    case.sql("DROP TABLE foreign_to_it");
    dump().run().ok();
}

#[test]
fn in_place_drops_nothing_that_the_server_cannot_create_again() {
    let (case, _) = Case::filled("pgf_dry");
    case.backup();
    let witness = Witness::of(&case);
    let properties = case.dir.path().join("backup.sql.properties.json");
    let text = fs::read_to_string(&properties).unwrap();
    fs::write(&properties, text.replace("\"C.UTF-8\"", "\"xx_NO.UTF-8\"")).unwrap();
    let place = || case.tool().arg("--in-place").arg(case.dir.path().join("backup.sql"));
    let ran = place().run().fails(1, "postgres_refused").unchanged();
    assert!(ran.doc()["error"]["causes"].to_string().contains("locale"), "{ran}");
    witness.assert_unchanged("after a locale that the server does not have");
    assert_eq!(fs::read_dir(case.dir.path().join("state/swaps")).unwrap().count(), 0);
    fs::write(&properties, text).unwrap();
    place().run().ok().changed();
}

#[test]
fn properties_that_the_server_rejects_are_named_before_anything_is_loaded_or_dropped() {
    let (case, _) = Case::filled("pgf_props");
    let database = identifier(&case.database);
    case.admin(&format!(
        "ALTER DATABASE {database} SET lc_monetary TO 'C.UTF-8'; ALTER DATABASE {database} SET log_statement TO 'ddl'"
    ));
    case.backup();
    let witness = Witness::of(&case);
    let backup = case.dir.path().join("backup.sql");
    let properties = case.dir.path().join("backup.sql.properties.json");
    let text = fs::read_to_string(&properties).unwrap();
    let ways = [&["--in-place"][..], &["stage"], &[]];
    for (from, to) in
        [("lc_monetary", "no_such_setting"), ("\"C.UTF-8\"\n    }", "\"xx_NO.UTF-8\"\n    }"), ("ddl", "everything")]
    {
        let changed = text.replace(from, to);
        assert_ne!(changed, text, "{from}");
        fs::write(&properties, changed).unwrap();
        for way in ways {
            let ran = case.tool().args(way).arg(&backup).run().refused("postgres_refused");
            let (error, hint) = (&ran.doc()["error"], ran.doc()["error"]["hint"].to_string());
            assert!(error["message"].as_str().unwrap().contains("ALTER DATABASE"), "{ran}");
            assert!(hint.contains("properties.json"), "{ran}");
            witness.assert_unchanged(&format!("after {to}, {way:?}"));
        }
    }
    // A library that is not there stops each new session, and nothing before.
    fs::write(&properties, text.replace("\"log_statement\"", "\"session_preload_libraries\"").replace("ddl", "missing")).unwrap();
    for way in ways {
        let ran = case.tool().args(way).arg(&backup).run().refused("postgres_refused");
        let error = &ran.doc()["error"];
        assert!(error["hint"].as_str().unwrap().contains("properties.json"), "{ran}");
        assert!(error["causes"].to_string().contains("58P01"), "{ran}");
        witness.assert_unchanged(&format!("after session_preload_libraries, {way:?}"));
    }
    fs::write(&properties, &text).unwrap();
    // An administrator who is no superuser may not set what is logged.
    let maker = format!("{}_maker", case.database);
    case.admin(&format!("CREATE ROLE {maker} CREATEDB LOGIN PASSWORD 'secret' IN ROLE {}", identifier(&case.owner)));
    case.admin(&format!("GRANT EXECUTE ON FUNCTION pg_control_system() TO {maker}"));
    let password = case.dir.path().join("password");
    os::file(&password, "secret\n", 0o600, None).unwrap();
    for way in ways {
        let tool = case.tool().args(way).args(["--host", "127.0.0.1", "--username", &maker, "--password-file"]);
        let ran = tool.arg(&password).arg(&backup).run().refused("postgres_refused");
        assert!(ran.doc()["error"]["hint"].as_str().unwrap().contains("superuser"), "{ran}");
        witness.assert_unchanged(&format!("after log_statement, {way:?}"));
    }
    case.admin(&format!("REVOKE ALL ON FUNCTION pg_control_system() FROM {maker}; DROP ROLE {maker}"));
    case.tool().args(["--in-place"]).arg(&backup).run().ok().changed();
}
