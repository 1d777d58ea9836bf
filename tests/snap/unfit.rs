//! What `svc-snap stage`, `swap`, `discard` and `restore` never make live: what is damaged, incomplete, or not meant.

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use svc_tests::damage;
use svc_tests::host::Host;
use svc_tests::proxy::{Gate, Side};
use svc_tests::run_id::run_id;
use svc_tests::sandbox::Sandbox;
use svc_tests::search::Settings;
use svc_tests::tool::Ran;

#[test]
fn a_count_that_is_not_what_was_captured_is_never_made_live() {
    let sandbox = Sandbox::new("count");
    let (a, b) = (sandbox.simple("a", 10), sandbox.simple("b", 5));
    let created = sandbox.create("s1");
    sandbox.fill(&a, 10, 13);
    let mut forged = created.doc().clone();
    for captured in
        forged["result"]["captured"].as_array_mut().unwrap().iter_mut().filter(|captured| captured["name"] == a.as_str())
    {
        captured["docs_count"] = json!(11);
    }
    assert_ne!(&forged, created.doc());
    sandbox.remove_state();
    let live = sandbox.content();
    for step in ["stage", "restore"] {
        let failed = sandbox.from_text(&[step], &forged.to_string()).fails(7, "restore_failed").unchanged();
        let message = failed.doc()["error"]["message"].as_str().unwrap();
        assert!(message.contains(" 10 ") && message.contains(" 11"), "{failed}");
        assert_eq!((sandbox.copies(), sandbox.content()), (Vec::new(), live.clone()), "{step}");
    }
    // Direct: there is nothing live that it could spoil.
    sandbox.ask("DELETE", &format!("/{a}"), None);
    let others = sandbox.content();
    sandbox.from_text(&["restore"], &forged.to_string()).fails(7, "restore_failed");
    assert_eq!((sandbox.copies(), &sandbox.content()[&b]), (Vec::new(), &others[&b]));
}

#[test]
fn a_snapshot_with_a_flipped_byte_shows_when_it_is_staged_and_the_live_index_never_notices() {
    let sandbox = Sandbox::new("flip");
    sandbox.simple("a", 40);
    let b = sandbox.index("b", json!({"settings": {"number_of_replicas": 0}}));
    sandbox.fill(&b, 0, 2000);
    let created = sandbox.create("s1");
    let live = sandbox.content();
    damage::flip_a_blob(&sandbox.location()).unwrap();
    for step in ["stage", "restore"] {
        let failed = sandbox.from(&[step], &created).fails(7, "restore_failed").unchanged();
        let error = &failed.doc()["error"];
        assert!(error["message"].as_str().unwrap().contains(&sandbox.prefix), "{failed}");
        assert!(error["causes"].to_string().contains("Corrupt"), "{failed}");
        assert_eq!(sandbox.copies(), Vec::<String>::new());
        assert_eq!(sandbox.content(), live);
    }
    assert_eq!(std::fs::read_dir(sandbox.state.path().join("swaps")).unwrap().count(), 0);
}

