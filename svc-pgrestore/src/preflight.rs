//! What must be so before anything is changed.

use svc_pgdump::pg::{self, escape_identifier, escape_literal};
use svc_pgdump::{Dump, TableRows};
use svc_step::reporter::bytes;
use svc_step::{Call, Failure};

use crate::admin::{Admin, Live, files, missing_extensions, missing_roles, names, query_one, tablespace};
use crate::document::DiskSpace;
use crate::verify::Objects;

/// The server is not older than that of the dump, and has its roles, tablespaces and extensions.
pub(crate) fn needs(admin: &mut Admin, dump: &Dump, owner: &str) -> Result<(), Failure> {
    let refused = |message: String, hint: String| Err(Failure::refused("version_unsupported", message).hint(hint));
    let (server, major) = (&admin.server, dump.server_major().unwrap_or_default());
    if major > server.major() {
        let version = dump.server_version.as_deref().unwrap_or_default();
        return refused(
            format!("The dump is of a server of version {version}, and this one is {}, which is older.", server.version),
            format!("Restore it on a PostgreSQL {major} or later: --host and --port."),
        );
    }
    if !missing_roles(&mut admin.client, &[owner.to_owned()])?.is_empty() {
        let create = format!("CREATE ROLE {} LOGIN;", escape_identifier(owner));
        return refused(
            format!("The database is to belong to {owner}, a role that the server does not have."),
            format!("Pass its owner with --owner (SVC_DB_USER), or create the role first: {create}"),
        );
    }
    let missing = missing_roles(&mut admin.client, &dump.contents.roles)?;
    if let Some(first) = missing.first() {
        let message = format!("The dump needs roles that the server does not have: {}.", missing.join(", "));
        return refused(message, format!("Create them first: CREATE ROLE {};", escape_identifier(first)));
    }
    for name in &dump.tablespaces {
        if tablespace(&mut admin.client, name)?.is_none() {
            let message = format!("The dump needs the tablespace {name}, which the server does not have.");
            return refused(message, format!("Create it first: CREATE TABLESPACE {} LOCATION '…';", escape_identifier(name)));
        }
    }
    let missing = missing_extensions(&mut admin.client, &dump.contents.extensions)?;
    let message = format!("The dump needs extensions that are not installed on the server's host: {}.", missing.join(", "));
    let hint = "Install their packages on that host (on Debian postgresql-contrib, postgresql-VERSION-NAME).";
    if missing.is_empty() { Ok(()) } else { refused(message, hint.to_owned()) }
}

/// Nothing of the live database would be lost or would stop the swap.
pub(crate) fn in_the_way(database: &str, live: &Live) -> Result<(), Failure> {
    let (what, names, hint) = if let Some(gid) = live.prepared.first() {
        let hint = format!("In that database, COMMIT PREPARED or ROLLBACK PREPARED {}.", escape_literal(gid));
        ("prepared transactions, which only you can end", &live.prepared, hint)
    } else if let Some(name) = live.subscriptions.first() {
        let hint = format!("In that database, DROP SUBSCRIPTION {}; create it again after the restore.", escape_identifier(name));
        ("subscriptions, which would stay with the replaced database", &live.subscriptions, hint)
    } else if let Some(name) = live.slots.first() {
        let hint = format!("SELECT pg_drop_replication_slot({}); create it again after the restore.", escape_literal(name));
        ("replication slots, which would stay with the replaced database", &live.slots, hint)
    } else {
        return Ok(());
    };
    let message = format!("The database {database} has {what}: {}.", names.join(", "));
    Err(Failure::refused("not_swappable", message).hint(hint))
}

/// The directory that the database's files will lie in, if the server tells it.
pub(crate) fn folder(admin: &mut Admin, tablespace_name: Option<&str>) -> Result<Option<String>, Failure> {
    let own = admin.data_directory.clone();
    let Some(name) = tablespace_name else { return Ok(own) };
    let location = tablespace(&mut admin.client, name)?.ok_or_else(|| {
        let message = format!("The database was in the tablespace {name}, which the server does not have.");
        Failure::refused("version_unsupported", message).hint(format!(
            "Create it first: CREATE TABLESPACE {} LOCATION '…'; or move the properties file away, whose tablespace is not used then.",
            escape_identifier(name)
        ))
    })?;
    Ok(if location.is_empty() { own } else { Some(location) })
}

/// About what a copy takes, with its indexes and the write-ahead log of the load: 2.5 times the dump's text; less if the live database
/// is much smaller, since text may be ten times what the server makes of it. One that has lost its rows tells nothing.
fn needed(text: u64, live: Option<u64>, max_wal_size: u64) -> u64 {
    let by_text = text.saturating_mul(5) / 2;
    let by_live = |size: u64| (size.saturating_mul(3) / 2).max(text / 4).saturating_add(max_wal_size.saturating_mul(2));
    live.map_or(by_text, |size| by_live(size).min(by_text))
}

/// The bytes that are freed in that directory before the load: unfinished copies of the database, and with `live` the database itself.
/// `None` if the administrator may not read a size.
pub(crate) fn freed(admin: &mut Admin, call: &Call, folder: &str, database: &str, live: bool) -> Result<Option<u64>, Failure> {
    let live = live.then(|| database.to_owned());
    let dropped: Vec<String> = admin.unfinished(call, database).map(|left| left.copy.name).chain(live).collect();
    let mut freed = 0;
    for name in dropped {
        let Some((location, size_bytes)) = files(&mut admin.client, &name)? else { continue };
        // What is dropped in another directory may lie on another disk.
        if Some(folder) == if location.is_empty() { admin.data_directory.as_deref() } else { Some(location.as_str()) } {
            let Some(size_bytes) = size_bytes else { return Ok(None) };
            freed += size_bytes;
        }
    }
    Ok(Some(freed))
}

