//! Which snapshot is restored, and what of it: named on the command line, or by the document of the step that took it.

use std::collections::BTreeMap;

use svc_step::from::Accept;
use svc_step::{Call, Failure};

use crate::client::Server;
use crate::client::auth::Connection;
use crate::index::held::{self, Held};
use crate::index::live;
use crate::index::resolve::{DEFAULT, PassedOver, Patterns};
use crate::index::scope::{Scope, ScopeArg};
use crate::index::shape::Shape;
use crate::restore::record::origin::Origin;
use crate::restore::streams::{self, StreamBack};
use crate::snapshot::captured::{Backup, IndexRecord, SourceArgs, StreamRecord};
use crate::snapshot::{self, Snapshot, verdict};
use crate::throttle::{Rate, RateArg, Rates};

/// What to restore.
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

/// A snapshot that is good, and what of it is restored.
#[derive(Debug)]
pub(crate) struct Chosen {
    pub server: Server,
    pub scope: Scope,
    pub origin: Origin,
    /// How fast it is brought back.
    pub rate: Rate,
    /// The patterns as they were given.
    pub asked_for: String,
    /// What is restored.
    pub indices: Vec<String>,
    /// Data streams that are asked for.
    pub streams: Vec<String>,
    /// What else the snapshot holds.
    pub skipped: Vec<PassedOver>,
    /// How many shards the snapshot holds.
    pub shards_count: u64,
    /// What of the snapshot is behind its data streams, stream by stream.
    behind: BTreeMap<String, Vec<String>>,
    notes: Vec<IndexRecord>,
    stream_notes: Vec<StreamRecord>,
}

impl Chosen {
    /// Reads the document, connects, judges the snapshot and resolves the patterns.
    ///
    /// # Errors
    /// The document is no good (2); of another cluster, the snapshot of that name is another one, or one that this server
    /// cannot restore (3); the snapshot is not there (4), or no good (7).
    pub(crate) fn find(args: &WhatArgs, call: &Call) -> Result<Self, Failure> {
        let source = args.source.read(call, Accept::Good)?;
        let server = Server::connect(&args.connection, call)?;
        source.check_server(&server, args.source.other)?;
        let snapshot = snapshot::get(&server, &source.repository, &source.name)?;
        source.check_uuid(&snapshot)?;
        // One that is not whole is not restored; one that is still being taken is none yet.
        verdict::check(&source.repository, &snapshot, &[])?;
        verdict::check_restorable(&server, &source.repository, &snapshot)?;
        let Backup { captured: notes, captured_streams: stream_notes, .. } = source.backup(call, &server, snapshot.clone());
        let behind = behind(&snapshot, &stream_notes);
        let noted: Vec<String> = behind.values().flatten().cloned().collect();
        let hidden = if snapshot.data_streams.is_empty() { Vec::new() } else { live::with_hidden(&server)?.1 };
        let held = Held {
            indices: &snapshot.indices,
            streams: &snapshot.data_streams,
            hidden: &hidden,
            features: &snapshot.feature_indices,
            behind: &noted,
        };
        if source.document.is_none() && notes.is_empty() && stream_notes.is_empty() {
            call.warn(
                "counts_not_noted",
                "Neither a document of create nor this host says how many documents the indices held, so only their shards are proven, not their counts.",
            );
        }
        let resolved = held::resolve(&Patterns::parse(&args.indices), held, &args.scope.scope)?;
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
            indices: resolved.indices,
            streams: resolved.streams,
            skipped: resolved.skipped,
            shards_count: snapshot.shards.total_count,
            behind,
            notes,
            stream_notes,
            server,
        })
    }

    /// What is to become of the cluster's throttle while it is brought back.
    ///
    /// # Errors
    /// As [`Rates::of_cluster`].
    pub(crate) fn rates(&self, call: &Call) -> Result<Rates<'_>, Failure> {
        Rates::of_cluster(call, &self.server, &self.scope, &self.rate)
    }

    /// Refuses `streams`, which cannot be staged.
    ///
    /// # Errors
    /// There are such (3), all named.
    pub(crate) fn refuse_streams(streams: &[&str]) -> Result<(), Failure> {
        if streams.is_empty() {
            return Ok(());
        }
        Err(Failure::refused("data_streams", format!("Data streams cannot be staged: {}.", streams.join(", "))).hint(format!(
            "Say --streams-in-place to have them restored in place after the swap, or leave them out with --indices '{DEFAULT},-{}'.",
            streams.join(",-")
        )))
    }

    /// The data streams that are to come back, and whether each is live now.
    ///
    /// # Errors
    /// As [`streams::look`].
    pub(crate) fn streams_back(&self) -> Result<Vec<StreamBack>, Failure> {
        let back = self.streams.iter().map(|name| {
            let noted = self.stream_notes.iter().find(|noted| noted.name == *name);
            StreamBack::planned(&self.origin, name, self.behind.get(name).cloned().unwrap_or_default(), noted)
        });
        let mut back: Vec<StreamBack> = back.collect();
        streams::look(&self.server, &mut back)?;
        Ok(back)
    }

    /// All that is restored: indices and data streams.
    pub(crate) fn names(&self) -> Vec<&str> {
        self.indices.iter().chain(&self.streams).map(String::as_str).collect()
    }

    /// How many documents the backup noted, where it is sure of it.
    pub(crate) fn docs_expected(&self, index: &str) -> Option<u64> {
        self.note(index).filter(|noted| noted.docs_exact).and_then(|noted| noted.docs_count)
    }

    /// What the backup noted beside documents and mapping.
    pub(crate) fn noted(&self, index: &str) -> Option<Shape> {
        self.note(index).map(|noted| noted.shape.clone())
    }

    fn note(&self, index: &str) -> Option<&IndexRecord> {
        let behind = self.stream_notes.iter().flat_map(|stream| &stream.indices);
        self.notes.iter().chain(behind).find(|noted| noted.name == index)
    }
}

/// What of a snapshot is behind its data streams: as it was noted, or else by the names.
fn behind(snapshot: &Snapshot, noted: &[StreamRecord]) -> BTreeMap<String, Vec<String>> {
    let mut behind: BTreeMap<String, Vec<String>> =
        snapshot.data_streams.iter().map(|stream| (stream.clone(), Vec::new())).collect();
    for index in &snapshot.indices {
        let is_noted = |stream: &&StreamRecord| stream.indices.iter().any(|one| one.name == *index);
        let noted = noted.iter().find(is_noted).map(|stream| &stream.name);
        let stream = noted.or_else(|| held::behind(index, &snapshot.data_streams));
        if let Some(indices) = stream.and_then(|stream| behind.get_mut(stream)) {
            indices.push(index.clone());
        }
    }
    behind
}
