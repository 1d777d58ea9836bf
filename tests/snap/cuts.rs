//! `svc-snap stage`, `swap` and `restore` killed, ended or disconnected between any two of their requests; and two of them at
//! once.

use svc_tests::prelude::*;
use svc_tests::proxy::Proxy;

/// How many requests the swap of a snapshot is, as its dry run says.
fn requests_of_a_swap(sandbox: &Sandbox, created: &Ran) -> usize {
    let staged = sandbox.from(&["stage"], created).ok();
    let plan = sandbox.from(&["swap", "--dry-run"], &staged).ok().unchanged().planned();
    sandbox.from(&["discard"], &staged).ok().changed();
    assert!(plan.len() > 3, "{plan:?}");
    plan.len()
}

/// Each of so many requests, cut before the server has it, and after.
fn every_cut(requests: usize) -> impl Iterator<Item = (usize, Side)> {
    (1..=requests).flat_map(|number| [(number, Side::Before), (number, Side::After)])
}

/// Six small indices whose names end so, a snapshot of them, and what they held then; they hold more since.
fn six(sandbox: &Sandbox, end: &str) -> (Ran, BTreeMap<String, (Index, Value)>) {
    let names: Vec<String> = (0..6).map(|n| sandbox.simple(&format!("i{n}{end}"), 5)).collect();
    let created = sandbox.create("s1");
    let before = sandbox.content();
    names.iter().for_each(|name| sandbox.fill(name, 5, 9));
    (created, before)
}

#[test]
fn swap_survives_broken_connection_and_kill_at_any_request() {
    let sandbox = Sandbox::new("kill");
    let all = sandbox.name("all");
    let aliases = json!({sandbox.name("alias"): {"is_write_index": true, "filter": {"term": {"k": 1}}}, &all: {}});
    let live = sandbox.index("docs", json!({"settings": {"number_of_replicas": 0}, "aliases": aliases}));
    sandbox.fill(&live, 0, 10);
    let other = sandbox.simple("more", 3);
    sandbox.ask("PUT", &format!("/{other}/_alias/{all}"), None);
    let before = sandbox.content();
    let created = sandbox.create("s1");
    sandbox.fill(&live, 5, 25);
    sandbox.fill(&other, 3, 4);
    let upgraded = sandbox.content();
    let requests = requests_of_a_swap(&sandbox, &created);
    for (n, (number, side)) in every_cut(requests).enumerate() {
        let staged = sandbox.from(&["stage"], &created).ok();
        let gate = sandbox.gate().close_at(number, side).hanging_up();
        let swapped = sandbox.resuming(&["swap"], &staged).via(&gate).run().ok().changed();
        assert!(gate.changes().len() >= number, "{:?}", gate.changes());
        assert_eq!(sandbox.content(), before, "broken {side:?} request {number}");
        sandbox.from(&["swap"], &swapped).ok();
        sandbox.run(&["discard", "--run", staged.id()]).ok();

        let run = run_id(n);
        let staged = sandbox.from(&["stage", "--run-id", &run], &created).ok();
        let gate = sandbox.gate().close_at(number, side).kill(sandbox.resuming(&["swap"], &staged));
        let at = format!("killed {side:?} request {number}: {:?}", gate.changes());
        // An alias leads to all of what was live or to all of the backup.
        assert!([25 + 4, 10 + 3].contains(&sandbox.count(&all)), "{at}");
        // Neither the copies may be removed now, nor may another run begin, if the live index is not there.
        if [&live, &other].into_iter().any(|name| !sandbox.names().contains(name)) {
            sandbox.run(&["discard", "--run", &run]).refused("swap_unfinished");
            sandbox.from(&["restore"], &created).refused("swap_unfinished");
        }
        // The second call may be killed too, and lose its connection before, if more than one request is left.
        if n % 3 == 1 && number + 1 < requests {
            let gate = sandbox.gate().close_at(1, side).hanging_up().close_at(2, Side::After);
            gate.kill_or_end(sandbox.resuming(&["swap"], &staged));
        }
        let left = sandbox.from(&["swap", "--dry-run"], &staged).ok().unchanged().planned();
        let gate = sandbox.gate();
        // As its hint says, and by the document of the staging.
        let finish = if n % 4 < 2 { sandbox.resuming(&["swap"], &staged) } else { sandbox.tool(&["swap", "--run", &run]) };
        let finished = finish.via(&gate).run().ok();
        assert_eq!((finished.states(), gate.sent()), (vec!["new".to_owned(); 2], left), "{at}");
        assert_eq!(sandbox.content(), before, "{at}");
        let previous = [0, 1].map(|at| finished.result()["indices"][at]["previous"].as_str().unwrap().to_owned());
        assert_eq!((sandbox.names().len(), sandbox.copies()), (4, previous.to_vec()), "{at}");
        assert_eq!(previous.map(|copy| sandbox.count(&copy)), [25, 4], "{at}");
        sandbox.from(&["swap"], &staged).ok().unchanged();
        sandbox.from(&["swap"], &finished).ok();
        assert_eq!(sandbox.content(), upgraded, "{at}");
        sandbox.run(&["discard", "--run", &run]).ok();
        assert!(sandbox.copies().is_empty(), "{at}");
    }
}

