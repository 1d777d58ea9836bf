//! `create`: the directory of a restore point.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Serialize;
use svc_step::action::Action;
use svc_step::common::DryRun;
use svc_step::{Call, Failure, StepResult, file};

/// Arguments of `svc-point create`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  svc-point create /var/backups/svc/20261120t020003z-backup-manual")]
pub struct CreateArgs {
    /// The directory; its parents are made too
    dir: PathBuf,
    #[command(flatten)]
    pub(crate) dry: DryRun,
}

/// The directory of a restore point.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Created {
    /// The directory.
    pub path: String,
    /// What is done.
    pub plan: Vec<Action>,
}

pub(crate) fn run(args: &CreateArgs, call: &Call) -> StepResult<Created> {
    let dir = file::absolute(&args.dir)?;
    let created = Created { path: dir.display().to_string(), plan: vec![Action::file(&dir, "make the directory, mode 0700")] };
    if args.dry.dry_run {
        crate::point::usable(file::folder_of(&dir))?;
    }
    if args.dry.dry_run || is_empty(&dir) {
        return Ok(created);
    }
    match make(call, &dir) {
        Ok(()) => Ok(created),
        Err(error) => Err(call.stopped(Failure::directory(&dir, "SVC_BACKUP_DIR", &error), created)),
    }
}

/// What a call that was killed has made.
fn is_empty(dir: &Path) -> bool {
    fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_none())
}

/// The directory and the parents that it lacks, each durable.
fn make(call: &Call, dir: &Path) -> io::Result<()> {
    let missing: Vec<&Path> = dir.ancestors().skip(1).take_while(|parent| !parent.exists()).collect();
    for folder in missing.into_iter().rev().chain([dir]) {
        DirBuilder::new().mode(0o700).create(folder)?;
        call.effects().happened();
        fs::File::open(file::folder_of(folder))?.sync_all()?;
    }
    Ok(())
}
