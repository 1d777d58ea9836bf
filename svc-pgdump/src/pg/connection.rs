//! The server that a step works with: connecting to it, and giving the same connection to other programs.

use std::net::IpAddr;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Once};
use std::time::{Duration, Instant};

use postgres::error::DbError;
use postgres::{Client, Config, NoTls};
use svc_step::secret::Secret;
use svc_step::user::OsUser;
use svc_step::watch::Peer;
use svc_step::{Call, Failure, child, file};

use super::error;
use super::password::Passwords;
use super::tls::{NO_FILE, Tls};

/// How often signals are polled while connecting.
const POLL: Duration = Duration::from_millis(20);
/// How long a connection may take once the step is to end.
const LAST: Duration = Duration::from_secs(5);
/// How long a server may take for what is finished or undone once the step is to end; again for each attempt after that.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(10);

/// For every session, whatever the server, the database or the role has as its defaults: it may work for long, be idle for long, and
/// writes. What only newer servers know is set if it is known.
pub const SESSION_SETTINGS: &str = "SET role TO none; SET statement_timeout = 0; SET lock_timeout = 0; \
    SET default_transaction_read_only = off; SET default_transaction_isolation = 'read committed'; \
    SELECT pg_catalog.set_config(name, '0', false) FROM pg_catalog.pg_settings \
    WHERE name IN ('idle_session_timeout', 'transaction_timeout')";

pub type Listener = Arc<dyn Fn(&DbError) + Send + Sync>;

/// A server and who connects to it, worked out from flags and environment by [`super::ConnectionArgs::resolve`].
#[derive(Debug)]
pub struct Target {
    /// The host name, or the folder of the socket.
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
    /// The cluster's own number, in digits; `null` where the role may not ask for it.
    pub system_identifier: Option<String>,
}

impl Server {
    pub const fn major(&self) -> u32 {
        self.version_num / 10_000
    }
}

impl Target {
    fn is_socket(&self) -> bool {
        self.host.starts_with('/')
    }

    /// Whether the server is on this host (its socket or a loopback address), so that its disk is this host's disk.
    pub fn is_local(&self) -> bool {
        let address = self.address.or_else(|| self.host.parse().ok());
        self.is_socket() || address.map_or(self.host == "localhost", |address| address.is_loopback())
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

    /// Connects to a database of the server; a missing password is asked for on the terminal, if that is allowed and there is one. A
    /// signal or the time limit ends the wait.
    ///
    /// # Errors
    /// The server does not answer, or is busy (5); it does not let this user in (3); the database does not exist (4).
    pub fn connect(&self, call: &Call, dbname: &str) -> Result<Client, Failure> {
        self.connect_heard(call, dbname, &(Arc::new(|_: &DbError| {}) as Listener))
    }

    /// `listener` gets each `NOTICE` and `WARNING` of the server.
    pub fn connect_heard(&self, call: &Call, dbname: &str, listener: &Listener) -> Result<Client, Failure> {
        self.watched.call_once(|| call.watch().guard_connections(self.peer(), SHUTDOWN_TIMEOUT));
        let check = || call.check();
        let attempt = |password| self.attempt(self.connect_timeout, &check, dbname, password, listener);
        let password = self.password(dbname);
        let had_one = password.is_some();
        match attempt(password) {
            Err(failure) if !had_one && failure.code == error::PASSWORD_MISSING => match self.passwords.ask(call)? {
                Some(secret) => attempt(Some(secret)),
                None => Err(failure),
            },
            connected => connected,
        }
    }

    /// Connects to clean up although the step is to end: neither a signal nor the time limit ends the wait, which is short.
    pub fn connect_at_last(&self, dbname: &str) -> Result<Client, Failure> {
        let silent: Listener = Arc::new(|_| {});
        self.attempt(self.connect_timeout.min(LAST), &|| Ok(()), dbname, self.password(dbname), &silent)
    }

    /// What the other end of our connections is called.
    fn peer(&self) -> Peer {
        if self.is_socket() { Peer::Socket(format!(".s.PGSQL.{}", self.port).into()) } else { Peer::Port(self.port) }
    }

    /// One attempt, in a thread of its own: the library waits without end for a server that accepts and says nothing.
    fn attempt(
        &self,
        time: Duration,
        check: &dyn Fn() -> Result<(), Failure>,
        dbname: &str,
        password: Option<Secret>,
        listener: &Listener,
    ) -> Result<Client, Failure> {
        let mut config = self.config(dbname, password);
        let listener = Arc::clone(listener);
        config.notice_callback(move |notice| listener(&notice));
        let connector = self.tls.connector()?;
        let started = Instant::now();
        let work = || {
            let (send, receive) = channel();
            std::thread::spawn(move || {
                let connected = match connector {
                    Some(connector) => config.connect(connector),
                    None => config.connect(NoTls),
                };
                let _ = send.send(connected);
            });
            loop {
                match receive.recv_timeout(POLL) {
                    Ok(result) => return Ok(result),
                    Err(RecvTimeoutError::Timeout) if started.elapsed() < time => check()?,
                    Err(_) => return Err(error::no_answer(&self.place(), time)),
                }
            }
        };
        let connected = match &self.os_user {
            // The server asks the kernel who connects, at the moment of connecting.
            Some(user) => user.act_as(work),
            None => work(),
        };
        let mut client = connected?
            .map_err(|error| error::of_connect(&error, &self.place(), &self.user, dbname, self.tls.shows_certificate()))?;
        client.batch_execute(SESSION_SETTINGS).map_err(|error| error::of_query(&error, "prepare the session"))?;
        Ok(client)
    }

    fn config(&self, dbname: &str, password: Option<Secret>) -> Config {
        let mut config = Config::new();
        config.host(&self.host).port(self.port).user(&self.user).dbname(dbname).application_name("svc-tools");
        config.connect_timeout(self.connect_timeout);
        self.tls.configure(&mut config);
        // So that a network which drops every packet is noticed.
        config.keepalives_idle(Duration::from_secs(30)).keepalives_interval(Duration::from_secs(10)).keepalives_retries(3);
        config.tcp_user_timeout(Duration::from_secs(60));
        if let Some(address) = self.address {
            config.hostaddr(address);
        }
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
