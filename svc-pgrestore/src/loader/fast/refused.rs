//! What the server says against a statement of the dump, with the line that it is about.

use postgres::Error;
use postgres::error::{DbError, ErrorPosition, SqlState};
use svc_pgdump::check::lexer::Position;
use svc_pgdump::pg::{self, Said};
use svc_step::Failure;

use super::super::failures::{lost, told};

/// The failure of a statement that begins at that place.
pub(super) fn statement(error: &Error, sql: &str, at: Position) -> Failure {
    let line = error.as_db_error().map_or(at.line, |said| line_within(said, sql, at));
    failure(error, line)
}

/// The failure of a COPY whose rows begin at that place.
pub(super) fn rows(error: &Error, at: Position) -> Failure {
    let row = error.as_db_error().and_then(|said| Said::from(said).row());
    failure(error, row.map_or(at.line, |row| at.line + row.line - 1))
}

/// Two sessions waited for each other, and this one was chosen to give way: once more, it may get through.
pub(super) fn gave_way(error: &Error) -> bool {
    error.code().is_some_and(|code| *code == SqlState::T_R_DEADLOCK_DETECTED)
}

fn failure(error: &Error, line: u64) -> Failure {
    let Some(said) = error.as_db_error() else {
        return lost(Some(line), &error.to_string()).cause(format!("{:#}", Chain(error)));
    };
    told(Some(line), &Said::from(said), &pg::severity(said), false)
}

fn line_within(said: &DbError, sql: &str, at: Position) -> u64 {
    let Some(ErrorPosition::Original(letter)) = said.position() else { return at.line };
    let before = usize::try_from(*letter).unwrap_or(1).saturating_sub(1);
    at.line + sql.chars().take(before).filter(|letter| *letter == '\n').count() as u64
}

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
