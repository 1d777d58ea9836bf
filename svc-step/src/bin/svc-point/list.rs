//! `list`: the restore points, the oldest first.

use schemars::JsonSchema;
use serde::Serialize;
use svc_step::{Call, StepResult};

use crate::last::{self, LastRehearsal};
use crate::point::{self, BackupDir, Point};

/// Arguments of `svc-point list`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  svc-point list --table
  svc-point list --read-all | jq -r '.result.points[] | [.id, .state] | @tsv'")]
pub struct ListArgs {
    /// Read the dumps too; otherwise only their size is compared
    #[arg(long)]
    read_all: bool,
    #[command(flatten)]
    dir: BackupDir,
}

/// The restore points of a service.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Listed {
    /// Their directory.
    pub backup_dir: String,
    /// The last rehearsal of a rollback; `null` if there was none.
    pub last_rehearsal: Option<LastRehearsal>,
    /// Each of them, the oldest first.
    pub points: Vec<Point>,
}

pub(crate) fn run(args: &ListArgs, call: &Call) -> StepResult<Listed> {
    let points = point::survey(call, &args.dir, args.read_all)?;
    let last_rehearsal = last::rehearsal(call.state_dir());
    Ok(Listed { backup_dir: args.dir.dir().display().to_string(), last_rehearsal, points })
}
