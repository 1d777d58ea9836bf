//! Disk space below the watermarks of the data nodes, and shards below the cluster's limit. What does not fit is refused (`out_of_space`).

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use svc_step::{Call, Failure};

use crate::client::{Product, Server, list, members, number, path, setting, text};
use crate::index::{Found, get_indices, list_of, portions, refuse_any};
use crate::restore::{Chosen, DiskSpace, SwapIndex};
use crate::throttle::size;

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct NodeDisk {
    pub node: String,
    /// What is free for the server.
    pub available_bytes: u64,
    /// How much must stay free, or no further shards are placed on it (the low watermark); `null` if no limit is set.
    pub low_watermark_bytes: Option<u64>,
    /// How much must stay free, or shards are moved away (the high watermark); `null` if no limit is set.
    pub high_watermark_bytes: Option<u64>,
    /// Which of them it is past.
    pub level: Level,
    /// Whether the cluster places shards on it past its watermarks too.
    #[serde(skip)]
    is_excepted: bool,
}

impl NodeDisk {
    /// Whether the server places a shard of so many `bytes` on it if so many more are `free`.
    fn takes(&self, free: u64, bytes: u64) -> bool {
        let stays = |watermark: Option<u64>, bytes| {
            watermark.is_none_or(|must| self.available_bytes.saturating_add(free) >= must.saturating_add(bytes))
        };
        self.is_excepted || stays(self.low_watermark_bytes, 0) && stays(self.high_watermark_bytes, bytes)
    }
}

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
    /// How many more shards the cluster takes; `None` if it has no limit.
    shards_left: Option<u64>,
}

impl Capacity {
    pub(crate) fn get(server: &Server) -> Result<Self, Failure> {
        let stats = server.get("/_nodes/stats/fs?filter_path=nodes.*.name,nodes.*.roles,nodes.*.fs.total")?;
        let settings = server.get("/_cluster/settings?include_defaults=true&flat_settings=true")?;
        let health = server.get("/_cluster/health?filter_path=active_shards,initializing_shards,unassigned_shards")?;
        let disks = disks(&stats, &settings);
        let limit = setting(&settings, "cluster.max_shards_per_node").and_then(|limit| limit.parse::<u64>().ok());
        let used = members(&health).filter_map(|(_, shards)| shards.as_u64()).sum();
        let shards_left = limit.map(|limit| (limit * disks.len() as u64).saturating_sub(used));
        Ok(Self { disks, shards_left })
    }

    fn refuse_shards(&self, shards: u64, what: &str) -> Result<(), Failure> {
        let Some(left) = self.shards_left.filter(|left| *left < shards) else { return Ok(()) };
        let message = format!("{what} {shards} shards, and the cluster takes {left} more (cluster.max_shards_per_node).");
        Err(Failure::refused("out_of_space", message)
            .hint("Remove indices that are not needed (svc-snap discard --run RUN), or raise cluster.max_shards_per_node."))
    }

    /// Refuses clones of these indices. They are hard links, but the server wants the disk space of each shard all the same, on the node
    /// of its primary: `is_full` says of a disk whether it lacks so many bytes.
    fn refuse_full(&self, server: &Server, names: &[&String], is_full: impl Fn(&NodeDisk, u64) -> bool) -> Result<(), Failure> {
        let mut full = BTreeSet::new();
        for names in portions(names) {
            let shards = path(&["_cat", "shards", &list_of(&names)]);
            let shards = server.get(&(shards + "?format=json&bytes=b&h=prirep,node,store"))?;
            for shard in list(&shards, "").filter(|shard| text(shard, "/prirep") == Some("p")) {
                let bytes = text(shard, "/store").and_then(|bytes| bytes.parse().ok()).unwrap_or(0);
                let node = self.disks.iter().find(|disk| text(shard, "/node") == Some(&disk.node));
                full.extend(node.filter(|disk| is_full(disk, bytes)).map(|disk| &disk.node));
            }
        }
        let hint = "Free disk space there (svc-snap health shows the disks): a clone takes none, but the server wants as much as its shard has below the high watermark.";
        refuse_any("out_of_space", "These nodes have no disk space for clones", &Vec::from_iter(full), hint)
    }
}

/// OpenSearch reads a file for each shard of a snapshot to tell its size, in an object store in some 20 ms: for more, what was captured counts.
const MOST_SHARDS: u64 = 1000;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Size {
    bytes: u64,
    shards: u64,
}

