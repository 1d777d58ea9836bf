//! `svc-snap` without staging and swapping: snapshots taken, verified, shown, listed and deleted.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use svc_tests::host::{Host, OwnSearch};
use svc_tests::proxy::{Gate, Mode, Proxy, Side};
use svc_tests::sandbox::Sandbox;
use svc_tests::search::{OS_USER, Settings};
use svc_tests::{os, wait};

const LONG: Duration = svc_tests::wait::HANG;

fn own_server(settings: &Settings) -> OwnSearch {
    let host = Host::shared().unwrap();
    host.search_server(&host.search.key, settings).unwrap()
}

#[test]
fn a_snapshot_with_shards_missing_is_refused_and_a_partial_one_is_no_backup() {
    let server = own_server(&Settings::default());
    let sandbox = Sandbox::on(server.search.clone(), "partial");
    sandbox.run(&["register", "--location", sandbox.location().to_str().unwrap()]).ok();
    sandbox.simple("docs", 3);
    let lost = sandbox.red("lost");

    let refused = sandbox.run(&["create", "whole"]).fails(7, "indices_red").unchanged();
    assert!(refused.doc()["error"]["causes"].to_string().contains(&lost), "the server names the index\n{refused}");
    assert!(sandbox.snapshots().is_empty());

    let body = json!({"indices": format!("{}-*", sandbox.prefix), "partial": true});
    sandbox.ask("PUT", &format!("/_snapshot/{}/part?wait_for_completion=true", sandbox.prefix), Some(body));
    let partial = sandbox.run(&["show", "part"]).fails(7, "snapshot_invalid").unchanged();
    let snapshot = &partial.result()["snapshot"];
    assert_eq!((&snapshot["state"], &snapshot["shards"]["failed_count"]), (&json!("PARTIAL"), &json!(1)));
    assert_eq!(snapshot["failures"][0]["index"], lost.as_str());
    sandbox.run(&["wait", "part"]).fails(7, "snapshot_invalid").unchanged();
    let listed = sandbox.run(&["list"]).ok();
    assert_eq!(
        (&listed.result()["snapshots"][0]["valid"], &listed.result()["snapshots"][0]["state"]),
        (&json!(false), &json!("PARTIAL"))
    );
    sandbox.from(&["show"], &partial).fails(2, "snapshot_invalid").unchanged();

    let health = sandbox.run(&["health"]).fails(7, "indices_red").unchanged();
    assert_eq!(health.result()["red_indices"], json!([lost]));
    sandbox.tool(&["health"]).env("SVC_INDICES", sandbox.name("docs")).run().ok().warns("indices_red");
    sandbox.run(&["create", "rest", "--indices", &format!("*,-{lost}")]).ok();
}

