//! The order in which a dump is loaded, made of the dump alone while it is examined: what may run in parallel, and what is
//! loaded alone, where it stands. Headings and other comments play no part in it.
//!
//! Only what is surely independent of its neighbours runs beside them: COPY into different tables, indexes and keys of tables
//! whose rows are there, then foreign keys. Every other statement waits for all before it, and all after it wait for it.

use std::collections::BTreeMap;

use svc_pgdump::check::lexer::{Kind, Piece, Position};

use super::statement::{StatementKind, Table, is_of_columns, kind_of};

/// A statement longer than this is not held in memory, so psql has to load it.
const LONGEST_STATEMENT: usize = 16 * 1024 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) at: Position,
    pub(crate) size: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CopyBlock {
    /// Its table; `None` where the statement is not as pg_dump writes it, or stands in a transaction of the dump's own. It is
    /// loaded as it stands then, alone.
    pub(crate) table: Option<Table>,
    pub(crate) statement: Span,
    /// Its rows, without the line that ends them.
    pub(crate) rows: Span,
    pub(crate) row_count: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Build {
    pub(crate) statement: Span,
    /// The tables at which it is, and whether it must be alone there.
    pub(crate) tables: Vec<(Table, Sharing)>,
    /// Whether it looks at nothing but columns of its tables. What an expression's function looks at, nobody knows.
    pub(crate) is_of_columns: bool,
    /// How much work it is, in bytes of rows.
    pub(crate) weight: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sharing {
    Shared,
    Alone,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Item {
    Serial(Span),
    /// Where sequences stand, directly behind COPY blocks.
    Sequences(Span),
    /// COPY blocks, of which those into fresh ordinary tables run in parallel.
    Copies(Vec<CopyBlock>),
    /// Indexes and keys, or foreign keys, in parallel.
    Builds(Vec<Build>),
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) items: Vec<Item>,
    /// Why the dump is better loaded by psql, as a sentence; `None` where nothing speaks for that.
    pub(crate) obstacle: Option<&'static str>,
}

/// How many statements of a kind run in parallel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) copies: usize,
    pub(crate) indexes: usize,
    pub(crate) foreign_keys: usize,
}

impl Plan {
    pub(crate) fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for item in &self.items {
            match item {
                Item::Serial(_) | Item::Sequences(_) => {}
                Item::Copies(blocks) => counts.copies += blocks.len(),
                Item::Builds(builds) if builds.iter().any(|build| build.tables.len() > 1) => counts.foreign_keys += builds.len(),
                Item::Builds(builds) => counts.indexes += builds.len(),
            }
        }
        counts
    }

    /// How many connections at most have something to do at one time.
    pub(crate) fn widest(&self) -> usize {
        let mut widest = 1;
        // What follows directly upon each other may run in parallel.
        let mut wide = 0;
        for item in &self.items {
            wide = match item {
                Item::Serial(_) => 0,
                Item::Sequences(_) => wide,
                Item::Copies(blocks) => blocks.len(),
                Item::Builds(builds) => wide + builds.len(),
            };
            widest = widest.max(wide);
        }
        widest
    }
}

#[derive(Debug, Default)]
pub(crate) struct Planner {
    plan: Plan,
    /// The statement that passes by, and where it began.
    unit: Vec<u8>,
    begun: Option<Position>,
    block: Option<CopyBlock>,
    in_transaction: bool,
    sizes: BTreeMap<Table, u64>,
}

impl Planner {
    pub(crate) fn piece(&mut self, piece: Piece<'_>) {
        match piece.kind {
            Kind::Statement => self.statement_piece(piece),
            Kind::Rows => self.rows(piece),
            Kind::RowsEnd if piece.last => self.block_ended(),
            Kind::RowsEnd | Kind::Space | Kind::Comment | Kind::Command | Kind::Unread => {}
        }
    }

    pub(crate) fn finish(mut self) -> Plan {
        self.without_rows();
        let Self { mut plan, sizes, .. } = self;
        for item in &mut plan.items {
            let Item::Builds(builds) = item else { continue };
            for build in builds.iter_mut() {
                build.weight = build.tables.iter().map(|(table, _)| sizes.get(table).copied().unwrap_or_default()).sum();
            }
        }
        plan
    }

