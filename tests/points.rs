//! Restore points as one thing: `svc-backup --list`, `--prune` and `--forget`, and `svc-nightly`, which makes and prunes them.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use svc_tests::damage;
use svc_tests::journey::{installed, point_of};
use svc_tests::product::Product;
use svc_tests::tool::{Ran, Tool};

fn backup(product: &Product, args: &[&str]) -> Tool {
    product.tool("svc-backup").args(args.iter().copied())
}

/// A restore point like another, of a kind, as if it had been made so many days ago; with a snapshot of its own.
fn aged(product: &Product, like: &Path, kind: &str, days: i64) -> PathBuf {
    let then = jiff::Timestamp::now() - jiff::SignedDuration::from_hours(24 * days);
    let id = format!("{}-backup-{kind}", then.strftime("%Y%m%dt%H%M%Sz"));
    let point = product.backup_dir().join(&id);
    let copied = std::process::Command::new("cp").arg("-a").args([like, &point]).status().unwrap();
    assert!(copied.success());
    let mut said: Value = serde_json::from_str(&fs::read_to_string(point.join("restore-point.json")).unwrap()).unwrap();
    (said["id"], said["kind"]) = (json!(id), json!(kind));
    said["made_at"] = json!(then.strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
    fs::write(point.join("restore-point.json"), said.to_string()).unwrap();
    let name = format!("snapshot_{}_{}_{id}_{kind}", product.name, &id[..8]);
    let snapshot = product.tool("svc-snap").args(["create", &name, "--kind", kind]).run().ok();
    fs::write(point.join("snapshot.json"), snapshot.text()).unwrap();
    seal(&point);
    point
}

/// Writes the sums of a point anew.
fn seal(point: &Path) {
    let sums =
        "find . -type f ! -name 'SHA256SUMS*' -print0 | xargs -0 sha256sum >SHA256SUMS.new && mv SHA256SUMS.new SHA256SUMS";
    assert!(std::process::Command::new("bash").args(["-c", sums]).current_dir(point).status().unwrap().success());
}

fn id(point: &Path) -> String {
    point.file_name().unwrap().to_string_lossy().into_owned()
}

/// What a document says of each point: its id and the value of a key.
fn told(ran: &Ran, key: &str) -> Vec<(String, String)> {
    let text = |one: &Value, key: &str| one[key].as_str().unwrap_or_default().to_owned();
    ran.result()["points"].as_array().unwrap().iter().map(|one| (text(one, "id"), text(one, key))).collect()
}

fn snapshots(product: &Product) -> Vec<String> {
    let list = product.tool("svc-snap").arg("list").run().ok();
    list.result()["snapshots"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn points_are_listed_as_they_are_and_go_as_a_whole() {
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
    assert_eq!(states, ["good", "good", "half", "good", "damaged", "good"], "{ran}");
    let ran = backup(&product, &["--list", "--read-all"]).run().ok();
    assert_eq!(told(&ran, "state")[5], (id(&worse), "damaged".to_owned()));
    assert_eq!(ran.result()["points"][5]["altered"], json!(["ptprune_db.backup.sql"]));

    // The newest that says it is good is not: it protects nothing that is older.
    let ran = backup(&product, &["--prune", "--max-count", "1", "--min-count", "1", "--dry-run"]).talks().run().ok().unchanged();
    assert!(!ran.result()["plan"].as_array().unwrap().is_empty(), "{ran}");
    assert!(old.join("SHA256SUMS").exists());
    // One snapshot is gone already.
    product.tool("svc-snap").arg("delete").arg("--from").arg(old.join("snapshot.json")).run().ok();
    let before = snapshots(&product).len();
    let newest = point_of(&backup(&product, &["--kind", "nightly"]).run().ok());
    let ran = backup(&product, &["--prune", "--min-count", "2"]).run().ok().changed();
    let expected = [
        (&manual, "other_kind"),
        (&old, "max_age"),
        (&cut, "half"),
        (&lost, "max_age"),
        (&damaged, "damaged"),
        (&worse, "min_count"),
        (&newest, "newest"),
    ];
    assert_eq!(told(&ran, "reason"), expected.map(|(point, reason)| (id(point), reason.to_owned())), "{ran}");
    assert_eq!(ran.result()["removed"], json!([id(&old), id(&cut), id(&lost)]), "{ran}");
    assert!(!old.exists() && !cut.exists() && !lost.exists() && manual.exists() && damaged.exists() && worse.exists());
    assert_eq!(snapshots(&product).len(), before + 1 - 2, "their snapshots are to go too");
    backup(&product, &["--prune", "--min-count", "2"]).run().ok().unchanged();

    backup(&product, &["--forget", &id(&newest)]).run().refused("newest_point");
    backup(&product, &["--forget", "20260101t000000z-x"]).run().fails(4, "point_not_found").unchanged();
    backup(&product, &["--forget", &id(&manual), "--forget", &id(&damaged)]).run().ok().changed();
    assert!(!manual.exists() && !damaged.exists());
    assert!(product.backup_dir().join("lost+found").exists());
}

#[test]
fn a_prune_that_cannot_prove_the_newest_removes_nothing() {
    let (product, _) = installed("ptproof");
    let newest = point_of(&backup(&product, &["--kind", "nightly"]).run().ok());
    let old = aged(&product, &newest, "nightly", 40);
    let down = backup(&product, &["--prune", "--min-count", "1"]).env("SVC_SEARCH_URL", "http://127.0.0.1:9").run();
    down.fails(5, "search_unreachable").unchanged();
    assert!(old.join("SHA256SUMS").exists());
    // With the snapshot of the newest gone, the one before it is the newest good one.
    product.tool("svc-snap").arg("delete").arg("--from").arg(newest.join("snapshot.json")).run().ok();
    let ran = backup(&product, &["--prune", "--min-count", "1"]).run().ok().unchanged();
    assert_eq!(told(&ran, "reason"), [(id(&old), "newest".to_owned()), (id(&newest), "not_proven".to_owned())], "{ran}");
    assert!(old.join("SHA256SUMS").exists());
}
