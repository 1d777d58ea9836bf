//! From what a swap is given to what it does: forward from what was staged, back from what an earlier swap kept, or on from
//! where a swap of the same run was cut.

use std::collections::{BTreeMap, BTreeSet};

use svc_step::from::{Accept, Received};
use svc_step::run_id::RunId;
use svc_step::{Call, Failure, StepResult, Stopped, swaps};

use super::act::Swapping;
use super::item::{Copy, State, SwapIndex, Swapped};
use super::next::Seen;
use super::plan::{Doubt, Wish, lay_out, refuse_second_write_index, requests, wishes_back, write_aliases};
use super::{HowArgs, SwapArgs};
use crate::guard::{self, Noted, STAGE, SWAP};
use crate::live;
use crate::look::{Index, count, look};
use crate::path::path;
use crate::resolve::{PassedOver, Patterns, Reason};
use crate::restore::Restored;
use crate::scope::Scope;
use crate::server::Server;
use crate::shape::{Shape, is_write_index};
use crate::stage::{StageState, Staged};
use crate::staged::Way;

/// Names under which the documents come that a swap goes on from.
const RESTORE: &str = "svc-snap.restore/1";

pub(crate) fn run(args: &SwapArgs, call: &Call) -> StepResult<Swapped> {
    let (given, of_document) = begun(args.from.from.as_deref(), args.of_run.as_ref(), call)?;
    let run = run_of(&given)?;
    let server = Server::connect(&args.connection, call)?;
    args.other.check(&server, cluster_of(&given))?;
    let _lock = guard::lock(call, &server, &args.scope.scope)?;
    let noted = match guard::noted(call, &run)? {
        Some(Noted::Swapped(swapped)) => Some(swapped),
        _ => None,
    };
    let (given, wanted_back) = match given {
        Noted::Staged(staged) => {
            if !staged.is_proven() {
                return Err(unproven(&staged).into());
            }
            (Noted::Staged(staged), false)
        }
        // The document of a swap, swapped again, goes back; what is noted of a run is gone on with.
        Noted::Swapped(swapped) => {
            let wanted = if of_document { !swapped.back } else { swapped.back || args.back };
            (Noted::Swapped(swapped), wanted)
        }
    };
    let how = args.how;
    let mut swapped = match (noted, given) {
        (Some(noted), _) if noted.back == wanted_back => {
            guard::refuse_outside(&args.scope.scope, noted.indices.iter().map(|item| item.index.as_str()))?;
            if args.dry.dry_run {
                return Ok(noted);
            }
            return go_on(call, &server, noted);
        }
        (Some(noted), Noted::Staged(_)) => return Err(taken_back(&noted).into()),
        (Some(before), Noted::Swapped(_)) | (None, Noted::Swapped(before)) => backward(call, &server, &before, how)?,
        (None, Noted::Staged(staged)) => {
            let swapped = forward(call, &server, &args.scope.scope, &staged, how)?;
            Swapped { snapshot_uuid: Some(staged.snapshot_uuid), ..swapped }
        }
    };
    guard::refuse_outside(&args.scope.scope, swapped.indices.iter().map(|item| item.index.as_str()))?;
    let names: Vec<&str> = swapped.indices.iter().map(|item| item.index.as_str()).collect();
    guard::refuse_unfinished_swaps(call, &server, &run, &names)?;
    if args.dry.dry_run {
        return Ok(swapped);
    }
    execute(call, &server, &mut swapped).map_err(|failure| Stopped::with(failure, swapped.clone()))?;
    Ok(swapped)
}