#[test]
fn late_exchange_completes_swap_or_changes_nothing() {
    let (sandbox, live, _, staged) = Sandbox::staged("late");
    let (content, copies) = (sandbox.content(), sandbox.copies());
    let is_exchange = |line: &str| line == "POST /_aliases";
    let lost = || {
        let gate = sandbox.gate();
        gate.rule(is_exchange, Act::Cut(At::Request(0), End::Close), 0, 1);
        gate
    };
    // Undone, it finds none of its copies.
    let gate = lost();
    let refusal = json!({"error": {"type": MISHAP.1, "reason": MISHAP.2, "root_cause": []}, "status": MISHAP.0});
    gate.rule(is_exchange, Act::Answer(http("400 Bad Request", "application/json", &refusal.to_string()), false), 1, 1000);
    sandbox.resuming(&["swap"], &staged).via(&gate).run().fails(1, "server_refused").unchanged();
    let (status, answer) = sandbox.search.request("POST", "/_aliases", gate.bodies("/_aliases").first()).unwrap();
    assert_eq!((status, sandbox.content(), sandbox.copies()), (404, content, copies), "{answer}");

    // While it is in the server's queue, nothing is undone.
    let gate = lost().close_before("wait_for_events=languid", 1);
    let exchange = || drop(sandbox.ask("POST", "/_aliases", gate.bodies("/_aliases").pop()));
    let swapped = gate.during(sandbox.resuming(&["swap"], &staged), exchange).ok().changed();
    let previous = swapped.result()["indices"][0]["previous"].as_str().unwrap();
    assert_eq!((sandbox.count(&live), sandbox.count(previous)), (10, 15));
}

#[test]
fn write_before_swap_is_finished_survives_swap_back() {
    let (sandbox, live, created, staged) = Sandbox::staged("written");
    sandbox.ask("PUT", &format!("/{live}/_alias/{}", sandbox.name("alias")), None);
    let upgraded = sandbox.content();
    let requests = requests_of_a_swap(&sandbox, &created);
    sandbox.gate().close_at(requests, Side::Before).kill(sandbox.resuming(&["swap"], &staged));
    let write = format!("/{live}/_doc/new?refresh=true");
    assert_eq!(sandbox.search.request("PUT", &write, Some(&json!({"n": 1}))).unwrap().0, 201);
    let back = sandbox.run(&["swap", "--run", staged.id(), "--back"]).ok().changed();
    assert_eq!(sandbox.content(), upgraded);
    let replaced = back.result()["indices"][0]["previous"].as_str().map(|replaced| sandbox.count(replaced));
    assert_eq!(replaced, Some(11), "{back}");
    let forward = sandbox.from(&["swap"], &back).ok().changed();
    assert_eq!(sandbox.count(&live), 11, "{forward}");
}

