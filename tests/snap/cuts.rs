//! `svc-snap stage`, `swap` and `restore` killed, ended or disconnected between any two of their requests; and two of them at
//! once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use svc_tests::content::Index;
use svc_tests::proxy::{Gate, Mode, Proxy, Side, http};
use svc_tests::run_id::run_id;
use svc_tests::sandbox::Sandbox;
use svc_tests::tool::Ran;
use svc_tests::wait;

const LONG: Duration = svc_tests::wait::HANG;

/// How many requests the swap of a snapshot is, as its dry run says.
fn requests_of_a_swap(sandbox: &Sandbox, created: &Ran) -> usize {
    let staged = sandbox.from(&["stage"], created).ok();
    let plan = sandbox.from(&["swap", "--dry-run"], &staged).ok().unchanged();
    sandbox.from(&["discard"], &staged).ok().changed();
    let requests = plan.result()["plan"].as_array().unwrap().len();
    assert!(requests > 3, "{plan}");
    requests
}

/// Six small indices whose names end so, a snapshot of them, and what they held then; they hold more since.
fn six(sandbox: &Sandbox, end: &str) -> (Ran, BTreeMap<String, (Index, Value)>) {
    for n in 0..6 {
        sandbox.simple(&format!("i{n}{end}"), 5);
    }
    let created = sandbox.create("s1");
    let before = sandbox.content();
    for n in 0..6 {
        sandbox.fill(&sandbox.name(&format!("i{n}{end}")), 5, 9);
    }
    (created, before)
}

#[test]
fn a_swap_killed_at_any_request_is_finished_by_the_same_command() {
    let sandbox = Sandbox::new("kill");
    let alias = sandbox.name("alias");
    let live = sandbox.index("docs", json!({"settings": {"number_of_replicas": 0}, "aliases": {&alias: {"is_write_index": true, "filter": {"term": {"k": 1}}}}}));
    sandbox.fill(&live, 0, 10);
    let other = sandbox.simple("more", 3);
    let before = sandbox.content();
    let created = sandbox.create("s1");
    sandbox.fill(&live, 5, 25);
    sandbox.fill(&other, 3, 4);
    let upgraded = sandbox.content();
    let mut n = 0;
    let requests = requests_of_a_swap(&sandbox, &created);
    for side in [Side::Before, Side::After] {
        for number in 1..=requests {
            n += 1;
            let run = run_id(n);
            let staged = sandbox.tool(&["stage", "--from", "-", "--run-id", &run]).stdin(created.text()).run().ok();
            let swap = sandbox.tool(&["swap", "--from", "-"]).stdin(staged.text());
            let gate = Gate::kill_at(&sandbox.search.url, number, side, swap);
            let at = format!("killed {side:?} request {number}: {:?}", gate.changes());
            // Neither the copies may be removed now, nor may another run begin, where the live index is not there.
            let gone = [&live, &other].into_iter().any(|name| !sandbox.names().contains(name));
            if gone {
                sandbox.run(&["discard", "--run", &run]).refused("swap_unfinished");
                sandbox.from(&["restore"], &created).refused("swap_unfinished");
            }
            let left = sandbox.from(&["swap", "--dry-run"], &staged).ok().unchanged();
            let gate = Gate::to(&sandbox.search.url).unwrap();
            let finished =
                sandbox.tool(&["swap", "--from", "-"]).stdin(staged.text()).env("SVC_SEARCH_URL", gate.url()).run().ok();
            assert_eq!(finished.states(), ["new", "new"], "{at}");
            let left: Vec<_> =
                left.result()["plan"].as_array().unwrap().iter().map(|one| one["path"].as_str().unwrap().to_owned()).collect();
            let sent: Vec<_> = gate.changes().iter().map(|line| line.split_once(' ').unwrap().1.to_owned()).collect();
            assert_eq!(left, sent, "{at}");
            assert_eq!(sandbox.content(), before, "{at}");
            let kept: Vec<_> = [0, 1].map(|at| finished.result()["indices"][at]["previous"].as_str().unwrap().to_owned()).into();
            assert_eq!((sandbox.names().len(), sandbox.copies()), (4, kept.clone()), "{at}");
            assert_eq!([&kept[0], &kept[1]].map(|kept| sandbox.count(kept)), [25, 4], "{at}");
            sandbox.from(&["swap"], &staged).ok().unchanged();
            sandbox.from(&["swap"], &finished).ok();
            assert_eq!(sandbox.content(), upgraded, "{at}");
            sandbox.run(&["discard", "--run", &run]).ok();
            assert_eq!(sandbox.copies(), Vec::<String>::new(), "{at}");
        }
    }
}

