//! The last document of a run, made of its journal, its notes and how it ended.

use std::path::Path;

use serde_json::{Map, Value};
use svc_step::Failure;
use svc_step::document::{Document, ErrorPart, Warning};
use svc_step::journal::{Attempt, Journal, Kind, Notes};
use svc_step::steps;

use super::{Hop, Outcome, RunResult, StepLine};

/// The last document of a run: of its journal (none if it ended before it had one), of its notes, and of how it ended.
pub fn document(run: Option<&Journal>, notes: &Notes, outcome: &Outcome) -> Document<RunResult> {
    let attempts = run.map(Journal::attempts).unwrap_or_default();
    let mut facts = notes.facts.clone();
    let kept = of_restore_points(&mut facts, &attempts);
    let mut result = with_facts(&facts);
    result.run_dir = run.filter(|_| !outcome.dry_run).map(|run| run.dir().display().to_string());
    result.steps = attempts.iter().map(line).collect();
    // That of a nightly backup is its step's.
    let span = downtime(&attempts).and_then(|(down, up)| Some(up? - down));
    result.downtime_ms = span.or_else(|| document_of(&attempts, steps::BACKUP)?.number("/downtime_ms"));
    result.hops = hops(&attempts);
    result.from_version = from_version(&attempts);
    if outcome.is_ok() && result.version.is_none() {
        result.version = result.hops.last().and_then(|hop| hop.version.clone());
    }
    if let Some(removed) = document_of(&attempts, steps::REMOVE_POINT).filter(|removed| removed.result.is_some()) {
        result.restore_point.take_if(|point| !is_complete(point));
        result.incomplete_point = removed.text("/incomplete_point");
    }
    name_previous(&mut result, &attempts, !outcome.is_ok() && notes.commit.is_none());
    result.plan.clone_from(&outcome.plan);
    let own = notes.warnings.iter().cloned();
    // What a person must read is not left out.
    let counts = |one: &&Attempt| notes.review || !is_outdated(one, &attempts);
    Document {
        ok: outcome.is_ok(),
        // Of a run whose directory was removed nobody knows.
        changed: if run.is_none_or(|run| run.dir().exists()) { changed(&attempts, &result, outcome) } else { None },
        dry_run: outcome.dry_run,
        warnings: own.chain(attempts.iter().filter(counts).flat_map(warnings_of)).collect(),
        error: outcome.failure.as_ref().map(|failure| error(failure, kept)),
        result: Some(result),
        ..Document::new(&outcome.script, "run", &outcome.run_id, outcome.started)
    }
}

/// Whether a restore point is complete: `svc-point remove` leaves it, even if the run did not come to know that.
pub fn is_complete(point: &str) -> bool {
    Path::new(point).join("SHA256SUMS").exists()
}

/// What svc-point has found and removed, even if it failed, and what a rehearsal has found: their documents say it. Gives what is kept
/// of an incomplete restore point, as a sentence for the message.
fn of_restore_points(facts: &mut Map<String, Value>, attempts: &[Attempt]) -> Option<String> {
    let mut sentence = None;
    for attempt in attempts {
        let Some((document, result)) = attempt.document.as_ref().and_then(|one| Some((one, one.result.as_ref()?))) else {
            continue;
        };
        let keys: &[&str] = match document.schema.as_str() {
            "svc-point.prune/1" => &["points", "removed", "removed_runs", "partially_removed"],
            "svc-point.delete/1" => &["points", "removed", "partially_removed"],
            "svc-point.remove/1" => {
                sentence = result.get("message").and_then(Value::as_str).map(ToOwned::to_owned);
                &[]
            }
            "svc-point.rehearsal/1" if document.ok => {
                facts.insert("rehearsal".to_owned(), result.clone());
                &[]
            }
            "svc-rehearse.run/1" if document.ok => &["rehearsal"],
            _ => &[],
        };
        facts.extend(keys.iter().filter_map(|key| Some(((*key).to_owned(), result.get(*key)?.clone()))));
    }
    sentence
}

/// A fact of the wrong type is left out: the document must come whatever a script has added.
fn with_facts(facts: &Map<String, Value>) -> RunResult {
    let read = |facts: Map<String, Value>| serde_json::from_value::<RunResult>(Value::Object(facts)).ok();
    read(facts.clone()).unwrap_or_else(|| {
        let alone = |(key, value): &(&String, &Value)| read(Map::from_iter([((*key).clone(), (*value).clone())])).is_some();
        let right = facts.iter().filter(alone).map(|(key, value)| (key.clone(), value.clone()));
        read(right.collect()).unwrap_or_default()
    })
}

fn line(attempt: &Attempt) -> StepLine {
    let line = StepLine { step: attempt.step.clone(), attempt: attempt.attempt, ..StepLine::default() };
    match &attempt.document {
        Some(document) => StepLine {
            schema: Some(document.schema.clone()),
            ok: document.ok,
            changed: document.changed,
            duration_ms: document.duration_ms,
            error: document.error.as_ref().map(|error| error.code.clone()),
            ..line
        },
        // A step that was started and left no document is unknown, unless it only read.
        None => {
            StepLine { changed: (attempt.kind == Kind::Check).then_some(false), error: Some("no_document".to_owned()), ..line }
        }
    }
}

fn newest<'a>(attempts: &'a [Attempt], step: &str) -> Option<&'a Attempt> {
    attempts.iter().filter(|one| one.step == step).max_by_key(|one| one.attempt)
}

