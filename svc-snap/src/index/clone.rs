//! A clone of an index, waited for and compared with what it is of.

use std::time::{Duration, Instant};

use svc_step::Failure;

use crate::index::look;
use crate::server::Server;

/// How long a clone that is under way is left alone: shortly at first, then longer.
const FIRST: Duration = Duration::from_millis(5);
const LAST: Duration = Duration::from_millis(100);
/// How long a clone may take to become whole. It is made of hard links, in under a second; what is live takes no writes, or
/// is not there, meanwhile.
const PATIENCE: Duration = Duration::from_secs(300);
/// How long one that nobody waits for any more may take to start.
const START: Duration = Duration::from_secs(10);

/// Waits until these clones are whole, and asks `check` between two looks whether to go on. One that has gone is not waited for.
///
/// # Errors
/// One is not whole in time (6), the server does not answer, or `check` says no.
pub(crate) fn wait_whole(server: &Server, names: &[&str], check: impl Fn() -> Result<(), Failure>) -> Result<(), Failure> {
    let until = Instant::now() + PATIENCE;
    let mut pause = FIRST;
    while let Some((index, _)) = look(server, names)?.into_iter().find(|(_, seen)| !seen.whole) {
        if Instant::now() > until {
            return Err(Failure::timeout("clone_not_whole", format!("The index {index} did not become whole in time."))
                .hint(format!("GET /_cluster/allocation/explain says why; GET /_cat/shards/{index} shows its shards.")));
        }
        std::thread::sleep(pause);
        pause = (pause * 3 / 2).min(LAST);
        check()?;
    }
    Ok(())
}

/// Gives clones that a call which was cut has only just asked for the time to start; whoever relies on one finds what is wrong with
/// it otherwise.
///
/// # Errors
/// The server does not answer, or `check` says no.
pub(crate) fn let_start(server: &Server, names: &[&str], check: impl Fn() -> Result<(), Failure>) -> Result<(), Failure> {
    let until = Instant::now() + START;
    let mut pause = FIRST;
    while Instant::now() < until && look(server, names)?.values().any(|seen| !seen.whole) {
        std::thread::sleep(pause);
        pause = (pause * 3 / 2).min(LAST);
        check()?;
    }
    Ok(())
}

/// Refuses a clone that holds other documents than what it is of.
///
/// # Errors
/// The counts differ (7).
pub(crate) fn same_count(one: &str, count: u64, other: &str, other_count: u64) -> Result<(), Failure> {
    if count == other_count {
        return Ok(());
    }
    Err(Failure::invalid("copy_differs", format!("{one} holds {count} documents, but its clone {other} holds {other_count}.")))
}
