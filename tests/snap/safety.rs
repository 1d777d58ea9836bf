//! What is live is given up only for what is verified, and no document says that nothing was changed where nobody knows.

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use svc_tests::proxy::{Act, Gate, Side, http};
use svc_tests::sandbox::Sandbox;
use svc_tests::search::Product;
use svc_tests::tool::Ran;
use svc_tests::wait;

/// What the document says of an index or a data stream.
fn state(ran: &Ran, list: &str, key: &str, name: &str) -> String {
    let all = ran.result()[list].as_array().unwrap();
    all.iter().find(|one| one[key] == name).unwrap()["state"].as_str().unwrap().to_owned()
}

fn is_closed(sandbox: &Sandbox, index: &str) -> bool {
    let shown = sandbox.ask("GET", &format!("/_cat/indices/{index}?format=json&h=status&expand_wildcards=all"), None);
    shown[0]["status"] == "close"
}

#[test]
fn a_staged_copy_that_is_not_as_it_was_verified_never_replaces_what_is_live() {
    let sandbox = Sandbox::new("unsound");
    let docs = sandbox.simple("docs", 10);
    let created = sandbox.create("s1");
    sandbox.fill(&docs, 10, 15);
    let staged = sandbox.from(&["stage"], &created).ok();
    let copy = staged.result()["indices"][0]["copy"].as_str().unwrap().to_owned();
    let set = |settings: Value| drop(sandbox.ask("PUT", &format!("/{copy}/_settings"), Some(settings)));
    set(json!({"index.blocks.write": null}));
    sandbox.ask("PUT", &format!("/{copy}/_doc/surplus?refresh=true"), Some(json!({"n": 1})));
    for args in [&["swap"][..], &["swap", "--drop-old"]] {
        sandbox.from(args, &staged).refused("not_verified").unchanged();
        assert_eq!(sandbox.count(&docs), 15, "{args:?}");
    }
    sandbox.ask("DELETE", &format!("/{copy}/_doc/surplus?refresh=true"), None);
    set(json!({"index.blocks.write": true}));
    sandbox.from(&["swap", "--drop-old"], &staged).ok().changed();
    assert_eq!(sandbox.count(&docs), 10);
}

#[test]
fn a_closed_index_is_in_the_way_too() {
    let sandbox = Sandbox::new("closed");
    let docs = sandbox.simple("docs", 10);
    let created = sandbox.create("s1");
    sandbox.fill(&docs, 10, 15);
    sandbox.ask("POST", &format!("/{docs}/_close"), None);
    let refused = sandbox.from(&["restore", "--in-place"], &created).refused("conflicting_index");
    assert!(refused.doc()["error"]["message"].as_str().unwrap().contains(&docs), "{refused}");
    assert!(is_closed(&sandbox, &docs));
    sandbox.from(&["restore", "--in-place", "--on-conflict", "close"], &created).ok().warns("not_verified");
    assert_eq!(sandbox.count(&docs), 10);
}

#[test]
fn an_answer_that_is_lost_in_place_leaves_nothing_untouched() {
    let sandbox = Sandbox::new("lost");
    let docs = sandbox.simple("docs", 10);
    let created = sandbox.create("s1");
    let restore = |how: &str, gate: &Gate| {
        let tool = sandbox.tool(&["restore", "--in-place", "--on-conflict", how, "--from", "-"]).stdin(created.text());
        tool.env("SVC_SEARCH_URL", gate.url()).run()
    };
    // The restore itself, which the server continues alone.
    sandbox.fill(&docs, 10, 15);
    let gate = Gate::to(&sandbox.search.url).unwrap().close_on("/_restore", Side::After).hanging_up();
    let lost = restore("close", &gate).fails(6, "outcome_unknown").changed();
    assert_eq!(gate.changes().len(), 2, "nothing is opened again: {:?}", gate.changes());
    assert_eq!(state(&lost, "indices", "index", &docs), "in_progress");
    // The same command of the same run waits for it and verifies it; it restores nothing again.
    let run = lost.doc()["run_id"].as_str().unwrap();
    let gate = Gate::to(&sandbox.search.url).unwrap();
    let resume = ["restore", "--in-place", "--on-conflict", "close", "--from", "-", "--run-id", run];
    let resumed = sandbox.tool(&resume).stdin(created.text()).env("SVC_SEARCH_URL", gate.url()).run().ok().unchanged();
    assert_eq!((gate.changes().len(), state(&resumed, "indices", "index", &docs)), (0, "restored".to_owned()));
    assert_eq!((&resumed.result()["indices"][0]["docs_count"], sandbox.count(&docs)), (&json!(10), 10));
    // What is written afterwards is nobody's to verify.
    sandbox.fill(&docs, 10, 15);
    sandbox.tool(&resume).stdin(created.text()).run().ok().unchanged();
    assert_eq!(sandbox.count(&docs), 15);
    sandbox.run(&["discard", "--run", run]).fails(4, "swap_not_found");
    // The deletion before it.
    let gate = Gate::to(&sandbox.search.url).unwrap().close_on("DELETE ", Side::After).hanging_up();
    let lost = restore("delete", &gate).fails(6, "outcome_unknown");
    assert!(lost.doc()["changed"].is_null(), "{lost}");
    assert_eq!(state(&lost, "indices", "index", &docs), "in_progress");
    sandbox.from(&["restore", "--in-place", "--on-conflict", "delete"], &created).ok().changed();
    assert_eq!(sandbox.count(&docs), 10);
}

