//! `svc-snap clone`: a copy of the live indices; and copies without a record.

use nix::sys::signal::Signal;
use serde_json::json;
use svc_tests::proxy::{Gate, Side};
use svc_tests::run_id::run_id;
use svc_tests::sandbox::Sandbox;
use svc_tests::tool::{Ran, Spawned};
use svc_tests::wait;

/// Two indices, one with aliases and a replica that cannot be placed, one that takes no writes.
fn two(sandbox: &Sandbox) -> [String; 2] {
    let alias = sandbox.name("alias");
    let a = sandbox.index("a", json!({"settings": {"number_of_replicas": 1}, "aliases": {&alias: {"is_write_index": true, "filter": {"term": {"k": 1}}}}}));
    sandbox.fill(&a, 0, 10);
    let b = sandbox.simple("b", 5);
    sandbox.ask("PUT", &format!("/{b}/_settings"), Some(json!({"index.blocks.write": true})));
    [a, b]
}

fn killed(gate: &Gate, tool: Spawned) {
    let mut tool = tool;
    wait::until("the chosen request", svc_tests::wait::HANG, || (gate.is_closed() || !tool.is_running()).then_some(())).unwrap();
    assert!(gate.is_closed(), "it did not come to the chosen request: {:?}", gate.changes());
    tool.signal(Signal::SIGKILL);
    assert_eq!(tool.wait().status, 137);
}

#[test]
fn what_is_set_clone_is_swapped_in_again_and_back_and_removed() {
    let sandbox = Sandbox::new("clone");
    let [a, b] = two(&sandbox);
    let before = sandbox.content();
    let dry = sandbox.run(&["clone", "--dry-run"]).ok().unchanged();
    assert_eq!(dry.result()["plan"].as_array().unwrap().len(), 4, "{dry}");
    let clone = sandbox.run(&["clone"]).ok().changed();
    assert_eq!(sandbox.content(), before, "what is live is as it was, and takes writes");
    let copies: Vec<_> =
        clone.result()["indices"].as_array().unwrap().iter().map(|one| one["copy"].as_str().unwrap().to_owned()).collect();
    assert_eq!(sandbox.copies(), copies);
    for copy in &copies {
        let settings = sandbox.settings(copy);
        assert_eq!(
            (&settings["hidden"], &settings["block"], &settings["replicas"]),
            (&json!("true"), &json!("true"), &json!("0"))
        );
    }
    assert_eq!(
        sandbox.ask("GET", &format!("/*{}*/_count", sandbox.prefix), None)["count"],
        15,
        "invisible to everybody's wildcards"
    );

    // An upgrade.
    sandbox.fill(&a, 5, 30);
    sandbox.ask("DELETE", &format!("/{b}"), None);
    sandbox.simple("c", 3);
    let upgraded = sandbox.content();
    let unused = || sandbox.from(&["swap", "--exact", "--unused", "--dry-run"], &clone);
    unused().ok().unchanged();
    let swapped = sandbox.from(&["swap", "--exact"], &clone).ok().changed();
    assert_eq!(sandbox.content(), before);
    unused().refused("not_swappable").unchanged();
    let back = sandbox.from(&["swap"], &swapped).ok().changed();
    assert_eq!(sandbox.content(), upgraded);
    unused().refused("name_in_use").unchanged();
    sandbox.from(&["discard"], &back).ok().changed();
    assert_eq!((sandbox.copies(), sandbox.content()), (Vec::new(), upgraded));
}

#[test]
fn a_clone_that_is_not_needed_is_removed_by_its_document_or_its_run() {
    let sandbox = Sandbox::new("clone-gone");
    two(&sandbox);
    let content = sandbox.content();
    let clone = sandbox.run(&["clone", "--run-id", &run_id(1)]).ok();
    sandbox.run(&["clone", "--run-id", &run_id(1)]).ok().unchanged();
    sandbox.simple("c", 1);
    sandbox.run(&["clone", "--run-id", &run_id(1)]).refused("name_in_use");
    sandbox.from(&["swap", "--back"], &clone).fails(2, "options_invalid").unchanged();
    sandbox.ask("DELETE", &format!("/{}", sandbox.name("c")), None);
    // What is left of it is the only way back to what was live then.
    sandbox.ask("DELETE", &format!("/{}", clone.result()["indices"][0]["copy"].as_str().unwrap()), None);
    let rest = sandbox.copies();
    sandbox.run(&["clone", "--run-id", &run_id(1)]).refused("not_verified").unchanged();
    assert_eq!((sandbox.copies(), rest.len()), (rest, 1));
    sandbox.from(&["discard"], &clone).ok().changed();
    sandbox.run(&["clone", "--run-id", &run_id(2)]).ok();
    sandbox.run(&["discard", "--run", &run_id(2)]).ok().changed();
    assert_eq!((sandbox.copies(), sandbox.content()), (Vec::new(), content));
}

