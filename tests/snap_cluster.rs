//! `svc-snap` on a cluster of three nodes that share one folder of repositories: nodes that stop in the middle of a snapshot or a
//! restore, and one that cannot write.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use svc_tests::cluster::{Cluster, Share};
use svc_tests::sandbox::Sandbox;
use svc_tests::wait;

const LONG: Duration = Duration::from_secs(60);

/// A sandbox whose requests and tools go to that node.
fn sandbox_on(cluster: &Cluster, node: usize, name: &str) -> Sandbox {
    Sandbox::on(cluster.node(node).clone(), name)
}

/// An index of three shards, one on each node, with so much in them that a slow repository takes its time.
fn spread(sandbox: &Sandbox, suffix: &str, replicas: usize) -> String {
    let properties = json!({"t": {"type": "keyword", "index": false, "doc_values": false}});
    let settings = json!({"number_of_shards": 3, "number_of_replicas": replicas,
        "index.routing.allocation.total_shards_per_node": replicas + 1});
    let name = sandbox.index(suffix, json!({"settings": settings, "mappings": {"properties": properties}}));
    sandbox.fill_noise(&name, 60);
    sandbox.ask("GET", &format!("/_cluster/health/{name}?wait_for_status=green&timeout=60s"), None);
    name
}

/// The number of the shard whose primary is on that node.
fn shard_on(cluster: &Cluster, node: usize, index: &str) -> usize {
    let name = format!("svc-{node}");
    (0..3).find(|&shard| cluster.place(1, index, shard).unwrap() == name.as_str()).expect("a shard on each node")
}

/// Waits until the snapshot of that shard has begun and has not ended.
fn shard_under_way(sandbox: &Sandbox, snapshot: &str, index: &str, shard: usize) {
    let path = format!("/_snapshot/{}/{snapshot}/_status", sandbox.prefix);
    let stage = format!("/snapshots/0/indices/{index}/shards/{shard}/stage");
    wait::until("the shard's snapshot", LONG, || {
        let (_, status) = sandbox.search.request("GET", &path, None).ok()?;
        let stage = status.pointer(&stage)?;
        assert_ne!(stage, "DONE", "the repository is too fast for this test");
        (stage == "STARTED").then_some(())
    })
    .unwrap();
}

#[test]
fn a_snapshot_during_which_a_node_dies_is_no_backup_whichever_node_it_was() {
    let share = Share::new().unwrap();
    // Once a node that only holds data, once the elected manager itself.
    for (victim, asked) in [(3, 1), (1, 2)] {
        let cluster = share.take().unwrap();
        let sandbox = sandbox_on(&cluster, asked, &format!("dies{victim}")).registered(&[("max_snapshot_bytes_per_sec", "200kb")]);
        let index = spread(&sandbox, "docs", 0);
        let shard = shard_on(&cluster, victim, &index);
        let create = sandbox.tool(&["create", "s"]).spawn();
        sandbox.appears("s");
        shard_under_way(&sandbox, "s", &index, shard);
        cluster.kill(victim).unwrap();
        let created = create.wait();
        println!("{created}");
        let created = created.fails(7, "snapshot_partial").changed();
        let snapshot = &created.result()["snapshot"];
        assert_eq!(snapshot["state"], "PARTIAL");
        let failed: Vec<(&str, u64)> = snapshot["failures"].as_array().unwrap().iter()
            .map(|one| (one["index"].as_str().unwrap(), one["shard"].as_u64().unwrap())).collect();
        assert!(failed.contains(&(index.as_str(), shard as u64)), "{created}");
        sandbox.run(&["show", "s"]).fails(7, "snapshot_partial");
        sandbox.run(&["wait", "s"]).fails(7, "snapshot_partial");
        let listed = sandbox.run(&["list"]).ok();
        assert_eq!(listed.result()["snapshots"][0]["good"], false);
        sandbox.from(&["stage"], &created).fails(2, "snapshot_partial").unchanged();
    }
}

#[test]
fn a_repository_that_one_node_cannot_write_to_is_named_with_its_node() {
    let share = Share::new().unwrap();
    let cluster = share.take().unwrap();
    let sandbox = sandbox_on(&cluster, 1, "closed");
    let location = sandbox.location();
    fs::create_dir(&location).unwrap();
    svc_tests::os::folder(&location, 0o700, Some(&svc_tests::os::system_user(svc_tests::search::OS_USER).unwrap())).unwrap();
    let location = location.to_str().unwrap();
    let registered = sandbox.run(&["register", "--location", location]);
    println!("{registered}");
    let verified = sandbox.run(&["verify"]);
    println!("{verified}");
    let health = sandbox.run(&["health"]);
    println!("{health}");
    spread(&sandbox, "docs", 0);
    println!("{}", sandbox.run(&["create", "s"]));
}
