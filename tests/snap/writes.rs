//! `svc-snap stage`, `discard`, `swap` and `restore` while clients write to what is live and count it.

use std::sync::Mutex;
use std::sync::atomic::AtomicU64;

use svc_tests::http;
use svc_tests::prelude::*;

/// What clients have done so far; they end when they are told to, and when the test ends, in whichever way: a write through an alias
/// that the test has taken away would make an index of its name.
#[derive(Default)]
struct Clients {
    stop: AtomicBool,
    sent: AtomicU64,
    accepted: Mutex<Vec<String>>,
}

impl Clients {
    fn is_continued(&self) -> bool {
        !self.stop.load(Ordering::SeqCst)
    }

    fn accepted(&self) -> u64 {
        self.accepted.lock().unwrap().len() as u64
    }

    /// Writes four documents every 20 ms by bulk requests, in turn to each of these names.
    fn write_in_bulk(&self, url: &str, names: &[String], mark: &str) {
        for n in (0..).take_while(|_| self.is_continued()) {
            let name = &names[n % names.len()];
            let ids: Vec<String> = (0..4).map(|at| format!("{mark}{n}-{at}")).collect();
            let line = |id: &String| format!("{{\"index\":{{\"_index\":\"{name}\",\"_id\":\"{id}\"}}}}\n{{\"n\":{n}}}\n");
            self.sent.fetch_add(4, Ordering::SeqCst);
            let answer = http::lines(&format!("{url}/_bulk"), ids.iter().map(line).collect()).unwrap();
            for (id, item) in ids.into_iter().zip(answer["items"].as_array().into_iter().flatten()) {
                let status = item["index"]["status"].as_u64().unwrap();
                assert!([200, 201, 403, 404, 429, 503].contains(&status), "{item}");
                if status <= 201 {
                    self.accepted.lock().unwrap().push(id);
                }
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Searches by an alias, again and again: if the answer is not complete, it is for a reason that passes.
    fn read(&self, url: &str, alias: &str) {
        while self.is_continued() {
            let (status, answer) = http::request("GET", &format!("{url}/{alias}/_search"), None).unwrap();
            assert!([200, 404, 503].contains(&status), "{answer}");
            thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Runs a step, and counts through the alias meanwhile, again and again: nothing that was accepted is missing, nothing is there
/// twice, and nothing goes. The step is held at the first thing that it changes until it was counted twice.
fn counted(sandbox: &Sandbox, alias: &str, before: u64, clients: &Clients, step: Tool) -> Ran {
    let gate = sandbox.gate().close_at(1, Side::After);
    let (mut step, mut last, mut times) = (step.via(&gate).spawn(), 0, 0);
    while step.is_running() {
        times += usize::from(gate.is_closed());
        let least = before + clients.accepted();
        let count = sandbox.count(alias);
        let most = before + clients.sent.load(Ordering::SeqCst);
        assert!((least.max(last)..=most).contains(&count), "{count} is not within {least} and {most}, or less than {last}");
        last = count;
        if times == 2 {
            gate.open();
        }
    }
    let ran = step.wait();
    assert_eq!(times, 2, "it was over before it could be counted\n{ran}");
    ran
}

/// On a server of their own, whose scope is `*`: no client may create an index of a live name while it is not there.
#[test]
fn client_writes_during_stage_and_restore_are_not_lost() {
    // What the server's own file says counts if the cluster has no such setting.
    let own = own_server(&[("action.auto_create_index", "'+sb*,+x*'")]);
    each_holds(&*own, &[bulk_writers_lose_nothing_accepted_and_leave_no_index, setting_left_by_killed_swap_is_put_back]);
}

fn bulk_writers_lose_nothing_accepted_and_leave_no_index(own: &Search) {
    // Slow enough to be counted during the restore itself, too.
    let sandbox = Sandbox::on(own.clone(), "clients").registered(&[("max_restore_bytes_per_sec", "100kb")]);
    let alias = sandbox.name("alias");
    let index = |n: usize| {
        let aliases = json!({&alias: {"is_write_index": n == 0}});
        sandbox.index(&format!("i{n}"), json!({"settings": {"number_of_replicas": 0}, "aliases": aliases}))
    };
    let mut indices: Vec<String> = (0..5).map(index).collect();
    indices.push(sandbox.noise("slow", 6));
    sandbox.ask("PUT", &format!("/{}/_alias/{alias}", indices[5]), None);
    indices.iter().for_each(|index| sandbox.fill(index, 0, 20));
    let setting = || sandbox.ask("GET", "/_cluster/settings?flat_settings=true", None);
    let before = setting();
    let tool = |args: &[&str]| sandbox.tool(args).env("SVC_INDICES", "*");
    tool(&["create", "s1"]).run().ok();
    for round in 0..rounds("a restore under bulk writers", 1, 2) {
        let (clients, run, held) = (Clients::default(), run_id(round), sandbox.count(&alias));
        let marks = ["n", "a"].map(|mark| format!("{mark}{round}-"));
        let restored = thread::scope(|scope| {
            let (url, clients, indices, alias, marks) = (&sandbox.search.url, &clients, &indices, &alias, &marks);
            let _stopping = Stopping(&clients.stop);
            scope.spawn(move || clients.write_in_bulk(url, indices, &marks[0]));
            scope.spawn(move || clients.write_in_bulk(url, std::slice::from_ref(alias), &marks[1]));
            scope.spawn(move || clients.read(url, alias));
            let writes = |more: u64| {
                let most = clients.accepted() + more;
                wait::so("more writes", || (clients.accepted() > most).then_some(()));
            };
            writes(30);
            let staged = counted(&sandbox, alias, held, clients, tool(&["stage", "s1"])).ok().changed();
            counted(&sandbox, alias, held, clients, tool(&["discard", "--run", staged.id()])).ok().changed();
            // Each of the two may have a request under way.
            let sent = clients.sent.load(Ordering::SeqCst);
            assert!(sent <= clients.accepted() + 8, "{sent} were sent, not all were accepted");
            let restored = tool(&["restore", "s1", "--run-id", &run]).run();
            writes(20);
            restored
        });
        let restored = restored.ok().changed();
        assert_eq!(setting(), before, "{restored}");
        let found = sandbox.ask("GET", &format!("/{alias}/_search"), None);
        assert_eq!(found["_shards"]["failed"], 0, "{found}");
        let swapped = restored.result()["swap"]["indices"].as_array().unwrap();
        assert!(swapped.iter().all(|one| one["conflicts"] == json!([])), "{restored}");
        let mut held = BTreeSet::new();
        for name in sandbox.names().into_iter().filter(|name| !name.starts_with("svc-staged")) {
            let documents = content::documents(&sandbox.search.url, &name).unwrap();
            held.extend(documents[&name].documents.keys().cloned());
        }
        let accepted = clients.accepted.lock().unwrap();
        let lost: Vec<_> = accepted.iter().filter(|id| !held.contains(*id)).collect();
        assert!(lost.is_empty(), "{lost:?} of {}", accepted.len());
        tool(&["discard", "--run", &run]).run().ok();
        assert_eq!(sandbox.names(), indices);
    }
}

fn setting_left_by_killed_swap_is_put_back(own: &Search) {
    let sandbox = Sandbox::on(own.clone(), "create").registered(&[]);
    let docs = sandbox.simple("docs", 5);
    let tool = |args: &[&str]| sandbox.tool(args).env("SVC_INDICES", "*");
    tool(&["create", "s1"]).run().ok();
    // It is put back too by another host that finishes the swap.
    let elsewhere = tempfile::tempdir().unwrap();
    for (was, state) in [(Value::Null, &sandbox.state), (json!("+sb*,-x*"), &sandbox.state), (Value::Null, &elsewhere)] {
        sandbox.set_cluster("action.auto_create_index", json!(&was));
        let setting = || sandbox.ask("GET", "/_cluster/settings?flat_settings=true", None)["persistent"].clone();
        let before = setting();
        sandbox.fill(&docs, 5, 9);
        let staged = tool(&["stage", "s1"]).run().ok();
        let run = staged.id();
        // Its clone behind the exchange.
        sandbox.gate().close_on("POST /svc-staged-", Side::Before).kill(tool(&["swap", "--run", run]));
        let excluded = format!("-{docs},{}", was.as_str().unwrap_or("+sb*,+x*"));
        assert_eq!(setting()["action.auto_create_index"], excluded);
        // Many clones start at once meanwhile.
        assert_eq!(setting()["cluster.routing.allocation.node_initial_primaries_recoveries"], "61");
        // What is live is not all there, so neither a backup of it nor another restore begins, on any host.
        for state in [&sandbox.state, &elsewhere] {
            for args in [&["create", "s2"][..], &["restore", "s1"], &["clone"]] {
                tool(args).env("SVC_STATE_DIR", state.path()).run().refused("swap_unfinished").unchanged();
            }
        }
        let write = format!("/{docs}/_doc/1");
        assert_eq!(sandbox.search.request("PUT", &write, Some(&json!({"n": 1}))).unwrap().0, 404, "no client creates it");
        sandbox.resuming(&["swap"], &staged).env("SVC_INDICES", "*").env("SVC_STATE_DIR", state.path()).run().ok().changed();
        assert_eq!((setting(), sandbox.count(&docs)), (before, 5));
        tool(&["discard", "--run", run]).env("SVC_STATE_DIR", state.path()).run().ok();
    }
}
