//! The server that a step works with: connecting to it, and giving the same connection to other programs.

use std::fs::File;
use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Once};
use std::time::{Duration, Instant};

use postgres::error::{DbError, SqlState};
use postgres::{Client, Config, NoTls};
use svc_step::secret::Secret;
use svc_step::user::OsUser;
use svc_step::watch::Peer;
use svc_step::work::Work;
use svc_step::{Call, Failure, child, file};

use super::error;
use super::password::Passwords;
use super::tls::{NO_FILE, Tls};

/// More than one connection needs.
const SPARE_FILES: usize = 12;
/// How often signals are polled while connecting.
const POLL: Duration = Duration::from_millis(20);
/// How long a connection may take once the step is to end.
const CLEANUP: Duration = Duration::from_secs(5);
/// How long a server may take for what is finished or undone once the step is to end; again for each attempt after that.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(10);

/// For every session, whatever the server, the database or the role has as its defaults. No name leads to a function of the database's
/// owner, who would have it called by a superuser. The session may work for long, be idle for long, and writes; what it is told to be
/// committed is on the disk. What only newer servers know is set if it is known.
const SESSION_SETTINGS: &str = "SELECT pg_catalog.set_config('search_path', '', false); \
    SET role TO none; SET statement_timeout = 0; SET lock_timeout = 0; \
    SET default_transaction_read_only = off; SET default_transaction_isolation = 'read committed'; \
    SELECT pg_catalog.set_config(name, 'local', false) FROM pg_catalog.pg_settings WHERE name = 'synchronous_commit' AND setting = 'off'; \
    SELECT pg_catalog.set_config(name, '0', false) FROM pg_catalog.pg_settings \
    WHERE name IN ('idle_session_timeout', 'transaction_timeout')";
/// Then, for what is asked of the live database before a step: nothing there is to wait for others.
pub const BEFORE_DUMP: &str = "SET lock_timeout = '5s'; SET statement_timeout = '60s'";
/// The same; what a policy hides is an error.
pub const BEFORE_RESTORE: &str = "SET lock_timeout = '1s'; SET statement_timeout = '10s'; SET default_transaction_read_only = on; \
    SET row_security = off";
/// For a load, which does not wait for the disk at each statement: the end of the verification does. pg_dump writes an element of an
/// array that is null as the word NULL, whatever the database is set to.
pub const LOAD: &str = "SET synchronous_commit = off; SET array_nulls = on";
/// So that a statement of hours ends with us, also if we are killed; not every system can, and no server before 14.
pub const CONNECTION_CHECKS: &str = "SET client_connection_check_interval = '2s'";
/// For the verification, whose end waits for the disk once.
pub const VERIFY: &str = "SET row_security = off; SET synchronous_commit = off";

/// Whether to continue.
type Check<'a> = &'a dyn Fn() -> Result<(), Failure>;

pub type Listener = Arc<dyn Fn(&DbError) + Send + Sync>;

/// A server and who connects to it, worked out from flags and environment by [`super::ConnectionArgs::resolve`].
#[derive(Debug)]
pub struct Target {
    /// The host name, or the directory of the socket.
    pub host: String,
    /// Where the host of that name is found, if that is not left to the resolver.
    pub(super) address: Option<IpAddr>,
    pub port: u16,
    pub user: String,
    /// The user of this host that connects, if it is not the caller.
    pub os_user: Option<OsUser>,
    pub(super) passwords: Passwords,
    pub(super) tls: Tls,
    pub(super) connect_timeout: Duration,
    pub(super) options: Option<String>,
    /// Its connections are watched over from the first one on.
    pub(super) watched: Once,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// `server_version`, such as `15.18 (Debian 15.18-0+deb12u1)`.
    pub version: String,
    /// `server_version_num`, such as 150018.
    pub version_num: u32,
    /// The cluster's own number, in digits; `null` if the role may not ask for it.
    pub system_identifier: Option<String>,
}

impl Server {
    pub const fn major(&self) -> u32 {
        self.version_num / 10_000
    }
}

/// The directory of a socket.
pub(super) fn is_folder(host: &str) -> bool {
    host.starts_with('/')
}

/// The directory of a socket, or a loopback address.
pub(super) fn is_this_host(host: &str, address: Option<IpAddr>) -> bool {
    let address = address.or_else(|| host.parse().ok());
    is_folder(host) || address.map_or(host == "localhost", |address| address.is_loopback())
}

impl Target {
    fn is_socket(&self) -> bool {
        is_folder(&self.host)
    }

    /// Whether the server is on this host (its socket or a loopback address), so that its disk is this host's disk.
    pub fn is_local(&self) -> bool {
        is_this_host(&self.host, self.address)
    }

    pub fn free_bytes(&self, folder: &str) -> Option<u64> {
        self.is_local().then(|| file::free_bytes(Path::new(folder))).flatten()
    }

    /// Where the server is, for sentences: `127.0.0.1:5432`, `/var/run/postgresql (port 5432)`.
    pub fn place(&self) -> String {
        match &self.host {
            folder if self.is_socket() => format!("{folder} (port {})", self.port),
            address if address.contains(':') => format!("[{address}]:{}", self.port),
            host => format!("{host}:{}", self.port),
        }
    }

