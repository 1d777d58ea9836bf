//! `svc-snap --rate`: the search database's brakes, taken off or set for one step and put back on every way out; and the bar
//! that a terminal sees meanwhile.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use svc_tests::host::Host;
use svc_tests::proxy::{Mode, Proxy};
use svc_tests::sandbox::Sandbox;
use svc_tests::search::{Product, Settings};
use svc_tests::tool::{Ran, Spawned, Tool};
use svc_tests::wait;

const LONG: Duration = Duration::from_secs(60);
const SNAPSHOT: &str = "max_snapshot_bytes_per_sec";
const RESTORE: &str = "indices.recovery.max_bytes_per_sec";

/// OpenSearch 1 and 2 change nothing of a repository while a snapshot runs there, 3 unsets nothing, and the others change nothing
/// but its rate.
fn is_stubborn(sandbox: &Sandbox) -> bool {
    sandbox.search.product == Product::OpenSearch
}

fn settings(sandbox: &Sandbox) -> Value {
    sandbox.ask("GET", &format!("/_snapshot/{}", sandbox.prefix), None)[&sandbox.prefix]["settings"].clone()
}

/// Waits until a run has changed the repository's rate and its snapshot is under way.
fn changed(sandbox: &Sandbox, name: &str) {
    wait::until("the note", LONG, || settings(sandbox)["svc_tools_rate"].as_str().map(drop)).unwrap();
    sandbox.appears(name);
}

/// The rate of the snapshot's document, and that of the repository afterwards.
fn rate(ran: &Ran) -> Value {
    ran.result()["rate"].clone()
}

fn elsewhere(sandbox: &Sandbox, args: &[&str]) -> (tempfile::TempDir, Tool) {
    let state = tempfile::tempdir().unwrap();
    let tool = sandbox.tool(args).env("SVC_STATE_DIR", state.path());
    (state, tool)
}

fn codes(ran: &Ran) -> Vec<String> {
    let warnings = ran.doc()["warnings"].as_array().unwrap();
    warnings.iter().map(|warning| warning["code"].as_str().unwrap().to_owned()).collect()
}

/// `health` says nothing of a rate. Of the cluster it may: the tests beside this one share it.
#[track_caller]
fn quiet(sandbox: &Sandbox) {
    let health = sandbox.run(&["health"]).ok();
    assert!(codes(&health).iter().all(|code| !code.starts_with("rate_")), "{health}");
}

#[test]
fn a_snapshot_is_taken_without_the_brake_and_the_repository_is_afterwards_as_it_was() {
    for set in [None, Some("400kb")] {
        let sandbox = Sandbox::new("off").registered(&set.map(|value| (SNAPSHOT, value)).into_iter().collect::<Vec<_>>());
        sandbox.simple("docs", 3);
        let before = settings(&sandbox);
        let dry = sandbox.run(&["create", "s0", "--rate", "unlimited", "--dry-run"]).ok().unchanged();
        let plan = dry.result()["plan"].as_array().unwrap();
        assert_eq!(plan.len(), 3, "{dry}");
        assert_eq!((&plan[0]["body"]["settings"][SNAPSHOT], &plan[2]["body"]["settings"]), (&json!("0"), &before), "{dry}");
        assert!(plan[0]["body"]["settings"]["svc_tools_rate"].is_string() && plan[1]["path"].as_str().unwrap().contains("/s0?"));
        assert_eq!(settings(&sandbox), before);

        let created = sandbox.run(&["create", "s1", "--rate", "unlimited"]).ok().changed();
        assert_eq!(rate(&created), json!({"asked": "unlimited", "setting": SNAPSHOT, "was": set, "set": "0", "put_back": true}));
        assert_eq!(settings(&sandbox), before);
        let by_variable = sandbox.tool(&["create", "s2"]).env("SVC_SEARCH_RATE", "500mb").run().ok();
        assert_eq!((&rate(&by_variable)["set"], settings(&sandbox)), (&json!("500mb"), before.clone()));
        let left = sandbox.run(&["create", "s3"]).ok();
        assert_eq!((rate(&left), left.result()["plan"].as_array().unwrap().len()), (Value::Null, 1));
    }
}

