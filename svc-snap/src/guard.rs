//! What every step that brings back or swaps looks at before its first effect: the lock, the cluster, the scope, and other
//! runs that are not finished.

use svc_step::lock::Lock;
use svc_step::run_id::RunId;
use svc_step::{Call, Failure, swaps};

use crate::scope::Scope;
use crate::server::Server;
use crate::stage::Staged;
use crate::swap::Swapped;

/// Under which schema a staging and a swap are noted.
pub(crate) const STAGE: &str = "svc-snap.stage/1";
/// See [`STAGE`].
pub(crate) const SWAP: &str = "svc-snap.swap/1";

/// What is noted of a run.
#[derive(Debug, Clone)]
pub(crate) enum Noted {
    /// A staging.
    Staged(Staged),
    /// A swap.
    Swapped(Swapped),
}

/// Takes the lock of the set of indices: one cluster, one scope.
///
/// # Errors
/// Another run holds it (8).
pub(crate) fn lock(call: &Call, server: &Server, scope: &Scope) -> Result<Lock, Failure> {
    Lock::take(call, "indices", &format!("{scope} of {}", server.cluster_uuid))
}

/// Refuses names outside the scope.
///
/// # Errors
/// There are such (3), all named.
pub(crate) fn refuse_outside<'a>(scope: &Scope, names: impl Iterator<Item = &'a str>) -> Result<(), Failure> {
    let outside: Vec<&str> = names.filter(|name| !scope.contains(name)).collect();
    if outside.is_empty() {
        return Ok(());
    }
    Err(Failure::refused("outside_scope", format!("Not the service's own indices: {}.", outside.join(", ")))
        .hint("Widen the scope with --scope (SVC_INDICES) if they are."))
}

/// What is noted of `run`, or `None`.
///
/// # Errors
/// The note is damaged (2).
pub(crate) fn noted(call: &Call, run: &RunId) -> Result<Option<Noted>, Failure> {
    if !swaps::path(call, run).exists() {
        return Ok(None);
    }
    let received = swaps::read(call, run, &[STAGE, SWAP])?;
    Ok(Some(match received.step() {
        "stage" => Noted::Staged(received.result()?),
        _ => Noted::Swapped(received.result()?),
    }))
}

/// Refuses to begin anew under a run that has copies already.
///
/// # Errors
/// Something is noted of the run (3).
pub(crate) fn refuse_used_run(call: &Call, run: &RunId) -> Result<(), Failure> {
    if !swaps::path(call, run).exists() {
        return Ok(());
    }
    Err(Failure::refused("run_in_use", format!("The run {run} has staged or swapped already.")).hint(format!(
        "svc-snap unstage --run {run} removes its copies; svc-snap swap --run {run} goes on with it; --run-id names another run."
    )))
}

/// Refuses to touch indices that a swap of another run has not finished with.
///
/// # Errors
/// There is such a swap (3).
pub(crate) fn refuse_unfinished_swaps(call: &Call, server: &Server, run: &RunId, names: &[&str]) -> Result<(), Failure> {
    for received in swaps::all(call, &[SWAP]) {
        let Ok(swapped) = received.result::<Swapped>() else { continue };
        let concerns = swapped.indices.iter().any(|item| names.contains(&item.index.as_str()));
        if swapped.cluster_uuid != server.cluster_uuid || swapped.run == run.as_str() || swapped.is_finished() || !concerns {
            continue;
        }
        return Err(Failure::refused("swap_unfinished", format!("The swap of the run {} is not finished.", swapped.run))
            .hint(format!("svc-snap swap --run {0} finishes it; svc-snap swap --run {0} --back takes it back.", swapped.run)));
    }
    Ok(())
}
