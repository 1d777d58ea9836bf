//! Where what is restored comes from: the cluster, and the snapshot.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One snapshot of one cluster, as the documents of what was restored from it name it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Origin {
    /// The cluster.
    pub cluster_uuid: String,
    /// The repository.
    pub repository: String,
    /// The snapshot.
    pub snapshot: String,
    /// The snapshot's `uuid`.
    pub snapshot_uuid: String,
}
