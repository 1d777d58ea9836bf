//! `svc-snap create` under faults: whatever breaks on the way, it sends its request once and never says what is not so.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use svc_tests::host::Host;
use svc_tests::proxy::{Act, At, End, Gate, http};
use svc_tests::random::{self, Random};
use svc_tests::sandbox::Sandbox;
use svc_tests::search::Settings;
use svc_tests::tool::{Ran, Tool};
use svc_tests::wait;

const LONG: Duration = svc_tests::wait::HANG;
const ALL: usize = usize::MAX;

/// nginx, where the server's connection breaks, where the server takes too long, and where it knows nothing of a search database.
const NGINX: [&str; 3] = ["502 Bad Gateway", "504 Gateway Time-out", "404 Not Found"];

fn nginx(status: &str) -> String {
    let page = format!(
        "<html>\r\n<head><title>{status}</title></head>\r\n<body>\r\n<center><h1>{status}</h1></center>\r\n<hr><center>nginx/1.22.1</center>\r\n</body>\r\n</html>\r\n"
    );
    http(status, "text/html", &page)
}

/// Envoy, where the server's connection breaks.
fn envoy() -> String {
    let text = "upstream connect error or disconnect/reset before headers. reset reason: connection termination";
    http("503 Service Unavailable", "text/plain", text)
}

/// A page of a load balancer's own.
fn maintenance() -> String {
    http("200 OK", "text/html", "<html><body>Back soon.</body></html>\r\n\r\n")
}

/// Elasticsearch 7.17 and OpenSearch, while a repository is cleaned up.
fn busy() -> String {
    let why = "[r:s] cannot snapshot while a repository cleanup is in-progress in [RepositoryCleanupInProgress[]]";
    let cause = json!({"type": "concurrent_snapshot_execution_exception", "reason": why});
    let error = json!({"root_cause": [cause], "type": cause["type"], "reason": why});
    http("503 Service Unavailable", "application/json; charset=UTF-8", &json!({"error": error, "status": 503}).to_string())
}

fn takes_a_snapshot(line: &str) -> bool {
    line.starts_with("PUT /_snapshot/")
}

fn only_reads(line: &str) -> bool {
    !takes_a_snapshot(line)
}

/// A sandbox whose server is reached through a proxy that hurts.
struct Bench {
    sandbox: Sandbox,
    gate: Gate,
}

impl Bench {
    fn new(sandbox: Sandbox) -> Self {
        let gate = Gate::to(&sandbox.search.url).unwrap();
        Self { sandbox, gate }
    }

    /// How many requests that take a snapshot have come, but for those that were answered with [`busy`]: they may come again.
    fn takes(&self) -> usize {
        let taken = self.gate.asked().iter().filter(|line| takes_a_snapshot(line)).count();
        let is_refused = |(line, act): &&(String, Act)| takes_a_snapshot(line) && *act == Act::Answer(busy(), false);
        taken - self.gate.acts().iter().filter(is_refused).count()
    }

    fn create(&self, name: &str, run: &str) -> Tool {
        let tool = self.sandbox.tool(&["create", name]);
        tool.env("SVC_SEARCH_URL", self.gate.url()).env("SVC_RUN_ID", format!("20261120t020003z-{run}"))
    }

    /// The snapshot as the server has it when nothing is taken any more; null where there is none.
    fn truth(&self, name: &str) -> Value {
        wait::until("the end of the snapshot", LONG, || {
            let path = format!("/_snapshot/{}/{name}", self.sandbox.prefix);
            let (status, answer) = self.sandbox.search.request("GET", &path, None).unwrap();
            let found = if status == 404 { Value::Null } else { answer["snapshots"][0].clone() };
            (found["state"] != "IN_PROGRESS").then_some(found)
        })
        .unwrap()
    }