#[test]
fn when_one_index_cannot_be_closed_the_others_are_opened_again() {
    let sandbox = Sandbox::new("reopen");
    let (a, b) = (sandbox.simple("a", 10), sandbox.simple("b", 10));
    let created = sandbox.create("s1");
    let refusal =
        json!({"error": {"type": "cluster_block_exception", "reason": "index [b] blocked", "root_cause": []}, "status": 403});
    let gate = Gate::to(&sandbox.search.url).unwrap().answering(&format!("POST /{b}/_close"), 1, 403, &refusal);
    let tool = sandbox.tool(&["restore", "--in-place", "--on-conflict", "close", "--from", "-"]).stdin(created.text());
    let refused = tool.env("SVC_SEARCH_URL", gate.url()).run().unchanged();
    assert_ne!(refused.status, 0, "{refused}");
    assert_eq!(
        [&a, &b].map(|index| (is_closed(&sandbox, index), state(&refused, "indices", "index", index))),
        [(false, "untouched".to_owned()), (false, "untouched".to_owned())]
    );
}

#[test]
fn a_staging_whose_answer_is_lost_says_that_nothing_was_changed_only_where_it_is_so() {
    let sandbox = Sandbox::new("unsure");
    sandbox.simple("docs", 10);
    let created = sandbox.create("s1");
    for (side, run) in [(Side::After, "20261120t070001z-test"), (Side::Before, "20261120t070002z-test")] {
        let gate = Gate::to(&sandbox.search.url).unwrap().close_on("/_restore", side).hanging_up();
        let tool = sandbox.tool(&["stage", "--from", "-", "--run-id", run]).stdin(created.text());
        let lost = tool.env("SVC_SEARCH_URL", gate.url()).run().fails(6, "outcome_unknown");
        assert_eq!(sandbox.copies(), Vec::<String>::new(), "{lost}");
        if side == Side::After {
            lost.unchanged();
        } else {
            assert!(lost.doc()["changed"].is_null(), "{lost}");
            assert!(lost.doc()["error"]["hint"].as_str().unwrap().contains(&format!("discard --run {run}")), "{lost}");
            sandbox.run(&["discard", "--run", run]).ok();
        }
    }
}

#[test]
fn a_restore_asks_a_server_again_that_is_too_busy_to_begin_it() {
    let sandbox = Sandbox::new("busy");
    let docs = sandbox.simple("docs", 10);
    let created = sandbox.create("s1");
    // After half a minute in the queue of its master.
    let busy = json!({"error": {"type": "process_cluster_event_timeout_exception", "root_cause": [],
        "reason": "failed to process cluster event (restore_snapshot[s1]) within 30s"}, "status": 429});
    for args in [&["stage"][..], &["restore", "--in-place", "--on-conflict", "close"]] {
        let gate = Gate::to(&sandbox.search.url).unwrap().answering("POST /_snapshot", 2, 429, &busy);
        let restore = sandbox.tool(args).args(["--from", "-"]).stdin(created.text()).env("SVC_SEARCH_URL", gate.url());
        restore.run().ok().changed();
    }
    assert_eq!((sandbox.copies().len(), sandbox.count(&docs)), (1, 10));
}

