//! What all scripts keep alike (`scripts/lib/script.sh` and svc-run), whatever they are for: run directories, locks, signals, statuses.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::json;
use svc_tests::disk::SmallDisk;
use svc_tests::journey::{running, undone_where};
use svc_tests::product::Product;
use svc_tests::tool::{Ran, Tool};
use svc_tests::{journal, wait};

const A_WHILE: Duration = svc_tests::wait::HANG;
const SCRIPTS: [&str; 7] =
    ["svc-setup-snapshots", "svc-backup", "svc-nightly", "svc-offsite", "svc-upgrade", "svc-rollback", "svc-rehearse"];

/// An installer of 2.0.1 that does what the test says.
fn installer_that(product: &Product, does: &str) -> PathBuf {
    let path = product.path("odd").join(format!("{}-2.0.1.run", product.name));
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    svc_tests::os::write_program(&path, format!("#!/bin/sh\n{does}\n")).unwrap();
    path
}

/// Whether any file below a folder holds the text.
fn holds(folder: &Path, text: &str) -> bool {
    let found = Command::new("grep").args(["-rqF", "--", text]).arg(folder).status().unwrap();
    found.success()
}

#[test]
fn help_is_text_for_everybody_and_a_wrong_word_is_2() {
    let folder = tempfile::tempdir().unwrap();
    let settings = folder.path().join("environment");
    fs::write(&settings, "").unwrap();
    fs::set_permissions(&settings, fs::Permissions::from_mode(0o600)).unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    for script in SCRIPTS {
        let help = Tool::script(script).arg("--help").as_user("daemon").env("SVC_ENVIRONMENT_FILE", &settings).run();
        assert_eq!(help.status, 0, "{help}");
        assert!(help.stdout.contains("usage:"), "{help}");
        let wrong = Tool::script(script).args(["--no-such-word=secret"]).run();
        assert_eq!(wrong.status, 2, "{wrong}");
        assert!(wrong.stderr.contains("hint: ") && !wrong.stderr.contains("secret"), "{wrong}");
        // `=no` would be taken for yes.
        let wrong = Tool::script(script).args(["--dry-run=no"]).run();
        assert!(wrong.status == 2 && wrong.stderr.contains("takes no value"), "{wrong}");
    }
}

#[test]
fn a_backup_does_one_thing_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    for words in [&["--prune", "--delete", "20260101t000000z-x"][..], &["--list", "--prune"], &["--read-all"]] {
        let backup =
            Tool::script("svc-backup").args(words.iter().copied()).env("SVC_ENVIRONMENT_FILE", folder.path().join("none"));
        let ran = backup.env("SVC_STATE_DIR", folder.path().join("state")).run();
        assert!(ran.status == 2 && ran.stderr.contains("hint: ") && !folder.path().join("state").exists(), "{words:?}: {ran}");
    }
}

#[test]
fn a_message_that_is_longer_than_an_argument_may_be_is_written_all_the_same() {
    let folder = tempfile::tempdir().unwrap();
    for number in 0..4 {
        let point = folder.path().join(format!("backups/2026112{number}t020000z-backup-nightly"));
        fs::create_dir_all(&point).unwrap();
        let said =
            json!({"schema": "svc-restore-point/1", "id": "", "kind": "k".repeat(50_000), "database": "d", "quiesced": true});
        fs::write(point.join("restore-point.json"), said.to_string()).unwrap();
    }
    let list = Tool::script("svc-backup").arg("--list").env("SVC_ENVIRONMENT_FILE", folder.path().join("none"));
    let list = list.env("SVC_STATE_DIR", folder.path().join("state")).env("SVC_BACKUP_DIR", folder.path().join("backups"));
    assert_eq!(list.run().ok().result()["points"].as_array().unwrap().len(), 4);
}

#[test]
fn of_runs_that_begin_in_one_second_the_last_is_the_newest() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let upgrade = || {
        let tool = Tool::script("svc-upgrade").env("SVC_ENVIRONMENT_FILE", folder.path().join("none"));
        tool.env("SVC_STATE_DIR", &state).env("SVC_BACKUP_DIR", folder.path().join("backups"))
    };
    // Each second of the next minute has a run.
    let stamps = "now=$EPOCHSECONDS; for s in {0..59}; do date -u -d \"@$((now + s))\" +%Y%m%dt%H%M%Sz; done";
    let stamps = Command::new("bash").args(["-c", stamps]).output().unwrap().stdout;
    let stamps = String::from_utf8(stamps).unwrap();
    for stamp in stamps.lines() {
        let run = state.join(format!("runs/{stamp}-upgrade"));
        fs::create_dir_all(&run).unwrap();
        fs::write(run.join("plan.json"), journal::plan(&json!({})).to_string()).unwrap();
    }
    let ran = upgrade().arg("/not/there.run").run();
    let id = ran.doc()["run_id"].as_str().unwrap();
    let status = upgrade().arg("--status").run();
    assert!(status.stdout.starts_with(&format!("svc-upgrade {id}, begun ")), "{id} is not the newest\n{status}");
}

/// An operator's own script, which is waiting for a command of its own when the signal comes.
#[test]
fn a_signal_is_heard_whatever_the_script_is_at() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("mine");
    let lib = svc_tests::tool::root().join("scripts/lib/script.sh");
    for (signal, at) in [
        (Signal::SIGHUP, "sleep 2"),
        (Signal::SIGINT, ": \"$(sleep 2)\" \"$(:)\""),
        (Signal::SIGTERM, ": \"$(sleep 2)\" \"$(:)\""),
    ] {
        let (ready, after) = (folder.path().join(signal.as_str()), folder.path().join("after"));
        let text = format!(
            "#!/bin/bash\n. '{}'\nin_run --kind mine\ntouch '{}'\n{at}\nstep after -- touch '{}'\n",
            lib.display(),
            ready.display(),
            after.display()
        );
        svc_tests::os::write_program(&script, text).unwrap();
        let run = Tool::program(&script).env("SVC_ENVIRONMENT_FILE", folder.path().join("none"));
        let run = run.env("SVC_STATE_DIR", folder.path().join("state")).spawn();
        wait::until("the script to be on its way", A_WHILE, || ready.exists().then_some(())).unwrap();
        run.signal(signal);
        let ran = run.wait();
        assert_eq!(ran.status, 128 + signal as i32, "{ran}");
        assert_eq!(ran.doc()["error"]["code"], "interrupted", "{ran}");
        assert!(!after.exists(), "a step was begun after the signal\n{ran}");
    }
}

