//! `delete`: restore points go as a whole, with their snapshots.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use schemars::JsonSchema;
use serde::Serialize;
use svc_step::action::Action;
use svc_step::common::DryRun;
use svc_step::journal::Journal;
use svc_step::reporter::shell_quoted;
use svc_step::run_id::snapshot_name;
use svc_step::{Call, Failure, StepResult, file};

use crate::point::{self, About, BackupDir, Point, SUMS, State};
use crate::snap;

/// Arguments of `svc-point delete`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  svc-point delete 20261120t020003z-upgrade-2.0.1

The newest valid restore point is never deleted.")]
pub struct DeleteArgs {
    /// The IDs of the restore points
    #[arg(value_name = "ID", required = true)]
    ids: Vec<String>,
    #[command(flatten)]
    dir: BackupDir,
    #[command(flatten)]
    pub(crate) dry: DryRun,
}

/// Restore points that do not exist any more.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Deleted {
    /// The restore points as they were found, the oldest first.
    pub points: Vec<Point>,
    /// What was removed.
    #[serde(flatten)]
    pub removal: Removal,
}

/// What a call has removed.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct Removal {
    /// The IDs of the restore points that were removed.
    pub removed: Vec<String>,
    /// One whose removal has begun and is not finished: it is incomplete. The next `prune` or `delete` finishes it.
    pub partially_removed: Option<String>,
    /// The effects of the step, in order; in a dry run, what they would be.
    pub plan: Vec<Action>,
}

pub(crate) fn run(args: &DeleteArgs, call: &Call) -> StepResult<Deleted> {
    let _lock = args.dir.lock(call, args.dry)?;
    let points = point::survey(call, &args.dir, false)?;
    let doomed = named(args, &points, &point::needed(call))?;
    let mut removal = Removal::default();
    let done = doomed.iter().try_for_each(|point| removal.remove(call, point, args.dir.service(), args.dry));
    let deleted = Deleted { points, removal };
    match done {
        Ok(()) => Ok(deleted),
        Err(failure) => Err(call.stopped(failure, deleted)),
    }
}

/// Those that are named; nothing is removed if one of them must stay.
fn named<'a>(args: &DeleteArgs, points: &'a [Point], needed: &BTreeMap<String, Journal>) -> Result<Vec<&'a Point>, Failure> {
    let newest = points.iter().rfind(|point| point.state == State::Valid);
    let mut doomed: Vec<&Point> = Vec::new();
    for id in &args.ids {
        let point = points.iter().find(|point| point.id == *id).ok_or_else(|| {
            Failure::not_found("point_not_found", format!("There is no restore point {id} in {}.", args.dir.dir().display()))
                .hint("Leave out what is removed already. To list them:\n  svc-backup --list")
        })?;
        if newest == Some(point) {
            return Err(Failure::refused("not_removed", format!("{id} is the newest valid restore point and stays."))
                .hint("Make another one first:\n  svc-backup"));
        }
        if let Some(run) = needed.get(id) {
            return Err(Failure::refused("not_removed", format!("The run {} needs the restore point {id}.", run.id()))
                .hint(format!("How to finish that run:\n  svc-run status {}", run.id())));
        }
        let folder = Path::new(&point.path);
        if let Some(about) = About::read(folder).filter(|about| point::is_under_other_name(folder, about)) {
            if let Some(hint) = point::rename_hint(folder, &about) {
                let message = format!("{id} is the restore point {} under another name.", about.id);
                return Err(Failure::refused("not_removed", message).hint(hint));
            }
            let message = format!("{id} is a copy of the restore point {}, whose snapshot would be deleted with it.", about.id);
            let remove = shell_quoted(&["rm", "-r", &point.path]);
            return Err(Failure::refused("not_removed", message).hint(format!("To remove the directory alone:\n  {remove}")));
        }
        if point.state == State::Running {
            return Err(Failure::locked("locked", format!("The run that makes the restore point {id} is in progress."))
                .hint("Wait until it has ended, then run the same command again."));
        }
        if !doomed.contains(&point) {
            doomed.push(point);
        }
    }
    Ok(doomed)
}

impl Removal {
    /// Removes a restore point: its sums, so that it is one no more, then its snapshot, then its directory. One whose removal was
    /// interrupted is incomplete, and the same command again finishes it. A snapshot of another cluster, or of a repository that is
    /// read-only or not registered any more, stays.
    /// Errors: the snapshot cannot be deleted for another reason, or the disk does not take it.
    pub fn remove(&mut self, call: &Call, point: &Point, service: &str, dry: DryRun) -> Result<(), Failure> {
        let folder = Path::new(&point.path);
        let name = snapshot_name(service, &point.id, point.kind.as_deref().unwrap_or("manual"));
        let command = snap::delete_command(folder, &name);
        self.plan.push(Action::file(&folder.join(SUMS), "remove"));
        self.plan.push(Action::command(command.clone()));
        self.plan.push(Action::file(folder, "remove"));
        if dry.dry_run {
            return Ok(());
        }
        call.check()?;
        remove_sums(call, folder, || self.partially_removed = Some(point.id.clone()))?;
        snap::delete(call, &command, &point.id)?;
        let gone = fs::remove_dir_all(point::real(folder))
            .and_then(|()| if folder.is_symlink() { fs::remove_file(folder) } else { Ok(()) })
            .map_err(|error| Failure::io("remove the restore point", folder, &error));
        call.effects().happened();
        gone.and_then(|()| file::sync_folder_of(folder))?;
        self.partially_removed = None;
        self.removed.push(point.id.clone());
        Ok(())
    }
}

fn remove_sums(call: &Call, folder: &Path, removed: impl FnOnce()) -> Result<(), Failure> {
    let sums = folder.join(SUMS);
    match fs::remove_file(&sums) {
        // The call that removed it may have been killed before it was on the disk.
        Err(error) if error.kind() == ErrorKind::NotFound => return file::sync_folder_of(&sums),
        Err(error) => return Err(Failure::io("remove the restore point", &sums, &error)),
        Ok(()) => {}
    }
    call.effects().happened();
    removed();
    file::sync_folder_of(&sums)
}
