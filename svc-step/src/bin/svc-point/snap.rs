//! `svc-snap`, called for the snapshot of a restore point.

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use svc_step::document::Document;
use svc_step::{Call, Failure, Status, child};

use crate::point::About;

/// The command that deletes the snapshot of a restore point: by its document, or by the name that its run has given it: the
/// document of another run may lie in an incomplete copy of that run's point.
pub fn delete_command(point: &Path, by_name: &str) -> Vec<String> {
    let document = point.join("snapshot.json");
    let is_complete = || About::read(point).is_some_and(|about| point.ends_with(about.id));
    let which = match svc_step::journal::document_in(&document) {
        Some(said) if said.ok && (point.ends_with(&said.run_id) || is_complete()) => {
            vec!["--from".to_owned(), document.display().to_string()]
        }
        _ => vec![by_name.to_owned()],
    };
    let command = ["svc-snap", "delete"].map(str::to_owned).into_iter();
    command.chain(which).chain(["--cancel".to_owned()]).collect()
}

/// Runs a command of `svc-snap`, in this call's run.
/// Errors: as its document says; without one, `no_document` (1).
pub fn run(call: &Call, command: &[String]) -> Result<(), Failure> {
    let (program, args) = command.split_first().ok_or_else(|| Failure::fault("No command is given."))?;
    let mut process = Command::new(program);
    process.args(args).env("SVC_RUN_ID", call.run_id().as_str()).env("SVC_STATE_DIR", call.state_dir());
    call.reporter().detail(&command.join(" "));
    let ended = child::capture(call, &mut process)?;
    let Ok(document) = serde_json::from_slice::<Document<Value>>(&ended.stdout) else {
        let message = format!("`{}` ended with {} and left no document.", command.join(" "), ended.status);
        return Err(Failure::failed("no_document", message)
            .hint("Run that command by hand, then run the same command again.")
            .cause(ended.stderr));
    };
    for warning in document.warnings {
        call.warn(&warning.code, warning.message);
    }
    let Some(error) = document.error else { return Ok(()) };
    Err(error.into_failure(ended.status.code().map_or(Status::Failed, Status::of_failure)))
}

/// Deletes the snapshot of a restore point. One that is gone already, or that nothing here can delete, keeps no restore point from being
/// removed.
/// Errors: it cannot be deleted for another reason.
pub fn delete(call: &Call, command: &[String], point: &str) -> Result<(), Failure> {
    let attempt = call.effects().attempt();
    let Err(failure) = run(call, command) else {
        attempt.happened();
        return Ok(());
    };
    match failure.code.as_str() {
        "snapshot_not_found" => {}
        // A repository that another cluster has written to (7) is no read-only one: that may be put right.
        "repository_shared" if failure.status == Status::Invalid => return Err(failure),
        "other_server" | "repository_shared" | "repository_not_found" => {
            call.warn("not_removed", format!("The snapshot of the restore point {point} stays where it is: {failure}"));
        }
        _ => return Err(failure),
    }
    attempt.refused();
    Ok(())
}
