//! What all scripts keep alike (`scripts/lib/script.sh` and svc-run), whatever they are for: run directories, locks, signals, statuses.

use svc_tests::bare::{document, failed, undo};
use svc_tests::journey::prelude::*;

fn holds(folder: &Path, text: &str) -> bool {
    let found = Command::new("grep").args(["-rqF", "--", text]).arg(folder).status().unwrap();
    found.success()
}

#[test]
fn help_for_any_user_and_status_2_for_unknown_option() {
    let folder = tempfile::tempdir().unwrap();
    let settings = folder.path().join("environment");
    os::file(&settings, "", 0o600, None).unwrap();
    os::chmod(folder.path(), 0o755);
    let scripts: BTreeSet<String> =
        names_in(&root().join("scripts")).into_iter().filter(|name| name.starts_with("svc-")).collect();
    let install = fs::read_to_string(root().join("scripts/install.sh")).unwrap();
    let installed = install.split_once("\nscripts=(").unwrap().1.split(')').next().unwrap();
    assert_eq!(installed.split(' ').map(str::to_owned).collect::<BTreeSet<_>>(), scripts);
    for script in &scripts {
        let help = Tool::new(script).arg("--help").as_user("daemon").env("SVC_ENVIRONMENT_FILE", &settings);
        help.run().exits(0, &["usage:"]);
        Tool::new(script).arg("--no-such-word=secret").run().exits(2, &["hint: "]).without(&["secret"]);
        // `=no` would be taken for yes.
        Tool::new(script).arg("--dry-run=no").run().exits(2, &["takes no value"]);
    }
}

#[test]
fn wrong_options_exit_2_and_begin_no_run() {
    let bare = Bare::default();
    for (script, args, says) in [
        ("svc-backup", "--prune --delete 20260101t000000z-x", "hint: "),
        ("svc-backup", "--list --prune", "hint: "),
        ("svc-backup", "--read-all", "hint: "),
        ("install.sh", "--prefix /proc/none", "install.sh --prefix /usr/local"),
        ("svc-upgrade", "--hooks-only svc-2.0.1.run", "hint: "),
        ("svc-upgrade", "--uninstall=true --no-uninstall svc-2.0.1.run", "Either --uninstall or --no-uninstall."),
        ("svc-rehearse", "--layout yaml", "--layout belongs to --or-backup."),
        // Where a value was forgotten, the next option is none.
        ("svc-upgrade", "--installer-arg --dry-run svc-2.0.1.run", "write --installer-arg=--dry-run if"),
        ("svc-rollback", "--installer --uninstall=true", "write --installer=--uninstall=true if"),
        // What is resumed has the options of the call that began it.
        ("svc-upgrade", "--resume --clone", "--resume takes no `"),
        ("svc-upgrade", "--resume --to=2.0.1", "--resume takes no `"),
        ("svc-upgrade", "--resume --rerun-installer svc-2.0.1.run", "--resume takes no `"),
        ("svc-upgrade", "--rerun-installer svc-2.0.1.run", "--rerun-installer belongs to --resume."),
        ("svc-upgrade", "--resume --dry-run", "--resume has no dry run."),
        ("svc-rollback", "--resume 20260101t000000z-upgrade-2.0.1 20260101t000000z-upgrade-2.0.1", "--resume takes no `"),
    ] {
        bare.tool(script, &args.split(' ').collect::<Vec<_>>()).run().exits(2, &[says]);
        assert!(!bare.path("state").exists(), "{script} {args} has begun a run");
    }
}

#[test]
fn installer_that_removes_state_directory_has_unknown_outcome() {
    let bare = Bare::default();
    let point = bare.path("backups/20260101t000000z-x");
    let (state, undone) = (bare.path("state"), bare.path("undone"));
    let begins = format!("svc-run note restore_point '{}'\nundo u -- touch '{}'\n", point.display(), undone.display());
    let ends = format!("svc-run commit --hint back\nexternal installer -- rm -r '{}'\n", state.display());
    let script = format!("{begins}step a -- svc-version current\n{ends}");
    let ran = bare.own_script(&script).run().fails(3, "outcome_unknown").error_has(&[&point.display().to_string()]);
    assert!(ran.doc()["changed"].is_null() && !ran.hint().contains("--resume") && !undone.exists(), "{ran}");
}

/// An operator's own script, which is waiting for a command of its own when the signal comes.
#[test]
fn signal_ends_own_script_before_its_next_step() {
    let waits = "bash -c 'until [ -e go ]; do sleep 0.1; done'";
    let in_words = format!(": \"$({waits})\" \"$(:)\"");
    for (signal, at) in [(Signal::SIGHUP, waits), (Signal::SIGINT, &in_words), (Signal::SIGTERM, &in_words)] {
        let bare = Bare::default();
        let does = format!("cd \"$SVC_INSTALL_DIR\"; touch ready\n{at}\nstep after -- touch after\n");
        let run = bare.own_script(&does).spawn();
        wait::so("the script to be on its way", || bare.path("ready").exists().then_some(()));
        run.signal(signal);
        // It has come to the script, which hears it when its command has ended.
        let log = || fs::read_to_string(fs::read_dir(bare.path("state/runs")).ok()?.flatten().next()?.path().join("log")).ok();
        wait::so("the supervisor to have noticed", || log()?.contains(" came").then_some(()));
        fs::write(bare.path("go"), "").unwrap();
        let ran = run.wait().fails(128 + signal as i32, "interrupted");
        assert!(!bare.path("after").exists(), "a step was begun after the signal\n{ran}");
    }
}

