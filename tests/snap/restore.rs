//! What is restored and what is left alone: patterns, the scope, room; and restores that are cut.

use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use svc_tests::content;
use svc_tests::disk::SmallDisk;
use svc_tests::host::Host;
use svc_tests::proxy::{Gate, Side};
use svc_tests::random::{self, Random};
use svc_tests::sandbox::Sandbox;
use svc_tests::search::Settings;
use svc_tests::tool::{Ran, Spawned};
use svc_tests::wait;

const MB: u64 = 1 << 20;
const LONG: Duration = svc_tests::wait::HANG;

/// The names of a list in a result.
fn names(list: &Value, key: &str) -> Vec<String> {
    list.as_array().unwrap().iter().map(|one| one[key].as_str().unwrap().to_owned()).collect()
}

fn reason(ran: &Ran, name: &str) -> Value {
    let skipped = ran.result()["skipped"].as_array().unwrap().iter().find(|one| one["name"] == name);
    skipped.unwrap_or_else(|| panic!("{name} is not skipped\n{ran}"))["reason"].clone()
}

#[test]
fn patterns_with_exclusions_restore_what_they_name_wherever_the_exclusions_stand() {
    let sandbox = Sandbox::new("patterns");
    let [a, b1, b2, c] = ["a", "b1", "b2", "c"].map(|suffix| sandbox.simple(suffix, 3));
    let created = sandbox.create("s1");
    let staged = |patterns: &str| {
        names(
            &sandbox.from(&["stage", "--dry-run", "--indices", patterns], &created).ok().unchanged().result()["indices"],
            "index",
        )
    };
    assert_eq!(staged("*,-.geoip_databases"), [&*a, &b1, &b2, &c], "an exclusion of what the snapshot does not hold is none");
    assert_eq!(staged(&format!("*,-{a},-{}", sandbox.name("b*"))), [&*c]);
    assert_eq!(staged(&format!("-{a},*")), [&*b1, &b2, &c]);
    assert_eq!(staged(&format!("-{a},-{b1}")), [&*b2, &c]);
    assert_eq!(staged(&format!("-{c},{},-{b2}", sandbox.name("b*"))), [&*b1]);
    for name in [&a, &b1, &b2, &c] {
        sandbox.fill(name, 3, 5);
    }
    sandbox.from(&["restore", "--indices", &format!("-{a},*,-{}", sandbox.name("b*"))], &created).ok().changed();
    assert_eq!([&a, &b1, &b2, &c].map(|name| sandbox.count(name)), [5, 5, 5, 3]);
}

#[test]
fn what_is_another_applications_or_the_securitys_never_changes() {
    let sandbox = Sandbox::new("second");
    let ours = sandbox.simple("docs", 10);
    let surplus = format!("{}-surplus", sandbox.prefix);
    let other = format!("second-{}", sandbox.prefix);
    let security = format!(".security-{}", sandbox.prefix);
    for name in [&other, &security] {
        sandbox.ask(
            "PUT",
            &format!("/{name}"),
            Some(json!({"settings": {"number_of_replicas": 0}, "aliases": {format!("{other}-of{}", name.len()): {}}})),
        );
        sandbox.fill(name, 0, 7);
    }
    // Somebody's snapshot that holds all of them, in the repository that is restored from.
    let body = json!({"indices": format!("{ours},{other},{security}"), "include_global_state": false});
    sandbox.ask("PUT", &format!("/_snapshot/{}/s1?wait_for_completion=true", sandbox.prefix), Some(body));
    let before = sandbox.content();
    sandbox.fill(&other, 7, 9);
    sandbox.fill(&security, 7, 9);
    let foreign = || {
        let look = |name: &str| {
            let uuid = sandbox.ask("GET", &format!("/{name}/_settings?flat_settings=true"), None)[name]["settings"]["index.uuid"]
                .clone();
            (content::documents(&sandbox.search.url, name).unwrap(), uuid)
        };
        [look(&other), look(&security)]
    };
    let untouched = foreign();
    let scope = format!("{}-*,{security}", sandbox.prefix);
    let restore = |args: &[&str]| sandbox.tool(&["restore", "s1"]).args(args.iter().copied()).env("SVC_INDICES", &scope).run();
    for args in [&["--exact"][..], &["--in-place", "--on-conflict", "close"], &["--in-place", "--on-conflict", "delete"]] {
        sandbox.fill(&ours, 5, 20);
        if args == ["--exact"] {
            sandbox.simple("surplus", 2);
        }
        let restored = restore(args);
        assert!([0, 9].contains(&restored.status), "{restored}");
        assert_eq!((reason(&restored, &other), reason(&restored, &security)), (json!("outside_scope"), json!("security")));
        assert_eq!(sandbox.content()[&ours], before[&ours], "{args:?}");
        assert!(!sandbox.names().contains(&surplus), "{args:?}");
        assert_eq!(foreign(), untouched, "{args:?}");
    }
    for name in [&other, &security] {
        restore(&["--indices", name]).refused("options_invalid");
    }
    assert_eq!(foreign(), untouched);
}

