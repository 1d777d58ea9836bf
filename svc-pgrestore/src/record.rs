//! What a run records on this host, so that `--run` resumes it when its document was lost, and the next call removes what a killed
//! one left.

use serde::Serialize;
use svc_step::from::Received;
use svc_step::run_id::RunId;
use svc_step::{Call, Failure, swaps};

use crate::admin::{Admin, oid_of};
use crate::document::{Cloned, Named, Restored, Staged, Swapped};
use crate::names::drop_statement;

/// The documents and records that a swap or a discard takes.
pub(crate) const SCHEMAS: [&str; 4] = [STAGE, CLONE, "svc-pgrestore.swap/1", "svc-pgrestore.restore/1"];
const CLONE: &str = "svc-pgrestore.clone/1";
const STAGE: &str = "svc-pgrestore.stage/1";

/// Records what `step` plans or did with `database`.
pub(crate) fn write<T: Serialize>(call: &Call, run: &RunId, step: &str, database: &str, result: &T) -> Result<(), Failure> {
    if let Ok(received) = swaps::read(call, run, &SCHEMAS) {
        // What can be read and not understood is not written over: it may be all that leads back. A damaged one leads nowhere.
        let recorded = Recorded::of(&received)?;
        let is_cloned = received.step() == "clone" && !["clone", "swap"].contains(&step);
        // The record of a swap is what leads back to what it replaced.
        let is_swapped = step == "stage" && recorded.swapped.is_some_and(|swapped| swapped.swapped);
        if is_cloned || is_swapped || recorded.database != database {
            return Err(run_id_taken(run));
        }
    }
    swaps::write(call, run, step, result)
}

pub(crate) fn run_id_taken(run: &RunId) -> Failure {
    Failure::refused("name_in_use", format!("The run {run} has staged, cloned or swapped a database already."))
        .hint("Give this one another run ID: --run-id or SVC_RUN_ID; without, run the command again.")
}

/// What a document or a record is of: a copy that was staged or cloned, or its swap.
pub(crate) struct Recorded {
    pub(crate) run: RunId,
    pub(crate) database: String,
    pub(crate) system_identifier: String,
    /// What was staged or cloned; of a swap, what comes in.
    pub(crate) copy: Named,
    pub(crate) verified: bool,
    /// The command that makes it again; empty for a swap.
    pub(crate) again: Vec<String>,
    pub(crate) swapped: Option<Swapped>,
}

impl Recorded {
    pub(crate) fn of(received: &Received) -> Result<Self, Failure> {
        let (staged, swapped) = match received.step() {
            "clone" => {
                let Cloned { run, database, system_identifier, verified, clone: copy, .. } = received.result()?;
                let again = ["svc-pgrestore", "clone", "--dbname", &database].map(str::to_owned).to_vec();
                let run = run_of(&run)?;
                return Ok(Self { run, database, system_identifier, copy, verified, again, swapped: None });
            }
            "stage" => (received.result()?, None),
            "swap" => return Self::of_swap(received.result()?),
            _ => {
                let Restored { stage, swap, .. } = received.result()?;
                (stage, swap)
            }
        };
        if let Some(swapped) = swapped {
            return Self::of_swap(swapped);
        }
        let Staged { database, system_identifier, owner, verified, staged: copy, dump, .. } = staged;
        let run = run_of(received.run_id())?;
        let again = ["svc-pgrestore", "stage", "--dbname", &database, "--owner", &owner, &dump.path].map(str::to_owned).to_vec();
        Ok(Self { run, database, system_identifier, copy, verified, again, swapped: None })
    }

    fn of_swap(swapped: Swapped) -> Result<Self, Failure> {
        let Swapped { run, database, system_identifier, incoming: copy, .. } = swapped.clone();
        let (run, again) = (run_of(&run)?, Vec::new());
        Ok(Self { run, database, system_identifier, copy, verified: true, again, swapped: Some(swapped) })
    }
}

pub(crate) fn run_of(text: &str) -> Result<RunId, Failure> {
    text.parse().map_err(|_| {
        Failure::usage("from_invalid", format!("The --from document has the invalid run ID `{text}`."))
            .hint("Pass the document as the tool printed it.")
    })
}

impl Admin {
    /// Drops every unfinished copy of this database that any run has recorded here. The caller holds the lock of the database, so
    /// those runs are dead.
    pub(crate) fn remove_unfinished(&mut self, call: &Call, database: &str) -> Result<(), Failure> {
        for received in swaps::all(call, &[STAGE, CLONE]) {
            let Ok(left) = Recorded::of(&received) else { continue };
            let is_ours = left.database == database && left.system_identifier == self.system_identifier;
            let copy = &left.copy.name;
            if !is_ours || left.verified || copy == database {
                continue;
            }
            // It was recorded when no database had that name, so the name is enough.
            if oid_of(&mut self.client, copy)?.is_some() {
                self.alter(call, &drop_statement(copy), &format!("drop {copy}, which a killed call left"))?;
                call.warn("run_recovered", format!("The unfinished copy {copy} of an earlier run was removed."));
            }
            swaps::remove(call, &left.run)?;
        }
        call.effects().stays();
        Ok(())
    }

    /// Drops a copy that failed; if that fails too, the document says what is left.
    pub(crate) fn undo(&mut self, call: &Call, copy: &str, failure: Failure) -> Failure {
        let Err(error) = self.take_back(copy) else {
            // A record of what is not there any more is harmless.
            let _ = swaps::remove(call, call.run_id());
            call.effects().undone();
            return failure;
        };
        let discard = self.command("discard", call.run_id().as_str());
        let failure = failure.further_hint(format!("{discard} removes what is left: {copy}.")).cause(error.message);
        error.causes.into_iter().fold(failure, Failure::cause)
    }
}
