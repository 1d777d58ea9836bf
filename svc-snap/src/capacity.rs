//! Whether a restore has room: on the disks of the data nodes, and under the cluster's limit of shards.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use svc_step::{Call, Failure, Status};

use crate::index::{Index, portions};
use crate::restore::result::SwapIndex;
use crate::restore::source::Chosen;
use crate::server::disk::{NodeDisk, disks};
use crate::server::json::{members, number, text};
use crate::server::path::path;
use crate::server::{Product, Server};

/// The room for what is brought back, as it was before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Room {
    /// What the snapshot holds of it; `null` where that could not be read.
    pub needed_bytes: Option<u64>,
    /// What is free on the disks of the data nodes below their high watermarks; `null` where one has no limit.
    pub free_bytes: Option<u64>,
}

/// So many shards of a snapshot are looked at, and no more, where each is a file to be read: in an object store some 20 ms.
const MOST_SHARDS: u64 = 3000;

/// What a restore brings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Load {
    bytes: u64,
    shards: u64,
}

/// Refuses what the data nodes have no room for, before anything is sent: a node that is past its low watermark gets no shard, past
/// its high one it would begin to move the live shards away, and at the limit of shards the cluster refuses new indices to everybody. `copies` of ours
/// are removed first.
///
/// # Errors
/// There is no room (3); the server does not answer.
pub(crate) fn refuse_without(call: &Call, chosen: &Chosen, names: &[&str], copies: &[&str]) -> Result<Room, Failure> {
    let server = &chosen.server;
    let (disks, given_up) = (disks(server)?, held_by(server, copies)?);
    let free_bytes = left(&disks, given_up.bytes);
    let Some(load) = load_of(call, chosen, names)? else { return Ok(Room { needed_bytes: None, free_bytes }) };
    if let Some((free, nodes)) = lacking(&disks, load.bytes, given_up.bytes) {
        return Err(Failure::refused(
            "no_room",
            format!(
                "The restore brings {} bytes, and the disks of {nodes} have {free} bytes left below their watermarks.",
                load.bytes
            ),
        )
        .hint("Make room, or restore less (--indices). svc-snap restore --in-place --on-conflict delete wants less room, but deletes what is live first: nothing is proven beforehand, and nothing is kept to go back to."));
    }
    refuse_shards(server, disks.len() as u64, load.shards.saturating_sub(given_up.shards), "The restore brings")?;
    Ok(Room { needed_bytes: Some(load.bytes), free_bytes })
}

/// The same of a restore in place, which first gives up `live`, the indices of the same names: what does not even fit then is
/// refused before anything is closed or deleted.
///
/// # Errors
/// There is no room (3); the server does not answer.
pub(crate) fn refuse_without_in_place(call: &Call, chosen: &Chosen, names: &[&str], live: &[&str]) -> Result<(), Failure> {
    let server = &chosen.server;
    let Some(load) = load_of(call, chosen, names)? else { return Ok(()) };
    let given_up = held_by(server, live)?;
    let disks = disks(server)?;
    if let Some((free, nodes)) = lacking(&disks, load.bytes, given_up.bytes) {
        return Err(Failure::refused(
            "no_room",
            format!(
                "The restore brings {} bytes, and the disks of {nodes} would have {free} bytes below their watermarks, although what is live there ({} bytes) is given up.",
                load.bytes, given_up.bytes
            ),
        )
        .hint("Make room (svc-snap health shows the disks), or restore less (--indices)."));
    }
    refuse_shards(
        server,
        disks.len() as u64,
        load.shards.saturating_sub(given_up.shards),
        "The restore brings, beside what is live,",
    )
}

