//! What the steps say they found and did: the `result` of their documents.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_pgdump::Compression;
use svc_pgdump::admin::Named;
use svc_step::action::Action;

/// The dump that is, or is to be, brought back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Source {
    /// Its absolute path.
    pub path: String,
    /// The size of that file.
    pub size_bytes: u64,
    /// The SHA-256 of that file.
    pub sha256: String,
    /// How it is compressed; `null` where it is plain.
    pub compression: Option<Compression>,
    /// The size of the SQL in it.
    pub text_size_bytes: u64,
    /// The version of the server that it was taken from, as the dump says it.
    pub server_version: String,
    /// The version of the pg_dump that wrote it.
    pub pg_dump_version: String,
}

/// Where the properties that a dump does not hold (encoding, locale, settings, privileges, comment, connection limit) are
/// taken from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PropertiesFrom {
    /// The properties file that `svc-pgdump` wrote beside the dump.
    Recorded,
    /// The live database, since there is no such file; or what `--in-place` kept of it before a load that failed.
    Live,
    /// The server's defaults, since there is neither.
    Defaults,
}

/// What was compared after the load.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Proof {
    /// Tables whose rows were counted and compared with the dump.
    pub tables_count: u64,
    /// Rows in them.
    pub rows_count: u64,
    /// Large objects; where the dump holds any, there must be some, else none.
    pub large_objects_count: u64,
    /// Constraints that are not validated, since the dump made them so.
    pub not_validated: Vec<String>,
}

/// The room for a copy of the database, as it was before the load.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Room {
    /// The folder of the server's that it will lie in.
    pub folder: String,
    /// About what it takes, by the size of the dump.
    pub needed_bytes: u64,
    /// What is free there.
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
    /// The copy. With `--in-place` it is the database itself.
    pub staged: Named,
    /// `true`: it holds what the dump holds, as far as `proof` says. Only then it can be swapped in.
    pub proven: bool,
    /// What was compared; `null` while it is not proven.
    pub proof: Option<Proof>,
    /// The dump.
    pub dump: Source,
    /// Where the properties came from that a dump does not hold.
    pub properties_from: PropertiesFrom,
    /// What loads the dump: `fast` (by ourselves, over several connections) or `psql`.
    pub loader: String,
    /// Why it is that one, as a sentence.
    pub loader_because: String,
    /// Over how many connections it loads.
    pub jobs_count: usize,
    /// The room for it; `null` where the server's disk is not this host's, or with `--in-place` and `--ignore-room`.
    pub room: Option<Room>,
    /// What is done.
    pub plan: Vec<Action>,
}

/// One exchange of two databases' names.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Swapped {
    /// The run that it is about: the one that staged, whichever run the call belongs to. It names what is kept, and is what
    /// `--run` wants.
    pub run: String,
    /// Whether it goes back: what an earlier swap replaced becomes live again.
    pub back: bool,
    /// The name that is exchanged: the live database's.
    pub database: String,
    /// The server's identifier (`pg_control_system`).
    pub system_identifier: String,
    /// What becomes the live database, with the name that it has before.
    pub incoming: Named,
    /// What it replaces, with the name that it is kept under; `null` where there was no live database.
    pub kept: Option<Named>,
    /// Whether the exchange has taken place.
    pub swapped: bool,
    /// Whether what was replaced has been dropped (`--drop-old`).
    pub kept_dropped: bool,
    /// How many sessions were ended for it.
    pub sessions_ended_count: u64,
    /// The command that drops what was replaced; `null` where nothing is kept.
    pub drop_command: Option<String>,
    /// What is done.
    pub plan: Vec<Action>,
}

/// The whole restore: stage, prove and swap, or the procedure's literal order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Restored {
    /// The database that is restored.
    pub database: String,
    /// Whether the database itself was dropped and loaded anew (`--in-place`).
    pub in_place: bool,
    /// The copy that was loaded and proven; with `--in-place` the database itself.
    pub stage: Staged,
    /// The exchange of names; `null` before it has begun, and with `--in-place`.
    pub swap: Option<Swapped>,
    /// What is done, all of it.
    pub plan: Vec<Action>,
}

/// Copies that are there no more.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Discarded {
    /// The live database, which is left alone.
    pub database: String,
    /// The server's identifier (`pg_control_system`).
    pub system_identifier: String,
    /// The databases that were dropped; in a dry run, that would be.
    pub dropped: Vec<Named>,
    /// Those that the document names and that are not there any more.
    pub absent: Vec<Named>,
    /// What is done.
    pub plan: Vec<Action>,
}
