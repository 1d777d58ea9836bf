//! What a run has begun, in the record of the run under `SVC_STATE_DIR` and in documents: `--run` and the same command again find it.

use serde::Serialize;
use svc_step::{Call, Failure, GivenArgs, Received, RunId, swaps};

use crate::client::Server;
use crate::index::{SkipReason, copies, get_indices};
use crate::restore::{CopySet, CopyState, Restored, SwapIndex, Swapped};

pub(super) const STAGE: &str = "svc-snap.stage/1";
const CLONE: &str = "svc-snap.clone/1";
pub(super) const SWAP: &str = "svc-snap.swap/1";
const SCHEMAS: [&str; 4] = [STAGE, CLONE, SWAP, "svc-snap.restore/1"];

/// What a run has begun.
#[derive(Debug, Clone)]
pub(crate) enum Begun {
    Copies(CopySet),
    Swapped(Swapped),
    InPlace(Box<Restored>),
}

impl Begun {
    /// Reads it from a document or a record; one that lacks what its schema promises is 2.
    pub(crate) fn read(received: &Received) -> Result<Self, Failure> {
        Ok(match received.step() {
            "stage" | "clone" => Self::Copies(received.result()?),
            "swap" => Self::Swapped(received.result()?),
            _ => Self::InPlace(received.result()?),
        })
    }

    /// The run whose copies these are, which need not be the run of the call that printed the document; and their cluster.
    pub(super) fn of(&self) -> (&str, &str) {
        match self {
            Self::Copies(copies) => (&copies.run, &copies.cluster_uuid),
            Self::Swapped(swapped) => (&swapped.run, &swapped.cluster_uuid),
            Self::InPlace(restored) => (&restored.run, &restored.origin.cluster_uuid),
        }
    }

    pub(crate) fn cluster_uuid(&self) -> &str {
        self.of().1
    }

    /// The names of its copies. What was restored directly under its own name is none.
    pub(crate) fn copies(&self) -> Vec<&str> {
        match self {
            Self::Copies(set) => set.indices.iter().filter(|one| !one.is_direct()).map(|one| one.copy.as_str()).collect(),
            Self::Swapped(swapped) => {
                let conflicts = swapped.indices.iter().flat_map(|item| &item.conflicts);
                let further = conflicts.chain(&swapped.discarded).map(String::as_str);
                swapped.indices.iter().flat_map(SwapIndex::copies).chain(further).collect()
            }
            Self::InPlace(_) => Vec::new(),
        }
    }

    /// The indices that it has swapped or copied.
    pub(crate) fn live_names(&self) -> Vec<&str> {
        match self {
            Self::Copies(set) => set.indices.iter().map(|one| one.index.as_str()).collect(),
            // Those of one that was undone are among the skipped.
            Self::Swapped(swapped) => {
                let undone = swapped.skipped.iter().filter(|one| one.reason == SkipReason::NotSwapped);
                swapped.live_names().into_iter().chain(undone.map(|one| one.name.as_str())).collect()
            }
            Self::InPlace(_) => Vec::new(),
        }
    }

    /// What was restored directly under live names, and not opened for writes yet.
    pub(crate) fn unopened(&self, server: &Server) -> Result<Vec<String>, Failure> {
        let restored = match self {
            Self::Copies(set) => &*set.indices,
            Self::Swapped(swapped) if !swapped.finished => &swapped.direct,
            Self::Swapped(_) | Self::InPlace(_) => &[],
        };
        let found = get_indices(server, restored.iter().filter(|one| one.is_direct()).map(|one| &one.index))?;
        Ok(restored.iter().filter(|one| one.is_unopened(&found)).map(|one| one.index.clone()).collect())
    }

    /// Writes it as what the run has come to.
    pub(crate) fn write_end(&self, call: &Call) {
        match self {
            Self::Copies(copies) => write_end(call, &copies.run, copies.step(), copies),
            Self::Swapped(swapped) => write_end(call, &swapped.run, "swap", swapped),
            Self::InPlace(_) => {}
        }
    }
}

/// What `swap` and `discard` continue from: a document, or the record of a run.
#[derive(Debug, Clone)]
pub(crate) struct Given {
    pub begun: Begun,
    pub run: RunId,
    /// The refusal to make copies live whose document says that they failed; always of a record, which never says that it succeeded.
    pub failed: Option<Failure>,
}

