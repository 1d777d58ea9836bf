//! `svc-snap stage`, `swap`, `unstage` and `restore` on a real search database.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use svc_tests::content;
use svc_tests::damage;
use svc_tests::gate::{Gate, Side};
use svc_tests::http;
use svc_tests::proxy::{Mode, Proxy};
use svc_tests::sandbox::Sandbox;
use svc_tests::tool::{Ran, Tool};
use svc_tests::wait;

const LONG: Duration = Duration::from_secs(60);

/// The states of the indices in a swap's document.
fn states(ran: &Ran) -> Vec<String> {
    let indices = ran.result()["indices"].as_array().cloned().unwrap_or_default();
    indices.iter().map(|one| one["state"].as_str().unwrap_or_default().to_owned()).collect()
}

fn run_id(n: usize) -> String {
    format!("20261120t02{n:04}z-test")
}

/// How many requests the swap of a snapshot is, as its dry run says.
fn requests_of_a_swap(sandbox: &Sandbox, created: &Ran) -> usize {
    let staged = sandbox.from(&["stage"], created).ok();
    let plan = sandbox.from(&["swap", "--dry-run"], &staged).ok().unchanged();
    sandbox.from(&["unstage"], &staged).ok().changed();
    let requests = plan.result()["plan"].as_array().unwrap().len();
    assert!(requests > 3, "{plan}");
    requests
}

/// Indices of every kind: shared and moved write aliases, filters, routing, hidden, replicas that cannot be placed.
fn all_kinds(sandbox: &Sandbox) {
    let alias = |suffix: &str| sandbox.name(suffix);
    let a = sandbox.index(
        "a",
        json!({"settings": {"number_of_shards": 2, "number_of_replicas": 0}, "mappings": {"properties": {"n": {"type": "integer"}}},
            "aliases": {alias("all"): {"is_write_index": true}, alias("zero"): {"filter": {"term": {"k": 0}}}, alias("routed"): {"index_routing": "r", "search_routing": "r,s"}}}),
    );
    let b =
        sandbox.index("b", json!({"settings": {"number_of_replicas": 1}, "aliases": {alias("all"): {"is_write_index": false}}}));
    let c = sandbox.index(
        "c",
        json!({"settings": {"number_of_replicas": 0, "index.hidden": true}, "aliases": {alias("dark"): {"is_hidden": true}}}),
    );
    let d = sandbox.index("d", json!({"settings": {"index.auto_expand_replicas": "0-1"}, "aliases": {alias("lone"): {}}}));
    for index in [a, b, c, d] {
        sandbox.fill(&index, 0, 30);
    }
}

/// What an upgrade does to them.
fn upgrade(sandbox: &Sandbox) {
    let name = |suffix: &str| sandbox.name(suffix);
    sandbox.fill(&name("a"), 20, 50);
    sandbox.ask("DELETE", &format!("/{}/_doc/3?refresh=true", name("a")), None);
    sandbox.ask("PUT", &format!("/{}/_mapping", name("a")), Some(json!({"properties": {"added": {"type": "keyword"}}})));
    sandbox.ask("PUT", &format!("/{}/_settings", name("b")), Some(json!({"index.number_of_replicas": 0})));
    let actions = json!({"actions": [
        {"add": {"index": name("a"), "alias": name("all"), "is_write_index": false}},
        {"add": {"index": name("b"), "alias": name("all"), "is_write_index": true}},
        {"remove": {"index": name("a"), "alias": name("zero")}},
        {"add": {"index": name("a"), "alias": name("newer")}}]});
    sandbox.ask("POST", "/_aliases", Some(actions));
    sandbox.ask("DELETE", &format!("/{}", name("d")), None);
    sandbox.simple("e", 5);
}

