//! How the server is reached: pg_dump's option names, libpq's environment, and `--as` for an OS user.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::Args;
use svc_step::secret::Secret;
use svc_step::settings::{self, ServiceArg, default_of};
use svc_step::user::OsUser;
use svc_step::{Call, Failure};

use super::connection::{Target, is_folder, is_this_host};
use super::environment::Environment;
use super::password::{Passwords, ask_on_terminal};
use super::tls::Tls;

/// Where Debian's libpq expects the socket.
const SOCKET_FOLDER: &str = "/var/run/postgresql";
/// PostgreSQL's own.
const PORT: u16 = 5432;
/// A server that has not answered in an hour does not answer; more than this many seconds are not waited.
const LONGEST_CONNECT: u64 = 3600;

/// The database that a step is about.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Connection options")]
pub struct DatabaseArgs {
    /// The product's database; default: that of a --from document, else SVC_DATABASE, else NAME_db
    #[arg(short = 'd', long = "dbname", value_name = "DBNAME")]
    dbname: Option<String>,
    #[command(flatten)]
    service: ServiceArg,
}

impl DatabaseArgs {
    /// The database's name; `recorded` is that of a document. A connection string is refused (2): its password would be in the process
    /// list.
    pub fn name(&self, recorded: Option<&str>) -> Result<String, Failure> {
        let set = || settings::variable("SVC_DATABASE").unwrap_or_else(|| default_of("SVC_DATABASE", &self.service.name));
        let name = self.named().or(given(recorded)).map_or_else(set, str::to_owned);
        if name.contains('=') || name.starts_with("postgres://") || name.starts_with("postgresql://") {
            return Err(Failure::usage("options_invalid", "The database is given as a connection string.").hint(
                "Pass --dbname NAME with --host, --port and --username; the password comes from .pgpass or --password-file.",
            ));
        }
        Ok(name)
    }

    /// The one that `--dbname` names.
    pub fn named(&self) -> Option<&str> {
        given(self.dbname.as_deref())
    }

    /// Refuses (2) an option that names another database than the document.
    pub fn check(&self, recorded: &str) -> Result<(), Failure> {
        self.name(Some(recorded))?;
        match self.named() {
            Some(named) if named != recorded => Err(Failure::usage(
                "options_invalid",
                format!("The document is about the database {recorded}, not about {named}."),
            )
            .hint(format!("Omit --dbname, or pass --dbname {recorded}."))),
            _ => Ok(()),
        }
    }

    /// Its owner, if none is named: the product's own role, such as `svc`.
    pub fn owner(&self, named: Option<&str>) -> String {
        given(named).unwrap_or(&self.service.name).to_owned()
    }
}

pub fn given(text: Option<&str>) -> Option<&str> {
    text.filter(|text| !text.is_empty())
}

/// The server and who connects, by pg_dump's flag names. The settings `SVC_DB_…` come before libpq's, which may be there for
/// others.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Connection options")]
pub struct ConnectionArgs {
    /// `SVC_DB_HOST`.
    #[arg(short = 'h', long, value_name = "HOST", env = "SVC_DB_HOST")]
    pub host: Option<String>,
    /// `SVC_DB_PORT`.
    #[arg(short, long, value_name = "PORT", env = "SVC_DB_PORT")]
    pub port: Option<u16>,
    /// The database user; default: PGUSER, else the product's (SVC_DB_USER, else SVC_NAME)
    #[arg(short = 'U', long, value_name = "ROLE")]
    pub username: Option<String>,
    /// `SVC_DB_AS`.
    #[arg(long = "as", value_name = "USER", env = "SVC_DB_AS")]
    pub as_user: Option<String>,
    /// Read the password from the first line of this file; default: SVC_DB_PASSWORD_FILE, unless it is asked for
    #[arg(long, value_name = "FILE")]
    pub password_file: Option<PathBuf>,
    /// Ask for the password on the terminal
    #[arg(short = 'W', long, conflicts_with = "password_file")]
    pub password: bool,
}

