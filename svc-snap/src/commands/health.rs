//! `health`: is the server up, which one is it, and is it ready for snapshots? What a preflight asks.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use svc_step::{Call, Failure, Status, StepResult, Stopped};

use crate::capacity::{Capacity, Level, NodeDisk, holds_data};
use crate::client::auth::Connection;
use crate::client::json::{list, members, number, text};
use crate::client::path::path;
use crate::client::{Product, Server};
use crate::index::copies;
use crate::index::select::{self, Patterns, Scope, ScopeArg};
use crate::repository::{self, RepositoryArg, verdict};
use crate::snapshot;
use crate::throttle::Left;

/// How long `--wait` waits where no `--timeout` is given.
const WAIT: Duration = Duration::from_secs(300);
const PAUSE: Duration = Duration::from_millis(500);
/// Each is two requests.
const MOST_EXPLAINED: usize = 5;

/// Arguments of `svc-snap health`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  svc-snap health
  systemctl restart opensearch && svc-snap health --wait --timeout 5m")]
pub struct HealthArgs {
    /// Wait until it answers and its indices have all primary shards; 5 minutes at most unless --timeout says otherwise
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    scope: ScopeArg,
    #[command(flatten)]
    repository: RepositoryArg,
    #[command(flatten)]
    connection: Connection,
}

/// The state of the cluster.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Health {
    /// The cluster's `cluster_uuid`.
    pub cluster_uuid: String,
    /// The cluster's name.
    pub cluster_name: String,
    /// Elasticsearch or OpenSearch.
    pub product: Product,
    /// The version, as the server writes it.
    pub version: String,
    /// Its address, without credentials.
    pub url: String,
    /// The cluster's status in the server's own words: `green`, `yellow` (complete; a copy has no place), `red`.
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
    /// Our own copies of indices of the scope, by their names on the server.
    pub copies: Vec<OwnCopy>,
    /// The data streams of the scope, which cannot be staged.
    pub data_streams: Vec<String>,
}

/// One node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Its version, as it writes it.
    pub version: String,
    /// Whether it holds data.
    pub holds_data: bool,
    /// The folders that it may have repositories in; empty where 4.1 has still to be done on it.
    pub path_repo: Vec<String>,
}

/// The state of the repository.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct RepositoryHealth {
    /// Its name.
    pub name: String,
    /// Whether it is registered.
    pub registered: bool,
    /// Its type; `null` where it is not registered.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// Its folder; `null` where it has none.
    pub location: Option<String>,
    /// Whether every node can use it; `null` where it is not registered, or where it is unknown (a warning says why).
    pub verified: Option<bool>,
    /// The nodes that cannot use it, by name, as far as the server tells.
    pub unusable_nodes: Vec<String>,
    /// Whether this server may only read it.
    pub readonly: bool,
    /// Whether what the server knows to be in it is there; `null` where it is not registered, or where it is unknown.
    pub readable: Option<bool>,
}

/// A copy of ours.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OwnCopy {
    /// Its name: `svc-staged-…`, `svc-clone-…`, `svc-before-…` or `svc-replaced-…`.
    pub name: String,
    /// The run that made it, which `discard --run` takes; `null` where its name does not say it for sure.
    pub run: Option<String>,
}

pub(crate) fn run(args: &HealthArgs, call: &Call) -> StepResult<Health> {
    let server = if args.wait { wait(args, call)? } else { Server::connect(&args.connection, call)? };
    let health = get(args, call, &server)?;
    Left::find(call, &server, Some(&health.repository.name))?.remark(call);
    warn(call, &health);
    if health.red_indices.is_empty() {
        return Ok(health);
    }
    let message = format!("Indices of the service lack a primary shard: {}.", health.red_indices.join(", "));
    let mut failure = Failure::invalid("indices_red", message)
        .hint("GET /_cluster/allocation/explain says why; after a start, svc-snap health --wait waits for them.");
    for index in health.red_indices.iter().take(MOST_EXPLAINED) {
        let why = explain(&server, index).ok().flatten();
        failure.causes.extend(why.map(|why| format!("{index}: {why}")));
        call.check()?;
    }
    Err(Stopped::with(failure, health))
}

/// The cluster's health, index by index.
const CLUSTER: &str = "/_cluster/health?level=indices&expand_wildcards=all";

/// The red indices of the cluster.
fn red(cluster: &Value) -> impl Iterator<Item = &String> {
    let indices = cluster.get("indices").into_iter().flat_map(members);
    indices.filter(|(_, index)| text(index, "/status") == Some("red")).map(|(name, _)| name)
}

