//! `clone`: a copy of the live indices, made of hard links, which a swap makes live again. It takes disk space only as they change.

use svc_step::{Call, DryRun, Failure, StepResult, Stopped, swaps};

use crate::client::{Connection, Server};
use crate::guard;
use crate::index::clone::Theirs;
use crate::index::select::{DEFAULT, without};
use crate::index::{
    Act, Found, Index, Patterns, Scope, ScopeArg, Selected, clone, copies, get_indices, policy, refuse_any, select,
};
use crate::restore::{Begun, CopiedIndex, CopySet, CopyState, capacity, phases, record};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples: a way back without a restore, after the service's stop
  svc-snap clone > clone.json
  svc-snap swap --from clone.json                     back to what was cloned
  svc-snap discard --from clone.json                  it is not needed any more")]
pub struct CloneArgs {
    /// Which indices of the scope: names, patterns with *, exclusions with a leading -, comma separated
    #[arg(long, value_name = "PATTERNS", default_value = DEFAULT, allow_hyphen_values = true)]
    indices: String,
    #[command(flatten)]
    scope: ScopeArg,
    #[command(flatten)]
    pub(crate) dry: DryRun,
    #[command(flatten)]
    connection: Connection,
}

pub(crate) fn run(args: &CloneArgs, call: &Call) -> StepResult<CopySet> {
    let server = Server::connect(&args.connection, call)?;
    let _lock = guard::lock(call, &server, args.dry.dry_run)?;
    let patterns = Patterns::parse(&args.indices);
    let wanted = |name: &str| args.scope.scope.contains(name) && patterns.ask_for(name);
    phases::refuse_unfinished_swaps(call, &server, call.run_id(), wanted)?;
    phases::refuse_unopened(call, &server, wanted)?;
    let live = select::live(&server, &args.scope.scope, &patterns)?;
    let hint = format!("Leave them out with {}.", without(&args.indices, &live.streams));
    refuse_any("not_swappable", "Data streams cannot be cloned", &live.streams, &hint)?;
    let names: Vec<&str> = live.indices.iter().map(String::as_str).collect();
    guard::refuse_blocked(&server, |index, _| names.contains(&index))?;
    let earlier = match record::find(call, call.run_id())? {
        None => CopySet::default(),
        Some(Begun::Copies(set)) if set.snapshot_uuid.is_none() && set.cluster_uuid == server.cluster_uuid => set,
        Some(_) => return Err(record::in_use(call.run_id()).into()),
    };
    // Its record is written again, and would not say any more what else it has left without writes.
    let is_outside = |one: &CopiedIndex| one.state == CopyState::InProgress && !args.scope.scope.contains(&one.index);
    if earlier.indices.iter().any(is_outside) {
        return Err(record::in_use(call.run_id()).into());
    }
    let live_names = earlier.indices.iter().map(|one| one.index.as_str());
    let earlier_found = get_indices(&server, earlier.names().into_iter().chain(live_names))?;
    if !earlier.indices.is_empty() && earlier.is_verified() {
        refuse_other(call, &earlier, &earlier_found, &names)?;
        return Ok(earlier);
    }
    let last = clone::last_copies(&earlier.live_clones(), &earlier_found);
    let hint = "Pass another --run-id; svc-snap discard --run RUN removes them, if they are not needed.";
    refuse_any("name_in_use", "These may be the last copies of what other clients have removed or replaced", &last, hint)?;
    let leftovers = earlier.names().into_iter().filter(|name| earlier_found.contains_key(*name)).map(str::to_owned);
    let left = Left { copies: leftovers.collect(), ..Left::find(call, &server, &args.scope.scope)? };
    let mut cloned = plan(call, &server, args, &live, &left)?;
    guard::refuse_in_use(&server, "the copies", &cloned.names(), &left.copies)?;
    capacity::refuse_clones(&server, &live.indices)?;
    if args.dry.dry_run {
        return Ok(cloned);
    }
    Stopped::ended(act(call, &server, &mut cloned, &left), cloned)
}

/// Refuses a run that has cloned other indices, or whose copies have gone: what they held is not what is live now.
fn refuse_other(call: &Call, earlier: &CopySet, found: &Found, names: &[&str]) -> Result<(), Failure> {
    if !earlier.indices.iter().map(|one| one.index.as_str()).eq(names.iter().copied()) {
        return Err(record::in_use(call.run_id()));
    }
    let gone: Vec<&str> = earlier.indices.iter().filter(|one| !one.is_there(found)).map(|one| one.copy.as_str()).collect();
    let message = format!("The run {} was cloned completely, and some of its copies have gone", earlier.run);
    let hint = format!(
        "What is left of it is the way back to what was live then: name another run with --run-id, or remove it with {}.",
        copies::discard(call, &earlier.run)
    );
    refuse_any("not_verified", &message, &gone, &hint)
}

/// What interrupted clones have left: copies of this run; and of all runs, those whose live indices are blocked, with these.
struct Left {
    copies: Vec<String>,
    clones: Vec<CopySet>,
    blocked: Vec<String>,
}