/// Swaps that are cut after these requests are taken back, and the indices take writes. After some of the cuts the way back is killed
/// at each of its requests, until it comes to its end.
fn taken_back(name: &str, cuts: std::ops::RangeInclusive<usize>, killed: &[usize]) {
    let sandbox = Sandbox::new(name);
    let alias = sandbox.name("alias");
    let index = |suffix: &str| {
        let aliases = json!({&alias: {"is_write_index": suffix == "a"}});
        let index = sandbox.index(suffix, json!({"settings": {"number_of_replicas": 0}, "aliases": aliases}));
        sandbox.fill(&index, 0, 10);
        index
    };
    let (a, _b) = (index("a"), index("b"));
    let created = sandbox.create("s1");
    let (mut docs, mut n) = (20, 0);
    sandbox.fill(&a, 10, docs);
    // Blocked; one kept; all kept; exchanged; one cloned; both cloned; with their settings; finished.
    let requests = requests_of_a_swap(&sandbox, &created);
    assert_eq!(requests, 8);
    for cut in cuts {
        let ways = every_cut(if killed.contains(&cut) { usize::MAX } else { 0 }).map(Some).chain([None]);
        for back_cut in ways {
            n += 1;
            let run = run_id(n);
            let upgraded = sandbox.content();
            let staged = sandbox.from(&["stage", "--run-id", &run], &created).ok();
            sandbox.gate().close_at(cut, Side::After).kill(sandbox.resuming(&["swap"], &staged));
            let back = ["swap", "--run", &run, "--back"];
            let gate = back_cut.map_or_else(|| sandbox.gate(), |(number, side)| sandbox.gate().close_at(number, side));
            let ran = gate.kill_or_end(sandbox.tool(&back));
            assert!([0, 137].contains(&ran.status), "{ran}");
            let is_ended = ran.status == 0;
            let at = format!("forward cut after {cut}, back killed at {back_cut:?}: {:?}", gate.changes());
            if !is_ended && sandbox.content() != upgraded {
                // A swap that came to its end is no unfinished one until its way back has begun.
                if cut < requests || back_cut != Some((1, Side::Before)) {
                    println!("{at}");
                    sandbox.run(&["discard", "--run", &run]).refused("swap_unfinished");
                    sandbox.from(&["restore"], &created).refused("swap_unfinished");
                }
                sandbox.run(&back).ok().changed();
            } else {
                sandbox.run(&back).ok();
            }
            assert_eq!(sandbox.content(), upgraded, "{at}");
            sandbox.run(&back).ok().unchanged();
            // Taken back before its exchange, it can be made again.
            if cut == 1 {
                sandbox.from(&["swap"], &staged).ok().changed();
                assert_eq!(sandbox.count(&a), 10, "{at}");
                sandbox.run(&back).ok().changed();
                assert_eq!(sandbox.content(), upgraded, "{at}");
            }
            docs += 1;
            sandbox.fill(&a, docs - 1, docs);
            assert_eq!(sandbox.count(&a), docs as u64, "{at}");
            sandbox.run(&["discard", "--run", &run]).ok();
            assert!(sandbox.copies().is_empty(), "{at}");
            if is_ended {
                assert!(back_cut.is_none_or(|(number, _)| number > 1), "{at}");
                break;
            }
        }
    }
}

#[test]
fn swap_killed_before_exchange_is_undone_by_swap_back() {
    let count = rounds("cuts before an exchange whose way back is killed everywhere", 1, 3);
    taken_back("back-early", 1..=3, &[3, 1, 2][..count]);
}

#[test]
fn swap_killed_after_exchange_is_undone_by_swap_back() {
    let count = rounds("cuts behind an exchange whose way back is killed everywhere", 1, 5);
    taken_back("back-late", 4..=8, &[5, 4, 6, 7, 8][..count]);
}

