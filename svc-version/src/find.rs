//! `find`: the installer of a version, in the places where an operator keeps installers (procedure, 9.3).

use std::path::{Path, PathBuf};

use serde::Deserialize;
use svc_step::from::{Accept, FromArg, Received};
use svc_step::journal::Journal;
use svc_step::settings::Product;
use svc_step::steps;
use svc_step::{Call, Failure, StepResult, Stopped, file};

use crate::current::Current;
use crate::installer::{self, Installer};
use crate::version::Version;

#[derive(Debug, clap::Args)]
#[command(after_help = "Without --installer, these places are searched in this order: SVC_INSTALLER_DIR, the directory of
--beside, where the upgrade of --for had found it, the current directory.

Example:\n  svc-version current | svc-version find --from - --beside /srv/installers/svc-2.0.1.run")]
pub(crate) struct FindArgs {
    /// The version; default: that of the --from document, or of the --for document
    #[arg(value_name = "X.Y.Z", required_unless_present_any = ["from", "point"], conflicts_with = "from")]
    version: Option<Version>,
    #[command(flatten)]
    from: FromArg,
    /// Take this installer; fail (3) if it is of another version
    #[arg(long, value_name = "FILE")]
    installer: Option<PathBuf>,
    #[arg(long, value_name = "DIR", env = "SVC_INSTALLER_DIR")]
    installer_dir: Option<PathBuf>,
    /// Search the directory of this file too
    #[arg(long, value_name = "FILE")]
    beside: Option<PathBuf>,
    /// The document of svc-point choose: try where the upgrade of that restore point had found the installer, too
    #[arg(long = "for", value_name = "FILE")]
    point: Option<PathBuf>,
    #[command(flatten)]
    product: Product,
}

/// What matters here of the restore point that was chosen.
#[derive(Debug, Default, Deserialize)]
struct Chosen {
    version: Option<Version>,
    /// The directory of the upgrade's run.
    upgrade_run_dir: Option<PathBuf>,
}

pub(crate) fn run(args: &FindArgs, call: &Call) -> StepResult<Installer> {
    let read = |from: &Path, schema: &str| Received::read(call, from, &[schema], Accept::Successful);
    let installed = match &args.from.from {
        Some(from) => Some(read(from, "svc-version.current/1")?.result::<Current>()?.version),
        None => None,
    };
    let chosen: Chosen = match &args.point {
        Some(point) => read(point, "svc-point.choose/1")?.result()?,
        None => Chosen::default(),
    };
    let version = args.version.or(installed).or(chosen.version).ok_or_else(|| {
        Failure::usage("options_invalid", "The version of the installer is missing.").hint("Name it: svc-version find X.Y.Z")
    })?;
    let name = format!("{}-{version}.run", args.product.name());
    let path = match &args.installer {
        Some(named) => file::absolute(named)?,
        None => file::absolute(&place(args, chosen.upgrade_run_dir.as_deref(), &name))?,
    };
    let found = installer::read(&path, args.product.name(), call).map_err(|stopped| hinted(stopped, &name))?;
    let installation = args.product.install_dir();
    if path.starts_with(&installation) {
        let message = format!("{} is in the installation, which an uninstaller may remove: copy it elsewhere.", path.display());
        call.warn("file_invalid", message);
    }
    if found.version == version {
        return Ok(found);
    }
    let failure = Failure::refused("file_invalid", format!("{} is not the installer of {version}.", path.display()))
        .hint(format!("Name it with --installer {name}, or set SVC_INSTALLER_DIR to its directory."));
    Err(Stopped::with(failure, found))
}

/// The first place where it is; where it is in none, the first place where it could be.
fn place(args: &FindArgs, upgrade: Option<&Path>, name: &str) -> PathBuf {
    let folders =
        args.installer_dir.iter().cloned().chain(args.beside.as_deref().map(|beside| file::folder_of(beside).to_owned()));
    let named = folders.map(|folder| folder.join(name));
    let seen = upgrade.and_then(seen_by).filter(|path| path.file_name().is_some_and(|seen| seen == name));
    let places: Vec<PathBuf> = named.chain(seen).chain([PathBuf::from(name)]).collect();
    places.iter().find(|place| place.exists()).or(places.first()).cloned().unwrap_or_default()
}

/// Where an upgrade has found the installer of the version before.
fn seen_by(run: &Path) -> Option<PathBuf> {
    let document = Journal::at(run).attempt(steps::PREVIOUS_INSTALLER)?.document.filter(|document| document.ok)?;
    document.text("/path").map(PathBuf::from)
}

/// The hint of one that is in none of the places is the setting of the place.
fn hinted(mut stopped: Stopped<Installer>, name: &str) -> Stopped<Installer> {
    if stopped.failure.code == "file_not_found" {
        stopped.failure.hint = Some(format!("Name it with --installer {name}, or set SVC_INSTALLER_DIR to its directory."));
    }
    stopped
}
