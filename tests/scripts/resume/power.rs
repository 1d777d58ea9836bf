//! A host that loses its power: of the journal, of the restore points and of both databases there is what was synced, and not a byte
//! more.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use std::{fs, thread};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use svc_tests::disk::SmallDisk;
use svc_tests::host::{Host, OwnPostgres, OwnSearch};
use svc_tests::journey::runs;
use svc_tests::product::Product;
use svc_tests::random::{self, Random};
use svc_tests::search::Settings;
use svc_tests::{os, wait};

use crate::cut::{A_WHILE, How, in_turn};
use crate::journey::Journey;
use crate::steps::each;

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

/// Both databases, whose folders are on disks that can lose their power.
pub struct Servers {
    search: OwnSearch,
    postgres: OwnPostgres,
    /// They go when nobody writes to them any more.
    _disks: Vec<SmallDisk>,
}

impl Servers {
    pub fn start(host: &Host) -> Self {
        let search = host.prepare_search_server(&host.search.key, &Settings::default()).unwrap();
        let mut disks = vec![on_image(&search.data_dir), on_image(&search.repo_root)];
        search.start(&host.systemd).unwrap();
        let postgres = host.postgres_server().unwrap();
        host.systemd.stop(&postgres.unit).unwrap();
        // The host's own does not wait for a disk.
        let durable = "fsync = on\nsynchronous_commit = on\nfull_page_writes = on\n";
        let settings = postgres.data_dir.join("postgresql.auto.conf");
        fs::write(&settings, fs::read_to_string(&settings).unwrap() + durable).unwrap();
        let made = postgres.data_dir.with_extension("made");
        os::run(Command::new("cp").arg("-a").args([&postgres.data_dir, &made])).unwrap();
        for entry in fs::read_dir(&postgres.data_dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { fs::remove_dir_all(path).unwrap() } else { fs::remove_file(path).unwrap() }
        }
        disks.push(on_image(&postgres.data_dir));
        os::run(Command::new("cp").arg("-a").arg(made.join(".")).arg(&postgres.data_dir)).unwrap();
        os::run(Command::new("sync").arg("--file-system").arg(&postgres.data_dir)).unwrap();
        host.systemd.start(&postgres.unit).unwrap();
        Self { search, postgres, _disks: disks }
    }

    /// The host with these.
    pub fn of(&self, host: &Host) -> Host {
        Host { search: self.search.search.clone(), postgres: self.postgres.postgres.clone(), ..host.clone() }
    }

    /// They die where they are, and start with what was synced. The service is still, and has nothing to lose.
    fn lose_power(host: &Host) {
        for unit in [&host.search.unit, &host.postgres.unit] {
            host.systemd.kill(unit).unwrap();
        }
        for folder in [&host.search.data_dir, &host.search.repo_root, &host.postgres.data_dir] {
            SmallDisk::lose_power(folder, &image_of(folder)).unwrap();
        }
        // What was being restored is red, and its unit waits for a better state.
        os::run(host.systemd.systemctl().args(["start", "--no-block", &host.search.unit])).unwrap();
        host.systemd.start(&host.postgres.unit).unwrap();
        wait::until("the search database to start", A_WHILE, || host.search.ask("GET", "/_cluster/health", None).ok()).unwrap();
    }

    /// Whether it is such servers that the host has.
    fn are_of(host: &Host) -> bool {
        image_of(&host.search.data_dir).exists()
    }
}

fn image_of(folder: &Path) -> PathBuf {
    folder.with_extension("image")
}

fn on_image(folder: &Path) -> SmallDisk {
    SmallDisk::of_image(folder, &image_of(folder), 1024).unwrap()
}

