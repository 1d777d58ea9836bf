//! `svc-backup` and `svc-upgrade` (procedure, 9.2) with the sample service on real servers.

use svc_tests::journey::prelude::*;

fn step(ran: &Ran, name: &str) -> Value {
    let is_it = |file: &str| file.get(3..).is_some_and(|rest| rest == format!("{name}.json"));
    let found = names_in(&ran.run_dir()).into_iter().find(|file| is_it(file));
    json_of(ran.run_dir().join(found.unwrap_or_else(|| panic!("no document of the step {name}\n{ran}"))))
}

#[test]
fn upgrade_leaves_new_version_and_complete_point() {
    let product = running("upgood");
    let process = product.process();
    let (hooks, hook) = (
        product.path("hooks"),
        product.hook("10-modules", &format!("echo \"$SVC_VERSION\" >'{}'", product.path("seen").display())),
    );
    let upgrade = || product.upgrade().env("SVC_HOOKS_DIR", &hooks);
    // A hook that others can write is not run.
    for unsafe_path in [&hook, &hook.parent().unwrap().to_owned(), &hooks] {
        os::chmod(unsafe_path, 0o777);
        upgrade().run().refused("permission_denied");
        os::chmod(unsafe_path, 0o755);
    }
    // A journal could not tell these apart, and would skip the second when it resumes.
    let alike = hook.with_file_name("10-modules.sh");
    for name in [&alike, &hook.with_file_name("10-modules-sh")] {
        fs::copy(&hook, name).unwrap();
    }
    upgrade().run().refused("name_in_use").error_has(&["10-modules"]);
    fs::remove_file(&alike).unwrap();
    assert_eq!((product.process(), product.marker()), (process, "1.15.5".to_owned()));

    let ran = upgrade().run().ok().changed();
    assert_eq!((product.marker(), product.is_active()), ("2.0.1".to_owned(), true));
    assert_eq!(fs::read_to_string(product.path("seen")).unwrap(), "2.0.1\n");
    // What is normal is no warning, but settings that are lost. (Another test may have made an index outside the scope red.)
    let warnings = ran.doc()["warnings"].as_array().unwrap().iter().filter(|warning| warning["code"] != "indices_red");
    let lost = "search.bulk_size, comments.allowed, log.keep_days, log.format, service.language, database.pool_size.";
    let is_it = |warning: &Value| warning["message"].as_str().unwrap().ends_with(lost);
    assert_eq!(warnings.map(is_it).collect::<Vec<_>>(), [true], "{ran}");
    assert!(ran.result()["downtime_ms"].as_u64().is_some_and(|time| time > 0) && ran.failed_checks().is_empty(), "{ran}");
    is_complete(&product, &ran);
    tells_the_whole_story(&ran);
}

fn is_complete(product: &Product, ran: &Ran) {
    let point = point_of(ran);
    os::run(Command::new("sha256sum").args(["--quiet", "--strict", "-c", "SHA256SUMS"]).current_dir(&point)).unwrap();
    let about = json_of(point.join("restore-point.json"));
    assert_eq!((&about["quiesced"], &about["version"]), (&json!(true), &json!("1.15.5")));
    for file in ["snapshot.json", "pgdump.json", "confsave.json", "version.json", "upgood_db.backup.sql", "upgood.conf"] {
        assert!(point.join(file).is_file(), "{file} is not in the restore point");
    }
    // The row of an item and its document are of one moment: as many of both in the backup.
    let of = |list: &Value, name: &str| {
        let found = list.as_array().unwrap().iter().find(|one| one["name"] == name).cloned();
        found.unwrap_or_else(|| panic!("{name} is not in {list:#}"))
    };
    let (dump, snapshot) = (step(ran, "dump"), step(ran, "snapshot"));
    let items = of(&snapshot["result"]["captured"], "upgood-items-000001");
    assert_eq!(of(&dump["result"]["tables"], "items")["rows_count"], items["docs_count"], "{dump:#}\n{snapshot:#}");
    assert_eq!(items["docs_exact"], true);
    // The warm snapshot has done its work, and only the restore point's own is left.
    assert_eq!(step(ran, "warm-snapshot")["changed"], true);
    assert_eq!(product.snapshots(), [snapshot["result"]["name"].as_str().unwrap()]);
}

