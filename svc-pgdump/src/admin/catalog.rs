//! What the server tells an administrator: which one it is, what he may do on it, and which databases it has.

use postgres::Client;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_step::Failure;

use crate::refusal;
use crate::target::identify;

/// The server, and what the administrator may do on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// `server_version_num`, such as 150018.
    pub version_num: u32,
    /// `server_version`.
    pub version: String,
    /// `pg_control_system().system_identifier`.
    pub system_identifier: String,
    /// Who we are.
    pub user: String,
    /// Whether that is a superuser.
    pub superuser: bool,
    /// Whether that role may create databases.
    pub creates_databases: bool,
    /// Where its files are, where it says so.
    pub data_directory: Option<String>,
}

/// A database of the server, told by its number, which it keeps whatever it is called.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Named {
    /// Its name; in which state of things, the field that holds this says.
    pub name: String,
    /// Its OID; `null` while it has not been created.
    pub oid: Option<u32>,
}

const RIGHTS: &str = "SELECT current_user::text, r.rolsuper, r.rolsuper OR r.rolcreatedb, \
    CASE WHEN r.rolsuper OR pg_has_role('pg_read_all_settings', 'member') THEN current_setting('data_directory') END \
    FROM pg_roles r WHERE r.rolname = current_user";

const SESSIONS: &str = "SELECT format('process %s of %s (%s), %s', pid, usename, application_name, state) FROM pg_stat_activity \
    WHERE datid = ANY($1) AND pid <> pg_backend_pid() ORDER BY pid LIMIT 10";

/// Asks the server about itself.
///
/// # Errors
/// The administrator may not even ask for the server's identifier (3); see [`refusal::of_query`].
pub(super) fn server(client: &mut Client) -> Result<Server, Failure> {
    let identity = identify(client)?;
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

/// The administrator has the rights.
///
/// # Errors
/// He has not (3).
pub(super) fn rights(server: &Server) -> Result<(), Failure> {
    if server.creates_databases {
        return Ok(());
    }
    Err(Failure::refused("not_administrator", format!("The database user {} may not create databases.", server.user))
        .hint("Run as root, which becomes postgres (--as, SVC_PG_ADMIN), or name an administrator with --username."))
}

/// All databases.
///
/// # Errors
/// See [`refusal::of_query`].
pub fn databases(client: &mut Client) -> Result<Vec<Named>, Failure> {
    let rows = client
        .query("SELECT datname::text, oid FROM pg_database ORDER BY 1", &[])
        .map_err(|error| refusal::of_query(&error, "list the databases"))?;
    Ok(rows.iter().map(|row| Named { name: row.get(0), oid: Some(row.get(1)) }).collect())
}

/// The number of the database of that name; `None` where there is none.
///
/// # Errors
/// See [`refusal::of_query`].
pub fn oid_of(client: &mut Client, database: &str) -> Result<Option<u32>, Failure> {
    Ok(databases(client)?.into_iter().find(|one| one.name == database).and_then(|one| one.oid))
}

/// Who is connected to these databases beside this session, as people read it; nobody where the server does not say.
pub fn sessions(client: &mut Client, oids: &[u32]) -> Vec<String> {
    let rows = client.query(SESSIONS, &[&oids]).unwrap_or_default();
    rows.iter().filter_map(|row| row.try_get(0).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn somebody_who_may_not_create_databases_is_no_administrator() {
        let mut server = Server {
            version_num: 150_018,
            version: "15.18".to_owned(),
            system_identifier: "7".to_owned(),
            user: "svc".to_owned(),
            superuser: false,
            creates_databases: true,
            data_directory: None,
        };
        assert!(rights(&server).is_ok());
        server.creates_databases = false;
        assert_eq!(rights(&server).unwrap_err().code, "not_administrator");
    }
}
