//! A control group for everything that one service manager starts.
//!
//! A manager takes the group it is started in for its own: it moves every process it finds there into its `init.scope`, and a
//! second manager in the same group would use the same `app.slice/NAME.service` and kill the first one's processes. With a group
//! of its own it does neither, and whatever is left when it is gone can be found, whoever its parent is.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

const MOUNT: &str = "/sys/fs/cgroup";

/// One named group in each hierarchy that systemd follows processes by.
pub struct Group {
    folders: Vec<PathBuf>,
    /// The group's place below the root of a hierarchy; the manager uses the same one in the hierarchies that it enters by itself.
    places: Vec<PathBuf>,
}

impl Group {
    /// Makes a group below the caller's own. Fails if the control groups are not there or cannot be written.
    pub fn create() -> Result<Self> {
        static GROUPS: AtomicU32 = AtomicU32::new(0);
        let name = format!("svc-testhost-{}-{}", std::process::id(), GROUPS.fetch_add(1, Ordering::Relaxed));
        let own = fs::read_to_string("/proc/self/cgroup").context("cannot read this process's control groups")?;
        let mut this = Self { folders: Vec::new(), places: Vec::new() };
        for (hierarchy, place) in own.lines().filter_map(followed) {
            let place = place.join(&name);
            let folder = hierarchy.join(&place);
            if hierarchy.join("cgroup.procs").exists() {
                fs::create_dir(&folder).with_context(|| format!("cannot make the control group {}", folder.display()))?;
                this.folders.push(folder);
                this.places.push(place);
            }
        }
        ensure!(!this.folders.is_empty(), "there are no control groups under {MOUNT}, and systemd needs them");
        Ok(this)
    }

    /// The arguments of `sh` with which it enters the group, and becomes the program whose arguments follow them.
    pub fn entered(&self) -> Vec<OsString> {
        let enter = "while [ \"$1\" != -- ]; do echo $$ >\"$1\" || exit; shift; done; shift; exec \"$@\"";
        let doors = self.folders.iter().map(|folder| folder.join("cgroup.procs").into_os_string());
        ["-c", enter, "enter"].map(OsString::from).into_iter().chain(doors).chain(["--".into()]).collect()
    }

    pub fn processes(&self) -> Vec<Pid> {
        let all = self.folders.iter().flat_map(|folder| tree(folder));
        let texts: String = all.filter_map(|folder| fs::read_to_string(folder.join("cgroup.procs")).ok()).collect();
        let mut found: Vec<_> = texts.lines().filter_map(|line| line.parse().ok()).map(Pid::from_raw).collect();
        found.sort();
        found.dedup();
        found
    }

    pub fn signal(&self, signal: Signal) {
        for pid in self.processes() {
            // A process that is gone by now is just what was wanted.
            let _ = kill(pid, signal);
        }
    }
}

impl Drop for Group {
    /// Removes the empty group, also from the hierarchies that the manager entered by itself.
    fn drop(&mut self) {
        for hierarchy in children(Path::new(MOUNT)).into_iter().chain([PathBuf::from(MOUNT)]) {
            for folder in self.places.iter().flat_map(|place| tree(&hierarchy.join(place))) {
                // A group that is not empty stays, and says so by being there.
                let _ = fs::remove_dir(folder);
            }
        }
    }
}

/// From a line of `/proc/self/cgroup`, where the hierarchy is mounted and the caller's place in it; `None` for a hierarchy that
/// systemd does not follow processes by.
fn followed(line: &str) -> Option<(PathBuf, PathBuf)> {
    let mut fields = line.splitn(3, ':');
    let (number, controller, place) = (fields.next()?, fields.next()?, fields.next()?);
    let mount = Path::new(MOUNT);
    let hierarchy = match (number, controller) {
        // A pure version 2 machine has it at the mount point, a mixed one in `unified`.
        ("0", "") if mount.join("cgroup.procs").exists() => mount.to_owned(),
        ("0", "") => mount.join("unified"),
        (_, "name=systemd") => mount.join("systemd"),
        _ => return None,
    };
    Some((hierarchy, PathBuf::from(place.trim_start_matches('/'))))
}

fn children(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path()).collect()
}

/// A folder and all below it, which come first.
fn tree(folder: &Path) -> Vec<PathBuf> {
    children(folder).iter().flat_map(|child| tree(child)).chain([folder.to_owned()]).collect()
}
