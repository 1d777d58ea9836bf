//! What would stop a swap after its exchange, refused before its first request.

use std::collections::BTreeSet;

use serde_json::Value;
use svc_step::Failure;

use super::result::{Source, SwapIndex, Swapped};
use crate::client::Server;
use crate::client::json::members;
use crate::guard::refuse_any;
use crate::index::Found;
use crate::index::count::counts;
use crate::index::select;
use crate::index::shape::is_write_index;

/// What was verified may have gone, lost a shard or been written to since: nothing that is live is given up for it.
/// Errors: It is not there (4), lacks shards (3) or holds something else (7).
pub(super) fn refuse_unsound(server: &Server, sources: &[&Source], found: &Found) -> Result<(), Failure> {
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
    let hint = "GET /_cluster/allocation/explain says why; fix it, or stage the snapshot again: svc-snap stage.";
    refuse_any("staged_copy_red", "What was staged or cloned lacks shards by now", &red, hint)?;
    let counts = counts(server, &names)?;
    sources.iter().try_for_each(|source| source.same_as_verified(counts.get(source.name.as_str()).copied().unwrap_or_default()))
}

/// A red index has shards that nobody can copy.
pub(super) fn refuse_red(indices: &[SwapIndex], found: &Found) -> Result<(), Failure> {
    let red =
        |item: &&SwapIndex| item.previous.is_some() && found.get(&item.index).is_some_and(|live| !live.whole && !live.closed);
    let red: Vec<&str> = indices.iter().filter(red).map(|item| item.index.as_str()).collect();
    let hint = "Fix it (GET /_cluster/allocation/explain), or pass --drop-old to give it up.";
    refuse_any("live_index_red", "What is live cannot be kept, since it lacks shards", &red, hint)
}

/// Aliases that would have two write indices: one of the swap's and one that the swap does not touch.
/// Errors: There are such (3), all named; the server does not answer.
pub(super) fn refuse_second_write_index(server: &Server, swapped: &Swapped) -> Result<(), Failure> {
    let given = swapped.indices.iter().flat_map(|item| &item.becomes).flat_map(|becomes| &becomes.aliases);
    let write: BTreeSet<&str> =
        given.filter(|(_, properties)| is_write_index(properties)).map(|(alias, _)| alias.as_str()).collect();
    if write.is_empty() {
        return Ok(());
    }
    let names: BTreeSet<&str> = swapped.names().into_iter().collect();
    let found = server.get("/_alias?expand_wildcards=all&filter_path=*.aliases.*.is_write_index")?;
    let mut conflicts = Vec::new();
    for (name, index) in members(&found).filter(|(name, _)| !names.contains(name.as_str())) {
        let aliases = index.get("aliases").into_iter().flat_map(members);
        let is_writer = |properties: &Value| properties.as_object().is_some_and(is_write_index);
        let aliases = aliases.filter(|(alias, properties)| write.contains(alias.as_str()) && is_writer(properties));
        conflicts.extend(aliases.map(|(alias, _)| format!("{alias} ({name})")));
    }
    let hint = "Pass --exact to take away the indices of the scope that the backup does not hold, or change that alias.";
    let message = "An index that is not part of the swap is the write index of an alias of the backup";
    refuse_any("alias_has_write_index", message, &conflicts, hint)
}

/// A name that is an alias cannot become that of an index, nor the other way round: both are found out before the exchange, after which
/// nothing would be live under the name.
/// Errors: There are such names (3), all named; the server does not answer.
pub(super) fn refuse_name_clashes(server: &Server, swapped: &Swapped) -> Result<(), Failure> {
    let Swapped { indices, direct, .. } = swapped;
    let live = select::names(server)?;
    let new = indices.iter().filter(|item| item.live_uuid.is_none() && item.source.is_some()).map(|item| &item.index);
    let taken: Vec<&str> =
        new.chain(direct.iter().map(|one| &one.index)).filter(|name| live.aliases.contains(*name)).map(String::as_str).collect();
    let hint = "GET /_cat/aliases shows them; rename or remove those aliases first.";
    refuse_any("alias_in_the_way", "Indices of the backup have the names of aliases that are there now", &taken, hint)?;
    let names: BTreeSet<&String> = live.indices.iter().chain(&live.streams).collect();
    let become_live = indices.iter().map(|item| &item.becomes).chain(direct.iter().map(|one| &one.shape)).flatten();
    let own = indices.iter().filter(|item| item.source.is_some()).map(|item| &item.index);
    let names: BTreeSet<&String> = names.into_iter().chain(own).collect();
    let taken: BTreeSet<&str> =
        become_live.flat_map(|shape| shape.aliases.keys()).filter(|alias| names.contains(alias)).map(String::as_str).collect();
    let taken: Vec<&str> = taken.into_iter().collect();
    let hint = "Clone those to other names (POST /INDEX/_clone/NAME) if anything in them is needed, and delete them first.";
    let message = "Aliases of the backup have the names of indices or data streams that are there now";
    refuse_any("alias_in_the_way", message, &taken, hint)
}
