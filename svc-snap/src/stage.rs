//! `stage`: a snapshot restored beside the live indices and proven there, without an effect on them.

mod streams;

use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_step::action::Action;
use svc_step::common::DryRun;
use svc_step::{Call, Failure, Status, StepResult, Stopped, swaps};

use crate::bring::chosen::{Chosen, WhatArgs};
use crate::bring::origin::Origin;
use crate::bring::room;
use crate::bring::streams::StreamBack;
use crate::bring::{self, Bring};
use crate::guard;
use crate::index::copies;
use crate::index::look;
use crate::index::resolve::PassedOver;
use crate::index::shape::Shape;
use crate::rate::{RateUsed, Rates};
use crate::runs::{self, Begun};
use crate::server::Server;
use crate::server::path::path;

pub use streams::StagedStream;

/// How long what a request was to bring is waited for when its answer was lost, and how often it is looked for.
const PATIENCE: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(200);

/// Arguments of `svc-snap stage`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  svc-snap stage --from snapshot.json > staged.json && svc-snap swap --from staged.json")]
pub struct StageArgs {
    #[command(flatten)]
    what: WhatArgs,
    #[command(flatten)]
    streams: StreamsArg,
    #[command(flatten)]
    pub(crate) dry: DryRun,
}

/// What to do with data streams.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub(crate) struct StreamsArg {
    /// Restore data streams, which cannot be staged, in place after the swap; nothing of what is live of them is kept
    #[arg(long)]
    pub streams_in_place: bool,
}

/// A snapshot that lies beside the live indices, proven.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Staged {
    /// The snapshot.
    #[serde(flatten)]
    pub origin: Origin,
    /// The run whose copies these are; their names hold it, and `--run` takes it.
    pub run: String,
    /// The patterns that were asked for.
    pub asked_for: String,
    /// Every index that is brought back.
    pub indices: Vec<StagedIndex>,
    /// Every data stream that is restored in place after the swap.
    #[serde(default)]
    pub streams: Vec<StagedStream>,
    /// What else the snapshot holds, and why it is not brought back.
    pub skipped: Vec<PassedOver>,
    /// The cluster's brake, where `--rate` speaks of it; else `null`.
    #[serde(default)]
    pub rate: Option<RateUsed>,
    /// The requests, in their order.
    pub plan: Vec<Action>,
}

/// One index of a snapshot, brought back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StagedIndex {
    /// Its name in the snapshot.
    pub index: String,
    /// The name under which it lies; the same one where nothing was live and it was restored straight under its name.
    pub staged: String,
    /// How far it has come.
    pub state: StageState,
    /// The `uuid` of what lies there, or `null` before it is proven.
    pub uuid: Option<String>,
    /// How many documents it holds, or `null` before it is proven.
    pub docs_count: Option<u64>,
    /// How many documents the backup noted, or `null` where it noted none or writes went on meanwhile.
    pub docs_expected: Option<u64>,
    /// What the backup noted of it beside its documents, or `null` without the document of `create`.
    pub shape_noted: Option<Shape>,
}

impl StagedIndex {
    /// Whether nothing was live under its name and it was restored straight under it.
    pub(crate) fn is_straight(&self) -> bool {
        self.staged == self.index
    }
}

/// How far an index has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StageState {
    /// Nothing was asked of the server yet.
    Planned,
    /// The server was asked for it, and it is not proven.
    Restoring,
    /// It is whole, and holds as many documents as were noted.
    Proven,
    /// It was removed again, since the staging did not succeed.
    Removed,
}

impl Staged {
    /// The plan of a staging: each index, and where it is brought to.
    pub(crate) fn plan(call: &Call, chosen: &Chosen, brings: &[Bring], streams: Vec<StreamBack>) -> Self {
        let streams: Vec<StagedStream> = streams.into_iter().map(|back| StagedStream::planned(call.run_id(), back)).collect();
        let proofs: Vec<Bring> = streams.iter().flat_map(StagedStream::brings).collect();
        let all = [brings, &proofs].concat();
        let indices = brings.iter().map(|one| StagedIndex {
            index: one.index.clone(),
            staged: one.target.clone(),
            state: StageState::Planned,
            uuid: None,
            docs_count: None,
            docs_expected: chosen.docs_expected(&one.index),
            shape_noted: chosen.noted(&one.index),
        });
        let requests = bring::requests(call.run_id(), &chosen.origin.repository, &chosen.origin.snapshot, &all).into_iter();
        let requests = requests.map(|request| Action::request("POST", request.path, Some(request.body)));
        let removals = proofs.iter().map(|proof| Action::request("DELETE", path(&[&proof.target]), None));
        Self {
            origin: chosen.origin.clone(),
            run: call.run_id().to_string(),
            asked_for: chosen.asked_for.clone(),
            indices: indices.collect(),
            skipped: chosen.skipped.clone(),
            plan: requests.chain(removals).collect(),
            streams,
            rate: None,
        }
    }

    /// Whether all of it is proven.
    pub(crate) fn is_proven(&self) -> bool {
        self.indices.iter().all(|one| one.state == StageState::Proven) && self.streams.iter().all(StagedStream::is_ready)
    }