#[test]
fn what_is_discarded_of_a_run_is_of_no_run_whose_name_begins_so() {
    let sandbox = Sandbox::new("prefix");
    sandbox.simple("docs", 3);
    let created = sandbox.create("s1");
    let runs = ["20260101t000000z-x", "20260101t000000z-x-2"];
    runs.iter().for_each(|run| drop(sandbox.from(&["stage", "--run-id", run], &created).ok()));
    let copies = sandbox.copies();
    let discard = |run: &str| sandbox.tool(&["discard", "--run", run]).env("SVC_INDICES", "*");
    let plan = discard(runs[0]).args(["--dry-run"]).run().ok();
    assert_eq!(plan.result()["indices"].as_array().unwrap().len(), 1, "{plan}");
    // Nor where nothing is recorded of either, or the index is not live any more.
    sandbox.ask("DELETE", &format!("/{}", sandbox.name("docs")), None);
    discard(runs[0]).run().ok().changed();
    assert_eq!(sandbox.copies(), copies[..1]);
    std::fs::remove_dir_all(sandbox.state.path().join("swaps")).unwrap();
    sandbox.simple("docs", 3);
    discard(runs[0]).run().fails(4, "swap_not_found").unchanged();
    discard(runs[1]).run().ok().changed();
    assert_eq!(sandbox.copies(), Vec::<String>::new());
}

#[test]
fn a_restore_that_can_take_nothing_back_says_what_it_left() {
    let sandbox = Sandbox::new("left");
    let (docs, gone) = (sandbox.simple("docs", 10), sandbox.simple("gone", 10));
    let created = sandbox.create("s1");
    sandbox.ask("DELETE", &format!("/{gone}"), None);
    let mut document = created.doc().clone();
    let captured = document["result"]["captured"].as_array_mut().unwrap().iter_mut().find(|one| one["name"] == docs.as_str());
    captured.unwrap()["docs_count"] = json!(11);
    sandbox.remove_state();
    let refusal = json!({"error": {"type": "security_exception", "reason": "no permissions", "root_cause": []}, "status": 403});
    let gate = Gate::to(&sandbox.search.url).unwrap().answering("DELETE /", 1000, 403, &refusal);
    let tool = sandbox.tool(&["restore", "--from", "-"]).stdin(document.to_string()).env("SVC_SEARCH_URL", gate.url());
    let failed = tool.run().fails(7, "restore_failed").changed();
    assert_eq!(
        (state(&failed, "indices", "index", &gone), state(&failed, "indices", "index", &docs)),
        ("in_progress".to_owned(), "untouched".to_owned())
    );
    let causes = failed.doc()["error"]["causes"].to_string();
    assert!(sandbox.copies().iter().all(|copy| causes.contains(copy)) && sandbox.copies().len() == 1, "{failed}");
}

#[test]
fn a_restore_that_is_undone_and_whose_staging_stays_has_changed_something() {
    let sandbox = Sandbox::new("stays");
    sandbox.simple("docs", 10);
    let created = sandbox.create("s1");
    let refusal = |kind: &str| json!({"error": {"type": kind, "reason": "no", "root_cause": []}, "status": 403});
    let gate = Gate::to(&sandbox.search.url).unwrap().answering("POST /_aliases", 1, 400, &refusal("illegal_argument_exception"));
    let gate = gate.answering("DELETE /svc-staged-", 1000, 403, &refusal("security_exception"));
    let restore = sandbox.tool(&["restore", "--from", "-"]).stdin(created.text()).env("SVC_SEARCH_URL", gate.url());
    restore.run().fails(1, "search_refused").changed();
    assert_eq!(sandbox.copies().len(), 1);
}

#[test]
fn what_a_killed_restore_has_left_without_writes_under_a_live_name_is_discarded() {
    let sandbox = Sandbox::new("unopened").registered(&[("max_restore_bytes_per_sec", "100kb")]);
    let lost = sandbox.noise("lost", 20);
    sandbox.ask("PUT", &format!("/{lost}/_alias/{}", sandbox.name("alias")), None);
    let created = sandbox.create("s1");
    sandbox.ask("DELETE", &format!("/{lost}"), None);
    let run = "20261120t080001z-test";
    let restore = sandbox.tool(&["restore", "--from", "-", "--run-id", run]).stdin(created.text()).spawn();
    let record = sandbox.state.path().join(format!("swaps/{run}.svc-snap.json"));
    let has_uuid = |record: Value| record["result"]["indices"][0]["uuid"].is_string().then_some(());
    let read = || serde_json::from_str(&std::fs::read_to_string(&record).ok()?).ok().and_then(has_uuid);
    wait::until("the index in the record", wait::HANG, read).unwrap();
    restore.signal(Signal::SIGKILL);
    restore.wait();
    assert_eq!(sandbox.names(), [lost]);
    sandbox.run(&["discard", "--run", run]).ok().changed();
    assert_eq!(sandbox.names(), Vec::<String>::new());
}

