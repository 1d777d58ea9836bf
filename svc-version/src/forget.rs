//! `forget`: delete the version marker (procedure, 9.3 step 4), its content kept in the document.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_step::action::Action;
use svc_step::common::DryRun;
use svc_step::lock::Lock;
use svc_step::{Call, Failure, StepResult, file};

use crate::marker::MarkerArgs;
use crate::version::Version;

/// Arguments of `svc-version forget`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  svc-version forget > forgotten.json; svc-version record --from forgotten.json")]
pub struct ForgetArgs {
    #[command(flatten)]
    marker: MarkerArgs,
    #[command(flatten)]
    pub(crate) dry: DryRun,
}

/// A marker that is not there any more.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Forgotten {
    /// The marker's path.
    pub marker: String,
    /// What it said, to the letter; `null` where there was none.
    pub content: Option<String>,
    /// The version that it named; `null` where it named none.
    pub version: Option<Version>,
    /// What is done.
    pub plan: Vec<Action>,
}

pub(crate) fn run(args: &ForgetArgs, call: &Call) -> StepResult<Forgotten> {
    let path = args.marker.path()?;
    let _lock = Lock::take(call, "marker", &path.display().to_string())?;
    let content = args.marker.text()?;
    let version = content.as_deref().and_then(|text| text.trim().parse().ok());
    let there = content.is_some();
    let plan = if there { vec![Action::file(&path, "remove")] } else { Vec::new() };
    if there && !args.dry.dry_run {
        std::fs::remove_file(&path).map_err(|error| Failure::io("delete the version marker", &path, &error))?;
        call.effects().happened();
        file::sync_folder_of(&path)?;
    }
    Ok(Forgotten { marker: path.display().to_string(), content, version, plan })
}