impl Given {
    /// Errors: The document is invalid (2), nothing is recorded of that run (4), or there is nothing to continue from (3).
    pub(crate) fn read(args: &GivenArgs, call: &Call) -> Result<Self, Failure> {
        let received = args.read(call, &SCHEMAS)?;
        let begun = match Begun::read(&received)? {
            Begun::InPlace(restored) => of_restore(*restored, call)?,
            begun => begun,
        };
        let refusal = || args.run().map_or_else(|| received.refusal(), |run| not_verified(call, run.as_str()));
        Ok(Self { run: run_id(begun.of().0)?, begun, failed: (!received.is_ok()).then(refusal) })
    }
}

/// A restore that did not come to its swap may have left a staging.
fn of_restore(restored: Restored, call: &Call) -> Result<Begun, Failure> {
    if restored.in_place {
        return Err(Failure::not_found("swap_not_found", "That restore was made in place: there are no previous copies.")
            .hint("Restore another snapshot (svc-snap list, svc-snap restore NAME)."));
    }
    match restored.swap {
        Some(swapped) => Ok(Begun::Swapped(swapped)),
        None => find(call, &run_id(&restored.run)?)?.ok_or_else(|| {
            Failure::refused("not_verified", "That restore did not come to its swap, and nothing of it is recorded here.")
                .hint("Run the same restore again, or restore another snapshot (svc-snap list, svc-snap restore NAME).")
        }),
    }
}

/// The run that a document names; none is 2.
pub(crate) fn run_id(run: &str) -> Result<RunId, Failure> {
    run.parse().map_err(|why: String| {
        Failure::usage("from_invalid", "The document names no run.").hint("Pass the document as the tool printed it.").cause(why)
    })
}

/// What is recorded of `run`, or `None`; a damaged record is 7.
pub(crate) fn find(call: &Call, run: &RunId) -> Result<Option<Begun>, Failure> {
    swaps::find(call, run, &SCHEMAS)?.map(|received| Begun::read(&received)).transpose()
}

/// Records what a run is about to do.
pub(crate) fn write<T: Serialize>(call: &Call, run: &str, step: &str, result: &T) -> Result<(), Failure> {
    swaps::write(call, &run_id(run)?, step, result)
}

/// Records how something ended, which a record that cannot be written does not undo.
pub(crate) fn write_end<T: Serialize>(call: &Call, run: &str, step: &str, result: &T) {
    if let Err(failure) = write(call, run, step, result) {
        call.warn("not_checked", format!("How it ended could not be recorded for --run {run}: {failure}"));
    }
}

/// Removes the record of this call's run, since nothing of it is left after `failure`.
pub(crate) fn remove(call: &Call, mut failure: Failure) -> Failure {
    failure.causes.extend(swaps::remove(call, call.run_id()).err().map(|error| error.message));
    failure
}

/// The refusal to begin again under a run that has copies of something else, which may be the only way back from that.
pub(crate) fn in_use(run: &RunId) -> Failure {
    Failure::refused("name_in_use", format!("The run {run} has begun something else already.")).hint("Pass another --run-id.")
}

pub(crate) fn not_verified(call: &Call, run: &str) -> Failure {
    Failure::refused("not_verified", "What was staged or cloned was not verified to the end, so it must not become live.")
        .hint(format!("Do that again; {} removes what is left of it.", copies::discard(call, run)))
}

/// The clones of any run that were interrupted before they were verified.
pub(crate) fn unfinished_clones(call: &Call, server: &Server) -> Vec<CopySet> {
    sets(call, server, CLONE, |set| set.indices.iter().any(|one| one.state == CopyState::InProgress))
}

/// The same of the stagings of other runs.
pub(super) fn unfinished_stagings(call: &Call, server: &Server) -> Vec<CopySet> {
    sets(call, server, STAGE, |set| !set.is_verified() && set.run != call.run_id().as_str())
}

fn sets(call: &Call, server: &Server, schema: &str, is_wanted: impl Fn(&CopySet) -> bool) -> Vec<CopySet> {
    let sets = swaps::all(call, &[schema]).into_iter().filter_map(|received| received.result::<CopySet>().ok());
    sets.filter(|set| set.cluster_uuid == server.cluster_uuid && is_wanted(set)).collect()
}
