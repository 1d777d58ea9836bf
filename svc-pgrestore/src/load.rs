//! Loading a plain dump into a fresh database: by ourselves over several connections, or by psql.

mod choice;
mod errors;
mod filter;
mod parallel;
mod plan;
mod psql;
mod statement;

use crate::admin::Admin;
use svc_pgdump::pg::Target;
use svc_pgdump::{Dump, DumpFile};
use svc_step::action::Action;
use svc_step::{Call, Failure};

pub(crate) use choice::{Chosen, Loader, LoaderArgs};
pub use filter::Filter;
pub(crate) use plan::{Plan, Planner};

/// pg_dump writes an element of an array that is null as the word NULL, whatever the database is set to.
const ARRAY_NULLS: &str = "SET array_nulls = on";
/// How many of a load's warnings are told.
const WARNINGS: usize = 5;

pub(crate) struct Load<'a> {
    /// `server_version_num`.
    pub(crate) server: u32,
    pub(crate) database: &'a str,
    /// The dump, opened with the rights of whoever called the tool.
    pub(crate) dump: &'a DumpFile,
    pub(crate) size_bytes: u64,
}

/// What the load does, as an operator would type it.
pub(crate) fn actions(chosen: &Chosen, plan: &Plan, target: &Target, database: &str, path: &str) -> Vec<Action> {
    match chosen.loader {
        Loader::Psql => vec![
            Action::statement(format!(
                "-- the statements of {path} in {database}, in order, behind \\restrict and a key of the call, sent to the stdin of:"
            )),
            Action::command(psql::command_line(target, database)),
        ],
        Loader::Auto | Loader::Fast => {
            let counts = plan.counts();
            vec![Action::statement(format!(
                "-- the statements of {path} in {database}, in order; of these over {} connections in parallel: {} COPY (into \
                 fresh ordinary tables as BEGIN; TRUNCATE ONLY t; COPY t FROM stdin WITH (FREEZE); COMMIT), then {} indexes and \
                 keys, then {} foreign keys",
                chosen.jobs, counts.copies, counts.indexes, counts.foreign_keys
            ))]
        }
    }
}

/// Loads the dump completely, or fails; what is in the database after a failure is of no use.
pub(crate) fn load(call: &Call, admin: &mut Admin, load: &Load<'_>, chosen: &Chosen, plan: &Plan) -> Result<(), Failure> {
    match chosen.loader {
        Loader::Psql => psql::load(call, &admin.target, load),
        Loader::Auto | Loader::Fast => parallel::load(call, admin, load, plan, chosen.jobs),
    }
}

/// What of a dump is passed over, as a sentence; `None` where nothing is.
pub(crate) fn left_out(dump: &Dump, server: u32) -> Option<&'static str> {
    (dump.sets_transaction_timeout && filter::leaves_timeout_out(server)).then_some(
        "The dump is by a pg_dump that is newer than the server: its line `SET transaction_timeout = 0;`, which changes nothing, is skipped.",
    )
}

fn unreadable(error: &std::io::Error) -> Failure {
    Failure::failed("dump_unreadable", "The dump cannot be read to its end and sent to the server.")
        .hint("Check its disk; another copy of the dump may be intact.")
        .cause(error.to_string())
}
