//! The last document of a run: the contract's envelope over the documents of its steps.

use std::collections::BTreeSet;
use std::path::PathBuf;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use svc_step::call::Call;
use svc_step::document::{Document, ErrorPart, Warning, schema_name};
use svc_step::journal::{Attempt, Journal, Kind, Notes};

/// What a run has done.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RunResult {
    /// The run directory, which is the run's journal; null in a dry run.
    pub run_dir: Option<String>,
    /// Every attempt of every step, in the order in which the steps were begun.
    pub steps: Vec<StepLine>,
    /// From the request to stop to the unit's own time of becoming active; null where the unit was not stopped, or is not running.
    pub downtime_ms: Option<u64>,
    /// The restore point that was made, restored, or rehearsed.
    pub restore_point: Option<String>,
    /// The version that was installed before; null where nobody knows it.
    pub from_version: Option<String>,
    /// The version that is installed when the run has ended well.
    pub version: Option<String>,
    /// The checks that were made before anything was changed.
    pub preflight: Vec<Check>,
    /// How many of the checks passed, warned and failed.
    pub preflight_total: Option<Total>,
    /// What a rollback replaced and left in place; null where there is nothing of the kind.
    pub previous: Option<Previous>,
    /// The commands that undo the swaps of a rollback, in their order.
    pub swap_back: Vec<String>,
    /// The commands that discard what a rollback replaced, or the clones of an upgrade.
    pub discard_previous: Vec<String>,
    /// Whether a rollback took the clones of `svc-upgrade --clone`; null where there were none.
    pub clones: Option<bool>,
    /// The upgrades that a run of several hops has made, each a run of its own.
    pub hops: Vec<Hop>,
    /// The restore point from which this run has removed `SHA256SUMS`, and could not remove the rest.
    pub half_removed: Option<String>,
    /// What a rehearsal of a rollback has found; null where none was made.
    pub rehearsal: Option<Value>,
    /// The rehearsals that were killed and whose copies this run has discarded.
    pub cleared: Vec<String>,
    /// In a dry run: the commands, as they are typed.
    pub plan: Vec<String>,
    /// The restore points as they were found (`svc-backup --list`, `--prune`, `--delete`), the oldest first; else null.
    pub points: Option<Vec<Value>>,
    /// The restore points that this run has removed; null where it was not to remove any.
    pub removed: Option<Vec<String>>,
    /// The run directories that `svc-backup --prune` has removed; null where it was not to remove any.
    pub removed_runs: Option<Vec<String>>,
    /// Where a failed nightly backup left what it could back up; it is no restore point.
    pub incomplete_point: Option<String>,
    /// What an operator's own script has noted (`svc-run note KEY VALUE`).
    #[serde(flatten)]
    pub noted: Map<String, Value>,
}

/// One attempt of a step.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StepLine {
    /// Its name.
    pub step: String,
    /// 1, and one more for each time that the run made the step again.
    pub attempt: u32,
    /// The schema of its document; null where it left none.
    pub schema: Option<String>,
    /// Whether it ended well.
    pub ok: bool,
    /// As in its document; null where it left none.
    pub changed: Option<bool>,
    /// As in its document; 0 where it left none.
    pub duration_ms: u64,
    /// The code of its error; `no_document` where it left none.
    pub error: Option<String>,
}

/// One check of the preflight.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Check {
    /// The step.
    pub check: String,
    /// How it ended.
    pub verdict: Verdict,
    /// What was found, in a few words.
    pub says: String,
}

/// How a check ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// All is well.
    Pass,
    /// It has a warning.
    Warn,
    /// It failed: the run ends after the preflight.
    Fail,
}

impl Verdict {
    /// The word for it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Warn => "warn",
            Self::Fail => "fail",
        }
    }
}

/// How many checks ended in which way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Total {
    /// Checks without a warning.
    pub pass: usize,
    /// Checks with a warning.
    pub warn: usize,
    /// Checks that failed.
    pub fail: usize,
}

impl Total {
    /// The sum over the checks.
    pub fn of(checks: &[Check]) -> Self {
        let count = |verdict| checks.iter().filter(|check| check.verdict == verdict).count();
        Self { pass: count(Verdict::Pass), warn: count(Verdict::Warn), fail: count(Verdict::Fail) }
    }
}