    /// Holds what a call said against what there is, and gives what there is.
    fn check(&self, name: &str, ran: &Ran) -> Value {
        // What hurts later, the polls of this test among it, was no excuse.
        let hurts = self.gate.acts().len();
        let truth = self.truth(name);
        let document = ran.doc();
        assert!(self.takes() <= 1, "the request was sent twice\n{ran}");
        assert!(hurts > 0 || ran.status == 0, "nothing was hurt, and the status is not 0\n{ran}");
        let statuses: &[i32] = match &document["changed"] {
            // Nobody was there (5), nobody answered in time (6), or something else did (3).
            Value::Bool(false) => &[3, 5, 6],
            Value::Bool(true) => &[0, 6],
            _ => &[6],
        };
        assert!(statuses.contains(&ran.status), "the status is none of {statuses:?}\n{ran}");
        match &document["changed"] {
            Value::Bool(false) => assert!(truth.is_null(), "nothing was changed, and there is {truth:#}\n{ran}"),
            Value::Bool(true) => assert!(!truth.is_null(), "something was changed, and there is no snapshot\n{ran}"),
            _ => {}
        }
        if document["ok"] == true {
            assert_eq!(document["changed"], true, "{ran}");
            self.assert_valid(&truth, ran);
        }
        truth
    }

    fn assert_valid(&self, truth: &Value, ran: &Ran) {
        let list = |value: &Value| -> BTreeSet<String> {
            value.as_array().unwrap().iter().map(|name| name.as_str().unwrap().to_owned()).collect()
        };
        let complete = list(&truth["indices"]).is_superset(&list(&ran.result()["wanted"])) && !list(&truth["indices"]).is_empty();
        let state = (&truth["state"], &truth["shards"]["failed"], &truth["metadata"]["svc_tools"]["run_id"]);
        assert!(complete && state == (&json!("SUCCESS"), &json!(0), &ran.doc()["run_id"]), "it is not as {truth:#}\n{ran}");
        assert_eq!(truth["uuid"], ran.result()["snapshot"]["uuid"]);
    }

    /// The same command again, over a sound network, ends well, and takes it again only where there is none.
    fn again(&self, name: &str, run: &str, before: &Value) {
        self.gate.heal();
        let ran = self.create(name, run).run().ok();
        assert_eq!(self.takes(), usize::from(before.is_null()), "{ran}");
        assert_eq!(ran.doc()["changed"], before.is_null(), "{ran}");
        self.assert_valid(&self.truth(name), &ran);
    }
}

#[test]
fn an_answer_that_is_lost_anywhere_does_not_keep_the_verdict_away() {
    let bench = Bench::new(Sandbox::new("answer"));
    bench.sandbox.simple("docs", 3);
    let hurts = [
        Act::Cut(At::Answer(0), End::Close),
        Act::Cut(At::Answer(1), End::Reset),
        Act::Cut(At::Answer(30), End::Close),
        Act::Cut(At::Answer(200), End::Reset),
        Act::Cut(At::Answer(0), End::Stall),
        Act::Cut(At::Answer(200), End::Stall),
        Act::Cut(At::Request(ALL), End::Stall),
        Act::Answer(nginx(NGINX[0]), true),
        Act::Answer(envoy(), true),
        Act::Answer(nginx(NGINX[1]), true),
        Act::Answer(nginx(NGINX[2]), true),
        Act::Answer(maintenance(), true),
    ];
    for (number, hurt) in hurts.into_iter().enumerate() {
        let (name, run) = (format!("s{number}"), format!("answer-{number}"));
        bench.gate.heal();
        bench.gate.rule(takes_a_snapshot, hurt.clone(), 0, 1);
        let ran = bench.create(&name, &run).run();
        assert_eq!((ran.status, &ran.doc()["changed"]), (0, &json!(true)), "{hurt:?}\n{ran}");
        let truth = bench.check(&name, &ran);
        bench.again(&name, &run, &truth);
    }
}

