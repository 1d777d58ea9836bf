//! `svc-snap --rate-limit`: the cluster's throttles, taken off or set for one step and put back on every way out.

use svc_tests::prelude::*;

const SNAPSHOT: &str = "max_snapshot_bytes_per_sec";
const RESTORE: &str = "indices.recovery.max_bytes_per_sec";

/// The throttle of the repository's snapshots, and whether a run has recorded that it has changed it.
fn throttle(sandbox: &Sandbox) -> (Value, bool) {
    let all = sandbox.repository();
    (all[SNAPSHOT].clone(), all["svc_tools_rate"].is_string())
}

/// Waits until a run has changed the repository's rate and its snapshot is under way.
fn changed(sandbox: &Sandbox, name: &str) {
    wait::so("the record", || throttle(sandbox).1.then_some(()));
    sandbox.appears(name);
}

fn rate(ran: &Ran) -> Value {
    ran.result()["throttle"].clone()
}

/// A run that has left the throttle to whoever has it now.
#[track_caller]
fn left_as_it_is(ran: Ran) -> Ran {
    let unset = json!({"throttle/set": null, "throttle/put_back": null});
    ran.ok().warns_of("setting_not_changed", "Left as it is").has(&unset)
}

/// What was a run's is put back, as its document says.
#[track_caller]
fn is_put_back(ran: &Ran, was: Option<&str>) {
    assert_eq!((&rate(ran)["was"], &rate(ran)["put_back"]), (&json!(was), &json!(true)), "{ran}");
}

/// What a run on another host has recorded of the throttle that it has taken off.
fn of_another_host() -> String {
    json!({"run": "20261120t020003z-far", "process": 1, "host": "far", "locks": "", "was": "7mb", "set": "0"}).to_string()
}

#[test]
fn rate_limit_of_create_is_put_back_afterwards() {
    for set in [None, Some("400kb")] {
        let sandbox = Sandbox::new("off").registered(&set.map(|value| (SNAPSHOT, value)).into_iter().collect::<Vec<_>>());
        sandbox.simple("docs", 3);
        let before = sandbox.repository();
        let dry = sandbox.run(&["create", "s0", "--rate-limit", "none", "--dry-run"]).ok().unchanged();
        let plan = dry.result()["plan"].as_array().unwrap();
        assert_eq!(plan.len(), 3, "{dry}");
        assert_eq!((&plan[0]["body"]["settings"][SNAPSHOT], &plan[2]["body"]["settings"]), (&json!("0"), &before), "{dry}");
        assert!(plan[0]["body"]["settings"]["svc_tools_rate"].is_string() && plan[1]["path"].as_str().unwrap().contains("/s0?"));
        assert_eq!(sandbox.repository(), before);

        let created = sandbox.run(&["create", "s1", "--rate-limit", "none"]).ok().changed();
        assert_eq!(rate(&created), json!({"asked": "none", "setting": SNAPSHOT, "was": set, "set": "0", "put_back": true}));
        assert_eq!(sandbox.repository(), before);
        let by_variable = sandbox.tool(&["create", "s2"]).env("SVC_RATE_LIMIT", "500mb").run().ok();
        assert_eq!((&rate(&by_variable)["set"], sandbox.repository()), (&json!("500mb"), before.clone()));
        let left = sandbox.run(&["create", "s3"]).ok();
        assert_eq!((rate(&left), left.planned().len()), (Value::Null, 1));
    }
}

