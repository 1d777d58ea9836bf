//! What PostgreSQL says, as a [`Failure`]: `postgres::Error` prints as "db error", so its parts are looked at.

use std::error::Error as _;
use std::time::Duration;

use postgres::Error;
use postgres::error::{DbError, SqlState};
use svc_step::Failure;

use crate::discreet::{self, Said};
use crate::silence;
use crate::target::{MAINTENANCE, Target};
use crate::tls;

/// The server wants a password and none was given.
pub(crate) fn wants_password(error: &Error) -> bool {
    error.as_db_error().is_none() && chain(error).iter().any(|text| text.contains("password missing"))
}

/// A connection that did not come about.
#[must_use]
pub fn of_connect(error: &Error, target: &Target, dbname: &str) -> Failure {
    let place = target.place();
    let user = target.user();
    let Some(said) = error.as_db_error() else {
        let causes = chain(error);
        let text = causes.join(": ");
        let tls_said = tls::said(error);
        let failure = if wants_password(error) {
            Failure::refused("password_missing", format!("The server at {place} wants a password for the user {user}."))
                .hint("Write it into ~/.pgpass (mode 0600), name a file of it with --password-file, or connect with --as over the socket.")
        } else if text.contains("channel binding") {
            Failure::refused("channel_binding_missing", format!("The server at {place} does not bind the password to its certificate."))
                .hint("PGCHANNELBINDING=require needs TLS (PGSSLMODE) and a password kept as SCRAM-SHA-256; unset it if the connection may do without.")
        } else if tls_said.is_some() || text.contains("TLS") {
            tls::trouble(tls_said, target)
        } else {
            unreachable(target)
        };
        return with_causes(failure, causes);
    };
    let code = said.code();
    let failure = if *code == SqlState::INVALID_CATALOG_NAME {
        Failure::not_found("database_not_found", format!("The server at {place} has no database {dbname}."))
            .hint(if dbname == MAINTENANCE {
                "Administrators connect to this one before they make or drop another: createdb postgres makes it; psql --list shows all."
            } else {
                "Name the right one with --dbname or SVC_DATABASE; psql --list shows all."
            })
    } else if *code == SqlState::INVALID_PASSWORD || *code == SqlState::INVALID_AUTHORIZATION_SPECIFICATION {
        Failure::refused("postgres_access_denied", format!("The server at {place} does not let the user {user} into {dbname}."))
            .hint("Check --username, the password in ~/.pgpass or --password-file, and the server's pg_hba.conf; --as USER connects over the socket as that user of the host.")
    } else if *code == SqlState::INSUFFICIENT_PRIVILEGE {
        Failure::refused("postgres_no_right", format!("The user {user} has no right to connect to {dbname} at {place}.")).hint(
            "GRANT CONNECT ON DATABASE gives it; or connect as the database's owner or as the administrator (--as postgres).",
        )
    } else if is_busy(code) {
        busy(&place)
    } else {
        Failure::failed("postgres_connect", format!("The server at {place} does not connect to {dbname}."))
            .hint("See the cause; the server's own log says more.")
    };
    failure.cause(words(said))
}

/// A statement that failed on a connection that stood; `action` completes the sentence "Cannot …".
#[must_use]
pub fn of_query(error: &Error, action: &str) -> Failure {
    let Some(said) = error.as_db_error() else {
        let (what, look) = if silence::is_given_up() {
            ("the server did not answer any more", "Look at the server's processes, log and disk: it is there and says nothing")
        } else {
            ("the connection to the server was lost", "Look whether the server runs")
        };
        let failure = Failure::unavailable("postgres_lost", format!("Cannot {action}: {what}."))
            .hint(format!("{look}; then run the same command again."));
        return with_causes(failure, chain(error));
    };
    let code = said.code();
    let failure = if *code == SqlState::INSUFFICIENT_PRIVILEGE {
        Failure::refused("postgres_no_right", format!("Cannot {action}: the database user lacks the right."))
            .hint("Connect as the database's owner, or as the administrator (--as postgres).")
    } else if *code == SqlState::LOCK_NOT_AVAILABLE {
        Failure::unavailable("postgres_locked", format!("Cannot {action}: another session holds a lock."))
            .hint("Wait until it has ended (pg_stat_activity shows it), then run the same command again.")
    } else if is_busy(code) {
        Failure::unavailable("postgres_busy", format!("Cannot {action}: the server is shutting down, or ended the session."))
            .hint("Wait until the server runs, then run the same command again.")
    } else if *code == SqlState::DISK_FULL {
        Failure::failed("postgres_disk_full", format!("Cannot {action}: the server's disk is full."))
            .hint("Free disk space on the server, and run the same command again.")
    } else {
        Failure::failed("postgres_refused", format!("Cannot {action}: the server says no."))
            .hint("See the cause; the server's own log says more.")
    };
    failure.cause(words(said))
}

/// The server accepted nothing in time.
pub(crate) fn no_answer(target: &Target, time: Duration) -> Failure {
    unreachable(target).cause(format!("no answer within {} s", time.as_secs()))
}

fn unreachable(target: &Target) -> Failure {
    Failure::unavailable("postgres_unreachable", format!("PostgreSQL cannot be reached at {}.", target.place()))
        .hint("Look whether it runs (pg_lsclusters), and check --host and --port (SVC_DB_HOST, SVC_DB_PORT).")
}

fn busy(place: &str) -> Failure {
    Failure::unavailable("postgres_busy", format!("The server at {place} takes no connection just now."))
        .hint("It starts, stops, or has too many connections: run the same command again later.")
}

fn is_busy(code: &SqlState) -> bool {
    [
        SqlState::TOO_MANY_CONNECTIONS,
        SqlState::CANNOT_CONNECT_NOW,
        SqlState::ADMIN_SHUTDOWN,
        SqlState::CRASH_SHUTDOWN,
        SqlState::DATABASE_DROPPED,
    ]
    .contains(code)
}

/// The server's own words: message, code, what it is about, hint and place, without the values of rows.
#[must_use]
pub fn words(said: &DbError) -> String {
    let told = Said::from(said);
    let text = format!("{}: {} ({})", discreet::severity(said), told.message(), told.code);
    std::iter::once(text).chain(told.more()).collect::<Vec<_>>().join("; ")
}

fn chain(error: &Error) -> Vec<String> {
    let mut texts = vec![error.to_string()];
    let mut source = error.source();
    while let Some(error) = source {
        texts.push(error.to_string());
        source = error.source();
    }
    texts
}

fn with_causes(mut failure: Failure, causes: Vec<String>) -> Failure {
    failure.causes.extend(causes);
    failure
}
