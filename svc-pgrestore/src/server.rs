//! What the server says about the live database and about what a dump needs.

use postgres::Client;
use svc_pgdump::refusal;
use svc_step::Failure;

/// The live database, and what of it cannot be carried over by a restore.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Live {
    /// The identifiers of its prepared transactions.
    pub(crate) prepared: Vec<String>,
    /// Its subscriptions.
    pub(crate) subscriptions: Vec<String>,
    /// The logical replication slots on it.
    pub(crate) slots: Vec<String>,
}

const LIVE: &str = "SELECT ARRAY(SELECT gid FROM pg_prepared_xacts WHERE database = d.datname ORDER BY gid), \
    ARRAY(SELECT subname::text FROM pg_subscription WHERE subdbid = d.oid ORDER BY 1), \
    ARRAY(SELECT slot_name::text FROM pg_replication_slots WHERE database = d.datname ORDER BY 1) \
    FROM pg_database d WHERE d.datname = $1";

/// Asks about the live database; `None` where there is none.
pub(crate) fn live(client: &mut Client, database: &str) -> Result<Option<Live>, Failure> {
    let row = client.query_opt(LIVE, &[&database]).map_err(|error| refusal::of_query(&error, "ask about the live database"))?;
    Ok(row.map(|row| Live { prepared: row.get(0), subscriptions: row.get(1), slots: row.get(2) }))
}

/// Where a tablespace's files are; empty for the server's own folder, `None` where there is no such tablespace.
pub(crate) fn tablespace(client: &mut Client, name: &str) -> Result<Option<String>, Failure> {
    let sql = "SELECT pg_tablespace_location(oid) FROM pg_tablespace WHERE spcname = $1";
    let row = client.query_opt(sql, &[&name]).map_err(|error| refusal::of_query(&error, "ask for the tablespace"))?;
    Ok(row.map(|row| row.get(0)))
}

/// The files of a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Files {
    /// Where its tablespace is; empty for the server's own folder.
    pub(crate) location: String,
    /// How much room they take, in all tablespaces; `None` where the administrator may not ask.
    pub(crate) size_bytes: Option<u64>,
}

/// Asks for a database's files; `None` where there is no such database.
pub(crate) fn files(client: &mut Client, database: &str) -> Result<Option<Files>, Failure> {
    let sql = "SELECT pg_tablespace_location(dattablespace), CASE WHEN has_database_privilege(oid, 'CONNECT') \
               OR pg_has_role('pg_read_all_stats', 'member') THEN pg_database_size(oid) END FROM pg_database WHERE datname = $1";
    let row =
        client.query_opt(sql, &[&database]).map_err(|error| refusal::of_query(&error, "ask for the size of the database"))?;
    let size = |row: &postgres::Row| row.get::<_, Option<i64>>(1).and_then(|size| u64::try_from(size).ok());
    Ok(row.map(|row| Files { location: row.get(0), size_bytes: size(&row) }))
}

/// Those of `roles` that are not there.
pub(crate) fn missing_roles(client: &mut Client, roles: &[String]) -> Result<Vec<String>, Failure> {
    missing(client, roles, "SELECT n FROM unnest($1::text[]) n WHERE n NOT IN (SELECT rolname::text FROM pg_roles)")
}

/// Those of `extensions` that are not installed on the server's host.
pub(crate) fn missing_extensions(client: &mut Client, extensions: &[String]) -> Result<Vec<String>, Failure> {
    missing(
        client,
        extensions,
        "SELECT n FROM unnest($1::text[]) n WHERE n NOT IN (SELECT name::text FROM pg_available_extensions)",
    )
}

fn missing(client: &mut Client, names: &[String], sql: &str) -> Result<Vec<String>, Failure> {
    let rows = client.query(sql, &[&names]).map_err(|error| refusal::of_query(&error, "ask for what the dump needs"))?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}
