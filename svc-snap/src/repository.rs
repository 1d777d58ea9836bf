//! The snapshot repository that a step works with.

use clap::Args;
use serde_json::Value;
use svc_step::{Call, Failure, Lock, lock};

use crate::client::{Connection, RETRY_BUSY_FOR, Server, continues_by_itself, members, number, path, retry_while_busy, text};

/// Types of repositories whose settings the server shows completely. Others may have secrets, which a new definition would lose.
pub(crate) const SHOWN_COMPLETELY: [&str; 4] = ["fs", "gcs", "azure", "hdfs"];

/// A repository, and the server that has it.
#[derive(Debug, Clone, Args)]
pub struct RepositoryArg {
    #[command(flatten)] // Before the name: what clap has read is not there for what it reads after it.
    connection: Connection,
    #[arg(long, value_name = "NAME", env = "SVC_REPOSITORY", default_value = "my_backup", value_parser = repository_name)]
    pub repository: String,
}

impl RepositoryArg {
    pub(crate) fn connect(&self, call: &Call) -> Result<Server, Failure> {
        Server::connect(&self.connection, call)
    }

    /// Refuses a name on the command line that is not a document's (2). A setting may name another one: scripts have it for every step.
    pub(crate) fn check_given(&self, of_document: &str) -> Result<(), Failure> {
        if self.repository == of_document || !self.connection.is_given("repository") {
            return Ok(());
        }
        let message = format!("The document is of the repository {of_document}, and --repository names {}.", self.repository);
        let hint = "Leave --repository out; or pass --other-server too if the directory is registered under that name now.";
        Err(Failure::usage("options_invalid", message).hint(hint))
    }
}

/// One run at a time creates, deletes or registers in a repository of a cluster; a dry run does none of it.
pub(crate) fn lock(call: &Call, server: &Server, repository: &str, dry_run: bool) -> Result<Option<Lock>, Failure> {
    let (kind, name) = lock_name(server, repository);
    Lock::unless_dry(call, kind, &name, dry_run)
}

/// Whose holder may have left a change of the repository's settings.
pub(crate) fn lock_name(server: &Server, repository: &str) -> (&'static str, String) {
    ("repository", lock::repository(&server.cluster_uuid, repository))
}

/// The repository's definition as the server has it, `None` if none of that name is registered.
pub(crate) fn definition(server: &Server, repository: &str) -> Result<Option<Value>, Failure> {
    let found = server.find(&path(&["_snapshot", repository]))?;
    Ok(found.and_then(|all| all.get(repository).cloned()))
}

/// Lets every node write to the repository, and gives the names of the nodes; the causes name one that cannot (7).
pub(crate) fn verify_nodes(server: &Server, repository: &str) -> Result<Vec<String>, Failure> {
    let answer = server.post(&path(&["_snapshot", repository, "_verify"]), None).map_err(|failure| named(failure, repository))?;
    let nodes = answer.get("nodes").into_iter().flat_map(members);
    let mut nodes: Vec<String> = nodes.map(|(id, node)| text(node, "/name").unwrap_or(id).to_owned()).collect();
    nodes.sort();
    Ok(nodes)
}

pub(crate) fn cleanup(repository: &str) -> String {
    path(&["_snapshot", repository, "_cleanup"])
}

/// Lets the server remove stale data from it, which may take hours, and gives its answer.
pub(crate) fn clean_up(call: &Call, server: &Server, repository: &str) -> Result<Value, Failure> {
    let clean = || {
        let attempt = call.effects().attempt();
        let pending = server.start("POST", &cleanup(repository), None);
        pending.finish(call, attempt, |answer| number(answer, "/results/deleted_blobs") != Some(0))
    };
    retry_while_busy(call, RETRY_BUSY_FOR, clean)
        .map_err(|failure| continues_by_itself(call, failure, false, "the cleanup of the repository"))
}

pub(crate) fn not_found(repository: &str) -> Failure {
    Failure::not_found("repository_not_found", format!("The server has no snapshot repository {repository}.")).hint(format!(
        "svc-snap register --repository {repository} --location DIR registers it; --repository (SVC_REPOSITORY) names another."
    ))
}

/// The server's refusal, with the repository's name if it is the repository that is missing or damaged.
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

pub(crate) fn repository_name(text: &str) -> Result<String, String> {
    checked_name("repository", text, false)
}

/// Checks a name; `lower`: whether it may have no upper-case letters.
pub(crate) fn checked_name(what: &str, text: &str, lower: bool) -> Result<String, String> {
    const FORBIDDEN: &[char] = &['\\', '/', '*', '?', '"', '<', '>', '|', ',', '#', ':'];
    let is_refused =
        |one: char| FORBIDDEN.contains(&one) || one.is_whitespace() || one.is_control() || lower && one.is_uppercase();
    if matches!(text, "" | "." | "..") || text.starts_with(['_', '-']) || text.len() > 255 || text.chars().any(is_refused) {
        let case = if lower { ", no upper-case letters" } else { "" };
        return Err(format!(
            "`{text}` is not a valid {what} name: 1 to 255 bytes, no white space{case}, none of \\ / * ? \" < > | , # :, no _ or - first"
        ));
    }
    Ok(text.to_owned())
}
