//! Indexes and keys, or foreign keys, side by side.

use postgres::Client;
use svc_step::Failure;

use super::super::plan::Build;
use super::queue::{self, Task};
use super::refused;
use super::serial::shown;
use super::sessions::Sessions;
use super::work::Work;

/// How often a statement is tried that gives way to another session (the server's own cleaning, for example).
const TRIES: u32 = 5;

/// Builds all of them; the heaviest begin.
pub(super) fn run(work: &Work<'_>, sessions: &mut Sessions, builds: &[Build]) -> Result<(), Failure> {
    let task = |build| {
        let Build { tables, weight, .. }: &Build = build;
        Task { item: build, tables: tables.iter().map(|(table, sharing)| (table.as_str(), *sharing)).collect(), weight: *weight }
    };
    queue::run(work, sessions, builds.iter().map(task).collect(), |client, build: &Build| one(work, client, build))
}

fn one(work: &Work<'_>, client: &mut Client, build: &Build) -> Result<(), Failure> {
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
