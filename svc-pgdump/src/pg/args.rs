//! How the server is reached: pg_dump's option names, libpq's environment, and `--as` for an OS user.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::Args;
use svc_step::settings::{self, ServiceArg, default_of};
use svc_step::user::OsUser;
use svc_step::{Call, Failure};

use super::connection::{Place, Target};
use super::environment::{Environment, Service};
use super::password::{PasswordSource, Passwords};
use super::tls::Tls;

/// Where Debian's libpq looks for the socket.
const SOCKET_FOLDER: &str = "/var/run/postgresql";
/// PostgreSQL's own.
const PORT: u16 = 5432;
/// A server that has not answered in an hour does not answer; more than this many seconds are not waited.
const LONGEST_CONNECT: u64 = 3600;

/// The database that a step is about.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Connection options")]
pub struct DatabaseArg {
    /// `SVC_DATABASE`.
    #[arg(short = 'd', long = "dbname", value_name = "DBNAME", env = "SVC_DATABASE")]
    pub dbname: Option<String>,
    #[command(flatten)]
    service: ServiceArg,
    /// `SVC_DB_USER`.
    #[arg(long = "db-user", value_name = "ROLE", env = "SVC_DB_USER")]
    pub db_user: Option<String>,
}

impl DatabaseArg {
    pub fn name(&self) -> Result<String, Failure> {
        database_name(self.dbname.as_deref(), &self.service.name)
    }

    /// The product's own role in the database, its owner: `svc`.
    pub fn owner(&self) -> String {
        given(self.db_user.as_deref()).unwrap_or(&self.service.name).to_owned()
    }
}

pub fn given(text: Option<&str>) -> Option<&str> {
    text.filter(|text| !text.is_empty())
}

/// The given name, or that of the product. A connection string is refused (2): its password would be in the process list.
pub fn database_name(dbname: Option<&str>, product: &str) -> Result<String, Failure> {
    let name = given(dbname).map_or_else(|| default_of("SVC_DATABASE", product), str::to_owned);
    if name.contains('=') || name.starts_with("postgres://") || name.starts_with("postgresql://") {
        return Err(Failure::usage("dbname_is_connection_string", "The database is given as a connection string.")
            .hint("Pass --dbname NAME with --host, --port and --username; the password comes from .pgpass or --password-file."));
    }
    Ok(name)
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
    /// Never ask for a password
    #[arg(short = 'w', long, conflicts_with = "password")]
    pub no_password: bool,
}

impl ConnectionArgs {
    pub fn settings(&self) -> ConnectionSettings {
        // Not by clap, for which --password and a setting of the environment would be in conflict.
        let set = || settings::variable("SVC_DB_PASSWORD_FILE").filter(|_| !self.password).map(PathBuf::from);
        let password = match (self.password_file.clone().or_else(set), self.password, self.no_password) {
            (Some(file), ..) => PasswordSource::File(file),
            (None, true, _) => PasswordSource::Prompt,
            (None, false, true) => PasswordSource::PlacesOnly,
            (None, false, false) => PasswordSource::Places,
        };
        ConnectionSettings {
            host: self.host.clone(),
            port: self.port,
            user: self.username.clone(),
            as_user: self.as_user.clone(),
            default_user: None,
            password,
        }
    }

    /// `owner` connects if nothing else names a user.
    pub fn resolve(&self, call: &Call, owner: &str) -> Result<Target, Failure> {
        ConnectionSettings { default_user: Some(owner.to_owned()), ..self.settings() }.resolve(call)
    }
}

/// The given options; `None` is left to `SVC_DB_HOST` and `SVC_DB_PORT`, then to libpq's environment, then to the default.
#[derive(Debug, Clone, Default)]
pub struct ConnectionSettings {
    /// A host name, an address, or the folder of the socket.
    pub host: Option<String>,
    pub port: Option<u16>,
    pub user: Option<String>,
    /// The user of this host to connect as, over the socket. `PGUSER`, `PGPASSWORD`, `PGPASSFILE` and `PGSERVICE` are not
    /// used then, and `SVC_DB_HOST` and `PGHOST` only if they are folders.
    pub as_user: Option<String>,
    /// The database user where nothing else says who; without, the user of this host, as libpq does.
    pub default_user: Option<String>,
    pub password: PasswordSource,
}

