//! `svc-pgrestore clone`: a clone of the database, and the swap to it.

use svc_tests::pg_case::prelude::*;

fn clone(case: &Case) -> Tool {
    case.tool().arg("clone")
}

fn name(ran: &Ran) -> &str {
    ran.result()["clone"]["name"].as_str().unwrap()
}

#[test]
fn swap_in_swap_back_and_discard_of_clone() {
    let (case, _) = Case::filled("pga_swap");
    let live = case.database.as_str();
    case.admin(&format!("ALTER DATABASE {live} SET work_mem = '7MB'; COMMENT ON DATABASE {live} IS 'it''s ours'"));
    case.admin(&format!("REVOKE CONNECT ON DATABASE {live} FROM PUBLIC; ALTER DATABASE {live} CONNECTION LIMIT 17"));
    case.admin(&format!("ALTER DATABASE {live} SET app.key = 'hush'"));
    // The operating system has another version of the collation than the database was created with.
    case.admin(&format!("UPDATE pg_database SET datcollversion = '0' WHERE datname = '{live}'"));
    let (text, oid, about) = (case.text(), case.oid(live), case.properties(live));
    let dry = clone(&case).arg("--dry-run").run().ok().unchanged().without(&["hush"]);
    assert!(dry.result()["plan"][0].to_string().contains("TEMPLATE") && case.copies().is_empty(), "{dry}");
    let ran = clone(&case).run().ok().changed();
    let run = ran.id();
    assert_eq!((case.copies().as_str(), &ran.result()["verified"]), (name(&ran), &json!(true)));
    assert_eq!((case.text(), case.oid(live), case.properties(live)), (text.clone(), oid.clone(), about.clone()));
    assert_eq!(case.properties(name(&ran)), about);
    // The same run again is done already.
    clone(&case).args(["--run-id", run]).run().ok().unchanged();
    // What comes later is not in it.
    case.sql("DELETE FROM public.notes; CREATE TABLE public.later (a int)");
    let unused = || case.by_run(&["swap", "--unused", "--dry-run"], run);
    unused().ok().unchanged();
    let swapped = case.by_run(&["swap"], run).ok().changed();
    assert_eq!((case.text(), case.properties(live)), (text, about));
    assert_eq!(case.copies(), swapped.result()["previous"]["name"].as_str().unwrap());
    clone(&case).args(["--run-id", run]).run().refused("name_in_use");
    case.by_run(&["swap", "--back"], run).ok().changed();
    assert!(case.text().contains("CREATE TABLE public.later") && case.oid(live) == oid);
    // Clients have written to it while it was live.
    unused().refused("not_swappable");
    case.by_run(&["discard", "--dry-run"], run).ok().unchanged();
    case.by_run(&["discard"], run).ok().changed();
    assert!(case.copies().is_empty() && fs::read_dir(case.path("state/swaps")).unwrap().next().is_none());
    case.by_run(&["discard"], run).fails(4, "swap_not_found");
}

#[test]
fn damaged_or_unknown_record_is_refused() {
    let (case, _) = Case::filled("pga_record");
    let ran = clone(&case).run().ok();
    let (run, document) = (ran.id(), case.keep("clone.json", &ran));
    let record = case.path(&format!("state/swaps/{run}.svc-pgrestore.json"));
    let text = fs::read_to_string(&record).unwrap();
    for half in ["", &text[..text.len() / 2]] {
        fs::write(&record, half).unwrap();
        for step in [&["swap", "--unused", "--dry-run"][..], &["swap"], &["discard"]] {
            case.by_run(step, run).fails(7, "file_invalid").unchanged().error_has(&[record.to_str().unwrap()]);
        }
    }
    // Even if the document is there: it may be all that leads back.
    let other = text.replace("\"database\"", "\"base\"");
    assert_ne!(other, text);
    fs::write(&record, &other).unwrap();
    case.from(&["swap"], &document).fails(2, "from_invalid").unchanged().error_has(&["shape"]);
    assert_eq!(fs::read_to_string(&record).unwrap(), other);
    // As a call leaves it that was killed before its verification: never swapped in, and removed by the next call.
    assert!(text.contains("\"verified\":true"));
    fs::write(&record, text.replace("\"verified\":true", "\"verified\":false")).unwrap();
    case.by_run(&["swap"], run).refused("not_verified");
    let next = clone(&case).run().ok().changed().warns("run_recovered");
    assert!(case.copies() == name(&next) && name(&next) != name(&ran), "{next}");
}

#[test]
fn busy_database_is_not_cloned_and_keeps_its_sessions() {
    let (case, _) = Case::filled("pga_busy");
    let mut guest = case.hold(&case.database, "SELECT 1");
    let ran = clone(&case).run().fails(5, "server_busy").unchanged().error_has(&["of postgres (psql), active"]);
    case.by_run(&["swap"], ran.id()).fails(4, "swap_not_found");
    // It waits for the guest, for some seconds.
    let spawned = clone(&case).spawn();
    case.wait_for("the clone", &format!("query LIKE 'CREATE DATABASE%{}%'", case.database));
    let ran = spawned.ended_by(Signal::SIGTERM).fails(128 + 15, "interrupted").unchanged();
    assert!(guest.is_open() && case.copies().is_empty(), "{ran}");
}