#[test]
fn rate_is_put_back_after_interrupted_or_failed_create() {
    let sandbox = Sandbox::new("out");
    sandbox.noise("docs", 15);
    let before = sandbox.repository();
    let spawned = sandbox.tool(&["create", "s1", "--rate-limit", "200kb"]).spawn();
    changed(&sandbox, "s1");
    let term = spawned.ended_by(Signal::SIGTERM).fails(143, "interrupted").unchanged();
    assert_eq!((&rate(&term)["put_back"], sandbox.repository()), (&json!(true), before.clone()), "{term}");

    let lost = sandbox.red("lost");
    let failed = sandbox.run(&["create", "s2", "--rate-limit", "none"]).fails(7, "indices_red").unchanged();
    assert_eq!((&rate(&failed)["put_back"], sandbox.repository()), (&json!(true), before.clone()), "{failed}");
    sandbox.delete(&lost);

    // It takes three times as long as the limit, and no server changes a repository while a snapshot runs there.
    let name = limited(|seconds| {
        let (name, limit) = (format!("s3-{seconds}"), format!("{seconds}s"));
        sandbox.noise(&format!("more-{seconds}"), 3 * usize::try_from(seconds).unwrap());
        let late = sandbox.run(&["create", &name, "--rate-limit", "200kb", "--timeout", &limit]);
        (late.result()["snapshot"]["state"] == "IN_PROGRESS").then(|| {
            let late = late.fails(6, "timeout").warns_of("setting_not_changed", "could not be put back");
            late.has(&json!({"throttle/put_back": false}));
            name
        })
    });
    sandbox.run(&["wait", &name]).ok();
    assert_eq!(sandbox.repository(), before);
}

#[test]
fn throttle_left_by_killed_create_is_put_back() {
    let sandbox = Sandbox::new("kill").registered(&[(SNAPSHOT, "3mb")]);
    sandbox.noise("docs", 20);
    let before = sandbox.repository();
    let create = sandbox.tool(&["create", "s1", "--rate-limit", "400kb"]).spawn();
    changed(&sandbox, "s1");
    create.ended_by(Signal::SIGKILL);
    sandbox.run(&["health"]).ok().unchanged().warns_of("setting_not_changed", "has left the throttle");
    let other = sandbox.elsewhere(sandbox.tool(&["delete", "s1", "--cancel", "--dry-run"]));
    let foreign = other.run().ok().warns_of("setting_not_changed", "has changed");
    assert_eq!(foreign.planned().len(), 1, "another host cannot tell that it is dead\n{foreign}");
    let deleted = sandbox.run(&["delete", "s1", "--cancel"]).ok().warns("run_recovered");
    assert_eq!((deleted.planned().len(), sandbox.repository()), (2, before), "{deleted}");

    // A call with a rate of its own does both.
    let sandbox = left_by_a_dead_run(sandbox);
    let created = sandbox.run(&["create", "s3", "--rate-limit", "none"]).ok().warns("run_recovered");
    assert_eq!((&rate(&created)["was"], throttle(&sandbox)), (&json!("7mb"), (json!("7mb"), false)), "{created}");

    let sandbox = left_by_a_dead_run(sandbox);
    let location = sandbox.location();
    let register = ["register", "--location", location.to_str().unwrap(), "--setting", "max_snapshot_bytes_per_sec=7mb"];
    sandbox.run(&register).ok().changed();
    assert_eq!(throttle(&sandbox), (json!("7mb"), false));
    sandbox.run(&register).ok().unchanged();
    assert!(!sandbox.run(&["health"]).ok().text().contains("setting_not_changed"));
}

#[test]
fn create_retries_busy_server_after_putting_rate_back() {
    let sandbox = Sandbox::new("back-busy");
    sandbox.simple("docs", 3);
    sandbox.create("s1");
    let sandbox = left_by_a_dead_run(sandbox);

    // What ends it before its own first effect has none.
    let snapshots = sandbox.state.path().join("snapshots");
    fs::rename(&snapshots, sandbox.state.path().join("aside")).unwrap();
    fs::write(&snapshots, "").unwrap();
    sandbox.run(&["create", "s2"]).refused("name_in_use").unchanged().error_has(&["cannot be used"]);
    fs::remove_file(&snapshots).unwrap();

    // What a server says of a repository that was changed a moment ago.
    let reason = format!("[{}] Found unexpected initialized repo metadata [RepositoryMetadata]", sandbox.prefix);
    let take = format!("PUT /_snapshot/{}/s2?", sandbox.prefix);
    let gate = sandbox.gate().refusing(&take, 2, (500, "repository_exception", &reason));
    let created = sandbox.tool(&["create", "s2"]).via(&gate).run().ok().warns("run_recovered");
    assert_eq!((throttle(&sandbox), sandbox.snapshots().len()), ((json!("7mb"), false), 2), "{created}");
}

