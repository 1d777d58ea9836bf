//! `svc-snap create` under faults: whatever breaks on the way, it sends its request once and never says what is not so.

use svc_tests::prelude::*;

const ALL: usize = usize::MAX;

/// nginx, where the server's connection breaks, where the server takes too long, and where it knows neither Elasticsearch nor OpenSearch.
const NGINX: [&str; 3] = ["502 Bad Gateway", "504 Gateway Time-out", "404 Not Found"];

fn nginx(status: &str) -> String {
    http(status, "text/html", &format!("<html>\r\n<head><title>{status}</title></head>\r\n<body>{status}</body>\r\n</html>\r\n"))
}

fn envoy() -> String {
    let text = "upstream connect error or disconnect/reset before headers. reset reason: connection termination";
    http("503 Service Unavailable", "text/plain", text)
}

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

/// A sandbox whose server is reached through a gate that hurts.
struct Bench {
    sandbox: Sandbox,
    gate: Gate,
}

impl Bench {
    fn new(sandbox: Sandbox) -> Self {
        let gate = sandbox.gate();
        Self { sandbox, gate }
    }

    fn small(name: &str) -> Self {
        let bench = Self::new(Sandbox::new(name));
        bench.sandbox.simple("docs", 3);
        bench
    }

    /// How many requests that take a snapshot have come, but for those that were answered with [`busy`]: they may come again.
    fn takes(&self) -> usize {
        let taken = self.gate.asked().iter().filter(|line| takes_a_snapshot(line)).count();
        let is_refused = |(line, act): &&(String, Act)| takes_a_snapshot(line) && *act == Act::Answer(busy(), false);
        taken - self.gate.acts().iter().filter(is_refused).count()
    }

    fn create(&self, name: &str) -> Tool {
        self.sandbox.tool(&["create", name]).via(&self.gate).env("SVC_RUN_ID", format!("20261120t020003z-{name}"))
    }

    fn taking(&self, name: &str) -> Spawned {
        let create = self.create(name).spawn();
        wait::so("the request", || (self.takes() > 0).then_some(()));
        create
    }

    /// From now on only that is done to requests that take a snapshot.
    fn hurt(&self, act: Act, times: usize) {
        self.gate.heal();
        self.gate.rule(takes_a_snapshot, act, 0, times);
    }

    /// The snapshot as the server has it when nothing is taken any more; null if there is none.
    fn truth(&self, name: &str) -> Value {
        wait::so("the end of the snapshot", || {
            let path = format!("/_snapshot/{}/{name}", self.sandbox.prefix);
            let (status, answer) = self.sandbox.search.request("GET", &path, None).unwrap();
            let found = if status == 404 { Value::Null } else { answer["snapshots"][0].clone() };
            (found["state"] != "IN_PROGRESS").then_some(found)
        })
    }