#[test]
fn a_direct_restore_that_was_killed_is_resumed_by_the_same_command() {
    let sandbox = Sandbox::new("unopened");
    let alias = sandbox.name("alias");
    let lost = sandbox.written_through(&alias, "lost");
    sandbox.fill(&lost, 0, 20);
    let live = sandbox.simple("live", 5);
    let before = sandbox.content();
    let created = sandbox.create("s1");
    for (n, (number, side)) in
        [(1, Side::Before), (1, Side::After), (2, Side::Before), (2, Side::After), (5, Side::After)].into_iter().enumerate()
    {
        sandbox.ask("DELETE", &format!("/{lost}"), None);
        sandbox.fill(&live, 5, 9);
        let run = format!("20261120t0500{n:02}z-test");
        let restore = || sandbox.tool(&["restore", "--from", "-", "--run-id", &run]).stdin(created.text());
        let gate = Gate::to(&sandbox.search.url).unwrap().close_at(number, side);
        let mut tool = restore().env("SVC_SEARCH_URL", gate.url()).spawn();
        wait::until("the chosen request", svc_tests::wait::HANG, || (gate.is_closed() || !tool.is_running()).then_some(()))
            .unwrap();
        assert!(gate.is_closed(), "{number} {side:?}: {:?}", gate.changes());
        tool.signal(Signal::SIGKILL);
        tool.wait();
        restore().run().ok();
        let now = sandbox.content();
        assert_eq!((&now[&lost], &now[&live]), (&before[&lost], &before[&live]), "{number} {side:?}: {:?}", gate.changes());
        sandbox.run(&["discard", "--run", &run]).ok();
        assert_eq!(sandbox.copies(), Vec::<String>::new(), "{number} {side:?}");
    }
}

/// A restore of one index that is not live, held when the server has restored it and the tool has not heard so.
fn held_direct(sandbox: &Sandbox) -> (String, Gate, Spawned) {
    let docs = sandbox.simple("docs", 10);
    let created = sandbox.create("s1");
    sandbox.ask("DELETE", &format!("/{docs}"), None);
    let gate = Gate::to(&sandbox.search.url).unwrap().close_on("/_restore", Side::After);
    let tool = sandbox.tool(&["restore", "--from", "-"]).stdin(created.text()).env("SVC_SEARCH_URL", gate.url()).spawn();
    sandbox.ask("GET", &format!("/_cluster/health/{docs}?wait_for_status=green&timeout=60s"), None);
    wait::until("the held answer", LONG, || gate.is_closed().then_some(())).unwrap();
    (docs, gate, tool)
}

#[test]
fn an_index_restored_under_its_own_name_takes_no_writes_before_it_is_verified() {
    let sandbox = Sandbox::new("direct");
    let (docs, gate, tool) = held_direct(&sandbox);
    let write =
        || sandbox.search.request("PUT", &format!("/{docs}/_doc/client?refresh=true"), Some(&json!({"n": 99}))).unwrap().0;
    let early = write();
    gate.open();
    let restored = tool.wait().ok().changed();
    assert_eq!(early, 403, "{restored}");
    assert_eq!((sandbox.count(&docs), sandbox.blocks(&docs), write()), (10, Vec::new(), 201));
    let opened = format!("PUT /{docs}/_settings");
    assert_eq!(gate.changes().last(), Some(&opened));
    let plan = restored.result()["plan"].as_array().unwrap();
    assert!(plan.iter().any(|one| one["path"] == format!("/{docs}/_settings")), "{restored}");
}

