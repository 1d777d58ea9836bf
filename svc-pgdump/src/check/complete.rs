//! Is a plain dump complete, what does it hold, and what does it need? Found out in one pass, while it is written or read. A complete
//! one has its header, its last comment, the key of `\restrict` repeated by `\unrestrict`, and ends between two statements.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::fmt;
use std::path::Path;

use postgres_protocol::escape::escape_identifier;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_step::Failure;

use super::encoding::Text;
use super::lexer::{End, Ended, Kind, Lexer, Piece, Trouble};
use super::tokens::{self, Token, copy_target};
use crate::compression::Packed;

/// The longest statement whose text is read: a COPY of 1,600 columns with the longest names fits.
const LONGEST_STATEMENT: usize = 256 * 1024;
/// The longest comment or command whose text is read.
const LONGEST_LINE: usize = 4096;

/// An option of columns that some servers keep for themselves (seen on 15.20). The `pg_dump` of such a server leaves it out; one that
/// does not know of it writes it down, and a server that does not know of it refuses it.
pub const INTERNAL_OPTION: &str = "pg_attver";

/// One COPY block.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TableRows {
    /// Its schema, unquoted; `null` where the dump names none.
    pub schema: Option<String>,
    /// Its name, unquoted.
    pub name: String,
    /// The rows of the block. A table may have several blocks (partitions that are loaded through their root).
    pub row_count: u64,
}

impl TableRows {
    /// The table, quoted for SQL.
    pub fn quoted(&self) -> String {
        let name = escape_identifier(&self.name);
        self.schema.as_ref().map_or_else(|| name.clone(), |schema| format!("{}.{name}", escape_identifier(schema)))
    }
}

impl fmt::Display for TableRows {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.schema.iter().try_for_each(|schema| write!(out, "{schema}."))?;
        out.write_str(&self.name)
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Dump {
    pub size_bytes: u64,
    pub sha256: String,
    /// Its file, where that is compressed; else it is the text.
    pub packed: Option<Packed>,
    /// Why it is incomplete, as a clause ("it ends inside a COPY block").
    pub reason: Option<String>,
    /// The server that it is of, as its header says: `15.18 (Debian 15.18-0+deb12u1)`.
    pub server_version: Option<String>,
    /// The pg_dump that wrote it, as its header says.
    pub pg_dump_version: Option<String>,
    /// Every COPY block, in the order of the file.
    pub tables: Vec<TableRows>,
    /// Roles that must be there before it is loaded, sorted.
    pub roles: Vec<String>,
    pub extensions: Vec<String>,
    /// Commands to psql other than `\restrict` and `\unrestrict`, such as `\connect db` (`pg_dump --create`).
    pub commands: Vec<String>,
    pub statement_count: u64,
    /// Whether it holds INSERT statements (`--inserts`), whose rows are not counted.
    pub has_inserts: bool,
    /// Whether it sets `transaction_timeout`, which servers up to 16 do not know.
    pub sets_transaction_timeout: bool,
    pub has_large_objects: bool,
    pub has_subscriptions: bool,
    /// Whether it sets [`INTERNAL_OPTION`] of a column.
    pub sets_internal_option: bool,
}

impl Dump {
    pub const fn is_complete(&self) -> bool {
        self.reason.is_none()
    }

    pub fn server_major(&self) -> Option<u32> {
        self.server_version.as_deref().and_then(major)
    }

    pub fn file_size_bytes(&self) -> u64 {
        self.packed.as_ref().map_or(self.size_bytes, |packed| packed.size_bytes)
    }

    pub fn file_sha256(&self) -> &str {
        self.packed.as_ref().map_or(&self.sha256, |packed| &packed.sha256)
    }

    pub fn row_count(&self) -> u64 {
        self.tables.iter().map(|table| table.row_count).sum()
    }

