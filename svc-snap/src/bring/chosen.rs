//! Which snapshot is restored, and what of it: named on the command line, or by the document of the step that took it.

use svc_step::from::Accept;
use svc_step::{Call, Failure};

use crate::bring::origin::Origin;
use crate::connection::Connection;
use crate::index::held::{self, Held};
use crate::index::resolve::{DEFAULT, PassedOver, Patterns};
use crate::index::scope::{Scope, ScopeArg};
use crate::index::shape::Shape;
use crate::server::Server;
use crate::snapshot;
use crate::snapshot::noted::Noted;
use crate::snapshot::source::SourceArgs;
use crate::snapshot::verdict;

/// What to restore.
#[derive(Debug, clap::Args)]
pub(crate) struct WhatArgs {
    #[command(flatten)]
    source: SourceArgs,
    /// What of the snapshot: names, patterns with *, exclusions with a leading -, comma separated
    #[arg(long, value_name = "PATTERNS", default_value = DEFAULT, allow_hyphen_values = true)]
    indices: String,
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
    /// The patterns as they were given.
    pub asked_for: String,
    /// What is restored.
    pub indices: Vec<String>,
    /// Data streams that are asked for.
    pub streams: Vec<String>,
    /// What else the snapshot holds.
    pub skipped: Vec<PassedOver>,
    notes: Vec<Noted>,
}

impl Chosen {
    /// Reads the document, connects, judges the snapshot and resolves the patterns.
    ///
    /// # Errors
    /// The document is no good (2); of another cluster, or the snapshot of that name is another one (3); the snapshot is
    /// not there (4), or no good (7).
    pub(crate) fn find(args: &WhatArgs, call: &Call) -> Result<Self, Failure> {
        let source = args.source.read(call, Accept::Good)?;
        let server = Server::connect(&args.connection, call)?;
        source.check_server(&server, args.source.other)?;
        let snapshot = snapshot::get(&server, &source.repository, &source.name)?;
        source.check_uuid(&snapshot)?;
        // One that is not whole is not restored; one that is still being taken is none yet.
        verdict::judge(&source.repository, &snapshot, &[])?;
        let held = Held {
            indices: &snapshot.indices,
            streams: &snapshot.data_streams,
            features: &snapshot.feature_indices,
            behind: &[],
        };
        let resolved = held::resolve(&Patterns::parse(&args.indices), held, &args.scope.scope)?;
        Ok(Self {
            scope: args.scope.scope.clone(),
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
            notes: source.noted().to_vec(),
            server,
        })
    }

    /// Refuses data streams; `why` completes the sentence "Data streams cannot be …".
    ///
    /// # Errors
    /// Such are asked for (3), all named.
    pub(crate) fn refuse_streams(&self, why: &str) -> Result<(), Failure> {
        if self.streams.is_empty() {
            return Ok(());
        }
        Err(Failure::refused("data_streams", format!("Data streams cannot be {why}: {}.", self.streams.join(", ")))
            .hint(format!("Leave them out with --indices '{DEFAULT},-{}'.", self.streams.join(",-"))))
    }

    /// How many documents the backup noted, where it is sure of it.
    pub(crate) fn docs_expected(&self, index: &str) -> Option<u64> {
        self.note(index).filter(|noted| noted.docs_exact).and_then(|noted| noted.docs_count)
    }

    /// What the backup noted beside documents and mapping.
    pub(crate) fn noted(&self, index: &str) -> Option<Shape> {
        self.note(index).map(|noted| noted.shape.clone())
    }

    fn note(&self, index: &str) -> Option<&Noted> {
        self.notes.iter().find(|noted| noted.name == index)
    }
}