#[test]
fn resumed_rollback_uses_recorded_arguments() {
    let resume = |script: &str, arguments: &[&str]| {
        let bare = Bare::default();
        let plan = json!({"script": script, "arguments": arguments});
        bare.run_left("20260101t000000z-x", &[("plan.json", plan), ("notes.json", json!({"commit": "back"}))]);
        bare.tool(script, &["--resume"]).env_remove("SVC_UNINSTALL").run()
    };
    // It comes as far as to the restore point, and there is none here.
    resume("svc-rollback", &["--no-uninstall"]).fails(4, "point_not_found");
    resume("svc-rollback", &["--uninstall", "true"]).fails(4, "point_not_found");
    // A secret was in it.
    let lost = resume("svc-rollback", &["--uninstall", "<redacted>"]).fails(2, "options_invalid");
    lost.error_has(&["pass --uninstall COMMAND", "svc-rollback --resume 20260101t000000z-x"]);
    let lost = resume("svc-upgrade", &["--auto-rollback", "--uninstall", "<redacted>", "a.run"]).fails(2, "options_invalid");
    lost.error_has(&["--auto-rollback needs to know", "svc-upgrade --resume 20260101t000000z-x"]);
    let args = ["--auto-rollback", "--no-uninstall", "--installer-arg", "<redacted>", "a.run"];
    let lost = resume("svc-upgrade", &args).fails(2, "options_invalid");
    lost.error_has(&["pass --installer-arg again", "svc-upgrade --resume 20260101t000000z-x"]);
}

fn changed() -> Value {
    document("mine.make/1", &json!({}))
}

/// A step whose tool says that it has changed something.
fn changes(step: &str) -> String {
    format!("step {step} -- echo '{}'\n", changed())
}

#[test]
fn committed_run_is_undone_if_installer_never_started() {
    for (ends, status, code) in [
        ("kill -TERM \"$SVC_SUPERVISOR\"; until ! check x -- svc-version current; do :; done; exit 1", 143, "interrupted"),
        ("mkdir \"$SVC_RUN_DIR/02-installer.out.partial\"; external installer -- touch \"$SVC_INSTALL_DIR/ran\"", 1, "failed"),
        // The holder has come further when the disk takes no more.
        ("mkdir \"$SVC_RUN_DIR/02-installer.process\"; external installer -- touch \"$SVC_INSTALL_DIR/ran\"", 1, "failed"),
        (
            "rm \"$SVC_RUN_DIR/log\"; mkdir \"$SVC_RUN_DIR/log\"; external installer -- touch \"$SVC_INSTALL_DIR/ran\"",
            1,
            "failed",
        ),
        // One that the system does not take: without the right, without an interpreter.
        ("external installer -- \"$SVC_INSTALL_DIR/current-version\"", 1, "failed"),
        ("external installer -- /no/such", 1, "failed"),
        ("exit 1", 1, "failed"),
    ] {
        let bare = Bare::default();
        let does = format!("undo back -- svc-version current\n{}svc-run commit\n{ends}\n", changes("made"));
        let ran = bare.own_script(&does).run().fails(status, code).unchanged();
        let again = format!("Nothing was changed.\nRun the same command again:\n  '{}'", bare.path("own scripts/mine").display());
        assert_eq!(ran.hint(), again, "{ran}");
        let steps = ran.steps();
        assert!(steps.contains(&"back") && !steps.contains(&"installer") && !bare.path("ran").exists(), "{steps:?}");
        bare.tool("svc-run", &["refuse-unfinished", "mine"]).run().ok();
    }
    // A setting of another run keeps none from being begun.
    Bare::default().own_script("external installer -- true\n").env("SVC_LOCK_FD", "77").run().ok();
}

/// 8 is what a timer and whoever is told of failures pass over: another run is in progress, and nothing has begun.
#[test]
fn lock_of_tool_fails_run_that_has_begun() {
    let bare = Bare::default();
    let told = bare.path("told");
    os::write_program(bare.path("hooks/on-failure/10-tell"), format!("#!/bin/sh\ntouch '{}'\n", told.display())).unwrap();
    let made = failed("mine.make/1", "locked");
    let script = bare.own_script(&format!("step made -- bash -c 'echo \"$0\"; exit 8' '{made}'\n"));
    script.env("SVC_HOOKS_DIR", bare.path("hooks")).run().fails(5, "locked");
    assert!(told.exists());
}

#[test]
fn step_ended_by_signal_is_not_a_warning() {
    let mut document = failed("mine.make/1", "interrupted");
    document["changed"] = json!(true);
    for option in ["--or-review", "--or-warn"] {
        let step = format!("step {option} not_checked made -- bash -c 'echo \"$0\"; exit 143' '{document}'\n");
        Bare::default().own_script(&step).run().fails(1, "interrupted");
        // It is told to end as its script was killed, before it has a document.
        let killed = "kill -9 '$$'; exec sleep 600";
        // What a loaded machine makes of a HUP to all: the tool is gone, and svc-run gets it later.
        let gone = "(while kill -0 $$ 2>/dev/null; do :; done; kill -HUP $PPID) & kill -HUP $$";
        for does in [killed, gone] {
            let ran = Bare::default().own_script(&format!("step {option} not_checked made -- bash -c '{does}'\n")).run();
            assert!(ran.doc()["ok"] == false && ran.doc()["warnings"] == json!([]), "{ran}");
        }
    }
}

#[test]
fn own_script_refers_to_step_documents_by_step_name() {
    let bare = Bare::default();
    let does = format!(
        "{}undo --always kept -- bash -c 'tee \"$1\" < \"$0\"' @made '{}'\nstep shown -- cat @made\nstep --unless made passed-over -- false\n\
         step other -- bash -c 'cat \"$1\" && [[ $0 == @nobody ]]' @nobody @shown\n",
        changes("made"),
        bare.path("kept").display()
    );
    let ran = bare.own_script(&does).run().ok();
    assert_eq!(ran.steps(), ["made", "shown", "other", "kept"]);
    assert_eq!(json_of(bare.path("kept"))["schema"], "mine.make/1");
    for wrong in ["svc-run wait dump\n", "step a/b -- true\n", "step a.2 -- true\n"] {
        bare.own_script(wrong).run().fails(2, "options_invalid");
    }
}

