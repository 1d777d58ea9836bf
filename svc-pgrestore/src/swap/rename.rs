//! The exchange itself: both renames in one transaction, with the sessions that are in the way ended from a second connection
//! meanwhile. No lasting setting is touched, so a kill at any moment leaves either the old names or the new.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use postgres::Client;
use postgres::error::SqlState;
use svc_pgdump::pg::{self, MAINTENANCE};
use svc_step::effects::Attempt;
use svc_step::{Call, Failure};

use super::plan::{Exchange, Standing};
use crate::admin::{Admin, databases, session_pid, sessions};
use crate::document::Named;

/// How often sessions are looked for.
const EVERY: Duration = Duration::from_millis(50);
/// For how long sessions that come back are ended again.
const PATIENCE: Duration = Duration::from_secs(60);
/// For how long a server is asked what became of a commit whose answer was lost, and how often.
const READ_BACK: Duration = Duration::from_secs(20);
/// The same where the step is to end.
const AT_LAST: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(100);

const SESSIONS: &str = "SELECT pid FROM pg_stat_activity WHERE datid = ANY($1) AND pid <> pg_backend_pid()";

enum Tried {
    Done,
    InUse(Failure),
}

/// Exchanges the names. Gives how many sessions were ended.
pub(crate) fn rename(admin: &mut Admin, call: &Call, exchange: &Exchange, previous: Option<&Named>) -> Result<u64, Failure> {
    let oids: Vec<u32> = [exchange.incoming.oid, previous.and_then(|previous| previous.oid)].into_iter().flatten().collect();
    let mut second = admin.target.connect(call, MAINTENANCE)?;
    let over = AtomicBool::new(false);
    let (result, ender) = std::thread::scope(|scope| {
        let ender = scope.spawn(|| end_sessions(&mut second, &oids, &over));
        let result = insist(&mut admin.client, call, &exchange.statements(previous), &exchange.renamed(previous));
        over.store(true, Ordering::SeqCst);
        (result, ender.join().unwrap_or_default())
    });
    let ended = u64::try_from(ender.ended.len()).unwrap_or(u64::MAX);
    match result {
        Ok(()) => Ok(ended),
        Err(Stop::Known(mut failure)) => {
            if failure.code == IN_USE {
                failure.causes.extend(ender.refused);
                failure.causes.extend(sessions(&mut second, &oids));
            }
            Err(failure)
        }
        Err(Stop::Lost(attempt, pid, failure)) => {
            match read_back(admin, second, call, exchange, pid) {
                Some(true) => attempt.happened(),
                Some(false) => {
                    attempt.refused();
                    return Err(failure);
                }
                // The attempt stays without an answer: nobody knows.
                None => return Err(unknown(exchange, failure)),
            }
            Ok(ended)
        }
    }
}

const IN_USE: &str = "database_in_use";

/// Why it ended without an exchange that is known to have happened.
enum Stop<'a> {
    Known(Failure),
    /// The answer to the commit is lost; of the session of that number.
    Lost(Attempt<'a>, i32, Failure),
}

type Renamed = [(String, Option<u32>)];

fn insist<'a>(client: &mut Client, call: &'a Call, statements: &[String], renamed: &Renamed) -> Result<(), Stop<'a>> {
    let started = Instant::now();
    let pid = session_pid(client).map_err(Stop::Known)?;
    loop {
        call.check().map_err(Stop::Known)?;
        match attempt(client, pid, call, statements, renamed)? {
            Tried::Done => return Ok(()),
            Tried::InUse(failure) if started.elapsed() >= PATIENCE => return Err(Stop::Known(failure)),
            Tried::InUse(_) => call.pause(EVERY).map_err(Stop::Known)?,
        }
    }
}

fn attempt<'a>(
    client: &mut Client,
    pid: i32,
    call: &'a Call,
    statements: &[String],
    renamed: &Renamed,
) -> Result<Tried, Stop<'a>> {
    let begin = "BEGIN; SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = '10s'";
    for sql in std::iter::once(begin).chain(statements.iter().map(String::as_str)) {
        if let Err(error) = client.batch_execute(sql) {
            // A transaction that was not committed has changed nothing, whether this arrives or not.
            let _ = client.batch_execute("ROLLBACK");
            let busy = [SqlState::OBJECT_IN_USE, SqlState::LOCK_NOT_AVAILABLE];
            let failure = pg::of_query(&error, "swap the names of the databases");
            return match error.code() {
                Some(code) if busy.contains(code) => Ok(Tried::InUse(in_use(&failure))),
                _ => Err(Stop::Known(failure)),
            };
        }
    }
    // They go by names, which somebody may have given to other databases meanwhile.
    if let Err(failure) = are_meant(client, renamed) {
        let _ = client.batch_execute("ROLLBACK");
        return Err(Stop::Known(failure));
    }
    let attempt = call.effects().attempt();
    match client.batch_execute("COMMIT") {
        Ok(()) => {
            attempt.happened();
            Ok(Tried::Done)
        }
        Err(error) => Err(Stop::Lost(attempt, pid, pg::of_query(&error, "swap the names of the databases"))),
    }
}

