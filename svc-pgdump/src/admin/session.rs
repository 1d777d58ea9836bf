//! The administrator's connections.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use postgres::Client;
use svc_step::from::OtherServer;
use svc_step::lock::Lock;
use svc_step::{Call, Failure, Status};

use crate::admin::args::AdminArgs;
use crate::admin::catalog::{self, Named, Server, sessions};
use crate::admin::creation::Creation;
use crate::admin::drops::drop_if_there;
use crate::refusal;
use crate::target::Target;

/// The database from which others are made, renamed and dropped.
pub const MAINTENANCE: &str = "postgres";
/// Whatever the server, the database or the role has as its defaults: a session of ours may work for long, be idle for long while
/// others work, and writes. What only newer servers know is set where it is known.
pub const OWN_SETTINGS: &str = "SET role TO none; SET statement_timeout = 0; SET lock_timeout = 0; \
    SET default_transaction_read_only = off; SET default_transaction_isolation = 'read committed'; \
    SELECT pg_catalog.set_config(name, '0', false) FROM pg_catalog.pg_settings \
    WHERE name IN ('idle_session_timeout', 'transaction_timeout')";
/// How often signals and the time limit are looked at while the server is at work.
const LOOK: Duration = Duration::from_millis(50);
/// A lock of the session, which the server gives back when it ends it.
const LOCK: &str = "SELECT pg_try_advisory_lock(hashtextextended($1, 0))";
/// How often the server is asked again to end sessions, where it could not be asked.
const ASK_AGAIN: Duration = Duration::from_secs(1);
/// How long sessions that are ended may take to go.
const GOING: Duration = Duration::from_secs(10);
/// How long a server may be busy with what a call asked for that was killed meanwhile.
const PATIENCE: Duration = Duration::from_secs(60);

/// The administrator, connected to the server.
pub struct Admin {
    /// How to reach the server, for further connections.
    pub target: Target,
    /// A connection to the maintenance database, open for the whole step, so that it can clean up after a signal too.
    pub client: Client,
    /// The server.
    pub server: Server,
}

impl Admin {
    /// Connects, and asks what the administrator may do.
    ///
    /// # Errors
    /// As [`Target::connect`]; the user is no administrator (3).
    pub fn connect(args: &AdminArgs, call: &Call) -> Result<Self, Failure> {
        let target = args.resolve(call)?;
        let mut client = target.connect(call, MAINTENANCE)?;
        prepare(&mut client)?;
        let server = catalog::server(&mut client)?;
        catalog::rights(&server)?;
        Ok(Self { target, client, server })
    }

    /// This is the server that a document speaks of.
    ///
    /// # Errors
    /// It is another one, and `--other-server` was not said (3).
    pub fn is_meant(&self, other: OtherServer, spoken_of: &str) -> Result<(), Failure> {
        let place = format!("the one at {}", self.target.place());
        other.check(spoken_of, &self.server.system_identifier, &place, "--host and --port (SVC_DB_HOST, SVC_DB_PORT)")
    }

    /// Takes the lock of one database of this server, on this host and on the server; a dry run takes none, and leaves no trace of
    /// itself.
    ///
    /// # Errors
    /// Another run is at it, here or from another host (8).
    pub fn lock(&mut self, call: &Call, database: &str, dry_run: bool) -> Result<Option<Lock>, Failure> {
        let lock = Lock::unless_dry(call, "database", &format!("{}/{database}", self.server.system_identifier), dry_run)?;
        if lock.is_some() {
            self.lock_on_server(call, database)?;
        }
        Ok(lock)
    }

    /// The host's lock dies with the process that held it, but a server ends the statement that it is at before it notices: a
    /// database that a killed call was about to make would appear after the next call has looked.
    fn lock_on_server(&mut self, call: &Call, database: &str) -> Result<(), Failure> {
        let until = Instant::now() + PATIENCE;
        loop {
            let locked = self.client.query_one(LOCK, &[&format!("svc-tools/{database}")]).and_then(|row| row.try_get(0));
            if locked.map_err(|error| refusal::of_query(&error, "take the lock of the database"))? {
                return Ok(());
            }
            if Instant::now() >= until {
                return Err(Failure::locked("locked", format!("A session of another call is at work on the database {database}."))
                    .hint("Look at pg_stat_activity for svc-tools: wait until it has ended, here or on another host, then run the same command again."));
            }
            call.pause(LOOK)?;
        }
    }

    /// One more connection, prepared as the first one is.
    ///
    /// # Errors
    /// As [`Target::connect`].
    pub fn another(&self, call: &Call, database: &str) -> Result<Client, Failure> {
        let mut client = self.target.connect(call, database)?;
        prepare(&mut client)?;
        Ok(client)
    }

    /// Connects anew where the connection was lost or given up, also when the step is to end.
    ///
    /// # Errors
    /// As [`Target::connect_at_last`].
    pub fn reconnect(&mut self) -> Result<(), Failure> {
        let mut client = self.target.connect_at_last(MAINTENANCE)?;
        prepare(&mut client)?;
        self.client = client;
        Ok(())
    }

    /// Drops what this call has begun, if it is there.
    ///
    /// # Errors
    /// The server says no, or is lost once more.
    pub fn take_back(&mut self, database: &str) -> Result<(), Failure> {
        let sql = drop_if_there(database);
        let drop = |client: &mut Client| {
            client.batch_execute(&sql).map_err(|error| refusal::of_query(&error, &format!("drop what was begun, {database}")))
        };
        match drop(&mut self.client) {
            // A server that is slow may be at it still: the second time waits for the first.
            Err(failure) if failure.status == Status::Unavailable => {
                self.reconnect()?;
                drop(&mut self.client)
            }
            ended => ended,
        }
    }