#[test]
fn a_run_that_is_resumed_is_told_nothing_that_it_knows() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let resume = |script: &str, words: &[&str]| {
        let tool = Tool::script(script).arg("--resume").args(words.iter().copied());
        let tool = tool.env("SVC_ENVIRONMENT_FILE", folder.path().join("none")).env("SVC_STATE_DIR", &state);
        tool.env("SVC_UNINSTALL", "true").run()
    };
    for (script, words) in [
        ("svc-upgrade", &["--hooks-only"][..]),
        ("svc-upgrade", &["--clone"]),
        ("svc-upgrade", &["--auto-rollback"]),
        ("svc-upgrade", &["--last-minor", "1.15"]),
        ("svc-upgrade", &["--to=2.0.1"]),
        ("svc-upgrade", &["--rerun-installer", "svc-2.0.1.run"]),
        ("svc-rollback", &["--discard-current"]),
        ("svc-rollback", &["--no-uninstall"]),
        ("svc-rollback", &["20260101t000000z-upgrade-2.0.1", "20260101t000000z-upgrade-2.0.1"]),
    ] {
        let ran = resume(script, words);
        assert!(ran.status == 2 && ran.stderr.contains("--resume takes no `"), "{script} {words:?}: {ran}");
        assert!(!state.exists(), "{script} {words:?} has recorded something");
    }
    resume("svc-rollback", &["--installer", "a.run", "--rerun-installer"]).fails(4, "file_not_found");
    resume("svc-upgrade", &["--dry-run"]).fails(2, "not_resumable");
    resume("svc-upgrade", &["--rerun-installer", "--installer-arg", "--x", "--attached", "-v", "--json"])
        .fails(4, "file_not_found");
}

/// A step whose tool says that it has changed something.
fn changes(step: &str) -> String {
    format!("step {step} -- echo '{}'\n", changed())
}

/// The document of a step that has changed something.
fn changed() -> serde_json::Value {
    json!({"schema": "mine.make/1", "tool": "mine 1", "step": "make", "ok": true, "changed": true, "dry_run": false,
        "run_id": "20260101t000000z-x", "host": "h", "started_at": "2026-01-01T00:00:00Z", "finished_at": "2026-01-01T00:00:00Z",
        "duration_ms": 1, "result": {}, "warnings": [], "error": null})
}

/// An operator's own script, with the settings that it needs.
fn own_script(folder: &Path, does: &str) -> Tool {
    let script = folder.join("own scripts/mine");
    let lib = svc_tests::tool::root().join("scripts/lib/script.sh");
    let text = format!("#!/bin/bash\n. '{}'\nin_run --kind mine --resumable committed\n{does}", lib.display());
    fs::create_dir_all(folder.join("own scripts")).unwrap();
    svc_tests::os::write_program(&script, text).unwrap();
    fs::write(folder.join("current-version"), "1.15.5\n").unwrap();
    let tool = Tool::program(script).env("SVC_ENVIRONMENT_FILE", folder.join("none")).env("SVC_INSTALL_DIR", folder);
    tool.env("SVC_STATE_DIR", folder.join("state"))
}

#[test]
fn what_ends_a_run_before_its_installer_has_begun_is_undone_also_behind_the_commit() {
    for (ends, status, code) in [
        ("kill -TERM \"$SVC_SUPERVISOR\"; until ! check x -- svc-version current; do :; done; exit 1", 143, "interrupted"),
        ("mkdir \"$SVC_RUN_DIR/02-installer.out.partial\"; external installer -- touch \"$SVC_INSTALL_DIR/ran\"", 1, "failed"),
        // The holder has come further when the disk takes no more.
        ("mkdir \"$SVC_RUN_DIR/02-installer.process\"; external installer -- touch \"$SVC_INSTALL_DIR/ran\"", 1, "failed"),
        // One that the system does not take: without the right, without an interpreter.
        ("external installer -- \"$SVC_INSTALL_DIR/current-version\"", 1, "failed"),
        ("external installer -- /no/such", 1, "failed"),
        ("exit 1", 1, "failed"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let does = format!("undo back -- svc-version current\n{}svc-run commit\n{ends}\n", changes("made"));
        let ran = own_script(folder.path(), &does).run();
        assert_eq!((ran.status, &ran.doc()["error"]["code"]), (status, &code.into()), "{ran}");
        let ran = ran.unchanged();
        let again = format!(
            "Nothing was changed.\nRun the same command again:\n  '{}'",
            folder.path().join("own scripts/mine").display()
        );
        assert_eq!(ran.doc()["error"]["hint"], again, "{ran}");
        let steps = ran.steps();
        assert!(steps.contains(&"back") && !steps.contains(&"installer") && !folder.path().join("ran").exists(), "{steps:?}");
        let resumed = Tool::new("svc-run").arg("refuse-unfinished").arg("mine");
        resumed
            .env("SVC_ENVIRONMENT_FILE", folder.path().join("none"))
            .env("SVC_STATE_DIR", folder.path().join("state"))
            .run()
            .ok();
    }
}

#[test]
fn the_document_of_an_earlier_step_is_named_by_that_step() {
    let folder = tempfile::tempdir().unwrap();
    let does = format!(
        "{}undo --always kept -- bash -c 'tee \"$1\" < \"$0\"' @made '{}'\nstep shown -- cat @made\nstep --unless made passed-over -- false\n\
         step other -- bash -c 'cat \"$1\" && [[ $0 == @nobody ]]' @nobody @shown\n",
        changes("made"),
        folder.path().join("kept").display()
    );
    let ran = own_script(folder.path(), &does).run().ok();
    assert_eq!(ran.steps(), ["made", "shown", "other", "kept"]);
    assert!(fs::read_to_string(folder.path().join("kept")).unwrap().contains("\"mine.make/1\""));
}

#[test]
fn a_script_that_waits_for_a_step_that_it_has_not_started_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    own_script(folder.path(), "finish dump\n").run().fails(2, "options_invalid");
}

