//! `list`: the restore points, the oldest first.

use schemars::JsonSchema;
use serde::Serialize;
use svc_step::Call;
use svc_step::call::Finished;

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
    /// Print a table for people in place of the document
    #[arg(long)]
    table: bool,
    #[command(flatten)]
    dir: BackupDir,
}

/// The restore points of a service.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Listed {
    /// Their folder.
    pub backup_dir: String,
    /// Each of them, the oldest first.
    pub points: Vec<Point>,
}

pub(crate) fn print(args: &ListArgs, call: &Call) -> Finished {
    let mut text = String::new();
    let mut finished = call.step("list", false, |call| {
        let points = point::survey(call, &args.dir.dir(), args.read_all)?;
        text = table(&points);
        Ok(Listed { backup_dir: args.dir.dir().display().to_string(), points })
    });
    finished.text = args.table.then_some(text);
    finished
}

fn table(points: &[Point]) -> String {
    if points.is_empty() {
        return "There is no restore point.\n".to_owned();
    }
    let width = points.iter().map(|point| point.id.len()).max().unwrap_or_default();
    let or_unknown = |text: &Option<String>| text.clone().unwrap_or_else(|| "?".to_owned());
    let line = |point: &Point| {
        let state = serde_json::to_value(point.state).unwrap_or_default();
        let damaged =
            if point.damaged_files.is_empty() { String::new() } else { format!(": {}", point.damaged_files.join(", ")) };
        format!(
            "{:width$}  {:7}  {:8}  {:20}  {:8}  {:>9}  {}{damaged}\n",
            point.id,
            or_unknown(&point.kind),
            or_unknown(&point.version),
            or_unknown(&point.made_at),
            if point.quiesced == Some(true) { "quiesced" } else { "" },
            svc_step::people::bytes(point.size_bytes),
            state.as_str().unwrap_or_default(),
        )
    };
    points.iter().map(line).collect()
}
