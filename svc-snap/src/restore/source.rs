//! Which snapshot is restored, and what of it, by the command line or the document of the step that took it; and a restore's result.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_step::{Accept, Action, Call, Failure};

use crate::client::{Server, path};
use crate::index::select::{Contents, DEFAULT, without};
use crate::index::{IndexMetadata, Patterns, Scope, ScopeArg, Skipped, refuse_any, select};
use crate::restore::Swapped;
use crate::snapshot::captured::{IndexRecord, StreamRecord};
use crate::snapshot::{Backup, Snapshot, SourceArgs, verdict};
use crate::temporary::Target;
use crate::throttle::{Rate, RateArg, Rates, Throttle};

#[derive(Debug, clap::Args)]
pub(crate) struct SelectionArgs {
    #[command(flatten)]
    source: SourceArgs,
    /// Which indices of the snapshot: names, patterns with *, exclusions with a leading -, comma separated
    #[arg(long, value_name = "PATTERNS", default_value = DEFAULT, allow_hyphen_values = true)]
    indices: String,
    #[command(flatten)]
    rate: RateArg,
    #[command(flatten)]
    scope: ScopeArg,
}

/// The snapshot that something is restored from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Origin {
    pub cluster_uuid: String,
    pub repository: String,
    pub snapshot: String,
    pub snapshot_uuid: String,
}

impl Origin {
    pub(crate) fn path(&self, rest: &[&str]) -> String {
        path(&[&["_snapshot", &self.repository, &self.snapshot], rest].concat())
    }
}

/// A valid snapshot, and what of it is restored.
#[derive(Debug)]
pub(crate) struct Chosen {
    pub server: Server,
    pub scope: Scope,
    pub origin: Origin,
    pub rate: Rate,
    /// The patterns as they were given.
    pub asked_for: String,
    pub indices: Vec<String>,
    pub streams: Vec<String>,
    /// What else the snapshot holds.
    pub skipped: Vec<Skipped>,
    /// How many shards the snapshot holds.
    pub shards_count: u64,
    /// When the snapshot was begun, in milliseconds since 1970.
    pub started_ms: Option<i64>,
    /// The backing indices of the snapshot's data streams.
    backing: BTreeMap<String, Vec<String>>,
    backup: Backup,
}

impl Chosen {
    /// Errors: The document is invalid (2); of another cluster or snapshot, or one that this server cannot restore (3); the snapshot is
    /// not there (4) or invalid (7).
    pub(crate) fn find(args: &SelectionArgs, call: &Call) -> Result<Self, Failure> {
        let (source, server, snapshot) = args.source.find(call, Accept::Successful)?;
        verdict::check(&source.repository, &snapshot, &[])?;
        verdict::check_restorable(&server, &source.repository, &snapshot)?;
        let backup = source.backup(call, &server, snapshot.clone(), false);
        let backing = backing(&snapshot, &backup.captured_streams);
        let all_backing: Vec<String> = backing.values().flatten().cloned().collect();
        let hidden = if snapshot.data_streams.is_empty() { Vec::new() } else { select::with_hidden(&server)?.hidden };
        let held = Contents {
            indices: &snapshot.indices,
            streams: &snapshot.data_streams,
            hidden: &hidden,
            features: &snapshot.feature_indices,
            backing: &all_backing,
        };
        if source.document.is_none() && backup.captured.is_empty() && backup.captured_streams.is_empty() {
            call.warn(
                "not_checked",
                "Neither a document of create nor this host says how many documents the indices held, so only their shards are verified, not their counts, and blocks that they had (index.blocks.*) are set in place only.",
            );
        }
        let selected = select::of_snapshot(&Patterns::parse(&args.indices), held, &args.scope.scope)?;
        Ok(Self {
            scope: args.scope.scope.clone(),
            rate: args.rate.rate.clone(),
            origin: Origin {
                cluster_uuid: server.cluster_uuid.clone(),
                repository: source.repository.clone(),
                snapshot: snapshot.name,
                snapshot_uuid: snapshot.uuid,
            },
            asked_for: args.indices.clone(),
            indices: selected.indices,
            streams: selected.streams,
            skipped: selected.skipped,
            shards_count: snapshot.shards.total_count,
            started_ms: snapshot.started.map(|moment| moment.as_millisecond()),
            backing,
            backup,
            server,
        })
    }

