//! Which snapshot is restored, and what of it: named on the command line, or by the document of the step that took it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_step::{Accept, Call, Failure};

use crate::client::{Connection, Server};
use crate::index::select::{Contents, DEFAULT, without};
use crate::index::{IndexMetadata, Patterns, Scope, ScopeArg, Skipped, refuse_any, select};
use crate::snapshot;
use crate::snapshot::captured::{IndexRecord, StreamRecord};
use crate::snapshot::{Backup, Snapshot, SourceArgs, verdict};
use crate::throttle::{Rate, RateArg, Rates, Target};

#[derive(Debug, clap::Args)]
pub(crate) struct WhatArgs {
    #[command(flatten)]
    source: SourceArgs,
    /// What of the snapshot: names, patterns with *, exclusions with a leading -, comma separated
    #[arg(long, value_name = "PATTERNS", default_value = DEFAULT, allow_hyphen_values = true)]
    indices: String,
    #[command(flatten)]
    rate: RateArg,
    #[command(flatten)]
    scope: ScopeArg,
    #[command(flatten)]
    connection: Connection,
}

/// The snapshot that something is restored from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Origin {
    pub cluster_uuid: String,
    pub repository: String,
    pub snapshot: String,
    pub snapshot_uuid: String,
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
    captured: Vec<IndexRecord>,
    captured_streams: Vec<StreamRecord>,
}

impl Chosen {
    /// Reads the document, connects, checks the snapshot and resolves the patterns.
    /// Errors: The document is invalid (2); of another cluster, the snapshot of that name is another one, or one that this
    /// server cannot restore (3); the snapshot is not there (4) or invalid (7).
    pub(crate) fn find(args: &WhatArgs, call: &Call) -> Result<Self, Failure> {
        let source = args.source.read(call, Accept::Good)?;
        let server = Server::connect(&args.connection, call)?;
        source.check_server(&server, args.source.other)?;
        let snapshot = snapshot::get(&server, &source.repository, &source.name)?;
        source.check_uuid(&snapshot)?;
        verdict::check(&source.repository, &snapshot, &[])?;
        verdict::check_restorable(&server, &source.repository, &snapshot)?;
        let Backup { captured, captured_streams, .. } = source.backup(call, &server, snapshot.clone());
        let backing = backing(&snapshot, &captured_streams);
        let all_backing: Vec<String> = backing.values().flatten().cloned().collect();
        let hidden = if snapshot.data_streams.is_empty() { Vec::new() } else { select::with_hidden(&server)?.hidden };
        let held = Contents {
            indices: &snapshot.indices,
            streams: &snapshot.data_streams,
            hidden: &hidden,
            features: &snapshot.feature_indices,
            backing: &all_backing,
        };
        if source.document.is_none() && captured.is_empty() && captured_streams.is_empty() {
            call.warn(
                "not_recorded",
                "Neither a document of create nor this host says how many documents the indices held, so only their shards are verified, not their counts.",
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
            captured,
            captured_streams,
            server,
        })
    }

    /// The cluster's throttle during the restore; left as it is where the cluster is not the service's alone.
    pub(crate) fn rates(&self, call: &Call) -> Result<Rates<'_>, Failure> {
        let why_not = format!("it is the whole cluster's, and the scope is {} (--scope, SVC_INDICES), not *", self.scope);
        let why_not = Some(why_not.as_str()).filter(|_| !self.scope.is_everything());
        Rates::plan(call, &self.server, Target::Cluster, &self.rate, why_not)
    }

    /// Refuses data streams, which cannot be cloned and so neither staged nor swapped.
    /// Errors: There are such (3), all named.
    pub(crate) fn refuse_streams(&self) -> Result<(), Failure> {
        let without = without(&self.streams);
        let hint = format!("Leave them out with {without}; svc-snap restore --in-place restores them over what is live.");
        refuse_any("data_streams", "Data streams cannot be staged", &self.streams, &hint)
    }

    /// All that is restored: indices and data streams.
    pub(crate) fn names(&self) -> Vec<&str> {
        self.indices.iter().chain(&self.streams).map(String::as_str).collect()
    }

    /// The backing indices of a data stream in the snapshot.
    pub(crate) fn backing(&self, stream: &str) -> Vec<String> {
        self.backing.get(stream).cloned().unwrap_or_default()
    }

    /// How many documents were captured, where that is sure.
    pub(crate) fn docs_expected(&self, index: &str) -> Option<u64> {
        self.captured(index).filter(|captured| captured.docs_exact).and_then(|captured| captured.docs_count)
    }

    /// What was captured beside documents and mapping.
    pub(crate) fn metadata(&self, index: &str) -> Option<IndexMetadata> {
        self.captured(index).map(|captured| captured.metadata.clone())
    }

    pub(crate) fn captured_stream(&self, stream: &str) -> Option<&StreamRecord> {
        self.captured_streams.iter().find(|captured| captured.name == stream)
    }

    fn captured(&self, index: &str) -> Option<&IndexRecord> {
        self.captured.iter().find(|captured| captured.name == index)
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
