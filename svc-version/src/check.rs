//! `check`: is the upgrade supported, and by which rule (procedure, section 8).

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_step::from::{Accept, FromArg, Received};
use svc_step::{Call, Failure, StepResult, file};

use crate::installer::Installer;
use crate::marker::MarkerArgs;
use crate::path::{LastMinor, Rule, Verdict, judge};
use crate::version::Version;

/// A file of releases is a list of versions.
const RELEASES_LONGEST: u64 = 1024 * 1024;

/// Arguments of `svc-version check`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  svc-version check --installed 1.15.5 --to 2.0.1 --last-minor 1.15")]
pub struct CheckArgs {
    /// The installed version; default: what the marker says
    #[arg(long, value_name = "X.Y.Z")]
    installed: Option<Version>,
    /// The version to go to
    #[arg(long, value_name = "X.Y.Z", required_unless_present = "from", conflicts_with = "from")]
    to: Option<Version>,
    #[command(flatten)]
    from: FromArg,
    /// The last minor version of the installed major version
    #[arg(long, value_name = "X.Y", conflicts_with = "releases")]
    last_minor: Option<LastMinor>,
    /// All releases: a file with a version a line, or a folder of installers
    #[arg(long, value_name = "FILE|DIR", env = "SVC_RELEASES")]
    releases: Option<PathBuf>,
    #[command(flatten)]
    marker: MarkerArgs,
}

/// An upgrade that is supported.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Checked {
    /// What is installed.
    pub installed: Version,
    /// What it is to become.
    pub to: Version,
    /// Always `true` here; an unsupported way is a refusal (3).
    pub supported: bool,
    /// By which rule.
    pub rule: Rule,
}

pub(crate) fn run(args: &CheckArgs, _call: &Call) -> StepResult<Checked> {
    let to = match (&args.from.from, args.to) {
        (Some(from), _) => Received::read(from, &["svc-version.installer/1"], Accept::Good)?.result::<Installer>()?.version,
        (None, Some(to)) => to,
        (None, None) => {
            return Err(Failure::usage("version_missing", "Nothing says which version to go to.").hint("Say --to X.Y.Z.").into());
        }
    };
    let installed = match args.installed {
        Some(installed) => installed,
        None => args.marker.version()?,
    };
    let last_minor = match (&args.last_minor, &args.releases) {
        (Some(last), _) => Some(*last),
        (None, Some(releases)) => last_minor_in(releases, installed.major)?,
        (None, None) => None,
    };
    match judge(installed, to, last_minor) {
        Verdict::Supported(rule) => Ok(Checked { installed, to, supported: true, rule }),
        refused => Err(refusal(installed, to, refused).into()),
    }
}

fn refusal(installed: Version, to: Version, verdict: Verdict) -> Failure {
    match verdict {
        Verdict::PassThrough(last) => {
            Failure::refused("path_unsupported", format!("{installed} is not of the last minor version before {to}, which is {last}."))
                .hint(format!("Upgrade to {last} first, then to {to}."))
        }
        Verdict::Undecided => Failure::refused(
            "path_undecided",
            format!("Whether {installed} is of the last minor version before {to} is not known, so the way is neither allowed nor refused."),
        )
        .hint(format!("Say --last-minor {}.Y, or --releases with the list of releases (SVC_RELEASES).", installed.major)),
        Verdict::NotHigher => Failure::refused("path_not_higher", format!("{to} is not higher than the installed {installed}."))
            .hint("An upgrade goes upward only; svc-rollback brings a former version back."),
        Verdict::TooFar | Verdict::Supported(_) => {
            Failure::refused("path_unsupported", format!("An upgrade from {installed} to {to} at once is not supported."))
                .hint(format!(
                    "Go by way of the versions between: first {0}.{1}.Z, or from the last minor version of {0} to {2}.0.Z.",
                    installed.major,
                    installed.minor + 1,
                    installed.major + 1
                ))
        }
    }
}

/// The highest minor of `major` among the releases.
fn last_minor_in(releases: &Path, major: u64) -> Result<Option<LastMinor>, Failure> {
    let versions = if releases.is_dir() { versions_of_folder(releases)? } else { versions_of_file(releases)? };
    Ok(versions
        .iter()
        .filter(|version| version.major == major)
        .map(|version| version.minor)
        .max()
        .map(|minor| LastMinor { major, minor }))
}

fn versions_of_file(path: &Path) -> Result<Vec<Version>, Failure> {
    let text = file::read_text("read the list of releases", path, RELEASES_LONGEST)?;
    text.lines()
        .map(|line| line.split('#').next().unwrap_or_default().trim())
        .filter(|line| !line.is_empty())
        .map(|line| {
            line.parse().map_err(|why: String| {
                Failure::invalid(
                    "releases_invalid",
                    format!("The list of releases {} has a line that is no version.", path.display()),
                )
                .hint("Write one X.Y.Z a line; # starts a comment.")
                .cause(why)
            })
        })
        .collect()
}

/// Installers by their names; other files of the folder do not matter.
fn versions_of_folder(path: &Path) -> Result<Vec<Version>, Failure> {
    let entries = std::fs::read_dir(path).map_err(|error| Failure::io("read the folder of installers", path, &error))?;
    let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    Ok(names.filter_map(|name| name.strip_suffix(".run")?.rsplit_once('-')?.1.parse().ok()).collect())
}
