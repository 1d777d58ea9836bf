//! PostgreSQL that is stopped in the middle, connections that are cut, and programs that are killed: the live database is the old or
//! the new one, the document says how to continue, and the next call leaves nothing else.

use svc_tests::pg_case::prelude::*;

/// Stops a server at once, as a crash does, and starts it again when `meanwhile` is over.
fn crash_of<T>(host: &Host, own: &OwnPostgres, meanwhile: impl FnOnce() -> T) -> T {
    let mut stop = os::command_as(ADMINISTRATOR, own.server_dir.join("pg_ctl"));
    os::run(stop.args(["stop", "--mode=immediate", "--no-wait", "-D"]).arg(&own.data_dir)).unwrap();
    let over = meanwhile();
    assert!(wait::gone(wait::HANG, || !host.systemd.is_active(&own.unit)), "the server did not stop");
    host.systemd.start(&own.unit).unwrap();
    over
}

/// The same when the tool has ended.
fn crash(host: &Host, own: &OwnPostgres, spawned: Spawned) -> Ran {
    let ran = crash_of(host, own, || spawned.wait());
    assert_eq!(ran.status, 5, "{ran}");
    ran
}

#[test]
fn stage_or_swap_recovers_after_server_crash() {
    let host = Host::shared().unwrap();
    let own = host.postgres_server().unwrap();
    let (case, dump) = Case::filled_on(own.server.clone(), "pgc_stop");
    // What is not on the disk is lost with a server that is killed.
    case.sql("SET synchronous_commit = on; DELETE FROM notes WHERE item > 100");
    let witness = Witness::of(&case);
    let stage = |run: &str| case.tool().args(["stage", "--run-id", run]).arg(&dump);
    let by_run = |step: &str, run: &str| case.by_run(&[step], run);
    // A staging that waits to create its copy.
    let creating = |run: &str| {
        let held = case.hold("postgres", "LOCK TABLE pg_catalog.pg_database IN SHARE MODE");
        let spawned = stage(run).spawn();
        case.wait_for("the creation", "query LIKE 'CREATE DATABASE%' AND wait_event_type = 'Lock'");
        (spawned, held)
    };

    let (spawned, _held) = creating("20300101t000000z-made");
    let ran = crash(&host, &own, spawned);
    assert!(ran.hint().contains("discard --run") && !ran.doc()["changed"].is_boolean(), "{ran}");
    assert_eq!(case.copies(), "");
    witness.is_let_in("after a stop at the creation");

    // Killed there, its session continues and makes the copy later: the next call waits for it, and clears it away.
    let (spawned, held) = creating("20300101t000000z-late");
    spawned.ended_by(Signal::SIGKILL);
    let next = stage("20300101t000000z-next").spawn();
    case.wait_for("the next call", "query LIKE '%pg_try_advisory_lock%'");
    drop(held);
    let next = next.wait().ok().warns("run_recovered");
    assert_eq!(case.copies(), next.result()["staged"]["name"].as_str().unwrap());
    by_run("discard", "20300101t000000z-next").ok().changed();
    witness.is_let_in("after a kill at the creation");

    // While it is loaded: the copy stays, and is told as what it is.
    let loading = case.sleeping(case.tool().args(["stage", "--run-id", "20300101t000000z-load"]), &dump);
    let ran = crash(&host, &own, loading).changed();
    assert!(ran.result()["verified"] == false && ran.hint().contains("discard --run 20300101t000000z-load"), "{ran}");
    witness.is_let_in("after a stop at the load");
    by_run("swap", "20300101t000000z-load").refused("not_verified");
    let run = "20300101t000000z-swap";
    let staged = stage(run).run().ok().warns("run_recovered");
    assert_eq!(case.copies(), staged.result()["staged"]["name"].as_str().unwrap());

    // While the names are exchanged.
    let blocker = case.blocker();
    let spawned = case.tool().args(["swap", "--run", run]).spawn();
    case.wait_for_rename();
    let ran = crash(&host, &own, spawned);
    drop(blocker);
    assert!(ran.hint().contains(&format!("swap --run {run}")), "{ran}");
    witness.is_let_in("after a stop at the swap");
    by_run("swap", run).ok().changed();
    assert_eq!(case.notes(), "200");
    go_back_without_an_answer(&case, run);
    witness.is_let_in("after the way back");
    give_up_a_creation(&case, &dump);
    // A server that is told to wait for no standby is waited for itself alone.
    let alone = without_standby(&case, || Ok(case.tool().args(["stage", "--timeout", "2m"]).arg(&dump).run())).ok();
    case.from(&["discard"], &case.keep("standby.json", &alone)).ok().changed();

    // A swap that was answered, on a server that commits without waiting for its disk, and that loses what is not there.
    let writer = case.stopped("backend_type = 'walwriter'");
    case.from(&["swap"], &case.keep("staged.json", &staged)).ok().changed();
    crash_of(&host, &own, || drop(writer));
    assert_eq!(case.notes(), "200", "the swap is lost");
    by_run("discard", run).ok().changed();
    stopped_before_the_drop(&case, &dump);
    interrupted_in_the_drop(&case, &dump);
}

