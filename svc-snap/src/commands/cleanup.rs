//! `cleanup`: remove stale data from a repository (procedure, 4). It may take hours.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_step::{Action, Call, DryRun, StepResult, Stopped};

use crate::client::number;
use crate::repository::{self, RepositoryArg};
use crate::temporary::Left;

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  svc-snap cleanup --repository my_backup")]
pub struct CleanupArgs {
    #[command(flatten)]
    repository: RepositoryArg,
    #[command(flatten)]
    pub(crate) dry: DryRun,
}

/// A repository without stale data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CleanedUp {
    pub cluster_uuid: String,
    pub repository: String,
    /// How much was removed; `null` before the server has said it.
    pub deleted_bytes: Option<u64>,
    /// How many files were removed; `null` before the server has said it.
    pub deleted_blobs_count: Option<u64>,
    pub plan: Vec<Action>,
}

pub(crate) fn run(args: &CleanupArgs, call: &Call) -> StepResult<CleanedUp> {
    let server = args.repository.connect(call)?;
    let repository = args.repository.repository.clone();
    let _lock = repository::lock(call, &server, &repository, args.dry.dry_run)?;
    if repository::definition(&server, &repository)?.is_none() {
        return Err(repository::not_found(&repository).into());
    }
    let left = Left::find(call, &server, Some(&repository))?;
    let cleaned = CleanedUp {
        cluster_uuid: server.cluster_uuid.clone(),
        repository: repository.clone(),
        deleted_bytes: None,
        deleted_blobs_count: None,
        plan: left.actions().chain([Action::request("POST", repository::cleanup(&repository), None)]).collect(),
    };
    if args.dry.dry_run {
        return Ok(cleaned);
    }
    left.put_back(call, &server);
    let answer = repository::clean_up(call, &server, &repository).map_err(|failure| Stopped::with(failure, cleaned.clone()))?;
    let of = |key| number(&answer, key);
    let (deleted_bytes, deleted_blobs_count) = (of("/results/deleted_bytes"), of("/results/deleted_blobs"));
    Ok(CleanedUp { deleted_bytes, deleted_blobs_count, ..cleaned })
}