#[test]
fn a_snapshot_is_taken_shown_listed_waited_for_and_deleted() {
    // A server of its own: while one cleans up, no snapshot is taken there, in any repository.
    let server = own_server(&Settings::default());
    let sandbox = Sandbox::on(server.search.clone(), "life");
    sandbox.run(&["register", "--location", sandbox.location().to_str().unwrap()]).ok().changed();
    let index = sandbox.simple("docs", 7);
    let dry = sandbox.run(&["create", "--dry-run"]).ok().unchanged();
    assert_eq!(dry.result()["plan"][0]["body"]["indices"], index.as_str());
    assert!(sandbox.snapshots().is_empty());

    let reason = ["--taken-by", "me", "--taken-because", "a test", "--kind", "upgrade"];
    let created = sandbox.tool(&["create"]).args(reason).env("SVC_RUN_ID", "20261120t020003z-life").run().ok().changed();
    let name = created.result()["name"].as_str().unwrap().to_owned();
    assert!(name.starts_with("snapshot_svc_20") && name.len() == "snapshot_svc_20261120".len(), "{name}");
    let server = &sandbox.snapshots()[0];
    assert_eq!(
        server["metadata"],
        json!({"taken_by": "me", "taken_because": "a test",
               "svc_tools": {"run_id": "20261120t020003z-life", "kind": "upgrade"}})
    );
    assert_eq!((&server["indices"], &server["include_global_state"]), (&json!([index]), &json!(true)));
    let snapshot = &created.result()["snapshot"];
    assert_eq!((&snapshot["uuid"], &snapshot["state"]), (&server["uuid"], &json!("SUCCESS")));

    let shown = sandbox.run(&["show", &name]).ok().unchanged();
    assert_eq!((&shown.result()["snapshot"], &shown.result()["valid"]), (snapshot, &json!(true)));
    let shown = sandbox.from(&["show"], &created).ok();
    assert_eq!(shown.result()["captured"], created.result()["captured"]);
    sandbox.from(&["wait"], &shown).ok().unchanged();
    let listed = sandbox.run(&["list"]).ok();
    let item = &listed.result()["snapshots"][0];
    assert_eq!((&item["name"], &item["kind"], &item["indices_count"]), (&json!(name), &json!("upgrade"), &json!(1)));
    assert!(item["started_at"].as_str().unwrap().ends_with('Z') && item["duration_ms"].is_u64(), "{listed}");

    sandbox.run(&["cleanup", "--dry-run"]).ok().unchanged();
    // A server cleans up only while no snapshot is taken, in any repository: those of the other tests are waited for.
    let cleanup = || {
        let ended = wait::until("a moment without snapshots", svc_tests::wait::HANG, || {
            let ran = sandbox.run(&["cleanup"]);
            (ran.status != 5).then_some(ran)
        });
        ended.unwrap().ok()
    };
    let cleaned = cleanup().unchanged();
    assert_eq!(cleaned.result()["deleted_blobs_count"], 0);
    // What an interrupted snapshot leaves: the files of an index that no snapshot holds.
    let stale = sandbox.location().join("indices/staleStaleStaleStale00");
    let user = os::system_user(OS_USER).unwrap();
    os::folder(&stale, 0o755, Some(&user)).unwrap();
    os::file(&stale.join("__stale"), "stale", 0o644, Some(&user)).unwrap();
    let cleaned = cleanup().changed();
    assert_eq!((&cleaned.result()["deleted_bytes"], stale.exists()), (&json!(5), false));
    sandbox.from(&["delete", "--dry-run"], &created).ok().unchanged();
    sandbox.from(&["delete"], &created).ok().changed();
    assert!(sandbox.snapshots().is_empty());
    sandbox.from(&["delete"], &created).ok().unchanged();
    sandbox.run(&["delete", &name]).fails(4, "snapshot_not_found").unchanged();
}

#[test]
fn what_a_snapshot_does_not_show_is_captured_index_by_index() {
    let sandbox = Sandbox::new("captured");
    let some = sandbox.name("some");
    let alias = json!({"filter": {"term": {"k": 1}}, "index_routing": "r", "is_write_index": true});
    let plain =
        sandbox.index("a", json!({"aliases": {(some.as_str()): alias}, "settings": {"number_of_replicas": 2, "hidden": true}}));
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
    assert_eq!(created.result()["wanted"], json!([plain, nested, closed]));
    assert_eq!(created.result()["snapshot"]["indices"], json!([plain, nested, closed]));
    let skipped = created.result()["skipped"].as_array().unwrap();
    assert!(skipped.contains(&json!({"name": own, "reason": "own_copy"})), "{created}");
    let captured = created.result()["captured"].as_array().unwrap();
    let of = |name: &str| captured.iter().find(|one| one["name"] == name).unwrap();
    assert_eq!((&of(&plain)["docs_count"], &of(&plain)["docs_exact"]), (&json!(0), &json!(true)));
    let metadata = &of(&plain)["metadata"];
    assert_eq!((&metadata["number_of_replicas"], &metadata["hidden"]), (&json!(2), &json!(true)));
    let given = &metadata["aliases"][&some];
    assert_eq!((&given["filter"], &given["is_write_index"]), (&json!({"term": {"k": 1}}), &json!(true)));
    assert_eq!((&of(&nested)["docs_count"], &of(&nested)["docs_exact"]), (&json!(2), &json!(true)));
    assert_eq!((&of(&closed)["metadata"]["closed"], &of(&closed)["docs_count"]), (&json!(true), &Value::Null));
}

