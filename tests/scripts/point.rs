//! `svc-point` as a script calls it, with restore points and journals made by hand, and a `svc-snap` that says what a test wants.

use jiff::{SignedDuration, Timestamp};
use svc_step::run_id::snapshot_name;
use svc_tests::bare::{document, failed, left};
use svc_tests::journey::prelude::*;

/// Name, labels and value of each sample of a text that Prometheus's own checker takes.
#[track_caller]
fn samples(text: &str) -> Vec<(String, String, f64)> {
    os::fed(Command::new("promtool").args(["check", "metrics"]), text).unwrap_or_else(|error| panic!("{error:#}\n{text}"));
    let sample = |line: &str| {
        let (series, value) = line.rsplit_once("} ").unwrap();
        let (name, labels) = series.split_once('{').unwrap();
        (name.to_owned(), labels.to_owned(), value.parse().unwrap())
    };
    text.lines().filter(|line| !line.starts_with('#')).map(sample).collect()
}

fn ago(days: i64) -> Timestamp {
    Timestamp::now() - SignedDuration::from_hours(24 * days)
}

/// The ID of a run, or of its restore point, of so many days ago.
fn at(days: i64, name: &str) -> String {
    format!("{}-{name}", ago(days).strftime("%Y%m%dt%H%M%Sz"))
}

struct Host(Bare);

impl Host {
    fn new() -> Self {
        let host = Self(Bare::default());
        host.snap(0, &document("svc-snap.show/1", &json!({})));
        host
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path(name)
    }

    /// What `svc-snap` is to say from now on.
    fn snap(&self, status: i32, document: &Value) {
        fs::write(self.path("snap.json"), document.to_string()).unwrap();
        fs::write(self.path("snap.status"), status.to_string()).unwrap();
    }

    fn calls(&self) -> String {
        fs::read_to_string(self.path("snap.log")).unwrap_or_default()
    }

    fn tool(&self, args: &[&str]) -> Tool {
        let files = ["snap.log", "snap.json", "snap.status"].map(|name| self.path(name).display().to_string());
        let [log, said, status] = files;
        let does = format!("echo \"$@\" >>'{log}'\ncat '{said}'\nexit $(cat '{status}')");
        let tool = self.0.tool("svc-point", args).env("SVC_INSTALL_DIR", self.path("installed"));
        tool.env("SVC_RUN_ID", "20261120t020003z-test").stub(&self.path("bin"), "svc-snap", &does)
    }

    fn run(&self, args: &[&str]) -> Ran {
        self.tool(args).run()
    }

    /// A restore point of a kind, made so many days ago.
    fn point(&self, kind: &str, days: i64, quiesced: bool) -> PathBuf {
        let id = at(days, &format!("{kind}-2.0.1"));
        let point = self.path("backups").join(&id);
        fs::create_dir_all(&point).unwrap();
        let made = ago(days).strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let mut taken = document("svc-snap.create/1", &json!({}));
        taken["run_id"] = json!(id);
        let about = json!({"schema": "svc-restore-point/1", "id": id, "kind": kind, "made_at": made, "version": "1.15.5",
            "database": "svc_db", "quiesced": quiesced});
        for (name, text) in [
            ("restore-point.json", about),
            ("pgdump.json", document("svc-pgdump.dump/1", &json!({"size_bytes": 4}))),
            ("snapshot.json", taken),
        ] {
            fs::write(point.join(name), text.to_string()).unwrap();
        }
        fs::write(point.join("svc_db.backup.sql"), "dump").unwrap();
        finalize(&point);
        point
    }

    /// A run of a script, with steps that were begun, its point of no return among them; how it has ended, if it has.
    fn journal(&self, id: &str, script: &str, parent: Option<&str>, steps: &[&str], ended: Option<(bool, Value)>) -> PathBuf {
        let plan = json!({"script": script, "parent": parent, "settings": {"SVC_BACKUP_DIR": self.path("backups")}});
        let run = self.0.run_left(id, &[("plan.json", plan)]);
        for (number, step) in (1..).zip(steps) {
            match *step {
                "commit" => left(&run, "notes.json", &json!({"commit": ""})),
                step => left(&run, &format!("{number:02}-{step}.started"), &json!("step\n")),
            }
        }
        if let Some((ok, result)) = ended {
            let schema = format!("{script}.run/1");
            left(&run, "document.json", &if ok { document(&schema, &result) } else { failed(&schema, "odd") });
        }
        run
    }
}