#[test]
fn nothing_stays_blocked_when_a_clone_is_killed_at_any_request_or_ended() {
    let sandbox = Sandbox::new("clone-kill");
    let [a, _] = two(&sandbox);
    let content = sandbox.content();
    let mut n = 10;
    for (side, number) in [(Side::After, 1), (Side::Before, 2), (Side::After, 2), (Side::Before, 3), (Side::After, 4)] {
        n += 1;
        let gate = Gate::to(&sandbox.search.url).unwrap().close_at(number, side);
        killed(&gate, sandbox.tool(&["clone", "--run-id", &run_id(n)]).env("SVC_SEARCH_URL", gate.url()).spawn());
        let blocked = sandbox.settings(&a)["block"] == "true";
        // The next call, of whatever run, takes the block off; the same run begins again.
        let again = sandbox.run(&["clone", "--run-id", &run_id(if n % 2 == 0 { n } else { n + 100 })]).ok().changed();
        assert_eq!(again.result()["plan"][0]["path"] == format!("/{a}/_settings"), blocked, "{again}");
        assert_ne!(sandbox.settings(&a)["block"], "true");
        assert_eq!(sandbox.content(), content, "{side:?} {number}");
        for run in [n, n + 100] {
            let run = run_id(run);
            if sandbox.copies().iter().any(|name| name.contains(&run)) {
                sandbox.run(&["discard", "--run", &run]).ok().changed();
            }
        }
        assert_eq!(sandbox.copies(), Vec::<String>::new(), "{side:?} {number}");
    }
    // Its own removal takes the block off too.
    let gate = Gate::to(&sandbox.search.url).unwrap().close_on("/_block/write", Side::After);
    killed(&gate, sandbox.tool(&["clone", "--run-id", &run_id(50)]).env("SVC_SEARCH_URL", gate.url()).spawn());
    sandbox.run(&["swap", "--run", &run_id(50)]).refused("not_verified");
    // That block is no part of a backup.
    sandbox.run(&["create", "blocked"]).refused("index_blocked").unchanged();
    sandbox.run(&["discard", "--run", &run_id(50)]).ok().changed();
    assert_eq!(sandbox.content(), content);
    // A clone that is taken back has removed what an earlier one left all the same.
    let gate = Gate::to(&sandbox.search.url).unwrap().close_on("/_settings", Side::After);
    killed(&gate, sandbox.tool(&["clone", "--run-id", &run_id(51)]).env("SVC_SEARCH_URL", gate.url()).spawn());
    assert_eq!(sandbox.copies().len(), 2);
    let dry = sandbox.run(&["clone", "--run-id", &run_id(51), "--dry-run"]).ok().unchanged();
    assert_eq!(dry.result()["plan"].as_array().unwrap().len(), 1 + 4, "{dry}");
    let refusal = json!({"error": {"type": "security_exception", "reason": "no permissions"}, "status": 403});
    let gate = Gate::to(&sandbox.search.url).unwrap().answering(&format!("POST /{a}/_clone/"), 1, 403, &refusal);
    let again = sandbox.tool(&["clone", "--run-id", &run_id(51)]).env("SVC_SEARCH_URL", gate.url()).run();
    again.fails(1, "permission_denied").changed();
    assert_eq!((sandbox.copies(), sandbox.content()), (Vec::new(), content.clone()));
    // A connection that breaks at a clone, whether the server made it or not: what is missing is asked for again.
    for side in [Side::Before, Side::After] {
        let gate = Gate::to(&sandbox.search.url).unwrap().close_on("/_clone/", side).hanging_up();
        let clone = sandbox.tool(&["clone"]).env("SVC_SEARCH_URL", gate.url()).run().ok().changed();
        assert_eq!((sandbox.copies().len(), sandbox.content()), (2, content.clone()), "{side:?}");
        sandbox.from(&["discard"], &clone).ok();
    }
}

#[test]
fn a_clone_takes_off_no_block_outside_its_scope() {
    let sandbox = Sandbox::new("clone-scope");
    let [a, b] = ["a", "b"].map(|name| sandbox.simple(name, 3));
    let clone = |scope: &str, run: usize| sandbox.tool(&["clone", "--run-id", &run_id(run)]).env("SVC_INDICES", scope);
    let blocked = || [&a, &b].map(|name| sandbox.settings(name)["block"] == "true");
    let gate = Gate::to(&sandbox.search.url).unwrap().close_on("/_block/write", Side::After);
    killed(&gate, clone(&format!("{a},{b}"), 70).env("SVC_SEARCH_URL", gate.url()).spawn());
    assert_eq!(blocked(), [true, true]);

    clone(&b, 70).run().refused("name_in_use").unchanged();
    let other = clone(&b, 71).run().ok().changed();
    let first = |done: &Ran| done.result()["plan"][0]["path"].clone();
    assert_eq!((first(&other), blocked()), (json!(format!("/{b}/_settings")), [true, false]), "{other}");
    // What somebody blocks later is theirs.
    sandbox.ask("PUT", &format!("/{b}/_settings"), Some(json!({"index.blocks.write": true})));
    let own = clone(&format!("{a},{b}"), 72).run().ok().changed();
    assert_eq!((first(&own), blocked()), (json!(format!("/{a}/_settings")), [false, true]), "{own}");
}

