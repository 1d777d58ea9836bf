//! The loader that sends the dump itself, over several connections: COPY in parallel and frozen, and the indexes and keys of a
//! table when its rows are there, then foreign keys; every other statement alone, in the dump's order.
//!
//! What it loads into is fresh and used by no other client, and is dropped if it fails: so it is no single transaction.

mod queue;
mod targets;

use std::io::{self, ErrorKind, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use postgres::error::{Severity, SqlState};
use postgres::{Client, CopyInWriter, Error};
use svc_pgdump::check::major;
use svc_pgdump::pg::{self, Listener, ServerMessage, escape_literal};
use svc_pgdump::{Dump, DumpFile};
use svc_step::file::hex;
use svc_step::progress::{Progress, Unit};
use svc_step::{Call, Failure};

use self::queue::Task;
use self::targets::Step;
use super::errors::{self, unreadable};
use super::plan::{Build, CopyBlock, Group, Item, Plan, Span};
use super::statement::{StatementKind, kind_of, shown};
use crate::admin::{Admin, Sessions};
use crate::verify::{ROWS, differs};

/// How much of the dump is read at once.
const CHUNK: usize = 256 * 1024;
/// Rows that fit on a page or two are as quickly recorded as the table is emptied.
const SMALL: u64 = 8192;
/// How often a statement is tried that gives way to another session (the server's own cleaning, for example).
const TRIES: u32 = 5;
/// How many of a load's warnings are told.
const WARNINGS: usize = 5;

/// pg_dump 17 and later sets this to its default; servers before 17 do not know it.
const TRANSACTION_TIMEOUT: &[u8] = b"SET transaction_timeout = 0;";
/// Subscriptions are not restored: a database that has one cannot be dropped, so that a load which fails, or a copy that is not
/// wanted any more, could not be cleaned up; and two databases would share one slot of the publishing server.
const OF_SUBSCRIPTIONS: [&[u8]; 3] = [b"CREATE SUBSCRIPTION ", b"ALTER SUBSCRIPTION ", b"COMMENT ON SUBSCRIPTION "];
/// The query of such a statement is read as the database's settings have it, unlike the rows of a COPY.
const REFRESH: &[u8] = b"REFRESH MATERIALIZED VIEW ";

pub(crate) struct Load<'a> {
    /// `server_version_num`.
    pub(crate) server: u32,
    pub(crate) database: &'a str,
    /// The dump's file, opened with the rights of whoever called the tool.
    pub(crate) file: &'a DumpFile,
    pub(crate) dump: &'a Dump,
}

/// Loads the dump completely, or fails; what is in the database after a failure is of no use. Gives the connections that it has used.
pub(crate) fn load(call: &Call, admin: &mut Admin, load: &Load<'_>, plan: &Plan, jobs: usize) -> Result<Sessions, Failure> {
    let warnings = Arc::default();
    let connect = || prepared(admin.target.connect_heard(call, load.database, &listener(&warnings))?);
    // All of them have the same settings, those at the head of the dump included.
    let mut sessions = Sessions::open(jobs, connect)?;
    let progress = call.progress("load", Unit::Bytes);
    let started = Instant::now();
    let (encoding, failure) = (Mutex::default(), Mutex::default());
    let (done, rows) = (AtomicU64::new(0), AtomicU64::new(0));
    let work = Work { load, encoding, progress: &progress, started, done, rows, failure };
    let pids = sessions.pids.clone();
    // A worker that fails lets the others be ended too: an index may take an hour, and it would be for nothing.
    let ended = admin.supervised(call, &pids, &|| work.failure().is_some(), || perform(&work, &mut sessions, plan));
    ended.map_err(|failure| hint_of_client(failure, load.dump, admin.server.major()))?;
    drop(progress);
    for warning in warnings.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        call.warn("external_warning", format!("The server warned during the load: {warning}."));
    }
    Ok(sessions)
}

/// Of a line that the server refuses: a pg_dump that is newer than the server may write what only another server understands.
fn hint_of_client(failure: Failure, dump: &Dump, server: u32) -> Failure {
    let writer = dump.pg_dump_version.as_deref().filter(|version| major(version).is_some_and(|client| client > server));
    match writer {
        Some(writer) if failure.code == "server_refused" => failure.further_hint(format!(
            "The dump is by pg_dump {writer}, which may write what only a server of that version understands: dump with one of version {server}, or restore on a newer server."
        )),
        _ => failure,
    }
}

fn prepared(mut client: Client) -> Result<Client, Failure> {
    client.batch_execute(pg::LOAD).map_err(|error| pg::of_query(&error, "prepare the session"))?;
    let _ = client.batch_execute(pg::CONNECTION_CHECKS);
    Ok(client)
}

/// What the server warns of on any connection.
fn listener(heard: &Arc<Mutex<Vec<String>>>) -> Listener {
    let heard = Arc::clone(heard);
    Arc::new(move |notice| {
        let mut heard = heard.lock().unwrap_or_else(PoisonError::into_inner);
        if notice.parsed_severity() == Some(Severity::Warning) && heard.len() < WARNINGS {
            heard.push(ServerMessage::from(notice).message());
        }
    })
}

