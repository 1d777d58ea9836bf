//! A file read once: its bytes, their hash, and whose it is. What was hashed is what is used. And a new content in its place:
//! complete or not at all, its rights kept, what was there before kept beside it.

use std::fs::{self, Metadata};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::unistd::{Gid, Group, Uid, User, geteuid};
pub(crate) use svc_step::file::sha256;
use svc_step::file::{self, CompleteFile, Existing, Previous, Rights};
use svc_step::{Call, Failure};

/// No configuration is larger.
const LARGEST: u64 = 64 * 1024 * 1024;

/// A file's bytes and whose it is.
#[derive(Debug)]
pub(crate) struct Content {
    pub path: PathBuf,
    pub bytes: Vec<u8>,
    pub meta: Metadata,
    pub rights: Rights,
}

impl Content {
    /// Reads a regular file; a link at its end is followed. `action` completes "Cannot …".
    pub(crate) fn read(action: &str, path: &Path) -> Result<Self, Failure> {
        let target = fs::canonicalize(path).map_err(|error| Failure::io(action, path, &error))?;
        let mut content = Self::read_no_link(action, &target)?;
        content.path = path.to_owned();
        Ok(content)
    }

    /// Reads a regular file; a link of that name is refused (3).
    pub(crate) fn read_no_link(action: &str, path: &Path) -> Result<Self, Failure> {
        let fault = |error: std::io::Error| Failure::io(action, path, &error);
        let file = file::open_no_link(action, path)?;
        let meta = file.metadata().map_err(fault)?;
        let rights = Rights::of(&file).map_err(fault)?;
        let bytes = file::bytes_of(&file, action, path, LARGEST)?;
        Ok(Self { path: path.to_owned(), bytes, meta, rights })
    }

    /// The same of a file whose values come into the configuration: one that somebody else may have planted is refused too (3).
    pub(crate) fn read_own(action: &str, path: &Path) -> Result<Self, Failure> {
        let content = Self::read_no_link(action, path)?;
        let is_shared = fs::metadata(file::folder_of(path)).is_ok_and(|folder| folder.permissions().mode() & 0o002 != 0);
        if is_shared && content.meta.uid() != 0 {
            content.refuse_other_owner()?;
        }
        Ok(content)
    }

    /// Refuses a file that somebody else may have planted.
    pub(crate) fn refuse_other_owner(&self) -> Result<(), Failure> {
        let uid = self.meta.uid();
        if uid == geteuid().as_raw() {
            return Ok(());
        }
        let owner = self.owner().unwrap_or_else(|| format!("the user number {uid}"));
        Err(Failure::refused("name_in_use", format!("{} belongs to {owner}.", self.path.display()))
            .hint("Inspect it; remove it if nobody knows why it is there, or name a file in a directory of your own."))
    }

    /// Its hash, in hex.
    pub(crate) fn sha256(&self) -> String {
        sha256(&self.bytes)
    }

    /// The owner's name, if the number has one.
    pub(crate) fn owner(&self) -> Option<String> {
        User::from_uid(Uid::from_raw(self.meta.uid())).ok().flatten().map(|user| user.name)
    }

    /// The group's name, if the number has one.
    pub(crate) fn group(&self) -> Option<String> {
        Group::from_gid(Gid::from_raw(self.meta.gid())).ok().flatten().map(|group| group.name)
    }
}

/// Puts `bytes` in the place of `old`, which is kept as `previous`. Nothing is changed on failure.
pub(crate) fn replace(call: &Call, old: &Content, bytes: &[u8], previous: &Previous) -> Result<(), Failure> {
    call.check()?;
    let mut file = CompleteFile::create(&old.path, 0o600)?;
    file.write_all(bytes).map_err(|error| Failure::io("write the configuration", &old.path, &error))?;
    put(call, &old.path, Some(old), Some(previous), || file.publish(Existing::ReplaceInUse))?;
    verify(&old.path, bytes)
}

/// Reads a file back that was written a moment ago.
pub(crate) fn verify(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    if Content::read_no_link("read the file back", path)?.bytes == bytes {
        return Ok(());
    }
    Err(Failure::fault(format!("{} is not as it was written a moment ago.", path.display()))
        .hint("Find out who writes to it. The file before, if there was one, is beside it."))
}

/// Has `publish` put a file at `path`, where `old` is, or nothing, which must be so still. Nothing is changed on failure.
pub(crate) fn put(
    call: &Call,
    path: &Path,
    old: Option<&Content>,
    previous: Option<&Previous>,
    publish: impl FnOnce() -> Result<(), Failure>,
) -> Result<(), Failure> {
    let untouched = || match old {
        Some(old) => Content::read_no_link("read the configuration", path).map(|now| now.bytes == old.bytes),
        None => Ok(!path.exists()),
    };
    if !untouched()? {
        return Err(Failure::refused("content_differs", format!("{} was changed while this call ran.", path.display()))
            .hint("Find out who writes to it, then run the same command again."));
    }
    if let (Some(previous), Some(old)) = (previous, old) {
        previous.keep(path, &old.bytes)?;
    }
    // From here on there is a file more, at least.
    call.effects().happened();
    publish().inspect_err(|_| {
        if untouched().unwrap_or(false) {
            if let Some(previous) = previous {
                previous.undo();
            }
            call.effects().undone();
        }
    })
}

/// Where a file is kept that the operator's takes the place of: beside it, as package managers do.
pub(crate) fn shipped(old: &Content) -> Result<Previous, Failure> {
    Previous::plan_named(&old.path, &old.bytes, ".svc-new")
}