#[test]
fn a_restore_brings_everything_back_as_it_was_and_is_taken_back_whole() {
    let sandbox = Sandbox::new("all");
    all_kinds(&sandbox);
    let other = format!("oa-{}", sandbox.prefix);
    sandbox.ask("PUT", &format!("/{other}"), Some(json!({"aliases": {format!("{other}-alias"): {}}})));
    sandbox.fill(&other, 0, 7);
    let before = sandbox.content();
    let created = sandbox.create("s1");
    upgrade(&sandbox);
    sandbox.fill(&other, 7, 9);
    let upgraded = sandbox.content();

    let restored = sandbox.from(&["restore"], &created).ok().changed();
    let after = sandbox.content();
    for (name, index) in &before {
        let expected = if *name == other { &upgraded[name] } else { index };
        assert_eq!(&after[name], expected, "{name}");
    }
    assert_eq!(after[&sandbox.name("e")], upgraded[&sandbox.name("e")], "what the backup does not hold stays");
    let ways: Vec<_> = restored.result()["indices"].as_array().unwrap().iter().map(|one| one["way"].clone()).collect();
    assert_eq!(ways, ["swapped", "swapped", "swapped", "straight"]);
    assert_eq!(sandbox.copies().len(), 3, "{:?}", sandbox.copies());

    let back = sandbox.from(&["swap"], &restored).ok().changed();
    assert_eq!(sandbox.content(), upgraded);
    let again = sandbox.from(&["swap"], &back).ok().changed();
    let after_again = sandbox.content();
    for (name, index) in before.iter().filter(|(name, _)| **name != other) {
        assert_eq!(&after_again[name], index, "{name}");
    }
    sandbox.from(&["unstage"], &again).ok().changed();
    sandbox.from(&["unstage"], &again).ok().unchanged();
    assert_eq!(sandbox.copies(), Vec::<String>::new());
    assert_eq!(sandbox.content(), after_again);
}

#[test]
fn exact_takes_away_what_the_backup_does_not_hold_and_keeps_it() {
    let sandbox = Sandbox::new("exact");
    let alias = sandbox.name("alias");
    let one = sandbox.index("1", json!({"settings": {"number_of_replicas": 0}, "aliases": {&alias: {"is_write_index": true}}}));
    sandbox.fill(&one, 0, 10);
    let before = sandbox.content();
    let created = sandbox.create("s1");
    let two = sandbox.index("2", json!({"settings": {"number_of_replicas": 0}}));
    sandbox.fill(&two, 0, 20);
    let moved = json!({"actions": [{"remove": {"index": one, "alias": alias}}, {"add": {"index": two, "alias": alias, "is_write_index": true}}]});
    sandbox.ask("POST", "/_aliases", Some(moved));
    let upgraded = sandbox.content();

    sandbox.from(&["restore"], &created).refused("alias_has_write_index");
    assert_eq!(sandbox.content(), upgraded);
    assert_eq!(sandbox.copies(), Vec::<String>::new());

    let staged = sandbox.from(&["stage"], &created).ok();
    let swapped = sandbox.from(&["swap", "--exact"], &staged).ok();
    assert_eq!(sandbox.content(), before);
    assert_eq!(states(&swapped), ["new", "absent"]);
    assert_eq!(sandbox.copies().len(), 2);
    let run = staged.result()["run"].as_str().unwrap();
    sandbox.run(&["swap", "--run", run]).ok().unchanged();
    sandbox.run(&["swap", "--run", run, "--back"]).ok().changed();
    assert_eq!(sandbox.content(), upgraded);
    sandbox.run(&["swap", "--run", run, "--back"]).ok().unchanged();
    sandbox.run(&["unstage", "--run", run]).ok();
    assert_eq!(sandbox.content(), upgraded);
    assert_eq!(sandbox.copies(), Vec::<String>::new());
}

/// What has come of the writes so far.
#[derive(Default)]
struct Writes {
    stop: AtomicBool,
    sent: AtomicU64,
    accepted: AtomicU64,
}

/// Writes through an alias, one document after the other, until it is ended or dropped.
struct Writer {
    writes: Arc<Writes>,
    thread: Option<thread::JoinHandle<(Vec<String>, Vec<u16>)>>,
}

impl Writer {
    /// Begins, and waits until the first write is accepted.
    fn through(sandbox: &Sandbox, alias: &str) -> Self {
        let (url, alias, writes) = (sandbox.search.url.clone(), alias.to_owned(), Arc::<Writes>::default());
        let shared = Arc::clone(&writes);
        let thread = thread::spawn(move || {
            let (mut accepted, mut others) = (Vec::new(), Vec::new());
            for n in 0.. {
                if shared.stop.load(Ordering::SeqCst) {
                    break;
                }
                let id = format!("w{n}");
                shared.sent.fetch_add(1, Ordering::SeqCst);
                let (status, answer) = http::request("PUT", &format!("{url}/{alias}/_doc/{id}"), Some(&json!({"n": n}))).unwrap();
                match status {
                    201 => {
                        shared.accepted.fetch_add(1, Ordering::SeqCst);
                        accepted.push(id);
                    }
                    // Blocked; or the server had looked the alias up when the index behind it went.
                    403 | 404 => others.push(status),
                    _ => panic!("{status} {answer}"),
                }
            }
            (accepted, others)
        });
        let this = Self { writes, thread: Some(thread) };
        wait::until("the first write", LONG, || (this.accepted() > 0).then_some(())).unwrap();
        this
    }