/// What the threads of a load share.
struct Work<'a> {
    load: &'a Load<'a>,
    /// Of the dump from here on; `None` for UTF-8, in which the sessions stay.
    encoding: Mutex<Option<String>>,
    progress: &'a Progress,
    started: Instant,
    done: AtomicU64,
    rows: AtomicU64,
    /// That of the first thread that failed; the others work for nothing then.
    failure: Mutex<Option<Failure>>,
}

impl Work<'_> {
    fn failure(&self) -> std::sync::MutexGuard<'_, Option<Failure>> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn at(&self, what: &str) {
        if self.progress.is_shown() {
            let millis = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX).max(1);
            let rate = self.rows.load(Ordering::Relaxed).saturating_mul(1000) / millis;
            self.progress.at(&format!("{what}, {rate} rows/s"));
        }
    }

    fn advance(&self, bytes: u64) {
        let done = self.done.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.progress.set(done, self.load.dump.size_bytes, None);
    }

    fn rows_sent(&self, rows: &[u8], what: &str) {
        if self.progress.is_shown() {
            self.rows.fetch_add(memchr::memchr_iter(b'\n', rows).count() as u64, Ordering::Relaxed);
            self.at(what);
        }
        self.advance(rows.len() as u64);
    }

    fn read(&self, span: Span) -> Result<Vec<u8>, Failure> {
        // More than any server takes.
        let size = usize::try_from(span.size).ok().filter(|size| *size < 1 << 30);
        let mut bytes = vec![0; size.ok_or_else(|| errors::refused(span.at.line, "the statement is longer than 1 GiB"))?];
        self.load.file.read_exact_at(&mut bytes, span.at.byte).map_err(|error| unreadable(&error))?;
        Ok(bytes)
    }

    fn encoding(&self) -> Option<String> {
        self.encoding.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A statement as it is sent: one that is not UTF-8, or not in UTF-8, as bytes that the server itself converts.
    fn sql(&self, bytes: Vec<u8>) -> String {
        let encoding = self.encoding();
        match String::from_utf8(bytes) {
            Ok(text) if encoding.is_none() || text.is_ascii() => text,
            other => {
                let bytes = other.map_or_else(|error| hex(error.as_bytes()), |text| hex(text.as_bytes()));
                let encoding = escape_literal(encoding.as_deref().unwrap_or("UTF8"));
                let text = format!("pg_catalog.convert_from(pg_catalog.decode('{bytes}', 'hex'), {encoding})");
                format!("DO $svc$ BEGIN EXECUTE {text}; END $svc$;")
            }
        }
    }
}

fn perform(work: &Work<'_>, sessions: &mut Sessions, plan: &Plan) -> Result<(), Failure> {
    for item in &plan.items {
        match item {
            Item::Serial(statements) => serial(work, sessions, statements)?,
            Item::Copy(block) => copy(work, &mut sessions.first, block, false)?,
            Item::Parallel(group) => {
                parallel(work, sessions, group)?;
                serial(work, sessions, &group.later)?;
            }
        }
    }
    Ok(())
}

fn serial(work: &Work<'_>, sessions: &mut Sessions, statements: &[Span]) -> Result<(), Failure> {
    for statement in statements {
        let bytes = work.read(*statement)?;
        let is_left_out = (bytes == TRANSACTION_TIMEOUT && work.load.server < 170_000)
            || OF_SUBSCRIPTIONS.iter().any(|start| bytes.starts_with(start));
        if !is_left_out {
            let is_refresh = bytes.starts_with(REFRESH);
            let sql = work.sql(bytes);
            work.at(&shown(&sql));
            let executed = match kind_of(&sql) {
                StatementKind::Encoding(encoding) => {
                    *work.encoding.lock().unwrap_or_else(PoisonError::into_inner) = encoding;
                    Ok(())
                }
                StatementKind::Setting => sessions.all().try_for_each(|client| client.batch_execute(&sql)),
                _ if is_refresh => sessions.first.batch_execute(&format!("RESET array_nulls; {sql} SET array_nulls = on")),
                _ => sessions.first.batch_execute(&sql),
            };
            executed.map_err(|error| errors::of_statement(&error, &sql, statement.at))?;
        }
        work.advance(statement.size);
    }
    Ok(())
}

/// Loads the blocks of a group, and builds what is built on a table as soon as its rows are there.
fn parallel(work: &Work<'_>, sessions: &mut Sessions, group: &Group) -> Result<(), Failure> {
    // Rows that are loaded through a root are in its partitions.
    let (mut tasks, is_known_where) = targets::copies(&mut sessions.first, &group.copies)?;
    let after = tasks.last().map_or(0, |last| last.phase) + 1;
    for (builds, phase) in [(&group.indexes, after), (&group.foreign_keys, after + 1)] {
        tasks.extend(builds.iter().map(|build| Task {
            item: Step::Build(build),
            tables: build.built.tables.iter().map(String::as_str).collect(),
            is_exclusive: build.built.is_exclusive,
            weight: build.weight,
            phase,
            waits_for_all: !(is_known_where && build.built.is_of_columns),
        }));
    }
    let act = |client: &mut Client, step: &Step<'_>| match step {
        Step::Copy { block, is_fresh } => copy(work, client, block, *is_fresh),
        Step::Build(statement) => build(work, client, statement),
    };
    let fail = |failure| {
        work.failure().get_or_insert(failure);
    };
    queue::run(sessions.all(), &tasks, act, fail);
    work.failure().take().map_or(Ok(()), Err)
}

