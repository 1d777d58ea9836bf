//! Lets a test hold a migration between its halves, to look at it or to end it there.

use std::path::PathBuf;
use std::time::Duration;
use std::{env, fs, thread};

use anyhow::Context;

/// The variable that names the file to wait for; unset in earnest.
const VARIABLE: &str = "SVC_SAMPLE_HOLD";

/// Where the variable names a file that exists: makes that name with `.reached`, and waits until the file is gone.
///
/// # Errors
/// The `.reached` file cannot be written.
pub fn between_halves() -> anyhow::Result<()> {
    let Some(file) = env::var_os(VARIABLE).map(PathBuf::from).filter(|file| file.exists()) else { return Ok(()) };
    let mut reached = file.clone().into_os_string();
    reached.push(".reached");
    fs::write(&reached, "").with_context(|| format!("cannot write {}", PathBuf::from(&reached).display()))?;
    while file.exists() {
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}
