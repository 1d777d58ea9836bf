//! `clone`: a standing copy of the live indices, made of hard links, which a swap makes live again. It costs no room at first;
//! what the live index replaces from then on is kept for the copy.

use std::collections::{BTreeMap, BTreeSet};

use svc_step::common::DryRun;
use svc_step::progress::Unit;
use svc_step::{Call, Failure, StepResult, Stopped, swaps};

use crate::capacity;
use crate::client::Server;
use crate::client::auth::Connection;
use crate::guard;
use crate::index::act::Act;
use crate::index::clone;
use crate::index::copies;
use crate::index::live::{self, Live};
use crate::index::policy;
use crate::index::resolve::{DEFAULT, Patterns};
use crate::index::scope::ScopeArg;
use crate::index::{Index, look};
use crate::restore::record::clone::{CloneState, Cloned, ClonedIndex};
use crate::restore::record::{self, Begun, CLONE};

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
    let live = live::live(&server, &args.scope.scope, &Patterns::parse(&args.indices))?;
    refuse_streams(&live)?;
    let names: Vec<&str> = live.indices.iter().map(|index| index.name.as_str()).collect();
    guard::refuse_blocked(&server, |index, _| names.contains(&index))?;
    record::refuse_unfinished_swaps(call, &server, call.run_id(), &names)?;
    let earlier = earlier(call, &server)?;
    if let Some(earlier) = &earlier
        && is_done(call, &server, earlier, &names)?
    {
        return Ok(earlier.clone());
    }
    let before = Before::find(call, &server, earlier.as_ref())?;
    let mut clone = planned(call, &server, args, &live, &before)?;
    let in_use = look(&server, &clone.names())?;
    let in_use: Vec<&str> = in_use.keys().filter(|name| !before.leftovers.contains(name)).map(String::as_str).collect();
    guard::refuse_in_use("the copies", &in_use)?;
    capacity::refuse_clones(&server, &names)?;
    if args.dry.dry_run {
        return Ok(clone);
    }
    match cloned(call, &server, &mut clone, before) {
        Ok(()) => Ok(clone),
        Err(failure) => Err(Stopped::with(failure, clone)),
    }
}

/// Data streams cannot be cloned.
fn refuse_streams(live: &Live) -> Result<(), Failure> {
    if live.streams.is_empty() {
        return Ok(());
    }
    Err(Failure::refused("data_streams", format!("Data streams cannot be cloned: {}.", live.streams.join(", ")))
        .hint(format!("Leave them out with --indices '{DEFAULT},-{}'.", live.streams.join(",-"))))
}

/// What an earlier call of this run has cloned or begun to.
fn earlier(call: &Call, server: &Server) -> Result<Option<Cloned>, Failure> {
    match record::noted(call, call.run_id())? {
        None => Ok(None),
        Some(Begun::Cloned(clone)) if clone.cluster_uuid == server.cluster_uuid => Ok(Some(clone)),
        Some(_) => Err(record::in_use(call.run_id())),
    }
}

/// What earlier calls that were cut have left, to be cleared away first.
#[derive(Debug)]
struct Before {
    /// Clones, of whatever run, and the live indices that each has left without writes.
    cut: Vec<(Cloned, Vec<String>)>,
    /// Copies of this run that are there.
    leftovers: Vec<String>,
}

impl Before {
    fn find(call: &Call, server: &Server, earlier: Option<&Cloned>) -> Result<Self, Failure> {
        let leftovers = look(server, &earlier.map(Cloned::names).unwrap_or_default())?.into_keys().collect();
        // Their calls are dead, since the lock is ours.
        let noted = swaps::all(call, &[CLONE]).into_iter().filter_map(|received| received.result::<Cloned>().ok());
        let is_cut = |clone: &Cloned| {
            clone.cluster_uuid == server.cluster_uuid && clone.indices.iter().any(|one| one.state == CloneState::Blocked)
        };
        let cut = noted.filter(is_cut).map(|clone| blocked(server, &clone).map(|names| (clone, names)));
        Ok(Self { cut: cut.collect::<Result<_, _>>()?, leftovers })
    }

