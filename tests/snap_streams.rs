//! Data streams: noted by `svc-snap create`, never staged, and restored in place.

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use svc_tests::damage;
use svc_tests::gate::{Gate, Side};
use svc_tests::host::Host;
use svc_tests::run_id::run_id;
use svc_tests::sandbox::Sandbox;
use svc_tests::search::{Product, Settings};
use svc_tests::tool::Ran;
use svc_tests::wait;

/// Makes a data stream of two indices with 5 and 3 documents, and gives its name.
fn stream(sandbox: &Sandbox, suffix: &str) -> String {
    let name = sandbox.stream_template(suffix, 1);
    // The first document makes it, where `_data_stream` is not served too.
    sandbox.fill_stream(&name, 0, 5);
    sandbox.ask("POST", &format!("/{name}/_rollover"), None);
    sandbox.fill_stream(&name, 5, 8);
    name
}

/// Whether the server removes data streams: the distributions of Elasticsearch 8 and 9 know them and lack their interface, that
/// of 7.17 knows none.
fn removes_streams(sandbox: &Sandbox) -> bool {
    sandbox.search.product == Product::OpenSearch
}

/// The numbers of the documents that a data stream holds.
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

/// Runs a restore from a document, with a look at its requests.
fn restore(sandbox: &Sandbox, gate: &Gate, args: &[&str], document: &Ran) -> Ran {
    let tool = sandbox.tool(&["restore", "--from", "-"]).args(args.iter().copied()).env("SVC_SEARCH_URL", gate.url());
    tool.stdin(document.text()).run()
}

/// What was restored under its own name, in the order of the names: a data stream by its name, with what is behind it; the server
/// makes of those alone indices without a stream. (Copies made for the proof have other names.)
fn streams_named(gate: &Gate) -> Vec<String> {
    let bodies = gate.bodies("/_restore");
    let own = bodies.iter().filter(|body| body["rename_pattern"].is_null()).map(|body| body["indices"].as_str().unwrap());
    let mut streams = Vec::new();
    for named in own {
        let (stream, behind) = named.split_once(',').unwrap_or((named, ""));
        assert!(!stream.starts_with(".ds-") && behind.split(',').all(|one| one.is_empty() || one.contains(stream)), "{named}");
        streams.push(stream.to_owned());
    }
    streams.sort();
    streams
}

/// OpenSearch gives no alias to a data stream, so none has to come back with one; on Elasticsearch that is seen below.
#[test]
fn a_data_stream_is_refused_unless_it_may_be_restored_in_place_and_then_it_is_there_again() {
    let sandbox = Sandbox::new("stream");
    if !removes_streams(&sandbox) {
        return svc_tests::skip("a data stream restored in place: this distribution does not serve /_data_stream");
    }
    let name = stream(&sandbox, "logs");
    let other = stream(&sandbox, "logs-app");
    let docs = sandbox.simple("docs", 10);
    let alias = json!({"actions": [{"add": {"index": name, "alias": sandbox.name("alias")}}]});
    assert!(sandbox.search.request("POST", "/_aliases", Some(&alias)).unwrap().0 >= 400);
    let created = sandbox.create("s1");
    let noted = &created.result()["captured_streams"][0];
    assert_eq!((noted["name"].as_str(), noted["generation"].as_u64()), (Some(name.as_str()), Some(2)));
    assert_eq!(noted["template"], name);
    let counts: Vec<&Value> = noted["indices"].as_array().unwrap().iter().map(|one| &one["docs_count"]).collect();
    assert_eq!(counts, [5, 3]);
    assert!(noted["indices"].as_array().unwrap().iter().all(|one| one["docs_exact"] == true));
    sandbox.fill_stream(&name, 100, 104);
    sandbox.fill_stream(&other, 100, 101);
    sandbox.fill(&docs, 10, 12);

    for step in ["stage", "restore"] {
        let refused = sandbox.from(&[step], &created).refused("data_streams");
        let message = refused.doc()["error"]["message"].as_str().unwrap();
        assert!(message.contains(&name) && message.contains(&other), "{message}");
    }
    let dry = sandbox.from(&["restore", "--streams-in-place", "--dry-run"], &created).ok().unchanged();
    let planned: Vec<_> =
        dry.result()["plan"].as_array().unwrap().iter().filter(|one| one["path"] == format!("/_data_stream/{name}")).collect();
    assert_eq!(planned.len(), 1, "{dry}");
    assert_eq!(numbers(&sandbox, &name).len(), 12);

    let gate = Gate::to(&sandbox.search.url).unwrap();
    let restored = restore(&sandbox, &gate, &["--streams-in-place"], &created).ok().changed().warns("nothing_kept");
    assert_eq!(streams_named(&gate), [name.as_str(), &other]);
    let streams = restored.result()["streams"].as_array().unwrap();
    assert!(
        streams.iter().all(|one| one["state"] == "restored" && one["docs_count"] == 8 && one["was_live"] == true),
        "{restored}"
    );
    for name in [&name, &other] {
        assert_eq!(numbers(&sandbox, name), (0..8).collect::<Vec<_>>());
        assert_eq!(shown(&sandbox, name)["indices"].as_array().unwrap().len(), 2);
        // It is written to and rolled over as before.
        sandbox.fill_stream(name, 8, 9);
        sandbox.ask("POST", &format!("/{name}/_rollover"), None);
    }
    assert_eq!(sandbox.count(&docs), 10);
    assert!(
        sandbox.copies().iter().all(|name| name.starts_with("svc-before-") && name.ends_with(&docs)),
        "{:?}",
        sandbox.copies()
    );
    let back = sandbox.from(&["swap"], &restored).ok().changed().warns("streams_stay");
    assert_eq!(sandbox.count(&docs), 12);
    assert_eq!(numbers(&sandbox, &name).len(), 9, "a stream stays as it is");
    sandbox.from(&["discard"], &back).ok();
    assert_eq!(sandbox.copies(), Vec::<String>::new());
}

