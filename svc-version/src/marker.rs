//! The version marker, `${SVC_INSTALL_DIR}/current-version` (procedure, 2.5 and 9.1).

use std::path::PathBuf;

use clap::Args;
use svc_step::Failure;
use svc_step::file;
use svc_step::settings::Product;

use crate::version::Version;

/// A marker is one short line; a larger file is something else.
const LONGEST: u64 = 4096;

/// Where the marker is.
#[derive(Debug, Clone, Args)]
pub struct MarkerArgs {
    #[command(flatten)]
    product: Product,
    /// The version marker; default: INSTALL_DIR/current-version
    #[arg(long, value_name = "FILE")]
    marker: Option<PathBuf>,
}

impl MarkerArgs {
    /// The marker's absolute path.
    ///
    /// # Errors
    /// The current folder is gone.
    pub fn path(&self) -> Result<PathBuf, Failure> {
        let marker = self.marker.clone().unwrap_or_else(|| self.product.install_dir().join("current-version"));
        file::absolute(&marker)
    }

    /// What the marker says, as it stands there; `None` where there is no marker.
    ///
    /// # Errors
    /// It cannot be read (3), or is larger than a marker can be or no text (7).
    pub fn text(&self) -> Result<Option<String>, Failure> {
        let path = self.path()?;
        match file::read_text("read the version marker", &path, LONGEST) {
            Ok(text) => Ok(Some(text)),
            Err(failure) if failure.code == "file_not_found" => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// The installed version.
    ///
    /// # Errors
    /// There is no marker (4), or it holds no version (7).
    pub fn version(&self) -> Result<Version, Failure> {
        let path = self.path()?;
        let text = self.text()?.ok_or_else(|| {
            Failure::not_found("marker_not_found", format!("There is no version marker at {}.", path.display()))
                .hint("Name the installation with --install-dir or SVC_INSTALL_DIR; svc-version record writes a marker.")
        })?;
        text.trim().parse().map_err(|why: String| {
            Failure::invalid("marker_invalid", format!("The version marker {} holds no version X.Y.Z.", path.display()))
                .hint("Look at the file; when the version is known, svc-version record X.Y.Z --force writes it.")
                .cause(why)
        })
    }
}
