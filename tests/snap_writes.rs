//! `svc-snap stage`, `unstage` and `swap` while clients write to what is live and count it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::json;
use svc_tests::content;
use svc_tests::http;
use svc_tests::sandbox::Sandbox;
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
    let index = sandbox.written_through(&alias, "docs");
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