/// Refuses a restore that has no disk space, or that would pass the limit of shards; the indices of `removed` are removed first. The clone
/// of a shard needs its disk space once more.
pub(crate) fn refuse_restore<T: AsRef<str>>(
    call: &Call,
    chosen: &Chosen,
    names: &[String],
    is_cloned: impl Fn(&String) -> bool,
    removed: &[T],
    hint: &str,
) -> Result<DiskSpace, Failure> {
    let sizes = sizes_in_snapshot(call, chosen, names)?;
    let asked = Capacity::get(&chosen.server).and_then(|capacity| Ok((capacity, size_on_server(&chosen.server, removed)?)));
    let Some(sizes) = sizes else {
        let free_bytes = asked.ok().and_then(|(capacity, removed)| free(&capacity.disks, removed.bytes));
        return Ok(DiskSpace { needed_bytes: None, free_bytes });
    };
    let (capacity, removed) = asked?;
    let free_bytes = free(&capacity.disks, removed.bytes);
    let (bytes, shards) = sizes.iter().fold((0, 0), |(bytes, shards), size| (bytes + size.bytes, shards + size.shards));
    let is_cloned = |name: &String| is_cloned(name) && !capacity.disks.iter().all(|disk| disk.is_excepted);
    let cloned = names.iter().zip(&sizes).filter(|(name, _)| is_cloned(name));
    let needed = bytes + cloned.map(|(_, size)| size.bytes / size.shards.max(1)).max().unwrap_or(0);
    if let Some(free) = free_bytes.filter(|free| *free < needed) {
        let nodes: Vec<&str> = capacity.disks.iter().map(|disk| disk.node.as_str()).collect();
        let message = format!(
            "The restore needs {needed} bytes, and the disks of {} have {free} bytes left below their watermarks, including {} bytes that it deletes first.",
            nodes.join(", "),
            removed.bytes
        );
        return Err(Failure::refused("out_of_space", message).hint(hint));
    }
    capacity.refuse_shards(shards.saturating_sub(removed.shards), "Beside the existing ones, the restore needs")?;
    Ok(DiskSpace { needed_bytes: Some(bytes), free_bytes })
}

/// The sizes of these indices in the snapshot; `None`, with a warning, if one is not known.
fn sizes_in_snapshot(call: &Call, chosen: &Chosen, names: &[String]) -> Result<Option<Vec<Size>>, Failure> {
    let snapshot = chosen.origin.path(&[]);
    // Elasticsearch has the sizes in one file.
    if chosen.server.product == Product::Elasticsearch {
        let found = chosen.server.get(&format!("{snapshot}?index_details=true&filter_path=snapshots.index_details"))?;
        let details = found.pointer("/snapshots/0/index_details").unwrap_or_default();
        if let sizes @ Some(_) = sizes(names, details, ["/size_in_bytes", "/shard_count"]) {
            return Ok(sizes);
        }
    }
    // Without its shards, which are most of it.
    let what = "snapshots.indices.*.stats.total.size_in_bytes,snapshots.indices.*.shards_stats.total";
    let status = match chosen.shards_count {
        count if count > MOST_SHARDS => Err(format!("it has {count} shards, and the server would read a file for each")),
        _ => chosen.server.get(&format!("{snapshot}/_status?filter_path={what}")).map_err(|failure| failure.to_string()),
    };
    call.check()?;
    let unknown = |why: String| {
        call.warn("not_checked", format!(
            "How much the snapshot holds is unknown ({why}), so the disk space for it was not checked; svc-snap health shows the disks."
        ));
    };
    let shown = status.and_then(|status| {
        let indices = status.pointer("/snapshots/0/indices").unwrap_or_default();
        let shown = sizes(names, indices, ["/stats/total/size_in_bytes", "/shards_stats/total"]);
        shown.ok_or_else(|| "the server does not say it of all its indices".to_owned())
    });
    let size = |name: &String| chosen.captured(name).and_then(|one| Some(Size { bytes: one.size_bytes?, shards: one.shards }));
    Ok(shown.or_else(|why| names.iter().map(size).collect::<Option<_>>().ok_or(why)).map_err(unknown).ok())
}

/// The sizes of these of all `indices`, by the pointers to them; `None` if one is missing.
fn sizes<T: AsRef<str>>(names: &[T], indices: &Value, [bytes, shards]: [&str; 2]) -> Option<Vec<Size>> {
    let size = |index: &Value| Some(Size { bytes: number(index, bytes)?, shards: number(index, shards)? });
    names.iter().map(|name| indices.get(name.as_ref()).and_then(size)).collect()
}

