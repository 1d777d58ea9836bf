//! How long the downtime of a rollback takes, by what the runs of this host have shown.

use std::path::Path;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use svc_step::document::Document;
use svc_step::journal::{self, Journal};
use svc_step::steps;

/// A part of a rollback's downtime.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Part {
    /// The step of the rollback.
    pub step: String,
    /// How long it took when a run on this host last did it; `null` if none has.
    pub ms: Option<u64>,
    /// The ID of that run.
    pub run_id: Option<String>,
}

/// The parts, in the order of a rollback to a version. PostgreSQL is restarted only if its unit is known.
pub fn parts(state_dir: &Path, version: Option<&str>, has_pg_unit: bool) -> Vec<Part> {
    let mut runs = journal::runs(state_dir);
    runs.retain(|run| matches!(&*run.script(), "svc-rollback" | "svc-upgrade"));
    let restart = has_pg_unit.then_some(steps::RESTART_DATABASE);
    let steps = [steps::STOP, steps::UNINSTALL, steps::SWAP_SEARCH, steps::SWAP_DATABASE]
        .into_iter()
        .chain(restart)
        .chain([steps::INSTALLER, steps::START]);
    let part = |step: &str| {
        let seen = |run: &Journal| Some((took(step, version, &run.attempt(step)?.document?)?, run.id().to_owned()));
        let (ms, run_id) = runs.iter().find_map(seen).unzip();
        Part { step: step.to_owned(), ms, run_id }
    };
    steps.map(part).collect()
}

/// How long a step took, in milliseconds; none if it does not show that.
fn took(step: &str, version: Option<&str>, document: &Document<Value>) -> Option<u64> {
    let result = |path: &str| document.at(path);
    let is_of_version = || Some(result("/argv/0")?.as_str()?.ends_with(&format!("-{}.run", version?)));
    let shows = match step {
        steps::INSTALLER => is_of_version() == Some(true),
        // If the unit was so already, nothing took any time.
        steps::STOP | steps::START => document.changed == Some(true),
        _ => true,
    };
    // Until the unit is active: from then on the service is available, and is only watched.
    let until_active = || {
        let (active, requested) = (result("/after/active_enter_epoch_ms")?.as_u64()?, result("/requested_epoch_ms")?.as_u64()?);
        active.checked_sub(requested).filter(|ms| *ms > 0)
    };
    let is_start = step == steps::START;
    (document.ok && shows).then(|| is_start.then(until_active).flatten().unwrap_or(document.duration_ms))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::json;
    use svc_step::journal::Plan;

    use super::*;

    /// A run of a script with one step; its document, save what the test says.
    fn journal(state: &Path, id: &str, script: &str, step: &str, said: &Value) {
        let run = state.join("runs").join(id);
        fs::create_dir_all(&run).unwrap();
        let plan = Plan { script: script.to_owned(), ..Plan::default() };
        fs::write(run.join("plan.json"), serde_json::to_vec(&plan).unwrap()).unwrap();
        let mut document = json!({"schema": "t.s/1", "tool": "t", "step": step, "ok": true, "changed": true, "dry_run": false,
            "run_id": id, "host": "h", "started_at": "2026-01-01T00:00:00Z", "finished_at": "2026-01-01T00:00:00Z",
            "duration_ms": 70, "result": {}, "warnings": [], "error": null});
        for (key, value) in said.as_object().unwrap() {
            document[key] = value.clone();
        }
        fs::write(run.join(format!("03-{step}.started")), "step\n").unwrap();
        fs::write(run.join(format!("03-{step}.json")), document.to_string()).unwrap();
    }

    #[test]
    fn part_duration_comes_from_newest_run_that_has_it() {
        let installer = |file: &str| json!({"result": {"argv": [file, "--quiet"]}});
        let start =
            |requested: u64| json!({"result": {"requested_epoch_ms": requested, "after": {"active_enter_epoch_ms": 1030}}});
        let rollback = "svc-rollback";
        for (script, step, said, expected) in [
            (rollback, "uninstall", json!({}), Some(70)),
            ("svc-upgrade", "stop", json!({}), Some(70)),
            ("svc-backup", "stop", json!({}), None),
            (rollback, "stop", json!({"changed": false}), None),
            (rollback, "swap-search", json!({"ok": false}), None),
            (rollback, "swap-database", json!({"changed": false, "duration_ms": 0}), Some(0)),
            (rollback, "restart-database", json!({}), Some(70)),
            (rollback, "installer", installer("/i/svc-1.15.5.run"), Some(70)),
            (rollback, "installer", installer("/i/svc-2.0.1.run"), None),
            (rollback, "installer", installer("/i/svc-11.15.5.run"), None),
            (rollback, "installer", json!({"result": null}), None),
            (rollback, "start", start(1000), Some(30)),
            (rollback, "start", start(2000), Some(70)),
            (rollback, "start", json!({"changed": false}), None),
        ] {
            let state = tempfile::tempdir().unwrap();
            let (old, new) = ("20260101t000000z-rollback-1", "20260102t000000z-run-2");
            journal(state.path(), new, script, step, &said);
            let part = |version| parts(state.path(), version, true).into_iter().find(|part| part.step == step).unwrap();
            assert_eq!(part(Some("1.15.5")).ms, expected, "{script} {step} {said}");
            assert_eq!(part(None).ms, expected.filter(|_| step != "installer"), "{script} {step} {said}");
            // A run that does not show it hides no older one that does.
            journal(state.path(), old, rollback, step, &json!({"duration_ms": 5, "result": {"argv": ["/svc-1.15.5.run"]}}));
            let run_id = part(Some("1.15.5")).run_id;
            assert_eq!(run_id.as_deref(), Some(if expected.is_some() { new } else { old }), "{script} {step} {said}");
        }
    }

    #[test]
    fn part_without_recorded_run_has_no_duration() {
        let state = tempfile::tempdir().unwrap();
        for (has_pg_unit, count) in [(false, 6), (true, 7)] {
            let parts = parts(state.path(), Some("1.15.5"), has_pg_unit);
            assert_eq!(parts.len(), count);
            assert!(parts.iter().all(|part| part.ms.is_none() && part.run_id.is_none()), "{parts:?}");
        }
    }
}
