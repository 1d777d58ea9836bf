//! `health`: is the server up, which one is it, and is it ready for snapshots? What a preflight asks.

mod copies;
mod nodes;
mod repository;
mod unassigned;

use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use svc_step::{Call, Failure, Status, StepResult, Stopped};

use self::nodes::{Node, nodes};
use self::repository::RepositoryHealth;
use crate::connection::Connection;
use crate::index::select::{self, Patterns, ScopeArg};
use crate::repository::RepositoryArg;
use crate::server::disk::{Level, NodeDisk, disks};
use crate::server::json::{list, members, number, text};
use crate::server::{Product, Server};
use crate::throttle::Left;

pub use self::copies::OwnCopy;

/// How long `--wait` waits where no `--timeout` is given.
const WAIT: Duration = Duration::from_secs(300);
/// The pause between two polls.
const PAUSE: Duration = Duration::from_millis(500);

/// Arguments of `svc-snap health`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  svc-snap health
  systemctl restart opensearch && svc-snap health --wait --timeout 5m")]
pub struct HealthArgs {
    /// Wait until it answers and its indices are whole; 5 minutes at most unless --timeout says otherwise
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    scope: ScopeArg,
    #[command(flatten)]
    repository: RepositoryArg,
    #[command(flatten)]
    connection: Connection,
}

/// How the server is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Health {
    /// The cluster's `cluster_uuid`.
    pub cluster_uuid: String,
    /// The cluster's name.
    pub cluster_name: String,
    /// The family.
    pub product: Product,
    /// The version, as the server writes it.
    pub version: String,
    /// Its address, without credentials.
    pub url: String,
    /// The cluster's status in the server's own words: `green`, `yellow` (whole; a copy has no place), `red`.
    pub status: String,
    /// Indices of the scope that lack a primary shard; any is exit 7.
    pub red_indices: Vec<String>,
    /// The nodes.
    pub nodes: Vec<Node>,
    /// The folders that every node may have repositories in (`path.repo`); empty where 4.1 has still to be done.
    pub path_repo: Vec<String>,
    /// The repository.
    pub repository: RepositoryHealth,
    /// The disks of the data nodes.
    pub disks: Vec<NodeDisk>,
    /// What the indices of the scope take without their replicas, which is what a first snapshot of them stores; `null` where
    /// the user may not ask.
    pub indices_bytes: Option<u64>,
    /// Our own copies of indices of the scope: staged, cloned, kept.
    pub copies: Vec<OwnCopy>,
    /// The data streams of the scope, which cannot be staged.
    pub data_streams: Vec<String>,
}

pub(crate) fn run(args: &HealthArgs, call: &Call) -> StepResult<Health> {
    let until = Instant::now() + call.deadline().limit().unwrap_or(WAIT);
    let (server, health) = loop {
        if args.wait {
            wait(args, call, until)?;
        }
        match get(args, call) {
            Err(failure) if args.wait && failure.status == Status::Unavailable && Instant::now() < until => {
                call.pause(PAUSE).map_err(|end| end.cause(failure.message))?;
            }
            got => break got?,
        }
    };
    Left::find(call, &server, Some(&health.repository.name))?.remark(call);
    remark(call, &health);
    if health.red_indices.is_empty() {
        return Ok(health);
    }
    let message = format!("Indices of the service lack a primary shard: {}.", health.red_indices.join(", "));
    let failure = Failure::invalid("indices_red", message)
        .hint("GET /_cluster/allocation/explain says why; after a start, svc-snap health --wait waits for them.");
    let causes = unassigned::why(&server, &health.red_indices)?;
    Err(Stopped::with(causes.into_iter().fold(failure, Failure::cause), health))
}

/// Waits until the server answers and no index that may be the service's is red, or until the time is over. Whatever is
/// asked here is asked twice a second, so it is only what is cheap; all else is asked once, afterwards.
fn wait(args: &HealthArgs, call: &Call, until: Instant) -> Result<(), Failure> {
    let mut server = None;
    loop {
        let last = match is_whole(args, call, &mut server) {
            Ok(true) => return Ok(()),
            Ok(false) => "Indices of the service are not whole.".to_owned(),
            Err(failure) if failure.status == Status::Unavailable => failure.message,
            Err(failure) => return Err(failure),
        };
        if Instant::now() >= until {
            return Ok(());
        }
        call.pause(PAUSE).map_err(|failure| failure.cause(last))?;
    }
}

fn is_whole(args: &HealthArgs, call: &Call, server: &mut Option<Server>) -> Result<bool, Failure> {
    let server = match server {
        Some(server) => server,
        None => server.insert(Server::connect(&args.connection, call)?),
    };
    let cluster = server.get(CLUSTER)?;
    // A server that has just started is red before it knows of any index.
    let knows_none = cluster.get("indices").is_none_or(|indices| members(indices).next().is_none());
    let is_red = text(&cluster, "/status") == Some("red");
    Ok(!is_red || !knows_none && !red(&cluster).any(|index| args.scope.scope.may_hold(index)))
}