#[test]
fn a_count_is_not_called_exact_when_something_was_written_meanwhile() {
    let sandbox = Sandbox::slow("written");
    let (create, _) = sandbox.begun(sandbox.tool(&["create", "s"]), "s");
    sandbox.ask("POST", &format!("/{}/_doc", sandbox.name("docs")), Some(json!({"t": "late"})));
    let created = create.wait().ok();
    let captured = &created.result()["captured"][0];
    assert_eq!((&captured["docs_count"], &captured["docs_exact"]), (&json!(20), &json!(false)));
}

#[test]
fn a_request_that_fails_leaves_the_counts_unverified_and_the_next_call_verifies_them() {
    let sandbox = Sandbox::slow("unsettled");
    sandbox.run(&["create", "s", "--no-wait"]).ok();
    let busy = json!({"error": {"type": "circuit_breaking_exception", "reason": "too much"}, "status": 429});
    let stats = format!("GET /{}/_stats", sandbox.name("docs"));
    let gate = Gate::to(&sandbox.search.url).unwrap().answering(&stats, 1000, 429, &busy);
    let waited = sandbox.tool(&["wait", "s"]).env("SVC_SEARCH_URL", gate.url()).run().ok().warns("not_checked");
    assert_eq!(waited.result()["captured"][0]["docs_exact"], json!(false));
    let files =
        || fs::read_dir(sandbox.state.path().join("snapshots")).unwrap().map(|file| fs::read(file.unwrap().path()).unwrap());
    let before: Vec<_> = files().collect();
    let shown = sandbox.run(&["show", "s"]).ok().unchanged();
    let captured = &shown.result()["captured"][0];
    assert_eq!((&captured["docs_count"], &captured["docs_exact"]), (&json!(20), &json!(true)));
    assert_eq!(files().collect::<Vec<_>>(), before, "a look writes nothing");
    sandbox.run(&["wait", "s"]).ok();
    assert_ne!(files().collect::<Vec<_>>(), before);
}

#[test]
fn a_write_while_the_documents_are_counted_is_counted_or_no_count_is_called_exact() {
    let sandbox = Sandbox::new("counting");
    let docs = sandbox.simple("docs", 10);
    let (search, stats) = (sandbox.search.clone(), format!("GET /{docs}/_stats/docs,store?"));
    let (write, is_written) = (format!("/{docs}/_doc/late"), AtomicBool::new(false));
    let proxy = Gate::before(&sandbox.search.url, move |request| {
        if request.starts_with(&stats) && !is_written.swap(true, Ordering::SeqCst) {
            search.ask("PUT", &write, Some(&json!({"n": 1}))).unwrap();
        }
        Ok(request.to_owned())
    });
    let created = sandbox.tool(&["create", "s"]).env("SVC_SEARCH_URL", proxy.url()).run().ok();
    let captured = created.result()["captured"][0].clone();
    assert_eq!(sandbox.count(&docs), 11, "nothing was written meanwhile");
    let staged = sandbox.from(&["stage"], &created).ok();
    let held = &staged.result()["indices"][0]["docs_count"];
    assert!(
        (held, &captured["docs_exact"]) == (&json!(11), &json!(false)) || *held == captured["docs_count"],
        "{captured} {held}"
    );
}

