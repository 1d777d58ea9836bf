//! The rows of COPY blocks: into fresh ordinary tables side by side and frozen, into anything else alone and as it stands.

use std::io::Write;

use postgres::{Client, CopyInWriter, Error};
use svc_step::Failure;

use super::super::failures::lost;
use super::super::plan::CopyBlock;
use super::refused;
use super::work::{Unread, Work};
use crate::verify::rows_differ;

/// Rows that fit on a page or two are as quickly noted as the table is emptied.
const SMALL: u64 = 8192;

/// Loads a block in a transaction of its own that empties the table first, which it is: then the server need not note for each
/// row who may see it, now and in the first cleaning after it.
pub(super) fn frozen(work: &Work<'_>, client: &mut Client, block: &CopyBlock) -> Result<(), Failure> {
    let Some(table) = block.table.as_ref().filter(|_| block.rows.size > SMALL) else { return plain(work, client, block) };
    let at = block.statement.at;
    let begin = format!("BEGIN; TRUNCATE ONLY {table}");
    client.batch_execute(&begin).map_err(|error| refused::statement(&error, "", at))?;
    let header = work.text(block.statement)?;
    let copy = format!("{} WITH (FREEZE)", header.trim_end_matches(';'));
    send(work, client, block, &copy)?;
    client.batch_execute("COMMIT").map_err(|error| refused::statement(&error, "", at))
}

/// Loads a block as psql would.
pub(super) fn plain(work: &Work<'_>, client: &mut Client, block: &CopyBlock) -> Result<(), Failure> {
    let copy = work.text(block.statement)?;
    send(work, client, block, &copy)
}

fn send(work: &Work<'_>, client: &mut Client, block: &CopyBlock, copy: &str) -> Result<(), Failure> {
    let name = block.table.as_deref().unwrap_or("rows");
    let what = format!("COPY {name}");
    work.at(&what);
    let writer = client.copy_in(copy).map_err(|error| refused::statement(&error, copy, block.statement.at))?;
    work.advance(block.statement.size);
    let arrived = match write(work, writer, block, &what) {
        Ok(arrived) => arrived,
        Err(Stopped::Unread(unread)) => return Err(unread.into()),
        Err(Stopped::Server(error)) => return Err(refused::rows(&error, block.rows.at)),
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
