//! A snapshot as `GET /_snapshot/<repository>/<snapshot>` shows it.

pub(crate) mod backup;
pub(crate) mod fit;
pub(crate) mod follow;
mod get;
pub(crate) mod kept;
pub(crate) mod mark;
pub(crate) mod name;
pub(crate) mod noted;
pub(crate) mod source;
pub(crate) mod verdict;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use svc_step::document::Time;

use crate::server::json::{self, list, texts};
use crate::snapshot::fit::Fit;

pub(crate) use self::get::{all, find, get, not_found, probe};

/// The state of a snapshot that is being taken.
const IN_PROGRESS: &str = "IN_PROGRESS";

/// A snapshot, as its server shows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Snapshot {
    /// Its name.
    pub name: String,
    /// Its `uuid`.
    pub uuid: String,
    /// Its state in the server's own words: `IN_PROGRESS`, `SUCCESS`, `PARTIAL`, `FAILED`, `INCOMPATIBLE`.
    pub state: String,
    /// The version of the server that took it, as far as the server that was asked knows it; `null` where it does not say, or
    /// does not know it: that of a newer one, or of the other product.
    pub version: Option<String>,
    /// The indices that it holds, with those behind its data streams and those of feature states, in the order of their names.
    pub indices: Vec<String>,
    /// The data streams that it holds.
    pub data_streams: Vec<String>,
    /// Those of its indices that belong to feature states of the server (Elasticsearch).
    pub feature_indices: Vec<String>,
    /// When it was begun.
    pub started_at: Option<Time>,
    /// When it was finished; `null` while it is being taken.
    pub finished_at: Option<Time>,
    /// How long it took; `null` while it is being taken.
    pub duration_ms: Option<u64>,
    /// Its shards; all 0 while it is being taken.
    pub shards: Shards,
    /// What failed, shard by shard.
    pub failures: Vec<ShardFailure>,
    /// Why it failed as a whole, in the server's words.
    pub reason: Option<String>,
    /// Who took it (procedure, 2.2).
    pub taken_by: Option<String>,
    /// Why it was taken (procedure, 2.2).
    pub taken_because: Option<String>,
    /// What it is for, such as `manual`, `nightly`, `upgrade`; `null` where it is not one of ours.
    pub kind: Option<String>,
    /// The run that took it; `null` where it is not one of ours.
    pub run_id: Option<String>,
    /// All of its metadata.
    pub metadata: Map<String, Value>,
    /// When it was begun, to the millisecond; only of one that the server showed.
    #[serde(skip)]
    pub(crate) started: Option<Timestamp>,
    /// Whether the server that was asked can restore it, by its version.
    #[serde(skip)]
    pub(crate) fit: Fit,
}

/// Shards of a snapshot by what became of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Shards {
    /// All of them.
    pub total_count: u64,
    /// Those that it holds.
    pub successful_count: u64,
    /// Those that it does not hold.
    pub failed_count: u64,
}

/// A shard that a snapshot does not hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ShardFailure {
    /// Its index.
    pub index: String,
    /// Its number.
    pub shard: u64,
    /// Why, in the server's words.
    pub reason: String,
}

impl Snapshot {
    /// Reads a snapshot object; what the server does not say is missing or empty.
    pub(crate) fn read(value: &Value) -> Option<Self> {
        let text = |pointer: &str| json::text(value, pointer).map(str::to_owned);
        let number = |pointer: &str| json::number(value, pointer).unwrap_or(0);
        let state = text("/state")?;
        let done = state != IN_PROGRESS && number("/end_time_in_millis") > 0;
        let mut feature_indices: Vec<String> =
            list(value, "/feature_states").flat_map(|feature| texts(feature, "/indices")).collect();
        let mut indices = texts(value, "/indices");
        indices.sort();
        feature_indices.sort();
        Some(Self {
            name: text("/snapshot")?,
            uuid: text("/uuid")?,
            version: text("/version"),
            indices,
            data_streams: texts(value, "/data_streams"),
            feature_indices,
            started_at: moment(number("/start_time_in_millis")).map(Time::from),
            started: moment(number("/start_time_in_millis")),
            finished_at: moment(number("/end_time_in_millis")).filter(|_| done).map(Time::from),
            duration_ms: done.then(|| number("/duration_in_millis")),
            shards: Shards {
                total_count: number("/shards/total"),
                successful_count: number("/shards/successful"),
                failed_count: number("/shards/failed"),
            },
            failures: list(value, "/failures").map(failure).collect(),
            reason: text("/reason"),
            taken_by: text("/metadata/taken_by"),
            taken_because: text("/metadata/taken_because"),
            kind: text("/metadata/svc_tools/kind"),
            run_id: text("/metadata/svc_tools/run_id"),
            metadata: value.get("metadata").and_then(Value::as_object).cloned().unwrap_or_default(),
            state,
            fit: Fit::default(),
        })
    }

    /// Whether it is still being taken.
    pub(crate) fn is_under_way(&self) -> bool {
        self.state == IN_PROGRESS
    }
}

fn moment(millis: u64) -> Option<Timestamp> {
    let millis = i64::try_from(millis).ok().filter(|millis| *millis > 0)?;
    Timestamp::from_millisecond(millis).ok()
}

fn failure(value: &Value) -> ShardFailure {
    let text = |pointer: &str| json::text(value, pointer).unwrap_or_default().to_owned();
    ShardFailure { index: text("/index"), shard: json::number(value, "/shard_id").unwrap_or(0), reason: text("/reason") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_snapshot_is_read_from_what_either_product_shows() {
        let value = json!({"snapshot": "s1", "uuid": "u", "version_id": 136_408_127, "version": "2.19.3", "indices": ["b", "a", ".t"],
            "data_streams": [], "state": "SUCCESS", "start_time_in_millis": 1_795_252_792_668_u64,
            "end_time_in_millis": 1_795_252_793_668_u64, "duration_in_millis": 1000, "failures": [],
            "metadata": {"taken_by": "me", "svc_tools": {"run_id": "r", "kind": "manual"}},
            "shards": {"total": 2, "failed": 0, "successful": 2}, "feature_states": [{"feature_name": "f", "indices": [".t"]}]});
        let snapshot = Snapshot::read(&value).unwrap();
        assert_eq!(snapshot.indices, [".t", "a", "b"]);
        assert_eq!(snapshot.feature_indices, [".t"]);
        assert_eq!(snapshot.started_at.as_ref().map(Time::as_str), Some("2026-11-21T09:19:52Z"));
        assert_eq!((snapshot.kind.as_deref(), snapshot.run_id.as_deref()), (Some("manual"), Some("r")));
        assert_eq!(snapshot.shards, Shards { total_count: 2, successful_count: 2, failed_count: 0 });
    }

    #[test]
    fn a_snapshot_under_way_has_no_end() {
        let value = json!({"snapshot": "s1", "uuid": "u", "state": "IN_PROGRESS", "start_time_in_millis": 1_795_252_792_668_u64,
            "end_time_in_millis": 0, "duration_in_millis": 0, "shards": {"total": 0, "failed": 0, "successful": 0}});
        let snapshot = Snapshot::read(&value).unwrap();
        assert!(snapshot.is_under_way());
        assert_eq!((snapshot.finished_at, snapshot.duration_ms), (None, None));
    }
}
