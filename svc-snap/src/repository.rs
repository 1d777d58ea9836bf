//! The snapshot repository that a step works with.

pub(crate) mod name;
pub(crate) mod verdict;

use clap::Args;
use serde_json::Value;
use svc_step::common::DryRun;
use svc_step::lock::Lock;
use svc_step::{Call, Failure};

use crate::client::busy::{MOMENT, is_busy, patiently};
use crate::client::json::number;
use crate::client::path::path;
use crate::client::{Server, left_at_work};

/// Types of repositories whose settings the server shows whole. Others may have secrets in them that are never shown, and that a
/// repository written again would lose.
pub(crate) const SHOWN_WHOLE: [&str; 4] = ["fs", "gcs", "azure", "hdfs"];

/// Which repository.
#[derive(Debug, Clone, Args)]
pub struct RepositoryArg {
    #[arg(long, value_name = "NAME", env = "SVC_REPOSITORY", default_value = "my_backup", value_parser = name::repository)]
    pub repository: String,
}

/// One run at a time creates, deletes or registers in a repository of a cluster; a dry run does none of it.
pub(crate) fn lock(call: &Call, server: &Server, repository: &str, dry: &DryRun) -> Result<Option<Lock>, Failure> {
    if dry.dry_run { Ok(None) } else { hold(call, server, repository).map(Some) }
}

/// The same for whoever only puts something back there.
pub(crate) fn hold(call: &Call, server: &Server, repository: &str) -> Result<Lock, Failure> {
    Lock::take(call, "repository", &format!("{}.{repository}", server.cluster_uuid))
}

/// Who holds it, as [`Lock::holder`].
pub(crate) fn holder(call: &Call, server: &Server, repository: &str) -> Option<String> {
    Lock::holder(call, "repository", &format!("{}.{repository}", server.cluster_uuid))
}

/// The repository's definition as the server has it, `None` where none of that name is registered.
pub(crate) fn definition(server: &Server, repository: &str) -> Result<Option<Value>, Failure> {
    let found = server.find(&path(&["_snapshot", repository]))?;
    Ok(found.and_then(|all| all.get(repository).cloned()))
}

/// The path of a cleanup.
pub(crate) fn cleanup(repository: &str) -> String {
    path(&["_snapshot", repository, "_cleanup"])
}

/// Lets the server remove stale data from it, which may take hours, and gives its answer. A server that is busy is asked again for a
/// moment.
pub(crate) fn clean_up(call: &Call, server: &Server, repository: &str) -> Result<Value, Failure> {
    let is_change = |answer: &Value| number(answer, "/results/deleted_blobs") != Some(0);
    let clean = || server.change_slowly(call, "POST", &cleanup(repository), is_change);
    patiently(call, MOMENT, is_busy, clean).map_err(|failure| left_at_work(failure, "the cleanup of the repository"))
}

/// None of that name is registered.
pub(crate) fn not_found(repository: &str) -> Failure {
    Failure::not_found("repository_not_found", format!("The server has no snapshot repository {repository}."))
        .hint("svc-snap register --location DIR registers it; --repository (SVC_REPOSITORY) names another.")
}

/// The server's refusal, with the repository's name where it is the repository that is missing or damaged.
pub(crate) fn named(mut failure: Failure, repository: &str) -> Failure {
    match failure.code.as_str() {
        "repository_not_found" => failure.causes.into_iter().fold(not_found(repository), Failure::cause),
        "repository_damaged" => {
            failure.message = failure.message.replacen("The repository", &format!("The repository {repository}"), 1);
            failure
        }
        _ => failure,
    }
}
