//! `fetch`: restores an off-site copy to this host, the restore point last.

use std::fs;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Serialize;
use svc_step::action::Action;
use svc_step::common::DryRun;
use svc_step::file;
use svc_step::lock::make_private_folder;
use svc_step::run_id::RunId;
use svc_step::{Call, Failure, StepResult};

use super::{LOST_FOUND, NOT_LISTED, Snapshot, literal, run as restic, snapshots};
use crate::point::{BackupDir, SUMS};

/// What restic restores to, in the directory of the restore points and in that of the snapshot repository.
const FETCH: &str = ".fetch";

/// Arguments of `svc-point fetch`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  svc-point fetch 20261121t021703z-backup-nightly --repository /var/backups/opensearch

After a call that was killed, run the same command again.")]
pub struct FetchArgs {
    /// The ID of the restore point
    #[arg(value_name = "ID")]
    id: RunId,
    /// The host that the copy was made on, if several have copies of that ID
    #[arg(long, value_name = "HOST")]
    host: Option<String>,
    /// `SVC_BACKUP_REPO`
    #[arg(long, value_name = "DIR", env = "SVC_BACKUP_REPO")]
    repository: Option<PathBuf>,
    #[command(flatten)]
    dir: BackupDir,
    #[command(flatten)]
    pub(crate) dry: DryRun,
}

/// A restore point that was fetched.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Fetched {
    /// Its directory.
    pub path: String,
    /// The host that it was made on.
    pub host: String,
    /// The directory of the snapshot repository; `null` if the copy holds none.
    pub repository: Option<String>,
    /// The effects of the step, in order; in a dry run, what they would be.
    pub plan: Vec<Action>,
}

pub(crate) fn run(args: &FetchArgs, call: &Call) -> StepResult<Fetched> {
    let (dir, id) = (args.dir.dir(), args.id.as_str());
    let to = dir.join(id);
    if to.exists() {
        let hint = format!("Name it:\n  svc-rollback --dry-run {id}");
        return Err(Failure::refused("name_in_use", format!("The restore point {} exists already.", to.display()))
            .hint(hint)
            .into());
    }
    let copy = chosen(args, call)?;
    let repository = match copy.repository() {
        None => None,
        Some(_) => Some(file::absolute(args.repository.as_deref().ok_or_else(|| {
            Failure::usage(
                "settings_invalid",
                "The copy holds a snapshot repository, and SVC_BACKUP_REPO, its directory, is not set.",
            )
            .hint("Set SVC_BACKUP_REPO to the directory that the repository is to have here.")
        })?)?),
    };
    let plan = [Some(dir.join(FETCH)), repository.as_ref().map(|directory| directory.join(FETCH))].into_iter().flatten();
    let plan = plan.map(|target| Action::command(["restic", "restore", &copy.id, "--target", &target.display().to_string()]));
    let fetched = Fetched {
        path: to.display().to_string(),
        host: copy.hostname.clone(),
        repository: repository.as_ref().map(|directory| directory.display().to_string()),
        plan: plan.collect(),
    };
    if let Some(directory) = &repository {
        refuse_used(directory, id)?;
    } else {
        call.warn("not_restored", "The copy has no snapshot repository: register the storage that it is in.");
    }
    if args.dry.dry_run {
        return Ok(fetched);
    }
    let _lock = args.dir.lock(call, args.dry)?;
    let done = repository.as_deref().map_or(Ok(()), |directory| fetch_repository(call, &copy, directory, id));
    let done = done.and_then(|()| fetch_point(call, &copy, &dir, id));
    if let (Ok(()), Some(directory)) = (&done, &repository) {
        let _ = fs::remove_dir(complete(directory, id));
    }
    // A full disk is not kept full.
    [Some(dir), repository].into_iter().flatten().for_each(|directory| drop(fs::remove_dir_all(directory.join(FETCH))));
    match done {
        Ok(()) => Ok(fetched),
        Err(failure) => Err(call.stopped(failure, fetched)),
    }
}

