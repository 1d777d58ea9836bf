//! What a run records on this host, so that `--run` resumes it when its document was lost, and the next call removes what a killed
//! one left.

use serde::{Deserialize, Serialize};
use svc_step::from::Received;
use svc_step::run_id::RunId;
use svc_step::{Call, Failure, swaps};

use crate::admin::{Admin, databases};
use crate::document::{Cloned, Named, Staged};
use crate::names::drop_statement;

/// The documents and records that a swap or a discard takes.
pub(crate) const SCHEMAS: [&str; 4] = [STAGE, CLONE, "svc-pgrestore.swap/1", RESTORE];
pub(crate) const CLONE: &str = "svc-pgrestore.clone/1";
pub(crate) const STAGE: &str = "svc-pgrestore.stage/1";
pub(crate) const RESTORE: &str = "svc-pgrestore.restore/1";

#[derive(Deserialize)]
struct OfDatabase {
    database: String,
}

/// Records what `step` plans or did with `database`.
pub(crate) fn write<T: Serialize>(call: &Call, run: &RunId, step: &str, database: &str, result: &T) -> Result<(), Failure> {
    if let Ok(received) = swaps::read(call, run, &SCHEMAS) {
        let cloned = received.step() == "clone" && !["clone", "swap"].contains(&step);
        let other = received.result::<OfDatabase>().is_ok_and(|recorded| recorded.database != database);
        if cloned || other {
            return Err(run_id_taken(run));
        }
    }
    swaps::write(call, run, step, result)
}

pub(crate) fn run_id_taken(run: &RunId) -> Failure {
    Failure::refused("run_id_taken", format!("The run {run} has staged, cloned or swapped a database already."))
        .hint("Give this one another run ID: --run-id or SVC_RUN_ID; without, run the command again.")
}

/// The copy that a staging or a clone has recorded.
struct Copy {
    database: String,
    system_identifier: String,
    verified: bool,
    copy: Named,
}

impl Copy {
    fn of(received: &Received) -> Result<Self, Failure> {
        if received.schema() == CLONE {
            let Cloned { database, system_identifier, verified, clone, .. } = received.result()?;
            return Ok(Self { database, system_identifier, verified, copy: clone });
        }
        let Staged { database, system_identifier, verified, staged, .. } = received.result()?;
        Ok(Self { database, system_identifier, verified, copy: staged })
    }
}

impl Admin {
    /// Drops every unfinished copy of this database that any run has recorded here. The caller holds the lock of the database, so
    /// those runs are dead.
    pub(crate) fn remove_leftovers(&mut self, call: &Call, database: &str) -> Result<(), Failure> {
        for received in swaps::all(call, &[STAGE, CLONE]) {
            let Ok(left) = Copy::of(&received) else { continue };
            let ours = left.database == database && left.system_identifier == self.server.system_identifier;
            if ours && !left.verified && left.copy.name != database {
                self.remove_leftover(call, received.run_id(), &left.copy.name)?;
            }
        }
        call.effects().stays();
        Ok(())
    }

    fn remove_leftover(&mut self, call: &Call, run: &str, copy: &str) -> Result<(), Failure> {
        // It was recorded when no database had that name, so the name is enough.
        if databases(&mut self.client)?.iter().any(|one| one.name == copy) {
            self.alter(call, &drop_statement(copy), &format!("drop {copy}, which a killed call left"))?;
            call.warn("leftover_removed", format!("The unfinished copy {copy} of an earlier run was removed."));
        }
        run.parse().map_or(Ok(()), |run| swaps::remove(call, &run))
    }

    /// Drops a copy that failed; if that fails too, the document says what is left.
    pub(crate) fn undo(&mut self, call: &Call, copy: &str, mut failure: Failure) -> Failure {
        match self.take_back(copy) {
            Ok(()) => {
                // A record of what is not there any more is harmless.
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
