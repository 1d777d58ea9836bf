//! `installer`: the version of an installer, from its name `svc-x.y.z.run` (procedure, 9.1).

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_step::progress::Unit;
use svc_step::reporter::shell_quoted;
use svc_step::settings::Product;
use svc_step::{Call, Failure, StepResult, Stopped, file};

use crate::checksum;
use crate::version::Version;

/// How much of an installer holds its line `#!`, as the kernel has it.
const HEAD: u64 = 256;

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  svc-version installer /srv/installers/svc-2.0.1.run")]
pub(crate) struct InstallerArgs {
    /// The installer, named svc-X.Y.Z.run
    #[arg(value_name = "FILE")]
    installer: PathBuf,
    #[command(flatten)]
    product: Product,
}

/// An installer that is there and can be read.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Installer {
    /// Its absolute path.
    pub(crate) path: String,
    /// The version in its name.
    pub(crate) version: Version,
    /// Its size.
    pub(crate) size_bytes: u64,
    /// Its SHA-256.
    pub(crate) sha256: String,
    /// Its sum is that of the `.sha256` file beside it; `false`: there is no such file.
    pub(crate) checksum_verified: bool,
    /// Whether the system will execute it, by its mode, its disk and its interpreter; `false` comes with `file_invalid` (3).
    pub(crate) executable: bool,
}

pub(crate) fn run(args: &InstallerArgs, call: &Call) -> StepResult<Installer> {
    read(&file::absolute(&args.installer)?, args.product.name(), call)
}

/// The installer at an absolute path.
///
/// # Errors
/// Its name has no version (3), it is not there (4), others can write to it or could have planted it (3), it cannot be executed (3), or is empty or not what its checksum file says (7).
pub(crate) fn read(path: &Path, product: &str, call: &Call) -> StepResult<Installer> {
    let version = version_of(path, product)?;
    let meta = std::fs::metadata(path).map_err(|error| Failure::io("read the installer", path, &error))?;
    if !meta.is_file() || meta.len() == 0 {
        let what = if meta.is_file() { "empty" } else { "no regular file" };
        return Err(Failure::invalid("file_invalid", format!("The installer {} is {what}.", path.display()))
            .hint("Fetch the installer again.")
            .into());
    }
    refuse_writable(path)?;
    let (size_bytes, sha256) = hash(call, path, meta.len())?;
    let checksum_verified = checksum::compare(path, &sha256)?;
    if !checksum_verified {
        call.reporter().detail("there is no .sha256 file beside the installer, so nothing was compared");
    }
    let executable = may_execute(path, meta.permissions().mode());
    let installer = Installer {
        path: path.display().to_string(),
        version,
        size_bytes,
        sha256,
        checksum_verified,
        executable: executable.is_ok(),
    };
    match executable {
        Ok(()) => Ok(installer),
        Err(failure) => Err(Stopped::with(failure, installer)),
    }
}

/// Whoever can write to it, or put another one in its place, could run anything as the caller. (Whether the owner and a group may, the
/// operator has decided.)
fn refuse_writable(path: &Path) -> Result<(), Failure> {
    let fault = |error: std::io::Error| Failure::io("read the installer", path, &error);
    let real = std::fs::canonicalize(path).map_err(fault)?;
    for (entry, place) in [(&*real, &*real), (&*real, file::folder_of(&real)), (path, file::folder_of(path))] {
        let meta = std::fs::metadata(place).map_err(fault)?;
        if meta.mode() & 0o002 == 0 {
            continue;
        }
        let message = format!("The installer {} is not run: everybody can write to {}", path.display(), place.display());
        let is_sticky = meta.is_dir() && meta.mode() & 0o1000 != 0;
        let owner = std::fs::symlink_metadata(entry).map_err(fault)?.uid();
        if !is_sticky {
            let chmod = shell_quoted(&["chmod", "o-w", &place.to_string_lossy()]);
            let hint = format!("If it is the one that was shipped:\n  {chmod}");
            return Err(Failure::refused("permission_denied", format!("{message}.")).hint(hint));
        }
        // There anybody can add a file, and only its owner can replace it.
        if ![0, nix::unistd::geteuid().as_raw()].contains(&owner) {
            let message = format!("{message}, and {} belongs to the user number {owner}.", entry.display());
            let hint = "If it is the one that was shipped, copy it to a directory of your own.";
            return Err(Failure::refused("permission_denied", message).hint(hint));
        }
    }
    Ok(())
}

/// Found out before the service is stopped for it.
fn may_execute(path: &Path, mode: u32) -> Result<(), Failure> {
    let shown = path.display();
    let refused = |message: String, hint: &str| Failure::refused("file_invalid", message).hint(hint);
    if mode & 0o111 == 0 {
        let chmod = shell_quoted(&["chmod", "+x", &path.to_string_lossy()]);
        let hint = format!("If it is the right file:\n  {chmod}");
        return Err(refused(format!("The installer {shown} is not executable."), &hint));
    }
    file::executable(path).map_err(|error| {
        let hint = "Copy it to a disk that is not mounted noexec, or run the command as its owner.";
        refused(format!("The installer {shown} may not be executed here."), hint).cause(error.to_string())
    })?;
    let mut head = Vec::new();
    let read = File::open(path).and_then(|file| file.take(HEAD).read_to_end(&mut head));
    read.map_err(|error| Failure::io("read the installer", path, &error))?;
    let text = String::from_utf8_lossy(&head);
    let Some(line) = text.strip_prefix("#!") else {
        let is_text = !head.contains(&0);
        let message = format!("The installer {shown} is a text that does not begin with `#!`.");
        return if is_text { Err(refused(message, "Fetch the installer again.")) } else { Ok(()) };
    };
    let line = line.split('\n').next().unwrap_or_default().trim_matches([' ', '\t']);
    let interpreter = line.split([' ', '\t']).next().unwrap_or_default();
    file::executable(Path::new(interpreter)).map_err(|error| {
        // Of a file with CRLF the CR is a part of the name.
        let message = format!("The installer {shown} is run by {interpreter:?}, which cannot be executed.");
        refused(message, "Install that, or fetch the installer again.").cause(error.to_string())
    })
}

fn hash(call: &Call, path: &Path, size: u64) -> Result<(u64, String), Failure> {
    let progress = call.progress("read the installer", Unit::Bytes);
    file::digest_watched(path, |done| {
        progress.set(done, size, None);
        call.check()
    })
}

/// The version in a name of the form `<product>-x.y.z.run`.
pub(crate) fn version_of(path: &Path, product: &str) -> Result<Version, Failure> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.strip_prefix(&format!("{product}-"))
        .and_then(|rest| rest.strip_suffix(".run"))
        .ok_or_else(|| format!("`{name}` is not of the form {product}-X.Y.Z.run"))
        .and_then(str::parse)
        .map_err(|why| {
            Failure::refused("file_invalid", format!("{} does not carry a version in its name.", path.display()))
                .hint(format!("Give the installer the name that it was shipped with, {product}-X.Y.Z.run."))
                .cause(why)
        })
}
