//! Data streams: captured by `svc-snap create`, never staged, and restored in place.

use svc_tests::prelude::*;

/// Makes a data stream of two indices with 5 and 3 documents, and gives its name.
fn stream(sandbox: &Sandbox, suffix: &str) -> String {
    let name = sandbox.name(suffix);
    sandbox.stream(&name, json!({}));
    sandbox.ask("POST", &format!("/{name}/_rollover"), None);
    sandbox.fill_stream(&name, 5, 8);
    name
}

/// Whether the server removes data streams: the distributions of Elasticsearch 8 and 9 know them and lack their interface, that
/// of 7.17 knows none.
fn removes_streams(sandbox: &Sandbox) -> bool {
    sandbox.search.product == Product::OpenSearch
}

fn numbers(sandbox: &Sandbox, stream: &str) -> Vec<u64> {
    let found = sandbox.ask("GET", &format!("/{stream}/_search?size=100"), None);
    let mut numbers: Vec<u64> =
        found["hits"]["hits"].as_array().unwrap().iter().map(|hit| hit["_source"]["n"].as_u64().unwrap()).collect();
    numbers.sort_unstable();
    numbers
}

fn shown(sandbox: &Sandbox, stream: &str) -> Value {
    sandbox.ask("GET", &format!("/_data_stream/{stream}"), None)["data_streams"][0].clone()
}

fn is_restored(ran: &Ran) -> bool {
    ran.result()["indices"].as_array().unwrap().iter().all(|one| one["state"] == "restored")
}

/// OpenSearch gives no alias to a data stream, so none has to come back with one; on Elasticsearch that is seen below.
#[test]
fn data_stream_is_restored_only_in_place() {
    let sandbox = Sandbox::new("stream");
    if !removes_streams(&sandbox) {
        return skip("a data stream restored in place: this distribution does not serve /_data_stream");
    }
    let name = stream(&sandbox, "logs");
    let other = stream(&sandbox, "logs-app");
    let docs = sandbox.simple("docs", 10);
    let created = sandbox.create("s1");
    let captured = &created.result()["captured_streams"][0];
    assert_eq!((&captured["name"], &captured["template"]), (&json!(name), &json!(name)));
    let counts: Vec<&Value> = captured["indices"].as_array().unwrap().iter().map(|one| &one["docs_count"]).collect();
    assert_eq!(counts, [5, 3]);
    assert!(captured["indices"].as_array().unwrap().iter().all(|one| one["docs_exact"] == true));
    sandbox.fill_stream(&name, 100, 104);
    sandbox.fill_stream(&other, 100, 101);
    sandbox.fill(&docs, 10, 12);

    for step in ["stage", "restore"] {
        let refused = sandbox.from(&[step], &created).refused("not_swappable");
        let refused = refused.error_has(&["Data streams", &name, &other, "--in-place"]);
        // The hint is right as it stands.
        let hint = refused.hint();
        let patterns = hint.split('\'').nth(1).unwrap();
        let without = sandbox.from(&[step, "--indices", patterns, "--dry-run"], &created).ok().unchanged();
        assert_eq!(without.result()["indices"].as_array().unwrap().len(), 1, "{without}");
    }
    sandbox.run(&["clone"]).refused("not_swappable").error_has(&["Data streams"]);

    sandbox.from(&["restore", "--in-place"], &created).refused("name_in_use").error_has(&[&name, &other, &docs]);
    for how in ["close", "delete"] {
        sandbox.fill_stream(&name, 200, 202);
        sandbox.fill(&docs, 20, 22);
        let restore = ["restore", "--in-place", "--on-conflict", how];
        let dry = sandbox.resuming(&restore, &created).arg("--dry-run").run().ok().unchanged();
        let deleted = format!("/_data_stream/{name}");
        assert_eq!(dry.planned().iter().filter(|path| **path == deleted).count(), 1, "{dry}");
        assert!(numbers(&sandbox, &name).len() > 8);

        let gate = sandbox.gate();
        let restored = sandbox.resuming(&restore, &created).via(&gate).run().ok().changed().warns("not_verified");
        // Data streams by their names, beside their backing indices: of those alone the server makes indices without a stream.
        let body = gate.bodies("/_restore").remove(0);
        let names: Vec<&str> = body["indices"].as_str().unwrap().split(',').collect();
        assert!(body["rename_pattern"].is_null() && [&name, &other, &docs].iter().all(|name| names.contains(&name.as_str())));
        let all = restored.result()["indices"].as_array().unwrap();
        let count = |name: &str| all.iter().find(|one| one["index"] == name).unwrap()["docs_count"].clone();
        assert!(is_restored(&restored), "{restored}");
        assert_eq!([&name, &other, &docs].map(|name| count(name)), [8, 8, 10], "{restored}");
        for name in [&name, &other] {
            assert_eq!(numbers(&sandbox, name), (0..8).collect::<Vec<_>>(), "{how}");
            assert_eq!(shown(&sandbox, name)["indices"].as_array().unwrap().len(), 2);
            // It is written to and rolled over as before.
            sandbox.fill_stream(name, 8, 9);
            sandbox.ask("POST", &format!("/{name}/_rollover"), None);
        }
        assert_eq!(sandbox.count(&docs), 10, "{how}");
    }
    // Without its index template it lives, but a person must know.
    sandbox.ask("DELETE", &format!("/_data_stream/{name}"), None);
    sandbox.ask("DELETE", &format!("/_index_template/{name}"), None);
    sandbox.from(&["restore", "--in-place", "--indices", &name], &created).review("not_restored");
    assert_eq!(numbers(&sandbox, &name).len(), 8);
}

