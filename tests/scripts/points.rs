//! Restore points as one thing: `svc-backup --list`, `--prune` and `--delete`, and `svc-nightly`, which makes and prunes them.

use std::fs;
use std::path::{Path, PathBuf};

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use svc_tests::damage;
use svc_tests::disk::SmallDisk;
use svc_tests::journey::{
    copy_folder, count_in, finalize, id_of, installed, journal, json_of, newest_run, point_of, runs, still,
};
use svc_tests::metrics::samples;
use svc_tests::product::Product;
use svc_tests::tool::Tool;
use svc_tests::{os, wait};

/// What nothing answers at.
const DOWN: (&str, &str) = ("SVC_SEARCH_URL", "http://127.0.0.1:9");

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

#[test]
fn prune_removes_old_points_snapshots_and_runs() {
    let (product, _) = installed("ptprune");
    let newest = point_of(&backup(&product, &["--kind", "nightly", "--because", "a look"]).run().ok());
    assert_eq!(json_of(newest.join("snapshot.json"))["result"]["snapshot"]["metadata"]["taken_because"], "a look");
    let [old, lost, elsewhere] = [40, 34, 33].map(|days| aged(&product, &newest, "nightly", days));
    let manual = aged(&product, &newest, "manual", 60);
    // The snapshot of one is gone already, that of another is in another cluster.
    product.tool("svc-snap").arg("delete").arg("--from").arg(lost.join("snapshot.json")).run().ok();
    let mut said = json_of(elsewhere.join("snapshot.json"));
    said["result"]["cluster_uuid"] = json!("another-cluster");
    fs::write(elsewhere.join("snapshot.json"), said.to_string()).unwrap();
    finalize(&elsewhere);
    let before = product.snapshots().len();

    let prune = || backup(&product, &["--prune", "--min-count", "1"]);
    prune().env(DOWN.0, DOWN.1).run().fails(5, "search_unreachable").unchanged();
    let planned = prune().arg("--dry-run").talks().run().ok().unchanged();
    assert!(planned.result()["points"].to_string().contains(&id_of(&old)) && old.join("SHA256SUMS").exists(), "{planned}");
    let ran = prune().run().ok().changed().warns("not_removed");
    assert_eq!(ran.lines("removed"), [&old, &lost, &elsewhere].map(|point| id_of(point)), "{ran}");
    assert!([&old, &lost, &elsewhere].iter().all(|point| !point.exists()) && manual.exists() && newest.exists());
    assert_eq!(product.snapshots().len(), before - 1, "the snapshot of the old one alone is to go too");
    // So do old runs that nothing needs.
    os::run(std::process::Command::new("touch").args(["-d", "100 days ago"]).arg(ran.run_dir())).unwrap();
    let again = prune().run().ok().changed();
    assert_eq!((&again.result()["removed"], &again.result()["removed_runs"]), (&json!([]), &json!([ran.id()])), "{again}");
    prune().run().ok().unchanged();

    let delete = || backup(&product, &["--delete", &id_of(&manual)]);
    let down = delete().env(DOWN.0, DOWN.1).run().fails(5, "search_unreachable").changed();
    assert_eq!(down.result()["partially_removed"], json!(id_of(&manual)), "{down}");
    delete().run().ok().changed();
    assert!(!manual.exists());
}

#[test]
fn backup_that_is_told_to_end_at_its_last_step_leaves_nothing() {
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
}

