//! A snapshot as `GET /_snapshot/<repository>/<snapshot>` shows it, and the requests that get and delete it.

pub(crate) mod captured;
pub(crate) mod compatibility;
pub(crate) mod follow;
pub(crate) mod mark;
pub(crate) mod verdict;

pub(crate) use self::captured::{Backup, Source, SourceArgs};
pub(crate) use self::compatibility::Compatibility;
pub(crate) use self::mark::Kind;
pub(crate) use self::verdict::Item;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use svc_step::document::Time;
use svc_step::redact::sentence_without_secrets;
use svc_step::{Call, Failure};

use self::compatibility::compatibility;
use crate::client::{self, Server, errors, list, members, path, texts};
use crate::repository;

const IN_PROGRESS: &str = "IN_PROGRESS";

/// A snapshot, as its server shows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Snapshot {
    pub name: String,
    pub uuid: String,
    /// Its state in the server's own words: `IN_PROGRESS`, `SUCCESS`, `PARTIAL`, `FAILED`, `INCOMPATIBLE`.
    pub state: String,
    /// The version of the server that took it; `null` if the server that was asked does not say or know it.
    pub version: Option<String>,
    /// The indices that it holds, with the backing indices of its data streams and those of feature states, in the order of their names.
    pub indices: Vec<String>,
    pub data_streams: Vec<String>,
    /// Those of its indices that belong to feature states of the server (Elasticsearch).
    pub feature_indices: Vec<String>,
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
    /// What it is for, such as `manual`, `nightly`, `upgrade`; `null` if it is not one of ours.
    pub kind: Option<String>,
    /// The run that took it; `null` if it is not one of ours.
    pub run_id: Option<String>,
    pub metadata: Map<String, Value>,
    /// When it was begun, to the millisecond; only of one that the server showed.
    #[serde(skip)]
    pub(crate) started: Option<Timestamp>,
    /// Whether the server that was asked can restore it, by its version.
    #[serde(skip)]
    pub(crate) compatibility: Compatibility,
}

/// Shards of a snapshot by what became of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Shards {
    pub total_count: u64,
    pub successful_count: u64,
    pub failed_count: u64,
}

/// A shard that a snapshot does not hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ShardFailure {
    pub index: String,
    pub shard: u64,
    /// Why, in the server's words.
    pub reason: String,
}

impl Snapshot {
    /// Reads a snapshot object; what the server does not say is missing or empty.
    pub(crate) fn read(value: &Value) -> Option<Self> {
        let text = |pointer: &str| client::text(value, pointer).map(str::to_owned);
        let number = |pointer: &str| client::number(value, pointer).unwrap_or(0);
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
            reason: text("/reason").map(|reason| sentence_without_secrets(&reason)),
            taken_by: text("/metadata/taken_by"),
            taken_because: text("/metadata/taken_because"),
            kind: text("/metadata/svc_tools/kind"),
            run_id: text("/metadata/svc_tools/run_id"),
            metadata: value.get("metadata").and_then(Value::as_object).cloned().unwrap_or_default(),
            state,
            compatibility: Compatibility::default(),
        })
    }

    fn read_version(&mut self, server: &Server) {
        (self.compatibility, self.version) = compatibility(server.product, &server.version, self.version.take());
    }

    /// Whether the run of this call has taken it.
    pub(crate) fn is_of(&self, call: &Call) -> bool {
        self.run_id.as_deref() == Some(call.run_id().as_str())
    }

    pub(crate) fn is_under_way(&self) -> bool {
        self.state == IN_PROGRESS
    }
}

fn moment(millis: u64) -> Option<Timestamp> {
    let millis = i64::try_from(millis).ok().filter(|millis| *millis > 0)?;
    Timestamp::from_millisecond(millis).ok()
}

fn failure(value: &Value) -> ShardFailure {
    let text = |pointer: &str| client::text(value, pointer).unwrap_or_default().to_owned();
    ShardFailure {
        index: text("/index"),
        shard: client::number(value, "/shard_id").unwrap_or(0),
        reason: sentence_without_secrets(&text("/reason")),
    }
}