#[test]
fn an_operators_own_script_is_named_by_its_path_where_it_is_to_be_resumed() {
    let folder = tempfile::tempdir().unwrap();
    let ran = own_script(folder.path(), "svc-run commit --hint 'Look.'\nexternal installer -- false\n")
        .run()
        .fails(1, "command_failed");
    let id = ran.doc()["run_id"].as_str().unwrap();
    let wanted = format!("\n  '{}' --resume {id} --rerun-installer\nLook.", folder.path().join("own scripts/mine").display());
    assert!(ran.hint().ends_with(&wanted), "{ran}");
}

#[test]
fn what_stays_of_a_run_that_failed_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let made = changes("made");
    let point = folder.path().join("point");
    fs::create_dir(&point).unwrap();
    fs::write(point.join("SHA256SUMS"), "").unwrap();
    let point = point.display();
    let does = format!(
        "undo --until made back -- svc-version current\nnote restore_point '{point}'\n{made}fail 1 odd 'It is odd.' 'Look.'\n"
    );
    let ran = own_script(folder.path(), &does).run().fails(1, "odd").changed();
    assert_eq!(
        ran.doc()["error"]["hint"],
        format!("The service was not changed. The restore point {point} is complete and stays.\nLook."),
        "{ran}"
    );
    // Without an undo all stays.
    let ran = own_script(folder.path(), &format!("{made}fail 1 odd 'It is odd.' 'Look.'\n")).run().fails(1, "odd").changed();
    assert_eq!(ran.doc()["error"]["hint"], "Look.", "{ran}");
    // A run that it has called was killed, and its tools may be running still.
    let inner = tempfile::tempdir().unwrap();
    own_script(inner.path(), "undo back -- svc-version current\nkill -9 \"$SVC_SUPERVISOR\"; sleep 1\n");
    let inner = inner.path().join("own scripts/mine");
    let calls = format!("undo back -- svc-version current\nstep inner -- '{}'\n", inner.display());
    let ran = own_script(folder.path(), &calls).may_be_killed().run();
    let hint = ran.hint();
    assert!(ran.status == 1 && hint.contains("Run by hand what is left to be undone:\n  svc-run recover"), "{ran}");
    // Killed there, it is told by what undoes the rest.
    let killed = format!(
        "undo rest -- svc-version current\nundo --until made back -- svc-version current\n{made}kill -9 \"$SVC_SUPERVISOR\"; sleep 1\n"
    );
    assert_eq!(own_script(folder.path(), &killed).may_be_killed().run().status, 137);
    let tool = |name: &str| {
        Tool::new(name).env("SVC_ENVIRONMENT_FILE", folder.path().join("none")).env("SVC_INSTALL_DIR", folder.path())
    };
    let recovered = tool("svc-run").arg("recover").env("SVC_STATE_DIR", folder.path().join("state"));
    let recovered =
        wait::until("the script to end", A_WHILE, || Some(recovered.clone().run()).filter(|ran| ran.status != 8)).unwrap();
    let id = recovered.ok().result()["undone"][0].as_str().unwrap().to_owned();
    let document = fs::read_to_string(folder.path().join("state/runs").join(id).join("document.json")).unwrap();
    assert!(document.contains(r#""changed":true"#) && !document.contains("Nothing was changed"), "{document}");
}

/// A run as another call has left it.
fn run_left(state: &Path, id: &str, files: &[(&str, serde_json::Value)]) -> PathBuf {
    let run = state.join("runs").join(id);
    fs::create_dir_all(&run).unwrap();
    for (name, value) in files {
        let text = match *name {
            "plan.json" => journal::plan(value).to_string(),
            "notes.json" => journal::notes(value).to_string(),
            _ => value.as_str().map_or(value.to_string(), str::to_owned),
        };
        fs::write(run.join(name), text).unwrap();
    }
    run
}

#[test]
fn what_could_be_undone_is_told_also_where_not_all_could_be() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    fs::write(folder.path().join("current-version"), "1.15.5\n").unwrap();
    let undo = |name: &str, command: &[&str]| json!({"name": name, "command": command, "directory": "/", "until": null, "always": false, "unless_interrupted": false});
    let notes = json!({"facts": {}, "warnings": [], "undo": [undo("a", &["false"]), undo("b", &["svc-version", "current"])]});
    let plan = json!({"script": "svc-upgrade", "arguments": ["--installer-arg", "<redacted>", "a.run"]});
    // Its holder was killed before it could take the argument out of what the installer printed.
    let run = run_left(&state, "20260101t000000z-upgrade", &[("plan.json", plan), ("notes.json", notes)]);
    fs::write(run.join("01-installer.started"), "external\n").unwrap();
    fs::write(run.join("01-installer.out"), "licence t0psecret\n").unwrap();
    let recover = Tool::new("svc-run").arg("recover").env("SVC_ENVIRONMENT_FILE", folder.path().join("none"));
    let ran =
        recover.env("SVC_STATE_DIR", &state).env("SVC_INSTALL_DIR", folder.path()).run().fails(1, "run_unfinished").changed();
    assert_eq!(ran.result()["undone"], json!([]), "{ran}");
    assert!(!holds(&state, "t0psecret") && holds(&run, "What it printed was removed"));
}

#[test]
fn what_a_killed_run_has_left_is_not_undone_in_the_middle_of_a_later_upgrade_which_status_still_shows() {
    let folder = tempfile::tempdir().unwrap();
    let (state, touched) = (folder.path().join("state"), folder.path().join("touched"));
    let undo = json!({"name": "start-again", "command": ["touch", touched], "directory": "/", "until": null, "always": false, "unless_interrupted": false});
    let night = json!({"script": "svc-nightly"});
    let left = |id: &str, plan: &serde_json::Value, notes: serde_json::Value| {
        run_left(&state, id, &[("plan.json", plan.clone()), ("notes.json", notes)])
    };
    let killed = left("20260101t000000z-nightly", &night, json!({"undo": [undo]}));
    left("20260102t000000z-upgrade", &json!({"script": "svc-upgrade"}), json!({"commit": ""}));
    let idle = left("20260103t000000z-upgrade", &json!({"script": "svc-upgrade"}), json!({}));
    let tool = || Tool::new("svc-run").env("SVC_ENVIRONMENT_FILE", folder.path().join("none")).env("SVC_STATE_DIR", &state);
    tool().arg("recover").run().ok();
    assert!(!touched.exists() && killed.join("document.json").exists() && idle.join("document.json").exists());
    let status = tool().args(["status", "--script", "svc-upgrade"]).run();
    assert!(status.stdout.contains("svc-upgrade --resume 20260102t000000z-upgrade"), "{status}");
}

