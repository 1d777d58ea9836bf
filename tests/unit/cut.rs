//! Calls that are interrupted, and waiting for what continues without them.

use std::fs;

use nix::sys::signal::Signal;
use serde_json::json;

use crate::own::{DEAF, Own, Polls, SIMPLE, after, ready_once};

#[test]
fn unfinished_start_names_command_to_wait_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let ready = folder.path().join("ready");
    let unit = Own::new("term", &ready_once(&ready));
    let polls = Polls::new();
    let spawned = unit.once_activating(polls.of(unit.start()));
    polls.wait();
    let ran = spawned.ended_by(Signal::SIGTERM).fails(143, "interrupted").changed();
    assert_eq!(after(&ran, "active_state"), "activating");
    let wait = format!("svc-unit wait user:{}", unit.name);
    ran.error_has(&["TERM", &wait]);
    // A second start finds it under way, and only waits; longer than a call takes on a busy machine.
    unit.start().args(["--timeout", "5s"]).run().fails(6, "timeout").unchanged().error_has(&[&wait]);
    let mut waiting = polls.of(unit.tool("wait").args(["--settle", "300ms"])).spawn();
    polls.wait();
    assert!(waiting.is_running());
    fs::write(ready, "").unwrap();
    let waited = waiting.wait().ok().unchanged();
    assert_eq!(
        (&waited.result()["before"]["active_state"], after(&waited, "active_state")),
        (&json!("activating"), &json!("active"))
    );
}

#[test]
fn signal_during_settle_or_stop_leaves_unit_to_systemd() {
    let unit = Own::new("term-settle", &format!("{DEAF}\nTimeoutStopSec=10min"));
    for (step, options, state, signal) in
        [("start", vec!["--settle", "60s"], "active", Signal::SIGINT), ("stop", vec![], "deactivating", Signal::SIGTERM)]
    {
        let polls = Polls::new();
        let spawned = polls.of(unit.tool(step).args(options)).spawn();
        unit.waits_in(state);
        polls.wait();
        let ran = spawned.ended_by(signal).fails(128 + signal as i32, "interrupted").changed();
        assert_eq!(after(&ran, "active_state"), state);
        assert_eq!(unit.status()["active_state"], state);
        if step == "stop" {
            ran.error_has(&["--for inactive"]);
        }
    }
    unit.systemctl(&["kill", "--signal=KILL"]);
    let gone = unit.tool("wait").args(["--for", "inactive"]).run().ok().unchanged();
    assert_eq!(after(&gone, "result"), "signal");
}

#[test]
fn wait_ends_when_unit_starts_or_fails() {
    let unit = Own::new("waited", SIMPLE);
    unit.tool("wait").args(["--timeout", "500ms"]).run().fails(6, "timeout").unchanged();
    let polls = Polls::new();
    let mut spawned = polls.of(unit.tool("wait").args(["--settle", "300ms"])).spawn();
    polls.wait();
    assert!(spawned.is_running());
    unit.systemctl(&["start"]);
    assert_eq!(after(&spawned.wait().ok().unchanged(), "active_state"), &json!("active"));
    unit.systemctl(&["kill", "--signal=KILL"]);
    unit.waits_in("failed");
    unit.tool("wait").run().fails(1, "unit_failed").unchanged().error_has(&["signal 9"]);
}
