//! What is restored and what is left alone: patterns, the scope, disk space; and restores that are cut.

use svc_tests::prelude::*;

fn reason(ran: &Ran, name: &str) -> Value {
    let skipped = ran.result()["skipped"].as_array().unwrap().iter().find(|one| one["name"] == name);
    skipped.unwrap_or_else(|| panic!("{name} is not skipped\n{ran}"))["reason"].clone()
}

#[test]
fn restore_keeps_other_and_security_indices_unchanged() {
    let sandbox = Sandbox::new("second");
    let ours = sandbox.simple("docs", 10);
    let others = [format!("second-{}", sandbox.prefix), format!(".security-{}", sandbox.prefix)];
    for name in &others {
        let aliases = json!({format!("{}-of{}", others[0], name.len()): {}});
        let body = json!({"settings": {"number_of_replicas": 0}, "aliases": aliases});
        sandbox.ask("PUT", &format!("/{name}"), Some(body));
        sandbox.fill(name, 0, 7);
    }
    // Somebody's snapshot that holds all of them, in the repository that is restored from.
    sandbox.taken("s1", json!({"indices": format!("{ours},{}", others.join(",")), "include_global_state": false}));
    let before = sandbox.content();
    others.iter().for_each(|name| sandbox.fill(name, 7, 9));
    let theirs = || others.each_ref().map(|name| (content::documents(&sandbox.search.url, name).unwrap(), sandbox.uuid(name)));
    let untouched = theirs();
    let scope = format!("{}-*,{}", sandbox.prefix, others[1]);
    let restore = |args: &[&str]| sandbox.tool(args).arg("s1").env("SVC_INDICES", &scope).run();
    let surplus = sandbox.simple("surplus", 2);
    for args in [&["restore", "--exact"][..], &CLOSE, &DELETE] {
        sandbox.fill(&ours, 5, 20);
        let restored = restore(args);
        assert!([0, 9].contains(&restored.status), "{restored}");
        assert_eq!(others.each_ref().map(|name| reason(&restored, name)), [json!("outside_scope"), json!("security")]);
        assert_eq!(sandbox.content()[&ours], before[&ours], "{args:?}");
        assert!(!sandbox.names().contains(&surplus), "{args:?}");
        assert_eq!(theirs(), untouched, "{args:?}");
    }
    for name in &others {
        restore(&["restore", "--indices", name]).refused("options_invalid");
    }
    assert_eq!(theirs(), untouched);
}

#[test]
fn killed_direct_restore_is_discarded_or_finished_by_same_command() {
    let sandbox = Sandbox::new("unopened");
    let lost = sandbox.written_through(&sandbox.name("alias"), "lost");
    sandbox.fill(&lost, 0, 20);
    let live = sandbox.simple("live", 5);
    let before = sandbox.content();
    let created = sandbox.create("s1");
    let cuts = [(1, Side::Before), (1, Side::After), (2, Side::Before), (2, Side::After), (5, Side::After)];
    for (n, (number, side)) in cuts.into_iter().enumerate() {
        sandbox.delete(&lost);
        sandbox.fill(&live, 5, 9);
        let run = run_id(n);
        let restore = || sandbox.resuming(&["restore", "--run-id", &run], &created);
        let gate = sandbox.gate().close_at(number, side).kill(restore());
        restore().run().ok();
        let now = sandbox.content();
        assert_eq!((&now[&lost], &now[&live]), (&before[&lost], &before[&live]), "{number} {side:?}: {:?}", gate.changes());
        sandbox.run(&["discard", "--run", &run]).ok();
        assert!(sandbox.copies().is_empty(), "{number} {side:?}");
    }
    // While it verifies what is there, and when its swap begins. Nobody takes the block for the index's own.
    sandbox.delete(&lost);
    for (n, stop, step) in [(8, "POST /_msearch", "discard"), (9, &format!("PUT /{live}/_block"), "swap")] {
        let run = run_id(n);
        sandbox.gate().close_before(stop, 1).kill(sandbox.resuming(&["restore", "--run-id", &run], &created));
        assert!(sandbox.names().contains(&lost));
        for args in [&["create", "s2"][..], &["clone"]] {
            let refused = sandbox.run(args).refused("index_blocked").unchanged();
            refused.error_has(&[&lost, &format!("svc-snap {step} --run {run} ")]);
        }
        sandbox.run(&["discard", "--run", &run]).ok().changed();
        assert_eq!(sandbox.names(), std::slice::from_ref(&live), "{stop}");
    }
}

