//! `plan`: the chain of upgrades through the installers of a directory (procedure, section 8).

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_step::{Call, Failure, StepResult, Stopped, file};

use crate::chain::{Blocked, Chain, chain};
use crate::check::supported;
use crate::folder;
use crate::installer;
use crate::marker::MarkerArgs;
use crate::refusal::{not_the_last, refusal, undecided};
use crate::releases::ReleaseArgs;
use crate::rules::{Rule, Unsupported};
use crate::version::Version;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  svc-version plan /srv/installers --to 2.1.0 --last-minor 1.15 | jq -r '.result.hops[].installer'
  svc-version plan --through svc-1.15.5.run --through svc-2.0.1.run --last-minor 1.15")]
pub(crate) struct PlanArgs {
    #[arg(value_name = "DIR", env = "SVC_INSTALLER_DIR", required_unless_present = "through")]
    folder: Option<PathBuf>,
    /// Go through these installers in their order (may be repeated), and read no directory
    #[arg(long, value_name = "FILE", conflicts_with = "to")]
    through: Vec<PathBuf>,
    /// The installed version; default: that of the marker
    #[arg(long, value_name = "X.Y.Z")]
    installed: Option<Version>,
    /// The version to go to; default: the highest that the directory has
    #[arg(long, value_name = "X.Y.Z")]
    to: Option<Version>,
    #[command(flatten)]
    releases: ReleaseArgs,
    #[command(flatten)]
    marker: MarkerArgs,
}

/// The upgrade path to a version.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Planned {
    /// What is installed.
    pub(crate) installed: Version,
    /// What it is to become.
    pub(crate) to: Version,
    /// The directory of installers; `null` if they were named.
    pub(crate) directory: Option<String>,
    /// The upgrades in their order; empty if the directory has nothing higher. After a failure: those up to the first gap, or up to
    /// the first that is not supported.
    pub(crate) hops: Vec<Hop>,
    /// What the directory lacks, `1.16.Z` for any patch of 1.16; at most 20, and empty if none is missing.
    pub(crate) missing: Vec<String>,
}

/// One upgrade of a chain.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Hop {
    /// The version before it.
    pub(crate) from: Version,
    /// The version after it.
    pub(crate) to: Version,
    /// By which rule it is supported.
    pub(crate) rule: Rule,
    /// The installer's absolute path.
    pub(crate) installer: String,
}

pub(crate) fn run(args: &PlanArgs, call: &Call) -> StepResult<Planned> {
    let installed = args.installed.map_or_else(|| args.marker.version(), Ok)?;
    let product = args.marker.product_name();
    let folder = match &args.folder {
        Some(folder) if args.through.is_empty() => file::absolute(folder)?,
        _ => return through(args, call, installed),
    };
    let (installers, unusable) = folder::installers(&folder, product)?;
    for path in &unusable {
        call.warn("file_invalid", format!("{} is empty or not a regular file, and counts as missing.", path.display()));
    }
    let to =
        args.to.or_else(|| installers.keys().next_back().copied().filter(|highest| *highest > installed)).unwrap_or(installed);
    if args.to.is_some() && to <= installed {
        return Err(refusal(installed, to, Unsupported::NotHigher, None).into());
    }
    let last_minors = args.releases.last_minors(product, installed.major..to.major)?;
    let versions: BTreeSet<Version> = installers.keys().copied().collect();
    let Chain { hops, missing, blocked } = chain(installed, to, &versions, &last_minors);
    let before = std::iter::once(installed).chain(hops.iter().map(|(version, _)| *version));
    let hops = before.zip(&hops).map(|(from, &(to, rule))| {
        let installer = installers.get(&to).map(|path| path.display().to_string()).unwrap_or_default();
        Hop { from, to, rule, installer }
    });
    let planned = Planned { installed, to, directory: Some(folder.display().to_string()), hops: hops.collect(), missing };
    let failure = match (planned.missing.is_empty(), blocked) {
        (true, None) => return Ok(planned),
        (false, _) => lacks(&planned, &folder, product),
        (true, Some(Blocked::Unknown(at))) => undecided(at, to),
        (true, Some(Blocked::NotTheLast(version))) => not_the_last(version.major, &format!("There is a version {version}")),
    };
    Err(Stopped::with(failure, planned))
}

/// The path through the installers that are named; each of them is read, and each upgrade is checked.
fn through(args: &PlanArgs, call: &Call, installed: Version) -> StepResult<Planned> {
    let product = args.marker.product_name();
    let mut planned = Planned { installed, to: installed, directory: None, hops: Vec::new(), missing: Vec::new() };
    for path in &args.through {
        match hop(args, call, planned.to, path, product) {
            Ok(hop) => {
                planned.to = hop.to;
                planned.hops.push(hop);
            }
            Err(failure) => return Err(Stopped::with(failure, planned)),
        }
    }
    Ok(planned)
}

fn hop(args: &PlanArgs, call: &Call, from: Version, path: &Path, product: &str) -> Result<Hop, Failure> {
    let installer = installer::read(&file::absolute(path)?, product, call).map_err(|stopped| stopped.failure)?;
    let rule = supported(from, installer.version, &args.releases, product)?;
    Ok(Hop { from, to: installer.version, rule, installer: installer.path })
}

/// The refusal of a path for which the directory lacks installers.
fn lacks(planned: &Planned, folder: &Path, product: &str) -> Failure {
    let (folder, missing) = (folder.display(), planned.missing.join(", "));
    Failure::not_found(
        "file_not_found",
        format!("The upgrade to {} needs installers that {folder} lacks: {missing}.", planned.to),
    )
    .hint(format!("Put them there, as {product}-X.Y.Z.run; the highest patch of each is best."))
}