#[test]
fn choose_takes_restore_point_of_last_upgrade() {
    let host = Host::new();
    let choose = || host.run(&["choose"]);
    choose().fails(4, "point_not_found");
    let point = host.point("upgrade", 10, true);
    let upgrade = id_of(&point);
    let (well, badly) = (|| Some((true, json!({}))), || Some((false, json!({}))));
    let hops = Some("20000101t000000z-hops");
    let run = host.journal(&upgrade, "svc-upgrade", hops, &["new", "stop", "installer"], badly());
    let chosen = json!({"path": point, "upgrade_run_dir": run, "version": "1.15.5", "database": "svc_db", "kind": "upgrade"});
    choose().ok().has(&chosen);
    // A plan that a power cut has emptied: the run is known by its directory.
    let plan = fs::read(run.join("plan.json")).unwrap();
    fs::write(run.join("plan.json"), "").unwrap();
    assert_eq!(choose().ok().result()["path"], json!(point));
    fs::write(run.join("plan.json"), plan).unwrap();

    let to = |point: &str| Some((true, json!({"restore_point": format!("/elsewhere/{point}")})));
    type Case<'a> = (&'a str, &'a str, Option<&'a str>, &'a [&'a str], Option<(bool, Value)>, Option<&'a str>);
    let table: [Case; 10] = [
        ("svc-rollback", "rollback", None, &["point", "commit"], None, Some("run_unfinished")),
        ("svc-rollback", "rollback", None, &["point", "commit"], badly(), Some("run_unfinished")),
        ("svc-rollback", "rollback", None, &["point"], None, None),
        ("svc-rollback", "rollback", None, &["commit", "stop"], to(&upgrade), Some("not_resumable")),
        ("svc-rollback", "rollback", None, &["commit", "stop"], to("20000101t000000z-upgrade-1.0.0"), Some("not_resumable")),
        // It has discarded what another one had replaced.
        ("svc-rollback", "rollback-discard", None, &["discard-search"], well(), None),
        ("svc-upgrade", "upgrade-2.0.2", None, &["present", "new"], badly(), Some("not_resumable")),
        ("svc-upgrade", "upgrade-hops", None, &["plan"], badly(), Some("not_resumable")),
        ("svc-upgrade", "upgrade-2.0.2", hops, &["new"], badly(), None),
        ("svc-upgrade", "upgrade-2.0.2", None, &["present"], badly(), None),
    ];
    for (script, name, parent, steps, ended, code) in table {
        let later = host.journal(&at(2, name), script, parent, steps, ended);
        match code {
            Some(code) => choose().refused(code),
            None => choose().ok(),
        };
        // Whoever names it means it.
        host.run(&["choose", &upgrade]).ok();
        fs::remove_dir_all(later).unwrap();
    }
    // Which version that point is of, an operator may not have in mind.
    let back = host.journal(&at(2, "rollback"), "svc-rollback", None, &["commit", "stop"], to(&upgrade));
    let named = format!("svc-rollback {upgrade}");
    choose().error_has(&["that upgrade (version 1.15.5)", &named]);
    fs::remove_dir_all(back).unwrap();
    // Nor what was written in days since one that ended well.
    let mut ended = document("svc-upgrade.run/1", &json!({}));
    left(&run, "document.json", &ended);
    choose().refused("not_resumable").error_has(&["more than a day ago", "that upgrade (version 1.15.5)", &named]);
    host.run(&["choose", &upgrade]).ok();
    // The clock was ahead.
    ended["finished_at"] = json!(ago(-1).to_string());
    left(&run, "document.json", &ended);
    choose().refused("not_resumable").error_has(&["in the future", &named]);
    ended["finished_at"] = json!(ago(0).strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
    left(&run, "document.json", &ended);
    choose().ok();
    // One that was repaired by hand is not resumed, and what was written since is not removed.
    let cut = host.journal(&at(2, "rollback"), "svc-rollback", None, &["commit"], None);
    let repaired = host.journal(&at(1, "backup-manual"), "svc-backup", None, &[], well());
    left(&repaired, "plan.json", &json!({"script": "svc-backup", "arguments": ["--ignore-unfinished"]}));
    choose().refused("not_resumable");
    fs::remove_dir_all(cut).unwrap();
    left(&run, "document.json", &failed("svc-upgrade.run/1", "odd"));
    choose().refused("not_resumable").error_has(&["counts as repaired", &named]);
    fs::remove_dir_all(repaired).unwrap();
    // A later upgrade's installer makes it another one's turn; the earlier one is no more the upgrade that is rolled back.
    host.journal(&at(1, "upgrade-2.0.2"), "svc-upgrade", None, &["new", "installer"], None);
    choose().fails(4, "point_not_found");
    let earlier = host.run(&["choose", &upgrade]).ok().has(&json!({"upgrade_run_dir": null}));
    assert!(earlier.result()["last_upgrade_run_dir"].to_string().contains("-upgrade-2.0.2"), "{earlier}");
    // Of another product.
    host.run(&["choose", &upgrade, "--service", "other"]).refused("settings_invalid");
}

#[test]
fn unquiesced_or_damaged_restore_point_is_refused() {
    let host = Host::new();
    let point = host.point("nightly", 1, false);
    let name = id_of(&point);
    let accept = || host.run(&["choose", &name, "--accept-unquiesced"]);
    // Without an upgrade a point is taken only if it is named.
    host.run(&["choose"]).fails(4, "point_not_found").error_has(&[&name]);
    host.run(&["choose", &name]).refused("not_quiesced");
    // Typed as it stands, the hint takes the same point.
    let path = format!("{}/", point.display());
    let typed = format!("If that is acceptable, with the other options of this call:\n  svc-rollback --accept-unquiesced {path}");
    assert_eq!(host.run(&["choose", &path]).hint(), typed);
    assert_eq!(accept().ok().result()["quiesced"], json!(false));
    let rehearse = |args: &[&str]| host.run(&[&["choose", "--rehearse"], args].concat());
    assert_eq!(rehearse(&[]).ok().warns("not_quiesced").result()["path"], json!(point));
    rehearse(&["--version", "1.15.5", "--max-age", "26h"]).ok();
    rehearse(&["--version", "1.15.6"]).fails(4, "point_not_found");
    rehearse(&["--max-age", "1h"]).fails(4, "point_not_found");
    // In a run there is no --timeout.
    let late = || host.tool(&["choose", &name, "--accept-unquiesced", "--timeout", "0s"]);
    late().run().fails(6, "timeout").error_has(&["--timeout"]);
    late().env("SVC_RUN_DIR", host.path("state")).run().fails(6, "timeout").error_has(&["SVC_TIMEOUT"]);
    // The dump is read by whoever restores it.
    fs::write(point.join("svc_db.backup.sql"), "DUMP").unwrap();
    accept().ok();
    fs::write(point.join("snapshot.json"), "{}").unwrap();
    accept().fails(7, "point_invalid").error_has(&["snapshot.json is not what"]);
    fs::remove_file(point.join("SHA256SUMS")).unwrap();
    accept().fails(4, "point_not_found");
}

