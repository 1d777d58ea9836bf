//! The planner's statistics: a restored database has none, and the first queries of the service would be planned blindly.

use postgres::Client;
use svc_pgdump::refusal;
use svc_step::Failure;

/// All tables save those above foreign tables, where there are such; else none. To sample a table with all below it, the server
/// would ask other servers for their rows, and fail where one of them is away.
const NOT_ABOVE_FOREIGN: &str = "
    WITH RECURSIVE above AS (
        SELECT i.inhparent FROM pg_catalog.pg_inherits i JOIN pg_catalog.pg_class c ON c.oid = i.inhrelid WHERE c.relkind = 'f'
        UNION SELECT i.inhparent FROM pg_catalog.pg_inherits i JOIN above ON above.inhparent = i.inhrelid)
    SELECT format('%I.%I', s.nspname, c.relname)
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace s ON s.oid = c.relnamespace
    WHERE EXISTS (SELECT FROM above) AND c.relkind IN ('r', 'm', 'p') AND c.relpersistence <> 't'
        AND c.oid NOT IN (SELECT inhparent FROM above)
    ORDER BY c.oid";

/// Gathers them.
///
/// # Errors
/// See [`refusal::of_query`].
pub(crate) fn analyze(client: &mut Client) -> Result<(), Failure> {
    let told = |error: postgres::Error| refusal::of_query(&error, "gather statistics (ANALYZE)");
    let tables = client.query(NOT_ABOVE_FOREIGN, &[]).map_err(told)?;
    let tables: Vec<String> = tables.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>().map_err(told)?;
    client.batch_execute(&format!("ANALYZE {}", tables.join(", "))).map_err(told)
}