#[test]
fn a_swap_resumes_when_a_connection_breaks_at_any_request() {
    let sandbox = Sandbox::new("break");
    let alias = sandbox.name("alias");
    let live = sandbox.written_through(&alias, "docs");
    sandbox.fill(&live, 0, 10);
    let before = sandbox.content();
    let created = sandbox.create("s1");
    let requests = requests_of_a_swap(&sandbox, &created);
    for side in [Side::Before, Side::After] {
        for number in 1..=requests {
            sandbox.fill(&live, 5, 25);
            let staged = sandbox.tool(&["stage", "--from", "-", "--run-id", &run_id(number)]).stdin(created.text()).run().ok();
            let gate = Gate::to(&sandbox.search.url).unwrap().close_at(number, side).hanging_up();
            let swap = sandbox.tool(&["swap", "--from", "-"]).stdin(staged.text()).env("SVC_SEARCH_URL", gate.url()).run();
            let swapped = swap.ok().changed();
            assert!(gate.changes().len() >= number, "{:?}", gate.changes());
            assert_eq!(sandbox.content(), before, "broken {side:?} request {number}");
            sandbox.from(&["discard"], &swapped).ok();
            assert_eq!(sandbox.copies(), Vec::<String>::new());
        }
    }
}

/// A proxy that loses the answer of a swap's exchange and holds the exchange back, and refuses what comes of that kind until it is carried:
/// when the tool waits for what the server has queued (`is_queued`), or when the test does so.
fn exchange_held_back(sandbox: &Sandbox, is_queued: bool) -> (Gate, Arc<Mutex<Option<Value>>>) {
    let (held, search) = (Arc::<Mutex<Option<Value>>>::default(), sandbox.search.clone());
    let refusal = json!({"error": {"type": "illegal_argument_exception", "reason": "a mishap", "root_cause": []}, "status": 400});
    let shared = Arc::clone(&held);
    let proxy = Gate::before(&sandbox.search.url, move |request| {
        let mut held = shared.lock().unwrap();
        if request.starts_with("POST /_aliases ") && held.is_none() {
            *held = serde_json::from_str(request.split_once("\r\n\r\n").unwrap().1).ok();
            return Err(String::new());
        } else if request.starts_with("POST /_aliases ") && held.as_ref().is_some_and(Value::is_object) {
            return Err(http("400 Bad Request", "application/json", &refusal.to_string()));
        } else if request.contains("wait_for_events=languid") && is_queued {
            let exchange = held.replace(Value::Null).filter(Value::is_object);
            exchange.into_iter().for_each(|exchange| drop(search.ask("POST", "/_aliases", Some(&exchange)).unwrap()));
        }
        Ok(request.to_owned())
    });
    (proxy, held)
}

