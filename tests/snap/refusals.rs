//! What `svc-snap stage`, `swap`, `discard` and `restore` never make live: what is damaged, incomplete, or not meant; and what the
//! servers refuse.

use svc_tests::prelude::*;

#[test]
fn count_differing_from_capture_is_never_made_live() {
    let sandbox = Sandbox::new("count");
    let (a, b) = (sandbox.simple("a", 10), sandbox.simple("b", 5));
    let created = sandbox.create("s1");
    sandbox.fill(&a, 10, 13);
    let mut forged = created.doc().clone();
    let captured = forged["result"]["captured"].as_array_mut().unwrap();
    captured.iter_mut().find(|one| one["name"] == a.as_str()).unwrap()["docs_count"] = json!(11);
    sandbox.remove_state();
    let live = sandbox.content();
    for step in ["stage", "restore"] {
        sandbox.from_text(&[step], &forged.to_string()).fails(7, "content_differs").unchanged().error_has(&[" 10 ", " 11"]);
        assert_eq!((sandbox.copies(), sandbox.content()), (Vec::new(), live.clone()), "{step}");
    }
    // Direct: there is nothing live that it could spoil.
    sandbox.delete(&a);
    let others = sandbox.content();
    sandbox.from_text(&["restore"], &forged.to_string()).fails(7, "content_differs");
    assert_eq!((sandbox.copies(), &sandbox.content()[&b]), (Vec::new(), &others[&b]));
}

#[test]
fn corrupt_snapshot_fails_stage_and_restore() {
    let sandbox = Sandbox::new("flip");
    sandbox.simple("a", 40);
    let b = sandbox.index("b", json!({"settings": {"number_of_replicas": 0}}));
    sandbox.fill(&b, 0, 2000);
    let created = sandbox.create("s1");
    let live = sandbox.content();
    damage::flip_a_blob(&sandbox.location()).unwrap();
    for step in ["stage", "restore"] {
        sandbox.from(&[step], &created).fails(7, "snapshot_invalid").unchanged().error_has(&[&sandbox.prefix, "Corrupt"]);
        assert!(sandbox.copies().is_empty());
        assert_eq!(sandbox.content(), live);
    }
    assert_eq!(fs::read_dir(sandbox.state.path().join("swaps")).unwrap().count(), 0);
}

#[test]
fn stage_names_copies_that_another_client_removed_or_closed() {
    let (sandbox, live, created) = Sandbox::saved("taken");
    for (method, path) in [("DELETE", ""), ("POST", "/_close")] {
        let gate = sandbox.gate().close_on("/_restore", Side::After);
        let held = gate.hold(sandbox.resuming(&["stage"], &created));
        let copy = wait::so("the copy", || sandbox.copies().pop());
        sandbox.ask("GET", &format!("/_cluster/health/{copy}?wait_for_status=green&timeout=120s"), None);
        sandbox.ask(method, &format!("/{copy}{path}"), None);
        gate.open();
        let failed = held.wait().refused("name_in_use").unchanged().error_has(&["removed or closed", &copy]);
        sandbox.from(&["swap"], &failed).fails(2, "name_in_use").unchanged();
        assert_eq!(sandbox.names(), [live.as_str()]);
    }
}

#[test]
fn missing_invalid_or_out_of_scope_input_is_refused() {
    let (sandbox, live, _, staged) = Sandbox::staged("bad");
    let content = sandbox.content();
    sandbox.resuming(&["swap"], &staged).env("SVC_INDICES", "other-*").run().refused("options_invalid");
    // What a record said that a power cut has emptied is unknown.
    let run = staged.id();
    let record = sandbox.state.path().join(format!("swaps/{run}.svc-snap.json"));
    let text = fs::read_to_string(&record).unwrap();
    fs::write(&record, "").unwrap();
    for step in ["swap", "discard"] {
        sandbox.run(&[step, "--run", run]).fails(7, "file_invalid").unchanged().error_has(&[record.to_str().unwrap()]);
    }
    sandbox.run(&["stage", "s1", "--dry-run"]).ok().warns("file_invalid");
    fs::write(&record, text).unwrap();
    let mut forged = staged.doc().clone();
    forged["result"]["indices"][0]["copy"] = json!(live);
    forged["result"]["indices"][0]["index"] = json!("x");
    sandbox.from_text(&["discard"], &forged.to_string()).fails(2, "from_invalid").unchanged().error_has(&["not copies"]);
    assert_eq!(sandbox.content(), content);
    let gone = sandbox.from(&["discard"], &staged).ok();
    sandbox.from(&["swap"], &staged).refused("not_verified").unchanged();
    sandbox.from(&["swap"], &gone).fails(2, "from_invalid").unchanged();
}

