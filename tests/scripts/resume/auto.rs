//! `svc-upgrade --auto-rollback`, and what is to be typed if it was interrupted while it rolled back.

use svc_tests::journey::prelude::*;

use crate::cut::{How, cut};
use crate::journey::{next, wait_until_free};

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
    let ran = upgrade.args(["--installer-arg", "--accept"]).arg(installer).run().fails(1, "command_failed").changed();
    assert!(ran.hint().starts_with("It was rolled back: 1.15.5 runs again."), "{ran}");
    assert!(ran.hint().contains(&format!("svc-rollback --discard-previous {}", id_of(&inner(&product)))), "{ran}");
    assert_back(&product, &before);
    product.tool("svc-upgrade").arg("--resume").run().refused("not_resumable");
    assert!(next(&product, "svc-upgrade").starts_with("It was rolled back by the run "));

    let removes = product.installer_that("rm \"$SVC_BACKUP_DIR\"/*-upgrade-*/SHA256SUMS; exit 1");
    let ran = product.tool("svc-upgrade").arg("--auto-rollback").arg(removes).run().fails(1, "command_failed");
    assert!(ran.hint().starts_with("The automatic rollback failed too.\n"), "{ran}");
    assert!(ran.hint().contains("To go back to the version before:\n  svc-rollback"), "{ran}");
}

/// The rollback that the last upgrade has begun by itself.
fn inner(product: &Product) -> PathBuf {
    runs(product).into_iter().rfind(|run| run.to_string_lossy().contains("-rollback")).unwrap()
}

#[test]
#[ignore = "minutes: three upgrades that are interrupted in their own rollback"]
fn interrupted_auto_rollback_is_finished_as_status_says() {
    let (product, before) = still("reautocut");
    for (point, how, says) in [
        ("stage-search.started", How::Killed, "To go back to the version before: svc-rollback"),
        ("swap-search.started", How::Killed, "svc-rollback --resume ID"),
        // The script of the rollback continues.
        ("swap-database.started", How::Alone, "It was rolled back by the run ID"),
    ] {
        let upgrade = product.tool("svc-upgrade").arg("--auto-rollback").arg(product.failing_installer());
        cut(&product, upgrade, how, |run, other| run.to_string_lossy().contains("-rollback") && other == point).unwrap();
        wait_until_free(&product, "svc-upgrade");
        let (said, id) = (next(&product, "svc-upgrade"), id_of(&inner(&product)));
        assert!(said.contains(&says.replace("ID", &id)), "interrupted at {point}: {said}");
        let resumes = said.contains("svc-rollback --resume");
        assert_eq!(resumes, says.contains("--resume"), "interrupted at {point}: {said}");
        if how == How::Killed {
            let rollback = product.tool("svc-rollback");
            if resumes { rollback.args(["--resume", &id]) } else { rollback }.run().ok();
        }
        // (What the killed run has left is undone before.)
        product.tool("svc-upgrade").arg("--resume").run().fails(3, "not_resumable");
        assert_back(&product, &before);
        product.tool("svc-rollback").arg("--discard-previous").run().ok();
    }
}
