//! `prune`: restore points that are not needed go, each kind on its own, and run directories that nothing needs.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use svc_step::action::Action;
use svc_step::common::DryRun;
use svc_step::journal::{self, Journal};
use svc_step::retention::{self, Item, Limit, Reason, Retention};
use svc_step::steps;
use svc_step::{Call, Failure, Status, StepResult};

use crate::choose::{folder_of, last_upgrade};
use crate::delete::Removal;
use crate::point::{self, BackupDir, Point, SUMS, State};
use crate::snap;

/// Arguments of `svc-point prune`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  svc-point prune --dry-run | jq -r '.result.points[] | [.id, .state, .reason] | @tsv'
  svc-point prune --kind nightly --max-age 30d --max-count 30 --min-count 7 --keep-runs none

Only what is older than the newest verified restore point of its kind goes; that one never does. All
its files are read, and svc-snap show verifies its snapshot.")]
pub struct PruneArgs {
    /// Those of this kind (repeatable); `svc-point delete` removes those of upgrades
    #[arg(long = "kind", id = "kind", value_name = "KIND", value_parser = ["nightly", "manual"], default_value = "nightly")]
    kinds: Vec<String>,
    #[command(flatten)]
    retention: Retention,
    #[arg(long, value_name = "DURATION", env = "SVC_KEEP_RUNS", default_value = "90d", value_parser = retention::age)]
    keep_runs: Limit<Duration>,
    #[command(flatten)]
    dir: BackupDir,
    #[command(flatten)]
    pub(crate) dry: DryRun,
}

/// The restore points that there were, and what was removed.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Pruned {
    /// Every restore point as it was found, the oldest first.
    pub points: Vec<PrunedPoint>,
    /// What was removed.
    #[serde(flatten)]
    pub removal: Removal,
    /// The IDs of the runs whose directories were removed.
    pub removed_runs: Vec<String>,
}

/// A restore point, and why it stays or goes.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PrunedPoint {
    /// The restore point.
    #[serde(flatten)]
    pub point: Point,
    /// Why it stays or goes.
    pub reason: Reason,
}

pub(crate) fn run(args: &PruneArgs, call: &Call) -> StepResult<Pruned> {
    let _lock = args.dir.lock(call, args.dry)?;
    let points = point::survey(call, &args.dir, false)?;
    let mut verified = BTreeMap::new();
    for kind in &args.kinds {
        verified.insert(kind.as_str(), newest_verified(call, kind, &points)?);
    }
    let needed = point::needed(call);
    // What does not say its database may be another service's.
    let dump = point::dump_of(&args.dir.database());
    let has_dump = |point: &Point| Path::new(&point.path).join(&dump).exists();
    let has_run = |point: &Point| Journal::of(call.state_dir(), &point.id).dir().exists();
    let is_ours = |point: &Point| point.quiesced.is_some() || has_dump(point) || has_run(point);
    let items = points.iter().enumerate().map(|(at, point)| {
        let kind = point.kind.as_deref().unwrap_or_default();
        let is_newer = verified.get(kind).map(|newest| newest.map(|newest| at > newest));
        let is_needed = needed.contains_key(&point.id);
        let state = match point.state {
            _ if is_needed => retention::State::Exempt(Reason::Needed),
            State::Incomplete if !is_ours(point) => retention::State::Exempt(Reason::Unknown),
            other => state(other, is_newer),
        };
        Item { kind, made: point.made, state }
    });
    let reasons = args.retention.reasons(&items.collect::<Vec<_>>(), call.started_at());
    let points = points.into_iter().zip(reasons).map(|(point, reason)| PrunedPoint { point, reason }).collect();
    let mut pruned = Pruned { points, removal: Removal::default(), removed_runs: Vec::new() };
    match prune(args, call, &mut pruned) {
        Ok(()) => Ok(pruned),
        Err(failure) => Err(call.stopped(failure, pruned)),
    }
}

