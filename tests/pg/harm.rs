//! `svc-pgrestore` verifies before it harms anything: invalid dumps, servers that lack something, and databases that somebody
//! needs. Each time the live database answers as before, to a session that was there all the time.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::Stdio;

use svc_tests::disk::SmallDisk;
use svc_tests::host::Host;
use svc_tests::os;
use svc_tests::pg_case::{Case, SOON};
use svc_tests::postgres::{identifier, literal};
use svc_tests::random::{self, Random};
use svc_tests::wait;
use svc_tests::witness::Witness;

/// The numbers of this run, and how many rounds it has: `SVC_TEST_SEED=N` gives the same ones again.
fn random(what: &str, rounds: usize) -> (Random, usize) {
    (Random::of(random::seed()), svc_tests::rounds(what, rounds, 100))
}

#[test]
fn a_cut_dump_is_refused_before_anything_wherever_it_was_cut() {
    let (case, dump) = Case::filled("pgh_cut");
    let witness = Witness::of(&case);
    let whole = fs::read(&dump).unwrap();
    let text = String::from_utf8(whole.clone()).unwrap();
    let rows = text.find("COPY public.items").unwrap() + 200;
    let between = text.find("ALTER TABLE ONLY public.items\n    ADD CONSTRAINT").unwrap();
    let complete = text.find("-- PostgreSQL database dump complete").unwrap();
    let copied = text.find("\n\\.\n").unwrap() + 4;
    let line = rows + text[rows..].find('\n').unwrap() + 1;
    let mut cuts = vec![0, 60, rows, line, copied, between, complete, complete + 20, whole.len() - 12];
    let (mut random, rounds) = random("a cut dump", 8);
    cuts.extend((0..rounds).map(|_| random.below(whole.len() - 12)));
    let path = case.dir.path().join("cut.sql");
    for (round, cut) in (0..).zip(cuts) {
        fs::write(&path, &whole[..cut]).unwrap();
        let how = [&["stage"][..], &["--in-place"], &[]][round % 3];
        case.tool().args(how).arg(&path).run().fails(7, "dump_invalid").unchanged();
    }
    witness.assert_unchanged("after cut dumps");
}

#[test]
fn a_flipped_byte_is_refused_by_the_document_and_harms_nothing_without_it() {
    let (case, _) = Case::filled("pgh_flip");
    let document = case.backup();
    let dump = case.dir.path().join("backup.sql");
    let whole = fs::read(&dump).unwrap();
    let witness = Witness::of(&case);
    let (mut random, rounds) = random("a dump with a flipped bit", 4);
    for round in 0..rounds {
        let (at, bit) = (random.below(whole.len()), random.below(8));
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << bit;
        fs::write(&dump, bytes).unwrap();
        let when = format!("with the bit {bit} of byte {at} flipped");
        let how = if round % 2 == 0 { "--in-place" } else { "--drop-old" };
        let ran = case.tool().arg(how).arg("--from").arg(&document).run().unchanged();
        let code = ran.doc()["error"]["code"].as_str().unwrap();
        assert!(ran.status == 7 && code == "dump_invalid", "{when}\n{ran}");
        // Without its document nobody can tell every time; beside the live database it harms nobody.
        let run = format!("20300101t{round:06}z-flip");
        let ran = case.tool().args(["stage", "--run-id", &run]).arg(&dump).run();
        if ran.status == 0 {
            case.tool().args(["discard", "--run", &run]).run().ok();
        } else {
            assert_eq!(ran.doc()["changed"], false, "{when}\n{ran}");
        }
        witness.assert_unchanged(&when);
    }
}

