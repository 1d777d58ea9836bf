//! A host that loses its power: of the journal there is what was synced, and not a byte more.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use svc_tests::journey::runs;
use svc_tests::product::Product;
use svc_tests::tool::Tool;

use crate::cut::How;
use crate::cut::in_turn;
use crate::journey::Journey;

/// What is there of that which was not synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// Files that hold nothing.
    Empty,
    /// Not even their names.
    Gone,
    /// As the first, and the notes and the documents of steps with an effect are empty although they were synced: a disk that did not
    /// do what it said.
    Documents,
}

/// Has a script note what it syncs: the content of files by their inode, the names in folders by theirs.
pub fn noting_syncs(product: &Product, script: Tool) -> Tool {
    let folder = synced(product);
    fs::create_dir_all(&folder).unwrap();
    let does = format!(
        "for one; do
  [ -e \"$one\" ] || continue
  to='{}'/$(stat -c %i \"$one\")
  if [ -d \"$one\" ]; then ls -A \"$one\" >\"$to.$$\"; else cat \"$one\" >\"$to.$$\"; fi
  mv \"$to.$$\" \"$to\"
done",
        folder.display()
    );
    script.stub(&product.path("power/bin"), "sync", &does)
}

fn synced(product: &Product) -> PathBuf {
    product.path("power/synced")
}

/// The power is lost: every process that works for the product dies, and the journals are what was synced of them.
pub fn lose(product: &Product, loss: Loss) {
    kill_all_of(product);
    let kept = |path: &Path| fs::read(synced(product).join(fs::metadata(path).unwrap().ino().to_string())).ok();
    let lost = |folder: &Path, path: &Path| {
        let names = String::from_utf8(kept(folder).unwrap_or_default()).unwrap();
        loss == Loss::Gone && !names.lines().any(|name| Some(name.as_ref()) == path.file_name())
    };
    for run in runs(product) {
        if lost(run.parent().unwrap(), &run) {
            fs::remove_dir_all(&run).unwrap();
            continue;
        }
        for file in fs::read_dir(&run).unwrap().map(|entry| entry.unwrap().path()) {
            // The copies of the configuration are the tools', which sync by themselves.
            if [Some("yaml"), Some("conf")].contains(&file.extension().and_then(|ending| ending.to_str())) {
                continue;
            }
            let name = file.file_name().unwrap().to_string_lossy().into_owned();
            let is_check = fs::read_to_string(file.with_extension("started")).is_ok_and(|kind| kind.trim() == "check");
            if loss == Loss::Documents && name.ends_with(".json") && !name.starts_with("plan") && !is_check {
                fs::write(&file, "").unwrap();
            } else if lost(&run, &file) {
                fs::remove_file(&file).unwrap();
            } else {
                let content = kept(&file).unwrap_or_default();
                let now = fs::read(&file).unwrap();
                fs::write(&file, if now.starts_with(&content) { content } else { Vec::new() }).unwrap();
            }
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
    svc_tests::wait::until("all that works for the product to die", crate::cut::A_WHILE, || {
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
    let mut journey = Journey::new("relosthere", &[]);
    for (loss, points) in [(Loss::Empty, ["unit-after.started", "start.started"]), (Loss::Gone, ["dump.json", "installer.json"])]
    {
        assert_eq!(journey.there(How::Lost(loss), in_turn(&points)), points.len());
        journey.back(How::Lost(loss), |_| false);
    }
}

#[test]
fn a_rollback_that_loses_its_power_comes_to_an_end_old_or_new() {
    let mut journey = Journey::new("relostback", &[]);
    for (loss, points) in [
        (Loss::Empty, ["stage-database.json", "swap-database.json"]),
        (Loss::Gone, ["swap-database.started", "installer.json"]),
        (Loss::Documents, ["swap-database.started", "installer.json"]),
    ] {
        journey.there(How::Lost(loss), |_| false);
        assert_eq!(journey.back(How::Lost(loss), in_turn(&points)), points.len());
    }
}