#[test]
fn a_request_that_never_comes_complete_is_6_its_outcome_is_unknown_and_the_same_command_finds_out() {
    let bench = Bench::new(Sandbox::new("request"));
    bench.sandbox.simple("docs", 3);
    let hurts = [
        Act::Cut(At::Request(0), End::Close),
        Act::Cut(At::Request(10), End::Reset),
        Act::Cut(At::Request(300), End::Close),
        Act::Answer(nginx(NGINX[0]), false),
        Act::Answer(envoy(), false),
        Act::Answer(maintenance(), false),
    ];
    for (number, hurt) in hurts.into_iter().enumerate() {
        let (name, run) = (format!("s{number}"), format!("request-{number}"));
        bench.gate.heal();
        bench.gate.rule(takes_a_snapshot, hurt.clone(), 0, 1);
        let ran = bench.create(&name, &run).run().fails(6, "outcome_unknown");
        assert!(ran.doc()["changed"].is_null(), "{hurt:?}\n{ran}");
        let truth = bench.check(&name, &ran);
        bench.again(&name, &run, &truth);
    }
    // It says nothing at all: the time limit.
    bench.gate.heal();
    bench.gate.rule(takes_a_snapshot, Act::Cut(At::Request(50), End::Stall), 0, 1);
    let ran = bench.create("s", "request-s").args(["--timeout", "8s"]).run().fails(6, "timeout");
    assert!(ran.doc()["changed"].is_null() && ran.doc()["error"]["hint"].as_str().unwrap().contains("--run-id"), "{ran}");
    bench.again("s", "request-s", &bench.check("s", &ran));
}

#[test]
fn a_server_that_is_busy_is_asked_again_and_where_it_stays_so_that_is_5_and_nothing_was_changed() {
    let bench = Bench::new(Sandbox::new("busy"));
    bench.sandbox.simple("docs", 3);
    bench.gate.rule(takes_a_snapshot, Act::Answer(busy(), false), 0, 2);
    bench.create("moment", "moment").run().ok().changed();
    bench.gate.heal();
    bench.gate.rule(takes_a_snapshot, Act::Answer(busy(), false), 0, usize::MAX);
    let ran = bench.create("s", "busy").args(["--timeout", "8s"]).run().fails(5, "search_busy").unchanged();
    assert_eq!(ran.doc()["error"]["retryable"], true);
    bench.again("s", "busy", &bench.check("s", &ran));
}

#[test]
fn a_snapshot_that_cannot_be_cancelled_at_once_is_asked_for_now_and_then() {
    let sandbox = Sandbox::slow("cancel");
    let busy = http(
        "503 Service Unavailable",
        "application/json",
        &json!({"error": {"type": "concurrent_snapshot_execution_exception", "reason": "busy"}, "status": 503}).to_string(),
    );
    let begun = Mutex::new(None::<Instant>);
    let proxy = Gate::before(&sandbox.search.url, move |request| {
        let is_early = begun.lock().unwrap().get_or_insert_with(Instant::now).elapsed() < Duration::from_secs(2);
        if request.starts_with("DELETE ") && is_early { Err(busy.clone()) } else { Ok(request.to_owned()) }
    });
    let create = sandbox.tool(&["create", "s"]).env("SVC_SEARCH_URL", proxy.url()).spawn();
    sandbox.appears("s");
    create.signal(Signal::SIGTERM);
    create.wait().fails(143, "interrupted").unchanged();
    let deletions = proxy.changes().iter().filter(|request| request.starts_with("DELETE ")).count();
    assert!((1..40).contains(&deletions), "{deletions}");
}

#[test]
#[ignore = "takes minutes"]
fn a_request_without_an_answer_whose_name_another_run_has_taken_is_given_up() {
    let bench = Bench::new(Sandbox::new("taken"));
    let docs = bench.sandbox.simple("docs", 3);
    bench.gate.rule(takes_a_snapshot, Act::Hold, 0, 1);
    let create = bench.create("s", "taken").spawn();
    wait::until("the request", LONG, || (bench.takes() > 0).then_some(())).unwrap();
    let path = format!("/_snapshot/{}/s?wait_for_completion=true", bench.sandbox.prefix);
    bench.sandbox.ask("PUT", &path, Some(json!({"indices": docs})));
    create.wait().refused("name_in_use");
}