#[test]
fn a_snapshot_that_is_another_one_when_it_has_ended_is_not_the_one_that_was_waited_for() {
    let sandbox = Sandbox::new("another");
    sandbox.simple("docs", 1);
    sandbox.create("s");
    let mut shown = sandbox.ask("GET", &format!("/_snapshot/{}/s", sandbox.prefix), None);
    shown["snapshots"][0]["uuid"] = json!("another");
    shown["snapshots"][0]["state"] = json!("IN_PROGRESS");
    let gate = Gate::to(&sandbox.search.url).unwrap().answering(&format!("GET /_snapshot/{}/s", sandbox.prefix), 2, 200, &shown);
    sandbox.tool(&["wait", "s"]).env("SVC_SEARCH_URL", gate.url()).run().refused("name_in_use");
}

#[test]
fn a_dry_run_leaves_no_state_folder() {
    let sandbox = Sandbox::new("dry");
    sandbox.simple("docs", 1);
    sandbox.run(&["create", "s"]).ok();
    let state = sandbox.state.path().join("none");
    let location = sandbox.location().display().to_string();
    for step in [&["create", "t"][..], &["prune"], &["delete", "s"], &["cleanup"], &["register", "--location", &location]] {
        sandbox.tool(step).arg("--dry-run").env("SVC_STATE_DIR", &state).run().ok().unchanged();
        assert!(!state.exists(), "{step:?}");
    }
}

#[test]
fn a_create_that_was_killed_is_resumed_and_verifies_what_it_captured() {
    let sandbox = Sandbox::slow("killed");
    let tool = |args: &[&str]| sandbox.tool(args).env("SVC_RUN_ID", "20261120t020003z-killed");
    let create = || tool(&["create", "s"]);
    let (killed, uuid) = sandbox.begun(create(), "s");
    killed.signal(Signal::SIGKILL);
    killed.wait();
    // What has come since was not asked for.
    let later = sandbox.simple("later", 1);
    let other = tool(&["create", "s", "--indices", &later]).run().refused("options_invalid").unchanged();
    assert!(other.doc()["error"]["hint"].as_str().unwrap().contains("another name"), "{other}");
    let again = create().run().ok().unchanged();
    assert_eq!((&again.result()["resumed"], &again.result()["snapshot"]["uuid"]), (&json!(true), &json!(uuid)));
    let captured = &again.result()["captured"];
    assert_eq!(
        (captured.as_array().unwrap().len(), &captured[0]["docs_count"], &captured[0]["docs_exact"]),
        (1, &json!(20), &json!(true))
    );
    assert_eq!(again.result()["wanted"], json!([sandbox.name("docs")]));
    // What was verified once stays so.
    sandbox.ask("POST", &format!("/{}/_doc", sandbox.name("docs")), Some(json!({"t": "late"})));
    assert_eq!(&create().run().ok().result()["captured"], captured);
    assert_eq!(&sandbox.run(&["show", "s"]).ok().result()["captured"], captured);

    fs::remove_dir_all(sandbox.state.path().join("snapshots")).unwrap();
    let blind = create().run().ok().unchanged().warns("not_checked");
    assert_eq!(blind.result()["captured"], json!([]));
}

#[test]
fn a_snapshot_of_before_is_not_taken_for_a_later_one_of_its_name() {
    let sandbox = Sandbox::new("again");
    sandbox.simple("docs", 3);
    let run = |id: &str, args: &[&str]| sandbox.tool(args).env("SVC_RUN_ID", format!("20261120t02000{id}z-again")).run().ok();
    run("1", &["create", "s"]);
    let notes = sandbox.state.path().join("snapshots");
    let files = || fs::read_dir(&notes).unwrap().map(|file| file.unwrap().path()).collect::<Vec<_>>();
    let before = fs::read(&files()[0]).unwrap();
    let path = files()[0].clone();
    run("1", &["delete", "s"]);
    assert!(files().is_empty(), "a snapshot that is gone is forgotten");
    run("2", &["create", "s"]);
    fs::write(path, before).unwrap();
    assert_eq!(sandbox.run(&["show", "s"]).ok().result()["captured"], json!([]));
}