fn tells_the_whole_story(ran: &Ran) {
    let run_dir = ran.run_dir();
    let names = names_in(&run_dir);
    for begun in names.iter().filter_map(|name| name.strip_suffix(".started")) {
        assert!(names.contains(&format!("{begun}.json")), "{begun} was started and has no document: {names:?}");
    }
    assert!(names.contains(&"log".to_owned()) && names.iter().any(|name| name.ends_with("-installer.rc")), "{names:?}");
    assert_eq!(&json_of(run_dir.join("document.json")), ran.doc());
    let plan = json_of(run_dir.join("plan.json"));
    assert_eq!((&plan["script"], &plan["settings"]["SVC_NAME"]), (&"svc-upgrade".into(), &"upgood".into()), "{plan:#}");
    assert_eq!(plan["tools"].as_str(), ran.doc()["tool"].as_str().unwrap().strip_prefix("svc-upgrade "), "{plan:#}");
    assert_eq!(os::mode(&run_dir), 0o700);
}

#[test]
fn upgrade_is_refused_before_stop_if_rollback_would_be() {
    let product = Product::new("upway").unwrap();
    let search = &product.host.search;
    if search.key == "elasticsearch-7" {
        return svc_tests::skip("an upgrade of a service with a data stream: this distribution has none at all");
    }
    product.install("1.15.5", 20).unwrap();
    let process = product.process();
    let template = json!({"index_patterns": ["upway-logs"], "data_stream": {}, "priority": 500});
    search.ask("PUT", "/_index_template/upway-logs", Some(&template)).unwrap();
    let document = json!({"@timestamp": "2026-11-20T00:00:00Z"});
    search.ask("POST", "/upway-logs/_doc?refresh=true", Some(&document)).unwrap();

    let dry = product.upgrade().arg("--dry-run").talks().run().ok();
    let says = dry.check("search")["message"].as_str().unwrap();
    assert!(says.contains("svc-rollback refuses them: upway-logs"), "{dry}");
    let refused = product.upgrade().run().fails(3, "not_swappable").error_has(&["Leave the data streams out"]);
    assert_eq!(refused.failed_checks().first(), Some(&"rollback-snapshot"), "{refused}");
    assert_eq!((product.process(), product.marker()), (process, "1.15.5".to_owned()));
    assert_eq!(refused.result()["restore_point"], Value::Null);
    assert!(product.snapshots().is_empty(), "the warm snapshot is left\n{refused}");
    // Who gives up the way back is not asked about it.
    product.upgrade().arg("--no-previous-installer").run().ok().has(&json!({"go_back": "svc-rollback --installer FILE"}));
    assert_eq!(product.marker(), "2.0.1");
}