#[test]
fn polls_that_fail_beside_a_call_that_does_not_decide_nothing() {
    let bench = Bench::new(Sandbox::slow("looks"));
    let hurts = [
        Act::Answer(nginx(NGINX[0]), false),
        Act::Answer(nginx(NGINX[2]), false),
        Act::Answer(maintenance(), false),
        Act::Cut(At::Answer(20), End::Reset),
    ];
    for (number, hurt) in hurts.into_iter().enumerate() {
        let (name, run) = (format!("s{number}"), format!("looks-{number}"));
        bench.gate.heal();
        // Only the first copies the data; the others are quick.
        let create = bench.create(&name, &run).spawn();
        wait::until("the request", LONG, || (bench.takes() > 0).then_some(())).unwrap();
        bench.gate.rule(only_reads, hurt, 0, 5);
        let ran = create.wait().ok();
        let truth = bench.check(&name, &ran);
        bench.again(&name, &run, &truth);
    }
}

#[test]
fn a_call_that_is_interrupted_by_time_while_its_polls_fail_too_ends_well() {
    let bench = Bench::new(Sandbox::slow("both"));
    bench.gate.rule(takes_a_snapshot, Act::Cut(At::Time(Duration::from_millis(700)), End::Reset), 0, 1);
    let create = bench.create("s", "both").spawn();
    wait::until("the request", LONG, || (bench.takes() > 0).then_some(())).unwrap();
    bench.gate.rule(only_reads, Act::Cut(At::Request(0), End::Close), 0, 4);
    let ran = create.wait().ok();
    bench.again("s", "both", &bench.check("s", &ran));
}

#[test]
fn metadata_is_taken_to_the_last_byte_and_refused_beyond_it() {
    let bench = Bench::new(Sandbox::new("metadata"));
    bench.sandbox.simple("docs", 1);
    let create = |name: &str, run: &str, why: &str| {
        bench.create(name, run).args(["--taken-by", "J\u{fc}rgen \"J\"", "--taken-because", why]).run()
    };
    let why = "line\nnext\t\\ \u{20ac} ";
    let first = create("s0", "m0", why).ok();
    let metadata = &bench.truth("s0")["metadata"];
    assert_eq!((&metadata["taken_because"], &metadata["taken_by"]), (&json!(why), &json!("J\u{fc}rgen \"J\"")));
    assert_eq!(first.result()["snapshot"]["taken_because"], why);

    let room = 1024 - first.result()["plan"][0]["body"]["metadata"].to_string().len();
    create("s1", "m1", &format!("{why}{}", "x".repeat(room))).ok();
    bench.gate.heal();
    let over = create("s2", "m2", &format!("{why}{}", "x".repeat(room + 3))).fails(1, "search_refused").unchanged();
    assert!(over.doc()["error"]["causes"].to_string().contains("1024 bytes"), "{over}");
    let body = |size: usize| json!({"indices": "x", "metadata": {"a": "x".repeat(size - 8)}});
    let put = |size: usize| bench.sandbox.search.request("PUT", "/_snapshot/nowhere/s", Some(&body(size))).unwrap().0;
    assert_eq!((put(1024), put(1025)), (404, 400));
}

#[test]
fn of_two_hosts_that_take_the_same_name_at_once_one_wins_and_other_names_are_free() {
    let bench = Bench::new(Sandbox::new("race"));
    bench.sandbox.simple("docs", 2);
    let race = |name: &str, args: &[&str]| -> Vec<Ran> {
        let folders = [(); 4].map(|()| tempfile::tempdir().unwrap());
        let calls: Vec<_> = folders
            .iter()
            .enumerate()
            .map(|(host, folder)| {
                bench.create(name, &format!("{name}-{host}")).env("SVC_STATE_DIR", folder.path()).args(args).spawn()
            })
            .collect();
        calls.into_iter().map(svc_tests::tool::Spawned::wait).collect()
    };
    let same = race("same", &[]);
    let won: Vec<&Ran> = same.iter().filter(|ran| ran.status == 0).collect();
    assert_eq!(won.len(), 1);
    bench.assert_valid(&bench.truth("same"), won[0]);
    for lost in same.iter().filter(|ran| ran.status != 0) {
        lost.clone().refused("name_in_use");
    }
    let names: BTreeSet<String> = race("some", &["--unique"])
        .into_iter()
        .map(|ran| {
            let ran = ran.ok().changed();
            let name = ran.result()["name"].as_str().unwrap().to_owned();
            bench.assert_valid(&bench.truth(&name), &ran);
            name
        })
        .collect();
    assert_eq!(names, ["some", "some_2", "some_3", "some_4"].map(str::to_owned).into());
}