/// By every step that continues from one. (`contract.rs` has what is no document that it takes.)
#[test]
fn document_of_other_cluster_or_snapshot_is_refused() {
    let (sandbox, _, created) = Sandbox::saved("from");
    let content = sandbox.content();
    for step in ["show", "wait", "delete", "stage", "restore"] {
        let other = |pointer: &str| {
            let mut other = created.doc().clone();
            *other.pointer_mut(pointer).unwrap() = json!("another");
            sandbox.from_text(&[step], &other.to_string())
        };
        other("/result/cluster_uuid").refused("other_server");
        other("/result/snapshot/uuid").refused("name_in_use");
        // The servers would take it for all snapshots.
        let pattern = created.text().replace("\"name\":\"s1\"", "\"name\":\"*\"");
        sandbox.from_text(&[step], &pattern).fails(2, "from_invalid").unchanged();
    }
    let other_cluster = created.text().replace(created.result()["cluster_uuid"].as_str().unwrap(), "another");
    sandbox.from_text(&["show", "--other-server"], &other_cluster).ok();
    assert_eq!((sandbox.content(), sandbox.snapshots().len()), (content, 1));
}

#[test]
fn red_live_index_is_replaced_only_with_drop_old() {
    let (sandbox, live, created) = Sandbox::saved("red");
    sandbox.delete(&live);
    sandbox.red("docs");
    sandbox.from(&["restore"], &created).refused("indices_red");
    assert!(sandbox.copies().is_empty());
    let restored = sandbox.from(&["restore", "--drop-old"], &created).ok();
    assert_eq!((sandbox.count(&live), sandbox.names()), (10, vec![live]));
    sandbox.from(&["swap"], &restored).fails(4, "swap_not_found").unchanged();
}

#[track_caller]
fn names_the_block(refused: Ran, index: &str, block: &str) {
    refused.refused("index_blocked").error_has(&[&format!("{index} (index.blocks.{block})")]);
}

#[test]
fn blocked_index_or_copy_is_named_before_any_change() {
    let sandbox = Sandbox::new("blocked");
    let (docs, other) = (sandbox.simple("docs", 10), sandbox.simple("other", 3));
    let created = sandbox.create("s1");
    let then = sandbox.content();
    let staged = sandbox.from(&["stage"], &created).ok();
    let copies = sandbox.copies();
    let clone = sandbox.run(&["clone"]).ok();
    sandbox.fill(&docs, 10, 15);
    let (content, names) = (sandbox.content(), sandbox.names());
    for block in ["read_only", "read_only_allow_delete", "read"] {
        sandbox.block(&docs, block, true);
        for (args, document) in [
            (&["restore", "--dry-run"][..], &created),
            (&["restore"], &created),
            (&["restore", "--drop-old"], &created),
            (&DELETE, &created),
            (&CLOSE, &created),
            (&["swap"], &staged),
            (&["swap"], &clone),
        ] {
            names_the_block(sandbox.from(args, document), &docs, block);
        }
        names_the_block(sandbox.run(&["clone"]), &docs, block);
        // What this restore does not touch may have any block that the server's answers do not suffer from.
        sandbox.from(&["restore", "--dry-run", "--indices", &other], &created).ok();
        assert_eq!(sandbox.names(), names);
        if block == "read" {
            names_the_block(sandbox.run(&["create", "s2"]), &docs, block);
        }
        sandbox.block(&docs, block, false);
    }
    // The flood stage of a full disk blocks every index that has a shard there, copies too.
    sandbox.block(&copies[0], "read_only_allow_delete", true);
    for args in [&["swap", "--dry-run"][..], &["swap"]] {
        names_the_block(sandbox.from(args, &staged), &copies[0], "read_only_allow_delete");
        assert_eq!((sandbox.content(), sandbox.names()), (content.clone(), names.clone()));
    }
    sandbox.block(&copies[0], "read_only_allow_delete", false);
    sandbox.from(&["swap"], &staged).ok();
    assert_eq!(sandbox.content(), then);
}

#[test]
fn swap_is_refused_if_client_unblocks_live_index() {
    let (sandbox, docs, _, staged) = Sandbox::staged("unsound");
    let (content, copies) = (sandbox.content(), sandbox.copies());
    // It counts what was staged, and then what it has cloned.
    let gate = sandbox.gate().close_before("POST /_msearch", 2);
    let refused = gate.during(sandbox.resuming(&["swap"], &staged), || sandbox.block(&docs, "write", false));
    refused.refused("name_in_use").unchanged().error_has(&["took the write block off"]);
    assert_eq!((sandbox.content(), &sandbox.copies()), (content, &copies));
}