    /// What is brought back, with what is brought for the proof of data streams.
    fn with_proofs(&self, brings: &[Bring]) -> Vec<Bring> {
        brings.iter().cloned().chain(self.streams.iter().flat_map(StagedStream::brings)).collect()
    }

    /// The names under which it lies, or lay for its proof.
    pub(crate) fn names(&self) -> Vec<&str> {
        let copies = self.streams.iter().flat_map(|stream| &stream.copies);
        self.indices.iter().map(|one| &one.staged).chain(copies).map(String::as_str).collect()
    }
}

pub(crate) fn run(args: &StageArgs, call: &Call) -> StepResult<Staged> {
    let chosen = Chosen::find(&args.what, call)?;
    let streams: Vec<&str> = chosen.streams.iter().filter(|_| !args.streams.streams_in_place).map(String::as_str).collect();
    Chosen::refuse_streams(&streams)?;
    let _lock = guard::lock(call, &chosen.server, args.dry.dry_run)?;
    runs::refuse_unfinished_swaps(call, &chosen.server, call.run_id(), &chosen.names())?;
    let earlier = Earlier::find(call, &chosen)?;
    if let Some(staged) = earlier.proven {
        return Ok(staged);
    }
    let beside = |index: &String| Bring { index: index.clone(), target: copies::staged(call.run_id(), index) };
    let brings: Vec<Bring> = chosen.indices.iter().map(beside).collect();
    let mut rates = chosen.rates(call)?;
    let mut staged = earlier.planned(call, &chosen, &brings, chosen.streams_back()?, &rates)?;
    if args.dry.dry_run {
        return Ok(staged);
    }
    earlier
        .clear(call, &chosen.server, &rates)
        .and_then(|()| bring_back(call, &chosen, &brings, &mut staged, &mut rates))
        .map_err(|failure| earlier.account(call, failure, &rates, staged.clone()))?;
    Ok(staged)
}

/// What an earlier call of this run left of the same staging.
#[derive(Debug, Default)]
pub(crate) struct Earlier {
    /// All of it, proven and there.
    pub proven: Option<Staged>,
    /// Copies that it had not proven. They are removed, and it begins anew.
    leftovers: Vec<String>,
    /// What it may have been restoring straight under live names when it was killed.
    straight: Vec<String>,
}

impl Earlier {
    /// Looks at what is noted of this run.
    ///
    /// # Errors
    /// It is a swap, or a staging of something else (3).
    pub(crate) fn find(call: &Call, chosen: &Chosen) -> Result<Self, Failure> {
        let staged = match runs::noted(call, call.run_id())? {
            None => return Ok(Self::default()),
            Some(Begun::Staged(staged)) => staged,
            Some(Begun::Aside(_) | Begun::Swapped(_)) => return Err(runs::in_use(call.run_id())),
        };
        let found = look(&chosen.server, &staged.names())?;
        let is_there = |one: &StagedIndex| found.get(&one.staged).is_some_and(|index| Some(&index.uuid) == one.uuid.as_ref());
        let whole = staged.is_proven() && staged.indices.iter().all(is_there);
        let same = staged.origin.snapshot_uuid == chosen.origin.snapshot_uuid
            && staged.origin.cluster_uuid == chosen.origin.cluster_uuid
            && (!whole || staged.indices.iter().map(|one| &one.index).eq(&chosen.indices))
            && (!whole || staged.streams.iter().map(|one| &one.back.stream).eq(&chosen.streams));
        if !same {
            return Err(runs::in_use(call.run_id()));
        }
        if whole {
            return Ok(Self { proven: Some(staged), ..Self::default() });
        }
        let own = |name: &&String| copies::is_own_of(name, call.run_id());
        let straight = staged.indices.iter().filter(|one| one.is_straight() && found.contains_key(&one.index));
        Ok(Self {
            proven: None,
            straight: straight.map(|one| one.index.clone()).collect(),
            leftovers: found.keys().filter(own).cloned().collect(),
        })
    }

