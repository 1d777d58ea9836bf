//! `health`: is the server up, which one is it, and is it ready for snapshots? What a preflight asks.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use svc_step::poll::{SOON, poll};
use svc_step::{Call, Failure, Status, StepResult, Stopped};

use crate::client::{Product, Server, list, members, text};
use crate::index::{Patterns, Scope, ScopeArg, copies, select, unassigned};
use crate::repository::RepositoryArg;
use crate::restore::capacity::{Capacity, Level, NodeDisk};
use crate::temporary::Left;
use crate::{repository, snapshot};

/// How long `--wait` waits if no `--timeout` is given.
const WAIT: Duration = Duration::from_secs(300);
/// For how long wrong credentials are not believed: a cluster that starts knows nobody before it has its users' index.
const USERS: Duration = Duration::from_secs(60);

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  svc-snap health
  systemctl restart opensearch && svc-snap health --wait --timeout 5m")]
pub struct HealthArgs {
    /// Wait until it answers and its indices have all primary shards; 5 minutes at most, or --timeout
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    scope: ScopeArg,
    #[command(flatten)]
    repository: RepositoryArg,
}

/// The state of the cluster.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Health {
    pub cluster_uuid: String,
    pub cluster_name: String,
    pub product: Product,
    /// The version, as the server writes it.
    pub version: String,
    /// Its address, without credentials.
    pub url: String,
    /// The cluster's status in the server's own words: `green`, `yellow` (complete; a copy has no place), `red`.
    pub status: String,
    /// Indices of the scope that lack a primary shard; any is exit 7.
    pub red_indices: Vec<String>,
    /// Its data and master-eligible nodes; the others need no `path.repo`.
    pub nodes: Vec<Node>,
    /// The directories that every node may have repositories in (`path.repo`); empty until `svc-snap configure` has run.
    pub path_repo: Vec<String>,
    pub repository: RepositoryHealth,
    pub disks: Vec<NodeDisk>,
    /// What the indices of the scope take without their replicas, as a first snapshot of them does; `null` if the user may not ask.
    pub indices_bytes: Option<u64>,
    /// Our own copies of indices of the scope, by their names on the server.
    pub copies: Vec<OwnCopy>,
    /// The data streams of the scope, which cannot be staged.
    pub data_streams: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Node {
    pub name: String,
    pub version: String,
    /// The directories that it may have repositories in; empty until `svc-snap configure` has run there.
    pub path_repo: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct RepositoryHealth {
    pub name: String,
    pub registered: bool,
    /// Its type; `null` if it is not registered.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// Its directory; `null` if it has none.
    pub location: Option<String>,
    /// Whether every node can use it; `null` if it is not registered, or if it is unknown (a warning says why).
    pub verified: Option<bool>,
    /// Whether this server may only read it.
    pub readonly: bool,
    /// Whether what the server knows to be in it is there; `null` if it is not registered, or if it is unknown.
    pub readable: Option<bool>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OwnCopy {
    /// Its name: `svc-staged-…`, `svc-clone-…`, `svc-before-…` or `svc-replaced-…`.
    pub name: String,
    /// The run that made it, which `discard --run` takes; `null` if its name does not say it for sure.
    pub run: Option<String>,
}

pub(crate) fn run(args: &HealthArgs, call: &Call) -> StepResult<Health> {
    let server = if args.wait { wait(args, call)? } else { args.repository.connect(call)? };
    let health = get(args, call, &server)?;
    Left::find(call, &server, Some(&health.repository.name))?.warn(call);
    warn(call, &health);
    if health.red_indices.is_empty() {
        return Ok(health);
    }
    let message = format!("Indices of the service lack a primary shard: {}.", health.red_indices.join(", "));
    let mut failure = Failure::invalid("indices_red", message)
        .hint("GET /_cluster/allocation/explain says why; after a start, svc-snap health --wait waits for them.");
    failure.causes = unassigned(&server, &health.red_indices);
    Err(Stopped::with(failure, health))
}

/// The cluster's health, index by index.
const CLUSTER: &str = "/_cluster/health?level=indices&expand_wildcards=all";

fn red(cluster: &Value) -> impl Iterator<Item = &String> {
    let indices = cluster.get("indices").into_iter().flat_map(members);
    indices.filter(|(_, index)| text(index, "/status") == Some("red")).map(|(name, _)| name)
}

/// Waits until the server answers and no index that may be the service's is red, or until the time is over. It asks only what is cheap.
fn wait(args: &HealthArgs, call: &Call) -> Result<Server, Failure> {
    let time = call.deadline().limit().map_or(WAIT, |_| Duration::MAX);
    let begun = Instant::now();
    let is_early = |failure: &Failure| failure.code == "access_denied" && begun.elapsed() < USERS;
    let (mut known, mut last) = (None, Failure::unavailable("search_unreachable", "The server does not answer."));
    let ended = poll(
        SOON,
        time,
        |time| call.pause(time),
        || {
            let connected = known.take().map_or_else(|| args.repository.connect(call), Ok);
            match connected.and_then(|server| Ok((is_ready(&args.scope.scope, &server.get(CLUSTER)?), server))) {
                Ok((false, server)) => known = Some(server),
                Err(failure) if failure.status == Status::Unavailable || is_early(&failure) => last = failure,
                ended => return Ok(Some(ended.map(|(_, server)| server))),
            }
            Ok(None)
        },
    );
    match (ended, known) {
        (Ok(Some(ended)), _) => ended,
        // What lacks shards in the end is a part of the result.
        (Ok(None), Some(server)) => Ok(server),
        (Ok(None), None) => Err(last),
        (Err(stopped), Some(_)) => Err(stopped.cause("Indices of the service lack a primary shard.")),
        (Err(stopped), None) => Err(stopped.cause(last.message)),
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
    let nodes = nodes(&server.get("/_nodes?filter_path=nodes.*.settings.path.repo,nodes.*.name,nodes.*.version,nodes.*.roles")?);
    warn_of_swaps(call, server)?;
    Ok(Health {
        status: text(&cluster, "/status").unwrap_or_default().to_owned(),
        red_indices: red(&cluster).filter(|name| in_scope(name)).collect::<BTreeSet<_>>().into_iter().cloned().collect(),
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
        path_repo: folders(node.pointer("/settings/path/repo")),
    };
    let of_repositories = |role: &str| role.starts_with("data") || ["master", "cluster_manager"].contains(&role);
    let uses_some = |node: &&Value| list(node, "/roles").filter_map(Value::as_str).any(of_repositories);
    let all = answer.get("nodes").into_iter().flat_map(members).map(|(_, node)| node);
    let mut nodes: Vec<Node> = all.filter(uses_some).map(node).collect();
    nodes.sort_by(|one, other| one.name.cmp(&other.name));
    nodes
}

fn in_all(nodes: &[Node]) -> Vec<String> {
    let first = nodes.first().map(|node| node.path_repo.clone()).unwrap_or_default();
    first.into_iter().filter(|folder| nodes.iter().all(|node| node.path_repo.contains(folder))).collect()
}

/// What is wrong with the repository is a warning; that it may not be verified, or not at the moment, says nothing of it.
fn repository(call: &Call, server: &Server, name: &str) -> Result<RepositoryHealth, Failure> {
    let mut health = RepositoryHealth { name: name.to_owned(), ..RepositoryHealth::default() };
    let Some(definition) = repository::definition(server, name)? else {
        let message =
            format!("The repository {name} is not registered; svc-snap register --repository {name} --location DIR does it.");
        call.warn("repository_not_found", message);
        return Ok(health);
    };
    health.registered = true;
    health.kind = text(&definition, "/type").map(str::to_owned);
    health.location = text(&definition, "/settings/location").map(str::to_owned);
    health.readonly = text(&definition, "/settings/readonly") == Some("true");
    let checked = repository::verify_nodes(server, name).and_then(|_| {
        health.verified = Some(true);
        snapshot::probe(server, name)
    });
    let Err(failure) = checked else {
        health.readable = Some(true);
        return Ok(health);
    };
    call.check()?;
    // The causes name the nodes, each server in another one.
    let why = format!("{} ({})", failure.message, failure.causes.join("; "));
    match failure.code.as_str() {
        "search_unreachable" => return Err(failure),
        "repository_unusable" => health.verified = Some(false),
        "repository_damaged" => health.readable = Some(false),
        _ => {
            call.warn("not_checked", format!("Whether the repository {name} can be used is unknown: {why}"));
            return Ok(health);
        }
    }
    call.warn(&failure.code, why);
    Ok(health)
}

/// What the primary shards of the scope take; `None` if the user may not ask. A closed index does not say.
fn indices_bytes(server: &Server, in_scope: impl Fn(&str) -> bool) -> Result<Option<u64>, Failure> {
    match server.get("/_cat/indices?format=json&bytes=b&expand_wildcards=all&h=index,pri.store.size") {
        Ok(indices) => {
            let of_scope = list(&indices, "").filter(|index| text(index, "/index").is_some_and(&in_scope));
            Ok(Some(of_scope.filter_map(|index| text(index, "/pri.store.size")?.parse::<u64>().ok()).sum()))
        }
        Err(failure) if failure.code == "permission_denied" => Ok(None),
        Err(failure) => Err(failure),
    }
}

fn own_copies(server: &Server, scope: &Scope) -> Result<Vec<OwnCopy>, Failure> {
    let names = select::names(server)?.indices.into_iter();
    let (own, live): (Vec<_>, Vec<_>) = names.partition(|name| copies::is_own(name));
    let own: Vec<String> = own.into_iter().filter(|name| copies::may_be_of(name, |index| scope.contains(index))).collect();
    // Of an index that is not live any more the run is that of another copy.
    let runs: BTreeSet<String> = own.iter().filter_map(|name| copies::run_of(name, &live)).collect();
    let of_others = |name: &str| runs.iter().find(|run| copies::copied_from(name, run).is_some()).cloned();
    Ok(own.into_iter().map(|name| OwnCopy { run: copies::run_of(&name, &live).or_else(|| of_others(&name)), name }).collect())
}

/// A swap that was killed after its exchange: some indices may not be live.
fn warn_of_swaps(call: &Call, server: &Server) -> Result<(), Failure> {
    for run in copies::marked(server)?.into_keys().map(|(run, _)| run).collect::<BTreeSet<_>>() {
        let swap = server.command(call, &["swap", "--run", &run]);
        let message = format!("The swap of the run {run} is in progress or was interrupted; {swap} finishes it where it began.");
        call.warn("swap_unfinished", message);
    }
    Ok(())
}

/// What is no failure, and what a preflight should know.
fn warn(call: &Call, health: &Health) {
    if health.status == "red" && health.red_indices.is_empty() {
        call.warn("indices_red", "The cluster is red: an index outside the scope lacks a primary shard.");
    }
    if health.path_repo.is_empty() {
        let lacking = health.nodes.iter().filter(|node| node.path_repo.is_empty()).map(|node| node.name.as_str());
        let lacking = lacking.collect::<Vec<_>>().join(", ");
        let message = "No directory is in path.repo of all nodes; svc-snap configure --location DIR sets it. Nodes without it";
        call.warn("repository_unusable", format!("{message}: {lacking}."));
    }
    if !health.data_streams.is_empty() {
        let streams = health.data_streams.join(", ");
        call.warn("not_swappable", format!("Leave these data streams out of the scope (SVC_INDICES='*,-NAME'): they cannot be staged, and svc-rollback refuses them: {streams}."));
    }
    for disk in &health.disks {
        let stage = match disk.level {
            Level::Free => continue,
            Level::PastLow => "its low watermark: no further shards are placed on it",
            Level::PastHigh => "its high watermark: shards are moved away from it",
            Level::PastFloodStage => "the flood stage: its indices take no writes",
        };
        call.warn("out_of_space", format!("The disk of the node {} is past {stage}.", disk.node));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn path_repo_common_to_all_nodes_is_found() {
        let with = |name: &str, roles: Value, repo: Value| {
            let settings = json!({"path": {"repo": repo}});
            json!({"name": name, "version": "1", "roles": roles, "settings": settings})
        };
        let node = |name: &str, repo: Value| with(name, json!(["data_hot"]), repo);
        let nodes = |all: Value| super::nodes(&json!({"nodes": all}));
        let both = nodes(json!({"x": node("b", json!("/y, /z")), "y": node("a", json!(["/x", "/y"]))}));
        assert_eq!((both[1].path_repo.len(), in_all(&both)), (2, vec!["/y".to_owned()]));
        assert!(in_all(&nodes(json!({"a": node("a", json!(["/x"])), "b": with("n", json!(["master"]), json!([]))}))).is_empty());
        let coordinating = with("n", json!([]), json!([]));
        assert_eq!(in_all(&nodes(json!({"a": node("a", json!(["/x"])), "b": coordinating}))), ["/x"]);
        assert!(in_all(&[]).is_empty());
    }
}