/// What a step goes on from: a document, or what is noted of a run; and whether it was a document.
///
/// # Errors
/// The document is no good (2), or nothing is noted of the run (4).
pub(crate) fn begun(from: Option<&std::path::Path>, run: Option<&RunId>, call: &Call) -> Result<(Noted, bool), Failure> {
    let received = match (from, run) {
        (Some(from), _) => Received::read(call, from, &[STAGE, SWAP, RESTORE], Accept::Unfinished)?,
        (None, Some(run)) => swaps::read(call, run, &[STAGE, SWAP])?,
        (None, None) => {
            return Err(Failure::usage("nothing_given", "Nothing says what to go on from.").hint("Say --from FILE or --run RUN."));
        }
    };
    let given = match received.step() {
        "stage" => Noted::Staged(received.result()?),
        "swap" => Noted::Swapped(received.result()?),
        _ => Noted::Swapped(received.result::<Restored>()?.swap.ok_or_else(|| {
            Failure::usage("nothing_swapped", "That restore swapped nothing: nothing was kept and nothing is left of it.")
                .hint("What was restored in place can be replaced by restoring another snapshot.")
        })?),
    };
    Ok((given, from.is_some()))
}

/// The run whose copies a document speaks of.
pub(crate) fn run_of(given: &Noted) -> Result<RunId, Failure> {
    let run = match given {
        Noted::Staged(staged) => &staged.run,
        Noted::Swapped(swapped) => &swapped.run,
    };
    run.parse().map_err(|why: String| {
        Failure::usage("from_damaged", "The document names no run.")
            .hint("Hand over the document as the tool printed it.")
            .cause(why)
    })
}

/// The cluster that a document speaks of.
pub(crate) fn cluster_of(given: &Noted) -> &str {
    match given {
        Noted::Staged(staged) => &staged.cluster_uuid,
        Noted::Swapped(swapped) => &swapped.cluster_uuid,
    }
}

fn unproven(staged: &Staged) -> Failure {
    Failure::usage("not_staged", "What that document speaks of was not staged to the end, so it must not become live.")
        .hint(format!("Stage it again; svc-snap unstage --run {} removes what is left of it.", staged.run))
}

fn taken_back(noted: &Swapped) -> Failure {
    let failure =
        Failure::refused("swap_taken_back", format!("The swap of the run {} was taken back, or is being so.", noted.run));
    if noted.is_finished() {
        failure.hint("Swap the document of the swap back once more, or stage the snapshot again under another --run-id.")
    } else {
        failure.hint(format!("svc-snap swap --run {} finishes it.", noted.run))
    }
}

/// The plan by which what was staged becomes live.
///
/// # Errors
/// What was staged is not there any more (4); a safety rule says no (3).
pub(crate) fn forward(call: &Call, server: &Server, scope: &Scope, staged: &Staged, how: HowArgs) -> Result<Swapped, Failure> {
    let way = Way { run: run_of(&Noted::Staged(staged.clone()))?, back: false };
    let mut skipped = staged.skipped.clone();
    let mut wishes = Vec::new();
    for one in staged.indices.iter().filter(|one| one.index != one.staged) {
        let (Some(uuid), Some(docs_count)) = (one.uuid.clone(), one.docs_count) else { return Err(unproven(staged)) };
        let source = Some(Copy { name: one.staged.clone(), uuid, docs_count });
        wishes.push(Wish { index: one.index.clone(), source, becomes: one.noted.clone(), holder: None });
    }
    if how.exact {
        let (surplus, left) = surplus(server, scope, staged)?;
        wishes.extend(surplus.into_iter().map(|index| Wish { index, source: None, becomes: None, holder: None }));
        skipped.extend(left);
    }
    let mut seen = look_at(server, &way, &wishes)?;
    imagine(staged, &mut seen);
    let missing = wishes.iter().filter_map(|wish| wish.source.as_ref());
    let missing: Vec<&str> = missing
        .filter(|copy| seen.get(&copy.name).is_none_or(|index| index.uuid != copy.uuid))
        .map(|copy| copy.name.as_str())
        .collect();
    if !missing.is_empty() {
        return Err(Failure::not_found(
            "staged_copy_missing",
            format!("What was staged is not there any more: {}.", missing.join(", ")),
        )
        .hint("Stage the snapshot again: svc-snap stage."));
    }
    planned(call, server, &way, wishes, &seen, how.drop_old, skipped)
}

