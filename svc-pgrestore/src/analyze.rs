//! The planner's statistics: a restored database has none, and the first queries of the service would be planned blindly.

use postgres::Client;
use svc_pgdump::refusal;
use svc_step::Failure;
use svc_step::progress::Progress;

use crate::share::share;

/// What ANALYZE would take by itself, the largest first, save tables above foreign tables: to sample a table with all below it, the
/// server would ask other servers for their rows, and fail where one of them is away. Where a partitioned table is taken, its
/// partitions are with it.
const TABLES: &str = "
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
/// So many of them are one statement each, and of the others so many together.
const LARGE: usize = 32;
const TOGETHER: usize = 50;

/// A transaction that is waited for until it is on the disk, and with it all that the server wrote before it.
const ON_DISK: &str = "SET synchronous_commit = on; SELECT pg_logical_emit_message(true, 'svc-pgrestore', 'proven')";

/// Gathers them, on all of the connections. What was loaded is on the server's disk then.
///
/// # Errors
/// See [`refusal::of_query`].
pub(crate) fn analyze(clients: &mut [Client], progress: &Progress) -> Result<(), Failure> {
    let told = |error: postgres::Error| refusal::of_query(&error, "gather statistics (ANALYZE)");
    let Some((first, _)) = clients.split_first_mut() else { return Ok(()) };
    let rows = first.query(TABLES, &[]).map_err(told)?;
    let tables: Vec<String> = rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>().map_err(told)?;
    let (large, small) = tables.split_at_checked(LARGE).unwrap_or((&tables, &[]));
    let groups: Vec<&[String]> = large.chunks(1).chain(small.chunks(TOGETHER)).collect();
    share(clients, &groups, |client, tables| {
        progress.at(&format!("ANALYZE {}", tables.first().map_or("", String::as_str)));
        client.batch_execute(&format!("ANALYZE {}", tables.join(", "))).map_err(told)
    })?;
    let Some((first, _)) = clients.split_first_mut() else { return Ok(()) };
    first.batch_execute(ON_DISK).map_err(|error| refusal::of_query(&error, "wait for the server's disk"))
}