#[test]
fn list_and_age_report_state_of_restore_points() {
    let host = Host::new();
    let list = || host.run(&["list"]).ok();
    assert_eq!(list().result()["points"], json!([]));
    let none = host.run(&["age", "--max-age", "26h", "--table"]);
    assert!(none.status == 7 && none.stdout.starts_with("There is no valid restore point in "), "{none}");
    let changed = host.point("manual", 5, true);
    fs::write(changed.join("svc_db.backup.sql"), "DUMP").unwrap();
    host.point("nightly", 4, true);
    let cut = host.point("nightly", 3, true);
    fs::remove_file(cut.join("SHA256SUMS")).unwrap();
    let short = host.point("nightly", 2, true);
    fs::write(short.join("svc_db.backup.sql"), "d").unwrap();
    let empty = host.point("upgrade", 1, true);
    fs::write(empty.join("SHA256SUMS"), "").unwrap();
    let running = host.path("backups").join(at(0, "backup-nightly"));
    fs::create_dir(&running).unwrap();
    fs::create_dir(host.path("backups/lost+found")).unwrap();
    host.journal(&id_of(&running), "svc-backup", Some("20260101t000000z-nightly"), &[], None);
    host.journal("20260101t000000z-nightly", "svc-nightly", None, &[], None);
    fs::write(host.path("state/lock"), "20260101t000000z-nightly\n").unwrap();
    let lock = fs::File::open(host.path("state/lock")).unwrap();
    lock.lock().unwrap();

    let ran = list();
    assert_eq!(ran.texts("points", "state"), ["valid", "valid", "incomplete", "damaged", "damaged", "running"]);
    assert_eq!(ran.texts("points", "kind"), ["manual", "nightly", "nightly", "nightly", "upgrade", "nightly"]);
    let damaged = [3, 4].map(|number: usize| ran.result()["points"][number]["damaged_files"].clone());
    assert_eq!(damaged, [json!(["svc_db.backup.sql"]), json!(["SHA256SUMS"])]);
    assert_eq!(host.run(&["list", "--read-all"]).texts("points", "state")[0], "damaged");
    lock.unlock().unwrap();
    assert_eq!(list().texts("points", "state")[5], "incomplete");
    let table = host.run(&["list", "--table"]).stdout;
    let of_point = |line: &&str| line.contains("-2.0.1 ") || line.contains("-backup-nightly ");
    assert!(table.lines().filter(of_point).count() == 6 && table.contains("QUIESCED"), "{table}");
    assert!(table.contains("damaged files: SHA256SUMS") && table.lines().all(|line| line.chars().count() <= 80), "{table}");

    let old = host.run(&["age", "--max-age", "26h", "--table"]);
    assert!(old.status == 7 && old.stdout.ends_with(" is 96 h 0 min old.\n") && old.stderr.contains("hint: "), "{old}");
    host.run(&["age", "--max-age", "5d"]).ok();
    host.point("manual", -1, true);
    host.run(&["age", "--max-age", "5d"]).fails(7, "point_too_old").error_has(&["is dated in the future"]);
}

