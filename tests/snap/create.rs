//! `svc-snap` without staging and swapping: snapshots taken, verified, shown, listed and deleted.

use svc_tests::prelude::*;

/// How many documents the document counts in its first index, and whether it calls that exact.
fn counted(ran: &Ran) -> (Value, bool) {
    let captured = &ran.result()["captured"][0];
    (captured["docs_count"].clone(), captured["docs_exact"] == true)
}

fn of_run(sandbox: &Sandbox, n: usize, args: &[&str]) -> Tool {
    sandbox.tool(args).env("SVC_RUN_ID", format!("20261120t02000{n}z-hand"))
}

#[test]
fn snapshot_with_missing_shards_is_refused() {
    let sandbox = Sandbox::new("partial");
    sandbox.simple("docs", 3);
    let lost = sandbox.red("lost");
    sandbox.run(&["create", "whole"]).fails(7, "indices_red").unchanged().error_has(&[&lost]);
    assert!(sandbox.snapshots().is_empty());

    sandbox.taken("part", json!({"indices": format!("{}-*", sandbox.prefix), "partial": true}));
    let parts = json!({"snapshot/state": "PARTIAL", "snapshot/shards/failed_count": 1, "snapshot/failures/0/index": lost});
    let partial = sandbox.run(&["show", "part"]).fails(7, "snapshot_invalid").unchanged().has(&parts);
    for step in ["wait", "stage", "restore"] {
        sandbox.run(&[step, "part"]).fails(7, "snapshot_invalid").unchanged();
    }
    sandbox.run(&["list"]).ok().has(&json!({"snapshots/0/valid": false, "snapshots/0/state": "PARTIAL"}));
    sandbox.from(&["show"], &partial).fails(2, "snapshot_invalid").unchanged();
    sandbox.run(&["delete", "part"]).ok().changed();
    sandbox.run(&["create", "rest", "--indices", &format!("*,-{lost}")]).ok();
}

/// The servers answer the count of each index in a list, in which the counts behind one that failed must not be another's.
#[test]
fn index_deleted_during_create_is_named() {
    let sandbox = Sandbox::new("uncounted");
    let all = [("a", 1), ("b", 2), ("c", 3)].map(|(suffix, docs)| sandbox.simple(suffix, docs));
    let create = |n: usize| of_run(&sandbox, n, &["create", &format!("s{n}")]);
    for (n, (at, index)) in [("POST /_msearch", &all[0]), ("PUT /_snapshot/", &all[1])].into_iter().enumerate() {
        let ended = sandbox.gate().close_before(at, 1).during(create(n), || sandbox.delete(index)).error_has(&[index]);
        if n == 0 {
            ended.fails(4, "data_not_found").unchanged();
            assert!(sandbox.snapshots().is_empty());
        } else {
            ended.fails(7, "snapshot_invalid").changed();
        }
    }
    let taken = &sandbox.snapshots()[0];
    assert_eq!((&taken["state"], &taken["indices"]), (&json!("SUCCESS"), &json!([all[2]])));
    create(1).run().fails(7, "snapshot_invalid").unchanged();
    create(1).arg("--no-wait").run().fails(7, "snapshot_invalid").unchanged();
}

