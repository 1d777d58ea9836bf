//! `svc-rollback` (procedure, 9.3) with the sample service on real servers.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use svc_tests::damage;
use svc_tests::product::{Content, Product};
use svc_tests::tool::Ran;

/// 1.15.5 with items, customised, quiet; and all that it holds.
fn installed(name: &str) -> (Product, Content) {
    let product = Product::new(name).unwrap();
    let content = product.install_still("1.15.5", 400).unwrap();
    (product, content)
}

/// Upgraded to 2.0.1, which runs and writes.
fn upgraded(name: &str) -> (Product, Content, Ran) {
    let (product, before) = installed(name);
    let upgrade = product.tool("svc-upgrade").arg(product.installer("2.0.1")).run().ok();
    assert_ne!(product.content().unwrap(), before, "the upgrade has altered nothing, so there is nothing to see");
    (product, before, upgrade)
}

fn point_of(ran: &Ran) -> PathBuf {
    PathBuf::from(ran.result()["restore_point"].as_str().unwrap())
}

/// The service is back: content, version, customised values, running.
fn assert_back(product: &Product, before: &Content) {
    let now = product.content().unwrap();
    assert_eq!(now.dump, before.dump, "the relational database is not as before");
    assert_eq!(now.indices.keys().collect::<Vec<_>>(), before.indices.keys().collect::<Vec<_>>());
    assert_eq!(now.indices, before.indices, "the search database is not as before");
    assert_eq!(product.marker(), "1.15.5");
    assert!(product.is_active());
    let conf = fs::read_to_string(product.install_dir().join(format!("conf/{}.conf", product.name))).unwrap();
    assert!(conf.contains("interval_ms = 0\n") && conf.contains("bulk_size = 750\n"), "{conf}");
}

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
fn after_a_unit_that_dies_at_once_everything_is_as_before_the_upgrade() {
    let (product, before) = installed("rbdies");
    // What a licence's update after the installer may do to a unit by mistake.
    let hook = product.path("hooks/post-install/10-breaks");
    fs::create_dir_all(hook.parent().unwrap()).unwrap();
    let unit = product.host.systemd.unit_dir.join(product.unit());
    let breaks = format!(
        "#!/bin/sh\nsed -i 's|^ExecStart=.*|ExecStart=/bin/false|' '{}'\nsystemctl --user daemon-reload\n",
        unit.display()
    );
    fs::write(&hook, breaks).unwrap();
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();

    let upgrade = product.tool("svc-upgrade").arg(product.installer("2.0.1")).env("SVC_HOOKS_DIR", product.path("hooks")).run();
    let upgrade = upgrade.fails(1, "unit_not_started").changed();
    let point = point_of(&upgrade).file_name().unwrap().to_string_lossy().into_owned();
    let hint = upgrade.doc()["error"]["hint"].as_str().unwrap();
    assert!(hint.contains("svc-rollback") && hint.contains(&point), "{upgrade}");
    assert_eq!(product.marker(), "2.0.1");

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
fn a_damaged_restore_point_is_refused_before_anything_is_touched() {
    let (product, _, upgrade) = upgraded("rbdamaged");
    let now = product.marker();
    let dump = point_of(&upgrade).join("rbdamaged_db.backup.sql");
    damage::flip_a_byte(&dump).unwrap();
    product.tool("svc-rollback").run().fails(7, "point_damaged").unchanged();
    assert_eq!(product.marker(), now);
    assert!(product.is_active());
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

#[test]
fn without_an_upgrade_nothing_is_chosen_by_itself_and_the_points_are_listed() {
    let (product, _) = installed("rbnone");
    let backup = product.tool("svc-backup").run().ok();
    let id = point_of(&backup).file_name().unwrap().to_string_lossy().into_owned();
    let ran = product.tool("svc-rollback").run().fails(4, "point_not_found").unchanged();
    assert!(ran.doc()["error"]["hint"].as_str().unwrap().contains(&id), "{ran}");
}

#[test]
fn a_point_that_was_not_quiesced_is_taken_only_when_asked_for_twice() {
    let (product, _) = installed("rbunquiet");
    product.tool("svc-unit").arg("start").run().ok();
    let backup = product.tool("svc-backup").run().ok();
    let id = point_of(&backup).file_name().unwrap().to_string_lossy().into_owned();
    product.tool("svc-rollback").arg(&id).run().refused("point_unquiesced");
    let before = product.content().unwrap();
    product.tool("svc-rollback").args(["--accept-unquiesced", &id]).run().ok().changed();
    assert_back(&product, &before);
}

#[test]
fn a_restore_point_can_be_moved_as_a_whole() {
    let (product, before, upgrade) = upgraded("rbmoved");
    let point = point_of(&upgrade);
    let moved = product.path("elsewhere").join(point.file_name().unwrap());
    fs::create_dir(moved.parent().unwrap()).unwrap();
    fs::rename(&point, &moved).unwrap();
    product.tool("svc-rollback").arg(&moved).run().ok().changed();
    assert_back(&product, &before);
}

#[test]
fn a_configuration_that_was_changed_after_the_upgrade_is_reported() {
    let (product, before, _) = upgraded("rbchanged");
    let yaml = product.install_dir().join("config/rbchanged/rbchanged.yaml");
    let text = fs::read_to_string(&yaml).unwrap();
    assert!(text.contains("display_name: \"Sample service\""), "{text}");
    fs::write(&yaml, text.replace("Sample service", "Our service")).unwrap();
    product.tool("svc-rollback").run().review("configuration_changed_since");
    assert_back(&product, &before);
}

#[test]
fn a_dry_run_names_every_command_and_alters_nothing() {
    let (product, _, _) = upgraded("rbdry");
    let ran = product.tool("svc-rollback").arg("--dry-run").talks().run().ok().unchanged();
    let plan: Vec<&str> = ran.result()["plan"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect();
    let at = |wanted: &str| {
        plan.iter().position(|line| line.contains(wanted)).unwrap_or_else(|| panic!("{wanted} is not in {plan:#?}"))
    };
    assert!(at("svc-pgrestore stage") < at("svc-unit stop"));
    assert!(at("svc-unit stop") < at("svc-snap swap"));
    assert!(at("svc-snap swap") < at("rbdry-1.15.5.run"));
    assert_eq!(product.marker(), "2.0.1");
    assert!(product.is_active());
}
