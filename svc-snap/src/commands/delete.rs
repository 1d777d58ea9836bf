//! `delete`: remove one snapshot.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_step::action::Action;
use svc_step::common::DryRun;
use svc_step::from::Accept;
use svc_step::{Call, Failure, StepResult, Stopped};

use crate::connection::Connection;
use crate::repository;
use crate::server::path::path;
use crate::server::{Server, left_at_work};
use crate::snapshot::source::{Source, SourceArgs};
use crate::snapshot::{self, Snapshot, kept, verdict};
use crate::throttle::Left;

/// Arguments of `svc-snap delete`.
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
    #[command(flatten)]
    connection: Connection,
}

/// A snapshot that is not there any more.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Deleted {
    /// The cluster's `cluster_uuid`.
    pub cluster_uuid: String,
    /// The repository.
    pub repository: String,
    /// The snapshot's name.
    pub name: String,
    /// The snapshot as it was; `null` where the `--from` document's had gone already, or where its own file is lost.
    pub snapshot: Option<Snapshot>,
    /// What is done.
    pub plan: Vec<Action>,
}

pub(crate) fn run(args: &DeleteArgs, call: &Call) -> StepResult<Deleted> {
    let source = args.source.read(call, Accept::Good)?;
    let server = Server::connect(&args.connection, call)?;
    source.check_server(&server, args.source.other)?;
    let _lock = repository::lock(call, &server, &source.repository, &args.dry)?;
    let (found, unread) = look(&server, &source)?;
    match &unread {
        Some(why) => call.warn("snapshot_not_read", format!("What the snapshot {} is could not be read: {why}", source.name)),
        None => check(args, &source, found.as_ref())?,
    }
    let is_there = found.is_some() || unread.is_some();
    let left = Left::find(call, &server, Some(&source.repository))?;
    let request = path(&["_snapshot", &source.repository, &source.name]);
    let deleted = Deleted {
        cluster_uuid: server.cluster_uuid.clone(),
        repository: source.repository.clone(),
        name: source.name.clone(),
        plan: is_there.then(|| Action::request("DELETE", request.clone(), None)).into_iter().chain(left.actions()).collect(),
        snapshot: found,
    };
    if deleted.plan.is_empty() || args.dry.dry_run {
        return Ok(deleted);
    }
    if !is_there {
        left.put_back(call, &server);
        return Ok(deleted);
    }
    let sent = server.change_slowly(call, "DELETE", &request, |_| true);
    // The server may fall silent behind it, and nothing is left to be carried to its end: a signal is heard all the same.
    let looks = server.for_looks();
    let gone = match sent {
        Ok(_) => prove(&looks, &source),
        // Only the answer was lost.
        Err(failure) if failure.code == "answer_lost" && prove(&looks, &source).is_ok() => {
            call.effects().happened();
            Ok(())
        }
        Err(failure) => Err(left_at_work(failure, &format!("the removal of the snapshot {}", source.name))),
    };
    if let Err(failure) = gone {
        return Err(Stopped::with(failure, deleted));
    }
    kept::forget(call, &server, &source.repository, &source.name);
    // Only now, since OpenSearch 1 changes no repository while a snapshot runs.
    left.put_back(call, &server);
    Ok(deleted)
}

/// The snapshot; where it is meant by its name and its own file is lost, why it cannot be read: the server may remove it all
/// the same.
fn look(server: &Server, source: &Source) -> Result<(Option<Snapshot>, Option<Failure>), Failure> {
    match snapshot::find(server, &source.repository, &source.name) {
        Err(why) if why.code == "repository_damaged" && source.document.is_none() => Ok((None, Some(why))),
        found => Ok((found?, None)),
    }
}

fn check(args: &DeleteArgs, source: &Source, found: Option<&Snapshot>) -> Result<(), Failure> {
    match found {
        Some(found) if found.is_under_way() && !args.cancel => Err(verdict::under_way(&source.repository, &source.name)
            .hint(format!("Wait for it (svc-snap wait {} --repository {}), or pass --cancel.", source.name, source.repository))),
        Some(found) => source.check_uuid(found),
        // The document's snapshot had been there: it is gone already. A name may be mistyped.
        None if source.document.is_some() => Ok(()),
        None => Err(snapshot::not_found(&source.repository, &source.name)),
    }
}

fn prove(server: &Server, source: &Source) -> Result<(), Failure> {
    match snapshot::find(server, &source.repository, &source.name)? {
        None => Ok(()),
        Some(_) => Err(Failure::failed(
            "snapshot_still_there",
            format!("The snapshot {} is still there although its removal was acknowledged.", source.name),
        )
        .hint("Run the same command again.")),
    }
}
