//! An installation of one test; and what nearly every test uses.

pub use std::fs::{self, File};
pub use std::os::unix::fs::{chown, symlink};
pub use std::path::{Path, PathBuf};

pub use serde_json::{Value, json};
pub use svc_tests::os;
pub use svc_tests::tool::{Ran, Tool};
use tempfile::TempDir;

/// An installation with its own state folder.
pub struct Place(pub TempDir);

impl Place {
    pub fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        os::chmod(place.0.path(), 0o755);
        place
    }

    /// One if the marker says this.
    pub fn saying(marker: impl AsRef<[u8]>) -> Self {
        let place = Self::new();
        fs::write(place.marker(), marker).unwrap();
        place
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, content).unwrap();
        path
    }

    pub fn installer(&self, name: &str) -> PathBuf {
        let path = self.file(name, "#!/bin/sh\n");
        os::chmod(&path, 0o755);
        path
    }

    pub fn marker(&self) -> PathBuf {
        self.path("current-version")
    }

    pub fn marker_says(&self) -> Option<String> {
        fs::read_to_string(self.marker()).ok()
    }

    pub fn tool(&self, step: &str) -> Tool {
        Tool::new("svc-version").arg(step).env("SVC_INSTALL_DIR", self.0.path()).env("SVC_STATE_DIR", self.path("state"))
    }

    pub fn check(&self, installed: &str, to: &str) -> Tool {
        self.tool("check").args(["--installed", installed, "--to", to])
    }
}

pub fn sha256_line(path: &Path) -> String {
    os::run(std::process::Command::new("sha256sum").arg(path)).unwrap()
}