#[test]
fn prune_and_delete_remove_point_with_its_snapshot() {
    let host = Host::new();
    let (old, newest) = (host.point("nightly", 40, true), host.point("nightly", 1, true));
    let manual = host.point("manual", 50, true);
    let prune = |more: &[&str]| host.run(&[&["prune", "--min-count", "1"], more].concat());
    let delete = |point: &Path| host.run(&["delete", &id_of(point)]);
    // The newest one's snapshot does not exist.
    host.snap(4, &failed("svc-snap.show/1", "snapshot_not_found"));
    assert_eq!(prune(&[]).ok().unchanged().texts("points", "reason"), ["other_kind", "none_verified", "none_verified"]);
    host.snap(0, &document("svc-snap.show/1", &json!({})));
    // A copy that somebody has made beside it has the same snapshot.
    let copy = host.path("backups").join(at(45, "backup-nightly"));
    copy_folder(&old, &copy);
    delete(&copy).refused("not_removed");
    assert_eq!(prune(&["--dry-run"]).texts("points", "reason"), ["other_kind", "damaged", "max_age", "newest"]);
    // The half of one has the other one's document, and no snapshot of its own.
    ["restore-point.json", "SHA256SUMS"].iter().for_each(|name| fs::remove_file(copy.join(name)).unwrap());
    delete(&copy).ok().changed();
    assert!(!copy.exists() && !host.calls().contains("delete --from") && host.calls().contains("delete snapshot_"));
    fs::remove_file(host.path("snap.log")).unwrap();
    // A rollback that is to be resumed needs it.
    let run = host.journal(&at(0, "rollback"), "svc-rollback", None, &["commit"], None);
    left(&run, "notes.json", &json!({"commit": "", "facts": {"restore_point": old}}));
    assert_eq!(prune(&[]).texts("points", "reason"), ["other_kind", "needed", "newest"]);
    delete(&old).refused("not_removed");
    fs::remove_dir_all(run).unwrap();
    // So does an upgrade, until it is rolled back, also if it was by itself.
    let upgrade = at(1, "upgrade");
    let run = host.journal(&upgrade, "svc-upgrade", None, &["commit"], Some((false, json!({}))));
    left(&run, "notes.json", &json!({"commit": "", "facts": {"restore_point": old}}));
    delete(&old).refused("not_removed");
    let back = host.journal(&at(0, "rollback"), "svc-rollback", Some(&upgrade), &["commit"], Some((true, json!({}))));
    host.run(&["delete", "--dry-run", &id_of(&old)]).ok();
    [run, back].iter().for_each(|run| fs::remove_dir_all(run).unwrap());
    assert_eq!(prune(&["--dry-run"]).ok().result()["plan"].as_array().unwrap().len(), 3);
    assert!(old.join("SHA256SUMS").exists() && !host.calls().contains("delete"));
    // One that cannot be removed keeps no other.
    let stuck = host.point("nightly", 45, true);
    let ran = while_mounted(&stuck, "ro", || prune(&[]).review("not_removed").changed());
    assert_eq!(ran.texts("points", "reason"), ["other_kind", "max_age", "max_age", "newest"]);
    assert_eq!(ran.lines("removed"), [id_of(&old)]);
    assert_eq!(prune(&[]).ok().changed().lines("removed"), [id_of(&stuck)]);
    assert!(!old.exists() && host.calls().contains(&format!("delete --from {}/snapshot.json --cancel", old.display())));
    prune(&[]).ok().unchanged();

    delete(&newest).refused("not_removed");
    host.run(&["delete", &id_of(&manual), "20260101t000000z-x"]).fails(4, "point_not_found");
    // One in whose repository another cluster has written stays: that can be put right. So does one whose snapshot nobody can ask for.
    for (status, code, warns, stays) in [
        (7, "repository_shared", false, true),
        (5, "search_unreachable", false, true),
        (3, "other_server", true, false),
        (4, "snapshot_not_found", false, false),
    ] {
        let point = host.point("manual", 50 + i64::from(status), true);
        host.snap(status, &failed("svc-snap.delete/1", code));
        let ran = delete(&point);
        let ran = if stays { ran.fails(status, code).changed() } else { ran.ok().changed() };
        let partially = if stays { json!(id_of(&point)) } else { Value::Null };
        assert_eq!((&ran.result()["partially_removed"], point.exists()), (&partially, stays), "{ran}");
        assert_eq!(ran.doc()["warnings"].to_string().contains("not_removed"), warns, "{ran}");
    }
}

/// A restore point of another service, which has the same SVC_BACKUP_DIR.
fn of_other_service(point: &Path) {
    let about = fs::read_to_string(point.join("restore-point.json")).unwrap().replace("svc_db", "other_db");
    fs::write(point.join("restore-point.json"), about).unwrap();
    fs::rename(point.join("svc_db.backup.sql"), point.join("other_db.backup.sql")).unwrap();
    finalize(point);
}

#[test]
fn restore_points_of_another_service_are_left_alone() {
    let host = Host::new();
    let (old, newest) = (host.point("nightly", 40, true), host.point("nightly", 2, true));
    let others = [host.point("nightly", 50, true), host.point("nightly", 1, true)];
    others.iter().for_each(|point| of_other_service(point));
    // One that does not say whose it is, since it is being made, or was cut.
    let unknown = host.path("backups").join(at(45, "backup-nightly"));
    fs::create_dir(&unknown).unwrap();

    assert_eq!(host.run(&["list"]).ok().texts("points", "id"), [id_of(&unknown), id_of(&old), id_of(&newest)]);
    host.run(&["age", "--max-age", "30h"]).fails(7, "point_too_old");
    assert_eq!(host.run(&["choose", "--rehearse"]).ok().result()["path"], json!(newest));
    assert_eq!(host.run(&["choose", "--rehearse", "--service", "other"]).ok().result()["path"], json!(others[1]));
    host.run(&["delete", &id_of(&others[0])]).fails(4, "point_not_found");
    let metrics = host.run(&["metrics", "--output", "-"]).stdout;
    let made = samples(&metrics).into_iter().find(|(name, ..)| name == "svc_restore_point_timestamp_seconds").unwrap().2;
    assert!(Timestamp::from_second(made as i64).unwrap() < ago(1) - SignedDuration::from_hours(12), "{metrics}");
    let ran = host.run(&["prune", "--min-count", "1"]).ok();
    assert_eq!(ran.texts("points", "reason"), ["unknown", "max_age", "newest"]);
    assert_eq!(ran.lines("removed"), [id_of(&old)]);
    assert!(unknown.exists() && others.iter().all(|point| point.join("SHA256SUMS").exists()));
    // What its own run has left can be told apart.
    host.journal(&id_of(&unknown), "svc-backup", None, &["point"], None);
    assert_eq!(host.run(&["prune"]).ok().lines("removed"), [id_of(&unknown)]);
}

#[test]
fn moved_or_renamed_restore_point_is_one_everywhere() {
    let host = Host::new();
    let (moved, renamed) = (host.point("manual", 3, true), host.point("manual", 2, true));
    host.point("nightly", 1, true);
    fs::create_dir(host.path("disk")).unwrap();
    let (id, there) = (id_of(&moved), host.path("disk").join(id_of(&moved)));
    fs::rename(&moved, &there).unwrap();
    symlink(&there, &moved).unwrap();
    let list = || host.run(&["list"]).ok().texts("points", "state");
    assert_eq!(list(), ["valid", "valid", "valid"]);
    assert_eq!(host.run(&["choose", &id]).ok().result()["path"], json!(there));
    host.run(&["delete", &id]).ok().changed();
    assert!(!there.exists() && !moved.is_symlink());

    let mine = host.path("backups/mine");
    fs::rename(&renamed, &mine).unwrap();
    assert_eq!(list(), ["damaged", "valid"]);
    let rename = format!("mv {} {}", mine.display(), renamed.display());
    host.run(&["choose", "mine"]).fails(7, "point_invalid").error_has(&[&rename]);
    host.run(&["delete", "mine"]).refused("not_removed").error_has(&[&rename]);
    copy_folder(&mine, &renamed);
    host.run(&["choose", "mine"]).fails(7, "point_invalid").error_has(&[&format!("Name {}", id_of(&renamed))]);
    host.run(&["delete", "mine"]).refused("not_removed").error_has(&["rm -r"]);
}

