//! Room on the disks of the data nodes, and the watermarks at which the cluster stops placing shards on them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use svc_step::Failure;

use crate::server::Server;
use crate::server::json::{members, number, text};

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

impl NodeDisk {
    /// Whether it is past its high watermark.
    pub(crate) fn is_past_high(&self) -> bool {
        self.level >= Level::PastHigh
    }

    fn measured(mut self) -> Self {
        let past = |must: Option<u64>| must.is_some_and(|must| self.available_bytes < must);
        self.level = if past(self.flood_stage_bytes) {
            Level::PastFloodStage
        } else if past(self.high_watermark_bytes) {
            Level::PastHigh
        } else if past(self.low_watermark_bytes) {
            Level::PastLow
        } else {
            Level::Free
        };
        self
    }
}

/// The disks of all data nodes.
pub(crate) fn disks(server: &Server) -> Result<Vec<NodeDisk>, Failure> {
    let stats = server.get("/_nodes/stats/fs?filter_path=nodes.*.name,nodes.*.roles,nodes.*.fs.total")?;
    let settings = server.get("/_cluster/settings?include_defaults=true&flat_settings=true")?;
    Ok(read(&stats, &settings))
}

fn read(stats: &Value, settings: &Value) -> Vec<NodeDisk> {
    let setting = |name: &str| {
        let name = format!("cluster.routing.allocation.disk.{name}");
        ["transient", "persistent", "defaults"].iter().find_map(|part| settings.get(part)?.get(&name)?.as_str())
    };
    let limits = setting("threshold_enabled") != Some("false");
    let must = |stage: &str, total: u64| {
        let watermark = setting(&format!("watermark.{stage}")).filter(|_| limits)?;
        free_needed(total, watermark, setting(&format!("watermark.{stage}.max_headroom")))
    };
    let disk = |node: &Value| {
        let total_bytes = number(node, "/fs/total/total_in_bytes")?;
        Some(NodeDisk {
            node: text(node, "/name").unwrap_or_default().to_owned(),
            total_bytes,
            available_bytes: number(node, "/fs/total/available_in_bytes")?,
            low_watermark_bytes: must("low", total_bytes),
            high_watermark_bytes: must("high", total_bytes),
            flood_stage_bytes: must("flood_stage", total_bytes),
            level: Level::Free,
            takes_no_shards: false,
        })
    };
    let nodes = stats.get("nodes").into_iter().flat_map(members).map(|(_, node)| node);
    let mut disks: Vec<NodeDisk> = nodes.filter(|node| holds_data(node)).filter_map(disk).map(NodeDisk::measured).collect();
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
        let disks = read(&stats, &on);
        assert_eq!(disks.len(), 1);
        assert_eq!((disks[0].node.as_str(), disks[0].high_watermark_bytes), ("b", Some(200)));
        assert_eq!(disks[0].level, Level::PastHigh);
        let off = json!({"defaults": {name("watermark.high"): "90%", name("threshold_enabled"): "false"}});
        assert_eq!(read(&stats, &off)[0].level, Level::Free);
    }
}
