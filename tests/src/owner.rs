//! Who owns a throw-away host's folder: a lock that dies with its owner, so that what a `kill -9` left can be told and removed.

use std::fs::{self, File};
use std::path::Path;

use anyhow::{Context, Result};

/// The locked file in a host's folder.
const FILE: &str = "owner.lock";

/// The ownership of a folder, for as long as this lives.
#[derive(Debug)]
#[must_use = "the folder is nobody's when this is dropped"]
pub struct Owner {
    _lock: File,
}

impl Owner {
    /// Takes a new folder. The file gets its name when it is locked already, so that nobody finds it free between.
    pub fn take(folder: &Path) -> Result<Self> {
        let unnamed = folder.join("owner.lock.new");
        let lock = File::create(&unnamed).with_context(|| format!("cannot make {}", unnamed.display()))?;
        lock.lock()?;
        fs::rename(&unnamed, folder.join(FILE))?;
        Ok(Self { _lock: lock })
    }

    /// Gives the folder up for good: it is to be kept.
    pub fn leave(self, folder: &Path) {
        let _ = fs::remove_file(folder.join(FILE));
    }
}

/// Removes the folders below `parent` whose names begin so and whose owner is dead; those without a lock are somebody else's.
pub fn sweep(parent: &Path, prefix: &str) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for folder in entries.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix)) {
        let folder = folder.path();
        let dead = File::open(folder.join(FILE)).is_ok_and(|lock| lock.try_lock().is_ok());
        if dead {
            // Its servers may still be leaving; what is left now goes at the next start.
            let _ = fs::remove_dir_all(&folder);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_dead_owner_left_is_removed() {
        let parent = tempfile::tempdir().unwrap();
        let folder = |name: &str| {
            let folder = parent.path().join(name);
            fs::create_dir(&folder).unwrap();
            folder
        };
        let (alive, dead, kept, foreign) = (folder("host-a"), folder("host-b"), folder("host-c"), folder("host-d"));
        let other = folder("other");
        let _owner = Owner::take(&alive).unwrap();
        drop(Owner::take(&dead).unwrap());
        drop(Owner::take(&other).unwrap());
        Owner::take(&kept).unwrap().leave(&kept);
        sweep(parent.path(), "host-");
        assert_eq!([&alive, &dead, &kept, &foreign, &other].map(|folder| folder.exists()), [true, false, true, true, true]);
    }
}
