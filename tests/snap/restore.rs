//! What is restored and what is left alone: patterns, the scope, disk space; and restores that are cut.

use std::time::Duration;

use svc_tests::disk::SmallDisk;
use svc_tests::prelude::*;

const MB: u64 = 1 << 20;

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
        // With its index in the record.
        if (number, side) == (2, Side::Before) {
            sandbox.run(&["discard", "--run", &run]).ok().changed();
            assert_eq!(sandbox.names(), std::slice::from_ref(&live));
        }
        restore().run().ok();
        let now = sandbox.content();
        assert_eq!((&now[&lost], &now[&live]), (&before[&lost], &before[&live]), "{number} {side:?}: {:?}", gate.changes());
        sandbox.run(&["discard", "--run", &run]).ok();
        assert!(sandbox.copies().is_empty(), "{number} {side:?}");
    }
}

#[test]
fn swap_opens_no_direct_index_outside_its_scope() {
    let sandbox = Sandbox::new("direct-scope");
    let docs = sandbox.simple("docs", 10);
    let created = sandbox.create("s1");
    sandbox.delete(&docs);
    let run = run_id(1);
    sandbox.gate().close_on("/_settings", Side::Before).kill(sandbox.resuming(&["restore", "--run-id", &run], &created));
    sandbox.tool(&["swap", "--run", &run]).env("SVC_INDICES", "other-*").run().refused("options_invalid").unchanged();
    assert_eq!(sandbox.blocks(&docs), ["write"]);
    sandbox.run(&["swap", "--run", &run]).ok().changed();
    assert_eq!((sandbox.blocks(&docs), sandbox.count(&docs)), (Vec::new(), 10));
}

/// A restore of one index that is not live, held when the server has restored it and the tool has not heard so.
fn held_direct(sandbox: &Sandbox) -> (String, Gate, Spawned) {
    let docs = sandbox.simple("docs", 10);
    let created = sandbox.create("s1");
    sandbox.delete(&docs);
    let gate = sandbox.gate().close_on("/_restore", Side::After);
    let tool = gate.hold(sandbox.resuming(&["restore"], &created));
    sandbox.ask("GET", &format!("/_cluster/health/{docs}?wait_for_status=green&timeout=60s"), None);
    (docs, gate, tool)
}