#[test]
fn a_staged_stream_is_proven_and_goes_live_with_the_swap() {
    let sandbox = Sandbox::new("stage-ds");
    if !removes_streams(&sandbox) {
        return svc_tests::skip("a staged stream and its swap: this distribution does not serve /_data_stream");
    }
    let name = stream(&sandbox, "logs");
    let created = sandbox.create("s1");
    sandbox.fill_stream(&name, 100, 104);
    let staged = sandbox.from(&["stage", "--streams-in-place"], &created).ok().changed();
    assert_eq!(staged.result()["streams"][0]["proof"], "proven");
    assert_eq!(sandbox.copies(), Vec::<String>::new(), "what was brought for the proof is removed again");
    assert_eq!(numbers(&sandbox, &name).len(), 12);
    let swapped = sandbox.from(&["swap"], &staged).ok().changed().warns("nothing_kept");
    assert_eq!(swapped.result()["streams"][0]["state"], "restored");
    assert_eq!(numbers(&sandbox, &name), (0..8).collect::<Vec<_>>());
    sandbox.fill_stream(&name, 8, 9);
    sandbox.tool(&["swap", "--run", staged.result()["run"].as_str().unwrap()]).run().ok().unchanged();
    assert_eq!(numbers(&sandbox, &name).len(), 9, "a finished swap does nothing once more");
}

#[test]
fn a_damaged_snapshot_shows_before_a_data_stream_is_given_up() {
    let sandbox = Sandbox::new("flip-ds");
    if !removes_streams(&sandbox) {
        return svc_tests::skip("a damaged snapshot of a data stream: this distribution does not serve /_data_stream");
    }
    let name = stream(&sandbox, "logs");
    let created = sandbox.create("s1");
    let uuids = shown(&sandbox, &name)["indices"].clone();
    damage::flip_a_blob(&sandbox.location()).unwrap();
    for step in ["stage", "restore"] {
        sandbox.from(&[step, "--streams-in-place"], &created).fails(7, "restore_failed").unchanged();
        assert_eq!(shown(&sandbox, &name)["indices"], uuids, "the live stream never noticed");
        assert_eq!(sandbox.copies(), Vec::<String>::new());
    }
}

