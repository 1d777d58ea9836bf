//! Calls that are interrupted, and waiting for what continues without them.

use nix::sys::signal::Signal;

use crate::own::{Own, Polls, SIMPLE, SLOW, after, once_activating, says};

#[test]
fn term_in_the_middle_of_a_start_says_that_systemd_continues_and_how_to_wait() {
    let unit = Own::new("term", SLOW);
    let polls = Polls::new();
    let spawned = once_activating(&unit, polls.of(unit.start()));
    polls.wait();
    spawned.signal(Signal::SIGTERM);
    let ran = spawned.wait().fails(143, "interrupted").changed();
    assert_eq!(after(&ran, "active_state"), "activating");
    says(&ran, "TERM");
    says(&ran, &format!("svc-unit wait user:{}", unit.name));
    // A second start finds it under way and only waits.
    let again = unit.start().run().ok().unchanged();
    assert_eq!(again.result()["skipped"], "already_so");
}

#[test]
fn term_while_a_unit_settles_and_while_it_stops_leaves_it_to_systemd() {
    let unit = Own::new("term-settle", "ExecStart=/bin/sh -c 'trap : TERM; while :; do sleep 0.1; done'\nTimeoutStopSec=10min");
    let polls = Polls::new();
    let spawned = polls.of(unit.tool("start").args(["--settle", "60s"])).spawn();
    unit.waits_in("active");
    polls.wait();
    spawned.signal(Signal::SIGINT);
    let ran = spawned.wait().fails(130, "interrupted").changed();
    assert_eq!(after(&ran, "active_state"), "active");
    assert!(unit.systemd.is_active(&unit.name));

    let spawned = polls.of(unit.tool("stop")).spawn();
    unit.waits_in("deactivating");
    polls.wait();
    spawned.signal(Signal::SIGTERM);
    let ran = spawned.wait().fails(143, "interrupted").changed();
    assert_eq!(after(&ran, "active_state"), "deactivating");
    says(&ran, "--for inactive");
    unit.systemctl(&["kill", "--signal=KILL"]);
    let gone = unit.tool("wait").args(["--for", "inactive"]).run().ok().unchanged();
    assert_eq!(after(&gone, "result"), "signal");
}

#[test]
fn waiting_for_a_unit_ends_when_somebody_starts_it_and_when_it_fails() {
    let unit = Own::new("waited", SIMPLE);
    unit.tool("wait").args(["--timeout", "500ms"]).run().fails(6, "timeout").unchanged();
    let mut spawned = unit.tool("wait").args(["--settle", "300ms"]).spawn();
    assert!(spawned.is_running());
    unit.systemctl(&["start"]);
    let ran = spawned.wait().ok().unchanged();
    assert_eq!(after(&ran, "active_state"), "active");
    unit.systemctl(&["kill", "--signal=KILL"]);
    unit.waits_in("failed");
    let ran = unit.tool("wait").run().fails(1, "unit_failed").unchanged();
    says(&ran, "signal 9");
}
