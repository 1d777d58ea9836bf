//! `health`: is the search database up, which one is it, and is it ready for snapshots? What a preflight asks.

mod copies;

use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use svc_step::{Call, Failure, Status, StepResult, Stopped};

use crate::connection::Connection;
use crate::index::members;
use crate::index::scope::ScopeArg;
use crate::repository::{self, RepositoryArg};
use crate::server::disk::{NodeDisk, disks};
use crate::server::{Product, Server};
use crate::verify::{Verdict, verify};

pub use self::copies::Copy;

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
    /// How many nodes there are.
    pub nodes_count: u64,
    /// The folders that every node may have repositories in (`path.repo`); empty where 4.1 has still to be done.
    pub path_repo: Vec<String>,
    /// The repository.
    pub repository: RepositoryHealth,
    /// The disks of the data nodes.
    pub disks: Vec<NodeDisk>,
    /// Our own copies of indices of the scope: staged, set aside, kept.
    #[serde(default)]
    pub copies: Vec<Copy>,
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
}

pub(crate) fn run(args: &HealthArgs, call: &Call) -> StepResult<Health> {
    let until = Instant::now() + call.deadline().limit().unwrap_or(WAIT);
    let Looked { health, unverified } = loop {
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
    if !health.red_indices.is_empty() {
        let failure = Failure::invalid(
            "indices_red",
            format!("Indices of the service are not whole: {}.", health.red_indices.join(", ")),
        )
        .hint(
            "GET /_cluster/allocation/explain says why a shard is missing; after a start, svc-snap health --wait waits for it.",
        );
        return Err(Stopped::with(failure, health));
    }
    remark(call, &health, unverified);
    Ok(health)
}

/// What a look shows.
struct Looked {
    health: Health,
    /// Why nobody knows whether the repository can be used, where it is registered and nobody does.
    unverified: Option<Failure>,
}

/// What is no failure, and what a preflight should know.
fn remark(call: &Call, health: &Health, unverified: Option<Failure>) {
    copies::remark(call, &health.copies);
    if health.status == "red" {
        call.warn("cluster_red", "The cluster is red: an index outside the scope lacks a primary shard.");
    }
    if health.path_repo.is_empty() {
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
    for disk in health.disks.iter().filter(|disk| disk.is_past_high()) {
        call.warn("disk_past_high_watermark", format!("The disk of the node {} is past its high watermark.", disk.node));
    }
}

fn look(args: &HealthArgs, call: &Call) -> Result<Looked, Failure> {
    let server = Server::connect(&args.connection, call)?;
    let cluster = server.get("/_cluster/health?level=indices&expand_wildcards=all")?;
    let text = |key: &str| cluster.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let indices = cluster.get("indices").into_iter().flat_map(members);
    let red = indices
        .filter(|(name, index)| index.get("status").is_some_and(|status| status == "red") && args.scope.scope.contains(name));
    let mut red_indices: Vec<String> = red.map(|(name, _)| name.clone()).collect();
    red_indices.sort();
    let (repository, unverified) = repository_health(&server, &args.repository.repository)?;
    let health = Health {
        status: text("status"),
        red_indices,
        nodes_count: cluster.get("number_of_nodes").and_then(Value::as_u64).unwrap_or(0),
        path_repo: path_repo(&server.get("/_nodes?filter_path=nodes.*.settings.path.repo,nodes.*.name")?),
        repository,
        disks: disks(&server)?,
        copies: copies::left(call, &server, &args.scope.scope)?,
        url: server.url().to_owned(),
        cluster_uuid: server.cluster_uuid,
        cluster_name: server.cluster_name,
        product: server.product,
        version: server.version,
    };
    Ok(Looked { health, unverified })
}

/// The folders that every node has.
fn path_repo(nodes: &Value) -> Vec<String> {
    let mut each = nodes.get("nodes").into_iter().flat_map(members).map(|(_, node)| match node.pointer("/settings/path/repo") {
        Some(Value::Array(all)) => all.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        Some(Value::String(one)) => one.split(',').map(|one| one.trim().to_owned()).filter(|one| !one.is_empty()).collect(),
        _ => Vec::<String>::new(),
    });
    let first = each.next().unwrap_or_default();
    each.fold(first, |mut common, one| {
        common.retain(|folder| one.contains(folder));
        common
    })
}

fn repository_health(server: &Server, name: &str) -> Result<(RepositoryHealth, Option<Failure>), Failure> {
    let definition = repository::definition(server, name)?;
    let text =
        |pointer: &str| definition.as_ref().and_then(|value| value.pointer(pointer)).and_then(Value::as_str).map(str::to_owned);
    let (verdict, unverified) = if definition.is_some() { known(verify(server, name))? } else { (None, None) };
    let health = RepositoryHealth {
        name: name.to_owned(),
        registered: definition.is_some(),
        kind: text("/type"),
        location: text("/settings/location"),
        verified: verdict.as_ref().map(|verdict| verdict.unusable.is_none()),
        unusable_nodes: verdict.map(|verdict| verdict.unusable_nodes).unwrap_or_default(),
    };
    Ok((health, unverified))
}

/// What a verification says of the repository. That it was not allowed, or not possible just now, says nothing of it.
///
/// # Errors
/// The server has gone, a signal, or the end of the time limit.
fn known(verified: Result<Verdict, Failure>) -> Result<(Option<Verdict>, Option<Failure>), Failure> {
    match verified {
        Ok(verdict) => Ok((Some(verdict), None)),
        Err(failure) if failure.signal.is_some() || failure.status == Status::Timeout => Err(failure),
        Err(failure) if failure.code == "search_unreachable" => Err(failure),
        Err(failure) => Ok((None, Some(failure))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_verification_that_was_not_possible_says_nothing_of_the_repository() {
        let told = |failure: Failure| known(Err(failure)).map(|(verdict, why)| (verdict.is_some(), why.is_some())).ok();
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
    fn path_repo_is_what_every_node_has_in_either_form() {
        let node = |repo: Value| json!({"settings": {"path": {"repo": repo}}});
        let nodes = json!({"nodes": {"a": node(json!(["/x", "/y"])), "b": node(json!("/y,/z"))}});
        assert_eq!(path_repo(&nodes), ["/y"]);
        assert!(path_repo(&json!({"nodes": {"a": node(json!(["/x"])), "b": {"name": "n"}}})).is_empty());
        assert!(path_repo(&json!({})).is_empty());
    }
}
