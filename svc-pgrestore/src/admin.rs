//! The administrator's sessions, what he does with them (locks, drops, closes, ends), and what the server says about itself and its
//! databases.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use postgres::types::{FromSqlOwned, ToSql};
use postgres::{Client, Row};
use svc_pgdump::pg::{self, MAINTENANCE, Server, Target, escape_identifier, identify};
use svc_step::from::OtherServer;
use svc_step::lock::Lock;
use svc_step::reporter::shell_quoted;
use svc_step::work::joined;
use svc_step::{Call, Failure, Status};

use crate::args::AdminArgs;
use crate::create::Creation;
use crate::document::Named;
use crate::names::drop_statement;

/// How often signals and the time limit are polled while the server works.
const POLL: Duration = Duration::from_millis(50);
/// A lock of the session, which the server gives back when it ends it.
const LOCK: &str = "SELECT pg_try_advisory_lock(hashtextextended($1, 0))";
/// The sessions of others in databases; the server's own processes have no user.
const OTHERS: &str = "SELECT pid, usesysid IS NOT NULL FROM pg_stat_activity WHERE datid = ANY ($1) AND pid <> ALL ($2)";
/// How often the server is told again to end sessions, if it could not be told.
const RETRY: Duration = Duration::from_secs(1);
/// How long sessions that are ended may take.
const END_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a server may still execute a statement of a killed call, or of a session that this one has given up.
const LOCK_TIMEOUT: Duration = Duration::from_secs(60);
const GIVEN_UP_TIMEOUT: Duration = Duration::from_secs(5);

pub(crate) struct Admin {
    pub(crate) target: Arc<Target>,
    /// A connection to the maintenance database for all of the step, so that it can clean up after a signal too.
    pub(crate) client: Client,
    pub(crate) server: Server,
    /// The cluster's own number.
    pub(crate) system_identifier: String,
    pub(crate) superuser: bool,
    pub(crate) data_directory: Option<String>,
    /// The database whose lock this call has.
    locked: String,
    /// The options that lead to this server and to the records of this host, if they were given on the command line.
    options: Vec<String>,
}

/// The oldest PostgreSQL whose databases are restored.
const OLDEST: u32 = 13;

impl Admin {
    pub(crate) fn connect(args: &AdminArgs, call: &Call) -> Result<Self, Failure> {
        let target = args.resolve(call)?;
        let mut client = target.connect(call, MAINTENANCE)?;
        let server = identify(&mut client)?;
        // DROP DATABASE … WITH (FORCE) is of PostgreSQL 13.
        if server.major() < OLDEST {
            let message = format!("The server is PostgreSQL {}, which is too old.", server.version);
            return Err(Failure::refused("version_unsupported", message)
                .hint(format!("Restore on PostgreSQL {OLDEST} or later (--host, --port), or with psql.")));
        }
        let row = client.query_one(RIGHTS, &[]).map_err(|error| pg::of_query(&error, "get the administrator's rights"))?;
        let user: String = row.get(0);
        let refused = |what: &str| Failure::refused("permission_denied", format!("The database user {user} may not {what}."));
        if !row.get::<_, bool>(2) {
            return Err(refused("create databases")
                .hint("Run as root, which becomes postgres (--as, SVC_PG_ADMIN), or pass an administrator with --username."));
        }
        if row.get(3) {
            let message = format!("The server at {} is a standby, which takes no changes.", target.place());
            return Err(Failure::refused("server_refused", message)
                .hint("Connect to its primary: --host and --port (SVC_DB_HOST, SVC_DB_PORT)."));
        }
        let system_identifier = server.system_identifier.clone().ok_or_else(|| {
            refused("get the server's identifier")
                .hint("Connect as a superuser, or GRANT EXECUTE ON FUNCTION pg_control_system() to that user.")
        })?;
        let mut options = if args.given().is_empty() { Vec::new() } else { args.options(&target) };
        options.extend(call.state_dir_option());
        Ok(Self {
            target: Arc::new(target),
            client,
            server,
            system_identifier,
            superuser: row.get(1),
            data_directory: row.get(4),
            locked: String::new(),
            options,
        })
    }

    /// The command for a run on the same server, as it is typed.
    pub(crate) fn command(&self, step: &str, run: &str) -> String {
        let arguments = ["svc-pgrestore", step, "--run", run].map(str::to_owned);
        shell_quoted(&[&arguments[..], &self.options].concat())
    }

    /// Refuses (3) another server than that of a document, unless `--other-server` is given.
    pub(crate) fn check_server(&self, other: OtherServer, documented: &str) -> Result<(), Failure> {
        let place = format!("the one at {}", self.target.place());
        other.check(documented, &self.system_identifier, &place, "--host and --port (SVC_DB_HOST, SVC_DB_PORT)")
    }

