//! Migrates the content of both databases to a version's shape, the relational half first.

use std::io::{Write, stdout};

use anyhow::{Result, bail};
use postgres::Client;
use semver::Version;

use crate::documents::Documents;
use crate::releases::{self, Refusal};
use crate::rows;
use crate::settings::Settings;
use crate::shapes::{Shape, items_index};

/// How many documents go in one call.
pub const BATCH: i64 = 1000;

/// The shapes from which both databases are migrated, 0 if one holds nothing yet; refuses content of a newer version.
pub fn check(settings: &Settings, to: &Version) -> Result<(u32, u32)> {
    let own = releases::shape_of(to)?;
    let rows = rows::recorded_shape(&mut settings.connect()?)?.unwrap_or_default();
    let documents = Documents(settings).recorded_shape()?.unwrap_or_default();
    if rows.max(documents) > own {
        return Err(Refusal::because(format!(
            "The content is of shapes {rows} and {documents}, and version {to} has shape {own}."
        )));
    }
    Ok((rows, documents))
}

/// Each half continues from the shape that it records: content of this version's shape, as after a rollback, is not
/// touched, and a broken migration is continued. With `fail_half_way` it stops in the middle of the search half, as a
/// broken release does: the relational half is at the new shape, an index is gone, another one half filled, the aliases
/// as before.
pub fn migrate(settings: &Settings, to: &Version, fail_half_way: bool) -> Result<()> {
    let own = releases::shape_of(to)?;
    let (rows_at, documents_at) = check(settings, to)?;
    let mut client = settings.connect()?;
    if rows_at != own {
        let mut transaction = client.transaction()?;
        for shape in rows_at + 1..=own {
            transaction.batch_execute(Shape::of(shape)?.migration)?;
        }
        rows::record(&mut transaction, own, to)?;
        transaction.commit()?;
    }
    if documents_at != own {
        let search = Documents(settings);
        move_documents(&search, &mut client, own, fail_half_way)?;
        search.record(own, &to.to_string())?;
    }
    Ok(writeln!(stdout(), "PostgreSQL: shape {rows_at} to {own}; search database: shape {documents_at} to {own}")?)
}

/// New indices and fields, the items' documents again from their rows, then aliases, then what is no longer wanted.
fn move_documents(search: &Documents<'_>, client: &mut Client, own: u32, fail: bool) -> Result<()> {
    let name = &search.0.name;
    Shape::of(own)?.indices(name)?.iter().try_for_each(|(name, index)| search.prepare(name, index))?;
    let items = items_index(name, own);
    if fail {
        search.delete(&format!("{name}-legacy"))?;
        let half = rows::last_id(client)? / 2;
        search.store_all(&items, &rows::documents(client, own, 0, half.min(BATCH))?)?;
        bail!("the migration of the search database failed half-way: the index {items} is not complete");
    }
    let mut above = 0;
    loop {
        let batch = rows::documents(client, own, above, BATCH)?;
        let Some((last, _)) = batch.last() else { break };
        above = *last;
        search.store_all(&items, &batch)?;
    }
    search.finish(own)
}