    /// Connects to a database of the server; a missing password is asked for on the terminal, if there is one. A signal or the time
    /// limit ends the wait.
    ///
    /// # Errors
    /// The server does not answer, or is busy (5); it does not let this user in (3); the database does not exist (4).
    pub fn connect(&self, call: &Call, dbname: &str) -> Result<Client, Failure> {
        self.connect_heard(call, dbname, &(Arc::new(|_: &DbError| {}) as Listener))
    }

    /// `listener` gets each `NOTICE` and `WARNING` of the server.
    pub fn connect_heard(&self, call: &Call, dbname: &str, listener: &Listener) -> Result<Client, Failure> {
        let peer =
            || if self.is_socket() { Peer::Socket(format!(".s.PGSQL.{}", self.port).into()) } else { Peer::Port(self.port) };
        self.watched.call_once(|| call.watch().guard_connections(peer(), SHUTDOWN_TIMEOUT));
        let check = || call.check();
        let attempt = |password| self.attempt(self.connect_timeout, &check, dbname, password, listener);
        let password = self.password(dbname);
        let had_one = password.is_some();
        match attempt(password) {
            Err(failure) if !had_one && error::lacks_password(&failure) => match self.passwords.ask(call)? {
                Some(secret) => attempt(Some(secret)),
                None => Err(failure),
            },
            connected => connected,
        }
    }

    /// Connects to clean up although the step is to end: neither a signal nor the time limit ends the wait, which is short.
    pub fn connect_for_cleanup(&self, dbname: &str) -> Result<Client, Failure> {
        let silent: Listener = Arc::new(|_| {});
        self.attempt(self.connect_timeout.min(CLEANUP), &|| Ok(()), dbname, self.password(dbname), &silent)
    }

    /// One attempt at each address of the host until the server answers, each with its own time, as in libpq.
    fn attempt(
        &self,
        time: Duration,
        check: Check<'_>,
        dbname: &str,
        password: Option<Secret>,
        listener: &Listener,
    ) -> Result<Client, Failure> {
        let mut config = self.config(dbname, password);
        let listener = Arc::clone(listener);
        config.notice_callback(move |notice| listener(&notice));
        first_reached(self.addresses(time, check)?, |address| {
            let mut config = config.clone();
            if let Some(address) = address {
                config.hostaddr(address);
            }
            self.connect_by(&config, time, check, dbname)
        })
    }

    /// Where the host is; `None` is left to the client, and so is what cannot be resolved: it says why.
    fn addresses(&self, time: Duration, check: Check<'_>) -> Result<Vec<Option<IpAddr>>, Failure> {
        if self.is_socket() || self.address.is_some() {
            return Ok(vec![self.address]);
        }
        let host = (self.host.clone(), self.port);
        let found = within(time, check, move || host.to_socket_addrs().map(|all| all.map(|one| Some(one.ip())).collect()))?;
        let found = found.ok_or_else(|| error::no_answer(&self.place(), time))?;
        Ok(found.ok().filter(|all: &Vec<_>| !all.is_empty()).unwrap_or_else(|| vec![None]))
    }

    fn connect_by(&self, config: &Config, time: Duration, check: Check<'_>, dbname: &str) -> Result<Client, Failure> {
        require_files()?;
        let connect = |tls: &Tls| {
            let mut config = config.clone();
            tls.configure(&mut config);
            let connector = tls.connector()?;
            // The library waits without end for a server that accepts and says nothing.
            let work = || {
                within(time, check, move || match connector {
                    Some(connector) => config.connect(connector),
                    None => config.connect(NoTls),
                })
            };
            let connected = match &self.os_user {
                // The server asks the kernel who connects, at the moment of connecting.
                Some(user) => user.act_as(work),
                None => work(),
            };
            connected?.ok_or_else(|| error::no_answer(&self.place(), time))
        };
        let connected = match connect(&self.tls)? {
            // As in libpq: the server may have lines for connections without TLS only.
            Err(error) if self.tls.may_be_off() && error.code() == Some(&SqlState::INVALID_AUTHORIZATION_SPECIFICATION) => {
                connect(&Tls::disabled())?
            }
            connected => connected,
        };
        let mut client = connected
            .map_err(|error| error::of_connect(&error, &self.place(), &self.user, dbname, self.tls.shows_certificate()))?;
        client.batch_execute(SESSION_SETTINGS).map_err(|error| error::of_query(&error, "prepare the session"))?;
        Ok(client)
    }

    fn config(&self, dbname: &str, password: Option<Secret>) -> Config {
        let mut config = Config::new();
        config.host(&self.host).port(self.port).user(&self.user).dbname(dbname).application_name("svc-tools");
        config.connect_timeout(self.connect_timeout);
        // So that a network which drops every packet is noticed.
        config.keepalives_idle(Duration::from_secs(30)).keepalives_interval(Duration::from_secs(10)).keepalives_retries(3);
        config.tcp_user_timeout(Duration::from_secs(60));
        if let Some(options) = &self.options {
            config.options(options);
        }
        if let Some(password) = password {
            config.password(password.expose());
        }
        config
    }