/// The power is lost: every process that works for the product dies, and its disks hold what was synced.
pub fn lose(product: &Product, loss: Loss) {
    kill_all_of(product);
    for (folder, image) in disks(product) {
        SmallDisk::lose_power(&folder, &image).unwrap();
    }
    if Servers::are_of(&product.host) {
        let was_active = product.is_active();
        if was_active {
            product.host.systemd.stop(&product.unit()).unwrap();
        }
        Servers::lose_power(&product.host);
        if was_active {
            product.host.systemd.start(&product.unit()).unwrap();
        }
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
    wait::until("all that works for the product to die", A_WHILE, || {
        let left = pids();
        for pid in &left {
            let _ = kill(Pid::from_raw(*pid), Signal::SIGKILL);
        }
        left.is_empty().then_some(())
    })
    .unwrap();
}

#[test]
fn an_upgrade_that_loses_its_power_comes_to_an_end_old_or_new() {
    let mut journey = Journey::that_loses_power("relosthere");
    let how = How::Lost(Loss::Unsynced);
    for points in [["unit-after.started", "start.started"], ["dump.json", "installer.json"]] {
        assert_eq!(journey.there(how, in_turn(&points)), points.len());
        journey.back(how, |_| false);
    }
}

#[test]
fn a_rollback_that_loses_its_power_comes_to_an_end_old_or_new() {
    let mut journey = Journey::that_loses_power("relostback");
    for (loss, points) in [
        (Loss::Unsynced, ["stage-database.json", "swap-database.json"]),
        (Loss::Unsynced, ["swap-database.started", "installer.json"]),
        (Loss::Documents, ["swap-database.started", "installer.json"]),
    ] {
        journey.there(How::Lost(loss), |_| false);
        assert_eq!(journey.back(How::Lost(loss), in_turn(&points)), points.len());
    }
}

/// Steps of an upgrade, and what is undone of it, the power being lost at the begin and at the end of each.
const THERE: [&str; 13] = [
    "unfinished",
    "point",
    "warm-snapshot",
    "stop",
    "dump",
    "snapshot",
    "finalize",
    "remove-incomplete-point",
    "start-again",
    "still-stopped",
    "installer",
    "start",
    "marker",
];

/// Those of a rollback.
const BACK: [&str; 15] = [
    "stage-search",
    "stage-database",
    "discard-search",
    "discard-database",
    "swap-database-possible",
    "configuration-conf",
    "stop",
    "uninstall",
    "swap-search",
    "swap-database",
    "clear",
    "installer",
    "restore-configuration",
    "start",
    "marker",
];

/// Each moment of these steps once: their ends at once, and their begins or some time after it, at which they have come half the way.
fn moments(steps: &[&str]) -> impl FnMut(&str) -> bool {
    let (mut seen, mut random) = (BTreeSet::new(), Random::of(random::seed()));
    move |point| {
        let is_now = each(|point| steps.iter().any(|step| point.starts_with(&format!("{step}."))), &mut seen)(point);
        if is_now && point.ends_with(".started") {
            thread::sleep(Duration::from_millis(random.below(200) as u64));
        }
        is_now
    }
}

#[test]
#[ignore = "many minutes: twenty moments of an upgrade and of a rollback"]
fn the_power_that_is_lost_at_twenty_moments_of_each_leaves_old_or_new() {
    let mut journey = Journey::that_loses_power("relostall");
    let how = How::Lost(Loss::Unsynced);
    let cuts = journey.there(how, moments(&THERE));
    assert!(cuts >= 20, "interrupted {cuts} times");
    let cuts = journey.back(how, moments(&BACK));
    assert!(cuts >= 20, "interrupted {cuts} times");
}

#[test]
#[ignore = "many minutes: both databases are started again each time"]
fn the_power_that_both_databases_lose_too_leaves_old_or_new() {
    let mut journey = Journey::whose_databases_lose_power("relostdata");
    let how = How::Lost(Loss::Unsynced);
    let cuts = journey.there(how, moments(&["warm-snapshot", "dump", "snapshot", "finalize", "installer"]));
    assert!(cuts >= 8, "interrupted {cuts} times");
    let of_data =
        ["stage-search", "stage-database", "discard-search", "discard-database", "swap-search", "swap-database", "installer"];
    let cuts = journey.back(how, moments(&of_data));
    assert!(cuts >= 10, "interrupted {cuts} times");
}
