//! How a load fails: the server refuses a line of the dump, or goes away. The SQLSTATE decides, never the message, which comes in the
//! language of the server.

use postgres::Error;
use postgres::error::{DbError, ErrorPosition};
use svc_pgdump::check::lexer::Position;
use svc_pgdump::check::tokens::{extension, tokens};
use svc_pgdump::pg::{self, ServerMessage};
use svc_step::Failure;

/// The server's disk is full.
const DISK_FULL: &str = "53100";
/// There is no such table, function, or type.
const NOT_FOUND: [&str; 3] = ["42P01", "42883", "42704"];

pub(super) fn unreadable(error: &std::io::Error) -> Failure {
    Failure::fault("The dump cannot be read to its end and sent to the server.")
        .hint("Check its disk; another copy of the dump may be intact.")
        .cause(error.to_string())
}

/// What the server said at that line of the dump: it ended the session, or it said no.
fn of_message(line: u64, said: &ServerMessage, severity: &str) -> Failure {
    let message = said.message();
    let mut failure = match said.code.as_str() {
        code if pg::ENDED.contains(&code) => lost(line, &message),
        DISK_FULL => refused(line, &message).hint("Free disk space on the server, and run the same command again."),
        _ => refused(line, &message),
    };
    failure.causes.push(format!("{severity} ({})", said.code));
    failure.causes.extend(said.more());
    match said.function().filter(|_| NOT_FOUND.contains(&said.code.as_str())) {
        Some(function) => failure.cause(format!("in the function {function}")).hint(format!(
            "A dump is loaded with an empty search_path, and {function} names something without its schema. In the live database: ALTER FUNCTION {function} SET search_path = public, pg_temp (the schemas that it needs); then take a new dump."
        )),
        None => failure,
    }
}

/// The server says no to what stands in that line of the dump.
pub(crate) fn refused(line: u64, words: &str) -> Failure {
    let words = words.trim_end_matches('.');
    Failure::failed("server_refused", format!("The dump could not be loaded (line {line} of the dump): {words}."))
        .hint("Check that line of the dump and the causes; when it has what it needs, run the same command again.")
}

/// The server went away while it was at that line of the dump.
pub(crate) fn lost(line: u64, words: &str) -> Failure {
    let words = words.trim_end_matches('.');
    let message = format!("The server ended the connection while the dump was loaded (line {line} of the dump): {words}.");
    Failure::unavailable("postgres_unreachable", message)
        .hint("Check the server's log; when it is up, run the same command again.")
}

/// The failure of a statement that begins at that place.
pub(crate) fn of_statement(error: &Error, sql: &str, at: Position) -> Failure {
    let line = error.as_db_error().map_or(at.line, |said| line_within(said, sql, at));
    let failure = failure(error, line);
    match extension(&tokens(sql)).filter(|_| failure.code == "server_refused") {
        Some(name) => failure.cause(format!("the extension {name}")).further_hint(
            "An extension that serves the database of one name alone (pg_cron: cron.database_name) is in no copy: --in-place loads under that name.",
        ),
        None => failure,
    }
}

/// The failure of a COPY whose rows begin at that place.
pub(crate) fn of_rows(error: &Error, at: Position) -> Failure {
    let row = error.as_db_error().and_then(|said| ServerMessage::from(said).row());
    failure(error, row.map_or(at.line, |(_, line)| at.line + line - 1))
}

fn failure(error: &Error, line: u64) -> Failure {
    let Some(said) = error.as_db_error() else {
        return lost(line, &error.to_string()).cause(pg::chain(error).join(": "));
    };
    of_message(line, &ServerMessage::from(said), &pg::severity(said))
}

fn line_within(said: &DbError, sql: &str, at: Position) -> u64 {
    let Some(ErrorPosition::Original(letter)) = said.position() else { return at.line };
    let before = usize::try_from(*letter).unwrap_or(1).saturating_sub(1);
    at.line + sql.chars().take(before).filter(|letter| *letter == '\n').count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ended_session_is_unreachable_not_refused() {
        for (codes, status, failure) in [
            ("57P01 57P02 57P03 57P04 57P05 25P03 25P04", 5, "postgres_unreachable"),
            // A statement that was too long for a limit, or was cancelled; another server that cannot be reached; a full disk.
            ("57014 08001 53100 42P01", 1, "server_refused"),
        ] {
            for code in codes.split(' ') {
                let said = ServerMessage { code: code.to_owned(), message: "no".to_owned(), ..ServerMessage::default() };
                let found = of_message(7, &said, "FATAL");
                assert_eq!((found.status.code(), found.code.as_str()), (status, failure), "{code}");
                assert_eq!(found.causes, [format!("FATAL ({code})")]);
            }
        }
    }
}