/// What the snapshot holds of the indices that are brought; `None` where that cannot be read in time, of which people are warned.
///
/// # Errors
/// A signal, or the end of the time limit.
fn load_of(call: &Call, chosen: &Chosen, names: &[&str]) -> Result<Option<Load>, Failure> {
    let snapshot = path(&["_snapshot", &chosen.origin.repository, &chosen.origin.snapshot]);
    // Elasticsearch has the sizes in one file.
    if chosen.server.product == Product::Elasticsearch {
        let found = chosen.server.get(&format!("{snapshot}?index_details=true&filter_path=snapshots.index_details"))?;
        let details = found.pointer("/snapshots/0/index_details").unwrap_or_default();
        if let Some(load) = load(details, names, ["/size_in_bytes", "/shard_count"]) {
            return Ok(Some(load));
        }
    }
    let why = if chosen.shards_count > MOST_SHARDS {
        format!("it has {} shards, and the search database would read a file for each", chosen.shards_count)
    } else {
        // Without its shards, which are most of it.
        let what = "snapshots.indices.*.stats.total.size_in_bytes,snapshots.indices.*.shards_stats.total";
        match chosen.server.get(&format!("{snapshot}/_status?filter_path={what}")) {
            Ok(status) => {
                let indices = status.pointer("/snapshots/0/indices").unwrap_or_default();
                return Ok(Some(load(indices, names, ["/stats/total/size_in_bytes", "/shards_stats/total"]).unwrap_or_default()));
            }
            Err(failure) if failure.signal.is_some() || failure.status == Status::Timeout => return Err(failure),
            Err(failure) => failure.to_string(),
        }
    };
    call.warn("room_unknown", format!(
        "How much the snapshot holds was not read ({why}), so nobody knows whether there is room for it; svc-snap health shows the disks."
    ));
    Ok(None)
}

/// What these live indices hold, replicas included; closed ones too.
fn held_by(server: &Server, names: &[&str]) -> Result<Load, Failure> {
    let mut held = Load::default();
    for names in portions(names) {
        let what = "filter_path=_shards.total,_all.total.store.size_in_bytes&forbid_closed_indices=false";
        let stats = server.get(&format!("{}?{what}", path(&[&names.join(","), "_stats", "store"])))?;
        let size = |pointer: &str| number(&stats, pointer).unwrap_or(0);
        held.bytes += size("/_all/total/store/size_in_bytes");
        held.shards += size("/_shards/total");
    }
    Ok(held)
}

/// Refuses clones of `names` that the cluster would not take: they are hard links and need no room at first, but no new shard
/// comes to a node that is past its watermark.
///
/// # Errors
/// There is no room (3); the server does not answer.
pub(crate) fn refuse_clones(server: &Server, names: &[&str]) -> Result<(), Failure> {
    let disks = disks(server)?;
    refuse_past(disks.iter().filter(|disk| disk.is_past_high() || disk.takes_no_shards))?;
    refuse_shards(server, disks.len() as u64, shards_of(server, names)?, "The copies have")
}

/// The same of a swap, which is refused only where a clone would wait for a disk in vain, and what is live take no writes meanwhile:
/// a clone lies where the shards of its index are.
///
/// # Errors
/// There is no room (3); the server does not answer.
pub(crate) fn refuse_stuck_clones(server: &Server, names: &[&str]) -> Result<(), Failure> {
    let mut full = disks(server)?;
    full.retain(|disk| disk.takes_no_shards);
    if full.is_empty() {
        return Ok(());
    }
    let mut holders = BTreeSet::new();
    for names in portions(names) {
        let shards = server.get(&format!("{}?format=json&h=node", path(&["_cat", "shards", &names.join(",")])))?;
        let nodes = shards.as_array().into_iter().flatten().filter_map(|shard| shard.get("node")?.as_str());
        holders.extend(nodes.map(str::to_owned));
    }
    refuse_past(full.iter().filter(|disk| holders.contains(&disk.node)))
}

/// Refuses a swap that would come to the cluster's limit of shards, at its clones of what is live or behind its exchange.
///
/// # Errors
/// There is no room (3); the server does not answer.
pub(crate) fn refuse_swap(server: &Server, indices: &[SwapIndex], found: &BTreeMap<String, Index>) -> Result<(), Failure> {
    let nodes = disks(server)?.len() as u64;
    refuse_shards(server, nodes, most_shards(indices, found), "Beside what there is, the swap needs up to")
}

