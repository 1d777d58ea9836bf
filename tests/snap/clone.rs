//! `svc-snap clone`: a copy of the live indices; and copies without a record.

use svc_tests::prelude::*;

/// Two indices, one with aliases and a replica that cannot be placed, one that takes no writes.
fn two(sandbox: &Sandbox) -> [String; 2] {
    let alias = sandbox.name("alias");
    let a = sandbox.index("a", json!({"settings": {"number_of_replicas": 1}, "aliases": {&alias: {"is_write_index": true, "filter": {"term": {"k": 1}}}}}));
    sandbox.fill(&a, 0, 10);
    let b = sandbox.simple("b", 5);
    sandbox.block(&b, "write", true);
    [a, b]
}

#[test]
fn clone_is_swapped_in_then_back_then_discarded() {
    let sandbox = Sandbox::new("clone");
    let [a, b] = two(&sandbox);
    let before = sandbox.content();
    let clone = sandbox.run(&["clone"]).ok().changed();
    assert_eq!(sandbox.content(), before, "what is live is as it was, and takes writes");
    assert_eq!(sandbox.copies(), clone.texts("indices", "copy"));
    for copy in sandbox.copies() {
        let settings = sandbox.settings(&copy);
        assert_eq!(["hidden", "block", "replicas"].map(|name| &settings[name]), ["true", "true", "0"], "{copy}");
    }

    sandbox.fill(&a, 5, 30);
    sandbox.delete(&b);
    sandbox.simple("c", 3);
    let upgraded = sandbox.content();
    let unused = || sandbox.from(&["swap", "--exact", "--unused", "--dry-run"], &clone);
    unused().ok().unchanged();
    let previous = format!("svc-before-{}-{a}", clone.id());
    sandbox.ask("PUT", &format!("/{previous}"), None);
    sandbox.from(&["swap"], &clone).refused("name_in_use").unchanged().error_has(&["the previous copies", &previous]);
    sandbox.delete(&previous);
    let swapped = sandbox.from(&["swap", "--exact"], &clone).ok().changed();
    assert_eq!(sandbox.content(), before);
    unused().refused("not_swappable").unchanged();
    let back = sandbox.from(&["swap"], &swapped).ok().changed();
    assert_eq!(sandbox.content(), upgraded);
    unused().refused("name_in_use").unchanged();
    sandbox.resuming(&["discard"], &back).env("SVC_INDICES", "other-*").run().refused("options_invalid").unchanged();
    sandbox.from(&["discard"], &back).ok().changed();
    assert_eq!((sandbox.copies(), sandbox.content()), (Vec::new(), upgraded));
}

/// What was cloned from it may be all that is left.
#[test]
fn copy_of_index_that_vanished_stays_until_discarded() {
    let sandbox = Sandbox::new("vanish");
    let [a, b] = ["a", "b"].map(|name| sandbox.simple(name, 3));
    let created = sandbox.create("s1");
    for (n, step) in ["clone", "swap", "restore", "clone", "clone"].into_iter().enumerate() {
        let run = run_id(80 + n);
        let document = if step == "swap" { sandbox.from(&["stage", "--run-id", &run], &created).ok() } else { created.clone() };
        let tool = || match step {
            "clone" => sandbox.tool(&[step, "--run-id", &run]),
            _ => sandbox.resuming(&[step, "--run-id", &run], &document),
        };
        let copies = sandbox.copies();
        // Once its copy is complete, or while another index is still to be cloned.
        let at = if n == 4 { format!("/{b}/_clone/") } else { "/_refresh".to_owned() };
        let gate = sandbox.gate().close_before(&at, 1);
        let held = gate.hold(tool());
        sandbox.delete(&a);
        if n == 3 {
            sandbox.simple("a", 1);
        }
        gate.open();
        let copy = format!("svc-{}-{run}-{a}", if step == "clone" { step } else { "before" });
        let failed = held.wait().fails(1, "name_in_use").changed().warns_of("not_removed", &copy);
        let failed = failed.error_has(&["removed or replaced", &a, &format!("discard --run {run}")]);
        let mut left = [copies, vec![copy.clone()]].concat();
        left.sort();
        assert_eq!((sandbox.copies(), sandbox.blocks(&b)), (left.clone(), Vec::new()), "{step}");
        if n < 4 {
            assert_eq!(sandbox.count(&copy), 3, "{step}");
        }
        if step == "clone" {
            tool().run().refused("name_in_use").unchanged().error_has(&[&copy]);
            sandbox.from(&["swap"], &failed).fails(2, "name_in_use").unchanged();
            assert_eq!(sandbox.copies(), left);
        }
        if step == "swap" {
            // What it does not name stays, and can still be discarded.
            sandbox.from(&["discard"], &document).ok().changed();
            assert_eq!(sandbox.copies(), [copy]);
        }
        sandbox.run(&["discard", "--run", &run]).ok().changed();
        assert_eq!(sandbox.copies(), [""; 0], "{step}");
        if n == 3 {
            sandbox.delete(&a);
        }
        sandbox.simple("a", 3);
    }
}

