//! Is a plain dump complete, what does it hold, and what does it need? Found out in one pass, while it is written or read. A complete
//! one has its header, its last comment, the key of `\restrict` repeated by `\unrestrict`, and ends between two statements.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

use postgres_protocol::escape::escape_identifier;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_step::Failure;

use super::encoding::Text;
use super::lexer::{Ended, Kind, Unit, Units};
use super::tokens::{self, Token};
use crate::compression::CompressedFile;

/// One COPY block.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TableRows {
    /// Its schema, unquoted; `null` if the dump names none.
    pub schema: Option<String>,
    /// Its name, unquoted.
    pub name: String,
    /// The rows of the block. A table may have several blocks (partitions that are loaded through their root).
    pub rows_count: u64,
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

/// What a dump holds and needs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Contents {
    /// The rows of each COPY block, in the order of the dump; empty in a dry run.
    pub tables: Vec<TableRows>,
    /// All their rows.
    pub rows_count: u64,
    /// Roles that must be there before it is restored, sorted.
    pub roles: Vec<String>,
    /// Extensions that it creates, which the server must have.
    pub extensions: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Dump {
    pub size_bytes: u64,
    pub sha256: String,
    /// Its file, if that is compressed; else it is the text.
    pub compressed: Option<CompressedFile>,
    /// Why it is incomplete or invalid, as a clause ("it ends inside a COPY block").
    pub reason: Option<String>,
    /// The server that it is of, as its header says: `15.18 (Debian 15.18-0+deb12u1)`.
    pub server_version: Option<String>,
    /// The pg_dump that wrote it, as its header says.
    pub pg_dump_version: Option<String>,
    pub contents: Contents,
    /// Commands to psql other than `\restrict` and `\unrestrict`, such as `\connect db` (`pg_dump --create`).
    pub commands: Vec<String>,
    pub statement_count: u64,
    /// The tables of its INSERT statements (`--inserts`), quoted for SQL, whose rows are not counted; `None` if it has no such statement.
    pub inserted: Option<BTreeSet<String>>,
    pub has_subscriptions: bool,
    /// In which its tables and indexes are to lie, besides the database's own.
    pub tablespaces: BTreeSet<String>,
    /// The encoding that it names first.
    pub encoding: Option<String>,
}

impl Dump {
    pub const fn is_complete(&self) -> bool {
        self.reason.is_none()
    }

    pub fn server_major(&self) -> Option<u32> {
        self.server_version.as_deref().and_then(major)
    }

    pub fn file_sha256(&self) -> &str {
        self.compressed.as_ref().map_or(&self.sha256, |file| &file.sha256)
    }

    pub fn require_complete(self, path: &Path) -> Result<Self, Failure> {
        match &self.reason {
            None => Ok(self),
            Some(reason) => Err(incomplete(path, reason)),
        }
    }
}

pub fn incomplete(path: &Path, reason: &str) -> Failure {
    Failure::invalid("dump_invalid", format!("The dump {} cannot be used: {reason}.", path.display()))
        .hint("Do not restore it: use another dump, or take a new one with svc-pgdump.")
}