#[test]
fn a_name_in_use_is_refused_with_a_free_one_and_unique_picks_it() {
    let sandbox = Sandbox::new("name");
    sandbox.simple("docs", 1);
    let run = |id: &str, args: &[&str]| sandbox.tool(args).env("SVC_RUN_ID", format!("20261120t02000{id}z-name")).run();
    run("1", &["create", "s"]).ok();
    let refused = run("2", &["create", "s"]).refused("name_in_use");
    assert!(refused.doc()["error"]["hint"].as_str().unwrap().contains("such as s_2"), "{refused}");
    assert_eq!(run("3", &["create", "s", "--unique"]).ok().changed().result()["name"], "s_2");
    assert_eq!(run("4", &["create", "s", "--unique"]).ok().result()["name"], "s_3");
    // The same call of the same run finds its own, and verifies it.
    let again = run("3", &["create", "s", "--unique"]).ok().unchanged();
    assert_eq!((&again.result()["name"], &again.result()["resumed"]), (&json!("s_2"), &json!(true)));
    assert_eq!(sandbox.snapshots().len(), 3);
    // Two calls by hand are two runs, be it in the same second.
    for _ in 0..2 {
        sandbox.run(&["create", "by_hand"]).ok().changed();
        sandbox.run(&["create", "by_hand"]).refused("name_in_use");
        sandbox.run(&["delete", "by_hand"]).ok();
    }
}

#[test]
fn what_is_not_there_is_4_and_nothing_is_sent() {
    let sandbox = Sandbox::new("absent");
    sandbox.simple("docs", 1);
    for step in [&["list"][..], &["verify"], &["cleanup"], &["create", "s"], &["show", "s"], &["wait", "s"], &["delete", "s"]] {
        sandbox.tool(step).args(["--repository", "nowhere"]).run().fails(4, "repository_not_found").unchanged();
    }
    for step in ["show", "wait", "delete"] {
        sandbox.run(&[step, "nothing"]).fails(4, "snapshot_not_found").unchanged();
    }
    let (docs, nope) = (sandbox.name("docs"), sandbox.name("nope"));
    let failed = sandbox.run(&["create", "s", "--indices", &format!("{docs},{nope}")]).fails(4, "index_not_found").unchanged();
    assert!(failed.doc()["error"]["message"].as_str().unwrap().contains(&nope));
    sandbox.run(&["create", "s", "--indices", "nope*"]).fails(4, "index_not_found").unchanged();
    sandbox.tool(&["create", "s"]).args(["--indices", &docs, "--scope", "other*"]).run().refused("options_invalid");
    assert!(sandbox.snapshots().is_empty());
}

#[test]
fn a_wrong_name_is_refused_before_anything_is_sent() {
    let sandbox = Sandbox::on(Host::shared().unwrap().search, "wrong");
    for name in ["Upper", "a b", "a,b", "_a", "a/b", "a#b", ""] {
        assert_eq!(sandbox.run(&["create", name]).status, 2, "{name}");
    }
    sandbox.run(&["register", "--location", "relative"]).fails(2, "options_invalid").unchanged();
}

#[test]
fn a_server_that_is_not_there_is_5() {
    let sandbox = Sandbox::on(Host::shared().unwrap().search, "away");
    for step in [&["list"][..], &["health"], &["create", "s"], &["register", "--location", "/x/y"], &["delete", "s"]] {
        sandbox.tool(step).args(["--url", "http://127.0.0.1:1"]).run().fails(5, "search_unreachable").unchanged();
    }
}