    /// Holds what a call said against what there is. Then the same command again, over a sound network, ends well, and takes it again
    /// only if there is none.
    fn check(&self, name: &str, ran: &Ran) {
        // What hurts later, the polls of this test among it, was no excuse.
        let hurts = self.gate.acts().len();
        let truth = self.truth(name);
        let document = ran.doc();
        assert!(self.takes() <= 1, "the request was sent twice\n{ran}");
        // Its time limit, which a busy machine may reach without that.
        let is_late = document["error"]["code"] == "timeout";
        assert!(hurts > 0 || is_late || ran.status == 0, "nothing was hurt, and the status is not 0\n{ran}");
        let (statuses, is_there): (&[i32], _) = match &document["changed"] {
            // Nobody was there (5), nobody answered in time (6), or something else did (3).
            Value::Bool(false) => (&[3, 5, 6], Some(false)),
            Value::Bool(true) => (&[0, 6], Some(true)),
            _ => (&[6], None),
        };
        assert!(statuses.contains(&ran.status), "the status is none of {statuses:?}\n{ran}");
        assert!(is_there.is_none_or(|is_there| is_there != truth.is_null()), "there is {truth:#}\n{ran}");
        if document["ok"] == true {
            assert_eq!(document["changed"], true, "{ran}");
            self.assert_valid(&truth, ran);
        }
        self.again(name, truth.is_null());
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

    fn again(&self, name: &str, is_to_be_taken: bool) {
        self.gate.heal();
        let ran = self.create(name).run().ok();
        assert_eq!((self.takes(), &ran.doc()["changed"]), (usize::from(is_to_be_taken), &json!(is_to_be_taken)), "{ran}");
        self.assert_valid(&self.truth(name), &ran);
    }
}

#[test]
fn create_succeeds_although_its_answer_is_lost() {
    let bench = Bench::small("answer");
    let cuts = [(0, End::Close), (1, End::Reset), (200, End::Reset), (0, End::Stall), (200, End::Stall)];
    let cuts = cuts.map(|(bytes, end)| Act::Cut(At::Answer(bytes), end));
    let answers = [nginx(NGINX[0]), envoy(), nginx(NGINX[1]), nginx(NGINX[2]), maintenance()];
    let answers = answers.map(|answer| Act::Answer(answer, true));
    let hurts = cuts.into_iter().chain([Act::Cut(At::Request(ALL), End::Stall)]).chain(answers);
    for (number, hurt) in hurts.enumerate() {
        let name = format!("answer-{number}");
        bench.hurt(hurt.clone(), 1);
        let ran = bench.create(&name).run();
        assert_eq!((ran.status, &ran.doc()["changed"]), (0, &json!(true)), "{hurt:?}\n{ran}");
        bench.check(&name, &ran);
    }
}

#[test]
fn incomplete_create_request_has_unknown_outcome() {
    let cuts = [(0, End::Close), (10, End::Reset), (300, End::Close)].map(|(bytes, end)| Act::Cut(At::Request(bytes), end));
    let answers = [nginx(NGINX[0]), envoy(), maintenance()].map(|answer| Act::Answer(answer, false));
    // All at once: their time goes by in waiting.
    thread::scope(|scope| {
        for (number, hurt) in cuts.into_iter().chain(answers).enumerate() {
            scope.spawn(move || {
                let bench = Bench::small(&format!("request-{number}"));
                bench.hurt(hurt.clone(), 1);
                // One of them does not wait for its snapshot either.
                let ran = bench.create("s").args((number == 0).then_some("--no-wait")).run().fails(6, "outcome_unknown");
                assert!(ran.doc()["changed"].is_null() && !ran.result().is_null(), "{hurt:?}\n{ran}");
                bench.check("s", &ran);
            });
        }
        scope.spawn(|| {
            let bench = Bench::small("request-silent");
            bench.hurt(Act::Cut(At::Request(50), End::Stall), 1);
            let ran = bench.create("s").args(["--timeout", "20s"]).run().fails(6, "timeout").error_has(&["--run-id"]);
            assert!(ran.doc()["changed"].is_null(), "{ran}");
            bench.check("s", &ran);
        });
    });
}

#[test]
fn create_retries_busy_server_until_timeout() {
    let bench = Bench::small("busy");
    bench.hurt(Act::Answer(busy(), false), 2);
    bench.create("moment").run().ok().changed();
    bench.hurt(Act::Answer(busy(), false), ALL);
    let ran = match bench.create("busy").args(["--timeout", "8s"]).run() {
        // The time limit has come while a request was on its way.
        ran if ran.status == 6 => ran.fails(6, "timeout"),
        ran => ran.fails(5, "server_busy").unchanged(),
    };
    assert_eq!(ran.doc()["error"]["retryable"], true);
    bench.check("busy", &ran);
}

#[test]
#[ignore = "takes minutes"]
fn unanswered_create_is_given_up_if_name_is_taken() {
    let bench = Bench::small("taken");
    bench.hurt(Act::Hold, 1);
    let create = bench.taking("s");
    bench.sandbox.taken("s", json!({"indices": bench.sandbox.name("docs")}));
    create.wait().refused("name_in_use");
}

#[test]
fn create_succeeds_although_polls_fail() {
    let bench = Bench::new(Sandbox::at_rate("polls", "400kb"));
    let unanswered = Act::Answer(String::new(), true);
    for (name, taking, polls) in [
        // Only the first copies the data; the others are quick.
        ("lost-too", Some(unanswered), Act::Cut(At::Request(0), End::Close)),
        ("bad-gateway", None, Act::Answer(nginx(NGINX[0]), false)),
        ("not-found", None, Act::Answer(nginx(NGINX[2]), false)),
        ("maintenance", None, Act::Answer(maintenance(), false)),
        ("cut", None, Act::Cut(At::Answer(20), End::Reset)),
    ] {
        bench.gate.heal();
        let taken = AtomicBool::new(false);
        bench.gate.rule(move |line| taken.fetch_or(takes_a_snapshot(line), Ordering::SeqCst) && only_reads(line), polls, 0, 5);
        taking.into_iter().for_each(|act| bench.gate.rule(takes_a_snapshot, act, 0, 1));
        let ran = bench.create(name).run().ok();
        assert!(bench.gate.acts().iter().any(|(line, _)| only_reads(line)), "no poll was hurt");
        bench.check(name, &ran);
    }
}

#[test]
fn metadata_is_accepted_up_to_1024_bytes() {
    let bench = Bench::small("metadata");
    let create =
        |name: &str, why: &str| bench.create(name).args(["--taken-by", "J\u{fc}rgen \"J\"", "--taken-because", why]).run();
    let why = "line\nnext\t\\ \u{20ac} ";
    let first = create("s0", why).ok();
    let metadata = &bench.truth("s0")["metadata"];
    assert_eq!((&metadata["taken_because"], &metadata["taken_by"]), (&json!(why), &json!("J\u{fc}rgen \"J\"")));
    assert_eq!(first.result()["snapshot"]["taken_because"], why);
    let left = 1024 - first.result()["plan"][0]["body"]["metadata"].to_string().len();
    create("s1", &format!("{why}{}", "x".repeat(left))).ok();
    create("s2", &format!("{why}{}", "x".repeat(left + 3))).fails(1, "server_refused").unchanged().error_has(&["1024 bytes"]);
}

#[test]
fn concurrent_creates_of_same_name_have_one_winner() {
    let bench = Bench::small("race");
    let race = |name: &str, args: &[&str]| -> Vec<Ran> {
        let folders = [(); 4].map(|()| tempfile::tempdir().unwrap());
        let run = |host: usize| format!("20261120t020003z-{name}-{host}");
        let call = |(host, folder): (usize, &TempDir)| {
            bench.create(name).env("SVC_RUN_ID", run(host)).env("SVC_STATE_DIR", folder.path()).args(args).spawn()
        };
        let calls: Vec<_> = folders.iter().enumerate().map(call).collect();
        calls.into_iter().map(Spawned::wait).collect()
    };
    let (won, lost): (Vec<Ran>, Vec<Ran>) = race("same", &[]).into_iter().partition(|ran| ran.status == 0);
    assert_eq!(won.len(), 1);
    bench.assert_valid(&bench.truth("same"), &won[0]);
    lost.into_iter().for_each(|ran| drop(ran.refused("name_in_use")));
    let mut names = BTreeSet::new();
    for ran in race("some", &["--unique"]) {
        let ran = ran.ok().changed();
        let name = ran.result()["name"].as_str().unwrap().to_owned();
        bench.assert_valid(&bench.truth(&name), &ran);
        names.insert(name);
    }
    assert_eq!(names, ["some", "some_2", "some_3", "some_4"].map(str::to_owned).into());
}

#[test]
#[ignore = "takes minutes"]
fn create_during_server_restart_never_claims_unchanged() {
    let systemd = Host::shared().unwrap().systemd;
    let server = own_server(&[]);
    let sandbox = Sandbox::on(server.server.clone(), "restart").registered(&[("max_snapshot_bytes_per_sec", "400kb")]);
    sandbox.noise("docs", 60);
    let bench = Bench::new(sandbox);
    let create = bench.create("s").spawn();
    bench.sandbox.appears("s");
    systemd.stop(&server.unit).unwrap();
    systemd.start(&server.unit).unwrap();
    let ran = create.wait();
    let truth = bench.truth("s");
    println!("{} {} {}; {}", ran.status, ran.doc()["changed"], ran.doc()["error"]["code"], truth["state"]);
    assert!(bench.takes() == 1 && ran.doc()["changed"] != false && !ran.result().is_null(), "{ran}");
    let told = (ran.status, ran.doc()["error"]["code"].as_str().unwrap_or_default());
    // Elasticsearch 8 goes only when it has taken it.
    let (is_gone, is_valid) = (truth.is_null(), truth["state"] == "SUCCESS");
    match (is_gone, is_valid) {
        (true, _) => assert!([(4, "snapshot_not_found"), (6, "outcome_unknown")].contains(&told), "{ran}"),
        (_, true) => assert!([0, 6].contains(&ran.status), "{ran}"),
        _ => {
            assert!([6, 7].contains(&ran.status), "{truth}\n{ran}");
            bench.sandbox.run(&["delete", "s"]).ok();
        }
    }
    bench.again("s", !is_valid);
}
