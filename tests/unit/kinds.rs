//! Units of every kind and state.

use std::fs;
use std::time::Duration;

use serde_json::{Value, json};
use svc_tests::wait;

use crate::own::{Own, SIMPLE, after, manager, says, tool};

#[test]
fn a_unit_that_is_not_there_is_stopped_already_and_cannot_be_anything_else() {
    let systemd = manager();
    let named = |step: &str| tool(&systemd, step).arg("user:unit-test-nobody.service");
    let stopped = named("stop").run().ok().unchanged();
    assert_eq!(stopped.result()["skipped"], "not_there");
    assert_eq!(after(&stopped, "load_state"), "not-found");
    for step in ["status", "start", "restart", "wait"] {
        let ran = named(step).run().fails(4, "unit_not_found").unchanged();
        assert_eq!(after(&ran, "active_state"), "inactive");
    }
    named("wait").args(["--for", "inactive"]).run().ok();
}

#[test]
fn a_masked_unit_is_refused_with_the_command_that_unmasks_it() {
    let unit = Own::new("masked", SIMPLE);
    fs::remove_file(unit.file()).unwrap();
    std::os::unix::fs::symlink("/dev/null", unit.file()).unwrap();
    unit.reload();
    assert_eq!(unit.status()["load_state"], "masked");
    for step in ["start", "restart", "wait"] {
        let ran = unit.tool(step).run().refused("unit_failed");
        says(&ran, &format!("systemctl --user unmask {}", unit.name));
    }
    unit.tool("stop").run().ok().unchanged();
}

#[test]
fn a_unit_file_that_cannot_be_used_is_invalid_with_the_managers_reason() {
    let unit = Own::new("broken", "Type=simple");
    assert_eq!(unit.status()["load_state"], "bad-setting");
    let ran = unit.start().run().fails(7, "unit_failed").unchanged();
    says(&ran, "bad-setting");
    says(&ran, "systemd-analyze --user verify");
}

#[test]
fn a_oneshot_unit_is_started_when_it_has_done_its_work() {
    let unit = Own::new("oneshot", "Type=oneshot\nExecStart=/bin/sleep 1");
    let ran = unit.start().run().ok().changed();
    assert_eq!(after(&ran, "active_state"), "inactive");
    let quick = Own::new("oneshot-quick", "Type=oneshot\nExecStart=/bin/true");
    quick.start().run().ok().changed();
    let remains = Own::new("oneshot-remains", "Type=oneshot\nRemainAfterExit=yes\nExecStart=/bin/true");
    let ran = remains.start().run().ok().changed();
    assert_eq!((after(&ran, "active_state"), after(&ran, "sub_state")), (&json!("active"), &json!("exited")));
    remains.start().run().ok().unchanged();
    let under_way = Own::new("oneshot-late", "Type=oneshot\nExecStart=/bin/sleep 4");
    under_way.systemctl(&["start", "--no-block"]);
    under_way.waits_in("activating");
    let again = under_way.start().run().ok().unchanged();
    assert_eq!((after(&again, "active_state"), &again.result()["skipped"]), (&json!("inactive"), &json!("already_so")));
    let fails = Own::new("oneshot-fails", "Type=oneshot\nExecStart=/bin/false");
    fails.start().run().fails(1, "unit_failed").changed();
}

#[test]
fn a_unit_whose_condition_is_not_met_was_not_started_although_systemctl_is_content() {
    let unit = Own::with("condition", "ConditionPathExists=/nonexistent", SIMPLE);
    let ran = unit.start().run().fails(1, "unit_failed").unchanged();
    says(&ran, "condition");
}

#[test]
fn a_unit_file_that_was_changed_but_not_read_again_is_warned_of() {
    let unit = Own::new("changed", SIMPLE);
    unit.start().run().ok();
    fs::write(unit.file(), format!("[Service]\n{SIMPLE}\nNice=5\n")).unwrap();
    fs::File::open(unit.file()).unwrap().set_modified(std::time::SystemTime::now() + Duration::from_secs(5)).unwrap();
    // Other tests of this host make the manager read all files again, and the warning is gone then, rightly.
    wait::until("the warning", svc_tests::wait::HANG, || {
        fs::File::open(unit.file()).ok()?.set_modified(std::time::SystemTime::now() + Duration::from_secs(9)).ok()?;
        let ran = unit.tool("restart").args(["--settle", "0"]).run().ok();
        ran.doc()["warnings"].as_array()?.iter().any(|warning| warning["code"] == "external_warning").then_some(())
    })
    .unwrap();
}

