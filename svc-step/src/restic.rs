//! restic with the off-site repository of the settings: the only program that gets every variable of the settings file.

use std::path::Path;
use std::process::Command;

use crate::failure::Failure;
use crate::secret::Secret;
use crate::settings::{environment_file, others, setting, variable};

/// restic, without a command.
///
/// # Errors
/// `SVC_OFFSITE` is not set (2), the settings file cannot be read, or the password's file is missing (4), open to others (3) or no text (7).
pub fn command() -> Result<Command, Failure> {
    let (repository, password_file) = (setting("SVC_OFFSITE"), setting("SVC_OFFSITE_PASSWORD_FILE"));
    if repository.is_empty() {
        let hint = format!("Set SVC_OFFSITE and SVC_OFFSITE_PASSWORD_FILE in {}.", environment_file().display());
        return Err(Failure::usage("settings_invalid", "SVC_OFFSITE, the restic repository, is not set.").hint(hint));
    }
    let mut restic = Command::new("restic");
    // Without a home directory it would have no cache.
    if variable("RESTIC_CACHE_DIR").is_none() {
        restic.env("RESTIC_CACHE_DIR", format!("{}/restic-cache", setting("SVC_STATE_DIR")));
    }
    restic.envs(others()?).env("RESTIC_REPOSITORY", repository);
    if !password_file.is_empty() {
        Secret::whole_file("password", Path::new(&password_file))?;
        restic.env("RESTIC_PASSWORD_FILE", password_file);
    }
    Ok(restic)
}