#[test]
fn copy_that_no_node_takes_is_undone_before_exchange_and_awaited_after() {
    let (sandbox, docs, created, staged) = Sandbox::staged("unplaced");
    let require = |node: Value| json!({"index.routing.allocation.require._name": node});
    sandbox.set(&docs, require(json!("nobody")));
    let of_nobody = sandbox.create("s2");
    let (content, copies) = (sandbox.content(), sandbox.copies());
    for (step, document) in [("clone", None), ("swap", Some(&staged)), ("restore", Some(&created)), ("stage", Some(&of_nobody))] {
        let tool = document.map_or_else(|| sandbox.tool(&[step]), |document| sandbox.resuming(&[step], document));
        tool.run().fails(7, "indices_red").unchanged().error_has(&["No node takes the shards of", &docs, "nobody"]);
        assert_eq!((sandbox.content(), sandbox.copies()), (content.clone(), copies.clone()), "{step}");
    }
    // What was live is not there any more, so the swap waits, but says why.
    sandbox.set(&docs, require(Value::Null));
    sandbox.set(&copies[0], require(json!("nobody")));
    let gate = sandbox.gate();
    let swap = sandbox.resuming(&["swap"], &staged).via(&gate).spawn();
    // What comes behind that shows that it was answered.
    let is_asked = || gate.asked().iter().rev().skip(1).any(|line| line.contains("/_cluster/allocation/explain"));
    wait::so("the server to be asked why", || is_asked().then_some(()));
    sandbox.set(&docs, require(Value::Null));
    swap.wait().ok().changed().warns_of("indices_red", "nobody");
    assert_eq!(sandbox.count(&docs), 10);
}

#[test]
fn unused_clone_is_discarded_by_document_or_run_id() {
    let sandbox = Sandbox::new("clone-gone");
    two(&sandbox);
    let content = sandbox.content();
    let clone = sandbox.run(&["clone", "--run-id", &run_id(1)]).ok();
    sandbox.run(&["clone", "--run-id", &run_id(1)]).ok().unchanged();
    sandbox.simple("c", 1);
    sandbox.run(&["clone", "--run-id", &run_id(1)]).refused("name_in_use");
    sandbox.from(&["swap", "--back"], &clone).fails(2, "options_invalid").unchanged();
    sandbox.delete(&sandbox.name("c"));
    // What is left of it is the only way back to what was live then.
    sandbox.delete(&clone.texts("indices", "copy")[0]);
    let rest = sandbox.copies();
    sandbox.run(&["clone", "--run-id", &run_id(1)]).refused("not_verified").unchanged();
    assert_eq!((sandbox.copies(), rest.len()), (rest, 1));
    sandbox.from(&["discard"], &clone).ok().changed();
    sandbox.run(&["clone", "--run-id", &run_id(2)]).ok();
    sandbox.run(&["discard", "--run", &run_id(2)]).ok().changed();
    assert_eq!((sandbox.copies(), sandbox.content()), (Vec::new(), content));
}

#[test]
fn block_of_killed_clone_is_removed_by_next_clone() {
    let sandbox = Sandbox::new("clone-kill");
    let [a, _] = two(&sandbox);
    let content = sandbox.content();
    let cuts = [(Side::After, 1), (Side::Before, 2), (Side::After, 2), (Side::Before, 3), (Side::After, 4)];
    for (n, (side, number)) in cuts.into_iter().enumerate() {
        let clone = |n: usize| sandbox.tool(&["clone", "--run-id", &run_id(n)]);
        sandbox.gate().close_at(number, side).kill(clone(n));
        let blocked = sandbox.settings(&a)["block"] == "true";
        // The next call, of whatever run, takes the block off; the same run begins again.
        let again = clone(if n % 2 == 0 { n + 100 } else { n }).run().ok().changed();
        assert_eq!(again.planned()[0] == format!("/{a}/_settings"), blocked, "{again}");
        assert_eq!(sandbox.content(), content, "{side:?} {number}");
        sandbox.from(&["swap"], &again).ok().changed();
        assert_eq!(sandbox.content(), content, "swapped, {side:?} {number}");
        for run in [run_id(n), run_id(n + 100)] {
            if sandbox.copies().iter().any(|name| name.contains(&run)) {
                sandbox.run(&["discard", "--run", &run]).ok().changed();
            }
        }
        assert!(sandbox.copies().is_empty(), "{side:?} {number}");
    }
}

