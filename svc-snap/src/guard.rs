//! What every step that brings back or swaps looks at before its first effect: the lock, the scope, names in use.

use svc_step::lock::Lock;
use svc_step::{Call, Failure};

use crate::index::scope::Scope;
use crate::server::Server;

/// Takes the lock of the cluster's indices, whatever the scope: two scopes may overlap, and nobody can tell from their
/// patterns. A dry run takes none.
///
/// # Errors
/// Another run holds it (8).
pub(crate) fn lock(call: &Call, server: &Server, dry_run: bool) -> Result<Option<Lock>, Failure> {
    Lock::unless_dry(call, "indices", &format!("of {}", server.cluster_uuid), dry_run)
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

/// Refuses names that are needed for `what` and that are there already.
///
/// # Errors
/// There are such (3), all named.
pub(crate) fn refuse_in_use(what: &str, in_use: &[&str]) -> Result<(), Failure> {
    if in_use.is_empty() {
        return Ok(());
    }
    Err(Failure::refused("name_in_use", format!("Names that are needed for {what} are in use: {}.", in_use.join(", ")))
        .hint("svc-snap unstage --run RUN removes what an earlier call of that run left; another --run-id uses other names."))
}
