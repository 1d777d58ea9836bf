//! A disk of a test's own, which nobody else fills.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use crate::os;

/// How many files a disk takes: few enough to fill it with.
const FILES: u32 = 16_384;

/// A disk in memory, mounted at a folder; gone when dropped.
pub struct SmallDisk(PathBuf);

impl SmallDisk {
    /// A disk of so many MB at a folder that is there, whose content is in the file `image`: what was written and not synced is not in
    /// there yet, or not for long.
    pub fn of_image(folder: &Path, image: &Path, megabytes: u64) -> Result<Self> {
        let meta = std::fs::metadata(folder)?;
        std::fs::File::create(image)?.set_len(megabytes << 20)?;
        os::run(Command::new("mkfs.ext4").arg("-q").arg(image))?;
        let disk = Self::mounted(folder, image)?;
        std::fs::remove_dir(folder.join("lost+found"))?;
        std::fs::set_permissions(folder, meta.permissions())?;
        std::os::unix::fs::chown(folder, Some(meta.uid()), Some(meta.gid()))?;
        os::run(Command::new("sync").arg("--file-system").arg(folder))?;
        Ok(disk)
    }

    /// The power of a disk of [`SmallDisk::of_image`] is lost and comes back: it holds what was synced.
    pub fn lose_power(folder: &Path, image: &Path) -> Result<()> {
        let synced = image.with_extension("synced");
        os::run(Command::new("cp").arg("--sparse=always").arg(image).arg(&synced))?;
        os::run(Command::new("umount").arg("--lazy").arg(folder))?;
        std::fs::rename(&synced, image)?;
        std::mem::forget(Self::mounted(folder, image)?);
        Ok(())
    }

    /// With a journal that is written only when something is synced.
    fn mounted(folder: &Path, image: &Path) -> Result<Self> {
        os::run(Command::new("mount").args(["-o", "loop,commit=300"]).arg(image).arg(folder))?;
        Ok(Self(folder.to_owned()))
    }

    /// A disk of so many MB at a folder that is there; who may do what in the folder is as before.
    pub fn at(folder: &Path, megabytes: u32) -> Result<Self> {
        let meta = std::fs::metadata(folder)?;
        let options =
            format!("size={megabytes}m,nr_inodes={FILES},mode={:o},uid={},gid={}", meta.mode() & 0o7777, meta.uid(), meta.gid());
        os::run(Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(folder))?;
        Ok(Self(folder.to_owned()))
    }
}

/// Does something while a folder is mounted on itself with an option, such as `ro`.
pub fn while_mounted<T>(folder: &Path, option: &str, act: impl FnOnce() -> T) -> T {
    let mount = |options: &[&str]| os::run(Command::new("mount").args(options).args([folder, folder])).expect("root may mount");
    mount(&["--bind"]);
    let mounted = SmallDisk(folder.to_owned());
    mount(&["-o", &format!("remount,bind,{option}")]);
    let done = act();
    drop(mounted);
    done
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // A server that still has files there keeps it until it ends.
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}
