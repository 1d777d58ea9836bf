//! `svc-snap stage`, `swap`, `discard` and `restore` on a real cluster.

use svc_tests::prelude::*;

/// Indices of every kind: settings that are set to their defaults too, an analyzer and a sort order, nested documents, shared and
/// moved write aliases, filters, routing, hidden ones, a long name, replicas that cannot be placed. Gives their names.
fn all_kinds(sandbox: &Sandbox) -> Vec<String> {
    let alias = |suffix: &str| sandbox.name(suffix);
    let analysis = json!({"analyzer": {"folded": {"type": "custom", "tokenizer": "standard", "filter": ["lowercase"]}}});
    let properties = json!({"n": {"type": "integer"}, "k": {"type": "integer"}, "t": {"type": "text", "analyzer": "folded"}});
    let one = json!({"filter": {"term": {"k": 1}}, "index_routing": "r", "search_routing": "r,s"});
    let a = json!({"settings": {"number_of_shards": 2, "number_of_routing_shards": 8, "number_of_replicas": 1,
            "auto_expand_replicas": "false", "hidden": "false", "blocks.write": "false", "refresh_interval": "7s", "priority": 7,
            "sort.field": "n", "sort.order": "desc", "default_pipeline": "_none", "max_result_window": 5000,
            "mapping.total_fields.limit": 2000, "analysis": analysis},
        "mappings": {"dynamic": "strict", "properties": properties},
        "aliases": {alias("all"): {"is_write_index": true}, alias("one"): one}});
    let b = json!({"settings": {"number_of_replicas": 2, "index.routing.allocation.total_shards_per_node": 5, "blocks.read": "false"},
        "mappings": {"properties": {"o": {"type": "nested", "properties": {"a": {"type": "keyword"}}}}},
        "aliases": {alias("all"): {"is_write_index": false}}});
    let c = json!({"settings": {"number_of_replicas": 0, "index.hidden": true}, "aliases": {alias("dark"): {"is_hidden": true}}});
    let d = json!({"settings": {"index.auto_expand_replicas": "0-1"}, "aliases": {alias("lone"): {}}});
    // The longest name that there may be.
    let long = format!("c{}", "x".repeat(255 - sandbox.name("c").len()));
    let indices = [("a", a), ("b", b), (&*long, c), ("d", d)].map(|(suffix, body)| sandbox.index(suffix, body));
    indices.iter().for_each(|index| sandbox.fill(index, 0, 30));
    indices.into()
}

/// The whole of what the server shows of these indices, but what it gives a new index itself. A clone has the shards for routing of
/// what it is of, and no setting that says so: those are asked of the cluster's state.
fn shown(sandbox: &Sandbox, indices: &[String]) -> BTreeMap<String, Value> {
    let own = "uuid creation_date version. provided_name resize. number_of_routing_shards routing.allocation.initial_recovery \
               routing_partition_size";
    let show = |index: &String| {
        let mut shown = sandbox.ask("GET", &format!("/{index}?flat_settings=true"), None)[index].take();
        let settings = shown["settings"].as_object_mut().unwrap();
        settings.retain(|name, _| !own.split(' ').any(|own| name.starts_with(&format!("index.{own}"))));
        let metadata = sandbox.ask("GET", &format!("/_cluster/state/metadata/{index}?filter_path=**.routing_num_shards"), None);
        shown["routing_num_shards"] = metadata["metadata"]["indices"][index]["routing_num_shards"].clone();
        (index.clone(), shown)
    };
    indices.iter().map(show).collect()
}

fn upgrade(sandbox: &Sandbox) {
    let name = |suffix: &str| sandbox.name(suffix);
    sandbox.fill(&name("a"), 20, 50);
    sandbox.ask("DELETE", &format!("/{}/_doc/3?refresh=true", name("a")), None);
    sandbox.ask("PUT", &format!("/{}/_mapping", name("a")), Some(json!({"properties": {"added": {"type": "keyword"}}})));
    sandbox.ask("PUT", &format!("/{}/_settings", name("b")), Some(json!({"index.number_of_replicas": 0, "index.priority": 9})));
    let actions = json!({"actions": [
        {"add": {"index": name("a"), "alias": name("all"), "is_write_index": false}},
        {"add": {"index": name("b"), "alias": name("all"), "is_write_index": true}},
        {"remove": {"index": name("a"), "alias": name("one")}},
        {"add": {"index": name("a"), "alias": name("newer")}}]});
    sandbox.ask("POST", "/_aliases", Some(actions));
    sandbox.ask("DELETE", &format!("/{}", name("d")), None);
    sandbox.simple("e", 5);
}

