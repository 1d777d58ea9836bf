//! `svc-pgrestore clone`: a clone of the database, and the swap to it.

use std::fs;
use std::process::Child;

use nix::sys::signal::Signal;
use serde_json::Value;
use svc_tests::os;
use svc_tests::pg_case::Case;
use svc_tests::postgres::{identifier, literal};
use svc_tests::tool::{Ran, Tool};

fn tool(case: &Case) -> Tool {
    case.tool().arg("clone")
}

fn name(ran: &Ran) -> String {
    ran.result()["clone"]["name"].as_str().unwrap().to_owned()
}

#[test]
fn what_was_cloned_is_swapped_in_and_back_and_removed() {
    let (case, _) = Case::filled("pga_swap");
    let database = identifier(&case.database);
    case.admin(&format!("ALTER DATABASE {database} SET work_mem = '7MB'; COMMENT ON DATABASE {database} IS 'it''s ours'"));
    case.admin(&format!("REVOKE CONNECT ON DATABASE {database} FROM PUBLIC; ALTER DATABASE {database} CONNECTION LIMIT 17"));
    let about = |database: &str| {
        case.admin(&format!(
            "SELECT pg_get_userbyid(datdba), (SELECT array_agg(a::text ORDER BY a::text) FROM unnest(datacl) a), datconnlimit, encoding, datcollate, shobj_description(d.oid, 'pg_database'), \
             (SELECT array_agg(setconfig) FROM pg_db_role_setting WHERE setdatabase = d.oid) FROM pg_database d WHERE datname = {}",
            literal(database)
        ))
    };
    let before = (case.text(), case.oid(&case.database), about(&case.database));
    let dry = tool(&case).arg("--dry-run").run().ok().unchanged();
    assert!(dry.result()["plan"][0].to_string().contains("TEMPLATE"), "{dry}");
    assert_eq!(case.copies(), "");
    let clone = tool(&case).run().ok().changed();
    let document = case.keep("clone.json", &clone);
    let copy = name(&clone);
    assert_eq!((case.copies(), &clone.result()["verified"]), (copy.clone(), &Value::from(true)));
    assert_eq!((case.text(), case.oid(&case.database), about(&case.database)), before, "the live database is as it was");
    assert_eq!(about(&copy), before.2);
    // The same run again is done already.
    let run = clone.result()["run"].as_str().unwrap().to_owned();
    tool(&case).args(["--run-id", &run]).run().ok().unchanged();
    // What comes later is not in it.
    case.sql("DELETE FROM public.notes; CREATE TABLE public.later (a int)");
    let unused = || case.tool().args(["swap", "--unused", "--dry-run", "--from"]).arg(&document).run();
    unused().ok().unchanged();
    let swapped = case.tool().args(["swap", "--from"]).arg(&document).run().ok().changed();
    unused().refused("not_swappable").unchanged();
    assert_eq!((case.text(), about(&case.database)), (before.0.clone(), before.2.clone()));
    let kept = swapped.result()["previous"]["name"].as_str().unwrap().to_owned();
    assert_eq!(case.copies(), kept);
    // And back, and forth again, by the document of the swap.
    let first = case.keep("swapped.json", &swapped);
    let back = case.tool().args(["swap", "--from"]).arg(first).run().ok().changed();
    assert!(case.text().contains("CREATE TABLE public.later") && case.oid(&case.database) == before.1);
    // Clients have written to it while it was live.
    unused().refused("not_swappable").unchanged();
    // What a record said that a power cut has emptied is unknown.
    let record = case.dir.path().join(format!("state/swaps/{run}.svc-pgrestore.json"));
    let text = fs::read_to_string(&record).unwrap();
    for half in ["", &text[..text.len() / 2]] {
        fs::write(&record, half).unwrap();
        let by_run = |step: &str| case.tool().args([step, "--run", &run]).run();
        for ran in [unused(), by_run("swap"), by_run("discard")] {
            let ran = ran.fails(7, "file_invalid").unchanged();
            assert!(ran.doc()["error"]["hint"].as_str().unwrap().contains(record.to_str().unwrap()), "{ran}");
        }
    }
    let again = case.keep("back.json", &back);
    // One that cannot be understood is not written over, even if the document is there: it may be all that leads back.
    let other = text.replace("\"incoming\"", "\"coming\"");
    assert_ne!(other, text);
    fs::write(&record, &other).unwrap();
    case.tool().args(["swap", "--from"]).arg(&again).run().fails(2, "from_damaged").unchanged();
    assert_eq!(fs::read_to_string(&record).unwrap(), other);
    fs::write(&record, text).unwrap();
    case.tool().args(["swap", "--from"]).arg(&again).run().ok().changed();
    assert_eq!(case.text(), before.0);
    case.tool().args(["discard", "--run", &run]).run().ok().changed();
    assert_eq!((case.copies(), case.text()), (String::new(), before.0));
    assert!(!std::fs::read_dir(case.dir.path().join("state/swaps")).unwrap().any(|_| true), "its notes are gone too");
}