impl ConnectionSettings {
    /// Nothing is connected yet; the password files are read.
    ///
    /// # Errors
    /// A setting is wrong or not supported (2), the OS user does not exist (4), the password file cannot be read (3, 4).
    pub fn resolve(&self, call: &Call) -> Result<Target, Failure> {
        let env = &Environment::of_process();
        let os_user = given(self.as_user.as_deref()).map(OsUser::named).transpose()?;
        let service = if os_user.is_none() { Service::wanted(env)? } else { None };
        let with_service = service.as_ref().map(|service| env.with(&service.variables));
        let env = with_service.as_ref().unwrap_or(env);
        let (place, address) = self.place(env, os_user.is_some())?;
        if os_user.is_none() {
            env.refuse(&["PGREQUIREAUTH", "PGREQUIREPEER"], &[])?;
        }
        let port = match self.port {
            Some(port) => port,
            None => match env.value("SVC_DB_PORT")? {
                Some(port) => port,
                None => env.value("PGPORT")?.unwrap_or(PORT),
            },
        };
        let user = self.user(env, os_user.as_ref())?;
        let passwords = Passwords::find(&self.password, env, os_user.as_ref(), call)?;
        let tls = if place.is_socket() { Tls::disabled() } else { Tls::from_environment(env)? };
        let connect_timeout = env.value("PGCONNECT_TIMEOUT")?.filter(|seconds| *seconds > 0).unwrap_or(5).min(LONGEST_CONNECT);
        Ok(Target {
            place,
            address,
            port,
            user,
            os_user,
            passwords,
            tls,
            connect_timeout: std::time::Duration::from_secs(connect_timeout),
            options: env.text("PGOPTIONS"),
            service,
            watched: std::sync::Once::new(),
        })
    }

    /// Where the server is, and the address to find it at where that is another thing than its name.
    fn place(&self, env: &Environment, as_os_user: bool) -> Result<(Place, Option<IpAddr>), Failure> {
        let flag = given(self.host.as_deref()).map(str::to_owned);
        let own = env.text("SVC_DB_HOST").filter(|host| !as_os_user || is_folder(host));
        let (host, address) = match (flag, as_os_user) {
            (Some(host), true) if !is_folder(&host) => {
                return Err(Failure::usage("as_needs_socket", "A user of this host is known to the server over the socket only.")
                    .hint("With --as (SVC_DB_AS), --host (SVC_DB_HOST) is the folder of the socket, or omitted; or connect with --username and a password."));
            }
            (Some(host), _) => (Some(host), None),
            (None, _) if own.is_some() => (own, None),
            (None, true) => (env.text("PGHOST").filter(|host| is_folder(host)), None),
            (None, false) => match (env.text("PGHOST"), env.text("PGHOSTADDR")) {
                // As in libpq, the name is what the certificate and the password file are about.
                (Some(host), Some(_)) if !is_folder(&host) => (Some(host), env.value("PGHOSTADDR")?),
                (_, Some(address)) => (Some(address), None),
                (host, None) => (host, None),
            },
        };
        let host = host.unwrap_or_else(|| SOCKET_FOLDER.to_owned());
        if host.contains(',') {
            return Err(Failure::usage("several_hosts", format!("`{host}` names several hosts."))
                .hint("Pass one host with --host, or in SVC_DB_HOST."));
        }
        Ok((if is_folder(&host) { Place::Socket(PathBuf::from(host)) } else { Place::Host(host) }, address))
    }

    fn user(&self, env: &Environment, os_user: Option<&OsUser>) -> Result<String, Failure> {
        let named = given(self.user.as_deref()).map(str::to_owned);
        match (named, os_user) {
            (Some(user), _) => Ok(user),
            (None, Some(os_user)) => Ok(os_user.name.clone()),
            (None, None) => env
                .text("PGUSER")
                .or_else(|| self.default_user.clone())
                .or_else(|| OsUser::current().map(|user| user.name))
                .ok_or_else(|| {
                    Failure::usage("user_missing", "No database user is given.").hint("Pass it with --username or PGUSER.")
                }),
        }
    }
}