    fn sent(&self) -> u64 {
        self.writes.sent.load(Ordering::SeqCst)
    }

    fn accepted(&self) -> u64 {
        self.writes.accepted.load(Ordering::SeqCst)
    }

    /// Ends it; gives the ids that were accepted and the statuses of the others.
    fn end(mut self) -> (Vec<String>, Vec<u16>) {
        self.writes.stop.store(true, Ordering::SeqCst);
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Drop for Writer {
    /// A test that fails takes its alias away, and a write through it would make an index of that name.
    fn drop(&mut self) {
        self.writes.stop.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Runs a step, and counts through the alias meanwhile, again and again: nothing that was accepted is missing, nothing is there
/// twice, and nothing goes. Gives how often it was counted while the step was at work.
fn counted(sandbox: &Sandbox, alias: &str, before: u64, writer: &Writer, step: Tool) -> (Ran, usize) {
    let (mut step, mut last, mut times) = (step.spawn(), 0, 0);
    while step.is_running() {
        let least = before + writer.accepted();
        let count = sandbox.count(alias);
        let most = before + writer.sent();
        assert!((least.max(last)..=most).contains(&count), "{count} is not within {least} and {most}, or less than {last}");
        (last, times) = (count, times + 1);
    }
    (step.wait(), times)
}

#[test]
fn writes_through_the_live_alias_go_on_while_a_snapshot_is_staged_and_no_count_is_ever_wrong() {
    // Slow enough to be counted many times.
    let sandbox = Sandbox::new("write").registered(&[("max_restore_bytes_per_sec", "400kb")]);
    let alias = sandbox.name("alias");
    let index = sandbox.noise("docs", 10);
    sandbox.ask("PUT", &format!("/{index}/_alias/{alias}"), None);
    sandbox.fill(&index, 0, 40);
    let created = sandbox.create("s1");
    let writer = Writer::through(&sandbox, &alias);
    let (staged, times) = counted(&sandbox, &alias, 50, &writer, sandbox.tool(&["stage", "--from", "-"]).stdin(created.text()));
    let staged = staged.ok().changed();
    assert!(times > 1, "it was over before it could be counted");
    assert_eq!(staged.result()["indices"][0]["docs_count"], 50);
    let (unstaged, _) = counted(&sandbox, &alias, 50, &writer, sandbox.tool(&["unstage", "--from", "-"]).stdin(staged.text()));
    unstaged.ok().changed();
    let (accepted, others) = writer.end();
    assert!(others.is_empty(), "{others:?}");
    assert_eq!(sandbox.copies(), Vec::<String>::new());
    assert_eq!(sandbox.count(&alias), 50 + accepted.len() as u64);
    assert_eq!(sandbox.ask("GET", &format!("/{}-*/_count", sandbox.prefix), None)["count"], 50 + accepted.len());
}

#[test]
fn a_write_that_was_accepted_during_a_swap_is_in_the_kept_index_or_in_the_new_one() {
    let sandbox = Sandbox::new("race");
    let alias = sandbox.name("alias");
    let index =
        sandbox.index("docs", json!({"settings": {"number_of_replicas": 0}, "aliases": {&alias: {"is_write_index": true}}}));
    sandbox.fill(&index, 0, 50);
    let created = sandbox.create("s1");
    let staged = sandbox.from(&["stage"], &created).ok();
    let writer = Writer::through(&sandbox, &alias);
    let swapped = sandbox.from(&["swap"], &staged).ok();
    let (accepted, _) = writer.end();
    assert!(!accepted.is_empty());
    let kept = swapped.result()["indices"][0]["kept"].as_str().unwrap();
    let mut held: Vec<String> = Vec::new();
    for name in [kept, &index] {
        held.extend(content::documents(&sandbox.search.url, name).unwrap()[name].documents.keys().cloned());
    }
    let lost: Vec<_> = accepted.iter().filter(|id| !held.contains(id)).collect();
    assert!(lost.is_empty(), "{lost:?} of {}", accepted.len());
    assert_eq!(
        sandbox.names(),
        [kept.to_owned(), index].into_iter().collect::<std::collections::BTreeSet<_>>().into_iter().collect::<Vec<_>>()
    );
}

#[test]
fn a_count_that_is_not_what_the_backup_noted_is_never_brought_into_use() {
    let sandbox = Sandbox::new("proof");
    let (a, b) = (sandbox.simple("a", 10), sandbox.simple("b", 5));
    let created = sandbox.create("s1");
    sandbox.fill(&a, 10, 13);
    let mut forged = created.doc().clone();
    for noted in forged["result"]["noted"].as_array_mut().unwrap().iter_mut().filter(|noted| noted["name"] == a.as_str()) {
        noted["docs_count"] = json!(11);
    }
    assert_ne!(&forged, created.doc());
    let live = sandbox.content();
    for step in ["stage", "restore"] {
        let failed = sandbox.from_text(&[step], &forged.to_string()).fails(7, "count_differs").unchanged();
        let message = failed.doc()["error"]["message"].as_str().unwrap();
        assert!(message.contains(" 10 ") && message.contains(" 11"), "{failed}");
        assert_eq!((sandbox.copies(), sandbox.content()), (Vec::new(), live.clone()), "{step}");
    }
    // Straight: there is nothing live that it could spoil.
    sandbox.ask("DELETE", &format!("/{a}"), None);
    let others = sandbox.content();
    sandbox.from_text(&["restore"], &forged.to_string()).fails(7, "count_differs");
    assert_eq!((sandbox.copies(), &sandbox.content()[&b]), (Vec::new(), &others[&b]));
}

#[test]
fn a_snapshot_with_a_flipped_byte_shows_when_it_is_staged_and_the_live_index_never_notices() {
    let sandbox = Sandbox::new("flip");
    sandbox.simple("a", 40);
    let b = sandbox.index("b", json!({"settings": {"number_of_replicas": 0}}));
    sandbox.fill(&b, 0, 2000);
    let created = sandbox.create("s1");
    let live = sandbox.content();
    damage::flip_a_blob(&sandbox.location()).unwrap();
    for step in ["stage", "restore"] {
        let failed = sandbox.from(&[step], &created).fails(7, "restore_failed").unchanged();
        let error = &failed.doc()["error"];
        assert!(error["message"].as_str().unwrap().contains(&sandbox.prefix), "{failed}");
        assert!(error["causes"].to_string().contains("Corrupt"), "{failed}");
        assert_eq!(sandbox.copies(), Vec::<String>::new());
        assert_eq!(sandbox.content(), live);
    }
    assert_eq!(std::fs::read_dir(sandbox.state.path().join("swaps")).unwrap().count(), 0);
}

#[test]
fn a_swap_killed_at_any_request_is_finished_by_the_same_command() {
    let sandbox = Sandbox::new("kill");
    let alias = sandbox.name("alias");
    let live = sandbox.index("docs", json!({"settings": {"number_of_replicas": 0}, "aliases": {&alias: {"is_write_index": true, "filter": {"term": {"k": 1}}}}}));
    sandbox.fill(&live, 0, 10);
    let before = sandbox.content();
    let created = sandbox.create("s1");
    sandbox.fill(&live, 5, 25);
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
            let at = format!("killed {side:?} request {number}: {:?}", gate.seen());
            // Neither the copies may be removed now, nor may another run begin, where the live index is not there.
            let gone = !sandbox.names().contains(&live);
            if gone {
                sandbox.run(&["unstage", "--run", &run]).refused("swap_unfinished");
                sandbox.from(&["restore"], &created).refused("swap_unfinished");
            }
            let finished = sandbox.from(&["swap"], &staged).ok();
            assert_eq!(states(&finished), ["new"], "{at}");
            assert_eq!(sandbox.content(), before, "{at}");
            let kept = finished.result()["indices"][0]["kept"].as_str().unwrap().to_owned();
            assert_eq!(sandbox.names(), [live.clone(), kept.clone()], "{at}");
            assert_eq!(sandbox.count(&kept), 25, "{at}");
            sandbox.from(&["swap"], &staged).ok().unchanged();
            sandbox.from(&["swap"], &finished).ok();
            assert_eq!(sandbox.content(), upgraded, "{at}");
            sandbox.run(&["unstage", "--run", &run]).ok();
            assert_eq!(sandbox.copies(), Vec::<String>::new(), "{at}");
        }
    }
}

#[test]
fn a_swap_goes_on_when_a_connection_breaks_at_any_request() {
    let sandbox = Sandbox::new("break");
    let alias = sandbox.name("alias");
    let live =
        sandbox.index("docs", json!({"settings": {"number_of_replicas": 0}, "aliases": {&alias: {"is_write_index": true}}}));
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
            assert!(gate.seen().len() >= number, "{:?}", gate.seen());
            assert_eq!(sandbox.content(), before, "broken {side:?} request {number}");
            sandbox.from(&["unstage"], &swapped).ok();
            assert_eq!(sandbox.copies(), Vec::<String>::new());
        }
    }
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
        assert_eq!(sandbox.content(), upgraded, "cut after {number}: {:?}", gate.seen());
        sandbox.run(&["unstage", "--run", &run]).ok();
        sandbox.from(&["unstage"], &staged).ok();
        assert_eq!(sandbox.copies(), Vec::<String>::new(), "cut after {number}");
    }
}

