//! `current`: the installed version, read from the marker.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_step::{Call, StepResult};

use crate::marker::MarkerArgs;
use crate::version::Version;

/// Arguments of `svc-version current`.
#[derive(Debug, clap::Args)]
pub struct CurrentArgs {
    #[command(flatten)]
    marker: MarkerArgs,
}

/// What is installed.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Current {
    /// The installed version.
    pub version: Version,
    /// The marker's path.
    pub marker: String,
}

pub(crate) fn run(args: &CurrentArgs, _call: &Call) -> StepResult<Current> {
    let version = args.marker.version()?;
    Ok(Current { version, marker: args.marker.path()?.display().to_string() })
}
