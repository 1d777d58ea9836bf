//! `installer`: the version that an installer brings, from its name `svc-x.y.z.run` (procedure, 9.1).

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_step::settings::Product;
use svc_step::{Call, Failure, StepResult, file};

use crate::version::Version;

/// A checksum file is one short line.
const CHECKSUM_LONGEST: u64 = 64 * 1024;

/// Arguments of `svc-version installer`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  svc-version installer /srv/installers/svc-2.0.1.run")]
pub struct InstallerArgs {
    /// The installer, named svc-X.Y.Z.run
    #[arg(value_name = "FILE")]
    installer: PathBuf,
    #[command(flatten)]
    product: Product,
}

/// An installer that is there and can be read.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Installer {
    /// Its absolute path.
    pub path: String,
    /// The version in its name.
    pub version: Version,
    /// Its size.
    pub size_bytes: u64,
    /// Its SHA-256.
    pub sha256: String,
    /// `true` it is what the `.sha256` file beside it says; `null` there is no such file.
    pub checksum_verified: Option<bool>,
}

pub(crate) fn run(args: &InstallerArgs, call: &Call) -> StepResult<Installer> {
    let path = file::absolute(&args.installer)?;
    let version = version_of(&path, &args.product.name)?;
    let (size_bytes, sha256) = file::digest(&path)?;
    let checksum_verified = compare(&path, &sha256)?;
    if checksum_verified.is_none() {
        call.people().detail("there is no .sha256 file beside the installer, so nothing was compared");
    }
    Ok(Installer { path: path.display().to_string(), version, size_bytes, sha256, checksum_verified })
}

/// The version in a name of the form `<product>-x.y.z.run`.
fn version_of(path: &Path, product: &str) -> Result<Version, Failure> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.strip_prefix(&format!("{product}-"))
        .and_then(|rest| rest.strip_suffix(".run"))
        .ok_or_else(|| format!("`{name}` is not of the form {product}-X.Y.Z.run"))
        .and_then(str::parse)
        .map_err(|why| {
            Failure::refused("installer_name", format!("{} does not carry a version in its name.", path.display()))
                .hint(format!("Give the installer the name that it was shipped with, {product}-X.Y.Z.run."))
                .cause(why)
        })
}

/// Holds the installer against the `.sha256` file beside it, in the form that `sha256sum` writes.
fn compare(path: &Path, found: &str) -> Result<Option<bool>, Failure> {
    let beside = file::beside(path, ".sha256");
    let text = match file::read_text("read the checksum file", &beside, CHECKSUM_LONGEST) {
        Ok(text) => text,
        Err(failure) if failure.code == "file_not_found" => return Ok(None),
        Err(failure) => return Err(failure),
    };
    let wanted = text.split_whitespace().next().unwrap_or_default();
    if wanted.eq_ignore_ascii_case(found) {
        return Ok(Some(true));
    }
    Err(Failure::invalid("installer_altered", format!("{} is not what its checksum file says.", path.display()))
        .hint("Fetch the installer again, and its .sha256 file with it.")
        .cause(format!("{} says {wanted}, the installer has {found}", beside.display())))
}
