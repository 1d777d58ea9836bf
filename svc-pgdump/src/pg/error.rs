//! What PostgreSQL, its client library and TLS say, as a [`Failure`]: `postgres::Error` prints as "db error" only.

use std::error::Error as _;
use std::time::Duration;

use postgres::Error;
use postgres::error::{DbError, SqlState};
use svc_step::{Call, Failure, Status, StepResult, Stopped, watch};

use super::redact::{ServerMessage, severity};

/// The database from which others are created, renamed and dropped.
pub const MAINTENANCE: &str = "postgres";

/// The client library's words if the server requires a password and none was given.
const PASSWORD_MISSING: &str = "password missing";

/// Nothing answers at an address.
pub(super) const UNREACHABLE: &str = "postgres_unreachable";

/// A connection that failed; `certificate`: we showed one.
pub(super) fn of_connect(error: &Error, place: &str, user: &str, dbname: &str, certificate: bool) -> Failure {
    let Some(said) = error.as_db_error() else {
        let causes = chain(error);
        let text = causes.join(": ");
        let failure = if text.contains(PASSWORD_MISSING) {
            Failure::refused("access_denied", format!("The server at {place} requires a password for the user {user}."))
                .hint("Write it into ~/.pgpass (mode 0600), name a file of it with --password-file, or connect with --as over the socket.")
        } else if text.contains("TLS") || text.contains("SSL") {
            of_tls(&text, place, certificate)
        } else {
            unreachable(place)
        };
        return causes.into_iter().fold(failure, Failure::cause);
    };
    let code = said.code();
    let failure = if *code == SqlState::INVALID_CATALOG_NAME {
        Failure::not_found("data_not_found", format!("The server at {place} has no database {dbname}."))
            .hint(if dbname == MAINTENANCE {
                "Administrators connect to this one before they make or drop another: createdb postgres makes it; psql --list shows all."
            } else {
                "Name the right one with --dbname or SVC_DATABASE; psql --list shows all."
            })
    } else if *code == SqlState::INVALID_PASSWORD || *code == SqlState::INVALID_AUTHORIZATION_SPECIFICATION {
        Failure::refused("access_denied", format!("The server at {place} does not let the user {user} into {dbname}."))
            .hint("Check --username, the password in ~/.pgpass or --password-file, and the server's pg_hba.conf; --as USER connects over the socket as that user of the host.")
    } else if *code == SqlState::INSUFFICIENT_PRIVILEGE {
        Failure::refused("permission_denied", format!("The user {user} has no right to connect to {dbname} at {place}.")).hint(
            "GRANT CONNECT ON DATABASE gives it; or connect as the database's owner or as the administrator (--as postgres).",
        )
    } else if is_busy(code) {
        Failure::unavailable("server_busy", format!("The server at {place} takes no connection just now."))
            .hint("It is starting, stopping, or has too many connections: run the same command again later.")
    } else {
        Failure::failed("server_refused", format!("The server at {place} does not connect to {dbname}."))
            .hint("See the cause; the server's own log says more.")
    };
    failure.cause(describe(said))
}

/// Whether the server requires a password and none was given.
pub(super) fn lacks_password(failure: &Failure) -> bool {
    failure.code == "access_denied" && failure.causes.iter().any(|cause| cause.contains(PASSWORD_MISSING))
}

/// A statement that failed on a connection that stood; `action` completes the sentence "Cannot …".
pub fn of_query(error: &Error, action: &str) -> Failure {
    let Some(said) = error.as_db_error() else {
        let (what, check) = if watch::gave_up() {
            ("the server did not answer any more", "Check the server's processes, log and disk")
        } else {
            ("the connection to the server was lost", "Check whether the server runs")
        };
        let failure = Failure::unavailable("postgres_unreachable", format!("Cannot {action}: {what}."))
            .hint(format!("{check}; then run the same command again."));
        return chain(error).into_iter().fold(failure, Failure::cause);
    };
    let failure = match said.code() {
        code if *code == SqlState::INSUFFICIENT_PRIVILEGE => {
            Failure::refused("permission_denied", format!("Cannot {action}: the database user lacks the right."))
                .hint("Connect as the database's owner, or as the administrator (--as postgres).")
        }
        code if *code == SqlState::LOCK_NOT_AVAILABLE => {
            Failure::unavailable("server_busy", format!("Cannot {action}: another session holds a lock."))
                .hint("Wait until it has ended (pg_stat_activity shows it), then run the same command again.")
        }
        code if is_busy(code) => {
            Failure::unavailable("server_busy", format!("Cannot {action}: the server is shutting down, or ended the session."))
                .hint("Wait until the server runs, then run the same command again.")
        }
        code if *code == SqlState::DISK_FULL => {
            Failure::failed("out_of_space", format!("Cannot {action}: the server's disk is full."))
                .hint("Free disk space on the server, and run the same command again.")
        }
        _ => Failure::failed("server_refused", format!("Cannot {action}: the server refused it."))
            .hint("See the cause; the server's own log says more."),
    };
    failure.cause(describe(said))
}

