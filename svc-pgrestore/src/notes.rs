//! What is noted of a run on this host, so that `--run` can go on from it when its document was lost.

use serde::Serialize;
use serde_json::Value;
use svc_pgdump::admin::run_id_taken;
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
        return Err(run_id_taken(run, other));
    }
    swaps::write(call, run, step, result)
}
