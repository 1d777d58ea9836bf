//! Units that others need, and that need others.

use std::fs;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use svc_tests::wait;

use crate::own::{Own, Polls, SIMPLE, after, once_activating, says, tool};

#[test]
fn a_unit_that_was_not_started_because_another_failed_says_so() {
    let other = Own::new("required", "Type=oneshot\nExecStart=/bin/false");
    let needs = format!("Requires={0}\nAfter={0}", other.name);
    for (name, service) in [("dependent", SIMPLE), ("dependent-oneshot", "Type=oneshot\nExecStart=/bin/true")] {
        let unit = Own::with(name, &needs, service);
        let ran = unit.start().run().fails(1, "unit_failed");
        says(&ran, "dependency");
        // The unit is as it was, and the other was started and failed.
        assert_eq!(ran.doc()["changed"], Value::Null);
    }
}

#[test]
fn a_failed_unit_that_was_not_started_again_because_another_failed_may_have_changed_that_other() {
    let folder = tempfile::tempdir().unwrap();
    let there = folder.path().join("there");
    fs::write(&there, "").unwrap();
    let test = format!("Type=oneshot\nRemainAfterExit=yes\nExecStart=/usr/bin/test -e {}", there.display());
    let other = Own::new("required-then", &test);
    let unit = Own::with("failed-then", &format!("Requires={0}\nAfter={0}", other.name), SIMPLE);
    unit.start().run().ok();
    unit.systemctl(&["kill", "--signal=KILL"]);
    unit.waits_in("failed");
    other.systemctl(&["stop"]);
    fs::remove_file(there).unwrap();
    let ran = unit.start().run().fails(1, "unit_failed");
    assert_eq!((ran.doc()["changed"].clone(), after(&ran, "active_state")), (Value::Null, &json!("failed")), "{ran}");
}

#[test]
fn a_unit_that_waits_for_another_is_not_at_rest_and_its_start_is_cancelled_by_a_stop() {
    let other = Own::new("first", "Type=notify\nExecStart=/bin/sleep 600\nTimeoutStartSec=120");
    let unit = Own::with("second", &format!("After={}", other.name), SIMPLE);
    other.systemctl(&["start", "--no-block"]);
    unit.systemctl(&["start", "--no-block"]);
    let status = unit.status();
    assert_eq!((&status["active_state"], &status["job_pending"]), (&json!("inactive"), &json!(true)));
    unit.tool("wait").args(["--for", "inactive", "--timeout", "500ms"]).run().fails(6, "timeout");
    unit.tool("stop").run().ok().changed();
    assert_eq!(unit.status()["job_pending"], false);
}

#[test]
fn a_start_that_was_interrupted_while_it_waits_for_another_unit_has_changed_something() {
    let other = Own::new("ahead", "Type=notify\nExecStart=/bin/sleep 600\nTimeoutStartSec=120");
    let unit = Own::with("behind", &format!("After={}", other.name), SIMPLE);
    other.systemctl(&["start", "--no-block"]);
    let polls = Polls::new();
    let spawned = polls.of(unit.start()).spawn();
    let queued = || unit.systemd.property(&unit.name, "Job").ok().filter(|job| !job.is_empty());
    wait::until("the start to be queued", svc_tests::wait::HANG, queued).unwrap();
    polls.wait();
    spawned.signal(Signal::SIGTERM);
    // The unit is as it was, and will start by itself as soon as the other is up.
    let ran = spawned.wait().fails(143, "interrupted").changed();
    assert_eq!((after(&ran, "active_state"), after(&ran, "job_pending")), (&json!("inactive"), &json!(true)));
    unit.tool("stop").run().ok().changed();
}

