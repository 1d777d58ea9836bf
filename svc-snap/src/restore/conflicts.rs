//! Indices that clients made under live names between the exchange of a swap and its end.

use std::collections::BTreeSet;

use svc_step::{Call, Failure};

use crate::client::Server;
use crate::index::act::remove_index;
use crate::index::clone::{LiveClone, wait_complete};
use crate::index::{Act, Found, Index, clone, copies};
use crate::restore::record;
use crate::restore::result::{SwapIndex, Swapped};

/// Clones each of them to a name of its own and removes it. Gives their names.
pub(super) fn clone_away(
    call: &Call,
    server: &Server,
    swapped: &mut Swapped,
    found: &Found,
) -> Result<BTreeSet<String>, Failure> {
    let is_external = |item: &&SwapIndex| item.source.is_some() && !swapped.is_marked(found, &item.index);
    let conflict = |item: &SwapIndex| {
        let live = found.get(&item.index)?;
        Some((item.index.clone(), live, copies::conflict(&swapped.previous_name(&item.index), &live.uuid)))
    };
    let conflicts: Vec<(String, &Index, String)> = swapped.indices.iter().filter(is_external).filter_map(conflict).collect();
    if conflicts.is_empty() {
        return Ok(BTreeSet::new());
    }
    let names: Vec<&str> = conflicts.iter().map(|(name, ..)| name.as_str()).collect();
    wait_complete(server, &names, || Ok(()))?;
    let clones =
        conflicts.iter().map(|(index, live, copy)| LiveClone { index, uuid: &live.uuid, copy: Some(copy), was: &live.metadata });
    clone::make(call, server, &clones.collect::<Vec<_>>(), &mut BTreeSet::new(), || Ok(()))?;
    // Before the removal: its answer may be lost.
    for (name, _, copy) in &conflicts {
        let message = format!("While {name} was not there, a client created an index of that name; it is now {copy}.");
        call.review("name_in_use", message);
        let item = swapped.indices.iter_mut().find(|item| item.index == *name && !item.conflicts.contains(copy));
        item.into_iter().for_each(|item| item.conflicts.push(copy.clone()));
    }
    record::write_end(call, &swapped.run, "swap", swapped);
    Act::Aliases(names.iter().map(|name| remove_index(name)).collect()).send(call, server)?;
    Ok(conflicts.into_iter().map(|(name, ..)| name).collect())
}
