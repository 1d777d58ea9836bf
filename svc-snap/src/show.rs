//! `show`: one snapshot, and whether it is good.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_step::from::Accept;
use svc_step::{Call, StepResult, Stopped};

use crate::connection::Connection;
use crate::kept::Kept;
use crate::noted::Noted;
use crate::server::Server;
use crate::snapshot::{self, Snapshot};
use crate::source::SourceArgs;
use crate::verdict;

/// Arguments of `svc-snap show`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  svc-snap show snapshot_svc_20261120
  svc-snap show --from snapshot.json")]
pub struct ShowArgs {
    #[command(flatten)]
    source: SourceArgs,
    #[command(flatten)]
    connection: Connection,
}

/// A snapshot.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Shown {
    /// The cluster's `cluster_uuid`.
    pub cluster_uuid: String,
    /// The repository.
    pub repository: String,
    /// The snapshot's name.
    pub name: String,
    /// What was asked for, by name, where this host or the `--from` document knows it.
    pub wanted: Vec<String>,
    /// Whether it is a valid backup; `null` while it is being taken. One that is not is exit 7.
    pub good: Option<bool>,
    /// The snapshot, as the server shows it.
    pub snapshot: Option<Snapshot>,
    /// What was noted of its indices: on this host when it was taken, or else in the `--from` document.
    pub noted: Vec<Noted>,
}

pub(crate) fn run(args: &ShowArgs, call: &Call) -> StepResult<Shown> {
    let source = args.source.read(call, Accept::Good)?;
    let server = Server::connect(&args.connection, call)?;
    source.check_server(&server, args.source.other)?;
    let found = snapshot::get(&server, &source.repository, &source.name)?;
    source.check_uuid(&found)?;
    let kept = Kept::read(call, &server, &source.repository, &found);
    let wanted = kept.as_ref().map_or(source.wanted(), |kept| &kept.wanted).to_vec();
    let verdict = verdict::judge(&source.repository, &found, &wanted);
    let shown = Shown {
        cluster_uuid: server.cluster_uuid.clone(),
        repository: source.repository.clone(),
        name: source.name.clone(),
        wanted,
        good: (!found.is_under_way()).then_some(verdict.is_ok()),
        snapshot: Some(found),
        noted: kept.map_or_else(|| source.noted().to_vec(), |kept| kept.notes.noted()),
    };
    match verdict {
        Err(failure) if shown.good.is_some() => Err(Stopped::with(failure, shown)),
        _ => Ok(shown),
    }
}
