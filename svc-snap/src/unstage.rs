//! `unstage`: what was staged, set aside, kept or replaced is removed, by explicit names and nothing else.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_step::action::Action;
use svc_step::common::DryRun;
use svc_step::from::OtherServer;
use svc_step::run_id::RunId;
use svc_step::swaps::GivenArgs;
use svc_step::{Call, Failure, StepResult, Stopped, swaps};

use crate::connection::Connection;
use crate::guard;
use crate::index::copies::{self, Way};
use crate::index::live;
use crate::index::scope::ScopeArg;
use crate::index::{Index, look, only};
use crate::runs::given::Given;
use crate::runs::seen::Seen;
use crate::runs::swapped::{State, SwapIndex, Swapped};
use crate::runs::{self, Begun, aside};
use crate::server::Server;
use crate::server::path::path;
use crate::throttle::Left;

/// Arguments of `svc-snap unstage`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  svc-snap unstage --from staged.json                 a staging that was only a rehearsal
  svc-snap unstage --run 20261120t020003z-hand        what the swap of that run kept")]
pub struct UnstageArgs {
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
pub struct Unstaged {
    /// The cluster.
    pub cluster_uuid: String,
    /// The run whose copies they were.
    pub run: String,
    /// Every name that the document or the note of the run speaks of.
    pub indices: Vec<UnstagedIndex>,
    /// The requests, in their order.
    pub plan: Vec<Action>,
}

/// One copy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UnstagedIndex {
    /// Its name.
    pub name: String,
    /// What became of it.
    pub state: UnstageState,
}

/// What became of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum UnstageState {
    /// It is there.
    There,
    /// This call removed it.
    Removed,
    /// It was not there.
    Gone,
}

pub(crate) fn run(args: &UnstageArgs, call: &Call) -> StepResult<Unstaged> {
    if let Some(run) = args.given.run().filter(|run| !swaps::path(call, run).exists()) {
        return unnoted(args, call, run);
    }
    let Given { begun: given, run, .. } = Given::read(&args.given, call)?;
    let names = names(&given, &run)?;
    let server = Server::connect(&args.connection, call)?;
    args.other.check(given.cluster_uuid(), &server.cluster_uuid, server.url(), "--url (SVC_SEARCH_URL)")?;
    let _lock = guard::lock(call, &server, args.dry.dry_run)?;
    let noted = runs::noted(call, &run)?;
    for one in [Some(&given), noted.as_ref()].into_iter().flatten() {
        refuse_unfinished(&server, one, &run)?;
    }
    clear(args, call, &server, &run, &names, noted.as_ref())
}

/// Removes the copies of these names, and the note of their run, where there is one.
fn clear(
    args: &UnstageArgs,
    call: &Call,
    server: &Server,
    run: &RunId,
    names: &BTreeSet<String>,
    noted: Option<&Begun>,
) -> StepResult<Unstaged> {
    let found = look(server, &names.iter().map(String::as_str).collect::<Vec<_>>())?;
    refuse_holders(&found)?;
    let left = Left::find(call, server, None)?;
    // A call that was killed may have left a live index without writes.
    let blocked = match noted {
        Some(Begun::Aside(aside)) => aside::blocked(server, aside)?,
        _ => Vec::new(),
    };
    let mut unstaged = planned(server, run, names, &found, &left, &blocked);
    if args.dry.dry_run {
        return Ok(unstaged);
    }
    left.put_back(call, server);
    let ended = aside::release(call, server, &blocked)
        .and_then(|()| remove(call, server, &mut unstaged))
        .and_then(|()| forget(call, server, run, noted));
    match ended {
        Ok(()) => Ok(unstaged),
        Err(failure) => Err(Stopped::with(failure, unstaged)),
    }
}

fn planned(
    server: &Server,
    run: &RunId,
    names: &BTreeSet<String>,
    found: &BTreeMap<String, Index>,
    left: &Left<'_>,
    blocked: &[String],
) -> Unstaged {
    let releases = aside::releases(blocked).into_iter().map(|act| act.action());
    let removals = found.keys().map(|name| Action::request("DELETE", path(&[name]), None));
    let state = |name: &String| if found.contains_key(name) { UnstageState::There } else { UnstageState::Gone };
    Unstaged {
        cluster_uuid: server.cluster_uuid.clone(),
        run: run.to_string(),
        indices: names.iter().map(|name| UnstagedIndex { name: name.clone(), state: state(name) }).collect(),
        plan: left.actions().chain(releases).chain(removals).collect(),
    }
}

