//! The relational half: connecting, adding items, and the record of its shape.

use anyhow::{Context, anyhow};
use postgres::{Client, GenericClient, NoTls};
use semver::Version;

use crate::releases::Shape;
use crate::settings::Settings;
use crate::shapes::tables::{self, Relational};

/// The document of a row.
pub struct Item {
    /// The row's key and the document's identifier.
    pub id: i64,
    /// JSON.
    pub document: String,
}

/// Connects as the service's user.
pub fn connect(settings: &Settings) -> anyhow::Result<Client> {
    let (host, port) = (&settings.pg_host, settings.pg_port);
    settings.postgres()?.connect(NoTls).with_context(|| format!("no connection to the database at {host}:{port}"))
}

pub fn shape(shape: Shape) -> anyhow::Result<&'static Relational> {
    let number = (shape as usize).checked_sub(1);
    let found = number.and_then(|number| tables::SHAPES.get(number));
    found.ok_or_else(|| anyhow!("shape {shape} of the content is not known to this program"))
}

/// The tables and views of any shape that are there, in order.
pub fn relations(client: &mut Client) -> anyhow::Result<Vec<String>> {
    let known: Vec<&str> = tables::SHAPES.iter().flat_map(|shape| shape.relations).copied().collect();
    let found = client.query(
        "SELECT n.nspname || '.' || c.relname FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
         WHERE c.relkind IN ('r', 'v') AND n.nspname || '.' || c.relname = ANY ($1) ORDER BY (n.nspname || '.' || c.relname) COLLATE \"C\"",
        &[&known],
    )?;
    Ok(found.iter().map(|row| row.get(0)).collect())
}

/// The shape that the database records; `None` where it records none.
pub fn recorded_shape(client: &mut Client) -> anyhow::Result<Option<Shape>> {
    let there: bool = client.query_one("SELECT to_regclass('public.content_version') IS NOT NULL", &[])?.get(0);
    if !there {
        return Ok(None);
    }
    let row = client.query_opt("SELECT shape FROM public.content_version", &[])?;
    Ok(row.and_then(|row| Shape::try_from(row.get::<_, i32>(0)).ok()))
}

/// Records the shape and the version that made it.
pub fn record(client: &mut impl GenericClient, shape: Shape, version: &Version) -> anyhow::Result<()> {
    client.execute(
        "INSERT INTO content_version (shape, version) VALUES ($1, $2) ON CONFLICT (only_row)
         DO UPDATE SET shape = excluded.shape, version = excluded.version, recorded_at = now()",
        &[&i32::try_from(shape)?, &version.to_string()],
    )?;
    Ok(())
}

/// Adds items and gives back the lowest of their ids.
pub fn insert(client: &mut Client, of: Shape, items: i32) -> anyhow::Result<i64> {
    let added = client.query(shape(of)?.insert, &[&items])?;
    added.iter().map(|row| row.get(0)).min().ok_or_else(|| anyhow!("no item was added"))
}

/// The items above an id as documents, in the order of their ids.
pub fn documents(client: &mut Client, of: Shape, above: i64, limit: i64) -> anyhow::Result<Vec<Item>> {
    let rows = client.query(shape(of)?.documents, &[&above, &limit])?;
    Ok(rows.iter().map(|row| Item { id: row.get(0), document: row.get(1) }).collect())
}

/// The highest id of an item; 0 where there is none.
pub fn last_id(client: &mut Client) -> anyhow::Result<i64> {
    Ok(client.query_one("SELECT coalesce(max(id), 0) FROM items", &[])?.get(0))
}