#[test]
fn an_exchange_that_comes_late_is_the_swaps_or_nobodys() {
    let sandbox = Sandbox::new("late");
    let live = sandbox.simple("docs", 10);
    let created = sandbox.create("s1");
    sandbox.fill(&live, 10, 15);
    let staged = sandbox.from(&["stage"], &created).ok();
    let (content, copies) = (sandbox.content(), sandbox.copies());
    let swap = |proxy: &Gate| sandbox.tool(&["swap", "--from", "-"]).stdin(staged.text()).env("SVC_SEARCH_URL", proxy.url());

    // Undone, it finds none of its copies.
    let (proxy, held) = exchange_held_back(&sandbox, false);
    swap(&proxy).run().fails(1, "search_refused").unchanged();
    let exchange = held.lock().unwrap().take();
    let (status, answer) = sandbox.search.request("POST", "/_aliases", exchange.as_ref()).unwrap();
    assert_eq!((status, sandbox.content(), sandbox.copies()), (404, content, copies), "{answer}");

    // While it is in the server's queue, nothing is undone.
    let (proxy, _held) = exchange_held_back(&sandbox, true);
    let swapped = swap(&proxy).run().ok().changed();
    assert_eq!((sandbox.count(&live), sandbox.count(swapped.result()["indices"][0]["previous"].as_str().unwrap())), (10, 15));
}

#[test]
fn what_a_client_writes_to_a_clone_before_the_swap_is_finished_is_not_lost_on_the_way_back() {
    let sandbox = Sandbox::new("written");
    let live = sandbox.simple("docs", 10);
    let created = sandbox.create("s1");
    let alias = sandbox.name("alias");
    sandbox.ask("PUT", &format!("/{live}/_alias/{alias}"), None);
    let upgraded = sandbox.content();
    let staged = sandbox.from(&["stage"], &created).ok();
    let (run, requests) = (created_run(&staged), requests_of_a_swap(&sandbox, &created));
    Gate::kill_at(&sandbox.search.url, requests, Side::Before, sandbox.tool(&["swap", "--from", "-"]).stdin(staged.text()));
    let written = sandbox.search.request("PUT", &format!("/{live}/_doc/new?refresh=true"), Some(&json!({"n": 1}))).unwrap().0;
    let back = sandbox.run(&["swap", "--run", run, "--back"]).ok().changed();
    assert_eq!(sandbox.content(), upgraded);
    let replaced = back.result()["indices"][0]["previous"].as_str().map(|replaced| sandbox.count(replaced));
    assert_eq!(replaced, (written == 201).then_some(11), "{back}");
    let forward = sandbox.from(&["swap"], &back).ok().changed();
    assert_eq!(sandbox.count(&live), 11, "{forward}");
}

#[test]
fn a_swap_that_was_cut_is_taken_back() {
    let sandbox = Sandbox::new("cut");
    let alias = sandbox.name("alias");
    for suffix in ["a", "b"] {
        let index = sandbox.index(
            suffix,
            json!({"settings": {"number_of_replicas": 0}, "aliases": {&alias: {"is_write_index": suffix == "a"}}}),
        );
        sandbox.fill(&index, 0, 10);
    }
    let created = sandbox.create("s1");
    sandbox.fill(&sandbox.name("a"), 5, 25);
    let upgraded = sandbox.content();
    for number in 1..=requests_of_a_swap(&sandbox, &created) {
        let run = run_id(100 + number);
        let staged = sandbox.tool(&["stage", "--from", "-", "--run-id", &run]).stdin(created.text()).run().ok();
        let swap = sandbox.tool(&["swap", "--from", "-"]).stdin(staged.text());
        let gate = Gate::kill_at(&sandbox.search.url, number, Side::After, swap);
        sandbox.run(&["swap", "--run", &run, "--back"]).ok();
        assert_eq!(sandbox.content(), upgraded, "cut after {number}: {:?}", gate.changes());
        sandbox.run(&["discard", "--run", &run]).ok();
        sandbox.from(&["discard"], &staged).ok();
        assert_eq!(sandbox.copies(), Vec::<String>::new(), "cut after {number}");
    }
}

