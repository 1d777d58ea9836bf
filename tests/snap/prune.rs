//! A snapshot's life from `create` to `delete`, and `svc-snap prune`: which snapshots go, which never, and what becomes of a prune
//! that is cut.

use svc_tests::prelude::*;

const ALL_BUT_ONE: [&str; 5] = ["prune", "--max-age", "0s", "--min-count", "1"];

/// A sandbox with one index and nightly snapshots of these names, in this order.
fn nightly(name: &str, snapshots: &[&str]) -> Sandbox {
    let sandbox = Sandbox::new(name);
    sandbox.simple("docs", 1);
    for snapshot in snapshots {
        take(&sandbox, snapshot, "nightly");
    }
    sandbox
}

fn take(sandbox: &Sandbox, snapshot: &str, kind: &str) -> Ran {
    sandbox.run(&["create", snapshot, "--kind", kind]).ok()
}

fn names(sandbox: &Sandbox) -> Vec<String> {
    let mut names: Vec<String> = sandbox.snapshots().iter().map(|one| one["snapshot"].as_str().unwrap().to_owned()).collect();
    names.sort();
    names
}

/// What the document says of each: name, outcome and reason, oldest first.
fn told(ran: &Ran) -> Vec<String> {
    let all = ran.result()["snapshots"].as_array().unwrap();
    let words = |one: &Value| ["name", "outcome", "reason"].map(|key| one[key].as_str().unwrap().to_owned()).join(" ");
    all.iter().map(words).collect()
}

/// On a server of their own: while one cleans up, no snapshot is taken there, in any repository. And its clock, which by default
/// stands still for 200 ms at a time, is to tell apart when one snapshot was begun and the next.
#[test]
fn snapshot_lifecycle_from_create_to_prune() {
    let server = own_server(&[("thread_pool.estimated_time_interval", "1ms")]);
    each_holds(&*server, &[is_taken_shown_listed_waited_for_and_deleted, goes_when_it_is_not_needed_and_all_others_stay]);
}

fn is_taken_shown_listed_waited_for_and_deleted(server: &Search) {
    let sandbox = Sandbox::on(server.clone(), "life");
    sandbox.run(&["register", "--location", sandbox.location().to_str().unwrap()]).ok().changed();
    let index = sandbox.simple("docs", 7);
    sandbox.run(&["create", "--dry-run"]).ok().unchanged().has(&json!({"plan/0/body/indices": index}));
    assert!(sandbox.snapshots().is_empty());

    let reason = ["create", "--taken-by", "me", "--taken-because", "a test", "--kind", "upgrade", "--metadata", "ticket=a=1"];
    assert_eq!(sandbox.run(&["create", "--metadata", "taken_by=x"]).status, 2);
    let created = sandbox.tool(&reason).env("SVC_RUN_ID", "20261120t020001z-hand").run().ok().changed();
    let name = created.result()["name"].as_str().unwrap().to_owned();
    assert!(name.starts_with("snapshot_svc_20") && name.len() == "snapshot_svc_20261120".len(), "{name}");
    let held = &sandbox.snapshots()[0];
    let tools = json!({"run_id": "20261120t020001z-hand", "kind": "upgrade"});
    assert_eq!(held["metadata"], json!({"taken_by": "me", "taken_because": "a test", "ticket": "a=1", "svc_tools": tools}));
    assert_eq!((&held["indices"], &held["include_global_state"]), (&json!([index]), &json!(true)));
    let created = created.has(&json!({"snapshot/uuid": held["uuid"], "snapshot/state": "SUCCESS"}));

    let result = created.result();
    sandbox.run(&["show", &name]).ok().unchanged().has(&json!({"snapshot": result["snapshot"], "valid": true}));
    let shown = sandbox.from(&["show"], &created).ok().has(&json!({"captured": result["captured"]}));
    sandbox.from(&["wait"], &shown).ok().unchanged();
    let listed = sandbox.run(&["list"]).ok();
    let item = &listed.result()["snapshots"][0];
    assert_eq!((&item["name"], &item["kind"], &item["indices_count"]), (&json!(name), &json!("upgrade"), &json!(1)));
    assert!(item["started_at"].as_str().unwrap().ends_with('Z') && item["duration_ms"].is_u64(), "{listed}");

    sandbox.run(&["cleanup", "--dry-run"]).ok().unchanged();
    sandbox.run(&["cleanup"]).ok().unchanged().has(&json!({"deleted_blobs_count": 0}));
    // What an interrupted snapshot leaves: the files of an index that no snapshot holds.
    let stale = sandbox.location().join("indices/staleStaleStaleStale00");
    let user = os::system_user(OS_USER).unwrap();
    os::folder(&stale, 0o755, Some(&user)).unwrap();
    os::file(&stale.join("__stale"), "stale", 0o644, Some(&user)).unwrap();
    let cleaned = sandbox.run(&["cleanup"]).ok().changed();
    assert_eq!((&cleaned.result()["deleted_bytes"], stale.exists()), (&json!(5), false));
    sandbox.from(&["delete", "--dry-run"], &created).ok().unchanged();
    sandbox.from(&["delete"], &created).ok().changed();
    assert!(sandbox.snapshots().is_empty());
    sandbox.from(&["delete"], &created).ok().unchanged();
    sandbox.run(&["delete", &name]).fails(4, "snapshot_not_found").unchanged();
}