/// What a client removes of an interrupted swap before this is taken back.
#[test]
fn swap_back_survives_index_removed_by_client() {
    let sandbox = Sandbox::new("back-lost");
    let [a, b] = ["a", "b"].map(|suffix| sandbox.simple(suffix, 5));
    let created = sandbox.create("s1");
    let begin = |n: usize, at: &str, side: Side| {
        sandbox.fill(&b, 5, 6 + n);
        let staged = sandbox.from(&["stage", "--run-id", &run_id(n)], &created).ok();
        sandbox.gate().close_on(at, side).kill(sandbox.resuming(&["swap"], &staged));
    };
    let back = |n: usize| sandbox.run(&["swap", "--run", &run_id(n), "--back"]);
    let before = |n: usize, index: &str| format!("svc-before-{}-{index}", run_id(n));
    // Before the exchange: the clone of it may be all that is left.
    begin(1, "POST /_aliases", Side::Before);
    sandbox.delete(&a);
    let last = back(1).review("not_removed").changed().warns_of("not_removed", &before(1, &a));
    last.warns_of("not_removed", &format!("svc-snap discard --run {}", run_id(1)));
    assert_eq!((sandbox.count(&before(1, &a)), sandbox.count(&b), sandbox.blocks(&b)), (5, 7, Vec::new()));
    back(1).ok().unchanged();
    sandbox.run(&["discard", "--run", &run_id(1)]).ok().changed();
    sandbox.simple("a", 5);
    // After it, what becomes live is removed.
    let upgraded = sandbox.content();
    for (n, at) in [(2, format!("/_clone/{b}")), (3, format!("PUT /{a},{b}/_settings"))] {
        begin(n, &at, Side::After);
        sandbox.search.request("DELETE", &format!("/{a}?ignore_unavailable=true"), None).unwrap();
        back(n).ok().changed();
        assert_eq!((sandbox.content()[&a].clone(), sandbox.count(&b)), (upgraded[&a].clone(), 6 + n as u64), "{at}");
        sandbox.run(&["discard", "--run", &run_id(n)]).ok();
        assert_eq!(sandbox.copies(), [""; 0], "{at}");
    }
    // And what was live before: there is no way back, but the way forward.
    begin(4, "POST /_aliases", Side::After);
    sandbox.delete(&before(4, &a));
    back(4).fails(4, "swap_not_found").unchanged().error_has(&[&a]);
    sandbox.run(&["swap", "--run", &run_id(4)]).ok().changed();
    assert_eq!([&a, &b].map(|index| sandbox.count(index)), [5, 5]);
    // Or the copy that was to become live: there is the way back alone.
    let upgraded = sandbox.content();
    begin(5, "POST /_aliases", Side::After);
    sandbox.delete(&format!("svc-staged-{}-{a}", run_id(5)));
    let stuck = sandbox.run(&["swap", "--run", &run_id(5)]).fails(7, "swap_unfinished");
    // A staging is refused as long as the swap is unfinished.
    assert!(!stuck.unchanged().error_has(&["--back takes it back"]).hint().contains("svc-snap stage"));
    back(5).ok().changed();
    assert_eq!((sandbox.content()[&a].clone(), sandbox.count(&b)), (upgraded[&a].clone(), 11));
    // A way back that was killed is finished by the same command, and not taken back.
    for (n, side) in [(6, Side::Before), (7, Side::After)] {
        let upgraded = sandbox.content();
        sandbox.from(&["restore", "--run-id", &run_id(n)], &created).ok().changed();
        sandbox.gate().close_on("POST /_aliases", side).kill(sandbox.tool(&["swap", "--run", &run_id(n), "--back"]));
        sandbox.search.request("DELETE", &format!("/{a}?ignore_unavailable=true"), None).unwrap();
        let refused = sandbox.from(&["stage"], &created).refused("swap_unfinished");
        assert!(!refused.hint().contains("--back"), "{refused}");
        back(n).ok().changed();
        assert_eq!(sandbox.content(), upgraded, "{side:?}");
    }
    // What is live is removed when nothing but the record lacks the end: it is finished, and a person is told.
    begin(8, "POST /_aliases", Side::After);
    let finish = ["swap", "--run", &run_id(8)];
    sandbox.gate().close_on("POST /_aliases", Side::After).kill(sandbox.tool(&finish));
    sandbox.delete(&a);
    sandbox.run(&finish).review("not_restored").unchanged().warns_of("not_restored", &a);
    back(8).ok().changed();
}

#[test]
fn failed_swap_back_names_resume_command() {
    let (sandbox, live, _, staged) = Sandbox::staged("fail-back");
    sandbox.gate().close_on("/_clone/", Side::After).kill(sandbox.resuming(&["swap"], &staged));
    let run = staged.id();
    let back = ["swap", "--run", run, "--back"];
    let plan = sandbox.tool(&back).args(["--dry-run"]).run().ok().unchanged();
    assert_eq!(plan.texts("plan", "method"), ["DELETE", "PUT"], "{plan}");
    let gate = sandbox.gate().refusing(&format!("PUT /{live}/_settings"), 1, DENIED);
    let tool = sandbox.tool(&back).env_remove("SVC_SEARCH_URL").env_remove("SVC_STATE_DIR");
    let failed = tool.args(["--url", &gate.url(), "--state-dir"]).arg(sandbox.state.path()).run().changed();
    let hint = failed.error_has(&[&format!("svc-snap swap --run {run}")]).hint().to_owned();
    sandbox.run(&["discard", "--run", run]).refused("swap_unfinished");
    // The hint is pasted into a shell that has none of the settings.
    let typed = hint.strip_suffix(" takes it back.").map(|hint| &hint[hint.rfind("svc-snap").unwrap()..]).unwrap();
    let finished = Tool::program("/bin/sh").args(["-c", typed]).run().ok().changed();
    finished.has(&json!({"finished": true, "skipped/0/name": live}));
    sandbox.fill(&live, 15, 16);
    assert_eq!(sandbox.count(&live), 16);
}

