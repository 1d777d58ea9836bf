//! The order in which a dump is loaded, made of the dump alone while it is examined: what may run in parallel, and what is
//! loaded alone, where it stands. Headings and other comments play no part in it.
//!
//! Only what is surely independent of its neighbours runs in parallel to them: COPY into different tables, indexes and keys of tables
//! whose rows are there, then foreign keys. Every other statement waits for all before it, and all after it wait for it.

use std::collections::BTreeMap;

use svc_pgdump::check::lexer::{Kind, Position, Unit};

use super::statement::{Built, StatementKind, Table, kind_of};

/// How much more work a GIN or GiST index, or one of an expression, is than a B-tree of columns (seen).
const HEAVY: u64 = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) at: Position,
    pub(crate) size: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CopyBlock {
    /// Its table; `None` if the statement is not as pg_dump writes it, or stands in a transaction of the dump's own. It is
    /// loaded as it stands then, alone.
    pub(crate) table: Option<Table>,
    pub(crate) statement: Span,
    /// Its rows, without the line that ends them.
    pub(crate) rows: Span,
    pub(crate) rows_count: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Build {
    pub(crate) statement: Span,
    pub(crate) built: Built,
    /// How much work it is, in bytes of rows.
    pub(crate) weight: u64,
}

/// What runs in parallel.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Group {
    pub(crate) copies: Vec<CopyBlock>,
    pub(crate) indexes: Vec<Build>,
    pub(crate) foreign_keys: Vec<Build>,
    /// What comes after it, one by one.
    pub(crate) later: Vec<Span>,
}

impl Group {
    fn tasks(&self) -> usize {
        self.copies.len() + self.indexes.len() + self.foreign_keys.len()
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Item {
    Serial(Vec<Span>),
    /// A COPY block without a table.
    Copy(CopyBlock),
    Parallel(Group),
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) items: Vec<Item>,
}

impl Plan {
    pub(crate) fn groups(&self) -> impl Iterator<Item = &Group> {
        self.items.iter().filter_map(|item| if let Item::Parallel(group) = item { Some(group) } else { None })
    }

    /// How many connections at most have something to do at one time.
    pub(crate) fn widest(&self) -> usize {
        self.groups().map(Group::tasks).max().unwrap_or_default().max(1)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Planner {
    plan: Plan,
    block: Option<CopyBlock>,
    in_transaction: bool,
    is_not_utf8: bool,
    /// How many bytes of rows each table has so far.
    sizes: BTreeMap<Table, u64>,
}

impl Planner {
    pub(crate) fn unit(&mut self, unit: &Unit<'_>) {
        match unit.kind {
            Kind::Statement => self.statement(Span { at: unit.at, size: unit.size }, self.kind(unit)),
            Kind::Rows => self.rows(unit),
            Kind::RowsEnd => self.block_ended(),
            Kind::Space | Kind::Comment | Kind::Command | Kind::Unread => {}
        }
    }

    pub(crate) fn finish(mut self) -> Plan {
        self.without_rows();
        self.plan
    }

    fn kind(&self, unit: &Unit<'_>) -> StatementKind {
        match std::str::from_utf8(unit.bytes) {
            Ok(text) if unit.is_whole() && (!self.is_not_utf8 || text.is_ascii()) => kind_of(text),
            // Names in another encoding are not read.
            _ if unit.bytes.get(..4).is_some_and(|start| start.eq_ignore_ascii_case(b"COPY")) => StatementKind::Copy(None),
            _ => StatementKind::Other,
        }
    }

    fn statement(&mut self, statement: Span, kind: StatementKind) {
        self.without_rows();
        match (kind, self.plan.items.last_mut()) {
            (StatementKind::Copy(table), _) => {
                let table = table.filter(|_| !self.in_transaction);
                self.block = Some(CopyBlock { table, statement, rows: Span { at: statement.at, size: 0 }, rows_count: 0 });
                return;
            }
            (StatementKind::Build(built), _) if !self.in_transaction => return self.build(statement, built),
            (StatementKind::Later, Some(Item::Parallel(group))) if !self.in_transaction => return group.later.push(statement),
            (StatementKind::Begin, _) => self.in_transaction = true,
            (StatementKind::End, _) => self.in_transaction = false,
            (StatementKind::Encoding(encoding), _) => self.is_not_utf8 = encoding.is_some(),
            _ => {}
        }
        self.serial(statement);
    }

    fn serial(&mut self, statement: Span) {
        match self.plan.items.last_mut() {
            Some(Item::Serial(spans)) => spans.push(statement),
            _ => self.plan.items.push(Item::Serial(vec![statement])),
        }
    }

    /// A COPY that has had no rows, not even the line that ends them, is a statement like others (`FROM '/a/file'`).
    fn without_rows(&mut self) {
        if let Some(block) = self.block.take() {
            self.serial(block.statement);
        }
    }

    fn rows(&mut self, rows: &Unit<'_>) {
        let Some(block) = &mut self.block else { return };
        if block.rows.size == 0 {
            block.rows.at = rows.at;
        }
        block.rows.size += rows.size;
        block.rows_count += rows.lines;
    }

    fn block_ended(&mut self) {
        let Some(block) = self.block.take() else { return };
        let Some(table) = &block.table else { return self.plan.items.push(Item::Copy(block)) };
        *self.sizes.entry(table.clone()).or_default() += block.rows.size;
        self.group(|group| group.tasks() == group.copies.len() && group.later.is_empty(), |group| group.copies.push(block));
    }

    fn build(&mut self, statement: Span, built: Built) {
        let rows: u64 = built.tables.iter().map(|table| self.sizes.get(table).copied().unwrap_or_default()).sum();
        let weight = if built.is_heavy { rows.saturating_mul(HEAVY) } else { rows };
        // A foreign key needs the keys before it, and is made when those of its tables are there.
        let is_foreign_key = built.tables.len() > 1;
        let build = Build { statement, built, weight };
        if is_foreign_key {
            self.group(|_| true, |group| group.foreign_keys.push(build));
        } else {
            self.group(|group| group.foreign_keys.is_empty(), |group| group.indexes.push(build));
        }
    }

    /// Adds to the group that stands before, if there is one that `takes` more, else to a new one.
    fn group(&mut self, takes: impl Fn(&Group) -> bool, add: impl FnOnce(&mut Group)) {
        match self.plan.items.last_mut() {
            Some(Item::Parallel(group)) if takes(group) => add(group),
            _ => {
                let mut group = Group::default();
                add(&mut group);
                self.plan.items.push(Item::Parallel(group));
            }
        }
    }
}

#[cfg(test)]
mod tests;