#[test]
fn a_forking_unit_is_started_when_its_program_has_gone_into_the_background() {
    let folder = tempfile::tempdir().unwrap();
    let pid_file = folder.path().join("pid");
    let forks = format!("/bin/sh -c 'sleep 600 & echo $! >{}; sleep 1'", pid_file.display());
    let unit = Own::new("forking", &format!("Type=forking\nPIDFile={}\nExecStart={forks}", pid_file.display()));
    let ran = unit.start().run().ok().changed();
    assert_eq!(after(&ran, "service_type"), "forking");
    assert_eq!(after(&ran, "main_pid").to_string(), fs::read_to_string(&pid_file).unwrap().trim());
    // The first process ends well before the unit is active, and that is no restart.
    unit.start().run().ok().unchanged();
    unit.tool("stop").run().ok().changed();
    let fails = Own::new("forking-fails", "Type=forking\nExecStart=/bin/sh -c 'sleep 1; exit 4'");
    let ran = fails.start().run().fails(1, "unit_failed").changed();
    assert_eq!(after(&ran, "result"), "exit-code");
}

#[test]
fn an_instance_of_a_template_is_a_unit_of_its_own() {
    let template = Own::named(format!("unit-test-template-{}@.service", std::process::id()), "", "ExecStart=/bin/sleep 60%i");
    let one = |step: &str, instance: &str| {
        tool(&template.systemd, step).arg(format!("user:{}", template.name.replace('@', &format!("@{instance}"))))
    };
    let start = |instance: &str| one("start", instance).args(["--settle", "300ms"]);
    let ran = start("1").run().ok().changed();
    assert_eq!(ran.result()["unit"], template.name.replace('@', "@1"));
    start("2").run().ok().changed();
    one("stop", "1").run().ok().changed();
    assert_eq!(one("status", "1").run().ok().result()["after"]["active_state"], "inactive");
    assert_eq!(one("status", "2").run().ok().result()["after"]["active_state"], "active");
    // One that was never started is no missing unit: its file is the template.
    assert_eq!(one("status", "3").run().ok().result()["after"]["load_state"], "loaded");
    one("stop", "2").run().ok().changed();
    assert_eq!(one("status", "").run().status, 2, "the template itself cannot be started");
}

#[test]
fn units_that_are_no_services_are_started_held_and_stopped_too() {
    let folder = tempfile::tempdir().unwrap();
    let [socket, there] = ["socket", "there"].map(|name| folder.path().join(name).display().to_string());
    for (kind, sections, running) in [
        ("target", String::new(), "active"),
        ("timer", "[Timer]\nOnActiveSec=1h".to_owned(), "waiting"),
        ("path", format!("[Path]\nPathExists={there}"), "waiting"),
        ("socket", format!("[Socket]\nListenStream={socket}"), "listening"),
        ("slice", String::new(), "active"),
    ] {
        // What a timer, a path or a socket would start.
        let name = format!("unit-test-kind-{kind}{}", std::process::id());
        let name = name.replace('-', if kind == "slice" { "_" } else { "-" });
        let service = Own::named(format!("{name}.service"), "", SIMPLE);
        let unit = Own::named(format!("{name}.{kind}"), &sections, "");
        let ran = unit.start().run().ok().changed();
        assert_eq!((after(&ran, "active_state"), after(&ran, "sub_state")), (&json!("active"), &json!(running)), "{ran}");
        assert_eq!((after(&ran, "service_type"), after(&ran, "main_pid")), (&Value::Null, &Value::Null));
        unit.start().run().ok().unchanged();
        unit.tool("stop").run().ok().changed();
        assert_eq!(unit.status()["active_state"], "inactive");
        drop((service, unit));
    }
}
