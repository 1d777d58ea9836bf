//! `choose`: which restore point a rollback or a rehearsal takes, and whether it may.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::builder::NonEmptyStringValueParser;
use schemars::JsonSchema;
use serde::Serialize;
use svc_step::journal::{self, Journal};
use svc_step::reporter::shell_quoted;
use svc_step::retention::duration;
use svc_step::steps;
use svc_step::{Call, Failure, StepResult};

use crate::point::{self, About, BackupDir, SUMS, State};

/// How long ago an upgrade may have ended well whose restore point is taken although none is named.
const LATELY: Duration = Duration::from_secs(24 * 3600);
/// How many restore points a hint names.
const HINTED: usize = 10;

/// Arguments of `svc-point choose`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  svc-point choose
  svc-point choose --accept-unquiesced 20261120t020003z-backup-nightly
  svc-point choose --rehearse --version 1.15.5 --max-age 26h

Without POINT it is the restore point of the last upgrade whose installer was started, unless that
ended well more than a day ago. All its files are read, except the dump, which svc-pgrestore reads.
One of another database than SVC_DATABASE is refused.")]
pub struct ChooseArgs {
    /// The restore point: its ID or its directory
    #[arg(value_name = "POINT", value_parser = NonEmptyStringValueParser::new())]
    point: Option<String>,
    /// Take the named restore point even if it was made while the service ran
    #[arg(long)]
    accept_unquiesced: bool,
    /// For a rehearsal: without POINT the newest valid one; one that was made while the service ran is a warning
    #[arg(long)]
    rehearse: bool,
    /// Only one of this installed version
    #[arg(long, value_name = "X.Y.Z", requires = "rehearse", conflicts_with = "point")]
    version: Option<String>,
    /// Only one that is not older (26h, 30d)
    #[arg(long, value_name = "DURATION", requires = "rehearse", conflicts_with = "point", value_parser = duration)]
    max_age: Option<Duration>,
    #[command(flatten)]
    dir: BackupDir,
}

/// A restore point that may be taken.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Chosen {
    /// Its directory.
    pub path: String,
    /// Its ID.
    pub id: String,
    /// The version that was installed.
    pub version: Option<String>,
    /// The database.
    pub database: String,
    /// `upgrade`, `nightly` or `manual`.
    pub kind: Option<String>,
    /// Whether the service was stopped while it was made.
    pub quiesced: bool,
    /// RFC 3339, UTC.
    pub made_at: Option<String>,
    /// The run directory of the upgrade that made it, if no later upgrade has started its installer; else `null`.
    pub upgrade_run_dir: Option<String>,
    /// The run directory of the last upgrade that has started its installer.
    pub last_upgrade_run_dir: Option<String>,
}

pub(crate) fn run(args: &ChooseArgs, call: &Call) -> StepResult<Chosen> {
    let upgrade = last_upgrade(call.state_dir());
    let path = match (&args.point, &upgrade) {
        (Some(named), _) => args.dir.point(named),
        (None, _) if args.rehearse => newest_valid(args, call)?,
        (None, Some(upgrade)) => of_upgrade(args, call, upgrade)?,
        (None, None) => {
            let message = "No upgrade is recorded here whose installer was started, so no restore point is chosen by itself.";
            let hint = name_another(args, call);
            return Err(Failure::not_found("point_not_found", message).hint(hint).into());
        }
    };
    let path = point::real(&path);
    let about = verified(args, call, &path)?;
    let (id, database) = (about.id.clone(), args.dir.database());
    if about.database != database {
        let message = format!("The restore point {id} is of the database {}, and SVC_DATABASE is {database}.", about.database);
        let hint = format!("Set SVC_DATABASE, or name another restore point. {}", name_another(args, call));
        return Err(Failure::refused("settings_invalid", message).hint(hint).into());
    }
    if !about.quiesced {
        let message = "The restore point was made while the service ran, so it is not quiesced: its two databases may be inconsistent with each other.";
        if args.rehearse {
            call.warn("not_quiesced", message);
        } else if !(args.accept_unquiesced && args.point.is_some()) {
            // As it was named: it may be in another directory.
            let point = args.point.as_ref().unwrap_or(&id);
            let again = shell_quoted(&["svc-rollback", "--accept-unquiesced", point]);
            let hint = format!("If that is acceptable, with the other options of this call:\n  {again}");
            return Err(Failure::refused("not_quiesced", message).hint(hint).into());
        }
    }
    let run_dir = |run: &Journal| point::real(run.dir()).display().to_string();
    Ok(Chosen {
        path: path.display().to_string(),
        version: about.version,
        database: about.database,
        kind: about.kind,
        quiesced: about.quiesced,
        made_at: about.made_at,
        upgrade_run_dir: upgrade.as_ref().filter(|run| run.id() == id).map(run_dir),
        last_upgrade_run_dir: upgrade.as_ref().map(run_dir),
        id,
    })
}