#[test]
fn a_way_back_killed_at_any_request_is_finished_by_the_same_command_and_the_index_takes_writes() {
    let sandbox = Sandbox::new("cut-back");
    let alias = sandbox.name("alias");
    let live = sandbox.written_through(&alias, "docs");
    sandbox.fill(&live, 0, 10);
    let created = sandbox.create("s1");
    let mut docs = 20;
    sandbox.fill(&live, 10, docs);
    let mut n = 200;
    // Blocked; kept; exchanged; cloned.
    for cut in 1..=svc_tests::rounds("a swap that was cut, and then its way back", 4, 6) {
        for (number, side) in (1..).flat_map(|number| [(number, Side::Before), (number, Side::After)]) {
            n += 1;
            let run = run_id(n);
            let upgraded = sandbox.content();
            let staged = sandbox.tool(&["stage", "--from", "-", "--run-id", &run]).stdin(created.text()).run().ok();
            Gate::kill_at(&sandbox.search.url, cut, Side::After, sandbox.tool(&["swap", "--from", "-"]).stdin(staged.text()));
            let back = ["swap", "--run", &run, "--back"];
            let (gate, ran) = Gate::kill_or_end(&sandbox.search.url, number, side, sandbox.tool(&back));
            let at = format!("forward cut after {cut}, back killed {side:?} {number}: {:?}", gate.changes());
            let is_ended = ran.status == 0;
            if !is_ended && sandbox.content() != upgraded {
                sandbox.run(&["discard", "--run", &run]).refused("swap_unfinished");
                sandbox.from(&["restore"], &created).refused("swap_unfinished");
                sandbox.run(&back).ok().changed();
            } else {
                sandbox.run(&back).ok();
            }
            assert_eq!(sandbox.content(), upgraded, "{at}");
            sandbox.run(&back).ok().unchanged();
            docs += 1;
            sandbox.fill(&live, docs - 1, docs);
            assert_eq!(sandbox.count(&live), docs as u64, "{at}");
            sandbox.run(&["discard", "--run", &run]).ok();
            assert_eq!(sandbox.copies(), Vec::<String>::new(), "{at}");
            if is_ended {
                assert!(number > 1, "{at}");
                break;
            }
        }
    }
}

#[test]
fn a_way_back_that_fails_says_how_it_is_resumed() {
    let sandbox = Sandbox::new("fail-back");
    let live = sandbox.simple("docs", 10);
    let created = sandbox.create("s1");
    let run = run_id(300);
    let staged = sandbox.tool(&["stage", "--from", "-", "--run-id", &run]).stdin(created.text()).run().ok();
    Gate::kill_on(&sandbox.search.url, "/_clone/", Side::After, sandbox.tool(&["swap", "--from", "-"]).stdin(staged.text()));
    let back = ["swap", "--run", &run, "--back"];
    let plan = sandbox.tool(&back).args(["--dry-run"]).run().ok().unchanged();
    let methods: Vec<_> = plan.result()["plan"].as_array().unwrap().iter().map(|one| &one["method"]).collect();
    assert_eq!(methods, ["DELETE", "PUT"], "{plan}");
    let refusal = json!({"error": {"type": "security_exception", "reason": "no permissions"}, "status": 403});
    let gate = Gate::to(&sandbox.search.url).unwrap().answering(&format!("PUT /{live}/_settings"), 1, 403, &refusal);
    let failed = sandbox.tool(&back).env("SVC_SEARCH_URL", gate.url()).run().changed();
    let hint = failed.doc()["error"]["hint"].as_str().unwrap();
    assert!(hint.contains(&format!("svc-snap swap --run {run}")), "{failed}");
    sandbox.run(&["discard", "--run", &run]).refused("swap_unfinished");
    let done = sandbox.run(&back).ok().changed();
    assert_eq!((&done.result()["finished"], &done.result()["skipped"][0]["name"]), (&json!(true), &json!(live)), "{done}");
    sandbox.fill(&live, 10, 11);
    assert_eq!(sandbox.count(&live), 11);
}

