//! `svc-snap` on a cluster of three nodes that share one folder of repositories: nodes that stop in the middle of a snapshot or a
//! restore, and one that cannot write.

use svc_tests::cluster::Cluster;
use svc_tests::prelude::*;

/// An index of three shards, one on each node, with so much in them that a slow repository takes its time.
fn spread(sandbox: &Sandbox, suffix: &str) -> String {
    let properties = json!({"t": {"type": "keyword", "index": false, "doc_values": false}});
    let settings = json!({"number_of_shards": 3, "number_of_replicas": 0, "index.routing.allocation.total_shards_per_node": 1});
    let body = json!({"settings": settings, "mappings": {"properties": properties}, "aliases": {sandbox.name("all"): {}}});
    let name = sandbox.index(suffix, body);
    sandbox.fill_noise(&name, 30);
    sandbox.ask("GET", &format!("/_cluster/health/{name}?wait_for_status=green&timeout=60s"), None);
    name
}

#[test]
#[ignore = "minutes: a cluster of three nodes"]
fn node_killed_during_snapshot_makes_it_invalid() {
    let shared = Cluster::shared().unwrap();
    // Once a node that only holds data, once the elected manager itself.
    for (victim, asked) in [(3, 1), (1, 2)].into_iter().take(rounds("a node that dies during a snapshot", 1, 2)) {
        let cluster = Cluster::take(&shared).unwrap();
        let sandbox = Sandbox::on(cluster.node(asked).clone(), &format!("dies{victim}"));
        let sandbox = sandbox.registered(&[("max_snapshot_bytes_per_sec", "150kb")]);
        let index = spread(&sandbox, "docs");
        let node = format!("svc-{victim}");
        let shards = sandbox.ask("GET", &format!("/_cat/shards/{index}?format=json"), None);
        let there = shards.as_array().unwrap().iter().find(|one| one["node"] == node.as_str()).expect("one on each node");
        let shard: u64 = there["shard"].as_str().unwrap().parse().unwrap();
        assert_eq!(cluster.manager(asked).unwrap(), "svc-1");
        let (create, _) = sandbox.begun(sandbox.tool(&["create", "s"]), "s");
        let path = format!("/_snapshot/{}/s/_status", sandbox.prefix);
        wait::so("the shard's snapshot", || {
            let (_, status) = sandbox.search.request("GET", &path, None).ok()?;
            let stage = status.pointer(&format!("/snapshots/0/indices/{index}/shards/{shard}/stage"))?;
            assert_ne!(stage, "DONE", "the repository is too fast for this test");
            (stage == "STARTED").then_some(())
        });
        cluster.kill(victim).unwrap();
        let created = create.wait().fails(7, "snapshot_invalid").changed().has(&json!({"snapshot/state": "PARTIAL"}));
        let failures = created.result()["snapshot"]["failures"].as_array().unwrap();
        assert!(failures.iter().any(|one| one["index"] == index.as_str() && one["shard"] == shard), "{created}");
    }
}

/// Counts the live documents through an alias until told to stop, from a thread of its own; every count of all shards must be the same. While a
/// replica takes the place of a primary that has just gone, the server counts without that shard, and says so.
fn counted(sandbox: &Sandbox, alias: &str, expected: u64, stop: &AtomicBool) -> usize {
    let mut times = 0;
    while !stop.load(Ordering::SeqCst) {
        let (status, answer) = sandbox.search.request("GET", &format!("/{alias}/_count"), None).unwrap();
        assert_eq!((status, &answer["_shards"]["failed"]), (200, &json!(0)), "{answer}");
        if answer["_shards"]["successful"] == answer["_shards"]["total"] {
            assert_eq!(answer["count"], expected, "{answer}");
            times += 1;
        }
    }
    times
}

#[test]
#[ignore = "minutes: a cluster of three nodes"]
fn stage_with_stopped_node_completes_or_leaves_nothing() {
    let shared = Cluster::shared().unwrap();
    // A shard that may go to another node comes back there; one that may not is lost, as it has no replica.
    for (name, moves) in [("moves", true), ("stays", false)].into_iter().take(rounds("a node that stops during a staging", 1, 2))
    {
        let cluster = Cluster::take(&shared).unwrap();
        let sandbox = Sandbox::on(cluster.node(1).clone(), name).registered(&[]);
        let index = spread(&sandbox, "docs");
        let set = |settings: Value| sandbox.set(&index, settings);
        let anywhere = json!({"index.routing.allocation.total_shards_per_node": null});
        if moves {
            set(anywhere.clone());
        }
        let created = sandbox.create("s");
        // The live index outlives any node; the staged one has no replicas, and the settings of the snapshot.
        set(anywhere);
        set(json!({"index.number_of_replicas": 1}));
        sandbox.ask("GET", &format!("/_cluster/health/{index}?wait_for_status=green&timeout=60s"), None);
        let expected = sandbox.count(&index);
        let slow = |rate: Value| sandbox.set_cluster("indices.recovery.max_bytes_per_sec", rate);
        slow(json!("150kb"));
        let run = format!("20261120t020003z-{name}");
        let staged = format!("svc-staged-{run}-{index}");
        let stop = AtomicBool::new(false);
        let ended = thread::scope(|scope| {
            // Else a panic here would leave the counting thread running, and the scope waiting for it.
            let _stopping = Stopping(&stop);
            let counting = scope.spawn(|| counted(&sandbox, &sandbox.name("all"), expected, &stop));
            let tool = sandbox.resuming(&["stage", "--run-id", &run], &created).spawn();
            wait::so("a shard on its way to the third node", || {
                let shards = sandbox.search.ask("GET", &format!("/{staged}/_recovery?active_only=true"), None).ok()?;
                let shards = shards[&staged]["shards"].as_array()?.clone();
                shards.iter().any(|one| one["target"]["name"] == "svc-3" && one["stage"] == "INDEX").then_some(())
            });
            cluster.stop(3).unwrap();
            slow(json!(null));
            let ended = tool.wait();
            stop.store(true, Ordering::SeqCst);
            assert!(counting.join().unwrap() > 0, "{ended}");
            ended
        });
        if moves {
            let staged = ended.ok().changed().has(&json!({"indices/0/docs_count": expected}));
            sandbox.from(&["swap"], &staged).ok().changed();
            // And the older snapshot goes, by the nodes that are left.
            sandbox.create("newer");
            let pruned = sandbox.run(&["prune", "--kind", "manual", "--max-count", "1", "--min-count", "1"]).ok().changed();
            assert_eq!((&pruned.result()["deleted_count"], sandbox.snapshots().len()), (&json!(1), 1), "{pruned}");
        } else {
            ended.fails(7, "snapshot_invalid").unchanged().error_has(&[&staged]);
            assert!(sandbox.copies().is_empty());
        }
        assert_eq!(sandbox.count(&index), expected);
    }
}

