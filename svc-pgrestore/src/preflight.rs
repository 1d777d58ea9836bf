//! What must be so before anything is changed.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use postgres::Client;
use svc_pgdump::pg::{escape_identifier, escape_literal};
use svc_pgdump::{Dump, TableRows};
use svc_step::{Call, Failure};

use crate::admin::{Admin, Live, Server, files, missing_extensions, missing_roles, tablespace};
use crate::document::Room;

/// How much a second copy takes, as a multiple of its plain dump: the tables, their indexes, and the write-ahead log of the load. A
/// dump was 0.63 of its database in one case, 4.6 times it in another, so this is an estimate only.
const BYTES_PER_DUMP_BYTE: f64 = 2.5;

/// The server is not older than that of the dump, and has its roles and extensions.
pub(crate) fn needs(admin: &mut Admin, dump: &Dump, owner: &str) -> Result<(), Failure> {
    version(dump.server_version.as_deref().unwrap_or_default(), dump.server_major().unwrap_or_default(), &admin.server)?;
    if !missing_roles(&mut admin.client, &[owner.to_owned()])?.is_empty() {
        let message = format!("The database is to belong to {owner}, a role that the server does not have.");
        return Err(Failure::refused("role_missing", message).hint(format!(
            "Pass its owner with --owner (SVC_DB_USER), or create the role first: CREATE ROLE {} LOGIN;",
            escape_identifier(owner)
        )));
    }
    let missing = missing_roles(&mut admin.client, &dump.roles)?;
    if let Some(first) = missing.first() {
        let message = format!("The dump needs roles that the server does not have: {}.", missing.join(", "));
        return Err(Failure::refused("role_missing", message)
            .hint(format!("Create them first: CREATE ROLE {};", escape_identifier(first))));
    }
    let missing = missing_extensions(&mut admin.client, &dump.extensions)?;
    if missing.is_empty() {
        return Ok(());
    }
    let message = format!("The dump needs extensions that are not installed on the server's host: {}.", missing.join(", "));
    Err(Failure::refused("extension_missing", message)
        .hint("Install their packages on that host (on Debian postgresql-contrib, postgresql-VERSION-NAME)."))
}

fn version(dump: &str, dump_major: u32, server: &Server) -> Result<(), Failure> {
    if dump_major <= server.version_num / 10_000 {
        return Ok(());
    }
    let message = format!("The dump is of a server of version {dump}, and this one is {}, which is older.", server.version);
    Err(Failure::refused("server_too_old", message)
        .hint(format!("Restore it on a PostgreSQL {dump_major} or later: --host and --port.")))
}

/// Nothing of the live database would be lost or would stop the swap.
pub(crate) fn in_the_way(database: &str, live: &Live) -> Result<(), Failure> {
    let refused = |code: &str, what: &str, names: &[String]| {
        Failure::refused(code, format!("The database {database} has {what}: {}.", names.join(", ")))
    };
    if let Some(gid) = live.prepared.first() {
        let what = "prepared transactions, which only you can end";
        return Err(refused("prepared_transactions", what, &live.prepared)
            .hint(format!("In that database, COMMIT PREPARED or ROLLBACK PREPARED {}.", escape_literal(gid))));
    }
    if let Some(name) = live.subscriptions.first() {
        let what = "subscriptions, which would stay with the replaced database";
        return Err(refused("subscriptions", what, &live.subscriptions).hint(format!(
            "In that database, DROP SUBSCRIPTION {}; create it again after the restore.",
            escape_identifier(name)
        )));
    }
    if let Some(name) = live.slots.first() {
        let what = "replication slots, which would stay with the replaced database";
        return Err(refused("replication_slots", what, &live.slots)
            .hint(format!("SELECT pg_drop_replication_slot({}); create it again after the restore.", escape_literal(name))));
    }
    Ok(())
}

/// The folder that the database's files will lie in, if the server tells it.
pub(crate) fn folder(admin: &mut Admin, tablespace_name: Option<&str>) -> Result<Option<String>, Failure> {
    let own = admin.server.data_directory.clone();
    let Some(name) = tablespace_name else { return Ok(own) };
    let location = tablespace(&mut admin.client, name)?.ok_or_else(|| {
        let message = format!("The database was in the tablespace {name}, which the server does not have.");
        Failure::refused("tablespace_missing", message).hint(format!(
            "Create it first: CREATE TABLESPACE {} LOCATION '…'; or move the properties file away, whose tablespace is not used then.",
            escape_identifier(name)
        ))
    })?;
    Ok(if location.is_empty() { own } else { Some(location) })
}

/// Disk space for the dump, if the server's disk is this host's.
pub(crate) fn disk_space(
    admin: &mut Admin,
    dump: &Dump,
    folder: Option<&str>,
    in_its_place: bool,
    database: &str,
) -> Result<Option<Room>, Failure> {
    let Some((folder, free_bytes)) = folder.and_then(|folder| Some((folder, admin.target.free_bytes(folder)?))) else {
        return Ok(None);
    };
    if !in_its_place {
        return for_a_copy(dump.size_bytes, free_bytes, folder).map(Some);
    }
    let released = match files(&mut admin.client, database)? {
        None => 0,
        Some((location, size_bytes)) => {
            let location = if location.is_empty() { admin.server.data_directory.clone() } else { Some(location) };
            match size_bytes {
                _ if location.is_some_and(|location| are_on_two_disks(Path::new(&location), Path::new(folder))) => 0,
                Some(size) => size,
                None => return Ok(None),
            }
        }
    };
    in_place(dump.size_bytes, free_bytes, released, folder).map(|()| None)
}

