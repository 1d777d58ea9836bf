//! A host that loses its power: of the journal and of the restore points there is what was synced, and not a byte more. (`whole_host`: of
//! both databases too.)

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;
use std::{fs, thread};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use svc_tests::disk::SmallDisk;
use svc_tests::journey::runs;
use svc_tests::product::Product;
use svc_tests::random::{self, Random};
use svc_tests::wait;

use crate::cut::{How, in_turn};
use crate::journey::Journey;

/// What is lost besides the power.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// What was not synced.
    Unsynced,
    /// The same, and the notes and the documents of steps with an effect are empty although they were synced: a disk that did not do
    /// what it said.
    Documents,
}

/// Where the run directories and the restore points are, and the images of their disks.
fn disks(product: &Product) -> [(PathBuf, PathBuf); 2] {
    [(product.state_dir(), product.path("state.image")), (product.backup_dir(), product.path("backup.image"))]
}

/// Gives the product disks that can lose their power.
pub fn with_disks(product: &Product) -> Vec<SmallDisk> {
    let disk = |(folder, image): (PathBuf, PathBuf)| {
        fs::create_dir_all(&folder).unwrap();
        SmallDisk::of_image(&folder, &image, 128).unwrap()
    };
    disks(product).map(disk).into()
}

/// The power is lost: every process that works for the product dies, and its disks hold what was synced.
pub fn lose(product: &Product, loss: Loss) {
    kill_all_of(product);
    for (folder, image) in disks(product) {
        SmallDisk::lose_power(&folder, &image).unwrap();
    }
    let files = runs(product).into_iter().flat_map(|run| fs::read_dir(run).unwrap()).map(|entry| entry.unwrap().path());
    for file in files.filter(|_| loss == Loss::Documents) {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        let is_check = fs::read_to_string(file.with_extension("started")).is_ok_and(|kind| kind.trim() == "check");
        if name.ends_with(".json") && !name.starts_with("plan") && !is_check {
            fs::write(&file, "").unwrap();
        }
    }
}

/// Kills whatever was started with the product's state folder in its environment.
fn kill_all_of(product: &Product) {
    let of_it = format!("SVC_STATE_DIR={}", product.state_dir().display());
    let pids = || {
        let all = fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        all.filter(|pid| {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|one| one == of_it.as_bytes())
        })
        .collect::<Vec<_>>()
    };
    wait::until("all that works for the product to die", wait::HANG, || {
        let left = pids();
        for pid in &left {
            let _ = kill(Pid::from_raw(*pid), Signal::SIGKILL);
        }
        left.is_empty().then_some(())
    })
    .unwrap();
}

#[test]
fn upgrade_and_rollback_finish_after_power_loss() {
    let mut journey = Journey::that_loses_power("relost");
    let how = How::Lost(Loss::Unsynced);
    let points = ["dump.json", "unit-after.started", "installer.json", "start.started"];
    assert_eq!(journey.there(&[how], in_turn(&points)), points.len());
    let points = ["stage-database.json", "swap-database.started", "swap-database.json", "installer.json"];
    assert_eq!(journey.back(&[how], in_turn(&points)), points.len());
}

#[test]
#[ignore = "one more upgrade and rollback, on a disk that did not do what it said"]
fn rollback_finishes_after_power_loss_without_documents() {
    let mut journey = Journey::that_loses_power("relostdocs");
    let how = How::Lost(Loss::Documents);
    journey.there(&[how], |_| false);
    let points = ["swap-database.started", "installer.json"];
    assert_eq!(journey.back(&[how], in_turn(&points)), points.len());
}

/// About every other moment, by chance, once: the end of a step, or some time after its begin.
fn moments() -> impl FnMut(&str) -> bool {
    let (mut seen, mut random) = (BTreeSet::new(), Random::with_seed(random::seed()));
    move |point| {
        let is_now = seen.insert(point.to_owned()) && random.bool();
        if is_now {
            eprintln!("interrupted at {point}");
            let half_the_way = if point.ends_with(".started") { random.u64(..200) } else { 0 };
            thread::sleep(Duration::from_millis(half_the_way));
        }
        is_now
    }
}

#[test]
#[ignore = "many minutes: twenty moments of an upgrade and of a rollback"]
fn upgrade_and_rollback_finish_after_twenty_power_losses() {
    let mut journey = Journey::that_loses_power("relostall");
    let how = How::Lost(Loss::Unsynced);
    let cuts = journey.there(&[how], moments());
    assert!(cuts >= 20, "interrupted {cuts} times");
    let cuts = journey.back(&[how], moments());
    assert!(cuts >= 20, "interrupted {cuts} times");
}
