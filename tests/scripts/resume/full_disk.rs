//! Disks that become full in the middle of an upgrade or of a rollback.

use svc_tests::journey::prelude::*;

use crate::cut::How;
use crate::journey::Journey;

#[test]
#[ignore = "minutes: a full disk at each step, of the journal and of the restore points"]
fn disk_full_at_each_step_loses_nothing() {
    // Behind a restore point whose sums were written nothing more is, and the upgrade comes to its end.
    let journals: (fn(&Product) -> PathBuf, _, _) = (Product::state_dir, "installer.started", Some("swap-search.started"));
    for (name, (folder, last, last_back)) in
        [("refull", journals), ("refullpoint", (Product::backup_dir, "unit-after.started", None))]
    {
        let product = Product::new(name).unwrap();
        let folder: &'static Path = Box::leak(folder(&product).into_boxed_path());
        fs::create_dir_all(folder).unwrap();
        let mut journey = Journey::with_disks(product, vec![SmallDisk::at(folder, 48).unwrap()], &[]);
        let (mut there, mut back) = (BTreeSet::new(), BTreeSet::new());
        journey.there(&[How::Full(folder)], |point| there.insert(point.to_owned()));
        journey.back(&[How::Full(folder)], |point| back.insert(point.to_owned()));
        assert!(there.contains(last) && last_back.is_none_or(|last| back.contains(last)), "{name}: {there:?} {back:?}");
    }
}

#[test]
fn command_is_not_started_if_journal_cannot_record_it() {
    let bare = Bare::default();
    let (state, ran) = (bare.path("state"), bare.path("ran"));
    fs::create_dir(&state).unwrap();
    let _disk = SmallDisk::at(&state, 16).unwrap();
    // No file more, although there are blocks, as on a full XFS.
    let fills = format!("cd '{}'; n=0; while true 2>/dev/null >$n; do n=$((n+1)); done", state.display());
    for (name, does) in [("05-first", fills), ("10-modules", format!("touch '{}'", ran.display()))] {
        os::write_program(bare.path("hooks/post-install").join(name), format!("#!/bin/sh\n{does}\n")).unwrap();
    }
    bare.has_version("2.0.1");
    bare.tool("svc-upgrade", &["--hooks-only"]).env("SVC_HOOKS_DIR", bare.path("hooks")).run().fails(1, "journal_full");
    assert!(!ran.exists());
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