    /// Does something that alters the server, and keeps account of it.
    ///
    /// # Errors
    /// The server says no, and nothing was altered; or the connection is lost, and nobody knows.
    pub fn alter(&mut self, call: &Call, sql: &str, action: &str) -> Result<(), Failure> {
        let attempt = call.effects().attempt();
        match self.client.batch_execute(sql) {
            Ok(()) => {
                attempt.happened();
                Ok(())
            }
            Err(error) => {
                if error.as_db_error().is_some() {
                    attempt.refused();
                }
                Err(refusal::of_query(&error, action))
            }
        }
    }

    /// Closes a copy to everybody, where it is one that its swap opens, and ends whoever is in it but these `own` sessions: from then
    /// on nobody else alters it.
    ///
    /// # Errors
    /// The server says no, or somebody's session stays, which the administrator may not end (5).
    pub fn close(&mut self, call: &Call, creation: &Creation, copy: &Named, own: &[i32]) -> Result<(), Failure> {
        let (Some(close), Some(oid)) = (creation.close(), copy.oid) else { return Ok(()) };
        self.alter(call, &close.sql, "close the copy")?;
        let until = Instant::now() + GOING;
        while !self.others_end(oid, own)? {
            if Instant::now() >= until {
                let mut failure = Failure::unavailable(
                    "database_in_use",
                    format!("Sessions stay in the copy {}, which nobody else is to alter.", copy.name),
                )
                .hint("Stop what is connected to it (the causes name it), then run the same command again.");
                failure.causes = sessions(&mut self.client, &[oid]);
                return Err(failure);
            }
            call.pause(LOOK)?;
        }
        Ok(())
    }

    /// Ends the sessions of others in a database; whether there are none any more.
    fn others_end(&mut self, oid: u32, own: &[i32]) -> Result<bool, Failure> {
        // The server's own processes are no user's.
        let others = "SELECT pid FROM pg_stat_activity WHERE datid = $1 AND usesysid IS NOT NULL AND pid <> ALL ($2)";
        let found = self.client.query(others, &[&oid, &own]).map_err(|error| refusal::of_query(&error, "look for sessions"))?;
        for row in &found {
            // One that may not be ended, or has ended by itself, is looked for again.
            let _ = self.client.execute("SELECT pg_terminate_backend($1)", &[&row.get::<_, i32>(0)]);
        }
        Ok(found.is_empty())
    }

    /// Ends sessions; whether the server was told to. A connection of the administrator that is lost is made anew.
    fn end(&mut self, call: &Call, pids: &[i32]) -> bool {
        if self.client.is_closed()
            && let Ok(client) = self.another(call, MAINTENANCE)
        {
            self.client = client;
        }
        self.client.execute("SELECT pg_terminate_backend(pid) FROM unnest($1::int4[]) pid", &[&pids]).is_ok()
    }

    /// Lets `work` use connections for as long as it takes; a signal or the end of the time limit ends these sessions.
    ///
    /// # Errors
    /// What `work` says, a signal, or the end of the time limit.
    pub fn interruptible<T: Send>(
        &mut self,
        call: &Call,
        clients: &mut [Client],
        work: impl FnOnce(&mut [Client]) -> Result<T, Failure> + Send,
    ) -> Result<T, Failure> {
        let pids: Vec<i32> = clients.iter_mut().map(session_pid).collect::<Result<_, _>>()?;
        self.supervised(call, &pids, &|| false, || work(clients))
    }

    /// Lets `work` go on for as long as it takes; a signal, the end of the time limit, or its own word that it has `failed` ends
    /// these sessions.
    ///
    /// # Errors
    /// What `work` says, a signal, or the end of the time limit.
    pub fn supervised<T: Send>(
        &mut self,
        call: &Call,
        pids: &[i32],
        failed: &dyn Fn() -> bool,
        work: impl FnOnce() -> Result<T, Failure> + Send,
    ) -> Result<T, Failure> {
        let (ended, end) = channel();
        std::thread::scope(|scope| {
            let worker = scope.spawn(move || {
                let result = work();
                let _ = ended.send(());
                result
            });
            let (mut stopped, mut cut, mut asked) = (None, false, None::<Instant>);
            while let Err(RecvTimeoutError::Timeout) = end.recv_timeout(LOOK) {
                if stopped.is_none() {
                    stopped = call.check().err();
                }
                let due = asked.is_none_or(|asked| asked.elapsed() >= ASK_AGAIN);
                if !cut && due && (stopped.is_some() || failed()) {
                    asked = Some(Instant::now());
                    cut = self.end(call, pids);
                }
            }
            let result = worker.join().map_err(|_| Failure::failed("internal", "A thread of the step ended by a fault of ours."));
            match stopped {
                Some(failure) => Err(failure),
                None => result?,
            }
        })
    }
}

fn prepare(client: &mut Client) -> Result<(), Failure> {
    client.batch_execute(OWN_SETTINGS).map_err(|error| refusal::of_query(&error, "prepare the session"))
}

/// The server's number of a session.
///
/// # Errors
/// See [`refusal::of_query`].
pub fn session_pid(client: &mut Client) -> Result<i32, Failure> {
    let row = client.query_one("SELECT pg_backend_pid()", &[]).and_then(|row| row.try_get(0));
    row.map_err(|error| refusal::of_query(&error, "ask for the session's number"))
}