fn for_a_copy(dump_bytes: u64, free_bytes: u64, folder: &str) -> Result<Room, Failure> {
    let needed_bytes = estimate(dump_bytes);
    if free_bytes >= needed_bytes {
        return Ok(Room { folder: folder.to_owned(), needed_bytes, free_bytes });
    }
    let message = format!("A second copy needs about {needed_bytes} bytes at {folder}, and {free_bytes} bytes are free.");
    Err(Failure::refused("no_room", message).hint(
        "Free disk space; --ignore-room if the estimate is wrong; svc-pgrestore --in-place restores without a second copy.",
    ))
}

/// The files of the live database are gone by then.
fn in_place(dump_bytes: u64, free_bytes: u64, released: u64, folder: &str) -> Result<(), Failure> {
    let needed = estimate(dump_bytes);
    if free_bytes.saturating_add(released) >= needed {
        return Ok(());
    }
    let message = format!(
        "The database needs about {needed} bytes at {folder}: {free_bytes} bytes are free, and dropping the live database frees {released}."
    );
    Err(Failure::refused("no_room", message)
        .hint("Free disk space; --ignore-room if the estimate is wrong, but if it is right, the live database is lost."))
}

fn are_on_two_disks(one: &Path, other: &Path) -> bool {
    let disk = |folder: &Path| std::fs::metadata(folder).ok().map(|meta| meta.dev());
    disk(one).zip(disk(other)).is_some_and(|(one, other)| one != other)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "an estimate")]
fn estimate(dump_bytes: u64) -> u64 {
    (dump_bytes as f64 * BYTES_PER_DUMP_BYTE) as u64
}

/// How many tables are named.
const NAMED: usize = 5;
/// This check must not wait for others.
const SETTINGS: &str =
    "SET search_path = ''; SET lock_timeout = '1s'; SET statement_timeout = '10s'; SET default_transaction_read_only = on";
/// Tables of the live database that no COPY block names, neither themselves nor by a root above them, the largest first; without
/// those of extensions.
const NOT_IN_DUMP: &str = "WITH named AS MATERIALIZED (SELECT to_regclass(name)::oid AS oid FROM unnest($1::text[]) name) \
    SELECT quote_ident(n.nspname) || '.' || quote_ident(c.relname) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
    WHERE c.relkind = 'r' AND c.relpersistence <> 't' AND n.nspname <> 'information_schema' AND n.nspname !~ '^pg_' \
    AND NOT EXISTS (SELECT FROM named WHERE named.oid = c.oid) \
    AND NOT EXISTS (SELECT FROM pg_partition_ancestors(c.oid) a JOIN named ON named.oid = a.relid) \
    AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e') \
    ORDER BY c.relpages DESC, 1 LIMIT 1000";

/// Warns of tables with rows in the live database that the dump does not have: it may be of a part of the database only
/// (`pg_dump --schema-only`, `--table`), which the dump does not tell, or older than they are.
pub(crate) fn warn_of_missing_tables(call: &Call, admin: &Admin, dump: &Dump, database: &str) {
    // The tables of INSERT statements are not known.
    if dump.has_inserts {
        return;
    }
    let Ok(mut client) = admin.target.connect(call, database) else { return };
    let found = not_in_dump(call, &mut client, dump).unwrap_or_default();
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

fn not_in_dump(call: &Call, client: &mut Client, dump: &Dump) -> Result<Vec<String>, postgres::Error> {
    client.batch_execute(SETTINGS)?;
    let named: Vec<String> = dump.tables.iter().map(TableRows::quoted).collect();
    let mut found = Vec::new();
    for row in client.query(NOT_IN_DUMP, &[&named])? {
        let name: String = row.try_get(0)?;
        if found.len() > NAMED || call.check().is_err() {
            break;
        }
        // One that is locked is skipped.
        let rows = client.query_one(&format!("SELECT EXISTS (SELECT FROM ONLY {name})"), &[]);
        if rows.and_then(|row| row.try_get(0)).unwrap_or_default() {
            found.push(name);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dump_of_a_newer_server_is_refused_and_one_of_an_older_is_not() {
        let server = Server {
            version_num: 150_018,
            version: "15.18".to_owned(),
            system_identifier: "7".to_owned(),
            superuser: true,
            data_directory: None,
        };
        assert!(version("15.18", 15, &server).is_ok() && version("13.22", 13, &server).is_ok());
        assert_eq!(version("16.10", 16, &server).unwrap_err().code, "server_too_old");
    }

    #[test]
    fn what_would_be_lost_or_would_stop_the_swap_is_named() {
        let live = Live { prepared: vec!["it's".to_owned()], subscriptions: Vec::new(), slots: Vec::new() };
        let failure = in_the_way("svc_db", &live).unwrap_err();
        assert_eq!(failure.code, "prepared_transactions");
        assert!(failure.message.contains("it's") && failure.hint.unwrap().contains("'it''s'"));
        let live = Live { prepared: Vec::new(), subscriptions: vec!["s".to_owned()], ..live };
        assert_eq!(in_the_way("svc_db", &live).unwrap_err().code, "subscriptions");
        let live = Live { subscriptions: Vec::new(), slots: vec!["s".to_owned()], ..live };
        assert_eq!(in_the_way("svc_db", &live).unwrap_err().code, "replication_slots");
    }

    #[test]
    fn disk_space_is_an_estimate_from_the_dump() {
        assert!(for_a_copy(1000, 2500, "/x").is_ok());
        assert_eq!(for_a_copy(1000, 2499, "/x").unwrap_err().code, "no_room");
        assert!(in_place(1000, 1500, 1000, "/x").is_ok());
        assert_eq!(in_place(1000, 1499, 1000, "/x").unwrap_err().code, "no_room");
    }
}