impl ConnectionArgs {
    /// What is not given is left to `SVC_DB_HOST` and `SVC_DB_PORT`, then to libpq's environment, then to the default. With `--as`,
    /// `PGUSER`, `PGPASSWORD` and `PGPASSFILE` are not used, and `SVC_DB_HOST` and `PGHOST` only if they are directories.
    /// `owner` connects if nothing else names a user; without one it is the administrator, who has a password file of his own. Nothing is
    /// connected yet; the password files are read.
    ///
    /// # Errors
    /// A setting is wrong or not supported (2), the OS user does not exist (4), the password file cannot be read (3, 4).
    pub fn resolve(&self, call: &Call, owner: Option<&str>) -> Result<Target, Failure> {
        let env = &Environment::of_process();
        let os_user = given(self.as_user.as_deref()).map(OsUser::named).transpose()?;
        let (host, address) = self.host(env, os_user.is_some())?;
        if os_user.is_none() {
            env.refuse(&["PGSERVICE", "PGREQUIREAUTH", "PGREQUIREPEER"], &[])?;
            env.refuse(&["PGTARGETSESSIONATTRS"], &["any"])?;
        }
        let own = if self.port.is_some() { self.port } else { env.value("SVC_DB_PORT")? };
        let port = if let Some(port) = own { port } else { env.value("PGPORT")?.unwrap_or(PORT) };
        let user = self.user(env, os_user.as_ref(), owner)?;
        // Not by clap, for which --password and a setting of the environment would be in conflict.
        let set = || settings::variable("SVC_DB_PASSWORD_FILE").filter(|_| owner.is_some() && !self.password).map(PathBuf::from);
        let passwords = match self.password_file.clone().or_else(set) {
            Some(file) => Passwords::fixed(Secret::from_file("password", &file)?),
            None if self.password => Passwords::fixed(ask_on_terminal(call)?),
            None => Passwords::of_libpq(env, os_user.as_ref(), call)?,
        };
        let tls = if is_folder(&host) { Tls::disabled() } else { Tls::from_environment(env)? };
        let connect_timeout = env.value("PGCONNECT_TIMEOUT")?.filter(|seconds| *seconds > 0).unwrap_or(5).min(LONGEST_CONNECT);
        Ok(Target {
            host,
            address,
            port,
            user,
            os_user,
            passwords,
            tls,
            connect_timeout: std::time::Duration::from_secs(connect_timeout),
            options: env.text("PGOPTIONS"),
            watched: std::sync::Once::new(),
        })
    }

    /// The server, and the address to connect to if its name is not used.
    fn host(&self, env: &Environment, as_os_user: bool) -> Result<(String, Option<IpAddr>), Failure> {
        let (host, address) = match given(self.host.as_deref()) {
            Some(host) if as_os_user && !is_folder(host) => {
                return Err(Failure::usage("settings_invalid", "A user of this host is known to the server over the socket only.")
                    .hint("With --as (SVC_DB_AS), --host (SVC_DB_HOST) is the directory of the socket, or omitted; or connect with --username and a password."));
            }
            Some(host) if !is_folder(host) && env.text("PGHOST").as_deref() == Some(host) => {
                (Some(host.to_owned()), env.value("PGHOSTADDR")?)
            }
            Some(host) => (Some(host.to_owned()), None),
            None if as_os_user => {
                let own = env.text("SVC_DB_HOST");
                if let Some(other) = own.as_deref().filter(|host| !is_this_host(host, None)) {
                    let message = format!("SVC_DB_HOST is {other}, and a user of this host is known to this host's server only.");
                    return Err(Failure::usage("settings_invalid", message)
                        .hint("If that is this host, set SVC_DB_HOST=localhost; else connect with --username (SVC_PG_ADMIN_USER) and a password, or name this host's socket: --host /var/run/postgresql"));
                }
                ([own, env.text("PGHOST")].into_iter().flatten().find(|host| is_folder(host)), None)
            }
            None => match (env.text("SVC_DB_HOST"), env.text("PGHOST"), env.text("PGHOSTADDR")) {
                (Some(own), ..) => (Some(own), None),
                // As in libpq, the name is what the certificate and the password file are about.
                (None, Some(host), Some(_)) if !is_folder(&host) => (Some(host), env.value("PGHOSTADDR")?),
                (None, _, Some(address)) => (Some(address), None),
                (None, host, None) => (host, None),
            },
        };
        let host = host.unwrap_or_else(|| SOCKET_FOLDER.to_owned());
        if host.contains(',') {
            return Err(Failure::usage("settings_invalid", format!("`{host}` names several hosts."))
                .hint("Pass one host with --host, or in SVC_DB_HOST."));
        }
        Ok((host, address))
    }

