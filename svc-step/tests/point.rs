//! `svc-point` as a script calls it, with restore points and journals made by hand, and a `svc-snap` that says what a test wants.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::string_slice, clippy::type_complexity)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};
use svc_step::journal::{Notes, Plan};

/// The directories of a host.
struct Host {
    dir: tempfile::TempDir,
}

/// What a call has left.
struct Ran {
    status: i32,
    stdout: String,
    stderr: String,
}

impl Ran {
    fn doc(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|_| panic!("{}\n{}", self.stdout, self.stderr))
    }

    fn result(&self) -> Value {
        self.doc()["result"].clone()
    }

    /// The exit status and the code of the failure.
    fn code(&self) -> (i32, String) {
        (self.status, self.doc()["error"]["code"].as_str().unwrap_or_default().to_owned())
    }

    /// A key of each restore point.
    fn each(&self, key: &str) -> Vec<String> {
        self.result()["points"].as_array().unwrap().iter().map(|one| one[key].as_str().unwrap_or_default().to_owned()).collect()
    }
}

/// A document of a tool.
fn document(schema: &str, ok: bool, result: &Value) -> Value {
    let error = json!({"code": "snapshot_not_found", "message": "No.", "hint": null, "retryable": false, "causes": []});
    json!({"schema": schema, "tool": "t", "step": "s", "ok": ok, "changed": ok, "dry_run": false, "run_id": "r", "host": "h",
        "started_at": "2026-01-01T00:00:00Z", "finished_at": "2026-01-01T00:00:00Z", "duration_ms": 1, "result": result,
        "warnings": [], "error": if ok { Value::Null } else { error }})
}

fn ago(days: i64) -> jiff::Timestamp {
    jiff::Timestamp::now() - jiff::SignedDuration::from_hours(24 * days)
}

