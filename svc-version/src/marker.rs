//! The version marker, `${SVC_INSTALL_DIR}/current-version` (procedure, 2.5 and 9.1).

use std::path::{Path, PathBuf};
use std::string::FromUtf8Error;

use clap::Args;
use svc_step::Failure;
use svc_step::file;
use svc_step::settings::Product;

use crate::version::Version;

/// A marker is one short line; a larger file is something else.
const LONGEST: u64 = 4096;

/// Its name in an installation.
const NAME: &str = "current-version";

const ACTION: &str = "read the version marker";

/// Where the marker is.
#[derive(Debug, Clone, Args)]
pub(crate) struct MarkerArgs {
    #[command(flatten)]
    product: Product,
}

impl MarkerArgs {
    /// The product's name, which its installers carry.
    pub(crate) fn product_name(&self) -> &str {
        self.product.name()
    }

    /// The absolute path of a marker that was cleared: where it was, unless the caller names another installation.
    pub(crate) fn of_cleared(&self, cleared: &Path) -> Result<PathBuf, Failure> {
        if self.product.install_dir.is_some() { self.path() } else { Ok(cleared.to_owned()) }
    }

    /// The marker's absolute path.
    ///
    /// # Errors
    /// The current directory is gone, or the path is not UTF-8 (2).
    pub(crate) fn path(&self) -> Result<PathBuf, Failure> {
        file::absolute(&self.product.install_dir().join(NAME))
    }

    /// The installed version.
    ///
    /// # Errors
    /// There is no marker (4), or it holds no version (7).
    pub(crate) fn version(&self) -> Result<Version, Failure> {
        let path = self.path()?;
        let text = text(&path)?.ok_or_else(|| {
            Failure::not_found("file_not_found", format!("There is no version marker at {}.", path.display()))
                .hint("Name the installation with --install-dir or SVC_INSTALL_DIR; svc-version record X.Y.Z writes a marker.")
        })?;
        text.trim().parse().map_err(|why: String| {
            Failure::invalid("file_invalid", format!("The version marker {} holds no version X.Y.Z.", path.display()))
                .hint("Check the file; when the version is known, svc-version record X.Y.Z --force writes it.")
                .cause(why)
        })
    }
}

fn text(path: &Path) -> Result<Option<String>, Failure> {
    match file::read_text(ACTION, path, LONGEST) {
        Ok(text) => Ok(Some(text)),
        Err(failure) if failure.code == "file_not_found" => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// The content of the marker at `path`, also of one that is damaged: bytes that are not UTF-8 are replaced, and the flag is set.
/// `None` if there is no marker.
///
/// # Errors
/// It cannot be read (3), or is larger than a marker can be (7).
pub(crate) fn lossy_text(path: &Path) -> Result<Option<(String, bool)>, Failure> {
    let bytes = match file::open_regular(ACTION, path) {
        Ok(marker) => file::bytes_of(&marker, ACTION, path, LONGEST)?,
        Err(failure) if failure.code == "file_not_found" => return Ok(None),
        Err(failure) => return Err(failure),
    };
    let of_damaged = |error: FromUtf8Error| (String::from_utf8_lossy(error.as_bytes()).into_owned(), true);
    Ok(Some(String::from_utf8(bytes).map_or_else(of_damaged, |text| (text, false))))
}
