//! The installer of an upgrade whose outcome is unknown, or that is still running.

use svc_tests::journey::prelude::*;

#[test]
fn installer_with_unknown_outcome_needs_rerun_option() {
    let (product, _) = installed("reunknown");
    // It waits, with its process and that of its holder in `pid`, as long as there is no file `go`, and is that of 2.0.1 then.
    let (go, pid) = (product.path("go"), product.path("pid"));
    let waits = "[ -e 'GO' ] && exec 'REAL'\necho $PPID $$ >'AT.partial'; mv 'AT.partial' 'AT'\nexec sleep 600";
    let waits = [("GO", &go), ("AT", &pid), ("REAL", &product.installer("2.0.1"))]
        .into_iter()
        .fold(waits.to_owned(), |text, (word, path)| text.replace(word, &path.display().to_string()));
    let installer = product.installer_that(&waits);
    let is_running = || {
        let pids = wait::so("the installer to be running", || fs::read_to_string(&pid).ok());
        fs::remove_file(&pid).unwrap();
        let [holder, installer] = [0, 1].map(|n| Pid::from_raw(pids.split_whitespace().nth(n).unwrap().parse().unwrap()));
        (holder, installer)
    };
    let upgrade = || product.tool("svc-upgrade").arg(&installer);
    let resume = || product.tool("svc-upgrade").arg("--resume");
    let status = || product.tool("svc-upgrade").arg("--status").run().stdout;
    // If its holder alone is killed it is kept apart from all else, and from the rollback that is to follow.
    let script = upgrade().arg("--auto-rollback").spawn();
    let (holder, itself) = is_running();
    let recorded = newest_run(&product).join(wait::so("the holder's record", || {
        names_in(&newest_run(&product)).into_iter().find(|name| name.ends_with("-installer.process"))
    }));
    wait::so("the installer in it", || (!fs::read_to_string(&recorded).unwrap().trim().is_empty()).then_some(()));
    kill(holder, Signal::SIGKILL).unwrap();
    let ran = script.wait().fails(8, "external_running");
    assert!(!ran.steps().contains(&"rollback"), "{ran}");
    product.tool("svc-rollback").run().fails(8, "external_running").unchanged();
    kill(itself, Signal::SIGKILL).unwrap();
    let back = once_free(resume).fails(3, "outcome_unknown");
    assert!(back.hint().starts_with("It was rolled back: 1.15.5 runs again.") && product.is_active(), "{back}");

    let script = upgrade().spawn();
    let (holder, itself) = is_running();
    assert!(status().contains("It is running."), "{}", status());
    upgrade().run().fails(8, "locked").unchanged();
    resume().run().fails(8, "locked");
    script.signal_group(Signal::SIGKILL);
    assert_eq!(script.wait().status, 137);
    assert!(status().contains("a command that it has started is still running"), "{}", status());
    resume().run().fails(8, "external_running");
    // As if the host had stopped: the installer, and what waits for it.
    [holder, itself].into_iter().for_each(|pid| kill(pid, Signal::SIGKILL).unwrap());
    let unknown = once_free(resume).fails(3, "outcome_unknown");
    let hint = unknown.hint();
    assert!(hint.contains("svc-rollback") && hint.contains("--rerun-installer") && !hint.contains("To continue"), "{unknown}");

    fs::write(go, "").unwrap();
    let again = || resume().arg("--rerun-installer");
    // Not while the service runs: what it writes is in no restore point.
    let enabled = |verb: &str| product.host.systemd.control(&[verb, &product.unit()]).unwrap();
    enabled("enable");
    product.start();
    again().run().refused("service_state").error_has(&["svc-unit stop"]);
    product.tool("svc-unit").arg("stop").run().ok();
    again().run().ok().warns("not_quiesced");
    enabled("disable");
    assert_eq!(product.marker(), "2.0.1");
    resume().run().refused("not_resumable");
}
