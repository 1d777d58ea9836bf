//! `push`: copies a restore point and the directory of the snapshot repository off-site. Only a copy that is verified gets the service's tag.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_step::action::Action;
use svc_step::common::DryRun;
use svc_step::document::Time;
use svc_step::file::{self, Existing};
use svc_step::lock::{self, Lock};
use svc_step::reporter::shell_quoted;
use svc_step::run_id::RunId;
use svc_step::{Accept, Call, Failure, Received, StepResult};

use super::{LOST_FOUND, Snapshot, literal, more_time, of_kind, run as restic, snapshots, unverified};
use crate::last::{self, OffsiteCopy};
use crate::point::{self, About, BackupDir};

/// Arguments of `svc-point push`.
#[derive(Debug, clap::Args)]
#[command(after_help = "A repository of another type than fs is not copied: its own storage has to outlive this host.")]
pub struct PushArgs {
    /// The restore point: its ID or its directory
    #[arg(value_name = "POINT")]
    point: String,
    /// The document of svc-snap health: where the snapshot repository is
    #[arg(long, value_name = "FILE")]
    search: PathBuf,
    /// The document of svc-snap list: whether a snapshot is being taken
    #[arg(long, value_name = "FILE")]
    snapshots: PathBuf,
    /// The document of svc-snap show: the snapshot of the restore point
    #[arg(long, value_name = "FILE")]
    snapshot: PathBuf,
    /// `SVC_BACKUP_REPO`
    #[arg(long, value_name = "DIR", env = "SVC_BACKUP_REPO")]
    repository: Option<PathBuf>,
    #[command(flatten)]
    dir: BackupDir,
    #[command(flatten)]
    pub(crate) dry: DryRun,
}

/// A restore point that was copied off-site.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Pushed {
    /// The restore point.
    pub point_id: String,
    /// When it was made; RFC 3339, UTC.
    pub made_at: Time,
    /// When the copy was verified; `null` if it was not.
    pub copied_at: Option<Time>,
    /// The directory of the snapshot repository that was copied too; `null` if it is none.
    pub repository: Option<String>,
    /// The effects of the step, in order; in a dry run, what they would be.
    pub plan: Vec<Action>,
}

#[derive(Debug, Deserialize)]
struct Health {
    cluster_uuid: String,
    repository: Repository,
}

#[derive(Debug, Deserialize)]
struct Repository {
    name: String,
    r#type: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Shown {
    snapshot: One,
}

#[derive(Debug, Deserialize)]
struct Listed {
    snapshots: Vec<One>,
}

#[derive(Debug, Deserialize)]
struct One {
    uuid: String,
    state: String,
}

/// The last line of `restic backup --json`.
#[derive(Debug, Deserialize)]
struct Summary {
    snapshot_id: String,
}

pub(crate) fn run(args: &PushArgs, call: &Call) -> StepResult<Pushed> {
    let point = args.dir.point(&args.point);
    let id = point.file_name().unwrap_or_default().to_string_lossy().into_owned();
    if id.parse::<RunId>().is_err() {
        let message = format!("The directory {} has another name than its restore point was made with.", point.display());
        return Err(Failure::refused("point_invalid", message)
            .hint("Give it the name that its restore-point.json has as `id`.")
            .into());
    }
    let about = About::read(&point);
    let kind = of_kind(&point::kind(about.as_ref(), &id).unwrap_or_default());
    let made = about.and_then(|about| about.made_at?.parse().ok()).or_else(|| svc_step::run_id::time(&id));
    // Of a cluster with red indices too.
    let health: Health = Received::read(call, &args.search, &["svc-snap.health/1"], Accept::Unfinished)?.result()?;
    let repository = repository(args, call, &health, &id)?;
    let mut pushed = Pushed {
        made_at: made.unwrap_or_default().into(),
        copied_at: None,
        repository: repository.as_ref().map(|repository| repository.display().to_string()),
        plan: Vec::new(),
        point_id: id,
    };
    let _lock = args.dir.lock(call, args.dry)?;
    // What svc-snap takes before it writes to the repository.
    let name = lock::repository(&health.cluster_uuid, &health.repository.name);
    let _repository = Lock::unless_dry(call, "repository", &name, args.dry.dry_run || repository.is_none())?;
    match push(args, call, (&point, &kind), repository.as_deref(), &mut pushed) {
        Ok(()) => Ok(pushed),
        Err(failure) => Err(call.stopped(more_time(failure), pushed)),
    }
}

