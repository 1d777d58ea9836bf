//! `svc-rollback` (procedure, 9.3) with the sample service on real servers: everything is as before, and what was replaced is kept.

use svc_tests::damage;
use svc_tests::journey::{assert_back, installed, upgraded};

#[test]
fn after_a_good_upgrade_everything_is_as_before_it() {
    let (product, before, _) = upgraded("rbgood");
    product.tool("svc-rollback").run().ok().changed();
    assert_back(&product, &before);
}

#[test]
fn after_an_installer_that_failed_half_way_everything_is_as_before_it() {
    let (product, before) = installed("rbhalf");
    let upgrade = product.tool("svc-upgrade").arg(product.failing_installer()).run();
    assert_eq!(upgrade.status, 1, "{upgrade}");
    product.tool("svc-rollback").run().ok().changed();
    assert_back(&product, &before);
}

#[test]
fn what_it_replaced_is_kept_until_the_named_commands_are_typed() {
    let (product, before, _) = upgraded("rbkept");
    let ran = product.tool("svc-rollback").run().ok().changed();
    let indices = || product.host.search.ask("GET", "/_cat/indices/svc-before-*?format=json&expand_wildcards=all", None).unwrap();
    let ours =
        || indices().as_array().unwrap().iter().filter(|index| index["index"].as_str().unwrap().contains("rbkept")).count();
    let databases = || {
        product.host.postgres.sql("postgres", "SELECT count(*) FROM pg_database WHERE datname LIKE 'rbkept_db_before%'").unwrap()
    };
    assert!(ours() > 0);
    assert_eq!(databases().trim(), "1");
    let commands = ran.result()["remove_kept"].as_array().unwrap().clone();
    assert_eq!(commands.len(), 2, "{ran}");
    for command in commands {
        let mut words = command.as_str().unwrap().split(' ');
        product.tool(words.next().unwrap()).args(words).run().ok().changed();
    }
    assert_eq!(ours(), 0);
    assert_eq!(databases().trim(), "0");
    assert_back(&product, &before);
}

#[test]
fn standing_copies_bring_everything_back_without_the_restore_point() {
    let (product, before) = installed("rbaside");
    let upgrade = product.tool("svc-upgrade").arg("--aside").arg(product.installer("2.0.1")).run().ok();
    assert_eq!(upgrade.result()["remove_kept"].as_array().unwrap().len(), 2, "{upgrade}");
    let ran = product.tool("svc-rollback").run().ok().changed();
    assert_eq!(ran.result()["standing_copies"], true, "{ran}");
    let steps = ran.result()["steps"].as_array().unwrap();
    assert!(!steps.iter().any(|step| step["step"].as_str().unwrap().starts_with("stage-")), "{ran}");
    assert_back(&product, &before);
    // What it replaced is kept under the name of the upgrade, whose copies these were.
    for command in ran.result()["remove_kept"].as_array().unwrap() {
        let mut words = command.as_str().unwrap().split(' ');
        product.tool(words.next().unwrap()).args(words).run().ok().changed();
    }
    assert_back(&product, &before);
}

#[test]
fn discarding_what_is_replaced_keeps_nothing() {
    let (product, before, _) = upgraded("rbdiscard");
    let ran = product.tool("svc-rollback").arg("--discard-current").run().ok().changed();
    assert_eq!(ran.result()["remove_kept"].as_array().unwrap().len(), 0);
    let left =
        product.host.postgres.sql("postgres", "SELECT count(*) FROM pg_database WHERE datname LIKE 'rbdiscard_db_%'").unwrap();
    assert_eq!(left.trim(), "0");
    assert_back(&product, &before);
}

#[test]
fn a_snapshot_that_went_bad_is_found_by_the_staging_and_the_live_service_never_notices() {
    let (product, _, _) = upgraded("rbblob");
    damage::flip_a_blob(&product.repository_dir()).unwrap();
    let process = product.host.systemd.property(&product.unit(), "MainPID").unwrap();
    product.tool("svc-rollback").run().fails(7, "restore_failed");
    assert_eq!(product.host.systemd.property(&product.unit(), "MainPID").unwrap(), process);
    assert_eq!(product.marker(), "2.0.1");
    let staged =
        product.host.postgres.sql("postgres", "SELECT count(*) FROM pg_database WHERE datname LIKE 'rbblob_db_%'").unwrap();
    assert_eq!(staged.trim(), "0", "a staged database is left");
}