    fn statement_piece(&mut self, piece: Piece<'_>) {
        self.begun.get_or_insert(piece.at);
        if self.unit.len() + piece.bytes.len() <= LONGEST_STATEMENT {
            self.unit.extend_from_slice(piece.bytes);
        } else {
            self.obstacle("It has a statement of more than 16 MiB.");
        }
        if !piece.last {
            return;
        }
        let end = piece.at.byte + piece.bytes.len() as u64;
        let at = self.begun.take().unwrap_or(piece.at);
        let unit = std::mem::take(&mut self.unit);
        self.statement(Span { at, size: end - at.byte }, &unit);
        // The same memory serves the next one, unless this one was out of the ordinary.
        if unit.capacity() <= 64 * 1024 {
            self.unit = unit;
            self.unit.clear();
        }
    }

    fn statement(&mut self, statement: Span, bytes: &[u8]) {
        self.without_rows();
        let Some(text) = std::str::from_utf8(bytes).ok().filter(|text| !text.contains('\0')) else {
            self.obstacle("Its statements are not all UTF-8.");
            return self.serial(statement);
        };
        let build = |tables: Vec<(Table, Sharing)>| Build { statement, is_of_columns: is_of_columns(text), tables, weight: 0 };
        match kind_of(text) {
            StatementKind::Copy(table) => return self.copy(statement, Some(table)),
            StatementKind::Index(table) if !self.in_transaction => return self.build(build(vec![(table, Sharing::Shared)])),
            StatementKind::Key(table) if !self.in_transaction => return self.build(build(vec![(table, Sharing::Alone)])),
            StatementKind::ForeignKey(table, other) if !self.in_transaction => {
                return self.build(build(vec![(table, Sharing::Alone), (other, Sharing::Alone)]));
            }
            StatementKind::Sequence if !self.in_transaction => return self.sequence(statement),
            StatementKind::Begin => self.in_transaction = true,
            StatementKind::End => self.in_transaction = false,
            StatementKind::Setting { is_utf8: false } => self.obstacle("It is in another encoding than UTF-8."),
            StatementKind::Drop => self.obstacle("It drops what is not there (--clean)."),
            StatementKind::Other if starts_with(text, "COPY") => return self.copy(statement, None),
            StatementKind::Other if starts_with(text, "INSERT") => {
                self.obstacle("It holds its rows as INSERT statements (--inserts).");
            }
            _ => {}
        }
        self.serial(statement);
    }

    fn obstacle(&mut self, sentence: &'static str) {
        self.plan.obstacle.get_or_insert(sentence);
    }

    fn serial(&mut self, statement: Span) {
        match self.plan.items.last_mut() {
            Some(Item::Serial(span)) => span.size = statement.at.byte + statement.size - span.at.byte,
            _ => self.plan.items.push(Item::Serial(statement)),
        }
    }

    fn sequence(&mut self, statement: Span) {
        match self.plan.items.last_mut() {
            Some(Item::Sequences(span)) => span.size = statement.at.byte + statement.size - span.at.byte,
            Some(Item::Copies(_)) => self.plan.items.push(Item::Sequences(statement)),
            _ => self.serial(statement),
        }
    }

    /// A COPY that has had no rows, not even the line that ends them, is a statement like others (`FROM '/a/file'`).
    fn without_rows(&mut self) {
        if let Some(block) = self.block.take() {
            self.serial(block.statement);
        }
    }

    fn copy(&mut self, statement: Span, table: Option<Table>) {
        let table = table.filter(|_| !self.in_transaction);
        self.block = Some(CopyBlock { table, statement, rows: Span { at: statement.at, size: 0 }, row_count: 0 });
    }

    fn rows(&mut self, piece: Piece<'_>) {
        let Some(block) = &mut self.block else { return };
        if block.rows.size == 0 {
            block.rows.at = piece.at;
        }
        block.rows.size += piece.bytes.len() as u64;
        block.row_count += memchr::memchr_iter(b'\n', piece.bytes).count() as u64;
    }

    fn block_ended(&mut self) {
        let Some(block) = self.block.take() else { return };
        if let Some(table) = &block.table {
            *self.sizes.entry(table.clone()).or_default() += block.rows.size;
        }
        match self.plan.items.last_mut() {
            Some(Item::Copies(blocks)) => blocks.push(block),
            _ => self.plan.items.push(Item::Copies(vec![block])),
        }
    }

    fn build(&mut self, build: Build) {
        match self.plan.items.last_mut() {
            // A foreign key needs the keys before it, and is made when all of them are there.
            Some(Item::Builds(builds)) if builds.last().is_some_and(|last| last.tables.len() == build.tables.len()) => {
                builds.push(build);
            }
            _ => self.plan.items.push(Item::Builds(vec![build])),
        }
    }
}

fn starts_with(text: &str, word: &str) -> bool {
    text.get(..word.len()).is_some_and(|head| head.eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests;
