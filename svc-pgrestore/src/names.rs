//! The names of our own databases: what is staged beside the live one, and what a swap replaced.

use svc_pgdump::admin::copy_name;
use svc_step::run_id::RunId;

/// The copy that a run stages: `svc_db_staged_<run>`.
#[must_use]
pub fn staged(database: &str, run: &RunId) -> String {
    copy_name(database, "staged", run)
}

/// What a run's swap replaced: `svc_db_before_<run>`.
#[must_use]
pub fn before(database: &str, run: &RunId) -> String {
    copy_name(database, "before", run)
}

/// Whether a name is that of a database which the swap of some run keeps.
#[must_use]
pub fn is_kept(database: &str, name: &str) -> bool {
    name.strip_prefix(database).is_some_and(|rest| rest.starts_with("_before_"))
}