#[test]
fn blocks_limits_and_refusals_of_server_are_named() {
    let own = own_server(&[]);
    each_holds(&*own, &[blocked_metadata_is_named_and_not_restored, swap_at_shard_limit_is_refused, refusals_have_own_codes]);
}

/// The servers answer 403 to whoever lists all indices while there is such a block.
fn blocked_metadata_is_named_and_not_restored(own: &Search) {
    let sandbox = Sandbox::on(own.clone(), "metadata").registered(&[]);
    let (docs, other) = (sandbox.simple("docs", 10), sandbox.simple("other", 3));
    let content = sandbox.content();
    sandbox.block(&docs, "metadata", true);
    for args in [&["create", "s1"][..], &["clone"], &["create", "s1", "--dry-run"]] {
        names_the_block(sandbox.run(args), &docs, "metadata");
    }
    sandbox.run(&["create", "s1", "--indices", &other]).ok();
    names_the_block(sandbox.run(&["restore", "s1"]), &docs, "metadata");
    sandbox.taken("s2", json!({"indices": format!("{}-*", sandbox.prefix), "include_global_state": false}));
    sandbox.block(&docs, "metadata", false);
    // To list the names is what the block forbids.
    let staged = sandbox.run(&["stage", "s2"]).ok();
    assert_eq!(sandbox.copies().len(), 2);
    sandbox.from(&["swap"], &staged).ok();
    assert_eq!(sandbox.content(), content);
    sandbox.delete(&docs);
    for args in [&["restore"][..], &CLOSE] {
        sandbox.tool(args).arg("s2").run().ok();
        assert_eq!(sandbox.content(), content, "{args:?}");
    }
}

#[test]
fn alias_named_like_existing_index_is_refused() {
    let sandbox = Sandbox::new("alias-index");
    let alias = sandbox.name("alias");
    let docs = sandbox.index("docs", json!({"settings": {"number_of_replicas": 0}, "aliases": {&alias: {}}}));
    sandbox.simple("more", 3);
    let saved = sandbox.content();
    let created = sandbox.create("s1");
    let staged = sandbox.from(&["stage"], &created).ok();
    sandbox.ask("DELETE", &format!("/{docs}/_alias/{alias}"), None);
    sandbox.simple("alias", 2);
    let refused = |ran: Ran| ran.refused("name_in_use").error_has(&[&alias]);
    let content = sandbox.content();
    refused(sandbox.from(&["swap", "--dry-run"], &staged));
    refused(sandbox.from(&["swap"], &staged));
    sandbox.from(&["discard"], &staged).ok();
    for step in [&["restore", "--dry-run"][..], &["restore"]] {
        refused(sandbox.from(step, &created));
        assert_eq!((sandbox.copies(), sandbox.content()), (Vec::new(), content.clone()));
    }
    // The same after the live index was deleted.
    sandbox.delete(&docs);
    let content = sandbox.content();
    refused(sandbox.from(&["restore"], &created));
    assert_eq!((sandbox.copies(), sandbox.content()), (Vec::new(), content));
    sandbox.from(&["restore", "--exact"], &created).ok();
    assert_eq!(sandbox.content(), saved);
}

/// What has the name now is no index: neither what is staged nor what a snapshot holds takes its place.
#[track_caller]
fn is_in_the_way(sandbox: &Sandbox, name: &str, created: &Ran, staged: &Ran) {
    let names = sandbox.names();
    for (args, document) in [
        (&["swap", "--exact", "--dry-run"][..], staged),
        (&["swap", "--exact"], staged),
        (&["swap"], staged),
        (&["restore"], created),
        (&CLOSE, created),
        (&DELETE, created),
    ] {
        sandbox.from(args, document).refused("name_in_use").error_has(&[name]);
        assert_eq!(sandbox.names(), names, "{args:?}");
    }
    sandbox.from(&["discard"], staged).ok();
}

#[test]
fn index_named_like_data_stream_is_refused() {
    let sandbox = Sandbox::new("index-stream");
    if sandbox.search.key == "elasticsearch-7" {
        return svc_tests::skip("an index named like a data stream: this distribution has no data streams at all");
    }
    let name = sandbox.simple("docs", 3);
    sandbox.simple("more", 3);
    let created = sandbox.create("s1");
    let staged = sandbox.from(&["stage"], &created).ok();
    sandbox.delete(&name);
    sandbox.stream(&name, json!({}));
    is_in_the_way(&sandbox, &name, &created, &staged);
}