/// The cluster's health, index by index.
const CLUSTER: &str = "/_cluster/health?level=indices&expand_wildcards=all";

/// The red indices of the cluster.
fn red(cluster: &Value) -> impl Iterator<Item = &String> {
    let indices = cluster.get("indices").into_iter().flat_map(members);
    indices.filter(|(_, index)| index.get("status").is_some_and(|status| status == "red")).map(|(name, _)| name)
}

fn get(args: &HealthArgs, call: &Call) -> Result<(Server, Health), Failure> {
    let server = Server::connect(&args.connection, call)?;
    let cluster = server.get(CLUSTER)?;
    let content = select::any_live(&server, &args.scope.scope, &Patterns::parse("*"))?;
    let in_scope = |name: &str| content.holds(name);
    let mut red_indices: Vec<String> = red(&cluster).filter(|name| in_scope(name)).cloned().collect();
    red_indices.sort();
    let repository = repository::get(call, &server, &args.repository.repository)?;
    let nodes = nodes(&server)?;
    let data_nodes = nodes.iter().filter(|node| node.holds_data).count() as u64;
    warn_of_replicas(call, &cluster, in_scope, data_nodes);
    let health = Health {
        status: text(&cluster, "/status").unwrap_or_default().to_owned(),
        red_indices,
        path_repo: nodes::common(&nodes),
        nodes,
        repository,
        disks: disks(&server)?,
        indices_bytes: indices_bytes(&server, in_scope)?,
        copies: copies::left(call, &server, &args.scope.scope)?,
        data_streams: content.streams.clone(),
        url: server.url().to_owned(),
        cluster_uuid: server.cluster_uuid.clone(),
        cluster_name: server.cluster_name.clone(),
        product: server.product,
        version: server.version.clone(),
    };
    Ok((server, health))
}

/// What the primary shards of the scope take; `None` where the user may not ask. A closed index does not say.
fn indices_bytes(server: &Server, in_scope: impl Fn(&str) -> bool) -> Result<Option<u64>, Failure> {
    match server.get("/_cat/indices?format=json&bytes=b&expand_wildcards=all&h=index,pri.store.size") {
        Ok(indices) => {
            let of_scope = list(&indices, "").filter(|index| text(index, "/index").is_some_and(&in_scope));
            Ok(Some(of_scope.filter_map(|index| text(index, "/pri.store.size")?.parse::<u64>().ok()).sum()))
        }
        Err(failure) if failure.code == "search_forbidden" => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// A replica is never placed on its primary's node, so that an index with as many replicas as data nodes is yellow by design.
fn warn_of_replicas(call: &Call, cluster: &Value, in_scope: impl Fn(&str) -> bool, data_nodes: u64) {
    let indices = cluster.get("indices").into_iter().flat_map(members);
    let lacks = |index: &Value| {
        text(index, "/status") == Some("yellow") && number(index, "/number_of_replicas").is_some_and(|count| count < data_nodes)
    };
    let lacking: Vec<&str> =
        indices.filter(|(name, index)| in_scope(name) && lacks(index)).map(|(name, _)| name.as_str()).collect();
    if !lacking.is_empty() {
        call.warn("replicas_missing", format!("Replicas of these indices have no node: {}.", lacking.join(", ")));
    }
}

/// What is no failure, and what a preflight should know.
fn remark(call: &Call, health: &Health) {
    copies::remark(call, &health.copies);
    if health.status == "red" && health.red_indices.is_empty() {
        call.warn("cluster_red", "The cluster is red: an index outside the scope lacks a primary shard.");
    }
    if health.path_repo.is_empty() {
        let lacking: Vec<&str> =
            health.nodes.iter().filter(|node| node.path_repo.is_empty()).map(|node| node.name.as_str()).collect();
        let message = "No folder is in path.repo of all nodes; svc-snap configure --location DIR sets it. Nodes without it";
        call.warn("path_repo_unset", format!("{message}: {}.", lacking.join(", ")));
    }
    if !health.data_streams.is_empty() {
        call.warn("data_streams", format!(
            "Data streams cannot be staged, so that svc-rollback is refused: {}. Leave them out of the scope (SVC_INDICES='*,-NAME').",
            health.data_streams.join(", ")
        ));
    }
    for disk in health.disks.iter().filter(|disk| disk.level != Level::Free) {
        let stage = match disk.level {
            Level::PastFloodStage => "the flood stage: its indices take no writes",
            Level::PastHigh => "its high watermark: shards are moved away from it",
            _ => "its low watermark: no further shards are placed on it",
        };
        call.warn("disk_past_watermark", format!("The disk of the node {} is past {stage}.", disk.node));
    }
}