/// What is not staged yet is thought to be there, for the plan of a restore.
fn imagine(staged: &Staged, seen: &mut BTreeMap<String, Index>) {
    for one in staged.indices.iter().filter(|one| one.state == StageState::Planned) {
        let shape = Shape { hidden: true, write_block: true, ..Shape::default() };
        let uuid = one.uuid.clone().unwrap_or_default();
        seen.insert(one.staged.clone(), Index { uuid, closed: false, whole: true, shape });
    }
}

/// The plan that takes back what `before` did.
fn backward(call: &Call, server: &Server, before: &Swapped, how: HowArgs) -> Result<Swapped, Failure> {
    if how.exact {
        return Err(Failure::usage(
            "exact_back",
            "--exact has no meaning when a swap is taken back: what it took away comes back.",
        )
        .hint("Leave --exact out."));
    }
    let run = run_of(&Noted::Swapped(before.clone()))?;
    let (was, way) = (Way { run: run.clone(), back: before.back }, Way { run, back: !before.back });
    let mut before = before.clone();
    let (mut seen, mut counts) = (BTreeMap::new(), BTreeMap::new());
    for item in &mut before.indices {
        let kept = way.kept(&item.index);
        let found = look(server, &[item.names(), vec![&kept]].concat())?;
        item.state = state(&was, item, found.clone());
        if let Some(kept) = item.kept.as_ref().filter(|kept| found.contains_key(*kept)) {
            counts.insert(kept.clone(), count(server, kept)?);
        }
        seen.extend(found);
    }
    let old = before.indices.iter().filter(|item| item.state == State::Old);
    let skipped = old.map(|item| PassedOver { name: item.index.clone(), reason: Reason::NotSwapped }).collect();
    let wishes = wishes_back(&before, &seen, &counts)?;
    let mut swapped = planned(call, server, &way, wishes, &seen, how.drop_old, skipped)?;
    swapped.begun = before.indices.into_iter().filter(|item| item.state == State::Old).collect();
    Ok(swapped)
}

/// Indices of the scope that the backup does not hold, and what is left alone although it does not hold it.
fn surplus(server: &Server, scope: &Scope, staged: &Staged) -> Result<(Vec<String>, Vec<PassedOver>), Failure> {
    let held: BTreeSet<&str> =
        staged.indices.iter().map(|one| one.index.as_str()).chain(staged.skipped.iter().map(|one| one.name.as_str())).collect();
    let patterns = Patterns::parse(&staged.asked_for);
    let wanted = |name: &str| scope.contains(name) && patterns.ask_for(name) && !held.contains(name);
    let live = live::names(server)?;
    let (mut surplus, mut left) = (Vec::new(), Vec::new());
    for index in live.indices.iter().filter(|index| !index.system).map(|index| &index.name).filter(|name| wanted(name)) {
        // By convention these are the server's own, which come and go with its features.
        if index.starts_with('.') {
            left.push(PassedOver { name: index.clone(), reason: Reason::ServersOwn });
        } else {
            surplus.push(index.clone());
        }
    }
    let streams = live.streams.iter().filter(|name| wanted(name));
    left.extend(streams.map(|name| PassedOver { name: name.clone(), reason: Reason::DataStream }));
    Ok((surplus, left))
}

fn look_at(server: &Server, way: &Way, wishes: &[Wish]) -> Result<BTreeMap<String, Index>, Failure> {
    let mut seen = BTreeMap::new();
    for wish in wishes {
        let kept = way.kept(&wish.index);
        let source = wish.source.as_ref().map(|source| source.name.as_str());
        let names: Vec<&str> = [Some(wish.index.as_str()), Some(kept.as_str()), source].into_iter().flatten().collect();
        seen.extend(look(server, &names)?);
    }
    Ok(seen)
}