#[test]
fn an_index_that_goes_just_before_it_is_taken_is_never_called_saved() {
    let bench = Bench::new(Sandbox::new("gone"));
    bench.sandbox.simple("docs", 1);
    let small = bench.sandbox.simple("small", 1);
    bench.gate.rule(takes_a_snapshot, Act::Hold, 0, 1);
    let create = bench.create("s", "gone").spawn();
    wait::until("the request", LONG, || (bench.takes() > 0).then_some(())).unwrap();
    bench.sandbox.ask("DELETE", &format!("/{small}"), None);
    bench.gate.open();
    let ran = create.wait().fails(7, "snapshot_invalid").changed();
    assert!(ran.doc()["error"]["message"].as_str().unwrap().contains(&small), "{ran}");
    let truth = bench.truth("s");
    assert_eq!((&truth["state"], truth["indices"].to_string().contains(&small)), (&json!("SUCCESS"), false));
    // The same command again says the same.
    bench.create("s", "gone").run().fails(7, "snapshot_invalid").unchanged();
    bench.create("s", "gone").args(["--no-wait"]).run().fails(7, "snapshot_invalid").unchanged();
}

#[test]
#[ignore = "takes minutes"]
fn a_server_that_is_restarted_while_it_takes_a_snapshot_is_never_believed_to_have_done_nothing() {
    let host = Host::shared().unwrap();
    let server = host.search_server(&host.search.key, &Settings::default()).unwrap();
    let sandbox = Sandbox::on(server.search.clone(), "restart").registered(&[("max_snapshot_bytes_per_sec", "400kb")]);
    sandbox.noise("docs", 60);
    let bench = Bench::new(sandbox);
    let create = bench.create("s", "restart").spawn();
    bench.sandbox.appears("s");
    host.systemd.stop(&server.unit).unwrap();
    host.systemd.start(&server.unit).unwrap();
    let ran = create.wait();
    let truth = bench.truth("s");
    println!("{} {} {}; {}", ran.status, ran.doc()["changed"], ran.doc()["error"]["code"], truth["state"]);
    assert!(bench.takes() == 1 && ran.doc()["changed"] != false && !ran.result().is_null(), "{ran}");
    if truth.is_null() {
        let code = ran.doc()["error"]["code"].as_str().unwrap();
        assert!([(4, "snapshot_not_found"), (6, "outcome_unknown")].contains(&(ran.status, code)), "{ran}");
        bench.again("s", "restart", &truth);
    } else if truth["state"] == "SUCCESS" {
        // Elasticsearch 8 goes only when it has taken it.
        assert!([0, 6].contains(&ran.status), "{ran}");
        bench.again("s", "restart", &truth);
    } else {
        assert!([6, 7].contains(&ran.status), "{truth}\n{ran}");
        bench.sandbox.run(&["delete", "s"]).ok();
        bench.again("s", "restart", &Value::Null);
    }
}

/// What is done to a request or its answer.
fn random_hurt(random: &mut Random) -> Act {
    let end = random.pick(&[End::Close, End::Reset, End::Stall]);
    match random.below(4) {
        0 => Act::Cut(At::Request(random.below(700)), end),
        1 => Act::Cut(At::Answer(random.below(900)), end),
        2 => Act::Cut(At::Time(Duration::from_millis(u64::try_from(random.below(1500)).unwrap())), end),
        _ => {
            let answers = [nginx(NGINX[0]), nginx(NGINX[1]), envoy(), nginx(NGINX[2]), maintenance(), busy()];
            let answer = answers[random.below(answers.len())].clone();
            // The server's own word is never said of what it did.
            let is_carried = answer != busy() && random.below(2) == 0;
            Act::Answer(answer, is_carried)
        }
    }
}

