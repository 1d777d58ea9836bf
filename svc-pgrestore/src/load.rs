//! Loading a plain dump into a fresh database, over several connections.

mod errors;
mod parallel;
mod plan;
mod statement;

use svc_step::Failure;
use svc_step::action::Action;

use crate::admin::{Admin, free_connections};

pub(crate) use parallel::{Load, load};
use plan::Group;
pub(crate) use plan::{Plan, Planner};

/// What the load does, as an operator would type it.
pub(crate) fn action(jobs: usize, plan: &Plan, database: &str, path: &str) -> Action {
    let count = |of: fn(&Group) -> usize| plan.groups().map(of).sum::<usize>();
    Action::statement(format!(
        "-- the statements of {path} in {database}, in order; of these over {jobs} connections in parallel: {} COPY (into fresh \
         ordinary tables as BEGIN; TRUNCATE ONLY t; COPY t FROM stdin WITH (FREEZE); COMMIT), then {} indexes and keys, then {} foreign keys",
        count(|group| group.copies.len()),
        count(|group| group.indexes.len()),
        count(|group| group.foreign_keys.len())
    ))
}

/// More of them gain little, and take memory of the server.
const MOST_JOBS: usize = 8;

/// Over how many connections the dump is loaded.
pub(crate) fn jobs(asked: Option<u16>, plan: &Plan, admin: &mut Admin) -> Result<usize, Failure> {
    // The cores of a server on another host are not known.
    let cores = if admin.target.is_local() { std::thread::available_parallelism().map_or(1, usize::from) } else { MOST_JOBS };
    let jobs = asked.map_or(cores.min(MOST_JOBS), usize::from).min(plan.widest());
    // Without the last one.
    Ok(jobs.min(usize::try_from(free_connections(&mut admin.client)? - 1).unwrap_or_default().max(1)))
}