impl Host {
    fn new() -> Self {
        let host = Self { dir: tempfile::tempdir().unwrap() };
        fs::create_dir_all(host.path("bin")).unwrap();
        fs::create_dir_all(host.path("state/runs")).unwrap();
        host.snap(0, &document("svc-snap.show/1", true, &json!({})));
        host
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// What `svc-snap` is to say from now on.
    fn snap(&self, status: i32, document: &Value) {
        let (log, stub) = (self.path("snap.log"), self.path("bin/svc-snap"));
        fs::write(self.path("snap.json"), document.to_string()).unwrap();
        let text =
            format!("#!/bin/sh\necho \"$@\" >>'{}'\ncat '{}'\nexit {status}\n", log.display(), self.path("snap.json").display());
        fs::write(&stub, text).unwrap();
        fs::set_permissions(&stub, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn calls(&self) -> String {
        fs::read_to_string(self.path("snap.log")).unwrap_or_default()
    }

    fn run(&self, args: &[&str]) -> Ran {
        self.run_in("20261120t020003z-test", args)
    }

    fn run_in(&self, run: &str, args: &[&str]) -> Ran {
        let path = format!("{}:/usr/bin:/bin", self.path("bin").display());
        let Output { status, stdout, stderr } = Command::new(env!("CARGO_BIN_EXE_svc-point"))
            .args(args)
            .env_clear()
            .env("PATH", path)
            .env("SVC_ENVIRONMENT_FILE", "/dev/null")
            .env("SVC_STATE_DIR", self.path("state"))
            .env("SVC_BACKUP_DIR", self.path("backups"))
            .env("SVC_RUN_ID", run)
            .output()
            .unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Ran { status: status.code().unwrap(), stdout: text(stdout), stderr: text(stderr) }
    }

    /// A restore point of a kind, made so many days ago.
    fn point(&self, kind: &str, days: i64, quiesced: bool) -> PathBuf {
        let id = format!("{}-{kind}-2.0.1", ago(days).strftime("%Y%m%dt%H%M%Sz"));
        let point = self.path("backups").join(&id);
        fs::create_dir_all(&point).unwrap();
        let made = ago(days).strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let about = json!({"schema": "svc-restore-point/1", "id": id, "kind": kind, "made_at": made, "version": "1.15.5",
            "database": "svc_db", "quiesced": quiesced});
        fs::write(point.join("restore-point.json"), about.to_string()).unwrap();
        fs::write(point.join("svc_db.backup.sql"), "dump").unwrap();
        let dump = document("svc-pgdump.dump/1", true, &json!({"size_bytes": 4}));
        fs::write(point.join("pgdump.json"), dump.to_string()).unwrap();
        fs::write(point.join("snapshot.json"), document("svc-snap.create/1", true, &json!({})).to_string()).unwrap();
        finalize(&point);
        point
    }

    /// A run of a script, with steps that were begun, its point of no return among them; how it has ended, if it has.
    fn journal(&self, id: &str, script: &str, parent: Option<&str>, steps: &[&str], ended: Option<(bool, Value)>) -> PathBuf {
        let run = self.path("state/runs").join(id);
        fs::create_dir_all(&run).unwrap();
        let settings = [("SVC_BACKUP_DIR".to_owned(), self.path("backups").display().to_string())].into();
        let parent = parent.map(str::to_owned);
        let plan = Plan { script: script.to_owned(), parent, settings, ..Plan::default() };
        fs::write(run.join("plan.json"), serde_json::to_vec(&plan).unwrap()).unwrap();
        for (at, step) in steps.iter().enumerate() {
            if *step == "commit" {
                let notes = Notes { commit: Some(String::new()), ..Notes::default() };
                fs::write(run.join("notes.json"), serde_json::to_vec(&notes).unwrap()).unwrap();
                continue;
            }
            fs::write(run.join(format!("{:02}-{step}.started", at + 1)), "step\n").unwrap();
        }
        if let Some((ok, result)) = ended {
            let schema = format!("{script}.run/1");
            fs::write(run.join("document.json"), document(&schema, ok, &result).to_string()).unwrap();
        }
        run
    }
}

fn finalize(point: &Path) {
    let sums = "find . -type f ! -name 'SHA256SUMS*' -print0 | xargs -0 sha256sum >SHA256SUMS.new; mv SHA256SUMS.new SHA256SUMS";
    assert!(Command::new("sh").args(["-c", sums]).current_dir(point).status().unwrap().success());
}

fn id(point: &Path) -> String {
    point.file_name().unwrap().to_string_lossy().into_owned()
}

#[test]
fn choose_takes_restore_point_of_last_upgrade() {
    let host = Host::new();
    assert_eq!(host.run(&["choose"]).code(), (4, "point_not_found".to_owned()));
    let point = host.point("upgrade", 10, true);
    let upgrade = id(&point);
    let run = host.journal(
        &upgrade,
        "svc-upgrade",
        Some("20000101t000000z-hops"),
        &["new", "stop", "installer"],
        Some((true, json!({}))),
    );
    let chosen = host.run(&["choose"]).result();
    assert_eq!((&chosen["path"], &chosen["upgrade_run"]), (&json!(point), &json!(run)));
    assert_eq!(
        (&chosen["version"], &chosen["database"], &chosen["kind"]),
        (&json!("1.15.5"), &json!("svc_db"), &json!("upgrade"))
    );
    // A plan that a power cut has emptied: the run is known by its directory.
    let plan = fs::read(run.join("plan.json")).unwrap();
    fs::write(run.join("plan.json"), "").unwrap();
    assert_eq!(host.run(&["choose"]).result()["path"], json!(point));
    fs::write(run.join("plan.json"), plan).unwrap();

    let at = |days: i64, name: &str| format!("{}-{name}", ago(days).strftime("%Y%m%dt%H%M%Sz"));
    let other = json!({"restore_point": "/elsewhere/20000101t000000z-upgrade-1.0.0"});
    let this = json!({"restore_point": format!("/elsewhere/{upgrade}")});
    let table: [(&str, &str, Option<&str>, &[&str], _, Option<&str>); 10] = [
        ("svc-rollback", "rollback", None, &["point", "commit"], None, Some("run_unfinished")),
        ("svc-rollback", "rollback", None, &["point", "commit"], Some((false, json!({}))), Some("run_unfinished")),
        ("svc-rollback", "rollback", None, &["point"], None, None),
        ("svc-rollback", "rollback", None, &["commit", "stop"], Some((true, this)), Some("not_resumable")),
        ("svc-rollback", "rollback", None, &["commit", "stop"], Some((true, other)), Some("not_resumable")),
        // It has discarded what another one had replaced.
        ("svc-rollback", "rollback-discard", None, &["discard-search"], Some((true, json!({}))), None),
        ("svc-upgrade", "upgrade-2.0.2", None, &["present", "new"], Some((false, json!({}))), Some("not_resumable")),
        ("svc-upgrade", "upgrade-hops", None, &["plan"], Some((false, json!({}))), Some("not_resumable")),
        ("svc-upgrade", "upgrade-2.0.2", Some("20000101t000000z-hops"), &["new"], Some((false, json!({}))), None),
        ("svc-upgrade", "upgrade-2.0.2", None, &["present"], Some((false, json!({}))), None),
    ];
    for (script, name, parent, steps, ended, code) in table {
        let later = host.journal(&at(2, name), script, parent, steps, ended.clone());
        let expected = code.map_or((0, String::new()), |code| (3, code.to_owned()));
        let ran = host.run(&["choose"]);
        assert_eq!(ran.code(), expected, "{script} {steps:?} {ended:?}");
        // Whoever names it means it.
        assert_eq!(host.run(&["choose", &upgrade]).status, 0);
        fs::remove_dir_all(later).unwrap();
    }
    // One that was repaired by hand is not resumed, and what was written since is not removed.
    let cut = host.journal(&at(2, "rollback"), "svc-rollback", None, &["commit"], None);
    let repaired = host.journal(&at(1, "backup-manual"), "svc-backup", None, &[], Some((true, json!({}))));
    let plan = fs::read_to_string(repaired.join("plan.json")).unwrap();
    fs::write(repaired.join("plan.json"), plan.replace("\"arguments\":[]", "\"arguments\":[\"--ignore-unfinished\"]")).unwrap();
    assert_eq!(host.run(&["choose"]).code(), (3, "not_resumable".to_owned()));
    [cut, repaired].into_iter().for_each(|run| fs::remove_dir_all(run).unwrap());
    // A later upgrade's installer makes it another one's turn; the earlier one is no more the upgrade that is rolled back.
    host.journal(&at(1, "upgrade-2.0.2"), "svc-upgrade", None, &["new", "installer"], None);
    assert_eq!(host.run(&["choose"]).code(), (4, "point_not_found".to_owned()));
    assert_eq!(host.run(&["choose", &upgrade]).result()["upgrade_run"], Value::Null);
    // Of another product.
    assert_eq!(host.run(&["choose", &upgrade, "--service", "other"]).code(), (3, "settings_invalid".to_owned()));
}

#[test]
fn unquiesced_or_damaged_restore_point_is_refused() {
    let host = Host::new();
    let point = host.point("nightly", 1, false);
    let name = id(&point);
    let choose = |more: &[&str]| host.run(&[&["choose", &name][..], more].concat());
    assert_eq!(choose(&[]).code(), (3, "not_quiesced".to_owned()));
    // Typed as it stands, the hint takes the same point.
    let path = format!("{}/", point.display());
    let hint = host.run(&["choose", &path]).doc()["error"]["hint"].clone();
    assert_eq!(
        hint,
        format!("If that is acceptable, with the other options of this call:\n  svc-rollback --accept-unquiesced {path}")
    );
    assert_eq!(choose(&["--accept-unquiesced"]).result()["quiesced"], json!(false));
    let rehearsed = host.run(&["choose", "--rehearse"]);
    assert_eq!(
        (rehearsed.result()["path"].clone(), &rehearsed.doc()["warnings"][0]["code"]),
        (json!(point), &json!("not_quiesced"))
    );
    assert_eq!(host.run(&["choose", "--rehearse", "--version", "1.15.5", "--max-age", "26h"]).status, 0);
    for other in [["--version", "1.15.6"], ["--max-age", "1h"]] {
        assert_eq!(host.run(&[&["choose", "--rehearse"][..], &other].concat()).code(), (4, "point_not_found".to_owned()));
    }
    // The dump is read by whoever restores it.
    fs::write(point.join("svc_db.backup.sql"), "DUMP").unwrap();
    assert_eq!(choose(&["--accept-unquiesced"]).status, 0);
    fs::write(point.join("snapshot.json"), "{}").unwrap();
    let damaged = choose(&["--accept-unquiesced"]);
    assert_eq!(damaged.code(), (7, "point_invalid".to_owned()));
    assert!(damaged.stderr.contains("snapshot.json is not what"), "{}", damaged.stderr);
    fs::remove_file(point.join("SHA256SUMS")).unwrap();
    assert_eq!(choose(&["--accept-unquiesced"]).code(), (4, "point_not_found".to_owned()));
}

#[test]
fn list_and_age_report_state_of_restore_points() {
    let host = Host::new();
    assert_eq!(host.run(&["list"]).result()["points"], json!([]));
    let none = host.run(&["age", "--max-age", "26h", "--table"]);
    assert!(none.status == 7 && none.stdout.starts_with("There is no valid restore point in "), "{}", none.stdout);
    let changed = host.point("manual", 5, true);
    fs::write(changed.join("svc_db.backup.sql"), "DUMP").unwrap();
    host.point("nightly", 4, true);
    let cut = host.point("nightly", 3, true);
    fs::remove_file(cut.join("SHA256SUMS")).unwrap();
    let short = host.point("nightly", 2, true);
    fs::write(short.join("svc_db.backup.sql"), "d").unwrap();
    let empty = host.point("upgrade", 1, true);
    fs::write(empty.join("SHA256SUMS"), "").unwrap();
    let running = host.path("backups").join(format!("{}-backup-nightly", ago(0).strftime("%Y%m%dt%H%M%Sz")));
    fs::create_dir(&running).unwrap();
    fs::create_dir(host.path("backups/lost+found")).unwrap();
    host.journal(&id(&running), "svc-backup", Some("20260101t000000z-nightly"), &[], None);
    host.journal("20260101t000000z-nightly", "svc-nightly", None, &[], None);
    let lock = fs::File::create(host.path("state/lock")).unwrap();
    fs::write(host.path("state/lock"), "20260101t000000z-nightly\n").unwrap();
    lock.lock().unwrap();

    let ran = host.run(&["list"]);
    assert_eq!(ran.each("state"), ["valid", "valid", "incomplete", "damaged", "damaged", "running"]);
    assert_eq!(ran.each("kind"), ["manual", "nightly", "nightly", "nightly", "upgrade", "nightly"]);
    let damaged: Vec<Value> = ran.result()["points"].as_array().unwrap().iter().map(|one| one["damaged_files"].clone()).collect();
    assert_eq!(damaged[3..5], [json!(["svc_db.backup.sql"]), json!(["SHA256SUMS"])]);
    assert_eq!(host.run(&["list", "--read-all"]).each("state")[0], "damaged");
    lock.unlock().unwrap();
    assert_eq!(host.run(&["list"]).each("state")[5], "incomplete");
    let table = host.run(&["list", "--table"]).stdout;
    let of_point = |line: &&str| line.contains("-2.0.1 ") || line.contains("-backup-nightly ");
    assert!(table.lines().filter(of_point).count() == 6 && table.contains("QUIESCED"), "{table}");
    assert!(table.contains("damaged files: SHA256SUMS") && table.lines().all(|line| line.chars().count() <= 80), "{table}");

    let old = host.run(&["age", "--max-age", "26h", "--table"]);
    assert!(old.status == 7 && old.stdout.ends_with(" is 96 h 0 min old.\n") && old.stderr.contains("hint: "), "{}", old.stdout);
    assert_eq!(host.run(&["age", "--max-age", "5d"]).status, 0);
    host.point("manual", -1, true);
    let future = host.run(&["age", "--max-age", "5d"]);
    assert!(future.code().0 == 7 && future.stderr.contains("is dated in the future"), "{}", future.stderr);
}

#[test]
fn prune_and_delete_remove_point_with_its_snapshot() {
    let host = Host::new();
    let (old, newest) = (host.point("nightly", 40, true), host.point("nightly", 1, true));
    let manual = host.point("manual", 50, true);
    let prune = || host.run(&["prune", "--min-count", "1"]);
    // Nothing is known of the newest one's snapshot, or it does not exist.
    for (status, reason) in [(5, None), (4, Some(["other_kind", "none_verified", "none_verified"]))] {
        host.snap(status, &document("svc-snap.show/1", false, &Value::Null));
        let ran = prune();
        assert_eq!((ran.status, ran.doc()["changed"].clone()), (if reason.is_some() { 0 } else { 5 }, json!(false)));
        if let Some(reason) = reason {
            assert_eq!(ran.each("reason"), reason);
        }
    }
    host.snap(0, &document("svc-snap.show/1", true, &json!({})));
    // A copy that somebody has made beside it has the same snapshot.
    let copy = host.path("backups").join(format!("{}-backup-nightly", ago(45).strftime("%Y%m%dt%H%M%Sz")));
    assert!(Command::new("cp").arg("-a").args([&old, &copy]).status().unwrap().success());
    assert_eq!(host.run(&["delete", &id(&copy)]).code(), (3, "not_removed".to_owned()));
    let reasons = host.run(&["prune", "--min-count", "1", "--dry-run"]).each("reason");
    assert_eq!(reasons, ["other_kind", "damaged", "max_age", "newest"]);
    fs::remove_dir_all(copy).unwrap();
    // A rollback that is to be resumed needs it.
    let run = host.journal(&format!("{}-rollback", ago(0).strftime("%Y%m%dt%H%M%Sz")), "svc-rollback", None, &["commit"], None);
    let notes = fs::read_to_string(run.join("notes.json")).unwrap();
    let facts = json!({"restore_point": old}).to_string();
    fs::write(run.join("notes.json"), notes.replace("\"facts\":{}", &format!("\"facts\":{facts}"))).unwrap();
    assert_eq!(prune().each("reason"), ["other_kind", "needed", "newest"]);
    let delete = host.run(&["delete", &id(&old)]);
    assert_eq!((delete.code(), delete.doc()["changed"].clone()), ((3, "not_removed".to_owned()), json!(false)));
    fs::remove_dir_all(run).unwrap();
    let dry = host.run(&["prune", "--min-count", "1", "--dry-run"]);
    assert_eq!(dry.result()["plan"].as_array().unwrap().len(), 3);
    assert!(old.join("SHA256SUMS").exists() && !host.calls().contains("delete"));
    let ran = prune();
    assert_eq!(ran.each("reason"), ["other_kind", "max_age", "newest"]);
    assert_eq!(ran.result()["removed"], json!([id(&old)]));
    assert!(!old.exists() && host.calls().contains(&format!("delete --from {}/snapshot.json --cancel", old.display())));
    assert_eq!(prune().doc()["changed"], json!(false));

    assert_eq!(host.run(&["delete", &id(&newest)]).code(), (3, "not_removed".to_owned()));
    assert_eq!(host.run(&["delete", &id(&manual), "20260101t000000z-x"]).code(), (4, "point_not_found".to_owned()));
    let mut down = document("svc-snap.delete/1", false, &Value::Null);
    down["error"]["code"] = json!("search_unreachable");
    host.snap(5, &down);
    let ran = host.run(&["delete", &id(&manual)]);
    assert_eq!((ran.code(), ran.doc()["changed"].clone()), ((5, "search_unreachable".to_owned()), json!(true)));
    assert_eq!(ran.result()["partially_removed"], json!(id(&manual)));
    assert!(manual.exists() && !manual.join("SHA256SUMS").exists());
    // One in whose repository another cluster has written stays: that can be put right.
    down["error"]["code"] = json!("repository_shared");
    host.snap(7, &down);
    assert_eq!(host.run(&["delete", &id(&manual)]).code(), (7, "repository_shared".to_owned()));
    assert!(manual.exists());
    // One whose snapshot is of another cluster goes, and the snapshot stays.
    down["error"]["code"] = json!("other_server");
    host.snap(3, &down);
    let ran = host.run(&["delete", &id(&manual)]);
    assert_eq!(
        (ran.status, &ran.doc()["warnings"][0]["code"], &ran.result()["partially_removed"]),
        (0, &json!("not_removed"), &Value::Null)
    );
    assert!(!manual.exists() && newest.exists());
}

#[test]
fn old_unneeded_run_directories_are_pruned() {
    let host = Host::new();
    let pointed = host.point("upgrade", 1200, true);
    let ok = || Some((true, json!({})));
    let stay = [
        host.journal(&id(&pointed), "svc-upgrade", None, &["installer"], ok()),
        host.journal("20250101t000000z-hops", "svc-upgrade", None, &["plan"], ok()),
        host.journal("20250102t000000z-upgrade-2.0.1", "svc-upgrade", Some("20250101t000000z-hops"), &["installer"], ok()),
        host.journal("20240101t000000z-rollback", "svc-rollback", None, &["stop"], ok()),
        host.journal("20250104t000000z-nightly", "svc-nightly", None, &["backup"], None),
    ];
    let go = [
        host.journal("20230101t000000z-upgrade-1.15.5", "svc-upgrade", None, &["installer"], ok()),
        host.journal("20240102t000000z-backup-manual", "svc-backup", None, &["dump"], Some((false, json!({})))),
        host.journal("20240103t000000z-prune", "svc-backup", None, &[], ok()),
    ];
    let copies = host.path("state/swaps/20240101t000000z-rollback.svc-snap.json");
    fs::create_dir_all(host.path("state/swaps")).unwrap();
    fs::write(&copies, "{}").unwrap();
    fs::create_dir_all(host.path("state/runs/by-hand")).unwrap();
    fs::create_dir_all(host.path("state/runs/.pruned-20230101t000000z-x")).unwrap();
    let young = host.journal("20240104t000000z-prune", "svc-backup", None, &[], ok());
    for run in fs::read_dir(host.path("state/runs")).unwrap().map(|run| run.unwrap().path()).filter(|run| *run != young) {
        assert!(Command::new("touch").args(["-d", "100 days ago"]).arg(run).status().unwrap().success());
    }
    assert_eq!(host.run(&["prune", "--keep-runs", "none"]).doc()["changed"], json!(false));
    let ran = host.run(&["prune"]);
    assert_eq!(ran.result()["removed_runs"], json!(go.each_ref().map(|run| id(run))), "{}", ran.stdout);
    assert!(stay.iter().all(|run| run.exists()) && young.exists() && host.path("state/runs/by-hand").exists());
    assert!(!host.path("state/runs/.pruned-20230101t000000z-x").exists());
    fs::remove_file(copies).unwrap();
    assert_eq!(host.run(&["prune"]).result()["removed_runs"], json!(["20240101t000000z-rollback"]));
}

/// A run that has made a restore point as far as `finalize`.
fn begun(host: &Host, run: &str) -> PathBuf {
    let point = host.path("backups").join(run);
    let created = host.run_in(run, &["create", point.to_str().unwrap()]);
    assert_eq!((created.status, created.doc()["changed"].clone()), (0, json!(true)), "{}", created.stderr);
    let dir =
        host.journal(run, "svc-backup", None, &["configuration", "version", "snapshot", "dump", "unit-after", "point"], None);
    fs::write(point.join("svc_db.backup.sql"), "dump").unwrap();
    let sum = "e0a6d5f9d3e5b0b8ff0a5ae5f1e1b5c27ba5e1f0d8ef0d4e7b8a8a1e3c6f2b11";
    let dump = json!({"path": point.join("svc_db.backup.sql"), "database": "svc_db", "size_bytes": 4, "sha256": sum});
    let unit = |state: &str| json!({"after": {"active_state": state, "job_pending": false}});
    for (name, schema, result) in [
        ("01-configuration", "svc-confsave.save/1", json!({})),
        ("02-version", "svc-version.current/1", json!({"version": "1.15.5"})),
        ("03-snapshot", "svc-snap.create/1", json!({"name": "s"})),
        ("04-dump", "svc-pgdump.dump/1", dump),
        ("05-unit-after", "svc-unit.status/1", unit("inactive")),
        ("active", "svc-unit.status/1", unit("active")),
    ] {
        fs::write(dir.join(format!("{name}.json")), document(schema, true, &result).to_string()).unwrap();
    }
    point
}

#[test]
fn finalize_and_remove_restore_point_of_run() {
    let host = Host::new();
    let run = "20261120t020003z-upgrade-2.0.1";
    let point = begun(&host, run);
    assert_eq!(fs::metadata(&point).unwrap().permissions().mode() & 0o777, 0o700);
    let unit = |name: &str| host.path("state/runs").join(run).join(name).display().to_string();
    let (down, active) = (unit("05-unit-after.json"), unit("active.json"));
    let finalize = |kind: &str, last: &str| {
        let documents = ["01-configuration", "02-version", "03-snapshot", "04-dump"].map(|name| unit(&format!("{name}.json")));
        let documents = documents.each_ref().map(String::as_str);
        let call = ["finalize", point.to_str().unwrap(), "--kind", kind, "--unit", &down, "--unit", last];
        host.run_in(run, &[&call[..], &documents].concat())
    };
    let started = finalize("upgrade", &active);
    assert_eq!((started.code(), started.doc()["changed"].clone()), ((1, "not_quiesced".to_owned()), json!(false)));
    let running = finalize("manual", &active);
    assert_eq!((running.status, &running.result()["quiesced"]), (0, &json!(false)));
    // A service that was stopped for it, and was started meanwhile.
    fs::remove_file(point.join("SHA256SUMS")).unwrap();
    let stop = fs::read_to_string(&down).unwrap().replace("svc-unit.status/1", "svc-unit.stop/1");
    fs::write(&down, stop).unwrap();
    let started = finalize("manual", &active);
    assert_eq!((started.status, &started.doc()["warnings"][0]["code"]), (9, &json!("not_quiesced")));
    fs::remove_file(point.join("SHA256SUMS")).unwrap();
    let done = finalize("upgrade", &down);
    let result = done.result();
    assert_eq!(
        (&result["quiesced"], &result["version"], &result["id"]),
        (&json!(true), &json!("1.15.5"), &json!(run)),
        "{}",
        done.stderr
    );
    let sums = fs::read_to_string(point.join("SHA256SUMS")).unwrap();
    let names: Vec<&str> = sums.lines().map(|line| &line[66..]).collect();
    let wanted =
        ["./svc_db.backup.sql", "./confsave.json", "./pgdump.json", "./restore-point.json", "./snapshot.json", "./version.json"];
    assert_eq!(names, wanted);
    assert_eq!(host.run(&["list"]).each("state"), ["valid"]);
    let again = finalize("upgrade", &down);
    assert_eq!((again.doc()["changed"].clone(), &again.result()["made_at"]), (json!(false), &result["made_at"]));
    // The undo list of a run that was killed just then removes neither it nor its snapshot.
    let remove =
        |more: &[&str]| host.run_in(run, &[&["remove", "--kind", "upgrade", point.to_str().unwrap()][..], more].concat());
    let stays = remove(&[]);
    assert_eq!((stays.status, stays.doc()["changed"].clone(), host.calls()), (0, json!(false), String::new()));

    fs::remove_file(point.join("SHA256SUMS")).unwrap();
    // As long as the snapshot is left, it is not done: whoever undoes it comes again.
    let mut away = document("svc-snap.delete/1", false, &Value::Null);
    away["error"]["code"] = json!("search_unreachable");
    host.snap(5, &away);
    let failed = remove(&[]);
    assert_eq!((failed.code(), point.exists()), ((5, "search_unreachable".to_owned()), true));
    host.snap(0, &document("svc-snap.delete/1", true, &json!({})));
    let gone = remove(&[]);
    let delete = format!("delete snapshot_svc_20261120_{run}_upgrade --cancel\n");
    assert!(gone.status == 0 && !point.exists() && host.calls() == delete.repeat(2), "{}", gone.stderr);
    // It may be in another directory now, and its snapshot that of a valid restore point.
    assert_eq!((remove(&[]).doc()["changed"].clone(), host.calls().lines().count()), (json!(false), 2));
    assert_eq!(
        host.run(&["remove", "--kind", "manual", host.path("state").to_str().unwrap()]).code(),
        (3, "point_not_found".to_owned())
    );
}

#[test]
fn remove_after_failed_dump_or_snapshot_keeps_other() {
    for (fails, sentence, calls) in [
        ("04-dump", "The snapshot is valid and kept. See ", ""),
        (
            "03-snapshot",
            "The dump is valid and kept. See ",
            "delete snapshot_svc_20261120_20261120t020003z-backup-nightly_nightly --cancel\n",
        ),
    ] {
        let host = Host::new();
        let run = "20261120t020003z-backup-nightly";
        let point = begun(&host, run);
        let mut failed = document("t.s/1", false, &Value::Null);
        failed["changed"] = Value::Null;
        fs::write(host.path("state/runs").join(run).join(format!("{fails}.json")), failed.to_string()).unwrap();
        let ran = host.run_in(run, &["remove", "--kind", "nightly", point.to_str().unwrap()]);
        assert!(ran.result()["message"].as_str().unwrap().starts_with(sentence), "{}", ran.stdout);
        assert_eq!((ran.result()["incomplete_point"].clone(), host.calls().as_str()), (json!(point), calls));
        assert_eq!(point.join("pgdump.json").exists(), fails != "04-dump");
        assert_eq!(host.run(&["list"]).each("state"), ["incomplete"]);
    }
}

#[test]
fn out_of_space_is_warning_unless_certain() {
    let host = Host::new();
    let write = |name: &str, result: Value| {
        fs::write(host.path(name), document("t.s/1", true, &result).to_string()).unwrap();
        host.path(name).display().to_string()
    };
    let disk = |level: &str| json!({"indices_bytes": 5000, "disks": [{"node": "n1", "level": level}], "repository": {"location": host.path("state")}});
    let (free, flooded) = (write("free", disk("free")), write("flooded", disk("past_flood_stage")));
    let (none, some) = (write("none", json!({"snapshots_count": 0})), write("some", json!({"snapshots_count": 3})));
    let (small, large) =
        (write("small", json!({"expected_bytes": 2048})), write("large", json!({"expected_bytes": u64::MAX / 2})));
    let space = |search: &str, repository: &str, database: &str| {
        host.run(&["space", "--search", search, "--repository", repository, "--database", database])
    };
    let ran = space(&free, &none, &small);
    let summary = ran.result()["summary"].as_str().unwrap().to_owned();
    assert!(summary.contains("a dump takes about 2.00 KiB") && summary.contains("a first snapshot takes 4.88 KiB"), "{summary}");
    assert_eq!((ran.doc()["warnings"].clone(), &ran.result()["one_disk"]), (json!([]), &json!(true)));
    assert_eq!(space(&free, &some, &small).result()["snapshot_bytes"], Value::Null);
    assert_eq!(space(&free, &none, &large).doc()["warnings"][0]["code"], json!("out_of_space"));
    assert_eq!(space(&flooded, &some, &small).code(), (3, "out_of_space".to_owned()));
    assert_eq!(host.run(&["space", "--search", "/nowhere"]).status, 0);
}

#[test]
fn rehearsal_reports_count_comparison_and_timings() {
    let host = Host::new();
    let point = host.point("nightly", 1, false);
    let dump = json!({"row_count": 9, "tables": [{"schema": "public", "name": "b", "row_count": 3}, {"schema": "public", "name": "a", "row_count": 2},
        {"schema": "public", "name": "b", "row_count": 4}]});
    fs::write(point.join("pgdump.json"), document("svc-pgdump.dump/1", true, &dump).to_string()).unwrap();
    let run = "20261120t020003z-rehearse";
    let begun = jiff::Timestamp::now() - jiff::SignedDuration::from_secs(60);
    // One begins 10 s after the run and takes 20 s, the other begins 1 s later and takes 5 s.
    let steps = [("check-point", 0, 1), ("stage-search", 10, 20_000), ("stage-database", 11, 5000)];
    let folder = host.journal(run, "svc-rehearse", None, &steps.map(|(step, ..)| step), None);
    let index = |found: u64, expected: Option<u64>| json!({"index": "i", "docs_count": found, "docs_expected": expected});
    let stage = |search: Value, warnings: Value| {
        for (at, (step, seconds, duration)) in steps.into_iter().enumerate() {
            let name = format!("{:02}-{step}", at + 1);
            let file = fs::File::options().write(true).open(folder.join(format!("{name}.started"))).unwrap();
            file.set_modified((begun + jiff::SignedDuration::from_secs(seconds)).into()).unwrap();
            let mut said = match step {
                "stage-search" => document("svc-snap.stage/1", true, &json!({"indices": [index(5, Some(5)), search.clone()]})),
                "stage-database" => document("svc-pgrestore.stage/1", true, &json!({"verification": {"rows_count": 9}})),
                _ => document("t.s/1", true, &json!({})),
            };
            said["duration_ms"] = json!(duration);
            said["warnings"] = warnings.clone();
            fs::write(folder.join(format!("{name}.json")), said.to_string()).unwrap();
        }
    };
    let (search, database) = (folder.join("02-stage-search.json"), folder.join("03-stage-database.json"));
    let documents = ["--search", search.to_str().unwrap(), "--database", database.to_str().unwrap()];
    let args = |more: &[&'static str]| [&["rehearsal", point.to_str().unwrap()], &documents[..], more].concat();

    let not_counted = json!([{"code": "not_verified", "message": "No."}]);
    for (search, warnings, verified) in [
        (index(2, Some(2)), json!([]), true),
        (index(2, Some(3)), json!([]), false),
        (index(2, None), json!([]), false),
        (index(2, Some(2)), not_counted, false),
    ] {
        stage(search, warnings);
        let ran = host.run_in(run, &args(&["-v"]));
        let found = ran.result();
        assert_eq!((ran.status, &found["counts_verified"]), (0, &json!(verified)), "{}", ran.stdout);
        let tables = json!([{"table": "public.a", "rows_expected": 2}, {"table": "public.b", "rows_expected": 7}]);
        assert_eq!((&found["docs_count"], &found["tables"]), (&json!(7), &tables));
        assert_eq!((&found["rows_count"], &found["rows_expected"], &found["kind"]), (&json!(9), &json!(9), &json!("nightly")));
        let before = found["before_stop_ms"].as_u64().unwrap();
        assert_eq!((&found["staging_ms"], (60_000..600_000).contains(&before)), (&json!(20_000), true), "{before}");
        assert_eq!((&found["total_known_ms"], &found["downtime_known_ms"]), (&json!(before), &json!(0)));
        assert_eq!(found["downtime_not_known"].as_array().unwrap().len(), 6);
        let (how, rest) = if verified { ("verified", ". ") } else { ("staged", "; not all counts could be compared. ") };
        let says = format!("svc-point: {how}: 7 documents in 2 indices, 9 rows in 2 tables{rest}");
        assert!(ran.stderr.starts_with(&says), "{}", ran.stderr);
    }
    assert_eq!(host.run(&args(&[])).code(), (4, "swap_not_found".to_owned()));
    assert_eq!(host.run(&args(&["--run-id", run])).result()["staging_ms"], json!(20_000));
}

/// Name, labels and value of each sample, held against the text format's grammar: HELP and TYPE once before a metric's samples, all of
/// them together.
fn samples(text: &str) -> Vec<(String, String, f64)> {
    let (mut found, mut begun, mut known): (Vec<(String, String, f64)>, Vec<String>, Vec<String>) = Default::default();
    assert!(text.ends_with('\n'), "{text}");
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').unwrap();
            assert!(!help.is_empty() && !begun.contains(&name.to_owned()), "{line}");
            begun.push(name.to_owned());
            continue;
        }
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            assert_eq!(rest, format!("{} gauge", begun.last().unwrap()));
            known.push(begun.last().unwrap().clone());
            continue;
        }
        let (name, rest) = line.split_once('{').unwrap();
        assert!(known.last().unwrap() == name && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{line}");
        let (labels, value) = rest.rsplit_once("} ").unwrap();
        let mut inner = labels;
        while !inner.is_empty() {
            let (key, value) = inner.split_once("=\"").unwrap();
            assert!(key.bytes().all(|byte| byte.is_ascii_lowercase()), "{line}");
            let mut escaped = false;
            let end = value.find(|letter| {
                let ends = letter == '"' && !escaped;
                escaped = letter == '\\' && !escaped;
                ends
            });
            inner = value[end.unwrap() + 1..].trim_start_matches(',');
        }
        found.push((name.to_owned(), labels.to_owned(), value.parse().unwrap()));
    }
    assert_eq!(begun.len(), known.len());
    found
}

#[test]
fn metrics_report_points_rehearsals_copies_and_runs() {
    let host = Host::new();
    // Nothing is there: only that no run is unfinished.
    let none = samples(&host.run(&["metrics"]).stdout);
    assert_eq!(none, [("svc_unfinished_runs".to_owned(), "service=\"svc\"".to_owned(), 0.0)]);

    host.point("nightly", 9, false);
    let (nightly, upgrade) = (host.point("nightly", 2, false), host.point("upgrade", 3, true));
    let damaged = host.point("nightly", 1, false);
    fs::write(damaged.join("SHA256SUMS"), "").unwrap();
    let at = |days: i64, name: &str| format!("{}-{name}", ago(days).strftime("%Y%m%dt%H%M%Sz"));
    host.journal(&at(3, "upgrade-2.0.1"), "svc-upgrade", None, &["installer"], Some((true, json!({"downtime_ms": 12_340}))));
    host.journal(
        &at(8, "rehearse"),
        "svc-rehearse",
        None,
        &["point"],
        Some((true, json!({"rehearsal": {"counts_verified": true}}))),
    );
    let copy = json!({"point_id": id(&upgrade), "made_at": ago(4).to_string(), "copied_at": ago(1).to_string()});
    fs::write(host.path("state/offsite.json"), copy.to_string()).unwrap();

    let text = host.run(&["metrics"]).stdout;
    let found = samples(&text);
    let value = |name: &str, labels: &str| {
        let labels = format!("service=\"svc\"{labels}");
        let mut of = found.iter().filter(|(one, with, _)| one == name && *with == labels);
        of.next().unwrap_or_else(|| panic!("{name} {labels} is not in\n{text}")).2
    };
    let near = |found: f64, wanted: f64| assert!((found - wanted).abs() < 60.0, "{found} {wanted}\n{text}");
    let day = 86_400.0;
    let now = jiff::Timestamp::now().as_second() as f64;
    let of_night = ",kind=\"nightly\",quiesced=\"false\"";
    near(value("svc_restore_point_timestamp_seconds", of_night), now - 2.0 * day);
    near(value("svc_restore_point_timestamp_seconds", ",kind=\"upgrade\",quiesced=\"true\""), now - 3.0 * day);
    let size: u64 = fs::read_dir(&nightly).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum();
    assert_eq!(value("svc_restore_point_size_bytes", of_night), size as f64);
    near(value("svc_rehearsal_timestamp_seconds", ""), now - 8.0 * day);
    let verdict = |verdict: &str| value("svc_rehearsal_verdict", &format!(",verdict=\"{verdict}\""));
    assert_eq!(value("svc_rehearsal_duration_seconds", ""), 0.001);
    assert_eq!(["verified", "not_verified", "failed", "interrupted"].map(verdict), [1.0, 0.0, 0.0, 0.0]);
    near(value("svc_offsite_copy_timestamp_seconds", ""), now - 4.0 * day);
    assert_eq!((value("svc_upgrade_downtime_seconds", ""), value("svc_unfinished_runs", "")), (12.34, 0.0));

    // An upgrade that was killed behind its point of no return, and a backup that has left something to be undone.
    host.journal(&at(1, "upgrade-2.0.2"), "svc-upgrade", None, &["commit", "installer"], None);
    let killed = host.journal(&at(0, "backup-manual"), "svc-backup", None, &["point"], None);
    let undo =
        json!({"name": "u", "command": ["true"], "directory": "/", "until": null, "always": true, "unless_interrupted": false});
    fs::write(killed.join("notes.json"), json!({"facts": {}, "warnings": [], "review": false, "undo": [undo]}).to_string())
        .unwrap();
    assert!(host.run(&["metrics"]).stdout.contains("svc_unfinished_runs{service=\"svc\"} 2\n"));

    // What a restore point says of itself may be anything.
    let odd = host.point("o\"d\\d", 1, true);
    let text = host.run(&["metrics"]).stdout;
    assert!(text.contains(",kind=\"o\\\"d\\\\d\",quiesced=\"true\"} "), "{text}");
    samples(&text);
    fs::remove_dir_all(odd).unwrap();

    // The file of the collector: whole, readable by everybody, with nothing beside it; one that cannot be written fails.
    let folder = host.path("collector");
    fs::create_dir(&folder).unwrap();
    let file = folder.join("svc.prom");
    for content in ["", "old"] {
        if !content.is_empty() {
            fs::write(&file, content).unwrap();
        }
        let ran = host.run(&["metrics", "--output", file.to_str().unwrap()]);
        assert_eq!((ran.status, ran.doc()["changed"].clone(), ran.result()["output"].clone()), (0, json!(false), json!(file)));
        assert_eq!(ran.result()["samples_count"], json!(samples(&fs::read_to_string(&file).unwrap()).len()));
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o644);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
    }
    let before = fs::read(&file).unwrap();
    assert_ne!(host.run(&["metrics", "--output", "/nowhere/svc.prom"]).status, 0);
    // A restore point that cannot be told of leaves the file as it was: its age is the alarm.
    fs::remove_dir_all(host.path("backups")).unwrap();
    fs::write(host.path("backups"), "").unwrap();
    assert_ne!(host.run(&["metrics", "--output", file.to_str().unwrap()]).status, 0);
    assert_eq!(fs::read(&file).unwrap(), before);
}

#[test]
fn push_without_offsite_setting_or_restic_is_refused() {
    let host = Host::new();
    let point = id(&host.point("nightly", 1, true));
    let search = host.path("search");
    let health = json!({"cluster_uuid": "c", "repository": {"name": "svc", "type": "s3"}});
    fs::write(&search, document("svc-snap.health/1", true, &health).to_string()).unwrap();
    let search = search.to_str().unwrap();
    let list = |name: &str, snapshots: Value| {
        fs::write(host.path(name), document("svc-snap.list/1", true, &json!({ "snapshots": snapshots })).to_string()).unwrap();
        host.path(name).display().to_string()
    };
    let idle = list("idle", json!([{"uuid": "u", "state": "SUCCESS"}]));
    let push = |offsite: &str| {
        let mut call = Command::new(env!("CARGO_BIN_EXE_svc-point"));
        call.args(["push", &point, "--search", search, "--snapshots", &idle, "--snapshot", "/none"]).env_clear();
        call.env("PATH", host.path("bin")).env("SVC_ENVIRONMENT_FILE", "/dev/null").env("SVC_STATE_DIR", host.path("state"));
        let ended = call.env("SVC_BACKUP_DIR", host.path("backups")).env("SVC_OFFSITE", offsite).output().unwrap();
        Ran { status: ended.status.code().unwrap(), stdout: String::from_utf8(ended.stdout).unwrap(), stderr: String::new() }
            .code()
    };
    assert_eq!(push(""), (2, "settings_invalid".to_owned()));
    let taking = list("taking", json!([{"uuid": "u", "state": "SUCCESS"}, {"uuid": "v", "state": "IN_PROGRESS"}]));
    let dry = |listed: &str| {
        host.run(&["push", &point, "--search", search, "--snapshot", "/none", "--snapshots", listed, "--dry-run"]).code()
    };
    assert_eq!(dry(&taking), (5, "server_busy".to_owned()));
    assert_eq!(dry("/none").0, 2, "nobody has looked");
    assert_eq!(push("/far"), (4, "file_not_found".to_owned()));
}

#[test]
fn offsite_age_and_last_rehearsal_are_reported() {
    let host = Host::new();
    let age = |max: &str| host.run(&["age", "--offsite", "--max-age", max]);
    let none = age("26h");
    assert_eq!((none.code(), none.result()["age_ms"].clone()), ((7, "point_too_old".to_owned()), Value::Null));
    assert!(none.stderr.starts_with("svc-point: No off-site copy is recorded in "), "{}", none.stderr);
    // Of what age the data is counts, and not when it was copied.
    let copy =
        json!({"point_id": "20261120t020003z-backup-nightly", "made_at": ago(2).to_string(), "copied_at": ago(0).to_string()});
    fs::write(host.path("state/offsite.json"), copy.to_string()).unwrap();
    let old = age("26h");
    assert_eq!(
        (old.code(), old.result()["offsite"]["point_id"].clone()),
        ((7, "point_too_old".to_owned()), json!("20261120t020003z-backup-nightly"))
    );
    let table = host.run(&["age", "--offsite", "--max-age", "3d", "--table"]);
    assert_eq!(
        (table.status, table.stdout.as_str()),
        (0, "The restore point of the last off-site copy, 20261120t020003z-backup-nightly, is 48 h 0 min old.\n")
    );
    for cut in ["", "{}", "{\"point_id\": \"p\", \"made_at\": \"yesterday\", \"copied_at\": \"a\"}"] {
        fs::write(host.path("state/offsite.json"), cut).unwrap();
        assert_eq!(age("3d").code(), (7, "file_invalid".to_owned()), "{cut}");
        let metrics = host.run(&["metrics"]);
        assert!(metrics.status == 9 && !metrics.stdout.contains("offsite"), "{}", metrics.stdout);
    }

    let last = || host.run(&["list"]).result()["last_rehearsal"].clone();
    assert_eq!(last(), Value::Null);
    let at = |days: i64| format!("{}-rehearse", ago(days).strftime("%Y%m%dt%H%M%Sz"));
    let result = |verified: bool| json!({"rehearsal": {"counts_verified": verified}});
    for (days, ended, verdict) in [
        (9, Some((true, result(true))), "verified"),
        (8, Some((true, result(false))), "not_verified"),
        (7, Some((false, json!({}))), "failed"),
        (6, None, "interrupted"),
    ] {
        let run = at(days);
        host.journal(&run, "svc-rehearse", None, &["point", "stage-search"], ended);
        // Only a rehearsal that has chosen a restore point is one.
        host.journal(&at(1), "svc-rehearse", None, &[], Some((true, json!({}))));
        assert_eq!((&last()["verdict"], &last()["run_id"]), (&json!(verdict), &json!(run)), "{days}");
        assert!(last()["age_ms"].as_u64().unwrap() / 86_400_000 == u64::try_from(days).unwrap());
    }
    let table = host.run(&["list", "--table"]).stdout;
    assert!(table.contains("last rehearsal verdict") && table.contains("interrupted") && table.contains("(6 d ago)"), "{table}");
}