    /// The lock of one database of this server, on this host and on the server; none in a dry run. The host's lock dies with the process
    /// that held it, but a server ends its statement before it notices: a database that a killed call was about to create would
    /// appear after the next call has listed them.
    pub(crate) fn lock(&mut self, call: &Call, database: &str, dry_run: bool) -> Result<Option<Lock>, Failure> {
        let lock = Lock::unless_dry(call, "database", &format!("{}/{database}", self.system_identifier), dry_run)?;
        if lock.is_some() {
            database.clone_into(&mut self.locked);
            self.wait_for_lock(LOCK_TIMEOUT, || call.pause(POLL))?;
        }
        Ok(lock)
    }

    /// The server's part of it. A session that has it is given it again at once.
    fn wait_for_lock(&mut self, time: Duration, pause: impl Fn() -> Result<(), Failure>) -> Result<(), Failure> {
        let (key, until) = (format!("svc-tools/{}", self.locked), Instant::now() + time);
        while !query_one::<bool>(&mut self.client, "lock the database", LOCK, &[&key])? {
            if Instant::now() >= until {
                let message = format!("A session of another call holds the lock of the database {}.", self.locked);
                return Err(Failure::locked("locked", message)
                    .hint("Wait until it has ended, here or on another host (pg_stat_activity shows it as svc-tools), then run the same command again."));
            }
            pause()?;
        }
        Ok(())
    }

    /// Connects again after the connection was lost or given up, even if the step is to end.
    pub(crate) fn reconnect(&mut self) -> Result<(), Failure> {
        self.client = self.target.connect_for_cleanup(MAINTENANCE)?;
        Ok(())
    }

    /// Drops what this call has created, if it is there. If it is not, a session that was given up may still be at its creation, which
    /// nobody sees before the commit, and has the lock until it has ended.
    pub(crate) fn take_back(&mut self, database: &str) -> Result<(), Failure> {
        let drop = |admin: &mut Self| {
            if oid_of(&mut admin.client, database)?.is_none() {
                // A signal would wake a pause of the call at once, and again and again.
                admin.wait_for_lock(GIVEN_UP_TIMEOUT, || {
                    std::thread::sleep(POLL);
                    Ok(())
                })?;
            }
            let dropped = admin.client.batch_execute(&drop_statement(database));
            dropped.map_err(|error| pg::of_query(&error, &format!("drop the unfinished {database}")))
        };
        match drop(self) {
            Err(failure) if failure.status == Status::Unavailable => {
                self.reconnect()?;
                drop(self)
            }
            ended => ended,
        }
    }

    /// Executes what changes the server, and records the effect. A statement that the server has interrupted may have had one: half of
    /// a `DROP DATABASE` is no way back.
    pub(crate) fn alter(&mut self, call: &Call, sql: &str, action: &str) -> Result<(), Failure> {
        let attempt = call.effects().attempt();
        let executed = self.client.batch_execute(sql);
        match &executed {
            Ok(()) => attempt.happened(),
            Err(error) if error.code().is_some_and(|code| !pg::is_interruption(code)) => attempt.refused(),
            Err(_) => {}
        }
        executed.map_err(|error| pg::of_query(&error, action))
    }

    /// Drops a database, but no template.
    pub(crate) fn drop(&mut self, call: &Call, database: &str, action: &str) -> Result<(), Failure> {
        live(&mut self.client, database)?.map_or(Ok(()), |live| no_template(database, &live))?;
        self.alter(call, &drop_statement(database), action)
    }

    /// Closes a copy to all users, if its swap opens it, and ends all sessions in it but these `own` ones: no other client changes it
    /// from then on.
    pub(crate) fn close(&mut self, call: &Call, creation: &Creation, copy: &Named, own: &[i32]) -> Result<(), Failure> {
        let (Some(close), Some(oid)) = (creation.close(), copy.oid) else { return Ok(()) };
        self.alter(call, &close.sql, "close the copy")?;
        let until = Instant::now() + END_TIMEOUT;
        while end_sessions(&mut self.client, &[oid], own)?.0 > 0 {
            if Instant::now() >= until {
                let message = format!("Sessions stay in the copy {}, which no other client may change.", copy.name);
                let failure = Failure::unavailable("server_busy", message)
                    .hint("Stop what is connected to it (the causes name it), then run the same command again.");
                return Err(sessions(&mut self.client, &[oid]).into_iter().fold(failure, Failure::cause));
            }
            call.pause(POLL)?;
        }
        Ok(())
    }