/// What these live indices take, replicas included; closed ones too.
fn size_on_server<T: AsRef<str>>(server: &Server, names: &[T]) -> Result<Size, Failure> {
    let mut size = Size::default();
    for names in portions(names) {
        let what = "filter_path=_shards.total,_all.total.store.size_in_bytes&forbid_closed_indices=false";
        let stats = server.get(&format!("{}?{what}", path(&[&list_of(&names), "_stats", "store"])))?;
        size.bytes += number(&stats, "/_all/total/store/size_in_bytes").unwrap_or(0);
        size.shards += number(&stats, "/_shards/total").unwrap_or(0);
    }
    Ok(size)
}

/// How many bytes there are below the high watermarks once `removed` bytes are free on the most favourable node; `None`: no limit.
fn free(disks: &[NodeDisk], removed: u64) -> Option<u64> {
    let free = |disk: &NodeDisk, more: u64| {
        let below = disk.available_bytes.saturating_add(more).saturating_sub(disk.high_watermark_bytes?);
        Some(if disk.takes(more, 0) { below } else { 0 })
    };
    let all = disks.iter().map(|disk| free(disk, 0)).sum::<Option<u64>>()?;
    disks.iter().filter_map(|disk| Some(all - free(disk, 0)? + free(disk, removed)?)).max()
}

/// Refuses clones of `names` without disk space, even if the server would make them: they need some as soon as these change.
pub(crate) fn refuse_clones(server: &Server, names: &[String]) -> Result<(), Failure> {
    let capacity = Capacity::get(server)?;
    capacity.refuse_full(server, &Vec::from_iter(names), |disk, bytes| disk.level >= Level::PastHigh || !disk.takes(0, bytes))?;
    capacity.refuse_shards(get_indices(server, names)?.values().map(|index| index.shards).sum(), "The copies have")
}

/// Refuses a swap if the server would not make its clones, of what is live and of what becomes so, or past the shard limit.
pub(crate) fn refuse_swap(server: &Server, indices: &[SwapIndex], found: &Found) -> Result<(), Failure> {
    let capacity = Capacity::get(server)?;
    let live = indices.iter().filter(|item| item.previous.is_some()).map(|item| &item.index);
    let cloned = live.chain(indices.iter().filter_map(|item| Some(&item.source.as_ref()?.name)));
    let is_there = |name: &&String| found.get(*name).is_some_and(|index| !index.uuid.is_empty() && !index.metadata.closed);
    capacity.refuse_full(server, &Vec::from_iter(cloned.filter(is_there)), |disk, bytes| !disk.takes(0, bytes))?;
    capacity.refuse_shards(most_shards(indices, found), "Beside the existing ones, the swap needs up to")
}

/// How many shards a swap has at its height beside those that there are before it.
fn most_shards(indices: &[SwapIndex], found: &Found) -> u64 {
    let (mut staged, mut previous, mut removed, mut new) = (0, 0, 0, 0);
    for item in indices {
        let live = found.get(&item.index).filter(|_| item.live_uuid.is_some());
        let shards = live.map_or(0, |live| live.shards);
        previous += if item.previous.is_some() { shards } else { 0 };
        removed += live
            .filter(|live| !live.metadata.closed)
            .map_or(0, |live| live.shards * u64::from(1 + live.metadata.number_of_replicas));
        let Some(source) = item.source.as_ref().and_then(|source| found.get(&source.name)) else { continue };
        // One that is not staged yet shows no shards.
        let (copy, not_yet) = if source.shards == 0 { (shards.max(1), shards.max(1)) } else { (source.shards, 0) };
        staged += not_yet;
        let replicas = item.becomes.as_ref().map_or(0, |becomes| becomes.number_of_replicas);
        new += copy * u64::from(1 + replicas);
    }
    staged + previous.max((previous + new).saturating_sub(removed))
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
        let levels = [(flood, Level::PastFloodStage), (high, Level::PastHigh), (low, Level::PastLow)];
        let level = levels.into_iter().find(|(must, _)| must.is_some_and(|must| available_bytes < must));
        Some(NodeDisk {
            node: text(node, "/name").unwrap_or_default().to_owned(),
            available_bytes,
            low_watermark_bytes: low,
            high_watermark_bytes: high,
            level: level.map(|(_, level)| level).unwrap_or_default(),
            is_excepted: false,
        })
    };
    let nodes = stats.get("nodes").into_iter().flat_map(members).map(|(_, node)| node);
    let is_data = |role: &Value| role.as_str().is_some_and(|role| role.starts_with("data"));
    let holds_data = |node: &&Value| node.get("roles").is_none() || list(node, "/roles").any(is_data);
    let mut disks: Vec<NodeDisk> = nodes.filter(holds_data).filter_map(disk).collect();
    disks.sort_by(|one, other| one.node.cmp(&other.node));
    // A cluster of one data node may make an exception: the older servers do unless told otherwise.
    let is_excepted = disks.len() == 1 && setting("watermark.enable_for_single_data_node") == Some("false");
    disks.iter_mut().for_each(|disk| disk.is_excepted = is_excepted);
    disks
}

