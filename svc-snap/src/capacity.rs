//! Disk space and shards: on the disks of the data nodes below their watermarks, and under the cluster's limit of shards.
//! What does not fit is refused (3: `no_room`, `too_many_shards`).

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use svc_step::{Call, Failure};

use crate::client::json::{members, number, text};
use crate::client::path::path;
use crate::client::{Product, Server};
use crate::index::{Index, portions};
use crate::restore::result::SwapIndex;
use crate::restore::source::Chosen;

/// The room for what is restored, as it was before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Room {
    /// What the snapshot holds of it; `null` where that could not be read.
    pub needed_bytes: Option<u64>,
    /// What is free on the disks of the data nodes below their high watermarks; `null` where one has no limit.
    pub free_bytes: Option<u64>,
}

/// The disk of one data node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NodeDisk {
    /// The node's name.
    pub node: String,
    /// Its size.
    pub total_bytes: u64,
    /// What is free for the server.
    pub available_bytes: u64,
    /// How much must stay free, or no further shards are placed on it (the low watermark); `null` where no limit is set.
    #[serde(default)]
    pub low_watermark_bytes: Option<u64>,
    /// How much must stay free, or shards are moved away (the high watermark); `null` where no limit is set.
    pub high_watermark_bytes: Option<u64>,
    /// How much must stay free, or its indices take no writes any more (the flood stage); `null` where no limit is set.
    pub flood_stage_bytes: Option<u64>,
    /// Which of them it is past.
    #[serde(default)]
    pub level: Level,
    /// Whether the cluster places no further shard on it.
    #[serde(skip)]
    pub(crate) takes_no_shards: bool,
}

/// How full a disk is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Past no watermark, or no limit is set.
    #[default]
    Free,
    /// Near the high watermark: past the low one.
    PastLow,
    /// Past the high watermark: shards are moved away.
    PastHigh,
    /// Past the flood stage: its indices take no writes any more.
    PastFloodStage,
}

#[derive(Debug)]
pub(crate) struct Capacity {
    pub disks: Vec<NodeDisk>,
    /// How many more shards it takes; `None` where it has no limit.
    shards_left: Option<u64>,
}

impl Capacity {
    pub(crate) fn get(server: &Server) -> Result<Self, Failure> {
        let stats = server.get("/_nodes/stats/fs?filter_path=nodes.*.name,nodes.*.roles,nodes.*.fs.total")?;
        let settings = server.get("/_cluster/settings?include_defaults=true&flat_settings=true")?;
        let health = server.get("/_cluster/health?filter_path=active_shards,initializing_shards,unassigned_shards")?;
        let disks = disks(&stats, &settings);
        let limit = setting(&settings, "cluster.max_shards_per_node").and_then(|limit| limit.parse::<u64>().ok());
        let shards = |pointer: &str| number(&health, pointer).unwrap_or(0);
        let used = shards("/active_shards") + shards("/initializing_shards") + shards("/unassigned_shards");
        let shards_left = limit.map(|limit| (limit * disks.len() as u64).saturating_sub(used));
        Ok(Self { disks, shards_left })
    }

    fn refuse_bytes(&self, load: Load, given_up: Load, hint: &str) -> Result<(), Failure> {
        let Some((free, nodes)) = lacking(&self.disks, load.bytes, given_up.bytes) else { return Ok(()) };
        let message = format!(
            "The restore needs {} bytes, and the disks of {nodes} have {free} bytes left below their watermarks, {} bytes that are given up included.",
            load.bytes, given_up.bytes
        );
        Err(Failure::refused("no_room", message).hint(hint))
    }

    fn refuse_shards(&self, shards: u64, what: &str) -> Result<(), Failure> {
        let Some(left) = self.shards_left.filter(|left| *left < shards) else { return Ok(()) };
        let message = format!("{what} {shards} shards, and the cluster takes {left} more (cluster.max_shards_per_node).");
        Err(Failure::refused("too_many_shards", message)
            .hint("Remove indices that are not needed (svc-snap discard --run RUN), or raise cluster.max_shards_per_node."))
    }
}

/// OpenSearch reads a file for each shard of a snapshot to tell its size, in an object store in some 20 ms: for more it is not asked.
const MOST_SHARDS: u64 = 1000;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Load {
    bytes: u64,
    shards: u64,
}

/// Refuses what the data nodes have no room for, before anything is sent: a node that is past its low watermark gets no shard, past
/// its high one it would begin to move the live shards away, and at the limit of shards the cluster refuses new indices to everybody.
/// `copies` of ours are removed first.
pub(crate) fn refuse_without(call: &Call, chosen: &Chosen, names: &[&str], copies: &[&str]) -> Result<Room, Failure> {
    let (capacity, given_up) = (Capacity::get(&chosen.server)?, held_by(&chosen.server, copies)?);
    let free_bytes = left(&capacity.disks, given_up.bytes);
    let Some(load) = load_of(call, chosen, names)? else { return Ok(Room { needed_bytes: None, free_bytes }) };
    capacity.refuse_bytes(load, given_up, "Free disk space, or restore less (--indices). svc-snap restore --in-place --on-conflict delete needs less, but deletes what is live first: nothing is verified before, and nothing is left to go back to.")?;
    capacity.refuse_shards(load.shards.saturating_sub(given_up.shards), "The restore needs")?;
    Ok(Room { needed_bytes: Some(load.bytes), free_bytes })
}

