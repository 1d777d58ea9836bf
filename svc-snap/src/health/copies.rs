//! Our own copies of the service's indices that lie on the server, hidden from everybody's wildcards: which run made them and
//! what they are for, so that nobody has to know of them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_step::{Call, Failure, swaps};

use crate::index::copies;
use crate::index::select::{self, Scope};
use crate::restore::record::{self, Begun};
use crate::server::Server;

/// A copy of ours.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OwnCopy {
    /// Its name.
    pub name: String,
    /// The run that made it, which `discard --run` takes; `null` where neither a note nor its name says it for sure.
    pub run: Option<String>,
    /// What it is for.
    pub purpose: Purpose,
}

/// What a copy is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// It was staged or cloned, is proven, and may be swapped in.
    Ready,
    /// It was being staged or cloned by a call that was killed, or is still at it.
    Unfinished,
    /// A finished swap kept it.
    Kept,
    /// A swap that is not finished needs it.
    Swapping,
    /// Nothing is noted of it on this host.
    Unknown,
}

/// The copies of what is in the scope.
pub(super) fn left(call: &Call, server: &Server, scope: &Scope) -> Result<Vec<OwnCopy>, Failure> {
    let names = select::names(server)?;
    let (own, live): (Vec<_>, Vec<_>) = names.indices.into_iter().partition(|name| copies::is_own(name));
    if own.is_empty() {
        return Ok(Vec::new());
    }
    let begun: Vec<Begun> = swaps::all(call, &record::SCHEMAS)
        .iter()
        .filter_map(|received| Begun::read(received).ok())
        .filter(|begun| begun.cluster_uuid() == server.cluster_uuid)
        .collect();
    let of = |name: &String| begun.iter().find(|begun| copies::is_own_of(name, begun.run()));
    let copy = |name: String| match of(&name) {
        Some(begun) => OwnCopy { run: Some(begun.run().to_owned()), purpose: purpose(begun), name },
        None => OwnCopy { run: copies::run_of(&name, &live), purpose: Purpose::Unknown, name },
    };
    Ok(own.into_iter().filter(|name| copies::may_be_of(name, |index| scope.contains(index))).map(copy).collect())
}

fn purpose(begun: &Begun) -> Purpose {
    match begun {
        Begun::Swapped(swapped) if swapped.finished => Purpose::Kept,
        Begun::Swapped(_) => Purpose::Swapping,
        Begun::Copies(set) if set.is_verified() => Purpose::Ready,
        Begun::Copies(_) => Purpose::Unfinished,
        Begun::InPlace(_) => Purpose::Unknown,
    }
}

/// What is no failure, and what a preflight should know.
pub(super) fn remark(call: &Call, copies: &[OwnCopy]) {
    for (purpose, code, what) in [
        (Purpose::Unfinished, "copies_unfinished", "were left by a call that was killed, or is still at it"),
        (Purpose::Unknown, "copies_unknown", "are not noted on this host"),
        (Purpose::Swapping, "swap_unfinished", "belong to a swap that is not finished; svc-snap swap --run RUN finishes it"),
    ] {
        let told = copies.iter().filter(|copy| copy.purpose == purpose);
        let told: Vec<String> =
            told.map(|copy| copy.run.as_ref().map_or(copy.name.clone(), |run| format!("{} (run {run})", copy.name))).collect();
        if told.is_empty() {
            continue;
        }
        let hint = if purpose == Purpose::Swapping { "" } else { "; svc-snap discard --run RUN removes those of a run" };
        call.warn(code, format!("Copies of the service's indices {what}{hint}: {}.", told.join(", ")));
    }
}