fn document_of<'a>(attempts: &'a [Attempt], step: &str) -> Option<&'a Document<Value>> {
    newest(attempts, step)?.document.as_ref()
}

/// From when to when the service was down, in milliseconds since 1970; without an end if the run has not started it again. The
/// request to stop may have been made by a step that was interrupted; then the one after it only saw since when the unit was inactive.
fn downtime(attempts: &[Attempt]) -> Option<(u64, Option<u64>)> {
    let stops = || attempts.iter().filter(|one| one.step == steps::STOP);
    let requested = stops().find_map(|stop| stop.document.as_ref()?.number("/requested_epoch_ms"));
    let seen = || {
        let mut later = stops().filter(|stop| stop.attempt > 1);
        later.find_map(|stop| stop.document.as_ref()?.number("/after/inactive_enter_epoch_ms"))
    };
    let down = requested.or_else(seen)?;
    // A run that failed before its own start was undone by `start-again`.
    let active = |step| document_of(attempts, step)?.number("/after/active_enter_epoch_ms");
    let up = active(steps::START).or_else(|| active(steps::START_AGAIN));
    Some((down, up.filter(|up| down <= *up)))
}

/// An upgrade has read it; a rollback clears it; the first hop has it from its own run.
fn from_version(attempts: &[Attempt]) -> Option<String> {
    let of = |step, key| document_of(attempts, step)?.text(key);
    of(steps::PRESENT, "/version").or_else(|| of(steps::FIRST_HOP, "/from_version")).or_else(|| of(steps::CLEAR, "/version"))
}

/// Each hop once, by its newest document.
fn hops(attempts: &[Attempt]) -> Vec<Hop> {
    let mut found: Vec<(u32, Hop)> = Vec::new();
    for attempt in attempts.iter().filter(|one| steps::is_hop(&one.step)) {
        let Some(document) = &attempt.document else { continue };
        let hop = Hop {
            run_id: document.run_id.clone(),
            ok: document.ok,
            version: document.text("/version"),
            restore_point: document.text("/restore_point"),
            downtime_ms: document.number("/downtime_ms"),
        };
        found.retain(|(number, _)| *number != attempt.number);
        found.push((attempt.number, hop));
    }
    found.into_iter().map(|(_, hop)| hop).collect()
}

/// What the swaps have replaced, as their documents say it. Where none has begun, or all of it was undone, nothing was replaced.
fn name_previous(result: &mut RunResult, attempts: &[Attempt], undone: bool) {
    let begun = |step| newest(attempts, step).is_some();
    if undone || (result.previous.is_some() && !begun(steps::SWAP_SEARCH) && !begun(steps::SWAP_DATABASE)) {
        result.previous = None;
        result.swap_back.clear();
        result.discard_previous.clear();
    }
    let Some(previous) = &mut result.previous else { return };
    // One that a signal has ended is finished all the same.
    let is_ended = |document: &Document<Value>| document.error.as_ref().is_some_and(|error| error.code == "interrupted");
    let has_swapped = |document: &Document<Value>| document.ok || document.changed == Some(true) && is_ended(document);
    let swapped = |step| document_of(attempts, step).filter(|document| has_swapped(document));
    let indices = swapped(steps::SWAP_SEARCH).and_then(|swap| swap.at("/indices")?.as_array()).into_iter().flatten();
    previous.indices = indices.filter_map(|index| index.get("previous")?.as_str().map(ToOwned::to_owned)).collect();
    previous.databases = swapped(steps::SWAP_DATABASE).and_then(|swap| swap.text("/previous/name")).into_iter().collect();
}

/// What this call has changed, not what an earlier one of the same run has.
fn changed(attempts: &[Attempt], result: &RunResult, outcome: &Outcome) -> Option<bool> {
    if outcome.dry_run {
        return Some(false);
    }
    let own = attempts.iter().filter(|one| !outcome.earlier.contains(&one.files) && !outcome.undone.contains(&one.step));
    let steps: Vec<Option<bool>> = own.map(|one| line(one).changed).collect();
    let removed = [&result.removed, &result.removed_runs].into_iter().flatten().any(|list| !list.is_empty());
    let is_left = result.restore_point.is_some() && newest(attempts, steps::REMOVE_POINT).is_some();
    let stays = result.partially_removed.is_some() || result.incomplete_point.is_some() || is_left;
    if removed || stays || outcome.recovered || steps.contains(&Some(true)) {
        Some(true)
    } else if steps.contains(&None) {
        None
    } else {
        Some(false)
    }
}

/// Whether an attempt has changed nothing, and a later one of its step has seen how things are now.
fn is_outdated(attempt: &Attempt, attempts: &[Attempt]) -> bool {
    let is_later = |one: &Attempt| one.step == attempt.step && one.attempt > attempt.attempt && one.document.is_some();
    attempt.document.as_ref().is_some_and(|document| document.changed == Some(false)) && attempts.iter().any(is_later)
}

fn warnings_of(attempt: &Attempt) -> impl Iterator<Item = Warning> {
    let warnings = attempt.document.iter().flat_map(|document| &document.warnings);
    warnings.map(|one| Warning { code: one.code.clone(), message: format!("{}: {}", attempt.step, one.message) })
}

fn error(failure: &Failure, kept: Option<String>) -> ErrorPart {
    let error = ErrorPart::from(failure);
    ErrorPart { message: [error.message].into_iter().chain(kept).collect::<Vec<_>>().join(" "), ..error }
}
