//! Calls that are interrupted, and waiting for what continues without them.

use crate::own::*;

#[test]
fn unfinished_start_names_command_to_wait_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let ready = folder.path().join("ready");
    let unit = Own::new("term", &ready_once(&ready));
    let (spawned, _polls) = polled(unit.start(), || unit.waits_in("activating"));
    let ran = spawned.ended_by(Signal::SIGTERM).fails(143, "interrupted").changed();
    let wait = format!("svc-unit wait user:{}", unit.name);
    ran.has(&json!({"after/active_state": "activating"})).error_has(&["TERM", &wait]);
    // A second start finds it under way, and only waits; longer than a call takes on a busy machine.
    unit.start().args(["--timeout", "5s"]).run().fails(6, "timeout").unchanged().error_has(&[&wait]);
    let (mut waiting, _polls) = polled(unit.tool("wait").args(["--settle", "300ms"]), || ());
    assert!(waiting.is_running());
    fs::write(ready, "").unwrap();
    waiting.wait().ok().unchanged().has(&json!({"before/active_state": "activating", "after/active_state": "active"}));
}

#[test]
fn signal_during_settle_or_stop_leaves_unit_to_systemd() {
    let unit = Own::new("term-settle", &format!("{DEAF}\nTimeoutStopSec=10min"));
    for (step, options, state, signal) in
        [("start", vec!["--settle", "60s"], "active", Signal::SIGINT), ("stop", vec![], "deactivating", Signal::SIGTERM)]
    {
        let (spawned, _polls) = polled(unit.tool(step).args(options), || unit.waits_in(state));
        let ran = spawned.ended_by(signal).fails(128 + signal as i32, "interrupted").changed();
        let ran = ran.has(&json!({"after/active_state": state}));
        assert_eq!(unit.status()["active_state"], state);
        if step == "stop" {
            ran.error_has(&["--for inactive"]);
        }
    }
    unit.systemctl(&["kill", "--signal=KILL"]);
    unit.tool("wait").args(["--for", "inactive"]).run().ok().unchanged().has(&json!({"after/result": "signal"}));
}

#[test]
fn wait_ends_when_unit_starts_or_fails() {
    let unit = Own::new("waited", SIMPLE);
    unit.tool("wait").args(["--timeout", "500ms"]).run().fails(6, "timeout").unchanged();
    let (mut spawned, _polls) = polled(unit.tool("wait").args(["--settle", "300ms"]), || ());
    assert!(spawned.is_running());
    unit.systemctl(&["start"]);
    spawned.wait().ok().unchanged().has(&json!({"after/active_state": "active"}));
    unit.systemctl(&["kill", "--signal=KILL"]);
    unit.waits_in("failed");
    unit.tool("wait").run().fails(1, "unit_failed").unchanged().error_has(&["signal 9"]);
}