#[test]
fn an_index_that_a_client_made_during_a_cut_swap_is_kept_and_reported() {
    let sandbox = Sandbox::new("stray");
    let live = sandbox.simple("docs", 10);
    let created = sandbox.create("s1");
    let staged = sandbox.from(&["stage"], &created).ok();
    let swap = sandbox.tool(&["swap", "--from", "-"]).stdin(staged.text());
    // At the exchange.
    Gate::kill_at(&sandbox.search.url, 3, Side::After, swap);
    sandbox.ask("PUT", &format!("/{live}/_doc/stray?refresh=true"), Some(json!({"from": "a client"})));
    let finished = sandbox.from(&["swap"], &staged).review("stray_index");
    let stray = finished.result()["indices"][0]["strays"][0].as_str().unwrap().to_owned();
    assert_eq!(sandbox.count(&stray), 1);
    assert_eq!(sandbox.count(&live), 10);
    sandbox.from(&["unstage"], &finished).ok();
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
        assert_eq!(states(&ran), ["removed"]);
        assert_eq!(sandbox.names(), std::slice::from_ref(&live));
        assert_eq!(sandbox.count(&live), before);
    }
    let tool = sandbox.tool(&["stage", "--from", "-", "--run-id", &run_id(1)]).stdin(created.text()).spawn();
    wait::until("the staged index", LONG, || (!sandbox.copies().is_empty()).then_some(())).unwrap();
    tool.signal(Signal::SIGKILL);
    tool.wait();
    sandbox.run(&["swap", "--run", &run_id(1)]).refused("not_proven");
    // The same command again finds what the killed call left, and begins anew.
    let again = || sandbox.tool(&["stage", "--from", "-", "--run-id", &run_id(1)]).stdin(created.text()).run().ok();
    let staged = again().changed();
    assert_eq!(states(&staged), ["proven"]);
    assert_eq!(sandbox.copies(), [staged.result()["indices"][0]["staged"].as_str().unwrap()]);
    assert_eq!(again().unchanged().result()["indices"], staged.result()["indices"], "it is so already");
    sandbox.run(&["unstage", "--run", &run_id(1)]).ok().changed();
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
    assert_eq!(sandbox.copies(), [restored.result()["swap"]["indices"][0]["kept"].as_str().unwrap()]);
}

