//! `svc-upgrade --auto-rollback`, and what is to be typed if it was interrupted while it rolled back.

use std::fs;
use std::path::{Path, PathBuf};

use nix::sys::signal::Signal;
use svc_tests::journey::{assert_back, id_of, installed, runs, still};
use svc_tests::product::Product;

use crate::cut::{How, cut};
use crate::journey::{is_committed, next, wait_until_free};

/// An installer in a folder of its own that wants its licence accepted, does that, and is another one then.
fn asking_installer(product: &Product, version: &str, does: &str, real: &Path) -> PathBuf {
    let does = format!("[ \"$1\" = --accept ] || exit 64\n{does}\nexec '{}'", real.display());
    product.script(&format!("beside/{}-{version}.run", product.name), &does)
}

#[test]
fn auto_rollback_uses_installer_beside_new_one() {
    let (product, before) = installed("reauto");
    asking_installer(&product, "1.15.5", ":", &product.installer("1.15.5"));
    // Another one by that name comes to the folder of installers meanwhile, which the preflight has not checked.
    let folder = product.path("late");
    let late = folder.join(format!("{}-1.15.5.run", product.name));
    fs::create_dir(&folder).unwrap();
    let installer = asking_installer(&product, "2.0.1", &format!(": >'{}'", late.display()), &product.failing_installer());
    let upgrade = product.tool("svc-upgrade").arg("--auto-rollback").env("SVC_INSTALLER_DIR", folder);
    let ran = upgrade.args(["--installer-arg", "--accept"]).arg(installer).run();
    let ran = ran.fails(1, "command_failed").changed();
    assert!(ran.hint().starts_with("It was rolled back: 1.15.5 runs again."), "{ran}");
    assert!(ran.hint().contains(&format!("svc-rollback --discard-previous {}", id_of(&inner(&product)))), "{ran}");
    assert_back(&product, &before);
    product.tool("svc-upgrade").arg("--resume").run().refused("not_resumable");
    assert!(next(&product, "svc-upgrade").starts_with("It was rolled back by the run "));
}

/// The rollback that the last upgrade has begun by itself.
fn inner(product: &Product) -> PathBuf {
    runs(product).into_iter().rfind(|run| run.to_string_lossy().contains("-rollback")).unwrap()
}

/// Upgrades with an installer that fails, is interrupted in the rollback, and types what `--status` says.
fn cut_in_the_rollback(product: &Product, point: &str, how: How) {
    let upgrade = product.tool("svc-upgrade").arg("--auto-rollback").arg(product.failing_installer());
    cut(product, upgrade, how, |run, other| run.to_string_lossy().contains("-rollback") && other == point).unwrap();
    wait_until_free(product, "svc-upgrade");
    let said = next(product, "svc-upgrade");
    let run = inner(product);
    let id = id_of(&run);
    if how == How::Alone {
        // The script of the rollback has continued.
        assert!(said.contains(&format!("It was rolled back by the run {id}")), "{said}");
    } else if is_committed(&run) {
        assert!(said.contains(&format!("svc-rollback --resume {id}")), "{said}");
        product.tool("svc-rollback").args(["--resume", &id]).run().ok();
    } else {
        assert!(said.contains("To go back to the version before: svc-rollback"), "{said}");
        assert!(!said.contains("svc-rollback --resume"), "{said}");
        product.tool("svc-rollback").run().ok();
    }
    // (What the killed run has left is undone before.)
    product.tool("svc-upgrade").arg("--resume").run().fails(3, "not_resumable");
    let id = id_of(&inner(product));
    for tool in ["svc-snap", "svc-pgrestore"] {
        product.tool(tool).args(["discard", "--run", &id]).run().ok();
    }
}

#[test]
#[ignore = "minutes: interrupted at each step of an upgrade's own rollback"]
fn interrupted_auto_rollback_is_finished_as_status_says() {
    let (product, before) = still("reautocut");
    let all = [
        ("swap-search.json", How::Killed),
        ("stage-search.started", How::Killed),
        ("stage-database.json", How::Asked(Signal::SIGTERM)),
        ("stop.started", How::Hung(Signal::SIGINT)),
        ("uninstall.started", How::Killed),
        ("swap-search.started", How::Alone),
        ("swap-database.started", How::Asked(Signal::SIGTERM)),
        ("installer.started", How::Killed),
        ("restore-configuration.json", How::Hung(Signal::SIGHUP)),
        ("start.started", How::Killed),
        ("marker.started", How::Alone),
    ];
    for (point, how) in all {
        eprintln!("interrupted at {point}, {how:?}");
        cut_in_the_rollback(&product, point, how);
        assert_back(&product, &before);
    }
}