#[test]
fn concurrent_run_leaves_rate_of_first_unchanged() {
    let sandbox = Sandbox::new("two");
    sandbox.noise("docs", 20);
    sandbox.simple("few", 3);
    let location = sandbox.location();
    let before = sandbox.repository();
    // It outlasts all the others.
    let first = sandbox.tool(&["create", "first", "--rate-limit", "64kb"]).spawn();
    changed(&sandbox, "first");
    let meanwhile = sandbox.repository();
    sandbox.run(&["create", "second", "--rate-limit", "none"]).fails(8, "locked").unchanged();
    let second = sandbox.tool(&["create", "second", "--indices", "*-few", "--rate-limit", "none"]);
    let second = sandbox.elsewhere(second).spawn();
    sandbox.appears("second");
    assert_eq!(sandbox.repository(), meanwhile);

    // Elasticsearch answers that only when the snapshots have ended.
    if sandbox.search.product == Product::OpenSearch {
        let args = ["register", "--location", location.to_str().unwrap(), "--setting", "max_snapshot_bytes_per_sec=9mb"];
        let third = sandbox.tool(&args).env("SVC_STATE_DIR", sandbox.state.path().join("third"));
        third.args(["--timeout", "12s"]).run().fails(5, "server_busy").unchanged();
    }
    first.signal(Signal::SIGTERM);
    left_as_it_is(second.wait());
    let ended = first.wait().fails(143, "interrupted");
    assert_eq!((&rate(&ended)["put_back"], sandbox.repository()), (&json!(true), before), "{ended}");
}

#[test]
fn rate_record_of_other_host_is_left_unchanged() {
    let sandbox = Sandbox::new("note");
    sandbox.simple("docs", 3);
    let sandbox = sandbox.registered(&[(SNAPSHOT, "0"), ("svc_tools_rate", &of_another_host())]);
    let with_note = sandbox.repository();
    let created = left_as_it_is(sandbox.run(&["create", "s1", "--rate-limit", "50mb"]));
    let created = created.warns_of("setting_not_changed", "has changed");
    assert_eq!((&rate(&created)["was"], sandbox.repository()), (&json!("7mb"), with_note));
    let health = sandbox.run(&["health"]).ok().unchanged().warns_of("setting_not_changed", "20261120t020003z-far");
    let mut warnings = health.doc()["warnings"].as_array().unwrap().iter();
    let text = warnings.find(|one| one["code"] == "setting_not_changed").unwrap()["message"].as_str().unwrap();
    assert!(text.contains(" far "), "{text}");
    let (path, body) = text.split_once("PUT ").and_then(|(_, request)| request.split_once(' ')).unwrap();
    sandbox.ask("PUT", path, serde_json::from_str(body).unwrap());
    assert_eq!(throttle(&sandbox), (json!("7mb"), false));
}

#[test]
fn rate_is_unchanged_while_other_snapshot_runs() {
    let sandbox = Sandbox::new("beside").registered(&[(SNAPSHOT, "400kb")]);
    sandbox.noise("docs", 20);
    sandbox.simple("few", 3);
    let before = sandbox.repository();
    let body = json!({"indices": sandbox.name("docs")});
    sandbox.ask("PUT", &format!("/_snapshot/{}/slow", sandbox.prefix), Some(body));
    sandbox.appears("slow");
    left_as_it_is(sandbox.run(&["create", "s1", "--indices", "*-few", "--rate-limit", "none"]));
    assert_eq!(sandbox.repository(), before);
    let unwaited = sandbox.run(&["create", "s2", "--indices", "*-few", "--rate-limit", "none", "--no-wait"]);
    assert_eq!(left_as_it_is(unwaited).doc()["warnings"].as_array().unwrap().len(), 1);
    sandbox.run(&["wait", "s2"]).ok();
}

