//! A directory of the product's installers, known by their names; other files in it do not matter.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use svc_step::Failure;

use crate::installer::version_of;
use crate::version::Version;

/// The versions that the directory has names of. A directory that cannot be read completely is no list: the last minor might be what is
/// missing.
///
/// # Errors
/// It is missing (4) or cannot be read completely (3, 1).
pub(crate) fn versions(path: &Path, product: &str) -> Result<Vec<Version>, Failure> {
    Ok(read(path, product)?.into_iter().map(|(version, _)| version).collect())
}

/// The installers that can be run from here, by version: regular files that hold something. The paths of the others of that
/// name come with them.
///
/// # Errors
/// As [`versions`].
pub(crate) fn installers(path: &Path, product: &str) -> Result<(BTreeMap<Version, PathBuf>, Vec<PathBuf>), Failure> {
    let mut usable = BTreeMap::new();
    let mut others = Vec::new();
    for (version, path) in read(path, product)? {
        if fs::metadata(&path).is_ok_and(|meta| meta.is_file() && meta.len() > 0) {
            usable.insert(version, path);
        } else {
            others.push(path);
        }
    }
    others.sort();
    Ok((usable, others))
}

fn read(path: &Path, product: &str) -> Result<Vec<(Version, PathBuf)>, Failure> {
    let fault = |error: std::io::Error| Failure::io("read the directory of installers", path, &error);
    let mut found = Vec::new();
    for entry in fs::read_dir(path).map_err(fault)? {
        let path = entry.map_err(fault)?.path();
        found.extend(version_of(&path, product).ok().map(|version| (version, path)));
    }
    Ok(found)
}