#[test]
fn old_unneeded_run_directories_are_pruned() {
    let host = Host::new();
    let pointed = host.point("upgrade", 1200, true);
    let ok = || Some((true, json!({})));
    let stay = [
        host.journal(&id_of(&pointed), "svc-upgrade", None, &["installer"], ok()),
        host.journal("20250101t000000z-hops", "svc-upgrade", None, &["plan"], ok()),
        host.journal("20250102t000000z-upgrade-2.0.1", "svc-upgrade", Some("20250101t000000z-hops"), &["installer"], ok()),
        host.journal("20240101t000000z-rollback", "svc-rollback", None, &["stop"], ok()),
        host.journal("20250104t000000z-nightly", "svc-nightly", None, &["backup"], None),
        host.journal("20240101t000000z-backup-manual", "svc-backup", None, &["point"], ok()),
    ];
    let plan = json!({"script": "svc-backup", "arguments": ["--ignore-unfinished"], "settings": {"SVC_BACKUP_DIR": host.path("backups")}});
    left(&stay[5], "plan.json", &plan);
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
        os::run(Command::new("touch").args(["-d", "100 days ago"]).arg(run)).unwrap();
    }
    host.run(&["prune", "--keep-runs", "none"]).ok().unchanged();
    let ran = host.run(&["prune"]).ok();
    assert_eq!(ran.lines("removed_runs"), go.each_ref().map(|run| id_of(run)), "{ran}");
    assert!(stay.iter().all(|run| run.exists()) && young.exists() && host.path("state/runs/by-hand").exists());
    assert!(!host.path("state/runs/.pruned-20230101t000000z-x").exists());
    fs::remove_file(copies).unwrap();
    assert_eq!(host.run(&["prune"]).ok().lines("removed_runs"), ["20240101t000000z-rollback"]);
}

/// A run that has made a restore point as far as `finalize`.
fn begun(host: &Host, run: &str) -> (PathBuf, PathBuf) {
    let point = host.path("backups").join(run);
    host.tool(&["create", point.to_str().unwrap()]).env("SVC_RUN_ID", run).run().ok().changed();
    let steps = ["configuration", "version", "snapshot", "dump", "unit-after", "point"];
    let dir = host.journal(run, "svc-backup", None, &steps, None);
    fs::write(point.join("svc_db.backup.sql"), "dump").unwrap();
    let sum = "e0a6d5f9d3e5b0b8ff0a5ae5f1e1b5c27ba5e1f0d8ef0d4e7b8a8a1e3c6f2b11";
    let dump = json!({"path": point.join("svc_db.backup.sql"), "database": "svc_db", "size_bytes": 4, "sha256": sum});
    let unit = |state: &str, along: &[&str]| {
        let after = json!({"active_state": state, "job_pending": false, "invocation_id": "1"});
        json!({"after": after, "dependents": along})
    };
    let mut ran = unit("inactive", &[]);
    ran["after"]["invocation_id"] = json!("2");
    for (name, schema, result) in [
        ("01-configuration", "svc-confsave.save/1", json!({})),
        ("02-version", "svc-version.current/1", json!({"version": "1.15.5"})),
        ("03-snapshot", "svc-snap.create/1", json!({"name": "s"})),
        ("04-dump", "svc-pgdump.dump/1", dump),
        ("05-unit-after", "svc-unit.status/1", unit("inactive", &[])),
        ("active", "svc-unit.status/1", unit("active", &[])),
        ("ran", "svc-unit.status/1", ran),
        ("along", "svc-unit.status/1", unit("inactive", &["svc-worker.service"])),
        ("stop", "svc-unit.stop/1", unit("inactive", &["svc-worker.service"])),
    ] {
        left(&dir, &format!("{name}.json"), &document(schema, &result));
    }
    (point, dir)
}