#[test]
fn the_connections_own_settings_win_over_libpqs_and_lead_the_administrator_to_the_same_server() {
    let (case, _) = Case::filled("pga_own");
    let elsewhere = |tool: Tool| {
        let own = tool.env("PGHOST", "db.invalid").env("PGHOSTADDR", "192.0.2.1").env("PGPORT", "1");
        own.env("SVC_DB_HOST", &case.pg.socket_dir).env("SVC_DB_PORT", case.pg.port.to_string())
    };
    let dump = || elsewhere(case.dumper()).arg("--pg-dump").arg(case.pg.bin_dir.join("pg_dump")).arg("--force");
    dump().env("SVC_DB_AS", "postgres").run().ok().changed();
    // The file's word is the password, unless somebody is to be asked.
    let file = case.dir.path().join("password");
    os::file(&file, "wrong\n", 0o600, None).unwrap();
    dump().env("SVC_DB_PASSWORD_FILE", &file).run().refused("access_denied").unchanged();
    let copy = elsewhere(tool(&case)).run().ok().changed();
    let run = copy.result()["run"].as_str().unwrap().to_owned();
    elsewhere(case.tool()).args(["discard", "--run", &run]).run().ok().changed();
    // An OS user's way is the socket: another host is an error, not another server.
    let remote = dump().env("SVC_DB_AS", "postgres").env("SVC_DB_HOST", "127.0.0.1").run();
    remote.fails(2, "settings_invalid").unchanged();
    let wrong = dump().env("SVC_DB_PORT", "x").run();
    assert!(wrong.status == 2 && wrong.stderr.contains("SVC_DB_PORT in the environment"), "{wrong}");
}

#[test]
fn a_copy_is_swapped_in_and_dropped_by_its_run_when_its_document_was_lost() {
    let (case, _) = Case::filled("pga_run");
    let before = case.text();
    let run = "20300101t000000z-clone";
    let copy = name(&tool(&case).args(["--run-id", run]).run().ok());
    case.sql("DROP TABLE public.notes");
    case.tool().args(["swap", "--run", run]).run().ok().changed();
    assert_eq!(case.text(), before);
    let ran = tool(&case).args(["--run-id", run]).run().refused("name_in_use");
    ran.unchanged();
    case.tool().args(["swap", "--run", run, "--back"]).run().ok().changed();
    assert_eq!(case.copies(), copy);
    case.tool().args(["discard", "--run", run]).run().ok().changed();
    assert_eq!(case.copies(), "");
    case.tool().args(["discard", "--run", run]).run().fails(4, "swap_not_found");
}

/// Another session in the database, which is idle.
fn guest(case: &Case) -> Child {
    let child = case.session(&case.database, "SELECT pg_sleep(600)");
    case.wait_for("the guest", &format!("datname = {} AND wait_event = 'PgSleep'", literal(&case.database)));
    child
}

