//! How the repository is: registered, usable by every node, its files there.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_step::{Call, Failure, Status};

use crate::repository;
use crate::repository::verdict::verify;
use crate::server::Server;
use crate::server::json::text;
use crate::snapshot;

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
    /// Whether every node can use it; `null` where it is not registered, or where it is unknown (a warning says why).
    pub verified: Option<bool>,
    /// The nodes that cannot use it, by name, as far as the server tells.
    pub unusable_nodes: Vec<String>,
    /// Whether this server may only read it.
    pub readonly: bool,
    /// Whether what the server knows to be in it is there; `null` where it is not registered, or where it is unknown.
    pub readable: Option<bool>,
}

/// The repository's health. What is wrong with it is a warning; that it may not be verified, or not at the moment, says nothing of it.
///
/// # Errors
/// The server does not answer any more, a signal, or the end of the time limit.
pub(super) fn get(call: &Call, server: &Server, name: &str) -> Result<RepositoryHealth, Failure> {
    let definition = repository::definition(server, name)?;
    let said = |pointer: &str| text(definition.as_ref()?, pointer).map(str::to_owned);
    let mut health = RepositoryHealth {
        name: name.to_owned(),
        registered: definition.is_some(),
        kind: said("/type"),
        location: said("/settings/location"),
        verified: None,
        unusable_nodes: Vec::new(),
        readonly: said("/settings/readonly").is_some_and(|value| value == "true"),
        readable: None,
    };
    if !health.registered {
        let message = format!("The repository {name} is not registered; svc-snap register --location DIR does it.");
        call.warn("repository_not_registered", message);
        return Ok(health);
    }
    if let Err(failure) = check(call, server, &mut health) {
        let is_end = failure.signal.is_some() || failure.status == Status::Timeout;
        if is_end || failure.code == "search_unreachable" {
            return Err(failure);
        }
        let why = failure.causes.last().unwrap_or(&failure.message);
        let message = format!("Whether the repository {name} can be used is unknown: {} ({why})", failure.message);
        call.warn("repository_not_verified", message);
    }
    Ok(health)
}

fn check(call: &Call, server: &Server, health: &mut RepositoryHealth) -> Result<(), Failure> {
    let name = &health.name;
    let verdict = verify(server, name)?;
    health.verified = Some(verdict.unusable.is_none());
    health.unusable_nodes = verdict.unusable_nodes;
    if let Some(failure) = verdict.unusable {
        call.warn("repository_unusable", format!("{} svc-snap verify says why.", failure.message));
        return Ok(());
    }
    let probed = snapshot::probe(server, name);
    if probed.as_ref().is_err_and(|failure| failure.code == "repository_damaged") {
        let message = format!("Files that belong to the repository {name} are not there; svc-snap verify says more.");
        call.warn("repository_damaged", message);
        health.readable = Some(false);
        return Ok(());
    }
    health.readable = Some(probed.map(|_| true)?);
    Ok(())
}
