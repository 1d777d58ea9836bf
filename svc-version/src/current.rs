//! `current`: the installed version, read from the marker.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_step::{Call, Failure, StepResult, Stopped};

use crate::marker::MarkerArgs;
use crate::version::Version;

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  svc-version current --expect 2.0.1")]
pub(crate) struct CurrentArgs {
    /// Fail (7) if another version is installed
    #[arg(long, value_name = "X.Y.Z")]
    expect: Option<Version>,
    #[command(flatten)]
    marker: MarkerArgs,
}

/// What is installed.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Current {
    /// The installed version.
    pub(crate) version: Version,
    /// The marker's path.
    pub(crate) marker: String,
}

pub(crate) fn run(args: &CurrentArgs, _call: &Call) -> StepResult<Current> {
    let version = args.marker.version()?;
    let found = Current { version, marker: args.marker.path()?.display().to_string() };
    match args.expect.filter(|expected| *expected != version) {
        None => Ok(found),
        Some(expected) => Err(Stopped::with(
            Failure::invalid("content_differs", format!("The version marker says {version}, and {expected} was expected."))
                .hint("Read the installer's output: the installation is not complete."),
            found,
        )),
    }
}