/// A restore in place that ends while it tries what it is to create has dropped nothing.
fn stopped_before_the_drop(case: &Case, dump: &Path) {
    let live = case.oid(&case.database);
    let creates = "query LIKE 'CREATE DATABASE%' AND wait_event_type = 'Lock'";
    for status in [143, 5] {
        let held = case.hold("postgres", "LOCK TABLE pg_catalog.pg_database IN SHARE MODE");
        let spawned = case.tool().arg("--in-place").arg(dump).spawn();
        case.wait_for("the creation", creates);
        match status {
            5 => case.end(creates),
            _ => spawned.signal(Signal::SIGTERM),
        }
        drop(held);
        let ran = spawned.wait().unchanged();
        assert_eq!((ran.status, case.oid(&case.database), case.copies().as_str()), (status, live.clone(), ""), "{ran}");
    }
}

/// What `DROP DATABASE` has begun is a change that nobody undoes, whatever the server says of the statement.
fn interrupted_in_the_drop(case: &Case, dump: &Path) {
    let blocker = case.blocker();
    let spawned = case.tool().arg("--in-place").arg(dump).spawn();
    let drops = format!("query LIKE 'DROP DATABASE%{}%'", identifier(&case.database));
    case.wait_for("the drop", &format!("{drops} AND wait_event_type = 'Lock'"));
    let checkpointer = case.stopped("backend_type = 'checkpointer'");
    drop(blocker);
    case.wait_for("its checkpoint", &format!("{drops} AND wait_event LIKE 'Checkpoint%'"));
    case.admin(&format!("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE {drops}"));
    drop(checkpointer);
    spawned.wait().fails(1, "server_refused").changed().error_has(&["svc-pgrestore --in-place --dbname"]);
    case.tool().arg("--in-place").arg(dump).run().ok().changed();
    assert_eq!(case.notes(), "200");
}

/// While every commit waits for a standby that is not there: nobody sees what it did, and it comes all the same.
fn without_standby<T>(case: &Case, meanwhile: impl FnOnce() -> anyhow::Result<T>) -> T {
    let standby = |sql: &str| case.admin(&format!("ALTER SYSTEM {sql}")) + &case.admin("SELECT pg_reload_conf()");
    standby("SET synchronous_standby_names = 'nobody'");
    // The server takes a setting when it comes to it: a commit that waits shows that it has.
    let mut probes = Vec::new();
    let taken = wait::until("the standby's name to be taken", wait::HANG, || {
        probes.push(case.session("postgres", &format!("SET synchronous_commit = on; COMMENT ON ROLE {} IS 'probe'", case.owner)));
        (case.sessions("query LIKE '%probe%' AND wait_event = 'SyncRep'") > 0).then_some(())
    });
    let done = taken.and_then(|()| meanwhile());
    // Before anything is checked: nothing could be cleared away while commits wait.
    standby("RESET synchronous_standby_names");
    for mut probe in probes {
        probe.wait().unwrap();
    }
    done.unwrap()
}

/// Whether there is such a session at last.
fn sees(case: &Case, what: &str, condition: &str) -> anyhow::Result<()> {
    wait::until(what, wait::HANG, || (case.sessions(condition) > 0).then_some(()))
}

/// The way back, with the connections cut at its commit.
fn go_back_without_an_answer(case: &Case, run: &str) {
    let admin = case.role("adm", "SUPERUSER");
    case.admin(&format!("ALTER ROLE {admin} SET synchronous_commit = on"));
    let proxy = case.proxy();
    let spawned = without_standby(case, || {
        let spawned = case.through(&proxy, &admin, case.tool().args(["swap", "--back", "--run", run])).spawn();
        sees(case, "the commit", "query = 'COMMIT' AND wait_event = 'SyncRep'")?;
        proxy.cut();
        sees(case, "the look at it", "query LIKE 'SELECT state FROM pg_stat_activity WHERE pid%'")?;
        Ok(spawned)
    });
    let ran = spawned.wait().ok().changed();
    assert!(ran.result()["swapped"] == true && case.notes() == "100", "{ran}");
}

/// A copy whose creation was given up stays on record, since it may come later.
fn give_up_a_creation(case: &Case, dump: &Path) {
    let before = case.copies();
    let stage = case.tool().env("PGOPTIONS", "-c synchronous_commit=on").arg("stage").arg(dump);
    let ran = without_standby(case, || {
        let spawned = stage.spawn();
        sees(case, "the creation", "query LIKE 'CREATE DATABASE%' AND wait_event = 'SyncRep'")?;
        Ok(spawned.ended_by(Signal::SIGTERM))
    });
    let ran = ran.fails(143, "interrupted");
    assert!(ran.doc()["changed"].is_null() && ran.hint().contains("discard --run"), "{ran}");
    wait::so("the copy", || (case.copies() != before).then_some(()));
    case.by_run(&["discard"], ran.id()).ok().changed();
    assert_eq!(case.copies(), before);
}

#[test]
fn second_signal_ends_stage_on_silent_server() {
    let (case, dump) = Case::filled("pgc_stall");
    let witness = Witness::of(&case);
    let admin = case.role("adm", "SUPERUSER");
    let proxy = case.proxy();
    let run = "20300101t000000z-stall";
    let stage = case.through(&proxy, &admin, case.tool().args(["stage", "--run-id", run]));
    let mut spawned = case.sleeping(stage, &dump);
    proxy.set(Mode::Stall);
    spawned.signal(Signal::SIGTERM);
    wait::so("the first signal to be taken", || (!os::has_signal(spawned.pid(), "ShdPnd", Signal::SIGTERM)).then_some(()));
    assert!(spawned.is_running(), "the first signal waits for the server");
    let ran = spawned.ended_by(Signal::SIGINT);
    assert!(ran.document.is_none() && ran.status > 128, "{ran}");
    drop(proxy);
    case.by_run(&["discard"], run).ok().changed();
    witness.assert_unchanged("after a network that stood still");
}
