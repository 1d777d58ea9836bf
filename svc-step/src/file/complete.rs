//! Files that are complete or absent.

use std::fs::{self, File, Metadata, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use super::{Rights, beside, create_new, exists, not_regular, open_no_link, sync_folder_of};
use crate::failure::Failure;

/// An unfinished file: it is beside its destination as `<name>.partial`, private to its owner and locked, until it is complete.
///
/// Dropped without [`CompleteFile::publish`], it is removed.
#[derive(Debug)]
pub struct CompleteFile {
    file: File,
    partial: PathBuf,
    path: PathBuf,
    published: bool,
}

/// What to do with a file that is already there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existing {
    /// Leave it, and refuse (3).
    Keep,
    /// Put the new one in its place, with the mode that it was started with: a file of the tools' own.
    Replace,
    /// Put the new one in its place with owner, group, mode, ACL, extended attributes and SELinux label of the file that is there, or
    /// refuse (3): a file that others use too. A link, or nothing, is replaced as by [`Existing::Replace`].
    ReplaceInUse,
}

impl CompleteFile {
    /// Starts a file that is to appear at `path` with `mode`.
    ///
    /// A `.partial` that a killed run left is removed; a planted link of that name is removed too, never followed.
    ///
    /// # Errors
    /// Another run writes it (8), by whatever name or state directory. See [`Failure::io`].
    pub fn create(path: &Path, mode: u32) -> Result<Self, Failure> {
        let partial = beside(path, ".partial");
        let abandoned = open_no_link("inspect an unfinished file", &partial).ok();
        if abandoned.as_ref().is_some_and(is_locked) {
            return Err(in_use(path));
        }
        match fs::remove_file(&partial) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(Failure::io("remove an unfinished file", &partial, &error));
            }
            _ => {}
        }
        let file = create_new(&partial, mode).map_err(|failure| match failure.code.as_str() {
            "name_in_use" => in_use(path),
            _ => failure,
        })?;
        let this = Self { file, partial, path: path.to_owned(), published: false };
        // Another run may have taken it for an abandoned one before it was locked.
        if is_locked(&this.file) || !this.is_own() { Err(in_use(path)) } else { Ok(this) }
    }

    /// Whether the partial name still leads to this file.
    fn is_own(&self) -> bool {
        let identity = |meta: io::Result<Metadata>| meta.ok().map(|meta| (meta.dev(), meta.ino()));
        let own = identity(self.file.metadata());
        own.is_some() && own == identity(fs::symlink_metadata(&self.partial))
    }

    /// The file, to be written.
    pub const fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// Makes it durable and gives it its name, at once.
    ///
    /// # Errors
    /// The disk did not take it (1), something of that name appeared meanwhile and is to be kept (3), it is a directory, a pipe or a
    /// device (3), the rights of a file in use cannot be kept (3), or another file has taken the partial name (8).
    pub fn publish(mut self, existing: Existing) -> Result<(), Failure> {
        let fault = |error: io::Error| Failure::io("finish the file", &self.path, &error);
        if existing == Existing::ReplaceInUse && fs::symlink_metadata(&self.path).is_ok_and(|meta| meta.is_file()) {
            let rights = open_no_link("read the rights of the file", &self.path).and_then(|file| {
                Rights::of(&file).map_err(|error| Failure::io("read the rights of the file", &self.path, &error))
            })?;
            rights.give(&self.file, &self.path)?;
        }
        self.file.sync_all().map_err(fault)?;
        if !self.is_own() {
            return Err(in_use(&self.path));
        }
        match existing {
            Existing::Replace | Existing::ReplaceInUse => {
                if fs::symlink_metadata(&self.path).is_ok_and(|meta| !meta.is_file() && !meta.is_symlink()) {
                    return Err(not_regular("finish the file", &self.path, "no regular file"));
                }
                fs::rename(&self.partial, &self.path).map_err(fault)?;
            }
            Existing::Keep => {
                match renameat_with(CWD, &self.partial, CWD, &self.path, RenameFlags::NOREPLACE) {
                    Err(Errno::EXIST) => return Err(exists(&self.path)),
                    // Not every file system knows the flag (NFS does not); a second name is given by all of them, and
                    // never to what is there already.
                    Err(Errno::INVAL | Errno::NOSYS) => self.publish_by_link()?,
                    other => other.map_err(io::Error::from).map_err(fault)?,
                }
            }
        }
        self.published = true;
        sync_folder_of(&self.path)
    }

    fn publish_by_link(&self) -> Result<(), Failure> {
        fs::hard_link(&self.partial, &self.path).and_then(|()| fs::remove_file(&self.partial)).map_err(|error| {
            match error.kind() {
                io::ErrorKind::AlreadyExists => exists(&self.path),
                _ => Failure::io("finish the file", &self.path, &error),
            }
        })
    }
}

impl Write for CompleteFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for CompleteFile {
    fn drop(&mut self) {
        if !self.published && self.is_own() {
            let _ = fs::remove_file(&self.partial);
        }
    }
}

/// Takes the lock of a file that is being written, until it is closed; whether another one holds it. Some file systems have no locks.
fn is_locked(file: &File) -> bool {
    matches!(file.try_lock(), Err(TryLockError::WouldBlock))
}

fn in_use(path: &Path) -> Failure {
    Failure::locked("locked", format!("Another run writes {}.", path.display()))
        .hint("Wait until it has ended, then run the same command again.")
}

/// Writes a small file completely, with `mode`.
///
/// # Errors
/// As [`CompleteFile`].
pub fn write_complete(path: &Path, content: &[u8], mode: u32, existing: Existing) -> Result<(), Failure> {
    let mut file = CompleteFile::create(path, mode)?;
    file.write_all(content).map_err(|error| Failure::io("write the file", path, &error))?;
    file.publish(existing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_writer_of_file_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let (path, partial) = (dir.path().join("f"), dir.path().join("f.partial"));
        fs::write(&partial, "left by a killed run").unwrap();
        let mut first = CompleteFile::create(&path, 0o600).unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(dir.path(), &link).unwrap();
        for name in [&path, &link.join("f")] {
            assert_eq!(CompleteFile::create(name, 0o600).unwrap_err().exit_code(), 8);
        }
        first.write_all(b"first").unwrap();
        fs::remove_file(&partial).unwrap();
        fs::write(&partial, "half").unwrap();
        assert_eq!(first.publish(Existing::Keep).unwrap_err().code, "locked");
        assert!(!path.exists() && fs::read(&partial).unwrap() == b"half");
    }

    #[test]
    fn pipe_is_never_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        for existing in [Existing::Replace, Existing::ReplaceInUse] {
            assert_eq!(write_complete(&pipe, b"x", 0o600, existing).unwrap_err().code, "file_invalid");
        }
        assert!(!fs::symlink_metadata(&pipe).unwrap().is_file());
    }
}