    fn user(&self, env: &Environment, os_user: Option<&OsUser>, owner: Option<&str>) -> Result<String, Failure> {
        let named = given(self.username.as_deref()).or(os_user.map(|user| user.name.as_str())).map(str::to_owned);
        let default =
            || env.text("PGUSER").or_else(|| owner.map(str::to_owned)).or_else(|| OsUser::current().map(|user| user.name));
        named.or_else(default).ok_or_else(|| {
            Failure::usage("settings_invalid", "No database user is given.").hint("Pass it with --username or PGUSER.")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_is_of_option_then_svc_db_host_then_libpq() {
        // The host and its address, or the code of a refusal.
        for (option, as_root, env, wanted) in [
            ("", false, "PGHOST=", "/var/run/postgresql"),
            ("db1", false, "PGHOST=db2 PGHOSTADDR=::1", "db1"),
            ("db1", false, "PGHOST=db1 PGHOSTADDR=::1", "db1 ::1"),
            ("db3", false, "SVC_DB_HOST=db1 PGHOST=db2 PGHOSTADDR=::1", "db3"),
            ("", false, "SVC_DB_HOST=db1 PGHOST=db2 PGHOSTADDR=::1", "db1"),
            ("", false, "SVC_DB_HOST= PGHOST=db2", "db2"),
            ("", false, "PGHOST=db1 PGHOSTADDR=::1", "db1 ::1"),
            ("", false, "PGHOSTADDR=::1", "::1"),
            ("", false, "PGHOST=/tmp PGHOSTADDR=::1", "::1"),
            ("", false, "PGHOST=a PGHOSTADDR=somewhere", "settings_invalid"),
            ("", false, "PGHOST=a,b", "settings_invalid"),
            // A user of this host is let in over the socket only.
            ("", true, "SVC_DB_HOST=127.0.0.1 PGHOST=db2 PGHOSTADDR=::1", "/var/run/postgresql"),
            ("", true, "PGHOST=db2", "/var/run/postgresql"),
            ("", true, "SVC_DB_HOST=db1 PGHOST=/tmp/t", "settings_invalid"),
            ("/tmp/s", true, "SVC_DB_HOST=db1", "/tmp/s"),
            ("", true, "SVC_DB_HOST=/tmp/s PGHOST=/tmp/t", "/tmp/s"),
            ("", true, "PGHOST=/tmp/s", "/tmp/s"),
            ("db1", true, "", "settings_invalid"),
        ] {
            let args = ConnectionArgs { host: Some(option.to_owned()), ..ConnectionArgs::default() };
            let pairs: Vec<_> = env.split_whitespace().filter_map(|pair| pair.split_once('=')).collect();
            let found = args.host(&Environment::of(&pairs), as_root).map_or_else(
                |failure| failure.code,
                |(host, address)| address.map_or(host.clone(), |address| format!("{host} {address}")),
            );
            assert_eq!(found, wanted, "{option} {env}");
        }
    }

    #[test]
    fn user_is_of_option_then_os_user_then_pguser() {
        let (env, root) = (Environment::of(&[("PGUSER", "other")]), OsUser::named("root").unwrap());
        let named = ConnectionArgs { username: Some("svc".into()), ..ConnectionArgs::default() };
        assert_eq!(named.user(&env, Some(&root), None).unwrap(), "svc");
        assert_eq!(ConnectionArgs::default().user(&env, Some(&root), None).unwrap(), "root");
        assert_eq!(ConnectionArgs::default().user(&env, None, Some("svc")).unwrap(), "other");
    }

    #[test]
    fn dbname_flag_wins_over_document_and_service_default() {
        let service = ServiceArg { name: "svc".to_owned() };
        let named = |dbname: Option<&str>| DatabaseArgs { dbname: dbname.map(str::to_owned), service: service.clone() };
        assert_eq!(named(Some("a")).name(Some("b")).unwrap(), "a");
        assert_eq!(named(None).name(Some("b")).unwrap(), "b");
        assert_eq!(named(Some("")).name(None).unwrap(), "svc_db");
        for text in ["host=h password=s3cret", "postgres://u:s3cret@h/d", "postgresql://u:s3cret@h/d"] {
            let secret = named(Some(text));
            for refused in [secret.name(None).unwrap_err(), secret.check("b").unwrap_err()] {
                assert!(refused.code == "options_invalid" && !format!("{refused:?}").contains("s3cret"), "{refused:?}");
            }
        }
        assert_eq!(named(Some("a")).check("b").unwrap_err().code, "options_invalid");
    }
}
