//! What a run records on this host, so that `--run` resumes it when its document was lost, and the next call removes what a killed
//! one left.

use serde::Serialize;
use svc_step::from::Received;
use svc_step::run_id::RunId;
use svc_step::{Call, Failure, swaps};

use crate::admin::{Admin, databases, oid_of};
use crate::document::{Cloned, Named, Restored, Staged, Swapped};
use crate::names::drop_statement;

/// The documents and records that a swap or a discard takes.
pub(crate) const SCHEMAS: [&str; 4] = ["svc-pgrestore.stage/1", "svc-pgrestore.clone/1", "svc-pgrestore.swap/1", RESTORE];
pub(crate) const RESTORE: &str = "svc-pgrestore.restore/1";

/// Records what `step` plans or did with `database`.
pub(crate) fn write<T: Serialize>(call: &Call, run: &RunId, step: &str, database: &str, result: &T) -> Result<(), Failure> {
    if let Ok(received) = swaps::read(call, run, &SCHEMAS) {
        // What can be read and not understood is not written over: it may be all that leads back. A damaged one leads nowhere.
        let recorded = Recorded::of(&received)?;
        let is_cloned = received.step() == "clone" && step != "swap";
        // The record of a swap, even of one that a kill has not let be recorded to its end, is what leads back to what it replaced.
        let is_swapped = step == "stage" && recorded.swapped.is_some();
        if is_cloned || is_swapped || recorded.database != database {
            return Err(run_id_taken(run));
        }
    }
    swaps::write(call, run, step, result)
}

/// What this run has staged already, whether it was swapped in or not.
pub(crate) fn staged_before(admin: &mut Admin, wanted: &Staged, call: &Call) -> Result<Option<Staged>, Failure> {
    let Some(staged) = staged(wanted, call)? else { return Ok(None) };
    Ok(databases(&mut admin.client)?.iter().any(|one| one.oid == staged.staged.oid).then_some(staged))
}

/// What this run has staged and verified of this dump already.
pub(crate) fn staged(wanted: &Staged, call: &Call) -> Result<Option<Staged>, Failure> {
    let Some(received) = swaps::find(call, call.run_id(), &SCHEMAS)? else { return Ok(None) };
    let staged: Option<Staged> = match received.step() {
        "stage" => received.result().ok(),
        "restore" => received.result::<Restored>().ok().filter(|restored| !restored.in_place).map(|restored| restored.stage),
        _ => return Err(run_id_taken(call.run_id())),
    };
    let identity = |staged: &Staged| {
        let Staged { database, system_identifier, owner, dump, .. } = staged.clone();
        (database, system_identifier, owner, dump.sha256)
    };
    Ok(staged.filter(|staged| staged.verified && identity(staged) == identity(wanted)))
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
        let staged = match received.step() {
            "clone" => {
                let Cloned { run, database, system_identifier, verified, clone: copy, .. } = received.result()?;
                let again = ["svc-pgrestore", "clone", "--dbname", &database].map(str::to_owned).to_vec();
                let run = run_of(&run)?;
                return Ok(Self { run, database, system_identifier, copy, verified, again, swapped: None });
            }
            "stage" => received.result()?,
            "swap" => return Self::of_swap(received.result()?),
            _ => match received.result()? {
                Restored { swap: Some(swapped), .. } => return Self::of_swap(swapped),
                Restored { stage, .. } => stage,
            },
        };
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
    /// What any run has recorded here of this database. The caller holds its lock, so those runs are dead.
    pub(crate) fn recorded(&self, call: &Call, database: &str, schemas: &[&str]) -> impl Iterator<Item = Recorded> {
        let recorded = swaps::all(call, schemas).into_iter().filter_map(|received| Recorded::of(&received).ok());
        recorded.filter(move |one| one.database == database && one.system_identifier == self.system_identifier)
    }

    /// Every unfinished copy of it.
    pub(crate) fn unfinished(&self, call: &Call, database: &str) -> impl Iterator<Item = Recorded> {
        self.recorded(call, database, &SCHEMAS).filter(move |left| !left.verified && left.copy.name != database)
    }

    /// Drops them.
    pub(crate) fn remove_unfinished(&mut self, call: &Call, database: &str) -> Result<(), Failure> {
        for left in self.unfinished(call, database).collect::<Vec<_>>() {
            let copy = &left.copy.name;
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
