//! What runs in parallel: the rows of tables, and what is built on them as soon as they are there.

use std::io::Write;

use postgres::{Client, CopyInWriter, Error};
use svc_step::Failure;

use super::super::errors::{self, lost};
use super::super::plan::{Build, CopyBlock, Sharing};
use super::queue::{self, Task};
use super::serial::shown;
use super::sessions::Sessions;
use super::targets::{self, Round};
use super::work::{Unread, Work};
use crate::verify::rows_differ;

#[derive(Clone, Copy)]
enum Step<'a> {
    Copy(&'a CopyBlock),
    Build(&'a Build),
}

/// Loads the blocks, and then what is built on them, phase by phase. Where all blocks go into fresh ordinary tables, whose rows are
/// nobody else's business, what is built on a table waits for its own rows only.
pub(super) fn run(work: &Work<'_>, sessions: &mut Sessions, blocks: &[CopyBlock], phases: &[&[Build]]) -> Result<(), Failure> {
    let facts = targets::ask(&mut sessions.first, blocks)?;
    let rounds = targets::rounds(blocks, &facts);
    if let [Round::Together(blocks)] = rounds.as_slice() {
        let copies = blocks.iter().map(|block| copy(block));
        let builds = phases.iter().zip(1..).flat_map(|(builds, phase)| builds.iter().map(move |one| build(one, phase)));
        return side_by_side(work, sessions, copies.chain(builds).collect());
    }
    for round in rounds {
        match round {
            Round::Alone(block) => copy_plain(work, &mut sessions.first, block)?,
            Round::Together(blocks) => side_by_side(work, sessions, blocks.iter().map(|block| copy(block)).collect())?,
        }
    }
    phases.iter().try_for_each(|phase| builds(work, sessions, phase))
}

pub(super) fn builds(work: &Work<'_>, sessions: &mut Sessions, builds: &[Build]) -> Result<(), Failure> {
    side_by_side(work, sessions, builds.iter().map(|one| build(one, 0)).collect())
}

fn copy(block: &CopyBlock) -> Task<'_, Step<'_>> {
    let table = block.table.iter().map(|table| (table.as_str(), Sharing::Alone));
    Task::at_once(Step::Copy(block), table.collect(), block.rows.size)
}

fn build(build: &Build, phase: usize) -> Task<'_, Step<'_>> {
    let tables = build.tables.iter().map(|(table, sharing)| (table.as_str(), *sharing));
    let task = Task::at_once(Step::Build(build), tables.collect(), build.weight);
    Task { phase, waits_for_all: !build.is_of_columns, ..task }
}

fn side_by_side(work: &Work<'_>, sessions: &mut Sessions, tasks: Vec<Task<'_, Step<'_>>>) -> Result<(), Failure> {
    queue::run(work, sessions, tasks, |client, step| match step {
        Step::Copy(block) => copy_frozen(work, client, block),
        Step::Build(build) => build_one(work, client, build),
    })
}

/// Rows that fit on a page or two are as quickly noted as the table is emptied.
const SMALL: u64 = 8192;

/// Loads a block in a transaction of its own that empties the table first, which it is: then the server need not note for each
/// row who may see it, now and in the first cleaning after it.
fn copy_frozen(work: &Work<'_>, client: &mut Client, block: &CopyBlock) -> Result<(), Failure> {
    let Some(table) = block.table.as_ref().filter(|_| block.rows.size > SMALL) else { return copy_plain(work, client, block) };
    let at = block.statement.at;
    let begin = format!("BEGIN; TRUNCATE ONLY {table}");
    client.batch_execute(&begin).map_err(|error| errors::of_statement(&error, "", at))?;
    let header = work.text(block.statement)?;
    let copy = format!("{} WITH (FREEZE)", header.trim_end_matches(';'));
    send(work, client, block, &copy)?;
    client.batch_execute("COMMIT").map_err(|error| errors::of_statement(&error, "", at))
}

/// Loads a block as psql would.
fn copy_plain(work: &Work<'_>, client: &mut Client, block: &CopyBlock) -> Result<(), Failure> {
    let copy = work.text(block.statement)?;
    send(work, client, block, &copy)
}

fn send(work: &Work<'_>, client: &mut Client, block: &CopyBlock, copy: &str) -> Result<(), Failure> {
    let name = block.table.as_deref().unwrap_or("rows");
    let what = format!("COPY {name}");
    work.at(&what);
    let writer = client.copy_in(copy).map_err(|error| errors::of_statement(&error, copy, block.statement.at))?;
    work.advance(block.statement.size);
    let arrived = match write(work, writer, block, &what) {
        Ok(arrived) => arrived,
        Err(Stopped::Unread(unread)) => return Err(unread.into()),
        Err(Stopped::Server(error)) => return Err(errors::of_rows(&error, block.rows.at)),
        Err(Stopped::Connection(words)) => {
            return Err(lost(Some(block.statement.at.line), &words));
        }
    };
    if arrived == block.row_count {
        return Ok(());
    }
    Err(rows_differ(vec![format!(
        "{name}: {} rows in the dump (line {}), {arrived} arrived at the server",
        block.row_count, block.statement.at.line
    )]))
}

enum Stopped {
    Unread(Unread),
    Server(Error),
    Connection(String),
}

impl From<Unread> for Stopped {
    fn from(unread: Unread) -> Self {
        Self::Unread(unread)
    }
}

fn write(work: &Work<'_>, mut writer: CopyInWriter<'_>, block: &CopyBlock, what: &str) -> Result<u64, Stopped> {
    work.read(block.rows, &mut Vec::new(), |bytes| {
        writer.write_all(bytes).map_err(|error| match error.into_inner().map(|inner| inner.downcast::<Error>()) {
            Some(Ok(error)) => Stopped::Server(*error),
            Some(Err(error)) => Stopped::Connection(error.to_string()),
            None => Stopped::Connection("the connection takes no more".to_owned()),
        })?;
        work.rows_sent(bytes, what);
        Ok::<(), Stopped>(())
    })?;
    writer.finish().map_err(Stopped::Server)
}

/// How often a statement is tried that gives way to another session (the server's own cleaning, for example).
const TRIES: u32 = 5;

fn build_one(work: &Work<'_>, client: &mut Client, build: &Build) -> Result<(), Failure> {
    let sql = work.text(build.statement)?;
    work.at(&shown(&sql));
    let mut tries = 1;
    loop {
        match client.batch_execute(&sql) {
            Ok(()) => break,
            Err(error) if errors::gave_way(&error) && tries < TRIES => tries += 1,
            Err(error) => return Err(errors::of_statement(&error, &sql, build.statement.at)),
        }
    }
    work.advance(build.statement.size);
    Ok(())
}
