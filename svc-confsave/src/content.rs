//! A file read once: its bytes, their hash, and whose it is. What was hashed is what is used.

use std::fs::{self, Metadata};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::unistd::{Gid, Group, Uid, User, geteuid};
use sha2::{Digest, Sha256};
use svc_step::Failure;
use svc_step::file::{self, Rights};

use crate::planted;

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
        let mut bytes = Vec::new();
        file.take(LARGEST + 1).read_to_end(&mut bytes).map_err(fault)?;
        if bytes.len() as u64 > LARGEST {
            return Err(Failure::invalid(
                "file_too_large",
                format!("Cannot {action}: {} is larger than {LARGEST} bytes.", path.display()),
            )
            .hint("Check that this is the right file."));
        }
        Ok(Self { path: path.to_owned(), bytes, meta, rights })
    }

    /// The same of a file whose values come into the configuration: one that somebody else may have planted is refused too (3).
    pub(crate) fn read_own(action: &str, path: &Path) -> Result<Self, Failure> {
        let content = Self::read_no_link(action, path)?;
        planted::refuse_links(path)?;
        if content.lies_in_shared_folder() { content.refuse_foreign() } else { Ok(content) }
    }

    /// Its hash, in hex.
    pub(crate) fn sha256(&self) -> String {
        sha256(&self.bytes)
    }

    /// The permission bits.
    pub(crate) fn mode(&self) -> u32 {
        self.meta.permissions().mode() & 0o7777
    }

    /// The owner's name, where the number has one.
    pub(crate) fn owner(&self) -> Option<String> {
        User::from_uid(Uid::from_raw(self.meta.uid())).ok().flatten().map(|user| user.name)
    }

    /// The group's name, where the number has one.
    pub(crate) fn group(&self) -> Option<String> {
        Group::from_gid(Gid::from_raw(self.meta.gid())).ok().flatten().map(|group| group.name)
    }

    /// Refuses a file that somebody else may have planted: it belongs neither to the caller nor to root.
    fn refuse_foreign(self) -> Result<Self, Failure> {
        let uid = self.meta.uid();
        if uid == 0 || uid == geteuid().as_raw() {
            return Ok(self);
        }
        let owner = self.owner().unwrap_or_else(|| format!("the user number {uid}"));
        Err(Failure::refused(
            "foreign_file",
            format!("{} belongs to {owner} and lies where anybody can put a file.", self.path.display()),
        )
        .hint("Look at it; remove it if nobody can say why it is there, or copy it to a folder of your own and name it there."))
    }

    /// Whether anybody may put files beside it.
    fn lies_in_shared_folder(&self) -> bool {
        fs::metadata(file::folder_of(&self.path)).is_ok_and(|folder| folder.permissions().mode() & 0o002 != 0)
    }
}

/// A hash in hex.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    file::hex(&Sha256::digest(bytes))
}
