//! The exchange itself: both renames in one transaction, with the sessions that are in the way ended from a second connection
//! meanwhile. The same transaction opens what comes in (`ALLOW_CONNECTIONS`), and no other setting is touched: a kill at any moment
//! leaves either the old names or the new.

use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use postgres::Client;
use postgres::error::SqlState;
use svc_pgdump::pg::{self, MAINTENANCE};
use svc_step::effects::Attempt;
use svc_step::{Call, Failure};

use crate::admin::{self, Admin, databases, session_pid, sessions};
use crate::document::{Named, Swapped};

/// How often sessions are listed and ended.
const POLL: Duration = Duration::from_millis(50);
/// For how long sessions that come back are ended again.
const RETRY_FOR: Duration = Duration::from_secs(60);
/// For how long a server is asked what became of a commit whose answer was lost, and how often.
const OUTCOME_TIMEOUT: Duration = Duration::from_secs(20);
/// The same if the step is to end.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);
const OUTCOME_POLL: Duration = Duration::from_millis(100);

/// Why it ended without an exchange that is known to have happened.
enum Stop<'a> {
    Known(Failure),
    InUse(Failure),
    /// The answer to the commit is lost.
    Lost(Attempt<'a>, Failure),
}

/// Exchanges the names.
pub(super) fn rename(admin: &mut Admin, call: &Call, swap: &Swapped) -> Result<(), Failure> {
    let oids: Vec<u32> = swap.renamed().iter().filter_map(|one| one.oid).collect();
    let pid = session_pid(&mut admin.client)?;
    let mut second = admin.target.connect(call, MAINTENANCE)?;
    let (over, is_over) = channel::<()>();
    let (result, refused) = std::thread::scope(|scope| {
        let (second, oids) = (&mut second, &oids);
        let ender = scope.spawn(move || end_sessions(second, oids, &is_over));
        let result = retry(&mut admin.client, call, swap);
        drop(over);
        (result, ender.join().unwrap_or_default())
    });
    let (attempt, failure) = match result {
        Ok(()) => return Ok(()),
        Err(Stop::Known(failure)) => return Err(failure),
        Err(Stop::InUse(mut failure)) => {
            failure.causes.extend(refused);
            failure.causes.extend(sessions(&mut second, &oids));
            return Err(failure);
        }
        Err(Stop::Lost(attempt, failure)) => (attempt, failure),
    };
    match outcome(admin, second, call, swap, pid) {
        Some(true) => {
            attempt.happened();
            Ok(())
        }
        Some(false) => {
            attempt.refused();
            Err(failure)
        }
        // The attempt stays without an answer.
        None => {
            let message = "The server was lost at the moment of the swap, whose outcome is unknown.";
            let unknown = Failure::unavailable("outcome_unknown", message)
                .hint(format!("When the server is up: {} finds out, and finishes it.", admin.command("swap", &swap.run)));
            Err(failure.causes.into_iter().fold(unknown, Failure::cause))
        }
    }
}

fn retry<'a>(client: &mut Client, call: &'a Call, swap: &Swapped) -> Result<(), Stop<'a>> {
    let started = Instant::now();
    loop {
        call.check().map_err(Stop::Known)?;
        match exchange(client, call, swap) {
            Err(Stop::InUse(_)) if started.elapsed() < RETRY_FOR => call.pause(POLL).map_err(Stop::Known)?,
            ended => return ended,
        }
    }
}

fn exchange<'a>(client: &mut Client, call: &'a Call, swap: &Swapped) -> Result<(), Stop<'a>> {
    let failed = |error: &postgres::Error| pg::of_query(error, "swap the names of the databases");
    let begin = "BEGIN; SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = '10s'".to_owned();
    let renamed = [begin].into_iter().chain(swap.statements()).try_for_each(|sql| {
        client.batch_execute(&sql).map_err(|error| match error.code() {
            Some(code) if [SqlState::OBJECT_IN_USE, SqlState::LOCK_NOT_AVAILABLE].contains(code) => {
                Stop::InUse(in_use(failed(&error)))
            }
            _ => Stop::Known(failed(&error)),
        })
    });
    // They go by names, which other databases may have been given meanwhile.
    if let Err(stop) = renamed.and_then(|()| check_renamed(client, swap).map_err(Stop::Known)) {
        // A transaction that was not committed has changed nothing, whether this arrives or not.
        let _ = client.batch_execute("ROLLBACK");
        return Err(stop);
    }
    let attempt = call.effects().attempt();
    match client.batch_execute("COMMIT") {
        Ok(()) => {
            attempt.happened();
            Ok(())
        }
        Err(error) => Err(Stop::Lost(attempt, failed(&error))),
    }
}

fn check_renamed(client: &mut Client, swap: &Swapped) -> Result<(), Failure> {
    let catalog = databases(client)?;
    let Some(Named { name, .. }) = swap.renamed().into_iter().find(|one| !catalog.contains(one)) else { return Ok(()) };
    let message = format!("Databases were renamed meanwhile: another one would have become {name}.");
    Err(Failure::refused("name_in_use", message).hint("Check them (psql --list)."))
}

fn in_use(refused: Failure) -> Failure {
    let failure =
        Failure::unavailable("server_busy", "Sessions stay in the database, or come back faster than they can be ended.")
            .hint("Stop what is connected (the causes name the sessions); a superuser may end everybody's.");
    refused.causes.into_iter().fold(failure, Failure::cause)
}

/// Ends the sessions until it is over. Gives why the server last did not end one, in its own words.
fn end_sessions(client: &mut Client, oids: &[u32], is_over: &Receiver<()>) -> Option<String> {
    let mut refused = None;
    while !client.is_closed() {
        if let Ok((_, why @ Some(_))) = admin::end_sessions(client, oids, &[]) {
            refused = why;
        }
        if is_over.recv_timeout(POLL) == Err(RecvTimeoutError::Disconnected) {
            break;
        }
    }
    refused
}

/// Whether the exchange took place, by the server's own list; `None` if the server cannot be asked, or if the session `pid` that was
/// to commit still runs: a commit that waits for a disk or a standby is not seen by others yet.
fn outcome(admin: &mut Admin, second: Client, call: &Call, swap: &Swapped, pid: i32) -> Option<bool> {
    admin.client = second;
    let started = Instant::now();
    while started.elapsed() < if call.check().is_ok() { OUTCOME_TIMEOUT } else { SHUTDOWN_TIMEOUT } {
        if let Ok(true) = is_gone(&mut admin.client, pid)
            && let Ok(catalog) = databases(&mut admin.client)
        {
            return Some(swap.state(&catalog).is_ok_and(|state| state.is_done));
        }
        if admin.client.is_closed() {
            // It is asked again in a moment where it does not even connect.
            let _ = admin.reconnect();
        }
        // A signal would wake it at once, and again and again.
        std::thread::sleep(OUTCOME_POLL);
    }
    None
}

/// Whether a session is gone. One that waits for a client which is lost is ended; one that executes something comes to its own end.
fn is_gone(client: &mut Client, pid: i32) -> Result<bool, postgres::Error> {
    let Some(row) = client.query_opt("SELECT state FROM pg_stat_activity WHERE pid = $1", &[&pid])? else { return Ok(true) };
    if row.get::<_, Option<&str>>(0).is_some_and(|state| state.starts_with("idle")) {
        client.query_one("SELECT pg_terminate_backend($1)", &[&pid])?;
    }
    Ok(false)
}
