//! The verification after the load: the rows of the dump are there, and nothing in the database is invalid. With the planner's
//! statistics, without which the first queries of the service would be planned badly.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use postgres::Client;
use svc_pgdump::pg;
use svc_step::Failure;
use svc_step::progress::Progress;

use crate::document::Verification;

/// How many differences are named.
const NAMED: usize = 10;

pub(crate) struct Expected {
    /// The table of each COPY block, quoted for SQL, and its rows.
    pub(crate) rows: Vec<(String, u64)>,
    pub(crate) has_large_objects: bool,
}

const TABLES: &str = "SELECT t.name, c.oid, quote_ident(s.nspname) || '.' || quote_ident(c.relname), c.relkind::text, \
    ARRAY(SELECT a.relid::oid FROM pg_partition_ancestors(c.oid) a WHERE a.relid <> c.oid), \
    EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e') \
    FROM unnest($1::text[]) WITH ORDINALITY t(name, n) \
    LEFT JOIN pg_class c ON c.oid = to_regclass(t.name) LEFT JOIN pg_namespace s ON s.oid = c.relnamespace ORDER BY t.n";

/// A partitioned index may rightly be invalid: that of one partition is missing in the dump too.
const INVALID_INDEXES: &str = "SELECT i.indexrelid::regclass::text FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid \
    WHERE c.relkind = 'i' AND NOT (i.indisvalid AND i.indisready AND i.indislive) ORDER BY 1";

const NOT_VALIDATED: &str = "SELECT format('%s on %s', c.conname, coalesce(nullif(c.conrelid, 0)::regclass::text, \
    nullif(c.contypid, 0)::regtype::text)) FROM pg_constraint c WHERE NOT c.convalidated ORDER BY 1";

/// Each ANALYZE need not wait for the disk: [`ON_DISK`] does.
const SETTINGS: &str = "SET search_path = ''; SET row_security = off; SET synchronous_commit = off";

pub(crate) fn verify(clients: &mut [Client], expected: &Expected, progress: &Progress) -> Result<Verification, Failure> {
    for client in clients.iter_mut() {
        client.batch_execute(SETTINGS).map_err(|error| pg::of_query(&error, "prepare the verification"))?;
    }
    let Some((first, _)) = clients.split_first_mut() else {
        return Err(Failure::failed("internal", "There is no connection to verify on."));
    };
    let mut counts = counts(&tables(first, expected)?);
    let large_objects_count = large_objects(first, expected.has_large_objects)?;
    let invalid = names(first, INVALID_INDEXES, "find invalid indexes")?;
    if !invalid.is_empty() {
        return Err(differs("indexes_invalid", "has invalid indexes", invalid));
    }
    let not_validated = names(first, NOT_VALIDATED, "find constraints that are not validated")?;
    counts.sort_by_key(|count| std::cmp::Reverse(count.rows));
    let rows_count = count_rows(clients, &counts, progress)?;
    analyze(clients, progress)?;
    let tables_count = u64::try_from(counts.len()).unwrap_or(u64::MAX);
    Ok(Verification { tables_count, rows_count, large_objects_count, not_validated })
}

/// A table that a COPY block of the dump names.
struct Table {
    oid: u32,
    /// Quoted for SQL.
    name: String,
    kind: char,
    ancestors: Vec<u32>,
    /// An extension may have put rows into it itself.
    of_extension: bool,
    rows: u64,
}

fn tables(client: &mut Client, expected: &Expected) -> Result<Vec<Table>, Failure> {
    let named: Vec<&str> = expected.rows.iter().map(|(name, _)| name.as_str()).collect();
    let found = client.query(TABLES, &[&named]).map_err(|error| pg::of_query(&error, "find the tables of the dump"))?;
    let mut tables = Vec::new();
    let mut missing = Vec::new();
    for (row, (_, rows)) in found.iter().zip(&expected.rows) {
        match row.get::<_, Option<u32>>(1) {
            None => missing.push(format!("{} is missing", row.get::<_, String>(0))),
            Some(oid) => tables.push(Table {
                oid,
                name: row.get(2),
                kind: row.get::<_, String>(3).chars().next().unwrap_or('r'),
                ancestors: row.get(4),
                of_extension: row.get(5),
                rows: *rows,
            }),
        }
    }
    if missing.is_empty() { Ok(tables) } else { Err(differs("tables_missing", "lacks tables of the dump", missing)) }
}

