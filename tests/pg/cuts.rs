//! PostgreSQL that is stopped in the middle, connections that are cut, and programs that are killed: the live database is the old or
//! the new one, the document says how to continue, and the next call leaves nothing else.

use std::fs;
use std::path::PathBuf;
use std::process::Child;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use svc_tests::host::{Host, OwnPostgres};

use svc_tests::pg_case::{Case, SOON};
use svc_tests::postgres::literal;
use svc_tests::proxy::{Mode, Proxy};
use svc_tests::random::{self, Random};
use svc_tests::tool::{Ran, Spawned};
use svc_tests::witness::Witness;
use svc_tests::{os, wait};

/// Stops a server at once, as a crash does, and starts it again when the tool has ended.
fn crash(host: &Host, own: &OwnPostgres, spawned: Spawned) -> Ran {
    let mut stop = os::command_as(&own.os_user, own.server_dir.join("pg_ctl"));
    os::run(stop.args(["stop", "--mode=immediate", "--no-wait", "-D"]).arg(&own.data_dir)).unwrap();
    let ran = spawned.wait();
    assert!(wait::gone(SOON, || !host.systemd.is_active(&own.unit)), "the server did not stop");
    host.systemd.start(&own.unit).unwrap();
    ran
}

fn hint(ran: &Ran) -> &str {
    ran.doc()["error"]["hint"].as_str().unwrap()
}

/// A dump that has written rows and waits for the large objects, which the second session holds.
fn earlier_dump(case: &Case, out: &str) -> (Spawned, Child) {
    case.sql("CREATE TABLE many AS SELECT n, repeat(md5(n::text), 8) AS t FROM generate_series(1, 20000) n; SELECT lo_from_bytea(0, 'x')");
    let held = format!("LOCK TABLE pg_catalog.pg_largeobject; SELECT pg_sleep(600) /* {} is held */", case.database);
    let holder = case.session(&case.database, &format!("BEGIN; {held}"));
    case.wait_for(
        "the lock",
        &format!("query LIKE {} AND wait_event = 'PgSleep'", literal(&format!("%{}%held%", case.database))),
    );
    let spawned = case.dumper().args(["--as", "postgres", "--output", out]).spawn();
    let partial = case.dir.path().join(format!("{out}.partial"));
    let begun = || fs::metadata(&partial).ok().filter(|meta| meta.len() > 1_000_000);
    wait::until("rows in the partial file", SOON, begun).unwrap();
    (spawned, holder)
}

#[test]
fn a_server_that_stops_in_the_middle_leaves_the_old_or_the_new_and_the_next_call_resumes() {
    let host = Host::shared().unwrap();
    let own = host.postgres_server().unwrap();
    let (case, dump) = Case::filled_on(own.postgres.clone(), "pgc_stop");
    // What is not on the disk is lost with a server that is killed.
    case.sql("SET synchronous_commit = on; DELETE FROM notes WHERE item > 100");
    let witness = Witness::of(&case);

    // While the copy is made.
    let hold = || {
        let holder = case.session("postgres", "BEGIN; LOCK TABLE pg_catalog.pg_database IN SHARE MODE; SELECT pg_sleep(600)");
        case.wait_for("the lock", "query LIKE '%pg_database IN SHARE%' AND wait_event = 'PgSleep'");
        holder
    };
    let mut holder = hold();
    let spawned = case.tool().arg("stage").arg(&dump).spawn();
    case.wait_for("the creation", "query LIKE 'CREATE DATABASE%' AND wait_event_type = 'Lock'");
    let ran = crash(&host, &own, spawned);
    holder.wait().unwrap();
    assert_eq!(ran.status, 5, "{ran}");
    assert!(hint(&ran).contains("discard --run") && !ran.doc()["changed"].is_boolean(), "{ran}");
    assert_eq!(case.copies(), "");
    witness.is_let_in("after a stop at the creation");

    // Killed there, its session continues and makes the copy later: the next call waits for it, and clears it away.
    let mut holder = hold();
    let spawned = case.tool().args(["stage", "--run-id", "20300101t000000z-late"]).arg(&dump).spawn();
    case.wait_for("the creation", "query LIKE 'CREATE DATABASE%' AND wait_event_type = 'Lock'");
    spawned.signal(Signal::SIGKILL);
    spawned.wait();
    let next = case.tool().args(["stage", "--run-id", "20300101t000000z-next"]).arg(&dump).spawn();
    case.wait_for("the next call", "query LIKE '%pg_try_advisory_lock%'");
    own.sql("postgres", "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%pg_database IN SHARE%' AND pid <> pg_backend_pid()").unwrap();
    holder.wait().unwrap();
    let next = next.wait().ok().warns("run_recovered");
    assert_eq!(case.copies(), next.result()["staged"]["name"].as_str().unwrap());
    case.tool().args(["discard", "--run", "20300101t000000z-next"]).run().ok().changed();
    witness.is_let_in("after a kill at the creation");

    // While it is loaded: the copy stays, and is told as what it is.
    let spawned = case.sleeping_stage(&dump, &["--run-id", "20300101t000000z-load"]);
    let ran = crash(&host, &own, spawned);
    assert_eq!(ran.status, 5, "{ran}");
    let ran = ran.changed();
    assert!(ran.result()["verified"] == false && hint(&ran).contains("discard --run 20300101t000000z-load"), "{ran}");
    witness.is_let_in("after a stop at the load");
    case.tool().args(["swap", "--run", "20300101t000000z-load"]).run().refused("not_verified");
    let run = "20300101t000000z-swap";
    let staged = case.tool().args(["stage", "--run-id", run]).arg(&dump).run().ok().warns("run_recovered");
    assert_eq!(case.copies(), staged.result()["staged"]["name"].as_str().unwrap());

    // While the names are exchanged.
    let blocker = case.blocker();
    let spawned = case.tool().args(["swap", "--run", run]).spawn();
    case.wait_for_rename();
    let ran = crash(&host, &own, spawned);
    case.release(blocker);
    assert_eq!(ran.status, 5, "{ran}");
    assert!(hint(&ran).contains(&format!("swap --run {run}")), "{ran}");
    witness.is_let_in("after a stop at the swap");
    case.tool().args(["swap", "--run", run]).run().ok().changed();
    assert_eq!(case.sql("SELECT count(*) FROM notes"), "200");
    go_back_without_an_answer(&case, &own, run);
    witness.is_let_in("after the way back");
    case.tool().args(["discard", "--run", run]).run().ok().changed();

    // While it is dumped.
    let (spawned, mut holder) = earlier_dump(&case, "stopped.sql");
    let mut stop = os::command_as(&own.os_user, own.server_dir.join("pg_ctl"));
    os::run(stop.args(["stop", "--mode=immediate", "-D"]).arg(&own.data_dir)).unwrap();
    holder.wait().unwrap();
    let ran = spawned.wait();
    host.systemd.start(&own.unit).unwrap();
    ran.fails(1, "postgres_refused").unchanged();
    assert!(!case.dir.path().join("stopped.sql").exists() && !case.dir.path().join("stopped.sql.partial").exists());
    assert_eq!(case.copies(), "");
}