#[test]
fn a_create_that_fails_or_is_interrupted_puts_the_rate_back() {
    let sandbox = Sandbox::new("out");
    sandbox.noise("docs", 30);
    let before = settings(&sandbox);
    let (term, _) = {
        let spawned = sandbox.tool(&["create", "s1", "--rate", "400kb"]).spawn();
        changed(&sandbox, "s1");
        spawned.signal(Signal::SIGTERM);
        (spawned.wait().fails(143, "interrupted").unchanged(), ())
    };
    assert_eq!((&rate(&term)["put_back"], settings(&sandbox)), (&json!(true), before.clone()), "{term}");

    let lost = sandbox.red("lost");
    let failed = sandbox.run(&["create", "s2", "--rate", "unlimited"]).fails(7, "shards_unassigned").unchanged();
    assert_eq!((&rate(&failed)["put_back"], settings(&sandbox)), (&json!(true), before.clone()), "{failed}");
    sandbox.ask("DELETE", &format!("/{lost}"), None);

    // It takes far longer than the limit, and than the patience with a server that does not let its rate be put back.
    let late = sandbox.run(&["create", "s3", "--rate", "100kb", "--timeout", "10s"]).fails(6, "timeout");
    if is_stubborn(&sandbox) {
        let late = late.warns("rate_not_put_back");
        assert_eq!(rate(&late)["put_back"], false);
    } else {
        assert_eq!((&rate(&late)["put_back"], settings(&sandbox).get(SNAPSHOT)), (&json!(true), None), "{late}");
        quiet(&sandbox);
    }
    sandbox.run(&["wait", "s3"]).ok();
    assert_eq!(settings(&sandbox), before);
}

#[test]
fn what_a_killed_create_left_is_told_by_health_and_put_back_by_the_next_call() {
    let sandbox = Sandbox::new("kill").registered(&[(SNAPSHOT, "3mb")]);
    sandbox.noise("docs", 30);
    let before = settings(&sandbox);
    let killed = |name: &str| {
        let spawned = sandbox.tool(&["create", name, "--rate", "400kb"]).spawn();
        changed(&sandbox, name);
        spawned.signal(Signal::SIGKILL);
        spawned.wait();
        assert!(settings(&sandbox)["svc_tools_rate"].is_string());
    };
    killed("s1");
    let health = sandbox.run(&["health"]).ok().unchanged().warns("rate_left_changed");
    assert!(health.doc()["warnings"].to_string().contains("was killed"), "{health}");
    let (_state, other) = elsewhere(&sandbox, &["delete", "s1", "--cancel", "--dry-run"]);
    let foreign = other.run().ok().warns("rate_left_changed");
    assert_eq!(foreign.result()["plan"].as_array().unwrap().len(), 1, "another host cannot tell that it is dead\n{foreign}");
    let deleted = sandbox.run(&["delete", "s1", "--cancel"]).ok().warns("rate_put_back");
    assert_eq!((deleted.result()["plan"].as_array().unwrap().len(), settings(&sandbox)), (2, before.clone()), "{deleted}");

    // A call with a rate of its own does both.
    killed("s2");
    sandbox.ask("DELETE", &format!("/_snapshot/{}/s2", sandbox.prefix), None);
    let created = sandbox.run(&["create", "s3", "--rate", "unlimited"]).ok().warns("rate_put_back");
    assert_eq!((&rate(&created)["was"], settings(&sandbox)), (&json!("3mb"), before.clone()), "{created}");
    sandbox.run(&["health"]).ok();

    // Something that no snapshot holds yet, or it would be over at once.
    sandbox.noise("more", 30);
    killed("s4");
    sandbox.ask("DELETE", &format!("/_snapshot/{}/s4", sandbox.prefix), None);
    let location = sandbox.location();
    let register = ["register", "--location", location.to_str().unwrap(), "--setting", "max_snapshot_bytes_per_sec=3mb"];
    sandbox.run(&register).ok().changed();
    let registered = settings(&sandbox);
    assert_eq!((&registered[SNAPSHOT], &registered["svc_tools_rate"]), (&json!("3mb"), &Value::Null));
    sandbox.run(&register).ok().unchanged();
    quiet(&sandbox);
}

