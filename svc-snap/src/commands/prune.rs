//! `prune`: delete the snapshots that are not needed, by the rules of [`retention`], one at a time and oldest first.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_step::retention::{Reason, Retention};
use svc_step::{Accept, Action, Call, DryRun, Failure, Status, StepResult, Stopped, Unit, retention};

use crate::client::{Server, continues_by_itself, is_busy, path};
use crate::repository::RepositoryArg;
use crate::snapshot::{Item, Kind, Snapshot, Source, captured, verdict};
use crate::temporary::Left;
use crate::{repository, snapshot};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  svc-snap prune --dry-run | jq -r '.result.snapshots[] | [.name, .outcome, .reason] | @tsv'
  svc-snap prune --max-age 30d --max-count 30 --min-count 7
  svc-snap prune --kind upgrade --max-age none --max-count 3 --min-count 1 \\
    --keep-from /var/backups/svc/*/snapshot.json

Only snapshots that svc-snap took count, each kind on its own, and only valid ones. The newest valid
one of a kind is never deleted. Restore points and their snapshots: svc-backup --prune.")]
pub struct PruneArgs {
    #[command(flatten)]
    retention: Retention,
    /// Those of this kind (repeatable)
    #[arg(long = "kind", id = "kind", value_enum, default_value = "nightly")]
    kinds: Vec<Kind>,
    /// Never the snapshots of these documents (create, wait, show), such as the snapshot.json of each restore point
    #[arg(long, value_name = "FILE", num_args = 1..)]
    keep_from: Vec<PathBuf>,
    #[command(flatten)]
    repository: RepositoryArg,
    #[command(flatten)]
    pub(crate) dry: DryRun,
}

/// A repository without the snapshots that are not needed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Pruned {
    pub cluster_uuid: String,
    pub repository: String,
    /// Every snapshot of the repository as it was found, oldest first.
    pub snapshots: Vec<Pruning>,
    pub deleted_count: u64,
    pub plan: Vec<Action>,
}

/// A snapshot, why it stays or goes, and what has become of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Pruning {
    #[serde(flatten)]
    pub item: Item,
    pub reason: Reason,
    pub outcome: Outcome,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Kept,
    /// It is to go, and was not touched yet.
    Planned,
    /// Its removal was asked for, and the outcome is unknown.
    Unknown,
    Deleted,
    /// It was to go, and another client has deleted it meanwhile.
    Gone,
}

pub(crate) fn run(args: &PruneArgs, call: &Call) -> StepResult<Pruned> {
    let keep = keep_from(call, &args.keep_from)?;
    let server = args.repository.connect(call)?;
    let repository = args.repository.repository.as_str();
    let _lock = repository::lock(call, &server, repository, args.dry.dry_run)?;
    let found = snapshot::all(&server, repository)?;
    let left = Left::find(call, &server, Some(repository))?;
    let kinds: Vec<String> = args.kinds.iter().map(|kind| kind.name()).collect();
    let items = found.iter().map(|one| retention::Item {
        kind: one.kind.as_deref().unwrap_or_default(),
        made: one.started.unwrap_or_default(),
        state: state(repository, one, &kinds, &keep),
    });
    let reasons = args.retention.reasons(&items.collect::<Vec<_>>(), call.started_at());
    let outcome = |reason: Reason| if reason.removes() { Outcome::Planned } else { Outcome::Kept };
    let snapshots = found.into_iter().zip(reasons);
    let snapshots: Vec<Pruning> =
        snapshots.map(|(one, reason)| Pruning { item: Item::of(repository, one), reason, outcome: outcome(reason) }).collect();
    let goes = snapshots.iter().filter(|one| one.outcome == Outcome::Planned);
    let requests: Vec<Action> =
        goes.map(|one| Action::request("DELETE", path(&["_snapshot", repository, &one.item.name]), None)).collect();
    let cleanup = (!requests.is_empty()).then(|| Action::request("POST", repository::cleanup(repository), None));
    let mut pruned = Pruned {
        cluster_uuid: server.cluster_uuid.clone(),
        repository: repository.to_owned(),
        plan: requests.into_iter().chain(cleanup).chain(left.actions()).collect(),
        snapshots,
        deleted_count: 0,
    };
    if pruned.plan.is_empty() || args.dry.dry_run {
        return Ok(pruned);
    }
    let ended = delete_all(call, &server, &mut pruned);
    let ended = ended.map_err(|failure| continues_by_itself(call, failure, false, "what it was asked for"));
    let ended = ended.and_then(|()| if pruned.deleted_count > 0 { clean_up(call, &server, &pruned) } else { Ok(()) });
    // Only now, since OpenSearch 1 changes no repository while a snapshot is running.
    left.put_back(call, &server);
    Stopped::ended(ended, pruned)
}

/// The names and uuids of snapshots that stay. A name is enough: a repository may have been registered again under another name.
fn keep_from(call: &Call, paths: &[PathBuf]) -> Result<Vec<String>, Failure> {
    let mut keep = Vec::new();
    for path in paths {
        let source = Source::read(call, path, Accept::Unfinished)?;
        keep.extend(source.document.and_then(|document| document.snapshot).map(|snapshot| snapshot.uuid));
        keep.push(source.name);
    }
    Ok(keep)
}

fn state(repository: &str, snapshot: &Snapshot, kinds: &[String], keep: &[String]) -> retention::State {
    use retention::State::{Exempt, Invalid, Valid};
    let Some(kind) = snapshot.kind.as_ref().filter(|_| snapshot.run_id.is_some()) else { return Exempt(Reason::NotOurs) };
    match snapshot.state.as_str() {
        _ if !kinds.contains(kind) => Exempt(Reason::OtherKind),
        _ if keep.contains(&snapshot.name) || keep.contains(&snapshot.uuid) => Exempt(Reason::KeepFrom),
        _ if snapshot.is_under_way() => Exempt(Reason::Running),
        _ if snapshot.started.is_none() => Exempt(Reason::Unknown),
        "SUCCESS" if verdict::check(repository, snapshot, &[]).is_ok() => Valid,
        "SUCCESS" | "PARTIAL" | "FAILED" => Invalid,
        _ => Exempt(Reason::Unknown),
    }
}

fn delete_all(call: &Call, server: &Server, pruned: &mut Pruned) -> Result<(), Failure> {
    let progress = call.progress("prune", Unit::Items("snapshots"));
    let Pruned { repository, snapshots, deleted_count, .. } = pruned;
    let total = snapshots.iter().filter(|one| one.outcome == Outcome::Planned).count() as u64;
    for one in snapshots.iter_mut().filter(|one| one.outcome == Outcome::Planned) {
        progress.set(*deleted_count, total, None);
        progress.at(&one.item.name);
        call.check()?;
        match captured::delete(call, server, repository, &one.item.name, &one.item.uuid) {
            Ok(()) => {
                one.outcome = Outcome::Deleted;
                *deleted_count += 1;
            }
            Err(failure) if failure.code == "snapshot_not_found" => one.outcome = Outcome::Gone,
            Err(failure) => {
                if failure.signal.is_some() || failure.status == Status::Timeout {
                    one.outcome = Outcome::Unknown;
                }
                return Err(failure);
            }
        }
    }
    Ok(())
}

/// One at the end. If the server is busy, the next prune makes up for it.
fn clean_up(call: &Call, server: &Server, pruned: &Pruned) -> Result<(), Failure> {
    match repository::clean_up(call, server, &pruned.repository) {
        Err(failure) if is_busy(&failure) => {
            let later = server.command(call, &["cleanup", "--repository", &pruned.repository]);
            call.warn("server_busy", format!("The repository was not cleaned up: the server is busy. {later} does it later."));
            Ok(())
        }
        ended => ended.map(drop),
    }
}

#[cfg(test)]
mod tests {
    use retention::State::{Exempt, Invalid, Valid};
    use serde_json::json;

    use super::*;

    #[test]
    fn only_ours_of_the_kind_whose_state_is_known_are_counted() {
        let ours = json!({"svc_tools": {"run_id": "r", "kind": "nightly"}});
        for (change, wanted) in [
            (json!({}), Valid),
            (json!({"state": "PARTIAL"}), Invalid),
            (json!({"state": "FAILED"}), Invalid),
            (json!({"indices": []}), Invalid),
            (json!({"state": "IN_PROGRESS"}), Exempt(Reason::Running)),
            (json!({"state": "INCOMPATIBLE"}), Exempt(Reason::Unknown)),
            (json!({"start_time_in_millis": 0}), Exempt(Reason::Unknown)),
            (json!({"metadata": {"kind": "nightly"}}), Exempt(Reason::NotOurs)),
            (json!({"metadata": {"svc_tools": {"kind": "nightly"}}}), Exempt(Reason::NotOurs)),
            (json!({"metadata": {"svc_tools": {"run_id": "r"}}}), Exempt(Reason::NotOurs)),
            (json!({"metadata": {"svc_tools": {"run_id": "r", "kind": "manual"}}}), Exempt(Reason::OtherKind)),
            (json!({"snapshot": "kept"}), Exempt(Reason::KeepFrom)),
            (json!({"uuid": "kept", "state": "PARTIAL"}), Exempt(Reason::KeepFrom)),
        ] {
            let mut value = json!({"snapshot": "s", "uuid": "u", "indices": ["a"], "state": "SUCCESS", "metadata": ours,
                "start_time_in_millis": 1, "shards": {"total": 1, "failed": 0, "successful": 1}});
            value.as_object_mut().unwrap().extend(change.as_object().into_iter().flat_map(Clone::clone));
            let snapshot = Snapshot::read(&value).unwrap();
            assert_eq!(state("r", &snapshot, &["nightly".to_owned()], &["kept".to_owned()]), wanted, "{change}");
        }
    }
}