/// Waits until the server answers and no index that may be the service's is red, or until the time is over. It asks only what is cheap.
fn wait(args: &HealthArgs, call: &Call) -> Result<Server, Failure> {
    let until = Instant::now() + call.deadline().limit().unwrap_or(WAIT);
    let mut connected = None;
    loop {
        let server = match connected.take() {
            Some(server) => Ok(server),
            None => Server::connect(&args.connection, call),
        };
        let last = match server.and_then(|server| Ok((is_ready(&args.scope.scope, &server.get(CLUSTER)?), server))) {
            Ok((is_ready, server)) if is_ready || Instant::now() >= until => return Ok(server),
            Ok((_, server)) => {
                connected = Some(server);
                "Indices of the service lack a primary shard.".to_owned()
            }
            Err(failure) if failure.status == Status::Unavailable && Instant::now() < until => failure.message,
            Err(failure) => return Err(failure),
        };
        call.pause(PAUSE).map_err(|failure| failure.cause(last))?;
    }
}

/// A server that has just started is red before it knows of any index.
fn is_ready(scope: &Scope, cluster: &Value) -> bool {
    let knows_none = cluster.get("indices").is_none_or(|indices| members(indices).next().is_none());
    text(cluster, "/status") != Some("red") || !knows_none && !red(cluster).any(|index| scope.may_hold(index))
}

fn get(args: &HealthArgs, call: &Call, server: &Server) -> Result<Health, Failure> {
    let scope = &args.scope.scope;
    let cluster = server.get(CLUSTER)?;
    let content = select::any_live(server, scope, &Patterns::parse("*"))?;
    let in_scope = |name: &str| content.holds(name);
    let mut red_indices: Vec<String> = red(&cluster).filter(|name| in_scope(name)).cloned().collect();
    red_indices.sort();
    let nodes = nodes(&server.get("/_nodes?filter_path=nodes.*.settings.path.repo,nodes.*.name,nodes.*.version,nodes.*.roles")?);
    warn_of_replicas(call, &cluster, in_scope, nodes.iter().filter(|node| node.holds_data).count() as u64);
    warn_of_swaps(call, server)?;
    Ok(Health {
        status: text(&cluster, "/status").unwrap_or_default().to_owned(),
        red_indices,
        path_repo: in_all(&nodes),
        nodes,
        repository: repository(call, server, &args.repository.repository)?,
        disks: Capacity::get(server)?.disks,
        indices_bytes: indices_bytes(server, in_scope)?,
        copies: own_copies(server, scope)?,
        data_streams: content.streams.clone(),
        url: server.url().to_owned(),
        cluster_uuid: server.cluster_uuid.clone(),
        cluster_name: server.cluster_name.clone(),
        product: server.product,
        version: server.version.clone(),
    })
}

fn nodes(answer: &Value) -> Vec<Node> {
    let folders = |setting: Option<&Value>| match setting {
        Some(Value::Array(all)) => all.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        Some(Value::String(one)) => one.split(',').map(|one| one.trim().to_owned()).filter(|one| !one.is_empty()).collect(),
        _ => Vec::new(),
    };
    let node = |node: &Value| Node {
        name: text(node, "/name").unwrap_or_default().to_owned(),
        version: text(node, "/version").unwrap_or_default().to_owned(),
        holds_data: holds_data(node),
        path_repo: folders(node.pointer("/settings/path/repo")),
    };
    let mut nodes: Vec<Node> = answer.get("nodes").into_iter().flat_map(members).map(|(_, value)| node(value)).collect();
    nodes.sort_by(|one, other| one.name.cmp(&other.name));
    nodes
}

/// The folders that every node has.
fn in_all(nodes: &[Node]) -> Vec<String> {
    let first = nodes.first().map(|node| node.path_repo.clone()).unwrap_or_default();
    first.into_iter().filter(|folder| nodes.iter().all(|node| node.path_repo.contains(folder))).collect()
}

