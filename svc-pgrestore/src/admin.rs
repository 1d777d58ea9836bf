//! The administrator's sessions, and what he does with them: locks, drops, closes, ends.

mod args;
mod catalog;

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use postgres::Client;
use svc_pgdump::pg::{self, MAINTENANCE, Target};
use svc_step::from::OtherServer;
use svc_step::lock::Lock;
use svc_step::{Call, Failure, Status};

pub(crate) use self::args::AdminArgs;
pub(crate) use self::catalog::*;
use crate::create::Creation;
use crate::document::Named;
use crate::names::drop_if_exists;

/// How often signals and the time limit are polled while the server works.
const POLL: Duration = Duration::from_millis(50);
/// A lock of the session, which the server gives back when it ends it.
const LOCK: &str = "SELECT pg_try_advisory_lock(hashtextextended($1, 0))";
/// How often the server is told again to end sessions, if it could not be told.
const RETRY: Duration = Duration::from_secs(1);
/// How long sessions that are ended may take.
const END_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a server may still execute a statement of a killed call.
const LOCK_TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) struct Admin {
    pub(crate) target: Target,
    /// A connection to the maintenance database for the whole step, so that it can clean up after a signal too.
    pub(crate) client: Client,
    pub(crate) server: Server,
}

impl Admin {
    pub(crate) fn connect(args: &AdminArgs, call: &Call) -> Result<Self, Failure> {
        let target = args.resolve(call)?;
        let mut client = target.connect(call, MAINTENANCE)?;
        let server = server(&mut client)?;
        Ok(Self { target, client, server })
    }

    /// Refuses (3) another server than that of a document, unless `--other-server` is given.
    pub(crate) fn check_server(&self, other: OtherServer, documented: &str) -> Result<(), Failure> {
        let place = format!("the one at {}", self.target.place());
        other.check(documented, &self.server.system_identifier, &place, "--host and --port (SVC_DB_HOST, SVC_DB_PORT)")
    }

    /// The lock of one database of this server, on this host and on the server; none in a dry run.
    pub(crate) fn lock(&mut self, call: &Call, database: &str, dry_run: bool) -> Result<Option<Lock>, Failure> {
        let lock = Lock::unless_dry(call, "database", &format!("{}/{database}", self.server.system_identifier), dry_run)?;
        if lock.is_some() {
            self.lock_on_server(call, database)?;
        }
        Ok(lock)
    }

    /// The host's lock dies with the process that held it, but a server ends its statement before it notices: a database that a
    /// killed call was about to create would appear after the next call has listed them.
    fn lock_on_server(&mut self, call: &Call, database: &str) -> Result<(), Failure> {
        let until = Instant::now() + LOCK_TIMEOUT;
        loop {
            let locked = self.client.query_one(LOCK, &[&format!("svc-tools/{database}")]).and_then(|row| row.try_get(0));
            if locked.map_err(|error| pg::of_query(&error, "lock the database"))? {
                return Ok(());
            }
            if Instant::now() >= until {
                return Err(Failure::locked("locked", format!("A session of another call holds the lock of the database {database}."))
                    .hint("Wait until it has ended, here or on another host (pg_stat_activity shows it as svc-tools), then run the same command again."));
            }
            call.pause(POLL)?;
        }
    }

    /// Connects again after the connection was lost or given up, even if the step is to end.
    pub(crate) fn reconnect(&mut self) -> Result<(), Failure> {
        self.client = self.target.connect_at_last(MAINTENANCE)?;
        Ok(())
    }

    /// Drops what this call has created, if it is there.
    pub(crate) fn take_back(&mut self, database: &str) -> Result<(), Failure> {
        let sql = drop_if_exists(database);
        let drop = |client: &mut Client| {
            client.batch_execute(&sql).map_err(|error| pg::of_query(&error, &format!("drop the unfinished {database}")))
        };
        match drop(&mut self.client) {
            // A slow server may still execute it: the second DROP waits for the first.
            Err(failure) if failure.status == Status::Unavailable => {
                self.reconnect()?;
                drop(&mut self.client)
            }
            ended => ended,
        }
    }

