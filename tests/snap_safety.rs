//! What is live is given up only for what is proven, and no document says that nothing was changed where nobody knows.

use serde_json::{Value, json};
use svc_tests::proxy::{Gate, Side, http};
use svc_tests::sandbox::Sandbox;
use svc_tests::search::Product;
use svc_tests::tool::Ran;

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
fn a_staged_copy_that_is_not_as_it_was_proven_never_replaces_what_is_live() {
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
    sandbox.from(&["restore", "--in-place", "--on-conflict", "close"], &created).ok().warns("restored_in_place");
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
    // The restore itself, of which the server goes on alone.
    sandbox.fill(&docs, 10, 15);
    let gate = Gate::to(&sandbox.search.url).unwrap().close_at(2, Side::After).hanging_up();
    let lost = restore("close", &gate).fails(6, "answer_lost").changed();
    assert_eq!(gate.seen().len(), 2, "nothing is opened again: {:?}", gate.seen());
    assert_eq!(state(&lost, "indices", "index", &docs), "in_progress");
    // The same command of the same run waits for it and verifies it; it restores nothing again.
    let run = lost.doc()["run_id"].as_str().unwrap();
    let gate = Gate::to(&sandbox.search.url).unwrap();
    let resume = ["restore", "--in-place", "--on-conflict", "close", "--from", "-", "--run-id", run];
    let resumed = sandbox.tool(&resume).stdin(created.text()).env("SVC_SEARCH_URL", gate.url()).run().ok().unchanged();
    assert_eq!((gate.seen().len(), state(&resumed, "indices", "index", &docs)), (0, "restored".to_owned()));
    assert_eq!((&resumed.result()["indices"][0]["docs_count"], sandbox.count(&docs)), (&json!(10), 10));
    // What is written afterwards is nobody's to verify.
    sandbox.fill(&docs, 10, 15);
    sandbox.tool(&resume).stdin(created.text()).run().ok().unchanged();
    assert_eq!(sandbox.count(&docs), 15);
    sandbox.run(&["discard", "--run", run]).fails(4, "previous_missing");
    // The deletion before it.
    let gate = Gate::to(&sandbox.search.url).unwrap().close_at(1, Side::After).hanging_up();
    let lost = restore("delete", &gate).fails(6, "answer_lost");
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
        let gate = Gate::to(&sandbox.search.url).unwrap().close_at(1, side).hanging_up();
        let tool = sandbox.tool(&["stage", "--from", "-", "--run-id", run]).stdin(created.text());
        let lost = tool.env("SVC_SEARCH_URL", gate.url()).run().fails(6, "answer_lost");
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
fn a_restore_that_can_take_nothing_back_says_what_it_left() {
    let sandbox = Sandbox::new("left");
    let (docs, gone) = (sandbox.simple("docs", 10), sandbox.simple("gone", 10));
    let created = sandbox.create("s1");
    sandbox.ask("DELETE", &format!("/{gone}"), None);
    let mut document = created.doc().clone();
    let noted = document["result"]["captured"].as_array_mut().unwrap().iter_mut().find(|one| one["name"] == docs.as_str());
    noted.unwrap()["docs_count"] = json!(11);
    sandbox.forget();
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
fn the_room_for_a_snapshot_is_read_without_its_shards_or_said_to_be_unknown() {
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
    let proxy = Gate::before(&sandbox.search.url, move |request| {
        if request.lines().next().unwrap_or_default().contains("/_status?") {
            Err(refusal.clone())
        } else {
            Ok(request.to_owned())
        }
    });
    let staged = sandbox.tool(&["stage", "--from", "-"]).stdin(created.text()).env("SVC_SEARCH_URL", proxy.url()).run().ok();
    let needed = &staged.result()["disk_space"]["needed_bytes"];
    if sandbox.search.product == Product::Elasticsearch {
        assert!(needed.as_u64().unwrap() > 0 && !proxy.asked().iter().any(|request| request.contains("/_status?")), "{staged}");
    } else {
        assert_eq!(*needed, Value::Null);
        staged.warns("not_checked");
    }
    assert_eq!((sandbox.copies().len(), sandbox.count(&docs)), (1, 10));
}