/// The major version in `15.18 (Debian …)`, `18beta1`.
pub fn major(version: &str) -> Option<u32> {
    let digits: String = version.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

/// How a dump in pg_dump's custom format begins.
const CUSTOM: &[u8] = b"PGDMP";

#[derive(Debug, Default)]
pub struct Examiner {
    units: Units,
    seen: Seen,
}

impl Examiner {
    /// `take` is given the units too.
    pub fn feed(&mut self, bytes: &[u8], take: &mut impl FnMut(&Unit<'_>)) {
        self.seen.dump.size_bytes += bytes.len() as u64;
        self.seen.start.extend(bytes.iter().take(CUSTOM.len() - self.seen.start.len()));
        self.units.feed(bytes, &mut |unit| {
            self.seen.unit(unit);
            take(unit);
        });
    }

    pub const fn size_bytes(&self) -> u64 {
        self.seen.dump.size_bytes
    }

    pub fn tables(&self) -> &[TableRows] {
        &self.seen.dump.contents.tables
    }

    /// All bytes have passed; whoever let them pass has hashed them.
    pub fn finish(self, sha256: String) -> Dump {
        let Self { units, seen } = self;
        let reason = seen.reason(units.finish());
        let contents = Contents {
            rows_count: seen.dump.contents.tables.iter().map(|table| table.rows_count).sum(),
            roles: seen.roles.into_iter().collect(),
            extensions: seen.extensions.into_iter().collect(),
            ..seen.dump.contents
        };
        Dump { sha256, reason, contents, ..seen.dump }
    }
}

/// What has been seen of a dump so far.
#[derive(Debug, Default)]
struct Seen {
    start: Vec<u8>,
    encoding: Text,
    header: bool,
    /// How many lines of the last comment have been seen, with nothing but it behind them: all are 2.
    trailer: u8,
    restrict_key: Option<String>,
    unrestrict_key: Option<String>,
    dump: Dump,
    roles: BTreeSet<String>,
    extensions: BTreeSet<String>,
    /// A statement that pg_dump never writes, as a clause.
    unexpected: Option<&'static str>,
}

impl Seen {
    fn unit(&mut self, unit: &Unit<'_>) {
        let text = || self.encoding.decode(unit.bytes);
        match unit.kind {
            Kind::Rows => {
                if let Some(table) = self.dump.contents.tables.last_mut() {
                    table.rows_count += unit.lines;
                }
            }
            Kind::Comment => self.comment(text().trim_end()),
            Kind::Command => self.command(text().trim_end()),
            Kind::Statement => self.statement(&text(), unit.is_whole()),
            Kind::Space | Kind::RowsEnd | Kind::Unread => {}
        }
    }

    fn comment(&mut self, text: &str) {
        match text {
            "-- PostgreSQL database dump" if self.dump.statement_count == 0 => self.header = true,
            "-- PostgreSQL database dump complete" => self.trailer = 1,
            "--" if self.trailer == 1 => self.trailer = 2,
            "--" => {}
            other => {
                self.trailer = 0;
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
            self.trailer = 0;
        } else if let Some(key) = text.strip_prefix("\\unrestrict ") {
            self.unrestrict_key = Some(key.to_owned());
        } else {
            self.trailer = 0;
            self.dump.commands.push(text.to_owned());
        }
    }

    fn statement(&mut self, text: &str, complete: bool) {
        self.trailer = 0;
        self.dump.statement_count += 1;
        if sets_strings(text, complete) {
            self.unexpected =
                Some("it sets standard_conforming_strings, or a parameter that cannot be told, otherwise than pg_dump does");
        }
        if tokens::is_of_server(text) {
            self.unexpected =
                Some("it changes databases, roles or tablespaces of the server, which a dump without --create does not");
        }
        let starts = |start: &str| text.get(..start.len()).is_some_and(|head| head.eq_ignore_ascii_case(start));
        if starts("INSERT ") {
            let table = target(text, &["insert", "into"]).map(|table| table.quoted());
            self.dump.inserted.get_or_insert_default().extend(table);
        } else if starts("SET client_encoding") {
            let named = tokens::client_encoding(&tokens::tokens(text)).map(str::to_owned);
            self.encoding = named.as_deref().map(Text::named).unwrap_or_default();
            self.dump.encoding = self.dump.encoding.take().or(named);
        } else if starts("SET default_tablespace") {
            self.dump.tablespaces.extend(tokens::tokens(text).get(3).and_then(Token::name).map(str::to_owned));
        } else if starts("CREATE SUBSCRIPTION ") {
            self.dump.has_subscriptions = true;
        } else if tokens::starts_with_word(text, "COPY") {
            self.copy(text);
        } else if complete {
            let named = ["ALTER ", "GRANT ", "REVOKE ", "CREATE SCHEMA", "CREATE POLICY", "CREATE USER", "SET SESSION"];
            if named.iter().any(|start| starts(start)) {
                self.roles.extend(tokens::roles(&tokens::tokens(text)));
            } else if starts("CREATE EXTENSION") {
                self.extensions.extend(tokens::extension(&tokens::tokens(text)));
            }
        }
    }

    fn copy(&mut self, text: &str) {
        let tokens = tokens::tokens(text);
        let from_stdin = matches!(tokens.as_slice(), [.., from, stdin, Token::Mark(';')] if from.is("from") && stdin.is("stdin"));
        if !from_stdin {
            self.unexpected = Some("it has a COPY from or to a file or a program of the server, which pg_dump never writes");
        }
        self.dump.contents.tables.extend(target(text, &["copy"]));
    }

    /// Why it is incomplete or invalid, and where that begins.
    fn reason(&self, ended: Ended) -> Option<String> {
        let reason = match () {
            _ if self.start.is_empty() => "it is empty",
            _ if self.start == CUSTOM => "it is in pg_dump's custom format, not plain SQL",
            _ if !self.header => "it does not start as a plain dump of one database by pg_dump does",
            _ if ended.reason.is_some() => return ended.reason.map(|reason| format!("{reason} (begun at {})", ended.at)),
            () if self.unexpected.is_some() => return self.unexpected.map(str::to_owned),
            () if self.trailer != 2 => "its last comment, `PostgreSQL database dump complete`, is missing",
            () if self.restrict_key != self.unrestrict_key => "its \\unrestrict does not repeat the key of its \\restrict",
            () => return None,
        };
        Some(reason.to_owned())
    }
}

/// The table behind the first words of a statement.
fn target(text: &str, words: &[&str]) -> Option<TableRows> {
    tokens::target(text, words).map(|(schema, name)| TableRows { schema, name, rows_count: 0 })
}

/// Whether a statement may change how strings are read, in a way that is not followed here. What a function of the dump does when
/// it is called cannot be told: then a statement is not what it seems, and the server refuses it.
fn sets_strings(text: &str, complete: bool) -> bool {
    const MAY_SET: [&str; 9] = ["SET", "RESET", "DISCARD", "SELECT", "VALUES", "WITH", "UPDATE", "DO", "CALL"];
    const NAME: &str = "standard_conforming_strings";
    if !MAY_SET.iter().any(|word| tokens::starts_with_word(text, word)) {
        return false;
    }
    let text = text.to_ascii_lowercase();
    if ["on", "off"].iter().any(|value| text == format!("set {NAME} = {value};")) {
        return false;
    }
    let is_pg_dumps = |start: &&str| text.starts_with(start);
    let sets = text.contains("set_config")
        && !["select pg_catalog.set_config('search_path',", "select pg_catalog.setval('"].iter().any(is_pg_dumps);
    !complete
        || text.contains(NAME)
        || text.starts_with("discard")
        || text.split([' ', '\n', ';']).filter(|word| !word.is_empty()).take(2).eq(["reset", "all"])
        || sets
}

#[cfg(test)]
mod tests;