#[test]
fn hook_or_directory_that_cannot_be_used_is_refused_before_commit() {
    for name in ["a\nb", "a=b"] {
        let bare = Bare::default();
        os::write_program(bare.path("hooks/post-install").join(name), "#!/bin/sh\n").unwrap();
        let script = bare.own_script("hooks=$(svc-run hooks)\nsvc-run commit\nrun_hooks 2.0.1\n");
        let ran = script.env("SVC_HOOKS_DIR", bare.path("hooks")).run();
        ran.refused("file_invalid").unchanged().error_has(&["a line break or `=`"]);
    }
    // Nor is there a run without its hooks because their directory was mistyped.
    let bare = Bare::default();
    let ran = bare.own_script("hooks=$(svc-run hooks)\n").env("SVC_HOOKS_DIR", bare.path("hoks")).run();
    ran.refused("settings_invalid").unchanged().error_has(&["SVC_HOOKS_DIR"]);
}

#[test]
fn failure_hook_is_told_of_failed_runs_alone() {
    let bare = Bare::default();
    let [told, temporary, hook] = ["told", "temporary", "hooks/on-failure/10-tell"].map(|name| bare.path(name));
    let with_hooks = |tool: Tool| tool.env("SVC_HOOKS_DIR", bare.path("hooks"));
    let own = |does: &str| with_hooks(bare.own_script(does));
    let hook_does = |does: &str| os::write_program(&hook, format!("#!/bin/sh\n{does}\n")).unwrap();
    let heard = || fs::read_to_string(&told).ok().inspect(|_| fs::remove_file(&told).unwrap());
    let heard_document = || serde_json::from_str::<Value>(&heard().unwrap()).unwrap();
    hook_does(&format!("cat >>'{}'\necho heard\nexec svc-run status >/dev/null", told.display()));
    own("").run().ok();
    let delete = ["--delete", "20260101t000000z-x"];
    with_hooks(bare.tool("svc-backup", &delete)).arg("--dry-run").run().fails(4, "point_not_found");
    assert_eq!(heard(), None);

    // Once, by the outermost script, with its document; what the hook prints is in the log.
    let ran = own(&format!("step inner -- svc-backup {}\n", delete.join(" "))).run().fails(4, "point_not_found");
    assert_eq!(&heard_document(), ran.doc());
    assert!(fs::read_to_string(ran.run_dir().join("log")).unwrap().ends_with("heard\n"), "{ran}");
    // A disk that is full and a run directory that is gone are what it may have to tell.
    fs::create_dir(&temporary).unwrap();
    let disk = SmallDisk::at(&temporary, 1).unwrap();
    assert!(fs::write(temporary.join("filler"), vec![0; 2 << 20]).is_err());
    let ran = own("rm -r \"$SVC_RUN_DIR\"\nexit 1\n").env("TMPDIR", &temporary).run().fails(1, "failed");
    assert_eq!(&heard_document(), ran.doc());
    drop(disk);

    // One that finds another in progress has not failed; one that was killed is told of by what undoes the rest.
    let recover = || with_hooks(bare.tool("svc-run", &["recover", "--silent"]));
    let silent = |status: i32, ran: Ran| assert_eq!((ran.status, &*ran.stdout, &*ran.stderr), (status, "", ""), "{ran}");
    let runs = count_in(&bare.path("state/runs"));
    let lock = fs::File::open(bare.path("state/lock")).unwrap();
    lock.lock().unwrap();
    own("").run().fails(8, "locked");
    silent(8, recover().run());
    lock.unlock().unwrap();
    assert_eq!((heard(), count_in(&bare.path("state/runs"))), (None, runs));
    let killed = format!("undo back -- svc-version current\n{}kill -9 \"$SVC_SUPERVISOR\"; sleep 1\n", changes("made"));
    assert_eq!(own(&killed).run().status, 137);
    silent(0, once_free(recover));
    let killed = heard_document();
    assert_eq!((&killed["error"]["code"], &killed["schema"]), (&json!("interrupted"), &json!("mine.run/1")));

    // One that others can write to is not run, and one that fails is told of; neither changes how the run ends, or keeps from the next.
    os::chmod(&hook, 0o777);
    let ran = own("exit 1").run().fails(1, "failed");
    assert!(ran.stderr.contains("is not run") && heard().is_none(), "{ran}");
    hook_does("exit 4");
    // What an editor leaves is none.
    for name in ["20-tell", ".10-tell", "10-tell~", "10-tell.swp", "10-tell.bak", "10-tell.dpkg-old"] {
        os::copy_program(&hook, &hook.with_file_name(name)).unwrap();
    }
    let ran = own("exit 1").run().fails(1, "failed");
    assert!(ran.stderr.contains("10-tell failed") && ran.stderr.contains("20-tell failed"), "{ran}");
    assert_eq!(ran.stderr.matches("The hook").count(), 2, "{ran}");
    // A run that it starts itself tells nobody.
    let script = bare.path("own scripts/mine");
    hook_does(&format!("echo >>'{}'\nexec '{}'", told.display(), script.display()));
    own("exit 1").run().fails(1, "failed");
    assert_eq!(heard().as_deref(), Some("\n"));
}

#[test]
fn every_run_but_a_dry_run_writes_metrics() {
    let bare = Bare::default();
    let file = bare.path("svc.prom");
    bare.tool("svc-nightly", &["--dry-run"]).env("SVC_METRICS_FILE", &file).talks().run().ok();
    assert!(!file.exists());
    bare.own_script("exit 1").env("SVC_METRICS_FILE", &file).run().fails(1, "failed");
    assert!(fs::read_to_string(&file).unwrap().contains("svc_unfinished_runs{service=\"svc\"} 0\n"));
    let ran = bare.own_script("").env("SVC_METRICS_FILE", "/nowhere/svc.prom").talks().run().ok();
    assert!(ran.stderr.starts_with("svc-point: Cannot "), "{ran}");
}