    pub fn require_complete(self, path: &Path) -> Result<Self, Failure> {
        match &self.reason {
            None => Ok(self),
            Some(reason) => Err(incomplete(path, reason)),
        }
    }
}

pub fn incomplete(path: &Path, reason: &str) -> Failure {
    Failure::invalid("dump_incomplete", format!("The dump {} is incomplete: {reason}.", path.display()))
        .hint("Do not restore it: use another dump, or take a new one with svc-pgdump.")
}

/// The major version in `15.18 (Debian …)`, `18beta1`.
pub fn major(version: &str) -> Option<u32> {
    let digits: String = version.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

#[derive(Debug, Default)]
pub struct Examiner {
    lexer: Lexer,
    size: u64,
    seen: Seen,
}

impl Examiner {
    /// `beside` is given the pieces too.
    pub fn feed(&mut self, bytes: &[u8], beside: &mut impl FnMut(Piece<'_>)) {
        self.size += bytes.len() as u64;
        if self.seen.start.len() < 8 {
            self.seen.start.extend(bytes.iter().take(8 - self.seen.start.len()));
        }
        let seen = &mut self.seen;
        let fed: Result<(), Infallible> = self.lexer.feed(bytes, &mut |piece| {
            seen.piece(piece);
            beside(piece);
            Ok(())
        });
        match fed {
            Ok(()) => {}
            Err(never) => match never {},
        }
    }

    pub const fn size_bytes(&self) -> u64 {
        self.size
    }

    pub fn last_table(&self) -> Option<&TableRows> {
        self.seen.dump.tables.last()
    }

    pub const fn tables_count(&self) -> usize {
        self.seen.dump.tables.len()
    }

    /// All bytes have passed; whoever let them pass has hashed them.
    pub fn finish(self, sha256: String) -> Dump {
        let Self { lexer, size, seen } = self;
        let ended: Result<Ended, Infallible> = lexer.finish(&mut |_| Ok(()));
        let ended = match ended {
            Ok(ended) => ended,
            Err(never) => match never {},
        };
        let reason = seen.reason(ended);
        Dump {
            size_bytes: size,
            sha256,
            reason,
            roles: seen.roles.into_iter().collect(),
            extensions: seen.extensions.into_iter().collect(),
            ..seen.dump
        }
    }
}

/// What has been seen of a dump so far.
#[derive(Debug, Default)]
struct Seen {
    start: Vec<u8>,
    unit: Vec<u8>,
    encoding: Text,
    header: bool,
    cluster: bool,
    trailer: Trailer,
    restrict_key: Option<String>,
    unrestrict_key: Option<String>,
    dump: Dump,
    roles: BTreeSet<String>,
    extensions: BTreeSet<String>,
    /// Whether it sets `standard_conforming_strings` otherwise than pg_dump does.
    sets_strings: bool,
    /// Whether it has a COPY from or to a file or a program of the server.
    copies_elsewhere: bool,
}

/// How much of the last comment has been seen, with nothing but it behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Trailer {
    #[default]
    None,
    /// `-- PostgreSQL database dump complete`.
    Line,
    /// And the `--` that closes it.
    Closed,
}

impl Seen {
    fn piece(&mut self, piece: Piece<'_>) {
        let longest = match piece.kind {
            Kind::Space | Kind::RowsEnd | Kind::Unread => return,
            Kind::Rows => {
                let rows = memchr::memchr_iter(b'\n', piece.bytes).count() as u64;
                if let Some(table) = self.dump.tables.last_mut() {
                    table.row_count += rows;
                }
                return;
            }
            Kind::Statement => LONGEST_STATEMENT,
            Kind::Comment | Kind::Command => LONGEST_LINE,
        };
        let room = longest.saturating_sub(self.unit.len());
        self.unit.extend(piece.bytes.iter().take(room));
        if !piece.last {
            return;
        }
        let unit = std::mem::take(&mut self.unit);
        let whole = unit.len() < longest;
        let text = self.encoding.decode(&unit);
        match piece.kind {
            Kind::Comment => self.comment(text.trim_end()),
            Kind::Command => self.command(text.trim_end()),
            _ => self.statement(&text, whole),
        }
    }

    fn comment(&mut self, text: &str) {
        match text {
            "-- PostgreSQL database dump" if self.dump.statement_count == 0 => self.header = true,
            "-- PostgreSQL database cluster dump" => self.cluster = true,
            "-- PostgreSQL database dump complete" => self.trailer = Trailer::Line,
            "--" => {
                if self.trailer == Trailer::Line {
                    self.trailer = Trailer::Closed;
                }
            }
            other => {
                self.trailer = Trailer::None;
                if let Some(version) = other.strip_prefix("-- Dumped from database version ") {
                    self.dump.server_version.get_or_insert_with(|| version.to_owned());
                }
                if let Some(version) = other.strip_prefix("-- Dumped by pg_dump version ") {
                    self.dump.pg_dump_version.get_or_insert_with(|| version.to_owned());
                }
            }
        }
    }

    fn command(&mut self, text: &str) {
        if let Some(key) = text.strip_prefix("\\restrict ") {
            self.restrict_key = Some(key.to_owned());
            self.unrestrict_key = None;
            self.trailer = Trailer::None;
        } else if let Some(key) = text.strip_prefix("\\unrestrict ") {
            self.unrestrict_key = Some(key.to_owned());
        } else {
            self.trailer = Trailer::None;
            self.dump.commands.push(text.to_owned());
        }
    }

    fn statement(&mut self, text: &str, whole: bool) {
        self.trailer = Trailer::None;
        self.dump.statement_count += 1;
        self.sets_strings |= sets_strings(text, whole);
        let starts = |start: &str| text.get(..start.len()).is_some_and(|head| head.eq_ignore_ascii_case(start));
        if starts("INSERT ") {
            self.dump.has_inserts = true;
        } else if starts("SET client_encoding") {
            let named = tokens::tokens(text).into_iter().find_map(|token| token.text().map(Text::named));
            self.encoding = named.unwrap_or_default();
        } else if starts("SET transaction_timeout") {
            self.dump.sets_transaction_timeout = true;
        } else if starts("SELECT pg_catalog.lo_create") || starts("SELECT pg_catalog.lo_open") {
            self.dump.has_large_objects = true;
        } else if starts("CREATE SUBSCRIPTION ") {
            self.dump.has_subscriptions = true;
        } else if tokens::starts_with_word(text, "COPY") {
            self.copy(text);
        } else if whole {
            let named = ["ALTER ", "GRANT ", "REVOKE ", "CREATE SCHEMA", "CREATE POLICY", "CREATE USER", "SET SESSION"];
            if named.iter().any(|start| starts(start)) {
                let tokens = tokens::tokens(text);
                self.roles.extend(tokens::roles(&tokens));
                self.dump.sets_internal_option |= tokens::sets_option(&tokens, INTERNAL_OPTION);
            } else if starts("CREATE EXTENSION") {
                self.extensions.extend(tokens::extension(&tokens::tokens(text)));
            }
        }
    }

    fn copy(&mut self, text: &str) {
        let tokens = tokens::tokens(text);
        let from_stdin = matches!(tokens.as_slice(), [.., from, stdin, Token::Mark(';')] if from.is("from") && stdin.is("stdin"));
        self.copies_elsewhere |= !from_stdin;
        if let Some((schema, name)) = copy_target(&tokens) {
            self.dump.tables.push(TableRows { schema, name, row_count: 0 });
        }
    }

    /// Why it is incomplete, and where that begins.
    fn reason(&self, Ended { end, at }: Ended) -> Option<String> {
        let begun = |reason: &str| Some(format!("{reason} (begun at {at})"));
        let reason = match end {
            _ if self.start.is_empty() => "it is empty",
            _ if self.start.starts_with(b"PGDMP") => "it is in pg_dump's custom format, not plain SQL",
            _ if compressed(&self.start) => "it is compressed, and neither by zstd nor by gzip",
            _ if self.cluster => "it is of a whole cluster (pg_dumpall), not of one database",
            _ if !self.header => "it does not start as pg_dump's plain dumps do",
            End::InRows => return begun("it ends inside a COPY block, so rows are missing"),
            End::InStatement => return begun("it ends inside a statement"),
            End::InComment => return begun("it ends inside a comment"),
            End::InCommand => return begun("it ends inside a psql command"),
            End::After(Trouble::BackslashInStatement) => {
                return begun("a backslash stands inside a statement, which pg_dump never writes");
            }
            End::After(Trouble::Quote) => {
                return begun("a quote or a dollar stands in a statement where psql and the server may read it differently");
            }
            End::After(Trouble::Zero) => return begun("it has a byte 0, which pg_dump never writes"),
            End::After(Trouble::VerticalTab) => return begun("a vertical tab stands in a statement, which pg_dump never writes"),
            End::After(Trouble::CopyOptions) => return begun("it has a COPY with options, which pg_dump never writes"),
            End::After(Trouble::CopyLine) => {
                return begun("something stands behind a COPY on its line, which pg_dump never writes");
            }
            End::Between if self.copies_elsewhere => {
                "it has a COPY from or to a file or a program of the server, which pg_dump never writes"
            }
            End::Between if self.sets_strings => {
                "it sets standard_conforming_strings, or a parameter that cannot be told, otherwise than pg_dump does"
            }
            End::Between if self.trailer != Trailer::Closed => {
                "its last comment, `PostgreSQL database dump complete`, is missing"
            }
            End::Between if self.restrict_key != self.unrestrict_key => {
                "its \\unrestrict does not repeat the key of its \\restrict"
            }
            End::Between => return None,
        };
        Some(reason.to_owned())
    }
}

/// Whether a statement may change how strings are read, in a way that is not followed here. What a function of the dump does when
/// it is called cannot be told: psql's restricted mode is for that.
fn sets_strings(text: &str, whole: bool) -> bool {
    const MAY_SET: [&str; 9] = ["SET", "RESET", "DISCARD", "SELECT", "VALUES", "WITH", "UPDATE", "DO", "CALL"];
    const NAME: &str = "standard_conforming_strings";
    if !MAY_SET.iter().any(|word| tokens::starts_with_word(text, word)) {
        return false;
    }
    let text = text.to_ascii_lowercase();
    if ["on", "off"].iter().any(|value| text == format!("set {NAME} = {value};")) {
        return false;
    }
    let is_told = |call: &str| {
        let name = call.trim_start().strip_prefix('(').and_then(|rest| rest.trim_start().strip_prefix('\'')?.split_once('\''));
        name.is_some_and(|(name, _)| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.')))
    };
    let second = tokens::tokens(&text).into_iter().nth(1);
    !whole
        || text.contains(NAME)
        || text.starts_with("discard")
        || (text.starts_with("reset") && second.is_some_and(|word| word.is("all")))
        || text.split("set_config").skip(1).any(|call| !is_told(call))
}

/// By bzip2, xz, lz4 or compress.
fn compressed(start: &[u8]) -> bool {
    let starts: [&[u8]; 4] = [b"BZh", b"\xfd7zXZ", b"\x04\x22\x4d\x18", b"\x1f\x9d"];
    starts.iter().any(|other| start.starts_with(other))
}

#[cfg(test)]
mod tests;