/// How many shards a swap has at its height beside those that there are before it.
fn most_shards(indices: &[SwapIndex], found: &BTreeMap<String, Index>) -> u64 {
    let (mut staged, mut kept, mut removed, mut new) = (0, 0, 0, 0);
    for item in indices {
        let live = found.get(&item.index).filter(|_| item.live_uuid.is_some());
        let shards = live.map_or(0, |live| live.shards);
        kept += if item.previous.is_some() { shards } else { 0 };
        removed += live.filter(|live| !live.closed).map_or(0, |live| live.shards * u64::from(1 + live.shape.number_of_replicas));
        let Some(source) = item.source.as_ref().and_then(|source| found.get(&source.name)) else { continue };
        // One that is not staged yet shows no shards.
        let (copy, not_yet) = if source.shards == 0 { (shards.max(1), shards.max(1)) } else { (source.shards, 0) };
        staged += not_yet;
        let replicas = item.becomes.as_ref().map_or(0, |becomes| becomes.number_of_replicas);
        new += copy * u64::from(1 + replicas);
    }
    staged + kept.max((kept + new).saturating_sub(removed))
}

fn refuse_past<'a>(past: impl Iterator<Item = &'a NodeDisk>) -> Result<(), Failure> {
    let past: Vec<&str> = past.map(|disk| disk.node.as_str()).collect();
    if past.is_empty() {
        return Ok(());
    }
    Err(Failure::refused(
        "no_room",
        format!("The disks of {} are past their watermarks, so that no clone comes to them.", past.join(", ")),
    )
    .hint("Make room there (svc-snap health shows the disks); a clone takes room as soon as one of the two changes."))
}

/// How many primary shards these indices have.
fn shards_of(server: &Server, names: &[&str]) -> Result<u64, Failure> {
    let mut shards = 0;
    for names in portions(names) {
        let settings = format!("{}?flat_settings=true", path(&[&names.join(","), "_settings", "index.number_of_shards"]));
        let count = |index: &Value| text(index, "/settings/index.number_of_shards")?.parse::<u64>().ok();
        shards += members(&server.get(&settings)?).filter_map(|(_, index)| count(index)).sum::<u64>();
    }
    Ok(shards)
}

fn refuse_shards(server: &Server, nodes: u64, shards: u64, what: &str) -> Result<(), Failure> {
    match shards_left(server, nodes)? {
        Some(left) if left < shards => Err(Failure::refused(
            "too_many_shards",
            format!("{what} {shards} shards, and the cluster takes {left} more (cluster.max_shards_per_node)."),
        )
        .hint("Remove indices that nobody needs (svc-snap discard --run RUN removes what is kept), or raise cluster.max_shards_per_node.")),
        _ => Ok(()),
    }
}

/// What these indices of a snapshot have of bytes and shards; `None` where one that is brought is not among them.
fn load(indices: &Value, names: &[&str], [bytes, shards]: [&str; 2]) -> Option<Load> {
    names.iter().try_fold(Load::default(), |sum, name| {
        let index = indices.get(name)?;
        Some(Load { bytes: sum.bytes + number(index, bytes)?, shards: sum.shards + number(index, shards)? })
    })
}

/// How much room there is once `freed` bytes are given up, and on which nodes, where it is not enough for `bytes`.
fn lacking(disks: &[NodeDisk], bytes: u64, freed: u64) -> Option<(u64, String)> {
    let free = left(disks, freed)?;
    let nodes: Vec<&str> = disks.iter().map(|disk| disk.node.as_str()).collect();
    (!disks.is_empty() && free < bytes).then(|| (free, nodes.join(", ")))
}

