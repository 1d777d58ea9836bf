//! What every step that restores or swaps checks before its first effect: the lock, the scope, names in use.

use svc_step::{Call, Failure, Lock};

use crate::client::{Server, members, path};
use crate::index::{Scope, get_indices, refuse_any};

/// Blocks of indices by the servers' numbers for them. Beside these there is that of writes, which hinders no step.
const BLOCKS: [(&str, &str); 4] = [("5", "read_only"), ("7", "read"), ("9", METADATA), ("12", "read_only_allow_delete")];

/// A request for all indices is refused as long as one of them has this block.
pub(crate) const METADATA: &str = "metadata";

/// Takes the lock of the cluster's indices, whatever the scope: two scopes may overlap. A dry run takes none.
pub(crate) fn lock(call: &Call, server: &Server, dry_run: bool) -> Result<Option<Lock>, Failure> {
    let (kind, name) = lock_name(server);
    Lock::unless_dry(call, kind, &name, dry_run)
}

/// Whose holder may have left a change of the cluster's settings.
pub(crate) fn lock_name(server: &Server) -> (&'static str, String) {
    ("indices", format!("of {}", server.cluster_uuid))
}

pub(crate) fn refuse_outside<T: AsRef<str>>(scope: &Scope, names: impl IntoIterator<Item = T>) -> Result<(), Failure> {
    let outside: Vec<T> = names.into_iter().filter(|name| !scope.contains(name.as_ref())).collect();
    let hint = "Widen the scope with --scope (SVC_INDICES) if they are.";
    refuse_any("options_invalid", "Not the service's own indices", &outside, hint)
}

/// Refuses names that are needed for `what` and that are there already (3), but those that are `left` of an earlier call. Elasticsearch
/// makes copies of names that the user has no right to, and leaves them out of its answers; it says so only if one is asked for alone.
pub(crate) fn refuse_in_use<T: AsRef<str>>(server: &Server, what: &str, names: &[T], left: &[String]) -> Result<(), Failure> {
    names.first().map_or(Ok(None), |name| server.find(&path(&[name.as_ref()])))?;
    let in_use: Vec<String> = get_indices(server, names)?.into_keys().filter(|name| !left.contains(name)).collect();
    let hint = "svc-snap discard --run RUN removes what an earlier call of that run left; another --run-id uses other names.";
    refuse_any("name_in_use", &format!("Names that are needed for {what} are in use"), &in_use, hint)
}

/// Refuses indices with a block that a step would fail at half-way: `hinders` says of an index and its block whether it is one.
pub(crate) fn refuse_blocked(server: &Server, hinders: impl Fn(&str, &str) -> bool) -> Result<(), Failure> {
    let state = server.get("/_cluster/state/blocks?filter_path=blocks.indices")?;
    let mut blocked = Vec::new();
    for (index, blocks) in state.pointer("/blocks/indices").into_iter().flat_map(members) {
        let named = BLOCKS.iter().filter(|(number, block)| blocks.get(number).is_some() && hinders(index, block));
        blocked.extend(named.map(|(_, block)| (index, block)));
    }
    let Some((index, block)) = blocked.first() else { return Ok(()) };
    let hint = format!("Remove each block by a request of its own: PUT /{index}/_settings {{\"index.blocks.{block}\": null}}.");
    let blocked: Vec<String> = blocked.iter().map(|(index, block)| format!("{index} (index.blocks.{block})")).collect();
    Err(Failure::refused("index_blocked", format!("Blocks of indices are in the way: {}.", blocked.join(", "))).hint(hint))
}

/// The same of a restore or a swap that replaces or clones `names`.
pub(crate) fn refuse_blocked_live(server: &Server, names: &[&str]) -> Result<(), Failure> {
    refuse_blocked(server, |index, block| block == METADATA || names.contains(&index))
}
