use std::fs;

use serde_json::{Value, json};
use svc_step::table::{ago, local};

use super::*;
use crate::external;
use crate::fixture::Made;

fn of(made: &Made, script: Option<&str>) -> StatusResult {
    status(made.state(), &Arguments { script: script.map(ToOwned::to_owned), ..Arguments::default() }).unwrap()
}

fn failed(hint: &str) -> Value {
    let error = json!({"code": "x", "message": "It failed.", "hint": hint, "retryable": false, "causes": []});
    json!({"ok": false, "error": error})
}

#[test]
fn run_state_and_next_command_follow_journal() {
    type Case = (&'static str, fn(&Made), State, &'static str, Option<&'static str>);
    let cases: [Case; 12] = [
        (
            "well",
            |made| made.ended(&json!({"result": {"downtime_ms": 12}})),
            State::Ended,
            "It ended well. The service was down for 12 ms.",
            None,
        ),
        ("failed", |made| made.ended(&failed("To continue:\n  a b")), State::Failed, "It failed.", Some("To continue:\n  a b")),
        (
            "killed early",
            |_| (),
            State::Interrupted,
            "It was interrupted.",
            Some("Nothing was changed. Run the same command again:\n  svc-upgrade /srv/svc-2.0.1.run"),
        ),
        (
            "a document that was cut",
            |made| std::fs::write(made.journal().dir().join("document.json"), "{\"ok\":true").unwrap(),
            State::Interrupted,
            "It was interrupted.",
            Some("Nothing was changed."),
        ),
        (
            "killed after the commit",
            |made| made.notes(&json!({"commit": "To go back:\n  c d"})),
            State::Interrupted,
            "It was interrupted.",
            Some("To continue:\n  svc-upgrade --resume 20261120t020003z-first\nTo go back:\n  c d"),
        ),
        (
            "a rollback that was to stop the service, and whose notes were lost",
            |made| {
                made.plan(&json!({"script": "svc-rollback"}));
                made.started("05-stop", "step");
            },
            State::Interrupted,
            "It was interrupted.",
            Some("To continue:\n  svc-rollback --resume 20261120t020003z-first"),
        ),
        (
            "killed in a hop",
            |made| made.started("02-hop-1", "step"),
            State::Interrupted,
            "It was interrupted.",
            Some("To continue with the hops:\n  svc-upgrade --resume 20261120t020003z-first"),
        ),
        (
            "rolled back",
            |made| {
                made.step("03-installer", "external", &json!({}));
                made.ended(&failed("to roll back"));
                let back = made.another("20261120t030003z-rollback", "svc-rollback", None);
                back.notes(&json!({"commit": "hint", "facts": {"restore_point": "/moved/20261120t020003z-first"}}));
                back.ended(&json!({}));
            },
            State::Superseded,
            "It failed.",
            Some(
                "It was rolled back by the run 20261120t030003z-rollback: nothing is left to do. To see that run:\n  svc-rollback --status 20261120t030003z-rollback",
            ),
        ),
        (
            "its rollback is not finished",
            |made| {
                made.step("03-installer", "external", &json!({}));
                let back = made.another("20261120t030003z-rollback", "svc-rollback", None);
                back.notes(&json!({"commit": "hint", "facts": {"restore_point": "/var/20261120t020003z-first"}}));
            },
            State::Superseded,
            "It was interrupted.",
            Some("Its rollback has begun. To continue it:\n  svc-rollback --resume 20261120t030003z-rollback"),
        ),
        (
            "its rollback is not finished, and it was repaired by hand",
            |made| {
                made.step("03-installer", "external", &json!({}));
                let back = made.another("20261120t030003z-rollback", "svc-rollback", None);
                back.notes(&json!({"commit": "hint", "facts": {"restore_point": "/var/20261120t020003z-first"}}));
                let repaired = made.another("20261120t040003z-backup-manual", "svc-backup", None);
                repaired.plan(&json!({"script": "svc-backup", "arguments": ["--ignore-unfinished"]}));
                repaired.ended(&json!({}));
            },
            State::Superseded,
            "It was interrupted.",
            // Whose status names the backup.
            Some("A later run has replaced it:\n  svc-run status 20261120t030003z-rollback"),
        ),
        (
            "a command that it waited for has ended since, and nobody knows how",
            |made| {
                made.notes(&json!({"commit": "To go back:\n  c d"}));
                made.started("03-installer", "external");
                made.step("04-drop-warm-snapshot", "step", &json!({}));
                let mut waits = failed("Wait until it has ended; it prints to x.");
                waits["error"]["code"] = json!("external_running");
                made.ended(&waits);
            },
            State::Interrupted,
            "It was interrupted, and a command that it had started has ended since.",
            Some("To continue:\n  svc-upgrade --resume 20261120t020003z-first\nTo go back:\n  c d"),
        ),
        (
            "a later upgrade",
            |made| {
                made.step("03-installer", "external", &json!({}));
                made.another("20261120t030003z-upgrade", "svc-upgrade", None).started("03-installer", "external");
            },
            State::Superseded,
            "It was interrupted.",
            Some("A later run has replaced it:\n  svc-run status 20261120t030003z-upgrade"),
        ),
    ];
    for (name, make, state, message, next) in cases {
        let made = Made::new("svc-upgrade");
        make(&made);
        let arguments = Arguments { run: Some("20261120t020003z-first".to_owned()), ..Arguments::default() };
        let found = status(made.state(), &arguments).unwrap();
        assert_eq!((found.state, found.message.as_str()), (state, message), "{name}");
        assert!(found.next.as_deref().unwrap_or_default().starts_with(next.unwrap_or_default()), "{name}: {:?}", found.next);
        assert_eq!(found.next.is_none(), next.is_none(), "{name}");
    }
}

#[test]
fn run_is_running_while_its_lock_is_held() {
    let outer = Made::new("svc-upgrade");
    let hop = outer.another("20261120t020004z-hop", "svc-upgrade", Some("20261120t020003z-first"));
    let other = outer.another("20261120t020005z-manual", "svc-backup", None);
    hop.started("01-installer", "external");
    outer.started("01-hop-1", "step");
    let state = |made: &Made| {
        status(made.state(), &Arguments { run: Some(made.journal().id().to_owned()), ..Arguments::default() }).unwrap()
    };
    let lock = |name: &str, text: &str| {
        fs::write(outer.state().join(name), text).unwrap();
        let file = std::fs::File::open(outer.state().join(name)).unwrap();
        file.lock().unwrap();
        file
    };
    let held = lock("lock", "20261120t020003z-first\n");
    assert_eq!(
        [state(&outer).state, state(&hop).state, state(&other).state],
        [State::Running, State::Running, State::Interrupted]
    );
    assert_eq!(state(&hop).steps.iter().map(|step| step.state.as_str()).collect::<Vec<_>>(), ["running"]);
    held.unlock().unwrap();
    let held = lock("external.lock", &format!("{}\n", hop.journal().dir().join("01-installer").display()));
    assert_eq!(
        [state(&outer).state, state(&hop).state, state(&other).state],
        [State::ExternalRunning, State::ExternalRunning, State::Interrupted]
    );
    assert_eq!(state(&outer).steps.iter().map(|step| step.state.as_str()).collect::<Vec<_>>(), ["outcome unknown"]);
    held.unlock().unwrap();
    assert_eq!(state(&hop).state, State::Interrupted);
    // The command lives, and its holder was killed.
    let this = std::process::id().to_string();
    let process = format!("{this} {}\n", external::started_at(&this).unwrap());
    fs::write(hop.journal().dir().join("01-installer.process"), process).unwrap();
    assert_eq!(state(&hop).state, State::ExternalRunning);
}

#[test]
fn without_a_run_the_unfinished_one_is_shown() {
    let first = Made::new("svc-upgrade");
    first.notes(&json!({"commit": "hint"}));
    assert_eq!(of(&first, None).run, "20261120t020003z-first");
    // Neither a backup nor hooks that were run alone finish it.
    first.another("20261120t030000z-manual", "svc-backup", None).ended(&json!({}));
    first.another("20261120t030001z-hooks", "svc-upgrade", None).ended(&json!({}));
    assert_eq!(of(&first, None).run, "20261120t020003z-first");
    assert_eq!(of(&first, Some("svc-upgrade")).run, "20261120t020003z-first");
    assert_eq!(of(&first, Some("svc-backup")).run, "20261120t030000z-manual");
    // A backup that was told that it is repaired closes it, and is what there is to show then.
    let repaired = first.another("20261120t035959z-backup-manual", "svc-backup", None);
    repaired.plan(&json!({"script": "svc-backup", "arguments": ["--ignore-unfinished"]}));
    assert_eq!(of(&first, Some("svc-upgrade")).run, "20261120t020003z-first");
    repaired.ended(&json!({}));
    assert_eq!(of(&first, None).run, repaired.journal().id());
    assert_eq!(of(&first, Some("svc-upgrade")).run, "20261120t030001z-hooks");
    let rollback = first.another("20261120t040000z-rollback", "svc-rollback", None);
    rollback.notes(&json!({"commit": "hint"}));
    rollback.ended(&json!({}));
    assert_eq!(of(&first, None).run, "20261120t040000z-rollback");
    // A hop that ended well is a part of a run; one that was interrupted is continued with it.
    let hops = first.another("20261120t050000z-upgrade-hops", "svc-upgrade", None);
    hops.started("01-hop-1", "step");
    let hop = first.another("20261120t050001z-upgrade-2.0.1", "svc-upgrade", Some("20261120t050000z-upgrade-hops"));
    assert_eq!(
        of(&first, Some("svc-upgrade")).next.unwrap(),
        "To continue with the hops:\n  svc-upgrade --resume 20261120t050000z-upgrade-hops"
    );
    hop.ended(&json!({}));
    assert_eq!(of(&first, Some("svc-upgrade")).run, "20261120t050000z-upgrade-hops");
    // A run is known by its directory, even if its plan was lost.
    let lost = first.another("20261120t060000z-rollback", "", None);
    assert_eq!(of(&first, Some("svc-rollback")).run, lost.journal().id());
    let error = status(first.state(), &Arguments { script: Some("svc-nightly".to_owned()), ..Arguments::default() }).unwrap_err();
    assert_eq!((error.code.as_str(), error.exit_code()), ("file_not_found", 4));
}

#[test]
fn pending_undo_commands_are_shown_in_order() {
    let made = Made::new("svc-upgrade");
    let undo = |name: &str, until: Option<&str>, always: bool, unless_interrupted: bool| json!({"name": name, "command": ["svc-unit", name], "directory": "/", "until": until, "always": always, "unless_interrupted": unless_interrupted});
    let list = json!([
        undo("a", None, true, false),
        undo("b", Some("finalize"), false, false),
        undo("c", None, false, true),
        undo("d d", None, false, false)
    ]);
    let names = |made: &Made| of(made, None).undo.into_iter().map(|undo| undo.name).collect::<Vec<_>>();
    made.notes(&json!({"undo": list}));
    assert_eq!(names(&made), ["d d", "b", "a"]);
    assert!(
        text(&of(&made, None)).contains("undoes what the run has left:\n  svc-unit 'd d'\n  svc-unit b\n  svc-unit a\n"),
        "{}",
        text(&of(&made, None))
    );
    made.step("01-finalize", "step", &json!({}));
    assert_eq!(names(&made), ["d d", "a"]);
    made.notes(&json!({"undo": list, "commit": "hint"}));
    assert_eq!(names(&made), ["a"]);
    // One that is still in the list of a run that ended has failed.
    made.ended(&json!({}));
    assert_eq!(names(&made), ["a"]);
    made.notes(&json!({"undo": [undo("d d", None, false, false)]}));
    assert_eq!(names(&made), [""; 0]);
    made.ended(&failed("hint"));
    assert_eq!(names(&made), ["d d"]);
    // What a later run has installed is not started in the middle of that.
    made.another("20261121t020003z-upgrade", "svc-upgrade", None).notes(&json!({"commit": "hint"}));
    assert!(pending(&made.journal()).is_empty());
}

#[test]
fn status_table_has_line_for_each_attempt() {
    let made = Made::new("svc-upgrade");
    made.step("01-dump", "step", &json!({"ok": false, "duration_ms": 500, "error": {"code": "out_of_space", "message": "", "hint": null, "retryable": false, "causes": []}}));
    made.step("01-dump.2", "step", &json!({"duration_ms": 15_000}));
    // Nobody has kept the document of a tool that has outlived its script.
    let file = |name: &str| made.journal().dir().join(name);
    fs::rename(file("01-dump.2.json"), file("01-dump.2.json.partial")).unwrap();
    made.started("02-installer", "external");
    fs::write(file("02-installer.rc"), "3\n").unwrap();
    made.started("03-start", "step");
    let shown = text(&of(&made, None));
    let lines: Vec<Vec<&str>> =
        shown.lines().map(|line| line.split("  ").map(str::trim).filter(|word| !word.is_empty()).collect()).collect();
    let begun: Timestamp = "2026-11-20T02:00:03Z".parse().unwrap();
    assert_eq!(lines[0], [format!("svc-upgrade 20261120t020003z-first, begun {} ({})", local(begun), ago(begun))]);
    assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
    assert_eq!([&lines[1][..2], &lines[1][3..]], [["01", "dump"], ["out_of_space", "500 ms"]]);
    assert_eq!([&lines[2][..2], &lines[2][3..]], [["01", "dump (2)"], ["ok", "15 s"]]);
    assert_eq!(lines[3][3..], ["ended with 3"]);
    assert_eq!(lines[4][3..], ["outcome unknown"]);
}
