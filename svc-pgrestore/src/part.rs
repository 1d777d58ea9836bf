//! A dump that is whole may still be of a part of the database only (`pg_dump --schema-only`, `--table`). Nobody can see that from the
//! dump alone, but what the live database holds beyond it can be named.

use postgres::Client;
use svc_pgdump::admin::Admin;
use svc_pgdump::{Dump, TableRows};
use svc_step::Call;

/// How many tables are named.
const NAMED: usize = 5;
/// A look at a table is not to wait for others.
const OWN_SETTINGS: &str =
    "SET search_path = ''; SET lock_timeout = '1s'; SET statement_timeout = '10s'; SET default_transaction_read_only = on";
/// Tables of the live database that no COPY block names, neither themselves nor by a root that they are a part of; the largest
/// first. What an extension has put there itself is none of the dump's.
const BEYOND: &str = "WITH named AS MATERIALIZED (SELECT to_regclass(name)::oid AS oid FROM unnest($1::text[]) name) \
    SELECT quote_ident(n.nspname) || '.' || quote_ident(c.relname) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
    WHERE c.relkind = 'r' AND c.relpersistence <> 't' AND n.nspname <> 'information_schema' AND n.nspname !~ '^pg_' \
    AND NOT EXISTS (SELECT FROM named WHERE named.oid = c.oid) \
    AND NOT EXISTS (SELECT FROM pg_partition_ancestors(c.oid) a JOIN named ON named.oid = a.relid) \
    AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e') \
    ORDER BY c.relpages DESC, 1 LIMIT 1000";

/// Warns of tables with rows in the live database of which the dump has no COPY block. That may be right: a later version of the
/// product has made them. Where the live database does not answer, nothing is said.
pub(crate) fn remark(call: &Call, admin: &Admin, dump: &Dump, database: &str) {
    // The tables of rows in INSERT statements are not known.
    if dump.has_inserts {
        return;
    }
    let Ok(mut client) = admin.target.connect(call, database) else { return };
    let found = beyond(call, &mut client, dump).unwrap_or_default();
    if found.is_empty() {
        return;
    }
    let more = if found.len() > NAMED { " and others" } else { "" };
    let names = found.get(..NAMED).unwrap_or(&found).join(", ");
    call.warn(
        "dump_lacks_tables",
        format!(
            "The live database {database} has rows in tables of which the dump has none: {names}{more}. The dump is older than these \
             tables, or of a part of the database only (--schema-only, --table)."
        ),
    );
}

fn beyond(call: &Call, client: &mut Client, dump: &Dump) -> Result<Vec<String>, postgres::Error> {
    client.batch_execute(OWN_SETTINGS)?;
    let named: Vec<String> = dump.tables.iter().map(TableRows::quoted).collect();
    let mut found = Vec::new();
    for row in client.query(BEYOND, &[&named])? {
        let name: String = row.try_get(0)?;
        if found.len() > NAMED || call.check().is_err() {
            break;
        }
        // One that somebody has locked is passed over.
        let rows = client.query_one(&format!("SELECT EXISTS (SELECT FROM ONLY {name})"), &[]);
        if rows.and_then(|row| row.try_get(0)).unwrap_or_default() {
            found.push(name);
        }
    }
    Ok(found)
}
