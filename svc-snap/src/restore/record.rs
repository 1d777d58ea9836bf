//! What runs have begun, as their documents have it and as it is noted on this host, so that `--run` and the same command again
//! find it.

pub(crate) mod clone;
pub(crate) mod given;
pub(crate) mod origin;
pub(crate) mod restored;
pub(crate) mod staged;
pub(crate) mod swapped;

use serde::Serialize;
use svc_step::from::Received;
use svc_step::run_id::RunId;
use svc_step::{Call, Failure, swaps};

use self::clone::Cloned;
use self::staged::Staged;
use self::swapped::Swapped;
use super::swap;
use crate::client::Server;

/// Under which schema a staging is noted.
pub(crate) const STAGE: &str = "svc-snap.stage/1";
/// Under which schema a swap is noted.
pub(crate) const SWAP: &str = "svc-snap.swap/1";

/// Under which schema a clone is noted.
pub(crate) const CLONE: &str = "svc-snap.clone/1";

/// All of them.
pub(crate) const SCHEMAS: [&str; 3] = [STAGE, CLONE, SWAP];

/// What a run has begun.
#[derive(Debug, Clone)]
pub(crate) enum Begun {
    /// A staging.
    Staged(Staged),
    /// A clone.
    Cloned(Cloned),
    /// A swap.
    Swapped(Swapped),
}

impl Begun {
    /// Reads it from a document or a note.
    ///
    /// # Errors
    /// The document lacks what its schema promises (2).
    pub(crate) fn read(received: &Received) -> Result<Self, Failure> {
        Ok(match received.step() {
            "stage" => Self::Staged(received.result()?),
            "clone" => Self::Cloned(received.result()?),
            _ => Self::Swapped(received.result()?),
        })
    }

    /// The run whose copies these are, which need not be the run of the call that printed the document.
    ///
    /// # Errors
    /// It names none (2).
    pub(crate) fn run(&self) -> Result<RunId, Failure> {
        let run = match self {
            Self::Staged(staged) => &staged.run,
            Self::Cloned(clone) => &clone.run,
            Self::Swapped(swapped) => &swapped.run,
        };
        named(run)
    }

    /// Notes it again, as what the run has come to.
    pub(crate) fn note_end(&self, call: &Call, run: &RunId) {
        match self {
            Self::Staged(staged) => note_end(call, run, "stage", staged),
            Self::Cloned(clone) => note_end(call, run, "clone", clone),
            Self::Swapped(swapped) => note_end(call, run, "swap", swapped),
        }
    }

    /// The names of its copies, as it has them; what the server shows of its run may be more.
    pub(crate) fn copies(&self) -> Vec<&str> {
        match self {
            // What was restored directly under its own name is no copy of ours.
            Self::Staged(staged) => {
                let indices = staged.indices.iter().filter(|one| !one.is_direct()).map(|one| &one.staged);
                indices.chain(staged.streams.iter().flat_map(|one| &one.copies)).map(String::as_str).collect()
            }
            Self::Cloned(clone) => clone.names(),
            Self::Swapped(swapped) => swapped.copies().collect(),
        }
    }

    /// The cluster that it is of.
    pub(crate) fn cluster_uuid(&self) -> &str {
        match self {
            Self::Staged(staged) => &staged.origin.cluster_uuid,
            Self::Cloned(clone) => &clone.cluster_uuid,
            Self::Swapped(swapped) => &swapped.cluster_uuid,
        }
    }
}

/// The run that a document names.
///
/// # Errors
/// It names none (2).
pub(crate) fn named(run: &str) -> Result<RunId, Failure> {
    run.parse().map_err(|why: String| {
        Failure::usage("from_damaged", "The document names no run.")
            .hint("Hand over the document as the tool printed it.")
            .cause(why)
    })
}

/// What is noted of `run`, or `None`.
///
/// # Errors
/// The note is damaged (7).
pub(crate) fn noted(call: &Call, run: &RunId) -> Result<Option<Begun>, Failure> {
    swaps::find(call, run, &SCHEMAS)?.map(|received| Begun::read(&received)).transpose()
}

/// Notes how something ended. That it ended so is not made undone by a note that cannot be written.
pub(crate) fn note_end<T: Serialize>(call: &Call, run: &RunId, step: &str, result: &T) {
    if let Err(failure) = swaps::write(call, run, step, result) {
        call.warn("not_noted", format!("How it ended could not be noted for --run {run}: {failure}"));
    }
}

/// The refusal to begin anew under a run that has copies already.
pub(crate) fn in_use(run: &RunId) -> Failure {
    Failure::refused("run_in_use", format!("The run {run} has staged or swapped something else already.")).hint(format!(
        "svc-snap discard --run {run} removes its copies; svc-snap swap --run {run} goes on with it; --run-id names another run."
    ))
}

/// Refuses to touch indices that a swap of another run has begun with and not finished, as the server shows it.
///
/// # Errors
/// There is such a swap (3).
pub(crate) fn refuse_unfinished_swaps(call: &Call, server: &Server, run: &RunId, names: &[&str]) -> Result<(), Failure> {
    for received in swaps::all(call, &[SWAP]) {
        let Ok(swapped) = received.result::<Swapped>() else { continue };
        let concerns = swapped.live_names().iter().any(|name| names.contains(name));
        if swapped.cluster_uuid != server.cluster_uuid || swapped.run == run.as_str() || !concerns {
            continue;
        }
        swap::refuse_unfinished(server, &swapped)?;
    }
    Ok(())
}
