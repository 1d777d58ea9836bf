//! How the server is reached: pg_dump's option names, libpq's environment, and `--as` for an OS user.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::Args;
use svc_step::secret::Secret;
use svc_step::settings::{self, ServiceArg, default_of};
use svc_step::user::OsUser;
use svc_step::{Call, Failure};

use super::connection::Target;
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
        }
        let port = match self.port {
            Some(port) => port,
            None => match env.value("SVC_DB_PORT")? {
                Some(port) => port,
                None => env.value("PGPORT")?.unwrap_or(PORT),
            },
        };
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
            Some(host) => (Some(host.to_owned()), None),
            None if as_os_user => {
                (["SVC_DB_HOST", "PGHOST"].into_iter().find_map(|name| env.text(name).filter(|host| is_folder(host))), None)
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

fn is_folder(host: &str) -> bool {
    host.starts_with('/')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(pairs: &[(&str, &str)]) -> Environment {
        Environment::of(pairs)
    }

    fn host(args: &ConnectionArgs, pairs: &[(&str, &str)]) -> Result<String, Failure> {
        args.host(&env(pairs), args.as_user.is_some()).map(|(host, _)| host)
    }

    #[test]
    fn host_and_user_flags_win_over_environment() {
        assert_eq!(host(&ConnectionArgs::default(), &[("PGHOST", "")]).unwrap(), SOCKET_FOLDER);
        let flag = ConnectionArgs { host: Some("db1".into()), username: Some("svc".into()), ..ConnectionArgs::default() };
        assert_eq!(host(&flag, &[("PGHOST", "db2")]).unwrap(), "db1");
        assert_eq!(flag.user(&env(&[("PGUSER", "other")]), None, None).unwrap(), "svc");
    }

    #[test]
    fn pghostaddr_is_used_unless_host_flag_is_given() {
        let both = env(&[("PGHOST", "db1"), ("PGHOSTADDR", "::1")]);
        let address: IpAddr = "::1".parse().unwrap();
        assert_eq!(ConnectionArgs::default().host(&both, false).unwrap(), ("db1".to_owned(), Some(address)));
        let flag = ConnectionArgs { host: Some("db2".into()), ..ConnectionArgs::default() };
        assert_eq!(flag.host(&both, false).unwrap(), ("db2".to_owned(), None));
        for pairs in [&[("PGHOSTADDR", "::1")][..], &[("PGHOST", "/tmp"), ("PGHOSTADDR", "::1")]] {
            assert_eq!(host(&ConnectionArgs::default(), pairs).unwrap(), "::1");
        }
    }

    #[test]
    fn svc_db_host_wins_over_pghost_and_pghostaddr() {
        let both = [("SVC_DB_HOST", "db1"), ("PGHOST", "db2"), ("PGHOSTADDR", "::1")];
        assert_eq!(ConnectionArgs::default().host(&env(&both), false).unwrap(), ("db1".to_owned(), None));
        assert_eq!(host(&ConnectionArgs::default(), &[("SVC_DB_HOST", ""), ("PGHOST", "db2")]).unwrap(), "db2");
        let flag = ConnectionArgs { host: Some("db3".into()), ..ConnectionArgs::default() };
        assert_eq!(host(&flag, &both).unwrap(), "db3");
        // An administrator becomes a user of this host: he is let in over the socket only.
        let admin = ConnectionArgs { as_user: Some("root".into()), ..ConnectionArgs::default() };
        assert_eq!(host(&admin, &both).unwrap(), SOCKET_FOLDER);
        assert_eq!(host(&admin, &[("SVC_DB_HOST", "/tmp/s"), ("PGHOST", "/tmp/t")]).unwrap(), "/tmp/s");
    }

    #[test]
    fn as_user_connects_only_through_socket_folder() {
        let admin = ConnectionArgs { as_user: Some("root".into()), ..ConnectionArgs::default() };
        let root = OsUser::named("root").unwrap();
        assert_eq!(host(&admin, &[("PGHOST", "/tmp/s")]).unwrap(), "/tmp/s");
        assert_eq!(admin.user(&env(&[("PGUSER", "other")]), Some(&root), None).unwrap(), "root");
        let odd = ConnectionArgs { host: Some("db1".into()), ..admin };
        assert_eq!(host(&odd, &[]).unwrap_err().code, "settings_invalid");
    }

    #[test]
    fn invalid_hostaddr_and_host_list_are_refused() {
        let odd = [("PGHOST", "a"), ("PGHOSTADDR", "somewhere")];
        assert_eq!(host(&ConnectionArgs::default(), &odd).unwrap_err().code, "settings_invalid");
        assert_eq!(host(&ConnectionArgs::default(), &[("PGHOST", "a,b")]).unwrap_err().code, "settings_invalid");
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
