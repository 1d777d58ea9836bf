//! The terminal: a run that changes things does not hang on a login session.

use std::process::ExitCode;

/// Leaves it; none where the run stays here.
pub fn leave(_script: &str) -> Option<ExitCode> {
    None
}

/// Whether a terminal follows this run.
pub fn is_followed() -> bool {
    std::env::var_os("SVC_FOLLOWED").is_some()
}
