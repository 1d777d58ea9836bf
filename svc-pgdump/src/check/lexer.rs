//! The reader of plain dumps: SQL outside of COPY blocks, rows inside of them.
//!
//! A dump is not made of lines: a comment or a function's body may hold a line that looks like `COPY … FROM stdin;`, `\.` or
//! one of pg_dump's headings. So SQL is read as psql reads it, and COPY counts only where it starts a statement.
//!
//! Bytes are pushed in as they come ([`Lexer::feed`]) and handed on as pieces of units; memory does not grow with the dump.
//! The pieces, joined, are the input.

use std::fmt;
use std::io::Read;

use memchr::memmem;

pub use super::sql::Trouble;
use super::sql::{Scan, Sql, is_space, nest};

/// How much of a file is read at once.
const CHUNK: usize = 256 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// White space between units, and a byte-order mark before the first one.
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

    pub fn behind(self, bytes: &[u8]) -> Self {
        let lines = memchr::memchr_iter(b'\n', bytes).count();
        Self { byte: self.byte + bytes.len() as u64, line: self.line + lines as u64 }
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
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Between,
    InComment,
    InStatement,
    InCommand,
    InRows,
    After(Trouble),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    pub end: End,
    /// Where that has begun (of a COPY block, its statement); the end itself where it is between two units.
    pub at: Position,
}

/// The state of reading. See the module's own words.
#[derive(Debug)]
pub struct Lexer {
    state: State,
    sql: Sql,
    /// Where the next byte stands that is handed on.
    at: Position,
    /// Where the last unit has begun; rows belong to the statement before them.
    begun: Position,
    open: bool,
}

