//! What is live is given up only for what is verified, and no document says that nothing was changed if nobody knows.

use svc_tests::prelude::*;

fn state<'a>(ran: &'a Ran, index: &str) -> &'a str {
    ran.result()["indices"].as_array().unwrap().iter().find(|one| one["index"] == index).unwrap()["state"].as_str().unwrap()
}

fn is_closed(sandbox: &Sandbox, index: &str) -> bool {
    let shown = sandbox.ask("GET", &format!("/_cat/indices/{index}?format=json&h=status&expand_wildcards=all"), None);
    shown[0]["status"] == "close"
}

#[test]
fn changed_staged_copy_is_not_swapped() {
    let (sandbox, docs, _, staged) = Sandbox::staged("unsound");
    let copy = staged.texts("indices", "copy").remove(0);
    let refused = |why: &str| {
        for args in [&["swap"][..], &["swap", "--drop-old"]] {
            sandbox.from(args, &staged).refused("not_verified").unchanged().error_has(&[why]);
            assert_eq!(sandbox.count(&docs), 15, "{args:?}");
        }
    };
    sandbox.block(&copy, "write", false);
    // The servers would not clone it to the live name.
    refused("takes writes");
    sandbox.ask("PUT", &format!("/{copy}/_doc/surplus?refresh=true"), Some(json!({"n": 1})));
    sandbox.block(&copy, "write", true);
    refused("(11 instead of 10)");
    sandbox.block(&copy, "write", false);
    sandbox.ask("DELETE", &format!("/{copy}/_doc/surplus?refresh=true"), None);
    sandbox.block(&copy, "write", true);
    sandbox.from(&["swap", "--drop-old"], &staged).ok().changed();
    assert_eq!(sandbox.count(&docs), 10);
}

#[test]
fn in_place_restore_of_live_or_closed_index_needs_on_conflict() {
    let (sandbox, docs, created) = Sandbox::saved("closed");
    let refused = || sandbox.from(&["restore", "--in-place"], &created).refused("name_in_use").error_has(&[&docs]);
    refused();
    assert_eq!(sandbox.count(&docs), 15);
    sandbox.ask("POST", &format!("/{docs}/_close"), None);
    refused();
    assert!(is_closed(&sandbox, &docs));
    let restored = sandbox.from(&CLOSE, &created).ok().changed().warns("not_verified");
    assert_eq!((state(&restored, &docs), sandbox.count(&docs)), ("restored", 10));
    sandbox.from(&["swap"], &restored).fails(4, "swap_not_found");
    sandbox.delete(&docs);
    sandbox.run(&["restore", "--in-place", "s1"]).ok();
    assert_eq!(sandbox.count(&docs), 10);
}

#[test]
fn in_place_restore_that_was_not_awaited_is_verified_by_same_command() {
    let (sandbox, docs, created) = Sandbox::saved("lost");
    let poll = "/_cluster/state/customs";
    let away = sandbox.gate();
    away.rule(move |line| line.contains(poll), Act::Cut(At::Request(0), End::Close), 0, 1000);
    for (n, (gate, limit, status, code)) in (0..).zip([
        // The answer to the restore itself, which the server continues alone.
        (sandbox.gate().close_on("/_restore", Side::After).hanging_up(), "10m", 6, "outcome_unknown"),
        (away, "10m", 5, "search_unreachable"),
        (sandbox.gate().close_before(poll, 1), "20s", 6, "timeout"),
    ]) {
        let run = run_id(n);
        let restore = |args: &[&str]| sandbox.resuming(&CLOSE, &created).args(["--run-id", &run]).args(args);
        let left = restore(&["--timeout", limit]).via(&gate).run().fails(status, code).changed().error_has(&[&run]);
        assert_eq!((gate.changes().len(), state(&left, &docs)), (2, "in_progress"), "nothing is opened again\n{left}");
        sandbox.from(&["stage", "--run-id", &run], &created).refused("name_in_use");
        sandbox.from(&["wait"], &left).fails(2, "from_invalid").unchanged();
        assert_eq!(state(&restore(&["--dry-run"]).run().ok().unchanged(), &docs), "in_progress", "{code}");
        let gate = sandbox.gate();
        let resumed = restore(&[]).via(&gate).run().ok().unchanged();
        assert_eq!((gate.changes().len(), state(&resumed, &docs)), (0, "restored"), "{code}");
        assert_eq!((&resumed.result()["indices"][0]["docs_count"], sandbox.count(&docs)), (&json!(10), 10), "{code}");
        // What is written afterwards is nobody's to verify.
        sandbox.fill(&docs, 10, 15);
        restore(&[]).run().ok().unchanged();
        assert_eq!(sandbox.count(&docs), 15, "{code}");
        sandbox.run(&["discard", "--run", &run]).fails(4, "swap_not_found");
    }
    let gate = sandbox.gate().close_on("DELETE ", Side::After).hanging_up();
    let lost = sandbox.resuming(&DELETE, &created).via(&gate).run().fails(6, "outcome_unknown");
    assert_eq!((&lost.doc()["changed"], state(&lost, &docs)), (&Value::Null, "in_progress"), "{lost}");
    sandbox.from(&DELETE, &created).ok().changed();
    assert_eq!(sandbox.count(&docs), 10);
}

