//! `delete`: remove one snapshot.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_step::{Accept, Action, Call, DryRun, Failure, StepResult, Stopped};

use crate::client::{Server, continues_by_itself, path};
use crate::index::clone::{wait_for_requests, wait_for_tasks};
use crate::snapshot::{Snapshot, Source, SourceArgs, captured, verdict};
use crate::temporary::Left;
use crate::{repository, snapshot};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  svc-snap delete snapshot_svc_20261120
  svc-snap delete --from snapshot.json")]
pub struct DeleteArgs {
    #[command(flatten)]
    source: SourceArgs,
    /// Also cancel one that is being taken
    #[arg(long)]
    cancel: bool,
    #[command(flatten)]
    pub(crate) dry: DryRun,
}

/// A snapshot that is not there any more.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Deleted {
    pub cluster_uuid: String,
    pub repository: String,
    pub name: String,
    /// The snapshot as it was; `null` if the `--from` document's had gone already, or if its own file is lost.
    pub snapshot: Option<Snapshot>,
    pub plan: Vec<Action>,
}

pub(crate) fn run(args: &DeleteArgs, call: &Call) -> StepResult<Deleted> {
    let source = args.source.read(call, Accept::Successful)?;
    let Source { repository, name, .. } = &source;
    let server = args.source.connect(call, &source)?;
    let _lock = repository::lock(call, &server, repository, args.dry.dry_run)?;
    let (is_there, found) = match source.find(&server) {
        // The server deletes one whose own file is lost, too; its list has the uuid.
        Err(why) if why.code == "repository_damaged" => {
            snapshot::find_listed(&server, repository, name)?.map_or(Ok(()), |listed| source.check_uuid(&listed))?;
            call.warn("not_checked", format!("The snapshot {name} could not be read: {why}"));
            (true, None)
        }
        found => {
            let mut found = found?;
            if found.is_none() && args.cancel {
                // A call that was killed may have asked for it: the server reads the repository before it shows it.
                wait_for_tasks(&server, "cluster:admin/snapshot/create");
                wait_for_requests(&server)?;
                found = source.find(&server)?;
            }
            check(args, call, &server, &source, found.as_ref())?;
            (found.is_some(), found)
        }
    };
    let left = Left::find(call, &server, Some(repository))?;
    let request = is_there.then(|| Action::request("DELETE", path(&["_snapshot", repository, name]), None));
    let deleted = Deleted {
        cluster_uuid: server.cluster_uuid.clone(),
        repository: repository.clone(),
        name: name.clone(),
        snapshot: found,
        plan: request.into_iter().chain(left.actions()).collect(),
    };
    if deleted.plan.is_empty() || args.dry.dry_run {
        return Ok(deleted);
    }
    let uuid = deleted.snapshot.as_ref().map_or("", |snapshot| &snapshot.uuid);
    if is_there && let Err(failure) = captured::delete(call, &server, repository, name, uuid) {
        let what = format!("the removal of the snapshot {name}");
        return Err(Stopped::with(continues_by_itself(call, failure, false, &what), deleted));
    }
    // Only now, since OpenSearch 1 changes no repository while a snapshot is running.
    left.put_back(call, &server);
    Ok(deleted)
}

fn check(args: &DeleteArgs, call: &Call, server: &Server, source: &Source, found: Option<&Snapshot>) -> Result<(), Failure> {
    let Source { repository, name, .. } = source;
    match found {
        Some(found) if found.is_under_way() && !args.cancel => {
            let wait = server.command(call, &["wait", name, "--repository", repository]);
            Err(verdict::under_way(repository, name).hint(format!("Wait for it ({wait}), or pass --cancel.")))
        }
        Some(found) => source.check_uuid(found),
        // The document's snapshot had been there, and is gone already. A name may be mistyped.
        None if source.document.is_some() => Ok(()),
        None => Err(snapshot::not_found(call, server, repository, name)),
    }
}
