//! `show`: one snapshot, and whether it is a valid backup.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_step::{Accept, Call, StepResult, Stopped};

use crate::snapshot::{Backup, SourceArgs, verdict};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  svc-snap show snapshot_svc_20261120
  svc-snap show --from snapshot.json")]
pub struct ShowArgs {
    #[command(flatten)]
    source: SourceArgs,
}

/// A snapshot.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Shown {
    /// Which snapshot, and what was captured of its indices.
    #[serde(flatten)]
    pub backup: Backup,
    /// Whether it is a valid backup; `null` while it is being taken. An invalid one is exit 7, one that this server cannot restore exit 3.
    pub valid: Option<bool>,
}

pub(crate) fn run(args: &ShowArgs, call: &Call) -> StepResult<Shown> {
    let (source, server, found) = args.source.find(call, Accept::Successful)?;
    let backup = source.backup(call, &server, found.clone(), false);
    let verdict = verdict::check(&source.repository, &found, &backup.wanted);
    let shown = Shown { backup, valid: (!found.is_under_way()).then_some(verdict.is_ok()) };
    if found.is_under_way() {
        return Ok(shown);
    }
    Stopped::ended(verdict.and_then(|()| verdict::check_restorable(&server, &source.repository, &found)), shown)
}
