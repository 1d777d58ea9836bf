//! `svc-backup` and `svc-upgrade` (procedure, 9.2) with the sample service on real servers.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use svc_tests::journey::{newest_run, running, signal_at, undone_where};
use svc_tests::os;
use svc_tests::product::{Content, Product};
use svc_tests::sandbox::unallocatable;

/// The documents of a run, by the name of their step.
fn step(run_dir: &Path, name: &str) -> Value {
    let found = fs::read_dir(run_dir).unwrap().map(|entry| entry.unwrap().path()).find(|path| {
        let file = path.file_name().unwrap().to_string_lossy().into_owned();
        file.get(3..).is_some_and(|rest| rest == format!("{name}.json"))
    });
    let path = found.unwrap_or_else(|| panic!("no document of the step {name} in {}", run_dir.display()));
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn an_upgrade_leaves_the_new_version_running_and_a_complete_restore_point() {
    let product = running("upgood");

    let ran = product.tool("svc-upgrade").arg(product.installer("2.0.1")).run().ok().changed();
    assert_eq!(product.marker(), "2.0.1");
    assert!(product.is_active());

    let result = ran.result();
    // What is normal is no warning. (Another test may have made an index outside the scope red.)
    let warnings = ran.doc()["warnings"].as_array().unwrap();
    assert!(warnings.iter().all(|warning| warning["code"] == "indices_red"), "{ran}");
    assert!(result["downtime_ms"].as_u64().is_some_and(|time| time > 0), "{ran}");
    assert!(ran.failed_checks().is_empty(), "{ran}");

    let point = PathBuf::from(result["restore_point"].as_str().unwrap());
    let checked =
        Command::new("sha256sum").args(["--quiet", "--strict", "-c", "SHA256SUMS"]).current_dir(&point).status().unwrap();
    assert!(checked.success());
    let about: Value = serde_json::from_str(&fs::read_to_string(point.join("restore-point.json")).unwrap()).unwrap();
    assert_eq!(about["quiesced"], true);
    assert_eq!(about["version"], "1.15.5");
    for file in ["snapshot.json", "pgdump.json", "confsave.json", "version.json", "upgood_db.backup.sql", "upgood.conf"] {
        assert!(point.join(file).is_file(), "{file} is not in the restore point");
    }

    // The row of an item and its document are of one moment: as many of both in the backup.
    let run_dir = PathBuf::from(result["run_dir"].as_str().unwrap());
    let dump = step(&run_dir, "dump");
    let of = |list: &Value, name: &str| {
        let found = list.as_array().unwrap().iter().find(|one| one["name"] == name).cloned();
        found.unwrap_or_else(|| panic!("{name} is not in {list:#}"))
    };
    let rows = of(&dump["result"]["tables"], "items");
    let snapshot = step(&run_dir, "snapshot");
    let items = of(&snapshot["result"]["captured"], "upgood-items-000001");
    assert_eq!(rows["row_count"], items["docs_count"], "{dump:#}\n{snapshot:#}");
    assert_eq!(items["docs_exact"], true);

    // The warm snapshot has done its work, and only the restore point's own is left.
    assert_eq!(step(&run_dir, "warm-snapshot")["changed"], true);
    let left = product.host.search.ask("GET", "/_snapshot/upgood_backup/_all", None).unwrap();
    let names: Vec<&str> = left["snapshots"].as_array().unwrap().iter().map(|one| one["snapshot"].as_str().unwrap()).collect();
    assert_eq!(names, [snapshot["result"]["name"].as_str().unwrap()]);
}

#[test]
fn a_run_directory_tells_the_whole_story_and_holds_no_secret() {
    let product = running("upstory");
    let ran = product.tool("svc-upgrade").arg(product.installer("2.0.1")).run().ok();
    let run_dir = PathBuf::from(ran.result()["run_dir"].as_str().unwrap());

    let mut names: Vec<String> =
        fs::read_dir(&run_dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    for begun in names.iter().filter_map(|name| name.strip_suffix(".started")) {
        assert!(names.contains(&format!("{begun}.json")), "{begun} was started and has no document: {names:?}");
    }
    for must in ["plan.json", "document.json", "log"] {
        assert!(names.iter().any(|name| name == must), "{must} is not in {names:?}");
    }
    assert!(names.iter().any(|name| name.ends_with("-installer.rc")), "{names:?}");
    let kept: Value = serde_json::from_str(&fs::read_to_string(run_dir.join("document.json")).unwrap()).unwrap();
    assert_eq!(&kept, ran.doc());
    let plan: Value = serde_json::from_str(&fs::read_to_string(run_dir.join("plan.json")).unwrap()).unwrap();
    assert_eq!((&plan["script"], &plan["settings"]["SVC_NAME"]), (&"svc-upgrade".into(), &"upstory".into()), "{plan:#}");
    assert_eq!(plan["tools"].as_str(), ran.doc()["tool"].as_str().unwrap().strip_prefix("svc-upgrade "), "{plan:#}");
    assert_eq!(fs::metadata(&run_dir).unwrap().permissions().mode() & 0o7777, 0o700);
    // Each step, how it ended, and how long it took.
    let status = product.tool("svc-upgrade").arg("--status").run();
    let steps = ran.result()["steps"].as_array().unwrap().len();
    let bars = status.stdout.lines().filter(|line| line.ends_with('#')).count();
    assert_eq!((status.status, bars), (0, steps), "{status}");
    // Also of a tool that has outlived its script: its document is there, and nobody has kept it.
    let document = run_dir.join(names.iter().find(|name| name.ends_with("-snapshot.json")).unwrap());
    let left = document.with_extension("json.partial");
    fs::rename(&document, &left).unwrap();
    let again = product.tool("svc-upgrade").arg("--status").run();
    fs::rename(left, document).unwrap();
    // The first line has the run's age.
    let steps = |text: &str| text.lines().skip(1).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(steps(&again.stdout), steps(&status.stdout));
    for name in &names {
        let text = String::from_utf8_lossy(&fs::read(run_dir.join(name)).unwrap()).into_owned();
        assert!(!text.contains("pass:word") && !text.contains("pass\\:word"), "{name} holds the password");
    }
}

#[test]
fn an_unsupported_path_is_refused_and_the_service_never_notices() {
    let product = Product::new("uppath").unwrap();
    product.install("1.14.2", 20).unwrap();
    let process = product.process();

    let ran = product.tool("svc-upgrade").arg(product.installer("2.0.1")).run();
    ran.refused("version_unsupported");
    assert_eq!(product.process(), process);
    assert_eq!(product.marker(), "1.14.2");
    assert!(!product.backup_dir().exists());
}

#[test]
fn an_upgrade_whose_rollback_would_be_refused_says_so_before_the_stop() {
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

    let dry = product.tool("svc-upgrade").arg("--dry-run").arg(product.installer("2.0.1")).talks().run().ok();
    let says = dry.check("search")["message"].as_str().unwrap();
    assert!(says.contains("svc-rollback refuses them: upway-logs"), "{dry}");

    let refused = product
        .tool("svc-upgrade")
        .arg(product.installer("2.0.1"))
        .run()
        .fails(3, "not_swappable")
        .error_has(&["Leave the data streams out"]);
    assert_eq!(refused.failed_checks().first(), Some(&"rollback-snapshot"), "{refused}");
    assert_eq!(
        (product.process(), product.marker(), refused.result()["restore_point"].clone()),
        (process, "1.15.5".to_owned(), Value::Null)
    );
    let left = search.ask("GET", "/_snapshot/upway_backup/_all", None).unwrap();
    assert_eq!(left["snapshots"], json!([]), "the warm snapshot is left");
    // Who gives up the way back is not asked about it.
    product.tool("svc-upgrade").arg("--no-previous-installer").arg(product.installer("2.0.1")).run().ok();
    assert_eq!(product.marker(), "2.0.1");
}

#[test]
fn what_cannot_be_upgraded_is_refused_before_the_stop_and_every_check_is_made() {
    let product = running("uprefuse");
    let process = product.process();
    let (installer, odd) = (product.installer("2.0.1"), product.path("setup-2.0.1.bin"));
    fs::copy(&installer, &odd).unwrap();
    let upgrade = |installer: &Path| product.tool("svc-upgrade").arg(installer);
    upgrade(&odd).run().refused("file_invalid");
    upgrade(&product.path("uprefuse-2.0.2.run")).run().fails(4, "file_not_found").unchanged();

    let away = upgrade(&installer).env("SVC_SEARCH_URL", "http://127.0.0.1:1").env("PGPORT", "1").run();
    let away = away.fails(5, "search_unreachable").unchanged();
    assert_eq!(away.failed_checks(), ["search", "repository", "database"], "{away}");

    // Of two, the one that is told of is the first.
    fs::write(product.backup_dir(), "in the way").unwrap();
    let two = upgrade(&installer).env("SVC_DATABASE", "uprefuse_none").run().refused("name_in_use");
    assert!(two.failed_checks().starts_with(&["backup-directory", "database"]), "{two}");
    assert!(two.hint().contains("SVC_BACKUP_DIR") && two.doc()["error"]["message"].to_string().contains(" checks"), "{two}");
    fs::remove_file(product.backup_dir()).unwrap();

    // A configuration that a rollback could not put back.
    let folder = product.install_dir().join("conf");
    os::run(Command::new("mount").args(["--bind"]).args([&folder, &folder])).unwrap();
    os::run(Command::new("mount").args(["-o", "remount,bind,ro"]).arg(&folder)).unwrap();
    let fixed = upgrade(&installer).run();
    os::run(Command::new("umount").arg(&folder)).unwrap();
    assert_eq!(fixed.failed_checks(), ["configuration-restorable"], "{fixed}");
    fixed.unchanged();
    // Installers that the system would not execute, whatever their mode is.
    let folder = installer.parent().unwrap();
    os::run(Command::new("mount").arg("--bind").args([folder, folder])).unwrap();
    os::run(Command::new("mount").args(["-o", "remount,bind,noexec"]).arg(folder)).unwrap();
    let noexec = upgrade(&installer).run();
    os::run(Command::new("umount").arg(folder)).unwrap();
    assert_eq!(noexec.failed_checks(), ["new", "previous-installer"], "{noexec}");
    noexec.refused("file_invalid").unchanged();
    // A wrong value is told in the words of the tool that gets it.
    let wrong = upgrade(&installer).args(["--dry-run", "--last-minor", "1.15.5", "--layout", "json"]);
    let wrong = wrong.env("SVC_REPOSITORY", "a b").env("SVC_DUMP_COMPRESS", "lz4").run();
    assert_eq!(wrong.failed_checks(), ["path", "search", "repository", "database", "configuration-present"], "{wrong}");
    assert!(wrong.check("database")["message"].as_str().unwrap().starts_with("SVC_DUMP_COMPRESS: "), "{wrong}");
    wrong.fails(2, "options_invalid").error_has(&["'1.15.5'"]);
    assert_eq!((product.process(), product.marker()), (process, "1.15.5".to_owned()));

    // Whoever watches sees each with what it has found, and the total.
    let ran = product.tool("svc-upgrade").args(["-v", "--dry-run", "--clone"]).arg(&installer).talks().run().ok();
    let checks = ran.result()["preflight"].as_array().unwrap();
    let total = &ran.result()["preflight_total"];
    assert_eq!(total["pass"].as_u64().unwrap() + total["warn"].as_u64().unwrap(), checks.len() as u64, "{ran}");
    for check in checks {
        let (name, says) = (check["check"].as_str().unwrap(), check["message"].as_str().unwrap());
        let line = ran.stderr.lines().find(|line| line.contains(&format!("preflight  {name} ")));
        assert!(!says.is_empty() && line.is_some_and(|line| line.contains(says)), "{name}\n{ran}");
    }
    let wanted = ["path", "previous-installer", "unit", "search", "repository", "database", "space", "configuration-present"];
    for wanted in wanted.into_iter().chain(["clone-search-possible", "clone-database-possible"]) {
        ran.check(wanted);
    }
    assert!(ran.stderr.contains(&format!("preflight: {} checks: ", checks.len())), "{ran}");
    // By sizes that were measured, although no restore point is there yet.
    let space = ran.check("space")["message"].as_str().unwrap();
    assert!(space.contains("a dump takes about ") && space.contains("a first snapshot takes "), "{space}");
}

/// One at a time makes an index that is red, or looks at all that there are.
fn red_indices() -> MutexGuard<'static, ()> {
    static RED: Mutex<()> = Mutex::new(());
    RED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the service's databases hold stays as it is, and the service runs again: it was stopped for a backup that then failed.
fn fails_after_the_stop(product: &Product, before: &Content, status: i32, code: &str) {
    product.tool("svc-unit").arg("start").run().ok();
    let process = product.process();
    let ran = product.tool("svc-upgrade").arg(product.installer("2.0.1")).run().fails(status, code);
    assert!(ran.hint().contains("Nothing was changed."), "{ran}");
    assert_eq!(step(&newest_run(product), "stop")["changed"], true, "{ran}");
    assert_ne!(product.process(), process, "the service was not stopped, so this shows nothing");
    assert!(product.is_active());
    assert_eq!(product.marker(), "1.15.5");
    let points = fs::read_dir(product.backup_dir()).map(|found| found.count()).unwrap_or(0);
    assert_eq!(points, 0, "an incomplete restore point is left");
    let repository = format!("{}_backup", product.name);
    let left = product.host.search.ask("GET", &format!("/_snapshot/{repository}/_all"), None).unwrap();
    assert_eq!(left["snapshots"].as_array().map(Vec::len), Some(0), "a snapshot of no restore point is left");
    let now = product.content().unwrap();
    assert_eq!(now.dump, before.dump);
    assert_eq!(now.indices, before.indices);
}

#[test]
fn a_dump_that_fails_after_the_stop_changes_nothing_and_the_service_runs_again() {
    let product = Product::new("updump").unwrap();
    product.install_still("1.15.5", 50).unwrap();
    // Only the dump itself finds out that it may not read this.
    product.host.postgres.sql(&product.database(), "CREATE TABLE closed AS SELECT 1 AS n").unwrap();
    let before = product.content().unwrap();

    // The snapshot is complete, its document is lost, and the cluster is away when the snapshots are to go: they are named, and what
    // removes them. Its tool has not ended when the dump fails: it is ended at once.
    let ready = product.path("ready");
    let (stubs, at) = (product.path("stub"), ready.display());
    let away = format!(
        "case $* in *'--kind upgrade'*) PATH=${{PATH#*:}} svc-snap \"$@\" >/dev/full; touch '{at}'; exec sleep 600 ;; delete*) exit 5 ;; esac"
    );
    let after = format!("case $* in *--dry-run*) ;; *--output*) until [ -e '{at}' ]; do sleep 0.1; done ;; esac");
    let upgrade = product.tool("svc-upgrade").arg(product.installer("2.0.1")).stub(&product.path("stub 2"), "svc-pgdump", &after);
    let ran = upgrade.stub(&stubs, "svc-snap", &away).run().fails(3, "permission_denied");
    let warnings = ran.doc()["warnings"].as_array().unwrap().clone();
    let id = ran.doc()["run_id"].as_str().unwrap();
    // Whoever reads only what is printed knows it too, and the next call tries it again.
    assert!(
        ran.stderr.contains("Run by hand what is left to be undone:\n  svc-")
            && ran.stderr.contains("\n  svc-snap delete snapshot_updump_"),
        "{ran}"
    );
    let recover = || product.tool("svc-run").arg("recover");
    // Where no script was ever called there is nothing to recover.
    recover().env("SVC_STATE_DIR", product.path("no state yet").display().to_string()).run().ok().unchanged();
    recover().stub(&stubs, "svc-snap", &away).run().fails(1, "run_unfinished");
    assert_eq!(ran.doc()["changed"], true, "two snapshots are left\n{ran}");
    let names = ["warm", "upgrade"].map(|kind| format!("snapshot_updump_{}_{id}_{kind}", &id[..8]));
    let commands = [format!("svc-snap delete {} ", names[0]), "--kind upgrade".to_owned()];
    let named = |warning: &Value, command: &str| {
        warning["code"] == "run_unfinished" && warning["message"].as_str().unwrap().contains(command)
    };
    assert!(commands.iter().all(|command| warnings.iter().any(|warning| named(warning, command))), "{commands:?}\n{ran}");
    recover().run().ok().changed();
    recover().run().ok().unchanged();
    for name in names {
        product.tool("svc-snap").args(["delete", &name]).run().fails(4, "snapshot_not_found");
    }
    fails_after_the_stop(&product, &before, 3, "permission_denied");
}

#[test]
fn a_signal_that_ends_a_tool_before_the_run_has_noticed_it_is_no_failure_of_the_tool() {
    let product = running("uphup");
    // What a loaded machine makes of a HUP to the whole process group: the tool is gone, and svc-run gets it later.
    let gone = "case $* in *'--layout conf --to'*) (sleep 0.3; kill -HUP $PPID) & kill -HUP $$ ;; esac";
    let upgrade = product.tool("svc-upgrade").arg(product.installer("2.0.1")).may_be_killed();
    let ran = upgrade.stub(&product.path("stub"), "svc-confsave", gone).run();
    assert_eq!((ran.status, &ran.doc()["error"]["code"]), (129, &"interrupted".into()), "{ran}");
    let resumed = product.tool("svc-upgrade").arg("--resume").run().ok();
    assert_eq!(resumed.doc()["warnings"], serde_json::json!([]), "{resumed}");
    assert!(product.is_active() && product.marker() == "2.0.1", "{resumed}");
}

#[test]
fn a_service_that_is_started_while_it_is_backed_up_is_not_upgraded() {
    // As a timer or a colleague does it.
    let starts = "case $* in *'--kind upgrade'*) svc-unit start --settle 0 >&2 ;; esac";
    let (product, ran) = undone_where("upstarted", ("svc-snap", starts), "not_quiesced");
    assert!(ran.hint().contains("Nothing was changed."), "{ran}");
    assert_eq!(fs::read_dir(product.backup_dir()).unwrap().count(), 0, "a restore point of no one moment is left");
}

#[test]
fn a_snapshot_that_fails_after_the_stop_changes_nothing_and_the_service_runs_again() {
    let _alone = red_indices();
    let product = Product::new("upsnap").unwrap();
    let before = product.install_still("1.15.5", 50).unwrap();
    // The stop of the unit creates an index that cannot be allocated: healthy before, no complete snapshot after.
    let lost = product.path("lost.json");
    fs::write(&lost, unallocatable().to_string()).unwrap();
    let url = format!("{}/upsnap-lost", product.host.search.url);
    let request = format!(
        "-/usr/bin/curl -sS -X PUT -H Content-Type:application/json -d \"@{}\" \"{url}?wait_for_active_shards=0\"",
        lost.display()
    );
    product.host.systemd.add_to_service(&product.unit(), &format!("ExecStopPost={request}")).unwrap();
    product.host.systemd.add_to_service(&product.unit(), &format!("ExecStartPre=-/usr/bin/curl -sS -X DELETE {url}")).unwrap();
    fails_after_the_stop(&product, &before, 7, "indices_red");
}

#[test]
fn an_index_that_cannot_be_allocated_is_found_before_the_stop() {
    let _alone = red_indices();
    let product = running("upred");
    let process = product.process();
    product.host.search.ask("PUT", "/upred-lost?wait_for_active_shards=0", Some(&unallocatable())).unwrap();
    product.tool("svc-upgrade").arg(product.installer("2.0.1")).run().fails(7, "indices_red").unchanged();
    assert_eq!(product.marker(), "1.15.5");
    assert_eq!(product.process(), process);
    assert!(!product.backup_dir().exists());
}

#[test]
fn a_signal_between_the_stop_and_the_installer_starts_the_service_again() {
    let product = running("upsignal");
    let upgrade = product.tool("svc-upgrade").arg(product.installer("2.0.1"));
    let (_, ran) = signal_at(&product, upgrade, (Signal::SIGTERM, false), "dump.started");
    assert_eq!(ran.doc()["error"]["code"], "interrupted");
    assert!(ran.steps().contains(&"dump") && !ran.steps().contains(&"installer"), "{ran}");
    assert!(product.is_active() && product.marker() == "1.15.5", "{ran}");
    let points = fs::read_dir(product.backup_dir()).map(|found| found.count()).unwrap_or(0);
    assert_eq!(points, 0, "an incomplete restore point is left");
}

#[test]
fn a_second_run_at_the_same_time_is_locked_out() {
    let product = running("uplock");
    let lock = fs::File::open(product.state_dir().join("lock")).unwrap();
    lock.lock().unwrap();
    product.tool("svc-upgrade").arg(product.installer("2.0.1")).run().fails(8, "locked").unchanged();
    product.tool("svc-backup").run().fails(8, "locked").unchanged();
    lock.unlock().unwrap();
    product.tool("svc-backup").run().ok();
}

#[test]
fn a_dry_run_leaves_everything_as_it_is_and_prints_the_commands_that_do_the_same_when_they_are_typed() {
    let product = running("updry");
    let runs = fs::read_dir(product.state_dir().join("runs")).unwrap().count();
    let dry_run = || product.tool("svc-upgrade").args(["--dry-run", "--installer-arg"]);
    // As short as it is, it is in every path.
    let ran = dry_run().arg("1").arg(product.installer("2.0.1")).talks().run().ok().unchanged();
    let refused = dry_run().arg("<redacted>").arg(product.installer("2.0.1")).run();
    assert_eq!(refused.status, 2, "{refused}");
    let plan: Vec<&str> = ran.result()["plan"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect();
    for wanted in ["svc-unit stop", "svc-snap create", "svc-pgdump", "updry-2.0.1.run", "svc-unit start"] {
        assert!(plan.iter().any(|line| line.contains(wanted)), "{wanted} is not in {plan:#?}");
    }
    assert!(!plan.iter().any(|line| line.contains("--rate-limit")), "others share the search database: {plan:#?}");
    assert_eq!(fs::read_dir(product.state_dir().join("runs")).unwrap().count(), runs);
    assert!(!product.backup_dir().exists());
    assert!(product.is_active());

    let ran = product.tool("svc-upgrade").arg("--dry-run").arg(product.installer("2.0.1")).talks().run().ok();
    let folder = product.type_plan(&ran);
    assert_eq!(product.marker(), "2.0.1");
    assert!(product.is_active());
    for document in ["snapshot.json", "dump.json"] {
        let text = fs::read_to_string(folder.join(document)).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap()["ok"], true, "{text}");
    }
}

#[test]
fn the_snapshot_of_an_upgrade_goes_without_the_throttle_where_the_search_database_is_the_services_alone() {
    let _alone = red_indices();
    let product = running("uprate");
    let create = |settings: &[(&str, &str)]| {
        let tool = product.tool("svc-upgrade").args(["--dry-run"]).arg(product.installer("2.0.1")).talks();
        let ran = tool.envs(settings.iter().copied()).run().ok();
        let plan = ran.result()["plan"].as_array().unwrap().iter();
        plan.map(|line| line.as_str().unwrap().to_owned())
            .find(|line| line.contains("svc-snap create") && line.contains("--kind upgrade"))
            .unwrap()
    };
    assert!(create(&[("SVC_INDICES", "*")]).contains(" --rate-limit none"));
    assert!(
        !create(&[("SVC_INDICES", "*"), ("SVC_SEARCH_RATE_LIMIT", "50mb")]).contains("--rate-limit"),
        "the setting says how fast"
    );
}

#[test]
fn a_backup_of_a_running_service_says_that_it_was_not_quiesced() {
    let product = running("upbackup");
    let ran = product.tool("svc-backup").args(["--because", "a look at it"]).run().ok().changed();
    let point = PathBuf::from(ran.result()["restore_point"].as_str().unwrap());
    let about: Value = serde_json::from_str(&fs::read_to_string(point.join("restore-point.json")).unwrap()).unwrap();
    assert_eq!((&about["quiesced"], &about["kind"]), (&Value::from(false), &Value::from("manual")));
    assert!(product.is_active());
    let run_dir = PathBuf::from(ran.result()["run_dir"].as_str().unwrap());
    assert_eq!(step(&run_dir, "snapshot")["result"]["snapshot"]["metadata"]["taken_because"], "a look at it");
}

#[test]
fn an_installer_that_fails_names_the_way_back() {
    let product = running("uphalf");
    let ran = product.tool("svc-upgrade").arg(product.failing_installer()).run();
    assert_eq!(ran.status, 1, "{ran}");
    let point = ran.result()["restore_point"].as_str().unwrap();
    let hint = ran.hint();
    assert!(hint.contains("svc-rollback") && hint.contains(Path::new(point).file_name().unwrap().to_str().unwrap()), "{ran}");
    // By its name svc-rollback would take it once more although that was done already.
    assert!(!hint.contains(&format!("svc-rollback {point}")) && !hint.contains(&format!("svc-rollback '{point}")), "{ran}");
    // What a failed command changed is not known.
    assert_ne!(ran.doc()["changed"], false);
}

#[test]
fn a_hook_that_others_can_write_is_refused_and_one_of_ones_own_runs_with_the_version() {
    let product = running("uphook");
    let hooks = product.path("hooks");
    let hook = hooks.join("post-install/10-modules");
    fs::create_dir_all(hook.parent().unwrap()).unwrap();
    os::write_program(&hook, format!("#!/bin/sh\necho \"$SVC_VERSION\" >'{}'\n", product.path("hook.out").display())).unwrap();
    let upgrade = || product.tool("svc-upgrade").arg(product.installer("2.0.1")).env("SVC_HOOKS_DIR", &hooks);
    let process = product.process();
    for unsafe_path in [&hook, &hook.parent().unwrap().to_owned(), &hooks] {
        fs::set_permissions(unsafe_path, fs::Permissions::from_mode(0o777)).unwrap();
        upgrade().run().refused("permission_denied");
        fs::set_permissions(unsafe_path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    // A journal could not tell these apart, and would skip the second when it resumes.
    let alike = hook.with_file_name("10-modules.sh");
    for name in [&alike, &hook.with_file_name("10-modules-sh")] {
        fs::copy(&hook, name).unwrap();
    }
    upgrade().run().refused("name_in_use").error_has(&["10-modules"]);
    fs::remove_file(&alike).unwrap();
    assert_eq!((product.process(), product.marker()), (process, "1.15.5".to_owned()));
    upgrade().run().ok();
    assert_eq!(fs::read_to_string(product.path("hook.out")).unwrap(), "2.0.1\n");
}