#[test]
fn restore_and_swap_back_are_complete() {
    let sandbox = Sandbox::new("all");
    let indices = all_kinds(&sandbox);
    let other = format!("oa-{}", sandbox.prefix);
    sandbox.ask("PUT", &format!("/{other}"), Some(json!({"aliases": {format!("{other}-alias"): {}}})));
    sandbox.fill(&other, 0, 7);
    // What somebody else has, and what the backup does not hold, stays as it is.
    let theirs = [other.clone(), sandbox.name("e")];
    let content = || {
        let mut all = sandbox.content();
        (theirs.each_ref().map(|name| all.remove(name)), all, shown(&sandbox, &indices[..3]))
    };
    let (_, before, before_shown) = content();
    assert_eq!(before_shown[&indices[0]]["routing_num_shards"], 8);
    let created = sandbox.create("s1");
    upgrade(&sandbox);
    sandbox.fill(&other, 7, 9);
    let upgraded = content();

    let restored = sandbox.from(&["restore"], &created).ok().changed();
    let after = content();
    assert_eq!(after, (upgraded.0.clone(), before, before_shown));
    assert_eq!(restored.texts("indices", "method"), ["swapped", "swapped", "swapped", "direct"]);
    assert_eq!(sandbox.copies().len(), 3, "{:?}", sandbox.copies());

    let back = sandbox.from(&["swap"], &restored).ok().changed();
    assert_eq!(content(), upgraded);
    let again = sandbox.from(&["swap"], &back).ok().changed();
    assert_eq!(content(), after);
    sandbox.from(&["discard"], &again).ok().changed();
    sandbox.from(&["discard"], &again).ok().unchanged();
    assert!(sandbox.copies().is_empty());
    assert_eq!(content(), after);
}

#[test]
fn exact_swap_keeps_surplus_index_as_previous() {
    let sandbox = Sandbox::new("exact");
    let alias = sandbox.name("alias");
    let one = sandbox.written_through(&alias, "1");
    sandbox.fill(&one, 0, 10);
    let before = sandbox.content();
    let created = sandbox.create("s1");
    let two = sandbox.simple("2", 20);
    let moved =
        json!([{"remove": {"index": one, "alias": alias}}, {"add": {"index": two, "alias": alias, "is_write_index": true}}]);
    sandbox.ask("POST", "/_aliases", Some(json!({"actions": moved})));
    let upgraded = sandbox.content();

    for args in [&["restore"][..], &CLOSE, &DELETE] {
        sandbox.from(args, &created).refused("name_in_use").unchanged().error_has(&["write index of an alias"]);
        assert_eq!(sandbox.content(), upgraded, "{args:?}");
    }
    assert!(sandbox.copies().is_empty());

    // What is taken away may be a clone's that was killed.
    let run = run_id(1);
    let clone = sandbox.tool(&["clone", "--indices", &two, "--run-id", &run]);
    sandbox.gate().close_on("/_block/write", Side::After).kill(clone);
    sandbox.from(&["restore", "--exact"], &created).refused("index_blocked").error_has(&[&two]);
    sandbox.run(&["discard", "--run", &run]).ok().changed();

    let staged = sandbox.from(&["stage"], &created).ok();
    let swapped = sandbox.from(&["swap", "--exact"], &staged).ok();
    assert_eq!(sandbox.content(), before);
    assert_eq!(swapped.states(), ["new", "absent"]);
    assert_eq!(sandbox.copies().len(), 2);
    // What it has staged is live, and the way back is the swap's.
    sandbox.from(&["discard"], &staged).ok().unchanged();
    assert_eq!(sandbox.copies().len(), 2);
    let run = staged.id();
    sandbox.run(&["swap", "--run", run]).ok().unchanged();
    sandbox.run(&["swap", "--run", run, "--back"]).ok().changed();
    assert_eq!(sandbox.content(), upgraded);
    sandbox.run(&["swap", "--run", run, "--back"]).ok().unchanged();
    sandbox.run(&["discard", "--run", run]).ok();
    assert_eq!(sandbox.content(), upgraded);
    assert!(sandbox.copies().is_empty());
}

#[test]
fn missing_index_is_restored_directly_with_aliases() {
    let sandbox = Sandbox::new("lost");
    let indices = all_kinds(&sandbox);
    let before = sandbox.content();
    sandbox.create("s1");
    sandbox.remove_state();
    indices.iter().for_each(|index| sandbox.delete(index));
    let restored = sandbox.run(&["restore", "s1"]).ok().changed();
    assert_eq!(sandbox.content(), before);
    let indices = restored.result()["indices"].as_array().unwrap();
    assert!(indices.iter().all(|one| one["method"] == "direct" && one["state"] == "restored"), "{restored}");
    assert!(sandbox.copies().is_empty());
    sandbox.from(&["swap"], &restored).ok();
    assert_eq!(sandbox.content(), BTreeMap::new());
}

