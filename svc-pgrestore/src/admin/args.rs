//! Who the administrator is: he has settings of his own, apart from those of the service's user.

use std::path::PathBuf;

use clap::Args;
use svc_step::user::OsUser;
use svc_step::{Call, Failure};

use svc_pgdump::pg::{ConnectionSettings, PasswordSource, Target, given};

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
        let settings = ConnectionSettings {
            host: self.host.clone(),
            port: self.port,
            // PGUSER is the service's user, not the administrator.
            user: user.or_else(|| as_user.clone()).or_else(|| current.map(|user| user.name)),
            as_user,
            default_user: None,
            password: self.password_file.clone().map_or(PasswordSource::Places, PasswordSource::File),
        };
        settings.resolve(call)
    }

    /// The options that lead to the same server as the same administrator from any shell, as they would be typed.
    pub(crate) fn typed(&self, target: &Target) -> Vec<String> {
        let mut words = vec!["--host".to_owned(), target.host(), "--port".to_owned(), target.port.to_string()];
        let mut add =
            |flag: &str, value: Option<String>| words.extend(value.into_iter().flat_map(|value| [flag.to_owned(), value]));
        add("--as", target.os_user.as_ref().map(|user| user.name.clone()));
        add("--username", given(self.username.as_deref()).map(str::to_owned));
        add("--password-file", self.password_file.as_ref().map(|path| path.display().to_string()));
        words
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

    fn args(as_user: Option<&str>, username: Option<&str>) -> AdminArgs {
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
        assert_eq!(args(None, None).acting(None, true).as_deref(), Some("postgres"));
        assert_eq!(args(None, None).acting(None, false), None);
        assert_eq!(args(None, None).acting(Some("pgadmin"), true).as_deref(), Some("pgadmin"));
        assert_eq!(args(Some("dba"), None).acting(Some("pgadmin"), true).as_deref(), Some("dba"));
    }

    #[test]
    fn an_administrator_with_a_password_is_connected_as_such() {
        assert_eq!(args(None, Some("admin")).acting(Some("postgres"), true), None);
        assert_eq!(args(Some("postgres"), Some("admin")).acting(None, true).as_deref(), Some("postgres"));
    }
}