fn prune(args: &PruneArgs, call: &Call, pruned: &mut Pruned) -> Result<(), Failure> {
    for one in pruned.points.iter().filter(|one| one.reason.removes()) {
        match pruned.removal.remove(call, &one.point, args.dir.service(), args.dry) {
            // A directory that cannot be changed does not stop the removal of the others; what the server refuses may be refused for all.
            Err(failure) if failure.status == Status::Refused && Path::new(&one.point.path).join(SUMS).exists() => {
                let hint = failure.hint.as_deref().unwrap_or_default();
                call.review("not_removed", format!("The restore point {} was not removed: {failure} {hint}", one.point.id));
            }
            removed => removed?,
        }
    }
    match args.keep_runs.0 {
        Some(age) => prune_runs(call, age, &args.dir.dir(), args.dry, pruned),
        None => Ok(()),
    }
}

/// `is_newer`: than the newest verified one of its kind, if its kind is pruned and has one.
const fn state(state: State, is_newer: Option<Option<bool>>) -> retention::State {
    use retention::State::{Exempt, Invalid, Valid};
    match (state, is_newer) {
        (State::Running, _) => Exempt(Reason::Running),
        (_, None) => Exempt(Reason::OtherKind),
        (State::Damaged, _) => Exempt(Reason::Damaged),
        (_, Some(None)) => Exempt(Reason::NoneVerified),
        (_, Some(Some(true))) => Exempt(Reason::NotVerified),
        (State::Incomplete, _) => Invalid,
        (State::Valid, _) => Valid,
    }
}

/// The place of the newest restore point of a kind that is valid, its snapshot and its dump included.
fn newest_verified(call: &Call, kind: &str, points: &[Point]) -> Result<Option<usize>, Failure> {
    let of_kind = |(_, point): &(usize, &Point)| point.state == State::Valid && point.kind.as_deref() == Some(kind);
    for (at, point) in points.iter().enumerate().rev().filter(of_kind) {
        let folder = Path::new(&point.path);
        let document = folder.join("snapshot.json").display().to_string();
        match snap::run(call, &["svc-snap", "show", "--from", &document].map(str::to_owned)) {
            Ok(_) if point::damaged_files(call, folder, None)?.is_empty() => return Ok(Some(at)),
            Ok(_) => call.warn("point_invalid", format!("The restore point {} is damaged.", point.id)),
            // Damaged or gone, of another cluster, or one that this server is too new for: it is none to be sure of.
            Err(failure)
                if matches!(failure.status, Status::NotFound | Status::Invalid)
                    || ["other_server", "version_unsupported", "name_in_use"].contains(&&*failure.code) =>
            {
                call.reporter().detail(&format!("{}: {failure}", point.id));
            }
            // Whatever else fails says nothing of the snapshot.
            Err(failure) => return Err(failure),
        }
    }
    Ok(None)
}

/// What a run directory is named while it is removed.
const PRUNED: &str = ".pruned-";

/// Removes the directories of runs that nothing was written to for so long and that nothing needs.
fn prune_runs(call: &Call, age: Duration, points: &Path, dry: DryRun, pruned: &mut Pruned) -> Result<(), Failure> {
    let mut runs = journal::runs(call.state_dir());
    runs.reverse();
    let needs = Needs::of(call.state_dir(), points, &runs);
    if !dry.dry_run {
        remove_leftovers(&call.state_dir().join("runs"));
    }
    for run in runs.iter().filter(|run| run.id() != call.run_id().as_str() && is_older(run, age)) {
        if let Some(reason) = needs.reason(run) {
            call.reporter().detail(&format!("the run {} stays: {reason}", run.id()));
            continue;
        }
        pruned.removal.plan.push(Action::file(run.dir(), "remove"));
        if dry.dry_run {
            continue;
        }
        call.check()?;
        // Under another name at once, so that no part of it is taken for a run.
        let gone = run.dir().with_file_name(format!("{PRUNED}{}", run.id()));
        fs::rename(run.dir(), &gone).map_err(|error| Failure::io("remove the run directory", run.dir(), &error))?;
        call.effects().happened();
        pruned.removed_runs.push(run.id().to_owned());
        fs::remove_dir_all(&gone).map_err(|error| Failure::io("remove the run directory", &gone, &error))?;
    }
    Ok(())
}