#[test]
fn indices_are_reopened_if_one_cannot_be_closed() {
    let sandbox = Sandbox::new("reopen");
    let (a, b) = (sandbox.simple("a", 10), sandbox.simple("b", 10));
    let created = sandbox.create("s1");
    let gate = sandbox.gate().refusing(&format!("POST /{b}/_close"), 1, (403, "cluster_block_exception", "index [b] blocked"));
    let refused = sandbox.resuming(&CLOSE, &created).via(&gate).run().unchanged();
    assert_ne!(refused.status, 0, "{refused}");
    for index in [&a, &b] {
        assert_eq!((is_closed(&sandbox, index), state(&refused, index)), (false, "untouched"), "{index}");
    }
    // So is what a killed call has closed.
    let restore = || sandbox.resuming(&CLOSE, &created).args(["--run-id", &run_id(1)]);
    sandbox.gate().close_at(1, Side::After).kill(restore());
    assert!(is_closed(&sandbox, &a));
    let gate = sandbox.gate().refusing(&format!("POST /_snapshot/{}/s1/_restore", sandbox.prefix), 1, DENIED);
    let refused = restore().via(&gate).run().refused("permission_denied");
    assert_eq!((is_closed(&sandbox, &a), state(&refused, &a)), (false, "untouched"), "{refused}");
    // What was closed before stays so.
    sandbox.ask("POST", &format!("/{a}/_close"), None);
    let gate = sandbox.gate().refusing(&format!("DELETE /{a}"), 1, DENIED);
    sandbox.resuming(&DELETE, &created).via(&gate).run().refused("permission_denied");
    assert!(is_closed(&sandbox, &a));
}

#[test]
fn live_index_opened_by_hand_after_kill_is_not_taken_as_restored() {
    let (sandbox, docs, created) = Sandbox::saved("opened");
    let restore = || sandbox.resuming(&CLOSE, &created).args(["--run-id", &run_id(1)]);
    sandbox.gate().close_on("/_restore", Side::Before).kill(restore());
    sandbox.ask("POST", &format!("/{docs}/_open"), None);
    restore().run().ok().changed();
    assert_eq!(sandbox.count(&docs), 10);
    restore().run().ok().unchanged();
}

#[test]
fn stage_without_answer_reports_unchanged_or_unknown() {
    let (sandbox, _, created) = Sandbox::saved("unsure");
    for (side, run) in [(Side::After, "20261120t070001z-test"), (Side::Before, "20261120t070002z-test")] {
        let gate = sandbox.gate().close_on("/_restore", side).hanging_up();
        let lost = sandbox.resuming(&["stage", "--run-id", run], &created).via(&gate).run().fails(6, "outcome_unknown");
        assert!(sandbox.copies().is_empty(), "{lost}");
        if side == Side::After {
            lost.unchanged();
        } else {
            assert!(lost.doc()["changed"].is_null(), "{lost}");
            lost.error_has(&[&format!("discard --run {run}")]);
            sandbox.run(&["discard", "--run", run]).ok();
        }
    }
}