/// The directory of the snapshot repository, without links, since restic copies a link as a link; none if it is no directory.
fn repository(args: &PushArgs, call: &Call, health: &Health, id: &str) -> Result<Option<PathBuf>, Failure> {
    let again = || format!("Then:\n  {}", shell_quoted(&["svc-offsite", "push", &args.point]));
    let Listed { snapshots } = Received::read(call, &args.snapshots, &["svc-snap.list/1"], Accept::Successful)?.result()?;
    if snapshots.iter().any(|one| one.state == "IN_PROGRESS") {
        let message = "A snapshot is being written to the snapshot repository.";
        return Err(Failure::unavailable("server_busy", message).hint(format!("Wait until it has ended. {}", again())));
    }
    if health.repository.r#type.as_ref().is_some_and(|kind| kind != "fs") {
        let message = "The snapshot repository is not a directory (type fs), so it is not copied: its own storage has to outlive this host.";
        call.warn("not_restored", message);
        return Ok(None);
    }
    let Shown { snapshot } = Received::read(call, &args.snapshot, &["svc-snap.show/1"], Accept::Successful)?.result()?;
    let found = args.repository.as_ref().filter(|directory| directory.join(format!("snap-{}.dat", snapshot.uuid)).exists());
    found.map(|directory| point::real(directory)).map(Some).ok_or_else(|| {
        let directory =
            args.repository.as_ref().map_or("SVC_BACKUP_REPO, which is not set".to_owned(), |one| one.display().to_string());
        Failure::not_found("snapshot_not_found", format!("The snapshot of {id} is not in the directory {directory}."))
            .hint(format!("Set SVC_BACKUP_REPO to the directory of the repository:\n  svc-snap health\n{}", again()))
    })
}

fn push(
    args: &PushArgs,
    call: &Call,
    (point, kind): (&Path, &str),
    repository: Option<&Path>,
    pushed: &mut Pushed,
) -> Result<(), Failure> {
    let (host, service, id) = (svc_step::document::host(), args.dir.service(), pushed.point_id.clone());
    let (new, verified) = (format!("{},{id},{kind}", unverified(service)), format!("{service},{id},{kind}"));
    let failed = format!("The restore point {id} was not copied off-site");
    let copies = if args.dry.dry_run { Ok(Vec::new()) } else { snapshots(call, service, Some(&host), &failed) };
    let copies = copies.map_err(|failure| never_initialised(call, failure))?;
    // restic's forget keeps the last of each day by this; the newest copy of one restore point is a second later than the others.
    let same = copies.iter().filter(|copy| copy.point().is_some_and(|(other, _)| other == id));
    let time = same.map(|copy| copy.time + SignedDuration::from_secs(1)).max().unwrap_or_else(|| made_at(pushed));
    let time = time.to_zoned(TimeZone::system()).strftime("%F %T").to_string();
    let not = repository.map(|directory| literal(&directory.join(LOST_FOUND).display().to_string()));
    let paths = [Some(point), repository].map(|path| path.map(|path| path.display().to_string()));
    let mut backup = vec!["backup", "--json", "--host", &host, "--tag", &new, "--time", &time];
    backup.extend(not.iter().flat_map(|not| ["--exclude", not]));
    if args.dry.dry_run {
        backup.extend(paths.iter().flatten().map(String::as_str));
        pushed.plan.push(Action::command(["restic"].into_iter().chain(backup)));
        pushed.plan.push(Action::command(["restic", "tag", "--set", &verified, "SNAPSHOT"]));
        return Ok(());
    }
    // Of the other copies it has read most of this one before.
    backup.extend(copies.last().iter().flat_map(|parent| ["--parent", &parent.id]));
    backup.extend(paths.iter().flatten().map(String::as_str));
    // What earlier calls have left that were killed: their locks, and what they could not verify.
    restic(call, &["unlock", "--quiet"], &failed)?;
    remove_unverified(call, service, &host, &copies);

    let before = repository.map(generation).transpose()?;
    let attempt = call.effects().attempt();
    let copied = restic(call, &backup, &failed).and_then(|said| {
        // It is complete only if nothing was written to the repository meanwhile: each write makes another index-N.
        if repository.map(generation).transpose()? == before { Ok(said) } else { Err(busy(&args.point)) }
    });
    let said = match copied {
        Ok(said) => said,
        Err(failure) => {
            attempt.happened();
            if failure.signal.is_none() {
                remove_unverified(call, service, &host, &copies);
            }
            return Err(failure);
        }
    };
    attempt.happened();
    let summary = said.split(|byte| *byte == b'\n').rev().find_map(|line| serde_json::from_slice::<Summary>(line).ok());
    let summary = summary.ok_or_else(|| {
        Failure::failed("offsite_failed", format!("{failed}: restic has not printed the ID of its snapshot."))
            .hint("svc-offsite restic version")
    })?;
    restic(call, &["tag", "--quiet", "--set", &verified, &summary.snapshot_id], &failed)?;
    // restic ends with 0 also if it could not write the snapshot with the new tags, or not remove the one with the old.
    let tagged = snapshots(call, &verified, Some(&host), &failed)?;
    if !tagged.iter().any(|copy| copy.was(&summary.snapshot_id)) {
        return Err(Failure::unavailable("offsite_failed", format!("{failed}: restic has not marked the copy as verified."))
            .hint(shell_quoted(&["svc-offsite", "push", &args.point])));
    }
    let copied_at = Timestamp::now();
    pushed.copied_at = Some(copied_at.into());
    let record = OffsiteCopy { point_id: id, copied_at, made_at: made_at(pushed) };
    // An older restore point that is copied too is not the newest copy. (One of the future is of a clock that was wrong.)
    let is_newer = |last: &OffsiteCopy| last.made_at > record.made_at && last.made_at <= copied_at;
    if last::offsite_copy(call.state_dir()).is_ok_and(|last| last.as_ref().is_some_and(is_newer)) {
        return Ok(());
    }
    let text = serde_json::to_vec(&record).unwrap_or_default();
    file::write_complete(&call.state_dir().join(last::OFFSITE), &text, 0o600, Existing::Replace)
}