#[test]
fn create_counts_each_index_but_own_copies_and_closed_ones() {
    let sandbox = Sandbox::new("captured");
    let plain = sandbox.index("a", json!({"settings": {"number_of_replicas": 0}}));
    let nested = sandbox.index("b", json!({"mappings": {"properties": {"n": {"type": "nested"}}}}));
    sandbox.ask("POST", &format!("/{nested}/_doc?refresh=true"), Some(json!({"n": [{"x": 1}, {"x": 2}]})));
    sandbox.ask("POST", &format!("/{nested}/_doc"), Some(json!({"n": []})));
    let closed = sandbox.simple("c", 2);
    sandbox.ask("POST", &format!("/{closed}/_close"), None);
    // Our own hidden copies are not the service's.
    let own = format!("svc-staged-{}-x", sandbox.prefix);
    sandbox.ask("PUT", &format!("/{own}"), Some(json!({"settings": {"hidden": true}})));

    let patterns = format!("{}-*,svc-staged-{0}*", sandbox.prefix);
    let created = sandbox.tool(&["create", "captured"]).env("SVC_INDICES", patterns).run().ok();
    let created = created.has(&json!({"wanted": [plain, nested, closed], "snapshot/indices": [plain, nested, closed]}));
    let skipped = created.result()["skipped"].as_array().unwrap();
    assert!(skipped.contains(&json!({"name": own, "reason": "own_copy"})), "{created}");
    let captured = created.result()["captured"].as_array().unwrap();
    let of = |name: &str| captured.iter().find(|one| one["name"] == name).unwrap();
    assert_eq!((&of(&plain)["docs_count"], &of(&plain)["docs_exact"]), (&json!(0), &json!(true)));
    assert_eq!((&of(&nested)["docs_count"], &of(&nested)["docs_exact"]), (&json!(2), &json!(true)));
    assert_eq!((&of(&closed)["metadata"]["closed"], &of(&closed)["docs_count"]), (&json!(true), &Value::Null));
}

#[test]
fn count_is_not_exact_if_written_during_create() {
    let sandbox = Sandbox::new("written");
    let docs = sandbox.simple("docs", 10);
    let counting = sandbox.gate().close_before(&format!("GET /{docs}/_stats/docs,store?"), 1);
    let taking = sandbox.gate().close_on("PUT /_snapshot/", Side::After);
    for (name, gate) in [("counting", counting), ("taking", taking)] {
        let before = sandbox.count(&docs);
        let write = || drop(sandbox.ask("POST", &format!("/{docs}/_doc"), Some(json!({"n": 1}))));
        let created = gate.during(sandbox.tool(&["create", name]), write).ok();
        let (count, is_exact) = counted(&created);
        let staged = sandbox.from(&["stage"], &created).ok();
        let held = &staged.result()["indices"][0]["docs_count"];
        assert!(!is_exact || *held == count, "{name}: {count}, {held}");
        assert!(name == "counting" || (count, is_exact) == (json!(before), false), "{created}");
    }
}

#[test]
fn unverified_counts_are_verified_by_next_call() {
    let sandbox = Sandbox::at_rate("unsettled", "400kb");
    let begun = sandbox.run(&["create", "s", "--no-wait"]).ok().changed();
    let begun = begun.has(&json!({"snapshot/state": "IN_PROGRESS", "snapshot/finished_at": null, "snapshot/duration_ms": null,
        "captured/0/docs_exact": false}));
    sandbox.run(&["wait", "s", "--timeout", "500ms"]).fails(6, "timeout").unchanged();
    let stats = format!("GET /{}/_stats", sandbox.name("docs"));
    let gate = sandbox.gate().refusing(&stats, 1000, (429, "circuit_breaking_exception", "too much"));
    let waited = sandbox.resuming(&["wait"], &begun).via(&gate).run().ok().warns("not_checked");
    assert!(!counted(&waited).1, "{waited}");
    let folder = sandbox.state.path().join("snapshots");
    let files = || fs::read_dir(&folder).unwrap().map(|file| fs::read(file.unwrap().path()).unwrap()).collect::<Vec<_>>();
    let before = files();
    let shown = sandbox.run(&["show", "s"]).ok().unchanged();
    assert_eq!(counted(&shown), (json!(20), true));
    assert_eq!(files(), before, "a read writes nothing");
    let waited = sandbox.from(&["wait"], &begun).ok();
    assert_eq!((counted(&waited), &waited.result()["wanted"]), ((json!(20), true), &json!([sandbox.name("docs")])));
    assert_ne!(files(), before);
}

