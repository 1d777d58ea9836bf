//! `create`: the directory of a restore point.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Serialize;
use svc_step::action::Action;
use svc_step::common::DryRun;
use svc_step::{Call, Failure, StepResult, file, settings};

/// Arguments of `svc-point create`.
#[derive(Debug, clap::Args)]
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
    /// The effects of the step, in order; in a dry run, what they would be.
    pub plan: Vec<Action>,
}

pub(crate) fn run(args: &CreateArgs, call: &Call) -> StepResult<Created> {
    let dir = file::absolute(&args.dir)?;
    refuse_installation(&dir)?;
    let created = Created { path: dir.display().to_string(), plan: vec![Action::file(&dir, "make the directory, mode 0700")] };
    if args.dry.dry_run {
        crate::point::usable(file::folder_of(&dir))?;
        return Ok(created);
    }
    let Err(error) = make(call, &dir) else { return Ok(created) };
    let mut failure = Failure::directory(&dir, "SVC_BACKUP_DIR", &error);
    if error.kind() == io::ErrorKind::AlreadyExists {
        // Another service, whose run has begun in the same second, may be making its restore point there.
        failure = failure.hint(
            "Each service has a SVC_BACKUP_DIR of its own: set another one if another service uses this one. Else run the same \
             command again, or move away what is there.",
        );
    }
    Err(call.stopped(failure, created))
}

/// An uninstaller removes all of the installation, and a rollback needs the restore point after that.
fn refuse_installation(dir: &Path) -> Result<(), Failure> {
    let installation = PathBuf::from(settings::setting("SVC_INSTALL_DIR"));
    if !dir.starts_with(&installation) {
        return Ok(());
    }
    let message =
        format!("{} is in the installation, {}, which the uninstaller may remove.", dir.display(), installation.display());
    Err(Failure::refused("settings_invalid", message).hint("Set SVC_BACKUP_DIR to a directory elsewhere."))
}

/// The directory, which must not exist, and the parents that it lacks, each durable.
fn make(call: &Call, dir: &Path) -> io::Result<()> {
    let missing: Vec<&Path> = dir.ancestors().skip(1).take_while(|parent| !parent.exists()).collect();
    for folder in missing.into_iter().rev().chain([dir]) {
        DirBuilder::new().mode(0o700).create(folder)?;
        call.effects().happened();
        fs::File::open(file::folder_of(folder))?.sync_all()?;
    }
    Ok(())
}