#[test]
fn alias_that_data_stream_has_now_is_refused() {
    let sandbox = Sandbox::new("alias-stream");
    if sandbox.search.product == Product::OpenSearch || sandbox.search.key == "elasticsearch-7" {
        return skip("an alias of a data stream: OpenSearch gives it none, and this distribution of 7.17 has no data streams");
    }
    let (alias, logs) = (sandbox.name("alias"), sandbox.name("logs"));
    let docs = sandbox.index("docs", json!({"settings": {"number_of_replicas": 0}, "aliases": {&alias: {}}}));
    let created = sandbox.create("s1");
    let staged = sandbox.from(&["stage"], &created).ok();
    sandbox.ask("DELETE", &format!("/{docs}/_alias/{alias}"), None);
    sandbox.stream(&logs, json!({}));
    sandbox.ask("POST", "/_aliases", Some(json!({"actions": [{"add": {"index": logs, "alias": alias}}]})));
    is_in_the_way(&sandbox, &alias, &created, &staged);
}

/// As a new version migrates: into an index of another name, which gets the old name as its alias.
#[test]
fn alias_of_index_that_is_taken_away_is_no_obstacle() {
    let sandbox = Sandbox::new("migrated");
    let (docs, more) = (sandbox.simple("docs", 3), sandbox.simple("more", 3));
    let created = sandbox.create("s1");
    let saved = sandbox.content();
    sandbox.delete(&docs);
    let newer = sandbox.index("docs-v2", json!({"settings": {"number_of_replicas": 0}, "aliases": {&docs: {}}}));
    sandbox.fill(&newer, 0, 5);
    let migrated = sandbox.content();
    let staged = sandbox.from(&["stage"], &created).ok();
    sandbox.from(&["swap"], &staged).refused("name_in_use").error_has(&[&docs, "--exact"]);
    for args in [CLOSE, DELETE] {
        sandbox.from(&args, &created).refused("name_in_use").unchanged().error_has(&[&docs]);
        assert_eq!(sandbox.content(), migrated, "{args:?}");
    }
    let swapped = sandbox.from(&["swap", "--exact"], &staged).ok();
    assert_eq!(sandbox.content(), saved);
    sandbox.from(&["swap", "--back"], &swapped).ok();
    assert_eq!(sandbox.content(), migrated);
    sandbox.from(&["restore", "--exact"], &created).ok();
    assert_eq!(sandbox.content(), saved);
    // What a restore in place deletes is no obstacle either; what it closes keeps its aliases.
    sandbox.delete(&docs);
    sandbox.ask("PUT", &format!("/{more}/_alias/{docs}"), None);
    sandbox.from(&CLOSE, &created).refused("name_in_use").unchanged();
    sandbox.from(&DELETE, &created).ok().changed();
    assert_eq!(sandbox.content(), saved);
}

#[test]
fn swap_of_many_indices_is_undone_if_one_fails() {
    let sandbox = Sandbox::new("many");
    let body = || json!({"settings": {"number_of_replicas": 0}, "aliases": {sandbox.name("all"): {}}});
    let count = rounds("indices that are swapped together", 6, 40);
    let indices: Vec<String> = (0..count).map(|n| sandbox.index(&format!("i{n:02}"), body())).collect();
    indices.iter().for_each(|index| sandbox.fill(index, 0, 3));
    let created = sandbox.create("s1");
    let staged = sandbox.from(&["stage"], &created).ok();
    indices.iter().for_each(|index| sandbox.fill(index, 3, 5));
    let (content, copies) = (sandbox.content(), sandbox.copies());
    let is_old = |ran: &Ran| assert_eq!((sandbox.content(), sandbox.copies()), (content.clone(), copies.clone()), "{ran}");

    // The server refuses to clone one of them, to exchange them, or to block some.
    for to in [&format!("POST /{}/_clone/", indices[4]), "POST /_aliases", "PUT /"] {
        let gate = sandbox.gate().refusing(to, 1, MISHAP);
        let failed = sandbox.resuming(&["swap"], &staged).via(&gate).run().fails(1, "server_refused").unchanged();
        assert_eq!(failed.states(), vec!["old"; indices.len()], "{to}");
        is_old(&failed);
    }
    // A restore takes away what it has staged, too.
    let gate = sandbox.gate().refusing("POST /_aliases", 1, MISHAP);
    is_old(&sandbox.resuming(&["restore"], &created).via(&gate).run().fails(1, "server_refused").unchanged());
    let swapped = sandbox.from(&["swap"], &staged).ok().changed();
    assert!(indices.iter().all(|index| sandbox.count(index) == 3));
    assert_eq!((swapped.states(), sandbox.copies().len()), (vec!["new".to_owned(); indices.len()], indices.len()));
    sandbox.run(&["swap", "--run", staged.id(), "--back"]).ok().changed();
    assert_eq!(sandbox.content(), content);
}