/// Whether the server has done what it was asked to, although its answer came back incomplete.
fn is_carried(hurt: &Act) -> bool {
    matches!(hurt, Act::Cut(At::Answer(_), _) | Act::Answer(_, true))
}

/// One call with faults that the seed makes, and the same command again; gives whether the first ended well. Where the looks are
/// sound and the request has been carried it must, and each thousandth seed is one of those.
fn at_random(bench: &Bench, seed: u64) -> bool {
    let mut random = Random::of(seed);
    let (name, run) = (format!("s{seed}"), format!("random-{seed}"));
    bench.gate.heal();
    let mut told = Vec::new();
    let is_mild = seed.is_multiple_of(1000);
    let mut must_end_well = true;
    if random.below(8) > 0 {
        let hurt = if is_mild { Act::Cut(At::Answer(random.below(200)), End::Reset) } else { random_hurt(&mut random) };
        must_end_well = is_carried(&hurt);
        told.push(format!("take: {hurt:?}"));
        bench.gate.rule(takes_a_snapshot, hurt, 0, 1);
    }
    if !is_mild && random.below(2) == 0 {
        must_end_well = false;
        let (hurt, skip, times) = (random_hurt(&mut random), random.below(25), 1 + random.below(12));
        // A look that is never answered costs the time limit; one of them is enough.
        let times = if matches!(hurt, Act::Cut(_, End::Stall)) { 1 } else { times };
        told.push(format!("looks {skip}+{times}: {hurt:?}"));
        bench.gate.rule(only_reads, hurt, skip, times);
    }
    // Some have something to copy, at 400 KB/s.
    for _ in 0..random.below(4) {
        let text: String = (0..100_000).map(|_| char::from(b'a' + u8::try_from(random.below(26)).unwrap())).collect();
        bench.sandbox.ask("POST", &format!("/{}/_doc", bench.sandbox.name("docs")), Some(json!({"t": text})));
    }
    // What must end well has no limit.
    let limit = format!("--timeout={}ms", 10_000 + random.below(6000));
    println!("seed {seed}, {limit}, {}{}", told.join("; "), if must_end_well { ", without the limit" } else { "" });
    let ran = bench.create(&name, &run).args((!must_end_well).then_some(limit)).run();
    println!("seed {seed}: {} {} {}", ran.status, ran.doc()["changed"], ran.doc()["error"]["code"]);
    assert!(!must_end_well || ran.status == 0, "the server did what it was asked to, and the status is not 0\n{ran}");
    let truth = bench.check(&name, &ran);
    bench.again(&name, &run, &truth);
    ran.status == 0
}

/// `SVC_TEST_SEED=N` starts from another seed; what is printed of a call has its own.
#[test]
fn no_cut_anywhere_ever_leads_to_a_wrong_verdict() {
    let first = random::seed() * 1000;
    let count = svc_tests::rounds("random faults of a create", 5, 100) as u64;
    let lanes = 5;
    let good = AtomicUsize::new(0);
    thread::scope(|scope| {
        for lane in 0..lanes {
            let good = &good;
            scope.spawn(move || {
                let sandbox = Sandbox::on(Host::shared().unwrap().search, &format!("random{lane}"));
                let bench = Bench::new(sandbox.registered(&[("max_snapshot_bytes_per_sec", "400kb")]));
                bench.sandbox.noise("docs", 1);
                for number in (lane..count).step_by(usize::try_from(lanes).unwrap()) {
                    let is_valid = at_random(&bench, first + number);
                    good.fetch_add(usize::from(is_valid), Ordering::Relaxed);
                }
            });
        }
    });
    assert!(good.into_inner() > 0, "not one call of {count} ended well");
}