    fn end(&mut self, pids: &[i32]) -> bool {
        if self.client.is_closed() {
            // It says below whether it connects.
            let _ = self.reconnect();
        }
        self.client.execute("SELECT pg_terminate_backend(pid) FROM unnest($1::int4[]) pid", &[&pids]).is_ok()
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
            let (mut stopped, mut due) = (None, Some(Instant::now()));
            while let Err(RecvTimeoutError::Timeout) = end.recv_timeout(POLL) {
                if stopped.is_none() {
                    stopped = call.check().err();
                }
                if due.is_some_and(|due| Instant::now() >= due) && (stopped.is_some() || failed()) {
                    due = if self.end(pids) { None } else { Some(Instant::now() + RETRY) };
                }
            }
            let result = joined(worker);
            stopped.map_or_else(|| result?, Err)
        })
    }
}

pub(crate) fn session_pid(client: &mut Client) -> Result<i32, Failure> {
    query_one(client, "get the process of the session", "SELECT pg_backend_pid()", &[])
}

/// Ends the sessions in these databases but our `own`, one by one: one that we may not end (a superuser's) does not protect the others.
/// Gives how many users' sessions there were, and why the server last did not end one, in its own words.
pub(crate) fn end_sessions(client: &mut Client, oids: &[u32], own: &[i32]) -> Result<(usize, Option<String>), Failure> {
    let others = query(client, "list the sessions", OTHERS, &[&oids, &own])?;
    let mut refused = None;
    for row in &others {
        if let Err(error) = client.query_one("SELECT pg_terminate_backend($1)", &[&row.get::<_, i32>(0)]) {
            refused = error.as_db_error().map(pg::describe).or(refused);
        }
    }
    Ok((others.iter().filter(|row| row.get(1)).count(), refused))
}

/// Connections that work together on a copy.
pub(crate) struct Sessions {
    /// The one for what runs alone.
    pub(crate) first: Client,
    pub(crate) others: Vec<Client>,
    /// Their processes on the server.
    pub(crate) pids: Vec<i32>,
}

impl Sessions {
    /// Up to so many, and at least one: fewer if the server has no more; one is left for the pg_dump of the verification.
    pub(crate) fn open(wanted: usize, connect: impl Fn() -> Result<Client, Failure>) -> Result<Self, Failure> {
        let mut sessions = Self { first: connect()?, others: Vec::new(), pids: Vec::new() };
        while sessions.others.len() + 1 < wanted && free_connections(&mut sessions.first)? > 1 {
            match connect() {
                Ok(client) => sessions.others.push(client),
                Err(failure) if failure.code == "server_busy" => {
                    sessions.others.pop();
                    break;
                }
                Err(failure) => return Err(failure),
            }
        }
        sessions.pids = sessions.all().map(session_pid).collect::<Result<_, _>>()?;
        Ok(sessions)
    }

    pub(crate) fn all(&mut self) -> impl Iterator<Item = &mut Client> {
        std::iter::once(&mut self.first).chain(&mut self.others)
    }
}

const FREE_CONNECTIONS: &str = "SELECT (current_setting('max_connections')::int4 - current_setting('superuser_reserved_connections')::int4 \
    - coalesce(current_setting('reserved_connections', true)::int4, 0) \
    - (SELECT count(*) FROM pg_stat_activity WHERE usesysid IS NOT NULL))::int4";

/// How many more connections the server takes, without those that are reserved.
pub(crate) fn free_connections(client: &mut Client) -> Result<i32, Failure> {
    query_one(client, "count the free connections", FREE_CONNECTIONS, &[])
}

/// Who the administrator is, and what he may do.
const RIGHTS: &str = "SELECT current_user::text, r.rolsuper, r.rolsuper OR r.rolcreatedb, pg_is_in_recovery(), \
    CASE WHEN r.rolsuper OR pg_has_role('pg_read_all_settings', 'member') THEN current_setting('data_directory') END \
    FROM pg_roles r WHERE r.rolname = current_user";

const SESSIONS: &str = "SELECT format('process %s of %s (%s), %s', pid, usename, application_name, state) FROM pg_stat_activity \
    WHERE datid = ANY($1) AND pid <> pg_backend_pid() ORDER BY pid LIMIT 10";

