//! What `swap` and `discard` are given to go on from: a document, or what is noted of a run.

use svc_step::run_id::RunId;
use svc_step::swaps::GivenArgs;
use svc_step::{Call, Failure};

use crate::restore::record::restored::Restored;
use crate::restore::record::{self, Begun, CLONE, STAGE, SWAP};

/// Under which schema the documents of restores come.
const RESTORE: &str = "svc-snap.restore/1";

/// What a step goes on from.
#[derive(Debug, Clone)]
pub(crate) struct Given {
    /// What had been begun.
    pub begun: Begun,
    /// The run whose copies these are.
    pub run: RunId,
    /// Whether it says that it ended well; what is noted of a run never does.
    pub is_ok: bool,
}

impl Given {
    /// Reads it, before anything is locked, connected or changed.
    ///
    /// # Errors
    /// The document is no good (2), nothing is noted of that run (4), or it is of a restore that left nothing to go on
    /// with (3).
    pub(crate) fn read(args: &GivenArgs, call: &Call) -> Result<Self, Failure> {
        let received = args.read(call, &[STAGE, CLONE, SWAP, RESTORE])?;
        let begun = match received.step() {
            "restore" => of_restore(received.result()?, call)?,
            _ => Begun::read(&received)?,
        };
        Ok(Self { run: begun.run()?, begun, is_ok: received.is_ok() })
    }
}

/// A restore that did not come to its swap may have left a staging.
fn of_restore(restored: Restored, call: &Call) -> Result<Begun, Failure> {
    if restored.in_place {
        return Err(Failure::refused("restored_in_place", "That restore was made in place: nothing was kept.")
            .hint("Restore another snapshot: svc-snap restore."));
    }
    if let Some(swapped) = restored.swap {
        return Ok(Begun::Swapped(swapped));
    }
    match record::noted(call, &record::named(&restored.run)?)? {
        Some(begun) => Ok(begun),
        None => Err(Failure::refused("not_proven", "That restore did not come to its swap, and nothing of it is noted here.")
            .hint("Run the restore again: svc-snap restore.")),
    }
}