#[test]
fn an_index_that_a_client_made_during_an_interrupted_swap_is_kept_and_reported() {
    let sandbox = Sandbox::new("conflicting");
    let live = sandbox.simple("docs", 10);
    let created = sandbox.create("s1");
    let staged = sandbox.from(&["stage"], &created).ok();
    let swap = sandbox.tool(&["swap", "--from", "-"]).stdin(staged.text());
    // At the exchange.
    Gate::kill_on(&sandbox.search.url, "POST /_aliases", Side::After, swap);
    let health = sandbox.run(&["health"]).ok().warns("swap_unfinished");
    let run = staged.result()["run"].as_str().unwrap();
    assert!(health.doc()["warnings"].to_string().contains(&format!("svc-snap swap --run {run} finishes it")), "{health}");
    sandbox.ask("PUT", &format!("/{live}/_doc/late?refresh=true"), Some(json!({"from": "a client"})));
    // Its copy is known although the answer to the removal of what it is of is lost.
    Gate::kill_on(
        &sandbox.search.url,
        "POST /_aliases",
        Side::After,
        sandbox.tool(&["swap", "--from", "-"]).stdin(staged.text()),
    );
    let finished = sandbox.from(&["swap"], &staged).ok();
    let conflicting = finished.result()["indices"][0]["conflicts"][0].as_str().unwrap().to_owned();
    assert_eq!(sandbox.count(&conflicting), 1);
    assert_eq!(sandbox.count(&live), 10);
    sandbox.from(&["discard"], &finished).ok();
    assert_eq!(sandbox.names(), [live]);
}

#[test]
fn term_in_the_middle_of_a_stage_leaves_nothing_behind() {
    // Long enough to be caught at it.
    let sandbox = Sandbox::new("term").registered(&[("max_restore_bytes_per_sec", "250kb")]);
    let live = sandbox.noise("docs", 20);
    let created = sandbox.create("s1");
    let before = sandbox.count(&live);
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let tool = sandbox.tool(&["stage", "--from", "-"]).stdin(created.text()).spawn();
        wait::until("the staged index", LONG, || (!sandbox.copies().is_empty()).then_some(())).unwrap();
        tool.signal(signal);
        let ran = tool.wait().fails(128 + signal as i32, "interrupted").unchanged();
        assert_eq!(ran.states(), ["removed"]);
        assert_eq!(sandbox.names(), std::slice::from_ref(&live));
        assert_eq!(sandbox.count(&live), before);
    }
    let tool = sandbox.tool(&["stage", "--from", "-", "--run-id", &run_id(1)]).stdin(created.text()).spawn();
    wait::until("the staged index", LONG, || (!sandbox.copies().is_empty()).then_some(())).unwrap();
    tool.signal(Signal::SIGKILL);
    tool.wait();
    sandbox.run(&["swap", "--run", &run_id(1)]).refused("not_verified");
    // The same command again finds what the killed call left, and begins again.
    let again = || sandbox.tool(&["stage", "--from", "-", "--run-id", &run_id(1)]).stdin(created.text()).run().ok();
    let staged = again().changed();
    assert_eq!(staged.states(), ["verified"]);
    assert_eq!(sandbox.copies(), [staged.result()["indices"][0]["copy"].as_str().unwrap()]);
    assert_eq!(again().unchanged().result()["indices"], staged.result()["indices"], "it is so already");
    sandbox.run(&["discard", "--run", &run_id(1)]).ok().changed();
    assert_eq!(sandbox.names(), std::slice::from_ref(&live));
    // A restore that is ended or killed while it stages has no effect on what is live, and the same command does it.
    for signal in [Signal::SIGTERM, Signal::SIGKILL] {
        let tool = sandbox.tool(&["restore", "--from", "-", "--run-id", &run_id(2)]).stdin(created.text()).spawn();
        wait::until("the staged index", LONG, || (!sandbox.copies().is_empty()).then_some(())).unwrap();
        tool.signal(signal);
        let ran = tool.wait();
        assert_eq!(ran.status, 128 + signal as i32, "{ran}");
        assert!(sandbox.copies().iter().all(|name| name.starts_with("svc-staged-")), "{:?}", sandbox.copies());
        assert_eq!(sandbox.count(&live), before);
    }
    let restored = sandbox.tool(&["restore", "--from", "-", "--run-id", &run_id(2)]).stdin(created.text()).run().ok().changed();
    assert_eq!(sandbox.count(&live), before);
    assert_eq!(sandbox.copies(), [restored.result()["swap"]["indices"][0]["previous"].as_str().unwrap()]);
}

