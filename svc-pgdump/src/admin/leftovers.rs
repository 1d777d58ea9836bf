//! Copies beside the live database that did not come to their end, our own or those of killed calls, whichever step makes them.

use serde::Deserialize;
use svc_step::run_id::RunId;
use svc_step::{Call, Failure, swaps};

use super::catalog::{Named, databases};
use super::drops::drop_statement;
use super::session::Admin;

/// What the notes of all steps that make a copy have in common.
#[derive(Debug, Deserialize)]
struct Noted {
    database: String,
    system_identifier: String,
    proven: bool,
    #[serde(alias = "clone")]
    staged: Named,
}

impl Admin {
    /// Drops every copy of this database that is noted here by a step of that schema and was not finished, of whatever run, and
    /// keeps that in the account of the call. Whoever calls it holds the lock of the database, so that their calls are dead.
    /// `what` names such a copy.
    ///
    /// # Errors
    /// The server says no or is lost, or a note cannot be removed.
    pub fn remove_leftovers(&mut self, call: &Call, schema: &str, database: &str, what: &str) -> Result<(), Failure> {
        for received in swaps::all(call, &[schema]) {
            let Ok(left) = received.result::<Noted>() else { continue };
            let ours = left.database == database && left.system_identifier == self.server.system_identifier;
            if ours && !left.proven && left.staged.name != database {
                self.remove_leftover(call, received.run_id(), &left.staged.name, what)?;
            }
        }
        call.effects().stays();
        Ok(())
    }

    fn remove_leftover(&mut self, call: &Call, run: &str, copy: &str, what: &str) -> Result<(), Failure> {
        // Its plan was written when no database of that name was there, so the name tells enough.
        if databases(&mut self.client)?.iter().any(|one| one.name == copy) {
            self.alter(call, &drop_statement(copy), &format!("drop what a killed call left, {copy}"))?;
            call.warn("leftover_removed", format!("The unfinished {what} {copy} of an earlier run was removed."));
        }
        run.parse().map_or(Ok(()), |run| swaps::remove(call, &run))
    }

    /// A copy that failed leaves nothing behind; if even that fails, the document says what is left. Gives the failure with what
    /// came of it.
    pub fn undo(&mut self, call: &Call, copy: &str, mut failure: Failure) -> Failure {
        match self.take_back(copy) {
            Ok(()) => {
                // The note of something that is not there any more helps nobody, and harms nobody either.
                let _ = swaps::remove(call, call.run_id());
                call.effects().undone();
            }
            Err(error) => {
                failure = failure.cause(error.message);
                failure.causes.extend(error.causes);
                failure.hint = Some(format!("svc-pgrestore discard --run {} removes what is left: {copy}.", call.run_id()));
            }
        }
        failure
    }
}

/// The run has been at work on another database, and `--run` can mean one only.
#[must_use]
pub fn run_id_taken(run: &RunId, database: &str) -> Failure {
    Failure::refused("run_id_taken", format!("The run {run} has been at work on the database {database} already."))
        .hint("Give this one a run id of its own: --run-id or SVC_RUN_ID; without, run the command again.")
}