#[test]
fn rate_is_put_back_if_create_ends_while_setting_it() {
    let sandbox = Sandbox::new("half").registered(&[(SNAPSHOT, "3mb")]);
    sandbox.simple("docs", 3);
    let before = sandbox.repository();
    let off = format!("PUT /_snapshot/{}", sandbox.prefix);
    // Nobody answers the request that takes the throttle off; others pass.
    let gate = |act: Act| {
        let (gate, off) = (sandbox.gate(), off.clone());
        gate.rule(move |line| line.starts_with(&off), act, 0, 1);
        gate
    };
    let is_off = || wait::so("the throttle that is off", || (throttle(&sandbox).0 == "0").then_some(()));

    // The server has done it: it is put back at once.
    let unanswered = gate(Act::Cut(At::Answer(0), End::Stall));
    let spawned = sandbox.tool(&["create", "s1", "--rate-limit", "none"]).via(&unanswered).spawn();
    is_off();
    let term = spawned.ended_by(Signal::SIGTERM).fails(143, "interrupted").unchanged();
    assert_eq!((&rate(&term)["set"], &rate(&term)["put_back"]), (&json!("0"), &json!(true)), "{term}");
    assert_eq!((sandbox.repository(), sandbox.snapshots().len()), (before.clone(), 0));

    // The server does it only when the call has ended: the next one puts it back.
    let late = gate(Act::Hold);
    let ran = sandbox.tool(&["create", "s1", "--rate-limit", "none", "--timeout", "20s"]).via(&late).run();
    let ran = ran.fails(6, "timeout").warns_of("setting_not_changed", "was not answered");
    assert_eq!((&rate(&ran)["put_back"], &ran.doc()["changed"]), (&Value::Null, &Value::Null), "{ran}");
    late.open();
    is_off();
    is_put_back(&sandbox.run(&["create", "s2", "--rate-limit", "none"]).ok().warns("run_recovered"), Some("3mb"));
    assert_eq!(sandbox.repository(), before);
}

#[test]
fn concurrent_repository_change_is_not_overwritten() {
    let sandbox = Sandbox::new("rewrite");
    sandbox.simple("docs", 3);
    let path = format!("/_snapshot/{}", sandbox.prefix);
    // Somebody rewrites the repository while a create is held.
    let create = |name: &str, gate: Gate, rewrite: &[(&str, &str)]| {
        let held = gate.hold(sandbox.tool(&["create", name, "--rate-limit", "none"]));
        // Elasticsearch 7 may lose a snapshot whose repository is rewritten as it begins.
        let is_taken = |one: &Value| one["snapshot"] == name && one["state"] == "SUCCESS";
        let has_ended = || (name == "s1" || sandbox.snapshots().iter().any(is_taken)).then_some(());
        wait::so("the end of the snapshot", has_ended);
        let mut all = sandbox.repository();
        rewrite.iter().for_each(|(name, value)| all[name] = json!(value));
        let body = json!({"type": "fs", "settings": all});
        // A server may still be at the end of the snapshot, and then it changes nothing.
        let put =
            || (sandbox.search.request("PUT", &format!("{path}?verify=false"), Some(&body)).unwrap().0 == 200).then_some(());
        wait::so("the rewrite", put);
        gate.open();
        held.wait().ok().changed()
    };
    let chunk = || sandbox.repository()["chunk_size"].clone();
    // Between the plan and the throttle.
    let planned = sandbox.gate().close_before("_refresh", 1);
    is_put_back(&create("s1", planned, &[("chunk_size", "10mb"), (SNAPSHOT, "9mb")]), Some("9mb"));
    assert_eq!((chunk(), throttle(&sandbox)), (json!("10mb"), (json!("9mb"), false)));
    // While it is off, when the snapshot has ended: what else was set stays, and so does another rate.
    let taken = || sandbox.gate().close_on("wait_for_completion", Side::After);
    assert_eq!(rate(&create("s2", taken(), &[("chunk_size", "20mb")]))["put_back"], true);
    assert_eq!((chunk(), throttle(&sandbox)), (json!("20mb"), (json!("9mb"), false)));
    create("s3", taken(), &[(SNAPSHOT, "8mb")]);
    assert_eq!(throttle(&sandbox), (json!("8mb"), false));
    // And if we could write it only together with a secret, an operator does.
    let secret = create("s4", taken(), &[("address", "http://me:s3cret@far/")]);
    let secret = secret.warns_of("setting_not_changed", "could not be put back");
    assert_eq!((&rate(&secret)["put_back"], throttle(&sandbox).0), (&json!(false), json!("0")), "{secret}");
    let health = sandbox.run(&["health"]).ok().warns_of("setting_not_changed", "PUT /_snapshot/");
    for ran in [&secret, &health] {
        let said = ran.doc()["warnings"].to_string();
        assert!(said.contains("PUT /_snapshot/") && said.contains("with max_snapshot_bytes_per_sec 8mb"), "{ran}");
    }
    // The throttle of one that has a secret already is left alone.
    let sandbox = sandbox.registered(&[("client.secret_key", "s3cret"), (SNAPSHOT, "8mb")]);
    let before = sandbox.repository();
    let left = left_as_it_is(sandbox.run(&["create", "s5", "--rate-limit", "none"]));
    assert_eq!(sandbox.repository(), before);
    for ran in [secret, health, left] {
        ran.without(&["s3cret"]);
    }
}

