//! Units of a system manager, in a whole Debian. (Who may stop them there is in `whole_host`.)

use serde_json::json;
use svc_tests::debian::Debian;

use crate::own::{DEAF, after, says};

#[test]
#[ignore = "fetches and boots a whole Debian"]
fn system_manager_reports_journal_and_killed_unit() {
    if let Some(program) = Debian::missing() {
        return svc_tests::skip(&format!("the units of a system manager: there is no {program}"));
    }
    let folder = tempfile::tempdir().unwrap();
    let debian = Debian::boot(&folder.path().join("boot.log")).unwrap();
    let install = |name: &str, service: &str| {
        let text = format!("[Service]\n{service}\n");
        let write = "printf %s \"$2\" >\"/etc/systemd/system/$1\" && systemctl daemon-reload";
        debian.run(&["sh", "-c", write, "install", name, &text]).unwrap();
    };
    let root = |step: &str| debian.tool("root", "svc-unit").arg(step);

    // The unit that is meant where none is named, in the manager that is meant where none is named.
    install("svc.service", "ExecStart=/bin/sleep 600");
    let started = root("start").args(["--settle", "1s"]).run().ok().changed();
    assert_eq!((&started.result()["manager"], after(&started, "active_state")), (&json!("system"), &json!("active")));
    assert_eq!(started.result()["journal"], json!([]), "a success carries none");

    // The last lines, of this call and not of an earlier one.
    let lines = "i=0; while [ $i -lt 40 ]; do echo line $i; i=$((i+1)); done";
    install(
        "broken.service",
        &format!("ExecStart=/bin/sh -c '{lines}; sleep 2; echo no route to the database; sleep 1; exit 3'"),
    );
    let ran = root("start").arg("broken").run().fails(1, "unit_failed").changed();
    says(&ran, "exit status 3");
    let lines: Vec<&str> = ran.result()["journal"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect();
    assert_eq!(lines.len(), 20, "{ran}");
    assert!(lines.iter().any(|line| line.ends_with("no route to the database")), "{ran}");
    assert!(lines.last().unwrap().contains("exit-code"), "{ran}");

    // As systemd itself reports it to a system service.
    install("deaf.service", &format!("{DEAF}\nTimeoutStopSec=1"));
    root("start").args(["deaf", "--settle", "500ms"]).run().ok();
    assert_eq!(after(&root("stop").arg("deaf").run().review("unit_failed").changed(), "result"), "timeout");
}
