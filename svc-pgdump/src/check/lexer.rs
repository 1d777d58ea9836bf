//! The reader of plain dumps: SQL outside of COPY blocks, rows inside of them.
//!
//! A dump is not made of lines: a comment or a function's body may hold a line that looks like `COPY … FROM stdin;`, `\.` or
//! one of pg_dump's headings. So SQL is read as psql reads it, and COPY counts only at the start of a statement.
//!
//! Bytes are pushed in as they come ([`Lexer::feed`]) and handed on as pieces of units; memory does not grow with the dump.
//! The pieces, joined, are the input.

mod sql;

use std::fmt;

use memchr::memmem;

use self::sql::{SETS_STRINGS, Scan, Sql};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// White space between units.
    Space,
    Comment,
    /// A statement to its semicolon; comments inside of it belong to it.
    Statement,
    /// A line that starts with a backslash: an order to psql.
    Command,
    /// Rows of a COPY block, each with its line end.
    Rows,
    /// The line `\.` that ends a COPY block.
    RowsEnd,
    Unread,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    pub byte: u64,
    pub line: u64,
}

impl Position {
    pub const START: Self = Self { byte: 0, line: 1 };

    pub const fn behind(self, bytes: u64, lines: u64) -> Self {
        Self { byte: self.byte + bytes, line: self.line + lines }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "line {}, byte {}", self.line, self.byte)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece<'a> {
    pub kind: Kind,
    pub bytes: &'a [u8],
    pub last: bool,
    pub at: Position,
    /// How many lines end in it.
    pub lines: u64,
}

/// More of a unit is not kept: a COPY of 1,600 columns with the longest names fits.
const LONGEST_UNIT: usize = 256 * 1024;

/// A comment, a statement or a command as a whole; rows as they come, and the line that ends them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unit<'a> {
    pub kind: Kind,
    /// Its bytes, of a long one the first ones.
    pub bytes: &'a [u8],
    pub at: Position,
    pub size: u64,
    /// How many lines end in it.
    pub lines: u64,
}

impl Unit<'_> {
    pub const fn is_whole(&self) -> bool {
        self.bytes.len() as u64 == self.size
    }
}

/// Reads whole units.
#[derive(Debug, Default)]
pub struct Units {
    lexer: Lexer,
    /// The unit that has begun, with where it did.
    bytes: Vec<u8>,
    begun: Option<Position>,
}