#[test]
fn a_dump_whose_server_process_was_killed_is_refused_although_it_would_load() {
    let (case, _) = Case::filled("pgh_killed");
    case.sql("CREATE TABLE many AS SELECT n, repeat(md5(n::text), 8) AS t FROM generate_series(1, 100000) n");
    let witness = Witness::of(&case);
    let mut plain = case.pg.administrator("pg_dump");
    let mut child = plain.arg(&case.database).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut bytes = vec![0; 2_000_000];
    let mut out = child.stdout.take().unwrap();
    out.read_exact(&mut bytes).unwrap();
    let end = format!(
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = {} AND application_name = 'pg_dump'",
        literal(&case.database)
    );
    assert_eq!(case.admin(&end), "1");
    out.read_to_end(&mut bytes).unwrap();
    assert!(!child.wait().unwrap().success());
    assert!(bytes.ends_with(b"\n\\.\n") || bytes.ends_with(b"\n\\.\n\n\n"), "pg_dump has closed the block");
    let dump = case.dir.path().join("killed.sql");
    fs::write(&dump, bytes).unwrap();
    for how in [&["--in-place"][..], &[], &["stage"]] {
        case.tool().args(how).arg(&dump).run().fails(7, "dump_invalid").unchanged();
    }
    witness.assert_unchanged("after the dump of a killed server process");
}

#[test]
fn what_the_dump_needs_and_the_server_lacks_is_named_before_anything() {
    let (case, dump) = Case::filled("pgh_needs");
    let witness = Witness::of(&case);
    let role = case.dump_with(&dump, "GRANT SELECT ON TABLE public.items TO \"nobody else\";");
    let ran = case.tool().arg(role).run().refused("version_unsupported");
    assert!(ran.doc()["error"]["message"].as_str().unwrap().contains("nobody else"));
    let extension = case.dump_with(&dump, "CREATE EXTENSION IF NOT EXISTS no_such_thing WITH SCHEMA public;");
    case.tool().arg(extension).run().refused("version_unsupported");
    let newer =
        fs::read_to_string(&dump).unwrap().replacen("-- Dumped from database version 1", "-- Dumped from database version 9", 1);
    let path = case.dir.path().join("newer.sql");
    fs::write(&path, newer).unwrap();
    case.tool().arg(&path).run().refused("version_unsupported");
    let ordering = case.dump_with(&dump, "\n\\connect postgres");
    case.tool().arg(ordering).run().refused("dump_invalid");
    let ran = case.tool().args(["--owner", "nobody else"]).arg(&dump).run().refused("version_unsupported");
    assert!(ran.doc()["error"]["hint"].as_str().unwrap().contains("--owner"), "{ran}");
    let document = case.backup();
    let properties = case.dir.path().join("backup.sql.properties.json");
    fs::write(&properties, fs::read_to_string(&properties).unwrap().replace("\"pg_default\"", "\"of another host\"")).unwrap();
    let backup = case.dir.path().join("backup.sql");
    case.tool().arg("--in-place").arg(&backup).run().refused("version_unsupported");
    case.tool().arg("--from").arg(&document).run().fails(7, "dump_invalid").unchanged();
    fs::write(&properties, "{}").unwrap();
    case.tool().arg(&backup).run().fails(7, "dump_invalid").unchanged();
    witness.assert_unchanged("after all that was lacking");
}

#[test]
fn a_dump_changes_nothing_of_the_server_beside_its_own_database() {
    let (case, dump) = Case::filled("pgh_server");
    let witness = Witness::of(&case);
    let database = identifier(&case.database);
    for statement in [
        format!("DROP DATABASE IF EXISTS {database} WITH (FORCE);"),
        format!("COMMENT ON DATABASE {database} IS 'changed';"),
        format!("REVOKE CONNECT ON DATABASE {database} FROM PUBLIC;"),
        format!("ALTER ROLE {} NOLOGIN;", identifier(&case.owner)),
    ] {
        let sly = case.dump_with(&dump, &statement);
        case.tool().arg("stage").arg(sly).run().fails(7, "dump_invalid").unchanged();
        witness.assert_unchanged(&statement);
    }
    assert_eq!(case.sql("SELECT shobj_description(oid, 'pg_database') FROM pg_database WHERE datname = current_database()"), "");
}

