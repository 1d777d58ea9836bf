//! Stopped, and how it ended.

use crate::own::*;

#[test]
fn unit_killed_by_stop_needs_review() {
    let unit = Own::new("deaf", &format!("{DEAF}\nTimeoutStopSec=1"));
    unit.start().run().ok();
    let ran = unit.tool("stop").run().review("unit_failed").changed();
    ran.has(&json!({"after/result": "timeout", "after/exec_main_code": "killed"}));
    assert!(!unit.is_active());
}

#[test]
fn processes_that_outlive_the_unit_are_waited_for_and_named() {
    let forks = "ExecStart=/bin/sh -c 'sleep 600 & systemd-notify --ready; exec sleep 600'";
    let unit = Own::new("outlived", &format!("Type=notify\nNotifyAccess=all\nKillMode=process\n{forks}"));
    unit.start().run().ok();
    let ran = unit.tool("stop").args(["--timeout", "5s"]).run().fails(1, "unit_failed").changed();
    let ran = ran.has(&json!({"after/active_state": "inactive"}));
    // Of version 1 in the folder `systemd`, of version 2 beside it.
    let file = format!("{}/cgroup.procs", after(&ran, "control_group").as_str().unwrap());
    let left = ["/systemd", ""].iter().find_map(|version| fs::read_to_string(format!("/sys/fs/cgroup{version}{file}")).ok());
    ran.error_has(&[&format!("process {} left", left.unwrap().trim()), "KillMode=mixed"]);
    unit.tool("status").args(["--expect", "inactive"]).run().refused("service_state");
    let (spawned, _polls) = polled(unit.tool("wait").args(["--for", "inactive"]), || ());
    unit.systemctl(&["kill"]);
    spawned.wait().ok().unchanged();
}

#[test]
fn own_exit_status_on_term_is_only_warning() {
    let unit = Own::new("java", &DEAF.replace("trap :", "trap \"exit 143\""));
    unit.start().run().ok();
    let ran = unit.tool("stop").run().ok().changed().warns("unit_failed").has(&json!({"after/active_state": "failed"}));
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
    unit.tool("stop").run().ok().changed().has(&json!({"before/active_state": "active"}));
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
    unit.tool("stop").run().ok().changed().has(&json!({"before/job_pending": true, "after/result": "signal"}));
}

#[test]
fn stop_that_interrupts_start_ends_with_warning() {
    // As of a service that dies at each start: the stop comes between two of them, or into one.
    let unit = Own::new("cut-start", &format!("ExecStartPre=/bin/sleep 600\n{SIMPLE}\nRestart=on-failure"));
    unit.systemctl(&["start", "--no-block"]);
    unit.waits_in("activating");
    let ran = unit.tool("stop").run().ok().changed().warns("unit_failed");
    ran.has(&json!({"after/result": "signal", "after/active_state": "failed"}));
}
