//! `health`: is the search database up, which one is it, and is it ready for snapshots? What a preflight asks.

mod copies;
mod nodes;
mod remark;
mod repository;
mod size;
mod unassigned;

use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use svc_step::{Call, Failure, Status, StepResult, Stopped};

use self::nodes::{Node, nodes};
use self::remark::remark;
use self::repository::{RepositoryHealth, configured};
use self::unassigned::{NotWhole, not_whole};
use crate::connection::Connection;
use crate::index::live;
use crate::index::resolve::Patterns;
use crate::index::scope::ScopeArg;
use crate::repository::RepositoryArg;
use crate::server::disk::{NodeDisk, disks};
use crate::server::json::{list, members, number, text};
use crate::server::{Product, Server};
use crate::throttle::Left;

pub use self::copies::OwnCopy;

/// How long `--wait` waits where no `--timeout` is given.
const WAIT: Duration = Duration::from_secs(300);
/// The pause between two looks.
const LOOK: Duration = Duration::from_millis(500);

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

/// How the search database is.
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
    /// The indices that are red or yellow, and why, those of the scope first.
    #[serde(default)]
    pub not_whole: Vec<NotWhole>,
    /// How many nodes there are.
    pub nodes_count: u64,
    /// The nodes.
    #[serde(default)]
    pub nodes: Vec<Node>,
    /// Whether the one-time configuration (4.1) is done: the repository is registered, every node can use it, its files are
    /// there, and it is a folder of every node's `path.repo` where it is a folder. `null` where nobody knows.
    #[serde(default)]
    pub configured: Option<bool>,
    /// The folders that every node may have repositories in (`path.repo`); empty where 4.1 has still to be done.
    pub path_repo: Vec<String>,
    /// The repository.
    pub repository: RepositoryHealth,
    /// The disks of the data nodes.
    pub disks: Vec<NodeDisk>,
    /// What the indices of the scope take without their replicas, which is what a first snapshot of them stores; `null` where
    /// the user may not ask.
    #[serde(default)]
    pub indices_bytes: Option<u64>,
    /// Our own copies of indices of the scope: staged, set aside, kept.
    #[serde(default)]
    pub copies: Vec<OwnCopy>,
    /// The data streams of the scope, which cannot be staged.
    #[serde(default)]
    pub data_streams: Vec<String>,
    /// The snapshots that are being taken, in whatever repository.
    #[serde(default)]
    pub snapshots_under_way: Vec<UnderWay>,
}

/// A snapshot that is being taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UnderWay {
    /// Its repository.
    pub repository: String,
    /// Its name.
    pub name: String,
}

pub(crate) fn run(args: &HealthArgs, call: &Call) -> StepResult<Health> {
    let until = Instant::now() + call.deadline().limit().unwrap_or(WAIT);
    let Looked { server, health, unverified } = loop {
        if args.wait {
            wait(args, call, until)?;
        }
        match look(args, call) {
            Err(failure) if args.wait && failure.status == Status::Unavailable && Instant::now() < until => {
                call.pause(LOOK).map_err(|end| end.cause(failure.message))?;
            }
            looked => break looked?,
        }
    };
    // A preflight should know all that is wrong, most of all when something is.
    Left::find(call, &server, Some(&health.repository.name))?.remark(call);
    remark(call, &health, unverified);
    if !health.red_indices.is_empty() {
        let failure =
            Failure::invalid("indices_red", format!("Indices of the service are not whole: {}.", health.red_indices.join(", ")))
                .hint("The causes and result.not_whole say why; after a start, svc-snap health --wait waits for it.");
        let whys = health.not_whole.iter().filter(|one| one.in_scope && one.status == "red").map(|one| one.why.clone());
        let failure = whys.fold(failure, Failure::cause);
        return Err(Stopped::with(failure, health));
    }
    Ok(health)
}

/// Waits until the search database answers and no index that may be the service's is red, or until the time is over. Whatever is
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
        call.pause(LOOK).map_err(|failure| failure.cause(last))?;
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

/// What a look shows.
struct Looked {
    server: Server,
    health: Health,
    /// Why nobody knows whether the repository can be used, where it is registered and nobody does.
    unverified: Option<Failure>,
}

fn look(args: &HealthArgs, call: &Call) -> Result<Looked, Failure> {
    let server = Server::connect(&args.connection, call)?;
    let cluster = server.get(CLUSTER)?;
    let status = text(&cluster, "/status").unwrap_or_default().to_owned();
    let content = live::any(&server, &args.scope.scope, &Patterns::parse("*"))?;
    let in_scope = |name: &str| content.holds(name);
    let mut red_indices: Vec<String> = red(&cluster).filter(|name| in_scope(name)).cloned().collect();
    red_indices.sort();
    let (repository, unverified) = repository::look(&server, &args.repository.repository)?;
    let nodes = nodes(&server)?;
    let path_repo = nodes::common(&nodes);
    let not_whole = match status.as_str() {
        "green" => Vec::new(),
        _ => not_whole(&server, in_scope, nodes.iter().filter(|node| node.holds_data).count())?,
    };
    let health = Health {
        status,
        red_indices,
        nodes_count: number(&cluster, "/number_of_nodes").unwrap_or(0),
        configured: configured(&repository, &path_repo),
        not_whole,
        nodes,
        path_repo,
        repository,
        snapshots_under_way: under_way(&server)?,
        disks: disks(&server)?,
        indices_bytes: size::of_primaries(&server, in_scope)?,
        copies: copies::left(call, &server, &args.scope.scope)?,
        data_streams: content.streams.clone(),
        url: server.url().to_owned(),
        cluster_uuid: server.cluster_uuid.clone(),
        cluster_name: server.cluster_name.clone(),
        product: server.product,
        version: server.version.clone(),
    };
    Ok(Looked { server, health, unverified })
}

fn under_way(server: &Server) -> Result<Vec<UnderWay>, Failure> {
    let answer = match server.get("/_snapshot/_status") {
        Ok(answer) => answer,
        // Who may not ask is told so by the repository's verification.
        Err(failure) if failure.code == "search_forbidden" => return Ok(Vec::new()),
        Err(failure) => return Err(failure),
    };
    let under_way = |one: &Value| {
        Some(UnderWay { repository: text(one, "/repository")?.to_owned(), name: text(one, "/snapshot")?.to_owned() })
    };
    Ok(list(&answer, "/snapshots").filter_map(under_way).collect())
}
