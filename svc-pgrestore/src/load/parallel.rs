//! The loader that sends the dump itself, over several connections: COPY in parallel and frozen, and the indexes and keys of a
//! table when its rows are there, then foreign keys; every other statement alone, in the dump's order.
//!
//! What it loads into is fresh and nobody else's, and is dropped if it fails: so it is no single transaction.

mod queue;
mod serial;
mod sessions;
mod targets;
mod tasks;
mod work;

use crate::admin::Admin;
use svc_step::progress::Unit;
use svc_step::{Call, Failure};

use self::sessions::Sessions;
use self::work::Work;
use super::Load;
use super::plan::{Build, Item, Plan};

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
    let mut left = plan.items.as_slice();
    while let Some((item, rest)) = left.split_first() {
        left = rest;
        match item {
            Item::Serial(span) | Item::Sequences(span) => serial.run(*span, sessions)?,
            Item::Builds(builds) => tasks::builds(work, sessions, builds)?,
            Item::Copies(blocks) => {
                // What a sequence stands at is nothing to indexes and keys, so it may come after them.
                let sequences = match left.split_first() {
                    Some((Item::Sequences(span), rest)) => {
                        left = rest;
                        Some(*span)
                    }
                    _ => None,
                };
                let mut phases: Vec<&[Build]> = Vec::new();
                while let Some((Item::Builds(builds), rest)) = left.split_first() {
                    phases.push(builds);
                    left = rest;
                }
                tasks::run(work, sessions, blocks, &phases)?;
                sequences.map_or(Ok(()), |span| serial.run(span, sessions))?;
            }
        }
    }
    Ok(())
}