#[test]
fn a_second_run_leaves_the_rate_of_a_first_one_alone_and_so_does_a_register() {
    let sandbox = Sandbox::new("two");
    sandbox.noise("docs", 20);
    sandbox.simple("few", 3);
    let location = sandbox.location();
    let before = settings(&sandbox);
    // It has to outlast all the others.
    let first = sandbox.tool(&["create", "first", "--rate", "100kb"]).spawn();
    changed(&sandbox, "first");
    let meanwhile = settings(&sandbox);
    sandbox.run(&["create", "second", "--rate", "unlimited"]).fails(8, "locked").unchanged();
    let (_state, second) = elsewhere(&sandbox, &["create", "second", "--indices", "*-few", "--rate", "unlimited"]);
    let second = second.spawn();
    sandbox.appears("second");
    assert_eq!(settings(&sandbox), meanwhile);

    let args = ["register", "--location", location.to_str().unwrap(), "--setting", "max_snapshot_bytes_per_sec=9mb"];
    let (_state, register) = elsewhere(&sandbox, &args);
    register.run().fails(5, "repository_in_use").unchanged();
    let second = second.wait().ok().warns("rate_not_changed");
    assert_eq!((&rate(&second)["set"], &rate(&second)["put_back"]), (&Value::Null, &Value::Null), "{second}");
    let ended = first.wait().ok();
    assert_eq!((&rate(&ended)["put_back"], settings(&sandbox)), (&json!(true), before), "{ended}");
}

#[test]
fn a_note_of_another_host_is_left_alone_and_the_warning_names_the_command_that_puts_it_back() {
    let sandbox = Sandbox::new("note");
    sandbox.simple("docs", 3);
    let note = json!({"run": "20261120t020003z-far", "host": "far", "token": "far.1", "was": "7mb", "set": "0"}).to_string();
    let sandbox = sandbox.registered(&[(SNAPSHOT, "0"), ("svc_tools_rate", &note)]);
    let with_note = settings(&sandbox);
    let created = sandbox.run(&["create", "s1", "--rate", "50mb"]).ok().warns("rate_not_changed").warns("rate_left_changed");
    assert_eq!((&rate(&created)["was"], &rate(&created)["set"], settings(&sandbox)), (&json!("7mb"), &Value::Null, with_note));
    let health = sandbox.run(&["health"]).ok().unchanged();
    let mut warnings = health.doc()["warnings"].as_array().unwrap().iter();
    let warning = warnings.find(|one| one["code"] == "rate_left_changed").unwrap_or_else(|| panic!("{health}"));
    let text = warning["message"].as_str().unwrap();
    assert!(text.contains("20261120t020003z-far") && text.contains(" far "), "{text}");
    let command = text.split_once("curl ").map(|(_, rest)| format!("curl -sf {rest}")).unwrap();
    assert!(Command::new("sh").args(["-c", &command]).output().unwrap().status.success(), "{command}");
    assert_eq!((&settings(&sandbox)[SNAPSHOT], &settings(&sandbox)["svc_tools_rate"]), (&json!("7mb"), &Value::Null));
}

#[test]
fn while_another_snapshot_runs_the_rate_is_left_as_it_is_with_a_warning() {
    let sandbox = Sandbox::new("beside").registered(&[(SNAPSHOT, "400kb")]);
    sandbox.noise("docs", 20);
    sandbox.simple("few", 3);
    let before = settings(&sandbox);
    let body = json!({"indices": sandbox.name("docs")});
    sandbox.ask("PUT", &format!("/_snapshot/{}/slow", sandbox.prefix), Some(body));
    sandbox.appears("slow");
    let created = sandbox.run(&["create", "s1", "--indices", "*-few", "--rate", "unlimited"]).ok();
    let created = created.warns("rate_not_changed");
    assert_eq!((&rate(&created)["set"], &rate(&created)["put_back"]), (&Value::Null, &Value::Null), "{created}");
    assert_eq!(settings(&sandbox), before);
    let unwaited = sandbox.run(&["create", "s2", "--indices", "*-few", "--rate", "unlimited", "--no-wait"]).ok();
    assert_eq!(codes(&unwaited), ["rate_not_changed"]);
    sandbox.run(&["wait", "s2"]).ok();
}

/// What the cluster has of the brake and of our note.
fn cluster(sandbox: &Sandbox) -> Value {
    let all = sandbox.ask("GET", "/_cluster/settings?flat_settings=true", None);
    let of = |part: &str| all[part].get(RESTORE).cloned().unwrap_or_default();
    let note = all["persistent"].get("cluster.metadata.svc_tools.rate").is_some();
    json!({"persistent": of("persistent"), "transient": of("transient"), "noted": note})
}

fn restoring(sandbox: &Sandbox, tool: Tool) -> Spawned {
    let mut spawned = tool.spawn();
    let seen = wait::until("the restore", LONG, || {
        let state = sandbox.ask("GET", "/_cluster/state/customs?filter_path=restore", None);
        let is_under_way = state["restore"]["snapshots"].as_array().is_some_and(|all| !all.is_empty());
        (is_under_way || !spawned.is_running()).then_some(is_under_way)
    });
    if !seen.unwrap() {
        panic!("it has ended too early\n{}", spawned.wait());
    }
    assert_eq!(cluster(sandbox)["noted"], true);
    spawned
}

