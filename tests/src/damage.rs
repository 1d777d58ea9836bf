//! What a bad disk does: a byte that is another one than was written.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

pub fn flip_a_byte(file: &Path) -> Result<()> {
    let mut bytes = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    let middle = bytes.len() / 2;
    *bytes.get_mut(middle).with_context(|| format!("{} is empty", file.display()))? ^= 1;
    fs::write(file, bytes).with_context(|| format!("cannot write {}", file.display()))
}

/// Flips a byte in the largest data blob of a search database's file repository, in the folder that is its location.
pub fn flip_a_blob(repository: &Path) -> Result<()> {
    let mut blobs = Vec::new();
    collect(&repository.join("indices"), &mut blobs)?;
    let (_, blob) = blobs.into_iter().max().with_context(|| format!("{} has no blobs", repository.display()))?;
    flip_a_byte(&blob)
}

/// Every blob of data below a folder, by its size; what the repository says of itself has other names.
fn collect(folder: &Path, found: &mut Vec<(u64, PathBuf)>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let entry = entry?;
        let meta = entry.metadata()?;
        if meta.is_dir() {
            collect(&entry.path(), found)?;
        } else if entry.file_name().to_string_lossy().starts_with("__") {
            found.push((meta.len(), entry.path()));
        }
    }
    Ok(())
}