fn made_at(pushed: &Pushed) -> Timestamp {
    pushed.made_at.as_str().parse().unwrap_or_default()
}

/// restic says the same of a storage that is not mounted or refuses the connection.
fn never_initialised(call: &Call, failure: Failure) -> Failure {
    let is_new = failure.causes.iter().any(|cause| cause.contains("Is there a repository"))
        && !call.state_dir().join(last::OFFSITE).exists();
    let hint = failure.hint.clone().unwrap_or_default();
    if is_new {
        failure.hint(format!("{hint}\nIf there has never been a restic repository:\n  svc-offsite restic init"))
    } else {
        failure
    }
}

fn busy(point: &str) -> Failure {
    let again = shell_quoted(&["svc-offsite", "push", point]);
    Failure::unavailable("server_busy", "The snapshot repository was written to while it was copied.")
        .hint(format!("To copy it again:\n  {again}"))
}

/// Removes what was not verified, but for what a server that only takes new files (append-only) has kept of a verified copy. What stays is
/// no copy, and keeps none from being made.
fn remove_unverified(call: &Call, service: &str, host: &str, copies: &[Snapshot]) {
    let failed = "What earlier pushes could not verify is still in the restic repository";
    let removed = snapshots(call, &unverified(service), Some(host), failed).and_then(|mut left| {
        left.retain(|one| !copies.iter().any(|copy| copy.was(&one.id)));
        if left.is_empty() {
            return Ok(());
        }
        let ids = left.iter().map(|one| one.id.as_str());
        let attempt = call.effects().attempt();
        restic(call, &["forget", "--quiet"].into_iter().chain(ids).collect::<Vec<_>>(), failed)?;
        attempt.happened();
        Ok(())
    });
    if let Err(failure) = removed {
        call.warn("not_removed", failure.message);
    }
}

/// The names of the repository's `index-N`.
fn generation(repository: &Path) -> Result<BTreeSet<String>, Failure> {
    let fault = |error| Failure::io("read the snapshot repository", repository, &error);
    let names = fs::read_dir(repository).map_err(fault)?.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    Ok(names.filter(|name| name.starts_with("index-")).collect())
}