struct Count {
    name: String,
    sql: String,
    rows: u64,
    or_more: bool,
}

impl Count {
    fn agrees(&self, counted: u64) -> bool {
        counted == self.rows || (self.or_more && counted > self.rows)
    }
}

/// One count a table. pg_dump names a partitioned table instead of its partitions if rows may have to go to another partition than
/// before (hash partitions on an enumeration): several blocks name the root then, and its partitions are counted with it.
fn counts(tables: &[Table]) -> Vec<Count> {
    let mut rows: BTreeMap<u32, u64> = BTreeMap::new();
    let mut order = Vec::new();
    for table in tables {
        if !rows.contains_key(&table.oid) {
            order.push(table);
        }
        *rows.entry(table.oid).or_default() += table.rows;
    }
    let under_a_root = |table: &Table| table.ancestors.iter().any(|root| rows.contains_key(root));
    let mut sums = rows.clone();
    for table in order.iter().filter(|table| under_a_root(table)) {
        for root in table.ancestors.iter().filter(|root| rows.contains_key(root)) {
            *sums.entry(*root).or_default() += rows.get(&table.oid).copied().unwrap_or_default();
        }
    }
    // A foreign table's rows are on another server.
    let counted = order.iter().filter(|table| !under_a_root(table) && table.kind != 'f');
    counted
        .map(|table| Count {
            name: table.name.clone(),
            // Without the rows of tables that inherit from it; a partitioned table has none of its own.
            sql: format!("SELECT count(*) FROM {}{}", if table.kind == 'p' { "" } else { "ONLY " }, table.name),
            rows: sums.get(&table.oid).copied().unwrap_or_default(),
            or_more: table.of_extension,
        })
        .collect()
}

fn count_rows(clients: &mut [Client], counts: &[Count], progress: &Progress) -> Result<u64, Failure> {
    let total = u64::try_from(counts.len()).unwrap_or(u64::MAX);
    let done = AtomicU64::new(0);
    let counted = share(clients, counts, |client, count| {
        progress.at(&count.name);
        let row = client.query_one(&count.sql, &[]);
        let row = row.map_err(|error| pg::of_query(&error, &format!("count the rows of {}", count.name)))?;
        progress.set(done.fetch_add(1, Ordering::Relaxed) + 1, total);
        Ok(u64::try_from(row.get::<_, i64>(0)).unwrap_or_default())
    })?;
    let differences: Vec<String> = counts
        .iter()
        .zip(&counted)
        .filter(|(count, counted)| !count.agrees(**counted))
        .map(|(count, counted)| format!("{}: {} rows in the dump, {counted} in the database", count.name, count.rows))
        .collect();
    if differences.is_empty() { Ok(counted.iter().sum()) } else { Err(rows_differ(differences)) }
}

fn large_objects(client: &mut Client, expected: bool) -> Result<u64, Failure> {
    let row = client.query_one("SELECT count(*) FROM pg_largeobject_metadata", &[]);
    let row = row.map_err(|error| pg::of_query(&error, "count the large objects"))?;
    let counted = u64::try_from(row.get::<_, i64>(0)).unwrap_or_default();
    if expected == (counted > 0) {
        return Ok(counted);
    }
    let held = if expected { "some" } else { "none" };
    let difference = format!("{held} in the dump, {counted} in the database");
    Err(differs("large_objects_differ", "does not hold the large objects of the dump", vec![difference]))
}

fn names(client: &mut Client, sql: &str, action: &str) -> Result<Vec<String>, Failure> {
    let rows = client.query(sql, &[]).map_err(|error| pg::of_query(&error, action))?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

pub(crate) fn rows_differ(differences: Vec<String>) -> Failure {
    differs("rows_differ", "does not hold the rows of the dump", differences)
}

fn differs(code: &str, how: &str, differences: Vec<String>) -> Failure {
    let mut failure = Failure::invalid(code, format!("What was loaded {how}."))
        .hint("Check the dump with svc-pgdump verify; if it is invalid, restore another one.");
    failure.causes = differences.into_iter().take(NAMED).collect();
    failure
}

/// What ANALYZE would take, the largest first, except tables above foreign tables: to sample one with all below it, the server would
/// ask other servers, and fail if one of them is down. A partitioned table includes its partitions.
const ANALYZED: &str = "
    WITH RECURSIVE above AS (
        SELECT i.inhparent FROM pg_catalog.pg_inherits i JOIN pg_catalog.pg_class c ON c.oid = i.inhrelid WHERE c.relkind = 'f'
        UNION SELECT i.inhparent FROM pg_catalog.pg_inherits i JOIN above ON above.inhparent = i.inhrelid)
    SELECT quote_ident(s.nspname) || '.' || quote_ident(c.relname)
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace s ON s.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'm', 'p') AND c.relpersistence <> 't' AND NOT c.relisshared
        AND c.oid NOT IN (SELECT inhparent FROM above)
        AND NOT (c.relispartition AND EXISTS (SELECT FROM pg_catalog.pg_inherits i
            WHERE i.inhrelid = c.oid AND i.inhparent NOT IN (SELECT inhparent FROM above)))
    ORDER BY pg_total_relation_size(c.oid) DESC, c.oid";