#[test]
fn what_a_run_with_a_wrong_setting_has_left_is_undone_with_the_current_settings() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    fs::write(folder.path().join("current-version"), "1.15.5\n").unwrap();
    let undo = json!({"name": "a", "command": ["svc-version", "current"], "directory": "/", "until": null, "always": false, "unless_interrupted": false});
    let plan = json!({"script": "svc-backup", "arguments": [], "settings": {"SVC_TIMEOUT": "soon"}});
    let id = "20260101t000000z-backup-manual";
    run_left(&state, id, &[("plan.json", plan), ("notes.json", json!({"facts": {}, "warnings": [], "undo": [undo]}))]);
    let recover = Tool::new("svc-run").arg("recover").env("SVC_ENVIRONMENT_FILE", folder.path().join("none"));
    let ran = recover.env("SVC_STATE_DIR", &state).env("SVC_INSTALL_DIR", folder.path()).run().ok();
    assert_eq!(ran.result()["undone"], json!([id]), "{ran}");

    // Whoever is refused right behind that is told that something was changed.
    let changes = format!("echo '{}'", changed());
    let undo = json!({"name": "a", "command": ["bash", "-c", changes], "directory": "/", "until": null, "always": false, "unless_interrupted": false});
    let (plan, id) = (json!({"script": "svc-rollback", "arguments": []}), "20260102t000000z-rollback");
    run_left(&state, id, &[("plan.json", plan), ("notes.json", json!({"facts": {}, "warnings": [], "undo": [undo]}))]);
    let resume = Tool::script("svc-rollback").arg("--resume").env("SVC_UNINSTALL", "true");
    let resume = resume.env("SVC_ENVIRONMENT_FILE", folder.path().join("none")).env("SVC_STATE_DIR", &state);
    resume.env("SVC_INSTALL_DIR", folder.path()).run().fails(3, "not_resumable").changed();
}

#[test]
fn what_an_unfinished_upgrade_has_left_is_not_backed_up_unless_somebody_has_repaired_it() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let plan =
        |script: &str, parent: Option<&str>, words: &[&str]| json!({"script": script, "parent": parent, "arguments": words});
    let notes = json!({"facts": {}, "warnings": [], "undo": [], "commit": ""});
    run_left(&state, "20260101t000000z-upgrade", &[("plan.json", plan("svc-upgrade", None, &["a.run"])), ("notes.json", notes)]);
    let tool = |tool: Tool| {
        let tool = tool.env("SVC_ENVIRONMENT_FILE", folder.path().join("none")).env("SVC_STATE_DIR", &state);
        tool.env("SVC_BACKUP_DIR", folder.path().join("backups")).env("SVC_INSTALL_DIR", folder.path())
    };
    let refused = tool(Tool::script("svc-backup")).run().refused("run_unfinished");
    assert!(refused.hint().ends_with(":\n  svc-backup --ignore-unfinished"), "{refused}");
    // The unfinished one is what there is to say, and not that another was refused for it.
    let status = tool(Tool::new("svc-run")).arg("status").run();
    assert!(status.stdout.starts_with("svc-upgrade 20260101t000000z-upgrade"), "{status}");
    tool(Tool::script("svc-nightly")).run();
    assert!(tool(Tool::script("svc-nightly")).arg("--status").run().stdout.contains("run_unfinished"));
    assert!(!folder.path().join("backups").exists());
    let code = |ran: Ran| ran.doc()["error"]["code"].as_str().unwrap_or_default().to_owned();
    assert_ne!(code(tool(Tool::script("svc-backup")).arg("--ignore-unfinished").run()), "run_unfinished");

    // A run within an upgrade that ignores it, as the backup of its rehearsal, does so too; any other one does not.
    let ask = |id: &str| {
        code(tool(Tool::new("svc-run")).args(["refuse-unfinished", "svc-upgrade", "svc-rollback"]).env("SVC_RUN_ID", id).run())
    };
    let nested = |outer: &str, words: &[&str]| {
        let [rehearsal, backup] = ["1z-rehearse", "2z-backup"].map(|end| format!("{}{end}", &outer[..14]));
        run_left(&state, outer, &[("plan.json", plan("svc-upgrade", None, words))]);
        run_left(&state, &rehearsal, &[("plan.json", plan("svc-rehearse", Some(outer), &[]))]);
        run_left(&state, &backup, &[("plan.json", plan("svc-backup", Some(&rehearsal), &[]))]);
        ask(&backup)
    };
    assert_eq!(nested("20990101t000000z-upgrade", &["--ignore-unfinished", "b.run"]), "");
    assert_eq!(nested("20990102t000000z-upgrade", &["b.run"]), "run_unfinished");

    // What ended well although it was told to ignore it says that all is repaired.
    let well = json!({"ok": true});
    run_left(
        &state,
        "20990103t000000z-backup-manual",
        &[("plan.json", plan("svc-backup", None, &["--ignore-unfinished"])), ("document.json", well)],
    );
    assert_eq!(ask("20990104t000000z-backup"), "");
}

#[test]
fn a_secret_of_an_operators_command_is_in_no_log() {
    let folder = tempfile::tempdir().unwrap();
    own_script(folder.path(), "check hop -- svc-version current --uninstall 'x --password=s3cr3t'\n")
        .run()
        .fails(2, "options_invalid");
    assert!(!holds(&folder.path().join("state"), "s3cr3t"));
}

#[test]
fn what_is_wrong_of_an_option_or_a_setting_that_a_tool_is_given_is_told_and_nothing_was_changed() {
    let folder = tempfile::tempdir().unwrap();
    for (script, words, setting, code, says) in [
        (
            "svc-backup",
            &["--prune", "--max-age", "forever"][..],
            ("SVC_NAME", "svc"),
            "options_invalid",
            "Invalid value 'forever'",
        ),
        ("svc-backup", &["--prune"], ("SVC_KEEP_MAX_AGE", "30 days"), "settings_invalid", "Invalid value '30 days'"),
        ("svc-backup", &["--delete", "-x"], ("SVC_NAME", "svc"), "options_invalid", "Unexpected argument '-x'"),
        ("svc-upgrade", &["--dry-run", "--to", "v2"], ("SVC_NAME", "svc"), "options_invalid", "Invalid value 'v2'"),
    ] {
        let tool = Tool::script(script).args(words.iter().copied()).env(setting.0, setting.1);
        let tool = tool.env("SVC_ENVIRONMENT_FILE", folder.path().join("none")).env("SVC_STATE_DIR", folder.path().join("state"));
        let ran = tool.env("SVC_BACKUP_DIR", folder.path()).run().fails(2, code).unchanged();
        let helps = if code == "settings_invalid" { setting.0.to_owned() } else { format!("Its options:\n  {script} --help") };
        assert!(ran.doc()["error"]["message"].to_string().contains(says) && ran.hint().contains(&helps), "{ran}");
    }
}

