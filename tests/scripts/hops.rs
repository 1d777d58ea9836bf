//! `svc-upgrade` over several versions: hop by hop, each with a restore point of its own.

use svc_tests::journey::prelude::*;

#[test]
fn failed_second_hop_leaves_first_hop_in_place() {
    let product = Product::new("hopsfail").unwrap();
    product.install("1.14.2", 100).unwrap();
    // A way that is not supported is refused, and the service never notices.
    let process = product.process();
    product.upgrade().run().refused("version_unsupported");
    assert_eq!((product.process(), product.backup_dir().exists()), (process, false));
    // An installer's arguments are passed on to the hop that is resumed. (These installers take none.)
    let hops = || product.tool("svc-upgrade").arg(product.installer("1.15.5")).arg(product.failing_installer());
    // A first hop that fails before its installer has changed nothing, and keeps no upgrade out.
    let fails = "case $* in *--dry-run*) ;; *--output*) exit 1 ;; esac";
    hops().stub(&product.path("stub"), "svc-pgdump", fails).run().fails(1, "no_document");
    assert!(product.is_active() && product.marker() == "1.14.2");
    let told = hops().args(["-v", "--installer-arg", "odd"]).run().fails(1, "command_failed");
    for wanted in ["--rerun-installer --installer-arg ARG", "svc-rollback --installer-arg ARG"] {
        assert!(told.hint().contains(wanted), "{told}");
    }
    // A hop gives its own account if that is asked for.
    let account = |line: &str| line.starts_with("svc-upgrade: run ") && line.contains("-upgrade-1.15.5 in ");
    assert!(told.stderr.lines().any(account), "{told}");
    let again = || product.tool("svc-upgrade").args(["--resume", "--rerun-installer"]);
    again().args(["--installer-arg", "odd"]).run().fails(1, "command_failed");

    // The installers may lie in different directories.
    let first = product.path("first");
    fs::create_dir(&first).unwrap();
    fs::rename(product.installer("1.14.2"), first.join(product.installer("1.14.2").file_name().unwrap())).unwrap();
    let ran = hops().env("SVC_INSTALLER_DIR", &first).arg("--ignore-unfinished").run().fails(1, "command_failed").changed();
    let hops = ran.result()["hops"].as_array().unwrap();
    let of = |key: &str| hops.iter().map(|hop| hop[key].clone()).collect::<Vec<_>>();
    assert_eq!(of("ok"), [true, false], "{ran}");
    assert_eq!(of("version"), ["1.15.5", "2.0.1"], "{ran}");
    assert!(hops.iter().all(|hop| PathBuf::from(hop["restore_point"].as_str().unwrap()).join("SHA256SUMS").exists()), "{ran}");
    let hint = ran.hint();
    // The hop that failed is resumed by the run of all hops.
    let resumed: Vec<&str> = hint.split("--resume ").skip(1).filter_map(|rest| rest.split_whitespace().next()).collect();
    assert!(hint.contains("svc-rollback") && !resumed.is_empty() && resumed.iter().all(|id| *id == ran.id()), "{ran}");

    // The hop that failed is taken back, and the one before it stays; the same run resumes from there.
    let back = product.tool("svc-rollback").run().ok();
    assert_eq!(point_of(&back).to_str(), hops[1]["restore_point"].as_str());
    assert_eq!(product.marker(), "1.15.5");
    product.tool("svc-upgrade").arg("--resume").run().refused("not_resumable");

    // One that takes itself back cannot be resumed.
    let auto = product.tool("svc-upgrade").args(["--to", "2.0.1", "--auto-rollback", "--from-dir"]);
    let auto = auto.arg(product.path("installers/failing")).run().fails(1, "command_failed");
    assert!(auto.hint().contains("The remaining hops are an upgrade of their own"), "{auto}");
    assert!(!auto.hint().contains("svc-upgrade --resume"), "{auto}");
    assert!(product.is_active() && product.marker() == "1.15.5");
}

#[test]
fn upgrade_to_version_runs_every_hop_and_each_is_rolled_back() {
    let product = Product::new("hopsto").unwrap();
    let before = product.install_still("1.14.2", 100).unwrap();
    product.start();
    let to = || product.tool("svc-upgrade").args(["--to", "2.0.1", "--from-dir"]).arg(product.path("installers"));
    let nowhere = product.tool("svc-upgrade").args(["--to", "2.0.1"]).env_remove("SVC_INSTALLER_DIR").run();
    nowhere.fails(2, "options_invalid").error_has(&["--from-dir"]);
    let planned = to().arg("--dry-run").talks().run().ok().unchanged();
    assert_eq!(planned.result()["plan"].as_array().unwrap().len(), 2, "{planned}");

    // Killed in a hop, it is resumed as the run of all hops: that hop begins again, or continues if its installer has started.
    signal_at(&product, to(), (Signal::SIGKILL, true), "dump.started");
    once_free(|| product.tool("svc-run").arg("recover")).ok();
    let outer = runs(&product).iter().map(|run| id_of(run)).rfind(|id| id.ends_with("-upgrade-hops")).unwrap();
    let resume = || product.tool("svc-upgrade").args(["--resume", &outer]);
    product.tool("svc-upgrade").arg("--status").run().exits(0, &[&format!("svc-upgrade --resume {outer}")]);
    signal_at(&product, resume(), (Signal::SIGKILL, true), "installer.started");
    let ran = once_free(resume).ok();
    assert_eq!(ran.result()["version"], "2.0.1");
    assert_eq!(product.marker(), "2.0.1");
    to().run().refused("version_unsupported");

    // As if it were killed between the end of the last hop, and the moment at which it keeps what that hop has said.
    let run = ran.run_dir();
    names_in(&run).iter().filter(|name| name.ends_with("hop-2.json") || name.starts_with("document.")).for_each(|name| {
        fs::remove_file(run.join(name)).unwrap();
    });
    let ran = resume().run().ok();
    assert_eq!(ran.result()["version"], "2.0.1");
    let hops: Vec<_> = ran.result()["hops"].as_array().unwrap().iter().filter(|hop| hop["ok"] == true).collect();
    assert_eq!(hops.len(), 2, "{ran}");

    for (hop, version) in hops.iter().zip(["1.14.2", "1.15.5"]).rev() {
        product.tool("svc-rollback").arg(hop["restore_point"].as_str().unwrap()).run().ok();
        assert_eq!(product.marker(), version);
    }
    assert_eq!(product.content().unwrap(), before);
}