    /// Executes what changes the server, and records the effect.
    pub(crate) fn alter(&mut self, call: &Call, sql: &str, action: &str) -> Result<(), Failure> {
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
                Err(pg::of_query(&error, action))
            }
        }
    }

    /// Closes a copy to everybody, if its swap opens it, and ends all sessions in it but these `own` ones: nobody else changes it
    /// from then on.
    pub(crate) fn close(&mut self, call: &Call, creation: &Creation, copy: &Named, own: &[i32]) -> Result<(), Failure> {
        let (Some(close), Some(oid)) = (creation.close(), copy.oid) else { return Ok(()) };
        self.alter(call, &close.sql, "close the copy")?;
        let until = Instant::now() + END_TIMEOUT;
        while !self.others_ended(oid, own)? {
            if Instant::now() >= until {
                let message = format!("Sessions stay in the copy {}, which nobody else may change.", copy.name);
                let mut failure = Failure::unavailable("database_in_use", message)
                    .hint("Stop what is connected to it (the causes name it), then run the same command again.");
                failure.causes = sessions(&mut self.client, &[oid]);
                return Err(failure);
            }
            call.pause(POLL)?;
        }
        Ok(())
    }

    /// Ends the sessions of others in a database; `true` once there are none.
    fn others_ended(&mut self, oid: u32, own: &[i32]) -> Result<bool, Failure> {
        // The server's own processes have no user.
        let others = "SELECT pid FROM pg_stat_activity WHERE datid = $1 AND usesysid IS NOT NULL AND pid <> ALL ($2)";
        let found = self.client.query(others, &[&oid, &own]).map_err(|error| pg::of_query(&error, "list the sessions"))?;
        for row in &found {
            // One that may not be ended, or has ended, is listed again or not.
            let _ = self.client.execute("SELECT pg_terminate_backend($1)", &[&row.get::<_, i32>(0)]);
        }
        Ok(found.is_empty())
    }

    fn end(&mut self, call: &Call, pids: &[i32]) -> bool {
        if self.client.is_closed()
            && let Ok(client) = self.target.connect(call, MAINTENANCE)
        {
            self.client = client;
        }
        self.client.execute("SELECT pg_terminate_backend(pid) FROM unnest($1::int4[]) pid", &[&pids]).is_ok()
    }

    /// Lets `work` use connections; a signal or the time limit ends their sessions.
    pub(crate) fn interruptible<T: Send>(
        &mut self,
        call: &Call,
        clients: &mut [Client],
        work: impl FnOnce(&mut [Client]) -> Result<T, Failure> + Send,
    ) -> Result<T, Failure> {
        let pids: Vec<i32> = clients.iter_mut().map(session_pid).collect::<Result<_, _>>()?;
        self.supervised(call, &pids, &|| false, || work(clients))
    }

    /// Lets `work` run; a signal, the time limit, or that it has `failed` ends these sessions.
    pub(crate) fn supervised<T: Send>(
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
            while let Err(RecvTimeoutError::Timeout) = end.recv_timeout(POLL) {
                if stopped.is_none() {
                    stopped = call.check().err();
                }
                let due = asked.is_none_or(|asked| asked.elapsed() >= RETRY);
                if !cut && due && (stopped.is_some() || failed()) {
                    asked = Some(Instant::now());
                    cut = self.end(call, pids);
                }
            }
            let result = worker.join().map_err(|_| Failure::failed("internal", "A thread panicked."));
            match stopped {
                Some(failure) => Err(failure),
                None => result?,
            }
        })
    }
}

pub(crate) fn session_pid(client: &mut Client) -> Result<i32, Failure> {
    let row = client.query_one("SELECT pg_backend_pid()", &[]).and_then(|row| row.try_get(0));
    row.map_err(|error| pg::of_query(&error, "get the process of the session"))
}

/// Up to so many connections, and at least one: fewer if the server has no more.
pub(crate) fn up_to(wanted: usize, connect: impl Fn() -> Result<Client, Failure>) -> Result<(Client, Vec<Client>), Failure> {
    let first = connect()?;
    let mut others = Vec::new();
    while others.len() + 1 < wanted {
        match connect() {
            Ok(client) => others.push(client),
            Err(failure) if failure.code == "postgres_busy" => break,
            Err(failure) => return Err(failure),
        }
    }
    Ok((first, others))
}
