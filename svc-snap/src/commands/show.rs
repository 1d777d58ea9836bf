//! `show`: one snapshot, and whether it is good.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_step::from::Accept;
use svc_step::{Call, StepResult, Stopped};

use crate::connection::Connection;
use crate::server::Server;
use crate::snapshot;
use crate::snapshot::backup::Backup;
use crate::snapshot::fit;
use crate::snapshot::source::SourceArgs;
use crate::snapshot::verdict;

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
    /// Which snapshot, and what was noted beside it.
    #[serde(flatten)]
    pub backup: Backup,
    /// Whether it is a valid backup; `null` while it is being taken. One that is not is exit 7, and a good one that this server
    /// cannot restore, since a newer one or another product took it, exit 3.
    pub good: Option<bool>,
}

pub(crate) fn run(args: &ShowArgs, call: &Call) -> StepResult<Shown> {
    let source = args.source.read(call, Accept::Good)?;
    let server = Server::connect(&args.connection, call)?;
    source.check_server(&server, args.source.other)?;
    let found = snapshot::get(&server, &source.repository, &source.name)?;
    source.check_uuid(&found)?;
    let backup = source.backup(call, &server, found.clone());
    let verdict = verdict::judge(&source.repository, &found, &backup.wanted);
    let shown = Shown { backup, good: (!found.is_under_way()).then_some(verdict.is_ok()) };
    if found.is_under_way() {
        return Ok(shown);
    }
    match verdict.and_then(|()| fit::check(&server, &source.repository, &found)) {
        Err(failure) => Err(Stopped::with(failure, shown)),
        Ok(()) => Ok(shown),
    }
}
