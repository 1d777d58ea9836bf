//! Indexes, keys and foreign keys, side by side.

use postgres::Client;
use svc_step::Failure;

use super::super::plan::Build;
use super::refused;
use super::serial::shown;
use super::work::Work;

/// How often a statement is tried that gives way to another session (the server's own cleaning, for example).
const TRIES: u32 = 5;

pub(super) fn one(work: &Work<'_>, client: &mut Client, build: &Build) -> Result<(), Failure> {
    let sql = work.text(build.statement)?;
    work.at(&shown(&sql));
    let mut tries = 1;
    loop {
        match client.batch_execute(&sql) {
            Ok(()) => break,
            Err(error) if refused::gave_way(&error) && tries < TRIES => tries += 1,
            Err(error) => return Err(refused::statement(&error, &sql, build.statement.at)),
        }
    }
    work.advance(build.statement.size);
    Ok(())
}