#[test]
fn interrupted_clone_blocks_swap_and_create() {
    let sandbox = Sandbox::new("clone-cut");
    let [a, _] = two(&sandbox);
    let content = sandbox.content();
    let run = run_id(50);
    let clone = || sandbox.tool(&["clone", "--run-id", &run]);
    let capturing = sandbox.gate().close_before("/_stats", 1);
    let create = capturing.hold(sandbox.tool(&["create", "early"]));
    sandbox.gate().close_on("/_block/write", Side::After).kill(clone());
    sandbox.run(&["swap", "--run", &run]).refused("not_verified");
    // That block is no part of a backup.
    capturing.open();
    create.wait().refused("index_blocked");
    sandbox.run(&["create", "late"]).refused("index_blocked");
    sandbox.run(&["discard", "--run", &run]).ok().changed();
    assert_eq!(sandbox.content(), content);
    // A clone that is taken back has removed what an earlier one left all the same: its copies, and the block.
    sandbox.gate().close_on("/_settings", Side::Before).kill(clone());
    assert_eq!(sandbox.copies().len(), 2);
    let dry = clone().arg("--dry-run").run().ok().unchanged();
    assert_eq!(dry.planned().len(), 2 + 4, "{dry}");
    let gate = sandbox.gate().refusing(&format!("POST /{a}/_clone/"), 1, DENIED);
    clone().via(&gate).run().fails(1, "permission_denied").changed();
    assert_eq!((sandbox.copies(), sandbox.content()), (Vec::new(), content.clone()));
    // A connection that breaks at a clone, whether the server made it or not: what is missing is asked for again.
    for side in [Side::Before, Side::After] {
        let gate = sandbox.gate().close_on("/_clone/", side).hanging_up();
        let clone = sandbox.tool(&["clone"]).via(&gate).run().ok().changed();
        assert_eq!((sandbox.copies().len(), sandbox.content()), (2, content.clone()), "{side:?}");
        sandbox.from(&["discard"], &clone).ok();
    }
}

#[test]
fn clone_that_server_makes_late_is_removed_too() {
    let sandbox = Sandbox::new("clone-late");
    let docs = sandbox.simple("docs", 3);
    sandbox.block(&docs, "write", true);
    // The first request is on its way for long, the next one is refused, and then all is undone.
    let gate = sandbox.gate().close_before("wait_for_events=languid", 1);
    let is_clone = |line: &str| line.contains("/_clone/");
    gate.rule(is_clone, Act::Cut(At::Request(0), End::Close), 0, 1);
    let refusal = json!({"error": {"type": MISHAP.1, "reason": MISHAP.2, "root_cause": []}, "status": MISHAP.0});
    gate.rule(is_clone, Act::Answer(http("400 Bad Request", "application/json", &refusal.to_string()), false), 1, 1000);
    let made_late = || {
        sandbox.ask("POST", &gate.sent()[0], gate.bodies("-docs").pop());
        assert_eq!(sandbox.copies().len(), 1);
    };
    gate.during(sandbox.tool(&["clone"]), made_late).fails(1, "server_refused").unchanged();
    assert_eq!((sandbox.copies(), sandbox.blocks(&docs)), (Vec::new(), vec!["write".to_owned()]));
}

#[test]
fn clone_removes_no_write_block_outside_its_scope() {
    let sandbox = Sandbox::new("clone-scope");
    let [a, b] = ["a", "b"].map(|name| sandbox.simple(name, 3));
    let clone = |scope: &str, run: usize| sandbox.tool(&["clone", "--run-id", &run_id(run)]).env("SVC_INDICES", scope);
    let blocked = || [&a, &b].map(|name| sandbox.settings(name)["block"] == "true");
    sandbox.gate().close_on("/_block/write", Side::After).kill(clone(&format!("{a},{b}"), 70));
    assert_eq!(blocked(), [true, true]);

    clone(&b, 70).run().refused("name_in_use").unchanged();
    let other = clone(&b, 71).run().ok().changed();
    assert_eq!((&other.planned()[0], blocked()), (&format!("/{b}/_settings"), [true, false]), "{other}");
    // What somebody blocks later is theirs.
    sandbox.block(&b, "write", true);
    let own = clone(&format!("{a},{b}"), 72).run().ok().changed();
    assert_eq!((&own.planned()[0], blocked()), (&format!("/{a}/_settings"), [false, true]), "{own}");
}

