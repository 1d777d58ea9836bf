//! Restore points as one thing: `svc-backup --list`, `--prune` and `--delete`, and `svc-nightly`, which makes and prunes them.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;
use svc_tests::journey::{
    DOWN, copy_folder, count_in, document_of, finalize, id_of, installed, journal, json_of, newest_run, point_of, still,
};
use svc_tests::product::Product;
use svc_tests::tool::Tool;

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
fn prune_and_delete_remove_point_with_its_snapshot_alone() {
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

#[test]
fn failed_night_keeps_its_valid_dump_or_snapshot() {
    let (product, _) = still("ptnight");
    // As cron starts it: nothing in the environment but the `PATH`, all settings in the file.
    let file = product.path("environment");
    let night = |changed: &[(&str, &str)], options: &[&str]| {
        fs::write(&file, product.settings_file(changed)).unwrap();
        Tool::new("svc-nightly").env("SVC_ENVIRONMENT_FILE", &file).env_remove("LANG").args(options.iter().copied()).run()
    };
    // The sentence is on stderr, nothing is on stdout, and the document is in the run directory.
    let bad_night = |changed: &[(&str, &str)]| {
        let ran = night(changed, &[]);
        assert_eq!((ran.status, ran.stdout.as_str()), (5, ""), "{ran}");
        let document = document_of(&product, "-backup-nightly");
        let error = &document["error"];
        assert!(ran.stderr.contains(error["message"].as_str().unwrap()), "{ran}");
        assert!(document["changed"] == true && !error["hint"].to_string().contains("Nothing was changed"), "{document}");
        PathBuf::from(document["result"]["incomplete_point"].as_str().unwrap())
    };
    // The search database does not answer; the dump is there.
    let with_dump = bad_night(&[DOWN]);
    assert!(with_dump.join("ptnight_db.backup.sql").exists() && with_dump.join("pgdump.json").exists());
    // PostgreSQL does not answer; the snapshot is there.
    let with_snapshot = bad_night(&[("PGPORT", "9")]);
    product.tool("svc-snap").arg("show").arg("--from").arg(with_snapshot.join("snapshot.json")).run().ok();
    assert_eq!(product.snapshots().len(), 1);
    let list = backup(&product, &["--list"]).run().ok();
    let listed = |one: usize| ["id", "state"].map(|key| list.result()["points"][one][key].clone());
    assert_eq!([listed(0), listed(1)], [&with_dump, &with_snapshot].map(|point| [json!(id_of(point)), json!("incomplete")]));

    // A good night takes both halves away. The file of the other layout is what an upgrade has left.
    fs::create_dir_all(product.install_dir().join("config/ptnight")).unwrap();
    fs::write(product.install_dir().join("config/ptnight/ptnight.yaml"), "").unwrap();
    assert_eq!(night(&[], &[]).status, 3);
    let ran = night(&[], &["--layout", "conf"]);
    assert_eq!((ran.status, ran.stdout.as_str(), ran.stderr.as_str()), (0, "", ""));
    assert!(newest_run(&product).join("document.json").exists(), "a night leaves its document in its run directory");
    let list = backup(&product, &["--list"]).run().ok();
    let points = list.result()["points"].as_array().unwrap();
    assert!(points.len() == 1 && points[0]["state"] == "valid" && points[0]["quiesced"] == false, "{list}");
    assert_eq!(product.snapshots().len(), 1);
    assert!(product.is_active());
}
