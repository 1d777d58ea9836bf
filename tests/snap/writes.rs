//! `svc-snap stage`, `discard` and `swap` while clients write to what is live and count it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use svc_tests::content;
use svc_tests::host::Host;
use svc_tests::http;
use svc_tests::proxy::{Gate, Side};
use svc_tests::run_id::run_id;
use svc_tests::sandbox::Sandbox;
use svc_tests::search::Settings;
use svc_tests::tool::{Ran, Tool};
use svc_tests::wait;

const LONG: Duration = svc_tests::wait::HANG;

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
/// twice, and nothing goes. Gives how often it was counted while the step ran.
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
fn writes_through_the_live_alias_continue_while_a_snapshot_is_staged_and_no_count_is_ever_wrong() {
    // Slow enough to be counted several times on a busy machine too.
    let sandbox = Sandbox::new("write").registered(&[("max_restore_bytes_per_sec", "100kb")]);
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
    let (discarded, _) = counted(&sandbox, &alias, 50, &writer, sandbox.tool(&["discard", "--from", "-"]).stdin(staged.text()));
    discarded.ok().changed();
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
    let index = sandbox.written_through(&alias, "docs");
    sandbox.fill(&index, 0, 50);
    let created = sandbox.create("s1");
    let staged = sandbox.from(&["stage"], &created).ok();
    let writer = Writer::through(&sandbox, &alias);
    let swapped = sandbox.from(&["swap"], &staged).ok();
    let (accepted, _) = writer.end();
    assert!(!accepted.is_empty());
    let kept = swapped.result()["indices"][0]["previous"].as_str().unwrap();
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

/// What clients have seen of a restore.
#[derive(Default)]
struct Clients {
    stop: AtomicBool,
    /// Ids of documents that were accepted, by the index that the client named.
    accepted: Mutex<Vec<(String, String)>>,
}

impl Clients {
    /// Writes four documents every 20 ms by bulk requests, in turn to each of these names.
    fn write(&self, url: &str, names: &[String], mark: &str) {
        for n in 0.. {
            if self.stop.load(Ordering::SeqCst) {
                return;
            }
            let name = &names[n % names.len()];
            let ids: Vec<String> = (0..4).map(|at| format!("{mark}{n}-{at}")).collect();
            let line = |id: &String| format!("{{\"index\":{{\"_index\":\"{name}\",\"_id\":\"{id}\"}}}}\n{{\"n\":{n}}}\n");
            let lines: String = ids.iter().map(line).collect();
            let answer = http::lines(&format!("{url}/_bulk"), lines).unwrap();
            for (id, item) in ids.into_iter().zip(answer["items"].as_array().into_iter().flatten()) {
                let status = item["index"]["status"].as_u64().unwrap();
                assert!([200, 201, 403, 404, 429, 503].contains(&status), "{item}");
                if status <= 201 {
                    self.accepted.lock().unwrap().push((item["index"]["_index"].as_str().unwrap().to_owned(), id));
                }
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Searches by an alias, again and again: where it is not answered whole, it is for a reason that passes.
    fn read(&self, url: &str, alias: &str) {
        while !self.stop.load(Ordering::SeqCst) {
            let (status, answer) = http::request("GET", &format!("{url}/{alias}/_search"), None).unwrap();
            assert!([200, 404, 503].contains(&status), "{answer}");
            thread::sleep(Duration::from_millis(5));
        }
    }
}

/// A server of the test's own, whose scope is `*`: no client may create an index of a live name while it is not there.
#[test]
fn a_restore_under_bulk_writers_by_name_and_by_alias_loses_nothing_that_was_accepted_and_leaves_no_index_of_theirs() {
    let host = Host::shared().unwrap();
    let own = host.search_server(&host.search.key, &Settings::default()).unwrap();
    let sandbox = Sandbox::on(own.search.clone(), "clients").registered(&[]);
    let alias = sandbox.name("alias");
    let indices: Vec<String> = (0..10)
        .map(|n| {
            let aliases = json!({&alias: {"is_write_index": n == 0}});
            sandbox.index(&format!("i{n}"), json!({"settings": {"number_of_replicas": 0}, "aliases": aliases}))
        })
        .collect();
    indices.iter().for_each(|index| sandbox.fill(index, 0, 20));
    let setting = || sandbox.ask("GET", "/_cluster/settings?flat_settings=true", None);
    let before = setting();
    let tool = |args: &[&str]| sandbox.tool(args).env("SVC_INDICES", "*");
    tool(&["create", "s1"]).run().ok();
    for round in 0..2 {
        let clients = Clients::default();
        let run = run_id(round);
        let restored = thread::scope(|scope| {
            let url = &sandbox.search.url;
            let (clients, indices, alias) = (&clients, &indices, &alias);
            scope.spawn(move || clients.write(url, indices, "n"));
            scope.spawn(move || clients.write(url, std::slice::from_ref(alias), "a"));
            (0..3).for_each(|_| drop(scope.spawn(move || clients.read(url, alias))));
            thread::sleep(Duration::from_millis(500));
            let restored = tool(&["restore", "s1", "--run-id", &run]).run();
            thread::sleep(Duration::from_millis(300));
            clients.stop.store(true, Ordering::SeqCst);
            restored
        });
        let restored = restored.ok().changed();
        assert_eq!(setting(), before, "{restored}");
        let found = sandbox.ask("GET", &format!("/{alias}/_search"), None);
        assert_eq!(found["_shards"]["failed"], 0, "{found}");
        let swapped = restored.result()["swap"]["indices"].as_array().unwrap();
        assert!(swapped.iter().all(|one| one["conflicts"] == json!([])), "{restored}");
        let mut held = std::collections::BTreeSet::new();
        for name in sandbox.names().into_iter().filter(|name| !name.starts_with("svc-staged")) {
            let documents = content::documents(&sandbox.search.url, &name).unwrap();
            held.extend(documents[&name].documents.keys().cloned());
        }
        let accepted = clients.accepted.lock().unwrap();
        let lost: Vec<_> = accepted.iter().filter(|(_, id)| !held.contains(id)).collect();
        assert!(lost.is_empty() && accepted.len() > 50, "{lost:?} of {}", accepted.len());
        tool(&["discard", "--run", &run]).run().ok();
        assert_eq!(sandbox.names(), indices);
    }
}

#[test]
fn what_a_killed_swap_left_of_its_setting_is_put_back_by_the_call_that_finishes_it() {
    let host = Host::shared().unwrap();
    // What the server's own file says counts where the cluster has no such setting.
    let extra = vec![("action.auto_create_index".to_owned(), "'+sb*,+x*'".to_owned())];
    let own = host.search_server(&host.search.key, &Settings { extra, ..Settings::default() }).unwrap();
    let sandbox = Sandbox::on(own.search.clone(), "create").registered(&[]);
    let docs = sandbox.simple("docs", 5);
    let tool = |args: &[&str]| sandbox.tool(args).env("SVC_INDICES", "*");
    tool(&["create", "s1"]).run().ok();
    // It is put back too by another host that finishes the swap.
    let elsewhere = tempfile::tempdir().unwrap();
    for (was, state) in [(Value::Null, &sandbox.state), (json!("+sb*,-x*"), &sandbox.state), (Value::Null, &elsewhere)] {
        sandbox.ask("PUT", "/_cluster/settings", Some(json!({"persistent": {"action.auto_create_index": &was}})));
        let setting = || sandbox.ask("GET", "/_cluster/settings?flat_settings=true", None)["persistent"].clone();
        let before = setting();
        sandbox.fill(&docs, 5, 9);
        let staged = tool(&["stage", "s1"]).run().ok();
        let run = staged.result()["run"].as_str().unwrap();
        // Its clone behind the exchange.
        Gate::kill_on(&sandbox.search.url, "POST /svc-staged-", Side::Before, tool(&["swap", "--run", run]));
        let set = setting()["action.auto_create_index"].clone();
        assert_eq!(set, format!("-{docs},{}", was.as_str().unwrap_or("+sb*,+x*")));
        // Many clones start at once meanwhile.
        assert_eq!(setting()["cluster.routing.allocation.node_initial_primaries_recoveries"], "61");
        // What is live is not all there, so neither a backup of it nor another restore begins, on any host.
        for state in [&sandbox.state, &elsewhere] {
            let other =
                |args: &[&str]| tool(args).env("SVC_STATE_DIR", state.path()).run().refused("swap_unfinished").unchanged();
            other(&["create", "s2"]);
            other(&["restore", "s1"]);
            other(&["clone"]);
        }
        let write = format!("/{docs}/_doc/1");
        assert_eq!(sandbox.search.request("PUT", &write, Some(&json!({"n": 1}))).unwrap().0, 404, "no client creates it");
        let finish = tool(&["swap", "--from", "-"]).stdin(staged.text()).env("SVC_STATE_DIR", state.path());
        finish.run().ok().changed();
        assert_eq!((setting(), sandbox.count(&docs)), (before, 5));
        tool(&["discard", "--run", run]).env("SVC_STATE_DIR", state.path()).run().ok();
    }
}