/// What is wrong with the repository is a warning; that it may not be verified, or not at the moment, says nothing of it.
fn repository(call: &Call, server: &Server, name: &str) -> Result<RepositoryHealth, Failure> {
    let mut health = RepositoryHealth { name: name.to_owned(), ..RepositoryHealth::default() };
    let Some(definition) = repository::definition(server, name)? else {
        let message = format!("The repository {name} is not registered; svc-snap register --location DIR does it.");
        call.warn("repository_not_registered", message);
        return Ok(health);
    };
    health.registered = true;
    health.kind = text(&definition, "/type").map(str::to_owned);
    health.location = text(&definition, "/settings/location").map(str::to_owned);
    health.readonly = text(&definition, "/settings/readonly") == Some("true");
    let mut check = || {
        let verdict = verdict::verify(server, name)?;
        health.verified = Some(verdict.unusable.is_none());
        health.unusable_nodes = verdict.unusable_nodes;
        if let Some(failure) = verdict.unusable {
            call.warn("repository_unusable", format!("{} svc-snap verify says why.", failure.message));
            return Ok(());
        }
        match snapshot::probe(server, name) {
            Err(failure) if failure.code == "repository_damaged" => {
                health.readable = Some(false);
                call.warn("repository_damaged", format!("{} svc-snap verify says more.", failure.message));
                Ok(())
            }
            probed => probed.map(|_| health.readable = Some(true)),
        }
    };
    let Err(failure) = check() else { return Ok(health) };
    call.check()?;
    if failure.code == "search_unreachable" {
        return Err(failure);
    }
    let why = failure.causes.last().unwrap_or(&failure.message);
    let message = format!("Whether the repository {name} can be used is unknown: {} ({why})", failure.message);
    call.warn("repository_not_verified", message);
    Ok(health)
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

/// The copies of what is in the scope.
fn own_copies(server: &Server, scope: &Scope) -> Result<Vec<OwnCopy>, Failure> {
    let names = select::names(server)?.indices.into_iter();
    let (own, live): (Vec<_>, Vec<_>) = names.partition(|name| copies::is_own(name));
    let own = own.into_iter().filter(|name| copies::may_be_of(name, |index| scope.contains(index)));
    Ok(own.map(|name| OwnCopy { run: copies::run_of(&name, &live), name }).collect())
}

/// A swap that was killed after its exchange: some indices may not be live.
fn warn_of_swaps(call: &Call, server: &Server) -> Result<(), Failure> {
    let marked = server.find("/_alias/svc-swapping-*?expand_wildcards=all")?.unwrap_or_default();
    let aliases = members(&marked).flat_map(|(_, index)| index.get("aliases").into_iter().flat_map(members));
    let runs: BTreeSet<&str> = aliases.filter_map(|(alias, _)| copies::marked_run(alias)).collect();
    for run in runs {
        let message =
            format!("The swap of the run {run} is in progress or was interrupted; svc-snap swap --run {run} finishes it.");
        call.warn("swap_unfinished", message);
    }
    Ok(())
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
fn warn(call: &Call, health: &Health) {
    let staged: Vec<&str> =
        health.copies.iter().map(|copy| copy.name.as_str()).filter(|name| name.starts_with("svc-staged-")).collect();
    if !staged.is_empty() {
        call.warn(
            "copies_staged",
            format!(
                "Staged copies of indices wait for svc-snap swap --run RUN, or for svc-snap discard --run RUN: {}.",
                staged.join(", ")
            ),
        );
    }
    if health.status == "red" && health.red_indices.is_empty() {
        call.warn("cluster_red", "The cluster is red: an index outside the scope lacks a primary shard.");
    }
    if health.path_repo.is_empty() {
        let lacking = health.nodes.iter().filter(|node| node.path_repo.is_empty()).map(|node| node.name.as_str());
        call.warn(
            "path_repo_unset",
            format!(
                "No folder is in path.repo of all nodes; svc-snap configure --location DIR sets it. Nodes without it: {}.",
                lacking.collect::<Vec<_>>().join(", ")
            ),
        );
    }
    if !health.data_streams.is_empty() {
        call.warn("data_streams", format!(
            "Data streams cannot be staged, so that svc-rollback is refused: {}. Leave them out of the scope (SVC_INDICES='*,-NAME').",
            health.data_streams.join(", ")
        ));
    }
    for disk in &health.disks {
        let stage = match disk.level {
            Level::Free => continue,
            Level::PastLow => "its low watermark: no further shards are placed on it",
            Level::PastHigh => "its high watermark: shards are moved away from it",
            Level::PastFloodStage => "the flood stage: its indices take no writes",
        };
        call.warn("disk_past_watermark", format!("The disk of the node {} is past {stage}.", disk.node));
    }
}

/// Why an index is red, in the server's words.
fn explain(server: &Server, index: &str) -> Result<Option<String>, Failure> {
    let shards = server.get(&format!("{}?format=json&h=shard,prirep,state", path(&["_cat", "shards", index])))?;
    let is_missing = |row: &&Value| text(row, "/prirep") == Some("p") && text(row, "/state") == Some("UNASSIGNED");
    let shard = list(&shards, "").find(is_missing).and_then(|row| text(row, "/shard")?.parse::<u64>().ok());
    let Some(shard) = shard else { return Ok(None) };
    let body = json!({"index": index, "shard": shard, "primary": true});
    let answer = server.post("/_cluster/allocation/explain", Some(&body))?;
    let deciders = list(&answer, "/node_allocation_decisions").flat_map(|node| list(node, "/deciders"));
    let mut against = deciders.filter(|one| text(one, "/decision") != Some("YES"));
    let why = against.find_map(|one| text(one, "/explanation"));
    let why = why.or_else(|| text(&answer, "/unassigned_info/details")).or_else(|| text(&answer, "/allocate_explanation"));
    Ok(why.map(|why| why.chars().take(300).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_repo_is_read_in_either_form_and_common_is_what_every_node_has() {
        let node = |name: &str, repo: Value| json!({"name": name, "version": "1", "roles": ["master"], "settings": {"path": {"repo": repo}}});
        let nodes = |all: Value| super::nodes(&json!({"nodes": all}));
        let both = nodes(json!({"x": node("b", json!("/y, /z")), "y": node("a", json!(["/x", "/y"]))}));
        assert_eq!((both[0].holds_data, both[1].path_repo.len(), in_all(&both)), (false, 2, vec!["/y".to_owned()]));
        assert!(in_all(&nodes(json!({"a": node("a", json!(["/x"])), "b": {"name": "n"}}))).is_empty());
        assert!(in_all(&[]).is_empty());
    }
}