/// The copies of a run of which nothing is noted here, by their names: its note was lost, or lies on another host.
fn unnoted(args: &UnstageArgs, call: &Call, run: &RunId) -> StepResult<Unstaged> {
    let server = Server::connect(&args.connection, call)?;
    let _lock = guard::lock(call, &server, args.dry.dry_run)?;
    let all: Vec<String> = live::names(&server)?.indices.into_iter().map(|index| index.name).collect();
    // Two services may have been given the same run id.
    let is_ours = |name: &str| copies::is_copy_of(name, run, |index| args.scope.scope.contains(index));
    let names: BTreeSet<String> = all.iter().filter(|name| is_ours(name)).cloned().collect();
    if names.is_empty() {
        return Err(Failure::not_found(
            "swap_not_found",
            format!("Nothing is noted of the run {run} here, and no copy bears its name."),
        )
        .hint("svc-snap health lists the copies that there are.")
        .into());
    }
    // A swap that was cut may have left no other copy: neither of what was live nor of what was to become so.
    let is_last = |name: &&String| copies::copied_from(name, run).is_some_and(|index| !all.iter().any(|other| other == index));
    let last: Vec<&str> = names.iter().filter(is_last).map(String::as_str).collect();
    if !last.is_empty() {
        return Err(Failure::refused(
            "copy_may_be_the_last",
            format!("Nothing is noted of the run {run}, and what these are copies of is not live: {}.", last.join(", ")),
        )
        .hint("Find the host that swapped (its svc-snap swap --run finishes it), or delete them by hand.")
        .into());
    }
    clear(args, call, &server, run, &names, None)
}

/// The names that a document speaks of, all of them copies that its run made.
fn names(given: &Begun, run: &RunId) -> Result<BTreeSet<String>, Failure> {
    let names: BTreeSet<String> = match given {
        // What was restored straight under its own name is no copy of ours.
        Begun::Staged(staged) => {
            let staged_indices = staged.indices.iter().filter(|one| !one.is_straight()).map(|one| &one.staged);
            staged_indices.chain(staged.streams.iter().flat_map(|one| &one.copies)).cloned().collect()
        }
        Begun::Aside(aside) => aside.names().into_iter().map(str::to_owned).collect(),
        Begun::Swapped(swapped) => of_swap(swapped),
    };
    let foreign: Vec<&str> = names.iter().filter(|name| !copies::is_own_of(name, run)).map(String::as_str).collect();
    if foreign.is_empty() {
        return Ok(names);
    }
    Err(Failure::usage(
        "from_damaged",
        format!("The document names indices that are no copies of its run {run}: {}.", foreign.join(", ")),
    )
    .hint("Hand over the document as the tool printed it."))
}

fn of_swap(swapped: &Swapped) -> BTreeSet<String> {
    let names = swapped.all_items().flat_map(|item| {
        let copies = item.names().into_iter().filter(|name| *name != item.index).map(str::to_owned);
        copies.chain(item.strays.iter().cloned()).collect::<Vec<_>>()
    });
    names.collect()
}

/// While a swap is cut, its copies are all that there is of some indices.
fn refuse_unfinished(server: &Server, given: &Begun, run: &RunId) -> Result<(), Failure> {
    let Begun::Swapped(swapped) = given else { return Ok(()) };
    let way = Way { run: run.clone(), back: swapped.back };
    if swapped.is_finished() {
        return Ok(());
    }
    let unfinished = |name: &str| {
        Failure::refused("swap_unfinished", format!("The swap of the run {run} is not finished at {name}.")).hint(format!(
            "svc-snap swap --run {run} finishes it, or svc-snap swap --run {run} --back takes it back; then unstage."
        ))
    };
    if let Some(stream) = swapped.streams.iter().find(|one| one.is_cut()) {
        return Err(unfinished(&stream.stream));
    }
    let items: Vec<&SwapIndex> = swapped.indices.iter().chain(&swapped.begun).collect();
    let found = look(server, &items.iter().flat_map(|item| item.names()).collect::<Vec<_>>())?;
    for item in items {
        let seen = Seen { indices: only(&found, &item.names()), rivals: Vec::new() };
        let is_between = seen.state(&way, item) == State::Absent && item.goal() != State::Absent;
        if is_between || seen.is_left_blocked(item) || seen.is_left_open(item) {
            return Err(unfinished(&item.index));
        }
    }
    Ok(())
}

fn refuse_holders(found: &BTreeMap<String, Index>) -> Result<(), Failure> {
    let holders: Vec<&str> =
        found.iter().filter(|(_, index)| !index.shape.aliases.is_empty()).map(|(name, _)| name.as_str()).collect();
    if holders.is_empty() {
        return Ok(());
    }
    Err(Failure::refused(
        "copy_in_use",
        format!("Copies that have aliases are in use and are not removed: {}.", holders.join(", ")),
    )
    .hint("GET /_cat/aliases shows them; finish the swap, or move the aliases."))
}

fn remove(call: &Call, server: &Server, unstaged: &mut Unstaged) -> Result<(), Failure> {
    for one in unstaged.indices.iter_mut().filter(|one| one.state == UnstageState::There) {
        call.check()?;
        server.change(call, "DELETE", &path(&[&one.name]), None)?;
        one.state = UnstageState::Removed;
    }
    Ok(())
}

/// The note of a run of which nothing is left is removed too.
fn forget(call: &Call, server: &Server, run: &RunId, noted: Option<&Begun>) -> Result<(), Failure> {
    let Some(noted) = noted else { return Ok(()) };
    let names = names(noted, run)?;
    if look(server, &names.iter().map(String::as_str).collect::<Vec<_>>())?.is_empty() {
        swaps::remove(call, run)
    } else {
        Ok(())
    }
}
