//! Units of every kind and state.

use std::os::unix::fs::symlink;
use std::time::{Duration, SystemTime};

use crate::own::*;

#[test]
fn missing_unit_is_already_stopped_but_cannot_start() {
    let systemd = manager();
    let named = |step: &str| tool(&systemd, step).arg("user:unit-test-nobody.service");
    named("stop").run().ok().unchanged().has(&json!({"skipped": "not_there", "after/load_state": "not-found"}));
    for step in ["status", "start", "restart", "wait"] {
        named(step).run().fails(4, "unit_not_found").unchanged().has(&json!({"after/active_state": "inactive"}));
    }
    named("wait").args(["--for", "inactive"]).run().ok();
}

#[test]
fn commands_in_hints_quote_the_name_of_a_failed_or_masked_unit() {
    let unit = Own::new(r"quoted\x2dname", "Type=notify\nExecStart=/bin/false");
    let quoted = unit.name.replace('\\', r"\\");
    let hints = |ran: &Ran, words: String| assert!(ran.hint().contains(&words), "{words}\n{ran}");
    hints(&unit.start().run().fails(1, "unit_failed"), format!("journalctl --user -u \"{quoted}\""));
    let status = unit.tool("status").args(["--expect", "active"]);
    hints(&status.run().refused("service_state"), format!("svc-unit start \"user:{quoted}\""));
    fs::remove_file(unit.file()).unwrap();
    symlink("/dev/null", unit.file()).unwrap();
    os::run(unit.systemd.systemctl().arg("daemon-reload")).unwrap();
    assert_eq!(unit.status()["load_state"], "masked");
    for step in ["start", "restart", "wait"] {
        hints(&unit.tool(step).run().refused("unit_failed"), format!("systemctl --user unmask \"{quoted}\""));
    }
    unit.tool("stop").run().ok().unchanged();
}

#[test]
fn start_status_follows_outcome_of_unit() {
    for (name, unit, service, status, changed, state, tells) in [
        ("oneshot", "", "Type=oneshot\nExecStart=/bin/sleep 1", 0, true, "inactive", ""),
        ("oneshot-quick", "", "Type=oneshot\nExecStart=/bin/true", 0, true, "inactive", ""),
        ("oneshot-remains", "", "Type=oneshot\nRemainAfterExit=yes\nExecStart=/bin/true", 0, true, "active", ""),
        ("oneshot-fails", "", "Type=oneshot\nExecStart=/bin/false", 1, true, "failed", "exit status 1"),
        ("forking-fails", "", "Type=forking\nExecStart=/bin/sh -c 'exit 4'", 1, true, "failed", "exit-code"),
        // A simple unit counts as active as soon as it is forked, and may be seen so: none of these is active for a moment.
        ("crash", "", "Type=notify\nExecStart=/bin/sh -c 'exit 7'", 1, true, "failed", "failed (exit-code, exit status 7)"),
        ("no-program", "", "Type=exec\nExecStart=/nonexistent/program", 1, true, "failed", "did not start"),
        // systemctl is content with these.
        ("condition", "ConditionPathExists=/nonexistent", SIMPLE, 1, false, "inactive", "condition"),
        ("bad-setting", "", "Type=simple", 7, false, "inactive", "systemd-analyze --user verify"),
    ] {
        let ran = Own::with(name, unit, service).start().run();
        let found = (ran.status, &ran.doc()["changed"], after(&ran, "active_state"));
        assert_eq!(found, (status, &json!(changed), &json!(state)), "{name}\n{ran}");
        if status != 0 {
            ran.fails(status, "unit_failed").error_has(&[tells]);
        }
    }
}

#[test]
fn oneshot_started_by_others_is_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let done = folder.path().join("done");
    let unit = Own::new("oneshot-late", &done_once(&done));
    unit.systemctl(&["start", "--no-block"]);
    unit.waits_in("activating");
    let (spawned, _polls) = polled(unit.start(), || ());
    fs::write(done, "").unwrap();
    spawned.wait().ok().unchanged().has(&json!({"after/active_state": "inactive", "skipped": "already_so"}));
}

#[test]
fn restart_warns_of_unit_file_changed_without_reload() {
    let unit = Own::new("changed", SIMPLE);
    unit.start().run().ok();
    fs::write(unit.file(), format!("[Service]\n{SIMPLE}\nNice=5\n")).unwrap();
    // Other tests of this host make the manager read all files again, and the warning is gone then, rightly.
    let warned = || {
        fs::File::open(unit.file()).ok()?.set_modified(SystemTime::now() + Duration::from_secs(9)).ok()?;
        let ran = unit.tool("restart").args(["--settle", "0"]).run().ok();
        ran.doc()["warnings"].as_array()?.iter().any(|warning| warning["code"] == "external_warning").then_some(())
    };
    wait::so("the warning", warned);
}

#[test]
fn forking_unit_starts_when_program_is_in_background() {
    let folder = tempfile::tempdir().unwrap();
    let pid_file = folder.path().join("pid");
    let forks = format!("/bin/sh -c 'sleep 600 & echo $! >{}; sleep 1'", pid_file.display());
    let unit = Own::new("forking", &format!("Type=forking\nPIDFile={}\nExecStart={forks}", pid_file.display()));
    let ran = unit.start().run().ok().changed().has(&json!({"after/service_type": "forking"}));
    assert_eq!(after(&ran, "main_pid").to_string(), fs::read_to_string(&pid_file).unwrap().trim());
    // The first process ends well before the unit is active, and that is no restart.
    unit.start().run().ok().unchanged();
    unit.tool("stop").run().ok().changed();
}

#[test]
fn non_service_units_are_started_and_stopped() {
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
        let name = format!("unit_test_kind_{kind}{}", std::process::id());
        let _service = Own::named(format!("{name}.service"), "", SIMPLE);
        let unit = Own::named(format!("{name}.{kind}"), &sections, "");
        let started = unit.start().run().ok().changed().has(&json!({"after/service_type": null, "after/main_pid": null}));
        started.has(&json!({"after/active_state": "active", "after/sub_state": running}));
        unit.start().run().ok().unchanged();
        unit.tool("stop").run().ok().changed();
        assert_eq!(unit.status()["active_state"], "inactive");
    }
}
