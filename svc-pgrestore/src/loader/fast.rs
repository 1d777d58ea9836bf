//! The loader that sends the dump itself, over several connections: COPY side by side and frozen, then indexes and keys, then
//! foreign keys; every other statement alone, in the dump's order.
//!
//! What it loads into is fresh and nobody else's, and is dropped if it fails: so it is no single transaction.

mod builds;
mod copies;
mod queue;
mod refused;
mod serial;
mod sessions;
mod targets;
mod work;

use svc_pgdump::admin::Admin;
use svc_step::progress::Unit;
use svc_step::{Call, Failure};

use self::sessions::Sessions;
use self::work::Work;
use super::Load;
use super::plan::{Item, Plan};

/// Loads by the plan.
///
/// # Errors
/// The server refuses a statement (1) or is lost (5), rows did not arrive (7), the dump cannot be read (1), a signal, or the end
/// of the time limit.
pub(super) fn load(call: &Call, admin: &mut Admin, load: &Load<'_>, plan: &Plan, jobs: usize) -> Result<(), Failure> {
    let mut sessions = Sessions::open(call, &admin.target, load, jobs)?;
    let pids = sessions.pids()?;
    let progress = call.progress("load", Unit::Bytes);
    let work = Work::new(load, &progress);
    let warnings = sessions.warnings();
    // A worker that fails lets the others be ended too: an index may take an hour, and it would be for nothing.
    admin.supervised(call, &pids, &|| work.has_failed(), || perform(&work, &mut sessions, plan))?;
    drop(progress);
    drop(sessions);
    warnings.tell(call);
    sessions::gone(call, admin, &pids)
}

fn perform(work: &Work<'_>, sessions: &mut Sessions, plan: &Plan) -> Result<(), Failure> {
    let mut serial = serial::Serial::new(work);
    for item in &plan.items {
        match item {
            Item::Serial(span) => serial.run(*span, sessions)?,
            Item::Copies(blocks) => copies::run(work, sessions, blocks)?,
            Item::Builds(builds) => builds::run(work, sessions, builds)?,
        }
    }
    Ok(())
}
