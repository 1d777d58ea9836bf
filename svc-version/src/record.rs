//! `record`: write the version marker.

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_step::action::Action;
use svc_step::common::DryRun;
use svc_step::file::{self, Existing};
use svc_step::from::{Accept, FromArg, Received};
use svc_step::lock::Lock;
use svc_step::{Call, Failure, StepResult, Stopped};

use crate::clear::Cleared;
use crate::installer::Installer;
use crate::marker::{self, MarkerArgs};
use crate::version::Version;

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  svc-version record 1.15.5")]
pub(crate) struct RecordArgs {
    /// The version to write
    #[arg(value_name = "X.Y.Z", required_unless_present = "from", conflicts_with = "from")]
    version: Option<Version>,
    #[command(flatten)]
    from: FromArg,
    /// Replace a marker that holds something else
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    marker: MarkerArgs,
    #[command(flatten)]
    pub(crate) dry: DryRun,
}

/// A marker with the version.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Recorded {
    /// The marker's path.
    pub(crate) marker: String,
    /// The version in it now; `null` if what was cleared named none.
    pub(crate) version: Option<Version>,
    /// Its content before, as far as it was text; `null` if there was none.
    pub(crate) before: Option<String>,
    /// The changes; empty if there was nothing to change.
    pub(crate) plan: Vec<Action>,
}

/// What is to be recorded, and where.
struct Wanted {
    path: PathBuf,
    version: Option<Version>,
    /// To the letter, line end included.
    content: String,
}

pub(crate) fn run(args: &RecordArgs, call: &Call) -> StepResult<Recorded> {
    let Wanted { path, version, content } = wanted(args, call)?;
    let _lock = Lock::unless_dry(call, "marker", &path.display().to_string(), args.dry.dry_run)?;
    let before = marker::lossy_text(&path)?.map(|(text, _)| text);
    let is_of_version = |text: &str| version.is_some_and(|version| text.trim().parse() == Ok(version));
    let same = before.as_deref().is_some_and(|text| text == content || is_of_version(text));
    if before.is_some() && !same && !args.force {
        return Err(Failure::refused("name_in_use", format!("The version marker {} holds something else.", path.display()))
            .hint("Print it with svc-version current; --force replaces it.")
            .into());
    }
    let what = version.map_or_else(|| "its content again".to_owned(), |version| version.to_string());
    let plan = if same { Vec::new() } else { vec![Action::file(&path, format!("write {what}"))] };
    let recorded = Recorded { marker: path.display().to_string(), version, before, plan };
    if !same && !args.dry.dry_run {
        let attempt = call.effects().attempt();
        if let Err(failure) = file::write_complete(&path, content.as_bytes(), 0o644, Existing::ReplaceInUse) {
            // It is complete or absent: reading it back says which, even if only the directory could not be synced.
            match marker::lossy_text(&path).map(|now| now.map(|(text, _)| text)) {
                Ok(now) if now == recorded.before => attempt.refused(),
                Ok(Some(now)) if now == content => attempt.happened(),
                _ => {}
            }
            return Err(Stopped::with(failure, recorded));
        }
        attempt.happened();
    }
    Ok(recorded)
}

fn wanted(args: &RecordArgs, call: &Call) -> Result<Wanted, Failure> {
    let missing =
        || Failure::usage("options_invalid", "The version to record is missing.").hint("Name it: svc-version record X.Y.Z.");
    let line = |version: Version| format!("{version}\n");
    let Some(from) = &args.from.from else {
        let version = args.version.ok_or_else(missing)?;
        return Ok(Wanted { path: args.marker.path()?, version: Some(version), content: line(version) });
    };
    let received = Received::read(call, from, &["svc-version.clear/1", "svc-version.installer/1"], Accept::Successful)?;
    if received.step() == "installer" {
        let version = received.result::<Installer>()?.version;
        return Ok(Wanted { path: args.marker.path()?, version: Some(version), content: line(version) });
    }
    // A cleared marker is restored to the letter, at its path.
    let cleared = received.result::<Cleared>()?;
    let path = args.marker.of_cleared(Path::new(&cleared.marker))?;
    Ok(Wanted { path, version: cleared.version, content: cleared.content.ok_or_else(missing)? })
}
