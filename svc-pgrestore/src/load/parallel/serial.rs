//! Statements one after another. A setting of the session goes to every connection.

use std::convert::Infallible;

use svc_pgdump::check::lexer::{Kind, Lexer, Piece, Position};
use svc_step::Failure;

use super::super::ARRAY_NULLS;
use super::super::errors;
use super::super::filter::left_out;
use super::super::plan::Span;
use super::super::statement::{StatementKind, kind_of};
use super::sessions::Sessions;
use super::work::{Work, text};

const REFRESH: &str = "REFRESH MATERIALIZED VIEW ";
/// How much of a statement people are shown.
const SHOWN: usize = 60;

/// The reader of what runs one by one. It is one for the whole dump, since a setting may say how strings are to be read.
pub(super) struct Serial<'w, 'a> {
    work: &'w Work<'a>,
    lexer: Lexer,
    chunk: Vec<u8>,
}

impl<'w, 'a> Serial<'w, 'a> {
    pub(super) fn new(work: &'w Work<'a>) -> Self {
        Self { work, lexer: Lexer::default(), chunk: Vec::new() }
    }

    /// Runs the statements of a part of the dump.
    pub(super) fn run(&mut self, span: Span, sessions: &mut Sessions) -> Result<(), Failure> {
        let Self { work, lexer, chunk } = self;
        lexer.go_on_at(span.at);
        let mut unit = Vec::new();
        let mut begun = span.at;
        // The pieces of one chunk; statements are run when the chunk has been read.
        let mut whole: Vec<(Position, Vec<u8>)> = Vec::new();
        work.read(span, chunk, |bytes| {
            let taken: Result<(), Infallible> = lexer.feed(bytes, &mut |piece: Piece<'_>| {
                if piece.kind == Kind::Statement {
                    if unit.is_empty() {
                        begun = piece.at;
                    }
                    unit.extend_from_slice(piece.bytes);
                    if piece.last {
                        whole.push((begun, std::mem::take(&mut unit)));
                    }
                }
                Ok(())
            });
            match taken {
                Ok(()) => {}
                Err(never) => match never {},
            }
            for (at, statement) in whole.drain(..) {
                execute(work, sessions, &text(statement)?, at)?;
            }
            work.advance(bytes.len() as u64);
            Ok::<(), Failure>(())
        })
    }
}

fn execute(work: &Work<'_>, sessions: &mut Sessions, sql: &str, at: Position) -> Result<(), Failure> {
    if left_out(sql.as_bytes(), work.server) {
        return Ok(());
    }
    work.at(&shown(sql));
    let told = |error: &postgres::Error| errors::of_statement(error, sql, at);
    if matches!(kind_of(sql), StatementKind::Setting { .. }) {
        return sessions.all().try_for_each(|client| client.batch_execute(sql).map_err(|error| told(&error)));
    }
    if sql.starts_with(REFRESH) {
        // Its query is read as the database's settings have it, unlike the rows of a COPY.
        let sql = format!("RESET array_nulls; {sql} {ARRAY_NULLS}");
        return sessions.first.batch_execute(&sql).map_err(|error| told(&error));
    }
    sessions.first.batch_execute(sql).map_err(|error| told(&error))
}

pub(super) fn shown(sql: &str) -> String {
    let words: Vec<&str> = sql.split_whitespace().take(8).collect();
    words.join(" ").trim_end_matches(';').chars().take(SHOWN).collect()
}
