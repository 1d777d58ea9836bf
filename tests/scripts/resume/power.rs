//! A host that loses its power: of the journal and of the restore points there is what was synced, and not a byte more. (`whole_host`: of
//! both databases too.)

use svc_tests::journey::prelude::*;

use crate::cut::{How, in_turn};
use crate::journey::Journey;

/// Where the run directories and the restore points are, and the images of their disks.
fn disks(product: &Product) -> [(PathBuf, PathBuf); 2] {
    [(product.state_dir(), product.path("state.image")), (product.backup_dir(), product.path("backup.image"))]
}

/// Disks of the product's that can lose their power.
fn made(product: &Product) -> Vec<SmallDisk> {
    let disk = |(folder, image): (PathBuf, PathBuf)| {
        fs::create_dir_all(&folder).unwrap();
        SmallDisk::of_image(&folder, &image, 128).unwrap()
    };
    disks(product).map(disk).into()
}

/// The power is lost: every process that works for the product dies, and its disks hold what was synced.
pub fn lose(product: &Product) {
    kill_all_of(product);
    for (folder, image) in disks(product) {
        SmallDisk::lose_power(&folder, &image).unwrap();
    }
}

fn kill_all_of(product: &Product) {
    let of_it = format!("SVC_STATE_DIR={}", product.state_dir().display());
    let is_of_it = |pid: &Pid| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|one| one == of_it.as_bytes())
    };
    wait::so("all that works for the product to die", || {
        let left: Vec<Pid> = os::processes().filter(is_of_it).collect();
        for pid in &left {
            let _ = kill(*pid, Signal::SIGKILL);
        }
        left.is_empty().then_some(())
    });
}

#[test]
fn upgrade_and_rollback_finish_after_power_loss() {
    let product = Product::new("relost").unwrap();
    let disks = made(&product);
    let mut journey = Journey::with_disks(product, disks, &[]);
    let points = ["dump.json", "unit-after.started", "installer.json", "start.started"];
    assert_eq!(journey.there(&[How::Lost], in_turn(&points)), points.len());
    let points = ["stage-database.json", "swap-database.started", "swap-database.json", "installer.json"];
    assert_eq!(journey.back(&[How::Lost], in_turn(&points)), points.len());
}
