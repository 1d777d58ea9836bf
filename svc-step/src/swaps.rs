//! The plan of a swap, written before its first effect, so that `--run RUN` finishes or reverses it when its document
//! was lost.

use std::path::PathBuf;

use serde::Serialize;

use crate::call::Call;
use crate::failure::Failure;
use crate::file::{self, Existing};
use crate::from::{Accept, Received};
use crate::lock::make_private_folder;
use crate::run_id::RunId;

/// Where the plan of a tool's swap in a run lies: `$SVC_STATE_DIR/swaps/<run>.<tool>.json`. The tool is part of the name,
/// since one run swaps both databases.
#[must_use]
pub fn path(call: &Call, run: &RunId) -> PathBuf {
    call.state_dir().join("swaps").join(format!("{run}.{}.json", call.tool()))
}

/// Writes the plan, durably, as a document of `step` that is not finished.
///
/// # Errors
/// The state folder cannot be used (3), or the disk did not take it (1).
pub fn write<T: Serialize>(call: &Call, run: &RunId, step: &str, result: &T) -> Result<(), Failure> {
    let path = path(call, run);
    make_private_folder(file::folder_of(&path))?;
    let document = serde_json::json!({
        "schema": crate::document::schema_name(call.tool(), step), "step": step, "run_id": run.as_str(),
        "ok": false, "dry_run": false, "result": result, "error": null,
    });
    file::write_whole(&path, document.to_string().as_bytes(), 0o600, Existing::Replace)
}

/// Reads the plan of an earlier call.
///
/// # Errors
/// There is none of that run (4), or it is damaged (2).
pub fn read(call: &Call, run: &RunId, schemas: &[&str]) -> Result<Received, Failure> {
    let path = path(call, run);
    if !path.exists() {
        return Err(Failure::not_found("swap_not_found", format!("No swap of the run {run} is noted here."))
            .hint(format!("ls {} shows the runs that are.", file::folder_of(&path).display())));
    }
    Received::read(&path, schemas, Accept::Unfinished)
}
