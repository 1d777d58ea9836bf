//! Restore points as one thing: `svc-backup --list`, `--prune` and `--delete`, and `svc-nightly`, which makes and prunes them.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use svc_tests::damage;
use svc_tests::disk::SmallDisk;
use svc_tests::installed::may_stand_in_a_file;
use svc_tests::journey::{
    copy_folder, count_in, finalize, id_of, installed, journal, json_of, newest_run, point_of, runs, still,
};
use svc_tests::product::Product;
use svc_tests::tool::{Ran, Tool};
use svc_tests::{os, wait};

/// What nothing answers at.
const DOWN: (&str, &str) = ("SVC_SEARCH_URL", "http://127.0.0.1:9");
const A_WHILE: Duration = svc_tests::wait::HANG;

fn backup(product: &Product, args: &[&str]) -> Tool {
    product.tool("svc-backup").args(args.iter().copied())
}

/// A restore point like another, of a kind, as if it had been made so many days ago; with a snapshot of its own.
fn aged(product: &Product, like: &Path, kind: &str, days: i64) -> PathBuf {
    let then = jiff::Timestamp::now() - jiff::SignedDuration::from_hours(24 * days);
    let id = format!("{}-backup-{kind}", then.strftime("%Y%m%dt%H%M%Sz"));
    let point = product.backup_dir().join(&id);
    copy_folder(like, &point);
    let mut said = json_of(point.join("restore-point.json"));
    (said["id"], said["kind"]) = (json!(id), json!(kind));
    said["made_at"] = json!(then.strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
    fs::write(point.join("restore-point.json"), said.to_string()).unwrap();
    let name = format!("snapshot_{}_{}_{id}_{kind}", product.name, &id[..8]);
    let snapshot = product.tool("svc-snap").args(["create", &name, "--kind", kind]).run().ok();
    fs::write(point.join("snapshot.json"), snapshot.text()).unwrap();
    finalize(&point);
    point
}

/// What a document says of each point: its id and the value of a key.
fn told(ran: &Ran, key: &str) -> Vec<(String, String)> {
    let text = |one: &Value, key: &str| one[key].as_str().unwrap_or_default().to_owned();
    ran.result()["points"].as_array().unwrap().iter().map(|one| (text(one, "id"), text(one, key))).collect()
}

#[test]
fn prune_removes_old_points_snapshots_and_runs() {
    let (product, _) = installed("ptprune");
    assert_eq!(backup(&product, &["--list"]).run().ok().result()["points"], json!([]));
    let first = point_of(&backup(&product, &["--kind", "nightly"]).run().ok());
    let manual = aged(&product, &first, "manual", 60);
    let old = aged(&product, &first, "nightly", 40);
    let cut = aged(&product, &first, "nightly", 35);
    let lost = aged(&product, &first, "nightly", 34);
    let damaged = aged(&product, &first, "nightly", 33);
    damage::flip_a_byte(&damaged.join("version.json")).unwrap();
    let worse = first;
    damage::flip_a_byte(&worse.join("ptprune_db.backup.sql")).unwrap();
    // As a script that was killed leaves one.
    fs::remove_file(cut.join("SHA256SUMS")).unwrap();
    fs::create_dir(product.backup_dir().join("lost+found")).unwrap();

    let ran = backup(&product, &["--list"]).run().ok().unchanged();
    let states: Vec<String> = told(&ran, "state").into_iter().map(|(_, state)| state).collect();
    assert_eq!(states, ["valid", "valid", "incomplete", "valid", "damaged", "valid"], "{ran}");
    let ran = backup(&product, &["--list", "--read-all"]).run().ok();
    assert_eq!(told(&ran, "state")[5], (id_of(&worse), "damaged".to_owned()));
    assert_eq!(ran.result()["points"][5]["damaged_files"], json!(["ptprune_db.backup.sql"]));

    // The newest that says it is good is not: it protects nothing that is older.
    let ran = backup(&product, &["--prune", "--max-count", "1", "--min-count", "1", "--dry-run"]).talks().run().ok().unchanged();
    assert!(!ran.result()["plan"].as_array().unwrap().is_empty(), "{ran}");
    assert!(ran.result()["points"].as_array().unwrap().iter().any(|point| point["id"] == id_of(&old)), "{ran}");
    assert!(old.join("SHA256SUMS").exists());
    // One snapshot is gone already.
    product.tool("svc-snap").arg("delete").arg("--from").arg(old.join("snapshot.json")).run().ok();
    let before = product.snapshots().len();
    let newest = point_of(&backup(&product, &["--kind", "nightly"]).run().ok());
    let ran = backup(&product, &["--prune", "--min-count", "2"]).run().ok().changed();
    let expected = [
        (&manual, "other_kind"),
        (&old, "max_age"),
        (&cut, "superseded"),
        (&lost, "max_age"),
        (&damaged, "damaged"),
        (&worse, "min_count"),
        (&newest, "newest"),
    ];
    assert_eq!(told(&ran, "reason"), expected.map(|(point, reason)| (id_of(point), reason.to_owned())), "{ran}");
    assert_eq!(ran.result()["removed"], json!([id_of(&old), id_of(&cut), id_of(&lost)]), "{ran}");
    assert!(!old.exists() && !cut.exists() && !lost.exists() && manual.exists() && damaged.exists() && worse.exists());
    assert_eq!(product.snapshots().len(), before + 1 - 2, "their snapshots are to go too");
    // So do old runs that nothing needs.
    os::run(std::process::Command::new("touch").args(["-d", "100 days ago"]).arg(ran.run_dir())).unwrap();
    let again = backup(&product, &["--prune", "--min-count", "2"]).run().ok().changed();
    assert_eq!((&again.result()["removed"], &again.result()["removed_runs"]), (&json!([]), &json!([ran.id()])), "{again}");
    backup(&product, &["--prune", "--min-count", "2"]).run().ok().unchanged();

    backup(&product, &["--delete", &id_of(&newest)]).run().refused("not_removed");
    backup(&product, &["--delete", "20260101t000000z-x"]).run().fails(4, "point_not_found").unchanged();
    backup(&product, &["--delete", &id_of(&manual), "--delete", &id_of(&damaged)]).run().ok().changed();
    assert!(!manual.exists() && !damaged.exists());
    assert!(product.backup_dir().join("lost+found").exists());
}

#[test]
fn prune_removes_nothing_if_newest_cannot_be_verified() {
    let (product, _) = installed("ptproof");
    // The last look at the unit, when all else is done: the run is told to end, tells it to end too, and it ends well all the same.
    let last = "case $* in status*) if ls \"$SVC_STATE_DIR\"/runs/*/*-unit-after.started >&2; then\n\
                trap told=yes TERM; kill -TERM $PPID; until [ $told ]; do sleep 0.01; done; trap - TERM; fi ;; esac";
    let ran = backup(&product, &[]).stub(&product.path("stub"), "svc-unit", last).run();
    let ran = ran.fails(143, "interrupted");
    assert!(ran.stderr.contains("TERM"), "{ran}");
    let after = journal(&ran.run_dir()).into_iter().find(|name| name.ends_with("-unit-after.json")).unwrap();
    assert_eq!(json_of(ran.run_dir().join(after))["ok"], true, "{ran}");
    assert_eq!((count_in(&product.backup_dir()), product.snapshots().len()), (0, 0));

    let newest = point_of(&backup(&product, &["--kind", "nightly"]).run().ok());
    let old = aged(&product, &newest, "nightly", 40);
    let prune = || backup(&product, &["--prune", "--min-count", "1"]);
    prune().env(DOWN.0, DOWN.1).run().fails(5, "search_unreachable").unchanged();
    assert!(old.join("SHA256SUMS").exists());
    // With the snapshot of the newest gone, the one before it is the newest good one.
    product.tool("svc-snap").arg("delete").arg("--from").arg(newest.join("snapshot.json")).run().ok();
    let ran = prune().run().ok().unchanged();
    assert_eq!(told(&ran, "reason"), [(id_of(&old), "newest".to_owned()), (id_of(&newest), "not_verified".to_owned())], "{ran}");
    assert!(old.join("SHA256SUMS").exists());

    the_points_of_a_search_database_that_is_gone_and_of_upgrades_go_too(&product, &old);
}

fn the_points_of_a_search_database_that_is_gone_and_of_upgrades_go_too(product: &Product, newest: &Path) {
    let elsewhere = aged(product, newest, "nightly", 50);
    let mut said = json_of(elsewhere.join("snapshot.json"));
    said["result"]["cluster_uuid"] = json!("another-cluster");
    fs::write(elsewhere.join("snapshot.json"), said.to_string()).unwrap();
    finalize(&elsewhere);
    let ran = backup(product, &["--prune", "--min-count", "1"]).run().ok().changed().warns("not_removed");
    assert_eq!(ran.result()["removed"], json!([id_of(&elsewhere)]), "{ran}");
    assert!(ran.result()["partially_removed"].is_null() && !elsewhere.exists(), "{ran}");

    // The id of an upgrade's has dots.
    let manual = aged(product, newest, "manual", 60);
    let upgrade = manual.with_file_name(id_of(&manual).replace("backup-manual", "upgrade-2.0.1"));
    fs::rename(&manual, &upgrade).unwrap();
    let said = fs::read_to_string(upgrade.join("restore-point.json")).unwrap();
    fs::write(upgrade.join("restore-point.json"), said.replace(&id_of(&manual), &id_of(&upgrade))).unwrap();
    finalize(&upgrade);
    let delete = || backup(product, &["--delete", &id_of(&upgrade)]);
    let down = delete().env(DOWN.0, DOWN.1).run().fails(5, "search_unreachable").changed();
    assert_eq!(down.result()["partially_removed"], json!(id_of(&upgrade)), "{down}");
    let ran = delete().run().ok().changed();
    let steps: Vec<_> = ran.result()["steps"].as_array().unwrap().iter().map(|step| step["ok"].clone()).collect();
    assert_eq!(steps, [json!(true)], "{ran}");
    assert!(!upgrade.exists());
}

/// `svc-nightly` as cron starts it: nothing in the environment but the `PATH`, all settings in the file.
fn nightly(product: &Product, changed: &[(&str, &str)]) -> Tool {
    let file = product.path("environment");
    let mut lines = String::new();
    // The later of two of one name is the product's own.
    let env: std::collections::BTreeMap<String, String> = product.env().into_iter().collect();
    for (key, value) in env.into_iter().filter(|(key, _)| may_stand_in_a_file(key)) {
        let value = changed.iter().find(|(other, _)| *other == key).map_or(value.as_str(), |(_, value)| value);
        lines.push_str(&format!("{key}=\"{value}\"\n"));
    }
    fs::write(&file, lines).unwrap();
    Tool::new("svc-nightly").env("SVC_ENVIRONMENT_FILE", file).env_remove("LANG")
}

/// A night that fails: the sentence is on stderr, nothing is on stdout, and the document is in the run directory.
fn bad_night(product: &Product, night: Tool, status: i32) -> Value {
    let ran = night.run();
    assert_eq!((ran.status, ran.stdout.as_str()), (status, ""), "{ran}");
    let half = runs(product).into_iter().rfind(|run| run.to_string_lossy().contains("-backup-nightly"));
    let document = json_of(half.unwrap_or_else(|| panic!("no backup\n{ran}")).join("document.json"));
    let message = document["error"]["message"].as_str().unwrap();
    assert!(ran.stderr.contains(message), "what {message} says is not on stderr\n{ran}");
    document
}

#[test]
fn failed_night_keeps_its_valid_dump_or_snapshot() {
    let (product, _) = still("ptnight");
    let file = product.path("svc.prom");
    let nightly = |changed: &[(&str, &str)]| nightly(&product, changed).env("SVC_METRICS_FILE", &file);
    let bad_night = |changed: &[(&str, &str)], status: i32| bad_night(&product, nightly(changed), status);
    let none = nightly(&[]).args(["--max-age", "26h"]).run();
    assert!(none.status == 7 && none.stdout.starts_with("There is no valid restore point in "), "{none}");

    // The search database does not answer; the dump is there.
    let document = bad_night(&[DOWN], 5);
    // There is no point yet.
    assert_eq!(value(&check_metrics(&file), "svc_restore_point_timestamp_seconds"), None);
    let with_dump = PathBuf::from(document["result"]["incomplete_point"].as_str().unwrap());
    assert!(document["changed"] == true && !document["error"]["hint"].to_string().contains("Nothing was changed"), "{document}");
    assert!(with_dump.join("ptnight_db.backup.sql").exists() && with_dump.join("pgdump.json").exists());
    // PostgreSQL does not answer; the snapshot is there.
    let document = bad_night(&[("PGPORT", "9")], 5);
    let with_snapshot = PathBuf::from(document["result"]["incomplete_point"].as_str().unwrap());
    product.tool("svc-snap").arg("show").arg("--from").arg(with_snapshot.join("snapshot.json")).run().ok();
    assert_eq!(product.snapshots().len(), 1);
    let ran = backup(&product, &["--list"]).run().ok();
    assert_eq!(
        told(&ran, "state"),
        [(id_of(&with_dump), "incomplete".to_owned()), (id_of(&with_snapshot), "incomplete".to_owned())]
    );

    // Two nights at once: the second finds the first in progress, however long that takes, and does nothing.
    let known = runs(&product).len();
    let first = nightly(&[]).spawn();
    wait::until("the first night's backup", A_WHILE, || (runs(&product).len() > known + 1).then_some(())).unwrap();
    first.signal_group(Signal::SIGSTOP);
    let known = runs(&product).len();
    let second = nightly(&[]).run();
    assert!(second.status == 8 && second.stdout.is_empty() && second.stderr.contains("hint: "), "{second}");
    assert_eq!(runs(&product).len(), known, "the second night has begun a run\n{second}");
    first.signal_group(Signal::SIGCONT);

    // A good night takes both halves away.
    let ran = first.wait();
    assert_eq!((ran.status, ran.stdout.as_str(), ran.stderr.as_str()), (0, "", ""));
    assert!(newest_run(&product).join("document.json").exists(), "a night leaves its document in its run directory");
    let text = check_metrics(&file);
    let age = jiff::Timestamp::now().as_second() as f64 - value(&text, "svc_restore_point_timestamp_seconds").unwrap();
    assert!((0.0..600.0).contains(&age) && text.contains("kind=\"nightly\",quiesced="), "{text}");
    assert_eq!((value(&text, "svc_unfinished_runs"), value(&text, "svc_rehearsal_verdict")), (Some(0.0), None), "{text}");
    let list = backup(&product, &["--list"]).run().ok();
    let points = list.result()["points"].as_array().unwrap();
    assert!(points.len() == 1 && points[0]["state"] == "valid" && points[0]["quiesced"] == false, "{list}");
    assert_eq!(product.snapshots().len(), 1);
    assert!(product.is_active());

    // A full disk.
    let small = product.path("small");
    fs::create_dir(&small).unwrap();
    let disk = SmallDisk::at(&small, 1).unwrap();
    fs::write(small.join("full"), vec![0; 1_040_000]).unwrap();
    let full = nightly(&[("SVC_BACKUP_DIR", small.to_str().unwrap())]).run();
    assert!(full.status != 0 && full.status != 9 && full.stdout.is_empty() && full.stderr.contains("hint: "), "{full}");
    assert!(!fs::read_dir(&small).unwrap().any(|point| point.unwrap().path().join("SHA256SUMS").exists()));
    drop(disk);

    let young = nightly(&[]).args(["--max-age", "26h"]).run();
    assert!(young.status == 0 && young.stdout.starts_with("The newest valid restore point, "), "{young}");
    let point = PathBuf::from(points[0]["path"].as_str().unwrap());
    let about = point.join("restore-point.json");
    let text = fs::read_to_string(&about).unwrap();
    fs::write(&about, text.replace(points[0]["made_at"].as_str().unwrap(), "2026-01-01T00:00:00Z")).unwrap();
    finalize(&point);
    let old = nightly(&[]).args(["--max-age", "26h"]).run();
    assert!(old.status == 7 && old.stdout.ends_with(" min old.\n") && old.stderr.contains("hint: "), "{old}");

    metrics_of_a_rehearsal_and_of_upgrades(&product, &file, &point);
    let ran = nightly(&[]).env("SVC_METRICS_FILE", "/nowhere/svc.prom").talks().run();
    assert!(ran.status == 0 && ran.stdout.is_empty() && ran.stderr.starts_with("svc-point: Cannot "), "{ran}");
}

/// Whether Prometheus's own checker takes the file.
fn check_metrics(file: &Path) -> String {
    let text = fs::read_to_string(file).unwrap();
    let checked = std::process::Command::new("promtool").args(["check", "metrics"]).stdin(fs::File::open(file).unwrap()).output();
    let checked = checked.unwrap();
    assert!(checked.status.success() && checked.stderr.is_empty(), "{checked:?}\n{text}");
    text
}

/// What a metric has, if it is there.
fn value(text: &str, name: &str) -> Option<f64> {
    let line = text.lines().find(|line| line.starts_with(&format!("{name}{{")))?;
    line.rsplit_once(' ').unwrap().1.parse().ok()
}

fn metrics_of_a_rehearsal_and_of_upgrades(product: &Product, file: &Path, point: &Path) {
    let with_metrics = |tool: &str| product.tool(tool).env("SVC_METRICS_FILE", file);
    // A rehearsal changes nothing, and has its verdict at its end.
    let verdict = |text: &str| {
        let line = text.lines().find(|line| line.starts_with("svc_rehearsal_verdict{") && line.ends_with(" 1")).unwrap();
        line.split("verdict=\"").nth(1).unwrap().split('"').next().unwrap().to_owned()
    };
    let rehearse = || with_metrics("svc-rehearse");
    rehearse().run().ok().unchanged();
    let text = check_metrics(file);
    assert_eq!(verdict(&text), "verified", "{text}");
    assert!((0.1..600.0).contains(&value(&text, "svc_rehearsal_duration_seconds").unwrap()), "{text}");
    let list = backup(product, &["--list"]).run().ok();
    assert_eq!(list.result()["last_rehearsal"]["verdict"], "verified", "{list}");
    // One that fails is told.
    damage::flip_a_byte(&point.join("version.json")).unwrap();
    rehearse().arg(point).run().fails(7, "point_invalid").unchanged();
    let text = check_metrics(file);
    assert_eq!(verdict(&text), "failed", "{text}");
    // An upgrade writes them too, also one that fails; what was killed is counted until it is undone.
    let upgrade = || with_metrics("svc-upgrade");
    upgrade().arg(product.failing_installer()).run().fails(1, "command_failed");
    assert_eq!(value(&check_metrics(file), "svc_unfinished_runs"), Some(1.0));
    with_metrics("svc-rollback").run().ok();
    assert_eq!(value(&check_metrics(file), "svc_unfinished_runs"), Some(0.0));
    let ran = upgrade().arg(product.installer("2.0.1")).run().ok();
    let downtime = ran.result()["downtime_ms"].as_u64().unwrap() as f64 / 1000.0;
    assert_eq!(value(&check_metrics(file), "svc_upgrade_downtime_seconds"), Some(downtime));
    // A dry run writes none.
    fs::remove_file(file).unwrap();
    rehearse().arg("--dry-run").talks().run();
    assert!(!file.exists());
}
