//! The proof after the load: the rows of the dump are there, and nothing in the database is invalid.

use std::sync::atomic::{AtomicU64, Ordering};

use postgres::Client;
use svc_pgdump::admin::OWN_SETTINGS;
use svc_pgdump::refusal;
use svc_step::Failure;
use svc_step::progress::Progress;

use crate::analyze::analyze;
use crate::outcome::Proof;
use crate::share::share;
use crate::tables::{self, Check, Target};

/// How many differences are named.
const NAMED: usize = 10;

/// What the dump says of its content.
#[derive(Debug, Clone, Default)]
pub(crate) struct Expected {
    /// Each COPY block's table, as SQL has it, and its rows.
    pub(crate) rows: Vec<(String, u64)>,
    /// Whether it holds large objects.
    pub(crate) has_large_objects: bool,
}

const TARGETS: &str = "SELECT t.name, c.oid, quote_ident(s.nspname) || '.' || quote_ident(c.relname), c.relkind::text, \
    ARRAY(SELECT a.relid::oid FROM pg_partition_ancestors(c.oid) a WHERE a.relid <> c.oid), \
    EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e') \
    FROM unnest($1::text[]) WITH ORDINALITY t(name, n) \
    LEFT JOIN pg_class c ON c.oid = to_regclass(t.name) LEFT JOIN pg_namespace s ON s.oid = c.relnamespace ORDER BY t.n";

/// A partitioned index may rightly be invalid: one of a partition is missing, and the dump had it so.
const INVALID_INDEXES: &str = "SELECT i.indexrelid::regclass::text FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid \
    WHERE c.relkind = 'i' AND NOT (i.indisvalid AND i.indisready AND i.indislive) ORDER BY 1";

const NOT_VALIDATED: &str = "SELECT format('%s on %s', c.conname, coalesce(nullif(c.conrelid, 0)::regclass::text, \
    nullif(c.contypid, 0)::regtype::text)) FROM pg_constraint c WHERE NOT c.convalidated ORDER BY 1";

/// What is gathered here need not be waited for, statement by statement: the end of [`analyze`] is.
const PROOF_SETTINGS: &str = "SET search_path = ''; SET row_security = off; SET synchronous_commit = off";

/// Compares, and gathers the planner's statistics, on all of the connections.
///
/// # Errors
/// Something is missing, too much, or invalid (7); or see [`refusal::of_query`].
pub(crate) fn prove(clients: &mut [Client], expected: &Expected, progress: &Progress) -> Result<Proof, Failure> {
    for client in clients.iter_mut() {
        for settings in [OWN_SETTINGS, PROOF_SETTINGS] {
            client.batch_execute(settings).map_err(|error| refusal::of_query(&error, "prepare the proof"))?;
        }
    }
    let Some((first, _)) = clients.split_first_mut() else {
        return Err(Failure::failed("internal", "There is no connection to prove on."));
    };
    let mut checks = tables::checks(&targets(first, expected)?);
    let large_objects_count = large_objects(first, expected.has_large_objects)?;
    nothing_invalid(first)?;
    let not_validated = names(first, NOT_VALIDATED, "look for constraints that are not validated")?;
    checks.sort_by_key(|check| std::cmp::Reverse(check.rows));
    let rows_count = count_rows(clients, &checks, progress)?;
    analyze(clients, progress)?;
    let tables_count = u64::try_from(checks.len()).unwrap_or(u64::MAX);
    Ok(Proof { tables_count, rows_count, large_objects_count, not_validated })
}

fn targets(client: &mut Client, expected: &Expected) -> Result<Vec<Target>, Failure> {
    let named: Vec<&str> = expected.rows.iter().map(|(name, _)| name.as_str()).collect();
    let action = "look for the tables of the dump";
    let found = client.query(TARGETS, &[&named]).map_err(|error| refusal::of_query(&error, action))?;
    let mut targets = Vec::new();
    let mut missing = Vec::new();
    for (row, (_, rows)) in found.iter().zip(&expected.rows) {
        let oid: Option<u32> = row.get(1);
        match oid {
            None => missing.push(format!("{} is not there", row.get::<_, String>(0))),
            Some(oid) => targets.push(Target {
                oid,
                name: row.get(2),
                kind: row.get::<_, String>(3).chars().next().unwrap_or('r'),
                ancestors: row.get(4),
                of_extension: row.get(5),
                rows: *rows,
            }),
        }
    }
    if missing.is_empty() { Ok(targets) } else { Err(differs("tables_missing", "lacks tables of the dump", missing)) }
}

fn count_rows(clients: &mut [Client], checks: &[Check], progress: &Progress) -> Result<u64, Failure> {
    let total = u64::try_from(checks.len()).unwrap_or(u64::MAX);
    let done = AtomicU64::new(0);
    let counted = share(clients, checks, |client, check| {
        progress.at(&check.name);
        let row = client
            .query_one(&check.sql, &[])
            .map_err(|error| refusal::of_query(&error, &format!("count the rows of {}", check.name)))?;
        progress.set(done.fetch_add(1, Ordering::Relaxed) + 1, total);
        Ok(u64::try_from(row.get::<_, i64>(0)).unwrap_or_default())
    })?;
    let pairs = checks.iter().zip(&counted);
    let differences: Vec<String> = pairs
        .filter(|(check, counted)| !check.agrees(**counted))
        .map(|(check, counted)| format!("{}: {} rows in the dump, {counted} in the database", check.name, check.rows))
        .collect();
    if differences.is_empty() {
        return Ok(counted.iter().sum());
    }
    Err(rows_differ(differences))
}

fn large_objects(client: &mut Client, expected: bool) -> Result<u64, Failure> {
    let row = client
        .query_one("SELECT count(*) FROM pg_largeobject_metadata", &[])
        .map_err(|error| refusal::of_query(&error, "count the large objects"))?;
    let counted = u64::try_from(row.get::<_, i64>(0)).unwrap_or_default();
    if expected == (counted > 0) {
        return Ok(counted);
    }
    let held = if expected { "some" } else { "none" };
    let difference = format!("{held} in the dump, {counted} in the database");
    Err(differs("large_objects_differ", "does not hold the large objects of the dump", vec![difference]))
}

fn nothing_invalid(client: &mut Client) -> Result<(), Failure> {
    let invalid = names(client, INVALID_INDEXES, "look for invalid indexes")?;
    if invalid.is_empty() { Ok(()) } else { Err(differs("indexes_invalid", "has invalid indexes", invalid)) }
}

fn names(client: &mut Client, sql: &str, action: &str) -> Result<Vec<String>, Failure> {
    let rows = client.query(sql, &[]).map_err(|error| refusal::of_query(&error, action))?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

/// Rows are missing, or there are too many.
pub(crate) fn rows_differ(differences: Vec<String>) -> Failure {
    differs("rows_differ", "does not hold the rows of the dump", differences)
}

fn differs(code: &str, how: &str, differences: Vec<String>) -> Failure {
    let mut failure = Failure::invalid(code, format!("What was loaded {how}."))
        .hint("The dump or the load is no good: check it with svc-pgdump verify, and restore another dump if it is.");
    failure.causes = differences.into_iter().take(NAMED).collect();
    failure
}