#[test]
fn swap_opens_no_direct_index_outside_its_scope() {
    let (sandbox, docs, created) = Sandbox::saved("direct-scope");
    sandbox.delete(&docs);
    let run = run_id(1);
    sandbox.gate().close_on("/_settings", Side::Before).kill(sandbox.resuming(&["restore", "--run-id", &run], &created));
    sandbox.tool(&["swap", "--run", &run]).env("SVC_INDICES", "other-*").run().refused("options_invalid").unchanged();
    assert_eq!(sandbox.blocks(&docs), ["write"]);
    for args in [&["create", "s2"][..], &["clone"]] {
        let refused = sandbox.run(args).refused("index_blocked").unchanged();
        refused.error_has(&[&docs, &format!("svc-snap swap --run {run} finishes it")]);
    }
    sandbox.run(&["swap", "--run", &run]).ok().changed();
    assert_eq!((sandbox.blocks(&docs), sandbox.count(&docs)), (Vec::new(), 10));
}

/// A restore of one index that is not live, held when the server has restored it and the tool has not heard so.
fn held_direct(name: &str) -> (Sandbox, String, Gate, Spawned) {
    let (sandbox, docs, created) = Sandbox::saved(name);
    sandbox.delete(&docs);
    let gate = sandbox.gate().close_on("/_restore", Side::After);
    let tool = gate.hold(sandbox.resuming(&["restore"], &created));
    sandbox.ask("GET", &format!("/_cluster/health/{docs}?wait_for_status=green&timeout=60s"), None);
    (sandbox, docs, gate, tool)
}

#[test]
fn direct_restore_blocks_writes_until_verified() {
    let (sandbox, docs, gate, tool) = held_direct("direct");
    let document = format!("/{docs}/_doc/client?refresh=true");
    let write = || sandbox.search.request("PUT", &document, Some(&json!({"n": 99}))).unwrap().0;
    let early = write();
    gate.open();
    let restored = tool.wait().ok().changed();
    assert_eq!(early, 403, "{restored}");
    assert_eq!((sandbox.count(&docs), sandbox.blocks(&docs), write()), (10, Vec::new(), 201));
    let opened = format!("/{docs}/_settings");
    assert_eq!((gate.sent().last(), restored.planned().contains(&opened)), (Some(&opened), true), "{restored}");
}

#[test]
fn interrupted_direct_restore_removes_only_its_index() {
    for is_clients in [false, true] {
        let (sandbox, docs, gate, tool) = held_direct(if is_clients { "ended-client" } else { "ended" });
        if is_clients {
            sandbox.delete(&docs);
            sandbox.simple("docs", 1);
        }
        tool.signal(Signal::SIGTERM);
        gate.open();
        let ended = tool.wait().fails(143, "interrupted");
        assert_eq!(ended.doc()["changed"], is_clients, "{ended}");
        assert_eq!(sandbox.names(), if is_clients { vec![docs] } else { Vec::new() }, "{ended}");
    }
}

/// Whether the server places shards past its watermarks, since there is no other node.
fn is_excepted(sandbox: &Sandbox) -> bool {
    let settings = sandbox.ask("GET", "/_cluster/settings?include_defaults=true&flat_settings=true", None);
    settings["defaults"]["cluster.routing.allocation.disk.watermark.enable_for_single_data_node"] == "false"
}