#[test]
fn failed_check_refuses_upgrade_before_stop_and_dry_run_prints_commands_that_upgrade() {
    let product = running("uprefuse");
    let process = product.process();
    let away = product.upgrade().env(DOWN.0, DOWN.1).env("PGPORT", "1").run().fails(5, "search_unreachable").unchanged();
    assert_eq!(away.failed_checks(), ["search", "repository", "database"], "{away}");

    // What the start would be refused for is found before the stop.
    let wrong = product.upgrade().env("SVC_READY_URL", "no url").run().fails(2, "settings_invalid").unchanged();
    assert_eq!(wrong.failed_checks(), ["ready"], "{wrong}");
    let systemd = &product.host.systemd;
    let text = fs::read_to_string(systemd.unit_dir.join(product.unit())).unwrap();
    systemd.install(&product.unit(), &text.replace("ExecStart=", "#")).unwrap();
    assert_eq!(product.upgrade().run().fails(7, "unit_failed").unchanged().failed_checks(), ["ready"]);
    systemd.install(&product.unit(), &text).unwrap();
    // Of two, the one that is told of is the first.
    fs::write(product.backup_dir(), "in the way").unwrap();
    let two = product.upgrade().env("SVC_DATABASE", "uprefuse_none").run().refused("name_in_use");
    assert!(two.failed_checks().starts_with(&["backup-directory", "database"]), "{two}");
    assert!(two.hint().contains("SVC_BACKUP_DIR") && two.doc()["error"]["message"].to_string().contains(" checks"), "{two}");
    fs::remove_file(product.backup_dir()).unwrap();

    // A configuration that a rollback could not put back.
    let folder = product.install_dir().join("conf");
    let fixed = while_mounted(&folder, "ro", || product.upgrade().run());
    assert_eq!(fixed.failed_checks(), ["configuration-restorable"], "{fixed}");
    fixed.unchanged();
    // An index that cannot be allocated.
    product.host.search.ask("PUT", "/uprefuse-lost?wait_for_active_shards=0", Some(&unallocatable())).unwrap();
    product.upgrade().run().fails(7, "indices_red").unchanged();
    product.host.search.ask("DELETE", "/uprefuse-lost", None).unwrap();
    // Installers that the system would not execute, whatever their mode is.
    let noexec = while_mounted(&product.path("installers"), "noexec", || product.upgrade().run());
    assert_eq!(noexec.failed_checks(), ["new", "previous-installer"], "{noexec}");
    noexec.refused("file_invalid").unchanged();
    // A wrong value is told in the words of the tool that gets it.
    let wrong = product.upgrade().args(["--dry-run", "--last-minor", "1.15.5", "--layout", "json"]);
    let wrong = wrong.env("SVC_REPOSITORY", "a b").env("SVC_DUMP_COMPRESS", "lz4").run();
    assert_eq!(wrong.failed_checks(), ["path", "search", "repository", "database", "configuration-present"], "{wrong}");
    assert!(wrong.check("database")["message"].as_str().unwrap().starts_with("SVC_DUMP_COMPRESS: "), "{wrong}");
    wrong.fails(2, "options_invalid").error_has(&["'1.15.5'"]);

    checks_and_plan_are_shown(&product);
    assert_eq!((product.process(), product.marker()), (process, "1.15.5".to_owned()));
    assert!(!product.backup_dir().exists());

    let runs = count_in(&product.state_dir().join("runs"));
    let dry_run = || product.upgrade().args(["--dry-run", "--installer-arg"]);
    // As short as it is, it is in every path.
    let ran = dry_run().arg("1").talks().run().ok().unchanged();
    dry_run().arg("<redacted>").run().exits(2, &[]);
    // Whoever cannot roll back afterwards is told so before.
    let unknown = dry_run().arg("1").env("SVC_UNINSTALL", "").talks().run().ok().warns("settings_invalid");
    assert!(unknown.lines("plan").iter().any(|line| line.contains("svc-unit start")), "{unknown}");
    for wanted in ["svc-unit stop", "svc-snap create", "svc-pgdump", "uprefuse-2.0.1.run", "svc-unit start"] {
        assert!(ran.lines("plan").iter().any(|line| line.contains(wanted)), "{wanted} is not in\n{ran}");
    }
    assert_eq!(count_in(&product.state_dir().join("runs")), runs);
    assert!(!product.backup_dir().exists() && product.is_active());

    let ran = product.upgrade().arg("--dry-run").talks().run().ok();
    let folder = product.type_plan(&ran);
    assert_eq!((product.marker(), product.is_active()), ("2.0.1".to_owned(), true));
    for document in ["snapshot.json", "dump.json"] {
        assert_eq!(json_of(folder.join(document))["ok"], true, "{document}");
    }
}

/// Whoever watches sees each check with what it has found, and the total; and the plan is as fast as it may be.
fn checks_and_plan_are_shown(product: &Product) {
    let dry_run = || product.upgrade().arg("--dry-run").talks();
    let ran = dry_run().args(["-v", "--clone"]).run().ok();
    let checks = ran.result()["preflight"].as_array().unwrap();
    assert!(checks.iter().all(|check| check["message"].as_str().is_some_and(|says| !says.is_empty())), "{ran}");
    let wanted = ["path", "previous-installer", "unit", "search", "repository", "database", "space", "configuration-present"];
    for wanted in wanted.into_iter().chain(["clone-search-possible", "clone-database-possible"]) {
        ran.check(wanted);
    }
    assert!(ran.stderr.contains(&format!("preflight: {} checks: ", checks.len())), "{ran}");
    // By sizes that were measured, although no restore point is there yet.
    let space = ran.check("space")["message"].as_str().unwrap();
    assert!(space.contains("a dump takes about ") && space.contains("a first snapshot takes "), "{space}");

    // Without a throttle if the search database is the service's alone and no setting says how fast.
    for (settings, rate) in [
        (&[][..], None),
        (&[("SVC_INDICES", "*")], Some(" --rate-limit none")),
        (&[("SVC_INDICES", "*"), ("SVC_RATE_LIMIT", "50mb")], None),
    ] {
        let ran = dry_run().envs(settings.iter().copied()).run().ok();
        let is_it = |line: &&str| line.contains("svc-snap create") && line.contains("--kind upgrade");
        let create = ran.lines("plan").into_iter().find(is_it).unwrap();
        assert!(rate.map_or(!create.contains("--rate-limit"), |rate| create.contains(rate)), "{settings:?}: {create}");
    }
}

