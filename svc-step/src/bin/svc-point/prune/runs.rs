//! Run directories go when they are old and nothing needs them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use svc_step::action::Action;
use svc_step::common::DryRun;
use svc_step::journal::{self, Journal};
use svc_step::{Call, Failure};

use super::Pruned;
use crate::choose::{folder_of, last_upgrade};

/// What a run directory is named while it is removed.
const PRUNED: &str = ".pruned-";

/// Removes the directories of runs that nothing was written to for so long and that nothing needs.
pub(super) fn prune(call: &Call, age: Duration, points: &Path, dry: DryRun, pruned: &mut Pruned) -> Result<(), Failure> {
    let mut runs = journal::runs(call.state_dir());
    runs.reverse();
    let needs = Needs::of(call.state_dir(), points, &runs);
    if !dry.dry_run {
        remove_leftovers(&call.state_dir().join("runs"));
    }
    for run in runs.iter().filter(|run| run.id() != call.run_id().as_str() && is_older(run, age)) {
        if let Some(reason) = needs.reason(run) {
            call.people().detail(&format!("the run {} stays: {reason}", run.id()));
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
    state_dir: &'a Path,
    points: &'a Path,
    /// Of each script the ID of the newest run that has ended well.
    ended_well: BTreeMap<String, String>,
    /// The newest upgrade whose installer was started.
    last_upgrade: Option<Journal>,
}

impl<'a> Needs<'a> {
    fn of(state_dir: &'a Path, points: &'a Path, oldest_first: &[Journal]) -> Self {
        let ended_well = oldest_first.iter().filter(|run| run.is_ok());
        let ended_well = ended_well.map(|run| (run.script(), run.id().to_owned())).collect();
        Self { state_dir, points, ended_well, last_upgrade: last_upgrade(state_dir) }
    }

    /// Why a run stays; none where nothing needs it.
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
        // The last upgrade, the run that made it as a hop, and what was done about it since.
        if let Some(last) = self.last_upgrade.as_ref().filter(|_| matches!(script.as_str(), "svc-upgrade" | "svc-rollback"))
            && (run.id() >= last.id() || last.plan().parent.as_deref() == Some(run.id()))
        {
            return Some("it is the last upgrade, or later");
        }
        let is_superseded = self.ended_well.get(&script).is_some_and(|id| run.id() <= id.as_str());
        (!is_superseded).then_some("it has not ended well, and no later run of its script has")
    }

    /// Whether the plan of a swap is left: of this run, or of the upgrade whose clones a rollback has swapped in.
    fn has_copies(&self, run: &Journal) -> bool {
        let facts = run.notes().facts;
        let of_previous = facts.get("previous").and_then(|previous| previous.get("run")?.as_str());
        let prefixes: Vec<String> = of_previous.into_iter().chain([run.id()]).map(|id| format!("{id}.")).collect();
        let entries = fs::read_dir(self.state_dir.join("swaps")).into_iter().flatten().flatten();
        let mut names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.any(|name| prefixes.iter().any(|prefix| name.starts_with(prefix)))
    }
}
