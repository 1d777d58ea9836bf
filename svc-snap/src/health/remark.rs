//! What is no failure, and what a preflight should know.

use svc_step::{Call, Failure};

use super::{Health, copies};
use crate::server::disk::Level;

/// Says it as warnings. `unverified`: why nobody knows whether the repository can be used.
pub(super) fn remark(call: &Call, health: &Health, unverified: Option<Failure>) {
    copies::remark(call, &health.copies);
    if health.status == "red" && health.red_indices.is_empty() {
        call.warn("cluster_red", "The cluster is red: an index outside the scope lacks a primary shard.");
    }
    for one in health.not_whole.iter().filter(|one| one.in_scope && one.status == "yellow" && !one.too_few_nodes) {
        call.warn("replicas_missing", one.why.clone());
    }
    let lacking: Vec<&str> =
        health.nodes.iter().filter(|node| node.path_repo.is_empty()).map(|node| node.name.as_str()).collect();
    if !lacking.is_empty() && lacking.len() < health.nodes.len() {
        call.warn(
            "path_repo_differs",
            format!(
                "These nodes have no path.repo, and others have: {}; svc-snap configure --location DIR sets it.",
                lacking.join(", ")
            ),
        );
    } else if health.path_repo.is_empty() {
        call.warn("path_repo_unset", "The search database has no path.repo; svc-snap configure --location DIR sets it.");
    }
    if !health.data_streams.is_empty() {
        call.warn(
            "data_streams",
            format!(
                "Data streams cannot be staged, so that svc-rollback is refused: {}. Leave them out of the scope (SVC_INDICES='*,-NAME').",
                health.data_streams.join(", ")
            ),
        );
    }
    if !health.repository.registered {
        let name = &health.repository.name;
        call.warn(
            "repository_not_registered",
            format!("The repository {name} is not registered; svc-snap register --location DIR does it."),
        );
    }
    if health.repository.verified == Some(false) {
        call.warn(
            "repository_unusable",
            match health.repository.unusable_nodes.as_slice() {
                [] => format!("Not every node can use the repository {}; svc-snap verify says why.", health.repository.name),
                nodes => format!(
                    "The repository {} cannot be used by {}; svc-snap verify says why.",
                    health.repository.name,
                    nodes.join(", ")
                ),
            },
        );
    }
    if let Some(failure) = unverified {
        let (name, why) = (&health.repository.name, failure.causes.first().unwrap_or(&failure.message));
        call.warn(
            "repository_not_verified",
            format!("Nobody knows whether the repository {name} can be used: {} ({why})", failure.message),
        );
    }
    if health.repository.readable == Some(false) {
        let name = &health.repository.name;
        call.warn(
            "repository_damaged",
            format!("Files that belong to the repository {name} are not there; svc-snap verify says more."),
        );
    }
    for disk in &health.disks {
        let (code, words) = match disk.level {
            Level::Free => continue,
            Level::PastLow => ("disk_near_high_watermark", "is near its high watermark: no further shards are placed on it"),
            Level::PastHigh => ("disk_past_high_watermark", "is past its high watermark: shards are moved away from it"),
            Level::PastFloodStage => ("disk_past_flood_stage", "is past its flood stage: its indices take no writes"),
        };
        call.warn(code, format!("The disk of the node {} {words}.", disk.node));
    }
}