/// The newest copy of that ID, which only one host may have made.
fn chosen(args: &FetchArgs, call: &Call) -> Result<Snapshot, Failure> {
    let id = args.id.as_str();
    let mut found = snapshots(call, &format!("{},{id}", args.dir.service()), args.host.as_deref(), NOT_LISTED)?;
    found.retain(|copy| copy.point().is_some_and(|(found, _)| found == id));
    let newest = found.pop().ok_or_else(|| {
        Failure::not_found("point_not_found", format!("There is no off-site copy of {id}."))
            .hint("To list them:\n  svc-offsite list")
    })?;
    if let Some(other) = found.iter().find(|other| other.hostname != newest.hostname) {
        let message = format!("The hosts {} and {} both have a copy of {id}.", newest.hostname, other.hostname);
        return Err(Failure::refused("name_in_use", message).hint(format!("svc-offsite fetch {id} --host {}", newest.hostname)));
    }
    Ok(newest)
}

/// A repository that is complete and is moved up from here; it stays until the restore point is there, so that a call that was killed can
/// be run again.
fn complete(directory: &Path, id: &str) -> PathBuf {
    directory.join(format!("{FETCH}-{id}"))
}

/// Refuses a directory that holds anything but what this command has put there.
fn refuse_used(directory: &Path, id: &str) -> Result<(), Failure> {
    let mut names = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.file_name());
    if complete(directory, id).exists() || names.all(|name| name == FETCH || name == LOST_FOUND) {
        return Ok(());
    }
    let message = format!("The directory {} is not empty, so the copy of the repository is not put there.", directory.display());
    Err(Failure::refused("name_in_use", message)
        .hint("Set SVC_BACKUP_REPO to another directory, or move away what is in that one."))
}

fn fetch_repository(call: &Call, copy: &Snapshot, directory: &Path, id: &str) -> Result<(), Failure> {
    let complete = complete(directory, id);
    let fault = |error: std::io::Error| Failure::io("put the snapshot repository into place", directory, &error);
    file::create_folder(call.effects(), directory, file::REPOSITORY)?;
    if !complete.exists() {
        let restored = restored(call, copy, copy.repository().unwrap_or(Path::new("/")), &directory.join(FETCH))?;
        fs::rename(restored, &complete).and_then(|()| fs::remove_dir_all(directory.join(FETCH))).map_err(fault)?;
        file::sync_folder_of(&complete)?;
    }
    for entry in fs::read_dir(&complete).map_err(fault)? {
        let name = entry.map_err(fault)?.file_name();
        let to = directory.join(&name);
        if to.exists() {
            return Err(file::exists(&to).hint("Move it away, then run the same command again."));
        }
        call.effects().happened();
        fs::rename(complete.join(&name), to).map_err(fault)?;
    }
    file::sync_folder_of(&complete)
}

fn fetch_point(call: &Call, copy: &Snapshot, dir: &Path, id: &str) -> Result<(), Failure> {
    let path = copy.point().map_or(Path::new("/"), |(_, path)| path);
    make_private_folder(dir, "SVC_BACKUP_DIR")?;
    let restored = restored(call, copy, path, &dir.join(FETCH))?;
    if !restored.join(SUMS).exists() {
        let hint = format!("See what it holds:\n  svc-offsite restic ls {}", copy.id);
        return Err(Failure::invalid("point_invalid", format!("The copy of {id} does not hold the restore point.")).hint(hint));
    }
    let to = dir.join(id);
    fs::rename(restored, &to).map_err(|error| Failure::io("put the restore point into place", &to, &error))?;
    file::sync_folder_of(&to)
}

/// Restores a path of the copy below a directory, each file of it durable; where it is then.
fn restored(call: &Call, copy: &Snapshot, path: &Path, target: &Path) -> Result<PathBuf, Failure> {
    // What a call has left that was killed.
    let _ = fs::remove_dir_all(target);
    call.effects().happened();
    fs::create_dir_all(target).map_err(|error| Failure::io("make the directory", target, &error))?;
    let (include, to) = (literal(&path.display().to_string()), target.display().to_string());
    restic(call, &["restore", "--quiet", &copy.id, "--include", &include, "--target", &to], "The copy was not restored")?;
    let synced = fs::File::open(target).and_then(|file| nix::unistd::syncfs(file).map_err(Into::into));
    synced.map_err(|error| Failure::io("make the files durable", target, &error))?;
    Ok(target.join(path.strip_prefix("/").unwrap_or(path)))
}