/// What a rollback replaced and left in place.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Previous {
    /// The run whose name it bears: the rollback's, or that of the upgrade whose clones were taken.
    pub run: String,
    /// Names in the cluster; empty before its swap.
    pub indices: Vec<String>,
    /// Names in PostgreSQL; empty before its swap.
    pub databases: Vec<String>,
}

/// One upgrade of a run over several versions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Hop {
    /// Its run.
    pub run_id: String,
    /// Whether it ended well.
    pub ok: bool,
    /// The version that it installed.
    pub version: Option<String>,
    /// Its restore point.
    pub restore_point: Option<String>,
    /// As [`RunResult::downtime_ms`].
    pub downtime_ms: Option<u64>,
}

/// How a run ended, as far as its journal does not say it.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// The script, `svc-upgrade`.
    pub script: String,
    /// The run's ID.
    pub run_id: String,
    /// The exit status: 0, or 9 for a person to look, is an end without an error.
    pub status: i32,
    /// Whether it only printed what it would do.
    pub dry_run: bool,
    /// When this call began.
    pub started: Timestamp,
    /// The step that ended the run.
    pub failed_step: Option<String>,
    /// The error's code; empty: that of the step.
    pub code: String,
    /// The error's sentence.
    pub message: String,
    /// The command or setting that helps.
    pub hint: Option<String>,
    /// The steps that left nothing, since an undo has taken back what they did.
    pub undone: Vec<String>,
    /// The attempts of earlier calls of the run, by their files.
    pub earlier: BTreeSet<PathBuf>,
    /// In a dry run, the commands.
    pub plan: Vec<String>,
}

impl Outcome {
    /// Whether the run did what it was asked.
    pub const fn is_ok(&self) -> bool {
        self.status == 0 || self.status == 9
    }
}

/// The last document of a run: of its journal (none where it ended before it had one), of its notes, and of how it ended.
pub fn document(run: Option<&Journal>, notes: &Notes, outcome: &Outcome) -> Document<RunResult> {
    let attempts = run.map(Journal::attempts).unwrap_or_default();
    let mut facts = notes.facts.clone();
    let kept = of_restore_points(&mut facts, &attempts, outcome);
    let mut result = with_facts(&facts);
    result.run_dir = run.filter(|_| !outcome.dry_run).map(|run| run.dir().display().to_string());
    result.steps = attempts.iter().map(line).collect();
    result.downtime_ms = downtime(&attempts);
    result.preflight_total = (!result.preflight.is_empty()).then(|| Total::of(&result.preflight));
    result.hops = hops(&attempts);
    result.from_version = from_version(&attempts);
    if outcome.is_ok() && result.version.is_none() {
        result.version = result.hops.last().and_then(|hop| hop.version.clone());
    }
    if let Some(removed) = result_of(&attempts, "remove-incomplete-point") {
        result.restore_point = None;
        result.incomplete_point = removed.get("incomplete_point").and_then(Value::as_str).map(ToOwned::to_owned);
    }
    name_previous(&mut result, &attempts, !outcome.is_ok() && notes.commit.is_none());
    result.plan.clone_from(&outcome.plan);
    let finished = Timestamp::now();
    let own = notes.warnings.iter().cloned();
    Document {
        schema: schema_name(&outcome.script, "run"),
        tool: format!("{} {}", outcome.script, env!("CARGO_PKG_VERSION")),
        step: "run".to_owned(),
        ok: outcome.is_ok(),
        changed: changed(&attempts, &result, outcome),
        dry_run: outcome.dry_run,
        run_id: outcome.run_id.clone(),
        host: Call::host(),
        started_at: outcome.started.into(),
        finished_at: finished.into(),
        duration_ms: u64::try_from(finished.as_millisecond() - outcome.started.as_millisecond()).unwrap_or(0),
        warnings: own.chain(attempts.iter().flat_map(warnings_of)).collect(),
        error: (!outcome.is_ok()).then(|| error(&attempts, outcome, kept)),
        result: Some(result),
    }
}