#[test]
fn a_server_that_says_nothing_keeps_neither_the_time_limit_nor_a_signal_away() {
    let sandbox = Sandbox::on(Host::shared().unwrap().search, "mute");
    let proxy = Proxy::to(&sandbox.search.url).unwrap();
    proxy.set(Mode::Stall);
    let tool = |step: &[&str]| sandbox.tool(step).env("SVC_SEARCH_URL", proxy.url());
    // A call that continues to wait is killed as one that hangs, and has no document then.
    for step in [&["list"][..], &["health"], &["health", "--wait"], &["create", "s"], &["wait", "s"], &["stage", "s"]] {
        tool(step).args(["--timeout", "1s"]).run().fails(6, "timeout").unchanged();
        let seen = proxy.accepted();
        let waiting = tool(step).spawn();
        wait::until("the request", LONG, || (proxy.accepted() > seen).then_some(())).unwrap();
        waiting.signal(Signal::SIGTERM);
        waiting.wait().fails(143, "interrupted").unchanged();
    }
}

#[test]
fn a_server_that_falls_silent_while_a_snapshot_is_waited_for_does_not_keep_a_signal_away() {
    let sandbox = Sandbox::slow("silent");
    sandbox.run(&["create", "s", "--no-wait"]).ok();
    let proxy = Proxy::to(&sandbox.search.url).unwrap();
    let waiting = sandbox.tool(&["wait", "s"]).env("SVC_SEARCH_URL", proxy.url()).spawn();
    wait::until("six requests", LONG, || (proxy.accepted() > 6).then_some(())).unwrap();
    proxy.set(Mode::Stall);
    wait::until("a request that is stuck", LONG, || proxy.holds_something().then_some(())).unwrap();
    waiting.signal(Signal::SIGTERM);
    let ended = waiting.wait().fails(143, "interrupted").unchanged();
    assert!(ended.doc()["error"]["hint"].as_str().unwrap().contains("svc-snap wait s"), "{ended}");
}

#[test]
fn a_request_that_is_lost_without_waiting_is_6_too_with_an_unknown_outcome() {
    let sandbox = Sandbox::new("lost");
    sandbox.simple("docs", 2);
    let gate = Gate::to(&sandbox.search.url).unwrap().close_on("PUT /_snapshot/", Side::Before).hanging_up();
    let lost = sandbox.tool(&["create", "s", "--no-wait"]).env("SVC_SEARCH_URL", gate.url()).run().fails(6, "outcome_unknown");
    assert!(lost.doc()["changed"].is_null() && !lost.result().is_null(), "{lost}");
    assert_eq!((gate.changes().len(), sandbox.snapshots().len()), (1, 0));
    sandbox.run(&["create", "s"]).ok().changed();
}

#[test]
fn a_signal_while_a_snapshot_is_taken_cancels_it_and_leaves_nothing() {
    let sandbox = Sandbox::slow("term");
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let (create, _) = sandbox.begun(sandbox.tool(&["create", "s"]), "s");
        create.signal(signal);
        let ended = create.wait();
        let ended = ended.fails(128 + signal as i32, "interrupted").unchanged();
        assert!(!ended.result().is_null());
        assert!(sandbox.snapshots().is_empty());
    }
}

#[test]
fn a_snapshot_continues_after_the_time_limit_and_is_waited_for() {
    // The limit is long enough for all that comes before the snapshot, and that takes twice as long.
    let sandbox = Sandbox::at_rate("limit", "100kb");
    let late = sandbox.run(&["create", "s", "--timeout", "10s"]).fails(6, "timeout").changed();
    assert!(late.doc()["error"]["hint"].as_str().unwrap().contains("svc-snap wait s"), "{late}");
    assert_eq!(late.result()["snapshot"]["state"], "IN_PROGRESS");
    assert_eq!(sandbox.run(&["show", "s"]).ok().result()["valid"], Value::Null);
    sandbox.run(&["delete", "s"]).refused("not_ready");
    sandbox.run(&["stage", "s"]).fails(7, "not_ready").unchanged();
    let waited = sandbox.from(&["wait"], &late).ok().unchanged();
    assert_eq!(waited.result()["snapshot"]["uuid"], late.result()["snapshot"]["uuid"]);
    sandbox.from(&["show"], &waited).ok();
}