#[test]
fn what_is_absent_invalid_or_not_ours_is_refused_before_anything_is_changed() {
    let sandbox = Sandbox::new("bad");
    let live = sandbox.simple("docs", 10);
    let created = sandbox.create("s1");
    let staged = sandbox.from(&["stage"], &created).ok();
    let content = sandbox.content();
    sandbox.run(&["stage", "nowhere"]).fails(4, "snapshot_not_found").unchanged();
    sandbox.tool(&["restore", "s1"]).env("SVC_REPOSITORY", "sw-nowhere").run().fails(4, "repository_not_found").unchanged();
    sandbox.run(&["restore", "s1", "--indices", "nowhere"]).fails(4, "index_not_found").unchanged();
    sandbox.tool(&["restore", "s1", "--indices", &live]).env("SVC_INDICES", "other-*").run().refused("options_invalid");
    sandbox.tool(&["swap", "--from", "-"]).stdin(staged.text()).env("SVC_INDICES", "other-*").run().refused("options_invalid");
    sandbox.tool(&["restore", "s1"]).env("SVC_SEARCH_URL", "http://127.0.0.1:9").run().fails(5, "search_unreachable").unchanged();
    sandbox.run(&["swap", "--run", "20200101t000000z-none"]).fails(4, "swap_not_found").unchanged();
    // What a record said that a power cut has emptied is unknown.
    let run = staged.doc()["run_id"].as_str().unwrap();
    let record = sandbox.state.path().join(format!("swaps/{run}.svc-snap.json"));
    let text = fs::read_to_string(&record).unwrap();
    for half in ["", &text[..text.len() / 2]] {
        fs::write(&record, half).unwrap();
        for step in ["swap", "discard"] {
            let ran = sandbox.run(&[step, "--run", run]).fails(7, "file_invalid").unchanged();
            assert!(ran.doc()["error"]["hint"].as_str().unwrap().contains(record.to_str().unwrap()), "{ran}");
        }
        sandbox.run(&["stage", "s1", "--dry-run"]).ok().warns("file_invalid");
    }
    fs::write(&record, text).unwrap();
    let mut other = created.doc().clone();
    other["result"]["cluster_uuid"] = json!("another");
    sandbox.tool(&["stage", "--from", "-"]).stdin(other.to_string()).run().refused("other_server");
    let mut other = created.doc().clone();
    other["result"]["snapshot"]["uuid"] = json!("another");
    sandbox.tool(&["restore", "--from", "-"]).stdin(other.to_string()).run().refused("name_in_use");
    let mut forged = staged.doc().clone();
    forged["result"]["indices"][0]["copy"] = json!(live);
    forged["result"]["indices"][0]["index"] = json!("x");
    sandbox.tool(&["discard", "--from", "-"]).stdin(forged.to_string()).run().fails(2, "from_damaged").unchanged();
    assert_eq!(sandbox.content(), content);
    let gone = sandbox.from(&["discard"], &staged).ok();
    sandbox.from(&["swap"], &staged).refused("not_verified").unchanged();
    sandbox.from(&["swap"], &gone).fails(2, "from_invalid").unchanged();
}

#[test]
fn an_invalid_document_is_refused_by_every_step_that_resumes_from_one() {
    let sandbox = Sandbox::new("from");
    sandbox.simple("docs", 3);
    let created = sandbox.create("s1");
    let staged = sandbox.from(&["stage"], &created).ok();
    let content = sandbox.content();
    for (step, good) in [("stage", &created), ("restore", &created), ("swap", &staged), ("discard", &staged)] {
        let text = good.text();
        let mut failed = good.doc().clone();
        failed["ok"] = json!(false);
        failed["result"] = Value::Null;
        failed["error"] = json!({"code": "out_of_space", "message": "The disk is full.", "hint": "Make room.", "retryable": false, "causes": []});
        let foreign = text.replacen("svc-snap.", "svc-pgdump.", 1);
        for (input, code) in [
            (String::new(), "from_damaged"),
            (text[..text.len() / 2].to_owned(), "from_damaged"),
            (format!("{text}{text}"), "from_invalid"),
            (failed.to_string(), "out_of_space"),
            (foreign, "from_invalid"),
        ] {
            sandbox.tool(&[step, "--from", "-"]).stdin(input).run().fails(2, code).unchanged();
        }
    }
    assert_eq!(sandbox.content(), content);
}

#[test]
fn a_partial_snapshot_is_not_restored() {
    let sandbox = Sandbox::new("partial");
    let live = sandbox.simple("docs", 10);
    let lost = sandbox.red("lost");
    let body = json!({"indices": format!("{live},{lost}"), "partial": true, "include_global_state": false});
    sandbox.ask("PUT", &format!("/_snapshot/{}/s1?wait_for_completion=true", sandbox.prefix), Some(body));
    for step in ["stage", "restore"] {
        sandbox.run(&[step, "s1"]).fails(7, "snapshot_invalid").unchanged();
    }
    assert_eq!(sandbox.copies(), Vec::<String>::new());
}

#[test]
fn a_red_live_index_is_given_up_only_when_told_so() {
    let sandbox = Sandbox::new("red");
    let live = sandbox.simple("docs", 10);
    let created = sandbox.create("s1");
    let before = sandbox.content();
    sandbox.ask("DELETE", &format!("/{live}"), None);
    sandbox.red("docs");
    sandbox.from(&["restore"], &created).refused("indices_red");
    assert_eq!(sandbox.copies(), Vec::<String>::new());
    sandbox.from(&["restore", "--drop-old"], &created).ok();
    assert_eq!(sandbox.content(), before);
}