#[test]
fn a_restore_that_is_ended_removes_what_it_restored_under_a_live_name_and_not_what_a_client_made_there() {
    for is_clients in [false, true] {
        let sandbox = Sandbox::new(if is_clients { "ended-client" } else { "ended" });
        let (docs, gate, tool) = held_direct(&sandbox);
        if is_clients {
            sandbox.ask("DELETE", &format!("/{docs}"), None);
            sandbox.simple("docs", 1);
        }
        tool.signal(Signal::SIGTERM);
        gate.open();
        let ended = tool.wait().fails(143, "interrupted");
        if is_clients {
            assert_eq!((sandbox.count(&docs), &ended.doc()["changed"]), (1, &json!(true)), "{ended}");
        } else {
            assert_eq!(sandbox.names(), Vec::<String>::new(), "{}", ended.unchanged());
        }
    }
}

/// A server of the test's own, on a disk that nobody else fills: its limits are set, and it is the service's alone (the scope
/// `*`).
#[test]
fn what_the_disks_cannot_hold_is_refused_with_nothing_sent_and_the_procedures_pattern_passes_over_the_geoip_index() {
    let host = Host::shared().unwrap();
    let extra = [("cluster.routing.allocation.disk.threshold_enabled".to_owned(), "true".to_owned())];
    let settings = Settings { extra: extra.into(), ..Settings::default() };
    let own = host.prepare_search_server(&host.search.key, &settings).unwrap();
    let _disk = SmallDisk::at(&own.data_dir, 300).unwrap();
    own.search.start(&host.systemd).unwrap();
    let sandbox = Sandbox::on(own.search.clone(), "room").registered(&[]);
    let limits = |settings: Value| drop(sandbox.ask("PUT", "/_cluster/settings", Some(json!({ "persistent": settings }))));
    // How many bytes must be free.
    let watermarks = |low: u64, high: u64| {
        let name = |stage: &str| format!("cluster.routing.allocation.disk.watermark.{stage}");
        let free = |bytes: u64| json!(format!("{bytes}b"));
        limits(json!({name("low"): free(low), name("high"): free(high), name("flood_stage"): free(1)}));
    };
    watermarks(1, 1);
    let docs = sandbox.noise("docs", 60);
    sandbox.ask("PUT", "/.geoip_databases", Some(json!({"settings": {"number_of_replicas": 0}})));
    sandbox.fill(".geoip_databases", 0, 3);
    let tool = |args: &[&str]| sandbox.tool(args).env("SVC_INDICES", "*").run();
    let created = tool(&["create", "s1"]).ok();
    // By its name, or it is the server's own and stays out of a snapshot.
    let with = sandbox.tool(&["create", "s2"]).env("SVC_INDICES", "*,.geoip_databases").run().ok();
    let without = tool(&["create", "s3", "--indices", &docs]).ok();
    let names = sandbox.ask("GET", "/_cat/indices?format=json&h=index,uuid,docs.count&expand_wildcards=all", None);
    let unchanged = |at: &str| {
        let now = sandbox.ask("GET", "/_cat/indices?format=json&h=index,uuid,docs.count&expand_wildcards=all", None);
        let sorted = |list: &Value| {
            let mut all: Vec<String> = list.as_array().unwrap().iter().map(Value::to_string).collect();
            all.sort();
            all
        };
        assert_eq!(sorted(&now), sorted(&names), "{at}");
    };
    let refused = |args: &[&str], document: Option<&Ran>, code: &str| {
        let gate = Gate::to(&sandbox.search.url).unwrap();
        let mut tool = sandbox.tool(args).env("SVC_INDICES", "*").env("SVC_SEARCH_URL", gate.url());
        if let Some(document) = document {
            tool = tool.args(["--from", "-"]).stdin(document.text());
        }
        tool.run().refused(code);
        assert_eq!(gate.changes(), Vec::<String>::new(), "{args:?}");
        unchanged(code);
    };

    let available = || {
        let stats = sandbox.ask("GET", "/_nodes/stats/fs", None);
        let node = stats["nodes"].as_object().unwrap().values().next().unwrap().clone();
        node["fs"]["total"]["available_in_bytes"].as_u64().unwrap()
    };
    let status = sandbox.ask("GET", &format!("/_snapshot/{}/s3/_status", sandbox.prefix), None);
    let bytes = status["snapshots"][0]["stats"]["total"]["size_in_bytes"].as_u64().unwrap();
    assert!(bytes > 4 * MB, "{status}");
    // What the server has written and does not need any more goes behind the scenes.
    for tidy in ["_flush?force=true", "_forcemerge?max_num_segments=1", "_flush?force=true"] {
        sandbox.ask("POST", &format!("/{docs}/{tidy}"), None);
    }
    let mut last = 0;
    wait::until("a disk that stays as it is", LONG, || {
        // The server looks at its disk once a second.
        std::thread::sleep(Duration::from_secs(2));
        (std::mem::replace(&mut last, available()) == last).then_some(())
    })
    .unwrap();
    // The high watermark is just above what is restored; then the node is past it.
    let in_place = ["restore", "--in-place", "--on-conflict", "delete"];
    let would_fit = || {
        drop(sandbox.tool(&in_place).args(["--dry-run", "--from", "-"]).env("SVC_INDICES", "*").stdin(created.text()).run().ok())
    };
    for reach in [Some(bytes - MB), None] {
        for step in ["stage", "restore"] {
            let free = reach.map_or_else(|| available() + MB, |left| available() - left);
            watermarks(free, free);
            refused(&[step], Some(&created), "out_of_space");
        }
        // In place it would have the room of what it gives up, as long as that is not beyond the watermark as well.
        if reach.is_some() {
            would_fit();
        }
    }
    refused(&["clone", "--indices", &docs], None, "out_of_space");
    // So far past the watermark that not even that would do.
    watermarks(available() + 2 * bytes, available() + 2 * bytes);
    for way in ["close", "delete"] {
        refused(&["restore", "--in-place", "--on-conflict", way], Some(&created), "out_of_space");
    }
    // It is just out of reach.
    watermarks(available() - bytes - MB, available() - bytes - MB);
    let staged = sandbox.tool(&["stage", "--from", "-"]).env("SVC_INDICES", "*").stdin(created.text()).run().ok().changed();
    // Past the low watermark no shard comes to the node, unless the server makes an exception for a cluster of one.
    let settings = sandbox.ask("GET", "/_cluster/settings?include_defaults=true&flat_settings=true", None);
    let exception = "cluster.routing.allocation.disk.watermark.enable_for_single_data_node";
    watermarks(400 * MB, 1);
    let gate = Gate::to(&sandbox.search.url).unwrap();
    let swap = sandbox.tool(&["swap", "--dry-run", "--from", "-"]).env("SVC_SEARCH_URL", gate.url()).stdin(staged.text());
    if settings["defaults"][exception] == "false" {
        swap.run().ok();
        sandbox.from(&["discard"], &staged).ok();
    } else {
        swap.run().refused("out_of_space");
        assert_eq!(gate.changes(), Vec::<String>::new());
        sandbox.from(&["discard"], &staged).ok();
        for step in ["stage", "restore"] {
            refused(&[step], Some(&created), "out_of_space");
        }
        refused(&["clone", "--indices", &docs], None, "out_of_space");
    }
    watermarks(1, 1);

    let health = sandbox.ask("GET", "/_cluster/health", None);
    let shards = ["active_shards", "initializing_shards", "unassigned_shards"]
        .map(|key| health[key].as_u64().unwrap())
        .iter()
        .sum::<u64>();
    limits(json!({"cluster.max_shards_per_node": shards}));
    for step in ["stage", "restore"] {
        refused(&[step], Some(&created), "out_of_space");
    }
    would_fit();
    refused(&["clone", "--indices", &docs], None, "out_of_space");
    limits(json!({"cluster.max_shards_per_node": 1000}));

    // What the procedure's pattern leaves out stays as it is, whether the snapshot holds it or not.
    let geoip = || {
        sandbox.ask("GET", "/.geoip_databases/_settings?flat_settings=true", None)[".geoip_databases"]["settings"]["index.uuid"]
            .clone()
    };
    let uuid = geoip();
    for (document, holds_it) in [(&with, true), (&without, false)] {
        let captured = document.result()["snapshot"]["indices"].as_array().unwrap().contains(&json!(".geoip_databases"));
        let restored = sandbox
            .tool(&["restore", "--exact", "--from", "-"])
            .env("SVC_INDICES", "*")
            .stdin(document.text())
            .run()
            .ok()
            .changed();
        assert_eq!(restored.result()["indices"].as_array().unwrap().len(), 1, "{restored}");
        assert_eq!(captured, holds_it, "{document}");
        if captured {
            assert_eq!(reason(&restored, ".geoip_databases"), "not_asked_for");
        }
        assert_eq!((geoip(), sandbox.count(".geoip_databases")), (uuid.clone(), 3));
        sandbox.from(&["discard"], &restored).ok();
    }
    assert_eq!(sandbox.count(&docs), 60);
    sandbox.remove_state();
    let named = sandbox.tool(&["restore", "s2", "--indices", ".geoip_databases"]).env("SVC_INDICES", "*").run();
    named.warns("not_checked");
    assert_ne!(geoip(), uuid, "by its name it is restored");
}

