//! The installer of an upgrade: one that fails, one whose outcome is unknown, one that is still running.

use std::fs;
use std::path::PathBuf;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use svc_tests::journey::{installed, newest_run};
use svc_tests::product::Product;
use svc_tests::tool::Ran;
use svc_tests::wait;

use crate::cut::{A_WHILE, points};

/// Resumes the last run; while its installer is still running, that is refused with 8, and the error says nothing else.
fn resume(product: &Product, script: &str) -> Ran {
    wait::until("the run to be free to resume", A_WHILE, || {
        let ran = product.tool(script).arg("--resume").run();
        if ran.status == 8 {
            assert!(["external_running", "locked"].contains(&ran.doc()["error"]["code"].as_str().unwrap()), "{ran}");
            return None;
        }
        Some(ran)
    })
    .unwrap()
}

fn status(product: &Product, script: &str, wanted: &str) {
    let ran = product.tool(script).arg("--status").run();
    assert!(ran.status == 0 && ran.stdout.contains(wanted), "`{wanted}` is not in\n{}{}", ran.stdout, ran.stderr);
}

/// An installer that waits, with its process id in `pid`, as long as there is no file `go`, and is that of 2.0.1 then.
fn waiting_installer(product: &Product) -> PathBuf {
    let path = product.path("odd").join(format!("{}-2.0.1.run", product.name));
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let does = format!(
        "#!/bin/sh\n[ -e '{go}' ] && exec '{real}'\necho $PPID $$ >'{pid}.partial'; mv '{pid}.partial' '{pid}'\nexec sleep 600\n",
        go = product.path("go").display(),
        real = product.installer("2.0.1").display(),
        pid = product.path("pid").display()
    );
    svc_tests::os::write_program(&path, does).unwrap();
    path
}

#[test]
fn an_installer_whose_outcome_is_unknown_is_not_run_again_by_itself() {
    let (product, _) = installed("reunknown");
    let installer = waiting_installer(&product);
    let script = product.tool("svc-upgrade").arg(&installer).spawn();
    let pids = wait::until("the installer to be running", A_WHILE, || fs::read_to_string(product.path("pid")).ok()).unwrap();

    status(&product, "svc-upgrade", "It is running.");
    product.tool("svc-upgrade").arg(&installer).run().fails(8, "locked").unchanged();
    product.tool("svc-upgrade").arg("--resume").run().fails(8, "locked");
    script.signal_group(Signal::SIGKILL);
    assert_eq!(script.wait().status, 137);
    status(&product, "svc-upgrade", "a command that it has started is still running");
    product.tool("svc-upgrade").arg("--resume").run().fails(8, "external_running");

    // As where the host stops: the installer, and what waits for it.
    for pid in pids.split_whitespace() {
        kill(Pid::from_raw(pid.parse().unwrap()), Signal::SIGKILL).unwrap();
    }
    let unknown = resume(&product, "svc-upgrade").fails(3, "outcome_unknown");
    let hint = unknown.hint();
    assert!(hint.contains("svc-rollback") && hint.contains("--rerun-installer") && !hint.contains("To continue"), "{unknown}");
    fs::write(product.path("go"), "").unwrap();
    let again = || product.tool("svc-upgrade").args(["--resume", "--rerun-installer"]);
    // Not while the service runs: what it writes is in no restore point.
    product.tool("svc-unit").arg("start").run().ok();
    let active = again().run().refused("service_state");
    assert!(active.hint().contains("svc-unit stop"), "{active}");
    product.tool("svc-unit").arg("stop").run().ok();
    // What the run knows already is refused, and not recorded: the run can still be resumed.
    let told_twice = again().arg(&installer).run();
    assert!(told_twice.status == 2 && told_twice.stderr.contains("--resume takes no"), "{told_twice}");
    again().run().ok();
    assert_eq!(product.marker(), "2.0.1");
    product.tool("svc-upgrade").arg("--resume").run().refused("not_resumable");
}

#[test]
fn an_installer_that_has_failed_is_run_again_only_with_the_option() {
    let (product, _) = installed("refailed");
    product.tool("svc-upgrade").arg(product.failing_installer()).run().fails(1, "command_failed");
    product.tool("svc-upgrade").arg("--resume").run().refused("command_failed");
    status(&product, "svc-upgrade", "svc-rollback");
    let again = || product.tool("svc-upgrade").args(["--resume", "--rerun-installer"]);
    // As one that leaves no unit at all.
    fs::remove_file(product.host.systemd.unit_dir.join(product.unit())).unwrap();
    product.host.systemd.systemctl().arg("daemon-reload").output().unwrap();
    again().args(["--installer-arg", "odd"]).run().fails(1, "command_failed");
    // What was said then holds from then on: the installer is not run without it.
    again().run().fails(2, "options_invalid");
    let run = newest_run(&product);
    let installers = points(&run).iter().filter(|point| *point == "installer.json").count();
    assert_eq!(installers, 2, "{:?}", points(&run));
    // A restore point of what it has left would be none to go back to.
    product.tool("svc-upgrade").arg(product.installer("2.0.1")).run().refused("run_unfinished");
}

#[test]
fn an_installer_whose_holder_is_killed_keeps_everything_else_out_also_the_rollback_that_was_to_follow() {
    let (product, _) = installed("reholder");
    let installer = waiting_installer(&product);
    let script = product.tool("svc-upgrade").arg("--auto-rollback").arg(&installer).spawn();
    let pids = wait::until("the installer to be running", A_WHILE, || fs::read_to_string(product.path("pid")).ok()).unwrap();
    let pids: Vec<i32> = pids.split_whitespace().map(|pid| pid.parse().unwrap()).collect();
    kill(Pid::from_raw(pids[0]), Signal::SIGKILL).unwrap();
    let ran = script.wait().fails(8, "external_running");
    assert!(!ran.steps().contains(&"rollback"), "{ran}");
    product.tool("svc-rollback").run().fails(8, "external_running").unchanged();
    kill(Pid::from_raw(pids[1]), Signal::SIGKILL).unwrap();
    resume(&product, "svc-upgrade").fails(3, "outcome_unknown");
}