#[test]
fn a_dry_run_of_the_setup_needs_no_cluster_that_is_up() {
    let folder = tempfile::tempdir().unwrap();
    let setup =
        Tool::script("svc-setup-snapshots").arg("--dry-run").talks().env("SVC_ENVIRONMENT_FILE", folder.path().join("none"));
    let setup = setup.env("SVC_SEARCH_URL", "http://127.0.0.1:1").env("SVC_BACKUP_REPO", folder.path().join("repo"));
    let ran =
        setup.env("SVC_SEARCH_UNIT", "search.service").env("SVC_STATE_DIR", folder.path().join("state")).run().ok().unchanged();
    let plan = ran.result()["plan"].to_string();
    assert!(
        plan.contains("svc-unit start search.service")
            && !plan.contains("svc-unit restart")
            && plan.contains("svc-snap register"),
        "{ran}"
    );
}

#[test]
fn whoever_may_not_look_into_a_folder_is_told_so_and_not_that_nothing_is_in_it() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["", "state", "state/runs", "backups"] {
        let path = folder.path().join(name);
        fs::create_dir_all(&path).unwrap();
        let closed = name == "state/runs" || name == "backups";
        fs::set_permissions(&path, fs::Permissions::from_mode(if closed { 0o700 } else { 0o755 })).unwrap();
    }
    let asks: [(&str, &[&str]); 3] =
        [("svc-upgrade", &["--status"]), ("svc-backup", &["--list"]), ("svc-nightly", &["--max-age", "26h"])];
    for (script, words) in asks {
        let ran = Tool::script(script).args(words.iter().copied()).as_user("daemon");
        let ran = ran.env("SVC_ENVIRONMENT_FILE", folder.path().join("none")).env("SVC_STATE_DIR", folder.path().join("state"));
        let ran = ran.env("SVC_BACKUP_DIR", folder.path().join("backups")).run();
        assert!(ran.status == 3 && ran.stderr.contains("cannot be read"), "{ran}");
    }
    // Nor is a disk that is read-only a fault of the machine's.
    let _disk = SmallDisk::at(&folder.path().join("state"), 1).unwrap();
    fs::create_dir(folder.path().join("state/runs")).unwrap();
    fs::write(folder.path().join("state/lock"), "").unwrap();
    svc_tests::os::run(Command::new("mount").args(["-o", "remount,ro"]).arg(folder.path().join("state"))).unwrap();
    let prune = Tool::script("svc-backup").arg("--prune").env("SVC_ENVIRONMENT_FILE", folder.path().join("none"));
    let prune = prune.env("SVC_STATE_DIR", folder.path().join("state")).run().refused("permission_denied");
    assert!(prune.stderr.contains("is read-only"), "{prune}");
}

#[test]
fn the_command_that_is_to_be_typed_again_has_no_argument_that_only_stands_for_one() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("state/runs/20261121t020000z-upgrade");
    fs::create_dir_all(&run).unwrap();
    let words = ["--installer-arg", "<redacted>", "--clone", "--installer-arg=<redacted>", "svc-2.0.1.run"];
    fs::write(run.join("plan.json"), journal::plan(&json!({"arguments": words, "directory": ""})).to_string()).unwrap();
    let status = Tool::script("svc-upgrade").arg("--status").env("SVC_ENVIRONMENT_FILE", folder.path().join("none"));
    let status = status.env("SVC_STATE_DIR", folder.path().join("state")).run();
    let wanted = "Run the same command again, with its --installer-arg or other secrets, which are not recorded:\n";
    assert!(status.stdout.contains(&format!("{wanted}  svc-upgrade --clone svc-2.0.1.run\n")), "{status}");
}

#[test]
fn the_command_that_is_to_be_typed_again_names_files_by_their_whole_path_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let then = folder.path().join("then");
    fs::create_dir(&then).unwrap();
    let again = |script: &str, words: &[&str]| {
        // Whatever stands there, there is a file of that name.
        words.iter().filter(|word| !word.starts_with('-')).for_each(|word| fs::write(then.join(word), "").unwrap());
        let run = folder.path().join(format!("state/runs/20261121t020000z-{script}"));
        fs::create_dir_all(&run).unwrap();
        let plan = journal::plan(&json!({"script": script, "arguments": words, "directory": then}));
        fs::write(run.join("plan.json"), plan.to_string()).unwrap();
        let status = Tool::script(script).arg("--status").env("SVC_ENVIRONMENT_FILE", folder.path().join("none"));
        let status = status.env("SVC_STATE_DIR", folder.path().join("state")).run();
        let hint =
            status.stdout.split_once("Run the same command again:\n  ").unwrap_or_else(|| panic!("{status}")).1.trim().to_owned();
        hint.replace(&format!("{}/", then.display()), "THEN/")
    };
    fs::write(then.join("a.run"), "").unwrap();
    let upgrade = ["--last-minor", "1.15", "--layout", "yaml", "--to", "2.0.1", "--uninstall", "remove", "--from-dir", "there"];
    let wanted = "svc-upgrade --last-minor 1.15 --layout yaml --to 2.0.1 --uninstall remove --from-dir THEN/there";
    assert_eq!(again("svc-upgrade", &upgrade), wanted);
    let upgrade = ["--layout=yaml", "--clone", "there", "--from-dir=there", "not-there.run"];
    fs::write(then.join("not-there.run"), "").unwrap();
    assert_eq!(
        again("svc-upgrade", &upgrade),
        "svc-upgrade --layout=yaml --clone THEN/there --from-dir=THEN/there THEN/not-there.run"
    );
    assert_eq!(again("svc-rollback", &["--installer", "a.run", "point"]), "svc-rollback --installer THEN/a.run THEN/point");
    let backup = ["--kind", "nightly", "--because", "reason"];
    assert_eq!(again("svc-backup", &backup), "svc-backup --kind nightly --because reason");
}

