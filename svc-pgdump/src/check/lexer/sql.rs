//! One SQL statement, byte by byte, to the semicolon that ends it: quotes, dollar quotes, comments, parentheses, and the
//! bodies of `BEGIN ATOMIC`, whose semicolons end nothing.

/// Only psql would understand it.
pub const BACKSLASH: &str = "a backslash stands inside a statement, which pg_dump never writes";
pub const QUOTE: &str = "a quote or a dollar stands in a statement where psql and the server may read it differently";
/// Servers take it for white space since version 16 only.
pub const VERTICAL_TAB: &str = "a vertical tab stands in a statement, which pg_dump never writes";
/// What sets whether a backslash escapes in every string: for the server at once, for psql from the next line on.
pub const SETS_STRINGS: [&[u8]; 2] = [b"set", b"standard_conforming_strings"];
/// A word longer than this is none that matters here.
const LONGEST_WORD: usize = 32;
/// A dollar quote's tag longer than this is not read.
const LONGEST_TAG: usize = 1024;
/// So many of its first words tell what a statement is.
const HEAD: usize = 4;

#[derive(Debug, Default)]
pub struct Sql {
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
    pub stdin_seen: bool,
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
pub enum Scan {
    On,
    Ended,
    /// It cannot be read; the byte that says so was not.
    Unreadable(&'static str),
}

impl Sql {
    /// The next statement, or with `is_comment` a comment.
    pub fn next(&mut self, is_comment: bool) {
        *self = Self { is_comment, always_escapes: self.always_escapes, ..Self::default() };
    }

    /// Of a COPY: rows follow.
    pub fn is_from_stdin(&self) -> bool {
        self.before == b"from" && self.last == b"stdin"
    }

    /// Reads until the statement ends; how many bytes of the input belong to it.
    pub fn read(&mut self, input: &[u8]) -> (usize, Scan) {
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

    pub fn head_is(&self, words: &[&[u8]]) -> bool {
        self.head.len() >= words.len() && self.head.iter().zip(words).all(|(word, wanted)| word == wanted)
    }
}

/// What identifiers, keywords and numbers are made of; bytes beyond ASCII are letters to PostgreSQL.
const fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}
