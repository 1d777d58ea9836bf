//! The reader of plain dumps: SQL outside of COPY blocks, rows inside of them.
//!
//! A dump is not made of lines: a comment or a function's body may hold a line that looks like `COPY … FROM stdin;`, `\.` or
//! one of pg_dump's headings. So SQL is read as psql reads it, and COPY counts only at the start of a statement.
//!
//! Bytes are pushed in as they come ([`Lexer::feed`]) and handed on as pieces of units; memory does not grow with the dump.
//! The pieces, joined, are the input.

use std::fmt;

use memchr::memmem;

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

// Why a dump is incomplete or cannot be read.
const IN_COMMENT: &str = "it ends inside a comment";
const IN_STATEMENT: &str = "it ends inside a statement";
const IN_COMMAND: &str = "it ends inside a psql command";
const IN_ROWS: &str = "it ends inside a COPY block, so rows are missing";
/// Only psql would understand it.
const BACKSLASH: &str = "a backslash stands inside a statement, which pg_dump never writes";
const QUOTE: &str = "a quote or a dollar stands in a statement where psql and the server may read it differently";
/// Psql takes the line for ended there.
const ZERO: &str = "it has a byte 0, which pg_dump never writes";
/// Servers take it for white space since version 16 only.
const VERTICAL_TAB: &str = "a vertical tab stands in a statement, which pg_dump never writes";
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
        self.sql = Sql { always_escapes: self.sql.always_escapes, ..Sql::default() };
        Some(match rest {
            b"-" | b"/" => return None,
            [b'-', b'-', ..] | [b'/', b'*', ..] => {
                self.sql.is_comment = true;
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
                    () if is_copy && self.sql.before == b"from" && self.sql.last == b"stdin" => State::CopyLineEnd,
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

// One SQL statement, byte by byte, to the semicolon that ends it: quotes, dollar quotes, comments, parentheses, and the
// bodies of `BEGIN ATOMIC`, whose semicolons end nothing.

/// What sets whether a backslash escapes in every string: for the server at once, for psql from the next line on.
const SETS_STRINGS: [&[u8]; 2] = [b"set", b"standard_conforming_strings"];
/// A word longer than this is none that matters here.
const LONGEST_WORD: usize = 32;
/// A dollar quote's tag longer than this is not read.
const LONGEST_TAG: usize = 1024;
/// So many of its first words tell what a statement is.
const HEAD: usize = 4;

#[derive(Debug, Default)]
struct Sql {
    mode: Mode,
    /// It ends with the comment that it starts with.
    is_comment: bool,
    word: Vec<u8>,
    tag: Vec<u8>,
    head: Vec<Vec<u8>>,
    /// The last two words, if nothing stands between and behind them.
    before: Vec<u8>,
    last: Vec<u8>,
    parentheses: u32,
    atomic: u32,
    stdin_seen: bool,
    /// What stands directly before the word, and before the last byte.
    before_word: u8,
    previous: u8,
    /// A string with escapes was the last thing but space and comments.
    escapes_ended: bool,
    /// `standard_conforming_strings = off`: a backslash escapes in every string. It outlives a statement.
    always_escapes: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Mode {
    #[default]
    Plain,
    Word,
    Name,
    Text {
        escapes: bool,
    },
    TextEscape,
    /// Behind a quote in a string with escapes: its end, unless another quote follows.
    TextClosed,
    Exponent,
    Dash,
    Slash,
    LineComment,
    BlockComment {
        depth: u32,
        previous: u8,
    },
    DollarTag,
    DollarBody {
        matched: usize,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scan {
    On,
    Ended,
    /// It cannot be read; the byte that says so was not.
    Unreadable(&'static str),
}

impl Sql {
    /// Reads until the statement ends; how many bytes of the input belong to it.
    fn read(&mut self, input: &[u8]) -> (usize, Scan) {
        let mut at = 0;
        while let Some(byte) = input.get(at) {
            match self.byte(*byte) {
                Scan::On => at += 1,
                Scan::Ended => return (at + 1, Scan::Ended),
                unreadable @ Scan::Unreadable(_) => return (at, unreadable),
            }
            at += self.skip(input.get(at..).unwrap_or_default());
        }
        (at, Scan::On)
    }

    /// How many of the next bytes decide nothing: the inside of long literals is skipped.
    fn skip(&self, rest: &[u8]) -> usize {
        let found = match self.mode {
            Mode::Text { escapes: false } => memchr::memchr(b'\'', rest),
            Mode::Text { escapes: true } => memchr::memchr2(b'\'', b'\\', rest),
            Mode::DollarBody { matched: 0 } => memchr::memchr(b'$', rest),
            Mode::LineComment => memchr::memchr2(b'\n', b'\r', rest),
            _ => Some(0),
        };
        found.unwrap_or(rest.len())
    }

    fn byte(&mut self, byte: u8) -> Scan {
        let scan = self.read_byte(byte);
        self.previous = byte;
        if self.is_comment && self.mode == Mode::Plain { Scan::Ended } else { scan }
    }

    fn read_byte(&mut self, byte: u8) -> Scan {
        match self.mode {
            Mode::Plain => return self.plain(byte),
            Mode::Word => return self.in_word(byte),
            Mode::Name if byte == b'"' => self.mode = Mode::Plain,
            Mode::Text { escapes: true } if byte == b'\\' => self.mode = Mode::TextEscape,
            Mode::Text { escapes: true } if byte == b'\'' => self.mode = Mode::TextClosed,
            // A doubled quote closes the string and opens it again, which comes to the same.
            Mode::Text { escapes: false } if byte == b'\'' => self.mode = Mode::Plain,
            Mode::TextEscape => self.mode = Mode::Text { escapes: true },
            // A doubled quote.
            Mode::TextClosed if byte == b'\'' => self.mode = Mode::Text { escapes: true },
            Mode::TextClosed => {
                self.escapes_ended = true;
                return self.plain_again(byte);
            }
            Mode::Exponent if byte.is_ascii_digit() => {
                self.add_to_word(byte);
                self.mode = Mode::Word;
            }
            // Psql takes the sign for a part of the number all the same, so that no comment begins with it.
            Mode::Exponent => return Scan::Unreadable(QUOTE),
            Mode::Dash if byte == b'-' => self.mode = Mode::LineComment,
            Mode::Slash if byte == b'*' => self.mode = Mode::BlockComment { depth: 1, previous: 0 },
            Mode::Dash | Mode::Slash => {
                self.token();
                return self.plain_again(byte);
            }
            // What psql finds behind a carriage return is not part of the comment.
            Mode::LineComment if matches!(byte, b'\n' | b'\r') => self.mode = Mode::Plain,
            Mode::BlockComment { depth, previous } => {
                self.mode = match (previous, byte) {
                    (b'/', b'*') => Mode::BlockComment { depth: depth.saturating_add(1), previous: 0 },
                    (b'*', b'/') if depth == 1 => Mode::Plain,
                    (b'*', b'/') => Mode::BlockComment { depth: depth - 1, previous: 0 },
                    _ => Mode::BlockComment { depth, previous: byte },
                };
            }
            Mode::DollarTag => return self.dollar_tag(byte),
            Mode::DollarBody { matched } => self.dollar_body(byte, matched),
            Mode::Name | Mode::Text { .. } | Mode::LineComment => {}
        }
        Scan::On
    }

    fn plain_again(&mut self, byte: u8) -> Scan {
        self.mode = Mode::Plain;
        self.plain(byte)
    }

    fn plain(&mut self, byte: u8) -> Scan {
        match byte {
            space if space.is_ascii_whitespace() => return Scan::On,
            b'-' => self.mode = Mode::Dash,
            b'/' => self.mode = Mode::Slash,
            b';' if self.parentheses == 0 && self.atomic == 0 => {
                if self.head_is(&SETS_STRINGS) && matches!(self.last.as_slice(), b"on" | b"off") {
                    self.always_escapes = self.last == b"off";
                }
                return Scan::Ended;
            }
            b'\\' => return Scan::Unreadable(BACKSLASH),
            b'\x0b' => return Scan::Unreadable(VERTICAL_TAB),
            // The server reads on with escapes, if a line ends between the two; psql reads it as a string of its own.
            b'\'' if self.escapes_ended => return Scan::Unreadable(QUOTE),
            letter if is_word(letter) => {
                self.escapes_ended = false;
                self.before_word = self.previous;
                self.word.clear();
                self.add_to_word(letter);
                self.mode = Mode::Word;
            }
            other => {
                self.token();
                match other {
                    // `U&'…'` has no escapes of quotes, whatever else has.
                    b'\'' if self.always_escapes && self.previous == b'&' => return Scan::Unreadable(QUOTE),
                    b'\'' => self.mode = Mode::Text { escapes: self.always_escapes },
                    b'"' => self.mode = Mode::Name,
                    b'(' => self.parentheses = self.parentheses.saturating_add(1),
                    b')' => self.parentheses = self.parentheses.saturating_sub(1),
                    b'$' => {
                        self.tag.clear();
                        self.tag.push(b'$');
                        self.mode = Mode::DollarTag;
                    }
                    _ => {}
                }
            }
        }
        Scan::On
    }

    fn in_word(&mut self, byte: u8) -> Scan {
        let is_number = self.word.first().is_some_and(u8::is_ascii_digit);
        // Behind a colon, psql takes letters and digits for the name of a variable, and nothing else.
        let is_variable = self.before_word == b':';
        if is_word(byte) || (byte == b'$' && !is_number && !is_variable) {
            self.add_to_word(byte);
            return Scan::On;
        }
        if byte == b'$' {
            return Scan::Unreadable(QUOTE);
        }
        let has_exponent = self.word.last() == Some(&b'e') && (is_number || self.before_word == b'.');
        if matches!(byte, b'-' | b'+') && has_exponent {
            self.mode = Mode::Exponent;
            return Scan::On;
        }
        if byte == b'\'' {
            // Where a number ends that letters follow is another thing to each version of psql, and decides what the quote is.
            let escapes = match self.word.as_slice() {
                _ if is_number || is_variable || self.before_word == b'.' => return Scan::Unreadable(QUOTE),
                b"e" => true,
                b"b" | b"x" => false,
                _ => self.always_escapes,
            };
            self.token();
            self.mode = Mode::Text { escapes };
            return Scan::On;
        }
        self.end_word();
        self.plain_again(byte)
    }

    fn add_to_word(&mut self, byte: u8) {
        // One byte more than the longest says that it was longer.
        if self.word.len() <= LONGEST_WORD {
            self.word.push(byte.to_ascii_lowercase());
        }
    }

    fn end_word(&mut self) {
        let word = std::mem::take(&mut self.word);
        if self.is_routine() && self.parentheses == 0 {
            match (self.atomic, word.as_slice()) {
                (0, b"atomic") if self.last == b"begin" => self.atomic = 1,
                (0, _) => {}
                (_, b"case") => self.atomic = self.atomic.saturating_add(1),
                (_, b"end") => self.atomic -= 1,
                _ => {}
            }
        }
        if self.head.len() < HEAD {
            self.head.push(word.clone());
        }
        self.stdin_seen |= self.last == b"from" && word == b"stdin";
        self.before = std::mem::replace(&mut self.last, word);
    }

    /// Something that is neither word, space nor comment: the words before it are not the last ones any more.
    fn token(&mut self) {
        self.before.clear();
        self.last.clear();
        self.escapes_ended = false;
        // What begins with anything but a word is no such statement.
        if self.head.len() < HEAD {
            self.head.push(Vec::new());
        }
    }

    fn dollar_tag(&mut self, byte: u8) -> Scan {
        let first = self.tag.len() == 1;
        if byte == b'$' {
            self.tag.push(byte);
            self.mode = Mode::DollarBody { matched: 0 };
        } else if is_word(byte) && !(first && byte.is_ascii_digit()) {
            if self.tag.len() == LONGEST_TAG {
                return Scan::Unreadable(QUOTE);
            }
            self.tag.push(byte);
        } else {
            // No dollar quote after all: what followed the dollar is a word.
            let tag = std::mem::take(&mut self.tag);
            self.before_word = b'$';
            self.word.clear();
            tag.iter().skip(1).for_each(|byte| self.add_to_word(*byte));
            if self.word.is_empty() {
                return self.plain_again(byte);
            }
            self.mode = Mode::Word;
            return self.in_word(byte);
        }
        Scan::On
    }

    fn dollar_body(&mut self, byte: u8, matched: usize) {
        let matched = match self.tag.get(matched) {
            Some(wanted) if *wanted == byte => matched + 1,
            // Only its ends are dollars, so a dollar can only be its start.
            _ => usize::from(byte == b'$'),
        };
        self.mode = if matched == self.tag.len() { Mode::Plain } else { Mode::DollarBody { matched } };
    }

    fn is_routine(&self) -> bool {
        [b"function".as_slice(), b"procedure"]
            .iter()
            .any(|kind| self.head_is(&[b"create", kind]) || self.head_is(&[b"create", b"or", b"replace", kind]))
    }

    fn head_is(&self, words: &[&[u8]]) -> bool {
        self.head.len() >= words.len() && self.head.iter().zip(words).all(|(word, wanted)| word == wanted)
    }
}

/// What identifiers, keywords and numbers are made of; bytes beyond ASCII are letters to PostgreSQL.
const fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

#[cfg(test)]
mod tests;
