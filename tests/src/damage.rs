//! What a bad disk does: a byte that is another one than was written.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::os;

pub fn flip_a_byte(file: &Path) -> Result<()> {
    let mut bytes = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    let middle = bytes.len() / 2;
    *bytes.get_mut(middle).with_context(|| format!("{} is empty", file.display()))? ^= 1;
    fs::write(file, bytes).with_context(|| format!("cannot write {}", file.display()))
}

/// Flips a byte in the largest data blob of a search database's file repository, in the folder that is its location.
pub fn flip_a_blob(repository: &Path) -> Result<()> {
    // What the repository says of itself has other names.
    let blobs = os::run(Command::new("find").arg(repository).args(["-path", "*/indices/*/__*", "-printf", "%s %p\n"]))?;
    let sized =
        blobs.lines().filter_map(|line| line.split_once(' ')).filter_map(|(size, blob)| Some((size.parse::<u64>().ok()?, blob)));
    let (_, blob) = sized.max().with_context(|| format!("{} has no blobs", repository.display()))?;
    flip_a_byte(Path::new(blob))
}