#[test]
fn stage_and_in_place_restore_retry_busy_server() {
    let (sandbox, docs, created) = Sandbox::saved("busy");
    // After half a minute in the queue of its master.
    let why = "failed to process cluster event (restore_snapshot[s1]) within 30s";
    for args in [&["stage"][..], &CLOSE] {
        let gate = sandbox.gate().refusing("POST /_snapshot", 2, (429, "process_cluster_event_timeout_exception", why));
        // One poll of a restore of hours.
        let gate =
            gate.refusing("GET /_cluster/state/customs", 2, (429, "circuit_breaking_exception", "[parent] Data too large"));
        sandbox.resuming(args, &created).via(&gate).run().ok().changed();
    }
    assert_eq!((sandbox.copies().len(), sandbox.count(&docs)), (1, 10));
}

#[test]
fn restore_that_cannot_undo_names_remaining_copies() {
    let sandbox = Sandbox::new("left");
    let (docs, gone) = (sandbox.simple("docs", 10), sandbox.simple("gone", 10));
    let created = sandbox.create("s1");
    sandbox.delete(&gone);
    let mut document = created.doc().clone();
    let captured = document["result"]["captured"].as_array_mut().unwrap().iter_mut().find(|one| one["name"] == docs.as_str());
    captured.unwrap()["docs_count"] = json!(11);
    sandbox.remove_state();
    let gate = sandbox.gate().refusing("DELETE /", 1000, DENIED);
    let failed = sandbox.tool(&["restore", "--from", "-"]).stdin(document.to_string()).via(&gate).run();
    let failed = failed.fails(7, "content_differs").changed();
    assert_eq!((state(&failed, &gone), state(&failed, &docs)), ("in_progress", "untouched"));
    let copies = sandbox.copies();
    assert_eq!(copies.len(), 1, "{failed}");
    failed.error_has(&[&copies[0]]);
}

#[test]
fn failed_restore_that_leaves_copies_reports_changed() {
    let (sandbox, _, created) = Sandbox::saved("stays");
    let gate = sandbox.gate().refusing("POST /_aliases", 1, MISHAP).refusing("DELETE /svc-staged-", 1000, DENIED);
    sandbox.resuming(&["restore"], &created).via(&gate).run().fails(1, "server_refused").changed();
    assert_eq!(sandbox.copies().len(), 1);
}

#[test]
fn restore_reports_content_differs_without_record() {
    let (sandbox, docs, created) = Sandbox::saved("verdict");
    let mut forged = created.doc().clone();
    forged["result"]["captured"][0]["docs_count"] = json!(11);
    sandbox.remove_state();
    let run = "20261120t080002z-test";
    let record = sandbox.state.path().join(format!("swaps/{run}.svc-snap.json"));
    let gate = sandbox.gate().close_before("POST /_msearch", 1);
    let restore = sandbox.tool(&CLOSE).args(["--from", "-", "--run-id", run]).stdin(forged.to_string());
    let ended = gate.during(restore, || {
        fs::remove_file(&record).unwrap();
        fs::create_dir(&record).unwrap();
    });
    ended.fails(7, "content_differs").changed();
    assert_eq!(sandbox.count(&docs), 10);
}