/// So many are one statement each; of the others, so many are one statement together.
const LARGE: usize = 32;
const TOGETHER: usize = 50;

/// A transaction that waits for the disk, and so for all that the server wrote before it.
const ON_DISK: &str = "SET synchronous_commit = on; SELECT pg_logical_emit_message(true, 'svc-pgrestore', 'verified')";

fn analyze(clients: &mut [Client], progress: &Progress) -> Result<(), Failure> {
    let told = |error: postgres::Error| pg::of_query(&error, "gather statistics (ANALYZE)");
    let Some((first, _)) = clients.split_first_mut() else { return Ok(()) };
    let tables = names(first, ANALYZED, "list the tables to analyze")?;
    let (large, small) = tables.split_at_checked(LARGE).unwrap_or((&tables, &[]));
    let groups: Vec<&[String]> = large.chunks(1).chain(small.chunks(TOGETHER)).collect();
    share(clients, &groups, |client, tables| {
        progress.at(&format!("ANALYZE {}", tables.first().map_or("", String::as_str)));
        client.batch_execute(&format!("ANALYZE {}", tables.join(", "))).map_err(told)
    })?;
    let Some((first, _)) = clients.split_first_mut() else { return Ok(()) };
    first.batch_execute(ON_DISK).map_err(|error| pg::of_query(&error, "wait for the server's disk"))
}

/// Lets each free connection take the next one of `all`; the results in the order of `all`, or the first failure.
fn share<T: Sync, R: Send>(
    clients: &mut [Client],
    all: &[T],
    act: impl Fn(&mut Client, &T) -> Result<R, Failure> + Sync,
) -> Result<Vec<R>, Failure> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::with_capacity(all.len()));
    let failed = AtomicBool::new(false);
    let work = |client: &mut Client| {
        while !failed.load(Ordering::Relaxed) {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(one) = all.get(number) else { break };
            let result = act(client, one);
            if result.is_err() {
                failed.store(true, Ordering::Relaxed);
            }
            done.lock().unwrap_or_else(PoisonError::into_inner).push((number, result));
        }
    };
    std::thread::scope(|scope| {
        for client in clients.iter_mut() {
            scope.spawn(|| work(client));
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(number, _)| *number);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(oid: u32, kind: char, ancestors: &[u32], rows: u64) -> Table {
        Table { oid, name: format!("public.t{oid}"), kind, ancestors: ancestors.to_vec(), of_extension: false, rows }
    }

    #[test]
    fn each_table_is_counted_by_itself() {
        let found = counts(&[table(1, 'r', &[], 5), table(2, 'r', &[9], 7)]);
        assert_eq!(found.iter().map(|count| count.rows).collect::<Vec<_>>(), [5, 7]);
        assert_eq!(found[0].sql, "SELECT count(*) FROM ONLY public.t1");
    }

    #[test]
    fn blocks_that_name_the_root_are_one_count_and_take_their_partitions_with_them() {
        let found = counts(&[table(9, 'p', &[], 3), table(2, 'r', &[9], 7), table(9, 'p', &[], 4)]);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].sql.as_str(), found[0].rows), ("SELECT count(*) FROM public.t9", 14));
    }

    #[test]
    fn an_extensions_own_rows_are_no_surplus_and_foreign_rows_are_not_counted() {
        let found = counts(&[Table { of_extension: true, ..table(1, 'r', &[], 5) }, table(3, 'f', &[], 5)]);
        assert_eq!(found.len(), 1);
        assert!(found[0].agrees(6) && !found[0].agrees(4));
    }
}
