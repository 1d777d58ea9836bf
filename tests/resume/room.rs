//! Disks that become full in the middle of an upgrade or of a rollback.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use svc_tests::disk::SmallDisk;
use svc_tests::product::Product;
use svc_tests::tool::root;

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

/// All the way.
fn full_journal_at_every_step(name: &str, how: fn(&'static Path) -> How) {
    let (there, back) = full_at_every_step(name, Product::state_dir, how);
    assert!(there.contains("installer.started") && back.contains("swap-search.started"), "{there:?} {back:?}");
}

#[test]
fn a_journal_whose_disk_becomes_full_at_any_step_leaves_the_service_as_it_was_or_a_run_to_go_on_with() {
    if !svc_tests::deep() {
        return svc_tests::skip("the disk of the journal full at each step: only with --deep");
    }
    full_journal_at_every_step("refull", How::Full);
}

#[test]
fn so_does_one_whose_disk_has_no_room_for_another_file() {
    if !svc_tests::deep() {
        return svc_tests::skip("the disk of the journal without room for another file at each step: only with --deep");
    }
    full_journal_at_every_step("recrowded", How::Crowded);
}

#[test]
fn a_disk_of_the_restore_points_that_becomes_full_at_any_step_leaves_the_service_as_it_was() {
    if !svc_tests::deep() {
        return svc_tests::skip("the disk of the restore points full at each step: only with --deep");
    }
    let (there, _) = full_at_every_step("refullpoint", Product::backup_dir, How::Full);
    // From there on nothing is written there.
    assert!(there.contains("installer.started"), "{there:?}");
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
    let ended = foreign.args(["/dev/null", "sh", "-c", &does]).status();
    assert_eq!(ended.unwrap().code(), Some(7));
    assert_eq!(fs::read_to_string(file("installer.rc")).unwrap(), "7\n");
    assert_eq!(fs::read_to_string(file("installer.out")).unwrap(), "it is done\n");
    fs::remove_file(file("filler")).unwrap();
    let left = fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(left, 2, "something else is left than the two");
}