fn planned(
    call: &Call,
    server: &Server,
    way: &Way,
    wishes: Vec<Wish>,
    seen: &BTreeMap<String, Index>,
    drop_old: bool,
    skipped: Vec<PassedOver>,
) -> Result<Swapped, Failure> {
    let (indices, doubts) = lay_out(way, wishes, seen, drop_old)?;
    refuse_aliases_in_the_way(server, &indices)?;
    let mut holders = BTreeMap::new();
    for alias in write_aliases(&indices) {
        holders.insert(alias.to_owned(), write_holders(server, alias)?);
    }
    refuse_second_write_index(&indices, &holders)?;
    // A plan that is made before its staging is made again after it, and speaks then.
    if indices.iter().all(|item| item.source.as_ref().is_none_or(|source| !source.uuid.is_empty())) {
        tell(call, &doubts);
    }
    let plan = requests(way, &indices, seen);
    let (cluster_uuid, run) = (server.cluster_uuid.clone(), way.run.to_string());
    Ok(Swapped { cluster_uuid, run, snapshot_uuid: None, back: way.back, indices, begun: Vec::new(), skipped, plan })
}

/// A name that is an alias cannot become an index.
fn refuse_aliases_in_the_way(server: &Server, indices: &[SwapIndex]) -> Result<(), Failure> {
    let mut taken = Vec::new();
    for item in indices.iter().filter(|item| item.live_uuid.is_none() && item.source.is_some()) {
        if server.find(&path(&["_alias", &item.index]))?.is_some() {
            taken.push(item.index.as_str());
        }
    }
    if taken.is_empty() {
        return Ok(());
    }
    Err(Failure::refused(
        "alias_in_the_way",
        format!("Indices of the backup have the names of aliases that are there now: {}.", taken.join(", ")),
    )
    .hint("GET /_cat/aliases shows them; rename or remove those aliases first."))
}

/// The indices that an alias writes to.
fn write_holders(server: &Server, alias: &str) -> Result<Vec<String>, Failure> {
    let Some(found) = server.find(&path(&["_alias", alias]))? else { return Ok(Vec::new()) };
    let holders = crate::look::members(&found).filter(|(_, index)| {
        let properties = index.get("aliases").and_then(|aliases| aliases.get(alias)).and_then(serde_json::Value::as_object);
        properties.is_some_and(is_write_index)
    });
    Ok(holders.map(|(name, _)| name.clone()).collect())
}

fn tell(call: &Call, doubts: &[Doubt]) {
    let names = |wanted: fn(&Doubt) -> Option<&String>| {
        doubts.iter().filter_map(wanted).map(String::as_str).collect::<Vec<_>>().join(", ")
    };
    let live = names(|doubt| if let Doubt::FromLive(name) = doubt { Some(name) } else { None });
    let unknown = names(|doubt| if let Doubt::Unknown(name) = doubt { Some(name) } else { None });
    if !live.is_empty() {
        call.warn(
            "shape_from_live",
            format!("No document of create says which aliases, replicas and lifecycle these had, so they get those of what is live: {live}."),
        );
    }
    if !unknown.is_empty() {
        call.review(
            "shape_unknown",
            format!("Nothing says which aliases, replicas and lifecycle these had; they have none: {unknown}."),
        );
    }
}

/// How an index of a swap stands, from what the server shows of its names.
pub(crate) fn state(way: &Way, item: &SwapIndex, indices: BTreeMap<String, Index>) -> State {
    Seen { indices, rivals: Vec::new() }.state(way, item)
}

/// Notes the plan, carries it out, and notes how it ended.
///
/// # Errors
/// Whatever stopped it; the states say how things stand.
pub(crate) fn execute(call: &Call, server: &Server, swapped: &mut Swapped) -> Result<(), Failure> {
    let way = Way { run: run_of(&Noted::Swapped(swapped.clone()))?, back: swapped.back };
    swaps::write(call, &way.run, "swap", swapped)?;
    let swapping = Swapping { call, server, way: &way };
    let ended = swapping.carry_out(swapped);
    swaps::write(call, &way.run, "swap", swapped)?;
    ended
}

/// Goes on with a swap from where it was; one that is finished is left as it is.
///
/// # Errors
/// As [`execute`].
pub(crate) fn go_on(call: &Call, server: &Server, mut noted: Swapped) -> StepResult<Swapped> {
    if noted.is_finished() {
        return Ok(noted);
    }
    execute(call, server, &mut noted).map_err(|failure| Stopped::with(failure, noted.clone()))?;
    Ok(noted)
}
