//! `svc-snap --rate-limit`: the search database's throttles, taken off or set for one step and put back on every way out.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use svc_tests::host::Host;
use svc_tests::proxy::{Gate, Mode, Proxy, Side};
use svc_tests::sandbox::Sandbox;
use svc_tests::search::{Product, Settings};
use svc_tests::tool::{Ran, Spawned, Tool};
use svc_tests::wait;

const LONG: Duration = svc_tests::wait::HANG;
const SNAPSHOT: &str = "max_snapshot_bytes_per_sec";
const RESTORE: &str = "indices.recovery.max_bytes_per_sec";

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
    ran.result()["throttle"].clone()
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
fn a_snapshot_is_taken_without_the_throttle_and_the_repository_is_afterwards_as_it_was() {
    for set in [None, Some("400kb")] {
        let sandbox = Sandbox::new("off").registered(&set.map(|value| (SNAPSHOT, value)).into_iter().collect::<Vec<_>>());
        sandbox.simple("docs", 3);
        let before = settings(&sandbox);
        let dry = sandbox.run(&["create", "s0", "--rate-limit", "none", "--dry-run"]).ok().unchanged();
        let plan = dry.result()["plan"].as_array().unwrap();
        assert_eq!(plan.len(), 3, "{dry}");
        assert_eq!((&plan[0]["body"]["settings"][SNAPSHOT], &plan[2]["body"]["settings"]), (&json!("0"), &before), "{dry}");
        assert!(plan[0]["body"]["settings"]["svc_tools_rate"].is_string() && plan[1]["path"].as_str().unwrap().contains("/s0?"));
        assert_eq!(settings(&sandbox), before);

        let created = sandbox.run(&["create", "s1", "--rate-limit", "none"]).ok().changed();
        assert_eq!(rate(&created), json!({"asked": "none", "setting": SNAPSHOT, "was": set, "set": "0", "put_back": true}));
        assert_eq!(settings(&sandbox), before);
        let by_variable = sandbox.tool(&["create", "s2"]).env("SVC_SEARCH_RATE_LIMIT", "500mb").run().ok();
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
    let spawned = sandbox.tool(&["create", "s1", "--rate-limit", "400kb"]).spawn();
    changed(&sandbox, "s1");
    spawned.signal(Signal::SIGTERM);
    let term = spawned.wait().fails(143, "interrupted").unchanged();
    assert_eq!((&rate(&term)["put_back"], settings(&sandbox)), (&json!(true), before.clone()), "{term}");

    let lost = sandbox.red("lost");
    let failed = sandbox.run(&["create", "s2", "--rate-limit", "none"]).fails(7, "indices_red").unchanged();
    assert_eq!((&rate(&failed)["put_back"], settings(&sandbox)), (&json!(true), before.clone()), "{failed}");
    sandbox.ask("DELETE", &format!("/{lost}"), None);

    // It takes far longer than the limit, and no server changes a repository while a snapshot runs there.
    let late = sandbox
        .run(&["create", "s3", "--rate-limit", "100kb", "--timeout", "10s"])
        .fails(6, "timeout")
        .warns("setting_left_changed");
    assert_eq!(rate(&late)["put_back"], false);
    sandbox.run(&["wait", "s3"]).ok();
    assert_eq!(settings(&sandbox), before);
}

#[test]
fn what_a_killed_create_left_is_told_by_health_and_put_back_by_the_next_call() {
    let sandbox = Sandbox::new("kill").registered(&[(SNAPSHOT, "3mb")]);
    sandbox.noise("docs", 30);
    let before = settings(&sandbox);
    let killed = |name: &str| {
        let spawned = sandbox.tool(&["create", name, "--rate-limit", "400kb"]).spawn();
        changed(&sandbox, name);
        spawned.signal(Signal::SIGKILL);
        spawned.wait();
        assert!(settings(&sandbox)["svc_tools_rate"].is_string());
    };
    killed("s1");
    let health = sandbox.run(&["health"]).ok().unchanged().warns("setting_left_changed");
    assert!(health.doc()["warnings"].to_string().contains("has left the rate"), "{health}");
    let (_state, other) = elsewhere(&sandbox, &["delete", "s1", "--cancel", "--dry-run"]);
    let foreign = other.run().ok().warns("setting_left_changed");
    assert_eq!(foreign.result()["plan"].as_array().unwrap().len(), 1, "another host cannot tell that it is dead\n{foreign}");
    let deleted = sandbox.run(&["delete", "s1", "--cancel"]).ok().warns("run_recovered");
    assert_eq!((deleted.result()["plan"].as_array().unwrap().len(), settings(&sandbox)), (2, before.clone()), "{deleted}");

    // A call with a rate of its own does both.
    killed("s2");
    sandbox.ask("DELETE", &format!("/_snapshot/{}/s2", sandbox.prefix), None);
    let created = sandbox.run(&["create", "s3", "--rate-limit", "none"]).ok().warns("run_recovered");
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
fn a_create_that_has_put_a_rate_back_asks_a_busy_server_again() {
    let sandbox = Sandbox::new("back-busy").registered(&[(SNAPSHOT, "3mb")]);
    sandbox.noise("docs", 30);
    let before = settings(&sandbox);
    let spawned = sandbox.tool(&["create", "s1", "--rate-limit", "400kb"]).spawn();
    changed(&sandbox, "s1");
    spawned.signal(Signal::SIGKILL);
    spawned.wait();
    sandbox.ask("DELETE", &format!("/_snapshot/{}/s1", sandbox.prefix), None);
    assert!(settings(&sandbox)["svc_tools_rate"].is_string());

    // What ends it before its own first effect has none.
    let snapshots = sandbox.state.path().join("snapshots");
    fs::rename(&snapshots, sandbox.state.path().join("aside")).unwrap();
    fs::write(&snapshots, "").unwrap();
    sandbox.run(&["create", "s2"]).refused("file_exists").unchanged();
    fs::remove_file(&snapshots).unwrap();

    // What a server says of a repository that was changed a moment ago.
    let reason = format!("[{}] Found unexpected initialized repo metadata [RepositoryMetadata]", sandbox.prefix);
    let busy = json!({"error": {"type": "repository_exception", "reason": reason}, "status": 500});
    let take = format!("PUT /_snapshot/{}/s2?", sandbox.prefix);
    let gate = Gate::to(&sandbox.search.url).unwrap().answering(&take, 2, 500, &busy);
    let created = sandbox.tool(&["create", "s2"]).env("SVC_SEARCH_URL", gate.url()).run().ok().warns("run_recovered");
    assert_eq!((settings(&sandbox), sandbox.snapshots().len()), (before, 1), "{created}");
}

#[test]
fn a_second_run_leaves_the_rate_of_a_first_one_alone_and_so_does_a_register() {
    let sandbox = Sandbox::new("two");
    sandbox.noise("docs", 60);
    sandbox.simple("few", 3);
    let location = sandbox.location();
    let before = settings(&sandbox);
    // It has to outlast all the others.
    let first = sandbox.tool(&["create", "first", "--rate-limit", "100kb"]).spawn();
    changed(&sandbox, "first");
    let meanwhile = settings(&sandbox);
    sandbox.run(&["create", "second", "--rate-limit", "none"]).fails(8, "locked").unchanged();
    let (_state, second) = elsewhere(&sandbox, &["create", "second", "--indices", "*-few", "--rate-limit", "none"]);
    let second = second.spawn();
    sandbox.appears("second");
    assert_eq!(settings(&sandbox), meanwhile);

    // Elasticsearch answers that only when the snapshots have ended.
    if sandbox.search.product == Product::OpenSearch {
        let args = ["register", "--location", location.to_str().unwrap(), "--setting", "max_snapshot_bytes_per_sec=9mb"];
        let (_state, register) = elsewhere(&sandbox, &args);
        register.run().fails(5, "search_busy").unchanged();
    }
    let second = second.wait().ok().warns("rate_not_changed");
    assert_eq!((&rate(&second)["set"], &rate(&second)["put_back"]), (&Value::Null, &Value::Null), "{second}");
    let ended = first.wait().ok();
    assert_eq!((&rate(&ended)["put_back"], settings(&sandbox)), (&json!(true), before), "{ended}");
}

#[test]
fn a_note_of_another_host_is_left_alone_and_the_warning_names_the_request_that_puts_it_back() {
    let sandbox = Sandbox::new("note");
    sandbox.simple("docs", 3);
    let note = json!({"run": "20261120t020003z-far", "host": "far", "was": "7mb", "set": "0"}).to_string();
    let sandbox = sandbox.registered(&[(SNAPSHOT, "0"), ("svc_tools_rate", &note)]);
    let with_note = settings(&sandbox);
    let created =
        sandbox.run(&["create", "s1", "--rate-limit", "50mb"]).ok().warns("rate_not_changed").warns("setting_left_changed");
    assert_eq!((&rate(&created)["was"], &rate(&created)["set"], settings(&sandbox)), (&json!("7mb"), &Value::Null, with_note));
    let health = sandbox.run(&["health"]).ok().unchanged();
    let mut warnings = health.doc()["warnings"].as_array().unwrap().iter();
    let warning = warnings.find(|one| one["code"] == "setting_left_changed").unwrap_or_else(|| panic!("{health}"));
    let text = warning["message"].as_str().unwrap();
    assert!(text.contains("20261120t020003z-far") && text.contains(" far "), "{text}");
    let (path, body) = text.split_once("PUT ").and_then(|(_, request)| request.split_once(' ')).unwrap();
    sandbox.ask("PUT", path, serde_json::from_str(body).unwrap());
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
    let created = sandbox.run(&["create", "s1", "--indices", "*-few", "--rate-limit", "none"]).ok();
    let created = created.warns("rate_not_changed");
    assert_eq!((&rate(&created)["set"], &rate(&created)["put_back"]), (&Value::Null, &Value::Null), "{created}");
    assert_eq!(settings(&sandbox), before);
    let unwaited = sandbox.run(&["create", "s2", "--indices", "*-few", "--rate-limit", "none", "--no-wait"]).ok();
    assert_eq!(codes(&unwaited), ["rate_not_changed"]);
    sandbox.run(&["wait", "s2"]).ok();
}

/// A way to the sandbox's server on which nobody answers the request that takes a throttle off. It is carried at once, or held back;
/// either way the test gets its path and its body.
fn unanswered(sandbox: &Sandbox, is_carried: bool) -> (Gate, Receiver<(String, Value)>) {
    let (send, came) = channel();
    let search = sandbox.search.clone();
    let way = Gate::before(&sandbox.search.url, move |request| {
        let (head, body) = request.split_once("\r\n\r\n").unwrap_or((request, ""));
        // The one that puts it back has no note.
        if !(head.starts_with("PUT ") && body.contains("locks")) {
            return Ok(request.to_owned());
        }
        let path = head.split(' ').nth(1).unwrap().to_owned();
        let body: Value = serde_json::from_str(body).unwrap();
        if is_carried {
            search.ask("PUT", &path, Some(&body)).unwrap();
        }
        send.send((path, body)).unwrap();
        loop {
            thread::park();
        }
    });
    (way, came)
}

#[test]
fn a_call_that_ends_while_the_throttle_is_being_taken_off_leaves_it_as_it_was_or_says_that_this_is_unknown() {
    let sandbox = Sandbox::new("half").registered(&[(SNAPSHOT, "3mb")]);
    sandbox.simple("docs", 3);
    let before = settings(&sandbox);
    let create =
        |name: &str, way: &Gate| sandbox.tool(&["create", name, "--rate-limit", "none"]).env("SVC_SEARCH_URL", way.url());

    // The server has done it: it is put back at once.
    let (way, came) = unanswered(&sandbox, true);
    let spawned = create("s1", &way).spawn();
    came.recv_timeout(LONG).unwrap();
    assert_eq!(settings(&sandbox)[SNAPSHOT], "0");
    spawned.signal(Signal::SIGTERM);
    let term = spawned.wait().fails(143, "interrupted").unchanged();
    assert_eq!((&rate(&term)["set"], &rate(&term)["put_back"]), (&json!("0"), &json!(true)), "{term}");
    assert_eq!((settings(&sandbox), sandbox.snapshots().len()), (before.clone(), 0));

    // The server does it only when the call has ended: the next one puts it back.
    let (way, came) = unanswered(&sandbox, false);
    let late = create("s1", &way).args(["--timeout", "8s"]).run().fails(6, "timeout").warns("setting_left_changed");
    assert_eq!((&rate(&late)["put_back"], &late.doc()["changed"]), (&Value::Null, &Value::Null), "{late}");
    sandbox.run(&["health"]).ok();
    let (path, body) = came.recv_timeout(LONG).unwrap();
    sandbox.ask("PUT", &path, Some(body));
    assert_eq!(settings(&sandbox)[SNAPSHOT], "0");
    let created = sandbox.run(&["create", "s2", "--rate-limit", "none"]).ok().warns("run_recovered");
    assert_eq!((&rate(&created)["was"], &rate(&created)["put_back"]), (&json!("3mb"), &json!(true)), "{created}");
    assert_eq!(settings(&sandbox), before);
}

/// A way to the sandbox's server on which somebody rewrites the repository just before a request that holds the last of `words` is
/// carried, after requests that held the others.
fn rewritten(sandbox: &Sandbox, words: &[&str], rewrite: impl Fn(&mut Value) + Send + Sync + 'static) -> Gate {
    let (search, path) = (sandbox.search.clone(), format!("/_snapshot/{}", sandbox.prefix));
    let words: Mutex<VecDeque<String>> = Mutex::new(words.iter().map(|word| (*word).to_owned()).collect());
    Gate::before(&sandbox.search.url, move |request| {
        let is_last = {
            let mut words = words.lock().unwrap();
            let came = words.front().is_some_and(|word| request.contains(word.as_str()));
            came && words.pop_front().is_some() && words.is_empty()
        };
        if is_last {
            // A server may still be at the end of the snapshot before, and then it changes nothing.
            let rewritten = || {
                let mut all = search.ask("GET", &path, None)?;
                let settings = &mut all.as_object_mut().unwrap().values_mut().next().unwrap()["settings"];
                rewrite(settings);
                search.ask("PUT", &format!("{path}?verify=false"), Some(&json!({"type": "fs", "settings": settings})))
            };
            let mut last = None;
            let told = wait::until("the rewrite", LONG, || rewritten().map_err(|error| last = Some(error)).ok());
            told.unwrap_or_else(|error| panic!("{error}: {last:?}"));
        }
        Ok(request.to_owned())
    })
}

#[test]
fn whoever_rewrites_the_repository_meanwhile_is_not_overwritten() {
    let sandbox = Sandbox::new("rewrite");
    sandbox.simple("docs", 3);
    let create = |name: &str, way: &Gate| {
        let tool = sandbox.tool(&["create", name, "--rate-limit", "none"]).env("SVC_SEARCH_URL", way.url());
        tool.run().ok().changed()
    };
    // Between the plan and the throttle.
    let way = rewritten(&sandbox, &["_refresh"], |settings| {
        settings["chunk_size"] = json!("10mb");
        settings[SNAPSHOT] = json!("9mb");
    });
    let created = create("s1", &way);
    assert_eq!((&rate(&created)["was"], &rate(&created)["put_back"]), (&json!("9mb"), &json!(true)), "{created}");
    let now = settings(&sandbox);
    assert_eq!((&now["chunk_size"], &now[SNAPSHOT], &now["svc_tools_rate"]), (&json!("10mb"), &json!("9mb"), &Value::Null));
    // While it is off, when the snapshot has ended: what else was set stays, and so does another rate.
    let look = format!("GET /_snapshot/{} HTTP", sandbox.prefix);
    let off = ["wait_for_completion", look.as_str()];
    let way = rewritten(&sandbox, &off, |settings| settings["chunk_size"] = json!("20mb"));
    assert_eq!(rate(&create("s2", &way))["put_back"], true);
    let now = settings(&sandbox);
    assert_eq!((&now["chunk_size"], &now[SNAPSHOT], &now["svc_tools_rate"]), (&json!("20mb"), &json!("9mb"), &Value::Null));
    let way = rewritten(&sandbox, &off, |settings| settings[SNAPSHOT] = json!("8mb"));
    create("s3", &way);
    assert_eq!((&settings(&sandbox)[SNAPSHOT], &settings(&sandbox)["svc_tools_rate"]), (&json!("8mb"), &Value::Null));
    // And where we could write it only together with a secret, an operator does.
    let way = rewritten(&sandbox, &off, |settings| settings["address"] = json!("http://me:s3cret@far/"));
    let secret = create("s4", &way).warns("setting_left_changed");
    assert_eq!((&rate(&secret)["put_back"], &settings(&sandbox)[SNAPSHOT]), (&json!(false), &json!("0")), "{secret}");
    let health = sandbox.run(&["health"]).ok().warns("setting_left_changed");
    for ran in [&secret, &health] {
        let said = ran.doc()["warnings"].to_string();
        assert!(said.contains("PUT /_snapshot/") && said.contains("with max_snapshot_bytes_per_sec 8mb"), "{ran}");
        assert!(!format!("{ran}").contains("s3cret"), "{ran}");
    }
}

#[test]
fn a_repository_with_secrets_among_its_settings_keeps_its_throttle_and_no_document_shows_them() {
    let sandbox = Sandbox::new("secret");
    sandbox.simple("docs", 3);
    let note = json!({"run": "20261120t020003z-far", "host": "far", "was": "7mb", "set": "0"}).to_string();
    for (secrets, recorded) in [
        ([("address", "http://me:s3cret@far:1/x"), ("other", "ftp://far/?token=s3cret")], false),
        ([("client.secret_key", "s3cret"), ("address", "hdfs://me:s3cret@far")], true),
    ] {
        let mut all = secrets.to_vec();
        if recorded {
            all.extend([(SNAPSHOT, "0"), ("svc_tools_rate", note.as_str())]);
        }
        let all: serde_json::Map<String, Value> = all.into_iter().map(|(name, value)| (name.to_owned(), json!(value))).collect();
        let mut body = json!({"type": "fs", "settings": all});
        body["settings"]["location"] = json!(sandbox.location());
        sandbox.ask("PUT", &format!("/_snapshot/{}", sandbox.prefix), Some(body));
        let before = settings(&sandbox);
        let name = format!("s-{recorded}");
        for args in
            [&["create", &name, "--rate-limit", "none", "--dry-run"][..], &["create", &name, "--rate-limit", "none"], &["health"]]
        {
            let ran = sandbox.run(args).ok();
            assert!(!format!("{ran}").contains("s3cret"), "{ran}");
            let left = codes(&ran).contains(&"setting_left_changed".to_owned());
            let unchanged = codes(&ran).contains(&"rate_not_changed".to_owned());
            assert_eq!((left, unchanged), (recorded, args.len() > 1), "{ran}");
        }
        assert_eq!(settings(&sandbox), before);
    }
}

/// The note of a run that has ended, under this state folder.
fn left_by_a_dead_run(sandbox: Sandbox) -> Sandbox {
    let locks = sandbox.state.path().join("locks").canonicalize().unwrap();
    let note = json!({"run": "20261120t020003z-dead", "process": 1, "host": svc_step::Call::host(),
                      "locks": format!("{}#{}", locks.display(), fs::metadata(&locks).unwrap().ino()), "was": "7mb", "set": "0"});
    let note = note.to_string();
    sandbox.registered(&[(SNAPSHOT, "0"), ("svc_tools_rate", &note)])
}

#[test]
fn wait_puts_a_rate_back_whatever_its_verdict_but_only_when_nobody_else_is_running_there() {
    let sandbox = Sandbox::new("waits");
    sandbox.simple("docs", 3);
    sandbox.create("good");
    sandbox.red("lost");
    let partial = json!({"indices": format!("{}-*", sandbox.prefix), "partial": true});
    sandbox.ask("PUT", &format!("/_snapshot/{}/part?wait_for_completion=true", sandbox.prefix), Some(partial));

    let sandbox = left_by_a_dead_run(sandbox);
    let left = settings(&sandbox);
    // It ends before it has seen anything.
    let proxy = Proxy::to(&sandbox.search.url).unwrap();
    proxy.set(Mode::Stall);
    let silent = sandbox.tool(&["wait", "good"]).env("SVC_SEARCH_URL", proxy.url()).spawn();
    wait::until("the wait", LONG, || (proxy.accepted() > 0).then_some(())).unwrap();
    silent.signal(Signal::SIGTERM);
    silent.wait().fails(143, "interrupted").unchanged();
    assert_eq!(settings(&sandbox), left);
    // Another run is in progress in the repository.
    let cluster = sandbox.run(&["show", "good"]).ok().result()["cluster_uuid"].as_str().unwrap().to_owned();
    let lock = File::create(sandbox.state.path().join("locks").join(format!("repository-{cluster}.{}", sandbox.prefix))).unwrap();
    lock.lock().unwrap();
    sandbox.run(&["wait", "good"]).ok().unchanged().warns("setting_left_changed");
    assert_eq!(settings(&sandbox), left);
    lock.unlock().unwrap();

    sandbox.run(&["wait", "part"]).fails(7, "snapshot_invalid").changed().warns("run_recovered");
    assert_eq!((&settings(&sandbox)[SNAPSHOT], &settings(&sandbox)["svc_tools_rate"]), (&json!("7mb"), &Value::Null));
    let sandbox = left_by_a_dead_run(sandbox);
    sandbox.run(&["wait", "good"]).ok().changed().warns("run_recovered");
    assert_eq!(settings(&sandbox)[SNAPSHOT], "7mb");
}

#[test]
fn a_server_that_falls_silent_does_not_keep_a_call_much_longer_than_its_time_limit() {
    let calls: [(&[&str], usize, Side, &str); 5] = [
        (&["create", "s", "--rate-limit", "none"], 1, Side::After, "timeout"),
        (&["create", "s", "--rate-limit", "none"], 2, Side::Before, "timeout"),
        (&["stage", "begun", "--rate-limit", "none"], 1, Side::After, "outcome_unknown"),
        (&["delete", "begun", "--cancel"], 1, Side::Before, "timeout"),
        (&["cleanup"], 1, Side::Before, "timeout"),
    ];
    // Each in a repository of its own, all at once: their time goes by in waiting.
    thread::scope(|scope| {
        for (at, (args, number, side, code)) in calls.into_iter().enumerate() {
            scope.spawn(move || {
                let sandbox = Sandbox::new(&format!("silence-{at}"));
                sandbox.simple("docs", 3);
                sandbox.create("begun");
                let gate = Gate::to(&sandbox.search.url).unwrap().close_at(number, side);
                let tool = sandbox.tool(args).args(["--timeout", "6s"]).env("SVC_SEARCH_URL", gate.url());
                let ran = tool.run().fails(6, code);
                assert!(gate.is_closed(), "it did not come to its request: {:?}\n{ran}", gate.changes());
            });
        }
    });
}

#[test]
fn what_may_take_hours_ends_on_a_signal_and_says_what_continues_by_itself() {
    let sandbox = Sandbox::at_rate("hours", "100kb");
    let interrupted = |args: &[&str], url: String, came: &dyn Fn() -> bool| {
        let spawned = sandbox.tool(args).env("SVC_SEARCH_URL", url).spawn();
        wait::until("the chosen request", LONG, || came().then_some(())).unwrap();
        spawned.signal(Signal::SIGTERM);
        // One that continues to wait is killed as one that hangs.
        spawned.wait().fails(143, "interrupted")
    };
    let continues = |ran: &Ran, what: &str| {
        assert!(ran.doc()["changed"].is_null(), "{ran}");
        let hint = ran.doc()["error"]["hint"].as_str().unwrap();
        assert!(hint.contains("continues by itself") && hint.contains(what), "{ran}");
    };
    sandbox.run(&["create", "s1", "--no-wait"]).ok();
    let gate = Gate::to(&sandbox.search.url).unwrap().close_on("DELETE ", Side::Before);
    let ran = interrupted(&["delete", "s1", "--cancel"], gate.url(), &|| gate.is_closed());
    continues(&ran, "the removal of the snapshot s1");
    let gate = Gate::to(&sandbox.search.url).unwrap().close_on("/_cleanup", Side::Before);
    let ran = interrupted(&["cleanup"], gate.url(), &|| gate.is_closed());
    continues(&ran, "the cleanup of the repository");

    // The server says that it is removed, and then nothing more.
    let (is_deleted, is_silent) = (AtomicBool::new(false), Arc::new(AtomicBool::new(false)));
    let silent = Arc::clone(&is_silent);
    let way = Gate::before(&sandbox.search.url, move |request| {
        if is_deleted.load(Ordering::SeqCst) {
            silent.store(true, Ordering::SeqCst);
            loop {
                thread::park();
            }
        }
        is_deleted.store(request.starts_with("DELETE "), Ordering::SeqCst);
        Ok(request.to_owned())
    });
    interrupted(&["delete", "s1", "--cancel"], way.url(), &|| is_silent.load(Ordering::SeqCst)).changed();
    assert!(sandbox.snapshots().is_empty());
}

/// What the cluster has of the throttle and of our note.
fn cluster(sandbox: &Sandbox) -> Value {
    let all = sandbox.ask("GET", "/_cluster/settings?flat_settings=true", None);
    let of = |part: &str| all[part].get(RESTORE).cloned().unwrap_or_default();
    let note = all["persistent"].get("cluster.metadata.svc_tools.rate").is_some();
    json!({"persistent": of("persistent"), "transient": of("transient"), "recorded": note})
}

fn restoring(sandbox: &Sandbox, tool: Tool) -> Spawned {
    let mut spawned = tool.spawn();
    let seen = wait::until("the restore", LONG, || {
        // Asked before, since the restore may end between two questions.
        let is_recorded = cluster(sandbox)["recorded"] == true;
        let state = sandbox.ask("GET", "/_cluster/state/customs?filter_path=restore", None);
        let is_under_way = is_recorded && state["restore"]["snapshots"].as_array().is_some_and(|all| !all.is_empty());
        (is_under_way || !spawned.is_running()).then_some(is_under_way)
    });
    if !seen.unwrap() {
        panic!("it has ended too early\n{}", spawned.wait());
    }
    spawned
}

#[test]
fn the_clusters_throttle_on_restores_is_put_back_on_every_way_out() {
    let host = Host::shared().unwrap();
    let own = host.search_server(&host.search.key, &Settings::default()).unwrap();
    let sandbox = Sandbox::on(own.search.clone(), "cluster").registered(&[]);
    sandbox.noise("docs", 30);
    let created = sandbox.create("s1");
    let document = created.text();
    let tool = |args: &[&str]| sandbox.tool(args).env("SVC_INDICES", "*");
    let from = |args: &[&str]| tool(args).args(["--from", "-"]).stdin(document.clone());
    let unset = json!({"persistent": null, "transient": null, "recorded": false});
    assert_eq!(cluster(&sandbox), unset);

    // Unset before, unset afterwards; the dry run says it all.
    let dry = from(&["stage", "--rate-limit", "none", "--dry-run"]).run().ok().unchanged();
    let plan = dry.result()["plan"].as_array().unwrap();
    let paths: Vec<&str> = plan.iter().map(|one| one["path"].as_str().unwrap()).collect();
    assert_eq!((paths.len(), paths[0], paths[2]), (3, "/_cluster/settings", "/_cluster/settings"), "{dry}");
    assert_eq!((&plan[0]["body"]["persistent"][RESTORE], &plan[2]["body"]["persistent"][RESTORE]), (&json!("-1"), &Value::Null));
    assert_eq!(cluster(&sandbox), unset);
    let staged = from(&["stage", "--rate-limit", "none"]).run().ok();
    assert_eq!(rate(&staged), json!({"asked": "none", "setting": RESTORE, "was": null, "set": "-1", "put_back": true}));
    assert_eq!(cluster(&sandbox), unset);
    sandbox.from(&["discard"], &staged).ok();

    // Nothing that others share is changed where others share it.
    let scoped = sandbox.from_text(&["stage", "--rate-limit", "none"], &document).ok().warns("rate_not_changed");
    assert_eq!((&rate(&scoped)["set"], cluster(&sandbox)), (&Value::Null, unset.clone()), "{scoped}");
    sandbox.from(&["discard"], &scoped).ok();

    // A persistent setting is put back; a transient one takes precedence over it, and is left alone.
    sandbox.ask("PUT", "/_cluster/settings", Some(json!({"persistent": {RESTORE: "20mb"}})));
    let restored = from(&["restore", "--rate-limit", "none"]).run().ok();
    assert_eq!((&rate(&restored)["was"], &rate(&restored)["put_back"]), (&json!("20mb"), &json!(true)), "{restored}");
    assert_eq!(cluster(&sandbox), json!({"persistent": "20mb", "transient": null, "recorded": false}));
    sandbox.ask("PUT", "/_cluster/settings", Some(json!({"transient": {RESTORE: "30mb"}})));
    let in_place = ["restore", "--in-place", "--on-conflict", "close", "--rate-limit", "none"];
    let in_place = from(&in_place).run().ok().warns("rate_not_changed");
    assert_eq!((&rate(&in_place)["set"], &rate(&in_place)["put_back"]), (&Value::Null, &Value::Null), "{in_place}");
    assert_eq!(cluster(&sandbox), json!({"persistent": "20mb", "transient": "30mb", "recorded": false}));
    sandbox.ask("PUT", "/_cluster/settings", Some(json!({"persistent": {RESTORE: null}, "transient": {RESTORE: null}})));

    // A signal, the time limit, a kill.
    let spawned = restoring(&sandbox, from(&["stage", "--rate-limit", "400kb"]));
    spawned.signal(Signal::SIGTERM);
    let term = spawned.wait().fails(143, "interrupted").unchanged();
    assert_eq!((&rate(&term)["put_back"], cluster(&sandbox)), (&json!(true), unset.clone()), "{term}");
    let late = from(&["stage", "--rate-limit", "100kb", "--timeout", "10s"]).run().fails(6, "timeout").unchanged();
    assert_eq!((&rate(&late)["put_back"], cluster(&sandbox)), (&json!(true), unset.clone()), "{late}");

    let run = "20261120t020003z-killed";
    let spawned = restoring(&sandbox, from(&["stage", "--rate-limit", "400kb", "--run-id", run]));
    let (other, beside) = (tempfile::tempdir().unwrap(), "20261120t020003z-beside");
    let second = from(&["stage", "--rate-limit", "none", "--run-id", beside]).env("SVC_STATE_DIR", other.path()).spawn();
    let copied = || sandbox.copies().iter().any(|name| name.contains(beside)).then_some(());
    wait::until("the copy of the second run", LONG, copied).unwrap();
    assert_eq!(cluster(&sandbox)["persistent"], "400kb");
    spawned.signal(Signal::SIGKILL);
    spawned.wait();
    let second = second.wait().ok().warns("rate_not_changed");
    assert_eq!((&rate(&second)["set"], &rate(&second)["put_back"]), (&Value::Null, &Value::Null), "{second}");
    assert_eq!(cluster(&sandbox), json!({"persistent": "400kb", "transient": null, "recorded": true}));
    tool(&["health"]).run().ok().warns("setting_left_changed");
    let discarded = tool(&["discard", "--run", run]).run().ok().changed().warns("run_recovered");
    assert_eq!(cluster(&sandbox), unset, "{discarded}");
    sandbox.from(&["discard"], &second).ok().changed();

    // A server that falls silent: the signal is heard, and the next call takes up what is left.
    let proxy = Proxy::to(&sandbox.search.url).unwrap();
    let run = "20261120t020003z-silent";
    let spawned =
        restoring(&sandbox, from(&["stage", "--rate-limit", "400kb", "--run-id", run]).env("SVC_SEARCH_URL", proxy.url()));
    proxy.set(Mode::Stall);
    spawned.signal(Signal::SIGTERM);
    let silent = spawned.wait().fails(143, "interrupted").changed().warns("setting_left_changed");
    assert_eq!((&rate(&silent)["put_back"], &cluster(&sandbox)["recorded"]), (&json!(false), &json!(true)));
    tool(&["discard", "--run", run]).run().ok().changed().warns("run_recovered");
    assert_eq!((cluster(&sandbox), sandbox.copies().iter().any(|name| name.contains(run))), (unset.clone(), false));

    // A damaged snapshot.
    svc_tests::damage::flip_a_blob(&sandbox.location()).unwrap();
    let damaged = from(&["stage", "--rate-limit", "none"]).run();
    assert_eq!((damaged.status, &rate(&damaged)["put_back"], cluster(&sandbox)), (7, &json!(true), unset), "{damaged}");
    assert_eq!(damaged.doc()["changed"], false, "{damaged}");
}
