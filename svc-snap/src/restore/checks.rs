//! What would stop a swap behind its exchange, refused before its first request.

use std::collections::{BTreeMap, BTreeSet};

use svc_step::Failure;

use super::record::swapped::{Source, SwapIndex, Swapped};
use crate::client::Server;
use crate::client::json::members;
use crate::index::Index;
use crate::index::count::counts;
use crate::index::live;
use crate::index::shape::is_write_index;

/// What was proven may have gone, lost a shard or been written to since: nothing that is live is given up for it.
///
/// # Errors
/// It is not there (4), lacks shards (3) or holds something else (7).
pub(super) fn refuse_unsound(server: &Server, sources: &[&Source], found: &BTreeMap<String, Index>) -> Result<(), Failure> {
    let same = |source: &&&Source| found.get(&source.name).is_some_and(|copy| copy.uuid == source.uuid);
    let missing: Vec<&str> = sources.iter().filter(|source| !same(source)).map(|source| source.name.as_str()).collect();
    if !missing.is_empty() {
        return Err(Failure::not_found(
            "staged_copy_missing",
            format!("What was staged or cloned is not there any more: {}.", missing.join(", ")),
        )
        .hint("Stage the snapshot again: svc-snap stage."));
    }
    let names: Vec<&str> = sources.iter().map(|source| source.name.as_str()).collect();
    let red: Vec<&str> = names.iter().copied().filter(|name| found.get(*name).is_none_or(|copy| !copy.whole)).collect();
    if !red.is_empty() {
        return Err(Failure::refused(
            "staged_copy_red",
            format!("What was staged or cloned lacks shards by now: {}.", red.join(", ")),
        )
        .hint("GET /_cluster/allocation/explain says why; mend it, or stage the snapshot again: svc-snap stage."));
    }
    let counts = counts(server, &names)?;
    sources.iter().try_for_each(|source| source.same_as_proven(counts.get(source.name.as_str()).copied().unwrap_or_default()))
}

/// A red index has shards that nobody can copy.
pub(super) fn refuse_unkeepable(indices: &[SwapIndex], found: &BTreeMap<String, Index>) -> Result<(), Failure> {
    let red = |item: &&SwapIndex| item.kept.is_some() && found.get(&item.index).is_some_and(|live| !live.whole && !live.closed);
    let red: Vec<&str> = indices.iter().filter(red).map(|item| item.index.as_str()).collect();
    if red.is_empty() {
        return Ok(());
    }
    Err(Failure::refused("live_index_red", format!("What is live cannot be kept, since it lacks shards: {}.", red.join(", ")))
        .hint("Mend it (GET /_cluster/allocation/explain), or say --drop-old to give it up."))
}

/// Aliases that would have two write indices: one of the swap's and one that the swap does not touch.
///
/// # Errors
/// There are such (3), all named; the server does not answer.
pub(super) fn refuse_second_write_index(server: &Server, swapped: &Swapped) -> Result<(), Failure> {
    let given = swapped.indices.iter().flat_map(|item| &item.becomes).flat_map(|becomes| &becomes.aliases);
    let write: BTreeSet<&str> =
        given.filter(|(_, properties)| is_write_index(properties)).map(|(alias, _)| alias.as_str()).collect();
    if write.is_empty() {
        return Ok(());
    }
    let holders = write_holders(server)?;
    let conflicts = second_write_indices(swapped, &write, &holders);
    if conflicts.is_empty() {
        return Ok(());
    }
    Err(Failure::refused(
        "alias_has_write_index",
        format!("An index that is not part of the swap is the write index of an alias of the backup: {}.", conflicts.join(", ")),
    )
    .hint("Say --exact to take away the indices of the scope that the backup does not hold, or change that alias."))
}

fn second_write_indices(swapped: &Swapped, write: &BTreeSet<&str>, holders: &BTreeMap<String, Vec<String>>) -> Vec<String> {
    let ours: BTreeSet<&str> = swapped.names().collect();
    let others = |alias: &&&str| {
        let others = holders.get(**alias).into_iter().flatten().filter(|holder| !ours.contains(holder.as_str()));
        others.map(|other| format!("{alias} ({other})")).collect::<Vec<_>>()
    };
    write.iter().flat_map(|alias| others(&alias)).collect()
}

/// The indices that each alias writes to, of all aliases in one request.
fn write_holders(server: &Server) -> Result<BTreeMap<String, Vec<String>>, Failure> {
    let found = server.get("/_alias?expand_wildcards=all&filter_path=*.aliases.*.is_write_index")?;
    let mut holders = BTreeMap::<String, Vec<String>>::new();
    for (name, index) in members(&found) {
        let aliases = index.get("aliases").into_iter().flat_map(members);
        for (alias, _) in aliases.filter(|(_, properties)| properties.as_object().is_some_and(is_write_index)) {
            holders.entry(alias.clone()).or_default().push(name.clone());
        }
    }
    Ok(holders)
}

/// A name that is an alias cannot become that of an index, nor the other way round: both are found out before the exchange, after which
/// nothing would be live under the name.
///
/// # Errors
/// There are such names (3), all named; the server does not answer.
pub(super) fn refuse_name_clashes(server: &Server, swapped: &Swapped) -> Result<(), Failure> {
    let Swapped { indices, direct, .. } = swapped;
    let live = live::names(server)?;
    let new = indices.iter().filter(|item| item.live_uuid.is_none() && item.source.is_some()).map(|item| &item.index);
    let taken: Vec<&str> =
        new.chain(direct.iter().map(|one| &one.index)).filter(|name| live.aliases.contains(*name)).map(String::as_str).collect();
    if !taken.is_empty() {
        return Err(Failure::refused(
            "alias_in_the_way",
            format!("Indices of the backup have the names of aliases that are there now: {}.", taken.join(", ")),
        )
        .hint("GET /_cat/aliases shows them; rename or remove those aliases first."));
    }
    let names: BTreeSet<&String> = live.indices.iter().map(|index| &index.name).chain(&live.streams).collect();
    let become_live = indices.iter().map(|item| &item.becomes).chain(direct.iter().map(|one| &one.becomes)).flatten();
    let own = indices.iter().filter(|item| item.source.is_some()).map(|item| &item.index);
    let names: BTreeSet<&String> = names.into_iter().chain(own).collect();
    let taken: BTreeSet<&str> =
        become_live.flat_map(|shape| shape.aliases.keys()).filter(|alias| names.contains(alias)).map(String::as_str).collect();
    if taken.is_empty() {
        return Ok(());
    }
    let taken: Vec<&str> = taken.into_iter().collect();
    Err(Failure::refused(
        "alias_in_the_way",
        format!("Aliases of the backup have the names of indices or data streams that are there now: {}.", taken.join(", ")),
    )
    .hint("Clone those to other names (POST /INDEX/_clone/NAME) if anything in them is needed, and delete them first."))
}
