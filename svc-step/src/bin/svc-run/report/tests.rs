use serde_json::{Value, json};
use svc_step::document::{Document, Warning};
use svc_step::journal::Notes;

use super::*;
use crate::fixture::Made;

fn ended(made: &Made, notes: &Notes, outcome: &Outcome) -> Document<RunResult> {
    document(Some(&made.journal()), notes, outcome)
}

fn committed() -> Notes {
    Notes { commit: Some(String::new()), ..Notes::default() }
}

#[test]
fn downtime_runs_from_stop_request_to_active_unit() {
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
        (&[], json!({"removed": [], "partially_removed": "20261120t020003z-manual"}), &[], Some(true)),
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
fn previous_data_is_listed_from_successful_swaps() {
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
fn clones_of_undone_upgrade_need_no_discard_command() {
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
fn failed_run_has_error_with_its_causes() {
    let made = Made::new("svc-upgrade");
    made.step("01-dump", "step", &json!({"ok": false, "warnings": [{"code": "slow", "message": "It is slow."}]}));
    let removed = json!({"schema": "svc-point.remove/1", "result": {"message": "The dump is kept."}});
    made.step("02-remove-incomplete-point", "step", &removed);
    let failure = Failure::unavailable("server_busy", "No.").hint("Wait.").cause("why");
    let outcome = Outcome { status: 5, failure: Some(failure), script: "svc-upgrade".to_owned(), ..Outcome::default() };
    let document = ended(&made, &Notes::default(), &outcome);
    let error =
        json!({"code": "server_busy", "message": "No. The dump is kept.", "hint": "Wait.", "retryable": true, "causes": ["why"]});
    assert_eq!(json!(document.error), error);
    assert_eq!((document.schema.as_str(), document.ok), ("svc-upgrade.run/1", false));
    assert_eq!(document.warnings, [Warning { code: "slow".to_owned(), message: "dump: It is slow.".to_owned() }]);
    let review = Outcome { status: 9, ..Outcome::default() };
    assert!(ended(&made, &Notes::default(), &review).error.is_none());
}

#[test]
fn restore_point_that_was_finalized_stays_where_run_does_not_know_it() {
    let made = Made::new("svc-backup");
    made.step("01-point", "step", &json!({"changed": true}));
    made.started("02-finalize", "step");
    made.step("03-remove-incomplete-point", "step", &json!({"schema": "svc-point.remove/1", "result": {"message": null}}));
    let facts = json!({"restore_point": made.state()});
    let notes = Notes { facts: facts.as_object().unwrap().clone(), ..Notes::default() };
    let undone = ["point", "finalize", "remove-incomplete-point"].map(ToOwned::to_owned).to_vec();
    let outcome = Outcome { status: 1, undone, ..Outcome::default() };
    let told = || {
        let document = ended(&made, &notes, &outcome);
        (document.changed, document.result.unwrap().restore_point.is_some())
    };
    assert_eq!(told(), (Some(false), false));
    std::fs::write(made.state().join("SHA256SUMS"), "").unwrap();
    assert_eq!(told(), (Some(true), true));
}

#[test]
fn warning_of_earlier_attempt_that_changed_nothing_is_left_out() {
    let made = Made::new("svc-setup-snapshots");
    let warns = |step: &str, changed: bool| {
        made.step(step, "step", &json!({"changed": changed, "warnings": [{"code": step, "message": "It is."}]}))
    };
    for (step, changed) in [("01-health", false), ("02-swap", true), ("03-stop", false)] {
        warns(step, changed);
    }
    made.step("01-health.2", "check", &json!({}));
    made.step("02-swap.2", "step", &json!({}));
    made.started("03-stop.2", "step");
    for (review, wanted) in [(false, &["02-swap", "03-stop"][..]), (true, &["01-health", "02-swap", "03-stop"])] {
        let notes = Notes { review, ..Notes::default() };
        let warnings = ended(&made, &notes, &Outcome::default()).warnings;
        assert_eq!(warnings.iter().map(|one| one.code.as_str()).collect::<Vec<_>>(), wanted);
    }
}

#[test]
fn fact_of_wrong_type_is_left_out_of_document() {
    let facts = json!({"version": 7, "restore_point": "/p", "mine": {"a": 1}, "preflight": [
        {"check": "unit", "verdict": "pass", "message": ""}, {"check": "space", "verdict": "fail", "message": "too little"}]});
    let notes = Notes { facts: facts.as_object().unwrap().clone(), ..Notes::default() };
    let result = document(None, &notes, &Outcome::default()).result.unwrap();
    assert_eq!((result.version, result.restore_point.as_deref()), (None, Some("/p")));
    assert_eq!(result.facts.get("mine"), Some(&json!({"a": 1})));
    assert_eq!(result.preflight.iter().map(|one| one.verdict).collect::<Vec<_>>(), [Verdict::Pass, Verdict::Fail]);
}
