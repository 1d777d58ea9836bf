//! Disks that become full in the middle of an upgrade or of a rollback.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;
use svc_tests::disk::SmallDisk;
use svc_tests::product::Product;
use svc_tests::tool::{Tool, root};

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
    journey.there(how(folder), |point| there.insert(point.to_owned()));
    journey.back(how(folder), |point| back.insert(point.to_owned()));
    (there, back)
}

#[test]
#[ignore = "minutes: a full disk at each step, twice"]
fn a_journal_whose_disk_becomes_full_at_any_step_leaves_the_service_as_it_was_or_a_run_to_go_on_with() {
    for (name, how) in [("refull", How::Full as fn(_) -> How), ("recrowded", How::Crowded)] {
        let (there, back) = full_at_every_step(name, Product::state_dir, how);
        assert!(there.contains("installer.started") && back.contains("swap-search.started"), "{name}: {there:?} {back:?}");
    }
}

#[test]
fn a_rollback_that_had_no_room_to_note_that_its_copies_are_gone_again_is_begun_anew() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let id = "20260101t000000z-rollback";
    let run = state.join("runs").join(id);
    fs::create_dir_all(&run).unwrap();
    fs::create_dir(state.join("swaps")).unwrap();
    let plan = json!({"script": "svc-rollback", "run_id": id, "started_at": "", "arguments": [], "settings": {}});
    fs::write(run.join("plan.json"), plan.to_string()).unwrap();
    fs::write(run.join("notes.json"), json!({"facts": {"restore_point": "/not/there"}, "warnings": []}).to_string()).unwrap();
    for step in ["06-stage-search", "07-stage-database"] {
        fs::write(run.join(format!("{step}.started")), "step\n").unwrap();
        fs::write(run.join(format!("{step}.json")), json!({"ok": true, "changed": true, "duration_ms": 1}).to_string()).unwrap();
    }
    let rollback = |word: &str| {
        let tool = Tool::script("svc-rollback").arg(word).env("SVC_ENVIRONMENT_FILE", folder.path().join("none"));
        tool.env("SVC_STATE_DIR", &state).env("SVC_BACKUP_DIR", folder.path().join("backups")).run()
    };
    // What a tool has made, it notes there.
    for tool in ["svc-snap", "svc-pgrestore"] {
        fs::write(state.join(format!("swaps/{id}.{tool}.json")), "{}").unwrap();
    }
    let status = rollback("--status");
    assert!(status.stdout.contains(&format!("next: To go on: svc-rollback --resume {id}")), "{status}");
    fs::remove_file(state.join(format!("swaps/{id}.svc-pgrestore.json"))).unwrap();
    let status = rollback("--status");
    assert!(status.stdout.contains("next: Nothing was altered. Run the same command again: svc-rollback"), "{status}");
    rollback("--resume").refused("nothing_to_resume");
}

#[test]
#[ignore = "minutes: a full disk at each step"]
fn a_disk_of_the_restore_points_that_becomes_full_at_any_step_leaves_the_service_as_it_was() {
    let (there, _) = full_at_every_step("refullpoint", Product::backup_dir, How::Full);
    // The sums are written next; where they are, nothing more is, and the upgrade comes to its end.
    assert!(there.contains("unit-after.started"), "{there:?}");
}

#[test]
fn a_command_that_could_not_be_begun_for_want_of_room_is_told_as_that_and_is_run_when_there_is_room() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let hook = path("hooks/post-install/10-modules");
    fs::create_dir_all(hook.parent().unwrap()).unwrap();
    fs::write(&hook, format!("#!/bin/sh\n: >'{}'\n", path("ran").display())).unwrap();
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(path("current-version"), "2.0.1\n").unwrap();
    fs::create_dir(path("state")).unwrap();
    let _disk = SmallDisk::at(&path("state"), 16).unwrap();
    let hooks = || {
        let tool = Tool::script("svc-upgrade").arg("--hooks-only").env("SVC_ENVIRONMENT_FILE", path("none"));
        let tool = tool.env("SVC_INSTALL_DIR", folder.path()).env("SVC_HOOKS_DIR", path("hooks"));
        tool.env("SVC_STATE_DIR", path("state")).env("SVC_BACKUP_DIR", path("backups"))
    };
    // Between the script's own look at the room, and the moment at which the command's is taken.
    let fills = format!("cat /dev/zero >'{}' 2>/dev/null", path("state/filler").display());
    let ran = hooks().stub(&path("stub"), "fallocate", &fills).run().fails(1, "command_not_begun").unchanged();
    assert!(!path("ran").exists(), "{ran}");
    let steps = ran.result()["steps"].as_array().unwrap();
    assert!(!steps.iter().any(|step| step["step"] == "hook-10-modules"), "{ran}");
    fs::remove_file(path("state/filler")).unwrap();
    hooks().run().ok();
    assert!(path("ran").exists());
}

#[test]
fn a_command_whose_note_the_disk_does_not_take_is_not_begun() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let hook = path("hooks/post-install/10-modules");
    fs::create_dir_all(hook.parent().unwrap()).unwrap();
    fs::write(&hook, format!("#!/bin/sh\n: >'{}'\n", path("ran").display())).unwrap();
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(path("current-version"), "2.0.1\n").unwrap();
    let tool = Tool::script("svc-upgrade").arg("--hooks-only").env("SVC_ENVIRONMENT_FILE", path("none"));
    let tool = tool.env("SVC_INSTALL_DIR", folder.path()).env("SVC_HOOKS_DIR", path("hooks"));
    let tool = tool.env("SVC_STATE_DIR", path("state")).env("SVC_BACKUP_DIR", path("backups"));
    let fails = "case $* in *hook-10-modules.started*) exit 1 ;; esac";
    let ran = tool.stub(&path("stub"), "sync", fails).run().fails(1, "journal_full").unchanged();
    assert!(!path("ran").exists(), "{ran}");
}

#[test]
fn an_installer_can_say_what_it_does_and_how_it_ended_although_the_disk_of_the_journal_is_full_meanwhile() {
    let folder = tempfile::tempdir().unwrap();
    let _disk = SmallDisk::at(folder.path(), 8).unwrap();
    let file = |name: &str| folder.path().join(name);
    // As the test's own filler does it, to the last block.
    let does = format!("cat /dev/zero >'{}' 2>/dev/null; echo it is done && exit 7", file("filler").display());
    let mut foreign = Command::new("bash");
    let lock = tempfile::NamedTempFile::new().unwrap();
    foreign.arg(root().join("scripts/lib/foreign.sh")).arg(lock.path()).args([file("installer.rc"), file("installer.out")]);
    let ended = foreign.args(["/dev/null", "0", "sh", "-c", &does]).status();
    assert_eq!(ended.unwrap().code(), Some(7));
    assert_eq!(fs::read_to_string(file("installer.rc")).unwrap(), "7\n");
    assert_eq!(fs::read_to_string(file("installer.out")).unwrap(), "it is done\n");
    fs::remove_file(file("filler")).unwrap();
    let left = fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(left, 2, "something else is left than the two");
}