/// Disk space for the copy, if the server's disk is this host's. How much of it goes into other tablespaces is not known.
pub(crate) fn disk_space(
    admin: &mut Admin,
    call: &Call,
    dump: &Dump,
    folder: Option<&str>,
    in_place: bool,
    database: &str,
) -> Result<Option<DiskSpace>, Failure> {
    let folder = folder.filter(|_| in_place || dump.tablespaces.is_empty());
    let Some((folder, free_bytes)) = folder.and_then(|folder| Some((folder, admin.target.free_bytes(folder)?))) else {
        return Ok(None);
    };
    let Some(freed) = freed(admin, call, folder, database, in_place)? else { return Ok(None) };
    let sql = "SELECT pg_size_bytes(current_setting('max_wal_size'))";
    let max_wal_size: i64 = query_one(&mut admin.client, "get the size of the write-ahead log", sql, &[])?;
    let live_size = files(&mut admin.client, database)?.and_then(|(_, size_bytes)| size_bytes);
    let needed_bytes = needed(dump.size_bytes, live_size, u64::try_from(max_wal_size).unwrap_or_default());
    if free_bytes.saturating_add(freed) >= needed_bytes {
        return Ok((!in_place).then(|| DiskSpace { directory: folder.to_owned(), needed_bytes, free_bytes }));
    }
    let frees = if freed > 0 { format!(", and what is dropped first frees {}", bytes(freed)) } else { String::new() };
    let hint = match in_place {
        true => "if it is right, that load fails, and the live database is lost.",
        false => "svc-pgrestore --in-place FILE needs no second copy, but drops the live database first.",
    };
    let message = format!("The copy needs about {} at {folder}: {} are free{frees}.", bytes(needed_bytes), bytes(free_bytes));
    let hint = format!("Free disk space; --ignore-disk-space if the estimate is wrong; {hint}");
    Err(Failure::refused("out_of_space", message).hint(hint))
}

/// How many tables are named.
const NAMED: usize = 5;
/// Tables of the live database that no COPY block and no INSERT names, neither themselves nor by a root above them, the largest first;
/// without those of extensions.
const NOT_IN_DUMP: &str = "WITH RECURSIVE named AS (SELECT to_regclass(name)::oid AS oid FROM unnest($1::text[]) name \
    UNION SELECT i.inhrelid FROM named JOIN pg_inherits i ON i.inhparent = named.oid JOIN pg_class c ON c.oid = i.inhrelid \
    WHERE c.relispartition) SELECT quote_ident(n.nspname) || '.' || quote_ident(c.relname) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
    WHERE c.relkind = 'r' AND c.relpersistence <> 't' AND n.nspname <> 'information_schema' AND n.nspname !~ '^pg_' \
    AND NOT EXISTS (SELECT FROM named WHERE named.oid = c.oid) \
    AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e') \
    ORDER BY c.relpages DESC, 1";

/// Tables with rows in the live database that the dump does not have: it may be of a part of the database only (`pg_dump --schema-only`,
/// `--table`), which the dump does not tell, or older than they are. A warning; if nothing leads back to rows that are lost (`is_lost`),
/// a refusal, and a table that cannot be read counts as one with rows.
pub(crate) fn missing_tables(
    call: &Call,
    admin: &Admin,
    (dump, objects): (&Dump, &Objects),
    database: &str,
    is_lost: bool,
) -> Result<(), Failure> {
    let action = "look for tables that the dump lacks";
    let mut client = admin.target.connect(call, database)?;
    client.batch_execute(pg::BEFORE_RESTORE).map_err(|error| pg::of_query(&error, action))?;
    let copied = dump.contents.tables.iter().map(TableRows::quoted);
    let named: Vec<String> = copied.chain(dump.inserted.iter().flatten().cloned()).collect();
    let tables = names(&mut client, action, NOT_IN_DUMP, &[&named])?;
    let large_objects = (objects.large_objects_count == 0).then(|| "pg_catalog.pg_largeobject_metadata".to_owned());
    let mut found = Vec::new();
    for name in large_objects.into_iter().chain(tables) {
        if found.len() > NAMED || call.check().is_err() {
            break;
        }
        match query_one(&mut client, action, &format!("SELECT EXISTS (SELECT FROM ONLY {name})"), &[]) {
            Ok(true) => found.push(name),
            // It is locked, the administrator has no right to it, or a policy hides rows from him.
            Err(_) if is_lost => found.push(format!("{name} (cannot be read)")),
            _ => {}
        }
    }
    if found.is_empty() {
        return Ok(());
    }
    let more = if found.len() > NAMED { " and others" } else { "" };
    let names = found.get(..NAMED).unwrap_or(&found).join(", ");
    let message = format!(
        "The live database {database} has rows in tables for which the dump has none: {names}{more}. The dump is older than these \
         tables, or of a part of the database only (--schema-only, --table)."
    );
    if is_lost {
        return Err(lost(message));
    }
    call.warn("dump_invalid", message);
    Ok(())
}

/// No restore of a dump that is not of everything is to cost what it replaces.
pub(crate) fn lost(message: String) -> Failure {
    let hint = "Omit --drop-old and --in-place, so that what it replaces stays; or take a complete dump: svc-pgdump.";
    Failure::refused("dump_invalid", message).hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_live_database_lowers_disk_space_estimate() {
        for (text, live, wanted) in [(1000, None, 2500), (1000, Some(4000), 2500), (1000, Some(200), 320), (1000, Some(0), 270)] {
            assert_eq!(needed(text, live, 10), wanted, "{text} {live:?}");
        }
    }
}