#[test]
fn a_signal_before_the_first_effect_ends_a_swap_without_one() {
    let sandbox = Sandbox::new("early");
    sandbox.simple("docs", 10);
    let created = sandbox.create("s1");
    sandbox.fill(&sandbox.name("docs"), 10, 15);
    let staged = sandbox.from(&["stage"], &created).ok();
    let (content, names) = (sandbox.content(), sandbox.names());
    for (step, document) in [("swap", &staged), ("discard", &staged), ("restore", &created)] {
        let proxy = Proxy::to(&sandbox.search.url).unwrap();
        proxy.set(Mode::Stall);
        let tool = sandbox.tool(&[step, "--from", "-"]).stdin(document.text()).env("SVC_SEARCH_URL", proxy.url()).spawn();
        wait::until("the first look", LONG, || (proxy.accepted() > 0).then_some(())).unwrap();
        tool.signal(Signal::SIGTERM);
        tool.wait().fails(143, "interrupted").unchanged();
        assert_eq!((sandbox.content(), sandbox.names()), (content.clone(), names.clone()), "{step}");
    }
    sandbox.from(&["swap"], &staged).ok().changed();
}

#[test]
fn a_swap_whose_time_is_over_before_its_exchange_is_undone_and_its_document_begins_it_again() {
    let sandbox = Sandbox::new("limit");
    // So long that one request cannot hold all of them.
    let (created, before) = six(&sandbox, &"x".repeat(180));
    let upgraded = sandbox.content();
    let staged = sandbox.from(&["stage"], &created).ok();
    let copies = sandbox.copies();
    // The limit is over at the second request. On a slow machine it may be over before: then a longer one is.
    let cut = [12, 60, 300].into_iter().find_map(|seconds| {
        let gate = Gate::to(&sandbox.search.url).unwrap().close_on("/_clone/", Side::Before);
        let swap = sandbox.tool(&["swap", "--from", "-", "--timeout", &format!("{seconds}s")]);
        let mut swap = swap.stdin(staged.text()).env("SVC_SEARCH_URL", gate.url()).spawn();
        wait::until("the chosen request", LONG, || (gate.is_closed() || !swap.is_running()).then_some(())).unwrap();
        let came = gate.is_closed();
        if came {
            thread::sleep(Duration::from_secs(seconds));
        }
        gate.open();
        let ended = swap.wait();
        came.then(|| ended.fails(6, "timeout").unchanged())
    });
    let cut = cut.expect("it comes to its second request");
    assert_eq!(cut.states(), ["old"; 6]);
    assert_eq!((sandbox.content(), sandbox.copies()), (upgraded.clone(), copies));

    sandbox.from(&["swap", "--exact"], &cut).fails(2, "options_invalid").unchanged();
    let finished = sandbox.from(&["swap"], &cut).ok().changed();
    assert_eq!(sandbox.content(), before);
    sandbox.from(&["swap"], &cut).ok().unchanged();
    sandbox.run(&["swap", "--run", staged.result()["run"].as_str().unwrap()]).ok().unchanged();
    let back = sandbox.from(&["swap"], &finished).ok().changed();
    assert_eq!(sandbox.content(), upgraded);
    sandbox.from(&["swap"], &cut).refused("name_in_use");
    sandbox.from(&["swap", "--back"], &cut).ok().unchanged();
    sandbox.from(&["discard"], &back).ok().changed();
    assert_eq!((sandbox.content(), sandbox.copies()), (upgraded, Vec::new()));
}

