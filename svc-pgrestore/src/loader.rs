//! Loading a plain dump into a fresh database. One function, behind which a faster loader may stand.

mod complaint;
mod filter;
mod psql;

use std::fs::File;

use svc_pgdump::{Dump, Target};
use svc_step::{Call, Failure};

/// What is loaded, and where to.
pub(crate) struct Load<'a> {
    /// The server, and as whom.
    pub(crate) target: &'a Target,
    /// `server_version_num`.
    pub(crate) server: u32,
    /// The fresh database.
    pub(crate) database: &'a str,
    /// The dump, opened with the rights of whoever called the tool.
    pub(crate) dump: &'a File,
    /// Its size.
    pub(crate) size_bytes: u64,
}

/// The name of the loader, as documents have it.
pub(crate) const NAME: &str = "psql";

/// The command, as an operator would type it.
pub(crate) fn command(database: &str, path: &str) -> Vec<String> {
    let words = ["psql", "-X", "--no-password", "-v", "ON_ERROR_STOP=1", "-f", path, "-d", database];
    words.map(str::to_owned).to_vec()
}

/// Whether the loader can be run at all, found out before anything is altered.
///
/// # Errors
/// psql is not installed (4).
pub(crate) fn available(call: &Call) -> Result<(), Failure> {
    psql::available(call)
}

/// Loads the dump whole, or fails; what is in the database after a failure is of no use.
///
/// # Errors
/// The server refuses a statement (1) or is lost (5), the dump cannot be read, a signal, or the end of the time limit.
pub(crate) fn load(call: &Call, load: &Load<'_>) -> Result<(), Failure> {
    psql::load(call, load)
}

/// What of a dump is passed over, as a sentence; `None` where nothing is.
pub(crate) fn passed_over(dump: &Dump, server: u32) -> Option<&'static str> {
    (dump.sets_transaction_timeout && filter::leaves_timeout_out(server)).then_some(
        "The dump is by a pg_dump that is newer than the server: its line `SET transaction_timeout = 0;`, which changes nothing, is passed over.",
    )
}