#[test]
fn finalize_and_remove_restore_point_of_run() {
    let host = Host::new();
    let run = "20261120t020003z-upgrade-2.0.1";
    let (point, dir) = begun(&host, run);
    assert_eq!(os::mode(&point), 0o700);
    // Another service's run of the same second has made that.
    let others = host.path("backups/20260101t000000z-x");
    fs::create_dir(&others).unwrap();
    let theirs = host.run(&["create", others.to_str().unwrap()]).refused("name_in_use").unchanged();
    theirs.error_has(&["has a SVC_BACKUP_DIR of its own"]);
    fs::remove_dir(others).unwrap();
    // What uninstalls the service would remove it.
    let inside = host.path("installed/backups/20260101t000000z-x");
    host.run(&["create", inside.to_str().unwrap(), "--dry-run"]).refused("settings_invalid").error_has(&["SVC_BACKUP_DIR"]);
    let file = |name: &str| dir.join(format!("{name}.json"));
    let finalize = |kind: &str, last: &str| {
        let call = host.tool(&["finalize", "--kind", kind, "--unit"]).arg(file("05-unit-after")).arg("--unit").arg(file(last));
        let documents = ["01-configuration", "02-version", "03-snapshot", "04-dump"].map(file);
        call.arg(&point).args(documents).env("SVC_RUN_ID", run).run()
    };
    let again = || fs::remove_file(point.join("SHA256SUMS")).unwrap();
    for running in ["active", "ran", "along"] {
        finalize("upgrade", running).fails(1, "not_quiesced").unchanged();
    }
    assert_eq!(finalize("manual", "active").ok().result()["quiesced"], json!(false));
    // A service that was stopped for it, and was started meanwhile.
    again();
    fs::copy(file("stop"), file("05-unit-after")).unwrap();
    finalize("manual", "active").review("not_quiesced");
    again();
    let done = finalize("upgrade", "05-unit-after").ok().has(&json!({"quiesced": true, "version": "1.15.5", "id": run}));
    assert_eq!(host.run(&["list"]).texts("points", "state"), ["valid"]);
    finalize("upgrade", "05-unit-after").ok().unchanged().has(&json!({"made_at": done.result()["made_at"]}));
    // The undo list of a run that was killed just then removes neither it nor its snapshot.
    let remove = || host.tool(&["remove", "--kind", "upgrade"]).arg(&point).env("SVC_RUN_ID", run).run();
    remove().ok().unchanged();
    assert_eq!(host.calls(), "");

    again();
    // Whether it has sums cannot be seen.
    symlink("SHA256SUMS", point.join("SHA256SUMS")).unwrap();
    remove().fails(1, "failed").unchanged();
    assert_eq!(host.calls(), "");
    again();
    // As long as the snapshot is left, it is not done: whoever undoes it comes again.
    host.snap(5, &failed("svc-snap.delete/1", "search_unreachable"));
    remove().fails(5, "search_unreachable");
    assert!(point.exists());
    host.snap(0, &document("svc-snap.delete/1", &json!({})));
    remove().ok();
    let delete = format!("delete {} --cancel\n", snapshot_name("svc", run, "upgrade"));
    assert!(!point.exists() && host.calls() == delete.repeat(2), "{}", host.calls());
    // It may be in another directory now, and its snapshot that of a valid restore point.
    remove().ok().unchanged();
    assert_eq!(host.calls().lines().count(), 2);
    host.tool(&["remove", "--kind", "manual"]).arg(host.path("state")).run().refused("point_not_found");
}

#[test]
fn remove_after_failed_dump_or_snapshot_keeps_other() {
    let run = "20261120t020003z-backup-nightly";
    let deletes = format!("delete {} --cancel\n", snapshot_name("svc", run, "nightly"));
    for (fails, sentence, calls) in
        [("04-dump", "The snapshot is valid and kept. See ", ""), ("03-snapshot", "The dump is valid and kept. See ", &deletes)]
    {
        let host = Host::new();
        let (point, dir) = begun(&host, run);
        let mut failed = failed("mine.make/1", "x");
        failed["changed"] = Value::Null;
        left(&dir, &format!("{fails}.json"), &failed);
        let ran = host.tool(&["remove", "--kind", "nightly"]).arg(&point).env("SVC_RUN_ID", run).run().ok();
        assert!(ran.result()["message"].as_str().unwrap().starts_with(sentence), "{ran}");
        assert_eq!((&ran.result()["incomplete_point"], host.calls().as_str()), (&json!(point), calls));
        assert_eq!(point.join("pgdump.json").exists(), fails != "04-dump");
        assert_eq!(host.run(&["list"]).texts("points", "state"), ["incomplete"]);
    }
}

#[test]
fn space_check_warns_of_estimate_and_refuses_at_flood_stage() {
    let host = Host::new();
    fs::create_dir_all(host.path("state")).unwrap();
    let write = |name: &str, result: Value| fs::write(host.path(name), document("t.s/1", &result).to_string()).unwrap();
    for (name, level) in [("free", "free"), ("flooded", "past_flood_stage")] {
        let disks = json!([{"node": "n1", "level": level}]);
        write(name, json!({"indices_bytes": 5000, "disks": disks, "repository": {"location": host.path("state")}}));
    }
    write("none", json!({"snapshots_count": 0}));
    write("some", json!({"snapshots_count": 3}));
    write("small", json!({"expected_bytes": 2048}));
    write("large", json!({"expected_bytes": u64::MAX / 2}));
    let space = |search: &str, repository: &str, database: &str| {
        let files = [("--search", search), ("--repository", repository), ("--database", database)];
        files.iter().fold(host.tool(&["space"]), |call, (flag, name)| call.arg(*flag).arg(host.path(name))).run()
    };
    let ran = space("free", "none", "small").ok();
    let summary = ran.result()["summary"].as_str().unwrap();
    assert!(summary.contains("a dump takes about 2.00 KiB") && summary.contains("a first snapshot takes 4.88 KiB"), "{summary}");
    assert_eq!((&ran.doc()["warnings"], &ran.result()["one_disk"]), (&json!([]), &json!(true)));
    assert_eq!(space("free", "some", "small").ok().result()["snapshot_bytes"], Value::Null);
    space("free", "none", "large").ok().warns("out_of_space");
    // Indices that take no writes would end an installer half-way.
    space("flooded", "some", "small").refused("out_of_space").error_has(&["n1 is past its flood stage", "SVC_BACKUP_DIR"]);
    space("absent", "absent", "absent").ok();
    let backups = host.path("backups");
    fs::create_dir(&backups).unwrap();
    let _disk = SmallDisk::at(&backups, 1).unwrap();
    space("absent", "absent", "absent").refused("out_of_space");
}