#[test]
fn the_clusters_brake_on_restores_is_put_back_on_every_way_out() {
    let host = Host::shared().unwrap();
    let own = host.search_server(&host.search.key, &Settings::default()).unwrap();
    let sandbox = Sandbox::on(own.search.clone(), "cluster").registered(&[]);
    sandbox.noise("docs", 30);
    let created = sandbox.create("s1");
    let document = created.text();
    let tool = |args: &[&str]| sandbox.tool(args).env("SVC_INDICES", "*");
    let from = |args: &[&str]| tool(args).args(["--from", "-"]).stdin(document.clone());
    let unset = json!({"persistent": null, "transient": null, "noted": false});
    assert_eq!(cluster(&sandbox), unset);

    // Unset before, unset afterwards; the dry run says it all.
    let dry = from(&["stage", "--rate", "unlimited", "--dry-run"]).run().ok().unchanged();
    let plan = dry.result()["plan"].as_array().unwrap();
    let paths: Vec<&str> = plan.iter().map(|one| one["path"].as_str().unwrap()).collect();
    assert_eq!((paths.len(), paths[0], paths[2]), (3, "/_cluster/settings", "/_cluster/settings"), "{dry}");
    assert_eq!((&plan[0]["body"]["persistent"][RESTORE], &plan[2]["body"]["persistent"][RESTORE]), (&json!("-1"), &Value::Null));
    assert_eq!(cluster(&sandbox), unset);
    let staged = from(&["stage", "--rate", "unlimited"]).run().ok();
    assert_eq!(rate(&staged), json!({"asked": "unlimited", "setting": RESTORE, "was": null, "set": "-1", "put_back": true}));
    assert_eq!(cluster(&sandbox), unset);
    sandbox.from(&["unstage"], &staged).ok();

    // Nothing that others share is changed where others share it.
    let scoped = sandbox.from_text(&["stage", "--rate", "unlimited"], &document).ok().warns("rate_not_changed");
    assert_eq!((&rate(&scoped)["set"], cluster(&sandbox)), (&Value::Null, unset.clone()), "{scoped}");
    sandbox.from(&["unstage"], &scoped).ok();

    // A persistent setting, and a transient one that wins over it.
    sandbox.ask("PUT", "/_cluster/settings", Some(json!({"persistent": {RESTORE: "20mb"}})));
    let restored = from(&["restore", "--rate", "unlimited"]).run().ok();
    assert_eq!((&rate(&restored)["was"], &rate(&restored)["put_back"]), (&json!("20mb"), &json!(true)), "{restored}");
    assert_eq!(cluster(&sandbox), json!({"persistent": "20mb", "transient": null, "noted": false}));
    sandbox.ask("PUT", "/_cluster/settings", Some(json!({"transient": {RESTORE: "30mb"}})));
    let in_place = from(&["restore", "--in-place", "--on-conflict", "close", "--rate", "unlimited"]).run().ok();
    assert_eq!((&rate(&in_place)["was"], &rate(&in_place)["put_back"]), (&json!("30mb"), &json!(true)), "{in_place}");
    assert_eq!(cluster(&sandbox), json!({"persistent": "20mb", "transient": "30mb", "noted": false}));
    sandbox.ask("PUT", "/_cluster/settings", Some(json!({"persistent": {RESTORE: null}, "transient": {RESTORE: null}})));

    // A signal, the time limit, a kill.
    let spawned = restoring(&sandbox, from(&["stage", "--rate", "400kb"]));
    spawned.signal(Signal::SIGTERM);
    let term = spawned.wait().fails(143, "interrupted").unchanged();
    assert_eq!((&rate(&term)["put_back"], cluster(&sandbox)), (&json!(true), unset.clone()), "{term}");
    let late = from(&["stage", "--rate", "100kb", "--timeout", "10s"]).run().fails(6, "timeout").unchanged();
    assert_eq!((&rate(&late)["put_back"], cluster(&sandbox)), (&json!(true), unset.clone()), "{late}");

    let run = "20261120t020003z-killed";
    let spawned = restoring(&sandbox, from(&["stage", "--rate", "400kb", "--run-id", run]));
    let (other, beside) = (tempfile::tempdir().unwrap(), "20261120t020003z-beside");
    let second = from(&["stage", "--rate", "unlimited", "--run-id", beside]).env("SVC_STATE_DIR", other.path()).spawn();
    let copied = || sandbox.copies().iter().any(|name| name.contains(beside)).then_some(());
    wait::until("the copy of the second run", LONG, copied).unwrap();
    assert_eq!(cluster(&sandbox)["persistent"], "400kb");
    spawned.signal(Signal::SIGKILL);
    spawned.wait();
    let second = second.wait().ok().warns("rate_not_changed");
    assert_eq!((&rate(&second)["set"], &rate(&second)["put_back"]), (&Value::Null, &Value::Null), "{second}");
    assert_eq!(cluster(&sandbox), json!({"persistent": "400kb", "transient": null, "noted": true}));
    tool(&["health"]).run().ok().warns("rate_left_changed");
    let unstaged = tool(&["unstage", "--run", run]).run().ok().changed().warns("rate_put_back");
    assert_eq!(cluster(&sandbox), unset, "{unstaged}");
    sandbox.from(&["unstage"], &second).ok().changed();

    // A server that falls silent: the signal is heard, and the next call takes up what is left.
    let proxy = Proxy::to(&sandbox.search.url).unwrap();
    let run = "20261120t020003z-silent";
    let spawned = restoring(&sandbox, from(&["stage", "--rate", "400kb", "--run-id", run]).env("SVC_SEARCH_URL", proxy.url()));
    proxy.set(Mode::Stall);
    spawned.signal(Signal::SIGTERM);
    let since = Instant::now();
    let silent = spawned.wait().fails(143, "interrupted").changed().warns("rate_not_put_back");
    // The silence has no end.
    assert!(since.elapsed() < Duration::from_secs(120), "{:?}", since.elapsed());
    assert_eq!((&rate(&silent)["put_back"], &cluster(&sandbox)["noted"]), (&json!(false), &json!(true)));
    tool(&["unstage", "--run", run]).run().ok().changed().warns("rate_put_back");
    assert_eq!((cluster(&sandbox), sandbox.copies().iter().any(|name| name.contains(run))), (unset.clone(), false));

    // A damaged snapshot.
    svc_tests::damage::flip_a_blob(&sandbox.location()).unwrap();
    let damaged = from(&["stage", "--rate", "unlimited"]).run();
    assert_eq!((damaged.status, &rate(&damaged)["put_back"], cluster(&sandbox)), (7, &json!(true), unset), "{damaged}");
    assert_eq!(damaged.doc()["changed"], false, "{damaged}");
}

