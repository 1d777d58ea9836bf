//! Refusals and warnings of `svc-pgdump` and `svc-pgrestore` that no other test comes across.

use svc_tests::pg_case::prelude::*;

#[test]
fn stage_swap_or_discard_of_taken_or_renamed_database_is_refused() {
    let (case, dump) = Case::filled("pgf_names");
    let witness = Witness::of(&case);
    let run = "20300101t000000z-names";
    let staged = format!("{}_staged_{run}", case.database);
    let stage = || case.tool().args(["stage", "--run-id", run]).arg(&dump);
    case.pg.create_database(&staged, &case.owner).unwrap();
    let ran = stage().run().refused("name_in_use");
    // Nothing is recorded of that run, so `discard` does not know it.
    let hint = ran.hint().split(" drops it").next().unwrap();
    case.admin(hint);
    let ran = stage().run().ok().changed();
    let document = case.keep("staged.json", &ran);

    let step = |step: &str| case.from(&[step], &document);
    let mine = format!("{}_mine", case.database);
    case.admin(&format!("ALTER DATABASE {} RENAME TO {}", identifier(&staged), identifier(&mine)));
    for name in ["swap", "discard"] {
        step(name).refused("name_in_use").error_has(&[&mine]);
    }
    case.pg.drop_database(&mine).unwrap();
    witness.assert_unchanged("after names that others have taken");
}

#[test]
fn load_messages_and_unverified_rows_are_warnings() {
    let (case, dump) = Case::filled("pgf_warn");
    // What a function says may be of a row; what the server says is not. Nobody can account for a row more than the COPY blocks have.
    let raised = "a function of the database raised 01000";
    for (statement, more, code, word) in [
        ("DO $$ BEGIN RAISE WARNING 'look here'; END $$;", &[][..], "external_warning", raised),
        ("COMMIT;", &[], "external_warning", "no transaction in progress"),
        ("INSERT INTO public.notes VALUES (1, 'COPY');", &["--dry-run"], "not_verified", ""),
    ] {
        case.tool().arg("stage").args(more).arg(case.dump_with(&dump, statement)).run().ok().warns_of(code, word);
        case.copies().lines().for_each(|copy| case.pg.drop_database(copy).unwrap());
    }
}

#[test]
fn load_error_in_any_language_has_line_but_no_row_value() {
    let (case, dump) = Case::filled("pgf_german");
    let text = fs::read_to_string(&dump).unwrap();
    let with = |statement: &str| fs::read_to_string(case.dump_with(&dump, statement)).unwrap();
    let staging = |language: &str, text: &str| {
        case.tool().env("PGOPTIONS", format!("-c lc_messages={language}")).arg("stage").arg(case.write("told.sql", text))
    };
    let twice = text.replace("\titem 77\t", "\thunter2\t").replace("\titem 78\t", "\thunter2\t");
    let no_number = text.replace("\n77\titem 77\t", "\nhunter2\titem 77\t");
    let unique = "ALTER TABLE ONLY public.items\n    ADD CONSTRAINT items_name_key UNIQUE";
    // Where it begins in the dump is told by its line.
    for (text, begins, told) in [
        (with("SELECT 1,\n    no_such_function();"), "    no_such_function()", ["no_such_function", "existiert nicht"]),
        (text.replace("key UNIQUE (name)", "key UNIQUE (nobody)"), unique, ["nobody"; 2]),
        (no_number, "hunter2\titem 77", ["invalid input syntax", "COPY items, line 77, column id"]),
        (twice, unique, ["items_name_key"; 2]),
        (with("DO $$ BEGIN RAISE 'hunter2' USING DETAIL = 'hunter2', HINT = 'hunter2'; END $$;"), "DO $$ BEGIN", ["P0001"; 2]),
        (with("INSERT INTO public.notes VALUES (1, 'it''s') hunter2;"), "INSERT INTO public.notes", ["42601"; 2]),
    ] {
        let line = format!("(line {} of the dump)", text[..text.find(begins).unwrap()].lines().count() + 1);
        for (language, told) in ["C", GERMAN].into_iter().zip(told) {
            let ran = staging(language, &text).run().fails(1, "server_refused").unchanged().without(&["hunter2"]);
            ran.error_has(&["could not be loaded", told, &line]);
        }
    }
    assert_eq!(case.copies(), "");
    let ran = staging(GERMAN, &with("COMMIT; DO $$ BEGIN RAISE WARNING 'hunter2'; END $$;")).run().ok();
    ran.warns_of("external_warning", "Transaktion").without(&["hunter2"]);
}

