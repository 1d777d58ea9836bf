//! A repository in an object store: the steps are those of a folder.

use svc_tests::host::Host;
use svc_tests::s3::{BUCKET, S3};
use svc_tests::sandbox::Sandbox;

#[test]
fn an_object_store_is_a_repository_as_a_folder_is() {
    let host = Host::shared().unwrap();
    let s3 = S3::start(&host).unwrap();
    let sandbox = Sandbox::on(s3.own.search.clone(), "sthree");
    let bucket = format!("bucket={BUCKET}");
    let register = |more: &[&str]| sandbox.tool(&["register", "--type", "s3", "--setting", &bucket]).args(more).run();
    register(&["--setting", "base_path=svc"]).ok().changed();
    register(&["--setting", "base_path=svc"]).ok().unchanged();
    sandbox.run(&["verify"]).ok();

    let indices = ["a", "b"].map(|suffix| sandbox.simple(suffix, 20));
    let before = sandbox.content();
    let created = sandbox.create("one");
    assert!(s3.objects.path().join(BUCKET).join("svc/index.latest").exists(), "nothing is in the store");
    sandbox.fill(&indices[0], 0, 50);
    sandbox.create("two");
    let staged = sandbox.from(&["stage"], &created).ok();
    let swapped = sandbox.from(&["swap"], &staged).ok();
    assert_eq!(sandbox.content(), before);
    sandbox.from(&["swap"], &swapped).ok();
    assert_eq!(sandbox.count(&indices[0]), 50);
    sandbox.run(&["prune", "--kind", "manual", "--max-count", "1", "--min-count", "1"]).ok();
    let left: Vec<_> = sandbox.snapshots().iter().map(|snapshot| snapshot["snapshot"].clone()).collect();
    assert_eq!(left, ["two"]);

    // What is wrong with a store is told of a store.
    let refused = sandbox
        .tool(&["register", "--replace", "--type", "s3", "--setting", "bucket=none"])
        .run()
        .fails(7, "repository_unusable");
    let hint = refused.doc()["error"]["hint"].as_str().unwrap();
    assert!(!hint.contains("--location") && !hint.contains("folder"), "{refused}");
}
