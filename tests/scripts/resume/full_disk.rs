//! Disks that become full in the middle of an upgrade or of a rollback.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;
use svc_tests::bare::{Bare, undo};
use svc_tests::disk::SmallDisk;
use svc_tests::journey::count_in;
use svc_tests::product::Product;
use svc_tests::tool::{Tool, bin_dir};

use crate::cut::How;
use crate::journey::Journey;

/// At each point of the journal the disk of a folder is full until the script has ended; gives the points of both ways.
fn full_at_every_step(
    name: &str,
    folder: impl FnOnce(&Product) -> PathBuf,
    how: fn(&'static Path) -> How,
) -> (BTreeSet<String>, BTreeSet<String>) {
    let product = Product::new(name).unwrap();
    let folder: &'static Path = Box::leak(folder(&product).into_boxed_path());
    let mut journey = Journey::on_small_disk(product, folder);
    let (mut there, mut back) = (BTreeSet::new(), BTreeSet::new());
    journey.there(&[how(folder)], |point| there.insert(point.to_owned()));
    journey.back(&[how(folder)], |point| back.insert(point.to_owned()));
    (there, back)
}

#[test]
#[ignore = "minutes: a full disk at each step, twice"]
fn journal_disk_full_at_each_step_loses_nothing() {
    for (name, how) in [("refull", How::Full as fn(_) -> How), ("recrowded", How::Crowded)] {
        let (there, back) = full_at_every_step(name, Product::state_dir, how);
        assert!(there.contains("installer.started") && back.contains("swap-search.started"), "{name}: {there:?} {back:?}");
    }
}

#[test]
fn killed_rollback_is_undone_once_by_next_call() {
    let bare = Bare::default();
    bare.has_version("2.0.1");
    let files = [
        ("plan.json", json!({"script": "svc-rollback"})),
        // In the place of the command that removes the staged copies.
        ("notes.json", undo("discard-search", &["svc-version", "current"])),
        ("06-stage-search.started", json!("step\n")),
    ];
    let run = bare.run_left("20260101t000000z-rollback", &files);
    let rollback = |word: &str| bare.tool("svc-rollback", &[word]).run();
    let status = rollback("--status");
    assert!(status.stdout.contains("next: Run the same command again:\n  svc-rollback\n"), "{status}");
    assert!(status.stdout.contains("first undoes what the run has left:\n  svc-version current\n"), "{status}");
    for _ in 0..2 {
        rollback("--resume").refused("not_resumable");
        assert!(run.join("07-discard-search.json").exists() && run.join("document.json").exists());
        assert!(!run.join("07-discard-search.2.started").exists(), "it was undone twice");
    }
    assert!(!rollback("--status").stdout.contains("first undoes"));
}

#[test]
#[ignore = "minutes: a full disk at each step"]
fn restore_point_disk_full_at_each_step_loses_nothing() {
    let (there, _) = full_at_every_step("refullpoint", Product::backup_dir, How::Full);
    // The sums are written next; if they are, nothing more is, and the upgrade comes to its end.
    assert!(there.contains("unit-after.started"), "{there:?}");
}

/// A host with a disk of its own for the state, and two hooks: what the first does, and one that leaves the file `ran`.
fn hooks(bare: &Bare, first: &str) -> (SmallDisk, Tool) {
    let state = bare.path("state");
    for (name, does) in [("05-first", first), ("10-modules", &format!(": >'{}'", bare.path("ran").display()))] {
        let hook = bare.path("hooks/post-install").join(name);
        svc_tests::os::write_program(&hook, format!("#!/bin/sh\ncd '{}'\n{does}\n", state.display())).unwrap();
    }
    bare.has_version("2.0.1");
    fs::create_dir(&state).unwrap();
    let disk = SmallDisk::at(&state, 16).unwrap();
    (disk, bare.tool("svc-upgrade", &["--hooks-only"]).env("SVC_HOOKS_DIR", bare.path("hooks")))
}

#[test]
fn hook_that_could_not_start_is_run_by_next_call() {
    let bare = Bare::default();
    // If the holder of the next command takes room for what that prints, it finds none.
    let (_disk, hooks) = hooks(&bare, "cd runs/*; mkdir 03-hook-10-modules.out.partial");
    let ran = hooks.clone().run().fails(1, "failed");
    assert!(!bare.path("ran").exists() && !ran.steps().contains(&"hook-10-modules"), "{ran}");
    fs::write(bare.path("hooks/post-install/05-first"), "#!/bin/sh\n").unwrap();
    hooks.run().ok();
    assert!(bare.path("ran").exists());
}

#[test]
fn command_is_not_started_if_journal_cannot_record_it() {
    let bare = Bare::default();
    // No file more, although there are blocks.
    let (_disk, hooks) = hooks(&bare, "mkdir full; n=0; while true 2>/dev/null >full/$n; do n=$((n+1)); done");
    let ran = hooks.run().fails(1, "journal_full");
    assert!(!bare.path("ran").exists(), "{ran}");
}

#[test]
fn installer_output_and_status_survive_full_disk() {
    let folder = tempfile::tempdir().unwrap();
    let _disk = SmallDisk::at(folder.path(), 8).unwrap();
    let file = |name: &str| folder.path().join(name);
    // As the test's own filler does it, to the last block.
    let does = format!("cat /dev/zero >'{}' 2>/dev/null; echo it is done && exit 7", file("filler").display());
    let mut holder = Command::new(bin_dir().join("svc-run"));
    let lock = tempfile::tempfile().unwrap();
    holder.args(["hold", "--private", "0", "--files"]).arg(file("installer")).stdin(lock);
    let ended = holder.args(["--", "sh", "-c", &does]).status();
    assert_eq!(ended.unwrap().code(), Some(7));
    assert_eq!(fs::read_to_string(file("installer.rc")).unwrap(), "7\n");
    assert_eq!(fs::read_to_string(file("installer.out")).unwrap(), "it is done\n");
    fs::remove_file(file("filler")).unwrap();
    assert_eq!(count_in(folder.path()), 3, "something else is left than the two, and which process it was");
}