/// The same of a restore in place, which first gives up `live`, the indices of the same names: what does not even fit then is
/// refused before anything is closed or deleted.
pub(crate) fn refuse_without_in_place(call: &Call, chosen: &Chosen, names: &[&str], live: &[&str]) -> Result<(), Failure> {
    let Some(load) = load_of(call, chosen, names)? else { return Ok(()) };
    let (capacity, given_up) = (Capacity::get(&chosen.server)?, held_by(&chosen.server, live)?);
    let hint = "Free disk space (svc-snap health shows the disks), or restore less (--indices).";
    capacity.refuse_bytes(load, given_up, hint)?;
    capacity.refuse_shards(load.shards.saturating_sub(given_up.shards), "Beside what is live, the restore needs")
}

/// The size of the indices in the snapshot; `None`, with a warning, if it is not known.
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
    // Without its shards, which are most of it.
    let what = "snapshots.indices.*.stats.total.size_in_bytes,snapshots.indices.*.shards_stats.total";
    let status = match chosen.shards_count {
        count if count > MOST_SHARDS => Err(format!("it has {count} shards, and the server would read a file for each")),
        _ => chosen.server.get(&format!("{snapshot}/_status?filter_path={what}")).map_err(|failure| failure.to_string()),
    };
    call.check()?;
    let why = match status {
        Ok(status) => {
            let indices = status.pointer("/snapshots/0/indices").unwrap_or_default();
            return Ok(Some(load(indices, names, ["/stats/total/size_in_bytes", "/shards_stats/total"]).unwrap_or_default()));
        }
        Err(why) => why,
    };
    call.warn("room_unknown", format!(
        "How much the snapshot holds is unknown ({why}), so the disk space for it was not checked; svc-snap health shows the disks."
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
pub(crate) fn refuse_clones(server: &Server, names: &[&str]) -> Result<(), Failure> {
    let capacity = Capacity::get(server)?;
    refuse_past(capacity.disks.iter().filter(|disk| disk.level >= Level::PastHigh || disk.takes_no_shards))?;
    capacity.refuse_shards(shards_of(server, names)?, "The copies have")
}

/// The same of a swap, which is refused only where a clone would wait for a disk in vain, and what is live take no writes meanwhile:
/// a clone lies where the shards of its index are.
pub(crate) fn refuse_stuck_clones(server: &Server, names: &[&str]) -> Result<(), Failure> {
    let mut full = Capacity::get(server)?.disks;
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

fn refuse_past<'a>(past: impl Iterator<Item = &'a NodeDisk>) -> Result<(), Failure> {
    let past: Vec<&str> = past.map(|disk| disk.node.as_str()).collect();
    if past.is_empty() {
        return Ok(());
    }
    let message = format!("The disks of {} are past their watermarks, so that no clone comes to them.", past.join(", "));
    Err(Failure::refused("no_room", message)
        .hint("Free disk space there (svc-snap health shows the disks); a clone needs some as soon as one of the two changes."))
}

/// Refuses a swap that would come to the cluster's limit of shards, at its clones of what is live or behind its exchange.
pub(crate) fn refuse_swap(server: &Server, indices: &[SwapIndex], found: &BTreeMap<String, Index>) -> Result<(), Failure> {
    Capacity::get(server)?.refuse_shards(most_shards(indices, found), "Beside the existing ones, the swap needs up to")
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

/// The sum over these indices of a snapshot; `None` if one of them is missing.
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

/// A setting of the cluster, as it counts.
fn setting<'a>(settings: &'a Value, name: &str) -> Option<&'a str> {
    ["transient", "persistent", "defaults"].iter().find_map(|part| settings.get(part)?.get(name)?.as_str())
}

fn disks(stats: &Value, settings: &Value) -> Vec<NodeDisk> {
    let setting = |name: &str| setting(settings, &format!("cluster.routing.allocation.disk.{name}"));
    let limits = setting("threshold_enabled") != Some("false");
    let must = |stage: &str, total: u64| {
        let watermark = setting(&format!("watermark.{stage}")).filter(|_| limits)?;
        free_needed(total, watermark, setting(&format!("watermark.{stage}.max_headroom")))
    };
    let disk = |node: &Value| {
        let total_bytes = number(node, "/fs/total/total_in_bytes")?;
        let available_bytes = number(node, "/fs/total/available_in_bytes")?;
        let [low, high, flood] = ["low", "high", "flood_stage"].map(|stage| must(stage, total_bytes));
        let past = |must: Option<u64>, level| must.filter(|must| available_bytes < *must).map(|_| level);
        let levels = past(flood, Level::PastFloodStage).or(past(high, Level::PastHigh)).or(past(low, Level::PastLow));
        Some(NodeDisk {
            node: text(node, "/name").unwrap_or_default().to_owned(),
            total_bytes,
            available_bytes,
            low_watermark_bytes: low,
            high_watermark_bytes: high,
            flood_stage_bytes: flood,
            level: levels.unwrap_or_default(),
            takes_no_shards: false,
        })
    };
    let nodes = stats.get("nodes").into_iter().flat_map(members).map(|(_, node)| node);
    let mut disks: Vec<NodeDisk> = nodes.filter(|node| holds_data(node)).filter_map(disk).collect();
    disks.sort_by(|one, other| one.node.cmp(&other.node));
    // A cluster of one data node may make an exception: the older servers do unless told otherwise.
    let is_excepted = disks.len() == 1 && setting("watermark.enable_for_single_data_node") == Some("false");
    disks.iter_mut().for_each(|disk| disk.takes_no_shards = !is_excepted && disk.level >= Level::PastLow);
    disks
}

/// Whether a node of `GET /_nodes` holds data.
pub(crate) fn holds_data(node: &Value) -> bool {
    let roles = node.get("roles").and_then(Value::as_array);
    roles.is_none_or(|roles| roles.iter().filter_map(Value::as_str).any(|role| role.starts_with("data")))
}

/// How much must stay free: a watermark is a share that may be used (`90%`, `0.9`), with a headroom that is enough on large
/// disks, or a size that must stay free (`500mb`).
fn free_needed(total: u64, watermark: &str, headroom: Option<&str>) -> Option<u64> {
    let share = match watermark.strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f64>().ok().map(|percent| percent / 100.0),
        None => watermark.trim().parse::<f64>().ok(),
    };
    match share {
        #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        Some(used) => {
            let free = (total as f64 * (1.0 - used).clamp(0.0, 1.0)).round() as u64;
            Some(headroom.and_then(size).map_or(free, |enough| free.min(enough)))
        }
        None => size(watermark),
    }
}

