//! The relational half: adding items, and the record of its shape.

use anyhow::{Context, Result};
use postgres::{Client, GenericClient};
use semver::Version;

use crate::shapes::Shape;

/// A row's key, which is the document's identifier, and the document in JSON.
pub type Item = (i64, String);

/// The tables and views of the service.
pub fn relations(client: &mut Client) -> Result<Vec<String>> {
    let found = client.query(
        "SELECT oid::regclass::text FROM pg_class
         WHERE relkind IN ('r', 'v') AND relnamespace IN (to_regnamespace('public'), to_regnamespace('report'))",
        &[],
    )?;
    Ok(found.iter().map(|row| row.get(0)).collect())
}

/// The shape that the database records; `None` if it records none.
pub fn recorded_shape(client: &mut Client) -> Result<Option<u32>> {
    let there: bool = client.query_one("SELECT to_regclass('public.content_version') IS NOT NULL", &[])?.get(0);
    let row = if there { client.query_opt("SELECT shape FROM public.content_version", &[])? } else { None };
    Ok(row.and_then(|row| row.get::<_, i32>(0).try_into().ok()))
}

/// Records the shape and the version that made it.
pub fn record(client: &mut impl GenericClient, shape: u32, version: &Version) -> Result<()> {
    client.execute(
        "INSERT INTO content_version (shape, version) VALUES ($1, $2) ON CONFLICT (only_row)
         DO UPDATE SET shape = excluded.shape, version = excluded.version, recorded_at = now()",
        &[&i32::try_from(shape)?, &version.to_string()],
    )?;
    Ok(())
}

/// Adds items, and gives them as documents.
pub fn insert(client: &mut Client, shape: u32, items: i64) -> Result<Vec<Item>> {
    let added = client.query(Shape::of(shape)?.insert, &[&i32::try_from(items)?])?;
    let first: i64 = added.iter().map(|row| row.get(0)).min().context("no item was added")?;
    documents(client, shape, first - 1, items)
}

/// The items above an id as documents, in the order of their ids.
pub fn documents(client: &mut Client, shape: u32, above: i64, limit: i64) -> Result<Vec<Item>> {
    let rows = client.query(Shape::of(shape)?.documents, &[&above, &limit])?;
    Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
}

/// The highest id of an item; 0 if there is none.
pub fn last_id(client: &mut Client) -> Result<i64> {
    Ok(client.query_one("SELECT coalesce(max(id), 0) FROM items", &[])?.get(0))
}