#[test]
fn resumed_hops_ask_for_installer_arguments_and_exit_9_if_one_needs_review() {
    let bare = Bare::default();
    drop(bare.own_script("svc-run commit\nstep hop-1 -- svc-upgrade a.run\n"));
    let program = bare.path("own scripts/mine").display().to_string();
    let (outer, hop) = ("20260101t000000z-mine", "20260101t000001z-upgrade");
    let plan = json!({"script": "mine", "arguments": ["--installer-arg=<redacted>"]});
    let files = [("plan.json", plan), ("notes.json", json!({"commit": ""})), ("01-hop-1.started", json!("step\n"))];
    bare.run_left(outer, &files);
    let resume = ["supervise", "--kind", "mine", "--resumable", "--private", "installer-arg", "--resume", "--", &program];
    let resume = || bare.tool("svc-run", &resume).run();
    // The installer of the hop would run without them.
    resume().fails(2, "options_invalid").unchanged().error_has(&["Pass them again", "--installer-arg ARG"]);
    let plan = json!({"script": "svc-upgrade", "parent": outer, "arguments": ["a.run"]});
    let mut document = changed();
    document["warnings"] = json!([{"code": "dependents_stopped", "message": "Read it."}]);
    bare.run_left(hop, &[("plan.json", plan), ("notes.json", json!({"review": true})), ("document.json", document)]);
    let ran = resume();
    assert_eq!((ran.status, ran.steps().len()), (9, 2), "{ran}");
}

#[test]
fn resume_hint_names_own_script_by_its_path() {
    let bare = Bare::default();
    let secret = "external own -- true --token s3cr3t\ncheck hop -- svc-version current --uninstall 'x --password=s3cr3t'\n";
    bare.own_script(secret).run().fails(2, "options_invalid");
    assert!(!holds(&bare.path("state"), "s3cr3t"));
    let ran = bare.own_script("svc-run commit --hint 'Look.'\nexternal installer -- false\n").run().fails(1, "command_failed");
    let script = bare.path("own scripts/mine");
    let wanted = format!("\n  '{}' --resume {} --rerun-installer\nLook.", script.display(), ran.id());
    assert!(ran.hint().ends_with(&wanted), "{ran}");
    // The same command again is refused now.
    let fails = "svc-run fail 1 odd 'It is odd.' 'When it is right, run the same command again.'\n";
    let tells = "echo $SVC_SUPERVISOR >\"$SVC_INSTALL_DIR/process\"\n";
    let ran = bare.own_script(&format!("{tells}svc-run commit\n{}{fails}", changes("made"))).run().fails(1, "odd");
    let wanted = format!("When it is right, resume the run.\nTo continue:\n  '{}' --resume {}", script.display(), ran.id());
    assert_eq!(ran.hint(), wanted);
    // Which process it is that ends the run, the log says of each call.
    let resume = ["supervise", "--kind", "mine", "--resumable", "--resume", "--", &script.display().to_string()];
    bare.tool("svc-run", &resume).run().fails(1, "odd");
    let log = fs::read_to_string(ran.run_dir().join("log")).unwrap();
    let process = fs::read_to_string(bare.path("process")).unwrap();
    let last = log.lines().rfind(|line| line.contains(" command: ")).unwrap();
    assert!(last.contains(&format!(", process {},", process.trim())), "{process}{log}");
}

#[test]
fn guess_write_keeps_mode_of_settings_file() {
    let bare = Bare::default();
    let settings = bare.path("environment");
    fs::write(&settings, "# ours\n").unwrap();
    os::chmod(&settings, 0o600);
    let guess = |args: &[&str]| bare.tool("svc-setup-snapshots", args).talks().env("SVC_ENVIRONMENT_FILE", &settings).run();
    assert_eq!(guess(&["--guess", "--write", "--dry-run"]).status, 0);
    assert_eq!(fs::read_to_string(&settings).unwrap(), "# ours\n");
    assert_eq!(guess(&["--guess", "--write"]).status, 0);
    let mode = os::mode(&settings);
    assert!(mode == 0o600 && fs::read_to_string(&settings).unwrap().contains("#SVC_NAME="), "{mode:o}");
}