#[test]
fn rehearsal_reports_count_comparison_and_timings() {
    let host = Host::new();
    let point = host.point("nightly", 1, false);
    left(&point, "pgdump.json", &document("svc-pgdump.dump/1", &json!({"rows_count": 9})));
    let run = "20261120t020003z-rehearse";
    let begun = Timestamp::now() - SignedDuration::from_secs(60);
    // One begins 10 s after the run and takes 20 s, the other begins 1 s later and takes 5 s.
    let steps = [("check-point", 0, 1), ("stage-search", 10, 20_000), ("stage-database", 11, 5000)];
    let folder = host.journal(run, "svc-rehearse", None, &steps.map(|(step, ..)| step), None);
    let index = |found: u64, expected: Option<u64>| json!({"index": "i", "docs_count": found, "docs_expected": expected});
    let stage = |search: Value, warnings: Value| {
        for (number, (step, seconds, duration)) in (1..).zip(steps) {
            let name = format!("{number:02}-{step}");
            let file = fs::File::options().write(true).open(folder.join(format!("{name}.started"))).unwrap();
            file.set_modified((begun + SignedDuration::from_secs(seconds)).into()).unwrap();
            let mut said = match step {
                "stage-search" => document("svc-snap.stage/1", &json!({"indices": [index(5, Some(5)), search.clone()]})),
                "stage-database" => document("svc-pgrestore.stage/1", &json!({"verification": {"rows_count": 9}})),
                _ => document("t.s/1", &json!({})),
            };
            (said["duration_ms"], said["warnings"]) = (json!(duration), warnings.clone());
            left(&folder, &format!("{name}.json"), &said);
        }
    };
    let rehearsal = |args: &[&str]| {
        let call = host.tool(&["rehearsal", "--search"]).arg(folder.join("02-stage-search.json")).arg("--database");
        call.arg(folder.join("03-stage-database.json")).arg(&point).args(args.iter().copied()).talks().run()
    };

    let not_counted = json!([{"code": "not_verified", "message": "No."}]);
    for (search, warnings, verified) in [
        (index(2, Some(2)), json!([]), true),
        (index(2, Some(3)), json!([]), false),
        (index(2, None), json!([]), false),
        (index(2, Some(2)), not_counted, false),
    ] {
        stage(search, warnings);
        let ran = rehearsal(&["--run-id", run, "-v"]).ok().has(&json!({"kind": "nightly", "counts_verified": verified}));
        let counts = json!({"docs_count": 7, "rows_count": 9, "rows_expected": 9, "staging_ms": 20_000, "downtime_ms": null});
        let ran = ran.has(&counts);
        let before = ran.result()["before_stop_ms"].as_u64().unwrap();
        assert!((60_000..600_000).contains(&before), "{before}");
        let (how, rest) = if verified { ("verified", ". ") } else { ("staged", "; not all counts could be compared. ") };
        let says = format!("svc-point: {how}: 7 documents in 2 indices, 9 rows{rest}");
        assert!(ran.stderr.starts_with(&says), "{ran}");
    }
    rehearsal(&[]).fails(4, "swap_not_found");
    // The newest rollback that has told it says how long the service is down.
    for (days, told) in [(3, json!(11)), (2, json!(12_340)), (1, Value::Null)] {
        host.journal(&at(days, "rollback"), "svc-rollback", None, &["stop"], Some((true, json!({"downtime_ms": told}))));
    }
    assert_eq!(rehearsal(&["--run-id", run]).ok().result()["downtime_ms"], json!(12_340));
}

#[test]
fn metrics_report_points_rehearsals_copies_and_runs() {
    let host = Host::new();
    let metrics = || host.run(&["metrics"]).stdout;
    // Nothing is there: only that no run is unfinished.
    assert_eq!(samples(&metrics()), [("svc_unfinished_runs".to_owned(), "service=\"svc\"".to_owned(), 0.0)]);

    host.point("nightly", 9, false);
    let (nightly, upgrade) = (host.point("nightly", 2, false), host.point("upgrade", 3, true));
    let damaged = host.point("nightly", 1, false);
    fs::write(damaged.join("SHA256SUMS"), "").unwrap();
    let downtime = Some((true, json!({"downtime_ms": 12_340})));
    host.journal(&at(3, "upgrade-2.0.1"), "svc-upgrade", None, &["installer"], downtime);
    let verified = Some((true, json!({"rehearsal": {"counts_verified": true}})));
    host.journal(&at(8, "rehearse"), "svc-rehearse", None, &["point"], verified);
    let copy = json!({"point_id": id_of(&upgrade), "made_at": ago(4).to_string(), "copied_at": ago(1).to_string()});
    fs::write(host.path("state/offsite.json"), copy.to_string()).unwrap();

    let text = metrics();
    let found = samples(&text);
    let value = |name: &str, labels: &str| {
        let labels = format!("service=\"svc\"{labels}");
        let mut of = found.iter().filter(|(one, with, _)| one == name && *with == labels);
        of.next().unwrap_or_else(|| panic!("{name} {labels} is not in\n{text}")).2
    };
    let near = |found: f64, wanted: f64| assert!((found - wanted).abs() < 60.0, "{found} {wanted}\n{text}");
    let day = 86_400.0;
    let now = Timestamp::now().as_second() as f64;
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
    left(&killed, "notes.json", &bare::undo("u", &["true"]));
    assert!(metrics().contains("svc_unfinished_runs{service=\"svc\"} 2\n"));

    // What a restore point says of itself may be anything.
    let odd = host.point("o\"d\\d", 1, true);
    let text = metrics();
    assert!(text.contains(",kind=\"o\\\"d\\\\d\",quiesced=\"true\"} "), "{text}");
    samples(&text);
    fs::remove_dir_all(odd).unwrap();

    // The file of the collector: complete, readable by everybody, with nothing beside it; one that cannot be written fails.
    let folder = host.path("collector");
    fs::create_dir(&folder).unwrap();
    let file = folder.join("svc.prom");
    let write = |file: &Path| host.tool(&["metrics", "--output"]).arg(file).run();
    for content in ["", "old"] {
        if !content.is_empty() {
            fs::write(&file, content).unwrap();
        }
        let ran = write(&file).ok().unchanged();
        assert_eq!(ran.result()["output"], json!(file));
        assert_eq!(ran.result()["samples_count"], json!(samples(&fs::read_to_string(&file).unwrap()).len()));
        assert_eq!(os::mode(&file), 0o644);
        assert_eq!(count_in(&folder), 1);
    }
    let before = fs::read(&file).unwrap();
    write(Path::new("/nowhere/svc.prom")).fails(4, "file_not_found");
    // A restore point that cannot be told of leaves the file as it was: its age is the alarm.
    fs::remove_dir_all(host.path("backups")).unwrap();
    fs::write(host.path("backups"), "").unwrap();
    write(&file).refused("name_in_use");
    assert_eq!(fs::read(&file).unwrap(), before);
}