/// The note of a run that has ended, under this state folder.
fn left_by_a_dead_run(sandbox: Sandbox) -> Sandbox {
    let locks = sandbox.state.path().join("locks").canonicalize().unwrap();
    let note = json!({"run": "20261120t020003z-dead", "process": 1, "host": svc_step::document::host(),
                      "locks": format!("{}#{}", locks.display(), fs::metadata(&locks).unwrap().ino()), "was": "7mb", "set": "0"});
    let note = note.to_string();
    sandbox.registered(&[(SNAPSHOT, "0"), ("svc_tools_rate", &note)])
}

#[test]
fn wait_puts_rate_back_unless_repository_is_locked() {
    let sandbox = Sandbox::new("waits");
    sandbox.simple("docs", 3);
    sandbox.create("good");
    sandbox.red("lost");
    sandbox.taken("part", json!({"indices": format!("{}-*", sandbox.prefix), "partial": true}));

    let sandbox = left_by_a_dead_run(sandbox);
    let left = sandbox.repository();
    // It ends before it has seen anything.
    let gate = sandbox.gate().close_before("", 1);
    gate.hold(sandbox.tool(&["wait", "good"])).ended_by(Signal::SIGTERM).fails(143, "interrupted").unchanged();
    assert_eq!(sandbox.repository(), left);
    // Another run is in progress in the repository.
    let cluster = sandbox.run(&["show", "good"]).ok().result()["cluster_uuid"].as_str().unwrap().to_owned();
    let lock =
        fs::File::create(sandbox.state.path().join("locks").join(format!("repository-{cluster}.{}", sandbox.prefix))).unwrap();
    lock.lock().unwrap();
    sandbox.run(&["wait", "good"]).ok().unchanged().warns_of("setting_not_changed", "has left the throttle");
    assert_eq!(sandbox.repository(), left);
    lock.unlock().unwrap();

    sandbox.run(&["wait", "part"]).fails(7, "snapshot_invalid").changed().warns("run_recovered");
    assert_eq!(throttle(&sandbox), (json!("7mb"), false));
    let sandbox = left_by_a_dead_run(sandbox);
    sandbox.run(&["wait", "good"]).ok().changed().warns("run_recovered");
    assert_eq!(sandbox.repository()[SNAPSHOT], "7mb");
}

/// What the cluster has of the throttle and of our note.
fn cluster(sandbox: &Sandbox) -> Value {
    let all = sandbox.ask("GET", "/_cluster/settings?flat_settings=true", None);
    let of = |part: &str| all[part].get(RESTORE).cloned().unwrap_or_default();
    let note = all["persistent"].get("cluster.metadata.svc_tools.rate").is_some();
    json!({"persistent": of("persistent"), "transient": of("transient"), "recorded": note})
}

fn restoring(sandbox: &Sandbox, tool: Tool) -> Spawned {
    let mut spawned = tool.spawn();
    let is_under_way = wait::so("the restore", || {
        // Asked before, since the restore may end between two questions.
        let is_recorded = cluster(sandbox)["recorded"] == true;
        let state = sandbox.ask("GET", "/_cluster/state/customs?filter_path=restore", None);
        let is_under_way = is_recorded && state["restore"]["snapshots"].as_array().is_some_and(|all| !all.is_empty());
        (is_under_way || !spawned.is_running()).then_some(is_under_way)
    });
    if !is_under_way {
        panic!("it has ended too early\n{}", spawned.wait());
    }
    spawned
}