#[test]
fn however_many_restore_points_are_named_none_is_deleted_where_one_is_not_there() {
    let folder = tempfile::tempdir().unwrap();
    let ids = || (10..71).map(|number| format!("202601{number}t020000z-backup-manual"));
    ids().take(60).for_each(|id| fs::create_dir_all(folder.path().join("backups").join(id)).unwrap());
    let delete = Tool::script("svc-backup").args(ids().flat_map(|id| ["--delete".to_owned(), id]));
    let delete = delete.env("SVC_ENVIRONMENT_FILE", folder.path().join("none")).env("SVC_STATE_DIR", folder.path().join("state"));
    delete.env("SVC_BACKUP_DIR", folder.path().join("backups")).run().fails(4, "point_not_found").unchanged();
    assert_eq!(fs::read_dir(folder.path().join("backups")).unwrap().count(), 60);
}

#[test]
fn what_a_step_shows_to_people_fits_80_columns_and_ends_with_the_verdict() {
    let product = running("sctable");
    let backup = product.tool("svc-backup").run().ok();
    let point = backup.result()["restore_point"].as_str().unwrap().to_owned();
    let (snapshot, saved) = (format!("{point}/snapshot.json"), format!("{point}/confsave.json"));
    let dump = format!("{point}/sctable_db.backup.sql");
    let releases = product.path("installers").display().to_string();
    for (tool, args) in [
        ("svc-snap", &["list"][..]),
        ("svc-snap", &["show", "--from", &snapshot]),
        ("svc-snap", &["health"]),
        ("svc-snap", &["verify"]),
        ("svc-unit", &["status"]),
        ("svc-confsave", &["diff", "--from", &saved]),
        ("svc-pgdump", &["verify", &dump]),
        ("svc-version", &["plan", "--to", "2.0.1", &releases]),
        ("svc-point", &["list"]),
        ("svc-point", &["choose", "--accept-unquiesced", &point]),
    ] {
        let shown = product.tool(tool).args(args.iter().copied()).arg("--table").run();
        let wide = shown.stdout.lines().find(|line| line.chars().count() > 80);
        assert!(shown.status == 0 && wide.is_none(), "{tool} {args:?}: {wide:?}\n{shown}");
        assert!(shown.stdout.ends_with(&format!("\n{tool} {}: ok\n", args[0])), "{tool} {args:?}\n{shown}");
    }
}

#[test]
fn an_installers_own_status_is_never_taken_for_one_of_the_contract() {
    let product = running("scstatus");
    for status in [9, 3, 8] {
        let installer = installer_that(&product, &format!("exit {status}"));
        let ran = product.tool("svc-upgrade").arg("--ignore-unfinished").arg(&installer).run().fails(1, "command_failed");
        let run_dir = PathBuf::from(ran.result()["run_dir"].as_str().unwrap());
        assert!(holds(&run_dir, &format!("\"exit_status\":{status}")), "{ran}");
    }
}

#[test]
fn an_installer_gets_the_callers_umask_and_environment_and_no_lock_of_ours() {
    let product = running("scumask");
    let (out, settings) = (product.path("seen"), product.path("environment"));
    fs::write(&settings, "SVC_KEEP_RUNS=77\nPRODUCTS_OWN=of_the_file\n").unwrap();
    let does = format!("{{ umask; env; ls -l /proc/self/fd; }} >'{}'; exit 1", out.display());
    let upgrade = || product.tool("svc-upgrade").env("SVC_ENVIRONMENT_FILE", &settings).env("CALLERS", "own");
    upgrade().arg(installer_that(&product, &does)).run().fails(1, "command_failed");
    let of_caller = |seen: &str| {
        assert!(seen.starts_with("0022\n") && seen.contains("\nCALLERS=own\n") && !seen.contains("SVC_LOCK"), "{seen}");
        assert!(!seen.contains("SVC_KEEP_RUNS") && !seen.contains("PRODUCTS_OWN"), "{seen}");
    };
    of_caller(&fs::read_to_string(&out).unwrap());
    // The run has recorded the setting, which its tools get again.
    fs::write(&settings, "").unwrap();
    upgrade().args(["--resume", "--rerun-installer"]).run().fails(1, "command_failed");
    let seen = fs::read_to_string(out).unwrap();
    of_caller(&seen);
    // A service that the installer starts would hold an open lock for ever.
    let state = format!("{}/", product.state_dir().display());
    let ours: Vec<&str> = seen.lines().filter(|line| line.contains(&state) && !line.ends_with(".out")).collect();
    assert!(ours.is_empty(), "{ours:?}");
}

#[test]
fn the_id_of_a_run_is_its_own_greater_than_all_before_and_never_that_of_what_is_there() {
    let product = running("scid");
    let id = |ran: &Ran| ran.doc()["run_id"].as_str().unwrap().to_owned();
    let foreign = product.backup_dir().join("20260101t000000z-x");
    fs::create_dir_all(&foreign).unwrap();
    fs::write(foreign.join("precious"), "data").unwrap();
    product.tool("svc-backup").env("SVC_RUN_ID", "20260101t000000z-x").run().refused("name_in_use").error_has(&["The directory"]);
    assert_eq!(fs::read_to_string(foreign.join("precious")).unwrap(), "data");

    let backup = product.tool("svc-backup").run().ok();
    let kept = product.state_dir().join("runs").join(id(&backup)).join("document.json");
    let before = fs::read_to_string(&kept).unwrap();
    product.tool("svc-backup").env("SVC_RUN_ID", id(&backup)).run().refused("name_in_use").error_has(&["There is a run"]);
    assert_eq!(fs::read_to_string(&kept).unwrap(), before);
    for bad in ["mine", "../x", "20261120T020003Z-x"] {
        product.tool("svc-backup").env("SVC_RUN_ID", bad).run().fails(2, "options_invalid").unchanged();
    }

    let refused: BTreeSet<String> =
        (0..4).map(|_| id(&product.tool("svc-upgrade").args(["--resume", "20260101t000000z-x"]).run())).collect();
    assert_eq!(refused.len(), 4, "{refused:?}");
    // The clock went back.
    fs::create_dir_all(product.state_dir().join("runs/20991231t235959z-upgrade")).unwrap();
    for next in ["21000101t000000z-backup-manual", "21000101t000001z-backup-manual"] {
        assert_eq!(id(&product.tool("svc-backup").run().ok()), next);
    }
}