#[test]
fn functions_of_the_databases_owner_are_never_called_by_the_administrator() {
    let (case, _) = Case::filled("pgh_path");
    let (database, owner) = (identifier(&case.database), identifier(&case.owner));
    case.backup();
    let sly = |arguments: &str| {
        format!("LANGUAGE plpgsql AS $$ BEGIN EXECUTE 'ALTER ROLE {owner} SUPERUSER'; RETURN pg_catalog.{arguments}; END $$")
    };
    case.sql(&format!(
        "CREATE SCHEMA sly AUTHORIZATION {owner}; GRANT USAGE ON SCHEMA sly TO PUBLIC; SET ROLE {owner}; \
         CREATE FUNCTION sly.current_setting(text) RETURNS text {}; CREATE FUNCTION sly.quote_ident(name) RETURNS text {}; \
         CREATE FUNCTION sly.pg_backend_pid() RETURNS int {}",
        sly("current_setting($1)"),
        sly("quote_ident($1)"),
        sly("pg_backend_pid()")
    ));
    case.admin(&format!("ALTER DATABASE {database} SET search_path = sly, pg_catalog"));
    case.backup();
    let (backup, run) = (case.dir.path().join("backup.sql"), ["--run-id", "20300101t000000z-sly"]);
    case.tool().arg("clone").run().ok();
    case.tool().arg("stage").args(run).arg(backup).run().ok();
    assert_eq!(case.admin(&format!("SELECT rolsuper FROM pg_roles WHERE rolname = {}", literal(&case.owner))), "f");
}

#[test]
fn what_would_be_lost_with_the_live_database_is_named_and_nothing_is_touched() {
    let (case, dump) = Case::filled("pgh_lost");
    let witness = Witness::of(&case);
    let name = format!("{} it's", case.database);
    let staged = case.tool().args(["stage", "--run-id", "20300101t000000z-before"]).arg(&dump).run().ok();
    let before = case.keep("before.json", &staged);
    let refused = |code: &str| {
        for how in [&[][..], &["--in-place"], &["--dry-run"]] {
            let ran = case.tool().args(how).arg(&dump).run().refused(code);
            assert!(ran.doc()["error"]["message"].as_str().unwrap().contains(&name), "{ran}");
        }
        case.tool().args(["swap", "--from"]).arg(&before).run().refused(code);
        // A copy beside it is in nobody's way.
        let ran = case.tool().args(["stage", "--run-id", "20300101t000000z-beside"]).arg(&dump).run().ok().changed().warns(code);
        assert!(ran.doc()["warnings"].to_string().contains(&name), "{ran}");
        case.tool().args(["discard", "--run", "20300101t000000z-beside"]).run().ok().changed();
    };
    case.sql(&format!("BEGIN; UPDATE items SET name = name; PREPARE TRANSACTION {}", literal(&name)));
    refused("not_swappable");
    case.sql(&format!("ROLLBACK PREPARED {}", literal(&name)));
    let subscription = identifier(&name);
    case.sql(&format!(
        "CREATE SUBSCRIPTION {subscription} CONNECTION 'dbname=x' PUBLICATION p WITH (connect = false, slot_name = NONE)"
    ));
    refused("not_swappable");
    case.sql(&format!("DROP SUBSCRIPTION {subscription}"));
    case.tool().args(["discard", "--from"]).arg(&before).run().ok().changed();
    witness.assert_unchanged("after prepared transactions and subscriptions");

    // A slot that a swap would leave with what is replaced, on a server whose log holds what a slot needs.
    let host = Host::shared().unwrap();
    let own = host.postgres_server().unwrap();
    own.sql("postgres", "ALTER SYSTEM SET wal_level = logical").unwrap();
    host.systemd.stop(&own.unit).unwrap();
    host.systemd.start(&own.unit).unwrap();
    own.create_role(&case.owner, "x").unwrap();
    own.create_database(&case.database, &case.owner).unwrap();
    own.sql(&case.database, "SELECT pg_create_logical_replication_slot('follower', 'test_decoding')").unwrap();
    let there = || case.tool().env("PGHOST", &own.socket_dir).env("PGPORT", own.port.to_string());
    there().args(["stage", "--run-id", "20300101t000000z-beside"]).arg(&dump).run().ok().changed().warns("not_swappable");
    there().args(["swap", "--run", "20300101t000000z-beside"]).run().refused("not_swappable");
    there().args(["discard", "--run", "20300101t000000z-beside"]).run().ok().changed();
    for how in [&[][..], &["--in-place"]] {
        let ran = there().args(how).arg(&dump).run().refused("not_swappable");
        assert!(ran.doc()["error"]["hint"].as_str().unwrap().contains("pg_drop_replication_slot('follower')"), "{ran}");
    }
    own.sql(&case.database, "SELECT pg_drop_replication_slot('follower')").unwrap();
    there().arg(&dump).run().ok().changed();
}

