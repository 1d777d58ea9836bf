//! How a load fails, whichever loader it is: the server says no to a line of the dump, or goes away at one.

use svc_step::Failure;

/// The server says no to what stands in that line of the dump.
pub(crate) fn refused(line: Option<u64>, words: &str) -> Failure {
    Failure::failed("load_failed", format!("The dump could not be loaded{}: {}.", place(line), words.trim_end_matches('.')))
        .hint("Look at that line of the dump and at the causes; when what it needs is there, run the same command again.")
}

/// The server went away while it was at that line of the dump.
pub(crate) fn lost(line: Option<u64>, words: &str) -> Failure {
    let words = words.trim_end_matches('.');
    Failure::unavailable(
        "connection_lost",
        format!("The server ended the connection while the dump was loaded{}: {words}.", place(line)),
    )
    .hint("Look at the server's log; when it is up, run the same command again.")
}

fn place(line: Option<u64>) -> String {
    line.map(|line| format!(" (line {line} of the dump)")).unwrap_or_default()
}