#[test]
fn the_document_has_what_was_found_out_about_a_restore_whatever_becomes_of_its_record() {
    let sandbox = Sandbox::new("verdict");
    let docs = sandbox.simple("docs", 10);
    let created = sandbox.create("s1");
    let mut forged = created.doc().clone();
    forged["result"]["captured"][0]["docs_count"] = json!(11);
    sandbox.remove_state();
    let run = "20261120t080002z-test";
    let record = sandbox.state.path().join(format!("swaps/{run}.svc-snap.json"));
    let proxy = Gate::before(&sandbox.search.url, move |request| {
        if request.starts_with("POST /_msearch") && std::fs::remove_file(&record).is_ok() {
            std::fs::create_dir(&record).unwrap();
        }
        Ok(request.to_owned())
    });
    let restore = sandbox.tool(&["restore", "--in-place", "--on-conflict", "close", "--from", "-", "--run-id", run]);
    restore.stdin(forged.to_string()).env("SVC_SEARCH_URL", proxy.url()).run().fails(7, "restore_failed").changed();
    assert_eq!(sandbox.count(&docs), 10);
}

#[test]
fn the_disk_space_for_a_snapshot_is_what_the_server_says_or_what_was_captured_or_unknown() {
    let sandbox = Sandbox::new("sizes");
    let docs = sandbox.simple("docs", 10);
    let created = sandbox.create("s1");
    // What OpenSearch 2.19 says of a snapshot that has more shards than it looks at.
    let why = "[probe] Total shard count [2] is more than the maximum allowed value of shard count [1] for snapshot status request. Try \
        narrowing down the request by using a snapshot list or an index list for a singular snapshot.";
    let cause = json!({"type": "circuit_breaking_exception", "reason": why, "bytes_wanted": 0, "bytes_limit": 0, "durability": "PERMANENT"});
    let mut refusal = cause.clone();
    refusal["root_cause"] = json!([cause]);
    let refusal = http("429 Too Many Requests", "application/json", &json!({"error": refusal, "status": 429}).to_string());
    // And one that says it of some indices only.
    let some = http("200 OK", "application/json", &json!({"snapshots": [{"indices": {}}]}).to_string());
    if sandbox.search.product == Product::OpenSearch {
        let proxy = Gate::before(&sandbox.search.url, move |request| {
            if request.lines().next().unwrap_or_default().contains("/_status?") {
                Err(some.clone())
            } else {
                Ok(request.to_owned())
            }
        });
        let elsewhere = tempfile::tempdir().unwrap();
        let dry = sandbox.tool(&["stage", "--dry-run", "s1"]).env("SVC_STATE_DIR", elsewhere.path());
        let dry = dry.env("SVC_SEARCH_URL", proxy.url()).run().ok().warns("not_checked");
        assert_eq!(dry.result()["disk_space"]["needed_bytes"], Value::Null);
    }
    // Of very many shards it is not asked: in an object store a file is read for each.
    let snapshot = format!("/_snapshot/{}/s1", sandbox.prefix);
    let mut many = sandbox.ask("GET", &snapshot, None);
    many["snapshots"][0]["shards"] = json!({"total": 100_000, "successful": 100_000, "failed": 0});
    let gate = Gate::to(&sandbox.search.url).unwrap();
    let answer = http("200 OK", "application/json", &many.to_string());
    gate.rule(move |line| line == format!("GET {snapshot}"), Act::Answer(answer, false), 0, 9);
    let dry =
        sandbox.tool(&["stage", "--dry-run", "--from", "-"]).stdin(created.text()).env("SVC_SEARCH_URL", gate.url()).run().ok();
    assert!(dry.result()["disk_space"]["needed_bytes"].as_u64().unwrap() > 0, "{dry}");
    assert!(!gate.asked().iter().any(|request| request.contains("/_status?")), "{:?}", gate.asked());
    let proxy = Gate::before(&sandbox.search.url, move |request| {
        if request.lines().next().unwrap_or_default().contains("/_status?") {
            Err(refusal.clone())
        } else {
            Ok(request.to_owned())
        }
    });
    let staged = sandbox.tool(&["stage", "--from", "-"]).stdin(created.text()).env("SVC_SEARCH_URL", proxy.url()).run().ok();
    let needed = &staged.result()["disk_space"]["needed_bytes"];
    assert!(needed.as_u64().unwrap() > 0 && !staged.text().contains("not_checked"), "{staged}");
    let asked = proxy.asked().iter().any(|request| request.contains("/_status?"));
    assert_eq!(asked, sandbox.search.product == Product::OpenSearch);
    assert_eq!((sandbox.copies().len(), sandbox.count(&docs)), (1, 10));
}
