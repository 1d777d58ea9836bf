//! A database copied, closed until it is whole. What is being done is noted before it is, so that what a killed call left is
//! found by the next one.

use postgres::Client;
use postgres::error::SqlState;
use svc_step::progress::Unit;
use svc_step::{Call, Failure, swaps};

use super::{Cloned, SCHEMA};
use crate::admin::{Admin, Creation, MAINTENANCE, oid_of, session_pid, sessions};
use crate::refusal;

/// Clears away what killed calls left, and copies; a failure or a signal leaves nothing behind.
///
/// # Errors
/// Somebody is connected to the database (5), the server says no (1, 3), a signal, or the end of the time limit.
pub(super) fn cloned(admin: &mut Admin, call: &Call, creation: &Creation, clone: &mut Cloned) -> Result<(), Failure> {
    call.check()?;
    admin.remove_leftovers(call, SCHEMA, &clone.database, "copy")?;
    let note = |clone: &Cloned| swaps::write(call, call.run_id(), "clone", clone);
    note(clone)?;
    match copy(admin, call, creation, clone).and_then(|()| note(clone)) {
        Ok(()) => Ok(()),
        Err(failure) => Err(admin.undo(call, &clone.clone.name, failure)),
    }
}

fn copy(admin: &mut Admin, call: &Call, creation: &Creation, clone: &mut Cloned) -> Result<(), Failure> {
    let progress = call.progress("clone", Unit::Bytes);
    progress.at(&format!("{} of {} bytes", creation.name, clone.size_bytes));
    // The session that holds the lock of the database makes the copy: where this call is killed, the next one waits until the
    // server has ended what it was at.
    let mut maker = admin.another(call, MAINTENANCE)?;
    std::mem::swap(&mut admin.client, &mut maker);
    let sql = creation.copy_of(&clone.database).sql;
    let attempt = call.effects().attempt();
    let made = admin.interruptible(call, std::slice::from_mut(&mut maker), |maker| {
        maker.iter_mut().try_for_each(|maker| maker.batch_execute(&sql)).map_err(|error| match error.code() {
            Some(code) if *code == SqlState::OBJECT_IN_USE => in_use(&error, &clone.database),
            _ => refusal::of_query(&error, "copy the database"),
        })
    });
    // What went wrong may have ended that session.
    if made.is_ok() {
        std::mem::swap(&mut admin.client, &mut maker);
    }
    if let Err(mut failure) = made {
        if failure.code == IN_USE
            && let Ok(Some(live)) = oid_of(&mut admin.client, &clone.database)
        {
            failure.causes.extend(sessions(&mut admin.client, &[live]));
        }
        return Err(failure);
    }
    attempt.happened();
    clone.clone.oid = oid_of(&mut admin.client, &clone.clone.name)?;
    call.check()?;
    let mut client = admin.target.connect(call, &clone.clone.name)?;
    let own = session_pid(&mut client)?;
    admin.close(call, creation, &clone.clone, &[own])?;
    prove(&mut client, clone)?;
    for statement in creation.finish() {
        admin.alter(call, &statement.sql, "give the copy the properties of the database")?;
    }
    clone.proven = true;
    Ok(())
}

const IN_USE: &str = "database_in_use";

fn in_use(error: &postgres::Error, database: &str) -> Failure {
    let failure = Failure::unavailable(IN_USE, format!("The database {database} is in use, and cannot be copied meanwhile."))
        .hint("Stop the service (svc-unit stop) and whatever else is connected, then run the same command again; the causes name them.");
    match error.as_db_error() {
        Some(said) => failure.cause(refusal::words(said)),
        None => failure,
    }
}

/// It can be connected to, and has the tables of the live one.
fn prove(client: &mut Client, clone: &Cloned) -> Result<(), Failure> {
    let row = client.query_one(super::LIVE, &[]).map_err(|error| refusal::of_query(&error, "look at the copy"))?;
    let found = u64::try_from(row.get::<_, i64>(1)).unwrap_or_default();
    if found == clone.tables_count {
        return Ok(());
    }
    Err(Failure::invalid("copy_differs", "The copy does not have the tables of the database.")
        .hint("Somebody changed the database meanwhile: stop what is at work on it, and run the same command again.")
        .cause(format!("the database has {} tables, the copy {found}", clone.tables_count)))
}
