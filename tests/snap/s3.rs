//! A repository in an object store: the steps are those of a folder.

use svc_tests::journey::{assert_back, id_of, point_of};
use svc_tests::prelude::*;
use svc_tests::product::Product;
use svc_tests::s3::{BUCKET, KEY, S3};

/// One after the other: the store loses its bucket with the last object, and what the first leaves there stays.
#[test]
#[ignore = "minutes: an object store and a cluster of its own"]
fn backup_and_lost_host_recovery_with_s3_repository() {
    let s3 = S3::start(&Host::shared().unwrap()).unwrap();
    each_holds(&s3, &[is_a_repository_as_a_folder_is, a_host_is_lost_and_comes_back]);
}

fn is_a_repository_as_a_folder_is(s3: &S3) {
    let sandbox = Sandbox::on(s3.own.server.clone(), "sthree");
    let bucket = format!("bucket={BUCKET}");
    let register = |more: &[&str]| sandbox.tool(&["register", "--type", "s3", "--setting", &bucket]).args(more).run();
    register(&["--setting", "base_path=first"]).ok().changed();
    register(&["--setting", "base_path=first"]).ok().unchanged();
    sandbox.run(&["verify"]).ok();

    sandbox.simple("a", 20);
    sandbox.create("one");
    assert!(s3.objects.path().join(BUCKET).join("first/index.latest").exists(), "nothing is in the store");
    sandbox.create("two");
    sandbox.run(&["prune", "--kind", "manual", "--max-count", "1", "--min-count", "1"]).ok();
    let left: Vec<_> = sandbox.snapshots().iter().map(|snapshot| snapshot["snapshot"].clone()).collect();
    assert_eq!(left, ["two"]);

    // What is wrong with a store is told of a store.
    let replace = ["register", "--replace", "--type", "s3", "--setting", "bucket=none"];
    let refused = sandbox.run(&replace).fails(7, "repository_unusable");
    let hint = refused.hint();
    assert!(!hint.contains("--location") && !hint.contains("directory"), "{refused}");
}

/// Its snapshots and its copies are in the store.
fn a_host_is_lost_and_comes_back(s3: &S3) {
    let mut host = Host::shared().unwrap();
    host.search = s3.own.server.clone();
    let product = Product::on(host, "sthreelost").unwrap();
    let before = product.install_still("1.15.5", 100).unwrap();
    let (file, password, seen) = (product.path("environment"), product.path("password"), product.path("seen"));
    let offsite = format!("s3:{}/{BUCKET}/restic", s3.url);
    let text = format!("SVC_OFFSITE={offsite}\nAWS_ACCESS_KEY_ID={}\nAWS_SECRET_ACCESS_KEY={}\n", KEY[0], KEY[1]);
    fs::write(&file, format!("{text}SVC_OFFSITE_PASSWORD_FILE=\"{}\"\n", password.display())).unwrap();
    os::file(&password, "correct horse\n", 0o600, None).unwrap();
    let script = |name: &str| product.tool(name).env("SVC_ENVIRONMENT_FILE", &file).env_remove("SVC_BACKUP_REPO");
    let line =
        page::transcripts("docs/backups.md").unwrap().into_iter().find(|block| block.contains("register --type s3")).unwrap();
    product.typed(&line.replace("--readonly", "--replace"));

    // The keys of the store are for restic alone.
    let point =
        script("svc-backup").stub(&product.path("stub"), "svc-pgdump", &format!("env >> '{}'", seen.display())).run().ok();
    let id = id_of(&point_of(&point));
    let env = fs::read_to_string(seen).unwrap();
    assert!(env.contains("SVC_OFFSITE=") && !env.contains("AWS_") && !env.contains(KEY[1]), "{env}");
    let init = script("svc-offsite").args(["restic", "init"]).talks().run();
    assert_eq!(init.status, 0, "{init}");
    script("svc-offsite").arg("push").run().ok().warns("not_restored");

    product.run(&product.install_dir().join("bin/svc-uninstall")).unwrap();
    for lost in [product.backup_dir(), product.state_dir(), product.install_dir(), product.repository_dir()] {
        let _ = fs::remove_dir_all(lost);
    }
    for lost in ["/sthreelost-*?expand_wildcards=all", "/_snapshot/sthreelost_backup"] {
        product.host.search.ask("DELETE", lost, None).unwrap();
    }
    product.host.postgres.drop_database(&product.database()).unwrap();
    script("svc-offsite").args(["fetch", &id]).run().ok().warns("not_restored");
    product.typed(&line);
    product.tool("svc-rollback").args(["--no-uninstall", &id]).run().ok();
    assert_back(&product, &before);
}
