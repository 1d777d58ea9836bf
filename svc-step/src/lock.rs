//! One lock per thing that is changed: a `flock`, which dies with its owner.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::call::Call;
use crate::failure::Failure;

/// What names the directory of all locks and records.
pub const SETTING: &str = "SVC_STATE_DIR";

/// A lock that is held until it is dropped.
#[derive(Debug)]
#[must_use = "the lock is released when this is dropped"]
pub struct Lock {
    _file: File,
}

impl Lock {
    /// Takes the lock of one thing: `kind` such as `database`, `name` such as `svc_db`.
    ///
    /// # Errors
    /// Another run holds it (8); the directory of locks cannot be used (3).
    pub fn take(call: &Call, kind: &str, name: &str) -> Result<Self, Failure> {
        let folder = call.state_dir().join("locks");
        make_private_folder(&folder, SETTING)?;
        let path = folder.join(file_name(kind, name));
        let mut file = open(&path).map_err(|error| Failure::directory(&folder, SETTING, &error))?;
        // Whoever asks only for its holder has it for a moment too.
        match within(Duration::from_millis(500), &file) {
            Ok(true) => {}
            Ok(false) => return Err(held(kind, name, &mut file)),
            Err(error) => {
                let hint = format!("Set {SETTING} to a directory of a file system that has locks.");
                return Err(Failure::directory(&folder, SETTING, &error).hint(hint));
            }
        }
        // Only for the message of whoever finds it held: the lock itself is the kernel's.
        let note = format!("{} (process {})\n", call.run_id(), std::process::id());
        let _ = file.set_len(0).and_then(|()| file.write_all(note.as_bytes()));
        Ok(Self { _file: file })
    }

    /// The lock, but none in a dry run, which touches nothing: the directory of locks included.
    ///
    /// # Errors
    /// As [`Lock::take`].
    pub fn unless_dry(call: &Call, kind: &str, name: &str, dry_run: bool) -> Result<Option<Self>, Failure> {
        if dry_run { Ok(None) } else { Self::take(call, kind, name).map(Some) }
    }

    /// Who holds the lock of one thing, as `RUN (process ID)`; `None` if nobody does.
    pub fn holder(call: &Call, kind: &str, name: &str) -> Option<String> {
        holder(&call.state_dir().join("locks").join(file_name(kind, name)))
    }
}

/// The name of the lock, of the kind `repository`, that whoever writes to a snapshot repository of a cluster holds, and whoever copies it.
pub fn repository(cluster_uuid: &str, name: &str) -> String {
    format!("{cluster_uuid}.{name}")
}

/// Opens the file of a lock.
///
/// # Errors
/// It cannot be made.
pub fn open(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

/// Takes the lock of a file that another process may still hold for a moment; whether it was had in that time.
///
/// # Errors
/// The file system has no locks.
pub fn within(time: Duration, file: &File) -> std::io::Result<bool> {
    let until = Instant::now() + time;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(true),
            Err(TryLockError::WouldBlock) if Instant::now() < until => std::thread::sleep(Duration::from_millis(20)),
            Err(TryLockError::WouldBlock) => return Ok(false),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
}

fn held(kind: &str, name: &str, file: &mut File) -> Failure {
    let mut holder = String::new();
    let _ = file.rewind().and_then(|()| file.read_to_string(&mut holder));
    Failure::locked("locked", format!("Another run holds the lock of the {kind} {name}."))
        .hint("Wait until it has ended, then run the same command again.")
        .cause(format!("held by {}", holder.trim()))
}

/// What the file of a lock says, if somebody holds the lock.
pub fn holder(path: &Path) -> Option<String> {
    // Shared: two who ask at once must not take each other for the holder.
    let is_held = File::open(path).is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)));
    is_held.then(|| fs::read_to_string(path).unwrap_or_default().trim().to_owned())
}

/// Makes a directory of our own (0700) with its parents.
///
/// # Errors
/// It cannot be made (3): the hint is to put that right, or to set `setting`.
pub fn make_private_folder(folder: &Path, setting: &str) -> Result<(), Failure> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(|error| Failure::directory(folder, setting, &error))
}

/// `kind-name`: every byte but letters, digits, `-`, `_` and `.` is written as `%xx`, since things may have any name.
fn file_name(kind: &str, name: &str) -> String {
    let mut out = format!("{kind}-");
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.') {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02x}"));
        }
    }
    crate::run_id::fit(&out, 200)
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::call::tests::call;

    #[test]
    fn why_a_directory_of_locks_cannot_be_made_is_told() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("locks"), "").unwrap();
        for (state_dir, code) in [(folder.path(), "name_in_use"), (Path::new("/proc/nothing"), "settings_invalid")] {
            let failure = Lock::take(&call("svc-a", state_dir), "file", "x").unwrap_err();
            assert_eq!((failure.status.code(), failure.code.as_str()), (3, code));
        }
    }

    #[test]
    fn holder_query_does_not_block_lock() {
        let folder = tempfile::tempdir().unwrap();
        let call = call("svc-a", folder.path());
        drop(Lock::take(&call, "database", "d").unwrap());
        let asked = File::open(folder.path().join("locks/database-d")).unwrap();
        asked.lock_shared().unwrap();
        let asking = thread::spawn(move || {
            thread::sleep(Duration::from_millis(100));
            drop(asked);
        });
        let path = folder.path().join("locks/database-d");
        assert!(within(Duration::from_secs(60), &open(&path).unwrap()).unwrap());
        asking.join().unwrap();
        let _lock = Lock::take(&call, "database", "d").unwrap();
        assert!(Lock::holder(&call, "database", "d").unwrap().contains("process"));
        assert_eq!(Lock::take(&call, "database", "d").unwrap_err().exit_code(), 8);
    }
}
