//! `clone`: a copy of the live indices, made of hard links, which a swap makes live again: the first two phases of a swap. It takes no
//! disk space at first; what the live index replaces from then on is kept for the copy.

use std::collections::{BTreeMap, BTreeSet};

use svc_step::common::DryRun;
use svc_step::progress::Unit;
use svc_step::{Call, Failure, StepResult, Stopped, swaps};

use crate::capacity;
use crate::client::Server;
use crate::client::auth::Connection;
use crate::guard;
use crate::index::act::Act;
use crate::index::select::{self, DEFAULT, Patterns, ScopeArg, Selected, without};
use crate::index::{Found, Index, clone, copies, look, policy};
use crate::restore::record::{self, Begun};
use crate::restore::result::{Cloned, CopiedIndex, CopySet, CopyState};

/// Arguments of `svc-snap clone`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples: a way back without a restore, after the service's stop
  svc-snap clone > clone.json
  svc-snap swap --from clone.json                     back to what was cloned
  svc-snap discard --from clone.json                  it is not needed any more")]
pub struct CloneArgs {
    /// What of the scope: names, patterns with *, exclusions with a leading -, comma separated
    #[arg(long, value_name = "PATTERNS", default_value = DEFAULT, allow_hyphen_values = true)]
    indices: String,
    #[command(flatten)]
    scope: ScopeArg,
    #[command(flatten)]
    pub(crate) dry: DryRun,
    #[command(flatten)]
    connection: Connection,
}

pub(crate) fn run(args: &CloneArgs, call: &Call) -> StepResult<Cloned> {
    let server = Server::connect(&args.connection, call)?;
    let _lock = guard::lock(call, &server, args.dry.dry_run)?;
    let live = select::live(&server, &args.scope.scope, &Patterns::parse(&args.indices))?;
    let hint = format!("Leave them out with {}.", without(&live.streams));
    guard::refuse_any("data_streams", "Data streams cannot be cloned", &live.streams, &hint)?;
    let names: Vec<&str> = live.indices.iter().map(String::as_str).collect();
    guard::refuse_blocked(&server, |index, _| names.contains(&index))?;
    record::refuse_unfinished_swaps(call, &server, call.run_id(), &names)?;
    let earlier = match record::find(call, call.run_id())? {
        None => CopySet::default(),
        Some(Begun::Copies(set)) if set.snapshot_uuid.is_none() && set.cluster_uuid == server.cluster_uuid => set,
        Some(_) => return Err(record::in_use(call.run_id()).into()),
    };
    let earlier_found = look(&server, &earlier.names())?;
    if !earlier.indices.is_empty() && earlier.is_verified() {
        refuse_other(call, &earlier, &earlier_found, &names)?;
        return Ok(Cloned { copies: earlier, released: Vec::new() });
    }
    let leftovers: Vec<String> = earlier_found.into_keys().collect();
    let blocked = blocked_by_killed(call, &server)?;
    let mut cloned = plan(call, &server, args, &live, &leftovers, &blocked)?;
    let in_use = look(&server, &cloned.copies.names())?;
    let in_use: Vec<&str> = in_use.keys().filter(|name| !leftovers.contains(name)).map(String::as_str).collect();
    guard::refuse_in_use("the copies", &in_use)?;
    capacity::refuse_clones(&server, &names)?;
    if args.dry.dry_run {
        return Ok(cloned);
    }
    Stopped::ended(act(call, &server, &mut cloned, &leftovers, blocked), cloned)
}

/// Refuses a run that has cloned other indices, or whose copies have gone: what they held is not what is live now.
fn refuse_other(call: &Call, earlier: &CopySet, found: &Found, names: &[&str]) -> Result<(), Failure> {
    if !earlier.indices.iter().map(|one| one.index.as_str()).eq(names.iter().copied()) {
        return Err(record::in_use(call.run_id()));
    }
    let gone: Vec<&str> = earlier.indices.iter().filter(|one| !one.is_there(found)).map(|one| one.copy.as_str()).collect();
    let message = format!("The run {} was cloned completely, and some of its copies have gone", earlier.run);
    let hint = format!(
        "What is left of it is the way back to what was live then: keep it and name another run with --run-id, or remove it with svc-snap discard --run {}.",
        earlier.run
    );
    guard::refuse_any("copy_missing", &message, &gone, &hint)
}

/// The clones that were killed, of whatever run, each with the live indices that it has left without writes. Their calls are dead, since
/// the lock is ours.
fn blocked_by_killed(call: &Call, server: &Server) -> Result<Vec<(CopySet, Vec<String>)>, Failure> {
    let clones = record::unfinished_clones(call, server).into_iter();
    clones.map(|set| blocked(server, &set).map(|names| (set, names))).collect()
}

/// The live indices that an unfinished clone has left without writes.
pub(crate) fn blocked(server: &Server, set: &CopySet) -> Result<Vec<String>, Failure> {
    if set.is_verified() {
        return Ok(Vec::new());
    }
    let found = look(server, &set.indices.iter().map(|one| one.index.as_str()).collect::<Vec<_>>())?;
    let unblocks = clone::undoing(&set.live_clones(), &found).into_iter();
    Ok(unblocks.flat_map(|act| if let Act::Unblock(names) = act { names } else { Vec::new() }).collect())
}

