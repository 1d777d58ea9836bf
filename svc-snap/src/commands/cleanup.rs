//! `cleanup`: remove stale data from a repository (procedure, 4). It may take hours.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use svc_step::action::Action;
use svc_step::common::DryRun;
use svc_step::{Call, StepResult, Stopped};

use crate::client::auth::Connection;
use crate::client::busy::{MOMENT, is_busy, patiently};
use crate::client::json::number;
use crate::client::path::path;
use crate::client::{Server, left_at_work};
use crate::repository::{self, RepositoryArg};
use crate::throttle::Left;

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
    let cleaned = CleanedUp {
        cluster_uuid: server.cluster_uuid.clone(),
        repository: repository.clone(),
        deleted_bytes: None,
        deleted_blobs_count: None,
        plan: left.actions().chain([Action::request("POST", request.as_str(), None)]).collect(),
    };
    if args.dry.dry_run {
        return Ok(cleaned);
    }
    left.put_back(call, &server);
    let blobs = |answer: &Value| number(answer, "/results/deleted_blobs");
    let clean = || server.change_slowly(call, "POST", &request, |answer| blobs(answer) != Some(0));
    match patiently(call, MOMENT, is_busy, clean) {
        Ok(answer) => {
            let deleted_bytes = number(&answer, "/results/deleted_bytes");
            Ok(CleanedUp { deleted_bytes, deleted_blobs_count: blobs(&answer), ..cleaned })
        }
        Err(failure) => Err(Stopped::with(left_at_work(failure, "the cleanup of the repository"), cleaned)),
    }
}