#[test]
fn clone_of_closed_or_red_index_is_refused() {
    let sandbox = Sandbox::new("clone-no");
    sandbox.simple("a", 3);
    let closed = sandbox.simple("closed", 3);
    sandbox.ask("POST", &format!("/{closed}/_close"), None);
    sandbox.run(&["clone"]).refused("index_blocked").error_has(&[&closed]);
    sandbox.delete(&closed);
    let red = sandbox.red("red");
    sandbox.run(&["clone"]).refused("indices_red");
    sandbox.run(&["clone", "--indices", &format!("*,-{red}")]).ok().changed();
}

/// What `health` says of copies: their names and their runs.
fn told(sandbox: &Sandbox) -> Vec<(String, String)> {
    let health = sandbox.run(&["health"]).ok();
    health.texts("copies", "name").into_iter().zip(health.texts("copies", "run")).collect()
}

#[test]
fn copies_listed_by_health_are_discarded_by_run_id() {
    let (sandbox, live, created) = Sandbox::saved("orphan");
    assert_eq!(told(&sandbox), []);
    sandbox.gate().close_on("/_restore", Side::After).kill(sandbox.resuming(&["stage"], &created));
    let [(name, run)] = &told(&sandbox)[..] else { panic!("one copy") };
    assert_eq!(sandbox.copies(), std::slice::from_ref(name));
    let command = format!("svc-snap discard --run {run} ");
    sandbox.from(&["stage", "--dry-run"], &created).ok().unchanged().warns_of("not_removed", &command);
    sandbox.run(&["discard", "--run", run]).ok().changed();
    assert_eq!(sandbox.names(), std::slice::from_ref(&live));
    sandbox.run(&["discard", "--run", run]).fails(4, "swap_not_found").unchanged();

    let lose_records = || fs::remove_dir_all(sandbox.state.path().join("swaps")).unwrap();
    // The name of one run begins with that of the other.
    let [short, long] = ["20261120t020060z-x", "20261120t020060z-x-2"];
    let discard = |run: &str, scope: &str| sandbox.tool(&["discard", "--run", run]).env("SVC_INDICES", scope);
    sandbox.from(&["stage", "--run-id", short], &created).ok();
    sandbox.from(&["restore", "--run-id", long], &created).ok();
    let kept = sandbox.copies().remove(0);
    // By its record, of an index that is not live any more.
    sandbox.delete(&live);
    discard(short, "*").run().ok().changed();
    assert_eq!(sandbox.copies(), std::slice::from_ref(&kept));
    sandbox.simple("docs", 3);
    sandbox.from(&["stage", "--run-id", short], &created).ok();
    // The same when no record of it is left: the state folder was lost, or is another host's.
    lose_records();
    assert_eq!(sandbox.run(&["health"]).ok().texts("copies", "run"), [long, short]);
    discard(short, "*").arg("--dry-run").run().ok().unchanged();
    discard(short, "*").run().ok().changed();
    assert_eq!(sandbox.copies(), [kept]);
    discard(short, "*").run().fails(4, "swap_not_found").unchanged();
    discard(long, "other-*").run().fails(4, "swap_not_found").unchanged();
    // Of an index that is not live any more, the run is that of its other copies.
    let gone = sandbox.simple("gone", 1);
    sandbox.create("both");
    sandbox.run(&["stage", "both", "--run-id", &run_id(64)]).ok();
    sandbox.delete(&gone);
    assert_eq!(told(&sandbox).into_iter().filter(|(_, run)| *run == run_id(64)).count(), 2);
    sandbox.simple("gone", 1);
    sandbox.run(&["discard", "--run", &run_id(64)]).ok().changed();
    sandbox.delete(&gone);
    // What is a previous one, cloned or staged is not removed if it may be all that there is.
    sandbox.run(&["clone", "--run-id", &run_id(62)]).ok().changed();
    sandbox.from(&["stage", "--run-id", &run_id(63)], &created).ok();
    lose_records();
    sandbox.delete(&live);
    let runs = [long.to_owned(), run_id(62), run_id(63)];
    for run in &runs {
        sandbox.run(&["discard", "--run", run]).refused("not_swappable");
    }
    sandbox.simple("docs", 1);
    for run in &runs {
        sandbox.run(&["discard", "--run", run]).ok().changed();
    }
    assert_eq!(sandbox.names(), [live]);
}