/// The newest upgrade whose installer was started.
pub(crate) fn last_upgrade(state_dir: &Path) -> Option<Journal> {
    journal::runs_of(state_dir, "svc-upgrade").find(|run| run.has_begun(steps::INSTALLER))
}

/// Where the restore point of a run was to be made: in the directory that was set at that time.
pub(crate) fn folder_of(run: &Journal, now: &Path) -> PathBuf {
    run.plan().settings.get("SVC_BACKUP_DIR").map_or(now, Path::new).join(run.id())
}

/// The newest valid restore point, of the version and the age that are asked for.
fn newest_valid(args: &ChooseArgs, call: &Call) -> Result<PathBuf, Failure> {
    let mut points = point::survey(call, &args.dir, false)?;
    points.retain(|point| {
        let is_young = args.max_age.is_none_or(|age| point::older(point.made) <= age);
        point.state == State::Valid && is_young && (args.version.is_none() || point.version == args.version)
    });
    let newest = points.pop().map(|point| PathBuf::from(point.path));
    newest.ok_or_else(|| {
        let version = args.version.as_ref().map_or(String::new(), |version| format!(" of version {version}"));
        let age = if args.max_age.is_some() { " that is young enough" } else { "" };
        let message = format!("There is no valid restore point{version}{age} in {}.", args.dir.dir().display());
        Failure::not_found("point_not_found", message).hint("To make one:\n  svc-backup")
    })
}

/// The restore point of the last upgrade, unless something has happened since.
fn of_upgrade(args: &ChooseArgs, call: &Call, upgrade: &Journal) -> Result<PathBuf, Failure> {
    let mut since = journal::runs(call.state_dir());
    since.retain(|run| run.id() > upgrade.id() && run.id() != call.run_id().as_str());
    let is_rollback = |run: &Journal| run.script() == "svc-rollback";
    // One that has passed its point of no return and is not finished is resumed.
    if let Some(cut) = journal::last_change(&since, is_rollback).filter(|run| !run.is_ok()) {
        let message = format!("The rollback {} has begun to change things and is not finished.", cut.id());
        return Err(Failure::refused("run_unfinished", message).hint(cut.committed_hint().unwrap_or_default()));
    }
    // A second one would remove what was written since, to whichever restore point the first one went.
    if let Some(done) = since.iter().find(|run| is_rollback(run) && run.has_changed_the_service()) {
        let message = format!("There was a rollback already since the last upgrade, the run {}.", done.id());
        return Err(named_only(args, upgrade, message));
    }
    refuse_after_attempt(args, call, upgrade)?;
    if let Some(later) = upgrade.replaced_by().filter(|_| !upgrade.is_ok()) {
        let message = format!("The upgrade {} counts as repaired since the run {}.", upgrade.id(), later.id());
        return Err(named_only(args, upgrade, message));
    }
    // A day's work is not removed for want of an argument.
    let ended_well = upgrade.last_document().filter(|document| document.ok);
    let ended_at = ended_well.and_then(|document| document.finished_at.as_str().parse().ok());
    // Of an end in the future nobody knows when it was.
    if ended_at.is_some_and(|ended_at| point::age(ended_at).is_none_or(|age| age > LATELY)) {
        let message =
            format!("The last upgrade, {}, ended well more than a day ago, or its time is in the future.", upgrade.id());
        return Err(named_only(args, upgrade, message));
    }
    Ok(folder_of(upgrade, &args.dir.dir()))
}

