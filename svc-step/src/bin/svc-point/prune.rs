//! `prune`: restore points go by the rules of `svc-snap prune`, each kind by itself, and run directories that nothing needs.

mod rules;
mod runs;

use std::path::Path;
use std::time::Duration;

use clap::ValueEnum;
use schemars::JsonSchema;
use serde::Serialize;
use svc_step::common::DryRun;
use svc_step::lock::Lock;
use svc_step::{Call, Failure, Status, StepResult, deadline};

pub use self::rules::{Fate, Reason, Rules};
use crate::delete::Removal;
use crate::point::{self, BackupDir, Point, State};
use crate::snap;

/// Arguments of `svc-point prune`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  svc-point prune --dry-run | jq -r '.result.points[] | [.id, .state, .fate, .reason] | @tsv'
  svc-point prune --kind nightly --max-age 30d --max-count 30 --min-count 7 --keep-runs none

Only what is older than the newest verified restore point of its kind goes; that one never does. Its files are all read, and svc-snap
show verifies its snapshot.")]
pub struct PruneArgs {
    /// Of which kind (repeatable); those of upgrades go by `svc-point delete`
    #[arg(long = "kind", id = "kind", value_name = "KIND", value_enum, default_value = "nightly")]
    kinds: Vec<Kind>,
    #[arg(long, value_name = "DURATION", env = "SVC_KEEP_MAX_AGE", default_value = "30d", value_parser = age)]
    max_age: Limit<Duration>,
    #[arg(long, value_name = "N", env = "SVC_KEEP_MAX_COUNT", default_value = "30", value_parser = count)]
    max_count: Limit<u64>,
    #[arg(long, value_name = "N", env = "SVC_KEEP_MIN_COUNT", default_value = "7", value_parser = clap::value_parser!(u64).range(1..))]
    min_count: u64,
    #[arg(long, value_name = "DURATION", env = "SVC_KEEP_RUNS", default_value = "90d", value_parser = age)]
    keep_runs: Limit<Duration>,
    #[command(flatten)]
    dir: BackupDir,
    #[command(flatten)]
    pub(crate) dry: DryRun,
}

/// A kind that is pruned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    Nightly,
    Manual,
}

/// A limit, or `none`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Limit<T>(Option<T>);

/// The restore points that there were, and what was removed.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Pruned {
    /// Every restore point as it was found, the oldest first.
    pub points: Vec<Judged>,
    /// What was removed.
    #[serde(flatten)]
    pub removal: Removal,
    /// The IDs of the runs whose directories were removed.
    pub removed_runs: Vec<String>,
}

/// A restore point, what becomes of it, and why.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Judged {
    /// The restore point.
    #[serde(flatten)]
    pub point: Point,
    /// What becomes of it.
    pub fate: Fate,
    /// Why.
    pub reason: Reason,
}

pub(crate) fn run(args: &PruneArgs, call: &Call) -> StepResult<Pruned> {
    let dir = args.dir.dir();
    let _lock = Lock::unless_dry(call, "restore-points", &dir.display().to_string(), args.dry.dry_run)?;
    let points = point::survey(call, &dir, false)?;
    let kinds: Vec<&str> = args.kinds.iter().map(|kind| if *kind == Kind::Nightly { "nightly" } else { "manual" }).collect();
    let mut verified = Vec::new();
    for kind in &kinds {
        verified.extend(newest_verified(call, kind, &points)?);
    }
    let rules = Rules {
        kinds: &kinds,
        verified: &verified,
        max_age: args.max_age.0,
        max_count: args.max_count.0,
        min_count: args.min_count,
    };
    let reasons = rules.judge(&points, call.started_at());
    let judged = |(point, reason): (Point, Reason)| Judged { point, fate: reason.fate(), reason };
    let points = points.into_iter().zip(reasons).map(judged).collect();
    let mut pruned = Pruned { points, removal: Removal::default(), removed_runs: Vec::new() };
    match prune(args, call, &mut pruned) {
        Ok(()) => Ok(pruned),
        Err(failure) => Err(call.stopped(failure, pruned)),
    }
}

fn prune(args: &PruneArgs, call: &Call, pruned: &mut Pruned) -> Result<(), Failure> {
    for one in pruned.points.iter().filter(|one| one.fate == Fate::Goes) {
        pruned.removal.remove(call, &one.point, args.dir.service(), args.dry)?;
    }
    match args.keep_runs.0 {
        Some(age) => runs::prune(call, age, &args.dir.dir(), args.dry, pruned),
        None => Ok(()),
    }
}

/// The newest restore point of a kind that is valid, its snapshot and its dump included.
fn newest_verified(call: &Call, kind: &str, points: &[Point]) -> Result<Option<String>, Failure> {
    let of_kind = |point: &&Point| point.state == State::Valid && point.kind.as_deref() == Some(kind);
    for point in points.iter().rev().filter(of_kind) {
        let folder = Path::new(&point.path);
        let show = ["svc-snap", "show", "--from"].map(str::to_owned).into_iter();
        let show: Vec<String> = show.chain([folder.join("snapshot.json").display().to_string()]).collect();
        match snap::run(call, &show) {
            Ok(_) if point::damaged_files(call, folder, None)?.is_empty() => return Ok(Some(point.id.clone())),
            Ok(_) => call.warn("point_damaged", format!("The restore point {} is damaged.", point.id)),
            // Whatever else fails says nothing of the snapshot.
            Err(failure) if !matches!(failure.status, Status::NotFound | Status::Invalid) => return Err(failure),
            Err(failure) => call.people().detail(&format!("{}: {failure}", point.id)),
        }
    }
    Ok(None)
}

/// `30d`, `4w`, `36h`, `1h30m`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let days = |text: &str, days: u64| text.trim().parse::<u64>().ok()?.checked_mul(days * 86_400).map(Duration::from_secs);
    let long =
        text.strip_suffix('d').and_then(|text| days(text, 1)).or_else(|| text.strip_suffix('w').and_then(|text| days(text, 7)));
    long.map_or_else(|| deadline::parse(text).map_err(|_| format!("`{text}` is no duration: write 30d, 4w or 36h")), Ok)
}

fn age(text: &str) -> Result<Limit<Duration>, String> {
    if text == "none" { Ok(Limit(None)) } else { duration(text).map(|age| Limit(Some(age))) }
}

fn count(text: &str) -> Result<Limit<u64>, String> {
    match text.parse() {
        _ if text == "none" => Ok(Limit(None)),
        Ok(number) if number > 0 => Ok(Limit(Some(number))),
        _ => Err(format!("`{text}` is no number of restore points: write 1 or more, or none")),
    }
}
