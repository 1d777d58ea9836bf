//! Refusals and warnings of `svc-pgdump` and `svc-pgrestore` that no other test comes across.

use std::fs;

use svc_tests::pg_case::Case;
use svc_tests::postgres::{GERMAN, identifier};
use svc_tests::witness::Witness;

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
fn load_messages_and_unverified_rows_are_warnings() {
    let (case, dump) = Case::filled("pgf_warn");
    // What a function says may be of a row; what the server says is not. Nobody can account for a row more than the COPY blocks have.
    for (statement, more, code, word) in [
        (
            "DO $$ BEGIN RAISE WARNING 'look here'; END $$;",
            &[][..],
            "external_warning",
            "a function of the database raised 01000",
        ),
        ("COMMIT;", &[], "external_warning", "no transaction in progress"),
        ("INSERT INTO public.notes VALUES (1, 'COPY');", &["--dry-run"], "not_verified", ""),
    ] {
        let ran = case.tool().arg("stage").args(more).arg(case.dump_with(&dump, statement)).run().ok().warns(code);
        assert!(ran.doc()["warnings"].to_string().contains(word), "{ran}");
        case.copies().lines().for_each(|copy| case.pg.drop_database(copy).unwrap());
    }
}

#[test]
fn german_server_errors_are_classified_without_row_data() {
    let (case, dump) = Case::filled("pgf_german");
    let text = fs::read_to_string(&dump).unwrap();
    let with = |statement: &str| fs::read_to_string(case.dump_with(&dump, statement)).unwrap();
    let german = |text: &str| {
        let tool = case.tool().env("PGOPTIONS", format!("-c lc_messages={GERMAN}")).arg("stage");
        tool.arg(case.write("german.sql", text))
    };
    for (text, told) in [
        (with("SELECT 1 FROM public.no_such_table;"), "no_such_table\\\" existiert nicht"),
        (text.replace("\n77\titem 77\t", "\nhunter2\titem 77\t"), "COPY items, line 77, column id"),
        (text.replace("\titem 77\t", "\thunter2\t").replace("\titem 78\t", "\thunter2\t"), "items_name_key"),
        (with("DO $$ BEGIN RAISE 'hunter2' USING DETAIL = 'hunter2', HINT = 'hunter2'; END $$;"), "P0001"),
        (with("INSERT INTO public.notes VALUES (1, 'it''s') hunter2;"), "42601"),
    ] {
        let ran = german(&text).run().fails(1, "server_refused").error_has(&["could not be loaded"]).unchanged();
        assert!(!format!("{}{}", ran.text(), ran.stderr).contains("hunter2"), "{ran}");
        assert!(
            ran.doc()["error"].to_string().replace("\u{bb}", "\\\"").replace("\u{ab}", "\\\"").contains(told),
            "{told}: {ran}"
        );
    }
    let ran = german(&with("COMMIT; DO $$ BEGIN RAISE WARNING 'hunter2'; END $$;")).run().ok().warns("external_warning");
    assert!(ran.doc()["warnings"].to_string().contains("Transaktion") && !ran.text().contains("hunter2"), "{ran}");
    case.pg.drop_database(&case.copies()).unwrap();

    let spawned = german(&with("SELECT pg_catalog.pg_sleep(600);")).spawn();
    case.wait_for("the sleeping load", &case.sleeping_loads());
    case.end(&case.sleeping_loads());
    spawned.wait().fails(5, "postgres_unreachable").unchanged();
    assert_eq!(case.copies(), "");
}

#[test]
fn in_place_restore_with_unknown_locale_drops_nothing() {
    let (case, _) = Case::filled("pgf_dry");
    case.backup();
    let witness = Witness::of(&case);
    let text = fs::read_to_string(case.path("backup.sql.properties.json")).unwrap();
    case.write("backup.sql.properties.json", text.replace("\"C.UTF-8\"", "\"xx_NO.UTF-8\""));
    let ran = case.tool().arg("--in-place").arg(case.path("backup.sql")).run().fails(1, "server_refused").unchanged();
    assert!(ran.doc()["error"]["causes"].to_string().contains("locale"), "{ran}");
    witness.assert_unchanged("after a locale that the server does not have");
    assert_eq!(fs::read_dir(case.path("state/swaps")).unwrap().count(), 0);
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
            let ran = tool.arg(case.path("backup.sql")).run().refused("server_refused");
            assert!(ran.doc()["error"].to_string().contains(word), "{what}: {ran}");
            assert!(ran.doc()["error"]["hint"].as_str().unwrap().contains("properties.json"), "{what}: {ran}");
            witness.assert_unchanged(&format!("after {what}, {way:?}"));
        }
    }
    case.tool().args(["--in-place"]).arg(case.path("backup.sql")).run().ok().changed();
}