#[test]
fn index_created_by_client_during_swap_is_kept() {
    let (sandbox, live, _, staged) = Sandbox::staged("conflicting");
    // Killed at the exchange; and again when what the client has made is copied, and nobody hears that it was removed.
    let kill = || sandbox.gate().close_on("POST /_aliases", Side::After).kill(sandbox.resuming(&["swap"], &staged));
    kill();
    let command = format!("svc-snap swap --run {} finishes it", staged.id());
    sandbox.run(&["health"]).ok().warns_of("swap_unfinished", &command);
    sandbox.ask("PUT", &format!("/{live}/_doc/late?refresh=true"), Some(json!({"from": "a client"})));
    kill();
    let finished = sandbox.from(&["swap"], &staged).ok();
    let conflicting = finished.result()["indices"][0]["conflicts"][0].as_str().unwrap();
    assert_eq!((sandbox.count(conflicting), sandbox.count(&live)), (1, 10));
    sandbox.from(&["discard"], &finished).ok();
    assert_eq!(sandbox.names(), [live]);
}

#[test]
fn interrupted_staging_changes_nothing_live() {
    // Long enough to be caught at it.
    let sandbox = Sandbox::new("term").registered(&[("max_restore_bytes_per_sec", "250kb")]);
    let live = sandbox.noise("docs", 12);
    let created = sandbox.create("s1");
    let before = sandbox.count(&live);
    let (staging, restoring) = (run_id(1), run_id(2));
    let ended = |step: &str, run: &str, signal: Signal| {
        let tool = sandbox.resuming(&[step, "--run-id", run], &created).spawn();
        wait::so("the staged index", || (!sandbox.copies().is_empty()).then_some(()));
        let ran = tool.ended_by(signal);
        assert_eq!((ran.status, sandbox.count(&live)), (128 + signal as i32, before), "{ran}");
        assert!(sandbox.copies().iter().all(|name| name.starts_with("svc-staged-")), "{:?}", sandbox.copies());
        ran
    };
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let ran = ended("stage", &staging, signal).fails(128 + signal as i32, "interrupted").unchanged();
        assert_eq!((ran.states(), sandbox.names()), (vec!["removed".to_owned()], vec![live.clone()]));
    }
    ended("stage", &staging, Signal::SIGKILL);
    sandbox.run(&["swap", "--run", &staging]).refused("not_verified");
    // The same command again finds what the killed call left, and begins again.
    let again = || sandbox.from(&["stage", "--run-id", &staging], &created).ok();
    let staged = again().changed();
    assert_eq!(staged.states(), ["verified"]);
    assert_eq!(sandbox.copies(), staged.texts("indices", "copy"));
    assert_eq!(again().unchanged().result()["indices"], staged.result()["indices"], "it is so already");
    sandbox.run(&["discard", "--run", &staging]).ok().changed();
    assert_eq!(sandbox.names(), std::slice::from_ref(&live));
    ended("restore", &restoring, Signal::SIGTERM);
    ended("restore", &restoring, Signal::SIGKILL);
    let restored = sandbox.from(&["restore", "--run-id", &restoring], &created).ok().changed();
    assert_eq!(sandbox.count(&live), before);
    assert_eq!(sandbox.copies(), [restored.result()["swap"]["indices"][0]["previous"].as_str().unwrap()]);
}

/// Makes a pipe of the metadata of the one index in the repository: a server that reads it waits for what the call of this gives it.
fn held_at_metadata(sandbox: &Sandbox) -> impl FnOnce() {
    let metadata = os::run(Command::new("find").arg(sandbox.location()).args(["-path", "*/indices/*/meta-*.dat"])).unwrap();
    let metadata = PathBuf::from(metadata.trim());
    let content = fs::read(&metadata).unwrap();
    fs::remove_file(&metadata).unwrap();
    os::run(Command::new("mkfifo").args(["--mode", "666"]).arg(&metadata)).unwrap();
    move || fs::write(metadata, content).unwrap()
}

fn is_running(sandbox: &Sandbox, action: &str) -> bool {
    let tasks = sandbox.ask("GET", &format!("/_tasks?actions=cluster:admin/snapshot/{action}"), None);
    tasks["nodes"].as_object().is_some_and(|nodes| !nodes.is_empty())
}

