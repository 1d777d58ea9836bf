//! A file's rights, as a replacement must keep them: owner, group, mode, ACL, attributes and label.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;

/// Owner, group, mode and every extended attribute.
pub type Rights = (u32, u32, u32, BTreeMap<OsString, Vec<u8>>);

pub fn of(path: &Path) -> Rights {
    let meta = fs::symlink_metadata(path).unwrap();
    let read = |name: OsString| xattr::get(path, &name).unwrap().map(|value| (name, value));
    (meta.uid(), meta.gid(), meta.mode() & 0o7777, xattr::list(path).unwrap().filter_map(read).collect())
}

/// What no writer gives by itself: a user of the ACL reads, the owning group does not, and there are attributes and a label.
pub fn plant(path: &Path) -> io::Result<()> {
    fs::set_permissions(path, Permissions::from_mode(0o640))?;
    xattr::set(path, "system.posix_acl_access", &acl(65_533, 0))?;
    xattr::set(path, "user.note", b"mine")?;
    xattr::set(path, "security.selinux", b"system_u:object_r:svc_etc_t:s0\0")
}

/// A folder that gives what is made in it to its group, and lets one more user read it.
pub fn plant_in_folder(folder: &Path) -> io::Result<()> {
    chown(folder, None, Some(65_532))?;
    fs::set_permissions(folder, Permissions::from_mode(0o2775))?;
    xattr::set(folder, "system.posix_acl_default", &acl(65_531, 4))
}

/// An ACL as the kernel keeps it: the owner writes, a user reads, the owning group may what it may, others nothing.
fn acl(user: u32, group: u16) -> Vec<u8> {
    const NOBODY: u32 = u32::MAX;
    let entries: [(u16, u16, u32); 5] = [(1, 6, NOBODY), (2, 4, user), (4, group, NOBODY), (0x10, 4, NOBODY), (0x20, 0, NOBODY)];
    let mut bytes = 2_u32.to_le_bytes().to_vec();
    for (tag, rights, id) in entries {
        bytes.extend([tag.to_le_bytes(), rights.to_le_bytes()].concat());
        bytes.extend(id.to_le_bytes());
    }
    bytes
}