#[test]
fn a_terminal_sees_bytes_shards_rate_and_time_left_and_stdout_stays_one_document() {
    let sandbox = Sandbox::new("bar");
    sandbox.noise("docs", 20);
    let place = tempfile::tempdir().unwrap();
    let out = place.path().join("out.json");
    let command = format!(
        "stty cols 120; {} create s1 --rate 400kb > {}",
        svc_tests::tool::bin_dir().join("svc-snap").display(),
        out.display()
    );
    let seen = Command::new("script")
        .args(["-qec", &command, "/dev/null"])
        .env("SVC_SEARCH_URL", &sandbox.search.url)
        .env("SVC_REPOSITORY", &sandbox.prefix)
        .env("SVC_INDICES", format!("{}-*", sandbox.prefix))
        .env("SVC_STATE_DIR", sandbox.state.path())
        .env("TERM", "xterm")
        .output()
        .unwrap();
    let screen = String::from_utf8_lossy(&seen.stdout).into_owned();
    let lines: Vec<&str> = screen.split('\r').filter(|line| line.contains("snapshot s1: ")).collect();
    let whole = |line: &&&str| ["/", "MiB ", " of 1 shards", "B/s", "s left", "["].iter().all(|word| line.contains(word));
    assert!(lines.iter().any(|line| whole(&line)), "{screen}");
    let document: Value = serde_json::from_str(&fs::read_to_string(&out).unwrap()).unwrap();
    assert_eq!((&document["ok"], &document["schema"]), (&json!(true), &json!("svc-snap.create/1")));

    // Elsewhere nothing is said that was not asked for: `ok` holds it to that.
    sandbox.run(&["delete", "s1"]).ok();
    let asked = sandbox.tool(&["create", "s2", "--rate", "400kb", "--progress", "json"]).talks().run().ok();
    let line: Value = serde_json::from_str(asked.stderr.lines().next().unwrap()).unwrap();
    assert_eq!((&line["unit"], &line["shards"]["total"]), (&json!("bytes"), &json!(1)), "{asked}");
    sandbox.run(&["delete", "s2"]).ok();
    let none = sandbox.tool(&["create", "s3", "--rate", "800kb", "--progress", "none"]).run().ok();
    assert_eq!(none.stderr, "");
}
