//! The exchange itself: both renames in one transaction, with the sessions that are in the way ended from a second connection
//! meanwhile. No lasting setting is touched, so a kill at any moment leaves either the old names or the new.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use postgres::Client;
use postgres::error::SqlState;
use svc_pgdump::admin::{Admin, MAINTENANCE, Named, databases, sessions};
use svc_pgdump::refusal;
use svc_step::effects::Attempt;
use svc_step::{Call, Failure};

use crate::exchange::{Exchange, Standing};

/// How often sessions are looked for.
const EVERY: Duration = Duration::from_millis(50);
/// For how long sessions that come back are ended again.
const PATIENCE: Duration = Duration::from_secs(60);
/// For how long a server is asked what became of a commit whose answer was lost.
const READ_BACK: Duration = Duration::from_secs(20);

/// Ending is what is selected, not a condition: conditions may be looked at in any order, and would end anybody's session.
const END_SESSIONS: &str = "SELECT pid, pg_terminate_backend(pid) FROM pg_stat_activity \
    WHERE datid = ANY($1) AND pid <> pg_backend_pid()";

/// What came of one attempt.
enum Tried {
    Done,
    InUse(Failure),
}

/// Exchanges the names. Gives how many sessions were ended.
///
/// # Errors
/// Sessions come back again and again (5), the server says no (1, 3), or the connection is lost (5); a signal between two
/// attempts. In all these cases nothing has changed, unless the effects of the call say that nobody knows.
pub(crate) fn rename(admin: &mut Admin, call: &Call, exchange: &Exchange, kept: Option<&Named>) -> Result<u64, Failure> {
    let oids: Vec<u32> = [exchange.incoming.oid, kept.and_then(|kept| kept.oid)].into_iter().flatten().collect();
    let mut second = admin.target.connect(call, MAINTENANCE)?;
    let over = AtomicBool::new(false);
    let (result, ended) = std::thread::scope(|scope| {
        let ender = scope.spawn(|| end_sessions(&mut second, &oids, &over));
        let result = insist(&mut admin.client, call, &exchange.statements(kept));
        over.store(true, Ordering::SeqCst);
        (result, ender.join().unwrap_or_default())
    });
    match result {
        Ok(()) => Ok(ended),
        Err(Stop::Known(mut failure)) => {
            if failure.code == IN_USE {
                failure.causes.extend(sessions(&mut second, &oids));
            }
            Err(failure)
        }
        Err(Stop::Lost(attempt, failure)) => {
            match read_back(admin, &mut second, call, exchange) {
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
    /// The answer to the commit is lost.
    Lost(Attempt<'a>, Failure),
}

fn insist<'a>(client: &mut Client, call: &'a Call, statements: &[String]) -> Result<(), Stop<'a>> {
    let started = Instant::now();
    loop {
        call.check().map_err(Stop::Known)?;
        match attempt(client, call, statements)? {
            Tried::Done => return Ok(()),
            Tried::InUse(failure) if started.elapsed() >= PATIENCE => return Err(Stop::Known(failure)),
            Tried::InUse(_) => call.pause(EVERY).map_err(Stop::Known)?,
        }
    }
}

fn attempt<'a>(client: &mut Client, call: &'a Call, statements: &[String]) -> Result<Tried, Stop<'a>> {
    let begin = "BEGIN; SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = '10s'";
    for sql in std::iter::once(begin).chain(statements.iter().map(String::as_str)) {
        if let Err(error) = client.batch_execute(sql) {
            // A transaction that was not committed has changed nothing, whether this arrives or not.
            let _ = client.batch_execute("ROLLBACK");
            let busy = [SqlState::OBJECT_IN_USE, SqlState::LOCK_NOT_AVAILABLE];
            let failure = refusal::of_query(&error, "exchange the names of the databases");
            return match error.code() {
                Some(code) if busy.contains(code) => Ok(Tried::InUse(in_use(&failure))),
                _ => Err(Stop::Known(failure)),
            };
        }
    }
    let attempt = call.effects().attempt();
    match client.batch_execute("COMMIT") {
        Ok(()) => {
            attempt.happened();
            Ok(Tried::Done)
        }
        Err(error) => Err(Stop::Lost(attempt, refusal::of_query(&error, "exchange the names of the databases"))),
    }
}

fn in_use(refused: &Failure) -> Failure {
    let mut failure = Failure::unavailable(IN_USE, "Sessions come back to the database faster than they can be ended.")
        .hint("Stop what connects again and again (the causes name the sessions), then run the same command again.");
    failure.causes.clone_from(&refused.causes);
    failure
}

/// Ends the sessions until it is over, and counts them.
fn end_sessions(client: &mut Client, oids: &[u32], over: &AtomicBool) -> u64 {
    let mut ended = BTreeSet::new();
    while !over.load(Ordering::SeqCst) {
        let Ok(rows) = client.query(END_SESSIONS, &[&oids]) else { break };
        ended.extend(rows.iter().filter(|row| row.get(1)).map(|row| row.get::<_, i32>(0)));
        std::thread::sleep(EVERY);
    }
    u64::try_from(ended.len()).unwrap_or(u64::MAX)
}

/// Whether the exchange took place, by the server's own list; `None` where it cannot be asked.
fn read_back(admin: &mut Admin, second: &mut Client, call: &Call, exchange: &Exchange) -> Option<bool> {
    let judge = |client: &mut Client| {
        let catalog = databases(client).ok()?;
        Some(matches!(exchange.standing(&catalog), Ok(Standing::Done { .. })))
    };
    if let Some(done) = judge(second) {
        return Some(done);
    }
    let until = Instant::now() + READ_BACK;
    while Instant::now() < until {
        if let Ok(client) = admin.target.connect(call, MAINTENANCE) {
            admin.client = client;
            return judge(&mut admin.client);
        }
        call.pause(Duration::from_millis(250)).ok()?;
    }
    None
}

fn unknown(exchange: &Exchange, failure: Failure) -> Failure {
    let mut lost = Failure::unavailable(
        "swap_unknown",
        "The server was lost at the moment of the exchange, and nobody knows on which side of it.",
    )
    .hint(format!("When the server is up: svc-pgrestore swap --run {} finds out, and finishes it.", exchange.run));
    lost.causes = failure.causes;
    lost
}