/// Refused before anything was changed, with a sentence that names the index and its block.
fn names_the_block(refused: &Ran, index: &str, block: &str) {
    let message = refused.doc()["error"]["message"].as_str().unwrap();
    assert!(message.contains(&format!("{index} (index.blocks.{block})")), "{refused}");
}

#[test]
fn a_live_index_whose_block_is_in_the_way_is_named_before_anything_is_changed() {
    let sandbox = Sandbox::new("blocked");
    let (docs, other) = (sandbox.simple("docs", 10), sandbox.simple("other", 3));
    let created = sandbox.create("s1");
    let staged = sandbox.from(&["stage"], &created).ok();
    let clone = sandbox.run(&["clone"]).ok();
    sandbox.fill(&docs, 10, 15);
    let (content, names) = (sandbox.content(), sandbox.names());
    for block in ["read_only", "read_only_allow_delete", "read"] {
        sandbox.block(&docs, block, true);
        for (args, document) in [
            (&["restore", "--dry-run"][..], &created),
            (&["restore"], &created),
            (&["restore", "--drop-old"], &created),
            (&["restore", "--in-place", "--on-conflict", "delete"], &created),
            (&["restore", "--in-place", "--on-conflict", "close"], &created),
            (&["swap"], &staged),
            (&["swap"], &clone),
        ] {
            names_the_block(&sandbox.from(args, document).refused("index_blocked"), &docs, block);
        }
        names_the_block(&sandbox.run(&["clone"]).refused("index_blocked"), &docs, block);
        // What this restore does not touch may have any block that the server's answers do not suffer from.
        sandbox.from(&["restore", "--dry-run", "--indices", &other], &created).ok();
        assert_eq!(sandbox.names(), names);
        if block == "read" {
            names_the_block(&sandbox.run(&["create", "s2"]).refused("index_blocked"), &docs, block);
        }
        sandbox.block(&docs, block, false);
    }
    assert_eq!(sandbox.content(), content);
}

#[test]
fn a_staged_copy_whose_block_is_in_the_way_is_named_before_anything_is_changed_and_becomes_live_without_it() {
    let sandbox = Sandbox::new("flooded");
    let docs = sandbox.simple("docs", 10);
    let created = sandbox.create("s1");
    let then = sandbox.content();
    let staged = sandbox.from(&["stage"], &created).ok();
    sandbox.fill(&docs, 10, 15);
    let (content, copies) = (sandbox.content(), sandbox.copies());
    // The flood stage of a full disk blocks every index that has a shard there, copies too.
    sandbox.block(&copies[0], "read_only_allow_delete", true);
    for args in [&["swap", "--dry-run"][..], &["swap"]] {
        let refused = sandbox.from(args, &staged).refused("index_blocked").unchanged();
        names_the_block(&refused, &copies[0], "read_only_allow_delete");
        assert_eq!((sandbox.content(), sandbox.copies()), (content.clone(), copies.clone()));
    }
    sandbox.block(&copies[0], "read_only_allow_delete", false);
    sandbox.from(&["swap"], &staged).ok();
    assert_eq!(sandbox.content(), then);
}

#[test]
fn what_takes_writes_again_before_the_exchange_is_not_exchanged() {
    let sandbox = Sandbox::new("unblocked");
    let docs = sandbox.simple("docs", 10);
    let created = sandbox.create("s1");
    sandbox.fill(&docs, 10, 15);
    let staged = sandbox.from(&["stage"], &created).ok();
    let (content, copies, counted) = (sandbox.content(), sandbox.copies(), AtomicUsize::new(0));
    let search = sandbox.search.clone();
    let gate = Gate::before(&sandbox.search.url, move |request| {
        // It counts what was staged, and then what it has cloned.
        if request.starts_with("POST /_msearch") && counted.fetch_add(1, Ordering::SeqCst) == 1 {
            let unblock = json!({"index.blocks.write": null});
            search.request("PUT", &format!("/{docs}/_settings"), Some(&unblock)).unwrap();
        }
        Ok(request.to_owned())
    });
    let swap = sandbox.tool(&["swap", "--from", "-"]).stdin(staged.text()).env("SVC_SEARCH_URL", gate.url());
    swap.run().refused("conflicting_index").unchanged();
    assert_eq!((sandbox.content(), sandbox.copies()), (content, copies));
}

