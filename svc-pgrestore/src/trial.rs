//! The trial before `--in-place` drops anything: what the server cannot create anew (a locale that it does not have, a tablespace
//! that is full) must not be dropped first. An empty database shows it, and is dropped again.

use svc_pgdump::admin::{Creation, Named, databases, drop_if_there};
use svc_step::action::Action;
use svc_step::{Call, Failure, swaps};

use crate::prepare::Prepared;
use crate::swap::SCHEMAS;
use crate::{names, notes, stage};

/// What is done, as an operator would type it.
pub(crate) fn actions(wanted: &Creation, name: &str) -> [Action; 2] {
    [trial(wanted, name).create().action(), Action::statement(drop_if_there(name))]
}

fn trial(wanted: &Creation, name: &str) -> Creation {
    Creation { name: name.to_owned(), ..wanted.clone() }
}

/// Creates an empty database with the properties of the one that is to be created, and drops it. It is noted as a staging that did
/// not come to its end, so that the next call clears away what a killed one leaves.
///
/// # Errors
/// The server does not create it, or is lost; the live database is untouched.
pub(crate) fn can_be_created(prepared: &mut Prepared, call: &Call) -> Result<(), Failure> {
    stage::remove_leftovers(prepared, call)?;
    let name = names::staged(&prepared.staged.database, call.run_id());
    let catalog = databases(&mut prepared.admin.client)?;
    let is_there = |name: &str| catalog.iter().any(|one| one.name == name);
    // Nothing is dropped; or this run has made such a database already.
    if !is_there(&prepared.staged.database) || is_there(&name) {
        return Ok(());
    }
    let mut noted = prepared.staged.clone();
    noted.staged = Named { name: name.clone(), oid: None };
    let is_new = swaps::read(call, call.run_id(), &SCHEMAS).is_err();
    if is_new {
        notes::write(call, call.run_id(), "stage", &noted.database, &noted)?;
    }
    let trial = trial(&prepared.creation, &name);
    let created = prepared.admin.alter(call, &trial.create().sql, "create a database like the one that is to be replaced");
    match prepared.admin.take_back(&name) {
        Ok(()) => {
            if created.is_ok() {
                call.effects().undone();
            }
            if is_new {
                swaps::remove(call, call.run_id())?;
            }
        }
        Err(error) => call.warn("leftover", format!("The empty database {name} could not be dropped: {}", error.message)),
    }
    created.map_err(|failure| {
        failure.hint(format!("The database {} is untouched. See the cause, and make good what the server lacks.", noted.database))
    })
}
