//! `clear`: delete the version marker (procedure, 9.3 step 4), its content kept in the document.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_step::action::Action;
use svc_step::common::DryRun;
use svc_step::lock::Lock;
use svc_step::{Call, Failure, StepResult, Stopped, file};

use crate::marker::{self, MarkerArgs};
use crate::version::Version;

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  svc-version clear > cleared.json; svc-version record --from cleared.json")]
pub(crate) struct ClearArgs {
    #[command(flatten)]
    marker: MarkerArgs,
    #[command(flatten)]
    pub(crate) dry: DryRun,
}

/// A marker that is not there any more.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Cleared {
    /// The marker's path.
    pub(crate) marker: String,
    /// Its content, to the letter; `null` if there was none.
    pub(crate) content: Option<String>,
    /// The version that it named; `null` if it named none.
    pub(crate) version: Option<Version>,
    /// The effects of the step, in order; in a dry run, what they would be.
    pub(crate) plan: Vec<Action>,
}

pub(crate) fn run(args: &ClearArgs, call: &Call) -> StepResult<Cleared> {
    let path = args.marker.path()?;
    let _lock = Lock::unless_dry(call, "marker", &path.display().to_string(), args.dry.dry_run)?;
    let found = marker::lossy_text(&path)?;
    if found.as_ref().is_some_and(|(_, lossy)| *lossy) {
        // A failed installer may have damaged it, which is no reason to end a rollback.
        call.warn(
            "file_invalid",
            format!("The version marker {} is not UTF-8 text; content has the part that is.", path.display()),
        );
    }
    let content = found.map(|(text, _)| text);
    let version = content.as_deref().and_then(|text| text.trim().parse().ok());
    let plan = content.iter().map(|_| Action::file(&path, "remove")).collect();
    let cleared = Cleared { marker: path.display().to_string(), content, version, plan };
    if cleared.content.is_some() && !args.dry.dry_run {
        std::fs::remove_file(&path).map_err(|error| Failure::io("delete the version marker", &path, &error))?;
        call.effects().happened();
        if let Err(failure) = file::sync_folder_of(&path) {
            return Err(Stopped::with(failure, cleared));
        }
    }
    Ok(cleared)
}