#[test]
fn direct_restore_blocks_writes_until_verified() {
    let sandbox = Sandbox::new("direct");
    let (docs, gate, tool) = held_direct(&sandbox);
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
        let sandbox = Sandbox::new(if is_clients { "ended-client" } else { "ended" });
        let (docs, gate, tool) = held_direct(&sandbox);
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

/// A server of the test's own, on a disk that nobody else fills: its limits are set, and it is the service's alone (the scope
/// `*`).
#[test]
fn restore_exceeding_disk_or_shard_limit_is_refused() {
    let host = Host::shared().unwrap();
    let extra = [("cluster.routing.allocation.disk.threshold_enabled".to_owned(), "true".to_owned())];
    let settings = Settings { extra: extra.into(), ..Settings::default() };
    let own = host.prepare_search_server(&host.search.key, &settings).unwrap();
    let _disk = SmallDisk::at(&own.data_dir, 300).unwrap();
    own.start(&host.systemd).unwrap();
    let sandbox = Sandbox::on(own.server.clone(), "room").registered(&[]);
    let watermarks = |low: u64, high: u64| {
        let name = |stage: &str| format!("cluster.routing.allocation.disk.watermark.{stage}");
        let free = |bytes: u64| json!(format!("{bytes}b"));
        let all = json!({name("low"): free(low), name("high"): free(high), name("flood_stage"): free(1)});
        sandbox.ask("PUT", "/_cluster/settings", Some(json!({"persistent": all})));
    };
    watermarks(1, 1);
    let docs = sandbox.noise("docs", 60);
    let everything = |args: &[&str]| sandbox.tool(args).env("SVC_INDICES", "*");
    let created = everything(&["create", "s1"]).run().ok();
    let resuming = |args: &[&str]| sandbox.resuming(args, &created).env("SVC_INDICES", "*");
    let indices = || {
        let all = sandbox.ask("GET", "/_cat/indices?format=json&h=index,uuid,docs.count&expand_wildcards=all", None);
        let mut all: Vec<String> = all.as_array().unwrap().iter().map(Value::to_string).collect();
        all.sort();
        all
    };
    let before = indices();
    let refused = |args: &[&str]| {
        let gate = sandbox.gate();
        let tool = if args[0] == "clone" { everything(args) } else { resuming(args) };
        tool.via(&gate).run().refused("out_of_space");
        assert_eq!((gate.changes(), indices()), (Vec::new(), before.clone()), "{args:?}");
    };
    let all_refused = || {
        for args in [&["stage"][..], &["restore"], &["clone", "--indices", &docs]] {
            refused(args);
        }
    };

    let available = || {
        let stats = sandbox.ask("GET", "/_nodes/stats/fs", None);
        let node = stats["nodes"].as_object().unwrap().values().next().unwrap().clone();
        node["fs"]["total"]["available_in_bytes"].as_u64().unwrap()
    };
    let status = sandbox.ask("GET", &format!("/_snapshot/{}/s1/_status", sandbox.prefix), None);
    let bytes = status["snapshots"][0]["stats"]["total"]["size_in_bytes"].as_u64().unwrap();
    assert!(bytes > 4 * MB, "{status}");
    // What the server has written and does not need any more goes behind the scenes.
    for tidy in ["_flush?force=true", "_forcemerge?max_num_segments=1", "_flush?force=true"] {
        sandbox.ask("POST", &format!("/{docs}/{tidy}"), None);
    }
    let mut last = 0;
    wait::until("a disk that stays as it is", wait::HANG, || {
        // The server looks at its disk once a second.
        std::thread::sleep(Duration::from_secs(2));
        (std::mem::replace(&mut last, available()) == last).then_some(())
    })
    .unwrap();
    // In place it has the space of what it gives up.
    let would_fit = || drop(resuming(&DELETE).arg("--dry-run").run().ok());
    // The high watermark is just above what is restored; then the node is past it.
    let just_above = available() - (bytes - MB);
    watermarks(just_above, just_above);
    [["stage"], ["restore"]].iter().for_each(|args| refused(args));
    would_fit();
    watermarks(available() + MB, available() + MB);
    all_refused();
    // So far past the watermark that not even what is given up would do.
    watermarks(available() + 2 * bytes, available() + 2 * bytes);
    [CLOSE, DELETE].iter().for_each(|args| refused(args));
    watermarks(available() - bytes - MB, available() - bytes - MB);
    let staged = resuming(&["stage"]).run().ok().changed();
    // Past the low watermark no shard comes to the node, unless the server makes an exception for a cluster of one.
    let settings = sandbox.ask("GET", "/_cluster/settings?include_defaults=true&flat_settings=true", None);
    let exception = "cluster.routing.allocation.disk.watermark.enable_for_single_data_node";
    watermarks(400 * MB, 1);
    let gate = sandbox.gate();
    let swap = sandbox.resuming(&["swap", "--dry-run"], &staged).via(&gate).run();
    sandbox.from(&["discard"], &staged).ok();
    if settings["defaults"][exception] == "false" {
        swap.ok();
    } else {
        swap.refused("out_of_space");
        assert_eq!(gate.changes(), Vec::<String>::new());
        all_refused();
    }
    watermarks(1, 1);

    sandbox.set_cluster("cluster.max_shards_per_node", json!(sandbox.shards()));
    all_refused();
    would_fit();
}

/// The index that a server makes for itself, by the name by which the procedure's pattern leaves it out.
#[test]
fn default_pattern_excludes_geoip_index() {
    const GEOIP: &str = ".geoip_databases";
    let sandbox = Sandbox::new("geoip");
    let docs = sandbox.simple("docs", 3);
    sandbox.ask("PUT", &format!("/{GEOIP}"), Some(json!({"settings": {"number_of_replicas": 0}})));
    sandbox.fill(GEOIP, 0, 3);
    let ours = format!("{}-*", sandbox.prefix);
    let scope = format!("{ours},{GEOIP}");
    let tool = |args: &[&str]| sandbox.tool(args).env("SVC_INDICES", &scope);
    // By its name, or it is the server's own and stays out of a snapshot.
    let with = tool(&["create", "with"]).run().ok();
    let without = sandbox.create("without");
    let made = sandbox.uuid(GEOIP);
    for (document, holds_it) in [(&with, true), (&without, false)] {
        assert_eq!(document.result()["snapshot"]["indices"].as_array().unwrap().contains(&json!(GEOIP)), holds_it);
        let restore = sandbox.resuming(&["restore", "--exact"], document).env("SVC_INDICES", &scope);
        let restored = restore.run().ok().changed();
        assert_eq!(restored.result()["indices"].as_array().unwrap().len(), 1, "{restored}");
        assert!(!holds_it || reason(&restored, GEOIP) == "not_asked_for", "{restored}");
        assert_eq!((sandbox.uuid(GEOIP), sandbox.count(GEOIP)), (made.clone(), 3));
        sandbox.from(&["discard"], &restored).ok();
    }
    assert_eq!(sandbox.count(&docs), 3);
    sandbox.remove_state();
    tool(&["restore", "with", "--indices", GEOIP]).run().warns("not_checked");
    assert_ne!(sandbox.uuid(GEOIP), made, "by its name it is restored");
    sandbox.ask("DELETE", &format!("/{GEOIP}"), None);
}
