//! A clone of an index, waited for and compared with what it is of.

use std::time::{Duration, Instant};

use svc_step::Failure;

use crate::index::look;
use crate::server::Server;

/// How often a clone that is under way is looked at.
const LOOK: Duration = Duration::from_millis(50);
/// How long a clone may take to become whole. It is made of hard links, in under a second; what is live takes no writes, or
/// is not there, meanwhile.
const PATIENCE: Duration = Duration::from_secs(300);

/// Waits until a clone is whole, and asks `check` between two looks whether to go on.
///
/// # Errors
/// It is not whole in time (6), the server does not answer, or `check` says no.
pub(crate) fn wait_whole(server: &Server, index: &str, check: impl Fn() -> Result<(), Failure>) -> Result<(), Failure> {
    let until = Instant::now() + PATIENCE;
    while look(server, &[index])?.get(index).is_some_and(|seen| !seen.whole) {
        if Instant::now() > until {
            return Err(Failure::timeout("clone_not_whole", format!("The index {index} did not become whole in time."))
                .hint(format!("GET /_cluster/allocation/explain says why; GET /_cat/shards/{index} shows its shards.")));
        }
        std::thread::sleep(LOOK);
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