/// What svc-point has found and removed, also where it failed: its documents say it. Gives what is kept of an incomplete restore point, as
/// a sentence for the message.
fn of_restore_points(facts: &mut Map<String, Value>, attempts: &[Attempt], outcome: &Outcome) -> Option<String> {
    let mut sentence = None;
    for attempt in attempts.iter().filter(|_| !outcome.dry_run) {
        let Some((document, result)) = attempt.document.as_ref().and_then(|one| Some((one, one.result.as_ref()?))) else {
            continue;
        };
        let keys: &[&str] = match document.schema.as_str() {
            "svc-point.prune/1" => &["points", "removed", "removed_runs", "half_removed"],
            "svc-point.delete/1" => &["points", "removed", "half_removed"],
            "svc-point.remove/1" => {
                sentence = result.get("kept").and_then(Value::as_str).map(ToOwned::to_owned);
                &[]
            }
            _ => &[],
        };
        facts.extend(keys.iter().filter_map(|key| Some(((*key).to_owned(), result.get(*key)?.clone()))));
    }
    sentence
}

/// A fact of the wrong type is left out: the document must come whatever a script has noted.
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

/// The newest attempt of a step.
fn newest<'a>(attempts: &'a [Attempt], step: &str) -> Option<&'a Attempt> {
    attempts.iter().filter(|one| one.step == step).max_by_key(|one| one.attempt)
}

/// The result of a step's newest attempt.
fn result_of<'a>(attempts: &'a [Attempt], step: &str) -> Option<&'a Value> {
    newest(attempts, step)?.document.as_ref()?.result.as_ref()
}

/// The request to stop may have been made by a step that was interrupted; then the one after it only saw since when the unit was
/// inactive.
fn downtime(attempts: &[Attempt]) -> Option<u64> {
    let stops: Vec<(u32, &Value)> = attempts
        .iter()
        .filter(|one| one.step == "stop")
        .filter_map(|one| Some((one.attempt, one.document.as_ref()?.result.as_ref()?)))
        .collect();
    let requested = stops.iter().find_map(|(_, result)| result.get("requested_epoch_ms")?.as_u64());
    let seen = || {
        let later = stops.iter().filter(|(attempt, _)| *attempt > 1);
        later.filter_map(|(_, result)| result.pointer("/after/inactive_enter_epoch_ms")?.as_u64()).next()
    };
    let up = result_of(attempts, "start")?.pointer("/after/active_enter_epoch_ms")?.as_u64()?;
    up.checked_sub(requested.or_else(seen)?)
}

/// An upgrade has read it; a rollback clears it; the first hop has it from its own run.
fn from_version(attempts: &[Attempt]) -> Option<String> {
    let of = |step, key| result_of(attempts, step)?.get(key)?.as_str().map(ToOwned::to_owned);
    of("present", "version").or_else(|| of("hop-1", "from_version")).or_else(|| of("forget", "version"))
}

/// Each hop once, by its newest document.
fn hops(attempts: &[Attempt]) -> Vec<Hop> {
    let mut found: Vec<(u32, Hop)> = Vec::new();
    for attempt in attempts.iter().filter(|one| one.step.starts_with("hop-")) {
        let Some(document) = &attempt.document else { continue };
        let text = |key| document.result.as_ref()?.get(key)?.as_str().map(ToOwned::to_owned);
        let hop = Hop {
            run_id: document.run_id.clone(),
            ok: document.ok,
            version: text("version"),
            restore_point: text("restore_point"),
            downtime_ms: document.result.as_ref().and_then(|result| result.get("downtime_ms")?.as_u64()),
        };
        found.retain(|(number, _)| *number != attempt.number);
        found.push((attempt.number, hop));
    }
    found.into_iter().map(|(_, hop)| hop).collect()
}