fn is_folder(host: &str) -> bool {
    host.starts_with('/')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(pairs: &[(&str, &str)]) -> Environment {
        Environment::of(pairs)
    }

    fn place(settings: &ConnectionSettings, pairs: &[(&str, &str)]) -> Result<Place, Failure> {
        settings.place(&env(pairs), settings.as_user.is_some()).map(|(place, _)| place)
    }

    #[test]
    fn without_any_setting_the_socket_of_debian_is_used() {
        assert_eq!(place(&ConnectionSettings::default(), &[]).unwrap(), Place::Socket(SOCKET_FOLDER.into()));
        assert_eq!(place(&ConnectionSettings::default(), &[("PGHOST", "")]).unwrap(), Place::Socket(SOCKET_FOLDER.into()));
    }

    #[test]
    fn a_flag_wins_over_the_environment() {
        let flag = ConnectionSettings { host: Some("db1".into()), user: Some("svc".into()), ..ConnectionSettings::default() };
        assert_eq!(place(&flag, &[("PGHOST", "db2")]).unwrap(), Place::Host("db1".into()));
        assert_eq!(flag.user(&env(&[("PGUSER", "other")]), None).unwrap(), "svc");
    }

    #[test]
    fn an_address_leads_to_the_host_of_that_name_unless_a_flag_names_another() {
        let both = env(&[("PGHOST", "db1"), ("PGHOSTADDR", "::1")]);
        let address: IpAddr = "::1".parse().unwrap();
        assert_eq!(ConnectionSettings::default().place(&both, false).unwrap(), (Place::Host("db1".into()), Some(address)));
        let flag = ConnectionSettings { host: Some("db2".into()), ..ConnectionSettings::default() };
        assert_eq!(flag.place(&both, false).unwrap(), (Place::Host("db2".into()), None));
        for pairs in [&[("PGHOSTADDR", "::1")][..], &[("PGHOST", "/tmp"), ("PGHOSTADDR", "::1")]] {
            assert_eq!(place(&ConnectionSettings::default(), pairs).unwrap(), Place::Host("::1".into()));
        }
    }

    #[test]
    fn the_settings_of_the_dump_win_over_libpqs() {
        let both = [("SVC_DB_HOST", "db1"), ("PGHOST", "db2"), ("PGHOSTADDR", "::1")];
        assert_eq!(ConnectionSettings::default().place(&env(&both), false).unwrap(), (Place::Host("db1".into()), None));
        assert_eq!(
            place(&ConnectionSettings::default(), &[("SVC_DB_HOST", ""), ("PGHOST", "db2")]).unwrap(),
            Place::Host("db2".into())
        );
        let flag = ConnectionSettings { host: Some("db3".into()), ..ConnectionSettings::default() };
        assert_eq!(place(&flag, &both).unwrap(), Place::Host("db3".into()));
        // An administrator becomes a user of this host: he is let in over the socket only.
        let admin = ConnectionSettings { as_user: Some("root".into()), ..ConnectionSettings::default() };
        assert_eq!(place(&admin, &both).unwrap(), Place::Socket(SOCKET_FOLDER.into()));
        assert_eq!(place(&admin, &[("SVC_DB_HOST", "/tmp/s"), ("PGHOST", "/tmp/t")]).unwrap(), Place::Socket("/tmp/s".into()));
    }

    #[test]
    fn with_an_os_user_only_a_folder_is_taken_from_the_environment() {
        let admin = ConnectionSettings { as_user: Some("root".into()), ..ConnectionSettings::default() };
        let root = OsUser::named("root").unwrap();
        assert_eq!(place(&admin, &[("PGHOST", "db2")]).unwrap(), Place::Socket(SOCKET_FOLDER.into()));
        assert_eq!(place(&admin, &[("PGHOST", "/tmp/s")]).unwrap(), Place::Socket("/tmp/s".into()));
        assert_eq!(admin.user(&env(&[("PGUSER", "other")]), Some(&root)).unwrap(), "root");
        let odd = ConnectionSettings { host: Some("db1".into()), ..admin };
        assert_eq!(place(&odd, &[]).unwrap_err().code, "as_needs_socket");
    }

    #[test]
    fn what_cannot_be_honoured_is_refused_and_not_passed_over() {
        let odd = [("PGHOST", "a"), ("PGHOSTADDR", "somewhere")];
        assert_eq!(place(&ConnectionSettings::default(), &odd).unwrap_err().code, "environment_invalid");
        assert_eq!(place(&ConnectionSettings::default(), &[("PGHOST", "a,b")]).unwrap_err().code, "several_hosts");
    }

    #[test]
    fn a_connection_string_is_no_database_name() {
        let service = ServiceArg { name: "svc".into() };
        let arg = |dbname: &str| DatabaseArg { dbname: Some(dbname.into()), service: service.clone(), db_user: None };
        assert_eq!(arg("postgresql://svc:secret@h/db").name().unwrap_err().code, "dbname_is_connection_string");
        assert_eq!(arg("host=h password=secret").name().unwrap_err().code, "dbname_is_connection_string");
        assert_eq!(arg("").name().unwrap(), "svc_db");
        assert_eq!(arg("other").name().unwrap(), "other");
    }
}
