//! `check`: is the upgrade supported, and by which rule (procedure, section 8).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_step::from::{Accept, FromArg, Received};
use svc_step::{Call, Failure, StepResult};

use crate::installer::Installer;
use crate::marker::MarkerArgs;
use crate::refusal::refusal;
use crate::releases::ReleaseArgs;
use crate::rules::{Rule, rule_between};
use crate::version::Version;

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  svc-version check --installed 1.15.5 --to 2.0.1 --last-minor 1.15")]
pub(crate) struct CheckArgs {
    /// The installed version; default: that of the marker
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
pub(crate) struct Checked {
    /// What is installed.
    pub(crate) installed: Version,
    /// What it is to become.
    pub(crate) to: Version,
    /// By which rule.
    pub(crate) rule: Rule,
}

pub(crate) fn run(args: &CheckArgs, call: &Call) -> StepResult<Checked> {
    let (installed, to) = versions(args, call)?;
    let rule = supported(installed, to, &args.releases, args.marker.product_name())?;
    Ok(Checked { installed, to, rule })
}

/// The rule by which the upgrade is supported.
///
/// # Errors
/// It is not, or that is not known (3); the list of releases cannot be read.
pub(crate) fn supported(installed: Version, to: Version, releases: &ReleaseArgs, product: &str) -> Result<Rule, Failure> {
    // The last minor matters for another major only: a list that cannot be read is no obstacle to a patch.
    let majors = if to.major > installed.major { installed.major..installed.major.saturating_add(1) } else { 0..0 };
    let last_minor = releases.last_minors(product, majors)?.of(installed.major);
    rule_between(installed, to, last_minor).map_err(|why| refusal(installed, to, why, last_minor))
}

/// The installed version and the one to upgrade to, which an installer's document has too.
fn versions(args: &CheckArgs, call: &Call) -> Result<(Version, Version), Failure> {
    let mut to = args.to;
    if let Some(from) = &args.from.from {
        let received = Received::read(call, from, &["svc-version.installer/1"], Accept::Successful)?;
        if to.is_some() {
            return Err(
                Failure::usage("options_invalid", "The --from document and --to both give a version.").hint("Leave out --to.")
            );
        }
        to = Some(received.result::<Installer>()?.version);
    }
    let missing = || Failure::usage("options_invalid", "The version to upgrade to is missing.").hint("Pass --to X.Y.Z.");
    let to = to.ok_or_else(missing)?;
    Ok((args.installed.map_or_else(|| args.marker.version(), Ok)?, to))
}