#[test]
fn killed_in_place_restore_is_finished_by_same_command() {
    let sandbox = Sandbox::new("kill-ds");
    let has_streams = removes_streams(&sandbox);
    let name = has_streams.then(|| stream(&sandbox, "logs"));
    let docs = sandbox.simple("docs", 4);
    let created = sandbox.create("s1");
    // The stream is deleted, the index closed or deleted, both are restored.
    let requests = 2 + usize::from(has_streams);
    let cuts = (1..=requests).flat_map(|number| [(number, Side::Before), (number, Side::After)]);
    for (n, how) in ["close", "delete"].into_iter().enumerate() {
        for (m, (number, side)) in cuts.clone().enumerate() {
            name.iter().for_each(|name| sandbox.fill_stream(name, 100, 102));
            sandbox.fill(&docs, 10, 12);
            let run = run_id(10 * n + m);
            let restore = || sandbox.resuming(&["restore", "--in-place", "--on-conflict", how, "--run-id", &run], &created);
            let gate = sandbox.gate().close_at(number, side).kill(restore());
            let at = format!("{how}, killed {side:?} request {number}: {:?}", gate.changes());
            let again = restore().run().ok();
            assert!(is_restored(&again) && sandbox.count(&docs) == 4, "{at}");
            if let Some(name) = &name {
                assert_eq!(numbers(&sandbox, name), (0..8).collect::<Vec<_>>(), "{at}");
                assert_eq!(shown(&sandbox, name)["generation"], 2, "{at}");
            }
            restore().run().ok().unchanged();
        }
    }
}

#[test]
fn index_created_by_client_is_not_taken_as_restored() {
    let sandbox = Sandbox::new("conflicting-ds");
    let docs = sandbox.simple("docs", 4);
    sandbox.create("s1");
    // One that is as old as the snapshot, by a clock that may stand still for so long, counts as restored.
    let taken = std::time::Instant::now();
    let is_past = || (taken.elapsed() > Duration::from_millis(300)).then_some(());
    wait::so("the server's clock to be past the snapshot", is_past);
    let args = ["restore", "s1", "--in-place", "--on-conflict", "delete", "--run-id", &run_id(1)];
    // Without the counts of a document.
    sandbox.remove_state();
    sandbox.gate().close_on("/_restore", Side::Before).kill(sandbox.tool(&args));
    assert_eq!(sandbox.search.request("GET", &format!("/{docs}"), None).unwrap().0, 404);
    sandbox.fill(&docs, 100, 102);
    sandbox.tool(&args).run().ok().changed();
    assert_eq!(sandbox.count(&docs), 4);
}

/// Elasticsearch 8 and 9 as they are had here know data streams with aliases and lack `/_data_stream`: one that is live cannot be
/// deleted, so that nothing is changed; on another server, where it is not live, it comes with its aliases.
fn a_stream_comes_back_with_its_aliases(first: &Search) {
    if first.product == Product::OpenSearch {
        return skip("a live stream that cannot be deleted: OpenSearch deletes streams");
    }
    if first.key == "elasticsearch-7" {
        return skip("a stream with its aliases: this distribution has no data streams at all");
    }
    let sandbox = Sandbox::on(first.clone(), "alias-ds").registered(&[]);
    let name = stream(&sandbox, "logs");
    let docs = sandbox.simple("docs", 4);
    let (filtered, written) = (sandbox.name("filtered"), sandbox.name("written"));
    let actions = json!({"actions": [{"add": {"index": name, "alias": filtered, "filter": {"term": {"n": 1}}}},
        {"add": {"index": name, "alias": written, "is_write_index": true}}]});
    sandbox.ask("POST", "/_aliases", Some(actions));
    let is_write_index = format!("captured_streams/0/aliases/{written}/is_write_index");
    let created = sandbox.create("s1").has(&json!({is_write_index: true}));
    let failed = sandbox.from(&["restore", "--in-place", "--on-conflict", "close"], &created).unchanged();
    assert_eq!((failed.status, sandbox.count(&docs), numbers(&sandbox, &name).len()), (1, 4, 8), "{failed}");

    let second = own_server(&[("path.repo", &format!("[\"{}\"]", sandbox.search.repo_root.display()))]);
    let mut lost = Sandbox::on(second.server.clone(), "alias-ds");
    lost.search.repo_root = sandbox.search.repo_root.clone();
    let lost = lost.registered(&[("readonly", "true")]);
    let restored = lost.from(&["restore", "--in-place", "--other-server"], &created).ok();
    assert!(is_restored(&restored), "{restored}");
    assert_eq!(numbers(&lost, &name), (0..8).collect::<Vec<_>>());
    let aliases = lost.ask("GET", &format!("/{name}/_alias"), None);
    assert_eq!(aliases[&name]["aliases"][&filtered], json!({"filter": {"term": {"n": 1}}}));
    assert_eq!(aliases[&name]["aliases"][&written], json!({"is_write_index": true}));
}