/// `svc-nightly` as cron starts it: nothing in the environment but the `PATH`, all settings in the file.
fn nightly(product: &Product, changed: &[(&str, &str)]) -> Tool {
    let file = product.path("environment");
    fs::write(&file, product.settings_file(changed)).unwrap();
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
    assert_eq!(value(&file, "svc_restore_point_timestamp_seconds"), None);
    let with_dump = PathBuf::from(document["result"]["incomplete_point"].as_str().unwrap());
    assert!(document["changed"] == true && !document["error"]["hint"].to_string().contains("Nothing was changed"), "{document}");
    assert!(with_dump.join("ptnight_db.backup.sql").exists() && with_dump.join("pgdump.json").exists());
    // PostgreSQL does not answer; the snapshot is there.
    let document = bad_night(&[("PGPORT", "9")], 5);
    let with_snapshot = PathBuf::from(document["result"]["incomplete_point"].as_str().unwrap());
    product.tool("svc-snap").arg("show").arg("--from").arg(with_snapshot.join("snapshot.json")).run().ok();
    assert_eq!(product.snapshots().len(), 1);
    let list = backup(&product, &["--list"]).run().ok();
    let listed = |one: usize| ["id", "state"].map(|key| list.result()["points"][one][key].clone());
    assert_eq!([listed(0), listed(1)], [&with_dump, &with_snapshot].map(|point| [json!(id_of(point)), json!("incomplete")]));

    // Two nights at once: the second finds the first in progress, however long that takes, and does nothing.
    let known = runs(&product).len();
    let first = nightly(&[]).spawn();
    wait::until("the first night's backup", wait::HANG, || (runs(&product).len() > known + 1).then_some(())).unwrap();
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
    let (labels, made) = metric(&file, "svc_restore_point_timestamp_seconds").unwrap();
    let age = jiff::Timestamp::now().as_second() as f64 - made;
    assert!((0.0..600.0).contains(&age) && labels.contains("kind=\"nightly\",quiesced="), "{labels} {age}");
    assert_eq!((value(&file, "svc_unfinished_runs"), value(&file, "svc_rehearsal_verdict")), (Some(0.0), None));
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

/// What a metric in a file has, if it is there: the first sample that is not 0, else 0.
fn metric(file: &Path, name: &str) -> Option<(String, f64)> {
    let samples = samples(&fs::read_to_string(file).unwrap()).into_iter().filter(|(one, ..)| one == name);
    samples.map(|(_, labels, value)| (labels, value)).reduce(|first, next| if first.1 == 0.0 { next } else { first })
}

fn value(file: &Path, name: &str) -> Option<f64> {
    metric(file, name).map(|(_, value)| value)
}

fn metrics_of_a_rehearsal_and_of_upgrades(product: &Product, file: &Path, point: &Path) {
    let with_metrics = |tool: &str| product.tool(tool).env("SVC_METRICS_FILE", file);
    // A rehearsal changes nothing, and has its verdict at its end; also one that fails.
    let verdict = || metric(file, "svc_rehearsal_verdict").unwrap().0;
    let rehearse = || with_metrics("svc-rehearse");
    rehearse().run().ok().unchanged();
    assert!(verdict().contains("verdict=\"verified\""), "{}", verdict());
    assert!((0.1..600.0).contains(&value(file, "svc_rehearsal_duration_seconds").unwrap()));
    damage::flip_a_byte(&point.join("version.json")).unwrap();
    rehearse().arg(point).run().fails(7, "point_invalid").unchanged();
    assert!(verdict().contains("verdict=\"failed\""), "{}", verdict());
    // An upgrade writes them too, also one that fails; what was killed is counted until it is undone.
    let upgrade = || with_metrics("svc-upgrade");
    upgrade().arg(product.failing_installer()).run().fails(1, "command_failed");
    assert_eq!(value(file, "svc_unfinished_runs"), Some(1.0));
    with_metrics("svc-rollback").run().ok();
    assert_eq!(value(file, "svc_unfinished_runs"), Some(0.0));
    let ran = upgrade().arg(product.installer("2.0.1")).run().ok();
    let downtime = ran.result()["downtime_ms"].as_u64().unwrap() as f64 / 1000.0;
    assert_eq!(value(file, "svc_upgrade_downtime_seconds"), Some(downtime));
    // A dry run writes none.
    fs::remove_file(file).unwrap();
    rehearse().arg("--dry-run").talks().run();
    assert!(!file.exists());
}
