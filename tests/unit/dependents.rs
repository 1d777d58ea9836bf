//! Units that others need, and that need others.

use crate::own::*;

/// A unit whose start is never over.
const STARTING: &str = "Type=notify\nExecStart=/bin/sleep 600\nTimeoutStartSec=120";

#[test]
fn start_reports_failed_dependency() {
    let other = Own::new("required", "Type=oneshot\nExecStart=/bin/false");
    for (name, service) in [("dependent", SIMPLE), ("dependent-oneshot", "Type=oneshot\nExecStart=/bin/true")] {
        let ran = Own::needing(&other, name, service).start().run().fails(1, "unit_failed").error_has(&["dependency"]);
        // The unit is as it was, and the other was started and failed.
        assert_eq!(ran.doc()["changed"], Value::Null);
    }
}

#[test]
fn interrupted_queued_start_is_pending_until_stop_cancels_it() {
    let other = Own::new("ahead", STARTING);
    let unit = Own::with("behind", &format!("After={}", other.name), SIMPLE);
    other.systemctl(&["start", "--no-block"]);
    let queued = || unit.systemd.property(&unit.name, "Job").ok().filter(|job| !job.is_empty());
    let (spawned, _polls) = polled(unit.start(), || wait::so("the start to be queued", queued));
    // The unit is as it was, and will start by itself as soon as the other is up.
    let ran = spawned.ended_by(Signal::SIGTERM).fails(143, "interrupted").changed();
    ran.has(&json!({"after/active_state": "inactive", "after/job_pending": true}));
    unit.tool("wait").args(["--for", "inactive", "--timeout", "500ms"]).run().fails(6, "timeout");
    let stopped = unit.tool("stop").run().ok().changed().text();
    assert_eq!(unit.status()["job_pending"], false);
    // It was about to run: what stopped it starts it again.
    other.systemctl(&["stop"]);
    unit.start_from(stopped).run().ok().changed().has(&json!({"skipped": null, "after/active_state": "active"}));
}

#[test]
fn start_takes_back_stop_that_waits_for_dependent() {
    let unit = Own::new("stays", SIMPLE);
    let part = Own::with("leaves", &format!("PartOf={0}\nAfter={0}", unit.name), &format!("{DEAF}\nTimeoutStopSec=1min"));
    part.start().run().ok();
    unit.start().run().ok();
    let before = unit.tool("status").run().ok().text();
    let stop = unit.tool("stop").spawn();
    part.waits_in("deactivating");
    stop.ended_by(Signal::SIGTERM).fails(143, "interrupted");
    assert_eq!((unit.is_active(), &unit.status()["job_pending"]), (true, &json!(true)));
    // What stops now still comes before the start.
    let job = || unit.systemd.property(&unit.name, "Job").unwrap();
    let stopping = job();
    let mut starting = unit.start_from(before).spawn();
    wait::so("the stop to be replaced by a start", || (job() != stopping || !starting.is_running()).then_some(()));
    part.systemctl(&["kill", "--signal=KILL"]);
    starting.wait().ok().changed();
    assert!(unit.is_active() && part.is_active());
    part.systemctl(&["kill", "--signal=KILL"]);
}

#[test]
fn stopped_dependents_are_restarted_from_document() {
    let unit = Own::new("needed", SIMPLE);
    let needs = format!("Requires={0}\nAfter={0}", unit.name);
    let near = Own::needing(&unit, "requires", SIMPLE);
    let far = Own::with("binds", &format!("BindsTo={0}\nAfter={0}", near.name), SIMPLE);
    let part = Own::with(r"part\x2dof", &format!("PartOf={}", unit.name), SIMPLE);
    let asleep = Own::needing(&unit, "asleep", SIMPLE);
    let apart = Own::with("wants", &format!("Wants={0}\nAfter={0}", unit.name), SIMPLE);
    let target = Own::named(format!("unit-test-needs-{}.target", std::process::id()), &needs, "");
    for one in [&far, &part, &apart, &target] {
        one.start().run().ok();
    }
    let along = [&part, &near, &far];
    let active = || along.iter().filter(|one| one.is_active()).count();
    let names = along.map(|one| one.name.clone());
    for call in [unit.tool("status"), unit.tool("stop").arg("--dry-run")] {
        call.run().ok().unchanged().has(&json!({"dependents": names}));
    }
    let stopped = unit.tool("stop").run().ok().changed().warns("dependents_stopped").has(&json!({"dependents": names}));
    assert_eq!(active(), 0);
    assert!(apart.is_active(), "a unit that only wants it continues without it");
    assert!(!target.is_active(), "a target goes down with it, and is nothing to start again");

    // By itself a start starts none of them again.
    unit.start().run().ok().changed();
    assert_eq!(active(), 0);
    let from = || unit.start_from(stopped.text());
    assert_eq!(from().arg("--dry-run").run().ok().unchanged().result()["plan"].as_array().unwrap().len(), 3);
    from().run().ok().changed().has(&json!({"dependents": names}));
    assert_eq!(active(), 3);
    assert!(!asleep.is_active(), "it was not running then");
    from().run().ok().unchanged().has(&json!({"dependents": []}));

    // Of a unit that did not run then, only what ran along with it is started; with --always it is started too.
    near.tool("stop").run().ok().changed();
    unit.systemctl(&["kill", "--signal=KILL"]);
    unit.waits_in("failed");
    let stopped =
        unit.tool("stop").run().ok().changed().has(&json!({"before/active_state": "failed", "dependents": [part.name]}));
    let from = || unit.start_from(stopped.text());
    let started = json!({"skipped": "was_not_running", "dependents": [part.name]});
    from().run().ok().changed().has(&started);
    assert!(part.is_active() && !unit.is_active());
    from().arg("--always").run().ok().changed().has(&json!({"skipped": null, "dependents": []}));
    assert!(unit.is_active() && !asleep.is_active());
}

