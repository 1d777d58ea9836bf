//! What the server says against a statement of the dump, with the line that it is about.

use postgres::Error;
use postgres::error::{DbError, ErrorPosition, SqlState};
use svc_pgdump::lexer::Position;
use svc_pgdump::{discreet, refusal};
use svc_step::Failure;

use super::super::failures::{lost, refused};

/// The server ended the session, and did not say no to the statement.
const ENDED: [SqlState; 4] =
    [SqlState::ADMIN_SHUTDOWN, SqlState::CRASH_SHUTDOWN, SqlState::CANNOT_CONNECT_NOW, SqlState::DATABASE_DROPPED];

/// The failure of a statement that begins at that place.
pub(super) fn statement(error: &Error, sql: &str, at: Position) -> Failure {
    let line = error.as_db_error().map_or(at.line, |said| line_within(said, sql, at));
    failure(error, line)
}

/// The failure of a COPY whose rows begin at that place.
pub(super) fn rows(error: &Error, at: Position) -> Failure {
    let row = error.as_db_error().and_then(|said| row_of(said.where_()?));
    failure(error, row.map_or(at.line, |row| at.line + row - 1))
}

/// Two sessions waited for each other, and this one was chosen to give way: once more, it may get through.
pub(super) fn gave_way(error: &Error) -> bool {
    error.code().is_some_and(|code| *code == SqlState::T_R_DEADLOCK_DETECTED)
}

fn failure(error: &Error, line: u64) -> Failure {
    let Some(said) = error.as_db_error() else {
        return lost(Some(line), &error.to_string()).cause(format!("{:#}", Chain(error)));
    };
    let message = discreet::message(said.code().code(), said.message());
    let mut failure = if ENDED.contains(said.code()) { lost(Some(line), &message) } else { refused(Some(line), &message) };
    if *said.code() == SqlState::DISK_FULL {
        failure = failure.hint("Free some room on the server's disk, and run the same command again.");
    }
    failure.causes.push(format!("{} ({})", said.severity(), said.code().code()));
    failure.causes.extend(refusal::more(said));
    failure
}

/// Where in the statement the server found it.
fn line_within(said: &DbError, sql: &str, at: Position) -> u64 {
    let Some(ErrorPosition::Original(letter)) = said.position() else { return at.line };
    let before = usize::try_from(*letter).unwrap_or(1).saturating_sub(1);
    at.line + sql.chars().take(before).filter(|letter| *letter == '\n').count() as u64
}

/// The row of `COPY items, line 5, column id: "x"`; the table's own name may hold anything.
fn row_of(place: &str) -> Option<u64> {
    let place = place.lines().find(|line| line.starts_with("COPY "))?;
    let mut numbers = place.split(", line ").skip(1).filter_map(|rest| {
        let digits = rest.split(|letter: char| !letter.is_ascii_digit()).next()?;
        digits.parse().ok()
    });
    // More than one, and it cannot be told which of them is meant.
    numbers.next().filter(|row| *row > 0 && numbers.next().is_none())
}

/// An error with what caused it.
struct Chain<'a>(&'a dyn std::error::Error);

impl std::fmt::Display for Chain<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}", self.0)?;
        let mut source = self.0.source();
        while let Some(error) = source {
            write!(out, ": {error}")?;
            source = error.source();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_row_is_told_only_where_it_is_sure() {
        assert_eq!(row_of("COPY items, line 5, column id: \"x\""), Some(5));
        assert_eq!(row_of("COPY items, line 12: \"1\t2\""), Some(12));
        assert_eq!(row_of("COPY items, line 5, column id: \"a, line 9\""), None);
        assert_eq!(row_of("PL/pgSQL function f() line 3 at RAISE\nCOPY items, line 7: \"x\""), Some(7));
        assert_eq!(row_of("SQL function \"f\" statement 1"), None);
    }
}