fn swap_at_shard_limit_is_refused(own: &Search) {
    let sandbox = Sandbox::on(own.clone(), "shards").registered(&[]);
    let docs = sandbox.index("docs", json!({"settings": {"number_of_replicas": 2}}));
    sandbox.fill(&docs, 0, 3);
    let created = sandbox.create("s1");
    // What becomes live has two replicas, which count although no node takes them.
    sandbox.set(&docs, json!({"index.number_of_replicas": 0}));
    sandbox.fill(&docs, 3, 5);
    let staged = sandbox.from(&["stage"], &created).ok();
    let (content, copies, used) = (sandbox.content(), sandbox.copies(), sandbox.shards());
    // The clone of what is live, in whose place the new one comes, with its replicas.
    for free in [0, 2] {
        sandbox.set_cluster("cluster.max_shards_per_node", json!(used + free));
        for args in [&["swap", "--dry-run"][..], &["swap"]] {
            sandbox.from(args, &staged).refused("out_of_space").unchanged();
            assert_eq!((sandbox.content(), sandbox.copies()), (content.clone(), copies.clone()));
        }
    }
    sandbox.set_cluster("cluster.max_shards_per_node", json!(used + 3));
    // What is staged already is not counted as if it were still to come.
    let run = staged.id();
    sandbox.from(&["restore", "--dry-run", "--run-id", run], &created).ok().unchanged();
    sandbox.from(&["swap"], &staged).ok().changed();
    assert_eq!(sandbox.count(&docs), 3);
    sandbox.set_cluster("cluster.max_shards_per_node", Value::Null);
}

/// Errors of the page's list that no other test provokes.
fn refusals_have_own_codes(own: &Search) {
    let sandbox = Sandbox::on(own.clone(), "refused").registered(&[]);
    let docs = sandbox.index("docs", json!({"settings": {"number_of_replicas": 1}}));
    sandbox.fill(&docs, 0, 2);
    let created = sandbox.create("s");
    let location = sandbox.location().display().to_string();

    // A disk that is full, or an operator, makes a cluster read-only.
    for block in ["cluster.blocks.read_only", "cluster.blocks.read_only_allow_delete"] {
        sandbox.set_cluster(block, json!(true));
        let blocked = [sandbox.from(&["stage"], &created), sandbox.run(&["register", "--location", &location, "--readonly"])];
        sandbox.set_cluster(block, Value::Null);
        for ran in blocked {
            let request = json!(format!("PUT /_cluster/settings {{\"persistent\": {{\"{block}\": null}}}}")).to_string();
            ran.refused("index_blocked").error_has(&[request.trim_matches('"')]);
        }
    }

    // The replicas that come along nobody counts but the server.
    sandbox.delete(&docs);
    sandbox.set_cluster("cluster.max_shards_per_node", json!(sandbox.shards() + 1));
    let full = sandbox.from(&["restore", "--in-place"], &created);
    sandbox.set_cluster("cluster.max_shards_per_node", Value::Null);
    full.refused("out_of_space");

    // A closed index is taken over only if it has as many shards.
    sandbox.index("docs", json!({"settings": {"number_of_replicas": 0, "number_of_shards": 2}}));
    sandbox.from(&CLOSE, &created).fails(1, "server_refused").error_has(&["with [2] shards"]);
}

#[test]
#[ignore = "takes a minute"]
fn stage_that_no_node_allocates_leaves_nothing() {
    let own = own_server(&[]);
    let sandbox = Sandbox::on(own.server.clone(), "nowhere").registered(&[]);
    let docs = sandbox.simple("docs", 10);
    let created = sandbox.create("s1");
    // The server lets the shards wait for ever. (snap/clone.rs has one that gives up at once.)
    sandbox.set_cluster("cluster.routing.allocation.node_initial_primaries_recoveries", json!(0));
    let ended = sandbox.from(&["stage"], &created).fails(6, "timeout").unchanged();
    ended.error_has(&["No node takes the shards of", &docs, "recoveries"]);
    assert_eq!(sandbox.names(), [docs.as_str()]);
}