    fn password(&self, dbname: &str) -> Option<Secret> {
        self.passwords.of([&self.host, &self.port.to_string(), dbname, &self.user])
    }

    /// Gives `pg_dump` the same connection: every setting in its environment, whatever the caller's has, and the same OS user.
    /// The password is in its environment, which only its own user and root can read. Run it with `--no-password`.
    pub fn child_env(&self, command: &mut Command, dbname: &str) {
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("PG") {
                command.env_remove(name);
            }
        }
        if let Some(user) = &self.os_user {
            child::run_as(command, user);
        }
        command.env("PGHOST", &self.host).env("PGPORT", self.port.to_string()).env("PGUSER", &self.user);
        command.env("PGDATABASE", dbname).env("PGAPPNAME", "svc-tools");
        command.env("PGCONNECT_TIMEOUT", self.connect_timeout.as_secs().to_string());
        // The password file was read here; an impossible path keeps libpq from reading it again.
        command.env("PGPASSFILE", NO_FILE);
        self.tls.child_env(command);
        if let Some(address) = self.address {
            command.env("PGHOSTADDR", address.to_string());
        }
        if let Some(options) = &self.options {
            command.env("PGOPTIONS", options);
        }
        if let Some(password) = self.password(dbname) {
            command.env("PGPASSWORD", password.expose());
        }
    }
}

/// Prepares a session again, with these settings.
pub fn reset(client: &mut Client, settings: &str) -> Result<(), Failure> {
    let prepared =
        client.batch_execute("DISCARD ALL").and_then(|()| client.batch_execute(&format!("{SESSION_SETTINGS}; {settings}")));
    prepared.map_err(|error| error::of_query(&error, "prepare the session"))
}

/// The library opens some files for each connection, and would panic without them.
fn require_files() -> Result<(), Failure> {
    let spare: io::Result<Vec<File>> = (0..SPARE_FILES).map(|_| File::open("/dev/null")).collect();
    spare.map(drop).map_err(|error| {
        Failure::fault("This call may open too few files to connect to PostgreSQL.")
            .hint("Raise the limit (ulimit -n 1024; LimitNOFILE= of a unit), and run the same command again.")
            .cause(error.to_string())
    })
}

/// What `work` gives in a thread of its own; `None` if it takes longer.
fn within<T: Send + 'static>(
    time: Duration,
    check: Check<'_>,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<Option<T>, Failure> {
    let (work, started) = (Work::begin(work), Instant::now());
    loop {
        match work.ended(POLL) {
            Ok(None) if started.elapsed() < time => check()?,
            ended => return Ok(ended.unwrap_or_default()),
        }
    }
}

/// The next address is tried only if a server cannot be reached.
fn first_reached<A, T>(addresses: Vec<A>, mut connect: impl FnMut(A) -> Result<T, Failure>) -> Result<T, Failure> {
    let mut addresses = addresses.into_iter().peekable();
    loop {
        let Some(address) = addresses.next() else { return Err(Failure::fault("The host has no address.")) };
        match connect(address) {
            Err(failure) if failure.code == error::UNREACHABLE && addresses.peek().is_some() => {}
            connected => return connected,
        }
    }
}

pub fn identify(client: &mut Client) -> Result<Server, Failure> {
    let what = "get the server's version";
    let row = client
        .query_one("SELECT current_setting('server_version'), current_setting('server_version_num')::int4", &[])
        .map_err(|error| error::of_query(&error, what))?;
    let number: i32 = row.try_get(1).map_err(|error| error::of_query(&error, what))?;
    let version = row.try_get(0).map_err(|error| error::of_query(&error, what))?;
    // Administrators may take the right to this function away; the step does not depend on it.
    let identifier = client.query_one("SELECT system_identifier::text FROM pg_catalog.pg_control_system()", &[]);
    let system_identifier = identifier.ok().and_then(|row| row.try_get(0).ok());
    Ok(Server { version, version_num: u32::try_from(number).unwrap_or_default(), system_identifier })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn next_address_is_tried_only_if_one_is_unreachable() {
        let dead = || Err(error::no_answer("h", CLEANUP));
        let reached = |names: &[&'static str]| {
            let mut tried = Vec::new();
            let reached = first_reached(names.to_vec(), |name| {
                tried.push(name);
                match name {
                    "dead" => dead(),
                    "denied" => Err(Failure::refused("access_denied", "No.")),
                    other => Ok(other),
                }
            });
            (reached.map_err(|failure| failure.code), tried.len())
        };
        assert_eq!(reached(&["dead", "alive", "other"]), (Ok("alive"), 2));
        assert_eq!(reached(&["dead", "dead"]), (Err("postgres_unreachable".to_owned()), 2));
        assert_eq!(reached(&["denied", "alive"]), (Err("access_denied".to_owned()), 1));
    }
}