#[test]
fn a_load_that_fails_or_lacks_something_leaves_nothing_behind() {
    let (case, dump) = Case::filled("pgh_midway");
    let witness = Witness::of(&case);
    let bad = case.dump_with(&dump, "SELECT 1/0;");
    let ran = case.tool().arg(&bad).run().fails(1, "restore_failed").unchanged();
    let message = ran.doc()["error"]["message"].as_str().unwrap();
    assert!(message.contains("division by zero") && message.contains("line "), "{message}");
    let fewer = case.dump_with(&dump, "DELETE FROM public.notes WHERE item = 7;");
    let ran = case.tool().arg("stage").arg(fewer).run().fails(7, "content_differs").unchanged();
    assert!(ran.doc()["error"]["causes"][0].as_str().unwrap().contains("notes: 200 rows in the dump, 199"), "{ran}");
    for (statement, code) in [
        ("DROP TABLE public.notes;", "content_differs"),
        ("DROP INDEX public.notes_item;", "content_differs"),
        ("SELECT pg_catalog.lo_creat(-1);", "content_differs"),
        (
            "UPDATE pg_catalog.pg_index SET indisvalid = false WHERE indexrelid = 'public.notes_item'::pg_catalog.regclass;",
            "content_differs",
        ),
    ] {
        let other = case.dump_with(&dump, statement);
        case.tool().arg(other).run().fails(7, code).unchanged();
    }
    // A security label is in the dump, and wants its provider in the server.
    let labels = "pg_catalog.pg_seclabel (objoid, classoid, objsubid, provider, label)";
    case.sql(&format!("INSERT INTO {labels} VALUES ('items'::regclass, 'pg_class'::regclass, 0, 'nobody', 'confidential')"));
    let ran = case.tool().arg("stage").arg(case.dump()).run().fails(1, "restore_failed").unchanged();
    assert!(
        ran.doc()["error"]["message"].as_str().unwrap().contains("security label provider \"nobody\" is not loaded"),
        "{ran}"
    );
    witness.assert_unchanged("after loads that failed");
}