#[test]
fn an_index_whose_metadata_are_blocked_is_named_by_every_step_and_a_snapshot_of_it_leaves_no_such_block() {
    // The servers answer 403 to whoever lists all indices while there is such a block: a server of its own.
    let host = Host::shared().unwrap();
    let own = host.search_server(&host.search.key, &Settings::default()).unwrap();
    let sandbox = Sandbox::on(own.search.clone(), "metadata").registered(&[]);
    let (docs, other) = (sandbox.simple("docs", 10), sandbox.simple("other", 3));
    let content = sandbox.content();
    sandbox.block(&docs, "metadata", true);
    for args in [&["create", "s1"][..], &["clone"], &["create", "s1", "--dry-run"]] {
        names_the_block(&sandbox.run(args).refused("index_blocked"), &docs, "metadata");
    }
    sandbox.run(&["create", "s1", "--indices", &other]).ok();
    names_the_block(&sandbox.run(&["restore", "s1"]).refused("index_blocked"), &docs, "metadata");
    let body = json!({"indices": format!("{}-*", sandbox.prefix), "include_global_state": false});
    sandbox.ask("PUT", &format!("/_snapshot/{}/s2?wait_for_completion=true", sandbox.prefix), Some(body));
    sandbox.block(&docs, "metadata", false);
    // To list the names is what the block forbids.
    let staged = sandbox.run(&["stage", "s2"]).ok();
    assert_eq!(sandbox.copies().len(), 2);
    sandbox.from(&["swap"], &staged).ok();
    assert_eq!(sandbox.content(), content);
    sandbox.ask("DELETE", &format!("/{docs}"), None);
    for args in [&["restore", "s2"][..], &["restore", "s2", "--in-place", "--on-conflict", "close"]] {
        sandbox.run(args).ok();
        assert_eq!(sandbox.content(), content, "{args:?}");
    }
}

#[test]
fn an_alias_of_the_backup_that_is_the_name_of_an_index_is_refused_before_anything_is_staged() {
    let sandbox = Sandbox::new("alias-index");
    let alias = sandbox.name("alias");
    let docs = sandbox.index("docs", json!({"settings": {"number_of_replicas": 0}, "aliases": {&alias: {}}}));
    sandbox.simple("more", 3);
    let created = sandbox.create("s1");
    let staged = sandbox.from(&["stage"], &created).ok();
    sandbox.ask("DELETE", &format!("/{docs}/_alias/{alias}"), None);
    sandbox.simple("alias", 2);
    let refused =
        |ran: Ran| assert!(ran.refused("conflicting_index").doc()["error"]["message"].as_str().unwrap().contains(&alias));
    let content = sandbox.content();
    refused(sandbox.from(&["swap", "--dry-run"], &staged));
    refused(sandbox.from(&["swap"], &staged));
    sandbox.from(&["discard"], &staged).ok();
    for step in [&["restore", "--dry-run"][..], &["restore"]] {
        refused(sandbox.from(step, &created));
        assert_eq!((sandbox.copies(), sandbox.content()), (Vec::new(), content.clone()));
    }
    // And where the index itself is not live any more.
    sandbox.ask("DELETE", &format!("/{docs}"), None);
    let content = sandbox.content();
    refused(sandbox.from(&["restore"], &created));
    assert_eq!((sandbox.copies(), sandbox.content()), (Vec::new(), content));
}

/// A dozen indices (or forty) of three documents, all with one alias and one of them with another, a snapshot of them, and what is
/// staged of it; they hold more since.
fn many(sandbox: &Sandbox) -> (Vec<String>, Ran, Ran) {
    let alias = |n: usize| json!({sandbox.name("all"): {}, sandbox.name(if n == 7 { "seven" } else { "all" }): {}});
    let body = |n: usize| json!({"settings": {"number_of_replicas": 0}, "aliases": alias(n)});
    let indices: Vec<String> = (0..svc_tests::rounds("indices that are swapped together", 12, 40))
        .map(|n| sandbox.index(&format!("i{n:02}"), body(n)))
        .collect();
    indices.iter().for_each(|index| sandbox.fill(index, 0, 3));
    let created = sandbox.create("s1");
    let staged = sandbox.from(&["stage"], &created).ok();
    indices.iter().for_each(|index| sandbox.fill(index, 3, 5));
    (indices, created, staged)
}