fn asks_for_tasks(gate: &Gate, tool: &mut Spawned) {
    let has_asked = || gate.asked().iter().any(|line| line.contains("_tasks"));
    wait::so("the tool to ask for requests, or to end", || (has_asked() || !tool.is_running()).then_some(()));
}

#[test]
fn discard_removes_what_restore_of_killed_staging_begins_later() {
    let (sandbox, _, created) = Sandbox::saved("later");
    let gate = sandbox.gate();
    gate.rule(|line| line.ends_with("/_restore"), Act::Hold, 0, 1);
    let run = run_id(1);
    let staging = sandbox.resuming(&["stage", "--run-id", &run], &created).via(&gate).spawn();
    wait::so("the restore", || gate.asked().iter().any(|line| line.ends_with("/_restore")).then_some(()));
    // The server makes no index before.
    let give = held_at_metadata(&sandbox);
    gate.open();
    wait::so("the server to have the request", || is_running(&sandbox, "restore").then_some(()));
    assert_eq!(staging.ended_by(Signal::SIGKILL).status, 137);
    let asking = sandbox.gate();
    let mut discard = sandbox.tool(&["discard", "--run", &run]).via(&asking).spawn();
    asks_for_tasks(&asking, &mut discard);
    give();
    discard.wait().ok();
    wait::so("the end of the restore", || (!is_running(&sandbox, "restore")).then_some(()));
    assert_eq!(sandbox.copies(), [""; 0]);
}

/// A proxy gives up after a minute or so.
#[test]
fn deletion_that_outlasts_its_connection_is_waited_for() {
    let (sandbox, _, _) = Sandbox::saved("long");
    // The server reads only of an index that another snapshot needs.
    sandbox.create("s2");
    let give = held_at_metadata(&sandbox);
    let proxy = Proxy::to(&sandbox.search.url).unwrap();
    let gate = Gate::to(&format!("http://127.0.0.1:{}", proxy.port())).unwrap();
    let mut deletion = sandbox.tool(&["delete", "s1"]).via(&gate).spawn();
    wait::so("the deletion, or its end", || (is_running(&sandbox, "delete") || !deletion.is_running()).then_some(()));
    proxy.cut();
    asks_for_tasks(&gate, &mut deletion);
    give();
    deletion.wait().ok().changed();
    assert_eq!(sandbox.snapshots().len(), 1);
}

#[test]
fn ended_swap_is_undone_before_exchange_and_finished_after() {
    let sandbox = Sandbox::new("ended");
    // So long that one request cannot hold all of them.
    let (created, before) = six(&sandbox, &"x".repeat(180));
    let upgraded = sandbox.content();
    let staged = sandbox.from(&["stage"], &created).ok();
    let copies = sandbox.copies();
    let is_old = |ran: &Ran| {
        let is = (ran.states(), sandbox.content(), sandbox.copies());
        assert_eq!(is, (vec!["old".to_owned(); 6], upgraded.clone(), copies.clone()), "{ran}");
    };
    let signalled = |at: &str, document: &Ran| {
        let gate = sandbox.gate().close_on(at, Side::After);
        let held = gate.hold(sandbox.resuming(&["swap"], document));
        for (step, document) in [("swap", &staged), ("restore", &created)] {
            sandbox.from(&[step], document).fails(8, "locked").unchanged();
        }
        held.signal(Signal::SIGTERM);
        gate.open();
        held.wait().fails(143, "interrupted")
    };
    is_old(&signalled("/_clone/", &staged).unchanged());
    // The limit is over at the second request. (A busy machine may not undo it in the ten seconds behind that; the next call does.)
    let cut = limited(|seconds| {
        let gate = sandbox.gate().close_on("/_clone/", Side::Before);
        let swap = sandbox.resuming(&["swap", "--timeout", &format!("{seconds}s")], &staged);
        let mut swap = swap.via(&gate).spawn();
        wait::so("the chosen request", || (gate.is_closed() || !swap.is_running()).then_some(()));
        let came = gate.is_closed();
        if came {
            thread::sleep(Duration::from_secs(seconds));
        }
        gate.open();
        let ended = swap.wait();
        (came && ended.doc()["changed"] == false).then(|| ended.fails(6, "timeout"))
    });
    is_old(&cut);

    sandbox.from(&["swap", "--exact"], &cut).fails(2, "options_invalid").unchanged();
    let finished = signalled("/_aliases", &cut).changed();
    assert_eq!((finished.states(), sandbox.content()), (vec!["new".to_owned(); 6], before));
    sandbox.from(&["swap"], &cut).ok().unchanged();
    let back = sandbox.run(&["swap", "--run", staged.id(), "--back"]).ok().changed();
    assert_eq!(sandbox.content(), upgraded);
    sandbox.from(&["swap"], &cut).refused("name_in_use");
    sandbox.from(&["swap", "--back"], &cut).ok().unchanged();
    sandbox.from(&["discard"], &back).ok().changed();
    assert_eq!((sandbox.content(), sandbox.copies()), (upgraded.clone(), Vec::new()));
}

