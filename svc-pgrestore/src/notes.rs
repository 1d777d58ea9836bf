//! What is noted of a run on this host, so that `--run` can go on from it when its document was lost.

use serde::Serialize;
use serde_json::Value;
use svc_step::run_id::RunId;
use svc_step::{Call, Failure, swaps};

use crate::swap::SCHEMAS;

/// Notes what `step` plans or did with `database`, under the run that it is about.
///
/// # Errors
/// The run has been at work on another database, and `--run` can mean one only (3); or the state folder cannot be used.
pub(crate) fn write<T: Serialize>(call: &Call, run: &RunId, step: &str, database: &str, result: &T) -> Result<(), Failure> {
    if let Ok(noted) = swaps::read(call, run, &SCHEMAS)
        && let Ok(other) = noted.result::<Value>()
        && let Some(other) = other.get("database").and_then(Value::as_str)
        && other != database
    {
        return Err(Failure::refused("run_id_taken", format!("The run {run} has been at work on the database {other} already."))
            .hint("Give this one a run id of its own: --run-id or SVC_RUN_ID; without, run the command again."));
    }
    swaps::write(call, run, step, result)
}