/// A size as the servers write it: `500mb`, `20GB`; `-1` is none.
fn size(text: &str) -> Option<u64> {
    let text = text.trim().to_ascii_lowercase();
    let digits = text.trim_end_matches(|one: char| one.is_ascii_alphabetic());
    let factor: u64 = match text.strip_prefix(digits)? {
        "" | "b" => 1,
        "k" | "kb" => 1 << 10,
        "m" | "mb" => 1 << 20,
        "g" | "gb" => 1 << 30,
        "t" | "tb" => 1 << 40,
        "p" | "pb" => 1 << 50,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

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
    fn only_the_restored_indices_count() {
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
        // 30 of them only get the disk back to its limit.
        assert_eq!((full(40, 10), full(40, 11), full(20, 1)), (None, Some(10), Some(0)));
        // They may all lie on the disk that has room.
        assert_eq!(lacking(&[disk(70, Some(100)), disk(150, Some(100))], 90, 40), None);
        let shut = |freed: u64| {
            let disk = NodeDisk { takes_no_shards: true, low_watermark_bytes: Some(200), ..disk(150, Some(100)) };
            lacking(&[disk], 60, freed)
        };
        assert_eq!((shut(49).is_some(), shut(50).is_some()), (true, false));
    }

    #[test]
    fn a_watermark_is_a_share_with_its_headroom_or_a_size() {
        assert_eq!(free_needed(1000, "90%", None), Some(100));
        assert_eq!(free_needed(1000, "0.95", None), Some(50));
        assert_eq!(free_needed(1 << 40, "90%", Some("20GB")), Some(20 << 30));
        assert_eq!(free_needed(1000, "90%", Some("-1")), Some(100));
        assert_eq!(free_needed(1 << 40, "500mb", None), Some(500 << 20));
        assert_eq!(free_needed(1000, "soon", None), None);
    }

    #[test]
    fn only_data_nodes_count_and_a_threshold_that_is_off_sets_no_limit() {
        let fs = json!({"total": {"total_in_bytes": 1000, "available_in_bytes": 150}});
        let stats = json!({"nodes": {"x": {"name": "b", "roles": ["data_hot"], "fs": fs}, "y": {"name": "a", "roles": ["master"], "fs": fs}}});
        let name = |name: &str| format!("cluster.routing.allocation.disk.{name}");
        let on = json!({"persistent": {name("watermark.high"): "80%"}, "defaults": {name("watermark.high"): "90%", name("threshold_enabled"): "true"}});
        let disks = super::disks(&stats, &on);
        assert_eq!(disks.len(), 1);
        assert_eq!((disks[0].node.as_str(), disks[0].high_watermark_bytes), ("b", Some(200)));
        assert_eq!(disks[0].level, Level::PastHigh);
        let off = json!({"defaults": {name("watermark.high"): "90%", name("threshold_enabled"): "false"}});
        assert_eq!(super::disks(&stats, &off)[0].level, Level::Free);
    }
}