#[test]
fn stage_takes_needed_bytes_from_snapshot_status_or_capture() {
    let (sandbox, docs, created) = Sandbox::saved("sizes");
    let says = sandbox.search.product == Product::OpenSearch;
    let stage = |gate: &Gate| sandbox.resuming(&["stage"], &created).via(gate);
    let is_asked = |gate: &Gate| gate.asked().iter().any(|request| request.contains("/_status?"));
    let status = format!("GET /_snapshot/{}/s1/_status?", sandbox.prefix);
    // A server that says it of some indices only.
    if says {
        let gate = sandbox.gate().answering(&status, 9, 200, &json!({"snapshots": [{"indices": {}}]}));
        let dry = sandbox.elsewhere(sandbox.tool(&["stage", "--dry-run", "s1"])).via(&gate).run().ok().warns("not_checked");
        assert_eq!((&dry.result()["disk_space"]["needed_bytes"], is_asked(&gate)), (&Value::Null, true), "{dry}");
    }
    // Of very many shards it is not asked: in an object store a file is read for each.
    let snapshot = format!("/_snapshot/{}/s1", sandbox.prefix);
    let mut many = sandbox.ask("GET", &snapshot, None);
    many["snapshots"][0]["shards"] = json!({"total": 100_000, "successful": 100_000, "failed": 0});
    let gate = sandbox.gate();
    let answer = http("200 OK", "application/json", &many.to_string());
    gate.rule(move |line| line == format!("GET {snapshot}"), Act::Answer(answer, false), 0, 9);
    let dry = stage(&gate).arg("--dry-run").run().ok();
    assert!(dry.result()["disk_space"]["needed_bytes"].as_u64().unwrap() > 0 && !is_asked(&gate), "{dry}");
    // What OpenSearch 2.19 says of a snapshot that has more shards than it checks.
    let why = "[probe] Total shard count [2] is more than the maximum allowed value of shard count [1] for snapshot status \
        request. Try narrowing down the request by using a snapshot list or an index list for a singular snapshot.";
    let gate = sandbox.gate().refusing(&status, 9, (429, "circuit_breaking_exception", why));
    let staged = stage(&gate).run().ok();
    let needed = &staged.result()["disk_space"]["needed_bytes"];
    assert!(needed.as_u64().unwrap() > 0 && !staged.text().contains("not_checked"), "{staged}");
    assert_eq!((is_asked(&gate), sandbox.copies().len(), sandbox.count(&docs)), (says, 1, 15));
}

#[test]
fn restore_by_name_uses_capture_of_this_host() {
    let sandbox = Sandbox::new("captured");
    let alias = sandbox.name("alias");
    let docs = sandbox.written_through(&alias, "docs");
    sandbox.fill(&docs, 0, 10);
    sandbox.create("s1");
    let before = sandbox.content();
    sandbox.ask("DELETE", &format!("/{docs}/_alias/{alias}"), None);
    sandbox.fill(&docs, 10, 15);
    for step in ["stage", "restore"] {
        let ran = sandbox.run(&[step, "s1"]).ok().changed();
        assert_eq!((&ran.result()["indices"][0]["docs_expected"], &ran.doc()["warnings"]), (&json!(10), &json!([])), "{ran}");
    }
    assert_eq!(sandbox.content(), before);
}

#[test]
fn same_run_id_for_different_restore_is_refused() {
    let sandbox = Sandbox::new("one-run");
    let (a, b) = (sandbox.simple("a", 3), sandbox.simple("b", 3));
    sandbox.create("s1");
    let restore = |indices: &str| sandbox.run(&["restore", "s1", "--indices", indices, "--run-id", &run_id(1)]);
    restore(&a).ok().changed();
    restore(&a).ok().unchanged();
    // What the run has done is not what is wanted now.
    let refused = restore(&b).refused("name_in_use");
    assert!(!refused.hint().contains("discard"), "its way back is not to be removed\n{refused}");
    restore(&format!("{a},{b}")).refused("name_in_use");
}

/// By every step that continues from one. (A script's settings may name another repository.)
#[test]
fn repository_on_command_line_that_contradicts_document_is_refused() {
    let (sandbox, _, created) = Sandbox::saved("beside");
    let (two, one) = (sandbox.name("two"), sandbox.prefix.clone());
    for step in ["show", "wait", "stage", "restore", "delete"] {
        let refused = sandbox.from(&[step, "--repository", &two], &created).fails(2, "options_invalid").unchanged();
        refused.error_has(&[&one, &two, "--other-server"]);
    }
    sandbox.from(&["show", "--repository", &one], &created).ok();
    sandbox.resuming(&["show"], &created).env("SVC_REPOSITORY", &two).run().ok();

    // Its directory under another name.
    let definition = sandbox.ask("GET", &format!("/_snapshot/{one}"), None)[&one].clone();
    sandbox.ask("DELETE", &format!("/_snapshot/{one}"), None);
    sandbox.ask("PUT", &format!("/_snapshot/{two}"), Some(definition));
    for step in ["show", "wait", "stage", "restore", "delete"] {
        let lost = sandbox.from(&[step], &created).fails(4, "repository_not_found").unchanged();
        lost.error_has(&["--other-server --repository NAME"]);
    }
    sandbox.from(&["delete", "--other-server", "--repository", &two], &created).ok().changed();
    sandbox.ask("DELETE", &format!("/_snapshot/{two}"), None);
}
