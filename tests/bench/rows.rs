//! The rows of a service: so many MB of them, in tables with keys, foreign keys and indices.

use anyhow::Result;
use svc_tests::postgres::Postgres;

/// Rows of each table for one MB of the database, as it was seen to come out.
const USERS: usize = 54;
const PROJECTS: usize = 11;
const DOCUMENTS: usize = 436;
const EVENTS: usize = 2720;

/// A service's tables.
const SERVICE: &str = include_str!("rows.sql");

/// Makes the four tables in each of the schemas, again where they are there, of about that size together on the server's disk.
pub fn fill(postgres: &Postgres, database: &str, schemas: &[String], megabytes: usize) -> Result<()> {
    let rows = [("%USERS%", USERS), ("%PROJECTS%", PROJECTS), ("%DOCUMENTS%", DOCUMENTS), ("%EVENTS%", EVENTS)];
    let each = megabytes / schemas.len();
    let sql = rows.iter().fold(SERVICE.to_owned(), |sql, (name, rows)| sql.replace(name, &(rows * each).to_string()));
    for schema in schemas {
        postgres.sql(database, &sql.replace("%SCHEMA%", schema))?;
    }
    postgres.sql(database, "VACUUM (ANALYZE, FREEZE)").map(drop)
}