    fn blocked(&self) -> impl Iterator<Item = &String> {
        self.cut.iter().flat_map(|(_, names)| names)
    }

    fn acts(&self) -> Vec<Act> {
        let mut acts = Act::each(self.blocked().map(String::as_str), Act::Unblock);
        acts.extend(Act::each(self.leftovers.iter().map(String::as_str), Act::Delete));
        acts
    }
}

/// The live indices that an unfinished clone left without writes.
///
/// # Errors
/// The server refuses or does not answer.
pub(crate) fn blocked(server: &Server, clone: &Cloned) -> Result<Vec<String>, Failure> {
    let names: Vec<&str> = clone.indices.iter().map(|one| one.index.as_str()).collect();
    let found = if clone.is_proven() { BTreeMap::new() } else { look(server, &names)? };
    let unblocks = clone::undoing(&clone.clones(), &found).into_iter();
    Ok(unblocks.flat_map(|act| if let Act::Unblock(names) = act { names } else { Vec::new() }).collect())
}

/// Whether it is so already: all of the same indices, proven and there.
///
/// # Errors
/// It was, and some of the copies have gone (3): what they held is not what is live now.
fn is_done(call: &Call, server: &Server, earlier: &Cloned, names: &[&str]) -> Result<bool, Failure> {
    let found = look(server, &earlier.names())?;
    let is_there = |one: &ClonedIndex| found.get(&one.clone).is_some_and(|index| Some(&index.uuid) == one.uuid.as_ref());
    let same = earlier.indices.iter().map(|one| one.index.as_str()).eq(names.iter().copied());
    if earlier.is_proven() && !same {
        return Err(record::in_use(call.run_id()));
    }
    let gone: Vec<&str> = earlier.indices.iter().filter(|one| !is_there(one)).map(|one| one.clone.as_str()).collect();
    if earlier.is_proven() && !gone.is_empty() {
        return Err(Failure::refused(
            "copy_missing",
            format!("The run {} was cloned completely, and some of its copies have gone: {}.", earlier.run, gone.join(", ")),
        )
        .hint(format!(
            "What is left of it is the way back to what was live then: keep it and name another run with --run-id, or remove it with svc-snap discard --run {}.",
            earlier.run
        )));
    }
    Ok(earlier.is_proven())
}

fn planned(call: &Call, server: &Server, args: &CloneArgs, live: &Live, before: &Before) -> Result<Cloned, Failure> {
    let names: Vec<&str> = live.indices.iter().map(|index| index.name.as_str()).collect();
    let mut found = look(server, &names)?;
    refuse_uncloneable(&found)?;
    policy::fill(call, server, &mut found)?;
    for name in before.blocked() {
        found.entry(name.clone()).and_modify(|index| index.shape.unblock_writes());
    }
    let live_now = found.clone();
    let indices: Vec<ClonedIndex> = found
        .into_iter()
        .map(|(index, seen)| ClonedIndex {
            clone: copies::cloned(call.run_id(), &index),
            state: CloneState::Planned,
            live_uuid: seen.uuid,
            uuid: None,
            docs_count: None,
            shape: seen.shape,
            index,
        })
        .collect();
    let clone = Cloned {
        cluster_uuid: server.cluster_uuid.clone(),
        run: call.run_id().to_string(),
        asked_for: args.indices.clone(),
        plan: Vec::new(),
        indices,
        skipped: live.skipped.clone(),
        released: Vec::new(),
    };
    let mut acts = before.acts();
    acts.extend(clone::requests(&clone.clones(), &live_now));
    acts.extend(Act::each(writable(&clone), Act::Unblock));
    Ok(Cloned { plan: acts.iter().map(Act::action).collect(), ..clone })
}

fn writable(clone: &Cloned) -> impl Iterator<Item = &str> {
    clone.indices.iter().filter(|one| !one.shape.write_block()).map(|one| one.index.as_str())
}

