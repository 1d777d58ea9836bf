//! What PostgreSQL, its client library and TLS say, as a [`Failure`]: `postgres::Error` prints as "db error" only.

use std::error::Error as _;
use std::time::Duration;

use postgres::Error;
use postgres::error::{DbError, SqlState};
use rustls::{AlertDescription, CertificateError};
use svc_step::Failure;

use super::redact::{Said, severity};
use super::watchdog;

/// The database from which others are created, renamed and dropped.
pub const MAINTENANCE: &str = "postgres";

/// The server wants a password and none was given.
pub(super) fn wants_password(error: &Error) -> bool {
    error.as_db_error().is_none() && chain(error).iter().any(|text| text.contains("password missing"))
}

/// A connection that failed; `certificate`: we showed one.
pub(super) fn of_connect(error: &Error, place: &str, user: &str, dbname: &str, certificate: bool) -> Failure {
    let Some(said) = error.as_db_error() else {
        let causes = chain(error);
        let text = causes.join(": ");
        let of_tls = tls_error(error);
        let failure = if wants_password(error) {
            Failure::refused("password_missing", format!("The server at {place} wants a password for the user {user}."))
                .hint("Write it into ~/.pgpass (mode 0600), name a file of it with --password-file, or connect with --as over the socket.")
        } else if text.contains("channel binding") {
            Failure::refused("channel_binding_missing", format!("The server at {place} does not bind the password to its certificate."))
                .hint("PGCHANNELBINDING=require needs TLS (PGSSLMODE) and a password kept as SCRAM-SHA-256; unset it if the connection may do without.")
        } else if of_tls.is_some() || text.contains("TLS") {
            of_tls_error(of_tls, place, certificate)
        } else {
            unreachable(place)
        };
        return causes.into_iter().fold(failure, Failure::cause);
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
        Failure::unavailable("postgres_busy", format!("The server at {place} takes no connection just now."))
            .hint("It starts, stops, or has too many connections: run the same command again later.")
    } else {
        Failure::failed("postgres_connect", format!("The server at {place} does not connect to {dbname}."))
            .hint("See the cause; the server's own log says more.")
    };
    failure.cause(words(said))
}

/// A statement that failed on a connection that stood; `action` completes the sentence "Cannot …".
pub fn of_query(error: &Error, action: &str) -> Failure {
    let Some(said) = error.as_db_error() else {
        let (what, look) = if watchdog::is_given_up() {
            ("the server did not answer any more", "Check the server's processes, log and disk")
        } else {
            ("the connection to the server was lost", "Check whether the server runs")
        };
        let failure = Failure::unavailable("postgres_lost", format!("Cannot {action}: {what}."))
            .hint(format!("{look}; then run the same command again."));
        return chain(error).into_iter().fold(failure, Failure::cause);
    };
    let failure = match said.code() {
        code if *code == SqlState::INSUFFICIENT_PRIVILEGE => {
            Failure::refused("postgres_no_right", format!("Cannot {action}: the database user lacks the right."))
                .hint("Connect as the database's owner, or as the administrator (--as postgres).")
        }
        code if *code == SqlState::LOCK_NOT_AVAILABLE => {
            Failure::unavailable("postgres_locked", format!("Cannot {action}: another session holds a lock."))
                .hint("Wait until it has ended (pg_stat_activity shows it), then run the same command again.")
        }
        code if is_busy(code) => {
            Failure::unavailable("postgres_busy", format!("Cannot {action}: the server is shutting down, or ended the session."))
                .hint("Wait until the server runs, then run the same command again.")
        }
        code if *code == SqlState::DISK_FULL => {
            Failure::failed("postgres_disk_full", format!("Cannot {action}: the server's disk is full."))
                .hint("Free disk space on the server, and run the same command again.")
        }
        _ => Failure::failed("postgres_refused", format!("Cannot {action}: the server refused it."))
            .hint("See the cause; the server's own log says more."),
    };
    failure.cause(words(said))
}

