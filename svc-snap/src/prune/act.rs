//! Deletes what is to go, one snapshot at a time, oldest first, and cleans up once at the end.

use std::time::Duration;

use svc_step::progress::Unit;
use svc_step::{Call, Failure, Status, StepResult, Stopped};

use super::{Becomes, Cleaned, Judged, Pruned};
use crate::repository::cleanup;
use crate::server::busy::{is_busy, patiently};
use crate::server::path::path;
use crate::server::{Server, left_at_work};
use crate::snapshot::{self, kept};

/// How long a server may be busy where no `--timeout` is given: a cleanup of somebody else may take its time.
const BUSY: Duration = Duration::from_secs(600);

pub(super) fn act(call: &Call, server: &Server, mut pruned: Pruned, clean: bool) -> StepResult<Pruned> {
    let ended = delete_all(call, server, &mut pruned)
        .and_then(|()| prove(server, &pruned))
        .and_then(|()| if clean { clean_up(call, server, &mut pruned) } else { Ok(()) });
    // What was to go and is there still, or may be, stays for now.
    let stays = |one: &&Judged| !matches!(one.fate, Becomes::Deleted | Becomes::Gone);
    pruned.kept_count = pruned.snapshots.iter().filter(stays).count() as u64;
    match ended {
        Ok(()) => Ok(pruned),
        Err(failure) => Err(Stopped::with(hinted(failure, &pruned), pruned)),
    }
}

fn delete_all(call: &Call, server: &Server, pruned: &mut Pruned) -> Result<(), Failure> {
    let progress = call.progress("prune", Unit::Items("snapshots"));
    let total = pruned.snapshots.iter().filter(|one| one.fate == Becomes::Planned).count() as u64;
    let repository = pruned.repository.clone();
    for one in pruned.snapshots.iter_mut().filter(|one| one.fate == Becomes::Planned) {
        progress.set(pruned.deleted_count, total);
        progress.at(&one.name);
        call.check()?;
        one.fate = Becomes::UnderWay;
        match delete(call, server, &repository, &one.name) {
            Ok(()) => one.fate = Becomes::Deleted,
            Err(failure) if failure.code == "snapshot_not_found" => one.fate = Becomes::Gone,
            Err(failure) => {
                let unknown = failure.signal.is_some() || failure.status == Status::Timeout;
                if failure.code == "answer_lost" && matches!(snapshot::find(server, &repository, &one.name), Ok(None)) {
                    // Only the answer was lost.
                    call.effects().happened();
                    one.fate = Becomes::Deleted;
                } else {
                    one.fate = if unknown { Becomes::UnderWay } else { Becomes::Planned };
                    return Err(failure);
                }
            }
        }
        pruned.deleted_count += u64::from(one.fate == Becomes::Deleted);
        kept::forget(call, server, &repository, &one.name);
    }
    Ok(())
}

/// Deletes one; a server that is busy is asked again, as long as the time limit allows.
fn delete(call: &Call, server: &Server, repository: &str, name: &str) -> Result<(), Failure> {
    let request = path(&["_snapshot", repository, name]);
    let patience = call.deadline().remaining().unwrap_or(BUSY);
    patiently(call, patience, is_busy, || server.change_slowly(call, "DELETE", &request, |_| true)).map(drop)
}

/// One look at the end: what was deleted is not there any more.
fn prove(server: &Server, pruned: &Pruned) -> Result<(), Failure> {
    let left = snapshot::all(server, &pruned.repository)?;
    let gone = pruned.snapshots.iter().filter(|one| one.fate == Becomes::Deleted);
    let uuids: std::collections::BTreeSet<&str> = left.iter().map(|one| one.uuid.as_str()).collect();
    let still: Vec<&str> = gone.filter(|one| uuids.contains(one.uuid.as_str())).map(|one| one.name.as_str()).collect();
    if still.is_empty() {
        return Ok(());
    }
    Err(Failure::failed(
        "snapshot_still_there",
        format!("Snapshots are still there although their removal was acknowledged: {}.", still.join(", ")),
    )
    .hint("Run the same command again."))
}

/// A cleanup that cannot run just now is no failure: the next prune makes up for it.
fn clean_up(call: &Call, server: &Server, pruned: &mut Pruned) -> Result<(), Failure> {
    match cleanup::clean(call, server, &pruned.repository) {
        Ok(removed) => {
            let (deleted_bytes, deleted_blobs_count) = (removed.bytes.unwrap_or(0), removed.blobs.unwrap_or(0));
            pruned.cleaned = Some(Cleaned { deleted_bytes, deleted_blobs_count });
        }
        Err(failure) if is_busy(&failure) => {
            call.warn(
                "cleanup_busy",
                "The repository was not cleaned up, since the server is busy; svc-snap cleanup does it later.",
            );
        }
        Err(failure) => return Err(failure),
    }
    Ok(())
}

fn hinted(failure: Failure, pruned: &Pruned) -> Failure {
    let failure = left_at_work(failure, "what it was asked for");
    if is_busy(&failure) {
        return failure.hint(format!(
            "{} snapshots are deleted; run the same command again in a while, which goes on, or allow more time with --timeout.",
            pruned.deleted_count
        ));
    }
    failure
}
