//! Which unit is meant, by which document, and what a dry run says.

use crate::own::*;

#[test]
fn start_from_document_skips_unit_not_running_then() {
    let unit = Own::new("from", SIMPLE);
    let asleep = unit.tool("status").run().ok().text();
    unit.start_from(asleep).run().ok().unchanged().has(&json!({"skipped": "was_not_running"}));
    assert!(!unit.is_active());

    unit.start().run().ok();
    let stopped = unit.tool("stop").run().ok().text();
    unit.start_from(&*stopped).run().ok().changed().has(&json!({"unit": unit.name, "manager": "user"}));
    // The unit of the document comes before that of the environment, and beside one of the command line there is no document.
    unit.tool("stop").run().ok();
    unit.start_from(&*stopped).env("SVC_UNIT", "user:unit-test-nobody.service").run().ok().changed();
    unit.start_from(stopped).arg("user:unit-test-nobody.service").run().fails(2, "from_invalid").unchanged();
    let missing = tool(&unit.systemd, "status").arg("user:unit-test-nobody.service").run().text();
    unit.start_from(missing).run().fails(2, "unit_not_found").unchanged().error_has(&["unit-test-nobody"]);
}

#[test]
fn dry_run_prints_systemctl_command_without_change() {
    let unit = Own::new("dry", SIMPLE);
    let dry = |step: &str| {
        let before = unit.status();
        let ran = unit.tool(step).arg("--dry-run").run().ok().unchanged();
        assert_eq!(unit.status(), before);
        ran.result()["plan"].clone()
    };
    let wanted = |step: &str| json!(["systemctl", "--user", "--no-pager", "--no-ask-password", step, "--", unit.name]);
    assert_eq!(dry("start")[0]["argv"], wanted("start"));
    unit.start().run().ok();
    assert_eq!(["stop", "restart"].map(|step| dry(step)[0]["argv"].clone()), ["stop", "restart"].map(wanted));
    // Nothing to do is nothing to plan.
    assert_eq!(dry("start"), json!([]));
}

#[test]
fn unit_argument_wins_over_environment_and_default() {
    let systemd = manager();
    let status = || tool(&systemd, "status").arg("--user");
    let told = |ran: &Ran| ["unit", "manager"].map(|key| ran.result()[key].as_str().unwrap_or_default().to_owned());
    let cases: [(Tool, &str); 7] = [
        (status(), "svc.service"),
        (status().env("SVC_NAME", "unit-test-none"), "unit-test-none.service"),
        (status().env("SVC_NAME", "x").env("SVC_UNIT", "unit-test-env"), "unit-test-env.service"),
        (status().env("SVC_UNIT", "unit-test-env").arg("unit-test-arg.socket"), "unit-test-arg.socket"),
        (tool(&systemd, "status").env("SVC_UNIT", "user:unit-test-env"), "unit-test-env.service"),
        (status().arg("my.app"), "my.app.service"),
        (status().arg("postgresql@15-main"), "postgresql@15-main.service"),
    ];
    for (call, wanted) in cases {
        assert_eq!(told(&call.run()), [wanted, "user"]);
    }
    for wrong in ["*", "svc?.service", "[a]", "a b", "/dev/sda", "svc@.service", "svc@", "@x", "", "user:", "--all"] {
        assert_eq!(status().arg(wrong).run().status, 2, "{wrong}");
    }
}

#[test]
fn invalid_ready_address_exits_2() {
    let systemd = manager();
    let start = |option: &str, value: &str| tool(&systemd, "start").args([option, value]).arg("user:unit-test-nobody").run();
    for (option, wrong) in [
        ("--ready-tcp", ["nonsense", ":80", "a:0", "a:99999"].as_slice()),
        ("--ready-url", &["ftp://x", "/ready", "http://u:hush@x/"]),
        ("--settle", &["soon"]),
    ] {
        wrong.iter().for_each(|wrong| drop(start(option, wrong).exits(2, &[option]).without(&["hush"])));
    }
    for (option, right) in [("--ready-tcp", "[::1]:80"), ("--ready-url", "https://svc.example")] {
        start(option, right).fails(4, "unit_not_found");
    }
}
