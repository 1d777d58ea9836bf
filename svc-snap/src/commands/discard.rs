//! `discard`: what was staged, cloned or replaced is removed. Which copies a run has, the names on the server say.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_step::{Action, Call, DryRun, Failure, GivenArgs, OtherServer, RunId, StepResult, Stopped, swaps};

use crate::client::{Connection, Server};
use crate::guard;
use crate::index::{Act, Index, ScopeArg, clone, copies, get_indices, refuse_any, select};
use crate::restore::{Begun, Given, phases, record};
use crate::temporary::Left;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  svc-snap discard --from staged.json                 a staging that was only a rehearsal
  svc-snap discard --run 20261120t020003z-hand        what the swap of that run replaced")]
pub struct DiscardArgs {
    #[command(flatten)]
    given: GivenArgs,
    #[command(flatten)]
    other: OtherServer,
    #[command(flatten)]
    scope: ScopeArg,
    #[command(flatten)]
    pub(crate) dry: DryRun,
    #[command(flatten)]
    connection: Connection,
}

/// Copies of ours that are not there any more.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Discarded {
    pub cluster_uuid: String,
    pub run: String,
    /// Every copy of the run, on the server or in its document or record.
    pub indices: Vec<DiscardedIndex>,
    pub plan: Vec<Action>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DiscardedIndex {
    pub name: String,
    pub state: DiscardState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DiscardState {
    Present,
    Removed,
    Absent,
}

pub(crate) fn run(args: &DiscardArgs, call: &Call) -> StepResult<Discarded> {
    let is_unrecorded = args.given.run().is_some_and(|run| !swaps::path(call, run).exists());
    let (given, run) = match args.given.run().filter(|_| is_unrecorded) {
        Some(run) => (None, run.clone()),
        None => Given::read(&args.given, call).map(|given| (Some(given.begun), given.run))?,
    };
    let server = Server::connect(&args.connection, call)?;
    if let Some(given) = &given {
        refuse_external(given, &run)?;
        args.other.check(given.cluster_uuid(), &server.cluster_uuid, server.url(), "--url (SVC_SEARCH_URL)")?;
    }
    let _lock = guard::lock(call, &server, args.dry.dry_run)?;
    let recorded = record::find(call, &run)?.filter(|one| one.cluster_uuid() == server.cluster_uuid);
    clone::wait_for_requests(&server)?;
    // The record of the run is newer than any document.
    if let Some(Begun::Swapped(swapped)) = recorded.as_ref().or(given.as_ref()) {
        phases::refuse_unfinished(call, &server, swapped)?;
    }
    let all: Vec<String> = select::names(&server)?.indices;
    // The way back from a swap is not removed by the document of what it has made live.
    let is_set = args.given.run().is_none() && matches!(given, Some(Begun::Copies(_)));
    let known = || [&given, &recorded].into_iter().take(if is_set { 1 } else { 2 }).flatten();
    guard::refuse_outside(&args.scope.scope, known().flat_map(Begun::live_names))?;
    // Two services may have been given the same run id.
    let is_ours = |name: &&String| {
        copies::is_copy_of(name, run.as_str(), |index| args.scope.scope.contains(index))
            && copies::run_of(name, &all).is_none_or(|other| other == run.as_str())
    };
    let mut names: BTreeSet<String> = all.iter().filter(is_ours).filter(|_| !is_set).cloned().collect();
    if given.is_none() {
        refuse_last(&run, &names, &all)?;
    } else {
        // One that the run says nothing of, and that is of no live index, may be a copy of another run: of `r-2` and not of `r`.
        let of: BTreeSet<&str> = all.iter().map(String::as_str).chain(known().flat_map(Begun::live_names)).collect();
        names.retain(|name| copies::is_copy_of(name, run.as_str(), |index| of.contains(index)));
    }
    names.extend(known().flat_map(Begun::copies).filter(|name| copies::is_own_of(name, run.as_str())).map(str::to_owned));
    // What a killed restore has restored directly under a live name, and never opened.
    let unopened = recorded.as_ref().map_or(Ok(Vec::new()), |recorded| recorded.unopened(&server))?;
    guard::refuse_outside(&args.scope.scope, &unopened)?;
    names.extend(unopened);
    // As long as there is more of the run, so is its record.
    let has_more = matches!(recorded, Some(Begun::Swapped(_))) || all.iter().any(|name| is_ours(&name) && !names.contains(name));
    clear(args, call, &server, &run, &names, recorded.as_ref().filter(|_| !is_set || !has_more))
}

/// Removes the copies of these names, and the record of their run, if there is one.
fn clear(
    args: &DiscardArgs,
    call: &Call,
    server: &Server,
    run: &RunId,
    names: &BTreeSet<String>,
    recorded: Option<&Begun>,
) -> StepResult<Discarded> {
    let found = get_indices(server, names)?;
    let is_used = |(name, index): &(&String, &Index)| copies::is_own(name) && !index.metadata.aliases.is_empty();
    let aliased = found.iter().filter(is_used).map(|(name, _)| name);
    let hint = "GET /_cat/aliases shows them; finish the swap, or move the aliases.";
    refuse_any("not_swappable", "Copies that have aliases are in use and are not removed", &aliased.collect::<Vec<_>>(), hint)?;
    let left = Left::find(call, server, None)?;
    // A call that was killed may have left a live index without writes.
    let blocked = if let Some(Begun::Copies(set)) = recorded { set.left_blocked(server)? } else { Vec::new() };
    let unblocks = Act::each(&blocked, Act::Unblock);
    let removals = Act::each(found.keys(), Act::Delete);
    let state = |name: &String| if found.contains_key(name) { DiscardState::Present } else { DiscardState::Absent };
    let mut discarded = Discarded {
        cluster_uuid: server.cluster_uuid.clone(),
        run: run.to_string(),
        indices: names.iter().map(|name| DiscardedIndex { name: name.clone(), state: state(name) }).collect(),
        plan: left.actions().chain(unblocks.iter().chain(&removals).map(Act::action)).collect(),
    };
    if args.dry.dry_run {
        return Ok(discarded);
    }
    left.put_back(call, server);
    let ended = unblocks
        .iter()
        .try_for_each(|act| act.send(call, server))
        .and_then(|()| removals.iter().try_for_each(|act| remove(call, server, act, &mut discarded)))
        .and_then(|()| if recorded.is_some() { swaps::remove(call, run) } else { Ok(()) });
    Stopped::ended(ended, discarded)
}

fn remove(call: &Call, server: &Server, act: &Act, discarded: &mut Discarded) -> Result<(), Failure> {
    call.check()?;
    act.send(call, server)?;
    let Act::Delete(names) = act else { return Ok(()) };
    let removed = discarded.indices.iter_mut().filter(|one| names.contains(&one.name));
    removed.for_each(|one| one.state = DiscardState::Removed);
    Ok(())
}

/// Without a record: refuses if there is no copy (4), or if a copy may be the last one (3).
fn refuse_last(run: &RunId, names: &BTreeSet<String>, all: &[String]) -> Result<(), Failure> {
    if names.is_empty() {
        let message = format!("Nothing is recorded of the run {run} here, and no copy has its name.");
        return Err(Failure::not_found("swap_not_found", message).hint("svc-snap health lists the copies that there are."));
    }
    // An interrupted swap may have left no other copy: neither of what was live nor of what was to become so.
    let is_last =
        |name: &&String| copies::copied_from(name, run.as_str()).is_some_and(|index| !all.iter().any(|other| other == index));
    let last: Vec<&str> = names.iter().filter(is_last).map(String::as_str).collect();
    let message = format!("Nothing is recorded of the run {run}, and the indices that these are copies of are not live");
    let hint = "Find the host that swapped (its svc-snap swap --run finishes it), or delete them by hand.";
    refuse_any("not_swappable", &message, &last, hint)
}

/// Refuses a document that names other indices than copies that its run made.
fn refuse_external(given: &Begun, run: &RunId) -> Result<(), Failure> {
    let external: Vec<&str> = given.copies().into_iter().filter(|name| !copies::is_own_of(name, run.as_str())).collect();
    if external.is_empty() {
        return Ok(());
    }
    let message = format!("The document names indices that are not copies of its run {run}: {}.", external.join(", "));
    Err(Failure::usage("from_invalid", message).hint("Pass the document as the tool printed it."))
}