#[test]
fn a_restore_of_a_stream_killed_at_any_request_is_finished_by_the_same_command() {
    let sandbox = Sandbox::new("kill-ds");
    if !removes_streams(&sandbox) {
        return svc_tests::skip("a restore of a stream that is killed: this distribution does not serve /_data_stream");
    }
    let name = stream(&sandbox, "logs");
    let docs = sandbox.simple("docs", 4);
    let created = sandbox.create("s1");
    // Stage (1), two proofs removed (2, 3), the six requests of the swap (4 to 9), the stream (10, 11).
    for (round, (number, side)) in
        [3, 10, 11].into_iter().flat_map(|number| [(number, Side::Before), (number, Side::After)]).enumerate()
    {
        sandbox.fill_stream(&name, 100, 102);
        let run = format!("20261120t0300{round:02}z-test");
        let gate = Gate::to(&sandbox.search.url).unwrap().close_at(number, side);
        let restore = || sandbox.tool(&["restore", "--from", "-", "--streams-in-place", "--run-id", &run]).stdin(created.text());
        let mut tool = restore().env("SVC_SEARCH_URL", gate.url()).spawn();
        wait::until("the chosen request", svc_tests::wait::HANG, || (gate.is_closed() || !tool.is_running()).then_some(()))
            .unwrap();
        assert!(gate.is_closed(), "the restore did not come to its request {number}: {:?}", gate.seen());
        tool.signal(Signal::SIGKILL);
        assert_eq!(tool.wait().status, 137);
        let at = format!("killed {side:?} request {number}: {:?}", gate.seen());
        // Its stream is removed, or is not known not to be: the note of it is all that brings it back.
        if number >= 10 {
            sandbox.run(&["discard", "--run", &run]).refused("swap_unfinished");
        }
        let again = restore().run().ok();
        assert_eq!(again.result()["streams"][0]["state"], "restored", "{at}");
        assert_eq!(numbers(&sandbox, &name), (0..8).collect::<Vec<_>>(), "{at}");
        assert_eq!(shown(&sandbox, &name)["generation"], 2, "{at}");
        assert_eq!(sandbox.count(&docs), 4, "{at}");
        restore().run().ok().unchanged();
        sandbox.run(&["discard", "--run", &run]).ok();
        assert_eq!(sandbox.copies(), Vec::<String>::new(), "{at}");
    }
}

#[test]
fn a_stream_that_a_client_made_meanwhile_is_neither_taken_for_the_backups_nor_given_up() {
    let sandbox = Sandbox::new("stray-ds");
    if !removes_streams(&sandbox) {
        return svc_tests::skip(
            "a client's stream in the place of one that is restored: this distribution does not serve /_data_stream",
        );
    }
    // One generation: on OpenSearch the index behind the client's new stream has the very same name.
    let name = sandbox.stream_template("logs", 0);
    sandbox.fill_stream(&name, 0, 5);
    let created = sandbox.create("s1");
    // The removal (1) and the restore (2); with the counts of the document, and without any.
    for (round, (number, side, source)) in [
        (1, Side::After, vec!["--from", "-"]),
        (2, Side::Before, vec!["--from", "-"]),
        (2, Side::Before, vec!["s1"]),
        (2, Side::After, vec!["s1"]),
    ]
    .into_iter()
    .enumerate()
    {
        let run = format!("20261120t0400{round:02}z-test");
        let stage = sandbox.tool(&["stage", "--streams-in-place", "--run-id", &run]).args(source).stdin(created.text());
        let staged = stage.run().ok();
        let swap = || sandbox.tool(&["swap", "--from", "-"]).stdin(staged.text());
        let gate = Gate::kill_at(&sandbox.search.url, number, side, swap());
        let at = format!("killed {side:?} request {number}: {:?}", gate.seen());
        if side == Side::After && number == 2 {
            // That is the backup's.
            let again = swap().run().ok();
            assert_eq!(again.result()["streams"][0]["state"], "restored", "{at}");
        } else {
            sandbox.fill_stream(&name, 100, 102);
            let refused = swap().run().refused("stray_stream");
            assert!(refused.doc()["error"]["hint"].as_str().unwrap().contains(&format!("--run {run}")), "{refused}");
            assert_eq!(numbers(&sandbox, &name), [100, 101], "{at}");
            sandbox.run(&["discard", "--run", &run]).refused("swap_unfinished");
            sandbox.ask("DELETE", &format!("/_data_stream/{name}"), None);
            swap().run().ok().changed();
        }
        assert_eq!(numbers(&sandbox, &name), (0..5).collect::<Vec<_>>(), "{at}");
        sandbox.run(&["discard", "--run", &run]).ok();
        assert_eq!(sandbox.copies(), Vec::<String>::new(), "{at}");
    }
}

