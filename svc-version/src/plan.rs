//! `plan`: the chain of upgrades through the installers of a folder (procedure, section 8).

use std::collections::BTreeSet;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_step::{Call, Failure, StepResult, Stopped, file};

use crate::chain::{Blocked, Chain, chain};
use crate::folder;
use crate::marker::MarkerArgs;
use crate::refusal::{not_the_last, refusal, undecided};
use crate::releases::ReleaseArgs;
use crate::rules::{Rule, Unsupported};
use crate::version::Version;

/// Arguments of `svc-version plan`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  svc-version plan --to 2.1.0 --last-minor 1.15 | jq -r '.result.hops[].installer'")]
pub struct PlanArgs {
    /// The folder of installers
    #[arg(value_name = "DIR", env = "SVC_INSTALLER_DIR")]
    folder: PathBuf,
    /// The installed version; default: what the marker says
    #[arg(long, value_name = "X.Y.Z")]
    installed: Option<Version>,
    /// The version to go to; default: the highest that the folder has
    #[arg(long, value_name = "X.Y.Z")]
    to: Option<Version>,
    #[command(flatten)]
    releases: ReleaseArgs,
    #[command(flatten)]
    marker: MarkerArgs,
}

/// The way to a version, upgrade by upgrade.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Planned {
    /// What is installed.
    pub installed: Version,
    /// What it is to become.
    pub to: Version,
    /// The folder of installers.
    pub folder: String,
    /// The upgrades in their order; empty where the folder has nothing higher. After a failure: those up to the first gap.
    pub hops: Vec<Hop>,
    /// What the folder lacks, `1.16.Z` for any patch of 1.16; at most 20, and empty where the way can be gone.
    pub missing: Vec<String>,
}

/// One upgrade of a chain.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Hop {
    /// The version before it.
    pub from: Version,
    /// The version after it.
    pub to: Version,
    /// By which rule it is supported.
    pub rule: Rule,
    /// The installer's absolute path.
    pub installer: String,
}

pub(crate) fn run(args: &PlanArgs, call: &Call) -> StepResult<Planned> {
    let installed = args.installed.map_or_else(|| args.marker.version(), Ok)?;
    let product = args.marker.product_name();
    let folder = file::absolute(&args.folder)?;
    let (installers, unusable) = folder::installers(&folder, product)?;
    for path in &unusable {
        call.warn("installer_unusable", format!("{} is empty or no regular file, and counts as missing.", path.display()));
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
    let planned = Planned { installed, to, folder: folder.display().to_string(), hops: hops.collect(), missing };
    let failure = match (planned.missing.is_empty(), blocked) {
        (true, None) => return Ok(planned),
        (false, _) => lacks(&planned, product),
        (true, Some(Blocked::Unknown(at))) => undecided(at, to),
        (true, Some(Blocked::NotTheLast(version))) => not_the_last(version.major, &format!("There is a version {version}")),
    };
    Err(Stopped::with(failure, planned))
}

/// The refusal of a way that the folder has not all installers for.
fn lacks(planned: &Planned, product: &str) -> Failure {
    let (folder, missing) = (&planned.folder, planned.missing.join(", "));
    Failure::not_found(
        "installers_missing",
        format!("The way to {} needs installers that {folder} lacks: {missing}.", planned.to),
    )
    .hint(format!("Put them there, as {product}-X.Y.Z.run; the highest patch of each is best."))
}