fn plan(
    call: &Call,
    server: &Server,
    args: &CloneArgs,
    live: &Selected,
    leftovers: &[String],
    blocked: &[(CopySet, Vec<String>)],
) -> Result<Cloned, Failure> {
    let run = call.run_id().as_str();
    let mut found = look(server, &live.indices.iter().map(String::as_str).collect::<Vec<_>>())?;
    let named = |wanted: fn(&Index) -> bool| {
        found.iter().filter(|(_, index)| wanted(index)).map(|(name, _)| name.clone()).collect::<Vec<_>>()
    };
    // A closed index must be opened for a clone, which is an effect on what is live; a red one has shards that nobody can copy.
    let (closed, red) = (named(|index| index.closed), named(|index| !index.closed && !index.whole));
    let hint = format!("Open them (POST /<index>/_open), or leave them out with {}.", without(&closed));
    guard::refuse_any("index_closed", "Closed indices cannot be cloned", &closed, &hint)?;
    let hint = format!("Fix them (GET /_cluster/allocation/explain), or leave them out with {}.", without(&red));
    guard::refuse_any("live_index_red", "Indices that lack shards cannot be cloned", &red, &hint)?;
    policy::fill(call, server, &mut found)?;
    let blocked: Vec<&str> = blocked.iter().flat_map(|(_, names)| names).map(String::as_str).collect();
    for name in &blocked {
        found.entry((*name).to_owned()).and_modify(|index| index.shape.unblock_writes());
    }
    let indices = found.iter().map(|(index, live)| CopiedIndex {
        live_uuid: Some(live.uuid.clone()),
        shape: Some(live.shape.clone()),
        ..CopiedIndex::planned(index.clone(), copies::cloned(run, index))
    });
    let mut set = CopySet {
        cluster_uuid: server.cluster_uuid.clone(),
        snapshot_uuid: None,
        run: run.to_owned(),
        asked_for: args.indices.clone(),
        indices: indices.collect(),
        skipped: live.skipped.clone(),
        plan: Vec::new(),
    };
    let mut acts = Act::each(blocked, Act::Unblock);
    acts.extend(Act::each(leftovers.iter().map(String::as_str), Act::Delete));
    acts.extend(clone::requests(&set.live_clones(), &found));
    acts.extend(Act::each(writable(&set), Act::Unblock));
    set.plan = acts.iter().map(Act::action).collect();
    Ok(Cloned { copies: set, released: Vec::new() })
}

fn writable(set: &CopySet) -> impl Iterator<Item = &str> {
    let is_writable = |one: &&CopiedIndex| one.shape.as_ref().is_some_and(|shape| !shape.write_block());
    set.indices.iter().filter(is_writable).map(|one| one.index.as_str())
}

/// Clears away what earlier calls have left, and clones all of them; a failure or a signal leaves nothing behind, neither a
/// copy nor a block.
fn act(
    call: &Call,
    server: &Server,
    cloned: &mut Cloned,
    leftovers: &[String],
    blocked: Vec<(CopySet, Vec<String>)>,
) -> Result<(), Failure> {
    call.check()?;
    for (killed, names) in blocked {
        release(call, server, killed, names, &mut cloned.released)?;
    }
    Act::each(leftovers.iter().map(String::as_str), Act::Delete).iter().try_for_each(|act| act.send(call, server))?;
    call.effects().stays();
    let set = &mut cloned.copies;
    // Recorded once and as a whole: a call that finds it looks which of them are blocked or there.
    set.set_all(CopyState::InProgress);
    swaps::write(call, call.run_id(), "clone", set)?;
    let progress = call.progress("clone", Unit::Items("indices"));
    progress.set(0, set.indices.len() as u64);
    let mut theirs = BTreeSet::new();
    let made = clone::make(call, server, &set.live_clones(), &mut theirs, || call.check())
        .map(|counts| counts.into_iter().map(|(name, count)| (name.to_owned(), count)).collect::<BTreeMap<String, u64>>());
    let made = made.and_then(|counts| {
        Act::each(writable(set), Act::Unblock).iter().try_for_each(|act| clone::again(|| act.send(call, server)))?;
        Ok((counts, look(server, &set.names())?))
    });
    let (counts, found) = match made {
        Ok(made) => made,
        Err(failure) => return Err(take_back(call, server, set, &theirs, failure)),
    };
    for one in &mut set.indices {
        one.uuid = found.get(&one.copy).map(|index| index.uuid.clone());
        one.docs_count = counts.get(&one.index).copied();
        one.state = CopyState::Verified;
    }
    record::write_end(call, &set.run, "clone", set);
    Ok(())
}

/// Removes the copies and takes the blocks off.
fn take_back(call: &Call, server: &Server, set: &mut CopySet, theirs: &BTreeSet<String>, mut failure: Failure) -> Failure {
    match clone::undo(call, server, &set.live_clones(), theirs) {
        Ok(()) => {
            set.set_all(CopyState::Removed);
            call.effects().undone();
            if let Err(error) = swaps::remove(call, call.run_id()) {
                failure.causes.push(error.message);
            }
        }
        Err(error) => {
            failure.causes.push(format!("What was begun could not be taken back: {error}"));
            failure.hint =
                Some(format!("svc-snap discard --run {} takes the blocks off and removes what is left of it.", set.run));
        }
    }
    failure
}

/// Takes off the blocks that a killed clone has left, and records that.
fn release(
    call: &Call,
    server: &Server,
    mut killed: CopySet,
    names: Vec<String>,
    released: &mut Vec<String>,
) -> Result<(), Failure> {
    Act::each(names.iter().map(String::as_str), Act::Unblock).iter().try_for_each(|act| act.send(call, server))?;
    if !names.is_empty() {
        call.warn(
            "block_taken_off",
            format!("The clone of the run {} was killed and had left these without writes: {}.", killed.run, names.join(", ")),
        );
    }
    released.extend(names);
    killed.set_all(CopyState::Planned);
    record::write_end(call, &killed.run, "clone", &killed);
    Ok(())
}
