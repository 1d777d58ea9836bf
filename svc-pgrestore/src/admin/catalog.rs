//! What the server says about itself, its databases, and what a dump needs.

use postgres::Client;
use svc_pgdump::pg::{self, identify};
use svc_step::Failure;

use crate::document::Named;

/// The server, and what the administrator may do on it.
pub(crate) struct Server {
    /// `server_version_num`, such as 150018.
    pub(crate) version_num: u32,
    pub(crate) version: String,
    pub(crate) system_identifier: String,
    pub(crate) superuser: bool,
    pub(crate) data_directory: Option<String>,
}

const RIGHTS: &str = "SELECT current_user::text, r.rolsuper, r.rolsuper OR r.rolcreatedb, \
    CASE WHEN r.rolsuper OR pg_has_role('pg_read_all_settings', 'member') THEN current_setting('data_directory') END \
    FROM pg_roles r WHERE r.rolname = current_user";

const SESSIONS: &str = "SELECT format('process %s of %s (%s), %s', pid, usename, application_name, state) FROM pg_stat_activity \
    WHERE datid = ANY($1) AND pid <> pg_backend_pid() ORDER BY pid LIMIT 10";

pub(super) fn server(client: &mut Client) -> Result<Server, Failure> {
    let identity = identify(client)?;
    let row = client.query_one(RIGHTS, &[]).map_err(|error| pg::of_query(&error, "get the administrator's rights"))?;
    let user: String = row.get(0);
    let refused = |what: &str| Failure::refused("not_administrator", format!("The database user {user} may not {what}."));
    if !row.get::<_, bool>(2) {
        return Err(refused("create databases")
            .hint("Run as root, which becomes postgres (--as, SVC_PG_ADMIN), or pass an administrator with --username."));
    }
    let system_identifier = identity.system_identifier.ok_or_else(|| {
        refused("get the server's identifier")
            .hint("Connect as a superuser, or GRANT EXECUTE ON FUNCTION pg_control_system() to that user.")
    })?;
    Ok(Server {
        version_num: identity.version_num,
        version: identity.version,
        system_identifier,
        superuser: row.get(1),
        data_directory: row.get(3),
    })
}

pub(crate) fn databases(client: &mut Client) -> Result<Vec<Named>, Failure> {
    let rows = client
        .query("SELECT datname::text, oid FROM pg_database ORDER BY 1", &[])
        .map_err(|error| pg::of_query(&error, "list the databases"))?;
    Ok(rows.iter().map(|row| Named { name: row.get(0), oid: Some(row.get(1)) }).collect())
}

pub(crate) fn oid_of(client: &mut Client, database: &str) -> Result<Option<u32>, Failure> {
    Ok(databases(client)?.into_iter().find(|one| one.name == database).and_then(|one| one.oid))
}

/// The sessions of others in these databases, for people; none if the server does not tell.
pub(crate) fn sessions(client: &mut Client, oids: &[u32]) -> Vec<String> {
    let rows = client.query(SESSIONS, &[&oids]).unwrap_or_default();
    rows.iter().filter_map(|row| row.try_get(0).ok()).collect()
}

/// What a restore cannot carry over of the live database.
pub(crate) struct Live {
    pub(crate) prepared: Vec<String>,
    pub(crate) subscriptions: Vec<String>,
    pub(crate) slots: Vec<String>,
}

const LIVE: &str = "SELECT ARRAY(SELECT gid FROM pg_prepared_xacts WHERE database = d.datname ORDER BY gid), \
    ARRAY(SELECT subname::text FROM pg_subscription WHERE subdbid = d.oid ORDER BY 1), \
    ARRAY(SELECT slot_name::text FROM pg_replication_slots WHERE database = d.datname ORDER BY 1) \
    FROM pg_database d WHERE d.datname = $1";

pub(crate) fn live(client: &mut Client, database: &str) -> Result<Option<Live>, Failure> {
    let row = client.query_opt(LIVE, &[&database]).map_err(|error| pg::of_query(&error, "get the live database"))?;
    Ok(row.map(|row| Live { prepared: row.get(0), subscriptions: row.get(1), slots: row.get(2) }))
}

/// The folder of a tablespace; empty for the server's own folder.
pub(crate) fn tablespace(client: &mut Client, name: &str) -> Result<Option<String>, Failure> {
    let sql = "SELECT pg_tablespace_location(oid) FROM pg_tablespace WHERE spcname = $1";
    let row = client.query_opt(sql, &[&name]).map_err(|error| pg::of_query(&error, "get the tablespace"))?;
    Ok(row.map(|row| row.get(0)))
}

/// The folder of a database's tablespace (empty for the server's own), and the size of its files if the administrator may know it.
pub(crate) fn files(client: &mut Client, database: &str) -> Result<Option<(String, Option<u64>)>, Failure> {
    let sql = "SELECT pg_tablespace_location(dattablespace), CASE WHEN has_database_privilege(oid, 'CONNECT') \
               OR pg_has_role('pg_read_all_stats', 'member') THEN pg_database_size(oid) END FROM pg_database WHERE datname = $1";
    let row = client.query_opt(sql, &[&database]).map_err(|error| pg::of_query(&error, "get the size of the database"))?;
    let size = |row: &postgres::Row| row.get::<_, Option<i64>>(1).and_then(|size| u64::try_from(size).ok());
    Ok(row.map(|row| (row.get(0), size(&row))))
}

pub(crate) fn missing_roles(client: &mut Client, roles: &[String]) -> Result<Vec<String>, Failure> {
    missing(client, roles, "SELECT n FROM unnest($1::text[]) n WHERE n NOT IN (SELECT rolname::text FROM pg_roles)")
}

/// Those that are not installed on the server's host.
pub(crate) fn missing_extensions(client: &mut Client, extensions: &[String]) -> Result<Vec<String>, Failure> {
    let sql = "SELECT n FROM unnest($1::text[]) n WHERE n NOT IN (SELECT name::text FROM pg_available_extensions)";
    missing(client, extensions, sql)
}

fn missing(client: &mut Client, names: &[String], sql: &str) -> Result<Vec<String>, Failure> {
    let rows = client.query(sql, &[&names]).map_err(|error| pg::of_query(&error, "find what the dump needs"))?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}