fn goes_when_it_is_not_needed_and_all_others_stay(server: &Search) {
    let sandbox = Sandbox::on(server.clone(), "prune").registered(&[]);
    sandbox.simple("docs", 1);
    let mark = json!({"svc_tools": {"run_id": "20261120t020003z-nightly", "kind": "nightly"}});
    sandbox.taken("a-theirs", json!({"indices": sandbox.name("docs"), "metadata": {"taken_by": "somebody", "kind": "nightly"}}));
    let first = take(&sandbox, "n1", "nightly");
    take(&sandbox, "n2", "nightly");
    take(&sandbox, "by-hand", "manual");
    take(&sandbox, "before", "upgrade");
    let lost = sandbox.red("lost");
    // In the order of their names, which decides if the clock stood still all the same.
    sandbox.taken("empty", json!({"indices": "there-is-none", "ignore_unavailable": true, "metadata": mark}));
    sandbox.taken("part", json!({"indices": format!("{}-*", sandbox.prefix), "partial": true, "metadata": mark}));
    sandbox.delete(&lost);
    take(&sandbox, "n3", "nightly");
    let all = names(&sandbox);

    // By default nothing is old enough; what is no backup is not needed beside a newer one that is.
    let dry = sandbox.run(&["prune", "--dry-run"]).ok().unchanged();
    let theirs = ["a-theirs kept not_ours", "by-hand kept other_kind", "before kept other_kind"];
    let (kept, gone) = (["n1 kept min_count", "n2 kept min_count"], ["empty planned superseded", "part planned superseded"]);
    assert_eq!(told(&dry), [&theirs[..1], &kept, &theirs[1..], &gone, &["n3 kept newest"]].concat());
    let repository = format!("/_snapshot/{}", sandbox.prefix);
    assert_eq!(dry.planned(), ["empty", "part", "_cleanup"].map(|name| format!("{repository}/{name}")));

    // What a file names stays; what cannot be read keeps everything.
    let file = |name: &str, text: &str| -> PathBuf {
        let path = sandbox.state.path().join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let keep = file("first.json", &first.text());
    for (bad, says) in [
        (file("half.json", &first.text()[..50]), "incomplete"),
        (PathBuf::from("/nowhere/snapshot.json"), "cannot be read"),
        (file("listed.json", &sandbox.run(&["list"]).text()), "cannot resume from"),
    ] {
        let ran = sandbox.tool(&ALL_BUT_ONE).arg("--keep-from").arg(&keep).arg(bad).run();
        ran.fails(2, "from_invalid").unchanged().error_has(&[says]);
    }
    assert_eq!(names(&sandbox), all);

    let notes = || fs::read_dir(sandbox.state.path().join("snapshots")).unwrap().count();
    assert_eq!(notes(), 5);
    let pruned = sandbox.tool(&ALL_BUT_ONE).arg("--keep-from").arg(&keep).run().ok().changed().has(&json!({"deleted_count": 3}));
    let (kept, gone) = (["n1 kept keep_from", "n2 deleted max_age"], ["empty deleted superseded", "part deleted superseded"]);
    assert_eq!(told(&pruned), [&theirs[..1], &kept, &theirs[1..], &gone, &["n3 kept newest"]].concat());
    assert_eq!(names(&sandbox), ["a-theirs", "before", "by-hand", "n1", "n3"]);
    assert_eq!(notes(), 4, "the notes of what was deleted go too");
    sandbox.tool(&ALL_BUT_ONE).arg("--keep-from").arg(&keep).run().ok().unchanged().has(&json!({"plan": []}));
    sandbox.run(&["show", "n1"]).ok();

    // Each kind by itself: the newest of each stays, however many of the other kinds there are.
    let kinds = ["--kind", "nightly", "--kind", "manual", "--kind", "upgrade", "--max-count", "1"];
    let pruned = sandbox.tool(&["prune", "--max-age", "none", "--min-count", "1"]).args(kinds).run().ok().changed();
    assert_eq!(told(&pruned)[1], "n1 deleted max_count");
    assert_eq!(names(&sandbox), ["a-theirs", "before", "by-hand", "n3"]);

    // A server that is running a cleanup itself: the snapshots are deleted all the same.
    take(&sandbox, "n4", "nightly");
    let why = "Cannot cleanup [r] - a repository cleanup is already in-progress in [RepositoryCleanupInProgress[[r]]]";
    let gate = sandbox.gate().refusing("POST /_snapshot", 1000, (500, "illegal_state_exception", why));
    sandbox.tool(&ALL_BUT_ONE).via(&gate).run().ok().changed().warns("server_busy").has(&json!({"deleted_count": 1}));
    sandbox.run(&["verify"]).ok();
}

/// One after the other: while a prune cleans up, the server deletes no snapshot of any repository.
#[test]
fn busy_server_or_signal_ends_prune_in_order() {
    each_holds(&(), &[|()| prune_retries_busy_server_until_timeout(), |()| interrupted_prune_reports_what_was_deleted()]);
}

fn prune_retries_busy_server_until_timeout() {
    let sandbox = nightly("busy", &["n1", "n2", "n3"]);
    // What a server says while another one cleans up.
    let why = "[r:n1/u] cannot delete snapshot while a repository cleanup is in-progress in [RepositoryCleanupInProgress[[r]]]";
    let busy = (503, "concurrent_snapshot_execution_exception", why);
    let always = sandbox.gate().refusing("DELETE /_snapshot", 1000, busy);
    let given_up = sandbox.tool(&ALL_BUT_ONE).args(["--timeout", "8s"]).via(&always).run();
    let ended = (given_up.status, given_up.doc()["error"]["code"].as_str().unwrap());
    assert!([(5, "server_busy"), (6, "timeout")].contains(&ended), "between two tries or in one\n{given_up}");
    let (changed, outcome) = if given_up.status == 5 { (json!(false), "planned") } else { (Value::Null, "unknown") };
    assert_eq!((&given_up.doc()["changed"], told(&given_up)[0].as_str()), (&changed, &*format!("n1 {outcome} max_age")));
    assert_eq!(given_up.result()["deleted_count"], 0);
    assert!(always.changes().iter().all(|line| line.ends_with("/n1")) && always.changes().len() > 1, "one at a time");
    assert_eq!(names(&sandbox), ["n1", "n2", "n3"]);

    let twice = sandbox.gate().refusing("DELETE /_snapshot", 2, busy);
    sandbox.tool(&ALL_BUT_ONE).via(&twice).run().ok().changed().has(&json!({"deleted_count": 2}));
    assert_eq!(twice.changes().iter().filter(|line| line.starts_with("DELETE")).count(), 4);
    assert_eq!(names(&sandbox), ["n3"]);
}

fn interrupted_prune_reports_what_was_deleted() {
    let sandbox = nightly("cut", &["n1", "n2", "n3", "n4"]);
    let gate = sandbox.gate().close_on("/n2", Side::Before).hanging_up();
    let cut = sandbox.tool(&ALL_BUT_ONE).via(&gate).run().fails(6, "outcome_unknown").changed();
    assert_eq!(told(&cut)[..3], ["n1 deleted max_age", "n2 unknown max_age", "n3 planned max_age"]);
    assert_eq!(names(&sandbox), ["n2", "n3", "n4"]);
    assert_eq!(cut.result()["deleted_count"], 1);
    // Only the answer is lost: that shows, and it continues.
    let gate = sandbox.gate().close_on("/n2", Side::After).hanging_up();
    sandbox.tool(&ALL_BUT_ONE).via(&gate).run().ok().changed().has(&json!({"deleted_count": 2}));
    assert_eq!(names(&sandbox), ["n4"]);
    // One that somebody else has deleted meanwhile is not this call's.
    take(&sandbox, "n4b", "nightly");
    let gate = sandbox.gate().refusing("DELETE /_snapshot", 1, (404, "snapshot_missing_exception", "[r:n4] is missing"));
    let gone = sandbox.tool(&ALL_BUT_ONE).via(&gate).run().ok().unchanged();
    assert_eq!((told(&gone)[0].as_str(), &gone.result()["deleted_count"]), ("n4 gone max_age", &json!(0)));
    sandbox.tool(&ALL_BUT_ONE).run().ok().changed();

    for name in ["n5", "n6"] {
        take(&sandbox, name, "nightly");
    }
    sandbox.gate().close_on("DELETE ", Side::After).kill(sandbox.tool(&ALL_BUT_ONE));
    let gate = sandbox.gate().close_on("DELETE ", Side::Before);
    let ended = gate.hold(sandbox.tool(&ALL_BUT_ONE)).ended_by(Signal::SIGTERM).fails(143, "interrupted");
    assert_eq!((&ended.doc()["changed"], told(&ended)[0].as_str()), (&Value::Null, "n5 unknown max_age"));
    assert_eq!(names(&sandbox), ["n5", "n6"]);
    sandbox.tool(&ALL_BUT_ONE).run().ok().changed();
    assert_eq!(names(&sandbox), ["n6"]);
}

#[test]
fn prune_deletes_nothing_if_snapshot_list_is_incomplete() {
    let sandbox = nightly("unread", &["n1", "n2", "n3"]);
    // Elasticsearch 7.17's answer for a repository that is missing, and a list that is cut.
    let all = format!("GET /_snapshot/{}/_all", sandbox.prefix);
    let failures = json!({"snapshots": [], "failures": {"r": {"type": "repository_missing_exception", "reason": "[r] missing"}}});
    let gate = sandbox.gate().answering(&all, 1, 200, &failures);
    sandbox.tool(&ALL_BUT_ONE).via(&gate).run().fails(4, "repository_not_found").unchanged();
    let some = json!({"snapshots": sandbox.snapshots()[..1], "total": 3, "remaining": 2});
    let gate = sandbox.gate().answering(&all, 1, 200, &some);
    sandbox.tool(&ALL_BUT_ONE).via(&gate).run().fails(1, "failed").unchanged().error_has(&["is not understood"]);
    // One snapshot, whose name alone is known any more.
    let location = sandbox.location();
    let is_snapshot = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("snap-"));
    let file = fs::read_dir(&location).unwrap().map(|entry| entry.unwrap().path()).find(is_snapshot).unwrap();
    let bytes = fs::read(&file).unwrap();
    fs::remove_file(&file).unwrap();
    sandbox.tool(&ALL_BUT_ONE).run().fails(7, "repository_damaged").unchanged();
    fs::write(&file, bytes).unwrap();
    assert_eq!(names(&sandbox), ["n1", "n2", "n3"]);
}