/// What is kept for the server itself and not for the service, as a default Elasticsearch has it: an index and a data stream whose
/// names begin with a dot, and a hidden data stream. (The Maven distributions lack the modules that make them.)
fn of_the_server(sandbox: &Sandbox) -> Vec<&'static str> {
    let mut names = vec![".own-index"];
    sandbox.ask("PUT", "/.own-index", Some(json!({"settings": {"number_of_replicas": 0}})));
    sandbox.fill(".own-index", 0, 3);
    // OpenSearch has no such data streams, and the distribution of 7.17 none at all.
    if sandbox.search.product == Product::Elasticsearch && sandbox.search.key != "elasticsearch-7" {
        names.push(sandbox.stream(".logs-deprecation.elasticsearch-default", json!({})));
        names.push(sandbox.stream("ilm-history-5", json!({"hidden": true})));
    }
    names
}

#[test]
fn server_indices_are_skipped_and_stream_aliases_restored() {
    let server = own_server(&[]);
    each_holds(&*server, &[server_indices_are_skipped_unless_in_scope, a_stream_comes_back_with_its_aliases]);
}

fn server_indices_are_skipped_unless_in_scope(server: &Search) {
    let sandbox = Sandbox::on(server.clone(), "own").registered(&[]);
    let docs = sandbox.simple("docs", 4);
    let own = of_the_server(&sandbox);
    let (first, all) = (own[0], own.join(","));
    let run =
        |args: &[&str], scope: &str, number| sandbox.tool(args).env("SVC_INDICES", scope).env("SVC_RUN_ID", run_id(number)).run();
    let assert_skipped = |ran: &Ran| {
        let skipped = ran.result()["skipped"].as_array().unwrap();
        for name in &own {
            assert!(skipped.contains(&json!({"name": name, "reason": "servers_own"})), "{name}\n{ran}");
        }
    };

    let created = run(&["create", "s1"], "*", 1).ok().has(&json!({"wanted": [docs]}));
    assert_skipped(&created);
    // Somebody else's snapshot holds all of it.
    sandbox.taken("all", json!({"indices": format!("{docs},{all}"), "include_global_state": false}));
    let uuid = || sandbox.uuid(first);
    let before = uuid();
    let steps = [&["stage", "all"][..], &["restore", "all", "--exact"], &["restore", "s1", "--exact"], &["clone"]];
    for (number, args) in (2..).zip(steps) {
        let ran = run(args, "*", number);
        assert!([0, 9].contains(&ran.status), "{ran}");
        assert_eq!(ran.result()["indices"].as_array().unwrap().len(), 1, "{ran}");
        assert_eq!((uuid(), sandbox.count(first)), (before.clone(), 3), "{ran}");
        if args[1..] != ["s1", "--exact"] {
            assert_skipped(&ran);
        }
        run(&["discard", "--run", &run_id(number)], "*", 90).ok();
    }
    // A shard of the server's own that is lost is none of the service's.
    sandbox.ask("PUT", "/.own-lost?wait_for_active_shards=0", Some(unallocatable()));
    run(&["health"], "*", 91).ok().warns("indices_red");
    run(&["create", "s2"], "*", 92).ok();
    run(&["health"], "*,.own-*", 93).fails(7, "indices_red");
    sandbox.ask("DELETE", "/.own-lost", None);

    let named = run(&["create", "s3"], &format!("*,{all}"), 94).ok();
    let wanted = named.result()["wanted"].as_array().unwrap();
    assert!(own.iter().all(|name| wanted.contains(&json!(name))), "{named}");
    run(&["restore", "s3", "--indices", ".own-*"], "*", 95).ok();
    assert_ne!(uuid(), before, "by its name it is restored");

    // A data stream of the service's is not hidden, and is told before it is in the way.
    if sandbox.search.key != "elasticsearch-7" {
        let logs = sandbox.stream("app-logs", json!({}));
        run(&["health"], "*", 96).ok().warns_of("not_swappable", "data streams").has(&json!({"data_streams": [logs]}));
        run(&["clone", "--dry-run"], "*", 97).refused("not_swappable").error_has(&["Data streams"]);
    }
}