#[test]
fn a_signal_before_the_first_effect_ends_a_swap_without_one() {
    let sandbox = Sandbox::new("early");
    sandbox.simple("docs", 10);
    let created = sandbox.create("s1");
    sandbox.fill(&sandbox.name("docs"), 10, 15);
    let staged = sandbox.from(&["stage"], &created).ok();
    let (content, names) = (sandbox.content(), sandbox.names());
    for (step, document) in [("swap", &staged), ("unstage", &staged), ("restore", &created)] {
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
fn the_document_of_a_cut_swap_finishes_it_and_that_of_a_finished_one_goes_back() {
    let sandbox = Sandbox::new("limit");
    for n in 0..6 {
        sandbox.simple(&format!("i{n}"), 5);
    }
    let created = sandbox.create("s1");
    let before = sandbox.content();
    for n in 0..6 {
        sandbox.fill(&sandbox.name(&format!("i{n}")), 5, 9);
    }
    let upgraded = sandbox.content();
    let staged = sandbox.from(&["stage"], &created).ok();
    // The limit is over when the second index is at its second request; that index is finished, and the third one not begun.
    let limit = Duration::from_secs(8);
    let per_index = sandbox.from(&["swap", "--dry-run"], &staged).ok().result()["plan"].as_array().unwrap().len() / 6;
    let gate = Gate::to(&sandbox.search.url).unwrap().close_at(per_index + 2, Side::Before);
    let swap = sandbox.tool(&["swap", "--from", "-", "--timeout", &format!("{}s", limit.as_secs())]);
    let mut swap = swap.stdin(staged.text()).env("SVC_SEARCH_URL", gate.url()).spawn();
    wait::until("the chosen request", LONG, || (gate.is_closed() || !swap.is_running()).then_some(())).unwrap();
    assert!(gate.is_closed(), "{}", swap.wait());
    thread::sleep(limit);
    gate.open();
    let cut = swap.wait().fails(6, "timeout").changed();
    assert_eq!(states(&cut), ["new", "new", "old", "old", "old", "old"]);
    let now = sandbox.content();
    for one in cut.result()["indices"].as_array().unwrap() {
        let name = one["index"].as_str().unwrap();
        let expected = if one["state"] == "new" { &before } else { &upgraded };
        assert_eq!(now[name], expected[name], "the document says how {name} stands");
    }

    sandbox.from(&["swap", "--exact"], &cut).fails(2, "plan_differs").unchanged();
    sandbox.from(&["stage", "--run-id", &run_id(9)], &created).refused("swap_unfinished");
    let finished = sandbox.from(&["swap"], &cut).ok().changed();
    assert_eq!(sandbox.content(), before);
    sandbox.from(&["swap"], &cut).ok().unchanged();
    sandbox.run(&["swap", "--run", staged.result()["run"].as_str().unwrap()]).ok().unchanged();
    let back = sandbox.from(&["swap"], &finished).ok().changed();
    assert_eq!(sandbox.content(), upgraded);
    sandbox.from(&["swap"], &cut).refused("swap_taken_back");
    sandbox.from(&["swap", "--back"], &cut).ok().unchanged();
    sandbox.from(&["unstage"], &back).ok().changed();
    assert_eq!((sandbox.content(), sandbox.copies()), (upgraded, Vec::new()));
}

#[test]
fn term_in_the_middle_of_a_swap_does_not_cut_it() {
    let sandbox = Sandbox::new("finish");
    for n in 0..6 {
        sandbox.simple(&format!("i{n}"), 5);
    }
    let created = sandbox.create("s1");
    let before = sandbox.content();
    for n in 0..6 {
        sandbox.fill(&sandbox.name(&format!("i{n}")), 5, 9);
    }
    let staged = sandbox.from(&["stage"], &created).ok();
    let tool = sandbox.tool(&["swap", "--from", "-"]).stdin(staged.text()).spawn();
    let kept = |names: Vec<String>| names.iter().any(|name| name.starts_with("svc-before-"));
    wait::until("the first index to be kept", LONG, || kept(sandbox.names()).then_some(())).unwrap();
    tool.signal(Signal::SIGTERM);
    let ran = tool.wait().fails(143, "interrupted").changed();
    assert_eq!(states(&ran), ["new"; 6]);
    assert_eq!(sandbox.content(), before);
}

#[test]
fn in_place_all_conflicts_are_named_and_nothing_is_sent() {
    let sandbox = Sandbox::new("place");
    let (a, b) = (sandbox.simple("a", 10), sandbox.simple("b", 10));
    let created = sandbox.create("s1");
    let before = sandbox.content();
    sandbox.fill(&a, 5, 20);
    sandbox.ask("DELETE", &format!("/{b}/_doc/1?refresh=true"), None);
    let live = sandbox.content();
    let refused = sandbox.from(&["restore", "--in-place"], &created).refused("index_in_the_way");
    let message = refused.doc()["error"]["message"].as_str().unwrap();
    assert!(message.contains(&a) && message.contains(&b), "{message}");
    assert_eq!(sandbox.content(), live);
    for how in ["close", "delete"] {
        sandbox.fill(&a, 5, 20);
        sandbox.from(&["restore", "--in-place", "--on-conflict", how, "--dry-run"], &created).ok().unchanged();
        let restored =
            sandbox.from(&["restore", "--in-place", "--on-conflict", how], &created).ok().changed().warns("nothing_kept");
        assert_eq!(restored.result()["indices"][0]["state"], "restored");
        assert_eq!(sandbox.content(), before, "{how}");
        sandbox.from(&["swap"], &restored).refused("restored_in_place");
    }
    assert_eq!(sandbox.copies(), Vec::<String>::new());
    for name in [&a, &b] {
        sandbox.ask("DELETE", &format!("/{name}"), None);
    }
    sandbox.run(&["restore", "--in-place", "s1"]).ok();
    assert_eq!(sandbox.content(), before);
}

#[test]
fn an_index_that_is_not_live_is_restored_straight_with_the_aliases_that_the_snapshot_holds() {
    let sandbox = Sandbox::new("lost");
    all_kinds(&sandbox);
    let before = sandbox.content();
    sandbox.create("s1");
    for name in sandbox.names() {
        sandbox.ask("DELETE", &format!("/{name}"), None);
    }
    let restored = sandbox.run(&["restore", "s1"]).ok().changed();
    assert_eq!(sandbox.content(), before);
    assert!(
        restored.result()["indices"].as_array().unwrap().iter().all(|one| one["way"] == "straight" && one["state"] == "restored")
    );
    assert_eq!(sandbox.copies(), Vec::<String>::new());
    sandbox.from(&["swap"], &restored).ok();
    assert_eq!(sandbox.content(), BTreeMap::new());
}

#[test]
fn a_closed_live_index_is_swapped_too() {
    let sandbox = Sandbox::new("closed");
    let live = sandbox.simple("docs", 10);
    let created = sandbox.create("s1");
    let before = sandbox.content();
    sandbox.fill(&live, 10, 15);
    sandbox.ask("POST", &format!("/{live}/_close"), None);
    let restored = sandbox.from(&["restore"], &created).ok();
    assert_eq!(sandbox.content(), before);
    let kept = restored.result()["swap"]["indices"][0]["kept"].as_str().unwrap();
    assert_eq!(sandbox.count(kept), 15);
}

#[test]
fn a_dry_run_prints_the_requests_and_changes_nothing() {
    let sandbox = Sandbox::new("dry");
    let live = sandbox.simple("docs", 10);
    let created = sandbox.create("s1");
    let content = sandbox.content();
    let paths = |ran: &Ran| {
        ran.result()["plan"].as_array().unwrap().iter().map(|one| one["path"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let dry = sandbox.from(&["restore", "--dry-run"], &created).ok().unchanged();
    assert_eq!(paths(&dry).len(), 7, "{dry}");
    let dry_stage = sandbox.from(&["stage", "--dry-run"], &created).ok().unchanged();
    sandbox.from(&["swap"], &dry_stage).fails(2, "from_dry_run").unchanged();
    let staged = sandbox.from(&["stage"], &created).ok();
    let planned = paths(&sandbox.from(&["swap", "--dry-run"], &staged).ok().unchanged());
    sandbox.from(&["unstage", "--dry-run"], &staged).ok().unchanged();
    assert_eq!(sandbox.content(), content);
    let gate = Gate::to(&sandbox.search.url).unwrap();
    sandbox.tool(&["swap", "--from", "-"]).stdin(staged.text()).env("SVC_SEARCH_URL", gate.url()).run().ok();
    let sent: Vec<String> = gate.seen().iter().map(|line| line.split_once(' ').unwrap().1.to_owned()).collect();
    assert_eq!(sent, planned, "the plan is what is done");
    assert_eq!(sandbox.count(&live), 10);
}

#[test]
fn drop_old_keeps_nothing_and_cannot_be_taken_back() {
    let sandbox = Sandbox::new("drop");
    let live = sandbox.simple("docs", 10);
    let created = sandbox.create("s1");
    let restored = sandbox.from(&["restore", "--drop-old"], &created).ok();
    assert_eq!(sandbox.names(), [live]);
    sandbox.from(&["swap"], &restored).fails(4, "nothing_kept").unchanged();
}

#[test]
fn the_longest_name_of_an_index_is_staged_and_swapped() {
    let sandbox = Sandbox::new("long");
    let suffix = "x".repeat(255 - sandbox.prefix.len() - 1);
    let (long, short) = (sandbox.simple(&suffix, 3), sandbox.simple("short", 4));
    let created = sandbox.create("s1");
    let before = sandbox.content();
    sandbox.fill(&long, 3, 6);
    sandbox.fill(&short, 4, 6);
    sandbox.from(&["restore"], &created).ok();
    assert_eq!(sandbox.content(), before);
}

#[test]
fn what_is_not_there_is_no_good_or_is_not_ours_is_refused_before_anything_is_changed() {
    let sandbox = Sandbox::new("bad");
    let live = sandbox.simple("docs", 10);
    let created = sandbox.create("s1");
    let staged = sandbox.from(&["stage"], &created).ok();
    let content = sandbox.content();
    sandbox.run(&["stage", "nowhere"]).fails(4, "snapshot_not_found").unchanged();
    sandbox.tool(&["restore", "s1"]).env("SVC_REPOSITORY", "sw-nowhere").run().fails(4, "repository_not_found").unchanged();
    sandbox.run(&["restore", "s1", "--indices", "nowhere"]).fails(4, "index_not_in_snapshot").unchanged();
    sandbox.tool(&["restore", "s1", "--indices", &live]).env("SVC_INDICES", "other-*").run().refused("index_not_restorable");
    sandbox.tool(&["swap", "--from", "-"]).stdin(staged.text()).env("SVC_INDICES", "other-*").run().refused("outside_scope");
    sandbox.tool(&["restore", "s1"]).env("SVC_SEARCH_URL", "http://127.0.0.1:9").run().fails(5, "search_unreachable").unchanged();
    sandbox.run(&["swap", "--run", "20200101t000000z-none"]).fails(4, "swap_not_found").unchanged();
    let mut other = created.doc().clone();
    other["result"]["cluster_uuid"] = json!("another");
    sandbox.tool(&["stage", "--from", "-"]).stdin(other.to_string()).run().refused("other_server");
    let mut other = created.doc().clone();
    other["result"]["snapshot"]["uuid"] = json!("another");
    sandbox.tool(&["restore", "--from", "-"]).stdin(other.to_string()).run().refused("other_snapshot");
    let mut forged = staged.doc().clone();
    forged["result"]["indices"][0]["staged"] = json!(live);
    forged["result"]["indices"][0]["index"] = json!("x");
    sandbox.tool(&["unstage", "--from", "-"]).stdin(forged.to_string()).run().fails(2, "from_damaged").unchanged();
    assert_eq!(sandbox.content(), content);
    let gone = sandbox.from(&["unstage"], &staged).ok();
    sandbox.from(&["swap"], &staged).fails(4, "staged_copy_missing").unchanged();
    sandbox.from(&["swap"], &gone).fails(2, "from_wrong_schema").unchanged();
}

#[test]
fn a_document_that_is_no_good_is_refused_by_every_step_that_goes_on_from_one() {
    let sandbox = Sandbox::new("from");
    sandbox.simple("docs", 3);
    let created = sandbox.create("s1");
    let staged = sandbox.from(&["stage"], &created).ok();
    let content = sandbox.content();
    for (step, good) in [("stage", &created), ("restore", &created), ("swap", &staged), ("unstage", &staged)] {
        let text = good.text();
        let mut failed = good.doc().clone();
        failed["ok"] = json!(false);
        failed["result"] = Value::Null;
        failed["error"] =
            json!({"code": "disk_full", "message": "The disk is full.", "hint": "Make room.", "retryable": false, "causes": []});
        let foreign = text.replacen("svc-snap.", "svc-pgdump.", 1);
        for (input, code) in [
            (String::new(), "from_empty"),
            (text[..text.len() / 2].to_owned(), "from_damaged"),
            (format!("{text}{text}"), "from_several"),
            (failed.to_string(), "disk_full"),
            (foreign, "from_wrong_schema"),
        ] {
            sandbox.tool(&[step, "--from", "-"]).stdin(input).run().fails(2, code).unchanged();
        }
    }
    assert_eq!(sandbox.content(), content);
}

#[test]
fn a_partial_snapshot_is_not_restored() {
    let sandbox = Sandbox::new("partial");
    let live = sandbox.simple("docs", 10);
    let lost = sandbox.red("lost");
    let body = json!({"indices": format!("{live},{lost}"), "partial": true, "include_global_state": false});
    sandbox.ask("PUT", &format!("/_snapshot/{}/s1?wait_for_completion=true", sandbox.prefix), Some(body));
    for step in ["stage", "restore"] {
        sandbox.run(&[step, "s1"]).fails(7, "snapshot_partial").unchanged();
    }
    assert_eq!(sandbox.copies(), Vec::<String>::new());
}

#[test]
fn a_red_live_index_is_given_up_only_when_told_so() {
    let sandbox = Sandbox::new("red");
    let live = sandbox.simple("docs", 10);
    let created = sandbox.create("s1");
    let before = sandbox.content();
    sandbox.ask("DELETE", &format!("/{live}"), None);
    sandbox.red("docs");
    sandbox.from(&["restore"], &created).refused("live_index_red");
    assert_eq!(sandbox.copies(), Vec::<String>::new());
    sandbox.from(&["restore", "--drop-old"], &created).ok();
    assert_eq!(sandbox.content(), before);
}

#[test]
fn another_run_at_the_same_indices_is_turned_away() {
    let sandbox = Sandbox::new("lock");
    sandbox.simple("docs", 10);
    let created = sandbox.create("s1");
    let staged = sandbox.from(&["stage"], &created).ok();
    let gate = Gate::to(&sandbox.search.url).unwrap().close_at(1, Side::Before);
    let tool = sandbox.tool(&["swap", "--from", "-"]).stdin(staged.text()).env("SVC_SEARCH_URL", gate.url()).spawn();
    wait::until("the first request", LONG, || gate.is_closed().then_some(())).unwrap();
    sandbox.from(&["swap"], &staged).fails(8, "locked").unchanged();
    sandbox.from(&["restore"], &created).fails(8, "locked").unchanged();
    tool.signal(Signal::SIGKILL);
    tool.wait();
    sandbox.from(&["swap"], &staged).ok().changed();
}