#[test]
fn cluster_restore_throttle_is_put_back_after_any_exit() {
    let own = own_server(&[]);
    let sandbox = Sandbox::on(own.server.clone(), "cluster").registered(&[]);
    sandbox.noise("docs", 12);
    let created = sandbox.create("s1");
    let tool = |args: &[&str]| sandbox.tool(args).env("SVC_INDICES", "*");
    let from = |args: &[&str]| sandbox.resuming(args, &created).env("SVC_INDICES", "*");
    let unset = json!({"persistent": null, "transient": null, "recorded": false});
    assert_eq!(cluster(&sandbox), unset);

    // Unset before, unset afterwards; the dry run says it all.
    let dry = from(&["stage", "--rate-limit", "none", "--dry-run"]).run().ok().unchanged();
    let (plan, paths) = (&dry.result()["plan"], dry.planned());
    assert_eq!((paths.len(), &*paths[0], &*paths[2]), (3, "/_cluster/settings", "/_cluster/settings"), "{dry}");
    assert_eq!((&plan[0]["body"]["persistent"][RESTORE], &plan[2]["body"]["persistent"][RESTORE]), (&json!("-1"), &Value::Null));
    assert_eq!(cluster(&sandbox), unset);
    let staged = from(&["stage", "--rate-limit", "none"]).run().ok();
    assert_eq!(rate(&staged), json!({"asked": "none", "setting": RESTORE, "was": null, "set": "-1", "put_back": true}));
    assert_eq!(cluster(&sandbox), unset);
    sandbox.from(&["discard"], &staged).ok();

    // On a cluster that others use, its throttle is not changed.
    let scoped = left_as_it_is(sandbox.from(&["stage", "--rate-limit", "none"], &created));
    assert_eq!(cluster(&sandbox), unset, "{scoped}");
    sandbox.from(&["discard"], &scoped).ok();

    // A persistent setting is put back; a transient one takes precedence over it, and is left alone.
    sandbox.set_cluster(RESTORE, json!("20mb"));
    is_put_back(&from(&["restore", "--rate-limit", "none"]).run().ok(), Some("20mb"));
    assert_eq!(cluster(&sandbox), json!({"persistent": "20mb", "transient": null, "recorded": false}));
    sandbox.ask("PUT", "/_cluster/settings", Some(json!({"transient": {RESTORE: "30mb"}})));
    left_as_it_is(from(&["restore", "--in-place", "--on-conflict", "close", "--rate-limit", "none"]).run());
    assert_eq!(cluster(&sandbox), json!({"persistent": "20mb", "transient": "30mb", "recorded": false}));
    sandbox.ask("PUT", "/_cluster/settings", Some(json!({"persistent": {RESTORE: null}, "transient": {RESTORE: null}})));

    let spawned = restoring(&sandbox, from(&["stage", "--rate-limit", "200kb"]));
    let term = spawned.ended_by(Signal::SIGTERM).fails(143, "interrupted").unchanged();
    assert_eq!((&rate(&term)["put_back"], cluster(&sandbox)), (&json!(true), unset.clone()), "{term}");

    let run = "20261120t020003z-killed";
    restoring(&sandbox, from(&["stage", "--rate-limit", "200kb", "--run-id", run])).ended_by(Signal::SIGKILL);
    assert_eq!(cluster(&sandbox), json!({"persistent": "200kb", "transient": null, "recorded": true}));
    tool(&["health"]).run().ok().warns_of("setting_not_changed", "has left");
    let discarded = tool(&["discard", "--run", run]).run().ok().changed().warns("run_recovered");
    assert_eq!(cluster(&sandbox), unset, "{discarded}");

    damage::flip_a_blob(&sandbox.location()).unwrap();
    let damaged = from(&["stage", "--rate-limit", "none"]).run();
    assert_eq!((damaged.status, &rate(&damaged)["put_back"], cluster(&sandbox)), (7, &json!(true), unset), "{damaged}");
    assert_eq!(damaged.doc()["changed"], false, "{damaged}");
}