#[test]
fn failed_run_reports_what_it_leaves_in_place() {
    let bare = Bare::default();
    let made = changes("made");
    let point = bare.path("point");
    fs::create_dir(&point).unwrap();
    fs::write(point.join("SHA256SUMS"), "").unwrap();
    let point = point.display();
    let fails = format!("{made}svc-run fail 1 odd 'It is odd.' 'Look.'\n");
    for (before, hint) in [
        (
            format!("undo --until made back -- svc-version current\nsvc-run note restore_point '{point}'\n"),
            format!("The service was not changed. The restore point {point} is complete and stays.\nLook."),
        ),
        // Without an undo all stays.
        (String::new(), "Look.".to_owned()),
    ] {
        assert_eq!(bare.own_script(&(before + &fails)).run().fails(1, "odd").changed().hint(), hint);
    }
    // A run that it has called was killed, and its tools may be running still.
    let inner = Bare::default();
    inner.own_script("undo back -- svc-version current\nkill -9 \"$SVC_SUPERVISOR\"; sleep 1\n");
    let calls = format!("undo back -- svc-version current\nstep inner -- '{}'\n", inner.path("own scripts/mine").display());
    let ran = bare.own_script(&calls).run();
    assert!(ran.status == 1 && ran.hint().contains("Run by hand what is left to be undone:\n  svc-run recover"), "{ran}");
    // Killed there, it is told by what undoes the rest.
    let killed = format!(
        "undo rest -- svc-version current\nundo --until made back -- svc-version current\n{made}kill -9 \"$SVC_SUPERVISOR\"; sleep 1\n"
    );
    assert_eq!(bare.own_script(&killed).run().status, 137);
    let recovered = once_free(|| bare.tool("svc-run", &["recover"])).ok();
    let run = bare.path("state/runs").join(recovered.result()["undone"][0].as_str().unwrap());
    let document = fs::read_to_string(run.join("document.json")).unwrap();
    assert!(document.contains(r#""changed":true"#) && !document.contains("Nothing was changed"), "{document}");
}

#[test]
fn hint_names_command_of_outer_script() {
    let bare = Bare::default();
    let mut says = failed("mine.make/1", "odd");
    says["error"]["hint"] = Value::Null;
    let fails = format!("case $1 in create) echo '{says}'; exit 1 ;; esac");
    bare.tool("svc-nightly", &["--layout", "yaml"]).stub(&bare.path("stub"), "svc-point", &fails).run();
    let again = "next: Nothing was changed.\nRun the same command again:\n  svc-nightly --layout yaml\n";
    bare.tool("svc-run", &["status"]).run().exits(0, &[again]);
}

#[test]
fn nothing_begins_in_script_whose_supervisor_was_killed() {
    let bare = Bare::default();
    let script = bare.path("own scripts/mine");
    // The kill may come before bash has: then its parent is another one from the start, as it is here for what the script calls.
    let gone = "kill -9 \"$SVC_SUPERVISOR\"; while kill -0 \"$SVC_SUPERVISOR\" 2>/dev/null; do sleep 0.01; done";
    let again = format!("'{}' 2>said || touch refused; touch ended", script.display());
    let does = format!("cd \"$SVC_INSTALL_DIR\"\n[[ ! -e first ]] || exit 0\ntouch first\n{gone}\n{again}\n");
    assert_eq!(bare.own_script(&does).run().status, 137);
    wait::so("the call of the script to end", || bare.path("ended").exists().then_some(()));
    let said = fs::read_to_string(bare.path("said")).unwrap();
    assert!(said.contains("The supervisor of the run is gone.") && bare.path("refused").exists(), "{said}");
    once_free(|| bare.tool("svc-run", &["recover"])).ok();
}

#[test]
fn partly_failed_recover_removes_printed_secret() {
    let bare = Bare::default();
    bare.has_version("1.15.5");
    let undone = [undo("a", &["false"]), undo("b", &["svc-version", "current"])].map(|one| one["undo"][0].clone());
    let plan = json!({"script": "svc-upgrade", "arguments": ["--installer-arg", "<redacted>", "a.run"]});
    // Its holder was killed before it could take the argument out of what the installer printed.
    let files = [
        ("plan.json", plan),
        ("notes.json", json!({"undo": undone})),
        ("01-installer.started", json!("external\n")),
        ("01-installer.out", json!("licence t0psecret\n")),
    ];
    let run = bare.run_left("20260101t000000z-upgrade", &files);
    bare.tool("svc-run", &["recover"]).run().fails(1, "run_unfinished").changed().has(&json!({"undone": []}));
    assert!(!holds(&bare.path("state"), "t0psecret") && holds(&run, "What it printed was removed"));
}

#[test]
fn run_that_a_later_one_has_replaced_is_not_resumed() {
    let bare = Bare::default();
    let left = |id: &str, script: &str, arguments: &[&str], commit: Value| {
        let plan = json!({"script": script, "arguments": arguments});
        bare.run_left(id, &[("plan.json", plan), ("notes.json", json!({"commit": commit}))])
    };
    let first = "20260101t000000z-rollback";
    left(first, "svc-rollback", &[], json!("back"));
    // A later rollback, or one that was repaired by hand.
    for (id, script, arguments, commit) in [
        ("20260102t000000z-rollback", "svc-rollback", &[][..], json!("back")),
        ("20260102t000000z-backup-manual", "svc-backup", &["--ignore-unfinished"], Value::Null),
    ] {
        let later = left(id, script, arguments, commit);
        fs::write(later.join("document.json"), changed().to_string()).unwrap();
        bare.tool("svc-rollback", &["--resume", first]).run().refused("not_resumable").unchanged().error_has(&[id]);
        fs::remove_dir_all(later).unwrap();
    }
}

#[test]
fn state_directory_of_another_product_is_refused() {
    let bare = Bare::default();
    let plan = json!({"script": "svc-upgrade", "settings": {"SVC_NAME": "other"}});
    bare.run_left("20260101t000000z-upgrade", &[("plan.json", plan), ("01-installer.started", json!("external\n"))]);
    for args in [&["--dry-run"][..], &[]] {
        let refused = bare.tool("svc-rollback", args).run().refused("settings_invalid").unchanged();
        refused.error_has(&["of the product other", "SVC_STATE_DIR", &format!("mv {}", bare.path("state/runs").display())]);
    }
}

#[test]
fn undo_of_run_with_invalid_setting_uses_current_settings() {
    let bare = Bare::default();
    bare.has_version("1.15.5");
    let plan = json!({"script": "svc-backup", "settings": {"SVC_TIMEOUT": "soon"}});
    let id = "20260101t000000z-backup-manual";
    bare.run_left(id, &[("plan.json", plan), ("notes.json", undo("a", &["svc-version", "current"]))]);
    bare.tool("svc-run", &["recover"]).run().ok().has(&json!({"undone": [id]}));
    // Whatever the wrong one has led to.
    let (plan, id) = (json!({"script": "svc-backup", "settings": {"SVC_REPOSITORY": "a b"}}), "20260101t000001z-backup-manual");
    let works = format!("[[ ${{SVC_REPOSITORY-}} != 'a b' ]] && echo '{}'", changed());
    let fails = undo("a", &["bash", "-c", &works]);
    bare.run_left(id, &[("plan.json", plan), ("notes.json", fails)]);
    bare.tool("svc-run", &["recover"]).run().ok().has(&json!({"undone": [id]}));
}

#[test]
fn backup_after_unfinished_upgrade_needs_ignore_option() {
    let bare = Bare::default();
    let left = |id: &str, script: &str, parent: Option<&str>, args: &[&str], (file, value): (&str, Value)| {
        let plan = json!({"script": script, "parent": parent, "arguments": args});
        bare.run_left(id, &[("plan.json", plan), (file, value)]);
    };
    left("20260101t000000z-upgrade", "svc-upgrade", None, &["a.run"], ("notes.json", json!({"commit": ""})));
    let refused = bare.tool("svc-backup", &[]).run().refused("run_unfinished");
    assert!(refused.hint().ends_with(":\n  svc-backup --ignore-unfinished"), "{refused}");
    // The unfinished one is what there is to say, and not that another was refused for it.
    let status = bare.tool("svc-run", &["status"]).run();
    assert!(status.stdout.starts_with("svc-upgrade 20260101t000000z-upgrade"), "{status}");
    assert_eq!(bare.tool("svc-run", &["status", "--json"]).run().ok().result()["run"], "20260101t000000z-upgrade");
    bare.tool("svc-nightly", &[]).run();
    assert!(bare.tool("svc-nightly", &["--status"]).run().stdout.contains("run_unfinished"));
    assert!(!bare.path("backups").exists());
    let code = |ran: Ran| ran.doc()["error"]["code"].as_str().unwrap_or_default().to_owned();
    assert_ne!(code(bare.tool("svc-backup", &["--ignore-unfinished"]).run()), "run_unfinished");

    // A run within an upgrade that ignores it, as the backup of its rehearsal, does so too; any other one does not.
    let ask =
        |id: &str| code(bare.tool("svc-run", &["refuse-unfinished", "svc-upgrade", "svc-rollback"]).env("SVC_RUN_ID", id).run());
    let nested = |outer: &str, args: &[&str]| {
        let [rehearsal, backup] = ["1z-rehearse", "2z-backup"].map(|end| format!("{}{end}", &outer[..14]));
        left(outer, "svc-upgrade", None, args, ("none", json!("")));
        left(&rehearsal, "svc-rehearse", Some(outer), &[], ("none", json!("")));
        left(&backup, "svc-backup", Some(&rehearsal), &[], ("none", json!("")));
        ask(&backup)
    };
    assert_eq!(nested("20990101t000000z-upgrade", &["--ignore-unfinished", "b.run"]), "");
    assert_eq!(nested("20990102t000000z-upgrade", &["b.run"]), "run_unfinished");

    // What ended well although it was told to ignore it says that all is repaired.
    let well = ("document.json", json!({"ok": true}));
    left("20990103t000000z-backup-manual", "svc-backup", None, &["--ignore-unfinished"], well);
    assert_eq!(ask("20990104t000000z-backup"), "");
}

#[test]
fn invalid_option_or_setting_exits_2_without_change() {
    let bare = Bare::default();
    let no_setting = ("SVC_NAME", "svc");
    let timeouts = ["5", "0", "0s", "soon"]
        .map(|limit| ("svc-backup", "--dry-run", ("SVC_TIMEOUT", limit), "settings_invalid", "SVC_TIMEOUT"));
    let others = [
        ("svc-backup", "--prune --max-age forever", no_setting, "options_invalid", "Invalid value 'forever'"),
        ("svc-backup", "--prune", ("SVC_KEEP_MAX_AGE", "30 days"), "settings_invalid", "Invalid value '30 days'"),
        ("svc-backup", "--prune --dry-run", ("SVC_KEEP_MAX_AGE", "30"), "settings_invalid", "`30` has no unit"),
        // What it takes, and an age of that form is none of it.
        ("svc-backup", "--dry-run", ("SVC_TIMEOUT", "5"), "settings_invalid", "`5` has no unit: write 90s, 5m or 1h30m"),
        // Another setting has that value.
        ("svc-backup", "--prune --max-age 7", ("SVC_KEEP_MIN_COUNT", "7"), "options_invalid", "`7` has no unit"),
        ("svc-backup", "--delete -x", no_setting, "options_invalid", "Unexpected argument '-x'"),
        ("svc-upgrade", "--dry-run --to v2 --from-dir /nowhere", no_setting, "options_invalid", "Invalid value 'v2'"),
    ];
    for (script, args, setting, code, says) in others.into_iter().chain(timeouts) {
        let tool = bare.tool(script, &args.split(' ').collect::<Vec<_>>()).env(setting.0, setting.1);
        let helps = if code == "settings_invalid" { setting.0.to_owned() } else { format!("{script} --help") };
        tool.run().fails(2, code).unchanged().error_has(&[says, &helps]);
    }
}

#[test]
fn snapshot_setup_dry_run_needs_no_running_cluster() {
    let bare = Bare::default();
    let setup = bare.tool("svc-setup-snapshots", &["--dry-run"]).talks().env("SVC_SEARCH_URL", "http://127.0.0.1:1");
    let setup = setup.env("SVC_BACKUP_REPO", bare.path("repo")).env("SVC_SEARCH_UNIT", "search.service");
    let plan = setup.run().ok().unchanged().result()["plan"].to_string();
    assert!(plan.contains("svc-unit start search.service") && plan.contains("svc-snap register"), "{plan}");
    assert!(!plan.contains("svc-unit restart"), "{plan}");
}

#[test]
fn unreadable_folder_is_not_reported_as_empty() {
    let bare = Bare::default();
    for (name, mode) in [("", 0o755), ("state", 0o755), ("state/runs", 0o700), ("backups", 0o700)] {
        fs::create_dir_all(bare.path(name)).unwrap();
        os::chmod(bare.path(name), mode);
    }
    for (script, args) in
        [("svc-upgrade", &["--status"][..]), ("svc-backup", &["--list"]), ("svc-nightly", &["--max-age", "26h"])]
    {
        bare.tool(script, args).as_user("daemon").run().exits(3, &["cannot be read"]);
    }
    // The restore points alone may be closed.
    let point = bare.path("backups/20260101t020000z-backup-manual");
    fs::create_dir(&point).unwrap();
    for (folder, mode) in [(bare.path("backups"), 0o755), (point, 0o700)] {
        os::chmod(folder, mode);
    }
    bare.tool("svc-nightly", &["--max-age", "26h"]).as_user("daemon").run().exits(3, &["cannot be read"]);
    // Nor is a disk that is read-only a fault of the machine's.
    fs::write(bare.path("state/lock"), "").unwrap();
    let prune = while_mounted(&bare.path("state"), "ro", || bare.tool("svc-backup", &["--prune"]).run());
    prune.refused("permission_denied").error_has(&["is read-only"]);
}

#[test]
fn installer_inherits_caller_environment_but_no_lock() {
    let product = running("sccaller");
    let (out, settings) = (product.path("seen"), product.path("environment"));
    fs::write(&settings, "SVC_KEEP_RUNS=77\nPRODUCTS_OWN=of_the_file\n").unwrap();
    let does = format!("{{ umask; env; ls -l /proc/self/fd; }} >'{0}'; echo \"$@\"; exit $(cat '{0}.status')", out.display());
    // Statuses of the contract, which say something else there.
    let status = |status: i32| fs::write(product.path("seen.status"), status.to_string()).unwrap();
    let upgrade = || product.tool("svc-upgrade").env("SVC_ENVIRONMENT_FILE", &settings).env("CALLERS", "own");
    let of_caller = |ran: &Ran, status: i32| {
        let seen = fs::read_to_string(&out).unwrap();
        assert!(seen.starts_with("0022\n") && seen.contains("\nCALLERS=own\n") && !seen.contains("SVC_LOCK"), "{seen}");
        assert!(!seen.contains("SVC_KEEP_RUNS") && !seen.contains("PRODUCTS_OWN"), "{seen}");
        assert!(holds(&ran.run_dir(), &format!("\"exit_status\":{status}")), "{ran}");
        seen
    };
    let args = ["--installer-arg", "t0psecret"];
    status(9);
    let first = upgrade().args(args).arg(product.installer_that(&does)).run().fails(1, "command_failed");
    of_caller(&first, 9);
    // The run has recorded the setting, which its tools get again; in this folder a file has the name of the argument.
    fs::write(&settings, "").unwrap();
    fs::create_dir_all(product.path("folder/t0psecret")).unwrap();
    let again = || upgrade().dir(product.path("folder")).args(["--resume", "--rerun-installer"]).args(args);
    for own in [3, 8] {
        status(own);
        let seen = of_caller(&again().run().fails(1, "command_failed"), own);
        // A service that the installer starts would hold an open lock for ever.
        let state = format!("{}/", product.state_dir().display());
        let ours: Vec<&str> = seen.lines().filter(|line| line.contains(&state) && !line.ends_with(".out")).collect();
        assert!(ours.is_empty(), "{ours:?}");
    }
    assert!(!holds(&product.state_dir(), "t0psecret"), "the argument is in the run directory");
}

#[test]
fn backup_with_closed_stdout_succeeds_and_run_ids_are_unique_and_ascend() {
    let product = running("scid");
    let script = root().join("scripts/svc-backup");
    let piped = |line: &str| {
        let mut bash = Command::new("bash");
        bash.args(["-c", line]).arg(&script).arg(product.path("document"));
        bash.envs(product.env()).env("PATH", search_path([])).stdin(Stdio::null()).status().unwrap()
    };
    // Nobody reads the document: its reader has ended before it comes.
    assert!(piped("\"$0\" | true; exit \"${PIPESTATUS[0]}\"").success());
    assert!(piped("{ \"$0\" -v 3>&2 2>&1 1>&3 | head -n 2 >/dev/null; exit \"${PIPESTATUS[0]}\"; } 2>\"$1\"").success());
    // Whoever wanted to keep it is told that he has not.
    assert_eq!(piped("\"$0\" --dry-run >/dev/full").code(), Some(1));
    let document = json_of(product.path("document"));
    assert_eq!(document["ok"], true);
    let point = document["result"]["restore_point"].as_str().unwrap();
    assert!(Path::new(point).join("SHA256SUMS").exists());

    let backup = |id: &str| product.tool("svc-backup").env("SVC_RUN_ID", id).run();
    let made = product.tool("svc-backup").args(["--because", "a test"]).run().ok();
    assert_eq!(json_of(point_of(&made).join("snapshot.json"))["result"]["snapshot"]["metadata"]["taken_because"], "a test");
    let id = format!("{}-x", made.id());
    let foreign = product.backup_dir().join(&id);
    fs::create_dir_all(&foreign).unwrap();
    fs::write(foreign.join("precious"), "data").unwrap();
    backup(&id).refused("name_in_use").error_has(&["The directory"]);
    assert_eq!(fs::read_to_string(foreign.join("precious")).unwrap(), "data");
    fs::remove_dir_all(product.state_dir().join("runs").join(&id)).unwrap();

    backup(made.id()).refused("name_in_use").error_has(&["There is a run"]);
    assert_eq!(&json_of(made.run_dir().join("document.json")), made.doc());
    // Which run is the last one is told by the IDs.
    for bad in ["mine", "../x", "20261120T020003Z-x", "20260101t000000z-x", "29991231t235959z-x"] {
        backup(bad).fails(2, "options_invalid").unchanged();
    }

    let refused = || product.tool("svc-upgrade").args(["--resume", "20260101t000000z-x"]).run().id().to_owned();
    let refused: BTreeSet<String> = (0..4).map(|_| refused()).collect();
    assert_eq!(refused.len(), 4, "{refused:?}");
    // The clock went back.
    fs::create_dir_all(product.state_dir().join("runs/20991231t235959z-upgrade")).unwrap();
    for next in ["21000101t000000z-backup-manual", "21000101t000001z-backup-manual"] {
        assert_eq!(product.tool("svc-backup").run().ok().id(), next);
    }
}

#[test]
fn signal_keeps_step_documents_and_leaves_no_point_even_at_last_step() {
    let product = running("scgroup");
    // The dump waits for a lock, so both steps have begun, and the run has not ended, whenever the signal comes.
    let mut service = postgres::Config::new();
    service.host("127.0.0.1").port(product.host.postgres.port).user(&product.name).password("pass:word");
    let mut holder = service.dbname(&product.database()).connect(postgres::NoTls).unwrap();
    holder.batch_execute("BEGIN; LOCK TABLE items").unwrap();
    // At a shutdown systemd sends a login session the last two, one right behind the other.
    let [int, term, hup] = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP];
    for signals in [&[int][..], &[term], &[hup], &[term, hup]] {
        let script = product.tool("svc-backup").spawn();
        // What they do, and not the journal's word that they were started: a tool that has not come to catch signals yet
        // leaves no document, as one that is killed.
        wait::so("the dump and the snapshot to be under way", || {
            let point = fs::read_dir(product.backup_dir()).ok()?.flatten().next()?.path();
            let mut files = fs::read_dir(point).ok()?.flatten();
            let dump = files.any(|file| file.file_name().to_string_lossy().ends_with(".partial"));
            (dump && !product.snapshots().is_empty()).then_some(())
        });
        signals.iter().for_each(|signal| script.signal_group(*signal));
        // Of two that are there at once, either may be seen first.
        let ran = script.wait();
        assert!(signals.iter().any(|signal| ran.status == 128 + *signal as i32), "{ran}");
        for step in ran.result()["steps"].as_array().unwrap() {
            assert!(!step["schema"].is_null(), "{} left no document\n{ran}", step["step"]);
        }
        assert_eq!(count_in(&product.backup_dir()), 0, "an incomplete restore point is left");
    }
    drop(holder);

    // The last check of the unit, when all else is done: the run is told to end, tells it to end too, and it ends well.
    let last = "case $* in status*) if ls \"$SVC_STATE_DIR\"/runs/*/*-unit-after.started >&2; then\n\
                trap told=yes TERM; kill -TERM $PPID; until [ $told ]; do sleep 0.01; done; trap - TERM; fi ;; esac";
    let ran = product.tool("svc-backup").stub(&product.path("stub unit"), "svc-unit", last).run().fails(143, "interrupted");
    assert!(ran.stderr.contains("TERM"), "{ran}");
    let after = names_in(&ran.run_dir()).into_iter().find(|name| name.ends_with("-unit-after.json")).unwrap();
    assert_eq!(json_of(ran.run_dir().join(after))["ok"], true, "{ran}");
    assert_eq!((count_in(&product.backup_dir()), product.snapshots().len()), (0, 0));

    // It comes while the script asks for a step, and says nothing about that.
    let asked = product.path("asked");
    let does = format!("case $* in 'step finalize '*) mkdir '{}' 2>&- && kill -s HUP 0 ;; esac", asked.display());
    let ran = product.tool("svc-backup").stub(&product.path("stub"), "svc-run", &does).run();
    assert!(asked.exists() && ran.status == 129 && ran.doc()["error"]["message"] == "The run was ended by HUP.", "{ran}");
}

#[test]
fn snapshot_setup_restarts_server_only_if_told() {
    let product = Product::new("scsetup").unwrap();
    let host = &product.host;
    let server =
        host.search_server(&host.search.key, &search::Settings { no_path_repo: true, ..search::Settings::default() }).unwrap();
    // Parents that are not there yet, as in README's own example: the server must be able to pass them.
    let location = server.repo_root.join("not/there yet/backup_repo");
    let setup = || product.tool("svc-setup-snapshots").envs(search_env(&server)).env("SVC_BACKUP_REPO", &location);
    let process = || host.systemd.property(&server.unit, "MainPID").unwrap();

    let first = process();
    setup().args(["--restart", "--dry-run"]).talks().run().ok().unchanged();
    assert!(!location.exists());
    // A setting that does not fit this host.
    let odd = setup().arg("--restart").env("SVC_SEARCH_OS_USER", "nobody-here").run();
    assert!(odd.status != 0 && process() == first && !location.exists(), "{odd}");
    // Whether the service is active is not known if there is no unit of it.
    setup().run().fails(1, "settings_invalid");
    assert_eq!(process(), first);
    let done = setup().arg("--restart").run().ok().changed();
    assert_eq!(done.doc()["warnings"], json!([]), "what it has put right\n{done}");
    assert_ne!(process(), first, "the server was not restarted, so it cannot know the path");
    let second = process();
    setup().run().ok().unchanged();
    assert_eq!(process(), second, "a server that knows the path was restarted");
    let written = format!("{}//", location.display()).replacen("/not", "//not/.", 1);
    let planned = setup().env("SVC_BACKUP_REPO", written).arg("--dry-run").talks().run().ok().unchanged();
    assert!(!planned.result()["plan"].to_string().contains("svc-unit restart "), "{planned}");

    // The service is active, and another folder needs a restart: not without being told so.
    product.install("1.15.5", 5).unwrap();
    let elsewhere = server.repo_root.join("elsewhere/backup_repo");
    let asked = || setup().env("SVC_BACKUP_REPO", &elsewhere).env("SVC_REPOSITORY", "scsetup_other");
    asked().run().fails(3, "service_state");
    let planned = asked().args(["--restart", "--dry-run"]).talks().run().ok().unchanged();
    assert!(planned.result()["plan"].to_string().contains("svc-unit restart "), "{planned}");
    assert_eq!(process(), second);
}