    /// The cluster's throttle during the restore; left as it is if the cluster is not the service's alone.
    pub(crate) fn rates(&self, call: &Call) -> Result<Rates<'_>, Failure> {
        let why_not = format!("it is the whole cluster's, and the scope is {} (--scope, SVC_INDICES), not *", self.scope);
        let why_not = Some(why_not.as_str()).filter(|_| !self.scope.is_everything());
        Rates::plan(call, &self.server, Target::Cluster, &self.rate, why_not)
    }

    /// Refuses data streams, which cannot be cloned and so neither staged nor swapped (3).
    pub(crate) fn refuse_streams(&self) -> Result<(), Failure> {
        let without = without(&self.asked_for, &self.streams);
        let hint = format!("Leave them out with {without}; svc-snap restore --in-place restores them over what is live.");
        refuse_any("not_swappable", "Data streams cannot be staged", &self.streams, &hint)
    }

    pub(crate) fn names(&self) -> Vec<&str> {
        self.indices.iter().chain(&self.streams).map(String::as_str).collect()
    }

    pub(crate) fn backing(&self, stream: &str) -> Vec<String> {
        self.backing.get(stream).cloned().unwrap_or_default()
    }

    /// How many documents were captured, if that is sure.
    pub(crate) fn docs_expected(&self, index: &str) -> Option<u64> {
        self.captured(index).filter(|captured| captured.docs_exact).and_then(|captured| captured.docs_count)
    }

    /// What was captured beside documents and mapping.
    pub(crate) fn metadata(&self, index: &str) -> Option<IndexMetadata> {
        self.captured(index).map(|captured| captured.metadata.clone())
    }

    pub(crate) fn captured_stream(&self, stream: &str) -> Option<&StreamRecord> {
        self.backup.captured_streams.iter().find(|captured| captured.name == stream)
    }

    pub(super) fn captured(&self, index: &str) -> Option<&IndexRecord> {
        self.backup.captured.iter().find(|captured| captured.name == index)
    }
}

/// A snapshot that is live.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Restored {
    #[serde(flatten)]
    pub origin: Origin,
    /// The run; the previous copies have it in their names, and `swap --run` and `discard --run` take it.
    pub run: String,
    /// Whether it was restored over what was live.
    pub in_place: bool,
    /// In place, the `uuid` and the history's `uuid` of each index that was live before; those of a restored one differ.
    pub replaced: Vec<String>,
    /// Every index that is restored, and in place every data stream.
    pub indices: Vec<RestoredIndex>,
    /// The swap that made it live, which `swap` takes back; `null` if there was none.
    pub swap: Option<Swapped>,
    /// The cluster's throttle, if `--rate-limit` changes it; else `null`.
    pub throttle: Option<Throttle>,
    /// What else the snapshot holds, and why it is not restored.
    pub skipped: Vec<Skipped>,
    pub plan: Vec<Action>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RestoredIndex {
    pub index: String,
    /// Its backing indices in the snapshot if it is a data stream, or `null`.
    pub backing_indices: Option<Vec<String>>,
    pub method: RestoreMethod,
    pub state: RestoreState,
    /// How many documents it holds, or `null` before it is verified.
    pub docs_count: Option<u64>,
    /// How many documents were captured, or `null` if none were, or if the index was written to meanwhile.
    pub docs_expected: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RestoreMethod {
    /// Staged, verified and swapped.
    Swapped,
    /// Directly under its own name, since nothing was live under it.
    Direct,
    /// Over what was live.
    InPlace,
}

/// How far an index or a data stream of a restore has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RestoreState {
    /// What was live is live, or nothing was and nothing is.
    Untouched,
    /// What was live is closed, deleted or being exchanged, or is about to be; the backup is not live yet.
    InProgress,
    /// The backup is live, complete, with as many documents as were captured.
    Restored,
}

impl Restored {
    /// A restore before anything is done; `is_direct` says which indices are restored under their own names.
    pub(crate) fn planned(call: &Call, chosen: &Chosen, in_place: bool, is_direct: impl Fn(&str) -> bool) -> Self {
        use RestoreMethod::{Direct, InPlace, Swapped};
        let planned = |index: &str, backing_indices: Option<Vec<String>>, docs_expected: Option<u64>| RestoredIndex {
            index: index.to_owned(),
            backing_indices,
            method: match is_direct(index) {
                _ if in_place => InPlace,
                true => Direct,
                false => Swapped,
            },
            state: RestoreState::Untouched,
            docs_count: None,
            docs_expected,
        };
        let indices = chosen.indices.iter().map(|index| planned(index, None, chosen.docs_expected(index)));
        let streams = chosen.streams.iter().map(|name| {
            let captured = chosen.captured_stream(name);
            planned(name, Some(chosen.backing(name)), captured.and_then(StreamRecord::docs_expected))
        });
        Self {
            origin: chosen.origin.clone(),
            run: call.run_id().to_string(),
            in_place,
            replaced: Vec::new(),
            indices: indices.chain(streams).collect(),
            swap: None,
            throttle: None,
            skipped: chosen.skipped.clone(),
            plan: Vec::new(),
        }
    }
}

/// The backing indices of a snapshot's data streams: as they were captured, or else by their names.
fn backing(snapshot: &Snapshot, captured: &[StreamRecord]) -> BTreeMap<String, Vec<String>> {
    let mut backing = BTreeMap::<String, Vec<String>>::new();
    for index in &snapshot.indices {
        let is_backing = |stream: &&StreamRecord| stream.indices.iter().any(|one| one.name == *index);
        let captured = captured.iter().find(is_backing).map(|stream| &stream.name);
        if let Some(stream) = captured.or_else(|| select::stream_of(index, &snapshot.data_streams)) {
            backing.entry(stream.clone()).or_default().push(index.clone());
        }
    }
    backing
}
