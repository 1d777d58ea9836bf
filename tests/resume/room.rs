//! Disks that become full in the middle of an upgrade or of a rollback.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use svc_tests::product::Product;

use crate::cut::How;
use crate::journey::Journey;

/// At each point of the journal the disk of a folder is full until the script has ended.
fn full_at_every_step(name: &str, folder: impl FnOnce(&Product) -> PathBuf) -> (BTreeSet<String>, BTreeSet<String>) {
    let product = Product::new(name).unwrap();
    let folder: &'static Path = Box::leak(folder(&product).into_boxed_path());
    let mut journey = Journey::on_small_disk(product, folder);
    let (mut there, mut back) = (BTreeSet::new(), BTreeSet::new());
    journey.there(How::Full(folder), |point| there.insert(point.to_owned()));
    journey.back(How::Full(folder), |point| back.insert(point.to_owned()));
    (there, back)
}

#[test]
fn a_disk_that_becomes_full_at_any_step_leaves_the_service_as_it_was_or_a_run_to_go_on_with() {
    if !svc_tests::deep() {
        return svc_tests::skip("the disk of the journal, and that of the restore points, full at each step: only with --deep");
    }
    let (there, back) = full_at_every_step("refull", Product::state_dir);
    assert!(there.contains("installer.started") && back.contains("swap-search.started"), "{there:?} {back:?}");
    full_at_every_step("refullpoint", Product::backup_dir);
}
