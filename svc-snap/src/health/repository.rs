//! How the repository is: registered, usable by every node, its files there; and so whether the one-time configuration (4.1) is
//! done.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_step::{Failure, Status};

use crate::repository;
use crate::repository::place::covers;
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

/// Whether 4.1 is done.
pub(super) fn configured(repository: &RepositoryHealth, path_repo: &[String]) -> Option<bool> {
    let in_place = repository.kind.as_deref() != Some("fs")
        || repository.location.as_deref().is_some_and(|location| !location.starts_with('/') || covers(path_repo, location));
    if !repository.registered || !in_place || repository.verified == Some(false) || repository.readable == Some(false) {
        return Some(false);
    }
    repository.verified.and(repository.readable)
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
