//! What every document of one snapshot says: which one it is, how it is, and what was noted beside it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::snapshot::Snapshot;
use crate::snapshot::noted::{Noted, NotedStream, Notes};

/// One snapshot, as documents hand it on from step to step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Backup {
    /// The cluster's `cluster_uuid`.
    pub cluster_uuid: String,
    /// The repository.
    pub repository: String,
    /// The snapshot's name.
    pub name: String,
    /// The indices and data streams that were asked for, by name; empty where it is unknown.
    pub wanted: Vec<String>,
    /// The snapshot, as the server shows it; `null` before it is begun, and where a staging or a restore was waited for.
    pub snapshot: Option<Snapshot>,
    /// What the snapshot does not hold or does not show, index by index: as this host noted it when it was begun, or else as
    /// the `--from` document says.
    pub noted: Vec<Noted>,
    /// The same of data streams, stream by stream.
    #[serde(default)]
    pub noted_streams: Vec<NotedStream>,
}

impl Backup {
    /// Takes over what was noted.
    pub(crate) fn note(&mut self, notes: &Notes) {
        self.noted = notes.noted();
        self.noted_streams = notes.noted_streams();
    }
}