/// The server ends it: the death of its psql alone does not wake a session that sleeps.
fn goes(case: &Case, mut guest: Child) {
    let asleep = format!("datname = {} AND wait_event = 'PgSleep'", literal(&case.database));
    case.admin(&format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {asleep}"));
    guest.wait().unwrap();
}

#[test]
fn sessions_in_the_way_are_named_and_left_alone() {
    let (case, _) = Case::filled("pga_busy");
    let mut guest = guest(&case);
    let ran = tool(&case).run().fails(5, "postgres_busy").unchanged();
    assert!(ran.doc()["error"]["causes"].to_string().contains("of postgres (psql), active"), "{ran}");
    assert!(guest.try_wait().unwrap().is_none(), "nobody was thrown out");
    goes(&case, guest);
    assert_eq!(case.copies(), "");
    case.tool().args(["swap", "--run", ran.doc()["run_id"].as_str().unwrap()]).run().fails(4, "swap_not_found");
}

#[test]
fn killed_or_stopped_in_the_middle_nothing_stays() {
    let (case, _) = Case::filled("pga_kill");
    let before = (case.text(), case.oid(&case.database));
    // The copy waits for the guest, for some seconds.
    let waits = format!("query LIKE 'CREATE DATABASE%' AND query LIKE {}", literal(&format!("%{}%", case.database)));
    for signal in [Signal::SIGTERM, Signal::SIGKILL] {
        let guest = guest(&case);
        let spawned = tool(&case).args(["--run-id", &format!("20300101t000000z-{}", signal as i32)]).spawn();
        case.wait_for("the copy", &waits);
        spawned.signal(signal);
        let ran = spawned.wait();
        assert_eq!(ran.status, 128 + signal as i32, "{ran}");
        if signal == Signal::SIGTERM {
            ran.unchanged();
        }
        goes(&case, guest);
    }
    // The server continues with what the killed one has sent.
    let sql = format!("SELECT count(*) FROM pg_stat_activity WHERE {waits} AND pid <> pg_backend_pid()");
    svc_tests::wait::until("the server's end of it", svc_tests::pg_case::SOON, || (case.admin(&sql) == "0").then_some(()))
        .unwrap();
    let left = case.copies();
    let ran = tool(&case).run().ok().changed();
    if !left.is_empty() {
        assert!(ran.doc()["warnings"].to_string().contains("run_recovered"), "{ran}");
    }
    assert_eq!(case.copies(), name(&ran));
    assert_eq!((case.text(), case.oid(&case.database)), before);
}

#[test]
fn an_unfinished_copy_is_never_swapped_in_and_the_next_call_removes_it() {
    let (case, _) = Case::filled("pga_half");
    let run = "20300101t000000z-half";
    let copy = name(&tool(&case).args(["--run-id", run]).run().ok());
    // As a call leaves it that was killed before its verification.
    let note = case.dir.path().join(format!("state/swaps/{run}.svc-pgrestore.json"));
    let text = std::fs::read_to_string(&note).unwrap();
    assert!(text.contains("\"verified\":true"));
    std::fs::write(&note, text.replace("\"verified\":true", "\"verified\":false")).unwrap();
    case.tool().args(["swap", "--run", run]).run().refused("not_verified").unchanged();
    let ran = tool(&case).run().ok().changed().warns("run_recovered");
    assert!(case.copies() == name(&ran) && name(&ran) != copy, "{ran}");
}

#[test]
fn the_servers_own_databases_and_a_missing_one_are_refused() {
    let case = Case::new("pga_none");
    tool(&case).args(["--dbname", "template1"]).run().fails(2, "options_invalid");
    tool(&case).args(["--dbname", "not_there_at_all"]).run().fails(4, "database_not_found");
    tool(&case).args(["--dbname", "host=x password=y"]).run().fails(2, "options_invalid");
}