#[test]
fn of_many_indices_none_is_swapped_where_one_cannot_be() {
    let sandbox = Sandbox::new("many");
    let (indices, created, staged) = many(&sandbox);
    let (content, copies) = (sandbox.content(), sandbox.copies());
    let run = staged.result()["run"].as_str().unwrap();
    let is_old = |ran: &Ran| assert_eq!((sandbox.content(), sandbox.copies()), (content.clone(), copies.clone()), "{ran}");

    // The flood stage of a full disk has blocked one of them.
    sandbox.block(&indices[10], "read_only_allow_delete", true);
    let blocked = sandbox.content();
    for (step, document) in [("swap", &staged), ("restore", &created)] {
        names_the_block(&sandbox.from(&[step], document).refused("index_blocked"), &indices[10], "read_only_allow_delete");
        assert_eq!((sandbox.content(), sandbox.copies()), (blocked.clone(), copies.clone()), "{step}");
    }
    sandbox.block(&indices[10], "read_only_allow_delete", false);

    // An index has the name of an alias of the backup.
    sandbox.ask("DELETE", &format!("/{}/_alias/{}", indices[7], sandbox.name("seven")), None);
    let seven = sandbox.simple("seven", 1);
    for (step, document) in [("swap", &staged), ("restore", &created)] {
        let refused = sandbox.from(&[step], document).refused("conflicting_index");
        assert!(refused.doc()["error"]["message"].as_str().unwrap().contains(&seven), "{refused}");
        assert_eq!(sandbox.copies(), copies);
    }
    sandbox.ask("DELETE", &format!("/{seven}"), None);
    sandbox.ask("PUT", &format!("/{}/_alias/{seven}", indices[7]), None);

    // The server refuses to clone one of them, to exchange them, or to block some.
    let refusal = json!({"error": {"type": "illegal_argument_exception", "reason": "a mishap", "root_cause": []}, "status": 400});
    for (to, times) in [(format!("POST /{}/_clone/", indices[10]), 1), ("POST /_aliases".to_owned(), 1), ("PUT /".to_owned(), 1)]
    {
        let gate = Gate::to(&sandbox.search.url).unwrap().answering(&to, times, 400, &refusal);
        let swap = sandbox.tool(&["swap", "--from", "-"]).stdin(staged.text()).env("SVC_SEARCH_URL", gate.url());
        let failed = swap.run().fails(1, "search_refused").unchanged();
        assert_eq!(failed.states(), vec!["old"; indices.len()], "{to}");
        is_old(&failed);
    }
    // A restore takes away what it has staged, too.
    let gate = Gate::to(&sandbox.search.url).unwrap().answering("POST /_aliases", 1, 400, &refusal);
    let restore = sandbox.tool(&["restore", "--from", "-"]).stdin(created.text()).env("SVC_SEARCH_URL", gate.url());
    is_old(&restore.run().fails(1, "search_refused").unchanged());
    let swapped = sandbox.from(&["swap"], &staged).ok().changed();
    assert!(indices.iter().all(|index| sandbox.count(index) == 3));
    assert_eq!(swapped.states(), vec!["new"; indices.len()]);
    assert_eq!(sandbox.copies().len(), indices.len());
    sandbox.run(&["swap", "--run", run, "--back"]).ok().changed();
    assert_eq!(sandbox.content(), content);
}