#[test]
fn a_snapshot_is_begun_without_waiting_and_cancelled_by_delete() {
    let sandbox = Sandbox::at_rate("nowait", "100kb");
    let begun = sandbox.run(&["create", "s", "--no-wait"]).ok().changed();
    assert_eq!(begun.result()["snapshot"]["state"], "IN_PROGRESS");
    sandbox.run(&["wait", "s", "--timeout", "500ms"]).fails(6, "timeout").unchanged();
    sandbox.run(&["delete", "s", "--cancel"]).ok().changed();
    sandbox.from(&["wait"], &begun).fails(4, "snapshot_not_found").unchanged();
    let sandbox = sandbox.registered(&[("max_snapshot_bytes_per_sec", "400kb")]);
    let begun = sandbox.run(&["create", "s", "--no-wait"]).ok();
    assert_eq!(begun.result()["captured"][0]["docs_exact"], false);
    let waited = sandbox.from(&["wait"], &begun).ok();
    let captured = &waited.result()["captured"][0];
    assert_eq!((&captured["docs_count"], &captured["docs_exact"]), (&json!(20), &json!(true)));
    assert_eq!(waited.result()["wanted"], json!([sandbox.name("docs")]));
}

#[test]
fn a_restore_in_place_that_gave_up_waiting_is_resumed_by_the_same_command() {
    let sandbox = Sandbox::on(Host::shared().unwrap().search, "resume");
    sandbox
        .run(&["register", "--location", sandbox.location().to_str().unwrap(), "--setting", "max_restore_bytes_per_sec=125kb"])
        .ok();
    sandbox.noise("docs", 20);
    let created = sandbox.run(&["create", "s"]).ok();
    let run = "20261120t020003z-resume";
    let restore = ["restore", "--in-place", "--on-conflict", "delete", "--run-id", run];
    let left = sandbox.from(&[&restore[..], &["--timeout", "10s"]].concat(), &created).fails(6, "timeout").changed();
    assert!(left.doc()["error"]["hint"].as_str().unwrap().contains(run), "{left}");
    sandbox.from(&["stage", "--run-id", run], &created).refused("name_in_use");
    let resumed = sandbox.from(&restore, &created).ok().unchanged();
    assert_eq!((&resumed.result()["indices"][0]["docs_count"], sandbox.count(&sandbox.name("docs"))), (&json!(20), 20));
    sandbox.from(&["wait"], &left).fails(2, "from_invalid").unchanged();
    assert_eq!(sandbox.run(&["wait"]).status, 2);
}

/// One server is enough for it: the shard is there when the snapshot begins, and the disk fails it in the middle.
#[test]
fn a_snapshot_of_which_a_shard_cannot_be_written_in_the_middle_is_no_backup() {
    let sandbox = Sandbox::new("middle");
    let hurt = sandbox.simple("hurt", 3);
    sandbox.create("before");
    // The only index that the repository knows.
    let mut known = fs::read_dir(sandbox.location().join("indices")).unwrap();
    let shard = known.next().unwrap().unwrap().path().join("0");
    let sandbox = sandbox.registered(&[("max_snapshot_bytes_per_sec", "400kb")]);
    sandbox.fill_noise(&hurt, 5);
    sandbox.noise("docs", 20);
    let (create, _) = sandbox.begun(sandbox.tool(&["create", "s"]), "s");
    let closed = |owner: u32| {
        fs::set_permissions(&shard, fs::Permissions::from_mode(0o755)).unwrap();
        chown(&shard, Some(owner), None).unwrap();
    };
    let owner = fs::metadata(&shard).unwrap().uid();
    closed(0);
    let partial = create.wait().fails(7, "snapshot_invalid").changed();
    closed(owner);
    let failures = partial.result()["snapshot"]["failures"].as_array().unwrap();
    assert_eq!((failures.len(), &failures[0]["index"]), (1, &json!(hurt)), "{partial}");
    sandbox.from(&["stage"], &partial).fails(2, "snapshot_invalid").unchanged();
    for step in ["show", "wait", "stage", "restore"] {
        sandbox.run(&[step, "s"]).fails(7, "snapshot_invalid").unchanged();
    }
    sandbox.create("again");
}