/// Many cuts at places that nobody chose.
#[test]
#[ignore = "minutes: 50 swaps, each cut up to six times"]
fn a_swap_cut_at_random_and_run_again_never_loses_a_document() {
    let sandbox = Sandbox::new("random");
    let mut random = Random::of(random::seed());
    let alias = sandbox.name("alias");
    for suffix in ["a", "b", "c"] {
        let settings = json!({"settings": {"number_of_replicas": 0}, "aliases": {&alias: {"is_write_index": suffix == "a"}}});
        let index = sandbox.index(suffix, settings);
        sandbox.fill(&index, 0, 20);
    }
    let before = sandbox.content();
    let created = sandbox.create("s1");
    for suffix in ["a", "b", "c"] {
        sandbox.fill(&sandbox.name(suffix), 10, 40);
    }
    let upgraded = sandbox.content();
    for round in 0..50 {
        let run = format!("20261120t06{round:04}z-test");
        let staged = sandbox.tool(&["stage", "--from", "-", "--run-id", &run]).stdin(created.text()).run().ok();
        let mut cuts = Vec::new();
        // Forward and back, each cut up to three times.
        for back in [false, true] {
            let swap = |url: &str| {
                let tool = sandbox.tool(&["swap", "--from", "-"]).stdin(staged.text()).env("SVC_SEARCH_URL", url);
                if back { tool.arg("--back") } else { tool }
            };
            for _ in 0..=random.below(3) {
                let side = if random.below(2) == 0 { Side::Before } else { Side::After };
                let gate = Gate::to(&sandbox.search.url).unwrap().close_at(random.below(18) + 1, side);
                let gate = if random.below(3) == 0 { gate.hanging_up() } else { gate };
                let mut tool = swap(&gate.url()).spawn();
                wait::until("the cut or the end", svc_tests::wait::HANG, || {
                    (gate.is_closed() || !tool.is_running()).then_some(())
                })
                .unwrap();
                if gate.is_closed() {
                    tool.signal(Signal::SIGKILL);
                }
                tool.wait();
                cuts.push((back, gate.changes().len(), side));
            }
            swap(&sandbox.search.url).run().ok();
            assert_eq!(&sandbox.content(), if back { &upgraded } else { &before }, "round {round}: {cuts:?}");
        }
        sandbox.run(&["discard", "--run", &run]).ok();
        sandbox.from(&["discard"], &staged).ok();
        assert_eq!(sandbox.copies(), Vec::<String>::new(), "round {round}: {cuts:?}");
    }
}