/// How much room there is once `freed` bytes are given up; `None` where a node without a limit takes everything. Nobody knows on
/// which nodes the freed bytes lie: it is as if they lay where they help most, so that nothing is refused that would fit.
fn left(disks: &[NodeDisk], freed: u64) -> Option<u64> {
    let stays_shut = |disk: &NodeDisk| {
        let low = disk.low_watermark_bytes.unwrap_or(0);
        disk.takes_no_shards && (freed == 0 || disk.available_bytes.saturating_add(freed) < low)
    };
    let room = |disk: &NodeDisk| {
        let below = disk.available_bytes.saturating_sub(disk.high_watermark_bytes?);
        Some(if stays_shut(disk) { 0 } else { below })
    };
    let open = disks.iter().filter(|disk| !stays_shut(disk));
    // What must be freed first on a disk that is past its limit.
    let beyond = open.filter_map(|disk| Some(disk.high_watermark_bytes?.saturating_sub(disk.available_bytes))).min();
    let free: Option<Vec<u64>> = disks.iter().map(room).collect();
    Some(free?.iter().sum::<u64>() + beyond.map_or(0, |beyond| freed.saturating_sub(beyond)))
}

/// How many more shards the cluster takes, or `None` where it has no limit.
fn shards_left(server: &Server, nodes: u64) -> Result<Option<u64>, Failure> {
    let settings = server.get("/_cluster/settings?include_defaults=true&flat_settings=true")?;
    let limit = ["transient", "persistent", "defaults"]
        .iter()
        .find_map(|part| settings.get(part)?.get("cluster.max_shards_per_node")?.as_str())
        .and_then(|limit| limit.parse::<u64>().ok());
    let health = server.get("/_cluster/health?filter_path=active_shards,initializing_shards,unassigned_shards")?;
    let shards = |pointer: &str| number(&health, pointer).unwrap_or(0);
    let used = shards("/active_shards") + shards("/initializing_shards") + shards("/unassigned_shards");
    Ok(limit.map(|limit| (limit * nodes).saturating_sub(used)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::server::disk::Level;

    fn disk(available_bytes: u64, high_watermark_bytes: Option<u64>) -> NodeDisk {
        NodeDisk {
            node: "n".to_owned(),
            total_bytes: 1000,
            available_bytes,
            low_watermark_bytes: None,
            high_watermark_bytes,
            flood_stage_bytes: None,
            level: Level::Free,
            takes_no_shards: false,
        }
    }

    #[test]
    fn only_what_is_brought_counts() {
        let index = |bytes: u64| json!({"stats": {"total": {"size_in_bytes": bytes}}, "shards_stats": {"total": 2}});
        let indices = json!({"a": index(10), "b": index(20), "c": index(40)});
        let load = |names: &[&str]| load(&indices, names, ["/stats/total/size_in_bytes", "/shards_stats/total"]);
        assert_eq!(load(&["a", "c"]), Some(Load { bytes: 50, shards: 4 }));
        assert_eq!(load(&["a", "d"]), None);
    }

    #[test]
    fn room_is_what_is_left_below_the_high_watermarks() {
        assert_eq!(lacking(&[disk(150, Some(100))], 50, 0), None);
        assert_eq!(lacking(&[disk(150, Some(100)), disk(50, Some(100))], 51, 0), Some((50, "n, n".to_owned())));
        assert_eq!(lacking(&[disk(150, Some(100)), disk(0, None)], 1000, 0), None);
        assert_eq!(lacking(&[], 1000, 0), None);
        let past_low = NodeDisk { takes_no_shards: true, ..disk(150, Some(100)) };
        assert_eq!(lacking(&[past_low, disk(150, Some(100))], 51, 0), Some((50, "n, n".to_owned())));
    }

    #[test]
    fn what_is_given_up_makes_room() {
        let full = |freed: u64, bytes: u64| lacking(&[disk(70, Some(100))], bytes, freed).map(|(free, _)| free);
        // 30 of them only bring the disk back to its limit.
        assert_eq!((full(40, 10), full(40, 11), full(20, 1)), (None, Some(10), Some(0)));
        // They may all lie on the disk that has room.
        assert_eq!(lacking(&[disk(70, Some(100)), disk(150, Some(100))], 90, 40), None);
        let shut = |freed: u64| {
            let disk = NodeDisk { takes_no_shards: true, low_watermark_bytes: Some(200), ..disk(150, Some(100)) };
            lacking(&[disk], 60, freed)
        };
        assert_eq!((shut(49).is_some(), shut(50).is_some()), (true, false));
    }
}