#[test]
fn what_stops_along_with_a_unit_is_named_and_a_start_from_the_document_starts_it_again() {
    let unit = Own::new("needed", SIMPLE);
    let near = Own::with("requires", &format!("Requires={0}\nAfter={0}", unit.name), SIMPLE);
    let far = Own::with("binds", &format!("BindsTo={0}\nAfter={0}", near.name), SIMPLE);
    let part = Own::with("part", &format!("PartOf={}", unit.name), SIMPLE);
    let asleep = Own::with("asleep", &format!("Requires={0}\nAfter={0}", unit.name), SIMPLE);
    let apart = Own::with("wants", &format!("Wants={0}\nAfter={0}", unit.name), SIMPLE);
    let target = format!("unit-test-needs-{}.target", std::process::id());
    let target = Own::named(target, &format!("Requires={0}\nAfter={0}", unit.name), "");
    for one in [&far, &part, &apart, &target] {
        one.start().run().ok();
    }
    let mut names = [&near, &far, &part].map(|one| one.name.clone());
    names.sort();
    assert_eq!(unit.tool("status").run().ok().result()["dependents"], json!(names));
    let dry = unit.tool("stop").arg("--dry-run").run().ok().unchanged();
    assert_eq!(dry.result()["dependents"], json!(names));

    let stopped = unit.tool("stop").run().ok().changed().warns("dependents_stopped");
    assert_eq!(stopped.result()["dependents"], json!(names));
    assert!([&near, &far, &part].iter().all(|one| !one.systemd.is_active(&one.name)));
    assert!(apart.systemd.is_active(&apart.name), "a unit that only wants it continues without it");
    assert!(!target.systemd.is_active(&target.name), "a target goes down with it, and is nothing to start again");

    // By itself a start starts none of them again.
    unit.start().run().ok().changed();
    assert!(!near.systemd.is_active(&near.name));
    let from = || tool(&unit.systemd, "start").args(["--settle", "300ms", "--from", "-"]).stdin(stopped.text());
    let dry = from().arg("--dry-run").run().ok().unchanged();
    assert_eq!(dry.result()["plan"].as_array().unwrap().len(), 3);
    let ran = from().run().ok().changed();
    assert_eq!(ran.result()["dependents"], json!(names));
    assert!([&near, &far, &part].iter().all(|one| one.systemd.is_active(&one.name)));
    assert!(!asleep.systemd.is_active(&asleep.name), "it was not running then");
    assert_eq!(from().run().ok().unchanged().result()["dependents"], json!([]));

    // Where others have started the unit, only what ran along with it is left to be started.
    let only = || from().arg("--dependents");
    only().run().ok().unchanged();
    unit.tool("stop").run().ok();
    only().run().refused("service_state").unchanged();
    unit.start().run().ok();
    assert_eq!(only().arg("--dry-run").run().ok().unchanged().result()["plan"].as_array().unwrap().len(), 3);
    assert_eq!(only().run().ok().changed().result()["dependents"], json!(names));
    assert!([&near, &far, &part].iter().all(|one| one.systemd.is_active(&one.name)) && !asleep.systemd.is_active(&asleep.name));
}

#[test]
fn a_dependent_that_does_not_start_again_is_for_a_person_to_look_at() {
    let folder = tempfile::tempdir().unwrap();
    let there = folder.path().join("there");
    fs::write(&there, "").unwrap();
    let unit = Own::new("whole", SIMPLE);
    let frail = Own::with(
        "frail",
        &format!("Requires={0}\nAfter={0}", unit.name),
        &format!("Type=exec\nExecStartPre=/usr/bin/test -e {}\n{SIMPLE}", there.display()),
    );
    frail.start().run().ok();
    let stopped = unit.tool("stop").run().ok().warns("dependents_stopped").text();
    fs::remove_file(there).unwrap();
    let ran = tool(&unit.systemd, "start")
        .args(["--settle", "300ms", "--from", "-"])
        .stdin(stopped)
        .run()
        .review("dependents_stopped")
        .changed();
    assert_eq!(ran.result()["dependents"], json!([]));
    assert!(unit.systemd.is_active(&unit.name));
}

#[test]
fn a_start_that_is_interrupted_at_a_dependent_names_the_dependent_to_wait_for() {
    let folder = tempfile::tempdir().unwrap();
    let slow = folder.path().join("slow");
    let unit = Own::new("cut-whole", SIMPLE);
    let late = Own::with(
        "cut-late",
        &format!("Requires={0}\nAfter={0}", unit.name),
        &format!("Type=exec\nExecStartPre=/bin/sh -c 'test ! -e {} || sleep 600'\n{SIMPLE}", slow.display()),
    );
    late.start().run().ok();
    let stopped = unit.tool("stop").run().ok().warns("dependents_stopped").text();
    fs::write(slow, "").unwrap();
    let start = tool(&unit.systemd, "start").args(["--settle", "0", "--from", "-"]).stdin(stopped);
    let spawned = once_activating(&late, start);
    spawned.signal(Signal::SIGTERM);
    let ran = spawned.wait().fails(143, "interrupted").changed();
    says(&ran, &format!("svc-unit wait user:{}", late.name));
    assert!(unit.systemd.is_active(&unit.name));
}
