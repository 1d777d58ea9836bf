//! `check`: is the upgrade supported, and by which rule (procedure, section 8).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_step::from::{Accept, FromArg, Received};
use svc_step::{Call, Failure, StepResult};

use crate::forget::Forgotten;
use crate::installer::Installer;
use crate::marker::MarkerArgs;
use crate::refusal::refusal;
use crate::releases::ReleaseArgs;
use crate::rules::{Rule, judge};
use crate::version::Version;

/// Arguments of `svc-version check`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  svc-version check --installed 1.15.5 --to 2.0.1 --last-minor 1.15")]
pub struct CheckArgs {
    /// The installed version; default: what the marker says
    #[arg(long, value_name = "X.Y.Z")]
    installed: Option<Version>,
    /// The version to go to
    #[arg(long, value_name = "X.Y.Z", required_unless_present = "from")]
    to: Option<Version>,
    #[command(flatten)]
    from: FromArg,
    #[command(flatten)]
    releases: ReleaseArgs,
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

pub(crate) fn run(args: &CheckArgs, call: &Call) -> StepResult<Checked> {
    let (installed, to) = way(args, call)?;
    let rule = supported(installed, to, &args.releases, args.marker.product_name())?;
    Ok(Checked { installed, to, supported: true, rule })
}

/// The rule by which the upgrade is supported.
///
/// # Errors
/// It is not, or nobody can say (3); the list of releases cannot be read.
pub(crate) fn supported(installed: Version, to: Version, releases: &ReleaseArgs, product: &str) -> Result<Rule, Failure> {
    // The last minor matters on the way to another major only: a list that cannot be read is no obstacle to a patch.
    let majors = if to.major > installed.major { installed.major..installed.major.saturating_add(1) } else { 0..0 };
    let last_minor = releases.last_minors(product, majors)?.of(installed.major);
    judge(installed, to, last_minor).map_err(|why| refusal(installed, to, why, last_minor))
}

/// From where to where. A document of an installer says where to; one of a marker that was forgotten says where from.
fn way(args: &CheckArgs, call: &Call) -> Result<(Version, Version), Failure> {
    let (mut installed, mut to) = (args.installed, args.to);
    if let Some(from) = &args.from.from {
        let received = Received::read(call, from, &["svc-version.installer/1", "svc-version.forget/1"], Accept::Good)?;
        let (side, flag, said) = match received.step() {
            "installer" => (&mut to, "--to", Some(received.result::<Installer>()?.version)),
            _ => (&mut installed, "--installed", received.result::<Forgotten>()?.version),
        };
        if side.is_some() {
            return Err(Failure::usage("version_twice", format!("The --from document and {flag} say the same thing twice."))
                .hint(format!("Leave out {flag}.")));
        }
        *side = said;
    }
    let missing = || Failure::usage("version_missing", "Nothing says which version to go to.").hint("Say --to X.Y.Z.");
    let to = to.ok_or_else(missing)?;
    Ok((installed.map_or_else(|| args.marker.version(), Ok)?, to))
}
