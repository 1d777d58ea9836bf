//! What the server says about itself, about the live database and about what a dump needs.

use postgres::Client;
use svc_pgdump::refusal;
use svc_step::Failure;

use crate::outcome::Named;

/// The server, and what the administrator may do on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Server {
    /// `server_version_num`, such as 150018.
    pub(crate) version_num: u32,
    /// `server_version`.
    pub(crate) version: String,
    /// `pg_control_system().system_identifier`.
    pub(crate) system_identifier: String,
    /// Who we are.
    pub(crate) user: String,
    /// Whether that is a superuser.
    pub(crate) superuser: bool,
    /// Whether that role may create databases.
    pub(crate) creates_databases: bool,
    /// Where its files are, where it says so.
    pub(crate) data_directory: Option<String>,
}

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

const RIGHTS: &str = "SELECT current_user::text, r.rolsuper, r.rolsuper OR r.rolcreatedb, \
    CASE WHEN r.rolsuper OR pg_has_role('pg_read_all_settings', 'member') THEN current_setting('data_directory') END \
    FROM pg_roles r WHERE r.rolname = current_user";

const LIVE: &str = "SELECT ARRAY(SELECT gid FROM pg_prepared_xacts WHERE database = d.datname ORDER BY gid), \
    ARRAY(SELECT subname::text FROM pg_subscription WHERE subdbid = d.oid ORDER BY 1), \
    ARRAY(SELECT slot_name::text FROM pg_replication_slots WHERE database = d.datname ORDER BY 1) \
    FROM pg_database d WHERE d.datname = $1";

/// Asks the server about itself.
///
/// # Errors
/// The administrator may not even ask for the server's identifier (3); see [`refusal::of_query`].
pub(crate) fn server(client: &mut Client) -> Result<Server, Failure> {
    let identity = svc_pgdump::identify(client)?;
    let row = client.query_one(RIGHTS, &[]).map_err(|error| refusal::of_query(&error, "ask for the administrator's rights"))?;
    let user: String = row.get(0);
    let system_identifier = identity.system_identifier.ok_or_else(|| {
        Failure::refused("not_administrator", format!("The database user {user} may not ask for the server's identifier."))
            .hint("Connect as a superuser, or GRANT EXECUTE ON FUNCTION pg_control_system() to that user.")
    })?;
    Ok(Server {
        version_num: identity.version_num,
        version: identity.version,
        system_identifier,
        user,
        superuser: row.get(1),
        creates_databases: row.get(2),
        data_directory: row.get(3),
    })
}

/// Asks about the live database; `None` where there is none.
pub(crate) fn live(client: &mut Client, database: &str) -> Result<Option<Live>, Failure> {
    let row = client.query_opt(LIVE, &[&database]).map_err(|error| refusal::of_query(&error, "ask about the live database"))?;
    Ok(row.map(|row| Live { prepared: row.get(0), subscriptions: row.get(1), slots: row.get(2) }))
}

/// All databases.
pub(crate) fn catalog(client: &mut Client) -> Result<Vec<Named>, Failure> {
    let rows = client
        .query("SELECT datname::text, oid FROM pg_database ORDER BY 1", &[])
        .map_err(|error| refusal::of_query(&error, "list the databases"))?;
    Ok(rows.iter().map(|row| Named { name: row.get(0), oid: Some(row.get(1)) }).collect())
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