/// Clears away what earlier calls have left, and clones all of them; a failure or a signal leaves nothing behind, neither a
/// copy nor a block.
fn cloned(call: &Call, server: &Server, clone: &mut Cloned, before: Before) -> Result<(), Failure> {
    call.check()?;
    let leftovers = Act::each(before.leftovers.iter().map(String::as_str), Act::Delete);
    for (cut, names) in before.cut {
        release_cut(call, server, cut, names, &mut clone.released)?;
    }
    leftovers.iter().try_for_each(|act| act.send(call, server))?;
    call.effects().stays();
    // Noted once and as a whole: a call that finds it looks which of them are blocked or there.
    swaps::write(call, call.run_id(), "clone", &clone.with(CloneState::Blocked))?;
    let progress = call.progress("clone", Unit::Items("indices"));
    progress.set(0, clone.indices.len() as u64);
    let mut theirs = BTreeSet::new();
    let made = clone::make(call, server, &clone.clones(), &mut theirs, || call.check())
        .map(|counts| counts.into_iter().map(|(name, count)| (name.to_owned(), count)).collect::<BTreeMap<String, u64>>());
    let made = made.and_then(|counts| {
        Act::each(writable(clone), Act::Unblock).iter().try_for_each(|act| clone::again(|| act.send(call, server)))?;
        Ok((counts, look(server, &clone.names())?))
    });
    let (counts, found) = match made {
        Ok(made) => made,
        Err(failure) => return Err(take_back(call, server, clone, &theirs, failure)),
    };
    for one in &mut clone.indices {
        one.uuid = found.get(&one.clone).map(|index| index.uuid.clone());
        one.docs_count = counts.get(&one.index).copied();
        one.state = CloneState::Proven;
    }
    record::note_end(call, call.run_id(), "clone", clone);
    Ok(())
}

/// Removes the copies and takes the blocks off.
fn take_back(call: &Call, server: &Server, clone: &mut Cloned, theirs: &BTreeSet<String>, mut failure: Failure) -> Failure {
    match clone::undo(call, server, &clone.clones(), theirs) {
        Ok(()) => {
            *clone = clone.with(CloneState::Removed);
            call.effects().undone();
            if let Err(error) = swaps::remove(call, call.run_id()) {
                failure.causes.push(error.message);
            }
        }
        Err(error) => {
            failure.causes.push(format!("What was begun could not be taken back: {error}"));
            failure.hint =
                Some(format!("svc-snap discard --run {} takes the blocks off and removes what is left of it.", clone.run));
        }
    }
    failure
}

/// Takes off the blocks that a clone has left which was cut, and notes that.
fn release_cut(
    call: &Call,
    server: &Server,
    clone: Cloned,
    names: Vec<String>,
    released: &mut Vec<String>,
) -> Result<(), Failure> {
    Act::each(names.iter().map(String::as_str), Act::Unblock).iter().try_for_each(|act| act.send(call, server))?;
    if !names.is_empty() {
        call.warn(
            "block_taken_off",
            format!("The clone of the run {} was cut and had left these without writes: {}.", clone.run, names.join(", ")),
        );
    }
    released.extend(names);
    record::note_end(call, &record::named(&clone.run)?, "clone", &clone.with(CloneState::Planned));
    Ok(())
}

/// A closed index must be opened for a clone, which is an effect on what is live; a red one has shards that nobody can copy.
fn refuse_uncloneable(found: &BTreeMap<String, Index>) -> Result<(), Failure> {
    let named = |wanted: fn(&Index) -> bool| {
        found.iter().filter(|(_, index)| wanted(index)).map(|(name, _)| name.as_str()).collect::<Vec<_>>()
    };
    let (closed, red) = (named(|index| index.closed), named(|index| !index.closed && !index.whole));
    if !closed.is_empty() {
        return Err(Failure::refused("index_closed", format!("Closed indices cannot be cloned: {}.", closed.join(", "))).hint(
            format!("Open them (POST /<index>/_open), or leave them out with --indices '{DEFAULT},-{}'.", closed.join(",-")),
        ));
    }
    if !red.is_empty() {
        return Err(Failure::refused(
            "live_index_red",
            format!("Indices that lack shards cannot be cloned: {}.", red.join(", ")),
        )
        .hint(format!(
            "Mend them (GET /_cluster/allocation/explain), or leave them out with --indices '{DEFAULT},-{}'.",
            red.join(",-")
        )));
    }
    Ok(())
}