#[test]
fn the_document_of_a_swap_that_failed_behind_its_exchange_finishes_it() {
    let sandbox = Sandbox::new("behind");
    let (created, before) = six(&sandbox, "");
    let upgraded = sandbox.content();
    let staged = sandbox.from(&["stage"], &created).ok();
    let refusal = json!({"error": {"type": "security_exception", "reason": "no permissions"}, "status": 403});
    let last = sandbox.name("i5");
    let gate = Gate::to(&sandbox.search.url).unwrap().answering(
        &format!("POST /svc-staged-{}-{last}/_clone/", created_run(&staged)),
        1000,
        403,
        &refusal,
    );
    let cut = sandbox.tool(&["swap", "--from", "-"]).stdin(staged.text()).env("SVC_SEARCH_URL", gate.url()).run().changed();
    assert_eq!(cut.doc()["ok"], false, "{cut}");
    assert_eq!(cut.states(), ["absent"; 6]);
    sandbox.from(&["swap", "--exact"], &cut).fails(2, "options_invalid").unchanged();
    sandbox.from(&["stage", "--run-id", &run_id(9)], &created).refused("swap_unfinished");
    sandbox.from(&["discard"], &cut).refused("swap_unfinished");
    sandbox.from(&["swap"], &cut).ok().changed();
    assert_eq!(sandbox.content(), before);
    sandbox.from(&["swap"], &cut).ok().unchanged();
    // An old document says less than the record.
    sandbox.from(&["discard", "--dry-run"], &cut).ok();
    sandbox.from(&["swap", "--back"], &cut).ok().changed();
    assert_eq!(sandbox.content(), upgraded);
}

#[test]
fn a_server_that_is_away_for_a_while_behind_the_exchange_is_waited_for() {
    let sandbox = Sandbox::new("away");
    let live = sandbox.simple("docs", 10);
    let created = sandbox.create("s1");
    sandbox.fill(&live, 10, 15);
    let staged = sandbox.from(&["stage"], &created).ok();
    let aliases = Mutex::new(0);
    let proxy = Gate::before(&sandbox.search.url, move |request| {
        let mut aliases = aliases.lock().unwrap();
        *aliases += usize::from(request.starts_with("POST /_aliases "));
        let is_away = request.starts_with("POST /_aliases ") && (2..14).contains(&*aliases);
        if is_away { Err(String::new()) } else { Ok(request.to_owned()) }
    });
    sandbox.tool(&["swap", "--from", "-"]).stdin(staged.text()).env("SVC_SEARCH_URL", proxy.url()).run().ok().changed();
    assert_eq!(sandbox.count(&live), 10);
}

/// The run whose copies a staging made.
fn created_run(staged: &Ran) -> &str {
    staged.result()["run"].as_str().unwrap()
}

#[test]
fn term_in_the_middle_of_a_swap_does_not_cut_it() {
    let sandbox = Sandbox::new("finish");
    let (created, before) = six(&sandbox, "");
    let staged = sandbox.from(&["stage"], &created).ok();
    let tool = sandbox.tool(&["swap", "--from", "-"]).stdin(staged.text()).spawn();
    let kept = |names: Vec<String>| names.iter().any(|name| name.starts_with("svc-before-"));
    wait::until("the first index to be kept", LONG, || kept(sandbox.names()).then_some(())).unwrap();
    tool.signal(Signal::SIGTERM);
    let ran = tool.wait().fails(143, "interrupted").changed();
    assert_eq!(ran.states(), ["new"; 6]);
    assert_eq!(sandbox.content(), before);
}

#[test]
fn another_run_at_the_same_indices_is_turned_away() {
    let sandbox = Sandbox::new("lock");
    sandbox.simple("docs", 10);
    let created = sandbox.create("s1");
    let staged = sandbox.from(&["stage"], &created).ok();
    let gate = Gate::to(&sandbox.search.url).unwrap().close_on("/_block/write", Side::Before);
    let tool = sandbox.tool(&["swap", "--from", "-"]).stdin(staged.text()).env("SVC_SEARCH_URL", gate.url()).spawn();
    wait::until("the first request", LONG, || gate.is_closed().then_some(())).unwrap();
    sandbox.from(&["swap"], &staged).fails(8, "locked").unchanged();
    sandbox.from(&["restore"], &created).fails(8, "locked").unchanged();
    tool.signal(Signal::SIGKILL);
    tool.wait();
    sandbox.from(&["swap"], &staged).ok().changed();
}