/// The way back, with the connections cut while the server still waits for a standby that is not there: nobody sees the names yet,
/// and they come all the same.
fn go_back_without_an_answer(case: &Case, own: &OwnPostgres, run: &str) {
    let standby = |sql: &str| {
        case.admin(&format!("ALTER SYSTEM {sql}"));
        case.admin("SELECT pg_reload_conf()");
    };
    let admin = format!("{}_adm", case.database);
    case.admin(&format!("CREATE ROLE {admin} SUPERUSER LOGIN PASSWORD 'x'; ALTER ROLE {admin} SET synchronous_commit = on"));
    let password = case.dir.path().join("password");
    os::file(&password, "x\n", 0o600, None).unwrap();
    let proxy = Proxy::to(&format!("127.0.0.1:{}", own.port)).unwrap();
    standby("SET synchronous_standby_names = 'nobody'");
    // The server takes a setting when it comes to it: a commit that waits shows that it has.
    let waits =
        |what: &str| case.admin(&format!("SELECT count(*) FROM pg_stat_activity WHERE {what} AND wait_event = 'SyncRep'"));
    let mut probes = Vec::new();
    let taken = wait::until("the standby's name to be taken", SOON, || {
        probes.push(case.session("postgres", &format!("SET synchronous_commit = on; COMMENT ON ROLE {admin} IS 'probe'")));
        std::thread::sleep(Duration::from_millis(50));
        (waits("query LIKE '%probe%'") != "0").then_some(())
    });
    let tool = case.tool().args(["swap", "--back", "--run", run, "--host", "127.0.0.1", "--port", &proxy.port().to_string()]);
    let spawned = tool.args(["--username", &admin, "--password-file"]).arg(&password).spawn();
    let commits = wait::until("the commit", SOON, || (waits("query = 'COMMIT'") != "0").then_some(()));
    proxy.cut();
    let look = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'SELECT state FROM pg_stat_activity WHERE pid%'";
    let looked = wait::until("the look at that session", SOON, || (case.admin(look) != "0").then_some(()));
    // Before anything is checked: nothing could be cleared away while commits wait.
    standby("RESET synchronous_standby_names");
    for mut probe in probes {
        probe.wait().unwrap();
    }
    taken.and(commits).and(looked).unwrap();
    let ran = spawned.wait().ok().changed();
    assert!(ran.result()["swapped"] == true && case.sql("SELECT count(*) FROM notes") == "100", "{ran}");
}

