//! Files that are complete or absent, and files in directories that others can write.

mod complete;
mod previous;
mod rights;

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use sha2::{Digest, Sha256};

pub use self::complete::{CompleteFile, Existing, write_complete};
pub use self::previous::Previous;
pub use self::rights::Rights;
use crate::effects::Effects;
use crate::failure::Failure;

/// The mode of a snapshot repository's directory.
pub const REPOSITORY: u32 = 0o750;

/// How much of a file is read at once to be hashed.
const HASHED_AT_ONCE: usize = 256 * 1024;

/// The refusal of a name that is taken.
pub fn exists(path: &Path) -> Failure {
    Failure::refused("name_in_use", format!("{} exists already and is not replaced.", path.display()))
        .hint("Name another file, or pass --force to replace it.")
}

/// Creates a file that is not there yet; a link of that name is never followed. The mode is exact, whatever the umask.
///
/// # Errors
/// See [`Failure::io`]; a taken name is 3.
pub fn create_new(path: &Path, mode: u32) -> Result<File, Failure> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .custom_flags(OFlag::O_NOFOLLOW.bits())
        .mode(0o600)
        .open(path)
        .map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => exists(path),
            _ => Failure::io("create the file", path, &error),
        })?;
    file.set_permissions(fs::Permissions::from_mode(mode)).map_err(|error| Failure::io("set the mode", path, &error))?;
    Ok(file)
}

/// Opens a regular file for reading, through links, and never waits for one that is none (a pipe without a writer).
///
/// # Errors
/// See [`Failure::io`]; a directory or a pipe is 3.
pub fn open_regular(action: &str, path: &Path) -> Result<File, Failure> {
    open_with(action, path, OFlag::empty())
}

/// Opens a regular file for reading without following a link at its end, so that a planted link is refused (3).
///
/// # Errors
/// See [`Failure::io`]; a link, a directory or a pipe is 3.
pub fn open_no_link(action: &str, path: &Path) -> Result<File, Failure> {
    open_with(action, path, OFlag::O_NOFOLLOW)
}

fn open_with(action: &str, path: &Path, more: OFlag) -> Result<File, Failure> {
    let flags = (more | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC).bits();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(|error| {
        match error.raw_os_error().map(nix::Error::from_raw) {
            Some(nix::Error::ELOOP) => not_regular(action, path, "a symbolic link"),
            // A socket.
            Some(nix::Error::ENXIO) => not_regular(action, path, "no regular file"),
            _ => Failure::io(action, path, &error),
        }
    })?;
    let meta = file.metadata().map_err(|error| Failure::io(action, path, &error))?;
    if meta.is_file() { Ok(file) } else { Err(not_regular(action, path, "no regular file")) }
}

/// The refusal of a link, a directory, a pipe or a device. `action` completes "Cannot …".
pub fn not_regular(action: &str, path: &Path, what: &str) -> Failure {
    Failure::refused("file_invalid", format!("Cannot {action}: {} is {what}.", path.display()))
        .hint("Name another file; or inspect it with ls -l, and remove it if nothing needs it.")
}

/// Reads a small text file.
///
/// # Errors
/// See [`Failure::io`]; larger than `limit` bytes or not UTF-8 is 7. `action` completes "Cannot …".
pub fn read_text(action: &str, path: &Path, limit: u64) -> Result<String, Failure> {
    text_of(open_regular(action, path)?, action, path, limit)
}

/// The certificates of a PEM file; `option` is what takes its name.
///
/// # Errors
/// It cannot be read, or has none (2 `settings_invalid`).
pub fn certificates(path: &Path, option: &str) -> Result<Vec<CertificateDer<'static>>, Failure> {
    let pem = read_text("read the certificates", path, 16 * 1024 * 1024).map_err(Failure::of_setting)?;
    let found: Vec<_> = CertificateDer::pem_slice_iter(pem.as_bytes()).flatten().collect();
    if found.is_empty() {
        let hint = format!("Name a PEM file (-----BEGIN CERTIFICATE-----) with {option}.");
        return Err(Failure::usage("settings_invalid", format!("The file {} holds no certificate.", path.display())).hint(hint));
    }
    Ok(found)
}

/// The content of a small file that is open.
///
/// # Errors
/// See [`Failure::io`]; larger than `limit` bytes is 7.
pub fn bytes_of(file: &File, action: &str, path: &Path, limit: u64) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    file.take(limit + 1).read_to_end(&mut bytes).map_err(|error| Failure::io(action, path, &error))?;
    if bytes.len() as u64 <= limit {
        return Ok(bytes);
    }
    Err(Failure::invalid("file_invalid", format!("Cannot {action}: {} is larger than {limit} bytes.", path.display()))
        .hint("Check that this is the right file."))
}

