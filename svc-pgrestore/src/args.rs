//! Which dump is restored, into which database, who owns it, and who the administrator is.

use std::path::PathBuf;

use clap::{Args, value_parser};
use svc_pgdump::pg::{ConnectionArgs, Target, database_name, given};
use svc_step::settings::ServiceArg;
use svc_step::user::OsUser;
use svc_step::{Call, Failure};

use crate::prepare::InputArgs;

/// What staging and restoring need to know.
#[derive(Debug, Args)]
pub struct RestoreArgs {
    #[command(flatten)]
    pub(crate) input: InputArgs,
    #[command(flatten)]
    pub(crate) database: DatabaseArgs,
    /// The database's owner; default: SVC_DB_USER, else NAME
    #[arg(long, value_name = "ROLE", env = "SVC_DB_USER")]
    owner: Option<String>,
    /// Over how many connections the dump is loaded, never more than the server has free; default: 8, on the server's own host as
    /// many as it has cores if those are fewer
    #[arg(long, value_name = "N", value_parser = value_parser!(u16).range(1..=256))]
    pub(crate) jobs: Option<u16>,
    #[command(flatten)]
    pub(crate) admin: AdminArgs,
}

impl RestoreArgs {
    pub(crate) fn owner(&self) -> String {
        given(self.owner.as_deref()).unwrap_or(&self.database.service.name).to_owned()
    }
}

/// The database that is restored.
#[derive(Debug, Clone, Args)]
pub struct DatabaseArgs {
    /// The live database; default: that of the --from document, else NAME_db
    #[arg(long = "dbname", value_name = "NAME", env = "SVC_DATABASE")]
    dbname: Option<String>,
    #[command(flatten)]
    service: ServiceArg,
}

impl DatabaseArgs {
    /// The database's name; `recorded` is that of the document. A connection string is refused (2).
    pub(crate) fn name(&self, recorded: Option<&str>) -> Result<String, Failure> {
        database_name(self.named().or(given(recorded)), &self.service.name)
    }

    /// The one that `--dbname` or `SVC_DATABASE` names.
    pub(crate) fn named(&self) -> Option<&str> {
        given(self.dbname.as_deref())
    }

    /// Refuses (2) an option that names another database than the document.
    pub(crate) fn check(&self, recorded: &str) -> Result<(), Failure> {
        self.name(Some(recorded))?;
        match self.named() {
            Some(named) if named != recorded => Err(Failure::usage(
                "dbname_invalid",
                format!("The document is about the database {recorded}, not about {named}."),
            )
            .hint(format!("Omit --dbname (SVC_DATABASE), or pass --dbname {recorded}."))),
            _ => Ok(()),
        }
    }
}

/// The variable that names the OS user to become.
const ADMIN: &str = "SVC_PG_ADMIN";
/// Who administers a packaged PostgreSQL.
const POSTGRES: &str = "postgres";

/// The administrator's connection.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Connection options")]
pub struct AdminArgs {
    /// The server's host, or the folder of its socket; default: SVC_DB_HOST, else PGHOST, else /var/run/postgresql
    #[arg(long, value_name = "HOST")]
    host: Option<String>,
    /// Its port; default: SVC_DB_PORT, else PGPORT, else 5432
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
    /// Become this user of the host, and connect over the socket; default: SVC_PG_ADMIN, else postgres when root
    #[arg(long = "as", value_name = "USER")]
    as_user: Option<String>,
    #[arg(long, value_name = "ROLE", env = "SVC_PG_ADMIN_USER")]
    username: Option<String>,
    #[arg(long, value_name = "FILE", env = "SVC_PG_ADMIN_PASSWORD_FILE")]
    password_file: Option<PathBuf>,
}

impl AdminArgs {
    /// Works out server and administrator; nothing is connected yet.
    pub(crate) fn resolve(&self, call: &Call) -> Result<Target, Failure> {
        let current = OsUser::current();
        let root = current.as_ref().is_some_and(|user| user.uid.is_root());
        let as_user = self.acting(std::env::var(ADMIN).ok().as_deref(), root);
        let user = given(self.username.as_deref()).map(str::to_owned);
        let connection = ConnectionArgs {
            host: self.host.clone(),
            port: self.port,
            // PGUSER is the service's user, not the administrator.
            username: user.or_else(|| as_user.clone()).or_else(|| current.map(|user| user.name)),
            as_user,
            password_file: self.password_file.clone(),
            ..ConnectionArgs::default()
        };
        connection.resolve(call, None)
    }

    pub(crate) const fn names_server(&self) -> bool {
        self.host.is_some() || self.port.is_some()
    }

    /// The options that lead to the same server as the same administrator from any shell.
    pub(crate) fn options(&self, target: &Target) -> Vec<String> {
        let mut options = vec!["--host".to_owned(), target.host.clone(), "--port".to_owned(), target.port.to_string()];
        let mut add =
            |flag: &str, value: Option<String>| options.extend(value.into_iter().flat_map(|value| [flag.to_owned(), value]));
        add("--as", target.os_user.as_ref().map(|user| user.name.clone()));
        add("--username", given(self.username.as_deref()).map(str::to_owned));
        add("--password-file", self.password_file.as_ref().map(|path| path.display().to_string()));
        options
    }

    /// The OS user to become: the flag; none where an administrator with a password is named; the variable; postgres when root.
    fn acting(&self, variable: Option<&str>, root: bool) -> Option<String> {
        let named = given(self.as_user.as_deref());
        if named.is_none() && given(self.username.as_deref()).is_some() {
            return None;
        }
        named.or_else(|| given(variable)).or_else(|| root.then_some(POSTGRES)).map(str::to_owned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flag_names_the_database_then_the_document_then_the_product() {
        let service = ServiceArg { name: "svc".to_owned() };
        let named = |dbname: Option<&str>| DatabaseArgs { dbname: dbname.map(str::to_owned), service: service.clone() };
        assert_eq!(named(Some("a")).name(Some("b")).unwrap(), "a");
        assert_eq!(named(None).name(Some("b")).unwrap(), "b");
        assert_eq!(named(Some("")).name(None).unwrap(), "svc_db");
        let secret = named(Some("postgresql://u:s3cret@h/d"));
        for refused in [secret.name(None).unwrap_err(), secret.check("b").unwrap_err()] {
            assert!(refused.code == "dbname_invalid" && !format!("{refused:?}").contains("s3cret"), "{refused:?}");
        }
        assert_eq!(named(Some("a")).check("b").unwrap_err().code, "dbname_invalid");
    }

    fn admin(as_user: Option<&str>, username: Option<&str>) -> AdminArgs {
        AdminArgs {
            host: None,
            port: None,
            as_user: as_user.map(str::to_owned),
            username: username.map(str::to_owned),
            password_file: None,
        }
    }

    #[test]
    fn root_becomes_postgres_unless_somebody_is_named() {
        assert_eq!(admin(None, None).acting(None, true).as_deref(), Some("postgres"));
        assert_eq!(admin(None, None).acting(None, false), None);
        assert_eq!(admin(None, None).acting(Some("pgadmin"), true).as_deref(), Some("pgadmin"));
        assert_eq!(admin(Some("dba"), None).acting(Some("pgadmin"), true).as_deref(), Some("dba"));
    }

    #[test]
    fn an_administrator_with_a_password_is_connected_as_such() {
        assert_eq!(admin(None, Some("admin")).acting(Some("postgres"), true), None);
        assert_eq!(admin(Some("postgres"), Some("admin")).acting(None, true).as_deref(), Some("postgres"));
    }
}
