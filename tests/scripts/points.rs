//! Restore points as one thing: `svc-backup --list`, `--prune` and `--delete`, and `svc-nightly`, which makes and prunes them.

use svc_tests::journey::prelude::*;

fn backup(product: &Product, args: &[&str]) -> Tool {
    product.tool("svc-backup").args(args.iter().copied())
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
    // The cluster does not answer; the dump is there.
    let with_dump = bad_night(&[DOWN]);
    assert!(with_dump.join("ptnight_db.backup.sql").exists() && with_dump.join("pgdump.json").exists());
    // PostgreSQL does not answer; the snapshot is there.
    let with_snapshot = bad_night(&[("PGPORT", "9")]);
    product.tool("svc-snap").arg("show").arg("--from").arg(with_snapshot.join("snapshot.json")).run().ok();
    assert_eq!(product.snapshots().len(), 1);
    let list = backup(&product, &["--list"]).run().ok();
    let listed = |one: usize| ["id", "state"].map(|key| list.result()["points"][one][key].clone());
    assert_eq!([listed(0), listed(1)], [&with_dump, &with_snapshot].map(|point| [json!(id_of(point)), json!("incomplete")]));
    let planned = backup(&product, &["--prune", "--dry-run"]).talks().run().ok().unchanged();
    assert!(planned.result()["points"].to_string().contains(&id_of(&with_dump)) && with_dump.exists(), "{planned}");

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