impl Units {
    /// Reads on; `take` is given the units.
    pub fn feed(&mut self, input: &[u8], take: &mut impl FnMut(&Unit<'_>)) {
        let Self { lexer, bytes, begun } = self;
        lexer.feed(input, &mut |piece| {
            let Piece { kind, at, lines, .. } = piece;
            let size = piece.bytes.len() as u64;
            match kind {
                Kind::Space | Kind::Unread => return,
                Kind::Rows | Kind::RowsEnd => return take(&Unit { kind, bytes: piece.bytes, at, size, lines }),
                Kind::Statement | Kind::Comment | Kind::Command => {}
            }
            let free = piece.bytes.get(..LONGEST_UNIT - bytes.len()).unwrap_or(piece.bytes);
            if piece.last && begun.is_none() {
                return take(&Unit { kind, bytes: free, at, size, lines });
            }
            bytes.extend_from_slice(free);
            let start = *begun.get_or_insert(at);
            if piece.last {
                let end = at.behind(size, lines);
                take(&Unit { kind, bytes, at: start, size: end.byte - start.byte, lines: end.line - start.line });
                (*begun, *bytes) = (None, Vec::new());
            }
        });
    }

    /// The input has ended; a unit that has not is not given.
    pub fn finish(self) -> Ended {
        self.lexer.finish(&mut |_| ())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// What is wrong with the end, as a clause; `None` between two units.
    pub reason: Option<&'static str>,
    /// Where that has begun (of a COPY block, its statement); the end itself where it is between two units.
    pub at: Position,
}

const IN_COMMENT: &str = "it ends inside a comment";
const IN_STATEMENT: &str = "it ends inside a statement";
const IN_COMMAND: &str = "it ends inside a psql command";
const IN_ROWS: &str = "it ends inside a COPY block, so rows are missing";
/// Psql takes the line for ended there.
const ZERO: &str = "it has a byte 0, which pg_dump never writes";
/// Where its rows end is not known.
const COPY_OPTIONS: &str = "it has a COPY with options, which pg_dump never writes";
const LINE: &str = "something stands behind a COPY or a SET standard_conforming_strings on its line, which pg_dump never writes";

const ROWS_ENDS: [&[u8]; 2] = [b"\\.\n", b"\\.\r\n"];

/// The state of reading. See the module's own words.
#[derive(Debug)]
pub struct Lexer {
    state: State,
    sql: Sql,
    /// The last bytes of the input, if what they are depends on the next ones.
    held: Vec<u8>,
    /// Where the next byte stands that is handed on.
    at: Position,
    /// Where the last unit has begun; rows belong to the statement before them.
    begun: Position,
    open: bool,
}

#[derive(Debug, Clone, Copy)]
enum State {
    Between,
    Comment,
    Command,
    Statement,
    /// Behind the semicolon of `COPY … FROM stdin;`, and of `SET standard_conforming_strings = …;`.
    CopyLineEnd,
    SetLineEnd,
    RowStart,
    Row,
    Stopped(&'static str),
}

/// So many bytes of the input belong to a unit.
struct Step {
    kind: Kind,
    size: usize,
    last: bool,
}

impl Default for Lexer {
    fn default() -> Self {
        let at = Position::START;
        Self { state: State::Between, sql: Sql::default(), held: Vec::new(), at, begun: at, open: false }
    }
}

impl Lexer {
    /// Reads on; `take` is given the pieces.
    pub fn feed(&mut self, input: &[u8], take: &mut impl FnMut(Piece<'_>)) {
        // Nothing that PostgreSQL writes holds a zero; psql leaves out what follows it on its line.
        let (input, from_zero) = input.split_at(memchr::memchr(0, input).unwrap_or(input.len()));
        let mut joined = std::mem::take(&mut self.held);
        let mut rest = input;
        if !joined.is_empty() {
            joined.extend_from_slice(input);
            rest = &joined;
        }
        while !rest.is_empty() {
            let Some(Step { kind, size, last }) = self.step(rest) else {
                self.held = rest.to_vec();
                break;
            };
            let (bytes, after) = rest.split_at_checked(size).unwrap_or((rest, &[]));
            if !bytes.is_empty() {
                take(self.piece(kind, bytes, last));
            }
            rest = after;
        }
        if from_zero.is_empty() {
            return;
        }
        if !matches!(self.state, State::Stopped(_)) {
            self.state = State::Stopped(ZERO);
        }
        let held = std::mem::take(&mut self.held);
        for bytes in [&held, from_zero].into_iter().filter(|bytes| !bytes.is_empty()) {
            take(self.piece(Kind::Unread, bytes, false));
        }
    }

    fn piece<'a>(&mut self, kind: Kind, bytes: &'a [u8], last: bool) -> Piece<'a> {
        let at = self.at;
        if !self.open && matches!(kind, Kind::Comment | Kind::Statement | Kind::Command) {
            self.begun = at;
            self.open = true;
        }
        if last {
            self.open = false;
        }
        let lines = memchr::memchr_iter(b'\n', bytes).count() as u64;
        self.at = at.behind(bytes.len() as u64, lines);
        Piece { kind, bytes, last, at, lines }
    }

    /// The input has ended; what was held back is given out.
    pub fn finish(mut self, take: &mut impl FnMut(Piece<'_>)) -> Ended {
        let held = std::mem::take(&mut self.held);
        let (reason, kind) = match self.state {
            State::Between | State::SetLineEnd if held.is_empty() => return Ended { reason: None, at: self.at },
            State::Between | State::SetLineEnd | State::Statement => (IN_STATEMENT, Kind::Statement),
            State::Comment => (IN_COMMENT, Kind::Comment),
            State::Command => (IN_COMMAND, Kind::Command),
            State::CopyLineEnd | State::RowStart | State::Row => (IN_ROWS, Kind::Rows),
            State::Stopped(reason) => (reason, Kind::Unread),
        };
        if !held.is_empty() {
            take(self.piece(kind, &held, false));
        }
        Ended { reason: Some(reason), at: self.begun }
    }

    /// One step; `None` if more input decides.
    fn step(&mut self, rest: &[u8]) -> Option<Step> {
        match self.state {
            State::Between => self.between(rest),
            State::Comment => Some(self.comment(rest)),
            State::Command => Some(self.command(rest)),
            State::Statement => Some(self.statement(rest)),
            State::CopyLineEnd => Some(self.line_end(rest, State::RowStart)),
            State::SetLineEnd => Some(self.line_end(rest, State::Between)),
            State::RowStart => self.row_start(rest),
            State::Row => Some(self.row(rest)),
            State::Stopped(_) => Some(Step { kind: Kind::Unread, size: rest.len(), last: false }),
        }
    }

    fn between(&mut self, rest: &[u8]) -> Option<Step> {
        let spaces = rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        if spaces > 0 {
            return Some(Step { kind: Kind::Space, size: spaces, last: false });
        }
        let is_comment = matches!(rest, [b'-', b'-', ..] | [b'/', b'*', ..]);
        self.sql.next(is_comment);
        Some(match rest {
            b"-" | b"/" => return None,
            _ if is_comment => {
                self.state = State::Comment;
                self.comment(rest)
            }
            [b'\\', ..] => {
                self.state = State::Command;
                self.command(rest)
            }
            _ => {
                self.state = State::Statement;
                self.statement(rest)
            }
        })
    }

    fn comment(&mut self, rest: &[u8]) -> Step {
        let (size, scan) = self.sql.read(rest);
        self.unit(Kind::Comment, (scan == Scan::Ended).then_some(size), rest)
    }

    fn command(&mut self, rest: &[u8]) -> Step {
        self.unit(Kind::Command, memchr::memchr(b'\n', rest).map(|at| at + 1), rest)
    }

    /// A unit of this size, or one that continues behind the input.
    fn unit(&mut self, kind: Kind, size: Option<usize>, rest: &[u8]) -> Step {
        let Some(size) = size else { return Step { kind, size: rest.len(), last: false } };
        self.state = State::Between;
        Step { kind, size, last: true }
    }

    fn statement(&mut self, rest: &[u8]) -> Step {
        match self.sql.read(rest) {
            (_, Scan::On) => Step { kind: Kind::Statement, size: rest.len(), last: false },
            (size, Scan::Unreadable(reason)) => {
                self.state = State::Stopped(reason);
                Step { kind: Kind::Statement, size, last: false }
            }
            (size, Scan::Ended) => {
                let is_copy = self.sql.head_is(&[b"copy"]);
                self.state = match () {
                    () if is_copy && self.sql.is_from_stdin() => State::CopyLineEnd,
                    () if is_copy && self.sql.stdin_seen => State::Stopped(COPY_OPTIONS),
                    () if self.sql.head_is(&SETS_STRINGS) => State::SetLineEnd,
                    () => State::Between,
                };
                Step { kind: Kind::Statement, size, last: true }
            }
        }
    }

    fn line_end(&mut self, rest: &[u8], next: State) -> Step {
        let blank = rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\r')).count();
        let (state, size) = match rest.get(blank) {
            None => (self.state, blank),
            Some(b'\n') => (next, blank + 1),
            Some(_) => (State::Stopped(LINE), blank),
        };
        self.state = state;
        Step { kind: Kind::Space, size, last: false }
    }

    fn row_start(&mut self, rest: &[u8]) -> Option<Step> {
        if let Some(end) = ROWS_ENDS.into_iter().find(|end| rest.starts_with(end)) {
            self.state = State::Between;
            return Some(Step { kind: Kind::RowsEnd, size: end.len(), last: true });
        }
        if ROWS_ENDS.into_iter().any(|end| end.starts_with(rest)) {
            return None;
        }
        self.state = State::Row;
        Some(self.row(rest))
    }

    fn row(&mut self, rest: &[u8]) -> Step {
        let size = match memmem::find(rest, b"\n\\.") {
            Some(at) => at + 1,
            // The end of the input may cut the line that ends the block.
            None if rest.ends_with(b"\n\\") => rest.len() - 1,
            None => rest.len(),
        };
        if rest.get(size - 1) == Some(&b'\n') {
            self.state = State::RowStart;
        }
        Step { kind: Kind::Rows, size, last: false }
    }
}

#[cfg(test)]
mod tests;