#[test]
fn rejected_properties_are_found_before_load_or_drop() {
    let (case, _) = Case::filled("pgf_props");
    let database = &case.database;
    case.admin(&format!(
        "ALTER DATABASE {database} SET lc_monetary TO 'C.UTF-8'; ALTER DATABASE {database} SET log_statement TO 'ddl'"
    ));
    case.backup();
    let witness = Witness::of(&case);
    let text = fs::read_to_string(case.path("backup.sql.properties.json")).unwrap();
    let preload = text.replace("\"log_statement\"", "\"session_preload_libraries\"").replace("ddl", "missing");
    let maker = case.role("maker", &format!("CREATEDB IN ROLE {}", case.owner));
    for (what, properties, role, word) in [
        ("an unknown setting", text.replace("lc_monetary", "no_such_setting"), None, "ALTER DATABASE"),
        ("a locale", text.replace("\"C.UTF-8\"\n    }", "\"xx_NO.UTF-8\"\n    }"), None, "ALTER DATABASE"),
        ("a wrong value", text.replace("ddl", "everything"), None, "ALTER DATABASE"),
        // A library that is not there stops each new session, and nothing before.
        ("a missing library", preload, None, "58P01"),
        // An administrator who is no superuser may not set what is logged.
        ("a setting of superusers", text.clone(), Some(&maker), "superuser"),
    ] {
        case.write("backup.sql.properties.json", &properties);
        for way in [&["--in-place"][..], &["stage"], &[]] {
            let tool = case.tool().args(way);
            let tool = if let Some(role) = role { case.by(role, tool) } else { tool };
            tool.arg(case.path("backup.sql")).run().refused("server_refused").error_has(&[word, "properties.json"]);
            witness.assert_unchanged(&format!("after {what}, {way:?}"));
        }
    }
    // What only the creation of the database tells: an empty one is tried before the drop.
    let place = || case.tool().arg("--in-place").arg(case.path("backup.sql")).run();
    case.write("backup.sql.properties.json", text.replace("\"C.UTF-8\",", "\"xx_NO.UTF-8\","));
    place().fails(1, "server_refused").unchanged().error_has(&["locale"]);
    witness.assert_unchanged("after a locale that the server does not have");
    assert_eq!(fs::read_dir(case.path("state/swaps")).unwrap().count(), 0);
    case.write("backup.sql.properties.json", &text);
    place().ok().changed();
}

#[test]
fn standby_gives_dump_and_is_never_written_to() {
    let host = Host::shared().unwrap();
    let own = host.postgres_server().unwrap();
    let (case, dump) = Case::filled_on(own.server.clone(), "pgf_standby");
    let ran = case.tool().arg("stage").arg(&dump).run().ok();
    case.sql("CREATE UNLOGGED TABLE cache (n int)");
    host.systemd.stop(&own.unit).unwrap();
    os::file(&own.data_dir.join("standby.signal"), "", 0o600, Some(&os::system_user(ADMINISTRATOR).unwrap())).unwrap();
    host.systemd.start(&own.unit).unwrap();
    for step in [&["stage", dump.to_str().unwrap()][..], &["clone"], &["swap", "--run", ran.id()]] {
        case.tool().args(step).arg("--dry-run").run().refused("server_refused").error_has(&["primary"]);
    }
    case.dumper().args(["--as", "postgres"]).run().review("not_restored").warns_of("not_restored", "unlogged");
}

#[test]
fn database_with_name_not_in_utf8_is_tolerated() {
    let own = Host::shared().unwrap().postgres_server().unwrap();
    let (case, dump) = Case::filled_on(own.server.clone(), "pgf_latin");
    case.admin("CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0");
    let mut psql = own.administrator("psql");
    os::run(psql.env("PGCLIENTENCODING", "UTF8").args(["-d", "latin", "-c", "CREATE DATABASE \"gr\u{f6}\u{df}e\""])).unwrap();
    let restored = case.keep("restored.json", &case.tool().arg(&dump).run().ok());
    for step in ["swap", "discard"] {
        case.from(&[step], &restored).ok().changed();
    }
}