pub(super) fn no_answer(place: &str, time: Duration) -> Failure {
    unreachable(place).cause(format!("no answer within {} s", time.as_secs()))
}

fn unreachable(place: &str) -> Failure {
    Failure::unavailable("postgres_unreachable", format!("PostgreSQL cannot be reached at {place}."))
        .hint("Check whether it runs (pg_lsclusters), and check --host and --port (SVC_DB_HOST, SVC_DB_PORT).")
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
pub fn words(said: &DbError) -> String {
    let told = Said::from(said);
    let text = format!("{}: {} ({})", severity(said), told.message(), told.code);
    std::iter::once(text).chain(told.more()).collect::<Vec<_>>().join("; ")
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

/// The error of TLS, wherever the client library has put it.
fn tls_error<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a rustls::Error> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(said) = error.downcast_ref() {
            return Some(said);
        }
        // What is inside of an error of input and output is not its source.
        let inside = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        if let Some(said) = inside.and_then(|inside| inside.downcast_ref()) {
            return Some(said);
        }
        next = error.source();
    }
    None
}

fn of_tls_error(error: Option<&rustls::Error>, place: &str, shown: bool) -> Failure {
    let failure = match error {
        Some(rustls::Error::InvalidCertificate(why)) => Some(of_certificate(why, place)),
        Some(rustls::Error::InvalidCertRevocationList(_)) => Some(no_list(place)),
        Some(rustls::Error::AlertReceived(alert)) => of_client_certificate(*alert, place, shown),
        _ => None,
    };
    failure.unwrap_or_else(|| {
        Failure::refused("postgres_tls", format!("The TLS connection to the server at {place} failed."))
            .hint("Check PGSSLMODE, and whether the server has TLS (SHOW ssl).")
    })
}

fn of_certificate(why: &CertificateError, place: &str) -> Failure {
    match why {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            Failure::refused("postgres_certificate_expired", format!("The certificate of the server at {place} has expired."))
                .hint("Put a new certificate into the server; check this host's clock too (date -u).")
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            Failure::refused("postgres_certificate_expired", format!("The certificate of the server at {place} is not valid yet."))
                .hint("Check this host's clock (date -u), and from when on the certificate is valid.")
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => Failure::refused(
            "postgres_certificate_other_name",
            format!("The certificate of the server at {place} is for another host name."),
        )
        .hint("Say --host (PGHOST) with a name that is in the certificate, with PGHOSTADDR if it leads elsewhere; PGSSLMODE=verify-ca does without the name."),
        CertificateError::Revoked => {
            Failure::refused("postgres_not_trusted", format!("The certificate of the server at {place} is revoked."))
                .hint("Put a new certificate into the server.")
        }
        CertificateError::UnknownRevocationStatus => no_list(place),
        _ => Failure::refused(
            "postgres_not_trusted",
            format!("The certificate of the server at {place} is not signed by a trusted authority."),
        )
        .hint("Name its authority's certificate in PGSSLROOTCERT; of a certificate that is its own authority, that certificate itself."),
    }
}

fn no_list(place: &str) -> Failure {
    Failure::refused(
        "postgres_not_trusted",
        format!("No revocation list is at hand of who signed the certificate of the server at {place}."),
    )
    .hint("Put the list of each authority into the file of PGSSLCRL (~/.postgresql/root.crl), or unset it.")
}

/// What the server has against our certificate, or the lack of one.
fn of_client_certificate(alert: AlertDescription, place: &str, shown: bool) -> Option<Failure> {
    let about_it = matches!(
        alert,
        AlertDescription::CertificateRequired
            | AlertDescription::BadCertificate
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnknownCA
            | AlertDescription::AccessDenied
    );
    let sentence = match shown {
        true => format!("The server at {place} does not accept the client certificate."),
        false => format!("The server at {place} wants a client certificate, and none was shown."),
    };
    about_it.then(|| {
        Failure::refused("postgres_client_certificate", sentence).hint(
            "Name one that the server's authority (ssl_ca_file) has signed and that is still valid in PGSSLCERT, and its key in PGSSLKEY.",
        )
    })
}