impl Left {
    fn find(call: &Call, server: &Server, scope: &Scope) -> Result<Self, Failure> {
        let mut left = Self { copies: Vec::new(), clones: record::unfinished_clones(call, server), blocked: Vec::new() };
        let is_left = |one: &CopiedIndex| one.state == CopyState::InProgress && scope.contains(&one.index);
        left.clones.retain(|set| set.indices.iter().any(is_left));
        for set in &mut left.clones {
            left.blocked.extend(set.left_blocked(server)?.into_iter().filter(|name| scope.contains(name)));
            set.indices.iter_mut().filter(|one| is_left(one)).for_each(|one| one.state = CopyState::Planned);
        }
        Ok(left)
    }
}

fn plan(call: &Call, server: &Server, args: &CloneArgs, live: &Selected, left: &Left) -> Result<CopySet, Failure> {
    let run = call.run_id().as_str();
    let mut found = get_indices(server, &live.indices)?;
    let named = |wanted: fn(&Index) -> bool| {
        found.iter().filter(|(_, index)| wanted(index)).map(|(name, _)| name.clone()).collect::<Vec<_>>()
    };
    // A closed index must be opened for a clone, which is an effect on what is live; a red one has shards that cannot be cloned.
    let (closed, red) = (named(|index| index.metadata.closed), named(|index| !index.metadata.closed && !index.complete));
    let hint = format!("Open them (POST /<index>/_open), or leave them out with {}.", without(&args.indices, &closed));
    refuse_any("index_blocked", "Closed indices cannot be cloned", &closed, &hint)?;
    let hint = format!("Fix them (GET /_cluster/allocation/explain), or leave them out with {}.", without(&args.indices, &red));
    refuse_any("indices_red", "Indices that lack shards cannot be cloned", &red, &hint)?;
    policy::fill(call, server, &mut found)?;
    for name in &left.blocked {
        found.entry(name.clone()).and_modify(|index| index.metadata = std::mem::take(&mut index.metadata).writable());
    }
    let indices = found.iter().map(|(index, live)| CopiedIndex {
        live_uuid: Some(live.uuid.clone()),
        metadata: Some(live.metadata.clone()),
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
    let mut acts = Act::each(&left.blocked, Act::Unblock);
    acts.extend(Act::each(&left.copies, Act::Delete));
    acts.extend(clone::requests(&set.live_clones(), &found));
    acts.extend(Act::each(writable(&set), Act::Unblock));
    set.plan = acts.iter().map(Act::action).collect();
    Ok(set)
}

fn writable(set: &CopySet) -> impl Iterator<Item = &str> {
    let is_writable = |one: &&CopiedIndex| one.metadata.as_ref().is_some_and(|metadata| !metadata.write_block());
    set.indices.iter().filter(is_writable).map(|one| one.index.as_str())
}

/// Removes what earlier calls have left, and clones all of them; a failure or a signal leaves neither a copy nor a block behind.
fn act(call: &Call, server: &Server, set: &mut CopySet, left: &Left) -> Result<(), Failure> {
    call.check()?;
    Act::each(&left.blocked, Act::Unblock).iter().try_for_each(|act| act.send(call, server))?;
    left.clones.iter().for_each(|set| record::write_end(call, &set.run, "clone", set));
    Act::each(&left.copies, Act::Delete).iter().try_for_each(|act| act.send(call, server))?;
    call.effects().stays();
    // Recorded once and as a whole: a call that finds it asks the server which of them are blocked or there.
    set.set_all(CopyState::InProgress);
    swaps::write(call, call.run_id(), "clone", set)?;
    let mut theirs = Theirs::new();
    let made = clone::make(call, server, &set.live_clones(), &mut theirs, || call.check());
    let made = made.and_then(|counts| {
        Act::each(writable(set), Act::Unblock).iter().try_for_each(|act| clone::again(|| act.send(call, server)))?;
        Ok((counts, get_indices(server, set.names())?))
    });
    let (counts, found) = made.map_err(|failure| take_back(call, server, set, &theirs, failure))?;
    set.indices.iter_mut().for_each(|one| one.set_verified(&found, &counts));
    record::write_end(call, &set.run, "clone", set);
    Ok(())
}

/// Removes the copies and takes the blocks off. If something stays, so does the record.
fn take_back(call: &Call, server: &Server, set: &mut CopySet, theirs: &Theirs, mut failure: Failure) -> Failure {
    match clone::undo(call, &server.for_undo(call), &set.run.clone(), (&set.live_clones(), theirs), &mut failure) {
        Ok(last) => {
            let is_last = |one: &CopiedIndex| last.contains(&one.copy);
            set.set_all(CopyState::Removed);
            set.indices.iter_mut().filter(|one| is_last(one)).for_each(|one| one.state = CopyState::InProgress);
            call.effects().undone();
            if last.is_empty() {
                return record::remove(call, failure);
            }
            record::write_end(call, &set.run, "clone", set);
        }
        Err(error) => {
            failure.causes.push(format!("What was begun could not be taken back: {error}"));
            let discard = copies::discard(call, &set.run);
            failure.hint = Some(format!("{discard} removes the write blocks and what is left of it."));
        }
    }
    failure
}