/// A server of the test's own: its limits are set, and it is the service's alone (the scope `*`). (`capacity.rs` has the arithmetic.)
#[test]
fn restore_exceeding_disk_or_shard_limit_is_refused() {
    let own = own_server(&[("cluster.routing.allocation.disk.threshold_enabled", "true")]);
    let sandbox = Sandbox::on(own.server.clone(), "space").registered(&[]);
    sandbox.watermarks("1b", "1b");
    sandbox.simple("docs", 10);
    let everything = |args: &[&str]| sandbox.tool(args).env("SVC_INDICES", "*");
    let created = everything(&["create", "s1"]).run().ok();
    let from = |args: &[&str], document: &Ran| sandbox.resuming(args, document).env("SVC_INDICES", "*");
    let staged = from(&["stage"], &created).run().ok();
    let refused = |tool: Tool| {
        let gate = sandbox.gate();
        let ran = tool.via(&gate).run().refused("out_of_space");
        assert_eq!(gate.changes(), [""; 0], "{ran}");
        ran
    };
    let beside = || [from(&["stage"], &created), from(&["restore"], &created), everything(&["clone"])];

    // What a killed staging of another run holds is named first.
    sandbox.gate().close_on("/_restore", Side::After).kill(from(&["stage", "--run-id", &run_id(1)], &created));
    sandbox.watermarks("1000tb", "1b");
    let hint = refused(from(&["stage"], &created)).hint().to_owned();
    assert!(hint.starts_with(&format!("svc-snap discard --run {} ", run_id(1))), "{hint}");
    beside().into_iter().for_each(|tool| drop(refused(tool)));
    for args in [CLOSE, DELETE] {
        refused(from(&args, &created)).error_has(&["bytes that it deletes first"]).without(&[" 0 bytes that it deletes first"]);
    }
    // Past the low watermark no shard comes to the node, unless the server makes an exception for a cluster of one.
    if is_excepted(&sandbox) {
        from(&["swap", "--dry-run"], &staged).run().ok();
    } else {
        refused(from(&["swap"], &staged));
    }
    sandbox.watermarks("1b", "1b");

    sandbox.set_cluster("cluster.max_shards_per_node", json!(sandbox.shards()));
    beside().into_iter().for_each(|tool| drop(refused(tool)));
    // In place it has the disk space of what it gives up.
    from(&DELETE, &created).arg("--dry-run").run().ok();
}

/// A clone takes no disk space, but the server makes none if it has not as much as the shard takes.
#[test]
fn clones_without_disk_space_for_their_largest_shard_are_refused() {
    let host = Host::shared().unwrap();
    let extra = texts(&[("cluster.routing.allocation.disk.threshold_enabled", "true")]);
    let own = host.prepare_search_server(&host.search.key, &Settings { extra, ..Settings::default() }).unwrap();
    // Nobody else fills it.
    let _disk = SmallDisk::at(&own.data_dir, 400).unwrap();
    own.start(&host.systemd).unwrap();
    let sandbox = Sandbox::on(own.server.clone(), "shard").registered(&[]);
    let docs = sandbox.noise("docs", 200);
    sandbox.ask("POST", &format!("/{docs}/_flush?force=true"), None);
    let created = sandbox.create("s1");
    let staged = sandbox.from(&["stage"], &created).ok();
    let size = wait::so("the size", || {
        let stats = sandbox.ask("GET", &format!("/{docs}/_stats/store"), None);
        stats["_all"]["primaries"]["store"]["size_in_bytes"].as_u64().filter(|size| *size > 10 << 20)
    });
    let half = size / 2;
    let free = |halves: u64| {
        let fs = sandbox.ask("GET", "/_nodes/stats/fs?filter_path=nodes.*.fs.total.available_in_bytes", None);
        let available = fs["nodes"].as_object().unwrap().values().next().unwrap()["fs"]["total"]["available_in_bytes"].as_u64();
        sandbox.watermarks(&format!("{}b", available.unwrap() - halves * half), "1b");
    };
    let is_excepted = is_excepted(&sandbox);
    let refused = |tool: Tool| {
        let ran = tool.arg("--dry-run").run();
        if is_excepted {
            ran.ok()
        } else {
            ran.refused("out_of_space")
        };
    };
    free(1);
    // A merge may fill the disk past the watermark, where a clone is refused whatever the server would do.
    if !is_excepted {
        refused(sandbox.tool(&["clone"]));
    }
    [&["swap"][..], &["swap", "--drop-old"]].into_iter().for_each(|args| refused(sandbox.resuming(args, &staged)));
    // What is staged is cloned by the swap, and what is restored in place is not.
    free(3);
    [&["stage"], &["restore"]].into_iter().for_each(|args| refused(sandbox.resuming(args, &created)));
    sandbox.resuming(&DELETE, &created).arg("--dry-run").run().ok();
    free(5);
    sandbox.from(&["stage", "--dry-run"], &created).ok();
}