/// What names the restore point of that upgrade: its ID, or its path if that is not in the present `SVC_BACKUP_DIR`.
fn name_of(args: &ChooseArgs, upgrade: &Journal) -> String {
    let (now, point) = (args.dir.dir(), folder_of(upgrade, &args.dir.dir()));
    if point.starts_with(now) { upgrade.id().to_owned() } else { shell_quoted(&[point.display().to_string()]) }
}

/// The restore point of that upgrade is taken only if it is named.
fn named_only(args: &ChooseArgs, upgrade: &Journal, message: String) -> Failure {
    let about = About::read(&folder_of(upgrade, &args.dir.dir()));
    let version = about.and_then(|about| about.version).map(|version| format!(" (version {version})")).unwrap_or_default();
    Failure::refused("not_resumable", message).hint(format!(
        "To remove what was written since, and go to the restore point of that upgrade{version}, name it:\n  svc-rollback {}",
        name_of(args, upgrade)
    ))
}

/// An upgrade that ended before its installer has changed nothing. Whoever types svc-rollback after it may have that one in mind, and
/// not the one before it, which may be months old. (A hop is of one upgrade with the hops before it.)
fn refuse_after_attempt(args: &ChooseArgs, call: &Call, upgrade: &Journal) -> Result<(), Failure> {
    let outer = upgrade.plan().parent;
    for run in journal::runs_of(call.state_dir(), "svc-upgrade").take_while(|run| run != upgrade) {
        let is_attempt = run.has_begun(steps::NEW) || run.has_begun(steps::PLAN);
        let is_same_upgrade = outer.is_some() && run.plan().parent == outer;
        if is_attempt && !is_same_upgrade {
            let (id, before) = (run.id(), name_of(args, upgrade));
            let message =
                format!("The last upgrade, {id}, ended before its installer was started: there is nothing to roll back.");
            let hint = format!(
                "To see its state:\n  svc-upgrade --status {id}\nTo roll back the one before it:\n  svc-rollback {before}"
            );
            return Err(Failure::refused("not_resumable", message).hint(hint));
        }
    }
    Ok(())
}

fn verified(args: &ChooseArgs, call: &Call, path: &Path) -> Result<About, Failure> {
    let about = About::read(path).filter(|_| path.join(SUMS).exists()).ok_or_else(|| {
        let message = format!(
            "{} is not a restore point: it has no SHA256SUMS, or no restore-point.json of schema {}.",
            path.display(),
            point::SCHEMA
        );
        Failure::not_found("point_not_found", message).hint(name_another(args, call))
    })?;
    if point::is_under_other_name(path, &about) {
        let message = format!("{} is the restore point {} under another name.", path.display(), about.id);
        let hint = point::rename_hint(path, &about).unwrap_or_else(|| format!("Name {} itself.", about.id));
        return Err(Failure::invalid("point_invalid", message).hint(hint));
    }
    let damaged = point::damaged_files(call, path, Some(&about.dump()))?;
    if damaged.is_empty() {
        return Ok(about);
    }
    let message =
        format!("The restore point {} is damaged: {} is not what its SHA256SUMS say.", path.display(), damaged.join(", "));
    Err(Failure::invalid("point_invalid", message)
        .hint("Copy that file back from wherever the restore point was copied to, or name another restore point."))
}

/// The newest restore points that could be taken, for a hint.
fn name_another(args: &ChooseArgs, call: &Call) -> String {
    let points = point::survey(call, &args.dir, false).unwrap_or_default();
    let valid = points.iter().rev().filter(|point| point.state == State::Valid).take(HINTED);
    let names: Vec<String> = valid
        .map(|point| if point.quiesced == Some(true) { point.id.clone() } else { format!("{} (not quiesced)", point.id) })
        .collect();
    if names.is_empty() {
        return format!("There is none in {}. To make one:\n  svc-backup --quiesce", args.dir.dir().display());
    }
    format!("Name one of these: {}.", names.join(", "))
}