#[test]
fn new_snapshot_of_same_name_is_not_mistaken_for_the_old() {
    let sandbox = Sandbox::new("again");
    sandbox.simple("docs", 3);
    of_run(&sandbox, 1, &["create", "s"]).run().ok();
    let path = format!("/_snapshot/{}/s", sandbox.prefix);
    let mut shown = sandbox.ask("GET", &path, None);
    shown["snapshots"][0]["uuid"] = json!("another");
    shown["snapshots"][0]["state"] = json!("IN_PROGRESS");
    let gate = sandbox.gate().answering(&format!("GET {path}"), 2, 200, &shown);
    sandbox.tool(&["wait", "s"]).via(&gate).run().refused("name_in_use");
    // Nor what was recorded of that one.
    let records = sandbox.state.path().join("snapshots");
    let files = || fs::read_dir(&records).unwrap().map(|file| file.unwrap().path()).collect::<Vec<_>>();
    let path = files().remove(0);
    let before = fs::read(&path).unwrap();
    of_run(&sandbox, 1, &["delete", "s"]).run().ok();
    assert!(files().is_empty(), "the record of a snapshot that is gone goes too");
    of_run(&sandbox, 2, &["create", "s"]).run().ok();
    fs::write(path, before).unwrap();
    assert_eq!(sandbox.run(&["show", "s"]).ok().result()["captured"], json!([]));
}

#[test]
fn dry_run_creates_no_state_folder() {
    let sandbox = Sandbox::new("dry");
    sandbox.simple("docs", 1);
    sandbox.create("s");
    let state = sandbox.state.path().join("none");
    let location = sandbox.location().display().to_string();
    for step in [&["create", "t"][..], &["prune"], &["delete", "s"], &["cleanup"], &["register", "--location", &location]] {
        sandbox.tool(step).arg("--dry-run").env("SVC_STATE_DIR", &state).run().ok().unchanged();
        assert!(!state.exists(), "{step:?}");
    }
}

#[test]
fn killed_create_is_resumed_with_exact_counts() {
    let sandbox = Sandbox::at_rate("killed", "400kb");
    let create = || of_run(&sandbox, 1, &["create", "s"]);
    let (killed, uuid) = sandbox.begun(create(), "s");
    killed.ended_by(Signal::SIGKILL);
    // What has come since was not asked for.
    let later = sandbox.simple("later", 1);
    of_run(&sandbox, 1, &["create", "s", "--indices", &later]).run().refused("options_invalid").error_has(&["another name"]);
    let again = create().run().ok().unchanged().has(&json!({"resumed": true, "snapshot/uuid": uuid}));
    assert_eq!((counted(&again), &again.result()["wanted"]), ((json!(20), true), &json!([sandbox.name("docs")])));
    // What was verified once stays so.
    sandbox.ask("POST", &format!("/{}/_doc", sandbox.name("docs")), Some(json!({"t": "late"})));
    let captured = &again.result()["captured"];
    assert_eq!(&create().run().ok().result()["captured"], captured);
    assert_eq!(&sandbox.run(&["show", "s"]).ok().result()["captured"], captured);

    sandbox.remove_state();
    let parts = json!({"captured": [], "resumed": true, "snapshot/uuid": uuid});
    create().run().ok().unchanged().warns("not_checked").has(&parts);
}

#[test]
fn snapshot_name_in_use_is_refused_with_free_name() {
    let sandbox = Sandbox::new("name");
    sandbox.simple("docs", 1);
    let run = |n: usize, args: &[&str]| of_run(&sandbox, n, args).run();
    run(1, &["create", "s"]).ok();
    run(2, &["create", "s"]).refused("name_in_use").error_has(&["--unique"]);
    assert_eq!(run(3, &["create", "s", "--unique"]).ok().changed().result()["name"], "s_2");
    assert_eq!(run(4, &["create", "s", "--unique"]).ok().result()["name"], "s_3");
    // The same call of the same run finds its own, and verifies it.
    run(3, &["create", "s", "--unique"]).ok().unchanged().has(&json!({"name": "s_2", "resumed": true}));
    assert_eq!(sandbox.snapshots().len(), 3);
    // Two calls by hand are two runs, be it in the same second.
    for _ in 0..2 {
        sandbox.run(&["create", "by_hand"]).ok().changed();
        sandbox.run(&["create", "by_hand"]).refused("name_in_use");
        sandbox.run(&["delete", "by_hand"]).ok();
    }
}