#[test]
fn somebody_without_rights_is_refused_clearly() {
    let (case, dump) = Case::filled("pgh_nobody");
    let witness = Witness::of(&case);
    fs::set_permissions(case.dir.path(), std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    let nobody = || case.tool().env("SVC_STATE_DIR", case.dir.path().join("nobodys")).as_user("daemon");
    let ran = nobody().env("SVC_PG_ADMIN", "postgres").arg(&dump).run().refused("permission_denied");
    assert!(ran.doc()["error"]["hint"].as_str().unwrap().contains("sudo"), "{ran}");
    nobody().arg(&dump).run().refused("password_missing");
    // The service's own user may connect, and may not create databases.
    let pgpass = case.dir.path().join("pgpass");
    case.pg.pgpass(&pgpass, &case.owner, "secret").unwrap();
    let as_role =
        |role: &str| case.tool().env("PGPASSFILE", &pgpass).args(["--host", "127.0.0.1", "--username", role]).arg(&dump);
    as_role(&case.owner).run().refused("permission_denied");
    // Somebody who may create databases, but none for this owner.
    let maker = format!("{}_maker", case.database);
    case.admin(&format!("CREATE ROLE {maker} CREATEDB LOGIN PASSWORD 'secret'"));
    let mut lines = fs::read_to_string(&pgpass).unwrap();
    lines.push_str(&lines.replace(&case.owner, &maker));
    fs::write(&pgpass, lines).unwrap();
    let ran = as_role(&maker).run();
    case.admin(&format!("DROP ROLE {maker}"));
    ran.refused("permission_denied");
    case.tool().env("SVC_DATABASE", "postgres").arg(&dump).run().fails(2, "options_invalid");
    witness.assert_unchanged("after all who may not");
}

#[test]
fn a_disk_without_space_is_told_before_and_a_full_one_is_undone() {
    // While the disk of a tablespace is full, no checkpoint of the whole server succeeds, on which others wait.
    let own = Host::shared().unwrap().postgres_server().unwrap();
    let (case, _) = Case::filled_on(own.clone(), "pgh_room");
    case.sql("CREATE TABLE many AS SELECT n, repeat(md5(n::text), 8) AS t FROM generate_series(1, 100000) n");
    let folder = case.dir.path().join("disk");
    // The server must get there too.
    fs::set_permissions(case.dir.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let user = os::system_user(&case.pg.os_user).unwrap();
    os::folder(&folder, 0o700, Some(&user)).unwrap();
    // Room for an empty database and a half of this one.
    let disk = SmallDisk::at(&folder, 24).unwrap();
    let space = identifier(&format!("{} space", case.database));
    case.admin(&format!("CREATE TABLESPACE {space} LOCATION {}", literal(&folder.display().to_string())));
    let witness = Witness::of(&case);
    let document = case.backup();
    let properties = case.dir.path().join("backup.sql.properties.json");
    let text = fs::read_to_string(&properties).unwrap();
    fs::write(&properties, text.replace("\"pg_default\"", &space)).unwrap();
    let dump = case.dir.path().join("backup.sql");
    let ran = case.tool().arg(&dump).run();
    let in_place = case.tool().arg("--in-place").arg(&dump).run();
    let full = case.tool().arg("--ignore-disk-space").arg(&dump).run();
    // No space even for an empty one.
    let _ = fs::write(folder.join("filler"), vec![b'x'; 24_000_000]);
    let hopeless = case.tool().args(["--in-place", "--ignore-disk-space"]).arg(&dump).run();
    fs::remove_file(folder.join("filler")).unwrap();
    let copies = case.copies();
    if !copies.is_empty() {
        case.pg.drop_database(&copies).unwrap();
    }
    // What was dropped is gone from the disk at the next checkpoint.
    wait::until("the end of the tablespace", SOON, || {
        case.pg.sql("postgres", "CHECKPOINT").ok()?;
        case.pg.sql("postgres", &format!("DROP TABLESPACE {space}")).ok()
    })
    .unwrap();
    drop(disk);
    in_place.refused("out_of_space");
    let ran = ran.refused("out_of_space");
    assert!(ran.doc()["error"]["message"].as_str().unwrap().contains(&folder.display().to_string()), "{ran}");
    let ran = full.unchanged();
    assert!(ran.status == 1 && ran.text().contains("No space left on device"), "{ran}");
    hopeless.fails(1, "out_of_space").unchanged();
    assert_eq!(copies, "");
    witness.assert_unchanged("after a full disk");
    assert!(Path::new(&document).exists());
}