type Parameters<'a> = &'a [&'a (dyn ToSql + Sync)];

/// `action` completes the sentence "Cannot …".
pub(crate) fn query(client: &mut Client, action: &str, sql: &str, parameters: Parameters<'_>) -> Result<Vec<Row>, Failure> {
    client.query(sql, parameters).map_err(|error| pg::of_query(&error, action))
}

/// The first column of the only row.
pub(crate) fn query_one<T: FromSqlOwned>(
    client: &mut Client,
    action: &str,
    sql: &str,
    parameters: Parameters<'_>,
) -> Result<T, Failure> {
    client.query_one(sql, parameters).and_then(|row| row.try_get(0)).map_err(|error| pg::of_query(&error, action))
}

/// The first column, which has names.
pub(crate) fn names(client: &mut Client, action: &str, sql: &str, parameters: Parameters<'_>) -> Result<Vec<String>, Failure> {
    let rows = query(client, action, sql, parameters)?;
    rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>().map_err(|error| pg::of_query(&error, action))
}

/// All databases, except those whose name is not UTF-8: none of them is ours.
pub(crate) fn databases(client: &mut Client) -> Result<Vec<Named>, Failure> {
    let rows = query(client, "list the databases", "SELECT datname::text, oid FROM pg_database ORDER BY 1", &[])?;
    Ok(rows.iter().filter_map(|row| Some(Named { name: row.try_get(0).ok()?, oid: Some(row.get(1)) })).collect())
}

pub(crate) fn oid_of(client: &mut Client, database: &str) -> Result<Option<u32>, Failure> {
    Ok(databases(client)?.into_iter().find(|one| one.name == database).and_then(|one| one.oid))
}

/// The sessions of others in these databases, as text; none if the server does not tell.
pub(crate) fn sessions(client: &mut Client, oids: &[u32]) -> Vec<String> {
    names(client, "list the sessions", SESSIONS, &[&oids]).unwrap_or_default()
}

/// What a restore cannot carry over of the live database.
pub(crate) struct Live {
    /// Its OID; `None` if a DROP was interrupted in its midst: it can only be dropped again.
    pub(crate) oid: Option<u32>,
    pub(crate) prepared: Vec<String>,
    pub(crate) subscriptions: Vec<String>,
    pub(crate) slots: Vec<String>,
    pub(crate) is_template: bool,
    pub(crate) is_closed: bool,
}

const LIVE: &str = "SELECT CASE WHEN d.datconnlimit <> -2 THEN d.oid END, ARRAY(SELECT gid FROM pg_prepared_xacts WHERE database = d.datname ORDER BY gid), \
    ARRAY(SELECT subname::text FROM pg_subscription WHERE subdbid = d.oid ORDER BY 1), \
    ARRAY(SELECT slot_name::text FROM pg_replication_slots WHERE database = d.datname ORDER BY 1), \
    d.datistemplate, NOT d.datallowconn FROM pg_database d WHERE d.datname = $1";

pub(crate) fn live(client: &mut Client, database: &str) -> Result<Option<Live>, Failure> {
    let rows = query(client, "get the live database", LIVE, &[&database])?;
    Ok(rows.first().map(|row| {
        let [prepared, subscriptions, slots] = [1, 2, 3].map(|column| row.get(column));
        Live { oid: row.get(0), prepared, subscriptions, slots, is_template: row.get(4), is_closed: row.get(5) }
    }))
}

/// No server drops a template.
pub(crate) fn no_template(database: &str, live: &Live) -> Result<(), Failure> {
    if !live.is_template {
        return Ok(());
    }
    let message = format!("The database {database} is a template (IS_TEMPLATE), which cannot be dropped.");
    let hint = format!("ALTER DATABASE {} IS_TEMPLATE false; then run the same command again.", escape_identifier(database));
    Err(Failure::refused("server_refused", message).hint(hint))
}

/// The directory of a tablespace; empty for the server's own directory.
pub(crate) fn tablespace(client: &mut Client, name: &str) -> Result<Option<String>, Failure> {
    let sql = "SELECT pg_tablespace_location(oid) FROM pg_tablespace WHERE spcname = $1";
    Ok(names(client, "get the tablespace", sql, &[&name])?.pop())
}

/// The directory of a database's tablespace (empty for the server's own), and the size of its files if the administrator may know it.
pub(crate) fn files(client: &mut Client, database: &str) -> Result<Option<(String, Option<u64>)>, Failure> {
    let sql = "SELECT pg_tablespace_location(dattablespace), CASE WHEN has_database_privilege(oid, 'CONNECT') \
               OR pg_has_role('pg_read_all_stats', 'member') THEN pg_database_size(oid) END FROM pg_database WHERE datname = $1";
    let size = |row: &Row| row.get::<_, Option<i64>>(1).and_then(|size| u64::try_from(size).ok());
    Ok(query(client, "get the size of the database", sql, &[&database])?.first().map(|row| (row.get(0), size(row))))
}

const ROLES: &str = "SELECT n FROM unnest($1::text[]) n WHERE n NOT IN (SELECT rolname::text FROM pg_roles)";

pub(crate) fn missing_roles(client: &mut Client, roles: &[String]) -> Result<Vec<String>, Failure> {
    names(client, "find the roles that the dump needs", ROLES, &[&roles])
}

const EXTENSIONS: &str = "SELECT n FROM unnest($1::text[]) n WHERE n NOT IN (SELECT name::text FROM pg_available_extensions)";

/// Those that are not installed on the server's host.
pub(crate) fn missing_extensions(client: &mut Client, extensions: &[String]) -> Result<Vec<String>, Failure> {
    names(client, "find the extensions that the dump needs", EXTENSIONS, &[&extensions])
}