/// What a prune that was killed has left.
fn remove_leftovers(runs: &Path) {
    for entry in fs::read_dir(runs).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(PRUNED) {
            // It harms nobody where it is.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn is_older(run: &Journal, age: Duration) -> bool {
    let changed = fs::metadata(run.dir()).and_then(|data| data.modified());
    changed.is_ok_and(|changed| changed.elapsed().is_ok_and(|elapsed| elapsed > age))
}

/// What other runs and restore points need of a run.
struct Needs<'a> {
    points: &'a Path,
    /// The plans of swaps that are left, by the names of their files.
    swaps: Vec<String>,
    /// Of each script the ID of the newest run that has ended well.
    ended_well: BTreeMap<String, String>,
    /// The newest upgrade whose installer was started.
    last_upgrade: Option<Journal>,
    /// The newest rehearsal that has chosen its restore point: what it has found is shown until there is another one.
    last_rehearsal: Option<Journal>,
}

impl<'a> Needs<'a> {
    fn of(state_dir: &Path, points: &'a Path, oldest_first: &[Journal]) -> Self {
        let ended_well = oldest_first.iter().filter(|run| run.is_ok());
        let ended_well = ended_well.map(|run| (run.script(), run.id().to_owned())).collect();
        let is_rehearsal = |run: &&Journal| run.script() == "svc-rehearse" && run.has_begun(steps::POINT);
        let last_rehearsal = oldest_first.iter().rfind(is_rehearsal).cloned();
        let entries = fs::read_dir(state_dir.join("swaps")).into_iter().flatten().flatten();
        let swaps = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        Self { points, swaps, ended_well, last_upgrade: last_upgrade(state_dir), last_rehearsal }
    }

    /// Why a run stays; none if nothing needs it.
    fn reason(&self, run: &Journal) -> Option<&'static str> {
        let script = run.script();
        if run.is_running() {
            return Some("it is in progress");
        }
        // Killed before anything was written.
        if script.is_empty() && run.attempts().is_empty() {
            return None;
        }
        if self.points.join(run.id()).exists() || folder_of(run, self.points).exists() {
            return Some("its restore point exists");
        }
        if self.has_copies(run) {
            return Some("its copies, or what it has replaced, exist");
        }
        if run.ignores_unfinished() && run.is_ok() {
            return Some("it says that what was unfinished before is repaired");
        }
        // The last upgrade, the run that made it as a hop, and what was done about it since.
        if let Some(last) = self.last_upgrade.as_ref().filter(|_| matches!(script.as_str(), "svc-upgrade" | "svc-rollback"))
            && (run.id() >= last.id() || last.plan().parent.as_deref() == Some(run.id()))
        {
            return Some("it is the last upgrade, or later");
        }
        if self.last_rehearsal.as_ref() == Some(run) {
            return Some("it is the last rehearsal");
        }
        let is_superseded = self.ended_well.get(&script).is_some_and(|id| run.id() <= id.as_str());
        (!is_superseded).then_some("it has not ended well, and no later run of its script has")
    }

    /// Whether the plan of a swap is left: of this run, or of the upgrade whose clones a rollback has swapped in.
    fn has_copies(&self, run: &Journal) -> bool {
        let ids = run.previous_run().into_iter().chain([run.id().to_owned()]);
        ids.map(|id| format!("{id}.")).any(|prefix| self.swaps.iter().any(|name| name.starts_with(&prefix)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_older_than_the_newest_verified_one_counts() {
        use retention::State::{Exempt, Invalid, Valid};
        for (is, is_newer, wanted) in [
            (State::Valid, None, Exempt(Reason::OtherKind)),
            (State::Incomplete, None, Exempt(Reason::OtherKind)),
            (State::Running, None, Exempt(Reason::Running)),
            (State::Valid, Some(None), Exempt(Reason::NoneVerified)),
            (State::Damaged, Some(None), Exempt(Reason::Damaged)),
            (State::Valid, Some(Some(true)), Exempt(Reason::NotVerified)),
            (State::Incomplete, Some(Some(true)), Exempt(Reason::NotVerified)),
            (State::Incomplete, Some(Some(false)), Invalid),
            (State::Damaged, Some(Some(false)), Exempt(Reason::Damaged)),
            (State::Valid, Some(Some(false)), Valid),
        ] {
            assert_eq!(state(is, is_newer), wanted, "{is:?} {is_newer:?}");
        }
    }
}