#[derive(Debug, Clone, Copy)]
enum State {
    /// At the start of the input, with this much of a byte-order mark held back.
    Start(&'static [u8]),
    Between,
    /// One byte that may start a comment, held back until the next one is seen.
    MaybeComment(&'static [u8]),
    LineComment,
    BlockComment {
        depth: u32,
        previous: u8,
    },
    Command,
    Statement,
    /// Behind the semicolon of `COPY … FROM stdin;`.
    CopyLineEnd,
    /// At the start of a row, with this much of the line `\.` held back.
    RowStart(&'static [u8]),
    Row,
    Stopped(Trouble),
}

/// One step: `held` (of earlier input) and `size` bytes of the input belong to a unit.
struct Step {
    kind: Kind,
    held: &'static [u8],
    size: usize,
    last: bool,
}

impl Step {
    const fn of(kind: Kind, size: usize) -> Self {
        Self { kind, held: b"", size, last: false }
    }

    const fn last(kind: Kind, size: usize) -> Self {
        Self { kind, held: b"", size, last: true }
    }
}

impl Default for Lexer {
    fn default() -> Self {
        let start = Position::START;
        Self { state: State::Start(b""), sql: Sql::default(), at: start, begun: start, open: false }
    }
}

impl Lexer {
    /// Reads on; `take` is given the pieces.
    pub fn feed<E>(&mut self, input: &[u8], take: &mut impl FnMut(Piece<'_>) -> Result<(), E>) -> Result<(), E> {
        // Nothing that PostgreSQL writes holds a zero; psql leaves out what follows it on its line.
        let (input, from_zero) = input.split_at(memchr::memchr(0, input).unwrap_or(input.len()));
        self.read_on(input, take)?;
        if from_zero.is_empty() {
            return Ok(());
        }
        let held = self.held();
        if !matches!(self.state, State::Stopped(_)) {
            self.state = State::Stopped(Trouble::Zero);
        }
        if !held.is_empty() {
            take(self.piece(Kind::Unread, held, false))?;
        }
        take(self.piece(Kind::Unread, from_zero, false))
    }

    fn read_on<E>(&mut self, input: &[u8], take: &mut impl FnMut(Piece<'_>) -> Result<(), E>) -> Result<(), E> {
        let mut rest = input;
        while let Some(first) = rest.first().copied() {
            let Some(Step { kind, held, size, last }) = self.step(first, rest) else {
                // The byte is held back in the state.
                rest = rest.split_first().map(|(_, after)| after).unwrap_or_default();
                continue;
            };
            let (bytes, after) = rest.split_at_checked(size).unwrap_or((rest, &[]));
            if !held.is_empty() {
                take(self.piece(kind, held, last && bytes.is_empty()))?;
            }
            if !bytes.is_empty() {
                take(self.piece(kind, bytes, last))?;
            }
            rest = after;
        }
        Ok(())
    }

    /// The input continues elsewhere: what lies between was handed on before, or is left out. Only between two units.
    pub const fn go_on_at(&mut self, place: Position) {
        self.at = place;
    }

    /// What is held back of the input.
    const fn held(&self) -> &'static [u8] {
        match self.state {
            State::Start(held) | State::MaybeComment(held) | State::RowStart(held) => held,
            _ => b"",
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
        self.at = at.behind(bytes);
        Piece { kind, bytes, last, at }
    }

    /// The input has ended; what was held back is given out.
    pub fn finish<E>(mut self, take: &mut impl FnMut(Piece<'_>) -> Result<(), E>) -> Result<Ended, E> {
        let (end, kind) = match self.state {
            State::Between | State::Start(b"") => (End::Between, Kind::Space),
            State::Start(_) | State::MaybeComment(_) | State::Statement => (End::InStatement, Kind::Statement),
            State::LineComment | State::BlockComment { .. } => (End::InComment, Kind::Comment),
            State::Command => (End::InCommand, Kind::Command),
            State::CopyLineEnd | State::RowStart(_) | State::Row => (End::InRows, Kind::Rows),
            State::Stopped(trouble) => (End::After(trouble), Kind::Unread),
        };
        let held = self.held();
        if !held.is_empty() {
            take(self.piece(kind, held, false))?;
        }
        Ok(Ended { end, at: if end == End::Between { self.at } else { self.begun } })
    }

    /// One step on input that starts with `first`; `None` where that byte alone is held back.
    fn step(&mut self, first: u8, rest: &[u8]) -> Option<Step> {
        match self.state {
            State::Start(held) => self.start(held, first, rest),
            State::Between => self.between(first, rest),
            State::MaybeComment(held) => Some(self.maybe_comment(held, first)),
            State::LineComment => Some(self.line(Kind::Comment, rest)),
            State::Command => Some(self.line(Kind::Command, rest)),
            State::BlockComment { depth, previous } => Some(self.block_comment(depth, previous, rest)),
            State::Statement => Some(self.statement(rest)),
            State::CopyLineEnd => Some(self.copy_line_end(rest)),
            State::RowStart(held) => self.row_start(held, first),
            State::Row => Some(self.row(rest)),
            State::Stopped(_) => Some(Step::of(Kind::Unread, rest.len())),
        }
    }

    fn start(&mut self, held: &'static [u8], first: u8, rest: &[u8]) -> Option<Step> {
        let next: &'static [u8] = match (held, first) {
            (b"", 0xEF) => b"\xEF",
            (b"\xEF", 0xBB) => b"\xEF\xBB",
            (b"\xEF\xBB", 0xBF) => {
                self.state = State::Between;
                return Some(Step { kind: Kind::Space, held, size: 1, last: false });
            }
            (b"", _) => {
                self.state = State::Between;
                return self.between(first, rest);
            }
            _ => return Some(self.statement_after(held)),
        };
        self.state = State::Start(next);
        None
    }

    fn between(&mut self, first: u8, rest: &[u8]) -> Option<Step> {
        match first {
            b'-' => self.state = State::MaybeComment(b"-"),
            b'/' => self.state = State::MaybeComment(b"/"),
            b'\\' => {
                self.state = State::Command;
                return Some(Step::of(Kind::Command, 1));
            }
            space if is_space(space) => {
                let size = rest.iter().position(|byte| !is_space(*byte)).unwrap_or(rest.len());
                return Some(Step::of(Kind::Space, size));
            }
            _ => {
                self.sql.start();
                self.state = State::Statement;
                return Some(self.statement(rest));
            }
        }
        None
    }

    fn maybe_comment(&mut self, held: &'static [u8], first: u8) -> Step {
        let (state, kind, size) = match (held, first) {
            (b"-", b'-') => (State::LineComment, Kind::Comment, 1),
            (b"/", b'*') => (State::BlockComment { depth: 1, previous: 0 }, Kind::Comment, 1),
            _ => return self.statement_after(held),
        };
        self.state = state;
        Step { kind, held, size, last: false }
    }

    /// What was held back is the start of a statement: what it is decides nothing later on, but that it stood there does.
    fn statement_after(&mut self, held: &'static [u8]) -> Step {
        self.sql.start();
        for byte in held {
            self.sql.byte(*byte);
        }
        self.state = State::Statement;
        Step { kind: Kind::Statement, held, size: 0, last: false }
    }

    fn line(&mut self, kind: Kind, rest: &[u8]) -> Step {
        // A comment ends at a carriage return too: what psql finds behind it on the line is not part of it.
        let end = if kind == Kind::Comment { memchr::memchr2(b'\n', b'\r', rest) } else { memchr::memchr(b'\n', rest) };
        match end {
            Some(at) => {
                self.state = State::Between;
                Step::last(kind, at + 1)
            }
            None => Step::of(kind, rest.len()),
        }
    }

    fn block_comment(&mut self, mut depth: u32, mut previous: u8, rest: &[u8]) -> Step {
        for (at, byte) in rest.iter().enumerate() {
            (depth, previous) = nest(depth, previous, *byte);
            if depth == 0 {
                self.state = State::Between;
                return Step::last(Kind::Comment, at + 1);
            }
        }
        self.state = State::BlockComment { depth, previous };
        Step::of(Kind::Comment, rest.len())
    }

    fn statement(&mut self, rest: &[u8]) -> Step {
        match self.sql.read(rest) {
            (_, Scan::On) => Step::of(Kind::Statement, rest.len()),
            (size, Scan::Trouble(trouble)) => {
                self.state = State::Stopped(trouble);
                Step::of(Kind::Statement, size)
            }
            (size, Scan::Ended) => {
                self.state = match () {
                    () if self.sql.copies_stdin() => State::CopyLineEnd,
                    () if self.sql.copies_stdin_oddly() => State::Stopped(Trouble::CopyOptions),
                    () => State::Between,
                };
                Step::last(Kind::Statement, size)
            }
        }
    }

    fn copy_line_end(&mut self, rest: &[u8]) -> Step {
        let blank = rest.iter().position(|byte| !matches!(byte, b' ' | b'\t' | b'\r'));
        let Some(at) = blank else { return Step::of(Kind::Space, rest.len()) };
        if rest.get(at) == Some(&b'\n') {
            self.state = State::RowStart(b"");
            Step::of(Kind::Space, at + 1)
        } else {
            self.state = State::Stopped(Trouble::CopyLine);
            Step::of(Kind::Space, at)
        }
    }

    fn row_start(&mut self, held: &'static [u8], first: u8) -> Option<Step> {
        let (next, ends): (&'static [u8], bool) = match (held, first) {
            (b"", b'\\') => (b"\\", false),
            (b"\\", b'.') => (b"\\.", false),
            (b"\\.", b'\r') => (b"\\.\r", false),
            (b"\\." | b"\\.\r", b'\n') => (b"", true),
            _ => {
                self.state = State::Row;
                return Some(Step { kind: Kind::Rows, held, size: 0, last: false });
            }
        };
        if ends {
            self.state = State::Between;
            return Some(Step { kind: Kind::RowsEnd, held, size: 1, last: true });
        }
        self.state = State::RowStart(next);
        None
    }

    fn row(&mut self, rest: &[u8]) -> Step {
        let size = match memmem::find(rest, b"\n\\.") {
            Some(at) => at + 1,
            // The end of the input may cut the line that ends the block.
            None if rest.ends_with(b"\n\\") => rest.len() - 1,
            None => rest.len(),
        };
        if rest.get(size - 1) == Some(&b'\n') {
            self.state = State::RowStart(b"");
        }
        Step::of(Kind::Rows, size)
    }
}

pub fn read<E>(mut input: impl Read, mut take: impl FnMut(Piece<'_>) -> Result<(), E>) -> Result<Ended, E>
where
    E: From<std::io::Error>,
{
    let mut lexer = Lexer::default();
    let mut chunk = vec![0; CHUNK];
    loop {
        match input.read(&mut chunk) {
            Ok(0) => return lexer.finish(&mut take),
            Ok(size) => lexer.feed(chunk.get(..size).unwrap_or_default(), &mut take)?,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests;
