//! `health`: is the search database up, which one is it, and is it ready for snapshots? What a preflight asks.

mod copies;
mod nodes;
mod unassigned;

use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use svc_step::{Call, Failure, Status, StepResult, Stopped};

use self::nodes::{Node, nodes};
use self::unassigned::{NotWhole, not_whole};
use crate::connection::Connection;
use crate::index::scope::ScopeArg;
use crate::rate::left::Left;
use crate::repository::place::covers;
use crate::repository::verdict::verify;
use crate::repository::{self, RepositoryArg};
use crate::server::disk::{Level, NodeDisk, disks};
use crate::server::json::{list, members, number, text};
use crate::server::{Product, Server};
use crate::snapshot;

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
    /// Our own copies of indices of the scope: staged, set aside, kept.
    #[serde(default)]
    pub copies: Vec<OwnCopy>,
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

/// How the repository is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
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
    /// Whether every node can use it; `null` where it is not registered, or where nobody knows (a warning says why).
    pub verified: Option<bool>,
    /// The nodes that cannot use it, by name, as far as the server tells.
    #[serde(default)]
    pub unusable_nodes: Vec<String>,
    /// Whether this server may only read it.
    #[serde(default)]
    pub readonly: bool,
    /// Whether what the server knows to be in it is there; `null` where it is not registered, or where nobody knows.
    #[serde(default)]
    pub readable: Option<bool>,
}

pub(crate) fn run(args: &HealthArgs, call: &Call) -> StepResult<Health> {
    let until = Instant::now() + call.deadline().limit().unwrap_or(WAIT);
    let Looked { server, health, unverified } = loop {
        let looked = look(args, call);
        let again = match &looked {
            Ok(looked) => !looked.health.red_indices.is_empty(),
            Err(failure) => failure.status == Status::Unavailable,
        };
        if !args.wait || !again || Instant::now() >= until {
            break looked?;
        }
        let last = looked.map_or_else(|failure| failure.message, |_| "Indices of the service are not whole.".to_owned());
        call.pause(LOOK).map_err(|failure| failure.cause(last))?;
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

/// What a look shows.
struct Looked {
    server: Server,
    health: Health,
    /// Why nobody knows whether the repository can be used, where it is registered and nobody does.
    unverified: Option<Failure>,
}

/// What is no failure, and what a preflight should know.
fn remark(call: &Call, health: &Health, unverified: Option<Failure>) {
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

fn look(args: &HealthArgs, call: &Call) -> Result<Looked, Failure> {
    let server = Server::connect(&args.connection, call)?;
    let cluster = server.get("/_cluster/health?level=indices&expand_wildcards=all")?;
    let status = text(&cluster, "/status").unwrap_or_default().to_owned();
    let indices = cluster.get("indices").into_iter().flat_map(members);
    let red = indices
        .filter(|(name, index)| index.get("status").is_some_and(|status| status == "red") && args.scope.scope.contains(name));
    let mut red_indices: Vec<String> = red.map(|(name, _)| name.clone()).collect();
    red_indices.sort();
    let (repository, unverified) = repository_health(&server, &args.repository.repository)?;
    let nodes = nodes(&server)?;
    let path_repo = nodes::common(&nodes);
    let in_scope = |name: &str| args.scope.scope.contains(name);
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
        copies: copies::left(call, &server, &args.scope.scope)?,
        url: server.url().to_owned(),
        cluster_uuid: server.cluster_uuid.clone(),
        cluster_name: server.cluster_name.clone(),
        product: server.product,
        version: server.version.clone(),
    };
    Ok(Looked { server, health, unverified })
}

/// Whether 4.1 is done.
fn configured(repository: &RepositoryHealth, path_repo: &[String]) -> Option<bool> {
    let in_place = repository.kind.as_deref() != Some("fs")
        || repository.location.as_deref().is_some_and(|location| !location.starts_with('/') || covers(path_repo, location));
    if !repository.registered || !in_place || repository.verified == Some(false) || repository.readable == Some(false) {
        return Some(false);
    }
    repository.verified.and(repository.readable)
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

fn repository_health(server: &Server, name: &str) -> Result<(RepositoryHealth, Option<Failure>), Failure> {
    let definition = repository::definition(server, name)?;
    let said = |pointer: &str| text(definition.as_ref()?, pointer).map(str::to_owned);
    let (verdict, mut unverified) = if definition.is_some() { known(verify(server, name))? } else { (None, None) };
    let verified = verdict.as_ref().map(|verdict| verdict.unusable.is_none());
    let readable = if verified == Some(true) {
        let probed = match snapshot::probe(server, name) {
            Err(failure) if failure.code == "repository_damaged" => Ok(false),
            probed => probed.map(|_| true),
        };
        let (readable, unknown) = known(probed)?;
        unverified = unverified.or(unknown);
        readable
    } else {
        None
    };
    let health = RepositoryHealth {
        name: name.to_owned(),
        registered: definition.is_some(),
        kind: said("/type"),
        location: said("/settings/location"),
        verified,
        unusable_nodes: verdict.map(|verdict| verdict.unusable_nodes).unwrap_or_default(),
        readonly: said("/settings/readonly").is_some_and(|value| value == "true"),
        readable,
    };
    Ok((health, unverified))
}

/// What a verification says of the repository. That it was not allowed, or not possible just now, says nothing of it.
///
/// # Errors
/// The server has gone, a signal, or the end of the time limit.
fn known<T>(verified: Result<T, Failure>) -> Result<(Option<T>, Option<Failure>), Failure> {
    match verified {
        Ok(known) => Ok((Some(known), None)),
        Err(failure) if failure.signal.is_some() || failure.status == Status::Timeout => Err(failure),
        Err(failure) if failure.code == "search_unreachable" => Err(failure),
        Err(failure) => Ok((None, Some(failure))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verification_that_was_not_possible_says_nothing_of_the_repository() {
        let told = |failure: Failure| known(Err::<(), _>(failure)).map(|(verdict, why)| (verdict.is_some(), why.is_some())).ok();
        for unknown in [
            Failure::refused("search_forbidden", ""),
            Failure::unavailable("search_busy", ""),
            Failure::failed("repository_error", ""),
        ] {
            assert_eq!(told(unknown), Some((false, true)));
        }
        for over in [Failure::timeout("timeout", ""), Failure::unavailable("search_unreachable", ""), Failure::interrupted(15)] {
            assert_eq!(told(over), None);
        }
    }

    #[test]
    fn configured_is_a_repository_that_is_registered_in_place_and_proven() {
        let repository = |kind: &str, location: &str, verified, readable| RepositoryHealth {
            name: "r".to_owned(),
            registered: true,
            kind: Some(kind.to_owned()),
            location: Some(location.to_owned()),
            verified,
            unusable_nodes: Vec::new(),
            readonly: false,
            readable,
        };
        let folders = ["/b".to_owned()];
        let told = |one: RepositoryHealth| configured(&one, &folders);
        assert_eq!(told(repository("fs", "/b/r", Some(true), Some(true))), Some(true));
        assert_eq!(told(repository("s3", "", Some(true), Some(true))), Some(true));
        assert_eq!(told(repository("fs", "/c/r", Some(true), Some(true))), Some(false));
        assert_eq!(told(repository("fs", "/b/r", Some(true), Some(false))), Some(false));
        assert_eq!(told(repository("fs", "/b/r", None, None)), None);
        assert_eq!(told(RepositoryHealth { registered: false, ..repository("fs", "/b/r", None, None) }), Some(false));
    }
}