#[test]
fn server_away_after_exchange_is_waited_for() {
    let (sandbox, live, _, staged) = Sandbox::staged("away");
    let gate = sandbox.gate();
    gate.rule(|line| line == "POST /_aliases", Act::Cut(At::Request(0), End::Close), 1, 12);
    sandbox.resuming(&["swap"], &staged).via(&gate).run().ok().changed();
    assert_eq!((sandbox.count(&live), gate.acts().len()), (10, 12));
}

#[test]
fn swap_failed_after_exchange_is_finished_by_document() {
    let sandbox = Sandbox::new("behind");
    let (created, before) = six(&sandbox, "");
    let upgraded = sandbox.content();
    let staged = sandbox.from(&["stage"], &created).ok();
    let last = format!("POST /svc-staged-{}-{}/_clone/", staged.id(), sandbox.name("i5"));
    let gate = sandbox.gate().refusing(&last, 1000, DENIED);
    let cut = sandbox.resuming(&["swap"], &staged).via(&gate).run().changed();
    assert_eq!((&cut.doc()["ok"], cut.states()), (&json!(false), vec!["absent".to_owned(); 6]), "{cut}");
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
fn server_away_before_undo_is_waited_for() {
    let (sandbox, live, _, staged) = Sandbox::staged("away-undo");
    let (content, copies) = (sandbox.content(), sandbox.copies());
    for tool in [sandbox.resuming(&["swap"], &staged), sandbox.tool(&["clone"])] {
        let gate = sandbox.gate().refusing(&format!("POST /{live}/_clone/"), 1, MISHAP);
        let has_failed = AtomicBool::new(false);
        let is_away = move |line: &str| has_failed.fetch_or(line.contains("/_clone/"), Ordering::SeqCst);
        gate.rule(is_away, Act::Cut(At::Request(0), End::Close), 0, 12);
        tool.via(&gate).run().fails(1, "server_refused").unchanged();
        assert_eq!((sandbox.content(), sandbox.copies(), gate.acts().len()), (content.clone(), copies.clone(), 1 + 12));
        assert_eq!(sandbox.blocks(&live), Vec::<String>::new());
    }
}

#[test]
#[ignore = "takes a minute"]
fn server_restart_during_swap_is_undone_or_finished() {
    let (systemd, own) = (Host::shared().unwrap().systemd, own_server(&[]));
    let sandbox = Sandbox::on(own.server.clone(), "restarted").registered(&[]);
    let live = sandbox.simple("docs", 10);
    let created = sandbox.create("s1");
    sandbox.fill(&live, 10, 15);
    let (clone, exchange, last) = (format!("/{live}/_clone/"), "POST /_aliases".to_owned(), format!("/_clone/{live}"));
    let both = |at| [(at, Side::Before), (at, Side::After)];
    for (at, side) in [both(&clone), both(&exchange), both(&last)].concat() {
        let staged = sandbox.from(&["stage"], &created).ok();
        let gate = sandbox.gate().close_on(at, side);
        let held = gate.hold(sandbox.resuming(&["swap"], &staged));
        systemd.stop(&own.unit).unwrap();
        gate.open();
        systemd.start(&own.unit).unwrap();
        let ran = held.wait();
        if at == &clone {
            ran.fails(5, "search_unreachable").unchanged();
        } else {
            sandbox.from(&["swap"], &ran.ok().changed()).ok();
        }
        sandbox.run(&["discard", "--run", staged.id()]).ok().changed();
        assert_eq!((sandbox.count(&live), sandbox.blocks(&live)), (15, Vec::new()), "{at} {side:?}");
    }
}
