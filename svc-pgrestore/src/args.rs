//! Which dump is restored, into which database, who owns it, and who the administrator is.

use std::path::PathBuf;

use clap::{Args, value_parser};
use svc_pgdump::DumpArg;
use svc_pgdump::pg::{ConnectionArgs, DatabaseArgs, Target, given};
use svc_step::from::OtherServer;
use svc_step::user::OsUser;
use svc_step::{Call, Failure, file};

/// What staging and restoring need to know.
#[derive(Debug, Args)]
pub struct RestoreArgs {
    #[command(flatten)]
    pub(crate) dump: DumpArg,
    #[command(flatten)]
    pub(crate) other: OtherServer,
    /// Try even if the disk has too little space for a second copy
    #[arg(long)]
    pub(crate) ignore_disk_space: bool,
    #[command(flatten)]
    pub(crate) database: DatabaseArgs,
    /// The database's owner; default: SVC_DB_USER, else NAME
    #[arg(long, value_name = "ROLE", env = "SVC_DB_USER")]
    pub(crate) owner: Option<String>,
    /// Over how many connections the dump is loaded, never more than the server has free; default: 8, on the server's own host as
    /// many as it has cores if those are fewer
    #[arg(long, value_name = "N", value_parser = value_parser!(u16).range(1..=256))]
    pub(crate) jobs: Option<u16>,
    #[command(flatten)]
    pub(crate) admin: AdminArgs,
}

/// The variable that names the OS user to become.
const ADMIN: &str = "SVC_PG_ADMIN";
/// Who administers a packaged PostgreSQL.
const POSTGRES: &str = "postgres";

/// The administrator's connection.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Connection options")]
pub struct AdminArgs {
    /// The server's host, or the directory of its socket; default: SVC_DB_HOST, else PGHOST, else /var/run/postgresql
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

    /// The options that lead to the same server as the same administrator from any shell.
    pub(crate) fn options(&self, target: &Target) -> Vec<String> {
        let os_user = target.os_user.as_ref().map(|user| user.name.clone());
        Self { host: Some(target.host.clone()), port: Some(target.port), as_user: os_user, ..self.clone() }.given()
    }

    /// The options as they are typed; none if the settings alone lead to the server.
    pub(crate) fn given(&self) -> Vec<String> {
        // The directory in which the hint is typed may be another one.
        let absolute = |path: &PathBuf| file::absolute(path).unwrap_or_else(|_| path.clone()).display().to_string();
        let pairs = [
            ("--host", self.host.clone()),
            ("--port", self.port.map(|port| port.to_string())),
            ("--as", self.as_user.clone()),
            ("--username", given(self.username.as_deref()).map(str::to_owned)),
            ("--password-file", self.password_file.as_ref().map(absolute)),
        ];
        pairs.into_iter().flat_map(|(flag, value)| value.into_iter().flat_map(|value| [flag.to_owned(), value])).collect()
    }

    /// The OS user to become: the flag; none if an administrator with a password is named; the variable; postgres when root.
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

    fn admin(as_user: Option<&str>, username: Option<&str>) -> AdminArgs {
        let [as_user, username] = [as_user, username].map(|name| name.map(str::to_owned));
        AdminArgs { as_user, username, ..AdminArgs::default() }
    }

    #[test]
    fn root_acts_as_postgres_unless_user_is_named() {
        assert_eq!(admin(None, None).acting(None, true).as_deref(), Some("postgres"));
        assert_eq!(admin(None, None).acting(None, false), None);
        assert_eq!(admin(None, None).acting(Some("pgadmin"), true).as_deref(), Some("pgadmin"));
        assert_eq!(admin(Some("dba"), None).acting(Some("pgadmin"), true).as_deref(), Some("dba"));
        assert_eq!(admin(None, Some("admin")).acting(Some("postgres"), true), None);
        assert_eq!(admin(Some("postgres"), Some("admin")).acting(None, true).as_deref(), Some("postgres"));
    }

    #[test]
    fn given_options_are_repeated_with_absolute_file_path() {
        assert_eq!(admin(None, None).given(), [""; 0]);
        let file = AdminArgs { password_file: Some("pw".into()), ..admin(None, Some("dba")) };
        let absolute = std::env::current_dir().unwrap().join("pw").display().to_string();
        assert_eq!(file.given(), ["--username", "dba", "--password-file", &absolute]);
    }
}