#[test]
fn missing_repository_snapshot_or_server_is_refused() {
    let sandbox = Sandbox::new("absent");
    let docs = sandbox.simple("docs", 1);
    let of_snapshot = [&["show", "s"][..], &["wait", "s"], &["delete", "s"], &["stage", "s"], &["restore", "s"]];
    let of_repository = [&["list"][..], &["verify"], &["cleanup"], &["prune"], &["create", "s"]];
    let location = sandbox.location().display().to_string();
    for step in of_snapshot.iter().chain(&of_repository) {
        sandbox.tool(step).args(["--repository", "nowhere"]).run().fails(4, "repository_not_found").unchanged();
    }
    for step in of_snapshot {
        sandbox.run(step).fails(4, "snapshot_not_found").unchanged();
    }
    let of_server = [&["health"][..], &["register", "--location", &location], &["clone"]];
    for step in of_snapshot.iter().chain(&of_repository).chain(&of_server) {
        sandbox.tool(step).args(["--url", "http://127.0.0.1:1"]).run().fails(5, "search_unreachable").unchanged();
    }
    sandbox.tool(&["create", "s"]).args(["--indices", &docs, "--scope", "other*"]).run().refused("options_invalid");
    assert!(sandbox.snapshots().is_empty());
}

#[test]
fn silent_server_is_given_up_at_timeout_or_signal() {
    let (sandbox, _, created, staged) = Sandbox::staged("mute");
    let before = (sandbox.content(), sandbox.names());
    let steps = [&["list"][..], &["health"], &["health", "--wait"], &["create", "t"], &["wait", "s1"], &["stage", "s1"]];
    let documents = [("swap", &staged), ("discard", &staged), ("restore", &created)];
    let resuming = documents.map(|(step, document)| sandbox.resuming(&[step], document));
    // A call that continues to wait is killed as one that hangs, and has no document then.
    let interrupted = |tool: Tool, gate: Gate| gate.hold(tool).ended_by(Signal::SIGTERM).fails(143, "interrupted");
    let is_given_up = |tool: Tool| {
        let gate = sandbox.gate().close_before("", 1);
        tool.clone().args(["--timeout", "1s"]).via(&gate).run().fails(6, "timeout").unchanged();
        interrupted(tool, sandbox.gate().close_before("", 1)).unchanged();
    };
    thread::scope(|scope| {
        for tool in steps.map(|step| sandbox.tool(step)).into_iter().chain(resuming) {
            scope.spawn(move || is_given_up(tool));
        }
    });
    assert_eq!((sandbox.content(), sandbox.names(), sandbox.snapshots().len()), (before.0, before.1, 1));
    let delete = ["delete", "s1", "--cancel"];
    for (args, at, side, code, continues) in [
        (&["create", "t", "--rate-limit", "none"][..], "?verify=false", Side::After, "timeout", ""),
        (&["create", "t", "--rate-limit", "none"], "/t?", Side::Before, "timeout", ""),
        (&["stage", "s1", "--rate-limit", "none"], "/_restore", Side::After, "outcome_unknown", ""),
        (&delete, "DELETE ", Side::Before, "timeout", "the removal of the snapshot s1"),
        (&["cleanup"], "/_cleanup", Side::Before, "timeout", "the cleanup of the repository"),
    ] {
        limited(|seconds| {
            let gate = sandbox.gate().close_on(at, side);
            let ran = sandbox.tool(args).args(["--timeout", &format!("{seconds}s")]).via(&gate).run();
            gate.is_closed().then(|| ran.fails(6, code))
        });
        if !continues.is_empty() {
            let ran = interrupted(sandbox.tool(args), sandbox.gate().close_on(at, side));
            assert!(ran.doc()["changed"].is_null(), "{ran}");
            ran.error_has(&["continues by itself", continues]);
        }
    }
    // The server says that it is removed, and then nothing more.
    let (gate, is_deleted) = (sandbox.gate(), AtomicBool::new(false));
    let is_later = move |line: &str| is_deleted.fetch_or(line.starts_with("DELETE "), Ordering::SeqCst);
    gate.rule(is_later, Act::Close(Side::Before), 0, 1);
    interrupted(sandbox.tool(&delete), gate).changed();
    assert!(sandbox.snapshots().is_empty());
}