pub(super) fn no_answer(place: &str, time: Duration) -> Failure {
    unreachable(place).cause(format!("no answer within {} s", time.as_secs()))
}

fn unreachable(place: &str) -> Failure {
    Failure::unavailable(UNREACHABLE, format!("PostgreSQL cannot be reached at {place}."))
        .hint("Check whether it runs (pg_lsclusters), and check --host and --port (SVC_DB_HOST, SVC_DB_PORT).")
}

/// With these SQLSTATEs the server ends the session: it says nothing of the statement. Class 08 is none of them: a function that connects to
/// another server says it, and the session stays.
pub const ENDED: [&str; 7] = ["25P03", "25P04", "57P01", "57P02", "57P03", "57P04", "57P05"];

/// Whether a statement that the server had begun was ended by somebody, or with its session.
pub fn is_interruption(code: &SqlState) -> bool {
    *code == SqlState::QUERY_CANCELED || ENDED.contains(&code.code())
}

fn is_busy(code: &SqlState) -> bool {
    *code == SqlState::TOO_MANY_CONNECTIONS || ENDED.contains(&code.code())
}

/// The server's own words: message, code, what it is about, hint and place, without the values of rows.
pub fn describe(error: &DbError) -> String {
    let message = ServerMessage::from(error);
    let text = format!("{}: {} ({})", severity(error), message.message(), message.code);
    std::iter::once(text).chain(message.more()).collect::<Vec<_>>().join("; ")
}

/// The error, and what caused it.
pub fn chain(error: &Error) -> Vec<String> {
    let mut texts = vec![error.to_string()];
    let mut source = error.source();
    while let Some(error) = source {
        texts.push(error.to_string());
        source = error.source();
    }
    texts
}

/// What OpenSSL says of the server's certificate (its words are English everywhere), what that means, and what to do.
const OF_CERTIFICATE: [(&str, &str, &str); 4] = [
    ("certificate has expired", "has expired", "Put a new certificate into the server; check this host's clock too (date -u)."),
    (
        "certificate is not yet valid",
        "is not valid yet",
        "Check this host's clock (date -u), and from when on the certificate is valid.",
    ),
    (
        "mismatch",
        "is for another host name",
        "Pass --host (PGHOST) with a name that is in the certificate, with PGHOSTADDR if it leads elsewhere; PGSSLMODE=verify-ca does without the name.",
    ),
    (
        "certificate verify failed",
        "is not signed by a trusted authority",
        "Name its authority's certificate in PGSSLROOTCERT; of a certificate that is its own authority, that certificate itself.",
    ),
];

fn of_tls(text: &str, place: &str, shown: bool) -> Failure {
    const OF_OURS: [&str; 3] = ["certificate", "unknown ca", "access denied"];
    let tls = |message, hint| Failure::refused("not_trusted", message).hint(hint);
    if text.contains(" alert ") && OF_OURS.iter().any(|words| text.contains(words)) {
        let message = match shown {
            true => format!("The server at {place} does not accept the client certificate."),
            false => format!("The server at {place} requires a client certificate, and none was shown."),
        };
        return tls(
            message,
            "Name one that the server's authority (ssl_ca_file) has signed and that is still valid in PGSSLCERT, and its key in PGSSLKEY.",
        );
    }
    match OF_CERTIFICATE.iter().find(|(words, ..)| text.contains(words)) {
        Some((_, what, hint)) => tls(format!("The certificate of the server at {place} {what}."), hint),
        None => tls(
            format!("The TLS connection to the server at {place} failed."),
            "Check PGSSLMODE, and whether the server has TLS (SHOW ssl).",
        ),
    }
}

/// A step that failed because the server had not answered when its time was over has timed out (6).
pub fn timed<T>(call: &Call, ended: StepResult<T>) -> StepResult<T> {
    ended.map_err(|Stopped { failure, result }| {
        let failure = match call.deadline().limit() {
            Some(limit) if failure.status == Status::Unavailable && call.deadline().passed() => of_the_limit(limit, failure),
            _ => failure,
        };
        Stopped { failure, result }
    })
}

fn of_the_limit(limit: Duration, failure: Failure) -> Failure {
    let mut late =
        Failure::timeout("timeout", format!("The step did not end within {} s: {}", limit.as_secs_f64(), failure.message));
    late.hint = failure.hint;
    late.causes.push(failure.code);
    late.causes.extend(failure.causes);
    late
}
