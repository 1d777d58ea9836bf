//! What would stop a swap after its exchange, or a restore in place after its removals, refused before its first request.

use std::collections::BTreeSet;

use serde_json::Value;
use svc_step::Failure;

use crate::client::{Server, members};
use crate::index::metadata::is_write_index;
use crate::index::{Found, Index, IndexMetadata, counts, refuse_any, select};
use crate::restore::{SwapIndex, SwapSource, Swapped};

/// Refuses copies that have gone, lost a shard or been written to since they were verified (3). One that takes writes has no clones.
pub(super) fn refuse_unsound(server: &Server, sources: &[&SwapSource], found: &Found) -> Result<(), Failure> {
    let is_sound = |copy: &Index, uuid: &str| copy.uuid == uuid && copy.complete && copy.metadata.write_block();
    let is_lost = |source: &&&SwapSource| found.get(&source.name).is_none_or(|copy| !is_sound(copy, &source.uuid));
    let lost: Vec<&str> = sources.iter().filter(is_lost).map(|source| source.name.as_str()).collect();
    let hint = "What is live stays live. GET /_cluster/allocation/explain says why shards are missing; else stage the snapshot again (svc-snap list, svc-snap stage NAME).";
    refuse_any("not_verified", "What was staged or cloned is not there any more, lacks shards, or takes writes", &lost, hint)?;
    let counts = counts(server, sources.iter().map(|source| &source.name))?;
    let differs = |source: &&&SwapSource| counts.get(&source.name) != Some(&source.docs_count);
    let shown = |source: &&SwapSource| {
        let now = counts.get(&source.name).copied().unwrap_or_default();
        format!("{} ({now} instead of {})", source.name, source.docs_count)
    };
    let differing: Vec<String> = sources.iter().filter(differs).map(shown).collect();
    refuse_any("not_verified", "These do not hold as many documents as when they were verified", &differing, hint)
}

/// What was written since its copy was made would be lost (3).
pub(super) fn refuse_writable(swapped: &Swapped, found: &Found) -> Result<(), Failure> {
    let takes_writes = |item: &&SwapIndex| {
        item.previous.is_some() && item.is_old(found) && found.get(&item.index).is_some_and(|live| !live.metadata.write_block())
    };
    let writable: Vec<&str> = swapped.indices.iter().filter(takes_writes).map(|item| item.index.as_str()).collect();
    let hint = "What is live is as it was. Stop what removes the write block, and run the same command again.";
    refuse_any("name_in_use", "Something took the write block off these during the swap", &writable, hint)
}

/// A red index has shards that cannot be cloned.
pub(super) fn refuse_red(indices: &[SwapIndex], found: &Found) -> Result<(), Failure> {
    let red = |item: &&SwapIndex| {
        item.previous.is_some() && found.get(&item.index).is_some_and(|live| !live.complete && !live.metadata.closed)
    };
    let red: Vec<&str> = indices.iter().filter(red).map(|item| item.index.as_str()).collect();
    let hint = "Fix it (GET /_cluster/allocation/explain), or pass --drop-old to give it up.";
    refuse_any("indices_red", "What is live cannot be cloned, since it lacks shards", &red, hint)
}

/// What indices have that become live, as far as it was captured.
fn become_live(swapped: &Swapped) -> impl Iterator<Item = &IndexMetadata> {
    swapped.indices.iter().map(|item| &item.becomes).chain(swapped.direct.iter().map(|one| &one.metadata)).flatten()
}

/// Refuses aliases that would have two write indices: one of the swap's and one that the swap does not touch (3).
pub(super) fn refuse_second_write_index(server: &Server, swapped: &Swapped) -> Result<(), Failure> {
    let given = become_live(swapped).flat_map(|becomes| &becomes.aliases);
    let write: BTreeSet<&str> =
        given.filter(|(_, properties)| is_write_index(properties)).map(|(alias, _)| alias.as_str()).collect();
    if write.is_empty() {
        return Ok(());
    }
    let names = swapped.names();
    let found = server.get("/_alias?expand_wildcards=all&filter_path=*.aliases.*.is_write_index")?;
    let mut conflicts = Vec::new();
    for (name, index) in members(&found).filter(|(name, _)| !names.contains(*name)) {
        let aliases = index.get("aliases").into_iter().flat_map(members);
        let is_writer = |properties: &Value| properties.as_object().is_some_and(is_write_index);
        let aliases = aliases.filter(|(alias, properties)| write.contains(alias.as_str()) && is_writer(properties));
        conflicts.extend(aliases.map(|(alias, _)| format!("{alias} ({name})")));
    }
    let hint = "Change that alias (POST /_aliases); a swap that does not go back removes the index with --exact, if it is one of the scope.";
    let message = "An index that is not part of the swap is the write index of an alias of the backup";
    refuse_any("name_in_use", message, &conflicts, hint)
}

/// Refuses names of indices that are aliases or data streams by now, and aliases that are names of indices or a data stream's: nothing
/// would be live under them (3). What the exchange removes, as the server does first, is in nobody's way.
pub(super) fn refuse_name_clashes(server: &Server, swapped: &Swapped) -> Result<(), Failure> {
    let Swapped { indices, direct, .. } = swapped;
    let live = select::names(server)?;
    let new = indices.iter().filter(|item| item.live_uuid.is_none() && item.source.is_some()).map(|item| &item.index);
    let removed: BTreeSet<&String> = indices.iter().map(|item| &item.index).collect();
    let stays =
        |name: &String| live.aliases.get(name).is_some_and(|indices| indices.iter().any(|index| !removed.contains(index)));
    let new = new.chain(direct.iter().map(|one| &one.index)).filter(|name| stays(name) || live.streams.contains(*name));
    let own = indices.iter().filter(|item| item.source.is_some()).map(|item| &item.index);
    // An alias has indices or data streams, never both.
    let backing: BTreeSet<&String> = live.backing.values().flatten().collect();
    let of_streams = live.aliases.iter().filter(|(_, of)| of.iter().any(|one| backing.contains(one))).map(|(alias, _)| alias);
    let stay = live.indices.iter().filter(|name| !removed.contains(name)).chain(&live.streams).chain(of_streams);
    let names: BTreeSet<&String> = stay.chain(own).collect();
    let aliases = become_live(swapped).flat_map(|becomes| becomes.aliases.keys()).filter(|alias| names.contains(alias));
    let clashes: Vec<&String> = new.chain(aliases).collect::<BTreeSet<_>>().into_iter().collect();
    let hint = "GET /_cat/aliases and GET /_cat/indices show them. A swap with --exact takes away indices of the scope that have such an alias or name; else remove the alias (a data stream's too: POST /_aliases), or clone the index to another name (POST /INDEX/_clone/NAME) and delete it.";
    let message = "Names of indices of the backup are aliases now, or its aliases are data streams' or names that are in use";
    refuse_any("name_in_use", message, &clashes, hint)
}
