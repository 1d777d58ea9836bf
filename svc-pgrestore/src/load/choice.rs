//! Which loader, and over how many connections.

use crate::admin::Admin;
use clap::{Args, ValueEnum, value_parser};
use postgres::Client;
use svc_pgdump::pg::{self, Target};
use svc_step::{Call, Failure};

use super::plan::Plan;
use super::psql;

/// More of them gain little, and take memory of the server.
const MOST_JOBS: usize = 8;
const FREE: &str = "SELECT (current_setting('max_connections')::int4 - current_setting('superuser_reserved_connections')::int4 \
    - coalesce(current_setting('reserved_connections', true)::int4, 0) \
    - (SELECT count(*) FROM pg_stat_activity WHERE usesysid IS NOT NULL))::int4";

/// How a dump is loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Default)]
pub enum Loader {
    /// Fast where the dump allows it, else psql
    #[default]
    Auto,
    /// By ourselves, over several connections
    Fast,
    /// By psql, over one
    Psql,
}

/// How the dump is loaded.
#[derive(Debug, Clone, Args)]
pub struct LoaderArgs {
    /// What loads the dump
    #[arg(long, value_name = "HOW", value_enum, default_value_t)]
    loader: Loader,
    /// Over how many connections the fast loader works, never more than the server has free; default: 8, on the server's own host as
    /// many as it has cores if those are fewer
    #[arg(long, value_name = "N", value_parser = value_parser!(u16).range(1..=256))]
    jobs: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Chosen {
    pub(crate) loader: Loader,
    pub(crate) because: String,
    pub(crate) jobs: usize,
}

impl Chosen {
    pub(crate) const fn name(&self) -> &'static str {
        match self.loader {
            Loader::Psql => "psql",
            Loader::Auto | Loader::Fast => "fast",
        }
    }
}

impl LoaderArgs {
    pub(crate) fn choose(&self, plan: &Plan, admin: &mut Admin, call: &Call) -> Result<Chosen, Failure> {
        let jobs = self.jobs.map_or_else(|| default_jobs(&admin.target), usize::from).min(plan.widest());
        let free = free_connections(&mut admin.client)?;
        if free < jobs && self.jobs.is_some() {
            fewer_connections(call, free, jobs);
        }
        let chosen = judge(self.loader, plan.obstacle, jobs.min(free))?;
        if chosen.loader == Loader::Psql {
            psql::available(call, &admin.target)?;
        }
        Ok(chosen)
    }
}

/// The cores of a server on another host are not known.
fn default_jobs(target: &Target) -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    if target.is_local() { cores.min(MOST_JOBS) } else { MOST_JOBS }
}

/// How many connections can be made without those that are reserved, and without the last one.
fn free_connections(client: &mut Client) -> Result<usize, Failure> {
    let row = client.query_one(FREE, &[]).and_then(|row| row.try_get::<_, i32>(0));
    let free = row.map_err(|error| pg::of_query(&error, "count the free connections"))?;
    Ok(usize::try_from(free - 1).unwrap_or_default().max(1))
}

pub(super) fn fewer_connections(call: &Call, got: usize, jobs: usize) {
    call.warn("fewer_connections", format!("The server has {got} connections for the load, and not {jobs}."));
}

fn judge(asked: Loader, obstacle: Option<&str>, jobs: usize) -> Result<Chosen, Failure> {
    let fast = |because: &str| Ok(Chosen { loader: Loader::Fast, because: because.to_owned(), jobs });
    let psql = |because: &str| Ok(Chosen { loader: Loader::Psql, because: because.to_owned(), jobs: 1 });
    match (asked, obstacle) {
        (Loader::Psql, _) => psql("It was asked for (--loader psql)."),
        (Loader::Fast, None) => fast("It was asked for (--loader fast)."),
        (Loader::Auto, None) => fast("The dump is one that it can load."),
        (Loader::Auto, Some(obstacle)) => psql(&format!("The fast loader is not for this dump: {}", uncapitalised(obstacle))),
        (Loader::Fast, Some(obstacle)) => Err(Failure::refused(
            "loader_not_for_this",
            format!("The fast loader is not for this dump: {}", uncapitalised(obstacle)),
        )
        .hint("Omit --loader, or pass --loader psql.")),
    }
}

/// A sentence as the second half of another one.
fn uncapitalised(sentence: &str) -> String {
    let mut letters = sentence.chars();
    letters.next().map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fast_one_is_taken_where_nothing_speaks_against_it() {
        assert_eq!(judge(Loader::Auto, None, 4).unwrap().name(), "fast");
        let chosen = judge(Loader::Auto, Some("It holds INSERT statements."), 4).unwrap();
        assert_eq!((chosen.name(), chosen.jobs), ("psql", 1));
        assert_eq!(chosen.because, "The fast loader is not for this dump: it holds INSERT statements.");
        assert_eq!(judge(Loader::Psql, None, 4).unwrap().name(), "psql");
        assert_eq!(judge(Loader::Fast, Some("It is odd."), 4).unwrap_err().code, "loader_not_for_this");
    }
}
