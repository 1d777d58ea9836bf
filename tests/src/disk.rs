//! A disk of a test's own, which nobody else fills.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use crate::os;

/// How many files a disk has room for: few enough to fill it with.
const FILES: u32 = 16_384;

/// A disk in memory, mounted at a folder; gone when dropped.
#[derive(Debug)]
pub struct SmallDisk(PathBuf);

impl SmallDisk {
    /// A disk of so many MB at a folder that is there; who may do what in the folder is as before.
    pub fn at(folder: &Path, megabytes: u32) -> Result<Self> {
        let meta = std::fs::metadata(folder)?;
        let options =
            format!("size={megabytes}m,nr_inodes={FILES},mode={:o},uid={},gid={}", meta.mode() & 0o7777, meta.uid(), meta.gid());
        os::run(Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(folder))?;
        Ok(Self(folder.to_owned()))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // A server that still has files there keeps it until it ends.
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}