#[test]
fn answer_of_dependent_is_awaited_after_its_start() {
    let unit = Own::new("answered", SIMPLE);
    let port = os::free_ports(1).unwrap()[0];
    let program = format!("import socket, time; s = socket.create_server((\"127.0.0.1\", {port})); time.sleep(600)");
    let dependent = Own::needing(&unit, "answers", &format!("ExecStart=/usr/bin/python3 -c '{program}'"));
    dependent.start().run().ok();
    let stopped = unit.tool("stop").run().ok().warns("dependents_stopped").text();
    let address = format!("127.0.0.1:{port}");
    let start = unit.start_from(stopped).args(["--ready-tcp", &*address, "--timeout", "60s"]);
    start.run().ok().changed().has(&json!({"dependents": [dependent.name]}));
}

#[test]
fn stop_ends_when_all_is_down_that_stops_along() {
    let unit = Own::new("stops-first", SIMPLE);
    let part = Own::with("stops-last", &format!("PartOf={}", unit.name), &format!("{DEAF}\nTimeoutStopSec=2"));
    part.start().run().ok();
    // Also if the unit itself has ended before.
    for state in ["active", "inactive"] {
        if state == "active" {
            unit.start().run().ok();
        }
        let expected = unit.tool("status").args(["--expect", "inactive"]).run().refused("service_state");
        expected.error_has(&[&format!("{} is active", part.name)]);
        let stopped = unit.tool("stop").run().review("unit_failed").changed();
        stopped.has(&json!({"before/active_state": state, "dependents": [part.name]}));
        assert_eq!(part.status()["active_state"], "failed");
        part.start().run().ok();
    }
    fs::remove_file(unit.file()).unwrap();
    unit.systemd.control(&["daemon-reload"]).unwrap();
    for call in [unit.tool("stop"), unit.tool("status").args(["--expect", "inactive"])] {
        call.run().refused("service_state").unchanged().error_has(&[&format!("svc-unit stop user:{}", part.name)]);
    }
}

/// A unit, one that needs it, begins with a test of a file and is started again after a failure, and the document of a stop of both.
fn with_dependent(name: &str, test: &str, file: &Path) -> (Own, Own, String) {
    let unit = Own::new(name, SIMPLE);
    let before = format!("ExecStartPre=/bin/sh -c '{}'", test.replace("FILE", file.to_str().unwrap()));
    let dependent = Own::needing(
        &unit,
        &format!("{name}-dependent"),
        &format!("Type=exec\n{before}\n{SIMPLE}\nRestart=on-failure\nRestartSec=5s"),
    );
    dependent.start().run().ok();
    let stopped = unit.tool("stop").run().ok().warns("dependents_stopped").text();
    (unit, dependent, stopped)
}

#[test]
fn dependent_that_fails_to_start_needs_review() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    let (unit, _frail, stopped) = with_dependent("whole", "test ! -e FILE", &file);
    fs::write(file, "").unwrap();
    unit.start_from(stopped).run().review("dependents_stopped").changed().has(&json!({"dependents": []}));
    assert!(unit.is_active());
}

#[test]
fn interrupted_start_names_dependent_to_wait_for() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    let (unit, late, stopped) = with_dependent("cut", "test ! -e FILE || sleep 600", &file);
    fs::write(file, "").unwrap();
    let start = unit.start_from(stopped).spawn();
    late.waits_in("activating");
    let ran = start.ended_by(Signal::SIGTERM).fails(143, "interrupted").changed();
    ran.error_has(&[&format!("svc-unit wait user:{}", late.name)]);
    assert!(unit.is_active());
}
