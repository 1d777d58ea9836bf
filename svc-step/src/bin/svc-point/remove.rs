//! `remove`: what a run has made of a restore point goes, if it was not finalized.

use std::fs;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Serialize;
use svc_step::action::Action;
use svc_step::common::DryRun;
use svc_step::file::{self, Existing};
use svc_step::journal::Journal;
use svc_step::run_id::{RunId, snapshot_name};
use svc_step::settings::ServiceArg;
use svc_step::steps;
use svc_step::{Call, Failure, StepResult};

use crate::point::{KINDS, SUMS};
use crate::snap;

/// Arguments of `svc-point remove`.
#[derive(Debug, clap::Args)]
#[command(after_help = "A restore point that is finalized stays, with its snapshot: svc-point delete removes it. If a
nightly backup fails, the valid dump or snapshot is all there is of that night, so it stays.")]
pub struct RemoveArgs {
    /// The directory, named by the ID of its run
    dir: PathBuf,
    /// What it is for: its snapshot is named by that, and goes too; the valid part of a nightly one stays, and is not a restore point
    #[arg(long, value_parser = KINDS)]
    kind: String,
    #[command(flatten)]
    service: ServiceArg,
    #[command(flatten)]
    pub(crate) dry: DryRun,
}

/// What has become of an incomplete restore point.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Removed {
    /// Its directory.
    pub path: String,
    /// The directory, if a valid dump or snapshot is kept; it is no restore point.
    pub incomplete_point: Option<String>,
    /// What is kept, as a sentence for the message of the run.
    pub message: Option<String>,
    /// The effects of the step, in order; in a dry run, what they would be.
    pub plan: Vec<Action>,
}

pub(crate) fn run(args: &RemoveArgs, call: &Call) -> StepResult<Removed> {
    let dir = file::absolute(&args.dir)?;
    let id = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut removed = Removed { path: dir.display().to_string(), incomplete_point: None, message: None, plan: Vec::new() };
    // Whatever else has no sums is not ours to remove.
    if id.parse::<RunId>().is_err() || dir.is_symlink() {
        let message =
            format!("{} is not the directory of a restore point: its name is not a run ID, or it is a link.", dir.display());
        return Err(Failure::refused("point_not_found", message).hint("To list the restore points:\n  svc-backup --list").into());
    }
    // Whoever cannot see whether it has sums must not take it for one without.
    let sums = dir.join(SUMS);
    if sums.try_exists().map_err(|error| Failure::io("inspect the restore point", &sums, &error))? {
        call.warn("not_removed", format!("{} is finalized and stays. To remove it:\n  svc-point delete {id}", dir.display()));
        return Ok(removed);
    }
    let journal = Journal::of(call.state_dir(), &id);
    // A run that did not come to make it, or was refused, has nothing to remove.
    if !journal
        .attempt(steps::POINT)
        .is_some_and(|point| point.document.is_none_or(|document| document.ok || document.changed != Some(false)))
    {
        return Ok(removed);
    }
    // All of it was there and is in another directory now, or on a disk that is not mounted: its snapshot may be that of a valid point.
    if !dir.exists() && journal.is_done(steps::UNIT_AFTER) {
        return Ok(removed);
    }
    let keeps_valid = args.kind == "nightly";
    let dump = keeps_valid && journal.is_done(steps::DUMP);
    let snapshot = keeps_valid
        && journal.is_done(steps::SNAPSHOT)
        && (journal.is_done(steps::VERIFY_SNAPSHOT) || !journal.has_begun(steps::VERIFY_SNAPSHOT));
    let keeps = (dump || snapshot) && dir.exists();
    if keeps {
        keep(call, &journal, &dir, [(dump, steps::DUMP, "pgdump.json"), (snapshot, steps::SNAPSHOT, "snapshot.json")], args.dry)?;
        let what = [(dump, "The dump is valid and kept."), (snapshot, "The snapshot is valid and kept.")];
        let what: Vec<&str> = what.iter().filter(|(is_kept, _)| *is_kept).map(|(_, sentence)| *sentence).collect();
        removed.message = Some(format!("{} See {}, which is not a restore point.", what.join(" "), dir.display()));
        removed.incomplete_point = Some(dir.display().to_string());
    }
    // The directory stays as long as the snapshot: the next call finds by it that this is not done.
    if !snapshot && let Err(failure) = delete_snapshot(args, call, &journal, &mut removed) {
        return Err(call.stopped(failure, removed));
    }
    if !keeps && dir.exists() {
        removed.plan.push(Action::file(&dir, "remove"));
        if !args.dry.dry_run {
            call.effects().happened();
            let gone = fs::remove_dir_all(&dir).map_err(|error| Failure::io("remove the incomplete restore point", &dir, &error));
            if let Err(failure) = gone.and_then(|()| file::sync_folder_of(&dir)) {
                return Err(call.stopped(failure, removed));
            }
        }
    }
    Ok(removed)
}

/// One that the run has not begun, or that was refused, does not exist.
fn delete_snapshot(args: &RemoveArgs, call: &Call, journal: &Journal, removed: &mut Removed) -> Result<(), Failure> {
    let Some(attempt) = journal.attempt(steps::SNAPSHOT) else { return Ok(()) };
    if attempt.document.is_some_and(|document| document.changed == Some(false)) {
        return Ok(());
    }
    let name = snapshot_name(&args.service.name, journal.id(), &args.kind);
    let command = ["svc-snap", "delete", &name, "--cancel"].map(str::to_owned);
    removed.plan.push(Action::command(command.clone()));
    if args.dry.dry_run {
        return Ok(());
    }
    snap::delete(call, &command, &removed.path)
}

fn keep(call: &Call, journal: &Journal, dir: &Path, kept: [(bool, &str, &str); 2], dry: DryRun) -> Result<(), Failure> {
    for (_, step, name) in kept.into_iter().filter(|(is_kept, ..)| *is_kept && !dry.dry_run) {
        let Some(attempt) = journal.attempt(step) else { continue };
        let path = attempt.document_path();
        let text = fs::read(&path).map_err(|error| Failure::io("read the document", &path, &error))?;
        file::write_complete(&dir.join(name), &text, 0o600, Existing::Replace)?;
        call.effects().happened();
    }
    Ok(())
}