#[test]
fn whoever_stops_listening_stops_no_run() {
    let product = running("scpipe");
    let script = svc_tests::tool::root().join("scripts/svc-backup");
    let folders = std::env::join_paths(
        std::iter::once(svc_tests::tool::bin_dir()).chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())),
    )
    .unwrap();
    let piped = |line: &str| {
        let mut bash = Command::new("bash");
        bash.args(["-c", line]).arg(&script).arg(product.path("document"));
        bash.envs(product.env()).env("PATH", &folders).stdin(Stdio::null()).status().unwrap()
    };
    // Nobody reads the document: its reader has ended before it comes.
    assert!(piped("\"$0\" | true; exit \"${PIPESTATUS[0]}\"").success());
    assert!(piped("{ \"$0\" -v 3>&2 2>&1 1>&3 | head -n 2 >/dev/null; exit \"${PIPESTATUS[0]}\"; } 2>\"$1\"").success());
    let document: serde_json::Value = serde_json::from_str(&fs::read_to_string(product.path("document")).unwrap()).unwrap();
    assert_eq!(document["ok"], true);
    assert!(Path::new(document["result"]["restore_point"].as_str().unwrap()).join("SHA256SUMS").exists());
}

#[test]
fn no_secret_of_a_url_or_an_installers_argument_is_written_anywhere() {
    let product = running("scsecret");
    let installer = installer_that(&product, "echo \"$@ ${1#*=}\"; exit 1");
    // Of such a password nothing stays either, although the sign ends it.
    let url = product.host.search.url.replace("://", "://bob:x@h1dd3n@");
    let ran = product
        .tool("svc-upgrade")
        .args(["--installer-arg=--password=s3cr3t", "--installer-arg", "t0psecret"])
        .arg(installer)
        .env("SVC_SEARCH_URL", url)
        .run()
        .fails(1, "command_failed");
    // Nor of one whose password holds a slash, which the tools refuse.
    let url = product.host.search.url.replace("://", "://bob:1/h1dd3n@");
    let refused = product.tool("svc-backup").arg("--ignore-unfinished").env("SVC_SEARCH_URL", url).run();
    assert_eq!(refused.status, 2, "{refused}");
    assert!(!refused.stdout.contains("h1dd3n") && !refused.stderr.contains("h1dd3n"), "{refused}");
    // Nor where the run is resumed in a folder in which a file has that name.
    let folder = product.path("folder");
    fs::create_dir_all(folder.join("t0psecret")).unwrap();
    let again = product.tool("svc-upgrade").dir(folder).args(["--resume", "--rerun-installer", "--installer-arg", "t0psecret"]);
    again.run().fails(1, "command_failed");
    for secret in ["h1dd3n", "s3cr3t", "t0psecret"] {
        assert!(!holds(&product.state_dir(), secret), "{secret} is in the run directory");
        assert!(!holds(&product.backup_dir(), secret), "{secret} is in the restore point");
        assert!(!ran.stdout.contains(secret) && !ran.stderr.contains(secret), "{ran}");
    }
}

#[test]
fn a_tool_that_is_ended_alone_fails_its_step_and_what_was_done_is_undone() {
    let term = "case $* in *--dry-run*) ;; *--output*) kill -TERM $$ ;; esac";
    let (_product, ran) = undone_where("scterm", ("svc-pgdump", term), "no_document");
    assert!(ran.doc()["error"]["message"].as_str().unwrap().starts_with("The step dump failed"), "{ran}");
}

#[test]
fn where_the_point_of_no_return_cannot_be_recorded_the_service_runs_again() {
    let damages = "case $* in *'--expect inactive'*) rm \"$SVC_RUN_DIR/notes.json\"; mkdir \"$SVC_RUN_DIR/notes.json\" ;; esac";
    undone_where("scnotes", ("svc-unit", damages), "journal_full");
}

#[test]
fn an_installer_that_outlives_its_script_keeps_every_other_run_out() {
    let product = running("scoutlive");
    let (begun, go) = (product.path("begun"), product.path("go"));
    let does = format!("touch '{}'; until [ -e '{}' ]; do sleep 0.1; done", begun.display(), go.display());
    let does = does + "; rm \"$SVC_BACKUP_DIR\"/*-upgrade-*/SHA256SUMS; exit 1";
    let script = product.tool("svc-upgrade").arg("--auto-rollback").arg(installer_that(&product, &does)).spawn();
    wait::until("the installer to be running", A_WHILE, || begun.exists().then_some(())).unwrap();
    script.signal_group(Signal::SIGTERM);
    let ran = script.wait();
    assert_eq!(ran.status, 143, "{ran}");
    let error = &ran.doc()["error"];
    assert!(error["message"].as_str().unwrap().contains("The step installer is still running."), "{ran}");
    assert_eq!(ran.step("installer")["changed"], serde_json::Value::Null, "{ran}");
    product.tool("svc-backup").run().fails(8, "external_running").unchanged();

    fs::write(&go, "").unwrap();
    let rc = PathBuf::from(ran.result()["run_dir"].as_str().unwrap());
    wait::until("the installer's own end", A_WHILE, || {
        fs::read_dir(&rc).ok()?.flatten().any(|file| file.file_name().to_string_lossy().ends_with("-installer.rc")).then_some(())
    })
    .unwrap();
    // What it has left is none to go back to.
    wait::until("the lock to be free", A_WHILE, || Some(product.tool("svc-backup").run()).filter(|ran| ran.status != 8))
        .unwrap()
        .refused("run_unfinished");

    // It has failed meanwhile, and what was asked for then holds; there is no point to go back to, so nothing is changed.
    let ran = product.tool("svc-upgrade").arg("--resume").run().fails(3, "command_failed");
    let hint = ran.hint();
    assert!(hint.starts_with("It was to be rolled back, and that failed too.\n"), "{ran}");
    assert!(hint.contains("To go back to the version before:\n  svc-rollback"), "{ran}");
}