/// Gets one snapshot; `None` if the repository has none of that name. A repository that is not registered is 4.
pub(crate) fn find(server: &Server, repository: &str, name: &str) -> Result<Option<Snapshot>, Failure> {
    find_by(server, repository, &path(&["_snapshot", repository, name]))
}

/// The same as far as the repository's list has it, whatever has become of the snapshot's own file.
pub(crate) fn find_listed(server: &Server, repository: &str, name: &str) -> Result<Option<Snapshot>, Failure> {
    find_by(server, repository, &(path(&["_snapshot", repository, name]) + "?verbose=false"))
}

fn find_by(server: &Server, repository: &str, path: &str) -> Result<Option<Snapshot>, Failure> {
    match answer(server, repository, path) {
        Ok(answer) => {
            let mut snapshot = answer.pointer("/snapshots/0").and_then(Snapshot::read).ok_or_else(|| unexpected(&answer))?;
            snapshot.read_version(server);
            Ok(Some(snapshot))
        }
        Err(failure) if failure.code == "snapshot_not_found" => Ok(None),
        Err(failure) => Err(failure),
    }
}

pub(crate) fn not_found(call: &Call, server: &Server, repository: &str, name: &str) -> Failure {
    let list = server.command(call, &["list", "--repository", repository]);
    Failure::not_found("snapshot_not_found", format!("The repository {repository} has no snapshot {name}."))
        .hint(format!("{list} shows which there are."))
}

fn answer(server: &Server, repository: &str, path: &str) -> Result<Value, Failure> {
    let ask = || server.get(path).and_then(|answer| refused(&answer).map_or(Ok(answer), Err));
    // One that another client deletes just now is in the list that the server has read, and its file is gone.
    let answer = ask().or_else(|failure| if failure.code == "repository_damaged" { ask() } else { Err(failure) });
    answer.map_err(|failure| repository::named(failure, repository))
}

/// Elasticsearch 7.17 answers 200 with an empty list for a repository that is missing, and says so beside it.
fn refused(answer: &Value) -> Option<Failure> {
    let (_, error) = answer.get("failures").into_iter().flat_map(members).next()?;
    Some(errors::refusal(200, &json!({ "error": error })).failure)
}

/// All snapshots of a repository, oldest first; two of the same moment by their names. A part of the list is none.
pub(crate) fn all(server: &Server, repository: &str) -> Result<Vec<Snapshot>, Failure> {
    let answer = answer(server, repository, &path(&["_snapshot", repository, "_all"]))?;
    let is_part = client::number(&answer, "/remaining").unwrap_or(0) > 0;
    let listed = answer.get("snapshots").and_then(Value::as_array).filter(|_| !is_part).ok_or_else(|| unexpected(&answer))?;
    let mut all = listed.iter().map(|one| Snapshot::read(one).ok_or_else(|| unexpected(one))).collect::<Result<Vec<_>, _>>()?;
    all.iter_mut().for_each(|snapshot| snapshot.read_version(server));
    all.sort_by(|one, other| (one.started, &one.name).cmp(&(other.started, &other.name)));
    Ok(all)
}

/// How many snapshots the repository holds. Reads one of its files too: a server verifies a repository in an emptied directory as well.
pub(crate) fn probe(server: &Server, repository: &str) -> Result<u64, Failure> {
    let answer = answer(server, repository, &format!("{}?verbose=false", path(&["_snapshot", repository, "_all"])))?;
    let list = answer.get("snapshots").and_then(Value::as_array).ok_or_else(|| unexpected(&answer))?;
    if let Some(name) = list.last().and_then(|one| client::text(one, "/snapshot")) {
        find(server, repository, name)?;
    }
    Ok(list.len() as u64)
}

fn unexpected(answer: &Value) -> Failure {
    Failure::fault("The server's answer about its snapshots is not understood.")
        .hint("Check that its version is one that svc-snap knows: svc-snap health shows it.")
        .cause(answer.to_string().chars().take(500).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snapshot_response_is_parsed() {
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
}