/// What the swaps have replaced, as their documents say it. Where none has begun, or all of it was undone, nothing was replaced.
fn name_previous(result: &mut RunResult, attempts: &[Attempt], undone: bool) {
    let begun = |step| newest(attempts, step).is_some();
    if undone || (result.previous.is_some() && !begun("swap-search") && !begun("swap-database")) {
        result.previous = None;
        result.swap_back.clear();
        result.discard_previous.clear();
    }
    let Some(previous) = &mut result.previous else { return };
    let swapped = |step| newest(attempts, step).filter(|one| one.is_ok()).and_then(|one| one.document.as_ref()?.result.as_ref());
    let indices = swapped("swap-search").and_then(|result| result.get("indices")?.as_array()).into_iter().flatten();
    previous.indices = indices.filter_map(|index| index.get("previous")?.as_str().map(ToOwned::to_owned)).collect();
    let database = swapped("swap-database").and_then(|result| result.get("previous")?.get("name")?.as_str());
    previous.databases = database.map(ToOwned::to_owned).into_iter().collect();
}

/// What this call has changed, not what an earlier one of the same run has.
fn changed(attempts: &[Attempt], result: &RunResult, outcome: &Outcome) -> Option<bool> {
    if outcome.dry_run {
        return Some(false);
    }
    let own = attempts.iter().filter(|one| !outcome.earlier.contains(&one.files) && !outcome.undone.contains(&one.step));
    let steps: Vec<Option<bool>> = own.map(|one| line(one).changed).collect();
    let removed = [&result.removed, &result.removed_runs].into_iter().flatten().any(|list| !list.is_empty());
    let stays = result.half_removed.is_some() || result.incomplete_point.is_some();
    if removed || stays || !result.cleared.is_empty() || steps.contains(&Some(true)) {
        Some(true)
    } else if steps.contains(&None) {
        None
    } else {
        Some(false)
    }
}

fn warnings_of(attempt: &Attempt) -> impl Iterator<Item = Warning> {
    let warnings = attempt.document.iter().flat_map(|document| &document.warnings);
    warnings.map(|one| Warning { code: one.code.clone(), message: format!("{}: {}", attempt.step, one.message) })
}