#[test]
fn a_signal_to_the_whole_group_reaches_a_step_once_and_its_document_is_kept() {
    let product = running("scgroup");
    // The dump waits for a lock, so both steps have begun, and the run has not ended, whenever the signal comes.
    let (postgres, database) = (&product.host.postgres, product.database());
    let mut holder = postgres.administrator("psql");
    let held = "BEGIN; LOCK TABLE items; SELECT pg_sleep(600)";
    let mut holder =
        holder.args(["-XAtq", "-d", &database, "-c", held]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let holds = format!("datname = '{database}' AND wait_event = 'PgSleep'");
    let count = format!("SELECT count(*) FROM pg_stat_activity WHERE {holds}");
    wait::until("the lock", A_WHILE, || (postgres.sql("postgres", &count).unwrap() != "0").then_some(())).unwrap();
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        let script = product.tool("svc-backup").spawn();
        // What they do, and not the journal's word that they were started: a tool that has not come to catch signals yet
        // leaves no document, as one that is killed.
        wait::until("the dump and the snapshot to be under way", A_WHILE, || {
            let point = fs::read_dir(product.backup_dir()).ok()?.flatten().next()?.path();
            let mut files = fs::read_dir(point).ok()?.flatten();
            let dump = files.any(|file| file.file_name().to_string_lossy().ends_with(".partial"));
            let listed = || product.tool("svc-snap").arg("list").run();
            (dump && listed().result()["snapshots"] != json!([])).then_some(())
        })
        .unwrap();
        script.signal_group(signal);
        let ran = script.wait();
        assert_eq!(ran.status, 128 + signal as i32, "{ran}");
        for step in ran.result()["steps"].as_array().unwrap() {
            assert!(!step["schema"].is_null(), "{} left no document\n{ran}", step["step"]);
        }
        let left = fs::read_dir(product.backup_dir()).map(|found| found.count()).unwrap_or(0);
        assert_eq!(left, 0, "an incomplete restore point is left");
    }
    postgres.sql("postgres", &format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {holds}")).unwrap();
    holder.wait().unwrap();

    // It comes while the script asks for a step, and says nothing about that.
    let asked = product.path("asked");
    let does = format!("case $* in 'step finalize '*) mkdir '{}' 2>&- && kill -s HUP 0 ;; esac", asked.display());
    let ran = product.tool("svc-backup").stub(&product.path("stub"), "svc-run", &does).run();
    assert!(asked.exists() && ran.status == 129, "{ran}");
    assert_eq!(ran.doc()["error"]["message"], "The run was ended by HUP.", "{ran}");
}

#[test]
fn setup_makes_a_server_ready_for_snapshots_once_and_a_preflight_finds_out_where_disk_space_is_short() {
    use svc_tests::host::search_env;
    use svc_tests::search::Settings;
    let product = Product::new("scsetup").unwrap();
    let host = &product.host;
    let server = host.search_server(&host.search.key, &Settings { path_repo: false, ..Settings::default() }).unwrap();
    // Parents that are not there yet, as in README's own example: the search database must be able to pass them.
    let location = server.repo_root.join("not/there yet/backup_repo");
    let setup = || product.tool("svc-setup-snapshots").envs(search_env(&server.search)).env("SVC_BACKUP_REPO", &location);
    let process = || host.systemd.property(&server.unit, "MainPID").unwrap();

    let first = process();
    setup().args(["--restart", "--dry-run"]).talks().run().ok().unchanged();
    assert!(!location.exists());
    // A setting that does not fit this host.
    let odd = setup().arg("--restart").env("SVC_SEARCH_OS_USER", "nobody-here").run();
    assert!(odd.status != 0 && process() == first && !location.exists(), "{odd}");
    // Whether the service is active is not known where there is no unit of it.
    setup().run().fails(3, "settings_invalid");
    assert_eq!(process(), first);
    setup().arg("--restart").run().ok().changed();
    assert_ne!(process(), first, "the server was not restarted, so it cannot know the path");
    let second = process();
    setup().run().ok().unchanged();
    assert_eq!(process(), second, "a server that knows the path was restarted");

    // The service is active, and another folder needs a restart: not without being told so.
    product.install("1.15.5", 5).unwrap();
    let elsewhere = server.repo_root.join("elsewhere/backup_repo");
    let asked = || setup().env("SVC_BACKUP_REPO", &elsewhere).env("SVC_REPOSITORY", "scsetup_other");
    asked().run().fails(3, "service_state");
    let planned = asked().args(["--restart", "--dry-run"]).talks().run().ok().unchanged();
    assert!(planned.result()["plan"].to_string().contains("svc-unit restart "), "{planned}");
    assert_eq!(process(), second);

    // What an upgrade would find here: a disk of the search database's past its watermarks, and no disk space for a dump.
    let limits =
        ["low", "high", "flood_stage"].map(|stage| (format!("cluster.routing.allocation.disk.watermark.{stage}"), "99tb"));
    let mut limits: BTreeMap<String, &str> = limits.into_iter().collect();
    limits.insert("cluster.routing.allocation.disk.threshold_enabled".to_owned(), "true");
    server.ask("PUT", "/_cluster/settings", Some(&json!({"transient": limits}))).unwrap();
    fs::create_dir(product.backup_dir()).unwrap();
    let disk = SmallDisk::at(&product.backup_dir(), 1).unwrap();
    // How much a dump takes, the last one tells, which has filled the disk.
    let last = product.backup_dir().join("20260101t000000z-backup-manual");
    fs::create_dir(&last).unwrap();
    fs::write(last.join("scsetup_db.backup.sql"), vec![0; 1 << 20]).unwrap();
    let active = product.process();
    let upgrade = product.tool("svc-upgrade").arg(product.installer("2.0.1")).envs(search_env(&server.search));
    let ran = upgrade.env("SVC_BACKUP_REPO", &location).run().fails(3, "out_of_space").unchanged();
    drop(disk);
    assert!(ran.hint().contains("SVC_BACKUP_DIR"), "{ran}");
    assert_eq!(ran.check("search")["verdict"], "warn", "{ran}");
    assert!(ran.check("search")["message"].as_str().unwrap().contains("flood stage"), "{ran}");
    // Indices that take no writes would end an installer half-way.
    assert_eq!((&ran.check("space")["verdict"], &ran.result()["preflight_total"]["fail"]), (&"fail".into(), &1.into()), "{ran}");
    assert!(ran.check("space")["message"].as_str().unwrap().contains("flood stage"), "{ran}");
    assert_eq!(product.process(), active);
}
