//! How many rows each table must have, from what the dump's COPY blocks hold.
//!
//! A block usually names the table that its rows end in. pg_dump names a partitioned table instead where rows may have to go
//! to another partition than before (hash partitions on an enumeration): several blocks then name the same root.

use std::collections::BTreeMap;

/// A table that a COPY block of the dump names, as the server knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    /// Its OID.
    pub(crate) oid: u32,
    /// Schema and name, quoted for SQL.
    pub(crate) name: String,
    /// `pg_class.relkind`.
    pub(crate) kind: char,
    /// The partitioned tables that it is a part of.
    pub(crate) ancestors: Vec<u32>,
    /// Whether it belongs to an extension, which may have put rows into it itself.
    pub(crate) of_extension: bool,
    /// The rows of the block.
    pub(crate) rows: u64,
}

/// A count that the server is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Check {
    /// Schema and name, quoted for SQL.
    pub(crate) name: String,
    /// The query.
    pub(crate) sql: String,
    /// The rows of the dump.
    pub(crate) rows: u64,
    /// More than these are right too.
    pub(crate) or_more: bool,
}

impl Check {
    /// Whether a count is what the dump holds.
    pub(crate) fn agrees(&self, counted: u64) -> bool {
        counted == self.rows || (self.or_more && counted > self.rows)
    }
}

/// The counts to ask for: one a table, a partition's rows being part of its root's where a block names the root.
pub(crate) fn checks(targets: &[Target]) -> Vec<Check> {
    let mut rows: BTreeMap<u32, u64> = BTreeMap::new();
    let mut order = Vec::new();
    for target in targets {
        if !rows.contains_key(&target.oid) {
            order.push(target);
        }
        *rows.entry(target.oid).or_default() += target.rows;
    }
    let under_a_root = |target: &Target| target.ancestors.iter().any(|root| rows.contains_key(root));
    let mut sums = rows.clone();
    for target in order.iter().filter(|target| under_a_root(target)) {
        for root in target.ancestors.iter().filter(|root| rows.contains_key(root)) {
            *sums.entry(*root).or_default() += rows.get(&target.oid).copied().unwrap_or_default();
        }
    }
    // A foreign table's rows are on another server, and are none of this restore's.
    let counted = order.iter().filter(|target| !under_a_root(target) && target.kind != 'f');
    counted
        .map(|target| Check {
            name: target.name.clone(),
            // A table's own rows, without those of tables that inherit from it; a partitioned table has none of its own.
            sql: format!("SELECT count(*) FROM {}{}", if target.kind == 'p' { "" } else { "ONLY " }, target.name),
            rows: sums.get(&target.oid).copied().unwrap_or_default(),
            or_more: target.of_extension,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(oid: u32, kind: char, ancestors: &[u32], rows: u64) -> Target {
        Target { oid, name: format!("public.t{oid}"), kind, ancestors: ancestors.to_vec(), of_extension: false, rows }
    }

    #[test]
    fn each_table_is_counted_by_itself() {
        let found = checks(&[target(1, 'r', &[], 5), target(2, 'r', &[9], 7)]);
        assert_eq!(found.iter().map(|check| check.rows).collect::<Vec<_>>(), [5, 7]);
        assert_eq!(found[0].sql, "SELECT count(*) FROM ONLY public.t1");
    }

    #[test]
    fn blocks_that_name_the_root_are_one_count_and_take_their_partitions_with_them() {
        let found = checks(&[target(9, 'p', &[], 3), target(2, 'r', &[9], 7), target(9, 'p', &[], 4)]);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].sql.as_str(), found[0].rows), ("SELECT count(*) FROM public.t9", 14));
    }

    #[test]
    fn an_extensions_own_rows_are_no_surplus_and_foreign_rows_are_not_counted() {
        let mut own = target(1, 'r', &[], 5);
        own.of_extension = true;
        let found = checks(&[own, target(3, 'f', &[], 5)]);
        assert_eq!(found.len(), 1);
        assert!(found[0].agrees(6) && !found[0].agrees(4));
    }
}