#[test]
fn a_swap_of_many_that_is_cut_behind_its_exchange_is_finished_by_the_next_call() {
    let sandbox = Sandbox::new("many-cut");
    let (indices, created, staged) = many(&sandbox);
    let plan = sandbox.from(&["swap", "--dry-run"], &staged).ok();
    let paths = plan.result()["plan"].as_array().unwrap();
    let exchange = 1 + paths.iter().position(|one| one["path"] == "/_aliases").unwrap();
    sandbox.from(&["discard"], &staged).ok();
    let (all, backup) = (sandbox.name("all"), 3 * indices.len() as u64);
    for (n, (number, side)) in
        [(exchange, Side::After), (exchange + indices.len() / 2, Side::Before), (exchange + indices.len() + 1, Side::After)]
            .into_iter()
            .enumerate()
    {
        indices.iter().for_each(|index| sandbox.fill(index, 3, 5));
        let run = run_id(10 + n);
        let staged = sandbox.tool(&["stage", "--from", "-", "--run-id", &run]).stdin(created.text()).run().ok();
        Gate::kill_at(&sandbox.search.url, number, side, sandbox.tool(&["swap", "--from", "-"]).stdin(staged.text()));
        assert_eq!(sandbox.count(&all), backup, "the alias leads to the backup, all of it");
        sandbox.run(&["discard", "--run", &run]).refused("swap_unfinished");
        let finished = if n == 1 { sandbox.run(&["swap", "--run", &run]) } else { sandbox.from(&["swap"], &staged) };
        assert_eq!(finished.ok().changed().states(), vec!["new"; indices.len()], "{number}");
        assert!(indices.iter().all(|index| sandbox.count(index) == 3 && sandbox.blocks(index).is_empty()), "{number}");
        assert_eq!(sandbox.count(&all), backup);
        sandbox.run(&["discard", "--run", &run]).ok();
        assert_eq!(sandbox.copies(), Vec::<String>::new());
    }
}

/// A server of the test's own: its limits are set.
#[test]
fn a_swap_that_would_come_to_the_limit_of_shards_is_refused_before_anything_is_changed() {
    let host = Host::shared().unwrap();
    let own = host.search_server(&host.search.key, &Settings::default()).unwrap();
    let sandbox = Sandbox::on(own.search.clone(), "shards").registered(&[]);
    let docs = sandbox.index("docs", json!({"settings": {"number_of_replicas": 2}}));
    sandbox.fill(&docs, 0, 3);
    let created = sandbox.create("s1");
    // What becomes live has two replicas, which count although no node takes them.
    sandbox.ask("PUT", &format!("/{docs}/_settings"), Some(json!({"index.number_of_replicas": 0})));
    sandbox.fill(&docs, 3, 5);
    let staged = sandbox.from(&["stage"], &created).ok();
    let (content, copies) = (sandbox.content(), sandbox.copies());
    let health = sandbox.ask("GET", "/_cluster/health", None);
    let used: u64 =
        ["active_shards", "initializing_shards", "unassigned_shards"].map(|key| health[key].as_u64().unwrap()).iter().sum();
    let limit = |most: u64| {
        drop(sandbox.ask("PUT", "/_cluster/settings", Some(json!({"persistent": {"cluster.max_shards_per_node": most}}))))
    };
    // The clone of what is live, in whose place the new one comes, with its replicas.
    for room in [0, 2] {
        limit(used + room);
        for args in [&["swap", "--dry-run"][..], &["swap"]] {
            sandbox.from(args, &staged).refused("out_of_space").unchanged();
            assert_eq!((sandbox.content(), sandbox.copies()), (content.clone(), copies.clone()));
        }
    }
    limit(used + 3);
    // What is staged already is not counted as if it were still to come.
    let run = staged.result()["run"].as_str().unwrap();
    sandbox.from(&["restore", "--dry-run", "--run-id", run], &created).ok().unchanged();
    sandbox.from(&["swap"], &staged).ok().changed();
    assert_eq!(sandbox.count(&docs), 3);
}

/// A server of the test's own: no shard is placed on it.
#[test]
#[ignore = "takes a minute"]
fn a_staging_that_no_node_takes_ends_and_leaves_nothing() {
    let host = Host::shared().unwrap();
    let own = host.search_server(&host.search.key, &Settings::default()).unwrap();
    let sandbox = Sandbox::on(own.search.clone(), "nowhere").registered(&[]);
    let docs = sandbox.simple("docs", 10);
    let created = sandbox.create("s1");
    sandbox.ask("PUT", "/_cluster/settings", Some(json!({"persistent": {"cluster.routing.allocation.enable": "none"}})));
    let ended = sandbox.from(&["stage"], &created).fails(6, "timeout").unchanged();
    assert!(ended.doc()["error"]["causes"][0].as_str().unwrap().contains(&docs), "{ended}");
    assert_eq!(sandbox.names(), [docs]);
}
