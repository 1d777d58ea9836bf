//! A staging carried out: brought back, and proven.

use svc_step::{Call, Failure, Status, swaps};

use super::take_back::take_back_all;
use crate::bring::chosen::Chosen;
use crate::bring::{self, Bring};
use crate::index::look;
use crate::runs;
use crate::runs::staged::{StageState, Staged, StagedIndex, StagedStream};
use crate::server::Server;
use crate::throttle::Rates;

/// Brings `brings` back and proves them; a failure or a signal leaves nothing of them behind. The plan is noted before the
/// first effect, so that `--run` finds what a killed call left.
///
/// # Errors
/// Whatever stopped it, after what it had brought was removed.
pub(crate) fn bring_back(
    call: &Call,
    chosen: &Chosen,
    brings: &[Bring],
    staged: &mut Staged,
    rates: &mut Rates<'_>,
) -> Result<(), Failure> {
    swaps::write(call, call.run_id(), "stage", staged)?;
    let mut lost = Vec::new();
    let brought = rates.during(call, &chosen.server, || bring_and_prove(call, chosen, brings, staged, &mut lost));
    staged.rate = rates.used();
    match brought {
        Ok(()) => {
            runs::note_end(call, call.run_id(), "stage", staged);
            Ok(())
        }
        Err(failure) => Err(take_back_all(call, &chosen.server, staged, &lost, failure)),
    }
}

/// `lost` gets the names that a request was to bring whose answer was lost.
fn bring_and_prove(
    call: &Call,
    chosen: &Chosen,
    brings: &[Bring],
    staged: &mut Staged,
    lost: &mut Vec<String>,
) -> Result<(), Failure> {
    call.check()?;
    let all = staged.with_proofs(brings);
    for request in bring::requests(call.run_id(), &chosen.origin.repository, &chosen.origin.snapshot, &all) {
        call.people().detail(&format!("POST {}", request.path));
        let sent = chosen.server.change(call, "POST", &request.path, Some(&request.body));
        let is_lost = sent.as_ref().is_err_and(|failure| failure.status == Status::Timeout);
        // What was refused is not ours: a call of the same run on another host may have it. After a lost answer only the names
        // that nobody else has are surely ours to remove.
        let asked = staged.indices.iter_mut().filter(|one| request.brings.contains(&one.index));
        asked.filter(|one| sent.is_ok() || (is_lost && !one.is_straight())).for_each(|one| one.state = StageState::Restoring);
        let is_brought = |one: &StagedStream| one.brings().any(|proof| request.brings.contains(&proof.index));
        let proofs = staged.streams.iter_mut().filter(|one| is_brought(one) && (sent.is_ok() || is_lost));
        proofs.for_each(|one| one.proof = StageState::Restoring);
        if is_lost {
            lost.extend(all.iter().filter(|one| request.brings.contains(&one.index)).map(|one| one.target.clone()));
        }
        sent?;
        record_direct(call, &chosen.server, staged)?;
    }
    let found = bring::follow(call, &chosen.server, &staged.names())?;
    let brought: Vec<(&str, Option<u64>)> = staged.indices.iter().map(|one| (one.staged.as_str(), one.docs_expected)).collect();
    let counts = bring::prove_counts(&chosen.server, &brought)?;
    call.check()?;
    for (one, count) in staged.indices.iter_mut().zip(counts) {
        one.docs_count = Some(count);
        one.uuid = found.get(&one.staged).map(|index| index.uuid.clone());
        one.state = StageState::Proven;
    }
    for one in staged.streams.iter_mut().filter(|one| !one.copies.is_empty()) {
        call.check()?;
        let proofs: Vec<Bring> = one.brings().collect();
        let proofs: Vec<(&str, Option<u64>)> =
            proofs.iter().map(|proof| (proof.target.as_str(), chosen.docs_expected(&proof.index))).collect();
        bring::prove_counts(&chosen.server, &proofs)?;
        bring::remove(call, &chosen.server, &one.copies.iter().map(String::as_str).collect::<Vec<_>>())?;
        one.proof = StageState::Proven;
    }
    Ok(())
}

/// What lies under a live name is noted as soon as the server has it: by its `uuid` a later call knows it from a client's.
fn record_direct(call: &Call, server: &Server, staged: &mut Staged) -> Result<(), Failure> {
    let asked = |one: &StagedIndex| one.is_straight() && one.state == StageState::Restoring && one.uuid.is_none();
    let names: Vec<String> = staged.indices.iter().filter(|one| asked(one)).map(|one| one.index.clone()).collect();
    if names.is_empty() {
        return Ok(());
    }
    let found = look(server, &names.iter().map(String::as_str).collect::<Vec<_>>())?;
    for one in staged.indices.iter_mut().filter(|one| asked(one)) {
        one.uuid = found.get(&one.index).map(|index| index.uuid.clone());
    }
    swaps::write(call, call.run_id(), "stage", staged)
}
