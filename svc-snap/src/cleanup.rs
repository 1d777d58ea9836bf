//! `cleanup`: remove stale data from a repository (procedure, 4). It may take hours.

use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use svc_step::action::Action;
use svc_step::common::DryRun;
use svc_step::{Call, Failure, StepResult, Stopped};

use crate::connection::Connection;
use crate::rate::left::Left;
use crate::repository::{self, RepositoryArg};
use crate::server::path::path;
use crate::server::{Server, left_at_work};

/// How long a server may say that it is busy, and the pause before it is asked again.
const BUSY: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(500);

/// Arguments of `svc-snap cleanup`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  svc-snap cleanup --repository my_backup")]
pub struct CleanupArgs {
    #[command(flatten)]
    repository: RepositoryArg,
    #[command(flatten)]
    pub(crate) dry: DryRun,
    #[command(flatten)]
    connection: Connection,
}

/// A repository without stale data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CleanedUp {
    /// The cluster's `cluster_uuid`.
    pub cluster_uuid: String,
    /// The repository.
    pub repository: String,
    /// How much was removed; `null` before the server has said it.
    pub deleted_bytes: Option<u64>,
    /// How many files were removed; `null` before the server has said it.
    pub deleted_blobs_count: Option<u64>,
    /// What is done.
    pub plan: Vec<Action>,
}

pub(crate) fn run(args: &CleanupArgs, call: &Call) -> StepResult<CleanedUp> {
    let server = Server::connect(&args.connection, call)?;
    let repository = args.repository.repository.clone();
    let _lock = repository::lock(call, &server, &repository, &args.dry)?;
    if repository::definition(&server, &repository)?.is_none() {
        return Err(repository::not_found(&repository).into());
    }
    let left = Left::find(call, &server, Some(&repository))?;
    let request = path(&["_snapshot", &repository, "_cleanup"]);
    let mut cleaned = CleanedUp {
        cluster_uuid: server.cluster_uuid.clone(),
        repository: repository.clone(),
        deleted_bytes: None,
        deleted_blobs_count: None,
        plan: left.actions().chain([Action::request("POST", request.clone(), None)]).collect(),
    };
    if args.dry.dry_run {
        return Ok(cleaned);
    }
    left.put_back(call, &server);
    match clean(call, &server, &request) {
        Ok(answer) => {
            cleaned.deleted_bytes = number(&answer, "deleted_bytes");
            cleaned.deleted_blobs_count = number(&answer, "deleted_blobs");
            Ok(cleaned)
        }
        Err(failure) => Err(Stopped::with(failure, cleaned)),
    }
}

/// Cleans up, with some patience: a server may still be at the end of another cleanup or removal just after it has answered
/// that one.
///
/// # Errors
/// As [`Server::change_slowly`].
pub(crate) fn clean(call: &Call, server: &Server, request: &str) -> Result<Value, Failure> {
    let until = Instant::now() + BUSY;
    loop {
        let ended = server.change_slowly(call, "POST", request, |answer| number(answer, "deleted_blobs") != Some(0));
        match ended {
            Err(failure) if failure.code == "search_busy" && Instant::now() < until => call.pause(PAUSE)?,
            ended => return ended.map_err(|failure| left_at_work(failure, "the cleanup of the repository")),
        }
    }
}

/// A number of a cleanup's answer.
pub(crate) fn number(answer: &Value, key: &str) -> Option<u64> {
    answer.get("results")?.get(key)?.as_u64()
}
