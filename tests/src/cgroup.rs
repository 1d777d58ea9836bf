//! A control group for everything that one user manager starts.
//!
//! A manager takes the group it is started in for its own: it moves every process it finds there into its `init.scope`, and a
//! second manager in the same group would use the same `app.slice/NAME.service` and kill the first one's processes. With a group
//! of its own it does neither, and whatever is left when it is gone can be found, whoever its parent is.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Where the hierarchies are mounted.
const MOUNT: &str = "/sys/fs/cgroup";

/// One named group in each hierarchy that systemd follows processes by.
#[derive(Debug)]
pub struct Group {
    name: String,
    folders: Vec<PathBuf>,
}

impl Group {
    /// Makes a group below the caller's own. Fails where the control groups are not there or cannot be written.
    pub fn create(name: &str) -> Result<Self> {
        let own = fs::read_to_string("/proc/self/cgroup").context("cannot read this process's control groups")?;
        let mut folders = Vec::new();
        for folder in own.lines().filter_map(parent).filter(|folder| folder.join("cgroup.procs").exists()) {
            let folder = folder.join(name);
            fs::create_dir(&folder).with_context(|| format!("cannot make the control group {}", folder.display()))?;
            folders.push(folder);
        }
        ensure!(!folders.is_empty(), "there are no control groups under {MOUNT}, and systemd needs them");
        Ok(Self { name: name.to_owned(), folders })
    }

    /// The files into which a process writes its id to enter the group.
    pub fn doors(&self) -> Vec<PathBuf> {
        self.folders.iter().map(|folder| folder.join("cgroup.procs")).collect()
    }

    /// Every process in the group and in the groups below it.
    pub fn processes(&self) -> Vec<Pid> {
        let mut found = Vec::new();
        for folder in &self.folders {
            collect(folder, &mut found);
        }
        found.sort();
        found.dedup();
        found
    }

    /// Sends a signal to every process in the group.
    pub fn signal(&self, signal: Signal) {
        for pid in self.processes() {
            // A process that is gone by now is just what was wanted.
            let _ = kill(pid, signal);
        }
    }

    /// Removes the empty group, also from the hierarchies that the manager entered by itself.
    pub fn remove(&self) {
        let Ok(own) = fs::read_to_string("/proc/self/cgroup") else { return };
        let others = own.lines().filter_map(any_parent).map(|folder| folder.join(&self.name));
        for folder in self.folders.iter().cloned().chain(others) {
            remove_tree(&folder);
        }
    }
}

/// The caller's folder in a hierarchy that systemd follows processes by; `None` for a line of another hierarchy.
fn parent(line: &str) -> Option<PathBuf> {
    let (number, controller, path) = fields(line)?;
    let path = path.trim_start_matches('/');
    match (number, controller) {
        // A pure version 2 machine has it at the mount point, a mixed one in `unified`.
        ("0", "") if Path::new(MOUNT).join("cgroup.procs").exists() => Some(Path::new(MOUNT).join(path)),
        ("0", "") => Some(Path::new(MOUNT).join("unified").join(path)),
        (_, "name=systemd") => Some(Path::new(MOUNT).join("systemd").join(path)),
        _ => None,
    }
}

/// The caller's folder in any hierarchy.
fn any_parent(line: &str) -> Option<PathBuf> {
    let (_, controller, path) = fields(line)?;
    parent(line).or_else(|| Some(Path::new(MOUNT).join(controller).join(path.trim_start_matches('/'))))
}

fn fields(line: &str) -> Option<(&str, &str, &str)> {
    let mut fields = line.splitn(3, ':');
    Some((fields.next()?, fields.next()?, fields.next()?))
}

fn children(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path()).collect()
}

fn collect(folder: &Path, found: &mut Vec<Pid>) {
    let text = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
    found.extend(text.lines().filter_map(|line| line.parse().ok()).map(Pid::from_raw));
    for child in children(folder) {
        collect(&child, found);
    }
}

fn remove_tree(folder: &Path) {
    for child in children(folder) {
        remove_tree(&child);
    }
    // A group that is not empty stays, and says so by being there.
    let _ = fs::remove_dir(folder);
}