fn are_meant(client: &mut Client, renamed: &Renamed) -> Result<(), Failure> {
    let catalog = databases(client)?;
    let other = renamed.iter().find(|(name, oid)| !catalog.iter().any(|one| one.name == *name && one.oid == *oid));
    let Some((name, _)) = other else { return Ok(()) };
    Err(Failure::refused(
        "staged_renamed",
        format!("Somebody renamed databases meanwhile: another one would have become {name}."),
    )
    .hint("Check them (psql --list)."))
}

fn in_use(refused: &Failure) -> Failure {
    let mut failure = Failure::unavailable(IN_USE, "Sessions stay in the database, or come back faster than they can be ended.")
        .hint("Stop what is connected (the causes name the sessions), then run the same command again; a superuser may end everybody's.");
    failure.causes.clone_from(&refused.causes);
    failure
}

#[derive(Debug, Default)]
struct Ender {
    ended: BTreeSet<i32>,
    /// Why the server last did not end one, in its own words.
    refused: Option<String>,
}

/// Ends the sessions until it is over, one by one: one that we may not end (a superuser's) is to be in nobody else's stead.
fn end_sessions(client: &mut Client, oids: &[u32], over: &AtomicBool) -> Ender {
    let mut ender = Ender::default();
    while !over.load(Ordering::SeqCst) && !client.is_closed() {
        let found = client.query(SESSIONS, &[&oids]).unwrap_or_default();
        for pid in found.iter().map(|row| row.get::<_, i32>(0)) {
            match client.query_one("SELECT pg_terminate_backend($1)", &[&pid]) {
                Ok(row) if row.get(0) => drop(ender.ended.insert(pid)),
                Ok(_) => {}
                Err(error) => ender.refused = error.as_db_error().map(pg::words).or(ender.refused),
            }
        }
        std::thread::sleep(EVERY);
    }
    ender
}

/// Whether the exchange took place, by the server's own list; `None` where it cannot be asked, or where the session that was
/// to commit is still at it: a commit that waits for a disk or a standby is not seen by others yet.
fn read_back(admin: &mut Admin, second: Client, call: &Call, exchange: &Exchange, pid: i32) -> Option<bool> {
    admin.client = second;
    let started = Instant::now();
    while started.elapsed() < if call.check().is_ok() { READ_BACK } else { AT_LAST } {
        if let Ok(true) = settled(&mut admin.client, pid)
            && let Ok(catalog) = databases(&mut admin.client)
        {
            return Some(matches!(exchange.standing(&catalog), Ok(Standing::Done { .. })));
        }
        if admin.client.is_closed() {
            // It is asked again in a moment where it does not even connect.
            let _ = admin.reconnect();
        }
        // A signal would wake it at once, and again and again.
        std::thread::sleep(POLL);
    }
    None
}

/// Whether a session is gone. One that waits for a client which is lost is ended; one that executes something comes to its own end.
fn settled(client: &mut Client, pid: i32) -> Result<bool, postgres::Error> {
    let Some(row) = client.query_opt("SELECT state FROM pg_stat_activity WHERE pid = $1", &[&pid])? else { return Ok(true) };
    if row.get::<_, Option<&str>>(0).is_some_and(|state| state.starts_with("idle")) {
        client.query_one("SELECT pg_terminate_backend($1)", &[&pid])?;
    }
    Ok(false)
}

fn unknown(exchange: &Exchange, failure: Failure) -> Failure {
    let mut lost =
        Failure::unavailable("swap_unknown", "The server was lost at the moment of the swap, whose outcome is unknown.")
            .hint(format!("When the server is up: svc-pgrestore swap --run {} finds out, and finishes it.", exchange.run));
    lost.causes = failure.causes;
    lost
}