#[test]
fn signal_during_create_cancels_snapshot_although_server_is_busy() {
    // What is refused meanwhile takes its time, too.
    let sandbox = Sandbox::at_rate("term", "120kb");
    let location = sandbox.location().display().to_string();
    // What a server says while a repository is cleaned up.
    let busy = (503, "concurrent_snapshot_execution_exception", "a repository cleanup is in-progress");
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let gate = sandbox.gate().refusing("DELETE ", 3, busy);
        let (create, _) = sandbox.begun(sandbox.tool(&["create", "s"]).via(&gate), "s");
        for step in [&["create", "t"][..], &["delete", "s"], &["cleanup"], &["prune"], &["register", "--location", &location]] {
            sandbox.run(step).fails(8, "locked").unchanged();
        }
        let ended = create.ended_by(signal).fails(128 + signal as i32, "interrupted").unchanged();
        assert!(!ended.result().is_null() && sandbox.snapshots().is_empty(), "{ended}");
        assert!(gate.changes().iter().filter(|line| line.starts_with("DELETE ")).count() >= 4, "{ended}");
    }
}

#[test]
fn snapshot_continues_after_create_times_out() {
    // It takes three times as long as the limit.
    let (sandbox, late) = limited(|seconds| {
        let sandbox = Sandbox::at_rate("limit", "120kb");
        sandbox.noise("more-for-later", 3 * usize::try_from(seconds - 5).unwrap());
        let limit = format!("{seconds}s");
        let tool = sandbox.tool(&["create", "s", "--timeout", &limit]).env_remove("SVC_SEARCH_URL").env_remove("SVC_STATE_DIR");
        let late = tool.args(["--url", &sandbox.search.url, "--state-dir"]).arg(sandbox.state.path().join("its own")).run();
        (late.result()["snapshot"]["state"] == "IN_PROGRESS").then_some((sandbox, late))
    });
    let late = late.fails(6, "timeout").changed().error_has(&["svc-snap wait s"]);
    assert_eq!(sandbox.run(&["show", "s"]).ok().result()["valid"], Value::Null);
    sandbox.run(&["delete", "s"]).refused("not_ready");
    sandbox.run(&["stage", "s"]).fails(7, "not_ready").unchanged();
    // A server that falls silent does not keep a signal away.
    let gate = sandbox.gate().close_before(&format!("GET /_snapshot/{}/s", sandbox.prefix), 2);
    let waiting = gate.hold(sandbox.tool(&["wait", "s"]));
    waiting.ended_by(Signal::SIGTERM).fails(143, "interrupted").unchanged().error_has(&["svc-snap wait s"]);
    let waited = sandbox.from(&["wait"], &late).ok().unchanged();
    assert_eq!(waited.result()["snapshot"]["uuid"], late.result()["snapshot"]["uuid"]);
    sandbox.from(&["show"], &waited).ok();
    // The hint is pasted into a shell that has none of the settings.
    let typed = late.hint().split(" waits for it").next().map(|hint| &hint[hint.find("svc-snap").unwrap()..]).unwrap();
    assert_eq!(Tool::program("/bin/sh").args(["-c", typed]).run().ok().result()["captured"][0]["docs_exact"], true, "{typed}");

    sandbox.noise("more", 20);
    let begun = sandbox.run(&["create", "t", "--no-wait"]).ok().changed();
    sandbox.run(&["delete", "t", "--cancel"]).ok().changed();
    sandbox.from(&["wait"], &begun).fails(4, "snapshot_not_found").unchanged();
}