/// The text of a small file that is open.
///
/// # Errors
/// As [`read_text`].
pub(crate) fn text_of(file: File, action: &str, path: &Path, limit: u64) -> Result<String, Failure> {
    String::from_utf8(bytes_of(&file, action, path, limit)?).map_err(|error| {
        Failure::invalid("file_invalid", format!("Cannot {action}: {} is not UTF-8 text.", path.display()))
            .hint("Check that this is the right file.")
            .cause(error.utf8_error().to_string())
    })
}

/// Size in bytes and SHA-256 in hex of a file.
///
/// # Errors
/// See [`Failure::io`].
pub fn digest(path: &Path) -> Result<(u64, String), Failure> {
    digest_watched(path, |_| Ok(()))
}

/// The same for a file that may be large: `watch` is told again and again how many bytes have been read, so that it can show
/// progress, and ends the reading at a signal or the time limit by its failure.
///
/// # Errors
/// See [`Failure::io`], and what `watch` says.
pub fn digest_watched(path: &Path, mut watch: impl FnMut(u64) -> Result<(), Failure>) -> Result<(u64, String), Failure> {
    let fault = |error: io::Error| Failure::io("read the file", path, &error);
    let mut file = open_regular("read the file", path)?;
    let mut hash = Sha256::new();
    let mut piece = vec![0; HASHED_AT_ONCE];
    let mut size = 0;
    loop {
        let read = match file.read(&mut piece) {
            Ok(0) => return Ok((size, hex(&hash.finalize()))),
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(fault(error)),
        };
        hash.update(piece.get(..read).unwrap_or_default());
        size += read as u64;
        watch(size)?;
    }
}

/// The SHA-256 of bytes, in hex.
pub fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Bytes as lower-case hex.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Makes a directory with `mode`, and those above it that are missing, which every user may pass, whatever the caller's umask.
///
/// # Errors
/// See [`Failure::io`].
pub fn create_folder(effects: &Effects, folder: &Path, mode: u32) -> Result<(), Failure> {
    let missing: Vec<&Path> = folder.ancestors().take_while(|folder| !folder.exists()).collect();
    for one in missing.into_iter().rev() {
        let mode = if one == folder { mode } else { 0o755 };
        let fault = |error: io::Error| Failure::io("make the directory", one, &error);
        match DirBuilder::new().mode(mode).create(one) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
            made => made.map_err(fault)?,
        }
        effects.happened();
        fs::set_permissions(one, fs::Permissions::from_mode(mode)).map_err(fault)?;
        sync_folder_of(one)?;
    }
    Ok(())
}

/// Makes the names in the directory of `path` durable.
///
/// # Errors
/// See [`Failure::io`].
pub fn sync_folder_of(path: &Path) -> Result<(), Failure> {
    let folder = folder_of(path);
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(|error| Failure::io("make the file durable", folder, &error))
}

/// The directory that a path is in; `.` for a bare name.
pub fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The path with `suffix` added to its name.
pub fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path.as_os_str());
    name.push(suffix);
    PathBuf::from(name)
}

/// How much space the disk of `folder` has for whoever is not root; `None` if the disk does not tell.
pub fn free_bytes(folder: &Path) -> Option<u64> {
    let disk = nix::sys::statvfs::statvfs(folder).ok()?;
    // u64 on this platform and u32 on others.
    #[allow(clippy::useless_conversion)]
    Some(u64::from(disk.blocks_available()).saturating_mul(u64::from(disk.fragment_size())))
}

/// Whether the system lets the caller execute a file; not on a disk that is mounted noexec, whatever the mode of the file is.
///
/// # Errors
/// Why it does not.
pub fn executable(path: &Path) -> io::Result<()> {
    Ok(nix::unistd::access(path, nix::unistd::AccessFlags::X_OK)?)
}

/// The path made absolute without resolving links, as documents have it.
///
/// # Errors
/// It is not UTF-8, so that what reads a document would look for another file (2); the current directory is gone.
pub fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    let absolute = std::path::absolute(path).map_err(|error| Failure::io("find the absolute path", path, &error))?;
    if absolute.to_str().is_some() {
        return Ok(absolute);
    }
    Err(Failure::usage("options_invalid", format!("{} is not UTF-8, so that no document can name it.", absolute.display()))
        .hint("Name another file or directory, or rename it."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_digest_is_exact_and_interruptible() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        fs::write(&path, vec![b'a'; 1_000_000]).unwrap();
        let (size, sha256) = digest(&path).unwrap();
        assert_eq!(size, 1_000_000);
        assert_eq!(sha256, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
        let mut told = Vec::new();
        let ended = digest_watched(&path, |size| {
            told.push(size);
            if told.len() < 2 { Ok(()) } else { Err(Failure::interrupted(15)) }
        });
        assert_eq!(ended.unwrap_err().code, "interrupted");
        assert_eq!(told.len(), 2);
    }
}