/// Loads a block. A fresh table is truncated in the same transaction, so that COPY may FREEZE its rows: no vacuum has to visit them later.
fn copy(work: &Work<'_>, client: &mut Client, block: &CopyBlock, is_fresh: bool) -> Result<(), Failure> {
    if is_fresh && block.rows.size == 0 {
        work.advance(block.statement.size);
        return Ok(());
    }
    let bytes = work.read(block.statement)?;
    let encoding = work.encoding();
    // Names stand in it.
    let statement = match (&encoding, std::str::from_utf8(&bytes)) {
        (None, Ok(text)) => text.to_owned(),
        (encoding, _) => converted(client, &bytes, encoding.as_deref().unwrap_or("UTF8"), block.statement)?,
    };
    let table = block.table.as_ref().filter(|_| is_fresh && block.rows.size > SMALL);
    let options = table.map(|_| "FREEZE".to_owned()).into_iter();
    let options: Vec<_> = options.chain(encoding.map(|name| format!("ENCODING {}", escape_literal(&name)))).collect();
    let statement = match options.as_slice() {
        [] => statement,
        options => format!("{} WITH ({})", statement.trim_end_matches(';'), options.join(", ")),
    };
    let Some(table) = table else { return send(work, client, block, &statement) };
    let execute = |client: &mut Client, sql: &str| {
        client.batch_execute(sql).map_err(|error| errors::of_statement(&error, "", block.statement.at))
    };
    execute(client, &format!("BEGIN; TRUNCATE ONLY {table}"))?;
    send(work, client, block, &statement)?;
    execute(client, "COMMIT")
}

/// A statement in UTF-8.
fn converted(client: &mut Client, bytes: &[u8], encoding: &str, statement: Span) -> Result<String, Failure> {
    let row = client.query_one("SELECT pg_catalog.convert($1, $2, 'UTF8')", &[&bytes, &encoding]);
    let converted: Vec<u8> =
        row.and_then(|row| row.try_get(0)).map_err(|error| errors::of_statement(&error, "", statement.at))?;
    String::from_utf8(converted).map_err(|error| unreadable(&io::Error::new(ErrorKind::InvalidData, error)))
}

fn send(work: &Work<'_>, client: &mut Client, block: &CopyBlock, copy: &str) -> Result<(), Failure> {
    let name = block.table.as_deref().unwrap_or("rows");
    let what = format!("COPY {name}");
    work.at(&what);
    let writer = client.copy_in(copy).map_err(|error| errors::of_statement(&error, copy, block.statement.at))?;
    work.advance(block.statement.size);
    let arrived = write(work, writer, block, &what)?;
    if arrived == block.rows_count {
        return Ok(());
    }
    let line = block.statement.at.line;
    Err(differs(
        ROWS,
        vec![format!("{name}: {} rows in the dump (line {line}), {arrived} arrived at the server", block.rows_count)],
    ))
}

fn write(work: &Work<'_>, mut writer: CopyInWriter<'_>, block: &CopyBlock, what: &str) -> Result<u64, Failure> {
    let refused = |error: &Error| errors::of_rows(error, block.rows.at);
    let stopped = |words: &str| errors::lost(block.statement.at.line, words);
    let mut chunk = vec![0; CHUNK];
    let mut left = block.rows.size;
    while left > 0 {
        let size = usize::try_from(left).unwrap_or(CHUNK).min(CHUNK);
        let rows = chunk.get_mut(..size).unwrap_or_default();
        let at = block.rows.at.byte + block.rows.size - left;
        work.load.file.read_exact_at(rows, at).map_err(|error| unreadable(&error))?;
        writer.write_all(rows).map_err(|error| match error.into_inner().map(|inner| inner.downcast::<Error>()) {
            Some(Ok(error)) => refused(&error),
            Some(Err(error)) => stopped(&error.to_string()),
            None => stopped("the connection takes no more"),
        })?;
        work.rows_sent(rows, what);
        left -= size as u64;
    }
    writer.finish().map_err(|error| refused(&error))
}

fn build(work: &Work<'_>, client: &mut Client, build: &Build) -> Result<(), Failure> {
    let sql = work.sql(work.read(build.statement)?);
    work.at(&shown(&sql));
    let mut tries = 1;
    while let Err(error) = client.batch_execute(&sql) {
        // Two sessions waited for each other, and this one was chosen to give way: once more, it may get through.
        if error.code() != Some(&SqlState::T_R_DEADLOCK_DETECTED) || tries == TRIES {
            return Err(errors::of_statement(&error, &sql, build.statement.at));
        }
        tries += 1;
    }
    work.advance(build.statement.size);
    Ok(())
}
