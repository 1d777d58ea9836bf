//! Whose a file is and who may do what with it: owner, group, mode, ACL, extended attributes and SELinux label.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::Path;

use nix::errno::Errno;
use xattr::FileExt;

use crate::failure::Failure;

/// Hashes and signatures of the content, which the kernel itself keeps for the new one.
const OF_CONTENT: [&str; 2] = ["security.ima", "security.evm"];

/// The attribute that is a file's POSIX ACL.
const ACL: &str = "system.posix_acl_access";

/// The rights of a file. POSIX ACLs, file capabilities and SELinux's label are extended attributes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rights {
    uid: u32,
    gid: u32,
    mode: u32,
    attributes: BTreeMap<OsString, Vec<u8>>,
}

impl Rights {
    /// Those of an open file.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn of(file: &File) -> io::Result<Self> {
        let meta = file.metadata()?;
        let mut attributes = BTreeMap::new();
        // Some file systems have no attributes.
        let names = file.list_xattr().map(Iterator::collect::<Vec<_>>).or_else(|error| match error.raw_os_error() {
            Some(code) if code == Errno::EOPNOTSUPP as i32 => Ok(Vec::new()),
            _ => Err(error),
        })?;
        for name in names.into_iter().filter(|name| OF_CONTENT.iter().all(|other| name != other)) {
            if let Some(value) = file.get_xattr(&name)? {
                attributes.insert(name, value);
            }
        }
        Ok(Self { uid: meta.uid(), gid: meta.gid(), mode: meta.mode() & 0o7777, attributes })
    }

    /// The owner as a number.
    pub const fn uid(&self) -> u32 {
        self.uid
    }

    /// The group as a number.
    pub const fn gid(&self) -> u32 {
        self.gid
    }

    /// The permission bits; with an ACL, those of the group are its mask.
    pub const fn mode(&self) -> u32 {
        self.mode
    }

    /// The POSIX ACL as the kernel keeps it; `None` if the permission bits say it all.
    pub fn acl(&self) -> Option<&[u8]> {
        self.attributes.get(OsStr::new(ACL)).map(Vec::as_slice)
    }

    /// These with the owner, the group, the mode and the ACL of another file.
    pub fn owned_by(mut self, uid: u32, gid: u32, mode: u32, acl: Option<Vec<u8>>) -> Self {
        self.attributes.remove(OsStr::new(ACL));
        self.attributes.extend(acl.map(|acl| (ACL.into(), acl)));
        Self { uid, gid, mode, ..self }
    }

    /// Gives them all to `file`, the one that is to be at `path`: what it has from its directory (a group, an ACL) goes.
    ///
    /// # Errors
    /// They cannot be given to it (3).
    pub fn give(&self, file: &File, path: &Path) -> Result<(), Failure> {
        let refused = |cause: String| {
            let what = format!(
                "The owner, group, mode, ACL and attributes of {} cannot be kept, so it is not replaced.",
                path.display()
            );
            Failure::refused("permission_denied", what)
                .hint("Run the command as root (sudo), or as the owner of that file.")
                .cause(cause)
        };
        self.set(file).map_err(|error| refused(error.to_string()))?;
        match Self::of(file) {
            Ok(now) if now == *self => Ok(()),
            Ok(now) => Err(refused(format!("{self:?} became {now:?}"))),
            Err(error) => Err(refused(error.to_string())),
        }
    }

    fn set(&self, file: &File) -> io::Result<()> {
        let now = Self::of(file)?;
        if (now.uid, now.gid) != (self.uid, self.gid) {
            fchown(file, Some(self.uid), Some(self.gid))?;
        }
        for name in now.attributes.keys().filter(|name| !self.attributes.contains_key(*name)) {
            file.remove_xattr(name)?;
        }
        // After the owner, whose change takes capabilities away; before the mode: an ACL sets a part of it.
        for (name, value) in self.attributes.iter().filter(|(name, value)| now.attributes.get(*name) != Some(*value)) {
            file.set_xattr(name, value)?;
        }
        file.set_permissions(Permissions::from_mode(self.mode))
    }
}
