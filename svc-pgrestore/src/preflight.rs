//! What must be so before anything is touched: pure judgements of what was read.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use svc_pgdump::admin::Server;
use svc_pgdump::escape::{escape_identifier, escape_literal};
use svc_step::Failure;

use crate::outcome::Room;
use crate::server::Live;

/// How much room a second copy needs, as a multiple of its plain dump: the tables, their indexes, and the write-ahead log of
/// the load. A dump was 0.63 of its database in one case, 4.6 times it in another, so this is an estimate only.
const ROOM_PER_DUMP_BYTE: f64 = 2.5;

/// A dump of a newer server cannot be read by an older one.
pub(crate) fn versions(dump_of: u32, dump_of_text: &str, server: &Server) -> Result<(), Failure> {
    let major = server.version_num / 10_000;
    if dump_of <= major {
        return Ok(());
    }
    Err(Failure::refused(
        "server_too_old",
        format!("The dump is of a server of version {dump_of_text}, and this one is {}, which is older.", server.version),
    )
    .hint(format!("Restore it on a PostgreSQL {dump_of} or later: --host and --port.")))
}

/// The role that is to own the database.
pub(crate) fn owner(missing: &[String]) -> Result<(), Failure> {
    let Some(owner) = missing.first() else { return Ok(()) };
    Err(Failure::refused("role_missing", format!("The database is to belong to {owner}, a role that the server does not have."))
        .hint(format!(
            "Name its owner with --owner (SVC_DB_USER), or create the role first: CREATE ROLE {} LOGIN;",
            escape_identifier(owner)
        )))
}

/// Every role that the dump grants to or that owns something.
pub(crate) fn roles(missing: &[String]) -> Result<(), Failure> {
    let Some(first) = missing.first() else { return Ok(()) };
    Err(Failure::refused("role_missing", format!("The dump needs roles that the server does not have: {}.", missing.join(", ")))
        .hint(format!("Create them first: CREATE ROLE {};", escape_identifier(first))))
}

/// Every extension that the dump creates.
pub(crate) fn extensions(missing: &[String]) -> Result<(), Failure> {
    if missing.is_empty() {
        return Ok(());
    }
    Err(Failure::refused(
        "extension_missing",
        format!("The dump needs extensions that are not installed on the server's host: {}.", missing.join(", ")),
    )
    .hint("Install their packages on that host (on Debian postgresql-contrib, postgresql-VERSION-NAME)."))
}

/// The tablespace that the database was in; gives its location.
pub(crate) fn tablespace(name: &str, location: Option<String>) -> Result<String, Failure> {
    location.ok_or_else(|| {
        Failure::refused("tablespace_missing", format!("The database was in the tablespace {name}, which the server does not have."))
            .hint(format!("Create it first: CREATE TABLESPACE {} LOCATION '…'; or move the properties file away, whose tablespace is then not looked at.", escape_identifier(name)))
    })
}

/// Nothing of the live database would be lost or would stop the exchange.
pub(crate) fn in_the_way(database: &str, live: &Live) -> Result<(), Failure> {
    if let Some(gid) = live.prepared.first() {
        return Err(Failure::refused(
            "prepared_transactions",
            format!(
                "The database {database} has prepared transactions, which nothing can end for it: {}.",
                live.prepared.join(", ")
            ),
        )
        .hint(format!("In that database, COMMIT PREPARED or ROLLBACK PREPARED {}.", escape_literal(gid))));
    }
    if let Some(name) = live.subscriptions.first() {
        return Err(Failure::refused(
            "subscriptions",
            format!(
                "The database {database} has subscriptions, which would stay with what is replaced: {}.",
                live.subscriptions.join(", ")
            ),
        )
        .hint(format!("In that database, DROP SUBSCRIPTION {}; create it anew after the restore.", escape_identifier(name))));
    }
    if let Some(name) = live.slots.first() {
        return Err(Failure::refused(
            "replication_slots",
            format!(
                "The database {database} has replication slots, which would stay with what is replaced: {}.",
                live.slots.join(", ")
            ),
        )
        .hint(format!("SELECT pg_drop_replication_slot({}); create it anew after the restore.", escape_literal(name))));
    }
    Ok(())
}

/// Room for a second copy beside the live one.
pub(crate) fn room(dump_bytes: u64, free_bytes: u64, folder: &str) -> Result<Room, Failure> {
    let needed = estimate(dump_bytes);
    if free_bytes >= needed {
        return Ok(Room { folder: folder.to_owned(), needed_bytes: needed, free_bytes });
    }
    Err(Failure::refused(
        "no_room",
        format!("A second copy needs about {needed} bytes at {folder}, and {free_bytes} bytes are free."),
    )
    .hint("Make room; --ignore-room if the estimate is wrong; --in-place restores without a second copy."))
}

/// Room for the database in the place of the live one, whose files are gone by then.
pub(crate) fn room_in_place(dump_bytes: u64, free_bytes: u64, given_back: u64, folder: &str) -> Result<(), Failure> {
    let needed = estimate(dump_bytes);
    if free_bytes.saturating_add(given_back) >= needed {
        return Ok(());
    }
    Err(Failure::refused(
        "no_room",
        format!(
            "The database needs about {needed} bytes at {folder}: {free_bytes} bytes are free, and the live database would give back {given_back}."
        ),
    )
    .hint("Make room; --ignore-room if the estimate is wrong, but if it is right, the live database is lost."))
}

/// Whether two folders are known to be on two disks.
pub(crate) fn are_apart(one: &Path, other: &Path) -> bool {
    let disk = |folder: &Path| std::fs::metadata(folder).ok().map(|meta| meta.dev());
    disk(one).zip(disk(other)).is_some_and(|(one, other)| one != other)
}

/// The room that a copy of a dump of that size takes.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "an estimate")]
fn estimate(dump_bytes: u64) -> u64 {
    (dump_bytes as f64 * ROOM_PER_DUMP_BYTE) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server() -> Server {
        Server {
            version_num: 150_018,
            version: "15.18".to_owned(),
            system_identifier: "7".to_owned(),
            user: "postgres".to_owned(),
            superuser: true,
            creates_databases: true,
            data_directory: None,
        }
    }

    #[test]
    fn a_dump_of_a_newer_server_is_refused_and_one_of_an_older_is_not() {
        assert!(versions(15, "15.18", &server()).is_ok());
        assert!(versions(13, "13.22", &server()).is_ok());
        assert_eq!(versions(16, "16.10", &server()).unwrap_err().code, "server_too_old");
    }

    #[test]
    fn what_would_be_lost_or_would_stop_the_exchange_is_named() {
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
    fn room_is_an_estimate_from_the_dump() {
        assert!(room(1000, 2500, "/x").is_ok());
        assert_eq!(room(1000, 2499, "/x").unwrap_err().code, "no_room");
        assert!(room_in_place(1000, 1500, 1000, "/x").is_ok());
        assert_eq!(room_in_place(1000, 1499, 1000, "/x").unwrap_err().code, "no_room");
        assert!(roles(&[]).is_ok() && extensions(&[]).is_ok());
    }
}