#[test]
fn closed_index_state_is_restored_by_swap() {
    let sandbox = Sandbox::new("closed");
    let docs = sandbox.index("docs", json!({"aliases": {sandbox.name("shut"): {}}}));
    sandbox.fill(&docs, 0, 10);
    let indices = std::slice::from_ref(&docs);
    sandbox.ask("POST", &format!("/{docs}/_close?wait_for_active_shards=1"), None);
    let closed = shown(&sandbox, indices);
    assert_eq!(closed[&docs]["settings"]["index.verified_before_close"], "true");
    let of_closed = sandbox.create("closed");
    sandbox.ask("POST", &format!("/{docs}/_open"), None);
    let open = shown(&sandbox, indices);
    let of_open = sandbox.create("open");
    sandbox.fill(&docs, 10, 15);

    let restored = sandbox.from(&["restore"], &of_closed).ok().changed();
    assert_eq!(shown(&sandbox, indices), closed);
    sandbox.from(&["discard"], &restored).ok();
    // A closed one is live now, with other documents.
    sandbox.ask("POST", &format!("/{docs}/_open"), None);
    sandbox.fill(&docs, 10, 15);
    sandbox.ask("POST", &format!("/{docs}/_close?wait_for_active_shards=1"), None);
    let restored = sandbox.from(&["restore"], &of_open).ok().changed();
    assert_eq!((shown(&sandbox, indices), sandbox.count(&docs)), (open.clone(), 10));
    let back = sandbox.from(&["swap"], &restored).ok();
    assert_eq!(shown(&sandbox, indices), closed);
    sandbox.ask("POST", &format!("/{docs}/_open?wait_for_active_shards=1"), None);
    assert_eq!(sandbox.count(&docs), 15, "what was replaced comes back");
    sandbox.from(&["swap"], &back).ok();
    assert_eq!((shown(&sandbox, indices), sandbox.count(&docs)), (open, 10));
    // The same after the live index was deleted.
    sandbox.delete(&docs);
    sandbox.from(&["restore"], &of_closed).ok().changed();
    assert_eq!(shown(&sandbox, indices), closed);
}

#[test]
fn index_blocks_are_restored_by_resumed_swap() {
    let sandbox = Sandbox::new("read-only");
    // An index for each block, which it has in the snapshot; they hold more since, and are not blocked.
    let blocks = ["read_only", "read_only_allow_delete", "write"];
    let indices = blocks.map(|block| (sandbox.simple(&format!("was-{block}"), 10), block));
    indices[..2].iter().for_each(|(index, block)| sandbox.block(index, block, true));
    // Elasticsearch 9 says of an index blocked by that request that it has verified it (`index.verified_read_only`).
    let written = &indices[2].0;
    sandbox.ask("PUT", &format!("/{written}/_block/write"), None);
    let verified = sandbox.settings(written);
    let created = sandbox.create("s1");
    for (index, block) in &indices {
        sandbox.block(index, block, false);
        sandbox.fill(index, 10, 15);
    }
    let upgraded = sandbox.content();
    let dry = sandbox.from(&["stage"], &created).ok();
    let requests = sandbox.from(&["swap", "--dry-run"], &dry).ok().planned().len();
    sandbox.from(&["discard"], &dry).ok();
    for number in requests - 2..=requests {
        let run = run_id(number);
        let staged = sandbox.from(&["stage", "--run-id", &run], &created).ok();
        let gate = sandbox.gate().close_at(number, Side::After).kill(sandbox.resuming(&["swap"], &staged));
        let finished = sandbox.from(&["swap"], &staged).ok();
        let again = sandbox.from(&["swap", "--dry-run"], &staged).ok().unchanged();
        assert_eq!(again.planned(), Vec::<String>::new(), "of a swap that is finished nothing is left to be done");
        for (index, block) in &indices {
            let is = (sandbox.blocks(index), sandbox.count(index));
            assert_eq!(is, (vec![(*block).to_owned()], 10), "{index}, killed after request {number}: {:?}", gate.changes());
        }
        assert_eq!(sandbox.settings(written), verified);
        // What is live now cannot be taken away, and the way back says so of each.
        let refused = sandbox.from(&["swap"], &finished).refused("index_blocked");
        let message = refused.doc()["error"]["message"].as_str().unwrap();
        assert!(indices.iter().all(|(index, block)| message.contains(index) == (*block != "write")), "{refused}");
        indices.iter().for_each(|(index, block)| sandbox.block(index, block, false));
        sandbox.from(&["swap"], &finished).ok().changed();
        assert_eq!(sandbox.content(), upgraded);
        sandbox.run(&["discard", "--run", &run]).ok();
    }
    // The same after the live index was deleted.
    sandbox.delete(written);
    sandbox.from(&["restore"], &created).ok().changed();
    assert_eq!(sandbox.settings(written), verified);
    // A block of what is live says nothing of a backup that has no captured metadata.
    sandbox.remove_state();
    let restored = sandbox.run(&["restore", "s1", "--indices", written]).ok().changed();
    restored.warns_of("not_checked", "blocks that they had (index.blocks.*) are set in place only.");
    assert_eq!(sandbox.blocks(written), [""; 0]);
}