fn error(attempts: &[Attempt], outcome: &Outcome, kept: Option<String>) -> ErrorPart {
    let failed = outcome.failed_step.as_ref().and_then(|step| newest(attempts, step));
    let cause = failed.and_then(|one| one.document.as_ref()?.error.as_ref());
    let code = match cause {
        _ if !outcome.code.is_empty() => outcome.code.clone(),
        Some(cause) => cause.code.clone(),
        None if failed.is_some() => "no_document".to_owned(),
        None => "failed".to_owned(),
    };
    ErrorPart {
        code,
        message: kept.map_or_else(|| outcome.message.clone(), |kept| format!("{} {kept}", outcome.message)),
        hint: outcome.hint.clone(),
        retryable: cause.is_some_and(|cause| cause.retryable),
        causes: cause.map(|cause| cause.causes.clone()).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::bench::Made;

    fn ended(made: &Made, notes: &Notes, outcome: &Outcome) -> Document<RunResult> {
        document(Some(&made.journal()), notes, outcome)
    }

    fn committed() -> Notes {
        Notes { commit: Some(String::new()), ..Notes::default() }
    }

    #[test]
    fn the_service_is_down_from_the_request_to_stop_until_the_unit_is_active() {
        let stop = |requested: Option<u64>, inactive: u64| json!({"requested_epoch_ms": requested, "after": {"inactive_enter_epoch_ms": inactive}});
        let start = |active: Option<u64>| json!({"after": {"active_enter_epoch_ms": active}});
        type Steps = Vec<(&'static str, Option<Value>)>;
        let cases: Vec<(Steps, Option<u64>)> = vec![
            (vec![], None),
            (vec![("01-stop", Some(stop(Some(1000), 1400))), ("02-start", Some(start(Some(3500))))], Some(2500)),
            // It was not running before.
            (vec![("01-stop", Some(stop(None, 400))), ("02-start", Some(start(Some(3500))))], None),
            // It does not run now.
            (vec![("01-stop", Some(stop(Some(1000), 1400))), ("02-start", Some(start(None)))], None),
            (vec![("01-stop", Some(stop(Some(1000), 1400))), ("02-start", Some(start(Some(3500)))), ("02-start.2", None)], None),
            // The first request was interrupted; the second one came too late.
            (vec![("01-stop", None), ("01-stop.2", Some(stop(None, 1400))), ("02-start", Some(start(Some(3500))))], Some(2100)),
            (vec![("01-stop", Some(stop(Some(9000), 9400))), ("02-start", Some(start(Some(3500))))], None),
        ];
        for (steps, expected) in cases {
            let made = Made::new("svc-upgrade");
            for (name, result) in &steps {
                match result {
                    Some(result) => made.step(name, "step", &json!({"result": result})),
                    None => made.started(name, "step"),
                }
            }
            let document = ended(&made, &Notes::default(), &Outcome::default());
            assert_eq!(document.result.unwrap().downtime_ms, expected, "{steps:?}");
        }
    }

    #[test]
    fn changed_tells_what_this_call_has_changed() {
        type Case<'a> = (&'a [(&'a str, &'a str, Option<Value>)], Value, &'a [&'a str], Option<bool>);
        let cases: [Case; 9] = [
            (&[], json!({}), &[], Some(false)),
            (&[("01-a", "step", Some(json!({"changed": false})))], json!({}), &[], Some(false)),
            (&[("01-a", "step", Some(json!({"changed": true}))), ("02-b", "step", None)], json!({}), &[], Some(true)),
            (&[("01-a", "step", Some(json!({"changed": false}))), ("02-b", "step", None)], json!({}), &[], None),
            (&[("01-a", "check", None)], json!({}), &[], Some(false)),
            (&[("01-a", "external", None)], json!({}), &[], None),
            (&[("01-a", "step", Some(json!({"changed": true})))], json!({}), &["a"], Some(false)),
            (&[], json!({"removed": ["20261120t020003z-manual"]}), &[], Some(true)),
            (&[], json!({"removed": [], "half_removed": "20261120t020003z-manual"}), &[], Some(true)),
        ];
        for (steps, facts, undone, expected) in cases {
            let made = Made::new("svc-backup");
            for (name, kind, document) in steps {
                match document {
                    Some(document) => made.step(name, kind, document),
                    None => made.started(name, kind),
                }
            }
            let notes = Notes { facts: facts.as_object().unwrap().clone(), ..Notes::default() };
            let undone = undone.iter().map(ToString::to_string).collect();
            let outcome = Outcome { undone, ..Outcome::default() };
            assert_eq!(ended(&made, &notes, &outcome).changed, expected, "{steps:?} {facts}");
            let dry = Outcome { dry_run: true, ..outcome.clone() };
            assert_eq!(ended(&made, &notes, &dry).changed, Some(false));
            if facts == json!({}) {
                let earlier = made.journal().attempts().into_iter().map(|one| one.files).collect();
                let later = Outcome { earlier, ..outcome };
                assert_eq!(ended(&made, &notes, &later).changed, Some(false), "an earlier call has made the steps");
            }
        }
    }

    #[test]
    fn what_a_rollback_replaced_is_named_by_its_swaps() {
        let facts =
            json!({"previous": {"run": "r"}, "swap_back": ["svc-unit stop"], "discard_previous": ["svc-snap discard --run r"]});
        let notes = Notes { facts: facts.as_object().unwrap().clone(), ..committed() };
        let made = Made::new("svc-rollback");
        let failed = Outcome { status: 1, ..Outcome::default() };
        // Neither swap has begun.
        let result = ended(&made, &notes, &failed).result.unwrap();
        assert_eq!((result.previous, result.swap_back.len(), result.discard_previous.len()), (None, 0, 0));
        made.step("01-swap-search", "step", &json!({"result": {"indices": [{"previous": "svc-before-a"}, {"previous": null}]}}));
        made.step("02-swap-database", "step", &json!({"ok": false, "result": {"previous": {"name": "svc_db_before"}}}));
        let result = ended(&made, &notes, &failed).result.unwrap();
        assert_eq!(result.previous.unwrap().databases, [""; 0]);
        assert_eq!(result.swap_back, ["svc-unit stop"]);
        made.step("02-swap-database.2", "step", &json!({"result": {"previous": {"name": "svc_db_before"}}}));
        let result = ended(&made, &notes, &Outcome::default()).result.unwrap();
        let previous = result.previous.unwrap();
        assert_eq!(
            (previous.run.as_str(), previous.indices, previous.databases),
            ("r", vec!["svc-before-a".to_owned()], vec!["svc_db_before".to_owned()])
        );
    }

    #[test]
    fn the_clones_of_an_upgrade_that_was_undone_need_no_command() {
        let facts = json!({"discard_previous": ["svc-snap discard --run r"]});
        let made = Made::new("svc-upgrade");
        let failed = Outcome { status: 1, ..Outcome::default() };
        for (commit, status, count) in [(None, 1, 0), (Some("hint".to_owned()), 1, 1), (None, 0, 1)] {
            let notes = Notes { facts: facts.as_object().unwrap().clone(), commit, ..Notes::default() };
            let outcome = Outcome { status, ..failed.clone() };
            assert_eq!(ended(&made, &notes, &outcome).result.unwrap().discard_previous.len(), count);
        }
    }

    #[test]
    fn each_hop_is_named_once_by_its_newest_document() {
        let made = Made::new("svc-upgrade");
        let hop = |run: &str, ok: bool, version: &str| json!({"run_id": run, "ok": ok, "result": {"version": version, "restore_point": null, "downtime_ms": 7}});
        made.step("01-hop-1", "step", &hop("a", true, "1.15.5"));
        made.step("02-hop-2", "step", &hop("b", false, "2.0.1"));
        made.step("02-hop-2.2", "step", &hop("b", true, "2.0.1"));
        made.started("03-hop-3", "step");
        let result = ended(&made, &Notes::default(), &Outcome::default()).result.unwrap();
        let hops: Vec<_> = result.hops.iter().map(|hop| (hop.run_id.as_str(), hop.ok, hop.downtime_ms)).collect();
        assert_eq!(hops, [("a", true, Some(7)), ("b", true, Some(7))]);
        assert_eq!(result.version.as_deref(), Some("2.0.1"));
    }

    #[test]
    fn a_failure_is_that_of_its_step_unless_the_run_has_its_own() {
        let made = Made::new("svc-upgrade");
        let error = json!({"code": "disk_full", "message": "No.", "hint": null, "retryable": true, "causes": ["why"]});
        made.step(
            "01-dump",
            "step",
            &json!({"ok": false, "error": error, "warnings": [{"code": "slow", "message": "It is slow."}]}),
        );
        made.started("02-stop", "step");
        for (step, code, expected) in [
            (Some("dump"), "", ("disk_full", true, 1)),
            (Some("dump"), "interrupted", ("interrupted", true, 1)),
            (Some("stop"), "", ("no_document", false, 0)),
            (None, "", ("failed", false, 0)),
        ] {
            let failed_step = step.map(ToOwned::to_owned);
            let outcome =
                Outcome { status: 1, failed_step, code: code.to_owned(), script: "svc-upgrade".to_owned(), ..Outcome::default() };
            let document = ended(&made, &Notes::default(), &outcome);
            let error = document.error.unwrap();
            assert_eq!((error.code.as_str(), error.retryable, error.causes.len()), expected);
            assert_eq!((document.schema.as_str(), document.ok), ("svc-upgrade.run/1", false));
            assert_eq!(document.warnings, [Warning { code: "slow".to_owned(), message: "dump: It is slow.".to_owned() }]);
        }
        let review = Outcome { status: 9, ..Outcome::default() };
        assert!(ended(&made, &Notes::default(), &review).error.is_none());
    }

    #[test]
    fn a_document_comes_whatever_was_noted() {
        let facts = json!({"version": 7, "restore_point": "/p", "mine": {"a": 1}, "preflight": [
            {"check": "unit", "verdict": "pass", "says": ""}, {"check": "space", "verdict": "fail", "says": "too little"}]});
        let notes = Notes { facts: facts.as_object().unwrap().clone(), ..Notes::default() };
        let result = document(None, &notes, &Outcome::default()).result.unwrap();
        assert_eq!((result.version, result.restore_point.as_deref()), (None, Some("/p")));
        assert_eq!(result.noted.get("mine"), Some(&json!({"a": 1})));
        assert_eq!(result.preflight_total, Some(Total { pass: 1, warn: 0, fail: 1 }));
    }
}
