//! Stopped, and how it ended.

use std::fs;

use serde_json::json;
use svc_tests::os;

use crate::own::{DEAF, Own, Polls, SIMPLE, after};

#[test]
fn unit_killed_by_stop_needs_review() {
    let unit = Own::new("deaf", &format!("{DEAF}\nTimeoutStopSec=1"));
    unit.start().run().ok();
    let ran = unit.tool("stop").run().review("unit_failed").changed();
    assert_eq!((after(&ran, "result"), after(&ran, "exec_main_code")), (&json!("timeout"), &json!("killed")));
    assert!(!unit.is_active());
}

#[test]
fn processes_that_outlive_the_unit_are_waited_for_and_named() {
    let unit = Own::new("outlived", "KillMode=process\nExecStart=/bin/sh -c 'sleep 600 & exec sleep 600'");
    unit.start().run().ok();
    let ran = unit.tool("stop").args(["--timeout", "5s"]).run().fails(1, "unit_failed").changed();
    assert_eq!(after(&ran, "active_state"), "inactive");
    let group = format!("/sys/fs/cgroup/systemd{}/cgroup.procs", after(&ran, "control_group").as_str().unwrap());
    ran.error_has(&[&format!("process {} left", fs::read_to_string(group).unwrap().trim()), "KillMode=mixed"]);
    unit.tool("status").args(["--expect", "inactive"]).run().refused("service_state");
    let polls = Polls::new();
    let spawned = polls.of(unit.tool("wait").args(["--for", "inactive"])).spawn();
    polls.wait();
    unit.systemctl(&["kill"]);
    spawned.wait().ok().unchanged();
}

#[test]
fn own_exit_status_on_term_is_only_warning() {
    let unit = Own::new("java", &DEAF.replace("trap :", "trap \"exit 143\""));
    unit.start().run().ok();
    let ran = unit.tool("stop").run().ok().changed().warns("unit_failed");
    assert_eq!(after(&ran, "active_state"), "failed");
    // A failed unit is no running one.
    unit.tool("stop").run().ok().unchanged();
    unit.start_from(ran.text()).run().ok().changed();
}

#[test]
fn unit_with_removed_file_is_still_stopped() {
    let unit = Own::new("bereft", SIMPLE);
    unit.start().run().ok();
    fs::remove_file(unit.file()).unwrap();
    os::run(unit.systemd.systemctl().arg("daemon-reload")).unwrap();
    assert_eq!(unit.status()["load_state"], "not-found");
    let stopped = unit.tool("stop").run().ok().changed();
    assert_eq!(stopped.result()["before"]["active_state"], "active");
    assert!(!unit.is_active());
}

#[test]
fn unit_killed_earlier_is_not_blamed_on_stop() {
    let slow = Own::new("killed-first", "Type=oneshot\nExecStart=/bin/sleep 600");
    let unit = Own::with("killed-before", &format!("After={}", slow.name), SIMPLE);
    unit.start().run().ok();
    unit.systemctl(&["kill", "--signal=KILL"]);
    unit.waits_in("failed");
    // A start that waits for another unit's, and is taken out of the queue.
    slow.systemctl(&["start", "--no-block"]);
    slow.waits_in("activating");
    unit.systemctl(&["start", "--no-block"]);
    let ran = unit.tool("stop").run().ok().changed();
    assert_eq!((&ran.result()["before"]["job_pending"], after(&ran, "result")), (&json!(true), &json!("signal")), "{ran}");
}

#[test]
fn stop_that_interrupts_start_ends_with_warning() {
    // As of a service that dies at each start: the stop comes between two of them, or into one.
    let unit = Own::new("cut-start", &format!("ExecStartPre=/bin/sleep 600\n{SIMPLE}\nRestart=on-failure"));
    unit.systemctl(&["start", "--no-block"]);
    unit.waits_in("activating");
    let ran = unit.tool("stop").run().ok().changed().warns("unit_failed");
    assert_eq!((after(&ran, "result"), after(&ran, "active_state")), (&json!("signal"), &json!("failed")), "{ran}");
}