#[test]
fn what_cannot_be_cloned_is_refused_by_all_its_names() {
    let sandbox = Sandbox::new("clone-no");
    sandbox.simple("a", 3);
    let closed = sandbox.simple("closed", 3);
    sandbox.ask("POST", &format!("/{closed}/_close"), None);
    let refused = sandbox.run(&["clone"]).refused("index_blocked");
    assert!(refused.doc()["error"]["message"].as_str().unwrap().contains(&closed));
    sandbox.ask("DELETE", &format!("/{closed}"), None);
    let red = sandbox.red("red");
    sandbox.run(&["clone"]).refused("indices_red");
    sandbox.run(&["clone", "--indices", &format!("*,-{red}")]).ok().changed();
    sandbox.run(&["clone", "--indices", "nowhere"]).fails(4, "index_not_found").unchanged();
}

#[test]
fn a_staging_that_was_killed_without_a_run_of_its_own_is_found_and_removed() {
    let sandbox = Sandbox::new("orphan");
    let live = sandbox.simple("docs", 10);
    let created = sandbox.create("s1");
    assert_eq!(sandbox.run(&["health"]).ok().result()["copies"], json!([]));
    let gate = Gate::to(&sandbox.search.url).unwrap().close_on("/_restore", Side::After);
    killed(&gate, sandbox.tool(&["stage", "--from", "-"]).stdin(created.text()).env("SVC_SEARCH_URL", gate.url()).spawn());
    assert_eq!(sandbox.copies().len(), 1);
    let health = sandbox.run(&["health"]).ok();
    let copy = health.result()["copies"][0].clone();
    assert_eq!(copy["name"].as_str(), sandbox.copies().first().map(String::as_str));
    let run = copy["run"].as_str().unwrap();
    sandbox.run(&["discard", "--run", run]).ok().changed();
    assert_eq!(sandbox.names(), std::slice::from_ref(&live));
    sandbox.run(&["discard", "--run", run]).fails(4, "swap_not_found").unchanged();

    // The same when no record of it is left: the state folder was lost, or is another host's.
    let staged = sandbox.tool(&["stage", "--from", "-", "--run-id", &run_id(60)]).stdin(created.text()).run().ok();
    let restored = sandbox.tool(&["restore", "--from", "-", "--run-id", &run_id(61)]).stdin(created.text()).run().ok();
    assert_eq!(sandbox.run(&["health"]).ok().result()["copies"].as_array().unwrap().len(), 2);
    std::fs::remove_dir_all(sandbox.state.path().join("swaps")).unwrap();
    let health = sandbox.run(&["health"]).ok();
    let runs: Vec<_> =
        health.result()["copies"].as_array().unwrap().iter().map(|one| one["run"].as_str().unwrap().to_owned()).collect();
    assert_eq!(runs, [run_id(61), run_id(60)], "{staged} {restored}");
    sandbox.run(&["discard", "--run", &run_id(60), "--dry-run"]).ok().unchanged();
    sandbox.run(&["discard", "--run", &run_id(60)]).ok().changed();
    let mut other = sandbox.tool(&["discard", "--run", &run_id(61)]);
    other = other.env("SVC_INDICES", "other-*");
    other.run().fails(4, "swap_not_found").unchanged();
    // What was kept, cloned or staged is not removed where it may be all that there is.
    sandbox.run(&["clone", "--run-id", &run_id(62)]).ok().changed();
    sandbox.tool(&["stage", "--from", "-", "--run-id", &run_id(63)]).stdin(created.text()).run().ok();
    std::fs::remove_dir_all(sandbox.state.path().join("swaps")).unwrap();
    sandbox.ask("DELETE", &format!("/{live}"), None);
    for n in 61..=63 {
        sandbox.run(&["discard", "--run", &run_id(n)]).refused("not_swappable");
    }
    sandbox.simple("docs", 1);
    for n in 61..=63 {
        sandbox.run(&["discard", "--run", &run_id(n)]).ok().changed();
    }
    assert_eq!(sandbox.names(), [live]);
}
