//! Snapshots looked up on the server: one, or all of a repository.

use jiff::Timestamp;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};
use svc_step::Failure;

use crate::repository;
use crate::server::Server;
use crate::server::json::{members, number, text};
use crate::server::path::path;
use crate::server::refusal;
use crate::snapshot::{Snapshot, fit};

/// Looks one snapshot up; `None` where the repository has none of that name.
///
/// # Errors
/// The repository is not registered (4), or the server does not answer or refuses.
pub(crate) fn find(server: &Server, repository: &str, name: &str) -> Result<Option<Snapshot>, Failure> {
    match server.get(&path(&["_snapshot", repository, name])) {
        Ok(answer) => match refused(&answer).map(|failure| repository::named(failure, repository)) {
            Some(failure) if failure.code == "snapshot_not_found" => Ok(None),
            Some(failure) => Err(failure),
            None => one(server, &answer).map(Some),
        },
        Err(failure) if failure.code == "snapshot_not_found" => Ok(None),
        Err(failure) => Err(repository::named(failure, repository)),
    }
}

/// The same where it must be there.
///
/// # Errors
/// The repository has none of that name (4), and as [`find`].
pub(crate) fn get(server: &Server, repository: &str, name: &str) -> Result<Snapshot, Failure> {
    find(server, repository, name)?.ok_or_else(|| not_found(repository, name))
}

/// The repository has no snapshot of that name.
pub(crate) fn not_found(repository: &str, name: &str) -> Failure {
    Failure::not_found("snapshot_not_found", format!("The repository {repository} has no snapshot {name}."))
        .hint(format!("svc-snap list --repository {repository} shows which there are."))
}

/// Elasticsearch 7.17 answers 200 with an empty list for a repository that is missing, and says so beside it.
fn refused(answer: &Value) -> Option<Failure> {
    let (_, error) = answer.get("failures").into_iter().flat_map(members).next()?;
    Some(refusal::refusal(200, &json!({ "error": error })).failure)
}

fn one(server: &Server, answer: &Value) -> Result<Snapshot, Failure> {
    let mut snapshot = answer.pointer("/snapshots/0").and_then(Snapshot::read).ok_or_else(|| odd(answer))?;
    fit::settle(server, &mut snapshot);
    Ok(snapshot)
}

/// The answer that names all snapshots; each is read as it comes.
#[derive(Debug, Deserialize)]
struct Listed {
    snapshots: Option<Vec<Each>>,
    #[serde(flatten)]
    rest: Value,
}

/// A snapshot, or what is not understood as one.
#[derive(Debug)]
struct Each(Result<Snapshot, Value>);

impl<'de> Deserialize<'de> for Each {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Value::deserialize(deserializer).map(|value| Self(Snapshot::read(&value).ok_or(value)))
    }
}

/// All snapshots of a repository, oldest first.
///
/// # Errors
/// The repository is not registered (4), or the list is not readable whole.
pub(crate) fn all(server: &Server, repository: &str) -> Result<Vec<Snapshot>, Failure> {
    let answer: Listed =
        server.get_as(&path(&["_snapshot", repository, "_all"])).map_err(|failure| repository::named(failure, repository))?;
    if let Some(failure) = refused(&answer.rest) {
        return Err(repository::named(failure, repository));
    }
    // A part of the list is no list: nobody may count by it.
    let is_part = number(&answer.rest, "/remaining").unwrap_or(0) > 0;
    let list = answer.snapshots.filter(|_| !is_part).ok_or_else(|| odd(&answer.rest))?;
    let mut all = list.into_iter().map(|Each(one)| one.map_err(|one| odd(&one))).collect::<Result<Vec<_>, _>>()?;
    all.iter_mut().for_each(|snapshot| fit::settle(server, snapshot));
    all.sort_by(|one, other| key(one).cmp(&key(other)));
    Ok(all)
}

/// Looks whether the repository's files are there at all: a server writes its proof of [`crate::repository::verdict`] into an emptied
/// folder too. How many snapshots it holds.
///
/// # Errors
/// The repository is damaged (7), and as [`all`].
pub(crate) fn probe(server: &Server, repository: &str) -> Result<u64, Failure> {
    let named = |failure| repository::named(failure, repository);
    let answer = server.get(&format!("{}?verbose=false", path(&["_snapshot", repository, "_all"]))).map_err(named)?;
    if let Some(failure) = refused(&answer) {
        return Err(named(failure));
    }
    let list = answer.get("snapshots").and_then(Value::as_array).ok_or_else(|| odd(&answer))?;
    // What is known of the names is the server's memory; of one snapshot more, its file.
    if let Some(name) = list.last().and_then(|one| text(one, "/snapshot")) {
        find(server, repository, name)?;
    }
    Ok(list.len() as u64)
}

fn key(snapshot: &Snapshot) -> (Option<Timestamp>, &str) {
    (snapshot.started, &snapshot.name)
}

fn odd(answer: &Value) -> Failure {
    Failure::failed("answer_not_understood", "The server's answer about its snapshots is not understood.")
        .hint("Check that its version is one that svc-snap knows: svc-snap health shows it.")
        .cause(answer.to_string().chars().take(500).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_beside_an_empty_list_is_seen() {
        let failures = json!({"nowhere": {"type": "repository_missing_exception", "reason": "[nowhere] missing"}});
        let failure = refused(&json!({"snapshots": [], "failures": failures, "total": 0})).unwrap();
        assert_eq!((failure.status.code(), failure.code.as_str()), (4, "repository_not_found"));
        assert!(refused(&json!({"snapshots": [], "failures": {}})).is_none() && refused(&json!({"snapshots": []})).is_none());
    }
}