#[test]
fn a_way_back_tells_of_a_stream_that_was_given_up_and_not_restored() {
    let sandbox = Sandbox::new("back-ds");
    if !removes_streams(&sandbox) {
        return svc_tests::skip("a way back after a stream was given up: this distribution does not serve /_data_stream");
    }
    let name = stream(&sandbox, "logs");
    let created = sandbox.create("s1");
    let staged = sandbox.from(&["stage", "--streams-in-place"], &created).ok();
    let run = staged.result()["run"].as_str().unwrap();
    // The removal of the stream.
    Gate::kill_at(&sandbox.search.url, 1, Side::After, sandbox.tool(&["swap", "--from", "-"]).stdin(staged.text()));
    let back = sandbox.run(&["swap", "--run", run, "--back"]).review("streams_not_restored");
    assert!(back.text().contains(&name), "{back}");
    sandbox.run(&["discard", "--run", run]).ok();
    sandbox.from(&["restore"], &created).ok();
    assert_eq!(numbers(&sandbox, &name), (0..8).collect::<Vec<_>>());
}

#[test]
fn in_place_a_live_stream_is_in_the_way_and_is_given_up_only_when_told_so() {
    let sandbox = Sandbox::new("place-ds");
    if !removes_streams(&sandbox) {
        return svc_tests::skip("a live stream that is in the way: this distribution does not serve /_data_stream");
    }
    let name = stream(&sandbox, "logs");
    let docs = sandbox.simple("docs", 4);
    let created = sandbox.create("s1");
    let refused = sandbox.from(&["restore", "--in-place"], &created).refused("index_in_the_way");
    let message = refused.doc()["error"]["message"].as_str().unwrap();
    assert!(message.contains(&name) && message.contains(&docs), "{message}");
    for how in ["close", "delete"] {
        let gate = Gate::to(&sandbox.search.url).unwrap();
        sandbox.fill_stream(&name, 100, 102);
        sandbox.fill(&docs, 4, 6);
        let restored =
            restore(&sandbox, &gate, &["--in-place", "--on-conflict", how], &created).ok().changed().warns("nothing_kept");
        assert_eq!(restored.result()["streams"][0]["state"], "restored");
        assert!(streams_named(&gate).contains(&name), "{how}");
        assert_eq!(numbers(&sandbox, &name), (0..8).collect::<Vec<_>>(), "{how}");
        assert_eq!(sandbox.count(&docs), 4, "{how}");
    }
    // One that is not live has nothing to protect.
    sandbox.ask("DELETE", &format!("/_data_stream/{name}"), None);
    let restored = sandbox.from(&["restore"], &created).ok();
    assert_eq!((&restored.result()["streams"][0]["was_live"], numbers(&sandbox, &name).len()), (&json!(false), 8));
    // Without its index template it lives, but a person must know.
    sandbox.ask("DELETE", &format!("/_data_stream/{name}"), None);
    sandbox.ask("DELETE", &format!("/_index_template/{name}"), None);
    sandbox.from(&["restore", "--indices", &name], &created).review("stream_template_missing");
    assert_eq!(numbers(&sandbox, &name).len(), 8);
}

/// Elasticsearch 8 and 9 as they are had here know data streams with aliases and lack `/_data_stream`: a stream that is live
/// cannot be removed, so its restore is refused; on another server, where it is not live, it comes with its aliases.
#[test]
fn on_elasticsearch_a_stream_comes_back_with_its_aliases() {
    let host = Host::shared().unwrap();
    if host.search.product == Product::OpenSearch {
        return svc_tests::skip("a live stream that cannot be removed: OpenSearch removes streams");
    }
    if host.search.key == "elasticsearch-7" {
        return svc_tests::skip("a stream with its aliases: this distribution has no data streams at all");
    }
    let first = host.search_server(&host.search.key, &Settings::default()).unwrap();
    let sandbox = Sandbox::on(first.search.clone(), "alias-ds").registered(&[]);
    let name = stream(&sandbox, "logs");
    let (filtered, written) = (sandbox.name("filtered"), sandbox.name("written"));
    let actions = json!({"actions": [{"add": {"index": name, "alias": filtered, "filter": {"term": {"n": 1}}}},
        {"add": {"index": name, "alias": written, "is_write_index": true}}]});
    sandbox.ask("POST", "/_aliases", Some(actions));
    let created = sandbox.create("s1");
    let noted = &created.result()["captured_streams"][0];
    assert_eq!(noted["aliases"][&written]["is_write_index"], true);
    sandbox.from(&["restore"], &created).refused("data_streams_not_served");
    sandbox.from(&["stage", "--streams-in-place"], &created).refused("data_streams_not_served");
    assert_eq!(sandbox.copies(), Vec::<String>::new());

    let folder = [("path.repo".to_owned(), format!("[\"{}\"]", sandbox.search.repo_root.display()))];
    let second = host.search_server(&host.search.key, &Settings { extra: folder.into(), ..Settings::default() }).unwrap();
    let mut lost = Sandbox::on(second.search.clone(), "alias-ds");
    lost.search.repo_root = sandbox.search.repo_root.clone();
    let lost = lost.registered(&[("readonly", "true")]);
    let restored = lost.from(&["restore", "--other-server"], &created).ok();
    assert_eq!(restored.result()["streams"][0]["state"], "restored");
    assert_eq!(numbers(&lost, &name), (0..8).collect::<Vec<_>>());
    let aliases = lost.ask("GET", &format!("/{name}/_alias"), None);
    assert_eq!(aliases[&name]["aliases"][&filtered], json!({"filter": {"term": {"n": 1}}}));
    assert_eq!(aliases[&name]["aliases"][&written], json!({"is_write_index": true}));
}