    /// Waits for what a killed call had asked the server to restore straight: it is live then, and treated so.
    ///
    /// # Errors
    /// A signal, or the time limit.
    pub(crate) fn settle(&self, call: &Call, server: &Server) -> Result<(), Failure> {
        bring::wait_for(call, server, &self.straight.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// The plan of a staging that begins anew.
    ///
    /// # Errors
    /// Names are in use, or there is no room (3).
    pub(crate) fn planned(
        &self,
        call: &Call,
        chosen: &Chosen,
        brings: &[Bring],
        streams: Vec<StreamBack>,
        rates: &Rates<'_>,
    ) -> Result<Staged, Failure> {
        let mut staged = Staged::plan(call, chosen, brings, streams);
        let all = staged.with_proofs(brings);
        let names: Vec<&str> = all.iter().filter(|one| one.target != one.index).map(|one| one.target.as_str()).collect();
        let in_use = look(&chosen.server, &names)?;
        let in_use: Vec<&str> = in_use.keys().filter(|name| !self.leftovers.contains(name)).map(String::as_str).collect();
        guard::refuse_in_use("the staging", &in_use)?;
        room::refuse_without(chosen, &all)?;
        staged.rate = rates.used();
        staged.plan = rates.around(staged.plan);
        let removals = self.leftovers.iter().map(|name| Action::request("DELETE", path(&[name]), None));
        staged.plan.splice(0..0, removals);
        Ok(staged)
    }

    /// Removes what is left of it.
    ///
    /// # Errors
    /// The server refuses or does not answer.
    pub(crate) fn clear(&self, call: &Call, server: &Server, rates: &Rates<'_>) -> Result<(), Failure> {
        call.check()?;
        bring::remove(call, server, &self.leftovers.iter().map(String::as_str).collect::<Vec<_>>())?;
        rates.clear(call, server);
        // A staging that is taken back leaves nothing; but what was left of an earlier one is gone all the same.
        call.effects().stays();
        Ok(())
    }

    /// A staging that was taken back left nothing, but a rate may not have been put back.
    pub(crate) fn account<T>(&self, call: &Call, failure: Failure, rates: &Rates<'_>, result: T) -> Stopped<T> {
        rates.account(call);
        Stopped::with(failure, result)
    }
}

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
        for one in staged.indices.iter_mut().filter(|one| request.brings.contains(&one.index)) {
            // After a lost answer only the names that nobody else has are surely ours to remove.
            if sent.is_ok() || one.staged != one.index {
                one.state = StageState::Restoring;
            }
        }
        let is_brought = |one: &StagedStream| one.brings().any(|proof| request.brings.contains(&proof.index));
        staged.streams.iter_mut().filter(|one| is_brought(one)).for_each(|one| one.proof = StageState::Restoring);
        if sent.as_ref().is_err_and(|failure| failure.status == Status::Timeout) {
            lost.extend(all.iter().filter(|one| request.brings.contains(&one.index)).map(|one| one.target.clone()));
        }
        sent?;
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

/// Removes what was brought, all of which the server is known to have been asked for.
pub(crate) fn take_back(call: &Call, server: &Server, staged: &mut Staged, failure: Failure) -> Failure {
    take_back_all(call, server, staged, &[], failure)
}

/// Removes what was brought. A request whose answer was lost may still be at work: what it was to bring (`lost`) is waited
/// for first, and when it does not show, nobody says that nothing was changed.
fn take_back_all(call: &Call, server: &Server, staged: &mut Staged, lost: &[String], mut failure: Failure) -> Failure {
    let asked = staged.indices.iter().filter(|one| one.state != StageState::Planned);
    let proofs = staged.streams.iter().filter(|one| one.proof != StageState::Planned).flat_map(|one| &one.copies);
    let names: Vec<String> = asked.map(|one| &one.staged).chain(proofs).cloned().collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let hasty = call.check().is_err().then(|| server.in_haste());
    let server = hasty.as_ref().unwrap_or(server);
    // What lies under a live name may be a client's as well, so that it is neither waited for nor removed.
    let own = |name: &String| names.contains(&name.as_str());
    let is_settled = lost.is_empty() || (lost.iter().all(own) && show(server, lost));
    let unsure = !is_settled;
    let removed = bring::remove(call, server, &names).and_then(|removed| match look(server, &names)? {
        left if left.is_empty() => Ok(removed),
        left => Err(Failure::failed(
            "not_removed",
            format!("These were not removed: {}.", left.into_keys().collect::<Vec<_>>().join(", ")),
        )),
    });
    let is_lost = |name: &String| unsure && lost.contains(name);
    staged.indices.iter_mut().filter(|one| is_lost(&one.staged)).for_each(|one| one.state = StageState::Restoring);
    match removed {
        Ok(_) => {
            let asked = staged.indices.iter_mut().filter(|one| one.state != StageState::Planned);
            asked.filter(|one| !is_lost(&one.staged)).for_each(|one| one.state = StageState::Removed);
            let proofs = staged.streams.iter_mut().filter(|one| one.proof != StageState::Planned);
            proofs.filter(|one| !one.copies.iter().any(is_lost)).for_each(|one| one.proof = StageState::Removed);
            if unsure {
                failure.causes.push(format!("These may still appear: {}.", lost.join(", ")));
                failure.hint = Some(format!(
                    "The same command again (--run-id {0}) finds out how things stand; svc-snap unstage --run {0} removes what is left of it.",
                    staged.run
                ));
                return failure;
            }
            call.effects().undone();
            if let Err(error) = swaps::remove(call, call.run_id()) {
                failure.causes.push(error.message);
            }
        }
        Err(error) => {
            failure.causes.push(format!("What had been staged could not be removed ({}): {error}", names.join(", ")));
            failure.hint = Some(format!("svc-snap unstage --run {} removes what is left of it.", staged.run));
        }
    }
    failure
}

/// Waits until all of `names` are there, so long as is worth it.
fn show(server: &Server, names: &[String]) -> bool {
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let until = Instant::now() + PATIENCE;
    loop {
        if look(server, &names).is_ok_and(|found| names.iter().all(|name| found.contains_key(*name))) {
            return true;
        }
        if Instant::now() > until {
            return false;
        }
        std::thread::sleep(LOOK);
    }
}
