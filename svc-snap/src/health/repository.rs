//! How the repository is: registered, usable by every node, its files there.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_step::{Failure, Status};

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

/// Looks at the repository; and why nobody knows whether it can be used, where it is registered and nobody does.
///
/// # Errors
/// The server has gone, a signal, or the end of the time limit.
pub(super) fn look(server: &Server, name: &str) -> Result<(RepositoryHealth, Option<Failure>), Failure> {
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