/// How much must stay free: a watermark is a share that may be used (`90%`, `0.9`), with a headroom, or a size (`500mb`).
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn disk(available_bytes: u64, high_watermark_bytes: Option<u64>) -> NodeDisk {
        NodeDisk { available_bytes, high_watermark_bytes, ..NodeDisk::default() }
    }

    #[test]
    fn only_the_restored_indices_count() {
        let index = |bytes: u64| json!({"stats": {"total": {"size_in_bytes": bytes}}, "shards_stats": {"total": 2}});
        let indices = json!({"a": index(10), "b": index(20), "c": index(40)});
        let sizes = |names: &[&str]| sizes(names, &indices, ["/stats/total/size_in_bytes", "/shards_stats/total"]);
        assert_eq!(sizes(&["a", "c"]), Some(vec![Size { bytes: 10, shards: 2 }, Size { bytes: 40, shards: 2 }]));
        assert_eq!(sizes(&["a", "d"]), None);
    }

    #[test]
    fn free_is_what_is_left_below_the_high_watermarks() {
        assert_eq!(free(&[disk(150, Some(100)), disk(50, Some(100))], 0), Some(50));
        assert_eq!(free(&[disk(150, Some(100)), disk(0, None)], 0), None);
        assert_eq!(free(&[], 0), None);
        let past_low = NodeDisk { low_watermark_bytes: Some(200), ..disk(150, Some(100)) };
        assert_eq!(free(&[past_low, disk(150, Some(100))], 0), Some(50));
    }

    #[test]
    fn removed_bytes_count_on_most_favourable_disk() {
        // 30 of them only get the disk back to its limit.
        assert_eq!([20, 40].map(|removed| free(&[disk(70, Some(100))], removed)), [Some(0), Some(10)]);
        assert_eq!(free(&[disk(70, Some(100)), disk(150, Some(100))], 40), Some(90));
        let shut = NodeDisk { low_watermark_bytes: Some(200), ..disk(150, Some(100)) };
        assert_eq!([49, 50].map(|removed| free(std::slice::from_ref(&shut), removed)), [Some(0), Some(100)]);
    }

    #[test]
    fn watermark_is_ratio_with_headroom_or_size() {
        assert_eq!(free_needed(1000, "90%", None), Some(100));
        assert_eq!(free_needed(1000, "0.95", None), Some(50));
        assert_eq!(free_needed(1 << 40, "90%", Some("20GB")), Some(20 << 30));
        assert_eq!(free_needed(1000, "90%", Some("-1")), Some(100));
        assert_eq!(free_needed(1 << 40, "500mb", None), Some(500 << 20));
        assert_eq!(free_needed(1000, "soon", None), None);
    }

    #[test]
    fn disk_levels_of_data_nodes_follow_watermarks() {
        let fs = json!({"total": {"total_in_bytes": 1000, "available_in_bytes": 150}});
        let stats = json!({"nodes": {"x": {"name": "b", "roles": ["data_hot"], "fs": fs}, "y": {"name": "a", "roles": ["master"], "fs": fs}}});
        let name = |name: &str| format!("cluster.routing.allocation.disk.{name}");
        let on = json!({"persistent": {name("watermark.high"): "80%"}, "defaults": {name("watermark.high"): "90%", name("threshold_enabled"): "true"}});
        let disks = super::disks(&stats, &on);
        assert_eq!(disks.len(), 1);
        assert_eq!((disks[0].node.as_str(), disks[0].high_watermark_bytes), ("b", Some(200)));
        assert_eq!(disks[0].level, Level::PastHigh);
        for (watermarks, level) in [
            (["100b", "90b", "80b"], Level::Free),
            (["200b", "90b", "80b"], Level::PastLow),
            (["200b", "180b", "80b"], Level::PastHigh),
            (["200b", "180b", "160b"], Level::PastFloodStage),
        ] {
            let [low, high, flood] = ["low", "high", "flood_stage"].map(|stage| name(&format!("watermark.{stage}")));
            let settings = json!({"persistent": {low: watermarks[0], high: watermarks[1], flood: watermarks[2]}});
            assert_eq!(super::disks(&stats, &settings)[0].level, level);
        }
        let off = json!({"defaults": {name("watermark.high"): "90%", name("threshold_enabled"): "false"}});
        assert_eq!(super::disks(&stats, &off)[0].level, Level::Free);
    }
}