/// The servers make such a snapshot only on the way to its removal: it stays where that fails. A folder lies where the repository's
/// list would be written a second time.
#[test]
fn a_snapshot_that_failed_is_no_backup_whoever_asks() {
    let sandbox = Sandbox::slow("failed");
    let (create, _) = sandbox.begun(sandbox.tool(&["create", "s"]), "s");
    let in_the_way = sandbox.location().join("index-1");
    fs::create_dir(&in_the_way).unwrap();
    let removal = sandbox.search.request("DELETE", &format!("/_snapshot/{}/s", sandbox.prefix), None).unwrap();
    assert!(removal.0 >= 400, "{removal:?}");
    assert_eq!(sandbox.snapshots()[0]["state"], "FAILED");
    let created = create.wait().fails(7, "snapshot_invalid").changed();
    assert_eq!(created.result()["snapshot"]["state"], "FAILED", "{created}");
    for step in ["show", "wait", "stage", "restore"] {
        let ran = sandbox.run(&[step, "s"]).fails(7, "snapshot_invalid").unchanged();
        assert!(ran.doc()["error"]["causes"][0].as_str().unwrap().contains("aborted"), "{ran}");
    }
    assert_eq!(sandbox.run(&["list"]).ok().result()["snapshots"][0]["valid"], false);
    fs::remove_dir(&in_the_way).unwrap();
    sandbox.run(&["delete", "s"]).ok().changed();
}

#[test]
fn two_runs_are_never_at_one_repository_at_once() {
    let sandbox = Sandbox::slow("lock");
    let (create, _) = sandbox.begun(sandbox.tool(&["create", "s"]), "s");
    for step in
        [&["create", "t"][..], &["delete", "s"], &["cleanup"], &["register", "--location", sandbox.location().to_str().unwrap()]]
    {
        sandbox.run(step).fails(8, "locked").unchanged();
    }
    create.signal(Signal::SIGTERM);
    create.wait().fails(143, "interrupted");
}

#[test]
fn a_document_is_taken_only_for_its_own_cluster_and_its_own_snapshot() {
    let sandbox = Sandbox::new("from");
    sandbox.simple("docs", 1);
    let created = sandbox.run(&["create", "s"]).ok();
    let uuid = |pointer: &str| created.doc().pointer(pointer).and_then(Value::as_str).unwrap().to_owned();
    let other_cluster = created.text().replace(&uuid("/result/cluster_uuid"), "anotherCluster");
    for step in ["show", "wait", "delete"] {
        sandbox.from_text(&[step], &other_cluster).refused("other_server");
    }
    sandbox.from_text(&["show", "--other-server"], &other_cluster).ok();
    let other_snapshot = created.text().replace(&uuid("/result/snapshot/uuid"), "anotherSnapshot");
    for step in ["show", "wait", "delete"] {
        sandbox.from_text(&[step], &other_snapshot).refused("name_in_use");
    }
    let half = &created.text()[..100];
    let twice = format!("{0}{0}", created.text());
    let listed = sandbox.run(&["list"]).text();
    let failed = sandbox.run(&["create", "s"]).refused("name_in_use").text();
    let dry = sandbox.run(&["create", "t", "--dry-run"]).text();
    for (document, code) in [
        ("", "from_damaged"),
        (half, "from_damaged"),
        (&twice, "from_invalid"),
        (&listed, "from_invalid"),
        (&failed, "name_in_use"),
        (&dry, "from_invalid"),
    ] {
        sandbox.from_text(&["delete"], document).fails(2, code).unchanged();
    }
    assert_eq!(sandbox.snapshots().len(), 1);
}
