//! Started means that it holds.

use std::time::{Duration, Instant};

use crate::own::*;

#[test]
fn repeated_start_or_stop_changes_nothing() {
    let unit = Own::new("simple", SIMPLE);
    let settle = Duration::from_secs(3);
    let start = || {
        let begun = Instant::now();
        (unit.tool("start").args(["--settle", "3s"]).run().ok(), begun.elapsed())
    };
    let (started, took) = start();
    assert!(took >= settle, "it did not wait for the unit to settle\n{started}");
    let wanted = json!({"before/active_state": "inactive", "after/active_state": "active", "after/sub_state": "running"});
    let started = started.changed().has(&wanted);
    let asked = started.result()["requested_epoch_ms"].as_u64().unwrap();
    let active = after(&started, "active_enter_epoch_ms").as_u64().unwrap();
    let ended = asked + u64::try_from(took.as_millis()).unwrap();
    assert!((asked..ended).contains(&(active + 1)), "asked at {asked}, active at {active}, ended at {ended}");
    assert!(after(&started, "active_enter_at").as_str().unwrap().ends_with('Z'));
    let pid: u32 = unit.systemd.property(&unit.name, "MainPID").unwrap().parse().unwrap();
    assert_eq!(after(&started, "main_pid"), pid);

    // It has been active for that long already; a call that takes longer shows nothing, and is made again.
    let quick = || Some(start()).filter(|(_, took)| *took < settle);
    let (again, _) = wait::so("a call that does not wait", quick);
    again.unchanged().has(&json!({"skipped": "already_so", "requested_at": null}));

    let stopped = unit.tool("stop").env("POSIXLY_CORRECT", "1").run().ok().changed();
    stopped.has(&json!({"before/main_pid": pid, "after/active_state": "inactive"}));
    assert!(!unit.is_active());
    unit.tool("stop").run().ok().unchanged().has(&json!({"skipped": "already_so"}));
}

#[test]
fn unit_that_exits_while_it_settles_fails_to_start() {
    // So long it is watched if nobody says how long; a busy machine may need more to end it.
    let cli = svc_unit::cli();
    let mut settle = cli.find_subcommand("start").unwrap().get_arguments().filter(|arg| arg.get_id() == "settle");
    assert_eq!(settle.next().unwrap().get_default_values(), ["5s"]);
    let folder = tempfile::tempdir().unwrap();
    let end = folder.path().join("end");
    let unit = Own::new("short", &fails_once(&end));
    let (started, _polls) = polled(unit.tool("start").args(["--settle", "300s"]), || unit.waits_in("active"));
    fs::write(&end, "").unwrap();
    let ran = started.wait().fails(1, "unit_failed").changed().warns("not_checked");
    let ran = ran.error_has(&["started but did not stay active: it is failed (exit-code, exit status 3)"]);
    let found = ["active_state", "result", "exec_main_code", "exec_main_status"].map(|key| after(&ran, key).clone());
    assert_eq!(found, [json!("failed"), json!("exit-code"), json!("exited"), json!(3)]);
    fs::remove_file(end).unwrap();
    // A failed unit is started again; one that nobody watches counts as started: it is the settling that finds it out.
    unit.tool("start").args(["--settle", "0"]).run().ok().changed().has(&json!({"before/active_state": "failed"}));
}

#[test]
fn start_of_unit_in_restart_loop_fails() {
    let restarts = "ExecStart=/bin/sh -c 'sleep 1; exit 3'\nRestart=always\nRestartSec=10ms";
    let unit = Own::with("loop", "StartLimitIntervalSec=0", restarts);
    let ran = unit.tool("start").args(["--settle", "4s"]).run().fails(1, "unit_failed").changed();
    ran.error_has(&["started but did not stay active"]);
    assert!(unit.systemd.property(&unit.name, "NRestarts").unwrap() != "0");
    // Waiting counts from the start after each restart, and gives up.
    unit.tool("wait").args(["--settle", "4s", "--timeout", "5s"]).run().fails(6, "timeout").unchanged().error_has(&[&unit.name]);
}

#[test]
fn start_limit_is_reported_with_reset_failed_command() {
    let limit = "StartLimitIntervalSec=1h\nStartLimitBurst=1";
    let unit = Own::with("limit", limit, "Type=notify\nExecStart=/bin/false");
    unit.start().run().fails(1, "unit_failed");
    // A daemon-reload clears the manager's count of starts (seen on 252), and other tests of this host make it reload: until it
    // refuses, each further start is a real one, and says so.
    let ran = wait::so("the manager to refuse", || {
        let ran = unit.start().run().fails(1, "unit_failed");
        let started = after(&ran, "invocation_id") != &ran.result()["before"]["invocation_id"];
        assert_eq!(ran.doc()["changed"], started, "{ran}");
        (!started).then_some(ran)
    });
    ran.error_has(&[&format!("systemctl --user reset-failed {}", unit.name)]);
}

#[test]
fn restart_is_new_invocation_of_running_or_stopped_unit() {
    let unit = Own::new("restart", SIMPLE);
    let restart = || unit.tool("restart").args(["--settle", "300ms"]).run().ok().changed();
    let (first, second) = (restart(), restart());
    assert_eq!(first.result()["before"]["active_state"], "inactive");
    assert_eq!(after(&first, "invocation_id"), &second.result()["before"]["invocation_id"]);
    assert_ne!(after(&first, "invocation_id"), after(&second, "invocation_id"));
    assert_ne!(after(&first, "main_pid"), after(&second, "main_pid"));
}

#[test]
fn restart_refused_by_systemd_fails_unchanged() {
    let unit = Own::with("refuses-stop", "RefuseManualStop=yes", SIMPLE);
    unit.start().run().ok();
    let ran = unit.tool("restart").args(["--settle", "0"]).run().fails(1, "unit_failed").unchanged();
    assert_eq!(after(&ran, "invocation_id"), &ran.result()["before"]["invocation_id"]);
    ran.error_has(&["Operation refused", "it is active (running), the same run as before"]);
    // So that it can be stopped when the test is over.
    unit.systemctl(&["kill"]);
    unit.waits_in("inactive");
}
