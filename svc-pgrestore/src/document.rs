//! The `result` of each step's document.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_pgdump::DumpFacts;
use svc_step::action::Action;

/// A database of the server, identified by its OID, which it keeps when it is renamed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Named {
    /// Its name.
    pub name: String,
    /// Its OID; `null` while it has not been created.
    pub oid: Option<u32>,
}

/// Where the properties come from that a dump does not hold (encoding, locale, settings, privileges, comment, connection limit).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PropertiesFrom {
    /// The properties file that `svc-pgdump` wrote.
    Recorded,
    /// The live database; or what `--in-place` saved of it before a load that failed.
    Live,
    /// The server's defaults.
    Defaults,
}

/// What was compared after the load.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Verification {
    /// Tables for which the dump has rows or an empty COPY block.
    pub tables_count: u64,
    /// Rows in them: as many arrived at the server as the dump has.
    pub rows_count: u64,
    /// Objects (tables, indexes, functions, …) that the dump and the copy have; `null` if there is no pg_dump that could tell.
    pub objects_count: Option<u64>,
    /// Large objects: as many as in the dump.
    pub large_objects_count: u64,
}

/// The disk space for a copy of the database, before the load.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DiskSpace {
    /// The directory of the server for it.
    pub directory: String,
    /// About what the copy takes, by the sizes of the dump and of the live database.
    pub needed_bytes: u64,
    /// What is free in that directory.
    pub free_bytes: u64,
}

/// A copy of the database that is staged beside the live one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Staged {
    /// The live database that it is a copy for.
    pub database: String,
    /// The server's identifier (`pg_control_system`).
    pub system_identifier: String,
    /// The server's version.
    pub server_version: String,
    /// The copy's owner.
    pub owner: String,
    /// The copy; with `--in-place` the database itself.
    pub staged: Named,
    /// Whether it holds what the dump holds, as far as `verification` says. Only then it can be swapped in.
    pub verified: bool,
    /// What was compared; `null` while it is not verified.
    pub verification: Option<Verification>,
    /// The dump.
    pub dump: DumpFacts,
    /// Where the properties come from that a dump does not hold.
    pub properties_from: PropertiesFrom,
    /// Over how many connections it loads.
    pub jobs_count: usize,
    /// The disk space; `null` if the disk is not this host's, the copy is there, or with `--in-place` and `--ignore-disk-space`.
    pub disk_space: Option<DiskSpace>,
    /// The effects of the step, in order; in a dry run, what they would be.
    pub plan: Vec<Action>,
}

/// A clone of the database on the same server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cloned {
    /// The run that cloned; its ID is in the name of the clone, and `--run` takes it.
    pub run: String,
    /// The live database that it is a clone of.
    pub database: String,
    /// The server's identifier (`pg_control_system`).
    pub system_identifier: String,
    /// The server's version.
    pub server_version: String,
    /// Its owner, which is that of the live database.
    pub owner: String,
    /// The clone.
    pub clone: Named,
    /// Whether it is complete, with the live database's owner, settings, rights, comment and connection limit. Only then it can
    /// be swapped in.
    pub verified: bool,
    /// The size of the live database when it was cloned: the disk space that the clone takes.
    pub size_bytes: u64,
    /// How many tables both have.
    pub tables_count: u64,
    /// The effects of the step, in order; in a dry run, what they would be.
    pub plan: Vec<Action>,
}

/// A swap of two databases' names.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Swapped {
    /// The run that staged or cloned, whichever run the call belongs to; `--run` takes it.
    pub run: String,
    /// Whether it goes back: what an earlier swap replaced becomes live again.
    pub back: bool,
    /// The name of the live database.
    pub database: String,
    /// The server's identifier (`pg_control_system`).
    pub system_identifier: String,
    /// What becomes the live database, with the name that it has before.
    pub incoming: Named,
    /// What it replaces, with the name that it has afterwards; `null` if there was no live database.
    pub previous: Option<Named>,
    /// Whether the swap has taken place.
    pub swapped: bool,
    /// Whether `previous` has been dropped (`--drop-old`).
    pub previous_dropped: bool,
    /// The effects of the step, in order; in a dry run, what they would be.
    pub plan: Vec<Action>,
}

/// The restore: stage, verify and swap, or the procedure's literal order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Restored {
    /// The database that is restored.
    pub database: String,
    /// Whether the database itself was dropped and loaded again (`--in-place`).
    pub in_place: bool,
    /// The copy that was loaded and verified; with `--in-place` the database itself.
    pub stage: Staged,
    /// The swap; `null` before it has begun, and with `--in-place`.
    pub swap: Option<Swapped>,
    /// What is done, all of it.
    pub plan: Vec<Action>,
}

/// Copies that are not there any more.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Discarded {
    /// The live database, which is not touched.
    pub database: String,
    /// The server's identifier (`pg_control_system`).
    pub system_identifier: String,
    /// The databases that were dropped; in a dry run, that would be.
    pub dropped: Vec<Named>,
    /// Those that the document names and that are not there any more.
    pub absent: Vec<Named>,
    /// The effects of the step, in order; in a dry run, what they would be.
    pub plan: Vec<Action>,
}