/// The servers of the tests have no lifecycle management, and know none of its settings.
#[test]
fn unknown_lifecycle_settings_are_dropped_with_warning() {
    let sandbox = Sandbox::new("lifecycle");
    let (a, b) = (sandbox.simple("a", 10), sandbox.simple("b", 10));
    let created = sandbox.create("s1");
    let before = sandbox.content();
    sandbox.fill(&a, 10, 15);
    let mut document = created.doc().clone();
    for captured in document["result"]["captured"].as_array_mut().unwrap() {
        captured["metadata"]["lifecycle"] = json!({"index.lifecycle.name": "month"});
    }
    sandbox.remove_state();
    // One failure for another cause takes the lifecycle from none of those that are swapped together: each is tried alone.
    let gate = sandbox.gate().refusing(&format!("PUT /{a},{b}/_settings"), 1, MISHAP);
    let restore = sandbox.tool(&["restore", "--from", "-"]).stdin(document.to_string());
    let restored = restore.via(&gate).run().review("not_restored");
    let warnings = restored.doc()["warnings"].as_array().unwrap();
    assert_eq!(warnings.len(), 2, "{restored}");
    for (index, warning) in [&a, &b].into_iter().zip(warnings) {
        let warning = warning["message"].as_str().unwrap();
        assert!(warning.contains(&format!("{index} (index.lifecycle.name=month)")), "{restored}");
        assert!(warning.contains("unknown setting") && !warning.contains("a mishap"), "{restored}");
    }
    assert_eq!(sandbox.content(), before);
}

#[test]
fn ism_policy_is_attached_again_or_warned_about() {
    let sandbox = Sandbox::new("ism");
    if sandbox.search.product != Product::OpenSearch {
        return skip("a policy of index state management: OpenSearch alone has it");
    }
    // The plugin is not to be had: its answers are those of its documentation.
    let docs = sandbox.simple("docs", 10);
    let explained = |policy: Value| {
        let name = |prefix: &str| format!("index.{prefix}.index_state_management.policy_id");
        let managed = u8::from(!policy.is_null());
        json!({&docs: {name("plugins"): policy, name("opendistro"): policy, "policy_id": policy, "enabled": managed == 1},
            "total_managed_indices": managed})
    };
    let (explain, add) = ("GET /_plugins/_ism/explain/", "POST /_plugins/_ism/add/");
    let gate = |policy: Value| sandbox.gate().answering(explain, 100, 200, &explained(policy));
    let through = |gate: &Gate, tool: Tool| tool.via(gate).run();
    let created = through(&gate(json!("month")), sandbox.tool(&["create", "s1"])).ok();
    assert_eq!(created.result()["captured"][0]["metadata"]["policy"], "month", "{created}");
    let restore = |args: &[&str]| sandbox.resuming(args, &created);
    let added = json!({"updated_indices": 1, "failures": false, "failed_indices": []});
    let why = "This index already has a policy, use the update policy API to update index policies";
    let failed = json!({"updated_indices": 0, "failures": true,
        "failed_indices": [{"index_name": &docs, "index_uuid": "u", "reason": why}]});
    let swap = &["restore"][..];
    for (args, answer, is_added, is_live) in
        [(swap, &added, true, true), (swap, &failed, false, true), (swap, &added, true, false), (&DELETE, &added, true, true)]
    {
        if !is_live {
            sandbox.delete(&docs);
        }
        let gate = gate(Value::Null).answering(add, 1, 200, answer);
        let restored = through(&gate, restore(args));
        assert_eq!(gate.bodies(&format!("/_plugins/_ism/add/{docs}")), [json!({"policy_id": "month"})], "{restored}");
        let restored = if is_added { restored.ok() } else { restored.review("not_restored") };
        assert_eq!(restored.doc()["warnings"].to_string().contains(why), !is_added, "{restored}");
    }
    // A plugin that fails is there, and people are told; one that is not there is no news.
    let failing = sandbox.gate().refusing(explain, 100, (500, "null_pointer_exception", "the plugin fails"));
    through(&failing, sandbox.tool(&["create", "s2"])).ok().warns_of("not_checked", "the plugin fails");
    assert_eq!(sandbox.run(&["create", "s3"]).ok().doc()["warnings"], json!([]));
    // A server that has lost the plugin.
    restore(swap).run().review("not_restored");
}