#[test]
fn a_program_that_is_killed_is_a_failure_and_leaves_nothing() {
    let (case, _) = Case::filled("pgc_child");
    let (spawned, _holder) = earlier_dump(&case, "killed.sql");
    kill(spawned.child("pg_dump"), Signal::SIGKILL).unwrap();
    let ran = spawned.wait().fails(1, "postgres_refused").unchanged();
    assert!(ran.doc()["error"]["causes"].to_string().contains("signal: 9"), "{ran}");
    assert!(!case.dir.path().join("killed.sql").exists() && !case.dir.path().join("killed.sql.partial").exists());
}

#[test]
fn connections_that_are_cut_at_random_leave_the_old_or_the_new_and_the_same_run_resumes() {
    let (case, dump) = Case::filled("pgc_cut");
    let backed_up = case.text();
    case.sql("DELETE FROM notes WHERE item > 100");
    let old = case.oid(&case.database);
    let admin = format!("{}_adm", case.database);
    case.admin(&format!("CREATE ROLE {admin} SUPERUSER LOGIN PASSWORD 'x'"));
    let password: PathBuf = case.dir.path().join("password");
    os::file(&password, "x\n", 0o600, None).unwrap();
    let proxy = Proxy::to(&format!("127.0.0.1:{}", case.pg.port)).unwrap();
    let mut random = Random::of(random::seed());
    for round in 0..svc_tests::rounds("connections cut at random", 6, 60) {
        let run = format!("20300101t{round:06}z-cut");
        let restore = |port: u16| {
            let tool =
                case.tool().args(["--host", "127.0.0.1", "--username", &admin, "--port", &port.to_string(), "--run-id", &run]);
            tool.arg("--password-file").arg(&password).arg(&dump)
        };
        // Of each connection's answers: the first is over with some hundred bytes, the administrator's with a few thousand.
        let limit = 100 + random.below([600, 6000, 20_000][round % 3]);
        proxy.set(Mode::CutAfter(limit));
        let ran = restore(proxy.port()).run();
        let when = format!("each connection cut after {limit} bytes");
        if ran.status != 0 {
            assert!(ran.status != 3 && !hint(&ran).is_empty(), "{when}\n{ran}");
        }
        // In one statement: the server may be at a commit of which the tool has not heard any more.
        let live =
            case.sql("SELECT oid || ' ' || (SELECT count(*) FROM notes) FROM pg_database WHERE datname = current_database()");
        assert!(
            live == format!("{old} 100") || (!live.starts_with(&format!("{old} ")) && live.ends_with(" 200")),
            "{when}: {live}"
        );
        restore(case.pg.port).run().ok();
        assert_eq!((case.text(), case.oid(&case.copies())), (backed_up.clone(), old.clone()), "{when}");
        for step in [&["swap", "--back"][..], &["discard"]] {
            case.tool().args(step).args(["--run", &run]).run().ok();
        }
        assert_eq!((case.oid(&case.database), case.copies().as_str()), (old.clone(), ""), "{when}");
    }
    case.admin(&format!("DROP ROLE {admin}"));
    let records = fs::read_dir(case.dir.path().join("state/swaps")).unwrap().count();
    assert_eq!(records, 0);
}

#[test]
fn a_server_that_says_nothing_any_more_is_left_by_a_second_signal_and_the_rest_is_cleared_away() {
    let (case, dump) = Case::filled("pgc_stall");
    let witness = Witness::of(&case);
    let admin = format!("{}_adm", case.database);
    case.admin(&format!("CREATE ROLE {admin} SUPERUSER LOGIN PASSWORD 'x'"));
    let password = case.dir.path().join("password");
    os::file(&password, "x\n", 0o600, None).unwrap();
    let proxy = Proxy::to(&format!("127.0.0.1:{}", case.pg.port)).unwrap();
    let slow = case.dump_with(&dump, "SELECT pg_catalog.pg_sleep(600);");
    let run = "20300101t000000z-stall";
    let tool = case.tool().args(["stage", "--run-id", run, "--host", "127.0.0.1", "--username", &admin]);
    let mut spawned = tool.args(["--port", &proxy.port().to_string(), "--password-file"]).arg(&password).arg(slow).spawn();
    let like = literal(&format!("{}_staged_%", case.database));
    case.wait_for("the sleeping load", &format!("datname LIKE {like} AND wait_event = 'PgSleep'"));
    proxy.set(Mode::Stall);
    spawned.signal(Signal::SIGTERM);
    wait::until("the first signal to be taken", SOON, || {
        let caught = fs::read_to_string(format!("/proc/{}/status", spawned.pid())).ok()?;
        let pending = caught.lines().find(|line| line.starts_with("ShdPnd:"))?;
        pending.ends_with("0000000000000000").then_some(())
    })
    .unwrap();
    assert!(spawned.is_running(), "the first signal waits for the server");
    spawned.signal(Signal::SIGINT);
    let ran = spawned.wait();
    assert!(ran.document.is_none() && ran.status > 128, "{ran}");
    drop(proxy);
    case.tool().args(["discard", "--run", run]).run().ok().changed();
    case.admin(&format!("DROP ROLE {admin}"));
    witness.assert_unchanged("after a network that stood still");
}