/// What is live outlives any node, what is staged has no replicas. The node stops while it is staged, and just before one of the
/// requests of the swap.
#[test]
#[ignore = "minutes: a cluster of three nodes"]
fn restore_with_stopped_node_is_finished_by_same_command() {
    let shared = Cluster::shared().unwrap();
    let cluster = Cluster::take(&shared).unwrap();
    let sandbox = Sandbox::on(cluster.node(1).clone(), "restore").registered(&[]);
    let index = spread(&sandbox, "docs");
    let alias = sandbox.name("all");
    let replicas = json!({"index.routing.allocation.total_shards_per_node": null, "index.number_of_replicas": 1});
    sandbox.set(&index, replicas);
    let green = || sandbox.ask("GET", "/_cluster/health?wait_for_status=green&timeout=120s", None);
    green();
    let created = sandbox.create("s");
    let new = sandbox.count(&index);
    // Restore, block, keep, exchange, clone, settle, finish.
    const EXCHANGE: usize = 4;
    let numbers = [EXCHANGE, 1, 6, 2, 3, 5, 7];
    for number in numbers.into_iter().take(rounds("a node that stops at a request of a restore", 1, 7)) {
        sandbox.fill(&index, 0, 9);
        let old = sandbox.count(&alias);
        assert_eq!((green()["status"].clone(), old), (json!("green"), new + 9));
        let run = format!("20261120t03{number:02}03z-stops");
        let restore = || sandbox.resuming(&["restore", "--run-id", &run], &created);
        // The first request stages: the server is at it when the node stops.
        let side = if number == 1 { Side::After } else { Side::Before };
        let gate = sandbox.gate().close_at(number, side);
        let tool = gate.hold(restore());
        cluster.stop(3).unwrap();
        gate.open();
        if number >= EXCHANGE {
            // What was live goes by this request, or has gone: the swap waits for the node.
            cluster.ensure_complete().unwrap();
        }
        let ended = tool.wait();
        println!("{number}: {:?} {}", gate.changes(), ended.status);
        if ended.status != 0 {
            let error = &ended.doc()["error"];
            assert!((3..=7).contains(&ended.status) && error["hint"].is_string(), "{ended}");
            assert_eq!(sandbox.count(&alias), old, "{ended}");
        }
        cluster.ensure_complete().unwrap();
        green();
        let count = sandbox.count(&alias);
        assert_eq!(count, if ended.status == 0 { new } else { old }, "{ended}");
        let again = restore().run().ok();
        assert_eq!((sandbox.count(&alias), sandbox.count(&index)), (new, new), "{again}");
        sandbox.run(&["discard", "--run", &run]).ok();
        assert!(sandbox.copies().is_empty());
    }
}

#[test]
#[ignore = "minutes: a cluster of three nodes"]
fn node_that_cannot_write_to_repository_is_named() {
    let shared = Cluster::shared().unwrap();
    let cluster = Cluster::take(&shared).unwrap();
    let sandbox = Sandbox::on(cluster.node(1).clone(), "closed");
    let location = sandbox.location();
    os::folder(&location, 0o700, Some(&os::system_user(OS_USER).unwrap())).unwrap();

    let register = ["register", "--location", location.to_str().unwrap()];
    sandbox.run(&register).fails(7, "repository_unusable").changed().error_has(&["svc-3"]);
    sandbox.run(&["verify"]).fails(7, "repository_unusable").unchanged().error_has(&["svc-3"]);
    sandbox.run(&["health"]).ok().warns_of("repository_unusable", "svc-3").has(&json!({"repository/verified": false}));

    // The servers keep it registered all the same; what is saved into it lacks that node's shards.
    spread(&sandbox, "docs");
    let created = sandbox.run(&["create", "s"]).fails(7, "snapshot_invalid").changed();
    assert_eq!(created.result()["snapshot"]["failures"].as_array().unwrap().len(), 1);

    os::folder(&location, 0o777, None).unwrap();
    sandbox.run(&["verify"]).ok().unchanged().has(&json!({"nodes": ["svc-1", "svc-2", "svc-3"]}));
    sandbox.create("again");
}
