//! `record`: write the version marker.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_step::action::Action;
use svc_step::common::DryRun;
use svc_step::file::{self, Existing};
use svc_step::from::{Accept, FromArg, Received};
use svc_step::lock::Lock;
use svc_step::{Call, Failure, StepResult};

use crate::forget::Forgotten;
use crate::installer::Installer;
use crate::marker::MarkerArgs;
use crate::version::Version;

/// Arguments of `svc-version record`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  svc-version record 1.15.5")]
pub struct RecordArgs {
    /// The version to write
    #[arg(value_name = "X.Y.Z", required_unless_present = "from", conflicts_with = "from")]
    version: Option<Version>,
    #[command(flatten)]
    from: FromArg,
    /// Replace a marker that says something else
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    marker: MarkerArgs,
    #[command(flatten)]
    pub(crate) dry: DryRun,
}

/// A marker that says the version.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Recorded {
    /// The marker's path.
    pub marker: String,
    /// What it says now.
    pub version: Version,
    /// What it said before; `null` where there was none.
    pub before: Option<String>,
    /// What is done; empty where it was so already.
    pub plan: Vec<Action>,
}

pub(crate) fn run(args: &RecordArgs, call: &Call) -> StepResult<Recorded> {
    let version = wanted(args)?;
    let path = args.marker.path()?;
    let _lock = Lock::take(call, "marker", &path.display().to_string())?;
    let before = args.marker.text()?;
    let same = before.as_deref().is_some_and(|text| text.trim().parse() == Ok(version));
    if before.is_some() && !same && !args.force {
        return Err(Failure::refused("marker_exists", format!("The version marker {} says something else.", path.display()))
            .hint("Look at it with svc-version current; --force replaces it.")
            .into());
    }
    let plan = if same { Vec::new() } else { vec![Action::file(&path, format!("write {version}"))] };
    if !same && !args.dry.dry_run {
        file::write_whole(&path, format!("{version}\n").as_bytes(), 0o644, Existing::Replace)?;
        call.effects().happened();
    }
    Ok(Recorded { marker: path.display().to_string(), version, before, plan })
}

fn wanted(args: &RecordArgs) -> Result<Version, Failure> {
    let missing =
        || Failure::usage("version_missing", "Nothing says which version to record.").hint("Name it: svc-version record X.Y.Z.");
    let Some(from) = &args.from.from else { return args.version.ok_or_else(missing) };
    let received = Received::read(from, &["svc-version.forget/1", "svc-version.installer/1"], Accept::Good)?;
    match received.step() {
        "forget" => received.result::<Forgotten>()?.version.ok_or_else(missing),
        _ => Ok(received.result::<Installer>()?.version),
    }
}