#[test]
fn upgrade_that_fails_before_installer_is_undone() {
    let (product, before) = still("upundone");
    let undone = |what: &str, fails: &dyn Fn() -> Ran| {
        let process = product.process();
        let ran = fails();
        assert_eq!((product.is_active(), product.marker()), (true, "1.15.5".to_owned()), "{what}: {ran}");
        assert_eq!(step(&ran, "stop")["changed"], true, "{what}: {ran}");
        assert_ne!(product.process(), process, "{what}: the service was not stopped, so this shows nothing");
        assert!(!ran.steps().contains(&"installer"), "{what}: {ran}");
        assert_eq!(count_in(&product.backup_dir()), 0, "{what}: an incomplete restore point is left");
        assert_eq!(product.snapshots(), Vec::<String>::new(), "{what}: a snapshot of no restore point is left");
        assert_eq!(product.content().unwrap(), before, "{what}");
        ran
    };
    let with = |tool: &str, does: &str| product.upgrade().stub(&product.path(&format!("stub {tool}")), tool, does);

    let ran = undone("a signal", &|| signal_at(&product, product.upgrade(), (Signal::SIGTERM, false), "dump.started").1);
    assert!(ran.fails(143, "interrupted").steps().contains(&"dump"));
    let term = "case $* in *--dry-run*) ;; *--output*) kill -TERM $$ ;; esac";
    let ran = undone("a tool that is ended alone", &|| with("svc-pgdump", term).run().fails(1, "no_document"));
    assert!(ran.doc()["error"]["message"].as_str().unwrap().starts_with("The step dump failed"), "{ran}");
    // As a timer or a colleague does it.
    let starts = "case $* in *'--kind upgrade'*) svc-unit start --settle 0 >&2 ;; esac";
    let ran = undone("a service that is started meanwhile", &|| with("svc-snap", starts).run().fails(1, "not_quiesced"));
    ran.error_has(&["Nothing was changed."]);
    undone("a dump that fails", &|| a_dump_that_fails(&product));
    let damages = "case $* in *'--expect inactive'*) rm \"$SVC_RUN_DIR/notes.json\"; mkdir \"$SVC_RUN_DIR/notes.json\" ;; esac";
    let ran = with("svc-unit", damages).run().fails(1, "journal_full");
    assert!(product.is_active() && product.marker() == "1.15.5", "a commit that cannot be recorded: {ran}");
}

/// The snapshot is complete, its document is lost, and the cluster is away when the snapshots are to go: they are named, and what
/// removes them. Its tool has not ended when the dump fails: it is ended at once.
fn a_dump_that_fails(product: &Product) -> Ran {
    // Only the dump itself finds out that it may not read this.
    let sql = |sql: &str| product.host.postgres.sql(&product.database(), sql).unwrap();
    sql("CREATE TABLE closed AS SELECT 1 AS n");
    let ready = product.path("ready");
    let (stubs, at) = (product.path("stub"), ready.display());
    let away = format!(
        "case $* in *'--kind upgrade'*) PATH=${{PATH#*:}} svc-snap \"$@\" >/dev/full; touch '{at}'; exec sleep 600 ;; delete*) exit 5 ;; esac"
    );
    let after = format!("case $* in *--dry-run*) ;; *--output*) until [ -e '{at}' ]; do sleep 0.1; done ;; esac");
    let upgrade = product.upgrade().stub(&product.path("stub 2"), "svc-pgdump", &after).stub(&stubs, "svc-snap", &away);
    let ran = upgrade.run().fails(3, "permission_denied").changed();
    sql("DROP TABLE closed");
    // Whoever reads only what is printed knows it too, and the next call tries it again.
    for left in ["Run by hand what is left to be undone:\n  svc-", "\n  svc-snap delete snapshot_upundone_"] {
        assert!(ran.stderr.contains(left), "{ran}");
    }
    let names = ["warm", "upgrade"].map(|kind| svc_step::run_id::snapshot_name("upundone", ran.id(), kind));
    for command in [format!("svc-snap delete {} ", names[0]), "--kind upgrade".to_owned()] {
        let named =
            |warning: &Value| warning["code"] == "run_unfinished" && warning["message"].as_str().unwrap().contains(&command);
        assert!(ran.doc()["warnings"].as_array().unwrap().iter().any(named), "{command}\n{ran}");
    }
    let recover = || product.tool("svc-run").arg("recover");
    // If no script was ever called, there is nothing to recover.
    recover().env("SVC_STATE_DIR", product.path("no state yet")).run().ok().unchanged();
    recover().stub(&stubs, "svc-snap", &away).run().fails(1, "run_unfinished");
    assert!(names.iter().all(|name| product.snapshots().contains(name)), "nothing is left, so this shows nothing");
    recover().run().ok().changed();
    recover().run().ok().unchanged();
    ran
}
