//! Units of a system manager, in a whole Debian: its journal, and users without rights.

use serde_json::{Value, json};
use svc_tests::debian::Debian;

use crate::own::{after, says};

#[test]
#[ignore = "fetches and boots a whole Debian"]
fn under_a_system_manager_a_failure_carries_the_journal_and_a_user_without_rights_is_told_to_use_sudo() {
    if let Some(program) = Debian::missing() {
        return svc_tests::skip(&format!("the units of a system manager: there is no {program}"));
    }
    let folder = tempfile::tempdir().unwrap();
    let debian = Debian::boot(&folder.path().join("boot.log")).unwrap();
    let install = |name: &str, service: &str| {
        let text = format!("[Service]\n{service}\n");
        debian
            .run(&["sh", "-c", "printf %s \"$2\" >\"/etc/systemd/system/$1\" && systemctl daemon-reload", "install", name, &text])
            .unwrap();
    };
    let root = |step: &str| debian.tool("root", "svc-unit").arg(step);
    debian.run(&["useradd", "--system", "svc-operator"]).unwrap();
    let operator = |step: &str| debian.tool("svc-operator", "svc-unit").arg(step);
    let journal = |result: &Value| {
        result["journal"].as_array().unwrap().iter().map(|line| line.as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };

    // The unit that is meant where none is named, in the manager that is meant where none is named.
    install("svc.service", "ExecStart=/bin/sleep 600");
    let started = root("start").args(["--settle", "1s"]).run().ok().changed();
    assert_eq!((&started.result()["manager"], after(&started, "active_state")), (&json!("system"), &json!("active")));
    assert_eq!(journal(started.result()).len(), 0, "a success carries none");

    // Whoever has no rights may look.
    let seen = operator("status").run().ok().unchanged();
    assert_eq!(after(&seen, "main_pid"), after(&started, "main_pid"));
    for step in ["stop", "restart"] {
        let ran = operator(step).run().refused("permission_denied").unchanged();
        assert_eq!(ran.doc()["error"]["hint"], "Run the same command with sudo.");
    }
    let stopped = root("stop").run().ok().changed();
    operator("start").run().refused("permission_denied").unchanged();
    let back = root("start").args(["--settle", "1s", "--from", "-"]).stdin(stopped.text()).run().ok().changed();
    assert_ne!(after(&back, "main_pid"), after(&started, "main_pid"));

    // The last lines, of this call and not of an earlier one.
    let says_why =
        "i=0; while [ $i -lt 40 ]; do echo line $i; i=$((i+1)); done; sleep 2; echo no route to the database; sleep 1; exit 3";
    install("broken.service", &format!("ExecStart=/bin/sh -c '{says_why}'"));
    let ran = root("start").arg("broken").run().fails(1, "unit_failed").changed();
    says(&ran, "exit status 3");
    let lines = journal(ran.result());
    assert_eq!(lines.len(), 20, "{ran}");
    assert!(lines.iter().any(|line| line.ends_with("no route to the database")), "{ran}");
    assert!(lines.last().unwrap().contains("exit-code"), "{ran}");

    // One that has to be killed, as systemd itself reports it to a system service.
    install("deaf.service", "ExecStart=/bin/sh -c 'trap : TERM; while :; do sleep 0.1; done'\nTimeoutStopSec=1");
    root("start").args(["deaf", "--settle", "500ms"]).run().ok();
    let ran = root("stop").arg("deaf").run().review("unit_failed").changed();
    assert_eq!(after(&ran, "result"), "timeout");
    root("status").arg("nobody").run().fails(4, "unit_not_found");
}
