//! Which unit is meant, by which document, and what a dry run says.

use serde_json::json;
use svc_tests::tool::{Ran, Tool};

use crate::own::{Own, SIMPLE, manager, says, tool};

#[test]
fn a_unit_is_started_from_a_document_only_if_it_was_running_then() {
    let unit = Own::new("from", SIMPLE);
    let start_from = |text: String| tool(&unit.systemd, "start").args(["--settle", "300ms", "--from", "-"]).stdin(text);

    let asleep = unit.tool("status").run().ok().text();
    let ran = start_from(asleep).run().ok().unchanged();
    assert_eq!(ran.result()["skipped"], "was_not_running");
    assert!(!unit.systemd.is_active(&unit.name));

    unit.start().run().ok();
    let awake = unit.tool("status").run().ok().text();
    let stopped = unit.tool("stop").run().ok().text();
    let ran = start_from(stopped).run().ok().changed();
    assert_eq!(ran.result()["unit"], unit.name.as_str());
    assert_eq!(ran.result()["manager"], "user");
    unit.tool("stop").run().ok();
    // The unit of the document comes before that of the environment.
    start_from(awake.clone()).env("SVC_UNIT", "user:unit-test-nobody.service").run().ok().changed();
    start_from(awake).arg("user:unit-test-nobody.service").run().fails(2, "from_invalid").unchanged();

    let stopped = unit.tool("stop").run().ok().text();
    let dry = unit.tool("stop").arg("--dry-run").run().ok().text();
    start_from(dry).run().fails(2, "from_invalid").unchanged();
    start_from(format!("{stopped}{stopped}")).run().fails(2, "from_invalid").unchanged();
    start_from(stopped[..stopped.len() / 2].to_owned()).run().fails(2, "from_damaged").unchanged();
    start_from(String::new()).run().fails(2, "from_damaged").unchanged();
    let missing = tool(&unit.systemd, "status").arg("user:unit-test-nobody.service").run().text();
    let ran = start_from(missing).run().fails(2, "unit_not_found").unchanged();
    says(&ran, "unit-test-nobody");
    assert!(!unit.systemd.is_active(&unit.name));
}

#[test]
fn a_dry_run_prints_the_command_and_does_nothing() {
    let unit = Own::new("dry", SIMPLE);
    let argv = |ran: &Ran| ran.result()["plan"][0]["argv"].clone();
    let ran = unit.tool("start").arg("--dry-run").run().ok().unchanged();
    assert_eq!(argv(&ran), json!(["systemctl", "--user", "--no-pager", "--no-ask-password", "start", "--", unit.name]));
    assert!(!unit.systemd.is_active(&unit.name));
    unit.start().run().ok();
    for step in ["stop", "restart"] {
        let before = unit.status();
        let ran = unit.tool(step).arg("--dry-run").run().ok().unchanged();
        assert_eq!(argv(&ran)[4], step);
        assert_eq!(unit.status(), before);
    }
    // Nothing to do is nothing to plan.
    assert_eq!(unit.tool("start").arg("--dry-run").run().ok().result()["plan"], json!([]));
}

#[test]
fn the_unit_is_that_of_the_command_line_then_of_the_environment_then_the_products() {
    let systemd = manager();
    let of = |tool: Tool| {
        let ran = tool.run();
        (
            ran.result()["unit"].as_str().unwrap_or_default().to_owned(),
            ran.result()["manager"].as_str().unwrap_or_default().to_owned(),
        )
    };
    let pair = |unit: &str| (unit.to_owned(), "user".to_owned());
    let status = || tool(&systemd, "status").arg("--user");
    assert_eq!(of(status()), pair("svc.service"));
    assert_eq!(of(status().env("SVC_NAME", "unit-test-none")), pair("unit-test-none.service"));
    assert_eq!(of(status().env("SVC_NAME", "x").env("SVC_UNIT", "unit-test-env")), pair("unit-test-env.service"));
    assert_eq!(of(status().env("SVC_UNIT", "unit-test-env").arg("unit-test-arg.socket")), pair("unit-test-arg.socket"));
    assert_eq!(of(tool(&systemd, "status").env("SVC_UNIT", "user:unit-test-env")), pair("unit-test-env.service"));
    assert_eq!(of(status().arg("my.app")), pair("my.app.service"));
    assert_eq!(of(status().arg("postgresql@15-main")), pair("postgresql@15-main.service"));
    for wrong in ["*", "svc?.service", "[a]", "a b", "/dev/sda", "svc@.service", "svc@", "@x", "", "user:", "--all"] {
        assert_eq!(status().arg(wrong).run().status, 2, "{wrong}");
    }
    let [tcp, url] = ["--ready-tcp", "--ready-url"];
    for wrong in [(tcp, "nonsense"), (tcp, ":80"), (tcp, "a:0"), (tcp, "a:99999"), ("--settle", "soon")].into_iter().chain([
        (url, "ftp://x"),
        (url, "/ready"),
        (url, "http://u:p@x/"),
    ]) {
        assert_eq!(tool(&systemd, "start").args([wrong.0, wrong.1]).run().status, 2, "{wrong:?}");
    }
    for right in [(tcp, "[::1]:80"), (url, "https://svc.example")] {
        let missing = tool(&systemd, "start").args([right.0, right.1]).arg("user:unit-test-nobody").run();
        missing.fails(4, "unit_not_found");
    }
}