/// Makes a data stream of that name, on a server that is thrown away: not every one lets a data stream be removed.
fn stream_named(sandbox: &Sandbox, name: &'static str, data_stream: Value) -> &'static str {
    let template = json!({"index_patterns": [name], "data_stream": data_stream, "priority": 500,
        "template": {"settings": {"number_of_replicas": 0}}});
    sandbox.ask("PUT", &format!("/_index_template/t-{}", name.replace('.', "")), Some(template));
    sandbox.fill_stream(name, 0, 5);
    name
}

/// What is kept for the server itself and not for the service, as a default Elasticsearch has it: an index and a data stream whose
/// names begin with a dot, and a hidden data stream. (The Maven distributions lack the modules that make them.)
fn of_the_server(sandbox: &Sandbox) -> Vec<&'static str> {
    let mut names = vec![".own-index"];
    sandbox.ask("PUT", "/.own-index", Some(json!({"settings": {"number_of_replicas": 0}})));
    sandbox.fill(".own-index", 0, 3);
    // OpenSearch has no such data streams, and the distribution of 7.17 none at all.
    if sandbox.search.product == Product::Elasticsearch && sandbox.search.key != "elasticsearch-7" {
        names.push(stream_named(sandbox, ".logs-deprecation.elasticsearch-default", json!({})));
        names.push(stream_named(sandbox, "ilm-history-5", json!({"hidden": true})));
    }
    names
}

#[test]
fn what_the_server_keeps_for_itself_is_skipped_by_every_step_unless_the_scope_names_it() {
    let host = Host::shared().unwrap();
    let server = host.search_server(&host.search.key, &Settings::default()).unwrap();
    let sandbox = Sandbox::on(server.search.clone(), "own").registered(&[]);
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

    let created = run(&["create", "s1"], "*", 1).ok();
    assert_skipped(&created);
    assert_eq!(created.result()["wanted"], json!([docs]));
    // Somebody else's snapshot holds all of it.
    let body = json!({"indices": format!("{docs},{all}"), "include_global_state": false});
    sandbox.ask("PUT", &format!("/_snapshot/{}/all?wait_for_completion=true", sandbox.prefix), Some(body));
    let uuid =
        || sandbox.ask("GET", &format!("/{first}/_settings?flat_settings=true"), None)[first]["settings"]["index.uuid"].clone();
    let before = uuid();
    for (number, args) in
        [&["stage", "all"][..], &["restore", "all", "--exact"], &["restore", "s1", "--exact"], &["clone"]].iter().enumerate()
    {
        let ran = run(args, "*", 2 + number);
        assert!([0, 9].contains(&ran.status), "{ran}");
        assert_eq!(ran.result()["indices"].as_array().unwrap().len(), 1, "{ran}");
        assert_eq!((uuid(), sandbox.count(first)), (before.clone(), 3), "{ran}");
        if args[1..] != ["s1", "--exact"] {
            assert_skipped(&ran);
        }
        run(&["discard", "--run", &run_id(2 + number)], "*", 90).ok();
    }
    // A shard of the server's own that is lost is none of the service's.
    let lost = json!({"settings": {"index.routing.allocation.require._name": "nobody", "number_of_replicas": 0}});
    sandbox.ask("PUT", "/.own-lost?wait_for_active_shards=0", Some(lost));
    run(&["health"], "*", 91).ok().warns("cluster_red");
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
        let logs = stream_named(&sandbox, "app-logs", json!({}));
        let health = run(&["health"], "*", 96).ok().warns("data_streams");
        assert_eq!(health.result()["data_streams"], json!([logs]));
        run(&["clone", "--dry-run"], "*", 97).refused("data_streams");
    }
}