#[test]
fn push_without_offsite_setting_or_restic_is_refused() {
    let host = Host::new();
    let point = id_of(&host.point("nightly", 1, true));
    let write = |name: &str, schema: &str, result: Value| {
        fs::write(host.path(name), document(schema, &result).to_string()).unwrap();
    };
    write("search", "svc-snap.health/1", json!({"cluster_uuid": "c", "repository": {"name": "svc", "type": "s3"}}));
    let (done, begun) = (json!({"uuid": "u", "state": "SUCCESS"}), json!({"uuid": "v", "state": "IN_PROGRESS"}));
    write("idle", "svc-snap.list/1", json!({"snapshots": [done]}));
    write("taking", "svc-snap.list/1", json!({"snapshots": [done, begun]}));
    let push = |listed: &str| {
        let call = host.tool(&["push", &point, "--snapshot", "/none", "--search"]).arg(host.path("search"));
        call.arg("--snapshots").arg(host.path(listed))
    };
    push("idle").run().fails(2, "settings_invalid");
    push("taking").arg("--dry-run").run().fails(5, "server_busy");
    push("none").arg("--dry-run").run().fails(2, "from_invalid");
    // Without restic.
    push("idle").env("SVC_OFFSITE", "/far").env("PATH", host.path("bin")).run().fails(4, "file_not_found");
}

#[test]
fn offsite_age_and_last_rehearsal_are_reported() {
    let host = Host::new();
    let age = |max: &str| host.run(&["age", "--offsite", "--max-age", max]);
    age("26h").fails(7, "point_too_old").error_has(&["No off-site copy is recorded in "]).has(&json!({"age_ms": null}));
    // Of what age the data is counts, and not when it was copied.
    let id = "20261120t020003z-backup-nightly";
    let copy = json!({"point_id": id, "made_at": ago(2).to_string(), "copied_at": ago(0).to_string()});
    fs::create_dir_all(host.path("state")).unwrap();
    fs::write(host.path("state/offsite.json"), copy.to_string()).unwrap();
    assert_eq!(age("26h").fails(7, "point_too_old").result()["offsite"]["point_id"], json!(id));
    let table = host.run(&["age", "--offsite", "--max-age", "3d", "--table"]);
    assert_eq!(table.stdout, format!("The restore point of the last off-site copy, {id}, is 48 h 0 min old.\n"));
    for cut in ["", "{}", "{\"point_id\": \"p\", \"made_at\": \"yesterday\", \"copied_at\": \"a\"}"] {
        fs::write(host.path("state/offsite.json"), cut).unwrap();
        age("3d").fails(7, "file_invalid");
        let metrics = host.run(&["metrics"]);
        assert!(metrics.status == 9 && !metrics.stdout.contains("offsite"), "{metrics}");
    }

    let last = || host.run(&["list"]).ok().result()["last_rehearsal"].clone();
    assert_eq!(last(), Value::Null);
    let result = |verified: bool| json!({"rehearsal": {"counts_verified": verified}});
    for (days, ended, verdict) in [
        (9, Some((true, result(true))), "verified"),
        (8, Some((true, result(false))), "not_verified"),
        (7, Some((false, json!({}))), "failed"),
        (6, None, "interrupted"),
    ] {
        let run = at(days, "rehearse");
        host.journal(&run, "svc-rehearse", None, &["point", "stage-search"], ended);
        // Only a rehearsal that has chosen a restore point is one.
        host.journal(&at(1, "rehearse"), "svc-rehearse", None, &[], Some((true, json!({}))));
        assert_eq!((&last()["verdict"], &last()["run_id"]), (&json!(verdict), &json!(run)), "{days}");
        assert_eq!(last()["age_ms"].as_u64().unwrap() / 86_400_000, days.unsigned_abs());
    }
    // The clock was ahead once, and IDs continue from the greatest.
    let ahead = host.journal("20990101t000000z-rehearse", "svc-rehearse", None, &["point"], Some((true, result(true))));
    left(&ahead, "plan.json", &json!({"script": "svc-rehearse", "started_at": ago(5).to_string()}));
    assert_eq!(last()["age_ms"].as_u64().unwrap() / 86_400_000, 5);
    fs::remove_dir_all(ahead).unwrap();
    let table = host.run(&["list", "--table"]).stdout;
    assert!(table.contains("last rehearsal verdict") && table.contains("interrupted") && table.contains("(6 d ago)"), "{table}");
}
